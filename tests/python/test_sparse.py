#!/usr/bin/env python3
"""Sums of sparse tensors over groups of 2, 3 and 4 ranks: the same as Gloo's, bit for bit with whole numbers, and to rounding
otherwise. Embeddings train the same whether their gradients are summed by DDP over Gloo, by DDP with sparse_hook, or by
allreduce_sparse_gradients."""
import gc
import sys
import unittest

import ranks

ranks.need_torch()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import banyan.torch  # noqa: E402
from banyan.torch.membership import backend_of  # noqa: E402

STEPS = 6


# ---- single calls

def drawn(shape, sparse_dim, count, kind, generator):
    """A tensor with rows that may stand several times, in any order."""
    rows = torch.stack([torch.randint(size, (count,), generator=generator) for size in shape[:sparse_dim]])
    values = torch.randint(-9, 10, (count, *shape[sparse_dim:]), generator=generator).to(kind)
    return torch.sparse_coo_tensor(rows, values / 8 if kind.is_floating_point else values, shape)


def inputs(rank):
    """Maps each case to a tensor of this rank."""
    generator = torch.Generator().manual_seed(rank)
    cases = {str(kind): drawn((9, 4), 1, 7, kind, generator)
             for kind in (torch.float32, torch.float64, torch.int32, torch.int64, torch.int8)}
    cases["different counts"] = drawn((40, 3), 1, 5 * rank, torch.float32, generator)
    cases["no rows"] = drawn((40, 3), 1, 0, torch.float32, generator)
    cases["one element in a row"] = drawn((40,), 1, 30, torch.float32, generator)
    cases["dense dimensions"] = drawn((9, 2, 3, 2), 1, 7, torch.float32, generator)
    cases["sparse dimensions"] = drawn((5, 6, 2), 2, 20, torch.float32, generator)
    cases["coalesced"] = drawn((100, 4), 1, 70, torch.float32, generator).coalesce()
    cases["many rows"] = drawn((3000, 64), 1, 2500, torch.float32, generator)
    strided = drawn((9, 4), 1, 14, torch.float32, generator)
    cases["strided"] = torch.sparse_coo_tensor(strided._indices()[:, ::2], strided._values()[::2], strided.shape)
    return cases


def check_sums(ours, gloo):
    """Sums are those of Gloo; each row stands once, in order, and later calls do not change them."""
    mine, sums = inputs(dist.get_rank()), {}
    for case, tensor in mine.items():
        sums[case] = tensor.clone()
        dist.all_reduce(sums[case], group=ours)
    for case, tensor in mine.items():
        expected, again = tensor.clone(), tensor.clone()
        dist.all_reduce(expected, group=gloo)
        works = [dist.all_reduce(again, group=ours, async_op=True)]
        works[0].wait()
        for result in (sums[case], again):
            assert result.is_coalesced() and result.shape == tensor.shape and result.sparse_dim() == tensor.sparse_dim(), case
            assert torch.equal(result._indices(), result.clone()._coalesced_(False).coalesce().indices()), case
            torch.testing.assert_close(result.to_dense(), expected.to_dense(), rtol=0, atol=0 if "int" in case else 1e-3,
                                       msg=lambda text, case=case: f"{case}: {text}")


def check_short_types(group):
    """Gloo cannot sum these. The sums are exact in them."""
    for kind in (torch.float16, torch.bfloat16):
        tensor = torch.sparse_coo_tensor([[1, 1, dist.get_rank(group)]], torch.ones(3, 2, dtype=kind), (9, 2))
        dist.all_reduce(tensor, group=group)
        expected = torch.zeros(9, 2, dtype=kind)
        expected[:dist.get_world_size(group)] += 1
        expected[1] += 2 * dist.get_world_size(group)
        assert torch.equal(tensor.to_dense(), expected)


def check_memory(group):
    """Results use the memory that came out of the exchange, which lasts as long as they do."""
    tensor = torch.sparse_coo_tensor([[0, 5]], torch.ones(2, 3), (9, 3))
    dist.all_reduce(tensor, group=group)
    values, first = tensor.values(), tensor.values().data_ptr()
    del tensor
    gc.collect()
    for _ in range(3):
        other = torch.sparse_coo_tensor([[0, 5]], torch.full((2, 3), 7.0), (9, 3))
        dist.all_reduce(other, group=group)
        assert other.values().data_ptr() != first
    assert torch.equal(values, torch.full((2, 3), float(dist.get_world_size(group))))


