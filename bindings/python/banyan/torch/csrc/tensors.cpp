#include "tensors.hpp"

#include <algorithm>
#include <cstring>

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
  default: refuse(call, "there is no such operation");
  }
}

enum banyan_op op_of_truth(const char *call, enum banyan_op op) {
  BANYAN_REQUIRE(op != BANYAN_AVERAGE, call, "an average of truth values is not defined");
  if (op == BANYAN_SUM) return BANYAN_OR;
  return op == BANYAN_PRODUCT ? BANYAN_AND : op;
}

double factor(const char *call, const c10d::ReduceOp &op) {
  if (static_cast<c10d::ReduceOp::RedOpType>(op) != c10d::ReduceOp::PREMUL_SUM) return 1;
  auto *supplement = dynamic_cast<c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
  BANYAN_REQUIRE(supplement, call, "PREMUL_SUM without its factor");
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
  BANYAN_REQUIRE(
      known(parts ? c10::toRealValueType(tensor.scalar_type()) : tensor.scalar_type(), &dtype), call, "the operation ",
      banyan_op_name(kind), " of ", tensor.scalar_type(),
      " is not possible: there are float32, float64, float16, bfloat16, int8, uint8, int32, int64 and bool, and "
      "sum and average of complex numbers; convert the tensor with tensor.to()");
  if (tensor.scalar_type() == at::kBool) kind = op_of_truth(call, kind);
  BANYAN_REQUIRE(!at::isFloatingType(tensor.scalar_type()) || kind < BANYAN_AND, call, banyan_op_name(kind),
                 " is for whole numbers, not for ", tensor.scalar_type());
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

namespace {

// A tensor that a call was given: "tensor", or "tensor_list[1]".
struct Argument {
  const char *call, *name;
  const at::Tensor &tensor;
  int64_t index = -1;
};

std::ostream &operator<<(std::ostream &out, const Argument &argument) {
  out << argument.name;
  return argument.index < 0 ? out : out << '[' << argument.index << ']';
}

// The elements lie within the tensor's storage. FSDP and others free the storage of tensors that they do not need.
bool has_memory(const at::Tensor &tensor) {
  int64_t last = tensor.storage_offset();
  for (int64_t d = 0; d < tensor.dim(); d++) last += (tensor.size(d) - 1) * tensor.stride(d);
  return !tensor.numel() || static_cast<size_t>(last + 1) * tensor.element_size() <= tensor.storage().nbytes();
}

// Whether two elements may have one place. Exact but for interleaved dimensions, which none of PyTorch's functions
// makes.
bool overlaps_itself(const at::Tensor &tensor) {
  std::vector<std::pair<int64_t, int64_t>> dimensions; // stride and size
  for (int64_t d = 0; d < tensor.dim(); d++)
    if (tensor.size(d) > 1) dimensions.emplace_back(tensor.stride(d), tensor.size(d));
  std::sort(dimensions.begin(), dimensions.end());
  int64_t reach = 0; // the last place of the dimensions so far
  for (auto [stride, size] : dimensions) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

void check_memory(const Argument &argument) {
  const at::Tensor &tensor = argument.tensor;
  const char *call = argument.call;
  BANYAN_REQUIRE(tensor.defined(), call, argument, " is undefined: give a tensor");
  BANYAN_REQUIRE(tensor.device().is_cpu(), call, argument, " is on ", tensor.device(),
                 "; banyan works in the host's memory: call it with tensor.cpu()");
  BANYAN_REQUIRE(tensor.layout() == at::kStrided && !tensor.is_nested(), call, argument, " has the layout ",
                 tensor.is_nested() ? "Nested" : c10::str(tensor.layout()),
                 ", where a dense tensor is needed: call it with ",
                 tensor.is_nested() ? "tensor.to_padded_tensor()" : "tensor.to_dense()");
  BANYAN_REQUIRE(!tensor.is_quantized(), call, argument, " is quantized (", tensor.scalar_type(),
                 "), and its scale would not be sent: call it with tensor.dequantize() or tensor.int_repr()");
  BANYAN_REQUIRE(has_memory(tensor), call, argument, " has the shape ", tensor.sizes(), ", but its storage has only ",
                 tensor.storage().nbytes(), " bytes: was it freed, as FSDP frees parameters between their uses?");
}

void check_filled(const Argument &argument) {
  check_memory(argument);
  BANYAN_REQUIRE(argument.tensor.is_contiguous() || !overlaps_itself(argument.tensor), argument.call, "elements of ",
                 argument, " share memory (is it expanded?): give a tensor.contiguous()");
}

void check_type_of(const Argument &argument, const char *other, const at::Tensor &like) {
  BANYAN_REQUIRE(argument.tensor.scalar_type() == like.scalar_type(), argument.call, argument, " is of ",
                 argument.tensor.scalar_type(), ", but ", other, " is of ", like.scalar_type(),
                 ": convert one with tensor.to()");
}

} // namespace

void check_input(const char *call, const char *argument, const at::Tensor &tensor) {
  check_memory({call, argument, tensor});
}

void check_output(const char *call, const char *argument, const at::Tensor &tensor) {
  check_filled({call, argument, tensor});
}

void check_inputs(const char *call, const char *argument, const std::vector<at::Tensor> &tensors) {
  for (size_t i = 0; i < tensors.size(); i++) check_memory({call, argument, tensors[i], static_cast<int64_t>(i)});
}

void check_outputs(const char *call, const char *argument, const std::vector<at::Tensor> &tensors) {
  for (size_t i = 0; i < tensors.size(); i++) check_filled({call, argument, tensors[i], static_cast<int64_t>(i)});
}

void check_type(const char *call, const char *argument, const at::Tensor &tensor, const char *other,
                const at::Tensor &like) {
  check_type_of({call, argument, tensor}, other, like);
}

void check_alike(const char *call, const char *argument, const std::vector<at::Tensor> &tensors, const char *other,
                 const at::Tensor &like, bool count) {
  for (size_t i = 0; i < tensors.size(); i++) {
    const Argument one = {call, argument, tensors[i], static_cast<int64_t>(i)};
    check_type_of(one, other, like);
    BANYAN_REQUIRE(!count || tensors[i].numel() == like.numel(), call, one, " has ", tensors[i].numel(),
                   " elements, but ", other, " has ", like.numel(), ": give tensors of one size");
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
