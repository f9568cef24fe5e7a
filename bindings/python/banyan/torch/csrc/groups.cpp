// Groups that are made of other groups: parts of one, and the union of several jobs' processes.
#include "group.hpp"

#include <algorithm>

#include <torch/csrc/utils/pybind.h>

namespace banyan {

c10::intrusive_ptr<Group> subset_of(Group &group, const std::vector<int> &ranks, double deadline, const char *plan) {
  auto whole = group.comm();
  struct banyan_comm *comm = nullptr;
  TORCH_CHECK(whole, "banyan: the group that this is to be a part of has left the job");
  check(banyan_comm_subset(whole.get(), ranks.data(), static_cast<int>(ranks.size()), group.number_of(ranks), &comm));
  enum banyan_status status = banyan_comm_set_deadline(comm, deadline);
  if (status == BANYAN_OK && plan) status = banyan_comm_set_plan(comm, plan);
  if (status != BANYAN_OK) banyan_comm_destroy(comm);
  check(status);
  return c10::make_intrusive<Group>(comm, deadline);
}

#ifdef BANYAN_BACKEND_2_13
c10::intrusive_ptr<c10d::Backend::Options> Group::getBackendOptions() {
  auto options = c10::make_intrusive<Options>(getBackendName());
  options->timeout = std::chrono::milliseconds(static_cast<int64_t>(deadline_ * 1000));
  return options;
}

void Group::setTimeout(std::chrono::milliseconds timeout) {
  TORCH_CHECK(timeout.count() > 0, "banyan: the timeout ", timeout.count(), " ms is not above 0");
  auto comm = this->comm();
  if (comm) check(banyan_comm_set_deadline(comm.get(), seconds(timeout)));
  deadline_ = seconds(timeout);
}

c10::intrusive_ptr<c10d::Backend> Group::split(const c10::intrusive_ptr<c10d::Store> & /* store */,
                                               const std::vector<int> &ranks,
                                               const c10::intrusive_ptr<Options> &options) {
  for (int rank : ranks)
    TORCH_CHECK(rank >= 0 && rank < getSize(), "banyan: split: there is no rank ", rank, " in a group of ", getSize());
  if (std::find(ranks.begin(), ranks.end(), getRank()) == ranks.end()) return nullptr;
  return subset_of(*this, ranks, options ? seconds(options->timeout) : deadline_.load(), nullptr);
}

c10::intrusive_ptr<c10d::Backend> Group::merge(const c10::intrusive_ptr<c10d::Store> &store,
                                               const c10::intrusive_ptr<Options> &options, const int &rank,
                                               const int &size) {
  pybind11::gil_scoped_acquire gil;
  double deadline = options ? seconds(options->timeout) : deadline_.load();
  auto made = pybind11::module_::import("banyan.torch").attr("_meet")(pybind11::cast(store), rank, size, deadline);
  return made.cast<c10::intrusive_ptr<c10d::Backend>>();
}
#endif

} // namespace banyan
