#!/usr/bin/env python3
"""What the backend reports. Errors: each call of torch.distributed with each kind of tensor that it cannot take, in the place of
each of its arguments; ranks that make different calls; calls whose ranks have died. Profiles: names, sizes and durations."""
import functools
import json
import os
import sys
import tempfile
import time
import unittest
from datetime import timedelta

import ranks

ranks.need_torch()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed import distributed_c10d as c10d  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import banyan.torch  # noqa: E402
from banyan.torch.membership import backend_of  # noqa: E402

LATER = int(torch.__version__.split(".", maxsplit=1)[0]) >= 2
ROWS = 4


def world(**options):
    dist.init_process_group("banyan", **options)
    return dist.get_rank(), dist.get_world_size()


def good(rows=ROWS):
    return torch.ones(rows, 2)


def refused(kind, texts, call):
    try:
        call()
    except kind as error:
        for text in texts:
            assert text in str(error), f"{error} lacks {text!r}"
        return error
    raise AssertionError(f"no error with {texts}")


# ---- bad tensors

def rooted(options, root=0):
    options.rootRank = root
    return options


# Each call with x in the place of one argument: the tensor has ROWS rows, or in `LARGE` places twice as many. There are two
# ranks. Results are left there, reductions add.
def calls(b, rank):
    def a2a(output, tensor):
        return b.alltoall_base(output, tensor, [], [], c10d.AllToAllOptions())
    table = {
        ("broadcast", "tensor"): lambda x: b.broadcast([x], c10d.BroadcastOptions()),
        ("all_reduce", "tensor"): lambda x: b.allreduce([x], c10d.AllreduceOptions()),
        ("all_reduce_coalesced", "tensors[1]"): lambda x: b.allreduce_coalesced(
            [good(), x], c10d.AllreduceCoalescedOptions()),
        ("reduce", "tensor"): lambda x: b.reduce([x], rooted(c10d.ReduceOptions(), rank)),
        ("all_gather", "tensor"): lambda x: b.allgather([[good(), good()]], [x], c10d.AllgatherOptions()),
        ("all_gather", "tensor_list[1]"): lambda x: b.allgather([[good(), x]], [good()], c10d.AllgatherOptions()),
        ("all_gather_into_tensor", "input_tensor"): lambda x: b._allgather_base(
            good(2 * ROWS), x, c10d.AllgatherOptions()),
        ("all_gather_into_tensor", "output_tensor"): lambda x: b._allgather_base(
            x, good(), c10d.AllgatherOptions()),
        ("gather", "tensor"): lambda x: b.gather([[good(), good()]], [x], rooted(c10d.GatherOptions(), rank)),
        ("gather", "gather_list[0]"): lambda x: b.gather([[x, good()]], [good()], rooted(c10d.GatherOptions(), rank)),
        ("scatter", "tensor"): lambda x: b.scatter([x], [[good(), good()]], rooted(c10d.ScatterOptions(), rank)),
        ("scatter", "scatter_list[1]"): lambda x: b.scatter([good()], [[good(), x]], rooted(c10d.ScatterOptions(), rank)),
        ("reduce_scatter", "output"): lambda x: b.reduce_scatter([x], [[good(), good()]], c10d.ReduceScatterOptions()),
        ("reduce_scatter", "input_list[0]"): lambda x: b.reduce_scatter([good()], [[x, good()]], c10d.ReduceScatterOptions()),
        ("reduce_scatter_tensor", "output"): lambda x: b._reduce_scatter_base(
            x, good(2 * ROWS), c10d.ReduceScatterOptions()),
        ("reduce_scatter_tensor", "input"): lambda x: b._reduce_scatter_base(
            good(), x, c10d.ReduceScatterOptions()),
        ("all_to_all_single", "output"): lambda x: a2a(x, good()),
        ("all_to_all_single", "input"): lambda x: a2a(good(), x),
        ("all_to_all", "output_tensor_list[1]"): lambda x: b.alltoall([good(), x], [good(), good()], c10d.AllToAllOptions()),
        ("all_to_all", "input_tensor_list[0]"): lambda x: b.alltoall([good(), good()], [x, good()], c10d.AllToAllOptions()),
        ("send", "tensor"): lambda x: b.send([x], 1 - rank, 0),
        ("recv", "tensor"): lambda x: b.recv([x], 1 - rank, 0),
    }
    if LATER:
        table.update({
            ("all_gather_into_tensor_coalesced", "input_tensor"): lambda x: dist.group.WORLD.allgather_into_tensor_coalesced(
                [good(2 * ROWS)] * 2, [good(), x], c10d.AllgatherOptions()),
            ("reduce_scatter_tensor_coalesced", "input"): lambda x: dist.group.WORLD.reduce_scatter_tensor_coalesced(
                [good(), good()], [good(2 * ROWS), x], c10d.ReduceScatterOptions()),
        })
    return table


