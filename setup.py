"""Puts into the package what is not Python: Banyan's headers, with which the backend of PyTorch is compiled, the library and the
command. Environment:

BANYAN_SYSTEM_LIBRARY=1: a package without the library and the command, which uses those of the system.
BANYAN_BUILD: the folder in which Meson builds the library and the command; what was built there before is used.
BANYAN_MESON_OPTIONS: more options for Meson.
BANYAN_BUNDLE: a folder with what belongs into the package besides: compiled backends, other libraries, licences.
"""
import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent
SYSTEM = bool(os.environ.get("BANYAN_SYSTEM_LIBRARY"))
# Without tests and services; other libraries of a wheel lie in lib, beside the library's own.
MESON = ["--buildtype=release", "-Dacross_files=true", "-Dtests=false", "-Dservices=false", "-Dc_link_args=-Wl,-rpath,$ORIGIN/../lib"]


def version():
    return re.search(r"version: '([0-9.]+)'", (ROOT / "meson.build").read_text(encoding="utf-8")).group(1)


def build(folder):
    if not (folder / "build.ninja").is_file():
        subprocess.run(["meson", "setup", str(folder), str(ROOT), *MESON, *os.environ.get("BANYAN_MESON_OPTIONS", "").split()],
                       check=True)
    subprocess.run(["ninja", "-C", str(folder)], check=True)


class WithLibrary(build_py):
    def run(self):
        super().run()
        package = Path(self.build_lib) / "banyan"
        shutil.copytree(ROOT / "include" / "banyan", package / "include" / "banyan", dirs_exist_ok=True)
        if not SYSTEM:
            made = Path(os.environ.get("BANYAN_BUILD") or Path(self.get_finalized_command("build").build_base, "meson")).resolve()
            build(made)
            for file, place in (("libbanyan.so.0", "lib"), ("banyan", "bin")):
                (package / place).mkdir(exist_ok=True)
                shutil.copy(made / file, package / place)
        if os.environ.get("BANYAN_BUNDLE"):
            shutil.copytree(os.environ["BANYAN_BUNDLE"], package, dirs_exist_ok=True)


class Binary(Distribution):
    def has_ext_modules(self):
        return not SYSTEM or bool(os.environ.get("BANYAN_BUNDLE"))


class AnyPython(bdist_wheel):
    """The library is called through ctypes, and compiled backends are found by name: the wheel is for every Python 3."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


# PyTorch after 2.13 imports the backend by itself in init_process_group("banyan").
ENTRY_POINTS = {"torch.distributed.backends": ["banyan=banyan.torch:_register"]}
if not SYSTEM:
    ENTRY_POINTS["console_scripts"] = ["banyan=banyan.command:main"]

setup(version=version(), distclass=Binary, cmdclass={"build_py": WithLibrary, "bdist_wheel": AnyPython},
      entry_points=ENTRY_POINTS)
