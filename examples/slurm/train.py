#!/usr/bin/env python3
"""Fits a linear model with NumPy, data-parallel, and saves a checkpoint now and then, from which it continues.

Under requeue.sbatch the ranks are those of srun, and all of them end when one is lost. With --elastic, under
elastic.sbatch, those that are left go on.
"""
import argparse
import os
import time

import numpy

import banyan
import banyan.elastic

WIDTH = 1000
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--checkpoint", default="checkpoint.npz", help="file that all nodes see")
parser.add_argument("--every", type=int, default=50, help="steps from one checkpoint to the next")
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--batch", type=int, default=64, help="samples of all ranks together in a step")
parser.add_argument("--pause", type=float, default=0, help="seconds that a step takes longer, to watch it")
parser.add_argument("--elastic", action="store_true", help="go on while ranks come and go")
given = parser.parse_args()
wanted = numpy.linspace(-1, 1, WIDTH, dtype=numpy.float32)  # what the model is to find


def load():
    if not os.path.exists(given.checkpoint):
        return numpy.zeros(WIDTH, numpy.float32), 0
    with numpy.load(given.checkpoint) as file:
        return file["weights"], int(file["step"])


def save(weights, step):
    """Under another name first: a checkpoint is complete, or the one before is still there."""
    with open(given.checkpoint + ".new", "wb") as file:
        numpy.savez(file, weights=weights, step=step)
        file.flush()
        os.fsync(file.fileno())
    os.replace(given.checkpoint + ".new", given.checkpoint)


def gradient(weights, step, rank, size):
    """Of this rank's part of the samples of a step, which depend on the step only."""
    samples = numpy.random.default_rng(step).standard_normal((given.batch, WIDTH), numpy.float32)[rank::size]
    return samples.T @ (samples @ (weights - wanted)) / given.batch


def train(comm, state, commit=lambda: None):
    if comm.rank == 0:
        print(f"step {state.step}: {comm.size} ranks on {', '.join(sorted(set(comm.hosts)))}", flush=True)
    while state.step < given.steps:
        state.weights -= 0.02 * comm.allreduce(gradient(state.weights, state.step, comm.rank, comm.size))
        state.step += 1
        commit()
        if comm.rank == 0 and state.step % given.every == 0:
            save(state.weights, state.step)
        time.sleep(given.pause)
    if comm.rank == 0:
        print(f"done: {state.step} steps, {comm.size} ranks, error {abs(state.weights - wanted).max():.4f}", flush=True)


first_weights, first_step = load()
model = banyan.State(weights=first_weights, step=first_step)
if given.elastic:
    banyan.elastic.run(lambda job: train(job.comm, model, job.commit), model)
else:
    with banyan.Communicator() as world:
        train(world, model)
