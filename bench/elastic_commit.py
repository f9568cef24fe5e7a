#!/usr/bin/env python3
"""Times commits of a training loop when nobody wants to come or leave.

    banyan run -n 4 -- python3 bench/elastic_commit.py

Once with the question whether anybody does at each commit, and once without: the medians over rounds of 200 commits, in
turns in one run, and the rest is the copy of the state.
"""
import statistics
import sys
import time

import numpy

import banyan
import banyan.elastic

ROUNDS, COMMITS = 30, 200


def main():
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    state = banyan.State(weights=numpy.zeros(size, numpy.float32), step=0)

    def train(job):
        times = {1: [], COMMITS + 1: []}
        for _ in range(ROUNDS):
            for every in times:
                job.comm.barrier()
                job._every, job._commits, begun = every, 0, time.perf_counter()
                for _ in range(COMMITS):
                    job.commit()
                times[every].append((time.perf_counter() - begun) / COMMITS)
        asking, copying = (1e6 * statistics.median(values) for values in times.values())
        if job.rank == 0:
            print(f"{job.size} processes, {size} numbers: a commit takes {asking:.1f} us, {copying:.1f} without the question")

    banyan.elastic.run(train, state)


if __name__ == "__main__":
    main()
