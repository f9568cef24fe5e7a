"""An optimiser whose step() averages the gradients of all ranks first, each submitted by the name of its parameter as soon as
the backward pass has made it.

    optimiser = banyan.torch.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    loss.backward()
    optimiser.step()
"""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple

import torch
import torch.distributed as dist

from .extension import load
from .named import Names
from .sparse import without_rows

_extension = load()


def _after_accumulation(parameter: torch.Tensor, function: Callable[[torch.Tensor], None]) -> Any:
    """Calls function(parameter) whenever a backward pass has added to its gradient. Returns what has to be kept meanwhile."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):  # from PyTorch 2.1 on
        return parameter.register_post_accumulate_grad_hook(function)
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    node.register_hook(lambda *_: function(parameter))
    return node


class GradientReducer:
    """Averages gradients of parameters over the ranks of a group, by name. distributed_optimizer makes one."""

    def __init__(self, parameters: Callable[[], Iterable[torch.Tensor]], names: Names, find_unused: bool,
                 steps: bool) -> None:
        """`parameters` gives all parameters, in the same order on all ranks."""
        self._parameters, self._names, self._find_unused, self._steps = parameters, names, find_unused, steps
        self._hooks: Dict[int, Any] = {}
        self._works: Dict[int, Tuple[torch.Tensor, torch.Tensor, Any]] = {}  # what is in flight
        self._made: Set[int] = set()  # gradients made by this rank's backward passes since the last synchronize()
        self._sparse: Set[int] = set()
        self._paused = self._begun = self.synchronized = False
        self.attach()

    def attach(self) -> None:
        """Follows parameters that are new, or need a gradient from now on."""
        for i, parameter in enumerate(self._parameters()):
            self._names.add(f"parameter {i}", parameter)
            if parameter.requires_grad and id(parameter) not in self._hooks:
                self._hooks[id(parameter)] = _after_accumulation(parameter, self._finished)

    @property
    def busy(self) -> bool:
        """Whether gradients have been submitted that nobody has waited for."""
        return bool(self._works)

    def _finished(self, parameter: torch.Tensor) -> None:
        self.synchronized = False
        self._made.add(id(parameter))
        if id(parameter) in self._works:
            raise RuntimeError(f"banyan: a backward pass has changed the gradient of {self._names.of(parameter)} while it is being "
                               "reduced: call step() or synchronize() after each backward pass, and those whose "
                               "gradients are accumulated inside `with optimiser.no_sync():`")
        if not self._paused and parameter.grad is not None:
            self._submit([(parameter, parameter.grad)])

    def _submit(self, gradients: List[Tuple[torch.Tensor, torch.Tensor]]) -> None:
        if self._steps and not self._begun:
            self._begun = True
            self._names.step()
        dense = [(parameter, gradient) for parameter, gradient in gradients if not gradient.is_sparse]
        for parameter, gradient in gradients:
            if gradient.is_sparse:
                self._sparse.add(id(parameter))
                self._works[id(parameter)] = (parameter, gradient, self._submit_sparse(parameter, gradient))
        if dense:
            work = self._names.submit(*zip(*dense))
            self._works.update({id(parameter): (parameter, gradient, work) for parameter, gradient in dense})

    def _submit_sparse(self, parameter: torch.Tensor, gradient: torch.Tensor) -> Any:
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.AVG
        backend = self._names.backend
        return _extension.run_callback(self._names.of(parameter), lambda _: backend.allreduce([gradient], options), None)

    def _without(self, parameter: torch.Tensor) -> torch.Tensor:
        """What a rank submits for a parameter that its backward pass did not use."""
        return without_rows(parameter) if id(parameter) in self._sparse else torch.zeros_like(parameter)

    def synchronize(self) -> None:
        """Blocks until the gradients of all parameters that need one are averages over the ranks. A parameter that this rank
        has not used takes part with zeros. Raises what operations ended with, see Names.submit."""
        self.attach()
        try:
            needed = [parameter for parameter in self._parameters() if parameter.requires_grad]
            missing = [parameter for parameter in needed if id(parameter) not in self._works]
            if missing:
                self._submit([(parameter, self._without(parameter) if parameter.grad is None else parameter.grad)
                              for parameter in missing])
            used = torch.tensor([not self._find_unused or id(parameter) in self._made for parameter in needed])
            if self._find_unused and needed:
                self._names.submit_one("used parameters", used, dist.ReduceOp.SUM).wait()
            for _, _, work in self._works.values():
                work.wait()
            for parameter, by_any in zip(needed, used):
                if by_any:
                    parameter.grad = self._works[id(parameter)][1]
        finally:  # what is still in flight keeps its memory by itself
            self._works.clear()
            self._made.clear()
            self._begun = False
        self.synchronized = True

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in the block submit nothing; their gradients are accumulated."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before


class _Distributed:
    """What distributed_optimizer adds to the class of an optimiser."""

    _reducer: GradientReducer

    def synchronize(self) -> None:
        """Blocks until all gradients are averages over the ranks, before they are clipped or looked at. A step() that follows
        does not do it again. See GradientReducer.synchronize."""
        self._reducer.synchronize()

    def no_sync(self) -> Any:
        """A context: backward passes inside it submit nothing, and their gradients are accumulated."""
        return self._reducer.no_sync()

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """The optimiser's step, with gradients that are averages over the ranks. Blocks until they are."""
        def reduced() -> Any:
            with torch.enable_grad():
                loss = closure() if closure else None
            if not self._reducer.synchronized:
                self._reducer.synchronize()
            return loss
        try:
            if closure:
                return super().step(reduced)  # type: ignore[misc]
            reduced()
            return super().step()  # type: ignore[misc]
        finally:
            self._reducer.synchronized = False

    def zero_grad(self, *arguments: Any, **options: Any) -> None:
        """The optimiser's zero_grad. RuntimeError: gradients are being reduced."""
        if self._reducer.busy:
            raise RuntimeError("banyan: zero_grad() while gradients are being reduced: call step() or synchronize() first")
        self._reducer.synchronized = False
        super().zero_grad(*arguments, **options)  # type: ignore[misc]

    def add_param_group(self, group: Dict[str, Any]) -> None:
        """The optimiser's add_param_group, on all ranks. The new parameters are named by their number."""
        super().add_param_group(group)  # type: ignore[misc]
        self._reducer.attach()


