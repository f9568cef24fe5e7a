"""Where the ranks of a process group meet: its store tells all ranks the address and secret that rank 0 chose."""
from __future__ import annotations

import os
from typing import Any, Optional, Tuple

import torch.distributed as dist

from ..library import root_choose
from ..rendezvous import has_key, key_of


def of_launcher(rank: int, size: int) -> bool:
    """Whether `banyan run` started this process as this rank of a job of this size: then its helpers, plan and secret are
    meant for the group."""
    env = os.environ
    return (env.get("BANYAN_RANK") == str(rank) and env.get("BANYAN_SIZE") == str(size) and bool(env.get("BANYAN_ROOT"))
            and has_key())


def _host(rank: int) -> str:
    """What all processes with one loopback, one /proc and one user have in common: the kernel they run on and its
    namespaces, not the host's name, which containers may share. Where the system does not tell, nobody has it in common
    with this rank."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            namespaces = [str(os.stat(f"/proc/self/ns/{name}").st_ino) for name in ("net", "pid")]
            return " ".join([file.read().strip(), *namespaces, str(os.geteuid())])
    except OSError:
        return f"rank {rank}"


def meet(store: Any, rank: int, size: int, timeout: Any) -> Tuple[str, Optional[str]]:
    """Addresses and fingerprint of rank 0, and the job's key, by the store of the group. The key is None where the
    environment has one. Blocks until rank 0 has published them. torchrun's store outlives workers that it starts again,
    which must not find what was there before."""
    place = f"banyan/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    of_key = dist.PrefixStore(place, store)
    store.set(f"{place}/host/{rank}", _host(rank))
    if rank == 0:
        keys = [f"{place}/host/{other}" for other in range(size)]
        store.wait(keys, timeout)
        alone = len({store.get(key) for key in keys}) == 1
        key_of(of_key, timeout, alone)
        store.set(f"{place}/root", root_choose(alone))
    store.wait([f"{place}/root"], timeout)
    return store.get(f"{place}/root").decode(), key_of(of_key, timeout)