LARGE = {("all_gather_into_tensor", "output_tensor"), ("reduce_scatter_tensor", "input"),
         ("reduce_scatter_tensor_coalesced", "input")}
INPUTS = {("all_gather", "tensor"), ("all_gather_into_tensor", "input_tensor"), ("gather", "tensor"), ("send", "tensor"),
          ("scatter", "scatter_list[1]"), ("reduce_scatter", "input_list[0]"), ("reduce_scatter_tensor", "input"),
          ("all_to_all_single", "input"), ("all_to_all", "input_tensor_list[0]"),
          ("all_gather_into_tensor_coalesced", "input_tensor"), ("reduce_scatter_tensor_coalesced", "input")}
ALONE = {("broadcast", "tensor"), ("all_reduce", "tensor"), ("reduce", "tensor"), ("send", "tensor"), ("recv", "tensor")}
SUMS = ("all_reduce", "reduce", "reduce_scatter")


def freed(rows):
    tensor = good(rows)
    (tensor.untyped_storage() if LATER else tensor.storage()).resize_(0)
    return tensor


def nested(rows):
    return torch.nested.nested_tensor([good(rows), good(1)])


# Each kind of tensor: how it is made, what the error says, and the remedy that it names.
BAD = {
    "meta": (lambda rows: torch.ones(rows, 2, device="meta"), "is on meta", "tensor.cpu()"),
    "COO": (lambda rows: good(rows).to_sparse(), "has the layout Sparse,", "tensor.to_dense()"),
    "CSR": (lambda rows: good(rows).to_sparse_csr(), "has the layout SparseCsr,", "tensor.to_dense()"),
    "quantized": (lambda rows: torch.quantize_per_tensor(good(rows), 0.1, 0, torch.quint8), "is quantized (QUInt8)",
                  "tensor.dequantize()"),
    "freed": (freed, "its storage has only 0 bytes", "FSDP"),
}
if LATER:
    BAD["nested"] = nested, "has the layout Nested", "to_padded_tensor()"
if torch.backends.mkldnn.is_available():
    BAD["oneDNN"] = lambda rows: good(rows).to_mkldnn(), "has the layout Mkldnn", "tensor.to_dense()"
OVERLAPPING = {
    "expanded": (lambda rows: torch.ones(1, 2).expand(rows, 2), "share memory", "tensor.contiguous()"),
    "overlapping": (lambda rows: torch.ones(rows + 1).as_strided((rows, 2), (1, 1)), "share memory", "tensor.contiguous()"),
}
OF_ANOTHER_TYPE = {"float64": (lambda rows: good(rows).double(), "Double", "tensor.to()")}
NOT_SUMMED = {
    "int16": (lambda rows: good(rows).short(), "sum of Short is not possible", "tensor.to()"),
    **{name: (lambda rows, name=name: good(rows).to(getattr(torch, name)), "is not possible", "tensor.to()")
       for name in ("float8_e4m3fn", "float8_e5m2", "uint16") if hasattr(torch, name)},
}


def cases(place):
    """The kinds of tensors that this argument cannot be."""
    call = place[0]
    kinds = dict(BAD)
    if call in ("all_reduce", "all_reduce_coalesced"):
        del kinds["COO"]  # which they sum
    if call.endswith("tensor_coalesced"):
        kinds = {"freed": BAD["freed"]}  # PyTorch looks for another backend for the others
    if place not in INPUTS:
        kinds.update(OVERLAPPING)
    if place not in ALONE:
        kinds.update(OF_ANOTHER_TYPE)
    elif call in SUMS:
        kinds.update(NOT_SUMMED)
    return kinds


