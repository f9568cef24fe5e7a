#!/usr/bin/env python3
"""A small network on Fashion-MNIST, data-parallel with DDP, whose processes may be killed, leave and come.

    banyan run -n 4 --min 1 --restarts 100 -- python3 train.py        # and kill any of them

or without a launcher, in as many shells as you like; who comes later joins:

    python3 train.py --meet /tmp/job --size 2
"""
import argparse
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import banyan
import banyan.elastic
import banyan.torch  # lets DDP use the members of now

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pytorch"))
from common import Progress, check_replicas  # noqa: E402
from fashion import IMAGES, accuracy, images  # noqa: E402


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--meet", help="folder in which the processes find each other; without it, by the launcher")
    parser.add_argument("--size", type=int, help="processes at the start (WORLD_SIZE)")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=240, help="images of all processes together in a step")
    parser.add_argument("--rate", type=float, default=0.1, help="of learning, at the start; it falls to 0 by the end")
    parser.add_argument("--limit", type=int, default=60000, help="images to train with")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", default=IMAGES)
    parser.add_argument("--trace", help="file to which processes append what happens: time, event, step, processes, own number")
    return parser


class Training:
    def __init__(self, given):
        self.given = given
        self.pixels, self.labels = images(given.data, "train")
        torch.manual_seed(given.seed)
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=given.rate, momentum=0.9)
        self.per_epoch = given.limit // given.batch
        self.steps = given.epochs * self.per_epoch

    def log(self, event, step, everybody=False):
        if self.given.trace and (everybody or dist.get_rank() == 0):
            with open(self.given.trace, "a", encoding="utf-8") as file:
                file.write(f"{time.monotonic():.6f} {event} {step} {dist.get_world_size()} {os.getpid()}\n")

    def batch(self, step):
        """This process's part of the images of a step, which depend on seed and step only."""
        epoch, place = divmod(step, self.per_epoch)
        if place == 0 or not hasattr(self, "order") or self.epoch != epoch:
            self.epoch = epoch
            self.order = torch.randperm(self.given.limit, generator=torch.Generator().manual_seed(
                1000 * self.given.seed + epoch))
        every = self.order[place * self.given.batch:(place + 1) * self.given.batch]
        return every[dist.get_rank()::dist.get_world_size()]

    def step(self, model, step):
        """DDP takes the average over the processes; with this factor it is that over the images, however many each
        process has."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.given.rate * (1 - step / self.steps)
        mine = self.batch(step)
        losses = nn.functional.cross_entropy(model(self.pixels[mine]), self.labels[mine], reduction="sum")
        self.optimizer.zero_grad()
        loss = losses * (dist.get_world_size() / self.given.batch)
        loss.backward()
        self.optimizer.step()
        return loss

    def result(self, name):
        reached = accuracy(self.network, *images(self.given.data, "t10k"))
        self.log(f"accuracy={reached:.4f}", self.steps)
        if dist.get_rank() == 0:
            print(f"{name}: accuracy {reached:.4f} after {self.steps} steps, {dist.get_world_size()} processes at the end",
                  flush=True)


def main():
    parser = options()
    parser.add_argument("--every", type=int, default=250, help="steps from one line of progress to the next")
    parser.add_argument("--log", help="file to which rank 0 appends the progress, for ../pytorch/plot.py")
    given = parser.parse_args()
    torch.set_num_threads(1)
    training = Training(given)
    state = banyan.State(network=training.network, optimizer=training.optimizer, step=0)

    def train(job):
        signal.signal(signal.SIGUSR1, lambda *_: job.leave())
        model = DistributedDataParallel(training.network)
        progress = Progress(given, "images", given.batch, first=state.step)
        while state.step < training.steps:
            loss = training.step(model, state.step)
            state.step += 1
            job.commit()
            training.log("step", state.step)
            progress.step(loss)
        check_replicas(training.network.parameters())
        progress.check(classes=10)
        training.result("elastic")

    def changed(job):
        training.log("change", state.step, everybody=True)
        if job.rank == 0:
            print(f"step {state.step}: {job.size} processes", flush=True)

    meet = banyan.elastic.Folder(given.meet) if given.meet else None
    banyan.elastic.run(train, state, meet, given.size, on_change=changed)


if __name__ == "__main__":
    main()
