"""Gradients that are reduced by the names of their parameters.

Ranks submit gradients in any order. Each is reduced once all ranks have submitted it, and of those that are ready at
once, the first layer's goes first: the next step needs it first.

    model = DistributedDataParallel(network)
    model.register_comm_hook(banyan.torch.NamedState(model), banyan.torch.named_hook)
"""
from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from .extension import load
from .membership import backend_of

_extension = load()
_LONGEST = 200  # bytes of a name, so that what is added fits in the library's 255


def _cut(name: str) -> str:
    text = name.encode()
    if len(text) <= _LONGEST:
        return name
    return text[:_LONGEST - 17].decode(errors="ignore") + " " + hashlib.sha256(text).hexdigest()[:16]


class Names:
    """The names and priorities under which gradients of parameters are submitted to a group.

    All ranks make their Names of a group in the same order, with the same parameters. The first layers, which are those named
    first, get the highest priorities. The names of a group's second Names end with "#1", and so on: two models
    may have equal names.
    """

    def __init__(self, named_parameters: Iterable[Tuple[str, torch.Tensor]], group: Any = None) -> None:
        self.backend = backend_of(group)
        number = _extension.next_submitter(self.backend)
        self._suffix = f"#{number}" if number else ""
        self._names: Dict[int, Tuple[str, int]] = {}
        self._kept: List[torch.Tensor] = []  # so that no other parameter gets the id of one that is gone
        for name, parameter in named_parameters:
            self.add(name, parameter)

    def add(self, name: str, parameter: torch.Tensor) -> None:
        """One more parameter, which comes after all others. One that is there keeps its name."""
        if id(parameter) not in self._names:
            self._names[id(parameter)] = (_cut(name) + self._suffix, -len(self._kept))
            self._kept.append(parameter)

    def _entry(self, parameter: torch.Tensor) -> Tuple[str, int]:
        if id(parameter) not in self._names:
            raise ValueError(f"banyan: a parameter of the shape {tuple(parameter.shape)} has no name: it was not among the named "
                             "parameters")
        return self._names[id(parameter)]

    def of(self, parameter: torch.Tensor) -> str:
        """Its name. ValueError: it has none."""
        return self._entry(parameter)[0]

    def submit(self, parameters: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor],
               result: Optional[Sequence[torch.Tensor]] = None, prefix: str = "", op: Any = dist.ReduceOp.AVG) -> dist.Work:
        """Submits a tensor for each parameter, under the parameter's name behind `prefix`, with one message to other ranks.

        Each tensor is replaced by its average (or what `op` says) over the ranks. It lies in the host's memory, has any shape
        and one of the types that the group adds, and belongs to the operation until the work has ended; where it does not
        lie in one piece, it is copied. Does not block. Returns one Work for all of them, whose result is `result`, by default the
        tensors. banyan.RequestError: an operation of a name has not ended. banyan.Mismatch, from here or from wait(): another
        rank submitted another type, shape or operation under the name; the group can be used afterwards.
        """
        found = [self._entry(parameter) for parameter in parameters]
        return _extension.submit(self.backend, [prefix + name for name, _ in found], [priority for _, priority in found],
                                 list(tensors), list(tensors if result is None else result), op, 0.0)

    def submit_one(self, name: str, tensor: torch.Tensor, op: Any) -> dist.Work:
        """Submits a tensor under a name that is no parameter's, with priority 0. See submit."""
        return _extension.submit(self.backend, [_cut(name) + self._suffix], [0], [tensor], [tensor], op, 0.0)

    def step(self) -> None:
        """Begins the next iteration, on all ranks or on none. Does not block. See banyan.Communicator.step."""
        _extension.step(self.backend)


class NamedState:
    """The state of named_hook for a model in DistributedDataParallel."""

    def __init__(self, model: torch.nn.parallel.DistributedDataParallel, steps: bool = True) -> None:
        """`steps`: begin an iteration with each backward pass. A program that calls Communicator.step itself gives
        False. All ranks make their states in the same order."""
        self.group = model.process_group
        self.names = Names(model.module.named_parameters(), self.group)
        self.steps = steps


def named_hook(state: NamedState, bucket: dist.GradBucket) -> torch.futures.Future:
    """A communication hook of DDP that averages each gradient under its parameter's name, in the bucket's memory.

    Buckets may become ready in any order on any rank. A sparse gradient, which has a bucket for itself, is averaged by an
    ordinary call.
    """
    buffer = bucket.buffer()
    if state.steps and bucket.index() == 0:
        state.names.step()
    if buffer.is_sparse:
        work = dist.all_reduce(buffer, op=dist.ReduceOp.AVG, group=state.group, async_op=True)
    else:
        work = state.names.submit(bucket.parameters(), bucket.gradients(), [buffer])
    return work.get_future().then(lambda future: future.value()[0])


# DDP compares annotations with types, which are texts in this file.
named_hook.__annotations__.clear()
