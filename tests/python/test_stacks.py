#!/usr/bin/env python3
"""What PyTorch builds on process groups for training, on CPUs: pipelines, ZeRO, local SGD, ranks with fewer batches, DDP's
options, HSDP, sequence and loss parallelism. The same training over Gloo ends with the same parameters: bit for bit with two
ranks, where sums have one order, and to rounding with four."""
import sys
import unittest

import ranks

ranks.need_torch()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
    print("skipped: this PyTorch lacks pipelines and FSDP 2")
    sys.exit(77)
import beside_gloo  # noqa: E402
import torch.distributed.checkpoint as checkpoint  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed import pipelining  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook, default_hooks, post_localSGD_hook  # noqa: E402
from torch.distributed.algorithms.join import Join  # noqa: E402
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager  # noqa: E402
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import (  # noqa: E402
    HierarchicalModelAverager)
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import (FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy,  # noqa: E402
                                    fully_shard)
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, Shard  # noqa: E402
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel,  # noqa: E402
                                               SequenceParallel, loss_parallel, parallelize_module)
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

STEPS, WIDTH, BATCH = 4, 8, 4


def layers(n=4):
    torch.manual_seed(1)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(n)]


def network():
    return nn.Sequential(*layers(), nn.Linear(WIDTH, 3))


def data(index=None):
    """The batches of a rank."""
    generator = torch.Generator().manual_seed(dist.get_rank() if index is None else index)
    while True:
        yield torch.randn(BATCH, WIDTH, generator=generator)


def step(model, batch, optimiser, after=lambda: None):
    optimiser.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimiser.step()
    after()
    return loss.detach()


def train(model, optimiser, index=None, after=lambda: None):
    """Returns the losses of some steps and the parameters after them."""
    losses = []
    for _, batch in zip(range(STEPS), data(index)):
        losses.append(step(model, batch, optimiser, after))
    return torch.stack(losses), whole(model)


def whole(model):
    parts = [p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters()]
    return torch.cat([part.detach().flatten().float() for part in parts])


def ddp(**options):
    return DistributedDataParallel(network(), **{"bucket_cap_mb": 0.0005, **options})


# ---- pipelines: a stage of each rank, or two, which send activations and gradients to each other

SCHEDULES = {"GPipe": 1, "1F1B": 1, "Interleaved1F1B": 2, "LoopedBFS": 2, "InterleavedZeroBubble": 2, "ZBVZeroBubble": 2,
             "DualPipeV": 2}


def stages_of(name, rank, n):
    """ZBV and DualPipeV turn at the last rank; others go around."""
    if SCHEDULES[name] == 1:
        return [rank]
    return [rank, 2 * n - 1 - rank] if name in ("ZBVZeroBubble", "DualPipeV") else [rank, rank + n]


def pipeline(name):
    rank, n = dist.get_rank(), dist.get_world_size()
    mine, total = stages_of(name, rank, n), SCHEDULES[name] * n
    modules = layers(total)
    stages = [pipelining.PipelineStage(modules[i], i, total, torch.device("cpu")) for i in mine]
    schedule = pipelining.schedules.get_schedule_class(name)(stages if SCHEDULES[name] == 2 else stages[0], 2 * n,
                                                             loss_fn=nn.functional.mse_loss)
    optimiser, losses = torch.optim.SGD([p for i in mine for p in modules[i].parameters()], lr=0.1), []
    generator = torch.Generator().manual_seed(3)
    for _ in range(2):
        batch, target = torch.randn(2, 4 * n, WIDTH, generator=generator)
        schedule.step(*([batch] if 0 in mine else []), target=target if total - 1 in mine else None, losses=losses)
        optimiser.step()
        optimiser.zero_grad()
    trained = torch.cat([whole(modules[i]) for i in mine])
    assert not torch.equal(trained, torch.cat([whole(layers(total)[i]) for i in mine]))
    return [*(loss.detach() for loss in losses), trained]


def pipelines(_):
    return [result for name in SCHEDULES for result in pipeline(name)]


# ---- ZeRO: each rank keeps the optimiser's state of some parameters

def zero(_):
    model = ddp()
    optimiser = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    results = train(model, optimiser)
    optimiser.consolidate_state_dict(to=0)
    if dist.get_rank() == 0:
        state = optimiser.state_dict()["state"]
        results += tuple(value["exp_avg"].flatten() for value in state.values())
    return results


def zero_with_views(_):
    """Parameters lie in one tensor for each rank, which broadcasts it; two groups of parameters."""
    model = ddp(gradient_as_bucket_view=True)
    first, *others = model.parameters()
    optimiser = ZeroRedundancyOptimizer([{"params": [first], "lr": 0.1}, {"params": others}], torch.optim.AdamW,
                                        parameters_as_bucket_view=True, lr=0.01)
    return train(model, optimiser)


def overlapping_zero():
    """PyTorch refuses it for Gloo. Steps begin once DDP has built its buckets, and then are those of the plain optimiser."""
    def trained(hook, **options):
        model = ddp(static_graph=False)
        if hook is None:
            optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        else:
            optimiser = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1, overlap_with_ddp=True)
            model.register_comm_hook(None, hook(default_hooks.allreduce_hook, model, optimiser, **options))
        for i, batch in zip(range(STEPS + 2), data()):
            loss = model(batch).square().mean()
            loss.backward()
            if hook is None and i >= 2:  # until then ZeRO only watches; it takes its steps in the backward pass
                optimiser.step()
            model.zero_grad()
        return whole(model)

    ranks_of_job()
    expected = trained(None)
    for shard in (False, True):
        result = trained(ddp_zero_hook.hook_with_zero_step, shard_buckets=shard)
        assert torch.allclose(result, expected, rtol=1e-5, atol=1e-6), (shard, (result - expected).abs().max())
    dist.barrier()
    dist.destroy_process_group()


