#include "group.hpp"

#include <Python.h>
#include <unistd.h>

#include <cstring>

#include <mutex>
#include <set>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "callbacks.hpp"

namespace banyan {

namespace {

constexpr uint32_t EXCHANGE_TAG = 1u << 31; // no tag of PyTorch's: those are positive

// Groups that have not left yet. A process that exits without leaving is treated as dead.
std::mutex groups_lock;
std::set<Group *> groups;

double seconds(std::chrono::milliseconds timeout) {
  return timeout.count() > 0 ? static_cast<double>(timeout.count()) / 1000 : 0;
}

struct banyan_call moving(enum banyan_collective collective, const at::Tensor &one, int64_t count) {
  Elements elements = elements_to_move(one);
  struct banyan_call call = {};
  call.collective = collective;
  call.dtype = elements.dtype;
  call.count = static_cast<size_t>(count) * elements.size;
  return call;
}

const at::Tensor &the_one(const char *call, const Tensors &tensors) {
  TORCH_CHECK(tensors.size() == 1, "banyan: ", call, ": one tensor is needed, not ", tensors.size());
  return tensors[0];
}

const Tensors &the_list(const char *call, const std::vector<Tensors> &lists, int size) {
  TORCH_CHECK(lists.size() == 1 && lists[0].size() == static_cast<size_t>(size), "banyan: ", call,
              ": one list with a tensor for each of ", size, " ranks is needed");
  return lists[0];
}

Tensors root_of(const std::vector<Tensors> &lists) {
  return lists.empty() ? Tensors() : lists[0];
}

void check_pairs(const char *call, const Tensors &outputs, const Tensors &inputs) {
  TORCH_CHECK(!inputs.empty() && outputs.size() == inputs.size(), "banyan: ", call, ": ", outputs.size(),
              " outputs for ", inputs.size(), " inputs");
}

void none(const char *call, size_t n) {
  TORCH_CHECK(n == 0, "banyan: ", call, ": a list is for the root only");
}

} // namespace

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
  if (origin && !origin->call) {
    struct banyan_submission submission = {};
    submission.calls = &call;
    submission.n_calls = 1;
    check(banyan_submit(open().get(), origin->name.c_str(), &submission, &request));
  } else {
    check(banyan_start(open().get(), &call, &request));
  }
  return request;
}

Made Group::start(c10d::OpType type, const char *title, const Tensors &inputs, const struct banyan_call &call,
                  Work::Parts parts, std::chrono::milliseconds timeout) {
  Origin origin = place_of_call();
  struct banyan_request *request = begin(call, timeout, &origin);
  auto work = c10::make_intrusive<Work>(getRank(), type, title, inputs, std::move(parts),
                                        std::vector<struct banyan_request *>{request});
  work->origin = std::move(origin);
  return work;
}

// If one cannot start, those before it go on, and keep their memory until they have ended.
Made Group::start_all(c10d::OpType type, const char *title, const Tensors &inputs,
                      const std::vector<struct banyan_call> &calls, Work::Parts parts,
                      std::chrono::milliseconds timeout) {
  std::vector<struct banyan_request *> requests;
  std::exception_ptr error;
  Origin origin = place_of_call();
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
  auto work = c10::make_intrusive<Work>(getRank(), type, title, inputs, std::move(parts), std::move(requests));
  if (error) std::rethrow_exception(error);
  work->origin = std::move(origin);
  return work;
}

// ---- one tensor on each rank

Made Group::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
  const at::Tensor &tensor = the_one("broadcast", tensors);
  check_output("broadcast", tensor);
  Work::Parts parts;
  at::Tensor filled = to_be_filled(tensor, is_root(options.rootRank), parts.finish);
  struct banyan_call call = moving(BANYAN_BROADCAST, filled, filled.numel());
  call.root = static_cast<int>(options.rootRank);
  call.recv = filled.data_ptr();
  parts.held = {filled};
  parts.outputs = tensors;
  return start(c10d::OpType::BROADCAST, "banyan:broadcast", tensors, call, std::move(parts), options.timeout);
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
  const at::Tensor &tensor = the_one("allreduce", tensors);
  if (tensor.is_sparse()) return sparse(tensors, options);
  check_output("allreduce", tensor);
  Work::Parts parts;
  at::Tensor filled = to_be_filled(tensor, true, parts.finish);
  struct banyan_call call = summing(BANYAN_ALLREDUCE, "allreduce", filled, filled.numel(), options.reduceOp);
  std::string name = name_of_bucket(tensor);
  if (!name.empty()) call.name = name.c_str();
  call.send = call.recv = filled.data_ptr();
  parts.held = {filled};
  parts.outputs = tensors;
  return start(c10d::OpType::ALLREDUCE, "banyan:all_reduce", tensors, call, std::move(parts), options.timeout);
}

