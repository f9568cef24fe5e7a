#!/usr/bin/env python3
"""The structs and numbers that Python defines itself equal the C compiler's view of the public headers, as the
program `layouts` prints it."""
import ctypes
import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
import unittest

import ranks

ranks.need()

import banyan  # noqa: E402
from banyan import buffers, calls, dlpack, errors, library, sparse  # noqa: E402

LAYOUTS = json.loads(subprocess.run([os.environ["BANYAN_LAYOUTS"]], check=True, capture_output=True, text=True).stdout)
OF_PYTHON = {buffers._View, dlpack._Tensor, dlpack._Versioned}  # These are CPython's and DLPack's.

ERRORS = {"ERR_ARGUMENT": errors.RequestError, "ERR_UNSUPPORTED": errors.RequestError,
          "ERR_NO_MEMORY": errors.RequestError, "ERR_SYSTEM": errors.RequestError, "ERR_PARSE": errors.RequestError,
          "ERR_PLAN": errors.RequestError, "ERR_TOPOLOGY": errors.RequestError, "ERR_CONNECT": errors.LinkError,
          "ERR_AUTH": errors.LinkError, "ERR_PROTOCOL": errors.LinkError, "ERR_PEER_DEAD": errors.PeerDead,
          "ERR_TIMEOUT": errors.Timeout, "ERR_MISMATCH": errors.Mismatch, "ERR_ABORTED": errors.Aborted,
          "ERR_CLOSED": errors.Aborted}


def modules():
    """Returns the modules of the package, except those that need PyTorch, Ray or LightGBM."""
    for module in pkgutil.iter_modules(banyan.__path__, "banyan."):
        if not module.ispkg and not module.name.endswith(("__main__", ".ray", ".ray_train", ".lightgbm")):
            yield importlib.import_module(module.name)


def mirrors():
    """Returns the package's structs that mirror C structs, wherever they are defined."""
    for module in modules():
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, (ctypes.Structure, ctypes.Union)) \
                    and value.__module__ == module.__name__ and value not in OF_PYTHON:
                yield value


def c_name(mirror):
    """Returns the C name: SparseCall is struct banyan_sparse_call."""
    return "banyan" + re.sub("([A-Z])", r"_\1", mirror.__name__).lower()


def layout(mirror):
    """Returns the layout as `layouts` prints it. `in_` is called `in` in C."""
    return {"size": ctypes.sizeof(mirror),
            "members": {name.rstrip("_"): [getattr(mirror, name).offset, getattr(mirror, name).size]
                        for name, _ in mirror._fields_}}


def enum(name, prefix="BANYAN_"):
    """Returns the enumerators without their prefix, with their values."""
    return {key.removeprefix(prefix): value for key, value in LAYOUTS["enums"][name].items()}


def numbering(name, count, prefix="BANYAN_"):
    """Does the same for an enum that numbers from 0 on and ends with the number of enumerators."""
    values = enum(name, prefix)
    n = values.pop(count)
    assert sorted(values.values()) == list(range(n)), f"layouts.c does not list all of enum {name}"
    return values


def upper(names):
    return {name.upper(): value for name, value in names.items()}


class Layouts(unittest.TestCase):
    def test_structs(self):
        """Python has exactly the structs that layouts.c lists, each with the same members at the same offsets."""
        found = {c_name(mirror): layout(mirror) for mirror in mirrors()}
        self.assertEqual(sorted(found), sorted(LAYOUTS["structs"]))
        for name, of_c in LAYOUTS["structs"].items():
            self.assertEqual(found[name], of_c, name)

    def test_types(self):
        self.assertEqual(upper(buffers.DTYPES), numbering("banyan_dtype", "DTYPES"))
        size_of = library.lib.banyan_dtype_size
        size_of.restype = ctypes.c_size_t
        self.assertEqual(list(buffers.SIZES), [size_of(dtype) for dtype in range(len(buffers.SIZES))])
        self.assertEqual(len(buffers.SIZES), len(buffers.DTYPES))

    def test_operations(self):
        self.assertEqual(upper(calls.OPS), numbering("banyan_op", "OPS"))

    def test_collectives(self):
        """Each has its name in the module, with C's number."""
        for name, value in numbering("banyan_collective", "COLLECTIVES").items():
            self.assertEqual(getattr(calls, name), value, name)

    def test_ways(self):
        ways = {way: number for number, way in enumerate(sparse.WAYS)}
        self.assertEqual(upper(ways), numbering("banyan_sparse_way", "WAYS", "BANYAN_SPARSE_"))

    def test_statuses(self):
        """Each becomes the exception of its group."""
        statuses = enum("banyan_status")
        self.assertEqual(statuses.pop("OK"), 0)
        self.assertEqual({name: type(errors.from_status(value, "")) for name, value in statuses.items()}, ERRORS)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
