"""libbanyan.so as ctypes sees it: its structs, its functions, and where it is found."""
from __future__ import annotations

import ctypes
import importlib
import os
import platform
from ctypes import (POINTER, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint8, c_uint32, c_uint64,
                    c_void_p)
from pathlib import Path
from typing import Any, Iterator

from .errors import Error, from_status

NAME = "libbanyan.so.0"


class Options(ctypes.Structure):
    _fields_ = [("size_of_struct", c_size_t), ("rank_plus_1", c_int), ("size", c_int), ("root", c_char_p),
                ("key", c_char_p), ("host", c_char_p), ("transport", c_char_p), ("plan", c_char_p),
                ("deadline", c_double), ("topology", c_char_p), ("timeline", c_char_p), ("quorum", c_char_p),
                ("join_deadline", c_double)]


class Call(ctypes.Structure):
    _fields_ = [("collective", c_int), ("dtype", c_int), ("op", c_int), ("root", c_int), ("send", c_void_p),
                ("recv", c_void_p), ("count", c_size_t), ("counts", POINTER(c_size_t)), ("scale", c_double),
                ("deadline", c_double), ("tag", c_uint32), ("name", c_char_p)]


class Sparse(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("row_dtype", c_int), ("height", c_size_t), ("width", c_size_t),
                ("count", c_size_t), ("rows", c_void_p), ("values", c_void_p), ("unique", c_bool),
                ("memory", c_void_p), ("room", c_size_t)]


class SparseCall(ctypes.Structure):
    _fields_ = [("collective", c_int), ("op", c_int), ("way", c_int), ("in_", POINTER(Sparse)),
                ("out", POINTER(Sparse)), ("counts", POINTER(c_size_t)), ("taken", POINTER(c_int)),
                ("memory", c_size_t), ("deadline", c_double), ("tables", c_size_t)]


class Interrupted(ctypes.Structure):
    _fields_ = [("communicator", c_uint32), ("name", c_char_p), ("call", c_uint32), ("n_calls", c_uint32),
                ("known", c_bool), ("sparse", c_bool), ("collective", c_int), ("dtype", c_int), ("root", c_int),
                ("count", c_uint64), ("completed", c_int), ("failed", c_int), ("not_begun", c_int), ("size", c_int),
                ("outcomes", POINTER(c_uint8)), ("ranks", POINTER(c_int))]


class Completion(ctypes.Structure):
    _fields_ = [("size_of_struct", c_size_t), ("recover", c_void_p), ("argument", c_void_p), ("timeout", c_double),
                ("contributors", c_int), ("interruptions", c_int)]


class Submission(ctypes.Structure):
    _fields_ = [("size_of_struct", c_size_t), ("calls", POINTER(Call)), ("n_calls", c_size_t),
                ("sparse", POINTER(SparseCall)), ("n_sparse", c_size_t), ("priority", c_int)]


class Counters(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("calls", "bytes_sent", "bytes_received", "frames_sent",
                                              "frames_received", "sleeps", "wakes_sent", "allocations", "links",
                                              "plan_switches", "in_network", "in_network_fallbacks")]


class PlanInfo(ctypes.Structure):
    _fields_ = [("name", c_char * 256), ("part", c_char * 64), ("source", c_int), ("supplied", c_bool),
                ("version", c_uint32), ("trees", c_uint32), ("up_to", c_uint64), ("throughput", c_double),
                ("bound", c_double)]


class StateBuffer(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("count", c_size_t), ("dtype", c_int)]


class StateSyncOptions(ctypes.Structure):
    _fields_ = [("size_of_struct", c_size_t), ("adopt", c_bool), ("prepare", c_void_p), ("argument", c_void_p)]


class StateReport(ctypes.Structure):
    _fields_ = [("version", c_int64), ("holders", c_int), ("receivers", c_int), ("bytes", c_uint64),
                ("seconds", c_double)]


