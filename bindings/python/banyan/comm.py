"""Communicators: the ranks that sum together."""
from __future__ import annotations

import atexit
import ctypes
import importlib
import os
import weakref
from ctypes import byref, c_char_p, c_int, c_void_p
from functools import partial
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from .buffers import memory
from .calls import ALLGATHER, ALLREDUCE, RECV, Calls, Finish, op_number
from .errors import RequestError
from .library import SLICE, Call, Counters, Options, PlanInfo, Submission, check, created, lib
from .request import Request, drop_ended
from .sparse import Exchange, SparseResult, Tables
from .waiting import Waits, interruptible

_open: "weakref.WeakSet[Communicator]" = weakref.WeakSet()


def _text(value: Optional[str]) -> Optional[bytes]:
    return value.encode() if value is not None else None


class Plan(NamedTuple):
    """How a communicator sums buffers of some size: see struct banyan_plan_info in banyan/comm.h."""
    name: str
    source: str  # "built-in", "file", "json", "topology", "measured" or "manager"
    supplied: bool  # by the user, so that no manager replaces it
    part: str  # of the default plan: the built-in for this size; else ""
    version: int
    trees: int
    up_to: Optional[int]  # bytes of the largest buffer that is summed alike; None: no limit
    throughput: Optional[float]  # bit/s; None: not known
    bound: Optional[float]

    def __str__(self) -> str:
        return f"{self.name} ({self.source}{', supplied by the user' if self.supplied else ''})"


class _Started(Calls[Request]):
    """Calls that go on by themselves; each returns a Request."""

    def __init__(self, comm: "Communicator") -> None:
        self._comm, self.rank, self.size = comm, comm.rank, comm.size

    def _make_sparse(self, exchange: Union[Exchange, Tables]) -> Request:
        raise NotImplementedError

    def sparse_allreduce(self, rows: Any, values: Any, height: int, op: str = "sum", way: str = "chosen",
                         unique: bool = False, deadline: float = 0) -> Request:
        """See Communicator.sparse_allreduce."""
        return self._make_sparse(
            Exchange(ALLREDUCE, op_number(op), rows, values, height, way, unique, self.size, deadline))

    def sparse_allreduce_tables(self, tables: Sequence[Tuple[Any, Any, int]], op: str = "sum", way: str = "chosen",
                                deadline: float = 0) -> Request:
        """See Communicator.sparse_allreduce_tables."""
        return self._make_sparse(Tables(op_number(op), tables, way, self.size, deadline))

    def sparse_allgather(self, rows: Any, values: Any, height: int, way: str = "chosen", deadline: float = 0) -> Request:
        """See Communicator.sparse_allgather."""
        return self._make_sparse(Exchange(ALLGATHER, 0, rows, values, height, way, False, self.size, deadline))


class Named(_Started):
    """Communicator.named(...): the same calls under a name. Ranks may submit them in any order; each starts when all
    ranks have submitted it. All but send and recv."""

    def __init__(self, comm: "Communicator", name: str, priority: int, together: Optional["Together"] = None) -> None:
        super().__init__(comm)
        self._name, self._priority, self._together = name.encode(), priority, together

    def _submit(self, submission: Submission, result: Any, keep: Any, finish: Any = None) -> Request:
        handle = c_void_p()
        if self._together:
            return self._together._add(self._name, submission, handle, Request(handle, result, keep, finish))
        check(lib.banyan_submit(self._comm.handle, self._name, byref(submission), byref(handle)))
        return Request(handle, result, keep, finish)

    def _make(self, call: Call, result: Any, keep: Any, finish: Finish = None) -> Request:
        submission = Submission(ctypes.sizeof(Submission), ctypes.pointer(call), 1, None, 0, self._priority)
        return self._submit(submission, result, (call, keep), finish)

    def _make_sparse(self, exchange: Union[Exchange, Tables]) -> Request:
        submission = Submission(ctypes.sizeof(Submission), None, 0, ctypes.pointer(exchange.call), 1, self._priority)
        return self._submit(submission, None, exchange, exchange.finish)


