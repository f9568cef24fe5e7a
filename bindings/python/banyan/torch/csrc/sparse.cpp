// Sparse tensors: PyTorch's COO tensors are Banyan's rows, of which a number stands for all sparse dimensions.
#include "group.hpp"

#include <algorithm>
#include <deque>

#include <ATen/SparseTensorImpl.h>

namespace banyan {

namespace {

// Memory of results that nobody uses any more, for the next ones: new memory costs more than an exchange, since the
// system clears each page. What is kept is never more than results took at once.
class Kept {
public:
  // For a result that takes between `least` and `most` bytes. May be empty.
  struct banyan_sparse take(size_t least, size_t most) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto best = blocks_.end();
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block)
      if (block->room >= least && block->room <= most && (best == blocks_.end() || block->room > best->room))
        best = block;
    if (best == blocks_.end()) return {};
    struct banyan_sparse block = {};
    block.memory = best->memory;
    block.room = best->room;
    bytes_ -= block.room;
    blocks_.erase(best);
    return block;
  }
  void count(size_t room) {
    std::lock_guard<std::mutex> lock(mutex_);
    used_ += room;
    most_ = std::max(most_, used_);
  }
  // `counted`: as used, before. In a child of fork() the lock may be taken for ever.
  void give(struct banyan_sparse block, bool counted) {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (lock && counted) used_ -= block.room;
    if (lock && block.room && block.room <= most_) {
      for (bytes_ += block.room; bytes_ > most_; blocks_.pop_front()) {
        bytes_ -= blocks_.front().room;
        banyan_sparse_free(&blocks_.front());
      }
      blocks_.push_back(block);
    } else {
      banyan_sparse_free(&block);
    }
  }

private:
  std::mutex mutex_;
  std::deque<struct banyan_sparse> blocks_; // the oldest first
  size_t bytes_ = 0, used_ = 0, most_ = 0;  // kept; of results; their most so far
};

Kept &kept() {
  static auto *all = new Kept; // tensors may live as long as the process
  return *all;
}

// The tables of one exchange. out[0] holds the memory of all results, which the tensors then use.
struct Tables {
  Tensors rows, values; // what goes in
  std::vector<struct banyan_sparse> in, out;
  bool counted = false; // the results
  explicit Tables(size_t n) : rows(n), values(n), in(n), out(n) {}
  Tables(const Tables &) = delete;
  Tables &operator=(const Tables &) = delete;
  ~Tables() {
    kept().give(out[0], counted);
  }
  // Gives out[0] memory that is kept, as what has come out of an exchange of so many ranks takes it.
  void take_memory(size_t ranks) {
    size_t bytes = 0;
    for (size_t i = 0; i < in.size(); i++) bytes += rows[i].nbytes() + values[i].nbytes();
    out[0] = kept().take(bytes, bytes * ranks);
  }
  void count() {
    kept().count(out[0].room);
    counted = true;
  }
};

at::Tensor row_numbers(const at::Tensor &tensor) {
  at::Tensor indices = tensor._indices(), rows = indices[0];
  for (int64_t d = 1; d < tensor.sparse_dim(); d++) rows = rows * tensor.size(d) + indices[d];
  return rows.contiguous();
}

at::Tensor indices_of(const at::Tensor &tensor, at::Tensor rows) {
  std::vector<at::Tensor> indices(static_cast<size_t>(tensor.sparse_dim()));
  for (int64_t d = tensor.sparse_dim() - 1; d >= 0; d--) {
    indices[static_cast<size_t>(d)] = d ? rows.remainder(tensor.size(d)) : rows;
    if (d) rows = rows.div(tensor.size(d), "floor");
  }
  return at::stack(indices);
}

void fill(Tables &tables, size_t i, const at::Tensor &tensor, const Adding &how) {
  struct banyan_sparse &in = tables.in[i];
  tables.rows[i] = row_numbers(tensor);
  tables.values[i] = tensor._values().contiguous();
  in.dtype = how.dtype;
  in.row_dtype = BANYAN_INT64;
  in.height = 1;
  in.width = how.size;
  for (int64_t d = 0; d < tensor.dim(); d++)
    (d < tensor.sparse_dim() ? in.height : in.width) *= static_cast<size_t>(tensor.size(d));
  in.count = static_cast<size_t>(tables.rows[i].numel());
  in.rows = tables.rows[i].data_ptr();
  in.values = tables.values[i].data_ptr();
  in.unique = tensor.is_coalesced();
}

