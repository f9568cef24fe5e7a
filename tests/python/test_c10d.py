#!/usr/bin/env python3
"""torch.distributed of PyTorch 2.x over the backend: calls that came after 1.13, functional collectives, device meshes,
parts of groups, stores, timeouts, and the ends of groups. Results are compared with Gloo's."""
import os
import re
import sys
import tempfile
import unittest
from datetime import timedelta
from pathlib import Path

import ranks

ranks.need_torch()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import banyan.torch  # noqa: E402
from banyan.torch.membership import backend_of  # noqa: E402

if int(torch.__version__.split(".", maxsplit=1)[0]) < 2:
    print("skipped: PyTorch 1.13 does not have these functions")
    sys.exit(77)
import torch.distributed._functional_collectives as funcol  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.distributed_c10d import _abort_process_group, _coalescing_manager  # noqa: E402

FLOAT8 = [getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)]


def world(**options):
    dist.init_process_group(options.pop("backend", "banyan"), **options)
    return dist.get_rank(), dist.get_world_size()


def leave():
    dist.barrier()
    dist.destroy_process_group()


def same(ours, theirs, what):
    assert type(ours) is type(theirs), (what, ours, theirs)
    if isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs), what
        for mine, other in zip(ours, theirs):
            same(mine, other, what)
    elif isinstance(ours, torch.Tensor):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, (what, ours, theirs)
        if ours.dtype in FLOAT8:
            ours, theirs = ours.view(torch.uint8), theirs.view(torch.uint8)
        assert torch.equal(ours, theirs), (what, ours, theirs)
    else:
        assert ours == theirs, (what, ours, theirs)


def values(dtype, *shape):
    """Small whole numbers that differ by rank: sums of them are exact in every type."""
    numbers = torch.arange(torch.Size(shape).numel()) % 3 + dist.get_rank() % 2
    numbers = numbers.reshape(shape)
    return numbers.float().to(dtype) if dtype in FLOAT8 else numbers.to(dtype)


# ---- calls

MOVED = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64,
         torch.bool, torch.complex64, torch.complex128]


def into_tensors(group, n, dtype):
    mine = values(dtype, 2, 3)
    gathered, single = torch.empty(2 * n, 3, dtype=dtype), torch.empty(2 * n, 3, dtype=dtype)
    dist.all_gather_into_tensor(gathered, mine, group=group)
    getattr(dist, "all_gather_single", dist.all_gather_into_tensor)(single, mine, group=group)
    results = [gathered, single]
    if dtype != torch.bool:
        part = torch.empty(2, 3, dtype=dtype)
        dist.reduce_scatter_tensor(part, values(dtype, 2 * n, 3), group=group)
        results.append(part)
        part = torch.empty(2, 3, dtype=dtype)
        dist.reduce_scatter(part, [values(dtype, 2, 3) + r for r in range(n)], group=group)
        results.append(part)
    return results


def lists(group, n, dtype):
    rank, mine = dist.get_rank(), values(dtype, 3)
    gathered = [torch.empty(3, dtype=dtype) for _ in range(n)]
    dist.all_gather(gathered, mine, group=group)
    at_root, part = [torch.zeros(3, dtype=dtype) for _ in range(n)], torch.zeros(3, dtype=dtype)
    if not dtype.is_complex:  # which Gloo lacks here
        dist.gather(mine, at_root if rank == 1 else None, dst=1, group=group)
        dist.scatter(part, gathered if rank == 1 else None, src=1, group=group)
    everywhere = values(dtype, 4)
    dist.broadcast(everywhere, 1, group=group)
    sum_of_all = values(dtype, 5)
    dist.all_reduce(sum_of_all, group=group)
    return [gathered, at_root if rank == 1 else [], part, everywhere, sum_of_all]


def exchanges(group, n, dtype):
    rank = dist.get_rank()
    got = torch.empty(2 * n, dtype=dtype)
    dist.all_to_all_single(got, values(dtype, 2 * n), group=group)
    uneven = torch.empty(sum(rank + r for r in range(n)), 2, dtype=dtype)
    dist.all_to_all_single(uneven, values(dtype, sum(rank + r for r in range(n)), 2), [rank + r for r in range(n)],
                           [rank + r for r in range(n)], group=group)
    return [got, uneven]


