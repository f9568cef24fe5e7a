"""Groups of torch.distributed whose processes change, with every version of PyTorch.

    dist.init_process_group("banyan", store=store, rank=0, world_size=1,
                            pg_options=banyan.torch.Options(reconfigure=True))
    publish(banyan.torch.reconfigure_handle())
    banyan.torch.reconfigure("1", handles, timeout=30)      # in all processes with these handles
    dist.all_reduce(tensor)

From PyTorch 2.14 on, init_process_group(enable_reconfigure=True) and its own functions do the same. docs/elastic.md says
what is guaranteed, and what has to be made again after a change.
"""
from __future__ import annotations

import ctypes
from datetime import timedelta
from typing import Any, Sequence, Union

import torch
import torch.distributed as dist

from ..comm import Communicator
from ..member import Member
from ..waiting import interruptible
from .extension import load

_extension = load()


def backend_of(group: Any) -> Any:
    """What stands behind a process group (None: the first one) for tensors in the host's memory, also behind the
    wrapper of TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    group = dist.group.WORLD if group is None else group
    get = getattr(group, "_get_backend", None)
    backend = get(torch.device("cpu")) if get else group
    return getattr(backend, "wrapped_pg", backend)


def seconds(timeout: Union[float, timedelta]) -> float:
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


def supports_reconfigure(group: Any = None) -> bool:
    """Whether the group was made to be reconfigured."""
    try:
        return bool(_extension.member(backend_of(group)))
    except RuntimeError:
        return False


def reconfigure_handle(group: Any = None) -> str:
    """The text by which others name and reach this process. It holds no secret and stays the same."""
    return member(group).handle


def reconfigure(name: Union[str, int], handles: Sequence[str], timeout: Union[float, timedelta],
                group: Any = None) -> None:
    """Makes the group consist of exactly the processes with these handles, in the order of their ranks. All of them call
    it with the same name and list, from any state: without members, healthy, failed or aborted. A name is used once.
    Blocks for at most `timeout`; no other thread may use the group meanwhile.

    On an error the group is as it was. Errors are those of banyan.Member.reconfigure.
    """
    backend, limit = backend_of(group), seconds(timeout)
    interruptible(lambda: _extension.reconfigure(backend, str(name), list(handles), limit))
    _resize(group)


def abort(group: Any = None) -> None:
    """Ends pending and later calls on all processes of the group, which may be reconfigured then. Does not block."""
    _extension.abort(backend_of(group))


def error_state(group: Any = None) -> str:
    """What ended the group's calls: "success" (nothing, or abort() in this process), "timeout" or "communication
    error"."""
    status = _extension.state(backend_of(group))
    return {0: "success", 65: "timeout"}.get(status, "communication error")


def member(group: Any = None) -> Member:
    """The member behind the group, for what PyTorch has no function for. It belongs to the group: give the
    communicators that it makes to adopt()."""
    return Member._of(ctypes.c_void_p(_extension.member(backend_of(group))))


def adopt(comm: Communicator, group: Any = None) -> None:
    """The group goes on with this communicator, which its member() made, and takes it over."""
    _extension.adopt(backend_of(group), comm._give_away())
    _resize(group)


def _resize(group: Any) -> None:
    """Tells PyTorch the group's new rank and size, wherever its version keeps them."""
    group = dist.group.WORLD if group is None else group
    backend = backend_of(group)
    if hasattr(_extension, "resize"):
        _extension.resize(group, backend.rank(), backend.size())
    c10d = dist.distributed_c10d
    ranks = c10d._world.pg_group_ranks if hasattr(c10d, "_world") else c10d._pg_group_ranks
    ranks[group] = {rank: rank for rank in range(backend.size())}
