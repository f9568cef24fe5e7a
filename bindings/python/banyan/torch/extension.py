"""The C++ part of the backend, which fits one minor version of PyTorch. Packages contain it for some, compiled. From 2.14 on
PyTorch can call a backend in Python (trampoline.py) where none fits; for older ones it is compiled against the PyTorch that is
installed, once, and kept.

Compiled ones lie in the folder `compiled` of this package, named after the versions and ABIs that they fit. What is compiled here
lies in BANYAN_TORCH_CACHE (~/.cache/banyan), in a folder named after all that it depends on, so that another version of
PyTorch, Python or Banyan gets its own. `python3 -m banyan.torch` compiles it ahead of the first import.
"""
from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib
import importlib.util
import logging
import os
import platform
import shutil
import stat
import sys
import sysconfig
import tempfile
import threading
import time
import warnings
from pathlib import Path
from types import ModuleType
from typing import List, Optional

import torch

from .. import library

_log = logging.getLogger("banyan")
_NAME = "banyan_torch"
_SOURCES = Path(__file__).parent / "csrc"
_COMPILED = Path(__file__).parent / "compiled"
# PyTorch names the standard that its headers need, but before 2.1 that was C++14, which ours do not do with.
_STANDARD = ("-std=c++17",) if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 1) else ()
_FLAGS = ("-O2", "-g0", *_STANDARD, "-fvisibility=hidden", "-Wall", "-DUSE_DISTRIBUTED", "-DUSE_C10D_GLOO")


def _headers() -> List[str]:
    """Where <banyan/banyan.h> lies: in the package, as installed, or in the sources that this lies in."""
    here = Path(__file__).resolve()
    places = [here.parents[1] / "include", here.parents[4] / "include", Path("/usr/local/include"), Path("/usr/include")]
    if os.environ.get("BANYAN_INCLUDE"):
        places.insert(0, Path(os.environ["BANYAN_INCLUDE"]))
    return [str(place) for place in places if (place / "banyan" / "banyan.h").is_file()][:1]


def _build_of_torch() -> bytes:
    """What tells two builds of one version of PyTorch apart: the first page of its library has its sizes and its build's
    number. Its headers may be missing where what another machine compiled is used."""
    made = Path(torch.__file__).parent / "lib" / "libtorch_python.so"
    if not made.exists():
        return b""
    with open(made, "rb") as file:
        return file.read(4096)


def _key(library_path: str) -> str:
    """Of all that the module is made of: its sources, the headers of Banyan and PyTorch, and where the library lies."""
    digest = hashlib.sha256(_build_of_torch())
    for text in (torch.__version__, sys.version, platform.machine(), library_path, library.version(), *_FLAGS):
        digest.update(text.encode() + b"\0")
    headers = [path for folder in _headers() for path in sorted(Path(folder, "banyan").glob("*.h"))]
    for path in [*sorted(_SOURCES.iterdir()), *headers]:
        digest.update(path.read_bytes())
    return f"torch-{torch.__version__}-{digest.hexdigest()[:16]}"


def _folder(library_path: str) -> Path:
    cache = os.environ.get("BANYAN_TORCH_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "banyan"
    return Path(os.path.realpath(Path(cache) / _key(library_path)))


def _abi() -> str:
    """What a compiled backend fits: a minor version of PyTorch, whatever it computes on, and the ABIs of Python and C++."""
    minor = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    return f"torch-{minor}-{sysconfig.get_config_var('SOABI')}-cxx11abi{int(torch._C._GLIBCXX_USE_CXX11_ABI)}"


def _check_tools() -> None:
    compiler = os.environ.get("CXX", "c++")
    missing = [tool for tool in (compiler, "ninja") if not shutil.which(tool)]
    if not (Path(torch.__file__).parent / "include" / "torch" / "csrc" / "distributed" / "c10d" / "Work.hpp").exists():
        missing.append("PyTorch's headers (Debian: libtorch-dev)")
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        missing.append("Python's headers (Debian: python3-dev)")
    try:
        importlib.import_module("setuptools.command.build_ext")  # which PyTorch's functions that compile import
    except ImportError:
        missing.append("package setuptools of Python (Debian: python3-setuptools)")
    if not _headers():
        missing.append("Banyan's headers (BANYAN_INCLUDE says where)")
    if missing:
        others = ", ".join(sorted(path.name for path in _COMPILED.glob("*"))) or "no version"
        raise ImportError(f"banyan.torch has to be compiled once for this PyTorch ({_abi()}), but there is no "
                          + ", no ".join(missing) + "; on Debian: apt-get install g++ ninja-build libtorch-dev pybind11-dev "
                          f"python3-dev python3-setuptools; with another PyTorch: pip install ninja setuptools. It was installed compiled for {others}")


def _units(work: Path) -> List[str]:
    """One file for each processor, or each of MAX_JOBS, as for PyTorch's own extensions, which include the sources in turn: most
    of the time goes into PyTorch's headers."""
    sources = sorted(_SOURCES.glob("*.cpp"), key=lambda path: path.stat().st_size, reverse=True)
    count, units = min(int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1), len(sources)), []
    for i in range(count):
        unit = work / f"unit{i}.cpp"
        unit.write_text("".join(f'#include "{source}"\n' for source in sources[i::count]), encoding="utf-8")
        units.append(str(unit))
    return units


