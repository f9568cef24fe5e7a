#!/usr/bin/env python3
"""The backend of torch.distributed, beyond PyTorch's own tests: calls that Gloo lacks, tensors of every kind,
groups, overlap, errors, death, and memory."""
import atexit
import gc
import json
import os
import resource
import signal
import sys
import tempfile
import time
import unittest
from datetime import timedelta

import ranks

ranks.need_torch()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.utils.data  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import banyan.torch  # noqa: E402
from banyan.torch.membership import backend_of  # noqa: E402


def world(**options):
    dist.init_process_group("banyan", **options)
    return dist.get_rank(), dist.get_world_size()


def leave():
    dist.barrier()
    dist.destroy_process_group()


def keeps_state():
    """A newcomer receives model, optimiser and scheduler, though its optimiser has no state yet."""
    with banyan.Communicator() as comm:
        rank = comm.rank
        torch.manual_seed(rank)
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
        model[2].bias.requires_grad = False
        columns = torch.arange(6.0).reshape(2, 3).t() * rank  # does not lie in one piece
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 + rank)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
        state = banyan.State(model=model, optimizer=optimizer, schedule=schedule, columns=columns, step=0)

        def train(steps):
            for _ in range(steps):
                optimizer.zero_grad()
                model(torch.arange(20.0).reshape(5, 4)).square().sum().backward()
                optimizer.step()
                schedule.step()
                state.step += 1

        if rank == 0:
            state.commit()  # before the optimiser has a state
            train(3)
            state.restore()
            assert state.step == 0 and not optimizer.state and schedule.last_epoch == 0
            train(3)
            columns += 5
            state.commit()
        assert state.sync(comm).version == 1
        assert state.step == 3 and schedule.last_epoch == 3
        lr = optimizer.param_groups[0]["lr"]
        train(2)  # all go on alike
        mine = [p.detach().clone() for p in model.parameters()] + [model[1].running_mean, columns, torch.tensor([lr])]
        mine += [v.clone() for p in model.parameters() if p.requires_grad
                 for v in (optimizer.state[p]["exp_avg"], optimizer.state[p]["exp_avg_sq"])]
        for tensor in mine:
            other = tensor.contiguous().clone()
            comm.broadcast(other.numpy())
            assert torch.equal(other, tensor), (other, tensor)
        assert model[2].bias.grad is None and columns[2, 1] == 5


def forms():
    rank, n = world()
    mine = torch.full((6,), float(rank))
    gathered = torch.empty(6 * n)
    dist.all_gather_into_tensor(gathered, mine)
    assert gathered.tolist() == [float(r) for r in range(n) for _ in range(6)]
    part = torch.empty(6)
    dist.reduce_scatter_tensor(part, gathered)
    assert part.tolist() == [float(rank * n)] * 6
    dist.reduce_scatter(part, [torch.full((6,), float(rank + r)) for r in range(n)], op=dist.ReduceOp.MAX)
    assert part.tolist() == [float(n - 1 + rank)] * 6
    own = gathered[6 * rank:6 * rank + 6]
    own.fill_(rank + 5)
    dist.all_gather_into_tensor(gathered, own)  # in place
    assert gathered.tolist() == [float(r + 5) for r in range(n) for _ in range(6)]
    average = torch.tensor([float(rank)])
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    assert average.item() == (n - 1) / 2
    ragged = [torch.full((r + 1,), rank) for r in range(n)]
    got = [torch.empty(rank + 1, dtype=torch.int64) for _ in range(n)]
    dist.all_to_all(got, ragged)
    assert [g.tolist() for g in got] == [[r] * (rank + 1) for r in range(n)]
    leave()


def kinds():
    rank, n = world()
    total = n * (n + 1) // 2
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32,
                  torch.int64):
        tensor = torch.full((33,), rank + 1, dtype=dtype)
        dist.all_reduce(tensor)
        assert (tensor == total).all(), dtype
    for dtype in (torch.int16, torch.complex64, torch.bool, torch.complex128):
        tensor = torch.ones(5, dtype=dtype) if rank == 1 else torch.zeros(5, dtype=dtype)
        dist.broadcast(tensor, 1)
        assert (tensor == 1).all(), dtype
    truth = torch.tensor([True, False, rank == 1])
    dist.all_reduce(truth)
    assert truth.tolist() == [True, False, True]
    columns = torch.arange(12.0).reshape(3, 4).t()
    dist.all_reduce(columns)
    assert torch.equal(columns, n * torch.arange(12.0).reshape(3, 4).t())
    table = torch.zeros(4, 4)
    dist.broadcast(table[:, 1] if rank else table[:, 1].fill_(7), 0)
    assert (table[:, 1] == 7).all() and table.sum() == 28
    dist.all_reduce(torch.empty(0))
    dist.all_reduce(torch.empty(3, 0, 2, dtype=torch.int64))
    dist.all_gather([torch.empty(0) for _ in range(n)], torch.empty(0))
    scalar = torch.tensor(2.0)
    dist.all_reduce(scalar)
    assert scalar.item() == 2 * n
    leave()


