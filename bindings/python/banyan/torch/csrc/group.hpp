// Banyan as a backend of torch.distributed: c10d::ProcessGroup's subclass in PyTorch 1.13, c10d::Backend's in 2.x.
// Calls begin in the thread that makes them and go on by themselves; all ranks of a group make them in one order.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include <torch/csrc/api/include/torch/version.h>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include "tensors.hpp"
#include "work.hpp"

namespace banyan {

#if TORCH_VERSION_MAJOR >= 2
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif
// The first version known to have Backend::abort, getError, shutdown, setTimeout, getBackendOptions, split and merge.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 13)
#define BANYAN_OVERRIDES_BACKEND override
#define BANYAN_BACKEND_2_13
#else
#define BANYAN_OVERRIDES_BACKEND
#endif
using Made = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// What a timeout of PyTorch's is to the library. 0: it has none of its own.
double seconds(std::chrono::milliseconds timeout);

// What the options of a call say about waiting for it. Versions before 2.8 do not say whether the caller waits at once.
struct Waiting {
  std::chrono::milliseconds timeout;
  bool at_once;
  template <class Options> Waiting(const Options &options) : timeout(options.timeout), at_once(said(options, 0)) {}

private:
  template <class Options> static auto said(const Options &options, int) -> decltype(!options.asyncOp) {
    return !options.asyncOp;
  }
  template <class Options> static bool said(const Options &, long) {
    return false;
  }
};

class Group : public Base {
public:
  // Takes the communicator over. `deadline` is its own, in seconds.
  Group(struct banyan_comm *comm, double deadline);
  // A group whose processes change: it has no communicator until it is reconfigured or adopts one; until then, rank and
  // size are what PyTorch was told. Takes the member over.
  Group(struct banyan_member *member, int rank, int size, double deadline);
  ~Group() override;

  const std::string getBackendName() const override {
    return "banyan";
  }
  // The communicator, which lives as long as somebody holds it; null: there is none.
  std::shared_ptr<struct banyan_comm> comm() const;
  struct banyan_member *member() const {
    return member_;
  }
  // Leaves the job, so that the others take the end of this process for no death. Later calls fail.
  void leave();

  // ---- groups whose processes change (members.cpp)

  // Forms a membership of the processes with these handles. No other thread uses the group meanwhile. On an error it
  // is as before.
  void reconfigure(const std::string &name, const std::vector<std::string> &handles, double timeout);
  // Goes on with this communicator of its member's, and takes it over.
  void adopt(struct banyan_comm *comm);
  // Ends pending and later calls of the membership on all of its processes; a next one may be formed.
  void abort() BANYAN_OVERRIDES_BACKEND;
  // A number for the next group that is made of these ranks: the same on all of them, also where some came later than
  // others, and have made fewer groups.
  uint32_t number_of(const std::vector<int> &ranks);
  // What the membership has failed with; BANYAN_OK too where this process aborted it.
  enum banyan_status state() const;
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const override {
    return member_ != nullptr;
  }
  c10d::ReconfigureHandle get_reconfigure_handle() const override;
  Made reconfigure(const c10d::ReconfigureOptions &options) override;
#endif
#ifdef BANYAN_BACKEND_2_13
  c10d::ErrorType getError() override;

  // ---- groups that are made of others (groups.cpp)

  bool supportsSplitting() const override {
    return true;
  }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  void setTimeout(std::chrono::milliseconds timeout) override;
  // The ranks are those of this group. Null on ranks that are not among them. Local operation.
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
                                    const c10::intrusive_ptr<Options> &options) override;
  // A job of its own with processes of other jobs, which meet in the store.
  c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store> &store,
                                    const c10::intrusive_ptr<Options> &options, const int &rank,
                                    const int &size) override;
  // What destroy_process_group() calls.
  void shutdown() override {
    leave();
  }
  void enableCollectivesTiming() override {} // torch.profiler and Banyan's timeline time all calls
