"""Sparse gradients of many embeddings in one exchange: for DDP as a communication hook, for others as a function."""
from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Tuple

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from .membership import backend_of


def without_rows(parameter: torch.Tensor) -> torch.Tensor:
    """A sparse gradient of this parameter that has none."""
    rows, values = torch.empty(1, 0, dtype=torch.int64), parameter.new_empty(0, *parameter.shape[1:])
    return torch.sparse_coo_tensor(rows, values, parameter.shape)


def _rows_of(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Its sparse gradient. A parameter that this rank's step did not use gets one without rows; so does one whose
    gradient zero_grad() has emptied, which PyTorch makes sparse in all dimensions."""
    gradient = parameter.grad
    if gradient is not None and gradient.layout != torch.sparse_coo:
        raise TypeError("allreduce_sparse_gradients: the gradient of a parameter is dense; give only parameters of "
                        "embeddings with sparse=True")
    if gradient is None or not gradient._nnz():
        parameter.grad = without_rows(parameter)
    return parameter.grad


def reduce_all(tensors: Iterable[torch.Tensor], group: Any, op: Any) -> None:
    """Replaces the tensors by their sums or averages: those of one type in one exchange."""
    options = dist.AllreduceCoalescedOptions()
    options.reduceOp = op
    if hasattr(options, "asyncOp"):
        options.asyncOp = False
    by_type: Dict[torch.dtype, List[torch.Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.dtype, []).append(tensor)
    backend = backend_of(group)
    for work in [backend.allreduce_coalesced(alike, options) for alike in by_type.values()]:
        work.wait()


def allreduce_sparse_gradients(parameters: Iterable[torch.nn.Parameter], group: Any = None,
                               average: bool = True) -> None:
    """Replaces the sparse gradients of all these parameters by their average, or sum, over the ranks of the group. All
    tables of one type go in one exchange, which waits for links with long delays as often as one table does. All ranks
    pass the same parameters in the same order; a parameter without a gradient takes part without rows. TypeError: a
    gradient is dense. Blocks."""
    reduce_all([_rows_of(parameter) for parameter in parameters], group,
            dist.ReduceOp.AVG if average else dist.ReduceOp.SUM)


def sparse_hook(group: Any = None, dense: Callable[[Any, Any], Any] = allreduce_hook) -> Callable[[Any, Any], Any]:
    """A communication hook of DDP that averages the sparse gradients of a model in one exchange for each type, when the
    last bucket of a backward pass is ready:

        model.register_comm_hook(None, banyan.torch.sparse_hook())

    Other buckets go to the hook `dense`, with the state that was registered; that of PyTorch's allreduce_hook is a group,
    or None. All ranks register it."""
    waiting: List[Tuple[torch.Tensor, Any]] = []

    def hook(state: Any, bucket: Any) -> Any:
        if bucket.index() == 0:
            waiting.clear()  # of a backward pass that failed
        if bucket.buffer().is_sparse:
            future = torch.futures.Future()
            waiting.append((bucket.buffer(), future))
        else:
            future = dense(state, bucket)
        if bucket.is_last():
            all_of_pass = waiting[:]
            waiting.clear()
            reduce_all([gradient for gradient, _ in all_of_pass], group, dist.ReduceOp.AVG)
            for gradient, ready in all_of_pass:
                ready.set_result(gradient)
        return future

    hook.__annotations__.clear()  # DDP compares them with its own types, and these are not evaluated
    return hook