def distributed_optimizer(optimizer: torch.optim.Optimizer,
                          named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]] = None, group: Any = None,
                          find_unused_parameters: bool = False, steps: bool = True) -> torch.optim.Optimizer:
    """Lets step() of this optimiser use gradients averaged over the ranks of the group, and returns the optimiser.

    Each gradient is submitted by its parameter's name when the backward pass has made it, in any order on any rank, and is
    replaced by its average in place. named_parameters are those of the model, in the order of its layers: the first have
    the highest priority. What they do not name is called "parameter N", by its place in the optimiser. The optimiser gets two more
    methods, synchronize() and no_sync().

    All ranks make their optimisers in the same order, with the same parameters, which begin with the same values: the caller
    broadcasts them. A parameter that this rank did not use takes part with zeros. With `find_unused_parameters`, the gradient of
    one that no rank used stays as it is; this costs an exchange of a byte for each parameter in each step.
    `steps`: see NamedState. Parameters are in the host's memory.
    """
    names = Names((), group)
    own = {id(parameter) for entry in optimizer.param_groups for parameter in entry["params"]}
    for name, parameter in named_parameters or ():
        if id(parameter) in own:
            names.add(name, parameter)

    def parameters() -> Iterator[torch.Tensor]:
        for entry in optimizer.param_groups:
            yield from entry["params"]

    kind = type(optimizer)
    reducer = GradientReducer(parameters, names, find_unused_parameters, steps)
    optimizer.__class__ = type(kind.__name__, (_Distributed, kind), {"__module__": kind.__module__, "_reducer": reducer})
    return optimizer