def refusals():
    rank, n = world()
    wrong = [
        ("is not possible", lambda: dist.all_reduce(torch.ones(3, dtype=torch.int16))),
        ("whole numbers", lambda: dist.all_reduce(torch.ones(3), op=dist.ReduceOp.BAND)),
        ("share memory", lambda: dist.all_reduce(torch.ones(1).expand(5))),
        ("elements", lambda: dist.all_gather([torch.empty(2) for _ in range(n)], torch.ones(3))),
        ("different dtypes", lambda: dist.all_gather([torch.empty(3, dtype=torch.int32) for _ in range(n)], torch.ones(3))),
        ("times the input", lambda: dist.all_gather_into_tensor(torch.empty(5), torch.ones(3))),
        ("cannot send to or receive from itself", lambda: dist.isend(torch.ones(1), rank)),
        # The functions of torch.distributed leave such a tensor to PyTorch, from 2.x on.
        ("Meta", lambda: backend_of(None).allreduce([torch.empty(3, device="meta")], dist.AllreduceOptions())),
    ]
    for text, call in wrong:
        try:
            call()
        except (RuntimeError, ValueError) as error:
            assert text.lower() in str(error).lower(), f"{error} does not contain {text!r}"
        else:
            raise AssertionError(f"no error about {text!r}")
    leave()


def groups():
    rank, n = world()
    made = [dist.new_group([a, a + 1]) for a in range(n - 1)]
    for a, group in enumerate(made):
        if rank in (a, a + 1):
            value = torch.tensor([rank])
            dist.all_reduce(value, group=group)
            assert value.item() == 2 * a + 1
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": rank})
    assert [o["rank"] for o in objects] == list(range(n))
    comm = banyan.torch.communicator()
    assert comm.size == n and len(comm.hosts) == n
    comm.set_plan("ring")
    dist.all_reduce(value)
    leave()


def options(timeline):
    for wrong, kind in ((3, TypeError), (banyan.torch.Options(plan="nonsense"), banyan.Error)):
        try:
            dist.init_process_group("banyan", store=dist.HashStore(), rank=0, world_size=1, pg_options=wrong)
        except kind as error:
            assert "banyan.torch.Options" in str(error) or "nonsense" in str(error), error
        else:
            raise AssertionError(f"{wrong} was taken")
    rank, n = world(pg_options=banyan.torch.Options(plan="ring", timeline=timeline, transport="tcp"))
    value = torch.ones(1000)
    dist.all_reduce(value)
    dist.all_reduce(value, group=dist.new_group(range(n), pg_options=banyan.torch.Options(plan="sharded")))
    assert (value == n * n).all()
    leave()


def buckets(timeline):
    """DDP's buckets have names in the timeline, which are the same in each iteration, also after DDP has rebuilt
    the buckets."""
    world(pg_options=banyan.torch.Options(timeline=timeline))
    layers = [torch.nn.Linear(600, 600, bias=False) for _ in range(3)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=1)
    for _ in range(4):
        model(torch.ones(2, 600)).sum().backward()
        dist.all_reduce(torch.ones(5))
    leave()
    banyan.torch._extension.leave_all()  # PyTorch 2.x keeps the group to the end of a program, where this happens.


def overlap():
    """Calls complete while the program computes with the interpreter's lock held, and futures call back."""
    rank, n = world()
    tensors = [torch.ones(100000) for _ in range(5)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    called = []
    futures = [work.get_future().then(lambda done: called.append(done.value()[0].sum().item())) for work in works]
    for future in futures:
        future.wait()
    assert called == [100000.0 * n] * 5
    del works, futures
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    until = time.monotonic() + 20
    while not all(work.is_completed() for work in works) and time.monotonic() < until:
        sum(range(1000))
    assert all(work.is_completed() for work in works)
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True)  # No code keeps the work object.
    leave()


def dies():
    rank, n = world(timeout=timedelta(seconds=30))
    model = DistributedDataParallel(torch.nn.Linear(1000, 1000))
    for step in range(100):
        if rank == 1 and step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            model(torch.ones(2, 1000)).sum().backward()
        except RuntimeError as error:
            assert "rank 1" in str(error), error
            assert step >= 5
            return
    raise AssertionError("a dead rank was not missed")