# name: result, arguments. c_int stands for enum banyan_status where check() is to look at it.
_STATUS = c_int
_ROOT_TEXT, _KEY_TEXT = 384, 85  # BANYAN_ROOT_TEXT and BANYAN_KEY_TEXT
_FUNCTIONS = {
    "banyan_error_text": (c_char_p, []),
    "banyan_version": (c_char_p, []),
    "banyan_comm_create": (_STATUS, [POINTER(Options), POINTER(c_void_p)]),
    "banyan_comm_split": (_STATUS, [c_void_p, c_int, c_int, POINTER(c_void_p)]),
    "banyan_comm_duplicate": (_STATUS, [c_void_p, POINTER(c_void_p)]),
    "banyan_comm_subset": (_STATUS, [c_void_p, POINTER(c_int), c_int, c_uint32, POINTER(c_void_p)]),
    "banyan_comm_destroy": (None, [c_void_p]),
    "banyan_comm_abort": (None, [c_void_p, c_char_p]),
    "banyan_comm_rank": (c_int, [c_void_p]),
    "banyan_comm_size": (c_int, [c_void_p]),
    "banyan_comm_host": (c_char_p, [c_void_p, c_int]),
    "banyan_comm_local_size": (c_int, [c_void_p]),
    "banyan_comm_local_rank": (c_int, [c_void_p]),
    "banyan_comm_state": (_STATUS, [c_void_p]),
    "banyan_comm_set_deadline": (_STATUS, [c_void_p, c_double]),
    "banyan_comm_set_plan": (_STATUS, [c_void_p, c_char_p]),
    "banyan_comm_plan_of": (_STATUS, [c_void_p, c_int, c_uint64, POINTER(PlanInfo)]),
    "banyan_collective_parse": (_STATUS, [c_char_p, POINTER(c_int)]),
    "banyan_plan_source_name": (c_char_p, [c_int]),
    "banyan_comm_propose_plan": (_STATUS, [c_void_p, c_char_p]),
    "banyan_comm_set_tos": (_STATUS, [c_void_p, c_int]),
    "banyan_comm_expect": (_STATUS, [c_void_p, c_uint64]),
    "banyan_comm_counters": (None, [c_void_p, POINTER(Counters)]),
    "banyan_comm_metrics": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "banyan_timeline_start": (_STATUS, [c_void_p, c_char_p]),
    "banyan_timeline_stop": (_STATUS, [c_void_p]),
    "banyan_alloc": (_STATUS, [c_void_p, c_size_t, POINTER(c_void_p)]),
    "banyan_free": (None, [c_void_p, c_void_p]),
    "banyan_member_create": (_STATUS, [POINTER(Options), POINTER(c_void_p)]),
    "banyan_member_destroy": (None, [c_void_p]),
    "banyan_member_handle": (c_char_p, [c_void_p]),
    "banyan_member_interrupted": (c_size_t, [c_void_p, POINTER(POINTER(Interrupted))]),
    "banyan_member_allreduce": (_STATUS, [c_void_p, POINTER(c_void_p), POINTER(Call), POINTER(Completion)]),
    "banyan_member_copy_result": (_STATUS, [c_void_p, POINTER(Interrupted), c_void_p, c_size_t, c_double]),
    "banyan_comm_number": (c_uint32, [c_void_p]),
    "banyan_comm_calls": (c_uint32, [c_void_p]),
    "banyan_member_reconfigure": (_STATUS, [c_void_p, c_char_p, POINTER(c_char_p), c_int, c_double, POINTER(c_void_p)]),
    "banyan_member_start": (_STATUS, [c_void_p, c_double, POINTER(c_void_p)]),
    "banyan_member_recover": (_STATUS, [c_void_p, c_double, POINTER(c_void_p)]),
    "banyan_member_join": (_STATUS, [c_void_p, POINTER(c_char_p), c_int, c_double, POINTER(c_void_p)]),
    "banyan_member_leave": (_STATUS, [c_void_p]),
    "banyan_member_change_wanted": (c_int, [c_void_p]),
    "banyan_member_handles": (c_int, [c_void_p, POINTER(POINTER(c_char_p))]),
    "banyan_state_create": (_STATUS, [POINTER(StateBuffer), c_size_t, POINTER(c_void_p)]),
    "banyan_state_destroy": (None, [c_void_p]),
    "banyan_state_set_buffers": (_STATUS, [c_void_p, POINTER(StateBuffer), c_size_t]),
    "banyan_state_set_value": (_STATUS, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "banyan_state_get_value": (_STATUS, [c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_size_t)]),
    "banyan_state_commit": (_STATUS, [c_void_p, c_int64]),
    "banyan_state_version": (c_int64, [c_void_p]),
    "banyan_state_restore": (_STATUS, [c_void_p]),
    "banyan_state_sync": (_STATUS, [c_void_p, c_void_p, POINTER(StateSyncOptions), POINTER(StateReport)]),
    "banyan_root_fingerprint": (_STATUS, [c_char_p]),
    "banyan_root_choose": (_STATUS, [c_bool, c_char_p]),
    "banyan_key_create": (_STATUS, [c_char_p]),
    "banyan_run": (_STATUS, [c_void_p, POINTER(Call)]),
    "banyan_start": (_STATUS, [c_void_p, POINTER(Call), POINTER(c_void_p)]),
    "banyan_recv_any": (_STATUS, [c_void_p, POINTER(Call), POINTER(c_int), POINTER(c_void_p)]),
    "banyan_run_for": (_STATUS, [c_void_p, POINTER(Call), c_double, POINTER(c_void_p)]),
    "banyan_wait": (_STATUS, [c_void_p]),
    "banyan_wait_for": (_STATUS, [c_void_p, c_double, POINTER(c_bool)]),
    "banyan_test": (_STATUS, [c_void_p, POINTER(c_bool)]),
    "banyan_submit": (_STATUS, [c_void_p, c_char_p, POINTER(Submission), POINTER(c_void_p)]),
    "banyan_submit_all": (_STATUS, [c_void_p, POINTER(c_char_p), POINTER(Submission), c_size_t, POINTER(c_void_p)]),
    "banyan_step": (_STATUS, [c_void_p, c_uint64]),
    "banyan_sparse_start": (_STATUS, [c_void_p, POINTER(SparseCall), POINTER(c_void_p)]),
    "banyan_sparse_run": (_STATUS, [c_void_p, POINTER(SparseCall)]),
    "banyan_sparse_free": (None, [POINTER(Sparse)]),
}


