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
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Tuple, Union

from .comm import Communicator
from .errors import Aborted, RequestError, Timeout
from .library import key_create, root_choose, root_fingerprint
from .member import Member
from .waiting import interruptible


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


@contextlib.contextmanager
def of_torchrun(timeout: float) -> Iterator[Tuple[Optional[str], Optional[str]]]:
    """Place and fingerprint of rank 0, and the key, of the ranks that torchrun started, which has none for them. None: this
    is no such rank, or the environment has the key."""
    env = os.environ
    if "TORCHELASTIC_RUN_ID" not in env or "BANYAN_RANK" in env or env.get("WORLD_SIZE", "1") == "1" or has_key():
        yield None, None
        return
    with meet(store_of_torchrun(timeout), int(env["RANK"]), int(env["WORLD_SIZE"]), timeout, _root_of_torchrun) as place:
        yield place.root, place.key


def _root_of_torchrun(_: bool) -> str:
    """torchrun keeps MASTER_PORT for its own store; the next one is rank 0's."""
    env = os.environ
    host = f"[{env['MASTER_ADDR']}]" if ":" in env["MASTER_ADDR"] else env["MASTER_ADDR"]
    return env.get("BANYAN_ROOT") or f"{host}:{int(env['MASTER_PORT']) + 1}#{root_fingerprint()}"


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


def _draw_key(store: Any, one_host: bool) -> str:
    """What the store is to say of a new key. A FileStore gets the name of a file with it, and where all processes are known
    to have one /proc, any store that of memory."""
    path = _path_of(store)
    if path or one_host:
        return _write_key(path)
    if not isinstance(store, Folder):
        _warn_of_store()
    return key_create()


def _key_from(text: str) -> str:
    return _read_key(text) if text.startswith("/") else text


def key_of(store: Any, timeout: timedelta) -> Optional[str]:
    """The key of a job: one that the store has from whichever process came first. None: the environment has one."""
    if has_key():
        return None
    if store.add("banyan/key/drawn", 1) == 1:
        store.set("banyan/key", _draw_key(store, False))
    interruptible(lambda: store.wait(["banyan/key"], timeout))
    return _key_from(str(store.get("banyan/key").decode()))


class Place(NamedTuple):
    """Where the ranks of a group meet: addresses and fingerprint of rank 0, and the job's key, None where the environment
    has one. `round` is how often groups have met in the store, this time included."""
    root: str
    key: Optional[str]
    round: int


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


class _Meeting:
    """The ranks of a group in a store, which may be that of other groups before and after, and outlive processes.

    Rank 0 opens a round each time it comes, and declares the last one void. Each other rank takes the latest round that it
    has not taken yet, waits for the next one where there is none, and goes on to it where its own becomes void or is that of
    a group of another size. So no rank finds what a group before left there, also after attempts that failed on some of the
    ranks."""

    def __init__(self, store: Any, rank: int, timeout: float) -> None:
        self._store, self._rank, self._timeout = store, rank, timeout
        self._until = time.monotonic() + timeout

    def _wait(self, key: str, rank: int) -> str:
        """The value of a key that this rank sets."""
        left = self._until - time.monotonic()
        try:
            interruptible(lambda: self._store.wait([key], timedelta(seconds=max(0.001, left))))
            return str(self._store.get(key).decode())
        except RuntimeError:
            if time.monotonic() < self._until - 0.1 * left:  # it is no timeout: the store is lost
                raise
        raise Timeout(f"rank {rank} has not come to form the group within {self._timeout:g} s, of which rank {self._rank} "
                      "waits", 65)

    def open(self) -> int:
        """For rank 0."""
        number = int(self._store.add("banyan/round", 1))
        if number > 1:
            self._store.set(f"banyan/{number - 1}/root", "")
            self._store.set(f"banyan/{number - 1}/open", "")
        self._store.set(f"banyan/{number}/open", "")
        return number

    def take(self) -> int:
        """For other ranks."""
        taken = int(self._store.add(f"banyan/taken/{self._rank}", 0))
        self._wait(f"banyan/{taken + 1}/open", 0)
        number = int(self._store.add("banyan/round", 0))
        self._store.add(f"banyan/taken/{self._rank}", number - taken)
        return number

    def publish(self, number: int, size: int, choose_root: Callable[[bool], str]) -> str:
        hosts = {self._wait(f"banyan/{number}/host/{other}", other) for other in range(1, size)}
        one_host = hosts == {_host(0)}
        text = f"{size}\n{choose_root(one_host)}\n{'' if has_key() else _draw_key(self._store, one_host)}"
        self._store.set(f"banyan/{number}/root", text)
        return text

    def learn(self, number: int) -> str:
        self._store.set(f"banyan/{number}/host/{self._rank}", _host(self._rank))
        return self._wait(f"banyan/{number}/root", 0)


@contextlib.contextmanager
def meet(store: Any, rank: int, size: int, timeout: float,
         choose_root: Callable[[bool], str] = root_choose) -> Iterator[Place]:
    """Meets the other ranks of a group in a store of torch.distributed. They join in the block, at whose end they have got
    the key, which is deleted then where a file has it. `choose_root` is called by rank 0, with whether all are on one host.
    Blocks for at most `timeout` seconds."""
    meeting = _Meeting(store, rank, timeout)
    number, text = meeting.open() if rank == 0 else 0, ""
    if rank == 0:
        text = meeting.publish(number, size, choose_root)
    while text.split("\n")[0] != str(size):
        number = meeting.take()
        text = meeting.learn(number)
    _, root, key = text.split("\n")
    try:
        yield Place(root, _key_from(key) if key and not has_key() else None, number)
    finally:
        if rank == 0 and key.startswith("/") and not key.startswith("/proc/"):
            os.unlink(key)


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
        interruptible(lambda: self._store.wait(keys, self._timeout))
        comm = member.reconfigure(f"start {attempt}", [self._store.get(key).decode() for key in keys], seconds)
        comm.barrier()  # Whoever passes it knows that all have a communicator.
        return comm

    def _decide(self, attempt: int, outcome: str) -> None:
        if self._store.add(f"banyan/decided/{attempt}", 1) == 1:
            self._store.set(f"banyan/outcome/{attempt}", outcome)

    def _outcome(self, attempt: int) -> str:
        """Waits for it as long as an attempt may take: until all have come, and until they have met."""
        key = f"banyan/outcome/{attempt}"
        interruptible(lambda: self._store.wait([key], 2 * self._timeout + timedelta(seconds=5)))
        return str(self._store.get(key).decode())

    def _join(self, member: Member) -> Communicator:
        interruptible(lambda: self._store.wait(["banyan/members"], self._timeout))
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
