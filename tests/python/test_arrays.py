#!/usr/bin/env python3
"""Tensors of PyTorch and arrays of JAX as buffers of banyan.Communicator: their memory is used in place, results for JAX
are new arrays, and what cannot be used in place is refused by the argument's name."""
import ctypes
import importlib.util
import tempfile
import unittest

import ranks

ranks.need("numpy")
import numpy  # noqa: E402

import banyan  # noqa: E402
from banyan import dlpack, jax_arrays  # noqa: E402
from banyan.buffers import DTYPES, memory  # noqa: E402



def has(module):
    """Skips where it is not installed."""
    return unittest.skipUnless(importlib.util.find_spec(module), f"there is no module {module}")


def refuses(text, function, *arguments):
    """The call must be refused by a text that begins like this."""
    try:
        function(*arguments)
    except banyan.RequestError as error:
        assert str(error).startswith(text), error
    else:
        raise AssertionError(f"nothing was refused: {text}")


class Exported:
    """A tensor that is exported as DLPack 1.0 does."""

    def __init__(self, device=1, flags=0, major=1, name=b"dltensor_versioned"):
        self.values, self.shape, self.device, self.name = (ctypes.c_float * 6)(*range(6)), (ctypes.c_int64 * 1)(6), device, name
        tensor = dlpack._Tensor(ctypes.addressof(self.values), device, 0, 1, 2, 32, 1, self.shape, None, 0)
        self.managed = dlpack._Versioned(major, 0, None, None, flags, tensor)

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, max_version=None):
        new = ctypes.pythonapi.PyCapsule_New
        new.argtypes, new.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
        return new(ctypes.addressof(self.managed), self.name, None)


def torch_in_place():
    import torch

    with banyan.Communicator() as comm:
        for name in DTYPES:
            table = torch.arange(12).to(getattr(torch, name)).reshape(4, 3)
            rows = table[1:3]
            found = memory(rows)
            print(f"rank {comm.rank}: torch.{name} at {rows.data_ptr():#x}, used at {found.address:#x}")
            assert (found.address, found.n, found.dtype) == (rows.data_ptr(), 6, DTYPES[name])
            assert comm.allreduce(rows) is rows
            assert table.tolist() == [[0, 1, 2], [6, 8, 10], [12, 14, 16], [9, 10, 11]], table
        parameter = torch.nn.Linear(2, 2).weight
        refuses("broadcast(buffer): the tensor cannot be exported: ", comm.broadcast, parameter, 1 - comm.rank)
        comm.broadcast(parameter.data)
        request = comm.start.allreduce(torch.ones(1 << 16), op="average")  # which alone keeps the tensor
        assert request.wait().sum() == 1 << 16
        out = torch.empty(2, 4, dtype=torch.bfloat16)
        comm.allgather(torch.full((4,), comm.rank, dtype=torch.bfloat16), out)
        assert out.tolist() == [[0] * 4, [1] * 4]
        refuses("allreduce(send): the tensor does not lie in one piece", comm.allreduce, torch.ones(4, 4)[:, 1])
        refuses("allreduce(send): the tensor does not lie in one piece", comm.allreduce, torch.ones(3, 4).T)
        refuses("allreduce(recv): ", comm.allreduce, torch.ones(2), torch.ones(2, dtype=torch.complex64))
        assert memory(torch.ones(4, 4)[:, :1][:1]).n == 1 and memory(torch.ones(4, 4)[:, :0]).n == 0


