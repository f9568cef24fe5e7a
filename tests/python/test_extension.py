#!/usr/bin/env python3
"""How the C++ part of banyan.torch is compiled and cached: the name of its folder, two processes at once, and the
report where it cannot be compiled."""
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import ranks

ranks.need_torch()

import torch  # noqa: E402

from banyan import library  # noqa: E402
from banyan.torch import extension  # noqa: E402

MADE = extension._folder(library.path()) / "banyan_torch.so"


def compiles(folder, library_path, made, log):
    """Replaces the compiler by a slow one that records its calls."""
    with open(log, "a", encoding="utf-8") as file:
        file.write("compiled\n")
    time.sleep(0.5)
    shutil.copy(made, folder / "banyan_torch.so")


def loads(made, log):
    with mock.patch.object(extension, "_compile", lambda folder, path: compiles(folder, path, made, log)):
        assert hasattr(extension.load_compiled(), "join")


def fails_at_first(log):
    """The compiler seems to be killed: the next process compiles."""
    def compile_(folder, _path):
        Path(folder / "work.left").mkdir()
        os._exit(9)
    with mock.patch.object(extension, "_compile", compile_):
        extension.load_compiled()


class Extension(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.made = MADE
        extension.load_compiled.cache_clear()  # of this process, which other tests had load it
        patch = mock.patch.dict(os.environ, {"BANYAN_TORCH_CACHE": str(self.folder / "cache")})
        patch.start()
        self.addCleanup(patch.stop)

    def start(self, function, *arguments):
        process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
        process.start()
        return process

    def test_one_compiles(self):
        log = self.folder / "log"
        self.start(fails_at_first, log).join(60)
        processes = [self.start(loads, self.made, log) for _ in range(4)]
        for process in processes:
            process.join(60)
        self.assertEqual([process.exitcode for process in processes], [0] * 4)
        self.assertEqual(log.read_text(encoding="utf-8"), "compiled\n")

    def test_files(self):
        """MAX_JOBS says how many files the compiler gets, each source is in one of them."""
        for jobs in 1, 2:
            with mock.patch.dict(os.environ, {"MAX_JOBS": str(jobs)}):
                units = extension._units(self.folder)
            self.assertEqual(len(units), jobs)
            lines = [line for unit in units for line in Path(unit).read_text(encoding="utf-8").splitlines()]
            self.assertEqual(sorted(lines), sorted(f'#include "{path}"' for path in extension._SOURCES.glob("*.cpp")))

    def test_compiled(self):
        """What a package contains for these versions is used as it is; what cannot be loaded is compiled anew."""
        log = self.folder / "log"
        fitting, broken = (self.folder / name / extension._abi() / "banyan_torch.so" for name in ("fitting", "broken"))
        for place in (fitting, broken):
            place.parent.mkdir(parents=True)
        shutil.copy(self.made, fitting)
        broken.write_bytes(b"no library")
        with mock.patch.object(extension, "_compile", lambda folder, path: compiles(folder, path, self.made, log)):
            with mock.patch.object(extension, "_COMPILED", self.folder / "fitting"):
                self.assertEqual(extension.load_compiled().__file__, str(fitting))
                with mock.patch.object(torch, "__version__", "9.9.9"):
                    self.assertIsNone(extension._compiled())
            self.assertFalse(log.exists())
            extension.load_compiled.cache_clear()
            with mock.patch.object(extension, "_COMPILED", self.folder / "broken"), \
                    self.assertWarnsRegex(UserWarning, "compiled anew"):
                self.assertTrue(hasattr(extension.load_compiled(), "join"))
        self.assertEqual(log.read_text(encoding="utf-8"), "compiled\n")

    def refuses(self, place):
        extension.load_compiled.cache_clear()
        with self.assertRaisesRegex(ImportError, f"others may change .*{place} belongs to user .*BANYAN_TORCH_CACHE"):
            extension.load_compiled()

    def test_other_users(self):
        """Code that others could have put there is not executed, nor is anything written for them."""
        cache = self.folder / "cache"
        with mock.patch.object(extension, "_COMPILED", self.folder), \
                mock.patch.object(extension, "_compile", lambda folder, path: shutil.copy(self.made, folder / "banyan_torch.so")):
            self.assertTrue(hasattr(extension.load_compiled(), "join"))
            (made,) = cache.glob("*/banyan_torch.so")
            for place in (made, made.parent, cache):
                mode = place.stat().st_mode
                for bits in (0o020, 0o002):
                    place.chmod(mode | bits)
                    self.refuses(place)
                place.chmod(mode)
                if os.geteuid() == 0:  # who alone can give files away
                    os.chown(place, 65534, -1)
                    self.refuses(place)
                    os.chown(place, 0, -1)
            made.unlink()
            made.parent.chmod(0o777)
            self.refuses(made.parent)
            self.assertEqual(list(made.parent.iterdir()), [made.parent / "lock"])
            made.parent.chmod(0o755)
            self.folder.chmod(0o1777)  # as /tmp
            extension.load_compiled.cache_clear()
            self.assertTrue(hasattr(extension.load_compiled(), "join"))

    def test_key(self):
        """A change of any input of the module gives another folder."""
        path = library.path()
        headers = self.folder / "banyan"
        shutil.copytree(Path(extension._headers()[0]) / "banyan", headers)
        sources = self.folder / "csrc"
        shutil.copytree(extension._SOURCES, sources)
        with mock.patch.dict(os.environ, {"BANYAN_INCLUDE": str(self.folder)}), \
                mock.patch.object(extension, "_SOURCES", sources):
            keys = [extension._key(path)]
            self.assertEqual(keys, [extension._key(path)])
            for changed in [*headers.glob("*.h"), *sources.iterdir()]:
                text = changed.read_text(encoding="utf-8")
                changed.write_text(text + "\n", encoding="utf-8")
                keys.append(extension._key(path))
                changed.write_text(text, encoding="utf-8")
            keys.append(extension._key(path + "2"))
            for what, name, value in ((library, "version", lambda: "9.9.9"), (torch, "__version__", "9.9.9"),
                                      (extension, "_build_of_torch", lambda: b"another"), (extension, "_FLAGS", ("-O3",))):
                with mock.patch.object(what, name, value):
                    keys.append(extension._key(path))
        self.assertEqual(len(set(keys)), len(keys))

    def test_without_tools(self):
        empty = self.folder / "bin"
        empty.mkdir()
        done = subprocess.run([sys.executable, "-c", "import banyan.torch"], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": str(empty), "CXX": "c++"})
        self.assertNotEqual(done.returncode, 0)
        for text in ("ImportError: banyan.torch has to be compiled", "no c++", "no ninja", "apt-get install g++"):
            self.assertIn(text, done.stderr)

    def test_without_place(self):
        """A folder that cannot be made, as in a home folder that is read-only."""
        (self.folder / "file").touch()
        with mock.patch.dict(os.environ, {"BANYAN_TORCH_CACHE": str(self.folder / "file" / "cache")}), \
                mock.patch.object(extension, "_COMPILED", self.folder), \
                self.assertRaisesRegex(ImportError, "file/cache.*set BANYAN_TORCH_CACHE to another"):
            extension.load_compiled()


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
