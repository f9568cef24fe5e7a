#!/usr/bin/env python3
"""Times steps of DDP over Banyan and over Gloo, in turns in one run, and single calls.

    banyan run -n 2 -- python3 bench/pytorch.py

Each rank has every model twice, once with a group of each backend. Rounds of a few steps alternate between the
two and steps that exchange nothing. The output has the medians over the rounds of the slowest rank, their ratio,
the least and greatest ratio of a round, and the fraction of Gloo's step that the exchange takes.
"""
import argparse
import contextlib
import functools
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "pytorch"))
import fashion  # noqa: E402, which registers the backend

BACKENDS = ("banyan", "gloo")


class Training:
    """A model over one group."""

    def __init__(self, name, group, batch):
        torch.manual_seed(1)
        self.group = group
        self.model = DistributedDataParallel(fashion.network(name), process_group=group, gradient_as_bucket_view=True)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.pixels, self.labels = torch.rand(batch, 1, 28, 28), torch.randint(10, (batch,))

    def round(self, steps, exchanging=True):
        """Returns the seconds of a step."""
        dist.barrier(group=self.group)
        begun = time.perf_counter()
        with contextlib.nullcontext() if exchanging else self.model.no_sync():
            for _ in range(steps):
                self.optimiser.zero_grad()
                nn.functional.cross_entropy(self.model(self.pixels), self.labels).backward()
                self.optimiser.step()
        return (time.perf_counter() - begun) / steps


def slowest(seconds):
    """Returns the maximum over all ranks, by the default group."""
    value = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value.item()


def compare(name, ways, rounds):
    """Calls each way in turns, without counting the first results, and prints the results."""
    times = {way: [] for way in ways}
    order = list(ways)
    for i in range(rounds + 1):
        for way in order if i % 2 else order[::-1]:
            times[way].append(slowest(ways[way]()))
    times = {way: values[1:] for way, values in times.items()}
    ours, theirs = (statistics.median(times[way]) for way in BACKENDS)
    ratios = [gloo / own for own, gloo in zip(times["banyan"], times["gloo"])]
    text = (f"{name:16} banyan {ours * 1e3:8.3f} ms, gloo {theirs * 1e3:8.3f} ms, "
            f"{theirs / ours:5.2f} times ({min(ratios):.2f} to {max(ratios):.2f})")
    if "nothing" in times:
        nothing = statistics.median(times["nothing"])
        text += f", nothing exchanged {nothing * 1e3:8.3f} ms: {100 * (1 - nothing / theirs):.0f} % of gloo's is exchange"
    if dist.get_rank() == 0:
        print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mlp,wide,cnn")
    parser.add_argument("--sizes", default="1,1000,100000,1000000,10000000", help="elements of an all_reduce")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=6, help="of a round")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {"gloo": dist.new_group(backend="gloo"), "banyan": dist.new_group(backend="banyan")}
    for name in filter(None, options.models.split(",")):
        trainings = {backend: Training(name, groups[backend], options.batch) for backend in BACKENDS}
        ways = {backend: functools.partial(trainings[backend].round, options.steps) for backend in BACKENDS}
        ways["nothing"] = functools.partial(trainings["gloo"].round, options.steps, exchanging=False)
        compare(name, ways, options.rounds)
    for count in map(int, filter(None, options.sizes.split(","))):
        tensor, calls = torch.ones(count), max(4, min(1000, 4000000 // count))

        def run(backend):
            dist.barrier(group=groups[backend])
            begun = time.perf_counter()
            for _ in range(calls):
                dist.all_reduce(tensor.fill_(1), group=groups[backend])
            return (time.perf_counter() - begun) / calls
        compare(f"{count * 4} bytes", {backend: functools.partial(run, backend) for backend in BACKENDS}, options.rounds)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