def ranks_of_job():
    dist.init_process_group("banyan")


# ---- local SGD: parameters are averaged now and then

def local_sgd(_):
    model = network()
    averager = PeriodicModelAverager(period=2, warmup_steps=1)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1),
                 after=lambda: averager.average_parameters(model.parameters()))


def hierarchical(_):
    """Two ranks average every second step, all of them every fourth."""
    model = network()
    averager = HierarchicalModelAverager({2: 2, 4: dist.get_world_size()}, warmup_steps=0)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1),
                 after=lambda: averager.average_parameters(model.parameters()))


def post_local_sgd(_):
    """After two steps with sums of all ranks' gradients, each pair of ranks has its own, and parameters are averaged."""
    model = ddp()
    pairs, _ = dist.new_subgroups(2)
    state = post_localSGD_hook.PostLocalSGDState(process_group=None, subgroup=pairs, start_localSGD_iter=2)
    model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    optimiser = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), PeriodicModelAverager(2, warmup_steps=2))
    return train(model, optimiser)


# ---- DDP

def uneven(_):
    """Each rank has one batch more than the one before it; those that are through go on with the others' calls."""
    model = ddp()
    optimiser = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    with Join([model, optimiser]):
        for _, batch in zip(range(2 + dist.get_rank()), data()):
            step(model, batch, optimiser)
    return [whole(model)]


def buffers(_):
    """Rank 0's statistics of a batch normalisation are everybody's."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)), static_graph=True)
    results = train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    next(iter(model.modules())).module[1].eval()
    model(next(data()))
    return (*results, model.module[1].running_mean.clone(), model.module[1].running_var.clone())


def in_the_backward_pass(_):
    """Each bucket's parameters are updated as soon as its sum is there."""
    model = ddp()
    model._register_fused_optim(torch.optim.SGD, 0.1)
    losses = []
    for _, batch in zip(range(STEPS), data()):
        loss = model(batch).square().mean()
        loss.backward()
        losses.append(loss.detach())
    return torch.stack(losses), whole(model)


# ---- two dimensions

def hsdp(_):
    """Parameters are divided in each pair of ranks and copied to the others; gradients of two batches are added."""
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("copies", "parts"))
    model, policy = network(), MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    for i, batch in zip(range(STEPS), data()):
        model.set_requires_gradient_sync(i % 2 == 1)
        model(batch).square().mean().backward()
        if i % 2:
            optimiser.step()
            optimiser.zero_grad()
    return [whole(model)]


def hybrid_fsdp1(_):
    groups = dist.new_subgroups(2)[0], dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])[0]
    model = FullyShardedDataParallel(network(), process_group=groups, sharding_strategy=ShardingStrategy.HYBRID_SHARD,
                                     device_id=torch.device("cpu"), use_orig_params=True)
    results = []
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _, batch in zip(range(STEPS), data()):
        results.append(step(model, batch, optimiser))
    with FullyShardedDataParallel.summon_full_params(model):
        return torch.stack(results), whole(model)


class Block(nn.Module):
    """A layer of a transformer without attention, between a table and a classifier."""

    WORDS = 12

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.table, self.norm = nn.Embedding(self.WORDS, WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, self.WORDS)

    def forward(self, words):
        x = self.norm(self.table(words))
        return self.head(self.down(torch.nn.functional.gelu(self.up(x))))


def sequences(_):
    """Between the layers each rank has a part of the sequence; the loss is computed from parts of the classes."""
    mesh, model = init_device_mesh("cpu", (dist.get_world_size(),)), Block()
    parallelize_module(model, mesh, {
        "table": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "up": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
        "down": RowwiseParallel(output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)})
    parallelize_module(model.up, mesh, ColwiseParallel(input_layouts=Replicate()))
    optimiser, losses, generator = torch.optim.SGD(model.parameters(), lr=0.1), [], torch.Generator().manual_seed(4)
    for _ in range(STEPS):
        words = torch.randint(Block.WORDS, (BATCH, 8), generator=generator)
        with loss_parallel():
            loss = nn.functional.cross_entropy(model(words).flatten(0, 1), words.roll(1, 1).flatten())
            loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.detach())
    return torch.stack([loss.full_tensor() if isinstance(loss, DTensor) else loss for loss in losses]), whole(model)


def saved_meanwhile(path):
    """A checkpoint that is written while training goes on, by a thread with a group of its own."""
    model = fully_shard(network(), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimiser)
    before = whole(model)
    saving = checkpoint.async_save({"model": model.state_dict()}, checkpoint_id=path, process_group=dist.new_group())
    later = train(model, optimiser)
    saving.result()
    state = {"model": model.state_dict()}
    checkpoint.load(state, checkpoint_id=path)
    model.load_state_dict(state["model"])
    assert torch.equal(whole(model), before)
    return (*later, before)


class Stacks(unittest.TestCase):
    def test_two(self):
        beside_gloo.compare(2, pipelines, zero, zero_with_views, local_sgd, post_local_sgd, uneven, buffers,
                            in_the_backward_pass, sequences, saved_meanwhile)

    def test_four(self):
        beside_gloo.compare(4, pipelines, zero, hierarchical, post_local_sgd, uneven, hsdp, hybrid_fsdp1, sequences, near=1e-4)

    def test_overlapping_zero(self):
        ranks.run(3, overlapping_zero)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
