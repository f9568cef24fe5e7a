#!/usr/bin/env python3
"""The backend in Python, as PyTorch 2.14 and later use it where no compiled one fits."""
import os
import sys
import tempfile
import unittest

import ranks

ranks.need("numpy", "torch")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14):
    print(f"skipped: PyTorch {torch.__version__} cannot call a backend in Python; 2.14 can")
    sys.exit(77)
EMPTY = tempfile.TemporaryDirectory()
os.environ["BANYAN_TORCH_CACHE"] = EMPTY.name  # No compiled backend is found there.
import banyan  # noqa: E402
import banyan.torch  # noqa: E402


def world():
    dist.init_process_group("banyan")
    return dist.get_rank(), dist.get_world_size()


def collectives():
    rank, n = world()
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
        value = torch.full((2, 3), rank + 1, dtype=dtype)
        dist.all_reduce(value)
        assert value.tolist() == [[n * (n + 1) // 2] * 3] * 2, value
    truth = torch.tensor([rank == 0, True, False])
    dist.all_reduce(truth)
    assert truth.tolist() == [True, True, False]
    phase = torch.tensor([1 + 2j]) * rank
    dist.all_reduce(phase)
    assert phase.item() == (1 + 2j) * (n * (n - 1) // 2)
    columns = torch.arange(6.0).reshape(2, 3).t()  # does not lie in one piece
    dist.all_reduce(columns, op=dist.ReduceOp.AVG)
    assert columns.tolist() == torch.arange(6.0).reshape(2, 3).t().tolist()
    for op, expected in ((dist.ReduceOp.MAX, n), (dist.ReduceOp.MIN, 1)):
        value = torch.tensor([rank + 1])
        dist.all_reduce(value, op=op)
        assert value.item() == expected
    value = torch.tensor([rank + 1.0])
    dist.reduce(value, 1)
    assert value.item() == (n * (n + 1) / 2 if rank == 1 else rank + 1)
    value = torch.tensor([float(rank)] * 4)
    dist.broadcast(value, 1)
    assert value.tolist() == [1] * 4
    gathered = [torch.empty(2) for r in range(n)]
    dist.all_gather(gathered, torch.full((2,), float(rank)))
    assert [g.tolist() for g in gathered] == [[r] * 2 for r in range(n)]
    whole = torch.empty(2 * n)
    dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))
    assert whole.tolist() == [float(r) for r in range(n) for _ in range(2)]
    parts = [torch.empty(3) for _ in range(n)] if rank == 0 else None
    dist.gather(torch.full((3,), float(rank)), parts)
    assert rank or [p.tolist() for p in parts] == [[r] * 3 for r in range(n)]
    mine = torch.empty(2)
    dist.scatter(mine, [torch.full((2,), float(r)) for r in range(n)] if rank == 0 else None)
    assert mine.tolist() == [rank] * 2
    mine = torch.empty(2)
    dist.reduce_scatter(mine, [torch.full((2,), float(r)) for r in range(n)])
    assert mine.tolist() == [rank * n] * 2
    dist.reduce_scatter_tensor(mine, torch.arange(2.0 * n))
    assert mine.tolist() == [n * 2 * rank, n * (2 * rank + 1)]
    splits = [r + 1 for r in range(n)]  # what this rank sends to each
    out, sent = torch.empty((rank + 1) * n), torch.full((sum(splits),), float(rank))
    dist.all_to_all_single(out, sent, [rank + 1] * n, splits)
    assert out.tolist() == [float(r) for r in range(n) for _ in range(rank + 1)]
    if rank == 0:
        dist.send(torch.tensor([5.0]), 1, tag=3)
        value = torch.empty(1)
        assert dist.recv(value, 1) == 1 and value.item() == 6
    elif rank == 1:
        value = torch.empty(1)
        dist.recv(value, 0, tag=3)
        dist.send(value + 1, 0)
    work = dist.all_reduce(torch.ones(4), async_op=True)
    assert work.get_future().wait()[0].tolist() == [n] * 4
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(n)]
    dist.barrier()
    dist.destroy_process_group()


def groups():
    rank, n = world()
    part = dist.new_group([0, 1])
    if rank < 2:
        value = torch.ones(2)
        dist.all_reduce(value, group=part)
        assert value.tolist() == [2] * 2
    assert banyan.torch.communicator().size == n
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("banyan")  # again
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


def training():
    rank, _ = world()
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    for parameter in model.parameters():
        largest, smallest = parameter.detach().clone(), parameter.detach().clone()
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        dist.all_reduce(smallest, op=dist.ReduceOp.MIN)
        assert torch.equal(largest, smallest)
    dist.destroy_process_group()


def errors():
    rank, _ = world()
    try:
        banyan.torch.NamedState(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2)))
        raise AssertionError("named operations do not work here")
    except RuntimeError as error:
        assert "needs the compiled backend" in str(error), error
    try:
        dist.recv(torch.empty(1))
        raise AssertionError("PyTorch cannot be told the sender")
    except banyan.RequestError as error:
        assert "needs the compiled backend" in str(error), error
    dist.barrier()
    if rank == 1:
        os._exit(1)
    try:
        while True:
            dist.all_reduce(torch.ones(4))
    except banyan.PeerDead as error:
        assert "rank 1" in str(error)
    os._exit(0)


class Trampoline(unittest.TestCase):
    def test_chosen(self):
        self.assertEqual(banyan.torch._extension.__name__, "banyan.torch.trampoline")

    def test_collectives(self):
        ranks.run(3, collectives)

    def test_groups(self):
        ranks.run(3, groups)

    def test_training(self):
        ranks.run(2, training)

    def test_errors(self):
        ranks.run(3, errors, expected=[0, 1, 0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
