#!/usr/bin/env python3
"""Forms groups of PyTorch one after the other at one address or in one file, with a sum and a destroy_process_group()
for each, and counts the runs that fail: for all launchers (mp.spawn, torchrun, banyan run) and stores (tcp, env, file).

    bench/pytorch_groups.py --runs 10              # of each combination
    bench/pytorch_groups.py --runs 100 --launchers torchrun --stores env

The library, the command and the package are those that BANYAN_LIBRARY, BANYAN and PYTHONPATH name."""
import argparse
import importlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta

PORTS = "18000-31999"  # which the system gives to no connection


def rounds(rank, size, method, arguments):
    """What one rank does."""
    torch, dist = importlib.import_module("torch"), importlib.import_module("torch.distributed")
    if arguments.backend == "banyan":
        importlib.import_module("banyan.torch")
    for _ in range(arguments.rounds):
        place = {} if method == "env://" else {"rank": rank, "world_size": size}
        dist.init_process_group(arguments.backend, init_method=method, timeout=timedelta(seconds=arguments.timeout), **place)
        value = torch.ones(3)
        dist.all_reduce(value)
        assert value.tolist() == [size] * 3
        dist.destroy_process_group()


def spawned(rank, size, method, arguments, env):
    """A rank of mp.spawn."""
    os.environ.update(env, RANK=str(rank), WORLD_SIZE=str(size))
    rounds(rank, size, method, arguments)


def act_as_rank(arguments):
    """A rank of torchrun or `banyan run`, or the process that calls mp.spawn."""
    store, where = arguments.store, arguments.where
    env = {} if store == "file" else {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": where}
    method = {"tcp": f"tcp://127.0.0.1:{where}", "env": "env://", "file": f"file://{where}"}[store]
    if arguments.launcher == "spawn":
        multiprocessing = importlib.import_module("torch.multiprocessing")
        return multiprocessing.spawn(spawned, (arguments.ranks, method, arguments, env), nprocs=arguments.ranks)
    if arguments.backend == "banyan":
        importlib.import_module("banyan.torch")  # sets RANK and the like
    if arguments.launcher == "torchrun" and store == "tcp":  # torchrun's own store, as for every program under it
        method = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    return rounds(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), method, arguments)


def free_port():
    """As a text."""
    for port in range(18000 + time.monotonic_ns() % 13000, 31999):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
                return str(port)
            except OSError:
                pass
    raise OSError("no port is free")


def run(launcher, store, arguments, folder):
    """One run. True if it went well."""
    where = os.path.join(folder, f"store-{time.monotonic_ns()}") if store == "file" else free_port()
    program = [sys.executable, os.path.abspath(__file__), "--launcher", launcher, "--store", store, "--where", where]
    for name in ("rounds", "ranks", "timeout", "backend"):
        program += [f"--{name}", str(getattr(arguments, name))]
    command = {"spawn": program,
               "banyan": [os.environ.get("BANYAN", "banyan"), "run", "-n", str(arguments.ranks), "--port-range", PORTS, "--", *program],
               "torchrun": [sys.executable, "-m", "torch.distributed.run", "--redirects", "1", "--tee", "1", "--nproc_per_node",
                            str(arguments.ranks), "--master_port", free_port(), *program[1:]]}[launcher]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired as late:
        print(f"{launcher} {store}: not ended after {late.timeout:g} s", (late.stdout or b"").decode()[-3000:])
        return False
    if done.returncode:
        print(f"{launcher} {store}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-6000:]}", flush=True)
    return done.returncode == 0


def main():
    """Reads the arguments; returns whether all runs went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20, help="groups of a run")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=60, help="of init_process_group, in seconds")
    parser.add_argument("--backend", default="banyan", help="or gloo, to compare")
    parser.add_argument("--launchers", default="spawn,torchrun,banyan")
    parser.add_argument("--stores", default="tcp,env,file")
    for name in ("launcher", "store", "where"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.launcher:
        return act_as_rank(arguments) is None
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for launcher in arguments.launchers.split(","):
            for store in arguments.stores.split(","):
                begun = time.monotonic()
                wrong = sum(not run(launcher, store, arguments, folder) for _ in range(arguments.runs))
                print(f"{launcher:8} {store:4} {arguments.runs} runs of {arguments.rounds} groups, {wrong} failed, "
                      f"{(time.monotonic() - begun) / arguments.runs:.1f} s each", flush=True)
                failed += wrong
    return not failed


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
