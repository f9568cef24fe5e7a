#include "group.hpp"

#include <Python.h>
#include <unistd.h>

#include <cstring>

#include <mutex>
#include <set>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "callbacks.hpp"
#include "signals.hpp"

namespace banyan {

namespace {

constexpr uint32_t EXCHANGE_TAG = 1u << 31; // no tag of PyTorch's: those are positive

// Groups that have not left yet. A process that exits without leaving is treated as dead.
std::mutex groups_lock;
std::set<Group *> groups;

struct banyan_call moving(enum banyan_collective collective, const at::Tensor &one, int64_t count) {
  Elements elements = elements_to_move(one);
  struct banyan_call call = {};
  call.collective = collective;
  call.dtype = elements.dtype;
  call.count = static_cast<size_t>(count) * elements.size;
  return call;
}

const at::Tensor &the_one(const char *call, const Tensors &tensors) {
  BANYAN_REQUIRE(tensors.size() == 1, call, "one tensor is needed, not ", tensors.size());
  return tensors[0];
}

const Tensors &the_list(const char *call, const char *argument, const std::vector<Tensors> &lists, int size) {
  BANYAN_REQUIRE(lists.size() == 1 && lists[0].size() == static_cast<size_t>(size), call, argument, " has ",
                 lists.size() == 1 ? lists[0].size() : 0, " tensors, where one for each of ", size, " ranks is needed");
  return lists[0];
}

Tensors root_of(const std::vector<Tensors> &lists) {
  return lists.empty() ? Tensors() : lists[0];
}

void check_pairs(const char *call, const Tensors &outputs, const Tensors &inputs) {
  BANYAN_REQUIRE(!inputs.empty() && outputs.size() == inputs.size(), call, outputs.size(), " outputs for ",
                 inputs.size(), " inputs");
}

void none(const char *call, const char *argument, size_t n) {
  BANYAN_REQUIRE(n == 0, call, argument, " is for the root only: leave it out on other ranks");
}

} // namespace

double seconds(std::chrono::milliseconds timeout) {
  return timeout.count() > 0 ? static_cast<double>(timeout.count()) / 1000 : 0;
}

// Banyan waits for functions that it has called back, and these may need the interpreter.
static void destroy(struct banyan_comm *comm) {
  PyThreadState *state = Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
  banyan_comm_destroy(comm);
  if (state) PyEval_RestoreThread(state);
}

std::shared_ptr<struct banyan_comm> held(struct banyan_comm *comm) {
  return std::shared_ptr<struct banyan_comm>(comm, destroy);
}

Group::Group(struct banyan_comm *comm, double deadline)
    : Base(banyan_comm_rank(comm), banyan_comm_size(comm)), comm_(held(comm)), number_(banyan_comm_number(comm)),
      deadline_(deadline), pid_(getpid()) {
  init();
  std::lock_guard<std::mutex> lock(groups_lock);
  if (groups.empty()) introduce(comm);
  groups.insert(this);
}

Group::Group(struct banyan_member *member, int rank, int size, double deadline)
    : Base(rank, size), member_(member), deadline_(deadline), pid_(getpid()) {
  init();
  std::lock_guard<std::mutex> lock(groups_lock);
  groups.insert(this);
}

Group::~Group() {
  leave();
}

void Group::leave() {
  {
    std::lock_guard<std::mutex> lock(groups_lock);
    if (!groups.erase(this)) return;
  }
  std::shared_ptr<struct banyan_comm> last;
  {
    std::lock_guard<std::mutex> lock(lock_);
    last.swap(comm_);
  }
  last.reset(); // in a child of fork(), which has no part in the job, this does nothing; nor does the next
  // A reconfiguration goes on in another thread where a signal's handler has raised an exception. The process ends
  // then, and the member with it.
  std::unique_lock<std::mutex> not_reconfiguring(reconfiguring_, std::try_to_lock);
  if (!not_reconfiguring) return;
  banyan_member_destroy(member_);
  member_ = nullptr;
}

void leave_all() {
  for (;;) {
    Group *group = nullptr;
    {
      std::lock_guard<std::mutex> lock(groups_lock);
      if (groups.empty()) return finish_callbacks();
      group = *groups.begin();
    }
    group->leave();
  }
}

std::shared_ptr<struct banyan_comm> Group::comm() const {
  std::lock_guard<std::mutex> lock(lock_);
  return comm_;
}

std::shared_ptr<struct banyan_comm> Group::open() const {
  TORCH_CHECK(pid_ == getpid(), "banyan: a process that was made by fork() cannot use its parent's process group");
  auto comm = this->comm();
  TORCH_CHECK(comm,
              "banyan: ", member_ ? "the group has no members yet: reconfigure it" : "the group has left the job");
  return comm;
}

Origin Group::place_of_call() {
  if (Callback *callback = Callback::running()) return {number_, 0, callback->next_call()};
  return {number_, ++calls_, ""};
}

// `origin` may be null for calls of pairs, which their tags tell apart.
struct banyan_request *Group::begin(struct banyan_call call, std::chrono::milliseconds timeout, const Origin *origin) {
  struct banyan_request *request = nullptr;
  call.deadline = seconds(timeout);
  const char *what = banyan_collective_name(call.collective);
  if (origin && !origin->call) {
    struct banyan_submission submission = {};
    submission.calls = &call;
    submission.n_calls = 1;
    check_begun(banyan_submit(open().get(), origin->name.c_str(), &submission, &request), what, origin->name.c_str());
  } else {
    check_begun(banyan_start(open().get(), &call, &request), what, call.name);
  }
  return request;
}

Made Group::start(c10d::OpType type, const char *title, const Tensors &inputs, const struct banyan_call &call,
                  Work::Parts &&parts, Waiting waiting) {
  Origin origin = place_of_call();
  auto work = c10::make_intrusive<Work>(getRank(), type, title, inputs, std::move(parts));
  work->origin = std::move(origin);
  if (waiting.at_once && work->origin.call) { // then no thread of the library need be woken
    struct banyan_call awaited = call;
    awaited.deadline = seconds(waiting.timeout);
    struct banyan_request *rest = nullptr;
    enum banyan_status status = banyan_run_for(open().get(), &awaited, LOOKS_AT_SIGNALS, &rest);
    if (!rest) {
      work->has_run(status);
    } else {
      work->begun({rest});
      work->await();
    }
  } else {
    work->begun({begin(call, waiting.timeout, &work->origin)});
  }
  return work;
}

// If one cannot start, those before it go on, and keep their memory until they have ended.
Made Group::start_all(c10d::OpType type, const char *title, const Tensors &inputs,
                      const std::vector<struct banyan_call> &calls, Work::Parts &&parts,
                      std::chrono::milliseconds timeout) {
  std::vector<struct banyan_request *> requests;
  std::exception_ptr error;
  Origin origin = place_of_call();
  auto work = c10::make_intrusive<Work>(getRank(), type, title, inputs, std::move(parts));
  work->origin = origin;
  try {
    for (auto call : calls) {
      Origin part = origin;
      if (call.collective == BANYAN_SEND || call.collective == BANYAN_RECV) {
        if (!origin.call) call.tag |= static_cast<uint32_t>(std::hash<std::string>{}(origin.name)) & ~EXCHANGE_TAG;
        requests.push_back(begin(call, timeout, nullptr));
      } else {
        if (!origin.call) part.name += "." + std::to_string(requests.size());
        requests.push_back(begin(call, timeout, &part));
      }
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (!error || !requests.empty()) work->begun(std::move(requests));
  if (error) std::rethrow_exception(error);
  return work;
}

// ---- one tensor on each rank

Made Group::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
  const at::Tensor &tensor = the_one("broadcast", tensors);
  check_output("broadcast", "tensor", tensor);
  Work::Parts parts;
  at::Tensor filled = to_be_filled(tensor, is_root(options.rootRank), parts.finish);
  struct banyan_call call = moving(BANYAN_BROADCAST, filled, filled.numel());
  call.root = static_cast<int>(options.rootRank);
  call.recv = filled.data_ptr();
  parts.held = {filled};
  parts.outputs = tensors;
  return start(c10d::OpType::BROADCAST, "banyan:broadcast", tensors, call, std::move(parts), options);
}

// DistributedDataParallel reduces its buckets in their order, from hooks of the backward pass, and each as one flat
// tensor. It tells process groups nothing else about them.
std::string Group::name_of_bucket(const at::Tensor &tensor) {
  const void *pass = torch::autograd::get_current_graph_task_exec_info();
  if (!pass || tensor.dim() != 1 || !at::isFloatingType(tensor.scalar_type())) return "";
  if (backward_->pass != pass) { // one that failed has not called back
    backward_->pass = pass;
    backward_->buckets = 0;
    torch::autograd::Engine::get_default_engine().queue_callback([backward = backward_] { backward->pass = nullptr; });
  }
  return "ddp bucket " + std::to_string(backward_->buckets++);
}

Made Group::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
  const at::Tensor &tensor = the_one("all_reduce", tensors);
  if (tensor.is_sparse()) return sparse(tensors, options);
  check_output("all_reduce", "tensor", tensor);
  Work::Parts parts;
  at::Tensor filled = to_be_filled(tensor, true, parts.finish);
  struct banyan_call call = summing(BANYAN_ALLREDUCE, "all_reduce", filled, filled.numel(), options.reduceOp);
  std::string name = name_of_bucket(tensor);
  if (!name.empty()) call.name = name.c_str();
  parts.name = name;
  call.send = call.recv = filled.data_ptr();
  parts.held = {filled};
  parts.outputs = tensors;
  return start(c10d::OpType::ALLREDUCE, "banyan:all_reduce", tensors, call, std::move(parts), options);
}

Made Group::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) {
  const char *name = "all_reduce_coalesced";
  BANYAN_REQUIRE(!tensors.empty(), name, "there is no tensor");
  if (tensors[0].is_sparse()) return sparse(tensors, options);
  check_outputs(name, "tensors", tensors);
  check_alike(name, "tensors", tensors, "tensors[0]", tensors[0], false);
  at::Tensor all = joined(tensors);
  struct banyan_call call = summing(BANYAN_ALLREDUCE, name, all, all.numel(), options.reduceOp);
  call.send = call.recv = all.data_ptr();
  Work::Parts parts = {{all}, tensors, [tensors, all] { split_into(tensors, all); }, nullptr};
  return start(c10d::OpType::ALLREDUCE_COALESCED, "banyan:all_reduce", tensors, call, std::move(parts), options);
}

