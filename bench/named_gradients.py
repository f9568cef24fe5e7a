#!/usr/bin/env python3
"""Times training steps with gradients of ResNet-50's and a transformer's shapes: DDP's buckets, the hook and the optimiser that
reduce by parameters' names, all over Banyan and in turns in one run.

    banyan lab star:4,nic=1g -- python3 bench/named_gradients.py

Layers compute nothing but take time, so that links are what is measured: a backward pass waits for each parameter, in proportion
to its elements, and fills its gradient. The output has the medians over the rounds of the slowest rank's step, the ratio
to DDP's buckets with the least and greatest ratio of a round, and the processor time of a rank.
"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import banyan.torch


def resnet50():
    """The shapes of its 161 parameters, in the order of the layers."""
    def convolution(inner, outer, kernel):
        return [(outer, inner, kernel, kernel), (outer,), (outer,)]
    shapes, inner = convolution(3, 64, 7), 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            shapes += convolution(inner, width, 1) + convolution(width, width, 3) + convolution(width, 4 * width, 1)
            shapes += convolution(inner, 4 * width, 1) if block == 0 else []
            inner = 4 * width
    return shapes + [(1000, 2048), (1000,)]


def transformer():
    """Six layers of 512 columns, and a table of 16,000 words: 27 million parameters."""
    shapes = [(16000, 512), (512, 512)]
    for _ in range(6):
        shapes += [(1536, 512), (1536,), (512, 512), (512,), (512,), (512,), (2048, 512), (2048,), (512, 2048), (512,), (512,), (512,)]
    return shapes + [(512,), (512,)]


class Layer(torch.autograd.Function):
    """Hands its input on; backwards, it takes time and makes the gradient of its parameter."""

    @staticmethod
    def forward(context, values, parameter, seconds):
        context.parameter, context.seconds = parameter, seconds
        return values + 0

    @staticmethod
    def backward(context, gradient):
        time.sleep(context.seconds)
        return gradient, torch.full_like(context.parameter, 0.001), None


class Model(nn.Module):
    def __init__(self, shapes, seconds):
        super().__init__()
        self.layers = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for shape in shapes)
        total = sum(parameter.numel() for parameter in self.layers)
        self.seconds = [seconds * parameter.numel() / total for parameter in self.layers]

    def forward(self, values):
        for parameter, seconds in zip(self.layers, self.seconds):
            values = Layer.apply(values, parameter, seconds)
        return values


class Way:
    """One way to train a model."""

    def __init__(self, way, shapes, seconds, cap):
        model = Model(shapes, seconds)
        self.optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
        if way == "optimiser":
            self.optimiser = banyan.torch.distributed_optimizer(self.optimiser, model.named_parameters())
            self.model = model
            return
        self.model = DistributedDataParallel(model, gradient_as_bucket_view=True, bucket_cap_mb=cap)
        if way == "hook":
            self.model.register_comm_hook(banyan.torch.NamedState(self.model), banyan.torch.named_hook)

    def round(self, steps):
        """Returns the seconds of a step of the slowest rank, and those of a processor that a rank uses."""
        dist.barrier()
        begun, used = time.perf_counter(), time.process_time()
        for _ in range(steps):
            self.model(torch.ones(1, requires_grad=True)).sum().backward()
            self.optimiser.step()
            self.optimiser.zero_grad()
        value = torch.tensor([time.perf_counter() - begun, time.process_time() - used], dtype=torch.float64) / steps
        dist.all_reduce(value[:1], op=dist.ReduceOp.MAX)
        dist.all_reduce(value[1:], op=dist.ReduceOp.AVG)
        return value.tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="resnet50,transformer")
    parser.add_argument("--ways", default="buckets,hook,optimiser")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a backward pass without exchange")
    parser.add_argument("--cap", type=float, default=25, help="bucket_cap_mb of DDP")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2, help="of a round")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("banyan")
    for name in options.models.split(","):
        shapes = {"resnet50": resnet50, "transformer": transformer}[name]()
        ways = {way: Way(way, shapes, options.seconds, options.cap) for way in options.ways.split(",")}
        times = {way: [] for way in ways}
        for i in range(options.rounds + 1):  # The first one sets up buckets and tables of names.
            for way in list(ways)[::1 if i % 2 else -1]:
                times[way].append(ways[way].round(options.steps))
        first = next(iter(ways))
        for way, values in times.items():
            ratios = [one[0] / other[0] for one, other in zip(values[1:], times[first][1:])]
            took, used = (statistics.median(value[i] for value in values[1:]) * 1e3 for i in (0, 1))
            if dist.get_rank() == 0:
                print(f"{name:12} {dist.get_world_size()} ranks {way:10} {took:8.1f} ms, {statistics.median(ratios):.3f} of {first} "
                      f"({min(ratios):.3f} to {max(ratios):.3f}), {used:.0f} ms of a processor for each rank", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
