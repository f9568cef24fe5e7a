#!/usr/bin/env python3
"""Times all_reduce of PyTorch jobs that torchrun starts on the hosts of a lab, as they run by default.

    sudo bench/torchrun_lab.py examples/topologies/star-unequal.json
    sudo bench/torchrun_lab.py examples/topologies/two-sites.json --orders
    sudo bench/torchrun_lab.py examples/topologies/sparse-12.json --scale 1/2

Each job calls for 5 s and then times the calls that follow. It runs three times: with the built-in plans
(BANYAN_TOPOLOGY=off), with the topology that the lab was built from, and with no setting, so that it finds a plan by
itself. The output has the median and the least time of the slowest rank, and the medians' ratio to that with the
topology. --orders repeats it for all orders of ranks in which hosts of different groups follow each other differently.
On a machine that does other work, start it with chrt -r 3, or networks of many hosts are measured wrongly.
"""
import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WAYS = {"built-in": ["-x", "BANYAN_TOPOLOGY=off"], "topology": [], "by itself": ["-x", "BANYAN_TOPOLOGY="]}
# What a lab sets for ranks that it starts itself; torchrun is to tell them.
OF_LAB = ("BANYAN_RANK", "BANYAN_SIZE", "BANYAN_ROOT", "BANYAN_KEY_FILE", "BANYAN_JOB",
          "BANYAN_LOCAL_RANK", "BANYAN_LOCAL_SIZE")


def job(size, settle, calls):
    """What each rank does, under torchrun."""
    import torch
    import torch.distributed as dist
    sys.path.insert(0, str(ROOT / "bindings" / "python"))
    __import__("banyan.torch")  # registers the backend
    begun = time.perf_counter()
    dist.init_process_group("banyan")
    data, longest = torch.ones(size // 4), torch.zeros(1, dtype=torch.float64)
    started, times = time.perf_counter() - begun, []
    begun = time.perf_counter()
    while len(times) < calls:
        data.fill_(1)
        dist.barrier()
        before = time.perf_counter()
        dist.all_reduce(data)
        longest[0] = time.perf_counter() - before
        if not torch.all(data == dist.get_world_size()):
            raise SystemExit("a sum is wrong")
        settled = torch.tensor([time.perf_counter() - begun >= settle])
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)
        dist.broadcast(settled, 0)
        if settled.item():
            times.append(longest.item())
    if dist.get_rank() == 0:
        print("result", json.dumps({"started": started, "times": times}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def run(topology, way, options):
    """Returns what rank 0 printed. The ranks' addresses are the lab's, the first is rank 0's."""
    hosts = sum(node.get("kind", "host") == "host" for node in json.loads(Path(topology).read_text())["nodes"])
    torchrun = (f"unset {' '.join(OF_LAB)}; exec {options.python} -m torch.distributed.run "
                f"--redirects 1 --tee 1 --nnodes {hosts} --node_rank $node --nproc_per_node 1 "
                f"--master_addr 10.77.0.1 --master_port 29507 {Path(__file__).resolve()} --job "
                f"--size {options.size} --settle {options.settle} --calls {options.calls}")
    command = [str(options.build / "banyan"), "lab", str(topology), "--scale", options.scale, "--timeout", "900",
               *WAYS[way], "-x", f"BANYAN_LIBRARY={options.build / 'libbanyan.so.0'}", "-x", "BANYAN_LOG=plan:info",
               "-x", "OMP_NUM_THREADS=1", "--", "sh", "-c", f"node=$BANYAN_RANK; {torchrun}"]
    done = subprocess.run(command, capture_output=True, text=True)
    text = done.stdout + done.stderr
    found = re.search(r"result (\{.*\})", text)
    if done.returncode or not found:
        raise SystemExit(f"{way}: banyan lab ended with {done.returncode}:\n{text[-4000:]}")
    for line in re.findall(r"plan: (.*(?:trial|keeps its built-in|took).*)", text) if options.verbose else []:
        print(f"    {line}", flush=True)
    return json.loads(found.group(1))


def orders_of(topology):
    """Yields names and nodes of each order of hosts that differs in which groups follow each other."""
    nodes = json.loads(Path(topology).read_text())["nodes"]
    hosts = [node for node in nodes if node.get("kind", "host") == "host"]
    seen = set()
    for order in itertools.permutations(hosts):
        letters = {}
        pattern = "".join(letters.setdefault(node.get("group", ""), chr(97 + len(letters))) for node in order)
        if pattern not in seen:
            seen.add(pattern)
            yield " ".join(node["name"] for node in order), [*order, *(n for n in nodes if n not in hosts)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topology", nargs="?")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--orders", action="store_true")
    parser.add_argument("--size", type=int, default=16 << 20, help="bytes")
    parser.add_argument("--settle", type=float, default=5, help="seconds of calls that do not count")
    parser.add_argument("--calls", type=int, default=5, help="calls that do")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--python", default="/usr/bin/python3", help="one with PyTorch")
    parser.add_argument("--verbose", action="store_true", help="show what the jobs log on their plans")
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job(options.size, options.settle, options.calls)
        return
    if not options.topology:
        parser.error("a topology is needed")
    options.build = options.build.resolve()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "bindings" / "python"),
                   "BANYAN_LIBRARY": str(options.build / "libbanyan.so.0")}
    subprocess.run([options.python, "-c", "import banyan.torch"], env=environment, check=True)  # compiles it once
    variants = orders_of(options.topology) if options.orders else [("as in the file", None)]
    with tempfile.TemporaryDirectory() as folder:
        for name, nodes in variants:
            path = options.topology
            if nodes:
                path = Path(folder) / "ordered.json"
                path.write_text(json.dumps({**json.loads(Path(options.topology).read_text()), "nodes": nodes}))
            results = {way: run(path, way, options) for way in WAYS}
            base = statistics.median(results["topology"]["times"])
            for way, result in results.items():
                median = statistics.median(result["times"])
                print(f"{name:24} {way:10} {median * 1e3:9.1f} ms, least {min(result['times']) * 1e3:9.1f} ms, "
                      f"{median / base:6.3f} of that with the topology; started in {result['started']:.2f} s", flush=True)


if __name__ == "__main__":
    main()