#endif

  Made broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
  Made allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
  Made allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) override;
  Made reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
  Made allgather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override;
  Made _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options) override;
  Made allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                           const c10d::AllgatherOptions &options) override;
  Made gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &options) override;
  Made scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &options) override;
  Made reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                      const c10d::ReduceScatterOptions &options) override;
  Made _reduce_scatter_base(at::Tensor &output, at::Tensor &input, const c10d::ReduceScatterOptions &options) override;
  Made alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                     std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &options) override;
  Made alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) override;
  Made send(Tensors &tensors, int rank, int tag) override;
  Made recv(Tensors &tensors, int rank, int tag) override;
  Made recvAnysource(Tensors &tensors, int tag) override;
  Made barrier(const c10d::BarrierOptions &options) override;
  // A barrier that is waited for, whose error names a rank that did not come in time, or with `all`, all of them.
  void monitoredBarrier(const c10d::BarrierOptions &options, bool all) override;

  // ---- named operations (named.cpp)

  // Submits an AllReduce of each tensor in place, under its name: see <banyan/submit.h>. One Work for all of them,
  // whose result is `outputs`. `timeout` is in seconds, 0 for the group's.
  Made submit(const std::vector<std::string> &names, const std::vector<int> &priorities, const Tensors &tensors,
              const Tensors &outputs, const c10d::ReduceOp &op, double timeout);
  // Begins the next iteration of this group's named operations, and returns its number, from 1 on.
  uint64_t step();
  // Numbers those who submit by names of their own choice: the same on all ranks while all make them in one order.
  uint64_t next_submitter() {
    return submitters_++;
  }

#if TORCH_VERSION_MAJOR >= 2
  Made allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) override;
  Made allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                       const c10d::AllgatherOptions &options) override;
  Made reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                       const c10d::ReduceScatterOptions &options) override;
#endif
  // Counts this group's collectives but for those of callbacks, which is the same on all ranks while they make the same
  // calls.
  void setSequenceNumberForGroup() override {
    calls_ = 0;
  }
  uint64_t getSequenceNumberForGroup() override {
    return calls_;
  }

private:
  Made start(c10d::OpType type, const char *title, const Tensors &inputs, const struct banyan_call &call,
             Work::Parts &&parts, Waiting waiting);
  Made start_pair(c10d::OpType type, const char *title, const Tensors &inputs, const struct banyan_call &call,
                  Work::Parts &&parts);
  // A call of blocks that lie in one tensor; `parts` gets what it works on.
  struct banyan_call gathering(const char *name, const at::Tensor &output, const at::Tensor &input,
                               Work::Parts &parts) const;
  struct banyan_call scattering(const char *name, const at::Tensor &output, const at::Tensor &input,
                                const c10d::ReduceOp &op, Work::Parts &parts) const;
  // Several calls as one work.
  Made start_all(c10d::OpType type, const char *title, const Tensors &inputs,
                 const std::vector<struct banyan_call> &calls, Work::Parts &&parts, std::chrono::milliseconds timeout);
  // The communicator for a call; throws where there is none.
  std::shared_ptr<struct banyan_comm> open() const;
  // Counts a call that begins, or names it where a callback makes it.
  Origin place_of_call();
  struct banyan_request *begin(struct banyan_call call, std::chrono::milliseconds timeout, const Origin *origin);
  // COO tensors, which go in one exchange.
  Made sparse(const Tensors &tensors, const c10d::AllreduceOptions &options);
  Made exchange(c10d::OpType type, const char *title, const Tensors &outputs, const Tensors &inputs,
                Work::Parts &&parts, std::chrono::milliseconds timeout);
  std::string name_of_bucket(const at::Tensor &tensor);
  bool is_root(int64_t root) const {
    return root == getRank();
  }

  mutable std::mutex lock_; // of comm_ and subsets_
  std::shared_ptr<struct banyan_comm> comm_;
  std::atomic<uint32_t> number_{0};              // of the communicator
  std::map<std::vector<int>, uint32_t> subsets_; // how many groups were made of these ranks, in this membership
  struct banyan_member *member_ = nullptr;       // null: the group's processes do not change
  std::mutex reconfiguring_;
  std::atomic<bool> aborted_{false}; // by this process
  std::atomic<double> deadline_;     // of calls without one, in seconds
  const int pid_;
  std::atomic<uint64_t> calls_{0}, steps_{0}, submitters_{0};
  // How many buckets of DDP a backward pass has begun to reduce. The engine's callback may outlive the group.
  struct Backward {
    std::atomic<const void *> pass{nullptr};
    std::atomic<int> buckets{0};
  };
  std::shared_ptr<Backward> backward_ = std::make_shared<Backward>();
};

// A group of some ranks of this one, of which this process is one; throws where that cannot be. `plan` may be null.
c10::intrusive_ptr<Group> subset_of(Group &group, const std::vector<int> &ranks, double deadline, const char *plan);
// Owns the communicator, which is destroyed when nobody holds it any more.
std::shared_ptr<struct banyan_comm> held(struct banyan_comm *comm);
// The exception's text says what a reconfigurable group is.
Group &reconfigurable(const c10::intrusive_ptr<Base> &base);

} // namespace banyan