def wrong_tensors():
    """They are refused on the rank that has them, before anything is sent: the other one does not notice."""
    rank, n = world()
    backend, host, count = backend_of(None), banyan.torch.communicator().hosts[rank], 0
    if rank == 1:
        for place, call in calls(backend, rank).items():
            for kind, (make, what, remedy) in cases(place).items():
                try:
                    tensor = make(2 * ROWS if place in LARGE else ROWS)
                    error = refused(banyan.RequestError, [f"rank 1 (host {host}): {place[0]}: ", what, remedy],
                                    functools.partial(call, tensor))
                    assert kind in NOT_SUMMED or place[1] in str(error), f"{error} does not name {place[1]}"
                    assert (error.rank, error.host) == (rank, host), error
                except Exception as error:
                    raise AssertionError(f"{place} with a tensor that is {kind}: {error}") from error
                count += 1
        print(f"{count} kinds of bad input were refused", file=sys.stderr)
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == n
    dist.barrier()
    dist.destroy_process_group()


def wrong_arguments():
    """Lists, sizes, roots, ranks and tags that do not fit; also where a call has a name of PyTorch's that checks less."""
    rank, n = world()
    b = backend_of(None)
    for texts, call in (
            (["all_gather", "tensor_list has 1 tensors", "each of 2 ranks"],
             lambda: b.allgather([[good()]], [good()], c10d.AllgatherOptions())),
            (["all_gather", "tensor_list[1] has 6 elements", "tensor has 8"],
             lambda: b.allgather([[good(), good(3)]], [good()], c10d.AllgatherOptions())),
            (["all_gather_into_tensor", "the output has 8 elements", "2 times the input's 8"],
             lambda: b._allgather_base(good(), good(), c10d.AllgatherOptions())),
            (["reduce_scatter_tensor", "the input has 8", "2 times the output's 8"],
             lambda: b._reduce_scatter_base(good(), good(), c10d.ReduceScatterOptions())),
            (["gather", "gather_list is for the root only"],
             lambda: b.gather([[good(), good()]], [good()], rooted(c10d.GatherOptions(), 1 - rank))),
            (["scatter", "scatter_list is for the root only"],
             lambda: b.scatter([good()], [[good(), good()]], rooted(c10d.ScatterOptions(), 1 - rank))),
            (["scatter", "scatter_list has 3 tensors"],
             lambda: b.scatter([good()], [[good()] * 3], rooted(c10d.ScatterOptions(), rank))),
            (["all_to_all_single", "3 split sizes for 2 ranks"],
             lambda: b.alltoall_base(good(), good(), [1, 1, 2], [], c10d.AllToAllOptions())),
            (["all_to_all_single", "the split sizes exceed the tensor"],
             lambda: b.alltoall_base(good(), good(), [2, 3], [2, 2], c10d.AllToAllOptions())),
            (["all_to_all_single", "do not sum up"],
             lambda: b.alltoall_base(good(), good(), [2, 1], [2, 2], c10d.AllToAllOptions())),
            (["all_to_all_single", "without dimensions"],
             lambda: b.alltoall_base(torch.tensor(1.0), torch.tensor(1.0), [], [], c10d.AllToAllOptions())),
            (["all_to_all", "each of 2 ranks"], lambda: b.alltoall([good()], [good()], c10d.AllToAllOptions())),
            (["broadcast", "no rank 7"], lambda: b.broadcast([good()], rooted(c10d.BroadcastOptions(), 7))),
            (["broadcast", "no rank -1"], lambda: b.broadcast([good()], rooted(c10d.BroadcastOptions(), -1))),
            (["send", "itself"], lambda: b.send([good()], rank, 0)),
            (["send", "rank 9"], lambda: b.send([good()], 9, 0)),
            (["recv", "tag -2 is negative"], lambda: b.recv([good()], 1 - rank, -2)),
            (["all_reduce", "one tensor is needed, not 2"], lambda: b.allreduce([good(), good()], c10d.AllreduceOptions())),
            (["all_reduce", "and", "whole numbers", "Float"], lambda: dist.all_reduce(good(), op=dist.ReduceOp.BAND)),
            (["all_reduce", "average of truth values"],
             lambda: dist.all_reduce(torch.ones(3, dtype=torch.bool), op=dist.ReduceOp.AVG))):
        error = refused(banyan.RequestError, texts, call)
        assert error.rank == rank and error.host, error
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == n
    dist.barrier()
    dist.destroy_process_group()


