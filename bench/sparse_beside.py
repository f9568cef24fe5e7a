#!/usr/bin/env python3
"""How long small AllReduces take beside the merging of many sparse rows:

    banyan run -n 2 -- python3 bench/sparse_beside.py [--rows N] [--width N] [--way NAME] [--rounds N]

Each round starts a sparse AllReduce, and makes AllReduces of 8 bytes one after the other until it has ended. Prints for
the slowest rank how long the sparse ones took, how many small ones were made meanwhile, and the median, the 99th
percentile and the longest of their times, beside those without a sparse one. Set PYTHONPATH to bindings/python, and
BANYAN_LIBRARY to the library."""
import argparse
import time

import banyan
import numpy


def small(comm, value):
    start = time.perf_counter()
    comm.allreduce(value)
    return time.perf_counter() - start


def beside(comm, rows, values, options):
    """Seconds of the sparse AllReduce, and of each small one. All ranks make the same number of small ones: each tells
    the others whether its sparse one has ended."""
    times, ends, start = [], 0.0, time.perf_counter()
    request = comm.start.sparse_allreduce(rows, values, options.height, way=options.way)
    value = numpy.zeros(1, numpy.int64)
    while value[0] < comm.size:
        value[0] = request.done()
        ends = ends or (time.perf_counter() - start if value[0] else 0.0)
        times.append(small(comm, value))
    request.wait()
    return ends, times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=50000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--height", type=int, default=1000000)
    parser.add_argument("--way", default="gather")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    with banyan.Communicator() as comm:
        random = numpy.random.default_rng(comm.rank)
        rows = numpy.sort(random.choice(options.height, options.rows, replace=False)).astype(numpy.int32)
        values = numpy.ones((options.rows, options.width), numpy.float32)
        alone = [small(comm, numpy.zeros(1, numpy.int64)) for _ in range(2000)]
        ends, times = zip(*(beside(comm, rows, values, options) for _ in range(options.rounds)))
        every = numpy.concatenate(times)
        found = numpy.array([numpy.median(ends), len(every) / options.rounds]
                            + [f for t in (alone, every) for f in (*numpy.percentile(t, (50, 99)), max(t))])
        comm.allreduce(found, op="max")
        if comm.rank == 0:
            print(f"{comm.size} ranks, {options.rows} rows of {options.width}, {options.way}: {1e3 * found[0]:.1f} ms, "
                  f"{found[1]:.0f} small calls meanwhile")
            for what, first in ("alone", 2), ("beside", 5):
                print(f"  8 bytes {what}: median {1e6 * found[first]:.0f}, 99 % {1e6 * found[first + 1]:.0f}, "
                      f"longest {1e6 * found[first + 2]:.0f} us")


main()