Made Group::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
  const at::Tensor &tensor = the_one("reduce", tensors);
  bool root = is_root(options.rootRank);
  Work::Parts parts;
  at::Tensor filled;
  if (root) {
    check_output("reduce", "tensor", tensor);
    filled = to_be_filled(tensor, true, parts.finish);
  } else {
    check_input("reduce", "tensor", tensor);
    filled = in_one_piece(tensor);
  }
  struct banyan_call call = summing(BANYAN_REDUCE, "reduce", filled, filled.numel(), options.reduceOp);
  call.root = static_cast<int>(options.rootRank);
  call.send = filled.data_ptr();
  call.recv = root ? filled.data_ptr() : nullptr;
  parts.held = {filled};
  parts.outputs = tensors;
  return start(c10d::OpType::REDUCE, "banyan:reduce", tensors, call, std::move(parts), options);
}

// ---- blocks

Made Group::allgather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) {
  const Tensors &blocks = the_list("all_gather", "tensor_list", outputs, getSize());
  const at::Tensor &input = the_one("all_gather", inputs);
  check_input("all_gather", "tensor", input);
  check_outputs("all_gather", "tensor_list", blocks);
  check_alike("all_gather", "tensor_list", blocks, "tensor", input);
  at::Tensor all = lying_together(blocks), mine = in_one_piece(input);
  if (overlap(mine, all)) mine = mine.clone();
  struct banyan_call call = moving(BANYAN_ALLGATHER, mine, mine.numel());
  call.send = mine.data_ptr();
  call.recv = all.data_ptr();
  Work::Parts parts = {{mine, all}, blocks, [blocks, all] { split_into(blocks, all); }, nullptr};
  return start(c10d::OpType::ALLGATHER, "banyan:all_gather", inputs, call, std::move(parts), options);
}

