#!/usr/bin/python3
"""Runs PyTorch's own tests of torch.distributed, which are shipped with it, over a backend.

    distributed.py [--backend banyan|gloo] [--ranks 2] [--tests PATTERN] [--passes FILE] [--write FILE]

Prints a line for each test. With --passes it fails unless every test of this list passes, and only then.

Most tests are skipped unless the backend is called "gloo" or "mpi". Banyan's name compares equal to these names, so
that the tests run for it too; elsewhere it has its own name.

Processes are forked, not spawned: importing PyTorch for each of about 1000 would take longer than all tests.
"""
import argparse
import dataclasses
import fnmatch
import importlib
import multiprocessing
import os
import socket
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "standins"), str(Path(__file__).parents[1])]
import ranks as ranks_module  # noqa: E402


class Able(str):
    """A backend's name that equals those of Gloo and MPI where tests are skipped for other backends: `if BACKEND !=
    "gloo"`, `if BACKEND not in {"gloo"}`."""

    def __eq__(self, other):
        return str(other).lower() in (str(self), "gloo")

    def __ne__(self, other):
        return str(other).lower() not in (str(self), "gloo", "mpi")

    def __hash__(self):
        return hash("gloo")


class Environment(dict):
    """The environment while the tests are imported, in which BACKEND has a type of its own."""


def import_sharding():
    """Works around a dataclass in Debian's PyTorch 1.13 that Python 3.11 rejects because of an unhashable default;
    DDP's tests import it."""
    usual = dataclasses.dataclass

    def hashable(cls=None, **options):
        if cls is None:
            return lambda late: hashable(late, **options)
        if "__hash__" not in cls.__dict__:
            options.setdefault("unsafe_hash", True)
        return usual(cls, **options)

    dataclasses.dataclass = hashable
    try:
        importlib.import_module("torch.distributed._shard.sharded_tensor")
    finally:
        dataclasses.dataclass = usual


def import_tests(backend, ranks):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(BACKEND=backend, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                      TEMP_DIR=tempfile.mkdtemp(), TEST_REPORT_SOURCE_OVERRIDE="dist-" + backend)
    for folder in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(os.environ["TEMP_DIR"], folder), exist_ok=True)
    import torch.distributed as dist

    import_sharding()
    if backend == "banyan":
        importlib.import_module("banyan.torch")  # This registers the backend.

        common = importlib.import_module("torch.testing._internal.common_distributed")
        common.DistTestCases.backend_feature.setdefault("plugin", set()).add(backend)  # 2.x skips tests of others
        real, os.environ = os.environ, Environment(os.environ, BACKEND=Able(backend))
    try:
        from torch.testing._internal.distributed import distributed_test as tests
    finally:
        if backend == "banyan":
            os.environ = real
    ranks_module.import_dynamo()
    if backend == "banyan":
        for names in (tests.PROFILING_SUPPORTED_BACKENDS, tests.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
            names.append(dist.Backend.BANYAN.lower())
    return tests


class FastPolling:
    """A replacement of the module time for loops that check whether processes have started or ended: every 5 ms,
    not every 100."""

    def __getattr__(self, name):
        return getattr(time, name)

    @staticmethod
    def sleep(seconds):
        time.sleep(0.005 if seconds == 0.1 else seconds)


def suite_of(tests):
    import torch
    from torch.testing._internal import common_distributed

    tests.time = common_distributed.time = FastPolling()

    class Distributed(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._spawn_processes()

        def _spawn_processes(self):
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Distributed


class Lines(unittest.TestResult):
    """Prints a line for each test."""

    def __init__(self):
        super().__init__()
        self.names = {"passed": [], "failed": [], "skipped": []}

    def startTest(self, test):
        super().startTest(test)
        self.begun = time.monotonic()

    def note(self, test, how, reason=""):
        name = test.id().rsplit(".", 1)[1]
        self.names[how].append(name)
        print(f"{how:8} {time.monotonic() - self.begun:6.1f} s  {name}  {reason}", flush=True)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def addFailure(self, test, error):
        text = self._exc_info_to_string(error, test).strip().splitlines()
        causes = [line for line in text if "Error" in line and "Process" not in line]
        self.note(test, "failed", (causes or text)[-1][:300])

    addError = addFailure


def arguments():
    parser = argparse.ArgumentParser(description="PyTorch's tests of torch.distributed over a backend")
    parser.add_argument("--backend", default="banyan")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--tests", default="*", help="a pattern of names")
    parser.add_argument("--passes", help="file with the names that have to pass")
    parser.add_argument("--write", help="file to write the names that pass to")
    return parser.parse_args()


def read_names(path):
    lines = (line.split("#")[0].strip() for line in Path(path).read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def main():
    options = arguments()
    sys.argv = sys.argv[:1]  # PyTorch's tests read it as well.
    case = suite_of(import_tests(options.backend, options.ranks))
    names = sorted(name for name in dir(case) if name.startswith("test_") and fnmatch.fnmatch(name, options.tests))
    if options.passes:
        wanted = read_names(options.passes)
        missing = sorted(set(wanted) - set(names))
        names = [name for name in names if name in wanted]
    result = Lines()
    unittest.TestSuite(case(name) for name in names).run(result)
    for how, which in result.names.items():
        print(f"{how}: {len(which)}")
    if options.write:
        Path(options.write).write_text("".join(f"{name}\n" for name in sorted(result.names["passed"])), encoding="utf-8")
    if options.passes:
        broken = missing + [name for name in names if name not in result.names["passed"]]
        print(f"{len(broken)} of {len(wanted)} tests that have to pass did not: {' '.join(broken)}")
        return 1 if broken else 0
    return 0


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    sys.exit(main())
