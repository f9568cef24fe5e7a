"""Banyan as a backend of torch.distributed.

    import torch.distributed as dist
    import banyan.torch                       # registers the backend

    dist.init_process_group("banyan")         # under torchrun, `banyan run`, or with tcp:// and file://

docs/pytorch.md says more.
"""
from __future__ import annotations

import atexit
import ctypes
import zlib
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist

from ..comm import Communicator
from . import rendezvous
from .extension import load

_extension = load()
_world: Optional[Any] = None


def _seconds(timeout: Any) -> float:
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


def _join(store: Any, rank: int, size: int, timeout: Any) -> Any:
    root = key = ""
    if size > 1 and not rendezvous.of_launcher(rank, size):
        root, key = rendezvous.meet(store, rank, size, timeout)
    return _extension.join(rank, size, root, key, _seconds(timeout))


def _create(options: Any, _group_options: Any = None) -> Any:
    """What torch.distributed calls for each new group, on its members only."""
    global _world
    rank, size, ranks = options.group_rank, options.group_size, list(options.global_ranks_in_group)
    world = None if _world is None else _world()
    if world is not None and not _extension.address(world):
        world = None
    if not dist.is_initialized() or not ranks or world is None:
        group = _join(options.store, rank, size, options.timeout)
        if not dist.is_initialized():
            _world = _reference(group)
        return group
    return _extension.subset(world, ranks, zlib.crc32(options.group_id.encode()), _seconds(options.timeout))


def _reference(group: Any) -> Any:
    import weakref

    try:
        return weakref.ref(group)
    except TypeError:
        return lambda: group


def _backend_of(group: Any) -> Any:
    group = dist.group.WORLD if group is None else group
    get = getattr(group, "_get_backend", None)
    return get(torch.device("cpu")) if get else group


def communicator(group: Any = None) -> Communicator:
    """The communicator behind a process group (None: the whole world), for what torch.distributed has no call for: plans,
    deadlines, counters, hosts. It belongs to the group, which may not be destroyed before the last use."""
    address = _extension.address(_backend_of(group))
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


rendezvous.set_environment()
_register()
atexit.register(_extension.leave_all)