struct banyan_call Group::gathering(const char *name, const at::Tensor &output, const at::Tensor &input,
                                    Work::Parts &parts) const {
  check_input(name, "input_tensor", input);
  check_output(name, "output_tensor", output);
  check_type(name, "output_tensor", output, "input_tensor", input);
  BANYAN_REQUIRE(output.numel() == input.numel() * getSize(), name, "the output has ", output.numel(),
                 " elements, must have ", getSize(), " times the input's ", input.numel());
  at::Tensor all = to_be_filled(output, false, parts.finish), mine = in_one_piece(input);
  const char *own = static_cast<const char *>(all.data_ptr()) + static_cast<size_t>(getRank()) * mine.nbytes();
  if (overlap(mine, all) && mine.data_ptr() != own) mine = mine.clone();
  struct banyan_call call = moving(BANYAN_ALLGATHER, mine, mine.numel());
  call.send = mine.data_ptr();
  call.recv = all.data_ptr();
  parts.held.insert(parts.held.end(), {mine, all});
  parts.outputs.push_back(output);
  return call;
}

Made Group::_allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options) {
  Work::Parts parts;
  struct banyan_call call = gathering("all_gather_into_tensor", output, input, parts);
  return start(c10d::OpType::_ALLGATHER_BASE, "banyan:_all_gather_base", {input}, call, std::move(parts), options);
}