Made Group::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) {
  const char *name = "allreduce_coalesced";
  TORCH_CHECK(!tensors.empty(), "banyan: ", name, ": there is no tensor");
  if (tensors[0].is_sparse()) return sparse(tensors, options);
  for (const auto &tensor : tensors) check_output(name, tensor);
  check_alike(name, tensors, tensors[0], false);
  at::Tensor all = joined(tensors);
  struct banyan_call call = summing(BANYAN_ALLREDUCE, name, all, all.numel(), options.reduceOp);
  call.send = call.recv = all.data_ptr();
  Work::Parts parts = {{all}, tensors, [tensors, all] { split_into(tensors, all); }, nullptr};
  return start(c10d::OpType::ALLREDUCE_COALESCED, "banyan:all_reduce", tensors, call, std::move(parts),
               options.timeout);
}

Made Group::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
  const at::Tensor &tensor = the_one("reduce", tensors);
  bool root = is_root(options.rootRank);
  Work::Parts parts;
  at::Tensor filled;
  if (root) {
    check_output("reduce", tensor);
    filled = to_be_filled(tensor, true, parts.finish);
  } else {
    check_input("reduce", tensor);
    filled = in_one_piece(tensor);
  }
  struct banyan_call call = summing(BANYAN_REDUCE, "reduce", filled, filled.numel(), options.reduceOp);
  call.root = static_cast<int>(options.rootRank);
  call.send = filled.data_ptr();
  call.recv = root ? filled.data_ptr() : nullptr;
  parts.held = {filled};
  parts.outputs = tensors;
  return start(c10d::OpType::REDUCE, "banyan:reduce", tensors, call, std::move(parts), options.timeout);
}

// ---- blocks

Made Group::allgather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) {
  const Tensors &blocks = the_list("allgather", outputs, getSize());
  const at::Tensor &input = the_one("allgather", inputs);
  check_input("allgather", input);
  for (const auto &block : blocks) check_output("allgather", block);
  check_alike("allgather", blocks, input);
  at::Tensor all = lying_together(blocks), mine = in_one_piece(input);
  if (overlap(mine, all)) mine = mine.clone();
  struct banyan_call call = moving(BANYAN_ALLGATHER, mine, mine.numel());
  call.send = mine.data_ptr();
  call.recv = all.data_ptr();
  Work::Parts parts = {{mine, all}, blocks, [blocks, all] { split_into(blocks, all); }, nullptr};
  return start(c10d::OpType::ALLGATHER, "banyan:all_gather", inputs, call, std::move(parts), options.timeout);
}

struct banyan_call Group::gathering(const char *name, const at::Tensor &output, const at::Tensor &input,
                                    Work::Parts &parts) const {
  check_input(name, input);
  check_output(name, output);
  check_alike(name, {output}, input, false);
  TORCH_CHECK(output.numel() == input.numel() * getSize(), "banyan: ", name, ": the output has ", output.numel(),
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
  return start(c10d::OpType::_ALLGATHER_BASE, "banyan:_all_gather_base", {input}, call, std::move(parts),
               options.timeout);
}

// Each rank's tensors one after the other, in one call; outputs[r][i] is rank r's i-th.
Made Group::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) {
  const char *name = "allgather_coalesced";
  TORCH_CHECK(!inputs.empty() && outputs.size() == static_cast<size_t>(getSize()), "banyan: ", name,
              ": inputs and one list for each of ", getSize(), " ranks are needed");
  Tensors flat;
  for (const auto &input : inputs) check_input(name, input);
  check_alike(name, inputs, inputs[0], false);
  for (const auto &list : outputs) {
    TORCH_CHECK(list.size() == inputs.size(), "banyan: ", name, ": a list of ", list.size(), " outputs for ",
                inputs.size(), " inputs");
    for (size_t i = 0; i < list.size(); i++) {
      check_output(name, list[i]);
      check_alike(name, {list[i]}, inputs[i]);
      flat.push_back(list[i]);
    }
  }
  at::Tensor mine = joined(inputs), all = lying_together(flat);
  if (overlap(mine, all)) mine = mine.clone();
  struct banyan_call call = moving(BANYAN_ALLGATHER, mine, mine.numel());
  call.send = mine.data_ptr();
  call.recv = all.data_ptr();
  Work::Parts parts = {{mine, all}, flat, [flat, all] { split_into(flat, all); }, nullptr};
  return start(c10d::OpType::ALLGATHER_COALESCED, "banyan:all_gather", inputs, call, std::move(parts), options.timeout);
}