# ---- ranks that make different calls

def rows(width):
    return torch.sparse_coo_tensor([[0, 1]], torch.ones(2, width), (4, width))


def empty(*sizes, dtype=torch.float32):
    return [torch.empty(size, dtype=dtype) for size in sizes]


def either(rank, *choices):
    return choices[rank]


# Each is a call of rank 0 and another one of rank 1.
DIFFERENT = {
    "all_reduce, elements": lambda r: dist.all_reduce(torch.ones(5 + r)),
    "all_reduce, type": lambda r: dist.all_reduce(torch.ones(5, dtype=either(r, torch.float32, torch.float64))),
    "all_reduce, operation": lambda r: dist.all_reduce(torch.ones(5), op=either(r, dist.ReduceOp.SUM, dist.ReduceOp.MAX)),
    "broadcast, root": lambda r: dist.broadcast(torch.ones(5), r),
    "another call": lambda r: dist.all_reduce(torch.ones(4)) if r else dist.broadcast(torch.ones(4), 0),
    "all_gather_into_tensor, elements": lambda r: dist.all_gather_into_tensor(torch.ones(10 + 2 * r), torch.ones(5 + r)),
    "reduce, elements": lambda r: dist.reduce(torch.ones(5 + r), 0),
    "reduce, root": lambda r: dist.reduce(torch.ones(5), r),
    "all_gather, elements": lambda r: dist.all_gather(empty(5 + r, 5 + r), torch.ones(5 + r)),
    "all_gather, type": lambda r: dist.all_gather(empty(5, 5, dtype=either(r, torch.float32, torch.int32)),
                                                  torch.ones(5, dtype=either(r, torch.float32, torch.int32))),
    "gather, elements": lambda r: dist.gather(torch.ones(5 + r), None if r else empty(5, 5), 0),
    "scatter, elements": lambda r: dist.scatter(torch.ones(5 + r), None if r else empty(5, 5), 0),
    "reduce_scatter, elements": lambda r: dist.reduce_scatter(torch.ones(5 + r), empty(5 + r, 5 + r)),
    "all_to_all, elements": lambda r: dist.all_to_all_single(torch.ones(4 + 2 * r), torch.ones(4 + 2 * r)),
    "send, elements": lambda r: dist.recv(torch.ones(3), 0) if r else dist.send(torch.ones(5), 1),
    "send, type": lambda r: dist.recv(torch.ones(4).int(), 0) if r else dist.send(torch.ones(4), 1),
    "barrier beside a sum": lambda r: dist.barrier() if r else dist.all_reduce(torch.ones(3)),
    "sparse beside dense": lambda r: dist.all_reduce(rows(2) if r else torch.ones(4, 2)),
    "sparse, width": lambda r: dist.all_reduce(rows(2 + r)),
    "coalesced, elements": lambda r: dist.group.WORLD.allreduce_coalesced(
        empty(3, 2 + r), c10d.AllreduceCoalescedOptions()).wait(),
}


def disagree(path):
    """The error of both names both calls. A rank that has sent all may learn it in its next call."""
    def both(call, rank):
        call(rank)
        dist.all_reduce(torch.ones(1))

    rank, size = int(os.environ["BANYAN_RANK"]), int(os.environ["BANYAN_SIZE"])
    for i, (case, call) in enumerate(DIFFERENT.items()):
        world(store=dist.FileStore(path + str(i), size), rank=rank, world_size=size, timeout=timedelta(seconds=30))
        try:
            refused(banyan.Mismatch, ["rank 0 ", "rank 1 ", "make the same calls"],
                    functools.partial(both, call, rank))
        except Exception as error:
            raise AssertionError(f"{case}: {error}") from error
        dist.destroy_process_group()


