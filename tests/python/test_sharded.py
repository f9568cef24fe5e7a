#!/usr/bin/env python3
"""Models whose parameters are divided over ranks: FSDP 1 and 2, DTensor, tensor parallelism, and their checkpoints, on
CPUs. The same training over Gloo ends with the same parameters: bit for bit with two ranks, where sums have one order."""
import sys
import unittest

import ranks

ranks.need_torch()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
    print("skipped: this PyTorch lacks FSDP 2")
    sys.exit(77)
import beside_gloo  # noqa: E402
import torch.distributed.checkpoint as checkpoint  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

STEPS, WIDTH = 4, 16


class Block(nn.Module):
    """A layer of a transformer without attention. Its widths are divided by 2 and 4, its bias of 3 by neither."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm, self.odd = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        return x + self.odd(x).sum(-1, keepdim=True)


def blocks():
    torch.manual_seed(1)
    return nn.Sequential(*(Block() for _ in range(3)))


def train(model, index, clip=True):
    """Data differ by `index`. Returns the losses."""
    optimiser, losses = torch.optim.AdamW(model.parameters(), lr=0.01), []
    generator = torch.Generator().manual_seed(index)
    for _ in range(STEPS):
        loss = model(torch.randn(8, WIDTH, generator=generator)).square().mean()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.detach())
    return torch.stack(losses)


def whole(model):
    """The parameters, put together again."""
    parts = [p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters()]
    return torch.cat([part.detach().flatten().float() for part in parts])


def shard(model, mesh, **options):
    for block in model:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def fsdp2(_):
    model = shard(blocks(), init_device_mesh("cpu", (dist.get_world_size(),)))
    return train(model, dist.get_rank()), whole(model)


def fsdp2_mixed(_):
    """Computes and reduces in bfloat16."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = shard(blocks(), init_device_mesh("cpu", (dist.get_world_size(),)), mp_policy=policy)
    return train(model, dist.get_rank()), whole(model)


def fsdp1(_):
    model = FullyShardedDataParallel(blocks(), device_id=torch.device("cpu"), use_orig_params=True)
    losses = train(model, dist.get_rank())
    with FullyShardedDataParallel.summon_full_params(model):
        return losses, whole(model)


def saved(folder):
    """A checkpoint of divided parameters, which are read again into others."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model, other = shard(blocks(), mesh), shard(nn.Sequential(*(Block() for _ in range(3))), mesh)
    losses = train(model, dist.get_rank())
    checkpoint.save({"model": model.state_dict()}, checkpoint_id=folder)
    state = {"model": other.state_dict()}
    checkpoint.load(state, checkpoint_id=folder)
    other.load_state_dict(state["model"])
    assert torch.equal(whole(model), whole(other))
    return losses, whole(other)


def two_dimensions(_):
    """Tensor parallelism within FSDP 2. PyTorch cannot clip gradients of several meshes together."""
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("data", "model"))
    model = blocks()
    for block in model:
        parallelize_module(block, mesh["model"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    model = shard(model, mesh["data"])
    return train(model, dist.get_rank() // 2, clip=False), whole(model)


def tensors(_):
    """Every way from one placement to another, and what is computed with divided tensors."""
    mesh, results = init_device_mesh("cpu", (dist.get_world_size(),)), []
    torch.manual_seed(2)
    full = torch.randint(-8, 8, (10, 7)).float()  # not divisible: the last rank has less
    placements = [Shard(0), Shard(1), Replicate()]
    for before in placements:
        for after in placements:
            there = distribute_tensor(full, mesh, [before]).redistribute(mesh, [after])
            assert torch.equal(there.full_tensor(), full), (before, after)
            results.append(there.to_local())
    parts = DTensor.from_local(full + dist.get_rank(), mesh, [Partial()])
    results += [parts.redistribute(mesh, [after]).to_local() for after in placements]
    product = distribute_tensor(full, mesh, [Shard(1)]) @ distribute_tensor(full.t().contiguous(), mesh, [Shard(0)])
    assert torch.equal(product.full_tensor(), full @ full.t())
    return torch.cat([result.flatten() for result in results]), product.full_tensor()


class Sharded(unittest.TestCase):
    def test_two(self):
        beside_gloo.compare(2, fsdp2, fsdp2_mixed, fsdp1, saved, tensors)

    def test_three(self):
        beside_gloo.compare(3, fsdp2, near=1e-4)
        beside_gloo.compare(3, tensors)

    def test_two_dimensions(self):
        beside_gloo.compare(4, two_dimensions, near=1e-4)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
