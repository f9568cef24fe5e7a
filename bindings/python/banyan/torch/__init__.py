"""Banyan as a backend of torch.distributed.

    import torch.distributed as dist
    import banyan.torch                       # registers the backend

    dist.init_process_group("banyan")         # under torchrun, `banyan run`, or with tcp:// and file://

docs/pytorch.md says more.
"""
from __future__ import annotations

import atexit
import ctypes
import dataclasses
import os
import time
from datetime import timedelta
from typing import Any, Dict, Optional

import torch
import torch.distributed as dist

from ..comm import Communicator
from ..library import root_choose
from ..rendezvous import key_of, meet
from ..waiting import interruptible
from . import futures, rendezvous
from .extension import load
from .membership import (abort, adopt, backend_of, error_state, member, reconfigure, reconfigure_handle, seconds,
                         supports_reconfigure)
from .named import NamedState, Names, named_hook
from .optimiser import distributed_optimizer
from .powersgd import PowerSGDState, power_sgd_hook
from .sparse import allreduce_sparse_gradients, sparse_hook

_extension = load()
__all__ = ["NamedState", "Names", "Options", "PowerSGDState", "abort", "adopt", "allreduce_sparse_gradients", "communicator",
           "distributed_optimizer", "error_state", "init_without_members", "member", "named_hook", "power_sgd_hook",
           "reconfigure", "reconfigure_handle", "sparse_hook", "supports_reconfigure"]


@dataclasses.dataclass
class Options:
    """For the argument pg_options of init_process_group. What is not given comes from the environment; of all but `plan`,
    new_group has what the first group has.

    plan: a built-in's name, a plan file, or JSON.
    topology: what to plan from at the start where there is no plan: a file, a short text, or "measure".
    timeline: a file of what happened to every operation on all ranks, which rank 0 writes at the end.
    transport: "auto", "shm" or "tcp".
    reconfigure: the processes of the first group change (docs/elastic.md). It has no members until reconfigure() is
        called.
    key: the secret that its processes share, where the store does not give them one.
    """

    plan: Optional[str] = None
    topology: Optional[str] = None
    timeline: Optional[str] = None
    transport: Optional[str] = None
    reconfigure: bool = False
    key: Optional[str] = None


def _given(options: Optional[Options]) -> Dict[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Options):
        raise TypeError(f"pg_options of a group of banyan is a banyan.torch.Options, not a {type(options).__name__}")
    return {name: value for name, value in dataclasses.asdict(options).items() if value is not None}


def _join(store: Any, rank: int, size: int, timeout: float, given: Dict[str, str], first: bool = False) -> Any:
    """A job of the processes that meet in the store. `first`: it is for PyTorch's first group."""
    if size == 1:
        return _extension.join(rank, size, timeout, timeout, given)
    until = time.monotonic() + timeout
    of_launcher = first and rendezvous.of_launcher(rank, size)

    def choose(one_host: bool) -> str:
        return os.environ["BANYAN_ROOT"] if of_launcher else root_choose(one_host)

    with meet(store, rank, size, timeout, choose) as place:
        if first:
            rendezvous.keep_store(store)
            rendezvous.number_groups_from(place.round << 20)
        if not of_launcher:
            given = {**given, "root": place.root, **({"key": place.key} if place.key else {})}
        left = max(1, until - time.monotonic())
        return interruptible(lambda: _extension.join(rank, size, timeout, left, given))


def _join_first(store: Any, rank: int, size: int, timeout: float, given: Dict[str, str]) -> Any:
    try:
        return _join(store, rank, size, timeout, given, True)
    except BaseException:
        rendezvous.number_groups_from(0)  # the next attempt is for the same group
        raise


def _meet(store: Any, rank: int, size: int, timeout: float) -> Any:
    """What the C++ part calls for a job whose processes meet in a store, also where a launcher has started them."""
    return _join(store, rank, size, timeout, {})


def _world() -> Optional[Any]:
    """The first group's backend, where there is one and it is Banyan's."""
    if not dist.is_initialized():
        return None
    try:
        backend = backend_of(None)
    except RuntimeError:  # it has none for tensors in the host's memory
        return None
    return backend if _extension.address(backend) else None


def _create(options: Any, group_options: Optional[Options] = None) -> Any:
    """What torch.distributed calls for each new group, on its members only."""
    given = _given(group_options)
    rank, size, ranks = options.group_rank, options.group_size, list(options.global_ranks_in_group)
    changes = given.pop("reconfigure", False) or getattr(options, "enable_reconfigure", False)
    world = _world()
    if changes and ranks:
        raise ValueError("only the first group can be reconfigured")
    if changes:
        if "key" not in given:
            key = key_of(options.store, timedelta(seconds=seconds(options.timeout)))
            if key:
                given["key"] = key
        return _extension.without_members(rank, size, seconds(options.timeout), given)
    if ranks and dist.is_initialized() and supports_reconfigure() and world is None:
        raise RuntimeError("the first group has no members yet: reconfigure it before new_group")
    if world is None or not ranks:
        if ranks:
            return _join(options.store, rank, size, seconds(options.timeout), given)
        return _join_first(options.store, rank, size, seconds(options.timeout), given)
    return _extension.subset(world, ranks, seconds(options.timeout), given)


def init_without_members(key: Optional[str] = None, timeout: float = 600) -> None:
    """Makes the first group for processes that change. It has no members until reconfigure() or adopt() is called. The
    key is the job's, by default that of BANYAN_KEY_FILE. `timeout` is the deadline of each call, in seconds."""
    dist.init_process_group("banyan", store=dist.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=timeout),
                            pg_options=Options(reconfigure=True, key=key))


def communicator(group: Any = None) -> Communicator:
    """The communicator behind a process group (None: the whole world), for what torch.distributed has no call for: plans,
    deadlines, counters, hosts. It belongs to the group, which may not be destroyed before the last use."""
    address = _extension.address(backend_of(group))
    if not address:
        raise ValueError("the group's backend is not banyan, or it has left the job")
    return Communicator._of(ctypes.c_void_p(address), owned=False)


def _register() -> None:
    register = dist.Backend.register_backend
    if hasattr(dist.Backend, "BANYAN"):
        return
    if int(torch.__version__.split(".", maxsplit=1)[0]) >= 2:
        register("banyan", _create, extended_api=True, devices=["cpu"])
    else:
        register("banyan", _create, extended_api=True)


futures.install()
_register()
atexit.register(_extension.leave_all)
