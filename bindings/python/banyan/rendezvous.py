"""Where the processes of an elastic job find each other: a store, or the launcher that started all of them.

A store is one of torch.distributed's (TCPStore, FileStore, ...), or a Folder that all processes see.
"""
from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib
import logging
import os
import secrets
import time
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any, Iterator, List, Optional, Tuple, Union

from .comm import Communicator
from .errors import Aborted, RequestError
from .library import key_create, root_fingerprint
from .member import Member


class Folder:
    """A store in a folder that all processes see: the functions of torch.distributed's stores that are needed here.
    It has to be new for each job, and nobody but its user may write to it."""

    def __init__(self, path: Union[str, Path]) -> None:
        self._path = Path(path)
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self._path.stat()
        if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022:
            raise RequestError(f"{self._path}: others may write to this folder (mode {status.st_mode & 0o777:03o}, user "
                               f"{status.st_uid}), and so give the job their key: use a folder of mode 700")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self._path / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _file(self, key: str) -> Path:
        return self._path / key.replace("/", ".")

    def set(self, key: str, value: str) -> None:
        new = self._path / f".{key.replace('/', '.')}.{os.getpid()}"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # one of the values is the job's key
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(value)
        new.rename(self._file(key))

    def get(self, key: str) -> bytes:
        return self._file(key).read_bytes()

    def add(self, key: str, amount: int) -> int:
        with self._locked():
            file = self._file(key)
            total = (int(file.read_text()) if file.exists() else 0) + amount
            self.set(key, str(total))
        return total

    def wait(self, keys: List[str], timeout: timedelta) -> None:
        until = time.monotonic() + timeout.total_seconds()
        while not all(self._file(key).exists() for key in keys):
            if time.monotonic() > until:
                missing = [key for key in keys if not self._file(key).exists()]
                raise RequestError(f"{self._path} has no {', '.join(missing)} after {timeout.total_seconds():g} s")
            time.sleep(0.01)


_log = logging.getLogger("banyan")
_memory: Optional[int] = None  # the descriptor of the last key in memory


def has_key() -> bool:
    """Whether the environment has a key, or names a file with one."""
    return bool(os.environ.get("BANYAN_KEY_FILE") or os.environ.get("BANYAN_KEY"))


@functools.lru_cache(maxsize=None)
def _warn_of_store() -> None:
    _log.warning("banyan rendezvous: whoever can read the store in which processes of this job meet can join it, since the job's key is "
                 "there; BANYAN_KEY_FILE names a file with a key instead")


