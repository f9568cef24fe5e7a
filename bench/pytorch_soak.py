#!/usr/bin/env python3
"""Trains for many steps, then makes and destroys many groups, and watches what each rank uses of the system.

    banyan run -n 2 -- /usr/bin/python3 bench/pytorch_soak.py [--steps 50000] [--groups 10000] [--backend banyan]

Each step is one of DistributedDataParallel with three buckets; each group is one of all ranks, which sums once. Prints descriptors,
private memory and threads at the eighths of each part. Ends with 1 if a sum was wrong or, from the second eighth to the end of
a part, descriptors or threads grew, or memory grew by more than --most KiB: what PyTorch keeps of each group is part of it.
"""

import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import banyan.torch  # registers the backend
from process_uses import uses

PARTS = 8


class Trainer:
    def __init__(self):
        torch.manual_seed(1)
        layers = [torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)]
        self.model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.input = torch.randn(16, 64) + dist.get_rank()

    def step(self, _):
        self.optimizer.zero_grad(set_to_none=False)
        self.model(self.input).square().mean().backward()
        self.optimizer.step()


def sum_in_new_group(number):
    group = dist.new_group(backend=dist.get_backend())
    tensor = torch.full((256,), float(number % 100))
    dist.all_reduce(tensor, group=group)
    if tensor[0] != number % 100 * dist.get_world_size():
        sys.exit(f"the sum in group {number} is {tensor[0]}")
    dist.destroy_process_group(group)


def watch(what, times, act, most):
    """Acts so many times. Returns what grew too much."""
    seen = []
    begin = time.monotonic()
    for number in range(times):
        if number * PARTS % times < PARTS:
            seen.append(uses(os.getpid()))
            if dist.get_rank() == 0:
                print(f"{what}: {number} of {times}, {time.monotonic() - begin:.0f} s", flush=True)
        act(number)
    seen.append(uses(os.getpid()))
    wrong = []
    for name, limit, row in ("descriptors", 0, 0), ("KiB", most, 1), ("threads", 0, 2):
        values = [each[row] for each in seen]
        print(f"rank {dist.get_rank()}, {times} {what}, {name}: {', '.join(map(str, values))}", flush=True)
        if values[-1] > max(values[1], values[2]) + limit:
            wrong.append(f"{name} grew in {times} {what}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50000)
    parser.add_argument("--groups", type=int, default=10000)
    parser.add_argument("--backend", default="banyan")
    parser.add_argument("--most", type=int, default=4096, metavar="KIB")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(options.backend)
    wrong = watch("steps", options.steps, Trainer().step, options.most)
    wrong += watch("groups", options.groups, sum_in_new_group, options.most)
    dist.destroy_process_group()
    if wrong:
        sys.exit("; ".join(wrong))


main()