class Numbers(torch.utils.data.Dataset):
    """A data set whose items are loaded in child processes of the rank, which try to use the parent's group."""

    def __len__(self):
        return 64

    def __getitem__(self, i):
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            assert "fork()" in str(error), error
            return torch.full((4,), float(i))
        raise AssertionError("a loader's worker took part in its parent's job")


def loads():
    """Loaders' workers start and end while calls are in progress."""
    _, n = world()
    for _ in range(3):
        pending = dist.all_reduce(torch.ones(100000), async_op=True)
        for batch in torch.utils.data.DataLoader(Numbers(), batch_size=16, num_workers=2, multiprocessing_context="fork"):
            total = batch.sum().reshape(1)
            expected = n * total.item()
            dist.all_reduce(total)
            assert total.item() == expected
        pending.wait()
    leave()


def outlived(pids):
    """Rank 1 dies, and a process that it forked survives."""
    rank, _ = world(timeout=timedelta(seconds=20))
    dist.all_reduce(torch.ones(10))
    if rank == 1:
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            while True:
                signal.pause()
        with open(pids, "w", encoding="utf-8") as file:
            file.write(str(child))
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            dist.all_reduce(torch.ones(10))
    except RuntimeError as error:
        assert "rank 1" in str(error) and "is gone" in str(error), error


def late():
    rank, _ = world(timeout=timedelta(seconds=1))
    try:
        if rank == 0:
            dist.all_reduce(torch.ones(1))
        else:
            time.sleep(3)
            dist.all_reduce(torch.ones(1))
    except banyan.Timeout as error:
        assert "rank 1" in str(error)
    else:
        raise AssertionError("no rank was late")


def leaves_without_notice():
    """A rank neither destroys its group nor waits for the others: this does not count as a death."""
    rank, _ = world()
    dist.all_reduce(torch.ones(1))
    if rank == 0:
        time.sleep(0.5)
    atexit._run_exitfuncs()  # This happens at the end of a program.
    os._exit(0)


def stays_flat(steps):
    rank, n = world()
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.001)
    data, most = torch.ones(4, 64), 0
    for step in range(steps):
        optimiser.zero_grad()
        model(data).sum().backward()
        optimiser.step()
        dist.all_reduce(torch.ones(100))
        if step == steps // 5:
            gc.collect()
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most
    print(f"rank {rank}: {steps} steps, {grown} KiB more than after {steps // 5}", file=sys.stderr)
    assert grown < 2048
    leave()


class Backend(unittest.TestCase):
    def test_forms(self):
        ranks.run(3, forms)

    def test_kinds(self):
        ranks.run(3, kinds)

    def test_refusals(self):
        ranks.run(2, refusals)

    def test_groups(self):
        ranks.run(4, groups)

    def test_options(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(2, options, os.path.join(folder, "timeline"))
            with open(os.path.join(folder, "timeline"), encoding="utf-8") as file:
                self.assertIn("allreduce", file.read())

    def test_buckets(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "timeline")
            ranks.run(2, buckets, path)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        for rank in range(2):
            names = [e["name"] for e in events if e["ph"] == "b" and e["pid"] == rank and "args" in e]
            self.assertGreaterEqual(names.count("allreduce"), 4)
            n = len({name for name in names if name.startswith("ddp")})
            self.assertGreaterEqual(n, 2)
            for bucket in range(n):
                # The first pass may have fewer buckets.
                self.assertIn(names.count(f"ddp bucket {bucket}"), range(3, 5), names)
            self.assertEqual(names.count("ddp bucket 0"), 4)

    def test_state(self):
        ranks.run(3, keeps_state)

    def test_overlap(self):
        ranks.run(2, overlap)

    def test_death(self):
        ranks.run(3, dies, expected=[0, -signal.SIGKILL, 0])

    def test_loaders(self):
        ranks.run(2, loads)

    def test_child_outlives_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            pids = os.path.join(folder, "pid")
            ranks.run(3, outlived, pids, expected=[0, -signal.SIGKILL, 0])
            with open(pids, encoding="utf-8") as file:
                os.kill(int(file.read()), signal.SIGKILL)  # The process existed until the end.

    def test_late(self):
        ranks.run(2, late)

    def test_leaving(self):
        ranks.run(3, leaves_without_notice)

    def test_memory(self):
        ranks.run(2, stays_flat, int(os.environ.get("BANYAN_TEST_STEPS", "1000")))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
