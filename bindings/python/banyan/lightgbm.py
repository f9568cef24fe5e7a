"""LightGBM's data-parallel training over a communicator, in place of its own sockets.

    with banyan.Communicator() as comm, banyan.lightgbm.network(comm) as parameters:
        data = lightgbm.Dataset(x, y)  # the rows of this rank
        model = lightgbm.train({**parameters, "objective": "binary"}, data)

LightGBM calls two functions for its communication (LGBM_NetworkInitWithFunctions). They belong to the thread that has
installed them, and have no way to report an error: when a call fails, for example because a rank has died, the reason is
written to standard error, and the process ends with status 1.
"""
from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from ctypes import (CFUNCTYPE, POINTER, byref, c_int, c_int32, c_size_t, c_void_p, cast, create_string_buffer,
                    memmove)
from typing import Any, Callable, Dict, Iterator, List

import lightgbm

from .buffers import DTYPES
from .calls import ALLGATHER, RECV, SEND
from .comm import Communicator
from .library import Call, check, lib

UINT8 = DTYPES["uint8"]
DEADLINE = 7200.0  # seconds: a rank may compute for long before it comes to a call; the dead are found without it
# type_size and array_size are in bytes; the reducer adds what is at the first address to what is at the second.
_REDUCER = CFUNCTYPE(None, c_void_p, c_void_p, c_int, c_int32)
_REDUCE_SCATTER = CFUNCTYPE(None, c_void_p, c_int32, c_int, POINTER(c_int32), POINTER(c_int32), c_int, c_void_p, c_int32,
                            POINTER(c_void_p))
_ALLGATHER = CFUNCTYPE(None, c_void_p, c_int32, POINTER(c_int32), POINTER(c_int32), c_int, c_void_p, c_int32)


class _Functions:
    """What LightGBM calls. Blocks follow one another in the order of ranks."""

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self.received: List[Any] = [create_string_buffer(0)] * comm.size  # room for a block of each other rank
        self.pointers = _REDUCE_SCATTER(self.reduce_scatter), _ALLGATHER(self.allgather)

    def reduce_scatter(self, data: int, data_size: int, type_size: int, starts: Any, sizes: Any, n: int, result: int,
                       result_size: int, reducer: Any) -> None:
        """Puts the sum of this rank's block to the beginning of `result`. Ranks are added in their order, on all
        ranks alike."""
        self._end_on_failure(lambda: self._reduce_scatter(data, type_size, starts, sizes, result, _REDUCER(reducer[0])))

    def allgather(self, data: int, data_size: int, starts: Any, sizes: Any, n: int, result: int, result_size: int) -> None:
        """`data` is this rank's block, and may be at the beginning of `result`."""
        self._end_on_failure(lambda: self._allgather(data, starts, sizes, result))

    def _end_on_failure(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:  # pylint: disable=broad-except
            try:
                sys.stdout.flush()
                sys.stderr.write(f"banyan[rank {self.comm.rank}] lightgbm: {error or type(error).__name__}; LightGBM cannot be "
                                 "told of an error of its network, so this process ends\n")
                sys.stderr.flush()
            finally:
                os._exit(1)

    def _start(self, collective: int, rank: int, address: int, size: int) -> c_void_p:
        call = Call(collective=collective, dtype=UINT8, root=rank, count=size, deadline=DEADLINE)
        call.send = call.recv = address
        handle = c_void_p()
        check(lib.banyan_start(self.comm.handle, byref(call), byref(handle)))
        return handle

    def _reduce_scatter(self, data: int, type_size: int, starts: Any, sizes: Any, result: int,
                        reducer: Callable[[Any, Any, int, int], None]) -> None:
        rank, n = self.comm.rank, self.comm.size
        own = sizes[rank]
        others = [(rank + i) % n for i in range(1, n)]
        blocks: List[Any] = [data + starts[rank]] * n
        for r in others:
            if len(self.received[r]) < own:
                self.received[r] = create_string_buffer(own)
            blocks[r] = cast(self.received[r], c_void_p).value
        calls = [self._start(RECV, r, blocks[r], own) for r in reversed(others)]
        calls += [self._start(SEND, r, data + starts[r], sizes[r]) for r in others]
        for call in calls:
            check(lib.banyan_wait(call))
        for block in blocks[1:]:
            reducer(block, blocks[0], type_size, own)
        memmove(result, blocks[0], own)

    def _allgather(self, data: int, starts: Any, sizes: Any, result: int) -> None:
        rank, n = self.comm.rank, self.comm.size
        own = result + starts[rank]
        memmove(own, data, sizes[rank])
        call = Call(collective=ALLGATHER, dtype=UINT8, send=own, recv=result + starts[0], count=sizes[rank],
                    deadline=DEADLINE)
        call.counts = (c_size_t * n)(*sizes[:n])
        check(lib.banyan_run(self.comm.handle, byref(call)))


@contextmanager
def network(comm: Communicator) -> Iterator[Dict[str, Any]]:
    """Within the block, LightGBM communicates over `comm` in this thread: make the Dataset and train there, on all ranks
    alike. Gives the parameters that training needs. Do not give LightGBM `machines`."""
    if comm.size == 1:
        yield {}
        return
    functions = _Functions(comm)
    reduce_scatter, allgather = (cast(pointer, c_void_p) for pointer in functions.pointers)
    library, check_lightgbm = lightgbm.basic._LIB, lightgbm.basic._safe_call
    check_lightgbm(library.LGBM_NetworkInitWithFunctions(c_int(comm.size), c_int(comm.rank), reduce_scatter, allgather))
    try:
        yield {"tree_learner": "data", "num_machines": comm.size}
    finally:
        check_lightgbm(library.LGBM_NetworkFree())
