#!/usr/bin/env python3
"""Times the sum of sparse gradients in PyTorch, by Banyan and by Gloo, each in a job of its own:

    python3 bench/sparse_torch.py [--ranks 2,4] [--tables 30] [--rows 200] [--height 10000] [--width 64] [--rounds 5]
    python3 bench/sparse_torch.py --ranks N --batches FOLDER

Each rank has a gradient of every table, with rows as a batch of an embedding has them: some stand several times. With --batches
they are those that sparse_bench wrote, of one table. In each round the jobs run one after the other. A job prints, for each way
to sum all gradients of a step, the median over its steps of the slowest rank's time; the last lines have the median of the
rounds and how many times as fast as Gloo's fastest way it is, with the least and the greatest of the rounds. Every job
compares its sums with those that it computes from all ranks' rows.

"merged" as a part of a name: each row once, and the tensors are marked as coalesced. The variable BANYAN names the command, and
PYTHONPATH must name bindings/python, BANYAN_LIBRARY the library."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import torch
import torch.distributed as dist

import banyan.torch

STEPS, WARMUP = 25, 5
warnings.filterwarnings("ignore", "Sparse invariant checks")  # PyTorch's hint that there are some


def batches(options, rank):
    """Returns the row numbers and values of each table."""
    if options.batches:
        with open(f"{options.batches}/batch-{rank}", "rb") as file:
            count, height, width = torch.frombuffer(bytearray(file.read(24)), dtype=torch.int64).tolist()
            rows = torch.frombuffer(bytearray(file.read(4 * count)), dtype=torch.int32).long()
            values = torch.frombuffer(bytearray(file.read(4 * count * width)), dtype=torch.float32)
        return [(rows, values.reshape(count, width), height)]
    random = torch.Generator().manual_seed(rank)
    return [(torch.randint(options.height, (options.rows,), generator=random),
             torch.randn(options.rows, options.width, generator=random), options.height) for _ in range(options.tables)]


def tensors_of(tables, merged):
    tensors = [torch.sparse_coo_tensor(rows[None], values, (height, values.shape[1]))
               for rows, values, height in tables]
    return [tensor.coalesce() for tensor in tensors] if merged else tensors


def one_by_one(tensors):
    for tensor in tensors:
        dist.all_reduce(tensor)


def started_together(tensors):
    for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
        work.wait()


def in_one_exchange(tensors):
    banyan.torch.sparse.reduce_all(tensors, None, dist.ReduceOp.SUM)


def measure(way, given):
    """Returns the seconds of each step. All-reduce replaces the tensors, so each step needs copies."""
    times = []
    for _ in range(STEPS):
        tensors = [tensor.clone() for tensor in given]
        dist.barrier()
        start = time.perf_counter()
        way(tensors)
        times.append(time.perf_counter() - start)
    return times[WARMUP:], tensors


def compare(tensors, tables_of_all, what):
    for i, tensor in enumerate(tensors):
        expected = torch.zeros(tensor.shape)
        for tables in tables_of_all:
            expected.index_add_(0, *tables[i][:2])
        if not torch.allclose(tensor.to_dense(), expected, rtol=1e-4, atol=1e-5):
            sys.exit(f"sparse_torch: {what}: the sum of table {i} is wrong")


def job(options):
    rank, size = int(os.environ["BANYAN_RANK"]), int(os.environ["BANYAN_SIZE"])
    ways = [one_by_one, started_together]
    torch.set_num_threads(1)
    if options.backend == "banyan":
        dist.init_process_group("banyan")
        ways.append(in_one_exchange)
    else:
        dist.init_process_group("gloo", init_method=f"file://{options.meet}", rank=rank, world_size=size)
    tables_of_all = [batches(options, rank) for rank in range(size)]
    medians = {}
    for merged in (False, True):
        given = tensors_of(tables_of_all[rank], merged)
        for way in ways[:1] if len(given) == 1 else ways:
            name = way.__name__.replace("_", " ") + (", merged" if merged else "")
            times, tensors = measure(way, given)
            compare(tensors, tables_of_all, name)
            slowest = torch.tensor(times)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            medians[name] = statistics.median(slowest.tolist())
    if rank == 0:
        print(json.dumps(medians), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def run(backend, ranks, options):
    """Returns the median of each way, in a job of this backend."""
    with tempfile.TemporaryDirectory() as folder:
        command = [os.environ.get("BANYAN", "banyan"), "run", "-n", str(ranks), "-o", "rank0", "--transport", options.transport,
                   "--", sys.executable, __file__, *sys.argv[1:], "--backend", backend, "--meet", f"{folder}/meet"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=300, text=True,
                              env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"})
    return json.loads(done.stdout.splitlines()[-1])


def show(ranks, rounds):
    for kind in ("", ", merged"):
        gloo = [min(times[name] for name in times if name.endswith("merged") == bool(kind)) for times, _ in rounds]
        print(f"{ranks} ranks, Gloo's fastest{kind}: {1e3 * statistics.median(gloo):.2f} ms")
        for name in rounds[0][1]:
            if name.endswith("merged") != bool(kind):
                continue
            ratios = [theirs / ours[name] for theirs, (_, ours) in zip(gloo, rounds)]
            print(f"{ranks} ranks, Banyan, {name}: {1e3 * statistics.median(ours[name] for _, ours in rounds):.2f} ms, "
                  f"{statistics.median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--tables", type=int, default=30)
    parser.add_argument("--rows", type=int, default=200, help="of each rank and table")
    parser.add_argument("--height", type=int, default=10000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transport", default="auto", help="of Banyan; Gloo's is TCP")
    parser.add_argument("--batches", help="a folder with batches of sparse_bench")
    parser.add_argument("--backend", help=argparse.SUPPRESS)
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.backend:
        job(options)
        return
    for ranks in map(int, options.ranks.split(",")):
        show(ranks, [[run(backend, ranks, options) for backend in ("gloo", "banyan")] for _ in range(options.rounds)])


main()