def pairs(group, n):
    """Each rank sends to the next one and receives from the one before it, twice, with tags."""
    rank = dist.get_rank()
    received = [torch.empty(4), torch.empty(2, dtype=torch.int64)]
    sent = [values(torch.float32, 4), values(torch.int64, 2)]
    operations = [dist.P2POp(dist.isend, sent[i], (rank + 1) % n, group, tag=i) for i in range(2)]
    operations += [dist.P2POp(dist.irecv, received[i], (rank - 1) % n, group, tag=i) for i in range(2)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return received


def coalesced(group, n):
    sums = [values(torch.float32, 3), values(torch.float32, 2, 2), torch.empty(0)]
    with _coalescing_manager(group=group):
        for tensor in sums:
            dist.all_reduce(tensor, group=group)
    inputs = [values(torch.float32, 3), values(torch.float32, 5)]
    gathered = [torch.empty(3 * n), torch.empty(5 * n)]
    with _coalescing_manager(group=group, async_ops=True) as manager:
        for output, tensor in zip(gathered, inputs):
            dist.all_gather_into_tensor(output, tensor, group=group)
    manager.wait()
    parts = [torch.empty(2), torch.empty(4)]
    with _coalescing_manager(group=group, async_ops=True) as manager:
        for output in parts:
            dist.reduce_scatter_tensor(output, values(torch.float32, output.numel() * n), group=group)
    manager.wait()
    return [sums, gathered, parts]


def objects(group, n):
    rank, everything = dist.get_rank(), [None] * n
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * rank}, group=group)
    told = [f"from {rank}", rank]
    dist.broadcast_object_list(told, src=1, group=group)
    mine = [None]
    dist.scatter_object_list(mine, list(range(n)) if rank == 0 else None, src=0, group=group)
    at_root = [None] * n
    dist.gather_object(rank, at_root if rank == 0 else None, dst=0, group=group)
    return [everything, told, mine, at_root if rank == 0 else []]


def forms():
    _, n = world()
    gloo = dist.new_group(backend="gloo")
    groups = dist.group.WORLD, gloo
    for dtype in MOVED:
        for form in (lists, into_tensors):
            ours, theirs = (form(group, n, dtype) for group in groups)
            same(ours, theirs, (form, dtype))
        same(*(exchanges(group, n, dtype) for group in groups), (exchanges, dtype))
    for form in (pairs, coalesced, objects):
        same(*(form(group, n) for group in groups), form)
    # What Gloo lacks: blocks along a new dimension, several types in one call, float8.
    stacked, mixed = torch.empty(n, 3), [torch.empty(3 * n), torch.empty(2 * n, dtype=torch.int64)]
    dist.all_gather_into_tensor(stacked, values(torch.float32, 3))
    dist.group.WORLD.allgather_into_tensor_coalesced(mixed, [values(torch.float32, 3), values(torch.int64, 2)]).wait()
    assert stacked.flatten().tolist() == mixed[0].tolist() == [i % 3 + r % 2 for r in range(n) for i in range(3)]
    assert mixed[1].tolist() == [i % 3 + r % 2 for r in range(n) for i in range(2)]
    views = [torch.zeros(2, dtype=torch.complex64).conj() for _ in range(n)]
    dist.group.WORLD.allgather([views], [torch.tensor([complex(dist.get_rank(), 1), 2j]).conj()]).wait()
    assert [view.tolist() for view in views] == [[complex(r, -1), -2j] for r in range(n)], views
    view = torch.tensor([complex(dist.get_rank(), 1)]).conj()
    backend_of(None).allreduce([view], dist.AllreduceOptions()).wait()  # a group gives the backend a copy
    assert view.item() == complex(sum(range(n)), -n), view
    for dtype in FLOAT8:
        gathered = torch.empty(2 * n, dtype=dtype)
        dist.all_gather_into_tensor(gathered, values(dtype, 2))
        expected = [float(i % 3 + r % 2) for r in range(n) for i in range(2)]
        assert gathered.float().tolist() == expected, gathered
    leave()


# ---- functional collectives

def functional(group, n):
    x, rows = values(torch.float32, 2 * n, 3), list(range(1, n + 1))
    rank = dist.get_rank()
    results = [funcol.all_reduce(x, "sum", group), funcol.all_gather_tensor(x, 1, group),
               funcol.reduce_scatter_tensor(x, "sum", 0, group), funcol.broadcast(x, 1, group),
               funcol.all_to_all_single(values(torch.float32, sum(rows)), [rank + 1] * n, rows, group)]
    results += funcol.all_reduce_coalesced([x, x + 1], "max", group)
    results += funcol.all_gather_into_tensor_coalesced([x, x + 1], group)
    results += funcol.reduce_scatter_tensor_coalesced([x, x + 1], "sum", [0, 0], group)
    return [funcol.wait_tensor(result) for result in results]


def step(x, group):
    """What tensor parallelism does: a gather, work that needs it, a sum of the parts."""
    whole = funcol.all_gather_tensor(x * 2, 0, group)
    return funcol.all_reduce((whole @ whole.t()).relu(), "sum", group).sum(0) + 1


