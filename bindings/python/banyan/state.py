"""The state of a program whose processes change: what newcomers receive, and what all return to after a failure.

    state = banyan.State(model=model, optimizer=optimizer, step=0)
    state.sync(comm)                    # after each new membership: all have the newest version
    while state.step < steps:
        train(model, optimizer, comm)
        state.step += 1
        state.commit()                  # a copy of all of it
"""
from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, byref, c_size_t, c_void_p
from functools import partial
from typing import Any, Dict, List, NamedTuple, Optional, Set

from .comm import Communicator
from .errors import RequestError
from .library import StateBuffer, StateSyncOptions, StateReport, check, created, lib
from .state_items import Buffer, Plain, item
from .waiting import Waits

_PREPARE = CFUNCTYPE(None, c_void_p, POINTER(StateBuffer), c_size_t)


class Synced(NamedTuple):
    """How a sync ended; see struct banyan_state_report in banyan/state.h."""
    version: int
    holders: int
    receivers: int
    bytes: int
    seconds: float


class State:
    """Named parts, each of them an attribute: NumPy arrays, tensors, objects with state_dict() and load_state_dict()
    such as modules and optimisers of PyTorch, dictionaries of these, and values that JSON can hold.

    Arrays, tensors and objects are read and written where they are; values are replaced. All members have the same
    parts in the same order. One thread at a time may use a state.
    """
    _items: Dict[str, Plain]
    _waits: Waits

    def __init__(self, **parts: Any) -> None:
        handle = created(lib.banyan_state_create, None, 0)
        self.__dict__.update(_handle=handle, _items={}, _known=None, _buffers=[], _committed=set(),
                             _waits=Waits())
        for name, value in parts.items():
            self.add(name, value)

    def add(self, name: str, value: Any) -> None:
        """A further part, which is an attribute of this name then."""
        if not name.isidentifier() or name.startswith("_") or hasattr(type(self), name):
            raise RequestError(f"a state cannot have a part named {name!r}")
        self._items[name] = item(name, value)

    def __getattr__(self, name: str) -> Any:
        items = self.__dict__.get("_items", {})
        if name not in items:
            raise AttributeError(f"the state has no part {name!r}")
        return items[name].value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._items:
            raise AttributeError(f"the state has no part {name!r}; State.add makes one")
        self._items[name] = item(name, value)

    # ---- the library's view of it

    def _gather(self) -> None:
        """The buffers and values as they are now: optimisers get some with their first step, and arrays may be
        replaced."""
        found: List[Buffer] = []
        for name, part in self._items.items():
            buffers, text = part.look()
            found += buffers
            check(lib.banyan_state_set_value(self._open(), name.encode(), text, len(text)))
        known = [buffer[:4] for buffer in found]
        if known != self._known:
            array = (StateBuffer * max(len(found), 1))(
                *[StateBuffer(b.name.encode(), b.address, b.n, b.dtype) for b in found])
            check(lib.banyan_state_set_buffers(self._open(), array, len(found)))
        self.__dict__.update(_known=known, _buffers=found)  # which keeps the memory

    def _pull(self) -> None:
        for buffer in self._buffers:
            if buffer.pull:
                buffer.pull()

    def _load(self) -> None:
        """After the library has written to the buffers."""
        for buffer in self._buffers:
            if buffer.push:
                buffer.push()
        for name, part in self._items.items():
            bytes_, length = c_void_p(), c_size_t()
            check(lib.banyan_state_get_value(self._open(), name.encode(), byref(bytes_), byref(length)))
            part.parse(ctypes.string_at(bytes_, length.value) if length.value else b"")

    def _open(self) -> c_void_p:
        if self._handle is None:
            raise RequestError("the state is closed")
        handle: c_void_p = self._handle
        return handle

    # ---- public

    @property
    def version(self) -> int:
        """Of the last commit or sync; -1: there was none."""
        return int(lib.banyan_state_version(self._open()))

    def commit(self, version: Optional[int] = None) -> int:
        """Keeps a copy of all parts under a version that is higher than the one before, by default by one. Returns it.
        Takes about the time of copying; no communication."""
        version = self.version + 1 if version is None else version
        self._gather()
        self._pull()
        check(lib.banyan_state_commit(self._open(), version))
        self.__dict__["_committed"] = {buffer.name for buffer in self._buffers}
        return version

    def restore(self) -> None:
        """Returns to the last version."""
        if self.version < 0:
            raise RequestError("the state has no copy: nothing was committed or received")
        self._fit(self._committed)
        check(lib.banyan_state_restore(self._open()))
        self._load()

    def sync(self, comm: Communicator, adopt: bool = False) -> Synced:
        """Gives all members of `comm` the newest version that any of them has, from all that have it. Where nobody has
        one, rank 0's parts become version 0. All members call it, after each new membership.

        Raises Mismatch, on all members, where buffers differ, or contents under one version; with `adopt` those of the
        lowest rank are taken then. A member that dies meanwhile ends it as any call; the next sync goes on with what was
        received.
        """
        raised: List[BaseException] = []

        def prepare(_: Any, buffers: Any, n: int) -> None:
            try:
                self._fit({buffers[i].name.decode() for i in range(n)})
            except BaseException as error:  # C cannot pass it on
                raised.append(error)

        self._gather()
        self._pull()
        callback, report = _PREPARE(prepare), StateReport()
        options = StateSyncOptions(ctypes.sizeof(StateSyncOptions), adopt, ctypes.cast(callback, c_void_p), None)
        handle, source = self._open(), comm.handle

        def sync(_: Any = callback) -> None:
            check(lib.banyan_state_sync(handle, source, byref(options), byref(report)))

        try:
            self._waits.make(sync, also=comm._waits)
        except Exception as error:
            raise error from (raised[0] if raised else None)
        self.__dict__["_committed"] = {buffer.name for buffer in self._buffers}
        self._load()
        return Synced(report.version, report.holders, report.receivers, report.bytes, report.seconds)

    def _fit(self, wanted: Set[str]) -> None:
        """Makes and drops what optimisers keep of parameters, so that the buffers are those with these names."""
        for part in self._items.values():
            part.fit(wanted)
        self._gather()

    def close(self) -> None:
        """Frees the copies. May be called twice."""
        if self._handle is not None:
            self._waits.end(partial(lib.banyan_state_destroy, self._handle))
        self.__dict__["_handle"] = None

    def __del__(self) -> None:
        if self.__dict__.get("_handle") is not None and lib is not None:
            self.close()
