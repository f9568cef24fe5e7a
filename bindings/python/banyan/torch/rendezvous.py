"""What PyTorch's own rendezvous needs: the environment, and stores that outlive the groups which meet in them."""
from __future__ import annotations

import os
from typing import Any, List, Optional

import torch.distributed as dist

from ..rendezvous import has_key


def of_launcher(rank: int, size: int) -> bool:
    """Whether `banyan run` started this process as this rank of a job of this size: then its helpers, plan and secret are
    meant for the group."""
    env = os.environ
    return (env.get("BANYAN_RANK") == str(rank) and env.get("BANYAN_SIZE") == str(size) and bool(env.get("BANYAN_ROOT"))
            and has_key())


def _made_by_rendezvous(store: Any) -> Optional[Any]:
    """The store below the prefixes, if PyTorch has made it for init_process_group, which names it so. None: the program
    gave a store of its own."""
    above = None
    while hasattr(store, "underlying_store"):
        above, store = store, store.underlying_store
    if above is None:
        return None
    above.add("banyan/groups", 1)
    return store if store.add("default_pg/banyan/groups", 0) else None


_server: Optional[Any] = None
_files: List[Any] = []


def keep_store(store: Any) -> None:
    """Keeps the store of the first group, which PyTorch would destroy with the group. A TCPStore is kept until the next one
    takes its place: rank 0's serves the other ranks, which may already wait there for the next group, and becomes PyTorch's
    next store at this address. FileStores are kept until the process ends, as they delete their file once each rank has
    destroyed one."""
    global _server
    made = _made_by_rendezvous(store)
    if type(made).__name__ == "FileStore":
        _files.append(made)
    elif made is not None:
        _server = made


def number_groups_from(number: int) -> None:
    """PyTorch names groups, and with them its keys in the store, by a counter that each destroy_process_group() sets to 0.
    With numbers that no group before had, it finds nothing of those in the store."""
    c10d = dist.distributed_c10d
    if hasattr(c10d, "_world"):
        c10d._world.group_count = number
    else:
        c10d._group_count = number
