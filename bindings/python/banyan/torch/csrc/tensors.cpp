#include "tensors.hpp"

#include <cstring>

#include <ATen/MemoryOverlap.h>
#include <torch/csrc/api/include/torch/version.h>

namespace banyan {

namespace {

bool known(at::ScalarType type, enum banyan_dtype *out) {
  switch (type) {
  case at::kFloat: *out = BANYAN_FLOAT32; return true;
  case at::kDouble: *out = BANYAN_FLOAT64; return true;
  case at::kHalf: *out = BANYAN_FLOAT16; return true;
  case at::kBFloat16: *out = BANYAN_BFLOAT16; return true;
  case at::kChar: *out = BANYAN_INT8; return true;
  case at::kByte:
  case at::kBool: *out = BANYAN_UINT8; return true;
  case at::kInt: *out = BANYAN_INT32; return true;
  case at::kLong: *out = BANYAN_INT64; return true;
  default: return false;
  }
}

enum banyan_op op_of(const char *call, const c10d::ReduceOp &op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
  case c10d::ReduceOp::SUM:
  case c10d::ReduceOp::PREMUL_SUM: return BANYAN_SUM;
  case c10d::ReduceOp::AVG: return BANYAN_AVERAGE;
  case c10d::ReduceOp::PRODUCT: return BANYAN_PRODUCT;
  case c10d::ReduceOp::MIN: return BANYAN_MIN;
  case c10d::ReduceOp::MAX: return BANYAN_MAX;
  case c10d::ReduceOp::BAND: return BANYAN_AND;
  case c10d::ReduceOp::BOR: return BANYAN_OR;
  case c10d::ReduceOp::BXOR: return BANYAN_XOR;
  default: TORCH_CHECK(false, "banyan: ", call, ": there is no such operation");
  }
}

enum banyan_op op_of_truth(const char *call, enum banyan_op op) {
  TORCH_CHECK(op != BANYAN_AVERAGE, "banyan: ", call, ": an average of truth values is not defined");
  if (op == BANYAN_SUM) return BANYAN_OR;
  return op == BANYAN_PRODUCT ? BANYAN_AND : op;
}

double factor(const char *call, const c10d::ReduceOp &op) {
  if (static_cast<c10d::ReduceOp::RedOpType>(op) != c10d::ReduceOp::PREMUL_SUM) return 1;
  auto *supplement = dynamic_cast<c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
  TORCH_CHECK(supplement, "banyan: ", call, ": PREMUL_SUM without its factor");
#if TORCH_VERSION_MAJOR >= 2
  const at::Tensor &tensor = supplement->tensor_factor;
#else
  const at::Tensor tensor = supplement->tensor_factors.empty() ? at::Tensor() : supplement->tensor_factors[0];
#endif
  return tensor.defined() ? tensor.item<double>() : supplement->double_factor;
}

} // namespace

Elements elements_to_move(const at::Tensor &tensor) {
  enum banyan_dtype dtype;
  if (known(tensor.scalar_type(), &dtype)) return {dtype, 1};
  return {BANYAN_UINT8, static_cast<size_t>(tensor.element_size())};
}

Adding adding(const char *call, const at::Tensor &tensor, const c10d::ReduceOp &op) {
  enum banyan_dtype dtype;
  enum banyan_op kind = op_of(call, op);
  const bool parts = tensor.is_complex() && (kind == BANYAN_SUM || kind == BANYAN_AVERAGE);
  TORCH_CHECK(
      known(parts ? c10::toRealValueType(tensor.scalar_type()) : tensor.scalar_type(), &dtype), "banyan: ", call, " (",
      banyan_op_name(kind), ") of ", tensor.scalar_type(),
      " is not possible: there are float32, float64, float16, bfloat16, int8, uint8, int32, int64 and bool, and "
      "sum and average of complex numbers; convert the tensor with tensor.to()");
  if (tensor.scalar_type() == at::kBool) kind = op_of_truth(call, kind);
  TORCH_CHECK(!at::isFloatingType(tensor.scalar_type()) || kind < BANYAN_AND, "banyan: ", call, ": ",
              banyan_op_name(kind), " is for whole numbers, not for ", tensor.scalar_type());
  return {dtype, parts ? 2u : 1u, kind, factor(call, op)};
}

struct banyan_call summing(enum banyan_collective collective, const char *name, const at::Tensor &one, int64_t count,
                           const c10d::ReduceOp &op) {
  Adding how = adding(name, one, op);
  struct banyan_call call = {};
  call.collective = collective;
  call.dtype = how.dtype;
  call.op = how.op;
  call.scale = how.scale;
  call.count = static_cast<size_t>(count) * how.size;
  return call;
}

