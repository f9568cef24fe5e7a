#!/usr/bin/env python3
"""Named operations in PyTorch: gradients that ranks reduce in different orders, as a communication hook of DDP and as an
optimiser, against DDP over Gloo; PowerSGD with several buckets; and calls that callbacks make in different orders."""
import os
import random
import sys
import tempfile
import time
import unittest

import ranks

ranks.need_torch()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import banyan  # noqa: E402
import banyan.torch  # noqa: E402

STEPS = 5
dist._DEFAULT_FIRST_BUCKET_BYTES = 1024  # With PyTorch 1.13 small models have one bucket otherwise.


def begin():
    dist.init_process_group("banyan")


def end():
    dist.barrier()
    dist.destroy_process_group()


class Net(nn.Module):
    """Gradients become ready in another order on each rank and in each step: the layers are used in any order. Parameters
    have several types; each rank uses one of two branches in turns, and no rank the third."""

    def __init__(self, sparse=False, kinds=(torch.float32, torch.float64, torch.bfloat16)):
        super().__init__()
        self.table = nn.Embedding(20, 8, sparse=sparse)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(8, dtype=kind)) for kind in kinds)
        self.branches = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.turn = dist.get_rank()
        self.draw = random.Random(dist.get_rank())

    def forward(self, words):
        self.turn += 1
        values = self.table(words).mean(1)
        order = list(self.layers)
        self.draw.shuffle(order)
        values = sum(torch.tanh(layer(values)) for layer in order)
        for scale in self.scales:
            values = values * scale.float()
        return self.branches[self.turn % 2](values)

    def data(self, generator):
        return torch.randint(20, (4, 3), generator=generator)


def flat(parameters):
    return torch.cat([parameter.detach().flatten().double() for parameter in parameters])


def equal_everywhere(values, group=None):
    every = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(every, values, group=group)
    assert all(torch.equal(every[0], other) for other in every), "the ranks differ"


def train(network, forward, optimiser, accumulated=False, no_sync=None, to_none=True, clip=None):
    """Returns the parameters after some steps."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(STEPS):
        if accumulated and step % 2:
            with no_sync():
                forward(network.data(generator)).pow(2).sum().backward()
        forward(network.data(generator)).pow(2).sum().backward()
        if clip:
            clip()
        optimiser.step()
        optimiser.zero_grad(set_to_none=to_none)
    return flat(network.parameters())


def sgd(network):
    """With decay, parameters whose gradient is None behave differently from those whose gradient is 0."""
    decay = 0 if network.table.sparse else 0.01
    return torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=decay)


def by_ddp(group, kind, hook=None, clip=False, **options):
    """Plain DDP, or with a hook."""
    torch.manual_seed(1)
    network = kind()
    model = DistributedDataParallel(network, process_group=group, bucket_cap_mb=0.0005, find_unused_parameters=True)
    if hook:
        model.register_comm_hook(banyan.torch.NamedState(model), hook)
    optimiser = sgd(network)
    return train(network, model, optimiser, no_sync=model.no_sync,
                 clip=(lambda: nn.utils.clip_grad_norm_(network.parameters(), 0.5)) if clip else None, **options)


def by_optimiser(kind, clip=False, **options):
    """Without DDP, by the optimiser of banyan.torch."""
    torch.manual_seed(1)
    network = kind()
    optimiser = sgd(network)
    optimiser = banyan.torch.distributed_optimizer(optimiser, network.named_parameters(), find_unused_parameters=True)

    def clipped():
        optimiser.synchronize()
        nn.utils.clip_grad_norm_(network.parameters(), 0.5)
    return train(network, network, optimiser, no_sync=optimiser.no_sync, clip=clipped if clip else None, **options)


def dense():
    return Net(kinds=(torch.float32, torch.float64))  # Gloo does not add bfloat16


def sparse():
    return Net(sparse=True, kinds=(torch.float32,))


CASES = {"plain": (dense, {}), "accumulated": (dense, {"accumulated": True}), "zeroed": (dense, {"to_none": False}),
         "clipped": (dense, {"clip": True}), "sparse": (sparse, {}), "bfloat16": (Net, {})}
NEAR = {"bfloat16": 0.01}  # DDP divides before it adds, and rounds twice


def gradients():
    begin()
    gloo = dist.new_group(backend="gloo")
    for name, (kind, options) in CASES.items():
        plain = by_ddp(dist.group.WORLD if kind is Net else gloo, kind, **options)
        for way, ours in (("hook", by_ddp(dist.group.WORLD, kind, banyan.torch.named_hook, **options)),
                          ("optimiser", by_optimiser(kind, **options))):
            near = NEAR.get(name, 1e-5)
            assert torch.allclose(ours, plain, rtol=near, atol=near), f"{name}, {way}: up to {(ours - plain).abs().max()}"
            equal_everywhere(ours)
    end()


def callbacks():
    """Each of some calls has a callback, which makes two more calls of one shape. The callbacks run in different orders on
    each rank, some before the program's next call and some after it."""
    begin()
    rank, size, draw = dist.get_rank(), dist.get_world_size(), random.Random(dist.get_rank())
    for _ in range(5):
        futures = []
        for i in range(6):
            delay = draw.random() * 0.01

            def again(future, i=i, delay=delay):
                time.sleep(delay)
                total = future.value()[0] + 100 * i
                dist.all_reduce(total)
                dist.all_reduce(total)
                return total

            tensor = torch.full((3,), float(rank + i))
            future = dist.all_reduce(tensor, async_op=True).get_future()
            if draw.random() < 0.5:
                time.sleep(0.005)  # The callback runs at once, in this thread.
            futures.append(future.then(again).then(lambda future: future.value() + 1))
        for i, future in enumerate(futures):
            expected = (sum(range(size)) + size * i + 100 * i) * size * size + 1
            assert torch.equal(future.wait(), torch.full((3,), float(expected))), f"{i}: {future.wait()}, not {expected}"
    end()