// Each rank's tensors one after the other, in one call; outputs[r][i] is rank r's i-th.
Made Group::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) {
  const char *name = "all_gather_coalesced";
  BANYAN_REQUIRE(!inputs.empty() && outputs.size() == static_cast<size_t>(getSize()), name,
                 "input_tensor_list and one list of output_tensor_lists for each of ", getSize(), " ranks are needed");
  Tensors flat;
  check_inputs(name, "input_tensor_list", inputs);
  check_alike(name, "input_tensor_list", inputs, "input_tensor_list[0]", inputs[0], false);
  for (const auto &list : outputs) {
    BANYAN_REQUIRE(list.size() == inputs.size(), name, "a list of ", list.size(), " outputs for ", inputs.size(),
                   " inputs");
    check_outputs(name, "a list of output_tensor_lists", list);
    for (size_t i = 0; i < list.size(); i++) {
      BANYAN_REQUIRE(list[i].scalar_type() == inputs[i].scalar_type() && list[i].numel() == inputs[i].numel(), name,
                     "output ", i, " is of ", list[i].scalar_type(), ' ', list[i].sizes(), ", where input ", i,
                     " is of ", inputs[i].scalar_type(), ' ', inputs[i].sizes());
      flat.push_back(list[i]);
    }
  }
  at::Tensor mine = joined(inputs), all = lying_together(flat);
  if (overlap(mine, all)) mine = mine.clone();
  struct banyan_call call = moving(BANYAN_ALLGATHER, mine, mine.numel());
  call.send = mine.data_ptr();
  call.recv = all.data_ptr();
  Work::Parts parts = {{mine, all}, flat, [flat, all] { split_into(flat, all); }, nullptr};
  return start(c10d::OpType::ALLGATHER_COALESCED, "banyan:all_gather", inputs, call, std::move(parts), options);
}

Made Group::gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &options) {
  const at::Tensor &input = the_one("gather", inputs);
  check_input("gather", "tensor", input);
  at::Tensor mine = in_one_piece(input);
  struct banyan_call call = moving(BANYAN_GATHER, mine, mine.numel());
  Work::Parts parts;
  call.root = static_cast<int>(options.rootRank);
  if (is_root(options.rootRank)) {
    const Tensors &blocks = the_list("gather", "gather_list", outputs, getSize());
    check_outputs("gather", "gather_list", blocks);
    check_alike("gather", "gather_list", blocks, "tensor", input);
    at::Tensor all = lying_together(blocks);
    if (overlap(mine, all)) mine = mine.clone();
    call.recv = all.data_ptr();
    parts = {{all}, blocks, [blocks, all] { split_into(blocks, all); }, nullptr};
  } else {
    none("gather", "gather_list", outputs.size());
  }
  call.send = mine.data_ptr();
  parts.held.push_back(mine);
  return start(c10d::OpType::GATHER, "banyan:gather", inputs, call, std::move(parts), options);
}

