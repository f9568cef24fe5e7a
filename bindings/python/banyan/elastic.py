"""Training loops that go on while processes die, leave and come.

    import banyan, banyan.elastic
    state = banyan.State(model=model, optimizer=optimizer, step=0)

    def train(job):                       # called again after each change
        while state.step < steps:
            ...                           # calls of job.comm, or of torch.distributed and DDP, which is made here
            state.step += 1
            job.commit()

    banyan.elastic.run(train, state)

With `import banyan.torch` before it, the first group of torch.distributed has the members of now. docs/elastic.md has more.
"""
from __future__ import annotations

import array
import os
import sys
from typing import Any, Callable, Optional, TypeVar, Union

from .comm import Communicator
from .errors import Aborted, RequestError
from .library import lib
from .member import Member
from .rendezvous import Folder, OfLauncher, OfStore, store_of_torchrun
from .state import State

__all__ = ["Folder", "Job", "run"]

_MISMATCH, _CLOSED = 66, 97
_Result = TypeVar("_Result")


class _Changed(BaseException):
    """Ends the program's function where the members form the next membership. No error: `except Exception` passes it."""


class Job:
    """What a training function has: the members of now, and commit()."""

    def __init__(self, member: Member, state: State, every: int) -> None:
        self._member, self._every = member, every
        self._leaves = self._wants_to_leave = False
        self.state = state
        self.comm: Communicator  # of the members of now
        self.memberships = 0  # in which this process was, with the one of now

    @property
    def rank(self) -> int:
        return self.comm.rank

    @property
    def size(self) -> int:
        return self.comm.size

    def commit(self) -> None:
        """Keeps a copy of the state, to which all return after a failure. All members call it at the same places, where
        their states are equal. Members that want to come or to leave do so here: the function is called again then.

        A commit compares whether anybody waits, in an AllReduce of one number; with `every` of run() only so many commits
        do.
        """
        self.state.commit()
        self._commits += 1
        if self._commits % self._every == 0:
            wanted = array.array("i", [self._member.change_wanted()])
            self.comm.allreduce(wanted, op="max")
            if wanted[0]:
                raise _Changed

    def leave(self) -> None:
        """This process wants to leave, and does so at a commit: run() then returns None here. Any thread, also in a
        signal handler."""
        self._wants_to_leave = True
        self._member.leave()

    def _was_interrupted(self) -> bool:
        """Whether calls fail because of a member, rather than of the program. The autograd engine turns errors of DDP's
        calls into others, so the exception does not say it."""
        return lib.banyan_comm_state(self.comm.handle) not in (0, _MISMATCH)

    def _next(self, timeout: float) -> Optional[Communicator]:
        """Forms the next membership. None: without this process, which wanted to leave."""
        try:
            return self._member.recover(timeout)
        except Aborted as error:
            if error.status == _CLOSED and (self._leaves or self._wants_to_leave):
                return None
            raise

    def _enter(self, comm: Communicator) -> None:
        self.comm, self._commits, self._leaves = comm, 0, False
        self._known = [handle for handle in self._member.handles() if handle != self._member.handle]
        self.memberships += 1


class _Plain:
    """A program that calls job.comm."""

    def __init__(self, key: Optional[str]) -> None:
        self._key = key
        self.member = Member(key=key)

    def renew(self) -> bool:
        self.member.close()
        self.member = Member(key=self._key)
        return True

    def adopt(self, comm: Communicator) -> Communicator:
        return comm

    def close(self) -> None:
        self.member.close()


class _Torch:
    """A program that calls torch.distributed, whose first group gets the members."""

    def __init__(self, key: Optional[str]) -> None:
        self._key = key
        self._torch: Any = sys.modules["banyan.torch"]
        self._made = not self._torch.dist.is_initialized()
        if self._made:
            self._torch.init_without_members(key)
        self.member: Member = self._torch.member()

    def renew(self) -> bool:
        """Not where the program has made the group, whose member cannot be another one."""
        if self._made:
            self._torch.dist.destroy_process_group()
            self._torch.init_without_members(self._key)
            self.member = self._torch.member()
        return self._made

    def adopt(self, comm: Communicator) -> Communicator:
        self._torch.adopt(comm)
        adopted: Communicator = self._torch.communicator()
        return adopted

    def close(self) -> None:
        if self._made:
            self._torch.dist.destroy_process_group()


def _meeting(rendezvous: Any, size: Optional[int], timeout: float) -> Union[OfStore, OfLauncher]:
    if rendezvous is None and "banyan.torch" in sys.modules and "TORCHELASTIC_RUN_ID" in os.environ:
        rendezvous = store_of_torchrun(timeout)
    if rendezvous is None:
        return OfLauncher(timeout)
    size = size or int(os.environ.get("WORLD_SIZE", 0))
    if not size:
        raise RequestError("say how many processes form the first membership: size=, or WORLD_SIZE")
    return OfStore(rendezvous, size, timeout)


def _come_back(job: Job, world: Union[_Plain, _Torch], meeting: Union[OfStore, OfLauncher], timeout: float,
               error: Aborted) -> Communicator:
    """The members go on without this process, which did not answer for a while: it joins them as a new one. Raises the
    error that says so where it cannot."""
    others = meeting.members(job._known)
    if error.status != _CLOSED or not others or not world.renew():
        raise error
    job._member = world.member
    try:
        return job._member.join(others, timeout)
    except RuntimeError as again:
        raise Aborted(f"{error}; it could not join again: {again}", _CLOSED) from again


def run(function: Callable[[Job], _Result], state: State, rendezvous: Any = None, size: Optional[int] = None,
        timeout: float = 60, every: int = 1, on_change: Optional[Callable[[Job], Any]] = None) -> Optional[_Result]:
    """Calls function(job) in a membership of all processes, and again in each later one, until it returns: returns what
    it returned, or None if this process has left.

    Before each call all members have the newest state that any of them has committed. A call that fails because a member
    died or was lost ends the function on all members; those that are left form the next membership. What the function
    did after the last commit is lost. Every other error is raised. A process that the others went on without, as it was
    stopped for long, joins them again; under `banyan run` it raises Aborted, and is started again.

    rendezvous: where processes find each other: a store of torch.distributed, or a Folder. None: by the launcher.
    size: with a store, how many processes form the first membership; later ones join. By default WORLD_SIZE.
    timeout: seconds for others to come, at the start and at each change.
    every: of so many commits one asks whether processes want to come or leave.
    on_change: called with the job before each call of the function.
    """
    if not isinstance(state, State):
        raise RequestError(f"the state is a {type(state).__name__}: make a banyan.State of it")
    if every < 1:
        raise RequestError(f"every is {every}: it is at least 1")
    meeting = _meeting(rendezvous, size, timeout)
    world: Union[_Plain, _Torch]
    if "banyan.torch" in sys.modules:
        world = _Torch(meeting.key())
    else:
        world = _Plain(meeting.key())
    job = Job(world.member, state, every)
    try:
        comm = meeting.enter(world.member)
        while comm:
            try:
                job._enter(world.adopt(comm))
                meeting.entered(world.member, job.rank)
                state.sync(job.comm, adopt=True)
                if on_change:
                    on_change(job)
                return function(job)
            except _Changed:
                job._leaves = True  # if it is not among those that go on
            except RuntimeError:
                if not job._was_interrupted():
                    raise
            try:
                comm = job._next(timeout)
            except Aborted as error:
                comm = _come_back(job, world, meeting, timeout, error)
        return None
    finally:
        world.close()
