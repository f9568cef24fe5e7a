#!/usr/bin/env python3
"""The backend as a user starts it: by `banyan run`, by torchrun, and by mp.spawn with each kind of store; Ctrl-C."""
import contextlib
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from datetime import timedelta
from pathlib import Path

import ranks

ranks.need_torch()
import torch.multiprocessing as mp  # noqa: E402

BANYAN = os.environ.get("BANYAN", "banyan")
PROGRAM = textwrap.dedent("""
    import os, sys, torch, torch.distributed as dist, banyan.torch
    from banyan import library, rendezvous
    for _ in range(10 if "groups" in sys.argv else 0):  # one after the other at one address
        dist.init_process_group("banyan")
        value = torch.ones(3)
        dist.all_reduce(value)
        assert value.tolist() == [dist.get_world_size()] * 3
        dist.destroy_process_group()
    dist.init_process_group("banyan")
    value = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(value)
    part = dist.new_group([0, 1])
    if dist.get_rank() < 2: dist.barrier(group=part)
    print("sum", value.item(), "of", dist.get_world_size(), flush=True)
    while "endless" in sys.argv: dist.all_reduce(value)
    if "TORCHELASTIC_RUN_ID" in os.environ:  # also without a process group
        with banyan.Communicator() as comm: comm.barrier()
        _, root, key = rendezvous.store_of_torchrun(60).get("banyan/1/root").decode().split("\\n")
        assert (root.endswith("#" + library.root_fingerprint())) == (comm.rank == 0), root
        assert key.startswith("/proc/"), "others than processes of this user can read the key in the store"
    dist.barrier()  # rank 0 holds the store, which the others may still ask
    dist.destroy_process_group()
""")

WITHOUT = textwrap.dedent("""
    import os, sys, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    value = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(value)
    assert os.environ["LOCAL_RANK"] == os.environ["RANK"] == str(dist.get_rank())
    print("sum", value.item(), "of", os.environ["LOCAL_WORLD_SIZE"], flush=True)
    assert not any(name.startswith("banyan") for name in sys.modules)
    dist.barrier()
    dist.destroy_process_group()
""")


RESTARTED = textwrap.dedent("""
    import os, sys, torch, torch.distributed as dist, banyan.torch
    for group in range(2):
        dist.init_process_group("banyan")
        value = torch.ones(1)
        dist.all_reduce(value)
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
            os._exit(1)
        dist.destroy_process_group()
    print("sum", value.item(), "after a restart", flush=True)
""")


def forked(function, arguments, size):
    """As mp.spawn, for what concerns no launcher: ranks that are forked need not import PyTorch."""
    mp.start_processes(function, arguments, size, start_method="fork")


def spawned(rank, methods, size):
    import torch
    import torch.distributed as dist

    for method in methods:
        joins(rank, method, size)
        for _ in range(10):  # groups, one after the other in one store
            dist.init_process_group("banyan", init_method=method, rank=rank, world_size=size)
            value = torch.ones(3)
            dist.all_reduce(value)
            assert value.tolist() == [size] * 3
            dist.destroy_process_group()


def joins(rank, method, size):
    import torch
    import torch.distributed as dist

    module, met, stores = importlib.import_module("banyan.torch"), [], []
    meet = module.meet

    @contextlib.contextmanager
    def noted(store, *given):
        stores.append(store)
        with meet(store, *given) as place:
            met.append(place)
            yield place

    module.meet = noted
    dist.init_process_group("banyan", init_method=method, rank=rank, world_size=size)
    value = torch.tensor([rank + 1])
    dist.all_reduce(value)
    assert value.item() == size * (size + 1) // 2
    fingerprint = importlib.import_module("banyan.library").root_fingerprint()
    root, key, number = met[0]
    assert "banyan_key_" in key and number == 1
    key = stores[0].get("banyan/1/root").decode().split("\n")[2]
    assert key.startswith("/"), "others than processes of this user can read the key in the store"
    assert "#" in root and root.endswith(f"#{fingerprint}") == (rank == 0), root
    dist.barrier()  # rank 0 holds the store
    dist.destroy_process_group()
    module.meet = meet