def compiles():
    _, n = world()
    gloo = dist.new_group(backend="gloo")
    same(functional(dist.group.WORLD, n), functional(gloo, n), functional)
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    for group in (dist.group.WORLD, gloo):
        for _ in range(2):
            same(compiled(values(torch.float32, 2, 3), group), torch.Tensor(step(values(torch.float32, 2, 3), gloo)), step)
    leave()


# ---- groups of groups

def meshes():
    rank, n = world()
    mesh = init_device_mesh("cpu", (2, n // 2), mesh_dim_names=("rows", "columns"))
    x = torch.tensor([float(rank)])
    for name, other in (("rows", (rank + n // 2) % n), ("columns", rank ^ 1)):
        group = mesh.get_group(name)
        assert type(backend_of(group)).__name__ == type(backend_of(None)).__name__ and dist.get_backend(group) == "banyan"
        total = x.clone()
        dist.all_reduce(total, group=group)
        assert total.item() == rank + other, (name, total, other)
        assert dist.get_process_group_ranks(group) == sorted((rank, other))
    flat = mesh["rows", "columns"]._flatten("all")
    total = x.clone()
    dist.all_reduce(total, group=flat.get_group())
    assert total.item() == sum(range(n))
    mine, every = dist.new_subgroups(2)
    assert len(every) == n // 2
    total = x.clone()
    dist.all_reduce(total, group=mine)
    assert total.item() == rank + (rank ^ 1)
    mine, _ = dist.new_subgroups_by_enumeration([[0, n - 1], list(range(1, n - 1))])
    dist.broadcast(x, dist.get_process_group_ranks(mine)[0], group=mine)
    assert x.item() == (0 if rank in (0, n - 1) else 1)
    if rank != 1:  # The members alone make the group.
        some = dist.new_group([r for r in range(n) if r != 1], use_local_synchronization=True)
        dist.barrier(some)
    leave()


def splits():
    rank, n = world()
    whole = dist.group.WORLD
    if not hasattr(whole, "split_group"):
        return leave()
    half = list(range(n // 2)) if rank < n // 2 else list(range(n // 2, n))
    part = whole.split_group(half, timeout=timedelta(seconds=20), group_desc="half")
    assert part.size() == n // 2 and part.rank() == half.index(rank)
    x = torch.tensor([float(rank)])
    part.allreduce([x]).wait()
    assert x.item() == sum(half), x
    alone = part.split_group([0], group_desc="first of a half")
    assert (alone is not None) == (part.rank() == 0)
    assert whole.split_group([n - 1], group_desc="last") is None or rank == n - 1
    assert part._get_backend(torch.device("cpu")).supports_splitting
    part.set_timeout(timedelta(seconds=15))
    # All meet in another store, in another order.
    store = dist.PrefixStore("merged/", dist.distributed_c10d._get_default_store())
    merged = part.merge_remote_group(store, n, group_name="merged") if hasattr(part, "merge_remote_group") else None
    if merged is not None:
        x = torch.tensor([float(rank)])
        merged.allreduce([x]).wait()
        assert x.item() == sum(range(n)) and merged.size() == n
        merged.shutdown()
    leave()


# ---- ends

def ends(order):
    """Groups are destroyed and aborted in every order, and made again."""
    for turn in range(3):
        rank, n = world(store=dist.FileStore(order + str(turn), ranks_of_job()), rank=int(os.environ["BANYAN_RANK"]),
                        world_size=ranks_of_job())
        one, two = dist.new_group(range(n)), dist.new_group([0, 1])
        x = torch.ones(1000)
        dist.all_reduce(x, group=one)
        pending = dist.all_reduce(x, group=one, async_op=True)
        pending.wait()
        if rank < 2:
            dist.all_reduce(x, group=two)
        dist.barrier()
        if turn == 0:
            if rank < 2:
                dist.destroy_process_group(two)
            dist.destroy_process_group(one)
            dist.all_reduce(x)
            dist.barrier()
            dist.destroy_process_group()
        elif turn == 1:
            held = dist.group.WORLD
            dist.destroy_process_group()  # all of them
            try:
                held.allreduce([x])
            except RuntimeError as error:
                assert "left" in str(error), error
            else:
                raise AssertionError("a destroyed group made a call")
        else:
            _abort_process_group(one)
            _abort_process_group()
        assert not dist.is_initialized()


def ranks_of_job():
    return int(os.environ["BANYAN_SIZE"])


def aborts():
    """A call that cannot end is ended by abort() of another rank."""
    rank, _ = world()
    try:
        dist.barrier()  # It may have ended on rank 0 alone when that aborts.
        if rank == 0:
            backend_of(None).abort()
        dist.all_reduce(torch.ones(10))
    except banyan.Error as error:
        assert "abort() of the process group" in str(error), error
    else:
        raise AssertionError("a call ended after an abort")
    dist.destroy_process_group()


def too_late():
    """The timeout of one call, and an error that names the rank that is late, where rank 0 waits and others do."""
    rank, n = world()
    store = dist.distributed_c10d._get_default_store()
    if rank == n - 1:
        store.wait(["over"], timedelta(seconds=60))
        store.set(f"rank {rank} ends", "yes")
        return
    backend = backend_of(None)
    options = dist.BarrierOptions()
    options.timeout = timedelta(seconds=1)
    try:
        dist.group.WORLD.monitored_barrier(timedelta(seconds=1), True) if rank == 0 else backend.barrier(options).wait()
    except banyan.Error as error:
        assert f"rank {n - 1}" in str(error), error
    else:
        raise AssertionError("no rank was late")
    store.set("over", "yes")
    if rank == 0:  # with which the store ends
        store.wait([f"rank {r} ends" for r in range(1, n)], timedelta(seconds=60))
    else:
        store.set(f"rank {rank} ends", "yes")


# ---- other ways to start

def in_detail():
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: calls are compared before they are made, with a group of Gloo's beside this one."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    rank, n = world()
    assert type(dist.group.WORLD._get_backend(torch.device("cpu"))).__name__ == "_ProcessGroupWrapper"
    same(functional(dist.group.WORLD, n), functional(dist.new_group(backend="gloo"), n), "DETAIL")
    part = dist.new_group([0, 1])
    if rank < 2:
        x = torch.ones(2)
        dist.all_reduce(x, group=part)
        assert x.tolist() == [2, 2]
    assert banyan.torch.communicator().size == n
    objects(None, n)
    pairs(None, n)
    try:
        dist.all_reduce(torch.ones(2 + rank))
    except RuntimeError as error:
        assert "mismatch" in str(error).lower(), error
    else:
        raise AssertionError("shapes differed")
    x = torch.ones(1)
    dist.all_reduce(x)  # Nothing had been sent.
    assert x.item() == n
    leave()


def for_a_device(backend):
    rank, n = world(backend=backend)
    x = torch.tensor([float(rank)])
    dist.all_reduce(x)
    assert x.item() == sum(range(n))
    part = dist.new_group([0, 1])
    assert dist.get_backend_config(part) == "cpu:banyan"
    pairs(None, n)
    objects(None, n)
    leave()


def by_store(method, path):
    size, rank = ranks_of_job(), int(os.environ["BANYAN_RANK"])
    for name in [name for name in os.environ if name.startswith("BANYAN_") and name not in ("BANYAN_LIBRARY",)]:
        del os.environ[name]
    if method == "tcp":
        store = dist.TCPStore("127.0.0.1", int(path), size, rank == 0, timedelta(seconds=60))
    else:
        store = dist.FileStore(path, size)
    dist.init_process_group("banyan", store=store, rank=rank, world_size=size)
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [size] * 3
    leave()


class Coverage(unittest.TestCase):
    def test_forms(self):
        for size in (2, 3):
            ranks.run(size, forms)

    def test_functional(self):
        ranks.run(2, compiles)

    def test_meshes(self):
        ranks.run(4, meshes)

    def test_splits(self):
        ranks.run(4, splits)

    def test_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(3, ends, os.path.join(folder, "store"))

    def test_abort(self):
        ranks.run(2, aborts)

    def test_timeouts(self):
        ranks.run(3, too_late)

    def test_detail(self):
        ranks.run(3, in_detail)

    def test_device(self):
        ranks.run(2, for_a_device, "cpu:banyan")

    def test_stores(self):
        ranks.run(2, by_store, "tcp", str(ranks.free_port()))
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(2, by_store, "file", os.path.join(folder, "store"))

    def test_both_halves(self):
        """The string that names a backend for each kind of device is understood also where there is no GPU."""
        config = dist.distributed_c10d.BackendConfig(dist.Backend("cpu:banyan,cuda:nccl"))
        self.assertEqual(config.get_device_backend_map(), {"cpu": "banyan", "cuda": "nccl"})

    def test_entry_point(self):
        """PyTorch after 2.13 calls it to find the backend."""
        setup = (Path(__file__).parents[2] / "setup.py").read_text(encoding="utf-8")
        module, name = re.search(r'"torch.distributed.backends": \["banyan=([\w.]+):(\w+)"\]', setup).groups()
        getattr(sys.modules[module], name)()  # twice is no error
        self.assertIn("banyan", dist.Backend.backend_list)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