Made Group::gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &options) {
  const at::Tensor &input = the_one("gather", inputs);
  check_input("gather", input);
  at::Tensor mine = in_one_piece(input);
  struct banyan_call call = moving(BANYAN_GATHER, mine, mine.numel());
  Work::Parts parts;
  call.root = static_cast<int>(options.rootRank);
  if (is_root(options.rootRank)) {
    const Tensors &blocks = the_list("gather", outputs, getSize());
    for (const auto &block : blocks) check_output("gather", block);
    check_alike("gather", blocks, input);
    at::Tensor all = lying_together(blocks);
    if (overlap(mine, all)) mine = mine.clone();
    call.recv = all.data_ptr();
    parts = {{all}, blocks, [blocks, all] { split_into(blocks, all); }, nullptr};
  } else {
    none("gather", outputs.size());
  }
  call.send = mine.data_ptr();
  parts.held.push_back(mine);
  return start(c10d::OpType::GATHER, "banyan:gather", inputs, call, std::move(parts), options.timeout);
}

Made Group::scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &options) {
  const at::Tensor &output = the_one("scatter", outputs);
  check_output("scatter", output);
  Work::Parts parts;
  at::Tensor mine = to_be_filled(output, false, parts.finish);
  struct banyan_call call = moving(BANYAN_SCATTER, mine, mine.numel());
  call.root = static_cast<int>(options.rootRank);
  if (is_root(options.rootRank)) {
    const Tensors &blocks = the_list("scatter", inputs, getSize());
    for (const auto &block : blocks) check_input("scatter", block);
    check_alike("scatter", blocks, output);
    at::Tensor all = joined(blocks);
    if (overlap(mine, all)) all = all.clone();
    call.send = all.data_ptr();
    parts.held.push_back(all);
  } else {
    none("scatter", inputs.size());
  }
  call.recv = mine.data_ptr();
  parts.held.push_back(mine);
  parts.outputs = outputs;
  return start(c10d::OpType::SCATTER, "banyan:scatter", root_of(inputs), call, std::move(parts), options.timeout);
}

Made Group::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ReduceScatterOptions &options) {
  const Tensors &blocks = the_list("reduce_scatter", inputs, getSize());
  const at::Tensor &output = the_one("reduce_scatter", outputs);
  check_output("reduce_scatter", output);
  for (const auto &block : blocks) check_input("reduce_scatter", block);
  check_alike("reduce_scatter", blocks, output);
  Work::Parts parts;
  at::Tensor mine = to_be_filled(output, false, parts.finish), all = joined(blocks);
  if (overlap(mine, all)) all = all.clone();
  struct banyan_call call = summing(BANYAN_REDUCE_SCATTER, "reduce_scatter", mine, mine.numel(), options.reduceOp);
  call.send = all.data_ptr();
  call.recv = mine.data_ptr();
  parts.held = {mine, all};
  parts.outputs = outputs;
  return start(c10d::OpType::REDUCE_SCATTER, "banyan:reduce_scatter", inputs[0], call, std::move(parts),
               options.timeout);
}

struct banyan_call Group::scattering(const char *name, const at::Tensor &output, const at::Tensor &input,
                                     const c10d::ReduceOp &op, Work::Parts &parts) const {
  check_output(name, output);
  check_input(name, input);
  check_alike(name, {input}, output, false);
  TORCH_CHECK(input.numel() == output.numel() * getSize(), "banyan: ", name, ": the input has ", input.numel(),
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
               options.timeout);
}

