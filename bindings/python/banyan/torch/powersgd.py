"""PowerSGD (Vogels et al., https://arxiv.org/abs/1905.13727) as a communication hook of DDP: a gradient with many elements travels as
two thin matrices, whose product is near it. What one step leaves out is added to the next step's gradient.

    model = DistributedDataParallel(network)
    model.register_comm_hook(banyan.torch.PowerSGDState(model, rank=2), banyan.torch.power_sgd_hook)

All exchanges have the names of parameters, so that buckets may proceed in any order, and the result does not depend on
how DDP divides parameters into buckets.
"""
from __future__ import annotations

import hashlib
from typing import Any, Dict, List, Tuple

import torch
import torch.distributed as dist

from .named import Names, named_hook


class PowerSGDState:
    """The state of power_sgd_hook for a model in DistributedDataParallel."""

    def __init__(self, model: torch.nn.parallel.DistributedDataParallel, rank: int = 1, start_iteration: int = 1000,
                 min_compression_rate: float = 2, seed: int = 0, steps: bool = True) -> None:
        """`rank`: the columns of both matrices. The first `start_iteration` backward passes average gradients as they are.
        A gradient is compressed if it has at least `min_compression_rate` times as many elements as both matrices.
        `seed` is that of the first matrices. All arguments are the same on all ranks. `steps`: see NamedState."""
        self.group = model.process_group
        self.names = Names(model.module.named_parameters(), self.group)
        self.steps = steps
        self.start_iteration, self.iteration = start_iteration, 0
        self._rank, self._rate = rank, min_compression_rate
        # Of each parameter, by its id: what the last step left out, and the matrix to begin the next one with.
        self.errors: Dict[int, torch.Tensor] = {}
        self.starts: Dict[int, torch.Tensor] = {}
        for name, parameter in model.module.named_parameters():
            if self.compresses(parameter):
                self.starts[id(parameter)] = self._first(f"{seed} {name}", parameter)

    def rank_of(self, parameter: torch.Tensor) -> int:
        rows, columns = _shape(parameter)
        return min(self._rank, rows, columns)

    def compresses(self, parameter: torch.Tensor) -> bool:
        """Whether the gradient of this parameter travels as two matrices."""
        rows, columns = _shape(parameter)
        return parameter.dim() > 1 and rows * columns >= self._rate * (rows + columns) * self.rank_of(parameter)

    def _first(self, text: str, parameter: torch.Tensor) -> torch.Tensor:
        """The same on all ranks, and however parameters are divided into buckets."""
        generator = torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big"))
        drawn = torch.randn(_shape(parameter)[1], self.rank_of(parameter), generator=generator)
        return torch.linalg.qr(drawn.to(_computed(parameter.dtype)))[0]


def _shape(parameter: torch.Tensor) -> Tuple[int, int]:
    rows = parameter.shape[0] if parameter.dim() else 1
    return rows, parameter.numel() // max(rows, 1)


def _computed(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


class _Matrix:
    """The gradient of one parameter on its way."""

    def __init__(self, state: PowerSGDState, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        self.parameter, self._state = parameter, state
        self._gradient = gradient.view(_shape(parameter))
        self._wanted = self._gradient.to(_computed(gradient.dtype), copy=True)  # with what was left out before
        if id(parameter) in state.errors:
            self._wanted += state.errors[id(parameter)]
        self.columns = self._wanted @ state.starts[id(parameter)]
        self.rows = torch.empty(0)

    def project(self) -> None:
        """`columns` are the average of all ranks: makes this rank's part of `rows`."""
        self.columns = torch.linalg.qr(self.columns)[0]
        self.rows = self._wanted.t() @ self.columns

    def expand(self) -> None:
        """`rows` are the average, too: the gradient becomes the product."""
        product = self.columns @ self.rows.t()
        self._state.errors[id(self.parameter)] = self._wanted.sub_(product)
        self._state.starts[id(self.parameter)] = torch.linalg.qr(self.rows)[0]
        self._gradient.copy_(product)


def _submit(state: PowerSGDState, prefix: str, matrices: List[_Matrix], tensors: List[torch.Tensor]) -> dist.Work:
    return state.names.submit([matrix.parameter for matrix in matrices], tensors, prefix=prefix)


def power_sgd_hook(state: PowerSGDState, bucket: dist.GradBucket) -> torch.futures.Future:
    """A communication hook of DDP: gradients of matrices travel compressed, others as they are."""
    if bucket.index() == 0:
        state.iteration += 1
    if state.iteration <= state.start_iteration or bucket.buffer().is_sparse:
        return named_hook(state, bucket)  # type: ignore[arg-type]
    if state.steps and bucket.index() == 0:
        state.names.step()
    parts = list(zip(bucket.parameters(), bucket.gradients()))
    with torch.no_grad():
        matrices = [_Matrix(state, *part) for part in parts if id(part[0]) in state.starts]
    plain = [part for part in parts if id(part[0]) not in state.starts]
    whole = state.names.submit(*zip(*plain)) if plain else None
    if not matrices:
        return whole.get_future().then(lambda _: bucket.buffer())

    def finish(future: Any) -> torch.Tensor:
        future.value()  # raises what the call has ended with
        with torch.no_grad():
            for matrix in matrices:
                matrix.project()
            _submit(state, "rows of ", matrices, [matrix.rows for matrix in matrices]).wait()
            for matrix in matrices:
                matrix.expand()
        if whole:
            whole.wait()
        return bucket.buffer()
    return _submit(state, "columns of ", matrices, [matrix.columns for matrix in matrices]).get_future().then(finish)


power_sgd_hook.__annotations__.clear()
