"""The collectives, as methods of what makes them: Communicator waits for them, Communicator.start does not."""
from __future__ import annotations

from ctypes import c_size_t
from typing import Any, Callable, Generic, Optional, Sequence, Tuple, TypeVar

from . import jax_arrays
from .buffers import NOTHING, Memory, memory
from .errors import RequestError
from .library import Call

OPS = {"sum": 0, "average": 1, "min": 2, "max": 3, "product": 4, "and": 5, "or": 6, "xor": 7}
ALLREDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALLGATHER, GATHER, SCATTER, ALLTOALL, BARRIER, SEND, RECV = range(11)

Made = TypeVar("Made")


def op_number(op: str) -> int:
    """The library's number of an operation."""
    if op not in OPS:
        raise RequestError(f"there is no operation {op!r}; there are {', '.join(OPS)}")
    return OPS[op]


def _filled(collective: int, one: Memory, send: Memory, recv: Memory, count: int, deadline: float) -> Call:
    call = Call()
    call.collective, call.dtype, call.count, call.deadline = collective, one.dtype, count, deadline
    call.send, call.recv = send.address, recv.address
    return call


Finish = Optional[Callable[[], Any]]


class Calls(Generic[Made]):
    """Every argument `deadline` is in seconds, 0 for the communicator's; `dtype` names the elements' type where the
    buffer does not. Buffers are NumPy arrays or tensors in the host's memory (DLPack), or have the buffer protocol, and
    lie in one piece. An array of JAX is never written: without `recv` its call returns a new array of JAX."""

    rank: int
    size: int

    def _make(self, call: Call, result: Any, keep: Any, finish: Finish = None) -> Made:
        """Makes the call, which returns `result`, or what `finish` returns after it."""
        raise NotImplementedError

    def _new(self, send: Any, recv: Any, factor: int = 1, divisor: int = 1) -> Tuple[Any, Finish]:
        """`recv`, or where an array of JAX is sent without one, a new one, with as many rows for each of `send` as said."""
        if recv is not None or not jax_arrays.is_array(send):
            return recv, None
        rows = () if factor == divisor == 1 else (send.shape[0] * factor // divisor if send.ndim else factor,)
        result = jax_arrays.Result(send, rows + tuple(send.shape[len(rows):]))
        return result.array, result.finish

    def _blocks(self, collective: int, mine: Memory, all_: Memory, counts: Optional[Sequence[int]], what: str,
                present: bool = True) -> "tuple[int, Any]":
        """Count and counts of a call with blocks; `present`: this rank has both buffers."""
        own = counts[self.rank] if counts is not None else mine.n
        total = sum(counts) if counts is not None else mine.n * self.size
        if counts is not None and len(counts) != self.size:
            raise RequestError(f"{what}: {len(counts)} counts for {self.size} ranks")
        if mine.n < own or (present and (all_.n < total or all_.dtype != mine.dtype)):
            raise RequestError(f"{what}: the buffers have {mine.n} and {all_.n} elements, or differ in type; "
                               f"{own} and {total} are needed")
        return mine.n, None if counts is None else (c_size_t * self.size)(*counts)

    def _paired(self, send: Any, recv: Any, dtype: Optional[str], what: str) -> "tuple[Memory, Memory]":
        to = memory(send, dtype, True, f"{what}(send)") if recv is None else memory(recv, dtype, True, f"{what}(recv)")
        of = to if recv is None else memory(send, dtype, False, f"{what}(send)")
        if of.dtype != to.dtype or of.n != to.n:
            raise RequestError(f"{what}: the buffers differ in type or in their number of elements")
        return of, to

    def allreduce(self, send: Any, recv: Any = None, op: str = "sum", scale: float = 1, dtype: Optional[str] = None,
                  deadline: float = 0) -> Made:
        """Every rank gets the sum (or what `op` says) of all ranks' elements, each multiplied by `scale` first.
        Without `recv` it replaces what is in `send`."""
        recv, finish = self._new(send, recv)
        of, to = self._paired(send, recv, dtype, "allreduce")
        call = _filled(ALLREDUCE, to, of, to, to.n, deadline)
        call.op, call.scale = op_number(op), scale
        return self._make(call, send if recv is None else recv, (of, to), finish)

    def reduce(self, send: Any, recv: Any = None, root: int = 0, op: str = "sum", scale: float = 1,
               dtype: Optional[str] = None, deadline: float = 0) -> Made:
        """Like allreduce, at the root only; what other ranks give as `recv` is left alone."""
        finish: Finish = None
        if self.rank == root:
            recv, finish = self._new(send, recv)
            of, to = self._paired(send, recv, dtype, "reduce")
        else:
            of, to = memory(send, dtype, False, "reduce(send)"), NOTHING
        call = _filled(REDUCE, of, of, to, of.n, deadline)
        call.op, call.scale, call.root = op_number(op), scale, root
        return self._make(call, send if recv is None else recv, (of, to), finish)

    def broadcast(self, buffer: Any, root: int = 0, dtype: Optional[str] = None, deadline: float = 0) -> Made:
        """Every rank gets what is in the root's buffer, which may be read-only."""
        at_root = self.rank == root
        new, finish = (None, None) if at_root else self._new(buffer, None)
        to = memory(buffer if new is None else new, dtype, not at_root, "broadcast(buffer)")
        call = _filled(BROADCAST, to, NOTHING, to, to.n, deadline)
        call.root = root
        return self._make(call, buffer, to, finish)

    def reduce_scatter(self, send: Any, recv: Any = None, op: str = "sum", counts: Optional[Sequence[int]] = None,
                       scale: float = 1, dtype: Optional[str] = None, deadline: float = 0) -> Made:
        """Rank r gets the r-th block of the sum. `counts` has the lengths of the blocks if they differ."""
        recv, finish = self._new(send, recv, 1, self.size)
        of, to = memory(send, dtype, False, "reduce_scatter(send)"), memory(recv, dtype, True, "reduce_scatter(recv)")
        count, given = self._blocks(REDUCE_SCATTER, to, of, counts, "reduce_scatter")
        call = _filled(REDUCE_SCATTER, to, of, to, count, deadline)
        call.op, call.scale, call.counts = op_number(op), scale, given
        return self._make(call, recv, (of, to), finish)

    def allgather(self, send: Any, recv: Any = None, counts: Optional[Sequence[int]] = None, dtype: Optional[str] = None,
                  deadline: float = 0) -> Made:
        """Every rank gets all ranks' blocks, in their order."""
        recv, finish = self._new(send, recv, self.size)
        of, to = memory(send, dtype, False, "allgather(send)"), memory(recv, dtype, True, "allgather(recv)")
        count, given = self._blocks(ALLGATHER, of, to, counts, "allgather")
        call = _filled(ALLGATHER, of, of, to, count, deadline)
        call.counts = given
        return self._make(call, recv, (of, to), finish)

    def gather(self, send: Any, recv: Any = None, root: int = 0, counts: Optional[Sequence[int]] = None,
               dtype: Optional[str] = None, deadline: float = 0) -> Made:
        """The root gets all ranks' blocks, in their order."""
        at_root = self.rank == root
        recv, finish = self._new(send, recv, self.size) if at_root else (recv, None)
        of = memory(send, dtype, False, "gather(send)")
        to = memory(recv, dtype, True, "gather(recv)") if at_root else NOTHING
        count, given = self._blocks(GATHER, of, to, counts, "gather", at_root)
        call = _filled(GATHER, of, of, to, count, deadline)
        call.counts, call.root = given, root
        return self._make(call, recv, (of, to), finish)

    def scatter(self, send: Any, recv: Any, root: int = 0, counts: Optional[Sequence[int]] = None,
                dtype: Optional[str] = None, deadline: float = 0) -> Made:
        """Rank r gets the r-th block of the root's buffer."""
        at_root = self.rank == root
        of = memory(send, dtype, False, "scatter(send)") if at_root else NOTHING
        to = memory(recv, dtype, True, "scatter(recv)")
        count, given = self._blocks(SCATTER, to, of, counts, "scatter", at_root)
        call = _filled(SCATTER, to, of, to, count, deadline)
        call.counts, call.root = given, root
        return self._make(call, recv, (of, to))

    def alltoall(self, send: Any, recv: Any = None, dtype: Optional[str] = None, deadline: float = 0) -> Made:
        """Rank r gets the r-th block of every rank's buffer, in the order of ranks."""
        recv, finish = self._new(send, recv)
        of, to = memory(send, dtype, False, "alltoall(send)"), memory(recv, dtype, True, "alltoall(recv)")
        if of.n != to.n or of.dtype != to.dtype or of.n % self.size:
            raise RequestError(f"alltoall: {of.n} elements to send and {to.n} to receive; there must be as many, "
                               f"of one type, and a block for each of {self.size} ranks")
        call = _filled(ALLTOALL, of, of, to, of.n // self.size, deadline)
        return self._make(call, recv, (of, to), finish)

    def barrier(self, deadline: float = 0) -> Made:
        """Ends when all ranks have begun it."""
        return self._make(_filled(BARRIER, NOTHING, NOTHING, NOTHING, 0, deadline), None, None)

    def send(self, buffer: Any, to: int, tag: int = 0, dtype: Optional[str] = None, deadline: float = 0) -> Made:
        """Sends to a rank, which receives with the same tag, type and number of elements."""
        of = memory(buffer, dtype, False, "send(buffer)")
        call = _filled(SEND, of, of, NOTHING, of.n, deadline)
        call.root, call.tag = to, tag
        return self._make(call, None, of)

    def recv(self, buffer: Any, source: int, tag: int = 0, dtype: Optional[str] = None, deadline: float = 0) -> Made:
        """Receives what a rank sends."""
        to = memory(buffer, dtype, True, "recv(buffer)")
        call = _filled(RECV, to, NOTHING, to, to.n, deadline)
        call.root, call.tag = source, tag
        return self._make(call, buffer, to)
