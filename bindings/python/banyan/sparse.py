"""Row-sparse tensors: a table of which only some rows are there, as in the gradient of an embedding."""
from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from .buffers import memory
from .errors import RequestError
from .library import Sparse, SparseCall, lib

WAYS = ("chosen", "padded", "gather", "broadcast", "merge", "dense")


class SparseResult(NamedTuple):
    """Rows and their values as NumPy arrays; `counts`: of allgather, how many each rank had; `way`: how they went."""
    rows: Any
    values: Any
    counts: Optional[Tuple[int, ...]]
    way: str


class Exchange:
    """What a sparse call needs while it is under way."""

    def __init__(self, collective: int, op: int, rows: Any, values: Any, height: int, way: str, unique: bool,
                 size: int, deadline: float) -> None:
        import numpy

        self._numpy = numpy
        self.rows, self.values = numpy.ascontiguousarray(rows), numpy.ascontiguousarray(values)
        if way not in WAYS:
            raise RequestError(f"there is no way {way!r}; there are {', '.join(WAYS)}")
        if self.rows.ndim != 1 or self.values.ndim < 1 or len(self.values) != len(self.rows):
            raise RequestError(f"sparse: {self.rows.shape} row numbers and values of shape {self.values.shape}: there must "
                               "be one row of values for each number")
        numbers, elements = memory(self.rows, what="rows"), memory(self.values, what="values")
        width = int(numpy.prod(self.values.shape[1:], dtype=int))
        self.mine = Sparse(elements.dtype, numbers.dtype, height, width, len(self.rows), numbers.address,
                           elements.address, unique)
        self.sum = Sparse()
        self.counts, self.taken = (c_size_t * size)(), c_int()
        self.call = SparseCall(collective, op, WAYS.index(way), ctypes.pointer(self.mine), ctypes.pointer(self.sum),
                               self.counts, ctypes.pointer(self.taken), 0, deadline)
        self.gathers = collective != 0

    def _copy(self, address: Optional[int], shape: Tuple[int, ...], dtype: Any) -> Any:
        array = self._numpy.empty(shape, dtype)
        if array.nbytes:
            ctypes.memmove(array.ctypes.data, address or 0, array.nbytes)
        return array

    def finish(self) -> SparseResult:
        """The result, in memory of its own."""
        rows = self._copy(self.sum.rows, (self.sum.count,), self.rows.dtype)
        values = self._copy(self.sum.values, (self.sum.count, *self.values.shape[1:]), self.values.dtype)
        return SparseResult(rows, values, tuple(self.counts) if self.gathers else None, WAYS[self.taken.value])

    def __del__(self, free: Callable[[Any], None] = lib.banyan_sparse_free) -> None:
        if hasattr(self, "sum"):
            free(byref(self.sum))


class Tables:
    """What a sparse call over several tables needs while it is under way."""

    def __init__(self, op: int, tables: Sequence[Tuple[Any, Any, int]], way: str, size: int, deadline: float) -> None:
        if not tables:
            raise RequestError("sparse: there must be at least one table")
        self._parts = [Exchange(0, op, rows, values, height, way, False, size, deadline)
                       for rows, values, height in tables]
        n = len(tables)
        self._mine, sums, self._taken = (Sparse * n)(*[part.mine for part in self._parts]), (Sparse * n)(), c_int()
        self.call = SparseCall(0, op, WAYS.index(way), self._mine, sums, None, ctypes.pointer(self._taken), 0, deadline, n)
        for part, result in zip(self._parts, sums):
            part.sum, part.taken = result, self._taken

    def finish(self) -> List[SparseResult]:
        """The result of each table, in memory of its own."""
        return [part.finish() for part in self._parts]