def _report(work: Path, count: int, ended: threading.Event) -> None:
    """Prints how far the compiler is, whenever a file is done, and every 10 s."""
    start, before, due = time.monotonic(), 0, 10.0
    while not ended.wait(0.5):
        done, passed = len(list(work.glob("*.o"))), time.monotonic() - start
        if done > before or passed >= due:
            print(f"banyan torch: {done} of {count} files compiled, {passed:.0f} s", file=sys.stderr, flush=True)
            before, due = done, passed + 10


def _compile(folder: Path, library_path: str) -> None:
    """Compiles it into the folder, where it appears when it is complete. It finds the library by name, since that is loaded
    before it."""
    _check_tools()
    from torch.utils import cpp_extension

    print(f"banyan torch: compiling for PyTorch {torch.__version__}, once, into {folder}; this may take minutes", file=sys.stderr, flush=True)
    work = Path(tempfile.mkdtemp(prefix="work.", dir=folder))
    sources = _units(work)
    ended = threading.Event()
    reporter = threading.Thread(target=_report, args=(work, len(sources), ended), daemon=True)
    reporter.start()
    try:
        flags = [*_FLAGS, *(f"-isystem{place}" for place in _headers())]
        cpp_extension.load(_NAME, sources, extra_cflags=flags, extra_ldflags=[library_path], build_directory=str(work),
                           is_python_module=False)
    except SystemExit as error:
        raise ImportError(f"compiling banyan.torch failed: {error}") from None
    finally:
        ended.set()
        reporter.join()
        made = work / f"{_NAME}.so"
        if made.exists():
            made.chmod(made.stat().st_mode & ~0o022)  # whatever the umask
            made.rename(folder / f"{_NAME}.so")
        shutil.rmtree(work, ignore_errors=True)


def _is_outside(user: int) -> bool:
    """Whether this number stands for the users outside of a container that has users of its own, such as the machine's root."""
    whole = Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", str(2**32 - 1)]
    return not whole and user == int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))


def _check(path: Path) -> None:
    """That nobody but this user and root could have put or changed it, nor a folder on the way: its code is executed. In a
    folder like /tmp, where everybody may write, only the owner of a file may replace it."""
    for place in (path, *path.parents):
        status = place.lstat()
        shared = place != path and stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        trusted = status.st_uid in (os.geteuid(), 0) or (place not in (path, path.parent) and _is_outside(status.st_uid))
        if not trusted or (status.st_mode & 0o022 and not shared):
            raise ImportError(f"others may change what {path} holds, whose code would be executed: {place} belongs to user "
                              f"{status.st_uid} and has mode {status.st_mode & 0o7777:03o}. If they have not, run chmod go-w {place}, "
                              "or have it owned by this user or root; else remove it, or set BANYAN_TORCH_CACHE to another folder")


def _make_folder(folder: Path) -> None:
    """Makes it, and those on the way that are missing, so that others may not write there."""
    for place in reversed((folder, *folder.parents)):
        if not place.exists():
            place.mkdir(mode=0o755, exist_ok=True)
    _check(folder)


def _open(made: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_NAME, made)
    if spec is None or spec.loader is None:
        raise ImportError(f"{made} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compiled() -> Optional[ModuleType]:
    made = _COMPILED / _abi() / f"{_NAME}.so"
    if not made.exists():
        return None
    try:
        return _open(made)
    except ImportError as error:
        warnings.warn(f"what was installed compiled does not fit this PyTorch, and is compiled anew: {error}", stacklevel=2)
        return None


def _find() -> Optional[ModuleType]:
    """A compiled module that fits: an installed one, or one that was compiled here."""
    installed = _compiled()
    if installed is not None:
        return installed
    made = _folder(library.path()) / f"{_NAME}.so"
    if not made.exists():
        return None
    _check(made)
    return _open(made)


@functools.lru_cache(maxsize=None)
def load() -> ModuleType:
    """The compiled module, or the backend in Python where PyTorch can call one and none fits it."""
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14):
        return load_compiled()
    found = _find()
    if found is not None:
        return found
    if os.environ.get("RANK", "0") == "0":
        _log.warning("banyan torch: no compiled backend fits PyTorch %s, so that Python makes each call, which takes longer. "
                     "`python3 -m banyan.torch` compiles one, once", torch.__version__)
    return importlib.import_module("banyan.torch.trampoline")


@functools.lru_cache(maxsize=None)
def load_compiled() -> ModuleType:
    """The compiled module. Where it has to be compiled, the first of several processes does, and the others wait for it."""
    found = _find()
    if found is not None:
        return found
    library_path = library.path()
    folder = _folder(library_path)
    made = folder / f"{_NAME}.so"
    try:
        _make_folder(folder)
        lock = open(folder / "lock", "w", encoding="utf-8")  # pylint: disable=consider-using-with
    except OSError as error:
        raise ImportError(f"banyan.torch has to be compiled once for this PyTorch, and its folder cannot be written: {error}; "
                          "set BANYAN_TORCH_CACHE to another one") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _compile(folder, library_path)
    _check(made)
    return _open(made)
