#!/usr/bin/env python3
"""Times torch.distributed.all_reduce over Banyan and over Gloo, each backend in a job of its own.

    bench/pytorch_jobs.py --ranks 2,4,8

In each round a job of either backend runs, one after the other, in an order that changes from round to round, so that no
backend's threads or buffers are there while the other is timed. A job makes calls of each size, one after the other, for
`--budget` seconds. Of a call it reports the time of the slowest rank, and for all ranks together the processor time, of
all threads, and context switches. The table has medians over the rounds, the median of the rounds' ratios of
Banyan's to Gloo's with the least and the greatest, and the processor time for each GiB that is reduced. --python names
the interpreter and so the PyTorch. Needs PYTHONPATH=bindings/python and BANYAN_LIBRARY where Banyan is not installed.
"""
import argparse
import importlib
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time

BACKENDS = ("banyan", "gloo")
SIZES = "64,1K,8K,64K,1M,4M,16M,64M"
UNITS = {"K": 1 << 10, "M": 1 << 20}
TIMEOUT = 300
GIB = 1 << 30


def bytes_of(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


# ---- one rank of a job

def usage():
    """Seconds of processor time and context switches so far, of all threads of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return [used.ru_utime + used.ru_stime, used.ru_nvcsw + used.ru_nivcsw]


def measure(dist, torch, size, budget):
    """Makes calls for about `budget` seconds; returns how many, and the slowest rank's time and all ranks' usage for each."""
    tensor = torch.ones(max(1, size // 4))
    dist.all_reduce(tensor)
    if not torch.all(tensor == dist.get_world_size()):
        raise SystemExit("a sum is wrong")
    tensor.zero_()

    def calls(count):
        dist.barrier()
        before, begun = usage(), time.perf_counter()
        for _ in range(count):
            dist.all_reduce(tensor)
        spent, after = time.perf_counter() - begun, usage()
        slowest = torch.tensor([spent], dtype=torch.float64)
        used = torch.tensor([b - a for a, b in zip(before, after)], dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        dist.all_reduce(used)
        return slowest.item() / count, (used / count).tolist()

    took, _ = calls(3)
    took, _ = calls(max(2, int(budget / 4 / took)))  # warm
    count = max(3, int(budget / took))
    took, (processor, switches) = calls(count)
    return {"size": size, "calls": count, "time": took, "processor": processor, "switches": switches}


def rank_main(options):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    if options.rank_of == "banyan":
        importlib.import_module("banyan.torch")
    dist.init_process_group(options.rank_of)
    for size in map(bytes_of, options.sizes.split(",")):
        found = measure(dist, torch, size, options.budget)
        if dist.get_rank() == 0:
            print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


# ---- the jobs

def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def job(options, backend, ranks):
    """Runs one job; returns {bytes: what rank 0 printed}."""
    env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(ranks),
               LOCAL_WORLD_SIZE=str(ranks), OMP_NUM_THREADS="1")
    command = [options.python, os.path.abspath(__file__), "--rank-of", backend, "--sizes", options.sizes,
               "--budget", str(options.budget)]
    processes = [subprocess.Popen(command, env=dict(env, RANK=str(rank), LOCAL_RANK=str(rank)), text=True,
                                  stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL) for rank in range(ranks)]
    try:
        output, _ = processes[0].communicate(timeout=TIMEOUT)
        if any([process.wait(timeout=TIMEOUT) for process in processes]):
            sys.exit(f"a job of {ranks} ranks over {backend} failed")
    finally:
        for process in processes:
            process.kill()
    records = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {record["size"]: record for record in records}


def report(ranks, rounds):
    """Prints the table of `rounds`, each {backend: {bytes: record}}."""
    print(f"{'ranks':>5} {'bytes':>9} {'banyan us':>10} {'gloo us':>10} {'ratio':>6} {'(rounds)':>13} "
          f"{'CPU s/GiB':>17} {'ratio':>6} {'(rounds)':>13} {'switches':>15}")
    for size in rounds[0]["banyan"]:
        def median(backend, name):
            return statistics.median(found[backend][size][name] for found in rounds)

        def ratios(name):
            values = sorted(found["banyan"][size][name] / found["gloo"][size][name] for found in rounds)
            return f"{statistics.median(values):6.3f} {values[0]:6.3f}-{values[-1]:<6.3f}"

        times, processor, switches = ([median(backend, name) for backend in BACKENDS]
                                      for name in ("time", "processor", "switches"))
        per_gib = "  ".join(f"{value / size * GIB:7.3f}" for value in processor)
        print(f"{ranks:5} {size:9} {times[0] * 1e6:10.1f} {times[1] * 1e6:10.1f} {ratios('time')} "
              f"{per_gib:>17} {ratios('processor')} {switches[0]:7.1f} {switches[1]:7.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=0.25, help="seconds for each size in each job")
    parser.add_argument("--rank-of", choices=BACKENDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        rank_main(options)
        return
    for ranks in map(int, options.ranks.split(",")):
        rounds = []
        for number in range(options.rounds):
            order = BACKENDS if number % 2 == 0 else BACKENDS[::-1]
            rounds.append({backend: job(options, backend, ranks) for backend in order})
            print(f"{ranks} ranks, round {number + 1} of {options.rounds}", file=sys.stderr)
        report(ranks, rounds)


if __name__ == "__main__":
    main()
