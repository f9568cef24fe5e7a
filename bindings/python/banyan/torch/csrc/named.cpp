// Named operations: AllReduces that ranks may submit in any order.
#include "group.hpp"

#include <algorithm>

namespace banyan {

Made Group::submit(const std::vector<std::string> &names, const std::vector<int> &priorities, const Tensors &tensors,
                   const Tensors &outputs, const c10d::ReduceOp &op, double timeout) {
  const size_t n = tensors.size();
  BANYAN_REQUIRE(n > 0 && names.size() == n && priorities.size() == n, "submit", names.size(), " names and ",
                 priorities.size(), " priorities for ", n, " tensors");
  std::vector<struct banyan_call> calls(n);
  std::vector<struct banyan_submission> submissions(n);
  std::vector<const char *> texts(n);
  std::vector<struct banyan_request *> requests(n);
  Work::Parts parts;
  for (size_t i = 0; i < n; i++) {
    const std::string what = "submission of \"" + names[i] + "\"";
    check_output(what.c_str(), "tensor", tensors[i]);
    at::Tensor filled = to_be_filled(tensors[i], true, parts.finish);
    calls[i] = summing(BANYAN_ALLREDUCE, what.c_str(), filled, filled.numel(), op);
    calls[i].send = calls[i].recv = filled.data_ptr();
    calls[i].deadline = timeout;
    parts.held.push_back(filled);
    submissions[i] = {sizeof submissions[i], &calls[i], 1, nullptr, 0, priorities[i]};
    texts[i] = names[i].c_str();
  }
  parts.outputs = outputs;
  parts.name = names[0];
  auto work =
      c10::make_intrusive<Work>(getRank(), c10d::OpType::ALLREDUCE, "banyan:all_reduce", tensors, std::move(parts));
  work->origin.name = names[0];
  enum banyan_status status = banyan_submit_all(open().get(), texts.data(), submissions.data(), n, requests.data());
  const std::string text = status == BANYAN_OK ? "" : banyan_error_text();
  requests.erase(std::remove(requests.begin(), requests.end(), nullptr), requests.end());
  if (!requests.empty()) work->begun(std::move(requests)); // goes on, and keeps its memory, if not all could begin
  if (status != BANYAN_OK) throw Error(status, text + "; this was " + here("submit"));
  return work;
}

uint64_t Group::step() {
  const uint64_t step = ++steps_;
  check(banyan_step(open().get(), step));
  return step;
}

} // namespace banyan
