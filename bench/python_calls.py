#!/usr/bin/env python3
"""Measures what Python adds to a call: calls of a job of one rank, for which the library has nothing to send.

    python3 bench/python_calls.py --torch
"""
import importlib
import sys
import time

import numpy

import banyan


def measure(name, call, calls=20000):
    best = float("inf")
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - begun) / calls)
    print(f"{name:44} {best * 1e6:7.2f} us")


def over_torch():
    import torch
    import torch.distributed as dist

    importlib.import_module("banyan.torch")
    dist.init_process_group("banyan", store=dist.HashStore(), rank=0, world_size=1)
    tensor, group = torch.ones(4), dist.group.WORLD
    measure("torch.distributed.all_reduce over banyan", lambda: dist.all_reduce(tensor))
    measure("its process group's allreduce and wait", lambda: group.allreduce([tensor]).wait())
    dist.destroy_process_group()


def main():
    array, bytes_ = numpy.ones(4, numpy.float32), bytearray(16)
    with banyan.Communicator(rank=0, size=1) as comm:
        measure("banyan: allreduce of a NumPy array", lambda: comm.allreduce(array))
        measure("banyan: allreduce of a bytearray", lambda: comm.allreduce(bytes_, dtype="float32"))
        measure("banyan: start.allreduce and wait", lambda: comm.start.allreduce(array).wait())
        measure("banyan: barrier", comm.barrier)
    if "--torch" in sys.argv:
        over_torch()


if __name__ == "__main__":
    main()