static void check_memory(const char *call, const char *argument, const at::Tensor &tensor) {
  TORCH_CHECK(tensor.defined(), "banyan: ", call, ": ", argument, " is undefined: give a tensor");
  TORCH_CHECK(tensor.layout() == at::kStrided, "banyan: ", call, ": ", argument, " has the layout ", tensor.layout(),
              ", where a dense tensor is needed: call it with tensor.to_dense()");
  TORCH_CHECK(tensor.device().is_cpu(), "banyan: ", call, ": ", argument, " is on ", tensor.device(),
              "; banyan works in the host's memory: call it with tensor.cpu()");
}

void check_input(const char *call, const at::Tensor &tensor) {
  check_memory(call, "the input", tensor);
}

void check_output(const char *call, const at::Tensor &tensor) {
  check_memory(call, "the output", tensor);
  TORCH_CHECK(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, "banyan: ", call,
              ": elements of the output share memory (is it expanded?): give a tensor.contiguous()");
}

void check_alike(const char *call, const std::vector<at::Tensor> &tensors, const at::Tensor &like, bool count) {
  for (size_t i = 0; i < tensors.size(); i++) {
    const at::Tensor &tensor = tensors[i];
    const std::string which = tensors.size() == 1 ? "a tensor" : "tensor " + std::to_string(i) + " of a list";
    TORCH_CHECK(tensor.scalar_type() == like.scalar_type(), "banyan: ", call, ": ", which, " is of ",
                tensor.scalar_type(), ", where ", like.scalar_type(), " is needed: convert it with tensor.to()");
    TORCH_CHECK(!count || tensor.numel() == like.numel(), "banyan: ", call, ": ", which, " has ", tensor.numel(),
                " elements, where each one needs ", like.numel());
  }
}

// Whether memory has the elements themselves, in order: not of a view that PyTorch conjugates or negates when it is
// read.
static bool lies_plainly(const at::Tensor &tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor in_one_piece(const at::Tensor &tensor) {
  return tensor.resolve_conj().resolve_neg().contiguous();
}

at::Tensor to_be_filled(const at::Tensor &tensor, bool keep, std::function<void()> &finish) {
  if (lies_plainly(tensor)) return tensor;
  at::Tensor filled = keep ? in_one_piece(tensor) : at::empty(tensor.sizes(), tensor.options());
  finish = [tensor, filled, before = std::move(finish)] {
    if (before) before();
    at::NoGradGuard guard;
    tensor.detach().copy_(filled);
  };
  return filled;
}

bool overlap(const at::Tensor &a, const at::Tensor &b) {
  const char *x = static_cast<const char *>(a.data_ptr()), *y = static_cast<const char *>(b.data_ptr());
  return x < y + b.nbytes() && y < x + a.nbytes();
}

at::Tensor lying_together(const std::vector<at::Tensor> &tensors) {
  int64_t total = 0;
  bool together = true;
  for (const auto &tensor : tensors) {
    const char *expected = static_cast<const char *>(tensors[0].data_ptr()) + total * tensor.element_size();
    together = together && lies_plainly(tensor) && (!tensor.numel() || tensor.data_ptr() == expected) &&
               tensor.storage().is_alias_of(tensors[0].storage());
    total += tensor.numel();
  }
  if (!together) return at::empty({total}, tensors[0].options());
  return tensors[0].detach().as_strided({total}, {1});
}

at::Tensor joined(const std::vector<at::Tensor> &tensors) {
  at::Tensor all = lying_together(tensors);
  if (tensors[0].numel() && all.data_ptr() == tensors[0].data_ptr()) return all;
  char *to = static_cast<char *>(all.data_ptr());
  for (const auto &tensor : tensors) {
    at::Tensor piece = in_one_piece(tensor);
    if (piece.nbytes()) std::memcpy(to, piece.data_ptr(), piece.nbytes());
    to += piece.nbytes();
  }
  return all;
}

void split_into(const std::vector<at::Tensor> &tensors, const at::Tensor &from) {
  if (tensors[0].numel() && from.data_ptr() == tensors[0].data_ptr()) return;
  int64_t at = 0;
  for (const auto &tensor : tensors) {
    if (!tensor.numel()) continue;
    if (lies_plainly(tensor)) {
      std::memcpy(tensor.data_ptr(), static_cast<char *>(from.data_ptr()) + at * from.element_size(), tensor.nbytes());
    } else {
      at::NoGradGuard guard;
      tensor.detach().copy_(from.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    }
    at += tensor.numel();
  }
}

} // namespace banyan