class Together:
    """Communicator.together: what is named in the block is submitted at its end, all at once."""

    def __init__(self, comm: "Communicator") -> None:
        self._comm = comm
        self._parts: List[Tuple[bytes, Submission, c_void_p, Request]] = []

    def named(self, name: str, priority: int = 0) -> Named:
        """See Communicator.named. The requests can be waited for after the block."""
        return Named(self._comm, name, priority, self)

    def _add(self, name: bytes, submission: Submission, handle: c_void_p, request: Request) -> Request:
        self._parts.append((name, submission, handle, request))
        return request

    def _submit(self) -> None:
        n = len(self._parts)
        names = (c_char_p * n)(*[part[0] for part in self._parts])
        submissions = (Submission * n)(*[part[1] for part in self._parts])
        handles = (c_void_p * n)()
        try:
            check(lib.banyan_submit_all(self._comm.handle, names, submissions, n, handles))
        finally:
            for part, handle in zip(self._parts, handles):
                part[2].value = handle

    def __enter__(self) -> "Together":
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        try:
            if kind is None:
                self._submit()
        except BaseException as raised:
            error = raised
            raise
        finally:
            for _, _, handle, request in self._parts:
                if not handle.value:
                    request._drop(error)
            self._parts = []


class Starter(_Started):
    """Communicator.start: the calls of a communicator, which go on by themselves."""

    def _make(self, call: Call, result: Any, keep: Any, finish: Finish = None) -> Request:
        return Request(created(lib.banyan_start, self._comm.handle, byref(call)), result, keep, finish)

    def recv_any(self, buffer: Any, tag: int = 0, dtype: Optional[str] = None, deadline: float = 0) -> Request:
        """Receives the first message with this tag from any rank; wait() returns the sender's rank."""
        to = memory(buffer, dtype, True, "recv_any(buffer)")
        call = Call(collective=RECV, dtype=to.dtype, recv=to.address, count=to.n, tag=tag, deadline=deadline)
        handle, source = c_void_p(), c_int(-1)
        check(lib.banyan_recv_any(self._comm.handle, byref(call), byref(source), byref(handle)))
        return Request(handle, None, (to, source), lambda: source.value)

    def _make_sparse(self, exchange: Union[Exchange, Tables]) -> Request:
        return Request(created(lib.banyan_sparse_start, self._comm.handle, byref(exchange.call)), None, exchange, exchange.finish)


