"""The C++ part of the backend, which is compiled against the PyTorch that is installed, once, and kept.

It lies in BANYAN_TORCH_CACHE (~/.cache/banyan), in a folder named after all that it depends on, so that another version of
PyTorch, Python or Banyan gets its own. `python3 -m banyan.torch` compiles it ahead of the first import.
"""
from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import List

import torch

from .. import library

_NAME = "banyan_torch"
_SOURCES = Path(__file__).parent / "csrc"
# From 2.14 on, PyTorch's headers need C++20, which older ones were not written for.
_STANDARD = "-std=c++20" if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14) else "-std=c++17"
_FLAGS = ("-O2", "-g0", _STANDARD, "-fvisibility=hidden", "-Wall", "-DUSE_DISTRIBUTED", "-DUSE_C10D_GLOO")


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
    return Path(cache) / _key(library_path)


def _check_tools() -> None:
    compiler = os.environ.get("CXX", "c++")
    missing = [tool for tool in (compiler, "ninja") if not shutil.which(tool)]
    if not (Path(torch.__file__).parent / "include" / "torch" / "csrc" / "distributed" / "c10d" / "Work.hpp").exists():
        missing.append("PyTorch's headers (Debian: libtorch-dev)")
    if not _headers():
        missing.append("Banyan's headers (BANYAN_INCLUDE says where)")
    if missing:
        raise ImportError("banyan.torch has to be compiled once for this PyTorch, but there is no " + ", no ".join(missing)
                          + "; on Debian: apt-get install g++ ninja-build libtorch-dev pybind11-dev python3-dev")


def _compile(folder: Path, library_path: str) -> None:
    from torch.utils import cpp_extension

    _check_tools()
    print(f"banyan.torch: compiling for PyTorch {torch.__version__}, once, into {folder}", file=sys.stderr)
    work = Path(tempfile.mkdtemp(prefix="work.", dir=folder))
    try:
        flags = [*_FLAGS, *(f"-isystem{place}" for place in _headers())]
        linked = Path(library_path)
        cpp_extension.load(_NAME, [str(path) for path in sorted(_SOURCES.glob("*.cpp"))], extra_cflags=flags,
                           extra_ldflags=[str(linked), f"-Wl,-rpath,{linked.parent}"], build_directory=str(work),
                           is_python_module=False)
    except SystemExit as error:
        raise ImportError(f"compiling banyan.torch failed: {error}") from None
    finally:
        made = work / f"{_NAME}.so"
        if made.exists():
            made.rename(folder / f"{_NAME}.so")
        shutil.rmtree(work, ignore_errors=True)


@functools.lru_cache(maxsize=None)
def load() -> ModuleType:
    """The compiled module. The first of several processes compiles, the others wait for it."""
    library_path = library.path()
    folder = _folder(library_path)
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{_NAME}.so"
    if not made.exists():
        with open(folder / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                _compile(folder, library_path)
    spec = importlib.util.spec_from_file_location(_NAME, made)
    if spec is None or spec.loader is None:
        raise ImportError(f"{made} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