def exporters():
    with banyan.Communicator() as comm:
        exported = Exported()
        assert memory(exported, write=True).address == ctypes.addressof(exported.values)
        comm.allreduce(exported)
        assert list(exported.values) == [2 * i for i in range(6)]
        readonly = Exported(flags=1)
        refuses("allreduce(send): the tensor is read-only", comm.allreduce, readonly)
        result = numpy.zeros(6, numpy.float32)
        comm.allreduce(readonly, result)
        assert result.tolist() == list(exported.values) and list(readonly.values) == list(range(6))
        refuses("allreduce(send): the tensor is on a device (number 2", comm.allreduce, Exported(device=2))
        refuses("allgather(recv): the tensor is on a device (number 2", comm.allgather, result, Exported(device=2))
        refuses("send(buffer): the tensor is exported by version 2", comm.send, Exported(major=2), 0)
        refuses("send(buffer): what is exported is no tensor", comm.send, Exported(name=b"used_dltensor_versioned"), 0)
        with tempfile.NamedTemporaryFile() as file:  # the root's buffer is not written: that would end the process
            file.write(numpy.arange(1 << 16, dtype=numpy.float32).tobytes())
            file.flush()
            mapped = numpy.memmap(file.name, numpy.float32, "r" if comm.rank == 0 else "c")
            mapped = mapped if comm.rank == 0 else numpy.zeros_like(mapped)
            assert comm.broadcast(mapped)[-1] == (1 << 16) - 1


def jax_in_place(comm, name):
    import jax
    import jax.numpy as jnp

    mine = (jnp.arange(6) + comm.rank).astype(name).reshape(2, 3)
    assert isinstance(mine, jax.Array) and mine.dtype == name
    found = memory(mine)
    print(f"rank {comm.rank}: jax {name} at {mine.unsafe_buffer_pointer():#x}, used at {found.address:#x}")
    assert (found.address, found.n, found.dtype) == (mine.unsafe_buffer_pointer(), 6, DTYPES[name])
    result = jax_arrays.Result(mine, (5, 3))
    taken = result.finish()
    print(f"rank {comm.rank}: result at {result.array.ctypes.data:#x}, JAX's at {taken.unsafe_buffer_pointer():#x}")
    assert taken.unsafe_buffer_pointer() == result.array.ctypes.data and taken.committed == mine.committed
    before, both = mine.tolist(), [[1, 3, 5], [7, 9, 11]]
    results = {"allreduce": comm.allreduce(mine), "started": comm.start.allreduce(mine).wait(),
               "named": comm.named("sum").allreduce(mine).wait(), "reduce": comm.reduce(mine, root=0),
               "broadcast": comm.broadcast(mine, root=1), "allgather": comm.allgather(mine),
               "reduce_scatter": comm.reduce_scatter(mine), "alltoall": comm.alltoall(mine)}
    wanted = {"allreduce": both, "started": both, "named": both, "reduce": both if comm.rank == 0 else before,
              "broadcast": [[1, 2, 3], [4, 5, 6]], "allgather": [[0, 1, 2], [3, 4, 5], [1, 2, 3], [4, 5, 6]],
              "reduce_scatter": [both[comm.rank]], "alltoall": [[[0, 1, 2], [1, 2, 3]], [[3, 4, 5], [4, 5, 6]]][comm.rank]}
    for call, values in wanted.items():
        assert isinstance(results[call], jax.Array) and results[call].dtype == name, call
        assert results[call].tolist() == values, (call, results[call])
    assert mine.tolist() == before
    gathered = comm.gather(mine)
    assert comm.rank or gathered.tolist() == wanted["allgather"]
    into = numpy.empty((2, 3), mine.dtype)
    assert comm.allreduce(mine, into) is into and into.tolist() == both
    refuses("allreduce(recv): an array of JAX is read-only", comm.allreduce, into, mine)
    refuses("allreduce(send): within jax.jit", jax.jit(comm.allreduce), mine)
    assert float(comm.allreduce(jnp.asarray(1, name))) == 2  # one without dimensions


def all_jax_in_place():
    with banyan.Communicator() as comm:
        for name in DTYPES:
            if name not in ("float64", "int64"):  # which JAX lacks by default
                jax_in_place(comm, name)


class Arrays(unittest.TestCase):
    def test_exporters(self):
        """Versions of DLPack, its flag for what is read-only, and devices."""
        ranks.run(2, exporters)

    @has("torch")
    def test_torch(self):
        """All types, in place; tensors that cannot be used in place are refused."""
        ranks.run(2, torch_in_place)

    @has("jax")
    def test_jax(self):
        """Inputs in place, and results that JAX takes over without a copy."""
        ranks.run(2, all_jax_in_place)


if __name__ == "__main__":
    unittest.main()
