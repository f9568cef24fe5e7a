#include "errors.hpp"

#include <mutex>

namespace banyan {

namespace {

// Never destroyed: calls may end while the process does.
struct Self {
  std::mutex lock;
  std::string text;
};

Self &self() {
  static auto *made = new Self;
  return *made;
}

std::string self_text() {
  std::lock_guard<std::mutex> lock(self().lock);
  return self().text;
}

} // namespace

Error::Error(enum banyan_status status, const std::string &text)
    : std::runtime_error(status == BANYAN_ERR_TIMEOUT ? "banyan: timeout : " + text : "banyan: " + text),
      status(status) {}

void check(enum banyan_status status) {
  if (status != BANYAN_OK) throw Error(status, banyan_error_text());
}

void check_begun(enum banyan_status status, const char *what, const char *name) {
  if (status == BANYAN_OK) return;
  std::string text = banyan_error_text(), call = name ? what + (" '" + std::string(name) + "'") : what;
  throw Error(status, text + "; this was " + here(call));
}

void introduce(const struct banyan_comm *comm) {
  const int rank = banyan_comm_rank(comm);
  std::lock_guard<std::mutex> lock(self().lock);
  self().text = "rank " + std::to_string(rank) + " (host " + banyan_comm_host(comm, rank) + ")";
}

std::string here(const std::string &what) {
  std::string text = self_text();
  return text.empty() ? what : what + " on " + text;
}

void refuse(const char *call, const std::string &text) {
  std::string who = self_text();
  throw Error(BANYAN_ERR_ARGUMENT, (who.empty() ? "" : who + ": ") + call + ": " + text);
}

} // namespace banyan
