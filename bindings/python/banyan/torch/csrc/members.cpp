// Groups whose processes change: the members of a group by their handles, in place of those that it was made with.
#include <algorithm>
#include <variant>

#include "group.hpp"

namespace banyan {

constexpr uint32_t FNV_START = 2166136261, FNV_PRIME = 16777619;
#ifdef C10D_BACKEND_HAS_RECONFIGURE
constexpr double RECONFIGURE_TIMEOUT = 60; // seconds, where the program gives none
#endif

Group &reconfigurable(const c10::intrusive_ptr<Base> &base) {
  auto *group = dynamic_cast<Group *>(base.get());
  TORCH_CHECK(group, "banyan: the group's backend is not banyan");
  TORCH_CHECK(group->member(), "banyan: the group was not made to be reconfigured, or has left: make it with "
                               "pg_options=banyan.torch.Options(reconfigure=True)");
  return *group;
}

void Group::reconfigure(const std::string &name, const std::vector<std::string> &handles, double timeout) {
  std::lock_guard<std::mutex> lock(reconfiguring_);
  TORCH_CHECK(member_, "banyan: the group was not made to be reconfigured, or has left");
  std::vector<const char *> texts;
  for (const auto &handle : handles) texts.push_back(handle.c_str());
  struct banyan_comm *comm = nullptr;
  check(banyan_member_reconfigure(member_, name.c_str(), texts.data(), static_cast<int>(texts.size()), timeout, &comm));
  adopt(comm);
}

// Before 2.14 rank and size are constant members, which no function of PyTorch changes. They are read from memory by
// functions of its libraries, so that all of them see what is written here.
void Group::adopt(struct banyan_comm *comm) {
  auto next = held(comm);
  number_ = banyan_comm_number(comm);
  introduce(comm);
  const_cast<int &>(rank_) = banyan_comm_rank(comm);
  const_cast<int &>(size_) = banyan_comm_size(comm);
  {
    std::lock_guard<std::mutex> lock(lock_);
    comm_.swap(next);
    subsets_.clear();
  }
  calls_ = steps_ = submitters_ = 0;
  aborted_ = false;
  backward_ = std::make_shared<Backward>();
}

uint32_t Group::number_of(const std::vector<int> &ranks) {
  std::lock_guard<std::mutex> lock(lock_);
  uint32_t hash = FNV_START ^ subsets_[ranks]++;
  for (int rank : ranks) hash = (hash ^ static_cast<uint32_t>(rank)) * FNV_PRIME;
  return hash;
}

void Group::abort() {
  auto comm = this->comm();
  if (!comm) return;
  aborted_ = true;
  banyan_comm_abort(comm.get(), "abort() of the process group was called");
}

enum banyan_status Group::state() const {
  auto comm = this->comm();
  enum banyan_status status = comm ? banyan_comm_state(comm.get()) : BANYAN_OK;
  return aborted_ && status == BANYAN_ERR_ABORTED ? BANYAN_OK : status;
}

#ifdef BANYAN_BACKEND_2_13
c10d::ErrorType Group::getError() {
  switch (state()) {
  case BANYAN_OK: return c10d::ErrorType::SUCCESS;
  case BANYAN_ERR_TIMEOUT: return c10d::ErrorType::TIMEOUT;
  default: return c10d::ErrorType::COMM_ERROR;
  }
}
#endif

#ifdef C10D_BACKEND_HAS_RECONFIGURE
c10d::ReconfigureHandle Group::get_reconfigure_handle() const {
  TORCH_CHECK(member_, "banyan: the group was not made to be reconfigured: give enable_reconfigure=True");
  return banyan_member_handle(member_);
}

// A set has no order, so that of the texts counts, which is the same everywhere.
Made Group::reconfigure(const c10d::ReconfigureOptions &options) {
  std::vector<std::string> handles;
  if (const auto *list = std::get_if<std::vector<std::string>>(&options.handles)) {
    handles = *list;
  } else {
    const auto &set = std::get<std::unordered_set<std::string>>(options.handles);
    handles.assign(set.begin(), set.end());
    std::sort(handles.begin(), handles.end());
  }
  double timeout = options.timeout ? static_cast<double>(options.timeout->count()) / 1000 : RECONFIGURE_TIMEOUT;
  reconfigure(std::to_string(options.uuid), handles, timeout);
  auto work =
      c10::make_intrusive<Work>(getRank(), c10d::OpType::UNKNOWN, "banyan:reconfigure", Tensors(), Work::Parts());
  work->begun({});
  return work;
}
#endif

} // namespace banyan
