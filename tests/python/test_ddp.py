#!/usr/bin/env python3
"""DistributedDataParallel over Banyan and over Gloo, in one job with the same batches: the final parameters are the
same, with bucket views, accumulated gradients, sparse ones, unused parameters, several types, and communication
hooks."""
import contextlib
import sys
import unittest

import ranks

ranks.need_torch()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


STEPS = 6


class Plain(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))

    def data(self, generator):
        return torch.randn(4, 8, generator=generator)


class Words(nn.Module):
    """The gradients of its table are sparse."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8, sparse=True)
        self.out = nn.Linear(8, 2)

    def forward(self, words):
        return self.out(self.table(words).mean(1))

    def data(self, generator):
        return torch.randint(50, (4, 3), generator=generator)


class Branches(Plain):
    """Each rank uses one of two branches in turns, and no rank uses the third."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.turn = dist.get_rank()

    def forward(self, data):
        self.turn += 1
        return self[2](self[1](self[0](self.branches[self.turn % 2](data))))


class Mixed(nn.Module):
    """Parameters, and so buckets, have four types."""

    TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

    def __init__(self):
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(torch.randn(40, dtype=torch.float32).to(kind)) for kind in self.TYPES)

    def forward(self, data):
        return sum((part.float() * data).mean(1) for part in self.parts)

    def data(self, generator):
        return torch.randn(4, 40, generator=generator)


class Casted(Plain):
    """The model computes in bfloat16, by autocast."""

    def forward(self, data):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(data).float()


def tenth(group, bucket):
    """A custom hook."""
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0] / 10)


def twice(group, bucket):
    """Computes two sums, the second from a callback of the first, which waits for it."""
    def again(done):
        total = done.value()[0]
        dist.all_reduce(total, group=group)
        return total / dist.get_world_size() ** 2
    return dist.all_reduce(bucket.buffer(), group=group, async_op=True).get_future().then(again)


def in_bfloat16(group, bucket):
    """PyTorch allows bf16_compress_hook, by its name, for NCCL only."""
    return default_hooks.bf16_compress_hook(group, bucket)


def power(model, group):
    state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def hook(function):
    return lambda model, group: model.register_comm_hook(group, function)


# Maps each name to the model, the options of DDP, the hook, and whether gradients of some steps are accumulated. Hooks
# whose callbacks make calls have one bucket, since Gloo's sums are right only then.
CASES = {
    "plain": (Plain, {}, None, False),
    "bucket views": (Plain, {"gradient_as_bucket_view": True}, None, False),
    "no_sync": (Plain, {"gradient_as_bucket_view": True}, None, True),
    "sparse": (Words, {}, None, False),
    "unused parameters": (Branches, {"find_unused_parameters": True}, None, False),
    "unused, accumulated": (Branches, {"find_unused_parameters": True}, None, True),
    "static graph": (Plain, {"static_graph": True}, None, False),
    "types": (Mixed, {}, None, False),
    "types, bucket views": (Mixed, {"gradient_as_bucket_view": True}, None, True),
    "autocast": (Casted, {}, None, False),
    "allreduce_hook": (Plain, {}, hook(default_hooks.allreduce_hook), False),
    "fp16_compress_hook": (Plain, {}, hook(default_hooks.fp16_compress_hook), True),
    "bf16_compress_hook": (Plain, {}, hook(in_bfloat16), False),
    "PowerSGD": (Plain, {"bucket_cap_mb": 1}, power, False),
    "fp16_compress_wrapper": (Plain, {}, hook(default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)), False),
    "waits in a callback": (Plain, {"bucket_cap_mb": 1}, hook(twice), False),
    "a hook of one's own": (Plain, {}, hook(tenth), False),
}


# Gloo does not support bfloat16: these are compared with gradients that are averaged as float32.
BY_HAND = ("types", "types, bucket views", "bf16_compress_hook")


class ByHand(nn.Module):
    """A minimal implementation of DDP."""

    def __init__(self, module, group):
        super().__init__()
        self.module, self.group, self.no_sync = module, group, contextlib.nullcontext

    def forward(self, data):
        return self.module(data)

    def average(self):
        for parameter in self.parameters():
            gradient = parameter.grad.float()
            dist.all_reduce(gradient, group=self.group)
            parameter.grad.copy_(gradient / dist.get_world_size())


def train(case, group, by_hand=False):
    """Returns the parameters after some steps."""
    kind, options, register, accumulated = CASES[case]
    torch.manual_seed(1)
    model = ByHand(kind(), group) if by_hand else DistributedDataParallel(kind(), process_group=group,
                                                                          **{"bucket_cap_mb": 0.0005, **options})
    if register and not by_hand:
        register(model, group)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(STEPS):
        if accumulated and step % 3 == 1:
            with model.no_sync():
                model(model.module.data(generator)).pow(2).sum().backward()
        model(model.module.data(generator)).pow(2).sum().backward()
        if by_hand:
            model.average()
        optimiser.step()
        optimiser.zero_grad()
    return torch.cat([p.detach().flatten().double() for p in model.parameters()])


def all_cases():
    dist.init_process_group("banyan")
    gloo = dist.new_group(backend="gloo")
    for case in CASES:
        ours, theirs = train(case, dist.group.WORLD), train(case, gloo, case in BY_HAND)
        near = 0.02 if case in BY_HAND else 1e-3 if "fp16" in case else 1e-5
        assert torch.isfinite(ours).all() and torch.allclose(ours, theirs, rtol=near, atol=near), \
            f"{case}: up to {(ours - theirs).abs().max().item()} from Gloo"
        every = [torch.empty_like(ours) for _ in range(dist.get_world_size())]
        dist.all_gather(every, ours)
        assert all(torch.equal(every[0], other) for other in every), f"{case}: the ranks differ"
    dist.barrier()
    dist.destroy_process_group()


class Training(unittest.TestCase):
    def test_two(self):
        ranks.run(2, all_cases)

    def test_three(self):
        ranks.run(3, all_cases)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