// ---- each with each

// Blocks may differ in size, which only the two ranks of a pair know: a send and a recv for each.
Made Group::exchange(c10d::OpType type, const char *title, const Tensors &outputs, const Tensors &inputs,
                     Work::Parts parts, std::chrono::milliseconds timeout) {
  std::vector<struct banyan_call> calls;
  auto one = [&](enum banyan_collective collective, const at::Tensor &tensor, int rank) {
    struct banyan_call call = moving(collective, tensor, tensor.numel());
    call.root = rank;
    call.tag = EXCHANGE_TAG;
    call.send = call.recv = tensor.data_ptr();
    if (tensor.numel()) calls.push_back(call);
  };
  const int n = getSize(), self = getRank();
  TORCH_CHECK(outputs[self].numel() == inputs[self].numel(), "banyan: alltoall: this rank keeps ", inputs[self].numel(),
              " elements for itself, but takes ", outputs[self].numel());
  for (int i = 1; i < n; i++) one(BANYAN_RECV, outputs[(self + n - i) % n], (self + n - i) % n);
  for (int i = 1; i < n; i++) one(BANYAN_SEND, inputs[(self + i) % n], (self + i) % n);
  if (inputs[self].nbytes()) std::memcpy(outputs[self].data_ptr(), inputs[self].data_ptr(), inputs[self].nbytes());
  return start_all(type, title, inputs, calls, std::move(parts), timeout);
}

static Tensors cut(const at::Tensor &tensor, const std::vector<int64_t> &splits, int n) {
  TORCH_CHECK(splits.empty() || splits.size() == static_cast<size_t>(n), "banyan: alltoall: ", splits.size(),
              " split sizes for ", n, " ranks");
  if (splits.empty()) return tensor.view({-1}).chunk(n);
  int64_t row = tensor.numel() && tensor.size(0) ? tensor.numel() / tensor.size(0) : 1, at = 0;
  Tensors pieces;
  at::Tensor flat = tensor.view({-1});
  for (int64_t split : splits) {
    TORCH_CHECK(split >= 0 && at + split * row <= flat.numel(), "banyan: alltoall: the split sizes exceed the tensor");
    pieces.push_back(flat.narrow(0, at, split * row));
    at += split * row;
  }
  TORCH_CHECK(at == flat.numel(), "banyan: alltoall: the split sizes do not sum up to the tensor's first dimension");
  return pieces;
}

Made Group::alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                          std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &options) {
  const char *name = "alltoall_base", *title = "banyan:all_to_all";
  check_output(name, output);
  check_input(name, input);
  check_alike(name, {input}, output, false);
  Work::Parts parts;
  at::Tensor to = to_be_filled(output, false, parts.finish), from = in_one_piece(input);
  if (overlap(to, from)) from = from.clone();
  parts.held = {to, from};
  parts.outputs = {output};
  if (!output_splits.empty() || !input_splits.empty()) {
    TORCH_CHECK(!output_splits.empty() || to.size(0) % getSize() == 0, "banyan: alltoall: the output's ", to.size(0),
                " rows cannot be divided by ", getSize(), " ranks");
    TORCH_CHECK(!input_splits.empty() || from.size(0) % getSize() == 0, "banyan: alltoall: the input's ", from.size(0),
                " rows cannot be divided by ", getSize(), " ranks");
    return exchange(c10d::OpType::ALLTOALL_BASE, title, cut(to, output_splits, getSize()),
                    cut(from, input_splits, getSize()), std::move(parts), options.timeout);
  }
  TORCH_CHECK(to.numel() == from.numel() && to.dim() > 0 && to.size(0) % getSize() == 0, "banyan: ", name,
              ": input and output must have the same number of elements, and rows that ", getSize(), " divides");
  struct banyan_call call = moving(BANYAN_ALLTOALL, to, to.numel() / getSize());
  call.send = from.data_ptr();
  call.recv = to.data_ptr();
  return start(c10d::OpType::ALLTOALL_BASE, title, {input}, call, std::move(parts), options.timeout);
}