Made Group::scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &options) {
  const at::Tensor &output = the_one("scatter", outputs);
  check_output("scatter", "tensor", output);
  Work::Parts parts;
  at::Tensor mine = to_be_filled(output, false, parts.finish);
  struct banyan_call call = moving(BANYAN_SCATTER, mine, mine.numel());
  call.root = static_cast<int>(options.rootRank);
  if (is_root(options.rootRank)) {
    const Tensors &blocks = the_list("scatter", "scatter_list", inputs, getSize());
    check_inputs("scatter", "scatter_list", blocks);
    check_alike("scatter", "scatter_list", blocks, "tensor", output);
    at::Tensor all = joined(blocks);
    if (overlap(mine, all)) all = all.clone();
    call.send = all.data_ptr();
    parts.held.push_back(all);
  } else {
    none("scatter", "scatter_list", inputs.size());
  }
  call.recv = mine.data_ptr();
  parts.held.push_back(mine);
  parts.outputs = outputs;
  return start(c10d::OpType::SCATTER, "banyan:scatter", root_of(inputs), call, std::move(parts), options);
}

Made Group::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ReduceScatterOptions &options) {
  const Tensors &blocks = the_list("reduce_scatter", "input_list", inputs, getSize());
  const at::Tensor &output = the_one("reduce_scatter", outputs);
  check_output("reduce_scatter", "output", output);
  check_inputs("reduce_scatter", "input_list", blocks);
  check_alike("reduce_scatter", "input_list", blocks, "output", output);
  Work::Parts parts;
  at::Tensor mine = to_be_filled(output, false, parts.finish), all = joined(blocks);
  if (overlap(mine, all)) all = all.clone();
  struct banyan_call call = summing(BANYAN_REDUCE_SCATTER, "reduce_scatter", mine, mine.numel(), options.reduceOp);
  call.send = all.data_ptr();
  call.recv = mine.data_ptr();
  parts.held = {mine, all};
  parts.outputs = outputs;
  return start(c10d::OpType::REDUCE_SCATTER, "banyan:reduce_scatter", inputs[0], call, std::move(parts), options);
}

struct banyan_call Group::scattering(const char *name, const at::Tensor &output, const at::Tensor &input,
                                     const c10d::ReduceOp &op, Work::Parts &parts) const {
  check_output(name, "output", output);
  check_input(name, "input", input);
  check_type(name, "input", input, "output", output);
  BANYAN_REQUIRE(input.numel() == output.numel() * getSize(), name, "the input has ", input.numel(),
                 " elements, must have ", getSize(), " times the output's ", output.numel());
  at::Tensor mine = to_be_filled(output, false, parts.finish), all = in_one_piece(input);
  if (overlap(mine, all)) all = all.clone();
  struct banyan_call call = summing(BANYAN_REDUCE_SCATTER, name, mine, mine.numel(), op);
  call.send = all.data_ptr();
  call.recv = mine.data_ptr();
  parts.held.insert(parts.held.end(), {mine, all});
  parts.outputs.push_back(output);
  return call;
}

Made Group::_reduce_scatter_base(at::Tensor &output, at::Tensor &input, const c10d::ReduceScatterOptions &options) {
  Work::Parts parts;
  struct banyan_call call = scattering("reduce_scatter_tensor", output, input, options.reduceOp, parts);
  return start(c10d::OpType::_REDUCE_SCATTER_BASE, "banyan:_reduce_scatter_base", {input}, call, std::move(parts),
               options);
}

// ---- each with each

// Blocks may differ in size, which only the two ranks of a pair know: a send and a recv for each.
Made Group::exchange(c10d::OpType type, const char *title, const Tensors &outputs, const Tensors &inputs,
                     Work::Parts &&parts, std::chrono::milliseconds timeout) {
  std::vector<struct banyan_call> calls;
  auto one = [&](enum banyan_collective collective, const at::Tensor &tensor, int rank) {
    struct banyan_call call = moving(collective, tensor, tensor.numel());
    call.root = rank;
    call.tag = EXCHANGE_TAG;
    call.send = call.recv = tensor.data_ptr();
    if (tensor.numel()) calls.push_back(call);
  };
  const int n = getSize(), self = getRank();
  BANYAN_REQUIRE(outputs[self].numel() == inputs[self].numel(), "all_to_all", "this rank keeps ", inputs[self].numel(),
                 " elements for itself, but takes ", outputs[self].numel());
  for (int i = 1; i < n; i++) one(BANYAN_RECV, outputs[(self + n - i) % n], (self + n - i) % n);
  for (int i = 1; i < n; i++) one(BANYAN_SEND, inputs[(self + i) % n], (self + i) % n);
  if (inputs[self].nbytes()) std::memcpy(outputs[self].data_ptr(), inputs[self].data_ptr(), inputs[self].nbytes());
  return start_all(type, title, inputs, calls, std::move(parts), timeout);
}