def again(rank, store, sizes):
    """Ranks come late, and one group after the other in one store, of different sizes."""
    import torch
    import torch.distributed as dist

    importlib.import_module("banyan.torch")
    store = dist.FileStore(store, -1)
    for number, size in enumerate(sizes):
        if number % 3 == rank:
            time.sleep(0.3)
        if rank >= size:
            continue
        dist.init_process_group("banyan", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
        part = dist.new_group(list(range(size)))
        value = torch.ones(3)
        dist.all_reduce(value)
        dist.all_reduce(value, group=part)
        assert value[0] == size * size, value
        dist.destroy_process_group()


def late(rank, path):
    """Rank 1 comes to the second attempt only, when the store has what rank 0 left there at the first."""
    import torch
    import torch.distributed as dist

    importlib.import_module("banyan.torch")
    store = dist.FileStore(path, -1)
    store.set(f"here {rank}", "")
    place = {"backend": "banyan", "store": store, "rank": rank, "world_size": 2}
    if rank == 1:
        store.wait(["given up"], timedelta(seconds=60))
    else:
        try:
            dist.init_process_group(timeout=timedelta(seconds=1), **place)
            raise AssertionError("rank 1 cannot have come")
        except importlib.import_module("banyan").Timeout as error:
            assert "rank 1 has not come to form the group within 1 s, of which rank 0 waits" in str(error), error
        store.set("given up", "")
    dist.init_process_group(timeout=timedelta(seconds=60), **place)
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


def signals(rank, folder):
    import torch
    import torch.distributed as dist

    def run():
        values = torch.ones(1000)
        dist.all_reduce(values)
        assert values.tolist() == [2] * 1000

    def start():
        values = torch.ones(1000)
        dist.all_reduce(values, async_op=True).wait()
        assert values.tolist() == [2] * 1000

    def given():
        values = torch.ones(1000)
        work = dist.all_reduce(values, async_op=True)
        work.get_future()  # so that a thread of the library ends it
        work.wait()
        assert values.tolist() == [2] * 1000

    def sparse():
        values = torch.ones(5, 3).to_sparse(1)
        dist.all_reduce(values)
        assert values.to_dense().tolist() == [[2] * 3] * 5

    importlib.import_module("banyan.torch")
    place = {"backend": "banyan", "store": dist.FileStore(f"{folder}/store", -1), "rank": rank, "world_size": 2}
    if rank == 1:
        place["store"].wait(["interrupted"], timedelta(seconds=60))
    else:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            dist.init_process_group(**place)
            raise AssertionError("SIGINT has not raised KeyboardInterrupt")
        except KeyboardInterrupt:
            place["store"].set("interrupted", "")
    dist.init_process_group(**place)
    for call in (run, start, given, sparse):
        os.makedirs(f"{folder}/{call.__name__}", exist_ok=True)
        ranks.check_signals(rank, f"{folder}/{call.__name__}", call)
    dist.barrier()
    dist.destroy_process_group()


class Launchers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = os.path.join(folder.name, "program.py")
        self.folder = folder.name
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(PROGRAM)

    def start(self, *command):
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def check(self, done, size):
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.count(f"sum {size * (size + 1) // 2} of {size}")
        self.assertEqual(lines, size, done.stdout + done.stderr)

    def test_banyan_run(self):
        self.check(self.start(BANYAN, "run", "-n", "3", "--", sys.executable, self.program), 3)

    def test_banyan_run_without_banyan(self):
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(WITHOUT)
        self.check(self.start(BANYAN, "run", "-n", "3", "--", sys.executable, self.program), 3)

    def test_torchrun(self):
        for _ in range(3):
            done = self.start(sys.executable, "-m", "torch.distributed.run", "--redirects", "1", "--tee", "1",
                              "--nproc_per_node", "2", "--master_port", str(ranks.free_port()), self.program, "groups")
            if "address already in use" not in done.stderr.lower():
                break  # Otherwise another process took the port just now.
        self.check(done, 2)
        self.assertNotIn("whoever can read the store", done.stderr)

    def test_stores(self):
        mp.spawn(spawned, ([f"tcp://127.0.0.1:{ranks.free_port()}", f"file://{self.folder}/store"], 2), nprocs=2)

    def test_groups_at_one_address(self):
        """bench/pytorch_groups.py does the same more often; here, test_torchrun and test_stores do it with the other launchers."""
        script = str(Path(__file__).parents[2] / "bench" / "pytorch_groups.py")
        done = self.start(sys.executable, script, "--rounds", "10", "--launchers", "banyan", "--stores", "env")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_groups_in_one_store(self):
        forked(again, (f"{self.folder}/store", [3, 3, 2, 3, 2, 3]), 3)
        left = [name for name in os.listdir(self.folder) if ".key-" in name]
        self.assertEqual(left, [], "a file with a key was left")

    def test_signals(self):
        forked(signals, (self.folder,), 2)

    def test_attempt_that_failed(self):
        forked(late, (f"{self.folder}/store",), 2)

    def test_restart_of_torchrun(self):
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(RESTARTED)
        done = self.start(sys.executable, "-m", "torch.distributed.run", "--redirects", "1", "--tee", "1", "--max_restarts", "1",
                          "--nproc_per_node", "2", "--master_port", str(ranks.free_port()), self.program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((done.stdout + done.stderr).count("sum 2.0 after a restart"), 2, done.stdout + done.stderr)

    def test_interrupt(self):
        run = subprocess.Popen([BANYAN, "run", "-n", "2", "--", sys.executable, self.program, "endless"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.assertIn("sum 3", run.stdout.readline())
        time.sleep(0.5)
        os.killpg(run.pid, signal.SIGINT)
        run.communicate(timeout=120)
        self.assertNotEqual(run.returncode, 0)
        left = subprocess.run(["pgrep", "-f", self.program], capture_output=True, text=True, check=False)
        self.assertEqual(left.stdout, "")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
