// Sparse tensors: PyTorch's COO tensors are Banyan's rows, of which a number stands for all sparse dimensions.
#include "group.hpp"

#include <cstring>

namespace banyan {

namespace {

// The tables of one exchange. out[0] holds the memory of all results.
struct Tables {
  Tensors rows, values; // what goes in
  std::vector<struct banyan_sparse> in, out;
  explicit Tables(size_t n) : rows(n), values(n), in(n), out(n) {}
  Tables(const Tables &) = delete;
  Tables &operator=(const Tables &) = delete;
  ~Tables() {
    banyan_sparse_free(out.data());
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

// The tensor becomes the sum: sparse, each row once.
void take(const at::Tensor &tensor, const Tables &tables, size_t i) {
  at::NoGradGuard guard;
  const struct banyan_sparse &out = tables.out[i];
  const auto count = static_cast<int64_t>(out.count);
  std::vector<int64_t> shape = tables.values[i].sizes().vec();
  shape[0] = count;
  at::Tensor rows = at::empty({count}, at::kLong), values = at::empty(shape, tables.values[i].options());
  if (count) std::memcpy(rows.data_ptr(), out.rows, rows.nbytes());
  if (values.nbytes()) std::memcpy(values.data_ptr(), out.values, values.nbytes());
  at::Tensor sum = at::_sparse_coo_tensor_unsafe(indices_of(tensor, rows), values, tensor.sizes());
  at::Tensor(tensor).copy_(sum._coalesced_(true)); // a detached one would be another one
}

void check_rows(const char *name, const at::Tensor &tensor) {
  TORCH_CHECK(tensor.is_sparse() && tensor.device().is_cpu(), "banyan: ", name,
              ": a COO tensor in the host's memory is needed");
  TORCH_CHECK(tensor.sparse_dim() > 0, "banyan: ", name, ": it has no sparse dimension");
}

} // namespace

Made Group::sparse(const Tensors &tensors, const c10d::ReduceOp &op, std::chrono::milliseconds timeout) {
  const bool one = tensors.size() == 1;
  const char *name = one ? "allreduce of a sparse tensor" : "allreduce of sparse tensors";
  for (const auto &tensor : tensors) check_rows(name, tensor);
  check_alike(name, tensors, tensors[0], false);
  Adding how = adding(name, tensors[0]._values(), op);
  TORCH_CHECK((how.op == BANYAN_SUM || how.op == BANYAN_AVERAGE) && how.scale == 1, "banyan: ", name,
              " takes the sum or the average");
  auto tables = std::make_shared<Tables>(tensors.size());
  for (size_t i = 0; i < tensors.size(); i++) fill(*tables, i, tensors[i], how);
  struct banyan_sparse_call call = {};
  call.collective = BANYAN_ALLREDUCE;
  call.op = how.op;
  call.in = tables->in.data();
  call.out = tables->out.data();
  call.tables = tensors.size();
  call.deadline = timeout.count() > 0 ? static_cast<double>(timeout.count()) / 1000 : 0;
  Origin origin = place_of_call();
  struct banyan_request *request = nullptr;
  if (origin.call) {
    check(banyan_sparse_start(open().get(), &call, &request));
  } else {
    struct banyan_submission submission = {};
    submission.sparse = &call;
    submission.n_sparse = 1;
    check(banyan_submit(open().get(), origin.name.c_str(), &submission, &request));
  }
  auto finish = [tensors, tables] {
    for (size_t i = 0; i < tensors.size(); i++) take(tensors[i], *tables, i);
  };
  auto work = c10::make_intrusive<Work>(getRank(), one ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED,
                                        "banyan:all_reduce", tensors, Work::Parts{tensors, tensors, finish, nullptr},
                                        std::vector<struct banyan_request *>{request});
  work->origin = std::move(origin);
  return work;
}

} // namespace banyan
