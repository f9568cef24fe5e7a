// What PyTorch's tensors are to Banyan: types, operations, memory in one piece.
#pragma once

#include <banyan/banyan.h>

#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "errors.hpp"

namespace banyan {

// Elements as Banyan sees them. What is only moved goes as bytes, whatever its type.
struct Elements {
  enum banyan_dtype dtype;
  size_t size; // of Banyan's elements in one of the tensor's
};
Elements elements_to_move(const at::Tensor &tensor);

// How to add: the type, the operation and the factor before it.
struct Adding {
  enum banyan_dtype dtype;
  size_t size; // of Banyan's elements in one of the tensor's: two of a complex number
  enum banyan_op op;
  double scale;
};
// Throws what is not possible, naming `call`. Truth values are added as their "or", complex numbers by their parts.
Adding adding(const char *call, const at::Tensor &tensor, const c10d::ReduceOp &op);

// A call that adds `count` elements of the tensor's type, without its buffers.
struct banyan_call summing(enum banyan_collective collective, const char *name, const at::Tensor &one, int64_t count,
                           const c10d::ReduceOp &op);

// Throw unless it is a dense tensor in this machine's memory; an output must not overlap itself either. `argument` is
// its name in torch.distributed, of a list where there are several.
void check_input(const char *call, const char *argument, const at::Tensor &tensor);
void check_output(const char *call, const char *argument, const at::Tensor &tensor);
void check_inputs(const char *call, const char *argument, const std::vector<at::Tensor> &tensors);
void check_outputs(const char *call, const char *argument, const std::vector<at::Tensor> &tensors);
// Throw unless it has, or all have, the type of `like`, which is the argument `other`, and in lists with `count` as
// many elements.
void check_type(const char *call, const char *argument, const at::Tensor &tensor, const char *other,
                const at::Tensor &like);
void check_alike(const char *call, const char *argument, const std::vector<at::Tensor> &tensors, const char *other,
                 const at::Tensor &like, bool count = true);

// The tensor itself where its elements lie in one piece and in order, else a copy.
at::Tensor in_one_piece(const at::Tensor &tensor);
// The same for an output; `finish` gets what copies it back, after what was there before.
at::Tensor to_be_filled(const at::Tensor &tensor, bool keep, std::function<void()> &finish);
bool overlap(const at::Tensor &a, const at::Tensor &b);

// All tensors' elements one after the other: a view where they lie so already, else memory to be filled, or a copy.
at::Tensor lying_together(const std::vector<at::Tensor> &tensors);
at::Tensor joined(const std::vector<at::Tensor> &tensors);
// Puts the elements of `from` back into the tensors, one after the other.
void split_into(const std::vector<at::Tensor> &tensors, const at::Tensor &from);

} // namespace banyan
