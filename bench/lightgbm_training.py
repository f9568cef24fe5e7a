#!/usr/bin/env python3
"""Times LightGBM's data-parallel training over Banyan and over LightGBM's own sockets, in turns in one job:

    banyan run -n 2 -- python3 bench/lightgbm_training.py [--rows 20000] [--features 100] [--trees 30] [--rounds 5]
    banyan lab star:4,nic=1g -- python3 bench/lightgbm_training.py

Each rank has so many rows. Prints the median time of the slowest rank for both, and the ratio, with the least and greatest
of the rounds. Ends with an error if predictions differ by more than 1e-6.
"""
import argparse
import os
import socket
import statistics
import sys
import time

import lightgbm
import numpy

import banyan.lightgbm


def own_address(root):
    """This host's address on the way to rank 0."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((root.rsplit("#", 1)[0].split(",")[0].rsplit(":", 1)[0], 9))
        return probe.getsockname()[0]


def machines_of(comm):
    """Every rank's address and a free port, and this rank's port."""
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
    own = numpy.frombuffer(f"{own_address(os.environ['BANYAN_ROOT'])}:{port}".ljust(32).encode(), dtype=numpy.uint8)
    every = numpy.empty((comm.size, 32), dtype=numpy.uint8)
    comm.allgather(own, every)
    return ",".join(row.tobytes().decode().strip() for row in every), port


def train(options, comm, network):
    random = numpy.random.default_rng(comm.rank)
    x = random.normal(size=(options.rows, options.features))
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(float)
    parameters = {"objective": "binary", "verbose": -1, "num_threads": 1, "num_leaves": 63, **network}
    model = lightgbm.Booster(parameters, lightgbm.Dataset(x, y, params=parameters))
    comm.barrier()
    begin = time.perf_counter()
    for _ in range(options.trees):
        model.update()
    taken = numpy.array([time.perf_counter() - begin])
    comm.allreduce(taken, op="max")
    return taken[0], model.predict(x[:1000])


def one_round(options, comm):
    with banyan.lightgbm.network(comm) as network:
        taken, predicted = train(options, comm, network)
    machines, port = machines_of(comm)
    over_sockets, expected = train(options, comm, {"tree_learner": "data", "num_machines": comm.size, "machines": machines,
                                                   "local_listen_port": port, "time_out": 2})
    lightgbm.basic._LIB.LGBM_NetworkFree()
    if numpy.abs(predicted - expected).max() > 1e-6:
        sys.exit("predictions differ")
    return taken, over_sockets


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--trees", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with banyan.Communicator() as comm:
        times = [one_round(options, comm) for _ in range(options.rounds)]
        ratios = [taken / over_sockets for taken, over_sockets in times]
        if comm.rank == 0:
            medians = [statistics.median(column) for column in zip(*times)]
            print(f"{comm.size} ranks, {options.trees} trees: Banyan {medians[0]:.2f} s, sockets {medians[1]:.2f} s, "
                  f"{statistics.median(ratios):.3f} of it ({min(ratios):.3f} to {max(ratios):.3f})")


main()