static Tensors cut(const at::Tensor &tensor, const std::vector<int64_t> &splits, int n) {
  BANYAN_REQUIRE(splits.empty() || splits.size() == static_cast<size_t>(n), "all_to_all_single", splits.size(),
                 " split sizes for ", n, " ranks");
  if (splits.empty()) return tensor.view({-1}).chunk(n);
  int64_t row = tensor.numel() && tensor.size(0) ? tensor.numel() / tensor.size(0) : 1, at = 0;
  Tensors pieces;
  at::Tensor flat = tensor.view({-1});
  for (int64_t split : splits) {
    BANYAN_REQUIRE(split >= 0 && at + split * row <= flat.numel(), "all_to_all_single",
                   "the split sizes exceed the tensor");
    pieces.push_back(flat.narrow(0, at, split * row));
    at += split * row;
  }
  BANYAN_REQUIRE(at == flat.numel(), "all_to_all_single",
                 "the split sizes do not sum up to the tensor's first dimension");
  return pieces;
}

Made Group::alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                          std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &options) {
  const char *name = "all_to_all_single", *title = "banyan:all_to_all";
  check_output(name, "output", output);
  check_input(name, "input", input);
  check_type(name, "input", input, "output", output);
  BANYAN_REQUIRE(output.dim() > 0 && input.dim() > 0, name,
                 "a tensor without dimensions has no rows to divide among ranks");
  Work::Parts parts;
  at::Tensor to = to_be_filled(output, false, parts.finish), from = in_one_piece(input);
  if (overlap(to, from)) from = from.clone();
  parts.held = {to, from};
  parts.outputs = {output};
  if (!output_splits.empty() || !input_splits.empty()) {
    BANYAN_REQUIRE(!output_splits.empty() || to.size(0) % getSize() == 0, name, "the output's ", to.size(0),
                   " rows cannot be divided by ", getSize(), " ranks");
    BANYAN_REQUIRE(!input_splits.empty() || from.size(0) % getSize() == 0, name, "the input's ", from.size(0),
                   " rows cannot be divided by ", getSize(), " ranks");
    return exchange(c10d::OpType::ALLTOALL_BASE, title, cut(to, output_splits, getSize()),
                    cut(from, input_splits, getSize()), std::move(parts), options.timeout);
  }
  BANYAN_REQUIRE(to.numel() == from.numel() && to.size(0) % getSize() == 0, name,
                 "input and output must have the same number of elements, and rows that ", getSize(), " divides");
  struct banyan_call call = moving(BANYAN_ALLTOALL, to, to.numel() / getSize());
  call.send = from.data_ptr();
  call.recv = to.data_ptr();
  return start(c10d::OpType::ALLTOALL_BASE, title, {input}, call, std::move(parts), options);
}

Made Group::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) {
  const size_t n = static_cast<size_t>(getSize());
  BANYAN_REQUIRE(outputs.size() == n && inputs.size() == n, "all_to_all", "lists with a tensor for each of ", n,
                 " ranks are needed");
  Work::Parts parts;
  Tensors to, from;
  check_outputs("all_to_all", "output_tensor_list", outputs);
  check_inputs("all_to_all", "input_tensor_list", inputs);
  check_alike("all_to_all", "output_tensor_list", outputs, "input_tensor_list[0]", inputs[0], false);
  check_alike("all_to_all", "input_tensor_list", inputs, "input_tensor_list[0]", inputs[0], false);
  for (size_t r = 0; r < n; r++) {
    to.push_back(to_be_filled(outputs[r], false, parts.finish));
    from.push_back(in_one_piece(inputs[r]));
  }
  for (auto &piece : from)
    for (const auto &other : to)
      if (overlap(piece, other)) piece = piece.clone();
  parts.held = to;
  parts.held.insert(parts.held.end(), from.begin(), from.end());
  parts.outputs = outputs;
  return exchange(c10d::OpType::ALLTOALL, "banyan:all_to_all", to, from, std::move(parts), options.timeout);
}

// ---- pairs

