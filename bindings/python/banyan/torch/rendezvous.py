"""Where the ranks of a process group meet: its store tells all ranks the address and secret that rank 0 chose."""
from __future__ import annotations

import fcntl
import itertools
import os
import socket
import struct
from typing import Any, Iterator, List, Optional, Tuple

import torch.distributed as dist

from .. import job_key
from ..library import root_fingerprint
from ..rendezvous import free_port, key_of

_MOST_ADDRESSES = 8
_SIOCGIFADDR = 0x8915


def of_launcher(rank: int, size: int) -> bool:
    """Whether `banyan run` started this process as this rank of a job of this size: then its helpers, plan and secret are
    meant for the group."""
    env = os.environ
    return (env.get("BANYAN_RANK") == str(rank) and env.get("BANYAN_SIZE") == str(size) and bool(env.get("BANYAN_ROOT"))
            and job_key.in_environment())


def set_environment() -> None:
    """Under `banyan run`, what init_method env:// wants to know, unless somebody has said it."""
    env = os.environ
    if "BANYAN_RANK" not in env or "BANYAN_SIZE" not in env or "BANYAN_ROOT" not in env:
        return
    host, _, port = env["BANYAN_ROOT"].partition("#")[0].split(",")[0].rpartition(":")
    env.setdefault("RANK", env["BANYAN_RANK"])
    env.setdefault("WORLD_SIZE", env["BANYAN_SIZE"])
    env.setdefault("MASTER_ADDR", host.strip("[]"))
    env.setdefault("MASTER_PORT", str(int(port) + 1 if int(port) < 65535 else int(port) - 1))


def _network(rank: int) -> str:
    """What all processes with one loopback have in common: the kernel they run on and its network namespace, not the host's
    name, which containers may share. Where the system does not tell, nobody has it in common with this rank."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return f"rank {rank}"


def _towards(host: str) -> Iterator[str]:
    """This host's own addresses on the way to another one."""
    try:
        ways = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    except OSError:
        return  # it is not known here
    for family, kind, _, _, to in ways:
        try:
            with socket.socket(family, kind) as probe:
                probe.connect(to)
                yield str(probe.getsockname()[0])
        except OSError:
            pass


def _of_interfaces() -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # it has none
            yield socket.inet_ntoa(answer[20:24])
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            for line in file:
                yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.split()[0]))
    except OSError:
        pass  # this kernel has no IPv6


def _own_addresses() -> List[str]:
    """Addresses of this host that the others may reach, the likeliest first: those by which it reaches MASTER_ADDR (which
    may be its own), those by which it reaches far networks, all others."""
    master = os.environ.get("MASTER_ADDR", "")
    found: List[str] = []
    for address in itertools.chain(_towards(master) if master else (), _towards("192.0.2.1"), _of_interfaces()):
        if address not in found and not address.startswith(("127.", "::1", "fe80:")):
            found.append(address)
    return found[:_MOST_ADDRESSES] or [socket.gethostname()]


def _places(alone: bool) -> str:
    port = free_port()
    hosts = ["127.0.0.1"] if alone else _own_addresses()
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts)


def meet(store: Any, rank: int, size: int, timeout: Any) -> Tuple[str, Optional[str]]:
    """Addresses and fingerprint of rank 0, and the job's key, by the store of the group. The key is None where the
    environment has one. Blocks until rank 0 has published them. torchrun's store outlives workers that it starts again,
    which must not find what was there before."""
    place = f"banyan/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    store.set(f"{place}/network/{rank}", _network(rank))
    if rank == 0:
        keys = [f"{place}/network/{other}" for other in range(size)]
        store.wait(keys, timeout)
        alone = len({store.get(key) for key in keys}) == 1
        store.set(f"{place}/root", f"{_places(alone)}#{root_fingerprint()}")
    store.wait([f"{place}/root"], timeout)
    return store.get(f"{place}/root").decode(), key_of(dist.PrefixStore(place, store), timeout)