class Communicator(Calls[Any]):
    """Joins the job: blocks until all ranks are there. What is not given comes from the environment, as `banyan run`,
    torchrun, Slurm and others set it; a program started without them is a job of one rank.

    Use it as a context manager, or call close(): a process that exits without it is treated as dead. A communicator
    without references is closed.
    """

    def __init__(self, rank: Optional[int] = None, size: Optional[int] = None, root: Optional[str] = None,
                 key: Optional[str] = None, host: Optional[str] = None, transport: Optional[str] = None,
                 plan: Optional[str] = None, deadline: float = 0, topology: Optional[str] = None,
                 timeline: Optional[str] = None) -> None:
        """`plan` is a built-in's name, a file, or JSON; `topology` what to plan from where there is no plan, a file, a
        short text ("star:4,nic=1g") or "measure"; `timeline` a file that rank 0 writes at the end."""
        options = Options(ctypes.sizeof(Options), 0 if rank is None else rank + 1, size or 0, _text(root), _text(key),
                          _text(host), _text(transport), _text(plan), deadline, _text(topology), _text(timeline))
        if key is None and rank is None:
            timeout = float(os.environ.get("BANYAN_JOIN_DEADLINE", 120))
            with importlib.import_module("banyan.rendezvous").of_torchrun(timeout) as (place, key):
                options.root, options.key = _text(root or place), _text(key)
                self._join(options)
        else:
            self._join(options)

    def _join(self, options: Options) -> None:
        self._take(interruptible(lambda: created(lib.banyan_comm_create, byref(options)), lib.banyan_comm_destroy))

    def _take(self, handle: c_void_p, owned: bool = True) -> None:
        self._handle: Optional[c_void_p] = handle
        self._owned, self._pid, self._waits = owned, os.getpid(), Waits()
        self.rank, self.size = lib.banyan_comm_rank(handle), lib.banyan_comm_size(handle)
        if owned:
            _open.add(self)

    @classmethod
    def _of(cls, handle: c_void_p, owned: bool = True) -> "Communicator":
        comm = cls.__new__(cls)
        comm._take(handle, owned)
        return comm

    def _give_away(self) -> int:
        """The address of the library's communicator, which belongs to the caller then."""
        handle, self._handle = self.handle, None
        _open.discard(self)
        return handle.value or 0

    @property
    def start(self) -> "Starter":
        """The same calls, not waited for: each returns a Request."""
        return Starter(self)

    @property
    def handle(self) -> c_void_p:
        """The library's struct banyan_comm *."""
        if self._handle is None:
            raise RequestError("the communicator is closed")
        if self._pid != os.getpid():
            raise RequestError("a process that was made by fork() cannot use its parent's communicator")
        return self._handle

    def _make(self, call: Call, result: Any, keep: Any, finish: Finish = None) -> Any:
        rest = c_void_p()
        status = lib.banyan_run_for(self._handle or self.handle, byref(call), SLICE, byref(rest))
        if rest:
            return Request(rest, result, keep, finish).wait()
        if status:
            check(status)
        return finish() if finish else result

    def recv_any(self, buffer: Any, tag: int = 0, dtype: Optional[str] = None, deadline: float = 0) -> int:
        """Receives the first message with this tag from any rank; returns the sender's rank."""
        return int(self.start.recv_any(buffer, tag, dtype, deadline).wait())

    def sparse_allreduce(self, rows: Any, values: Any, height: int, op: str = "sum", way: str = "chosen",
                         unique: bool = False, deadline: float = 0) -> SparseResult:
        """Sums tables of `height` rows of which each rank has some: `rows` are numbers (int32 or int64, in any order,
        several times), values[i] the row of rows[i]. Every rank gets all rows that any has, ascending, each once.
        `op` is sum or average; `unique` promises that no row stands twice; `way` forces how they travel."""
        result: SparseResult = self.start.sparse_allreduce(rows, values, height, op, way, unique, deadline).wait()
        return result

    def sparse_allreduce_tables(self, tables: Sequence[Tuple[Any, Any, int]], op: str = "sum", way: str = "chosen",
                                deadline: float = 0) -> List[SparseResult]:
        """The sums of several tables in one exchange. `tables` has (rows, values, height) for each; all have the types of
        the first, and any heights and widths."""
        results: List[SparseResult] = self.start.sparse_allreduce_tables(tables, op, way, deadline).wait()
        return results

    def sparse_allgather(self, rows: Any, values: Any, height: int, way: str = "chosen",
                         deadline: float = 0) -> SparseResult:
        """All ranks' rows as they are, one rank's behind another's."""
        result: SparseResult = self.start.sparse_allgather(rows, values, height, way, deadline).wait()
        return result

    def named(self, name: str, priority: int = 0) -> Named:
        """For calls that ranks make in different orders: comm.named("layer1").allreduce(gradient) starts when all ranks
        have submitted the name. Of what is ready at once the highest priority goes first."""
        return Named(self, name, priority)

    def together(self) -> Together:
        """Submits many operations with one message to other ranks, at the end of the block:

            with comm.together() as together:
                requests = [together.named(name).allreduce(gradient) for name, gradient in gradients]

        The requests can be waited for after the block."""
        return Together(self)

    @property
    def number(self) -> int:
        """Which communicator it is within its job or membership: the same on all its members; 0 is that of all."""
        return int(lib.banyan_comm_number(self.handle))

    @property
    def calls(self) -> int:
        """How many collective calls were made on it so far; see banyan_comm_calls."""
        return int(lib.banyan_comm_calls(self.handle))

    def step(self, i: int) -> None:
        """Marks the beginning of iteration i, on all ranks or on none. It makes negotiation cheap sooner."""
        check(lib.banyan_step(self.handle, i))

    def expect(self, iterations: int) -> None:
        """Declares the total number of iterations of this run; rank 0's value is used. An agent or a manager may serve
        jobs first that end soon, and displays the remaining time. 0: not known."""
        check(lib.banyan_comm_expect(self.handle, iterations))

    # ---- other communicators

    def split(self, colour: int, key: int = 0) -> Optional["Communicator"]:
        """The ranks that give the same colour, ordered by key, then by rank; None for a negative one. All ranks call it."""
        handle = self._derive(lib.banyan_comm_split, colour, key)
        return self._of(handle) if handle.value else None

    def _derive(self, function: Any, *arguments: int) -> c_void_p:
        """Another communicator, from a function of the library that all ranks call."""
        handle = self.handle
        made: c_void_p = self._waits.make(lambda: created(function, handle, *arguments), lib.banyan_comm_destroy)
        return made

    def duplicate(self) -> "Communicator":
        """The same ranks, with calls of their own. All ranks call it."""
        return self._of(self._derive(lib.banyan_comm_duplicate))

    def subset(self, ranks: Sequence[int], number: int) -> "Communicator":
        """These ranks, which alone call it, with the same number; no two subsets have the same number and first rank."""
        return self._of(created(lib.banyan_comm_subset, self.handle, (c_int * len(ranks))(*ranks), len(ranks), number))

    # ---- what it is, and settings

    @property
    def local_rank(self) -> int:
        """This rank's place among those of its host."""
        return int(lib.banyan_comm_local_rank(self.handle))

    @property
    def local_size(self) -> int:
        """How many ranks are on this host."""
        return int(lib.banyan_comm_local_size(self.handle))

    @property
    def hosts(self) -> List[str]:
        """The name of each rank's host."""
        return [lib.banyan_comm_host(self.handle, rank).decode() for rank in range(self.size)]

    def set_plan(self, plan: Optional[str]) -> None:
        """Plan for later calls: a built-in's name, a file, or JSON; None: the default. All ranks set the same one between
        the same two calls."""
        check(lib.banyan_comm_set_plan(self.handle, _text(plan)))

    @property
    def plan(self) -> Plan:
        """The plan in use, for the largest buffers. plan_for(bytes) returns that of another size. It may change with
        any call: when a plan is set or proposed, or by a manager."""
        return self.plan_for(2**64 - 1)

    def plan_for(self, bytes_: int, collective: str = "allreduce") -> Plan:
        """The plan in use, for calls of a collective on buffers of so many bytes; throughput and bound are those of
        this collective for large buffers."""
        info, number = PlanInfo(), c_int()
        check(lib.banyan_collective_parse(_text(collective), byref(number)))
        check(lib.banyan_comm_plan_of(self.handle, number, bytes_, byref(info)))
        source = lib.banyan_plan_source_name(info.source).decode()
        return Plan(info.name.decode(), source, bool(info.supplied), info.part.decode(), info.version, info.trees,
                    info.up_to if info.up_to < 2**64 - 1 else None, info.throughput or None, info.bound or None)

    def propose_plan(self, plan: Optional[str]) -> None:
        """Proposes a plan to which all ranks switch at the same call, while calls go on. Only rank 0 may call it;
        counters()["plan_switches"] is the number of switches."""
        check(lib.banyan_comm_propose_plan(self.handle, _text(plan)))

    def set_deadline(self, seconds: float) -> None:
        """How long a later call may take."""
        check(lib.banyan_comm_set_deadline(self.handle, seconds))

    def set_tos(self, tos: int) -> None:
        """The ToS byte of what this process sends over TCP."""
        check(lib.banyan_comm_set_tos(self.handle, tos))

    def check(self) -> None:
        """Raises the error that ended the job, if one has."""
        check(lib.banyan_comm_state(self.handle))

    def counters(self) -> Dict[str, int]:
        """What this process has sent and received since it joined the job, and more: see struct banyan_counters."""
        counters = Counters()
        lib.banyan_comm_counters(self.handle, byref(counters))
        return {name: int(getattr(counters, name)) for name, _ in Counters._fields_}

    def metrics(self) -> str:
        """The counters, and times of operations while timelines are kept, in the text format of Prometheus."""
        text = ctypes.create_string_buffer(1 << 16)
        bytes_ = lib.banyan_comm_metrics(self.handle, text, len(text))
        if bytes_ >= len(text):
            text = ctypes.create_string_buffer(bytes_ + 4096)
            lib.banyan_comm_metrics(self.handle, text, len(text))
        return text.value.decode()

    def start_timeline(self, path: str) -> None:
        """From now on all ranks note what happens to every operation; rank 0 will write it to `path`, for Perfetto. Rank 0
        alone may call it, or all."""
        check(lib.banyan_timeline_start(self.handle, path.encode()))

    def stop_timeline(self) -> None:
        """Rank 0 collects and writes the timeline; on other ranks nothing happens. The end of the job does so too."""
        check(lib.banyan_timeline_stop(self.handle))

    def empty(self, shape: Any, dtype: Any = "float32") -> Any:
        """A NumPy array of zeros in memory that ranks of one host read in each other without a copy. It is valid until
        the job ends here, and its memory goes with the job."""
        import numpy

        bytes_ = int(numpy.prod(shape, dtype=int)) * numpy.dtype(dtype).itemsize
        address = c_void_p()
        check(lib.banyan_alloc(self.handle, max(bytes_, 1), byref(address)))
        pages: Any = (ctypes.c_char * bytes_).from_address(address.value or 0)
        pages.comm = self  # whose memory it is
        return numpy.frombuffer(pages, dtype).reshape(shape)

    # ---- the end

    def abort(self, reason: str) -> None:
        """Ends every call of every rank of the job with this reason."""
        lib.banyan_comm_abort(self.handle, reason.encode())

    def close(self) -> None:
        """Ends this rank's part. What is under way ends with an error; may block for some seconds, so that the others
        get what they wait for."""
        handle, self._handle = self._handle, None
        _open.discard(self)
        if handle is not None and self._owned and self._pid == os.getpid():
            self._waits.end(partial(lib.banyan_comm_destroy, handle))
            drop_ended()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self._handle or self._pid != os.getpid():
            return f"<banyan.Communicator rank {self.rank} of {self.size}{'' if self._handle else ', closed'}>"
        return f"<banyan.Communicator rank {self.rank} of {self.size}, plan {self.plan}>"


@atexit.register
def _close_all() -> None:
    for comm in list(_open):
        comm.close()