# ---- embeddings without DDP

class Tables(nn.Module):
    """Three tables, of two types, different heights and widths, and a layer for DDP. The batches of rank 0 leave the
    second table out, and no rank uses the last."""

    def __init__(self):
        super().__init__()
        kinds = ((50, 8, torch.float32), (7, 4, torch.float32), (20, 2, torch.float64), (5, 8, torch.float32))
        self.tables = nn.ModuleList(nn.Embedding(*shape, sparse=True, dtype=kind) for *shape, kind in kinds)
        self.out = nn.Linear(14, 2)

    def forward(self, words):
        used = [table(words % table.num_embeddings).mean(1).float() for table in self.tables[:3]]
        if dist.get_rank() == 0:
            used[1] = used[1].detach()
        return self.out(torch.cat(used, 1))

    def data(self, generator):
        return torch.randint(50, (4, 3), generator=generator)


def one_by_one(parameters, group):
    """What allreduce_sparse_gradients does, over Gloo."""
    for parameter in parameters:
        gradient = parameter.grad.to_dense() if parameter.grad is not None else torch.zeros_like(parameter)
        dist.all_reduce(gradient, group=group)
        parameter.grad = (gradient / dist.get_world_size()).to_sparse(1)


def train_tables(group, reduce):
    """Returns the parameters after some steps in which `reduce` averages the gradients of the tables."""
    torch.manual_seed(1)
    model = Tables()
    tables = list(model.tables.parameters())
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
        model, [name for name, _ in model.named_parameters() if name.startswith("tables")])
    model = DistributedDataParallel(model, process_group=group)
    taken = tables if torch.__version__ >= "2" else tables[:3]  # SparseAdam of 1.13 fails where no row has a gradient
    optimisers = [torch.optim.SGD(model.module.out.parameters(), lr=0.05), torch.optim.SparseAdam(taken, lr=0.05)]
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(STEPS):
        model(model.module.data(generator)).pow(2).sum().backward()
        reduce(tables, group)
        assert all(table.grad.is_sparse for table in tables)
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
    return torch.cat([p.detach().flatten().double() for p in model.parameters()])


def one_exchange(group):
    """All tables of a type share the calls of one exchange; duplicates are added, and sums are coalesced."""
    size = dist.get_world_size()
    tables = [nn.Parameter(torch.zeros(9, width)) for width in (1, 2, 4)]
    for table in tables:
        table.grad = torch.sparse_coo_tensor([[dist.get_rank(), 8, 8]], torch.ones(3, table.shape[1]), table.shape)
    backend = backend_of(group)
    before = backend._get_sequence_number_for_group()
    banyan.torch.allreduce_sparse_gradients(tables, average=False)
    assert backend._get_sequence_number_for_group() == before + 1
    for table in tables:
        expected = torch.zeros_like(table)
        expected[:size], expected[8] = 1, 2 * size
        assert table.grad.is_coalesced() and torch.equal(table.grad.to_dense(), expected)


def refused(group):
    """What cannot be summed is refused before anything is sent, and the group works afterwards."""
    dense, sparse = torch.ones(3, 2), torch.ones(3, 2).to_sparse(1)
    parameter = nn.Parameter(torch.zeros(3, 2))
    parameter.grad = dense
    backend = backend_of(group)  # From 2.x on, dist.all_reduce_coalesced refuses sparse tensors itself.
    of_sum, of_max = dist.AllreduceCoalescedOptions(), dist.AllreduceCoalescedOptions()
    of_max.reduceOp = dist.ReduceOp.MAX
    attempts = ((lambda: banyan.torch.allreduce_sparse_gradients([parameter]), TypeError, "is dense"),
                (lambda: backend.allreduce_coalesced([sparse, dense], of_sum), RuntimeError, "a COO tensor"),
                (lambda: backend.allreduce_coalesced([dense, sparse], of_sum), RuntimeError, "a dense tensor"),
                (lambda: backend.allreduce_coalesced([sparse, sparse], of_max), RuntimeError, "takes the sum or the average"))
    for attempt, kind, text in attempts:
        try:
            attempt()
        except kind as error:
            assert text in str(error), f"the error is {error}"
        else:
            raise AssertionError(f"no error that says: {text}")
    banyan.torch.allreduce_sparse_gradients([])