SLICE = 0.1  # seconds that a wait lasts in C; in between Python runs handlers of signals


def _prefixes(package: Path) -> list[Path]:
    """Below which this package is installed as PREFIX/lib/python3.x/dist-packages/banyan, or by Debian's Python as
    PREFIX/local/lib/..."""
    above = list(package.parents)
    if len(above) < 5 or above[2].name != "lib" or not above[1].name.startswith("python"):
        return []
    return above[3:5] if above[3].name == "local" else above[3:4]


def _candidates(package: Path = Path(__file__).resolve().parent) -> Iterator[str]:
    if os.environ.get("BANYAN_LIBRARY"):
        yield os.environ["BANYAN_LIBRARY"]
        return
    if (package / "lib" / NAME).is_file():  # a wheel contains it
        yield str(package / "lib" / NAME)
        return
    for prefix in _prefixes(package):
        for folder in (f"lib/{platform.machine()}-linux-gnu", "lib64", "lib"):  # as Meson chooses
            if (prefix / folder / NAME).is_file():
                yield str(prefix / folder / NAME)
    yield NAME


_OPENSSL = ("libssl.so.3", "libcrypto.so.3")


def _open(path: str) -> ctypes.CDLL:
    """OpenSSL is not in the wheel, since a process may have only one, and Python has its own. Where that is of the same
    version, but lies where only Python looks, it is loaded first, and the library takes it."""
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        if not any(name in str(error) for name in _OPENSSL):
            raise
        try:
            importlib.import_module("ssl")
        except ImportError:
            raise error from None
        return ctypes.CDLL(path)


def _remedy(reasons: list[str]) -> str:
    if any(name in reason for reason in reasons for name in _OPENSSL):
        return ("it needs OpenSSL 3 of the system: install libssl3 (Debian 12, Ubuntu 22.04), libssl3t64 (Debian 13, Ubuntu "
                "24.04) or openssl-libs (Fedora, RHEL 9)")
    if any("GLIBC" in reason for reason in reasons):
        return "it was built for a newer glibc: build the package from its sources here (docs/install.md)"
    built = Path(__file__).resolve().parents[3] / "build" / "libbanyan.so"  # where this package is used in the sources
    if built.is_file():
        return f"set BANYAN_LIBRARY={built}, or run `sudo make install`"
    return ("run `sudo make install` in Banyan's sources, install the wheel that `make wheel` makes there, which contains it, "
            "or set BANYAN_LIBRARY to its path")


def _load() -> ctypes.CDLL:
    reasons = []
    for path in _candidates():
        try:
            found = _open(path)
        except OSError as error:
            reasons.append(str(error))
            continue
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(found, name, None)
            if function is None:
                raise ImportError(f"{path} lacks {name}: it is older than this package; install both from one version")
            function.restype, function.argtypes = result, arguments
        return found
    raise ImportError(f"{NAME} cannot be loaded ({'; '.join(reasons)}): {_remedy(reasons)}")


lib = _load()


def path() -> str:
    """Where the library that is loaded lies."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            if "libbanyan.so" in line:
                return line.split(maxsplit=5)[5].strip()
    raise ImportError("libbanyan.so is not among the loaded libraries")


def root_fingerprint() -> str:
    """This process's own as rank 0: behind a # in the address of rank 0 it lets ranks on other hosts know it."""
    out = ctypes.create_string_buffer(65)
    check(lib.banyan_root_fingerprint(out))
    return out.value.decode()


def root_choose(one_host: bool = False) -> str:
    """Addresses, a port and the fingerprint of this process as rank 0: what all ranks take as `root`. With `one_host` the
    address is that of loopback."""
    out = ctypes.create_string_buffer(_ROOT_TEXT)
    check(lib.banyan_root_choose(one_host, out))
    return out.value.decode()


def key_create() -> str:
    """A random key for a new job, as `banyan keys job` makes it."""
    out = ctypes.create_string_buffer(_KEY_TEXT)
    check(lib.banyan_key_create(out))
    return out.value.decode()


def version() -> str:
    """The library's, "1.2.3"."""
    return str(lib.banyan_version().decode())


def error(status: int) -> Error:
    """The exception for a call of this thread that has just ended with this status."""
    return from_status(status, lib.banyan_error_text().decode(errors="replace"))


def check(status: int) -> None:
    """Raises it, unless all is well."""
    if status:
        raise error(status)


def created(function: Any, *arguments: Any) -> c_void_p:
    """What a function of the library makes, which takes the place for it as its last argument."""
    handle = c_void_p()
    check(function(*arguments, ctypes.byref(handle)))
    return handle