def power(group, cap, hook, state):
    """The parameters after some steps of PowerSGD, with buckets of this size."""
    torch.manual_seed(1)
    network = nn.Sequential(*(nn.Linear(24, 24) for _ in range(6)))
    dist._DEFAULT_FIRST_BUCKET_BYTES = int(cap * 2**20)
    model = DistributedDataParallel(network, process_group=group, bucket_cap_mb=cap)
    network.data = lambda generator: torch.randn(4, 24, generator=generator)
    buckets = set()

    def counted(state, bucket):
        buckets.add(bucket.index())
        time.sleep(0.003 * random.Random(len(buckets) * 7 + dist.get_rank()).random())
        return hook(state, bucket)
    model.register_comm_hook(state(model), counted)
    return train(network, model, torch.optim.SGD(network.parameters(), lr=0.001)), len(buckets)


def ours(model):
    return banyan.torch.PowerSGDState(model, rank=2, start_iteration=1)


def pytorchs(model):
    return powerSGD_hook.PowerSGDState(model.process_group, matrix_approximation_rank=2, start_powerSGD_iter=2)


def powers():
    begin()
    one, n = power(dist.group.WORLD, 25, banyan.torch.power_sgd_hook, ours)
    assert n == 1
    three, n = power(dist.group.WORLD, 0.004, banyan.torch.power_sgd_hook, ours)
    assert n >= 3, n
    assert torch.allclose(one, three, rtol=1e-5, atol=1e-6), f"up to {(one - three).abs().max()}"
    # Gloo gives right sums only for one bucket; with several, all of PyTorch's hook that depends on them is the same here.
    gloo = dist.new_group(backend="gloo")
    for cap in (25, 0.004):
        first, n = power(dist.group.WORLD, cap, powerSGD_hook.powerSGD_hook, pytorchs)
        equal_everywhere(first)
        if n == 1:
            theirs, _ = power(gloo, cap, powerSGD_hook.powerSGD_hook, pytorchs)
            assert torch.allclose(first, theirs, rtol=1e-5, atol=1e-6), f"up to {(first - theirs).abs().max()}"
        else:
            again, _ = power(dist.group.WORLD, cap, powerSGD_hook.powerSGD_hook, pytorchs)
            assert torch.allclose(first, again, rtol=1e-5, atol=1e-6), f"up to {(first - again).abs().max()}"
    end()


def unnamed():
    """A callback whose calls nothing can name makes none."""
    begin()
    if dist.get_rank():
        time.sleep(0.3)
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    if dist.get_rank() == 0:
        future = torch.futures.collect_all([future]).then(lambda _: dist.all_reduce(torch.ones(3)))
        with unittest.TestCase().assertRaisesRegex(RuntimeError, "run in a different order on each rank"):
            future.wait()
    end()


def types():
    """All types, also not in one piece, in an order of each rank's own, in place."""
    begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    kinds = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64,
             torch.bool, torch.complex64)
    tensors = {f"{kind}{' in pieces' if stride > 1 else ''}": torch.full((4 * stride, 3), rank + 1).to(kind)[::stride]
               for kind in kinds for stride in (1, 2)}
    names = banyan.torch.Names(tensors.items())
    for _ in range(3):
        given = {name: tensor.clone() if tensor.is_contiguous() else tensor for name, tensor in tensors.items()}
        expected = {name: tensor if tensor.dtype == torch.bool else tensor * 0 + sum(range(1, size + 1))
                    for name, tensor in tensors.items()}
        for tensor in tensors.values():
            tensor.fill_(rank + 1)
        order = list(tensors)
        random.Random(rank).shuffle(order)
        works = [names.submit([tensors[name]], [given[name]], op=dist.ReduceOp.SUM) for name in order]
        for work in works:
            work.wait()
        for name, tensor in given.items():
            assert torch.equal(tensor, expected[name]), f"{name}: {tensor}"
    end()