@functools.lru_cache(maxsize=None)
def store_of_torchrun(timeout: float) -> Any:
    """The store that torchrun's workers share. It outlives them, so those that are started again get keys of their own."""
    dist = importlib.import_module("torch.distributed")
    store, _, _ = next(dist.distributed_c10d.rendezvous("env://", timeout=timedelta(seconds=timeout)))
    return dist.PrefixStore(f"banyan/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def of_torchrun(timeout: float) -> Tuple[Optional[str], Optional[str]]:
    """Place and fingerprint of rank 0, and the key, of the ranks that torchrun started, which has none for them. None: this
    is no such rank, or the environment has the key."""
    env = os.environ
    if "TORCHELASTIC_RUN_ID" not in env or "BANYAN_RANK" in env or env.get("WORLD_SIZE", "1") == "1":
        return None, None
    if has_key():
        return None, None
    store, deadline = store_of_torchrun(timeout), timedelta(seconds=timeout)
    one_host = env.get("LOCAL_WORLD_SIZE") == env["WORLD_SIZE"]
    return env.get("BANYAN_ROOT") or _root_of(store, deadline), key_of(store, deadline, one_host)


def _root_of(store: Any, timeout: timedelta) -> str:
    """torchrun keeps MASTER_PORT for its own store; the next one is rank 0's."""
    env = os.environ
    if env["RANK"] == "0":
        host = f"[{env['MASTER_ADDR']}]" if ":" in env["MASTER_ADDR"] else env["MASTER_ADDR"]
        store.set("banyan/root", f"{host}:{int(env['MASTER_PORT']) + 1}#{root_fingerprint()}")
    store.wait(["banyan/root"], timeout)
    return str(store.get("banyan/root").decode())


def _path_of(store: Any) -> Optional[str]:
    """Of torch.distributed's FileStore, below any PrefixStore: a file that other users can read as a rule. None: it is
    another store."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store.path if type(store).__name__ == "FileStore" else None


def _write_key(path: Optional[str]) -> str:
    """A new key, which only this user can read: in a new file beside `path`, or in memory until this process ends or makes
    another one, for its next job. Returns where."""
    global _memory
    if path:
        place = f"{path}.key-{secrets.token_hex(8)}"
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    else:
        descriptor = os.memfd_create("banyan-key")
        os.fchmod(descriptor, 0o400)
        place = f"/proc/{os.getpid()}/fd/{descriptor}"
        if _memory is not None:
            os.close(_memory)
        _memory = descriptor
    with open(descriptor, "w", encoding="ascii", closefd=bool(path)) as file:
        file.write(f"{key_create()}\n")
    return place


def _read_key(place: str) -> str:
    with open(place, encoding="ascii") as file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o077:
            raise RequestError(f"{place}: others may read or change this key (mode {status.st_mode & 0o777:03o}, user "
                               f"{status.st_uid})")
        return file.read().strip()


def key_of(store: Any, timeout: timedelta, one_host: bool = False) -> Optional[str]:
    """The key of a job: one that the store has from whichever process came first. A FileStore has the name of a file with
    it, and where all processes are known to have one /proc, any store that of memory. None: the environment has one."""
    if has_key():
        return None
    if store.add("banyan/key/drawn", 1) == 1:
        path = _path_of(store)
        if not path and not one_host and not isinstance(store, Folder):
            _warn_of_store()
        store.set("banyan/key", _write_key(path) if path or one_host else key_create())
    store.wait(["banyan/key"], timeout)
    text = str(store.get("banyan/key").decode())
    return _read_key(text) if text.startswith("/") else text


class OfStore:
    """The first `size` processes that come form a membership, in this order; those that come later join the members whose
    handles the store has then.

    If one of the first dies before they have formed it, those that are left try again with those that have come since. Of
    each attempt the store says once how it ended: the first process that knows it decides. So all go on alike, also where
    some have a communicator and others an error.
    """
    _ATTEMPTS = 3

    def __init__(self, store: Any, size: int, timeout: float) -> None:
        self._store, self._size, self._timeout = store, size, timedelta(seconds=timeout)

    def key(self) -> Optional[str]:
        return key_of(self._store, self._timeout)

    def enter(self, member: Member) -> Communicator:
        error: Optional[RuntimeError] = None
        for attempt in range(1, self._ATTEMPTS + 1):
            arrived, comm = self._store.add(f"banyan/arrived/{attempt}", 1), None
            if arrived <= self._size:
                try:
                    comm = self._form(member, attempt, arrived)
                except RuntimeError as failure:
                    error = failure
                self._decide(attempt, "formed" if comm else "failed")
            if self._outcome(attempt) == "formed":
                return comm or self._join(member)
        raise error or RequestError(f"no group was formed in {self._ATTEMPTS} attempts")

    def _form(self, member: Member, attempt: int, arrived: int) -> Communicator:
        place, seconds = f"banyan/arrived/{attempt}", self._timeout.total_seconds()
        self._store.set(f"{place}/{arrived}", member.handle)
        keys = [f"{place}/{i + 1}" for i in range(self._size)]
        self._store.wait(keys, self._timeout)
        comm = member.reconfigure(f"start {attempt}", [self._store.get(key).decode() for key in keys], seconds)
        comm.barrier()  # Whoever passes it knows that all have a communicator.
        return comm

    def _decide(self, attempt: int, outcome: str) -> None:
        if self._store.add(f"banyan/decided/{attempt}", 1) == 1:
            self._store.set(f"banyan/outcome/{attempt}", outcome)

    def _outcome(self, attempt: int) -> str:
        """Waits for it as long as an attempt may take: until all have come, and until they have met."""
        key = f"banyan/outcome/{attempt}"
        self._store.wait([key], 2 * self._timeout + timedelta(seconds=5))
        return str(self._store.get(key).decode())

    def _join(self, member: Member) -> Communicator:
        self._store.wait(["banyan/members"], self._timeout)
        return member.join(self._store.get("banyan/members").decode().split(), self._timeout.total_seconds())

    def members(self, known: List[str]) -> List[str]:
        """Whom a process that was excluded asks to be a member again: those of now, or those that it knew."""
        try:
            return [*self._store.get("banyan/members").decode().split(), *known]
        except (RuntimeError, OSError):
            return known

    def entered(self, member: Member, rank: int) -> None:
        """Those that come later shall find the members of now. The store may be gone with the process that served it, which
        is no reason for the others to end."""
        if rank:
            return
        try:
            self._store.set("banyan/members", "\n".join(member.handles()))
        except (RuntimeError, OSError) as error:
            warnings.warn(f"the store of the job is lost, so no other process can join: {error}")


class OfLauncher:
    """As the environment says: `banyan run` with --restarts tells all processes of each other, also those that it starts
    later. Under other launchers all ranks form the first membership, and none comes later."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout

    def key(self) -> Optional[str]:
        return None

    def enter(self, member: Member) -> Optional[Communicator]:
        """None: `banyan run` wants this process to leave already."""
        try:
            return member.start(self._timeout)
        except Aborted:
            if not member.change_wanted():
                raise
            return None

    def members(self, known: List[str]) -> List[str]:
        """None under `banyan run`, which takes one member of each process, and starts it again when it has ended."""
        return [] if "BANYAN_LAUNCHER" in os.environ else known

    def entered(self, member: Member, rank: int) -> None:
        pass