Made Group::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) {
  const size_t n = static_cast<size_t>(getSize());
  TORCH_CHECK(outputs.size() == n && inputs.size() == n, "banyan: alltoall: lists with a tensor for each of ", n,
              " ranks are needed");
  Work::Parts parts;
  Tensors to, from;
  for (size_t r = 0; r < n; r++) {
    check_output("alltoall", outputs[r]);
    check_input("alltoall", inputs[r]);
    to.push_back(to_be_filled(outputs[r], false, parts.finish));
    from.push_back(in_one_piece(inputs[r]));
  }
  check_alike("alltoall", outputs, inputs[0], false);
  check_alike("alltoall", inputs, inputs[0], false);
  for (auto &piece : from)
    for (const auto &other : to)
      if (overlap(piece, other)) piece = piece.clone();
  parts.held = to;
  parts.held.insert(parts.held.end(), from.begin(), from.end());
  parts.outputs = outputs;
  return exchange(c10d::OpType::ALLTOALL, "banyan:all_to_all", to, from, std::move(parts), options.timeout);
}

// ---- pairs

static uint32_t tag_of(int tag) {
  TORCH_CHECK(tag >= 0, "banyan: the tag ", tag, " is negative");
  return static_cast<uint32_t>(tag);
}

Made Group::send(Tensors &tensors, int rank, int tag) {
  const at::Tensor &tensor = the_one("send", tensors);
  check_input("send", tensor);
  at::Tensor piece = in_one_piece(tensor);
  struct banyan_call call = moving(BANYAN_SEND, piece, piece.numel());
  call.root = rank;
  call.tag = tag_of(tag);
  call.send = piece.data_ptr();
  Work::Parts parts = {{piece}, {}, nullptr, nullptr};
  return c10::make_intrusive<Work>(getRank(), c10d::OpType::SEND, "banyan:send", tensors, std::move(parts),
                                   std::vector<struct banyan_request *>{begin(call, c10d::kUnsetTimeout, nullptr)});
}

Made Group::recv(Tensors &tensors, int rank, int tag) {
  const at::Tensor &tensor = the_one("recv", tensors);
  check_output("recv", tensor);
  Work::Parts parts;
  at::Tensor filled = to_be_filled(tensor, false, parts.finish);
  struct banyan_call call = moving(BANYAN_RECV, filled, filled.numel());
  call.root = rank;
  call.tag = tag_of(tag);
  call.recv = filled.data_ptr();
  parts.held = {filled};
  parts.outputs = tensors;
  parts.source = std::make_shared<int>(rank);
  return c10::make_intrusive<Work>(getRank(), c10d::OpType::RECV, "banyan:recv", tensors, std::move(parts),
                                   std::vector<struct banyan_request *>{begin(call, c10d::kUnsetTimeout, nullptr)});
}

Made Group::recvAnysource(Tensors &tensors, int tag) {
  const at::Tensor &tensor = the_one("recv", tensors);
  check_output("recv", tensor);
  Work::Parts parts;
  at::Tensor filled = to_be_filled(tensor, false, parts.finish);
  struct banyan_call call = moving(BANYAN_RECV, filled, filled.numel());
  struct banyan_request *request = nullptr;
  call.tag = tag_of(tag);
  call.recv = filled.data_ptr();
  parts.held = {filled};
  parts.outputs = tensors;
  parts.source = std::make_shared<int>(-1);
  check(banyan_recv_any(open().get(), &call, parts.source.get(), &request));
  return c10::make_intrusive<Work>(getRank(), c10d::OpType::RECVANYSOURCE, "banyan:recvAnySource", tensors,
                                   std::move(parts), std::vector<struct banyan_request *>{request});
}

Made Group::barrier(const c10d::BarrierOptions &options) {
  struct banyan_call call = {};
  call.collective = BANYAN_BARRIER;
  call.dtype = BANYAN_UINT8;
  return start(c10d::OpType::BARRIER, "banyan:barrier", {}, call, {}, options.timeout);
}

void Group::monitoredBarrier(const c10d::BarrierOptions &options, bool /* all: the error names all of them anyway */) {
  barrier(options)->wait();
}

#if TORCH_VERSION_MAJOR >= 2
Made Group::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) {
  the_one("allreduce", tensors);
  return sparse(tensors, options);
}

Made Group::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) {
  const char *name = "allgather_into_tensor_coalesced";
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