static uint32_t tag_of(const char *call, int tag) {
  BANYAN_REQUIRE(tag >= 0, call, "tag ", tag, " is negative");
  return static_cast<uint32_t>(tag);
}

Made Group::start_pair(c10d::OpType type, const char *title, const Tensors &inputs, const struct banyan_call &call,
                       Work::Parts &&parts) {
  auto work = c10::make_intrusive<Work>(getRank(), type, title, inputs, std::move(parts));
  work->begun({begin(call, c10d::kUnsetTimeout, nullptr)});
  return work;
}

Made Group::send(Tensors &tensors, int rank, int tag) {
  const at::Tensor &tensor = the_one("send", tensors);
  check_input("send", "tensor", tensor);
  at::Tensor piece = in_one_piece(tensor);
  struct banyan_call call = moving(BANYAN_SEND, piece, piece.numel());
  call.root = rank;
  call.tag = tag_of("send", tag);
  call.send = piece.data_ptr();
  Work::Parts parts = {{piece}, {}, nullptr, nullptr};
  return start_pair(c10d::OpType::SEND, "banyan:send", tensors, call, std::move(parts));
}

Made Group::recv(Tensors &tensors, int rank, int tag) {
  const at::Tensor &tensor = the_one("recv", tensors);
  check_output("recv", "tensor", tensor);
  Work::Parts parts;
  at::Tensor filled = to_be_filled(tensor, false, parts.finish);
  struct banyan_call call = moving(BANYAN_RECV, filled, filled.numel());
  call.root = rank;
  call.tag = tag_of("recv", tag);
  call.recv = filled.data_ptr();
  parts.held = {filled};
  parts.outputs = tensors;
  parts.source = std::make_shared<int>(rank);
  return start_pair(c10d::OpType::RECV, "banyan:recv", tensors, call, std::move(parts));
}

Made Group::recvAnysource(Tensors &tensors, int tag) {
  const at::Tensor &tensor = the_one("recv", tensors);
  check_output("recv", "tensor", tensor);
  Work::Parts parts;
  at::Tensor filled = to_be_filled(tensor, false, parts.finish);
  struct banyan_call call = moving(BANYAN_RECV, filled, filled.numel());
  struct banyan_request *request = nullptr;
  call.tag = tag_of("recv", tag);
  call.recv = filled.data_ptr();
  parts.held = {filled};
  parts.outputs = tensors;
  parts.source = std::make_shared<int>(-1);
  int *source = parts.source.get();
  auto work = c10::make_intrusive<Work>(getRank(), c10d::OpType::RECVANYSOURCE, "banyan:recvAnySource", tensors,
                                        std::move(parts));
  check_begun(banyan_recv_any(open().get(), &call, source, &request), "recv");
  work->begun({request});
  return work;
}

Made Group::barrier(const c10d::BarrierOptions &options) {
  struct banyan_call call = {};
  call.collective = BANYAN_BARRIER;
  call.dtype = BANYAN_UINT8;
  return start(c10d::OpType::BARRIER, "banyan:barrier", {}, call, {}, options);
}

void Group::monitoredBarrier(const c10d::BarrierOptions &options, bool /* all: the error names all of them anyway */) {
  barrier(options)->wait();
}

#if TORCH_VERSION_MAJOR >= 2
Made Group::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) {
  the_one("all_reduce", tensors);
  return sparse(tensors, options);
}

Made Group::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) {
  const char *name = "all_gather_into_tensor_coalesced";
  check_pairs(name, outputs, inputs);
  std::vector<struct banyan_call> calls;
  Work::Parts parts;
  for (size_t i = 0; i < inputs.size(); i++) calls.push_back(gathering(name, outputs[i], inputs[i], parts));
  return start_all(c10d::OpType::COALESCED, "banyan:all_gather", inputs, calls, std::move(parts), options.timeout);
}

Made Group::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &options) {
  const char *name = "reduce_scatter_tensor_coalesced";
  check_pairs(name, outputs, inputs);
  std::vector<struct banyan_call> calls;
  Work::Parts parts;
  for (size_t i = 0; i < inputs.size(); i++)
    calls.push_back(scattering(name, outputs[i], inputs[i], options.reduceOp, parts));
  return start_all(c10d::OpType::COALESCED, "banyan:reduce_scatter", inputs, calls, std::move(parts), options.timeout);
}
#endif

} // namespace banyan
