#!/usr/bin/env python3
"""The backend as a user starts it: by `banyan run`, by torchrun, and by mp.spawn with each kind of store; Ctrl-C."""
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import ranks

ranks.need_torch()
import torch.multiprocessing as mp  # noqa: E402

BANYAN = os.environ.get("BANYAN", "banyan")
PROGRAM = textwrap.dedent("""
    import os, sys, torch, torch.distributed as dist, banyan.torch
    from banyan import library, rendezvous
    dist.init_process_group("banyan")
    value = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(value)
    part = dist.new_group([0, 1])
    if dist.get_rank() < 2: dist.barrier(group=part)
    print("sum", value.item(), "of", dist.get_world_size(), flush=True)
    while "endless" in sys.argv: dist.all_reduce(value)
    if "TORCHELASTIC_RUN_ID" in os.environ:  # also without a process group
        with banyan.Communicator() as comm: comm.barrier()
        root = rendezvous.store_of_torchrun(60).get("banyan/root").decode()
        assert (root.endswith("#" + library.root_fingerprint())) == (comm.rank == 0), root
        key = rendezvous.store_of_torchrun(60).get("banyan/key").decode()
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


def spawned(rank, method, size):
    import torch
    import torch.distributed as dist

    importlib.import_module("banyan.torch")
    rendezvous, met, stores = importlib.import_module("banyan.torch.rendezvous"), [], []
    meet = rendezvous.meet
    rendezvous.meet = lambda store, *given: stores.append(store) or met.append(meet(store, *given)) or met[0]

    dist.init_process_group("banyan", init_method=method, rank=rank, world_size=size)
    value = torch.tensor([rank + 1])
    dist.all_reduce(value)
    assert value.item() == size * (size + 1) // 2
    fingerprint = importlib.import_module("banyan.library").root_fingerprint()
    assert "banyan_key_" in met[0][1]
    store = dist.PrefixStore("banyan/0", stores[0])
    assert store.get("banyan/key").startswith(b"/"), "others than processes of this user can read the key in the store"
    assert "#" in met[0][0] and met[0][0].endswith(f"#{fingerprint}") == (rank == 0), met[0][0]
    dist.barrier()  # rank 0 holds the store
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
                              "--nproc_per_node", "2", "--master_port", str(ranks.free_port()), self.program)
            if "address already in use" not in done.stderr.lower():
                break  # Otherwise another process took the port just now.
        self.check(done, 2)
        self.assertNotIn("whoever can read the store", done.stderr)

    def test_stores(self):
        for method in (f"tcp://127.0.0.1:{ranks.free_port()}", f"file://{self.folder}/store"):
            with self.subTest(method):
                mp.spawn(spawned, (method, 2), nprocs=2)

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