# ---- ranks that die

def names_the_call():
    """The error names the rank that is dead, the call and the rank that waited, and of DDP the bucket."""
    rank, _ = world(timeout=timedelta(seconds=30))
    hosts = banyan.torch.communicator().hosts
    model = DistributedDataParallel(torch.nn.Linear(6, 2))
    if rank == 1:
        os._exit(3)
    error = refused(banyan.PeerDead, ["rank 1 (host ", "is gone", f"all_reduce of Float [3, 4] on rank 0 (host {hosts[0]})"],
                    lambda: [dist.all_reduce(torch.ones(3, 4)) for _ in range(2)])
    assert (error.rank, error.host) == (1, hosts[1]), error
    refused(RuntimeError, ["rank 1 (host ", "is gone", "allreduce 'ddp bucket 0' on rank 0"],
            lambda: model(torch.ones(2, 6)).sum().backward())


# ---- profiles

def profiled(path):
    """The profiler has the same names and sizes as of Gloo's calls. The range of an asynchronous call is from before it begins to
    when it ends, though nobody looks then."""
    def every_call(group):
        x, list_of = torch.ones(6, 2), lambda: [torch.ones(6, 2) for _ in range(n)]
        dist.all_reduce(x, group=group)
        dist.broadcast(x, 0, group=group)
        dist.reduce(x, 0, group=group)
        dist.all_gather(list_of(), x, group=group)
        dist.gather(x, None if rank else list_of(), 0, group=group)
        dist.scatter(x, None if rank else list_of(), 0, group=group)
        dist.all_to_all_single(torch.ones(6, 2), x, group=group)
        dist.send(x, 1, group=group) if rank == 0 else dist.recv(x, 0, group=group)
        dist.barrier(group)

    rank, n = world()
    gloo, store = dist.new_group(backend="gloo"), c10d._get_default_store()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        every_call(None)
        every_call(gloo)
        if rank == 0:
            work = dist.all_reduce(torch.ones(77), async_op=True)
            with torch.profiler.record_function("begun"):
                store.set("begun", "")
            store.wait(["ended"])
            time.sleep(0.5)  # it has ended elsewhere, and in a moment here
            with torch.profiler.record_function("looks"):
                work.wait()
        else:
            store.wait(["begun"])
            dist.all_reduce(torch.ones(77))
            store.set("ended", "")
    profile.export_chrome_trace(f"{path}.{rank}")
    with open(f"{path}.{rank}", encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if "dur" in event]
    shapes = {backend: {(event["name"].split(":", 1)[1], str(event["args"].get("Input Dims"))) for event in events
                        if event["name"].startswith(f"{backend}:") and event["args"].get("Input Dims") != [[77]]}
              for backend in ("banyan", "gloo")}
    assert shapes["banyan"] == shapes["gloo"] and len(shapes["gloo"]) == 9, shapes
    if rank == 0:
        range_of = {event["name"]: (event["ts"], event["ts"] + event["dur"]) for event in events
                    if event["name"] in ("begun", "looks") or event["args"].get("Input Dims") == [[77]]}
        begins, ends = range_of["banyan:all_reduce"]
        assert begins < range_of["begun"][0] < ends < range_of["looks"][0], range_of
    dist.barrier()
    dist.destroy_process_group()


class Reports(unittest.TestCase):
    @unittest.skipUnless(LATER, "PyTorch 1.13 refuses much of it itself, and has not all names")
    def test_wrong_tensors(self):
        ranks.run(2, wrong_tensors)

    @unittest.skipUnless(LATER, "PyTorch 1.13 refuses much of it itself, and has not all names")
    def test_wrong_arguments(self):
        ranks.run(2, wrong_arguments)

    def test_disagreements(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(2, disagree, os.path.join(folder, "store"))

    def test_dead_rank(self):
        ranks.run(2, names_the_call, expected=[0, 3])

    @unittest.skipUnless(LATER, "Debian's PyTorch 1.13 has no Kineto")
    def test_profile(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(2, profiled, os.path.join(folder, "trace"))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
