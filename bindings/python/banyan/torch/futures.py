"""Futures of Banyan's works. They are PyTorch's, but remember where they come from, for the calls that their callbacks make.

A callback runs in another thread when the call has ended, or at once in the one that attaches it, whichever comes last. This
differs between ranks, and so does the order of what callbacks call. So each callback gets a name that is the same on all
ranks, from which the backend makes names of its calls (csrc/origin.hpp).
"""
from __future__ import annotations

import itertools
from typing import Any, Callable

import torch

from .extension import load

_extension = load()


class Future(torch.futures.Future):  # type: ignore[misc]
    """What work.get_future() and future.then(...) return."""

    def __init__(self, other: Any, origin: str) -> None:
        """The same as another future. An empty origin: calls of callbacks cannot be named."""
        super().__init__()
        _extension.share(self, other)
        self._origin, self._callbacks = origin, itertools.count()

    def _named(self, callback: Callable[[Any], Any]) -> "tuple[str, Callable[[Any], Any]]":
        name = f"{self._origin}, callback {next(self._callbacks)}" if self._origin else ""
        return name, lambda future: _extension.run_callback(name, callback, future)

    def then(self, callback: Callable[[Any], Any]) -> "Future":
        """As torch.futures.Future's. The callback may make calls, and wait for them."""
        name, named = self._named(callback)
        return Future(super().then(named), name)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """As torch.futures.Future's. The callback may make calls, and wait for them."""
        super().add_done_callback(self._named(callback)[1])


def install() -> None:
    """Lets the works of the compiled backend return such futures."""
    if _extension.__name__ == "banyan_torch":
        get_future = _extension.Work.__base__.get_future
        _extension.Work.get_future = lambda work: Future(get_future(work), work.origin)
