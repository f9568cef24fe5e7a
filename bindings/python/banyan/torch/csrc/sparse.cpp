// Sparse tensors: PyTorch's COO tensors are Banyan's rows, of which a number stands for all sparse dimensions.
#include "group.hpp"

#include <cstring>

namespace banyan {

namespace {

struct Rows {
  at::Tensor rows, values; // what goes in
  struct banyan_sparse in = {}, out = {};
  Rows() = default;
  Rows(const Rows &) = delete;
  Rows &operator=(const Rows &) = delete;
  ~Rows() {
    banyan_sparse_free(&out);
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

void fill(Rows &call, const at::Tensor &tensor, enum banyan_dtype dtype) {
  call.rows = row_numbers(tensor);
  call.values = tensor._values().contiguous();
  call.in.dtype = dtype;
  call.in.row_dtype = BANYAN_INT64;
  call.in.height = call.in.width = 1;
  for (int64_t d = 0; d < tensor.dim(); d++)
    (d < tensor.sparse_dim() ? call.in.height : call.in.width) *= static_cast<size_t>(tensor.size(d));
  call.in.count = static_cast<size_t>(call.rows.numel());
  call.in.rows = call.rows.data_ptr();
  call.in.values = call.values.data_ptr();
  call.in.unique = tensor.is_coalesced();
}

// The tensor becomes the sum: sparse, each row once.
void take(const at::Tensor &tensor, const Rows &call) {
  at::NoGradGuard guard;
  const auto count = static_cast<int64_t>(call.out.count);
  std::vector<int64_t> shape = call.values.sizes().vec();
  shape[0] = count;
  at::Tensor rows = at::empty({count}, at::kLong), values = at::empty(shape, call.values.options());
  if (count) std::memcpy(rows.data_ptr(), call.out.rows, rows.nbytes());
  if (values.nbytes()) std::memcpy(values.data_ptr(), call.out.values, values.nbytes());
  at::Tensor sum = at::_sparse_coo_tensor_unsafe(indices_of(tensor, rows), values, tensor.sizes());
  at::Tensor(tensor).copy_(sum._coalesced_(true)); // a detached one would be another one
}

} // namespace

Made Group::sparse(at::Tensor &tensor, const c10d::ReduceOp &op, std::chrono::milliseconds timeout) {
  const char *name = "allreduce of a sparse tensor";
  TORCH_CHECK(tensor.is_sparse() && tensor.device().is_cpu(), "banyan: ", name,
              ": a COO tensor in the host's memory is needed");
  Adding how = adding(name, tensor._values(), op);
  TORCH_CHECK((how.op == BANYAN_SUM || how.op == BANYAN_AVERAGE) && how.scale == 1, "banyan: ", name,
              " takes the sum or the average");
  TORCH_CHECK(tensor.sparse_dim() > 0, "banyan: ", name, ": it has no sparse dimension");
  auto rows = std::make_shared<Rows>();
  fill(*rows, tensor, how.dtype);
  struct banyan_sparse_call call = {};
  call.collective = BANYAN_ALLREDUCE;
  call.op = how.op;
  call.in = &rows->in;
  call.out = &rows->out;
  call.deadline = timeout.count() > 0 ? static_cast<double>(timeout.count()) / 1000 : 0;
  struct banyan_request *request = nullptr;
  calls_++;
  check(banyan_sparse_start(comm_, &call, &request));
  Work::Parts parts = {{tensor}, {tensor}, [tensor, rows] { take(tensor, *rows); }, nullptr};
  return c10::make_intrusive<Work>(getRank(), c10d::OpType::ALLREDUCE, "banyan:all_reduce", Tensors{tensor},
                                   std::move(parts), std::vector<struct banyan_request *>{request});
}

} // namespace banyan
