"""Groups whose processes change while they run.

    with banyan.Member() as member:
        publish(member.handle)                         # in any store
        comm = member.reconfigure("1", handles, 30)    # all of them call this with the same name and list
        try:
            comm.allreduce(gradient)
        except banyan.PeerDead:                        # those that are left form another group
            comm = member.reconfigure("2", others, 30)
"""
from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_void_p
from functools import partial
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from .buffers import SIZES, memory
from .calls import ALLREDUCE, op_number
from .comm import Communicator, _text
from .errors import RequestError
from .library import Call, Completion, Interrupted as CInterrupted, Options, check, created, lib
from .waiting import Waits

_COLLECTIVES = ("allreduce", "reduce", "broadcast", "reduce_scatter", "allgather", "gather", "scatter", "alltoall",
                "barrier", "send", "recv")
_OUTCOMES = ("absent", "not begun", "failed", "completed")


class Interrupted(NamedTuple):
    """A call of the membership before that did not complete on all: see struct banyan_interrupted in
    banyan/interrupted.h. Of several alike of which no more is known, the first one."""
    communicator: int  # Communicator.number; 0: that of all members
    name: Optional[str]  # of a named operation
    call: int  # Communicator.calls when it was made
    calls: int  # how many there are
    collective: Optional[str]  # None: no member knows it any more
    sparse: bool
    outcomes: Tuple[str, ...]  # of each rank of that communicator: "completed", "failed", "not begun" or "absent"
    ranks: Tuple[Optional[int], ...]  # their ranks in the new membership


def _interrupted(call: CInterrupted) -> Interrupted:
    return Interrupted(call.communicator, call.name.decode() if call.name else None, call.call, call.n_calls,
                       _COLLECTIVES[call.collective] if call.known else None, call.sparse,
                       tuple(_OUTCOMES[call.outcomes[r]] for r in range(call.size)),
                       tuple(call.ranks[r] if call.ranks[r] >= 0 else None for r in range(call.size)))