# ---- DDP

class Bags(nn.Module):
    """Tables of three kinds, of which two use a row several times."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 8, mode="sum", sparse=True)
        self.words = nn.Embedding(50, 4, sparse=True)
        self.doubles = nn.Embedding(30, 4, sparse=True, dtype=torch.float64)
        self.out = nn.Linear(16, 2)

    def forward(self, words):
        parts = [self.bag(words), self.words(words).mean(1), self.doubles(words % 30).mean(1).float()]
        return self.out(torch.cat(parts, 1))


def train_bags(group, hook=None):
    """Returns the parameters after some steps, and how many calls the group made for the last gradients."""
    torch.manual_seed(1)
    model = DistributedDataParallel(Bags(), process_group=group)
    if hook:
        model.register_comm_hook(group, hook)
    tables = [model.module.bag.weight, model.module.words.weight, model.module.doubles.weight]
    optimisers = [torch.optim.SGD([*model.module.out.parameters(), tables[0]], lr=0.05), torch.optim.SparseAdam(tables[1:], lr=0.05)]
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(STEPS):
        before = backend_of(group)._get_sequence_number_for_group()
        model(torch.randint(50, (4, 3), generator=generator)).pow(2).sum().backward()
        calls = backend_of(group)._get_sequence_number_for_group() - before
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=step % 2 == 0)
    return torch.cat([p.detach().flatten().double() for p in model.parameters()]), calls


def check_training(world, gloo):
    ours, theirs = train_tables(world, banyan.torch.allreduce_sparse_gradients), train_tables(gloo, one_by_one)
    assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4), f"up to {(ours - theirs).abs().max().item()} from Gloo"
    theirs, _ = train_bags(gloo)
    (plain, calls), (hooked, fewer) = train_bags(world), train_bags(world, banyan.torch.sparse_hook(world))
    for way, result in (("DDP", plain), ("sparse_hook", hooked)):
        assert torch.allclose(result, theirs, rtol=1e-4, atol=1e-4), f"{way}: up to {(result - theirs).abs().max().item()} from Gloo"
    assert fewer == calls - 1, f"{fewer} calls with sparse_hook, {calls} without: two tables of three have one type"


# ---- what cannot be

def check_differing_shapes(group):
    """All ranks get the error, which says which ranks differ, and the group goes on."""
    rank = dist.get_rank(group)
    for mine, differs in (((9 + (rank == 1), 4), "of 10 x 4"), ((9, 4 + (rank == 1)), "of 9 x 5")):
        tensor = torch.sparse_coo_tensor([[0]], torch.ones(1, mine[1]), mine)
        try:
            dist.all_reduce(tensor, group=group)
        except RuntimeError as error:
            assert "rank 1" in str(error), f"the error is {error}"
        else:
            raise AssertionError(f"no error though rank 1 has {differs}")
    tensor = torch.sparse_coo_tensor([[0]], torch.ones(1, 4), (9, 4))
    dist.all_reduce(tensor, group=group)
    assert tensor.values()[0, 0] == dist.get_world_size(group)


def everything():
    dist.init_process_group("banyan")
    for size in (2, 3, 4):
        ours, gloo = (dist.new_group(list(range(size)), backend=backend) for backend in ("banyan", "gloo"))
        if dist.get_rank() >= size:
            continue
        check_sums(ours, gloo)
        check_short_types(ours)
    check_memory(dist.group.WORLD)
    check_training(dist.group.WORLD, gloo)
    one_exchange(dist.group.WORLD)
    refused(dist.group.WORLD)
    check_differing_shapes(dist.group.WORLD)
    dist.barrier()
    dist.destroy_process_group()


class Sparse(unittest.TestCase):
    def test_everything(self):
        ranks.run(4, everything)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
