"""Where the ranks of a process group meet: its store tells all ranks the address and secret that rank 0 chose."""
from __future__ import annotations

import os
import secrets
import socket
from typing import Any, Tuple

_LOWEST, _HIGHEST = 18000, 32000  # below the ports that kernels give to connections


def of_launcher(rank: int, size: int) -> bool:
    """Whether `banyan run` started this process as this rank of a job of this size: then its helpers, plan and secret are
    meant for the group."""
    env = os.environ
    return (env.get("BANYAN_RANK") == str(rank) and env.get("BANYAN_SIZE") == str(size) and bool(env.get("BANYAN_ROOT"))
            and bool(env.get("BANYAN_KEY")))


def set_environment() -> None:
    """Under `banyan run`, what init_method env:// wants to know, unless somebody has said it."""
    env = os.environ
    if "BANYAN_RANK" not in env or "BANYAN_SIZE" not in env or "BANYAN_ROOT" not in env:
        return
    host, _, port = env["BANYAN_ROOT"].rpartition(":")
    env.setdefault("RANK", env["BANYAN_RANK"])
    env.setdefault("WORLD_SIZE", env["BANYAN_SIZE"])
    env.setdefault("MASTER_ADDR", host.strip("[]"))
    env.setdefault("MASTER_PORT", str(int(port) + 1 if int(port) < 65535 else int(port) - 1))


def _machine() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}"


def _free_port() -> int:
    draw = secrets.SystemRandom()
    for _ in range(1000):
        port = draw.randrange(_LOWEST, _HIGHEST)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        return port
    raise RuntimeError(f"banyan: no port from {_LOWEST} to {_HIGHEST} is free")


def _own_address() -> str:
    """An address of this host that the others may reach: that of MASTER_ADDR if it is this host's, else the one by which
    it reaches the network."""
    master = os.environ.get("MASTER_ADDR", "")
    for target in (master, "192.0.2.1"):
        if not target:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((target, 9))
            except OSError:
                continue
            return str(probe.getsockname()[0])
    return socket.gethostname()


def meet(store: Any, rank: int, size: int, timeout: Any) -> Tuple[str, str]:
    """Address and secret of the job, by the store of the group. Blocks until rank 0 has said them."""
    store.set(f"banyan/machine/{rank}", _machine())
    if rank == 0:
        keys = [f"banyan/machine/{other}" for other in range(size)]
        store.wait(keys, timeout)
        alone = len({store.get(key) for key in keys}) == 1
        host = "127.0.0.1" if alone else _own_address()
        store.set("banyan/root", f"{host}:{_free_port()} {secrets.token_hex(32)}")
    store.wait(["banyan/root"], timeout)
    root, key = store.get("banyan/root").decode().split(" ")
    return root, key