class Member:
    """This process, as others reach it to form groups. It has no group at first.

    Needs the job's key, here or in BANYAN_KEY_FILE. Call close() at the end, or use it as a context manager: that leaves the
    group. Communicators are closed by themselves.
    """

    def __init__(self, key: Optional[str] = None, host: Optional[str] = None, transport: Optional[str] = None,
                 plan: Optional[str] = None, deadline: float = 0, topology: Optional[str] = None,
                 timeline: Optional[str] = None, quorum: Optional[str] = None) -> None:
        """What is not given comes from the environment; see Communicator. It counts for all groups. `quorum` is "survivors",
        "majority" or "none": which members may decide on the next group."""
        options = Options(ctypes.sizeof(Options), 0, 0, None, _text(key), _text(host), _text(transport), _text(plan),
                          deadline, _text(topology), _text(timeline), _text(quorum))
        self._take(created(lib.banyan_member_create, byref(options)), True)

    def _take(self, member: c_void_p, owned: bool) -> None:
        self._member: Optional[c_void_p] = member
        self._owned, self._pid, self._waits = owned, os.getpid(), Waits()

    def _form(self, function: Any, *arguments: Any) -> Communicator:
        """The communicator of the next group, from a function of the library that blocks."""
        member = self._open()
        return Communicator._of(self._waits.make(lambda: created(function, member, *arguments), lib.banyan_comm_destroy))

    @classmethod
    def _of(cls, handle: c_void_p) -> "Member":
        """One that belongs to somebody else."""
        member = cls.__new__(cls)
        member._take(handle, False)
        return member

    def _open(self) -> c_void_p:
        if self._member is None:
            raise RequestError("the member is closed")
        if self._pid != os.getpid():
            raise RequestError("a process that was made by fork() cannot use its parent's member")
        return self._member

    @property
    def handle(self) -> str:
        """The text by which others name and reach this process. It holds no secret and stays the same."""
        return str(lib.banyan_member_handle(self._open()).decode())

    def reconfigure(self, name: str, handles: Sequence[str], timeout: float) -> Communicator:
        """Forms a group of exactly the processes with these handles, in the order of their ranks, and returns its
        communicator. All of them call this with the same name and list, from any state: without a group, from a healthy
        one, or from one that failed. Blocks for at most `timeout` seconds. A name is used once.

        On an error the group before goes on. Otherwise its calls raise Aborted. Raises RequestError for a wrong name or
        handle, Mismatch where lists differ, Timeout with the names of those that did not come.
        """
        n = len(handles)
        texts = (c_char_p * max(n, 1))(*[handle.encode() for handle in handles])
        return self._form(lib.banyan_member_reconfigure, name.encode(), texts, n, timeout)

    def start(self, timeout: float) -> Communicator:
        """The first group of this process, as the environment says: under `banyan run` with --min, --max or --restarts
        formed by all, or joined by those that were started later; that of BANYAN_MEMBERS; else formed with the ranks that
        a Communicator would meet."""
        return self._form(lib.banyan_member_start, timeout)

    def recover(self, timeout: float) -> Communicator:
        """Agrees with the other members of the group on the next one, without those that died or want to leave and with
        those that want to join, forms it, and returns its communicator. All members call it, after any failure of a call
        or when they have agreed to. Blocks for at most `timeout` seconds.

        Raises Aborted if this process is in no group any more, because it left, was excluded, or no quorum was found;
        Timeout if nothing was agreed on, after which it may be called again.
        """
        return self._form(lib.banyan_member_recover, timeout)

    def join(self, handles: Sequence[str], timeout: float) -> Communicator:
        """Joins the group of the processes with these handles, of which one that answers is enough, when its members call
        recover() next."""
        n = len(handles)
        texts = (c_char_p * max(n, 1))(*[handle.encode() for handle in handles])
        return self._form(lib.banyan_member_join, texts, n, timeout)

    def leave(self) -> None:
        """This process wants to leave, and does so when all members call recover() next. Any thread."""
        check(lib.banyan_member_leave(self._open()))

    def change_wanted(self) -> bool:
        """Whether processes have asked this one to join, or it wants to leave: members agree on it by an AllReduce at the
        end of a step, and all call recover() then. Any thread; does not block."""
        return bool(lib.banyan_member_change_wanted(self._open()))

    def handles(self) -> List[str]:
        """Of the members of this process's group, by rank; empty without a group."""
        found = POINTER(c_char_p)()
        n = lib.banyan_member_handles(self._open(), byref(found))
        return [found[i].decode() for i in range(n)]

    def _calls(self) -> "Tuple[ctypes._Pointer[CInterrupted], int]":
        calls = ctypes.POINTER(CInterrupted)()
        return calls, int(lib.banyan_member_interrupted(self._open(), byref(calls)))

    def interrupted(self) -> List[Interrupted]:
        """The calls of the memberships before that did not complete on all members of this one that had part in them.
        A call that began here and is not listed completed on all of them. Sends and receives are not listed."""
        calls, n = self._calls()
        return [_interrupted(calls[i]) for i in range(n)]

    def copy_result(self, call: Interrupted, result: Any, timeout: float) -> None:
        """Copies the whole result of an interrupted call, which is in `result` where it completed, to where it did not.
        All ranks of the call call this. Raises RequestError if nobody has it, or ranks have different results."""
        calls, n = self._calls()
        for i in range(n):
            if _interrupted(calls[i]) == call:
                buffer = memory(result, write=True, what="result")
                size, member = buffer.n * SIZES[buffer.dtype], self._open()

                def copy() -> None:
                    check(lib.banyan_member_copy_result(member, byref(calls[i]), buffer.address, size, timeout))

                self._waits.make(copy)
                return
        raise RequestError(f"call {call.call} is not one that was interrupted by the last change of members")

    def allreduce(self, comm: Communicator, buffer: Any, op: str = "average", timeout: float = 60) -> int:
        """An AllReduce in place that ends on all survivors with the same result: where a member dies, all that are left
        recover() and make the call again if not all of them have its result. `comm` is the group's communicator, and goes
        on as that of the next group. Returns how many members contributed; `average` divides by that.

        All members make these calls in the same order, one at a time. Raises Aborted if newcomers came with the change:
        give them the state and repeat the step."""
        elements = memory(buffer, write=True)
        call = Call(ALLREDUCE, elements.dtype, op_number(op), 0, elements.address, elements.address, elements.n)
        completion = Completion(ctypes.sizeof(Completion), None, None, timeout)
        handle = c_void_p(comm.handle.value)
        member = self._open()

        def allreduce(_: Any = elements) -> None:  # The buffer stays valid until the call has ended.
            status = lib.banyan_member_allreduce(member, byref(handle), byref(call), byref(completion))
            if completion.interruptions:
                comm._take(handle, True)
            check(status)

        self._waits.make(allreduce)
        return int(completion.contributors)

    def close(self) -> None:
        """Leaves the group. May be called twice."""
        if self._member is not None and self._owned and self._pid == os.getpid():
            self._waits.end(partial(lib.banyan_member_destroy, self._member))
        self._member = None

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
