"""The backend in Python. PyTorch 2.14 and later can call one, so it needs no compiled file that fits the version of PyTorch.

It stands in for the compiled module (csrc) where none fits: each call takes longer, and what goes beyond c10d's collectives
(named operations, groups whose processes change, sparse gradients, names of calls in callbacks) needs the compiled one.
"""
from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
import zlib
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from ..comm import Communicator
from ..errors import RequestError
from ..library import Options, lib
from ..request import Request

_ADVICE = "needs the compiled backend, which does not fit this PyTorch: run `python3 -m banyan.torch` once to compile it"
_OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.AVG: "average", dist.ReduceOp.PRODUCT: "product", dist.ReduceOp.MIN: "min",
        dist.ReduceOp.MAX: "max", dist.ReduceOp.BAND: "and", dist.ReduceOp.BOR: "or", dist.ReduceOp.BXOR: "xor"}
# Of truth values, which are bytes of 0 or 1.
_TRUTHS = {"sum": "max", "product": "min", "min": "min", "max": "max", "and": "min", "or": "max", "xor": "xor"}
_EXCHANGE_TAG = 1 << 31  # Tags of PyTorch's own sends are positive numbers of 32 bits with a sign.

Finish = Optional[Callable[[], None]]


class _Work(dist._Work):  # type: ignore[misc]
    """Calls that have begun. `finish` is called once when they have ended well."""

    def __init__(self, requests: Sequence[Request], outputs: List[torch.Tensor], finish: Finish = None) -> None:
        super().__init__()
        self._requests, self._outputs, self._finish = list(requests), outputs, finish
        self._lock = threading.Lock()
        self._error: Optional[Exception] = None
        self._future: Optional[torch.futures.Future[Any]] = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        with self._lock:
            if self._error:
                raise self._error
            try:
                while self._requests:
                    self._requests[0].wait()
                    self._requests.pop(0)
                if self._finish:
                    self._finish()
            except Exception as error:
                self._requests, self._error = [], error
                raise
            self._finish = None
        return True

    def get_future(self) -> Any:
        if self._future is None:
            self._future = future = torch.futures.Future()
            threading.Thread(target=self._fulfil, args=(future,), daemon=True, name="banyan future").start()
        return self._future

    def _fulfil(self, future: Any) -> None:
        try:
            self.wait()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(self._outputs)

    def result(self) -> List[torch.Tensor]:
        return self._outputs


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a contiguous tensor as bytes: what is only moved may have any type."""
    return tensor.detach().reshape(-1).view(torch.uint8)


def _check(call: str, *tensors: torch.Tensor) -> None:
    for tensor in tensors:
        if tensor.device.type != "cpu" or tensor.layout != torch.strided:
            raise RequestError(f"{call}: a tensor is on {tensor.device} and of the layout {tensor.layout}, where dense ones in the "
                               "host's memory are needed: call it with tensor.cpu() or tensor.to_dense()")


def _one(call: str, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    if len(tensors) != 1:
        raise RequestError(f"{call}: one tensor is needed, not {len(tensors)}")
    return tensors[0]


class Group(c10d.Backend):  # type: ignore[misc, name-defined]
    """A group of c10d over a communicator, which it owns."""

    def __init__(self, comm: Communicator, deadline: float) -> None:
        super().__init__(comm.rank, comm.size)
        self.comm: Any = comm  # None after it has left.
        self._subsets: Dict[Any, int] = {}
        self._exchanges = itertools.count()
        _groups.add(self)

    def _made(self, options: Any) -> "tuple[Any, float]":
        """What makes calls, and their deadline in seconds; 0: the communicator's. A call that the caller waits for at once
        begins like the others, since another thread may wait for its future."""
        if self.comm is None:
            raise RequestError("the group has left the job")
        timeout = getattr(options, "timeout", None)
        return self.comm.start, max(0.0, timeout.total_seconds()) if timeout else 0.0

    def _move(self, call: str, options: Any, begin: Callable[[Any, float], List[Request]], outputs: List[torch.Tensor],
              finish: Finish = None) -> _Work:
        _check(call, *outputs)
        start, deadline = self._made(options)
        return _Work(begin(start, deadline), outputs, finish)

    def _sum(self, call: str, tensor: torch.Tensor, op: Any) -> "tuple[torch.Tensor, str]":
        """Elements that the library can add, in one piece, and its operation."""
        _check(call, tensor)
        name = _OPS.get(op.op)
        if name is None:
            raise RequestError(f"{call}: the operation {op} {_ADVICE}")
        flat = tensor.detach().contiguous()
        if flat.is_complex() and name in ("sum", "average"):
            flat = torch.view_as_real(flat)
        elif flat.dtype == torch.bool:
            if name not in _TRUTHS:
                raise RequestError(f"{call}: there is no {name} of truth values")
            flat, name = flat.view(torch.uint8), _TRUTHS[name]
        return flat.reshape(-1), name

    @staticmethod
    def _copy(pairs: "Sequence[tuple[torch.Tensor, torch.Tensor]]") -> Finish:
        """Copies each second tensor, as bytes, to the first one, unless it is the same memory."""
        pairs = [(to, of) for to, of in pairs if to.data_ptr() != of.data_ptr() and to.numel()]
        if not pairs:
            return None

        def finish() -> None:
            for to, of in pairs:
                to.detach().copy_(of.view(torch.uint8).view(to.dtype).view(to.shape))

        return finish

    # ---- c10d's calls

    def allreduce(self, tensors: List[torch.Tensor], options: Any) -> _Work:
        return self.allreduce_coalesced([_one("allreduce", tensors)], options)

    def allreduce_coalesced(self, tensors: List[torch.Tensor], options: Any) -> _Work:
        flats = [self._sum("allreduce", tensor, options.reduceOp) for tensor in tensors]
        return self._move("allreduce", options, lambda start, deadline: [start.allreduce(flat, op=op, deadline=deadline)
                                                                         for flat, op in flats], tensors,
                          self._copy([(tensor, flat) for tensor, (flat, _) in zip(tensors, flats)]))

    def reduce(self, tensors: List[torch.Tensor], options: Any) -> _Work:
        tensor = _one("reduce", tensors)
        flat, op = self._sum("reduce", tensor, options.reduceOp)
        at_root = self.rank() == options.rootRank
        return self._move("reduce", options, lambda start, deadline: [
            start.reduce(flat, root=options.rootRank, op=op, deadline=deadline)], tensors,
                          self._copy([(tensor, flat)]) if at_root else None)

    def broadcast(self, tensors: List[torch.Tensor], options: Any) -> _Work:
        tensor = _one("broadcast", tensors)
        whole = tensor.detach().contiguous()
        return self._move("broadcast", options, lambda start, deadline: [
            start.broadcast(_bytes(whole), options.rootRank, deadline=deadline)], tensors, self._copy([(tensor, whole)]))

    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor, options: Any) -> _Work:
        return self.all_gather_single_coalesced([output], [tensor], options)

    def all_gather_single_coalesced(self, outputs: List[torch.Tensor], tensors: List[torch.Tensor], options: Any) -> _Work:
        wholes = [output.detach().contiguous() for output in outputs]
        return self._move("allgather", options, lambda start, deadline: [
            start.allgather(_bytes(tensor.contiguous()), _bytes(whole), deadline=deadline)
            for tensor, whole in zip(tensors, wholes)], outputs, self._copy(list(zip(outputs, wholes))))

    def allgather(self, lists: List[List[torch.Tensor]], tensors: List[torch.Tensor], options: Any) -> _Work:
        return self.allgather_coalesced([_one_list("allgather", lists)], [_one("allgather", tensors)], options, True)

    def allgather_coalesced(self, lists: List[List[torch.Tensor]], tensors: List[torch.Tensor], options: Any,
                            turned: bool = False) -> _Work:
        """c10d has a list for each rank here, where allgather has one for each tensor."""
        rows = lists if turned else [[lists[r][i] for r in range(self.size())] for i in range(len(tensors))]
        gathered = [torch.empty(sum(_size(output) for output in row), dtype=torch.uint8) for row in rows]
        pairs = [(output, part) for row, whole in zip(rows, gathered)
                 for output, part in zip(row, whole.split([_size(output) for output in row]))]
        return self._move("allgather", options, lambda start, deadline: [
            start.allgather(_bytes(tensor.contiguous()), whole, [_size(output) for output in row], deadline=deadline)
            for tensor, whole, row in zip(tensors, gathered, rows)], [output for row in rows for output in row], self._copy(pairs))

    def gather(self, lists: List[List[torch.Tensor]], tensors: List[torch.Tensor], options: Any) -> _Work:
        tensor = _one("gather", tensors).contiguous()
        outputs = _one_list("gather", lists) if self.rank() == options.rootRank else []
        whole = torch.empty(sum(map(_size, outputs)), dtype=torch.uint8)
        return self._move("gather", options, lambda start, deadline: [
            start.gather(_bytes(tensor), whole if outputs else None, options.rootRank, deadline=deadline)], outputs,
                          self._copy(list(zip(outputs, whole.split([_size(output) for output in outputs])))))

    def scatter(self, tensors: List[torch.Tensor], lists: List[List[torch.Tensor]], options: Any) -> _Work:
        output = _one("scatter", tensors)
        inputs = _one_list("scatter", lists) if self.rank() == options.rootRank else []
        whole = torch.cat([_bytes(one.contiguous()) for one in inputs]) if inputs else None
        mine = output.detach().contiguous()
        return self._move("scatter", options, lambda start, deadline: [
            start.scatter(whole, _bytes(mine), options.rootRank, deadline=deadline)], [output], self._copy([(output, mine)]))

    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor, options: Any) -> _Work:
        return self.reduce_scatter_single_coalesced([output], [tensor], options)

    def reduce_scatter_single_coalesced(self, outputs: List[torch.Tensor], tensors: List[torch.Tensor], options: Any) -> _Work:
        flats = [self._sum("reduce_scatter", tensor, options.reduceOp) for tensor in tensors]
        wholes = [self._sum("reduce_scatter", output, options.reduceOp)[0] for output in outputs]
        return self._move("reduce_scatter", options, lambda start, deadline: [
            start.reduce_scatter(flat, whole, op, deadline=deadline) for (flat, op), whole in zip(flats, wholes)], outputs,
                          self._copy(list(zip(outputs, wholes))))

    def reduce_scatter(self, tensors: List[torch.Tensor], lists: List[List[torch.Tensor]], options: Any) -> _Work:
        output, inputs = _one("reduce_scatter", tensors), _one_list("reduce_scatter", lists)
        flats = [self._sum("reduce_scatter", one, options.reduceOp) for one in inputs]
        mine, op = self._sum("reduce_scatter", output, options.reduceOp)
        whole, counts = torch.cat([flat for flat, _ in flats]), [flat.numel() for flat, _ in flats]
        return self._move("reduce_scatter", options, lambda start, deadline: [
            start.reduce_scatter(whole, mine, op, counts, deadline=deadline)], [output], self._copy([(output, mine)]))

    def all_to_all_single(self, output: torch.Tensor, tensor: torch.Tensor, output_splits: List[int], input_splits: List[int],
                          options: Any) -> _Work:
        outputs = list(output.split(output_splits or output.size(0) // self.size()))
        inputs = list(tensor.split(input_splits or tensor.size(0) // self.size()))
        return self.alltoall(outputs, inputs, options)

    def alltoall(self, outputs: List[torch.Tensor], tensors: List[torch.Tensor], options: Any) -> _Work:
        """As sends and receives, since blocks may differ in size."""
        wholes, tag = [output.detach().contiguous() for output in outputs], _EXCHANGE_TAG | next(self._exchanges) % _EXCHANGE_TAG

        def begin(start: Any, deadline: float) -> List[Request]:
            requests = [start.recv(_bytes(whole), r, tag, deadline=deadline) for r, whole in enumerate(wholes)
                        if r != self.rank() and whole.numel()]
            return requests + [start.send(_bytes(one.contiguous()), r, tag, deadline=deadline) for r, one in enumerate(tensors)
                               if r != self.rank() and one.numel()]

        wholes[self.rank()].copy_(tensors[self.rank()].detach())
        return self._move("alltoall", options, begin, outputs, self._copy(list(zip(outputs, wholes))))

    def send(self, tensors: List[torch.Tensor], rank: int, tag: int) -> _Work:
        tensor = _one("send", tensors).contiguous()
        return self._move("send", None, lambda start, deadline: [start.send(_bytes(tensor), rank, tag)], [tensor])

    def recv(self, tensors: List[torch.Tensor], rank: int, tag: int) -> _Work:
        tensor = _one("recv", tensors)
        whole = tensor.detach().contiguous()
        return self._move("recv", None, lambda start, deadline: [start.recv(_bytes(whole), rank, tag)], [tensor],
                          self._copy([(tensor, whole)]))

    def recv_anysource(self, tensors: List[torch.Tensor], tag: int) -> _Work:
        # PyTorch asks its wrapper around the work for the sender, and that does not ask the work.
        raise RequestError(f"recv: receiving from any rank {_ADVICE}")

    def barrier(self, options: Any) -> _Work:
        return self._move("barrier", options, lambda start, deadline: [start.barrier(deadline)], [])

    # ---- what it is, and its end

    def getBackendName(self) -> str:
        return "banyan"

    def set_timeout(self, timeout: timedelta) -> None:
        self.comm.set_deadline(timeout.total_seconds())

    def abort(self) -> None:
        self.comm.abort("abort() of the process group was called")

    def shutdown(self) -> None:
        self.leave()

    def leave(self) -> None:
        comm, self.comm = self.comm, None
        if comm:
            comm.close()


def _one_list(call: str, lists: Sequence[List[torch.Tensor]]) -> List[torch.Tensor]:
    if len(lists) != 1:
        raise RequestError(f"{call}: one list of tensors is needed, not {len(lists)}")
    return lists[0]


def _size(tensor: torch.Tensor) -> int:
    return int(tensor.numel()) * int(tensor.element_size())


_groups: "weakref.WeakSet[Group]" = weakref.WeakSet()


# ---- what the compiled module has

def join(rank: int, size: int, deadline: float, timeout: float, given: Dict[str, str]) -> Group:
    texts = {name: text.encode() for name, text in given.items()}
    comm = Communicator.__new__(Communicator)
    comm._join(Options(ctypes.sizeof(Options), rank + 1, size, deadline=deadline, join_deadline=timeout, **texts))
    return Group(comm, deadline)


def subset(group: Group, ranks: List[int], deadline: float, given: Dict[str, str]) -> Group:
    count = group._subsets[tuple(ranks)] = group._subsets.get(tuple(ranks), 0) + 1
    comm = group.comm.subset(ranks, zlib.crc32(repr((count, ranks)).encode()))
    comm.set_deadline(deadline)
    if given.get("plan"):
        comm.set_plan(given["plan"])
    return Group(comm, deadline)


def address(group: Any) -> int:
    return int(group.comm.handle.value) if isinstance(group, Group) and group.comm else 0


def state(group: Group) -> int:
    return int(lib.banyan_comm_state(group.comm.handle)) if group.comm else 0


def abort(group: Group) -> None:
    group.abort()


def leave_all() -> None:
    for group in list(_groups):
        group.leave()


def member(_: Any) -> int:
    raise RuntimeError(f"a group whose processes change {_ADVICE}")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise RuntimeError(f"banyan.torch: {name} {_ADVICE}")