// Memory of a result as a tensor, which keeps the results.
at::Tensor view_of(void *memory, const std::vector<int64_t> &shape, const at::TensorOptions &options,
                   const std::shared_ptr<Tables> &tables) {
  return at::from_blob(
      memory, shape, [tables](void *) {}, options);
}

// The tensor becomes the sum: sparse, each row once.
void take(const at::Tensor &tensor, const std::shared_ptr<Tables> &tables, size_t i) {
  at::NoGradGuard guard;
  const struct banyan_sparse &out = tables->out[i];
  const auto count = static_cast<int64_t>(out.count);
  std::vector<int64_t> shape = tables->values[i].sizes().vec();
  shape[0] = count;
  at::Tensor rows = view_of(out.rows, {1, count}, at::TensorOptions(at::kLong), tables);
  at::Tensor values = view_of(out.values, shape, tables->values[i].options(), tables);
  auto *impl = static_cast<at::SparseTensorImpl *>(tensor.unsafeGetTensorImpl());
  impl->set_indices_and_values_unsafe(tensor.sparse_dim() == 1 ? rows : indices_of(tensor, rows[0]), values);
  impl->set_coalesced(true);
}

void check_rows(const char *name, const at::Tensor &tensor) {
  BANYAN_REQUIRE(tensor.is_sparse() && tensor.device().is_cpu(), name, "a tensor is of layout ", tensor.layout(),
                 " on ", tensor.device(), ", where a COO tensor in the host's memory is needed");
  BANYAN_REQUIRE(tensor.sparse_dim() > 0, name, "a tensor has no sparse dimension");
}

} // namespace

Made Group::sparse(const Tensors &tensors, const c10d::AllreduceOptions &options) {
  const bool one = tensors.size() == 1;
  const char *name = one ? "all_reduce of a sparse tensor" : "all_reduce of sparse tensors";
  for (const auto &tensor : tensors) check_rows(name, tensor);
  check_alike(name, "tensors", tensors, "tensors[0]", tensors[0], false);
  Adding how = adding(name, tensors[0]._values(), options.reduceOp);
  BANYAN_REQUIRE((how.op == BANYAN_SUM || how.op == BANYAN_AVERAGE) && how.scale == 1, name,
                 "it takes the sum or the average");
  auto tables = std::make_shared<Tables>(tensors.size());
  for (size_t i = 0; i < tensors.size(); i++) fill(*tables, i, tensors[i], how);
  tables->take_memory(static_cast<size_t>(getSize()));
  struct banyan_sparse_call call = {};
  call.collective = BANYAN_ALLREDUCE;
  call.op = how.op;
  call.in = tables->in.data();
  call.out = tables->out.data();
  call.tables = tensors.size();
  call.deadline = seconds(options.timeout);
  Work::Parts parts = {tensors, tensors, nullptr, nullptr, ""};
  parts.finish = [tensors, tables] {
    tables->count();
    for (size_t i = 0; i < tensors.size(); i++) take(tensors[i], tables, i);
    tables->rows.clear(); // what went in need not live as long as the results
    tables->values.clear();
  };
  std::vector<struct banyan_request *> requests;
  auto comm = open();
  Origin origin = place_of_call();
  auto work = c10::make_intrusive<Work>(getRank(), one ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED,
                                        "banyan:all_reduce", tensors, std::move(parts));
  work->origin = std::move(origin);
  if (!work->origin.call) {
    struct banyan_submission submission = {};
    submission.sparse = &call;
    submission.n_sparse = 1;
    const char *named = work->origin.name.c_str();
    check_begun(banyan_submit(comm.get(), named, &submission, &requests.emplace_back()), name, named);
  } else {
    check_begun(banyan_sparse_start(comm.get(), &call, &requests.emplace_back()), name);
  }
  work->begun(std::move(requests));
  return work;
}

} // namespace banyan