def optimisers():
    """Two models with the same names, in another order on each rank; parameters that are frozen and thawed; what is refused."""
    begin()
    torch.manual_seed(1)
    models = [nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)) for _ in range(2)]
    every = [banyan.torch.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
             for model in models]
    check, rank = unittest.TestCase(), dist.get_rank()
    for step in range(4):
        for parameter in models[0][0].parameters():
            parameter.requires_grad_(step % 2 == 0)
        for i in (0, 1) if rank else (1, 0):
            models[i](torch.full((2, 4), float(rank + i))).sum().backward()
        for model, optimiser in zip(models, every):
            with check.assertRaisesRegex(RuntimeError, r"call step\(\) or synchronize\(\) first"):
                optimiser.zero_grad()
            before = flat(model.parameters())
            optimiser.step()
            assert not torch.equal(before, flat(model.parameters()))
            optimiser.zero_grad(set_to_none=True)
        frozen = models[0][0].weight
        assert step % 2 == 0 or frozen.grad is None
    for model in models:
        equal_everywhere(flat(model.parameters()))
    models[0](torch.ones(2, 4)).sum().backward()
    with check.assertRaisesRegex(RuntimeError, "the gradient of 1.(weight|bias) while it is being reduced"):
        models[0](torch.ones(2, 4)).sum().backward()
    every[0].synchronize()
    every[0].zero_grad()
    # A closure makes the gradients, and schedulers take the optimiser for what it was.
    torch.optim.lr_scheduler.StepLR(every[1], 1)

    def closure():
        every[1].zero_grad()
        loss = models[1](torch.full((2, 4), float(rank))).sum()
        loss.backward()
        return loss
    assert every[1].step(closure) is not None and isinstance(every[1], torch.optim.SGD)
    equal_everywhere(flat(models[1].parameters()))
    end()


def differing():
    """A shape that differs is an error that names the parameter and the ranks; the group goes on."""
    begin()
    parameter = nn.Parameter(torch.zeros(3))
    names = banyan.torch.Names([("layer1.weight", parameter)])
    with unittest.TestCase().assertRaisesRegex(banyan.Mismatch, "layer1.weight.*rank 0.*rank 1|layer1.weight.*rank 1.*rank 0"):
        names.submit([parameter], [torch.ones(3 + dist.get_rank())]).wait()
    tensor = torch.ones(3)
    names.submit([parameter], [tensor], op=dist.ReduceOp.SUM).wait()
    assert torch.equal(tensor, torch.full((3,), 2.0))
    end()


def stalled():
    """Rank 0's log names a parameter that a rank is late with, and the rank."""
    os.environ["BANYAN_STALL"] = "0.5"
    begin()
    network = nn.Linear(3, 2)
    optimiser = banyan.torch.distributed_optimizer(torch.optim.SGD(network.parameters(), lr=0.1), network.named_parameters())
    with tempfile.TemporaryFile() as log:
        before = os.dup(2)
        os.dup2(log.fileno(), 2)
        if dist.get_rank() == 1:
            dist.recv(torch.zeros(1), 0)
        network(torch.ones(1, 3)).sum().backward()
        if dist.get_rank() == 0:
            text, until = "", time.monotonic() + 30
            while "weight" not in text and time.monotonic() < until:
                time.sleep(0.05)
                text = os.pread(log.fileno(), 10000, 0).decode()
            dist.send(torch.zeros(1), 1)
            assert "\"weight\"" in text and "have not submitted it: 1 (host" in text, text
        optimiser.step()
        os.dup2(before, 2)
    end()


class Callbacks(unittest.TestCase):
    def test_orders(self):
        ranks.run(3, callbacks)

    def test_without_a_name(self):
        ranks.run(2, unnamed)

    def test_power(self):
        ranks.run(2, powers)


class Gradients(unittest.TestCase):
    def test_two(self):
        ranks.run(2, gradients)

    def test_three(self):
        ranks.run(3, gradients)

    def test_types(self):
        ranks.run(2, types)

    def test_optimisers(self):
        ranks.run(2, optimisers)

    def test_differing(self):
        ranks.run(2, differing)

    def test_stalled(self):
        ranks.run(2, stalled)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
