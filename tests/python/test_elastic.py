#!/usr/bin/env python3
"""Training loops of banyan.elastic: processes that die, leave and come, by a store and by a launcher."""
import contextlib
import importlib.util
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from unittest import mock

import ranks

ranks.need("numpy")
import numpy  # noqa: E402

import banyan  # noqa: E402
import banyan.elastic  # noqa: E402
import banyan.rendezvous  # noqa: E402

LIMIT = 120  # seconds of a test
DEATH, STEPS = 10, 60
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "elastic" / "train.py"
IMAGES = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"


class Jobs:
    """Processes that are started at any time. Each runs a function, whose result is what it exits with."""

    def __init__(self, folder, size):
        self.folder, self.size, self.until = Path(folder), size, time.monotonic() + LIMIT
        self.processes = []

    def start(self, function, *arguments):
        process = multiprocessing.get_context("fork").Process(target=self._run, args=(function, arguments))
        process.start()
        self.processes.append(process)
        return process

    def _run(self, function, arguments):
        os.environ.pop("BANYAN_KEY", None)
        try:
            result = function(self, *arguments)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(result or 0)

    def meet(self):
        return banyan.elastic.Folder(self.folder / "meet")

    def went_on(self, step):
        """A step has succeeded; one after the death without the process that died."""
        if step > DEATH:
            (self.folder / "went on").touch()
        time.sleep(0.002)

    def wait_for(self, *names):
        while not all((self.folder / name).exists() for name in names):
            alive = any(process.is_alive() for process in self.processes)
            assert alive and time.monotonic() < self.until, f"no process says {names}"
            time.sleep(0.01)

    def ends(self, process, code=0):
        process.join(max(0.1, self.until - time.monotonic()))
        assert process.exitcode == code, f"a process ended with {process.exitcode}, not {code}"

    def end(self):
        for process in self.processes:
            process.kill()
            process.join()


@contextlib.contextmanager
def jobs(size):
    with tempfile.TemporaryDirectory() as folder:
        made = Jobs(folder, size)
        try:
            yield made
        finally:
            made.end()


def train(self, dies=False, leaves=False, size=3, every=1, keeps_store=True):
    """Steps whose average gradient is 1, whoever takes part, until there were STEPS of them and so many processes."""
    state = banyan.State(weights=numpy.zeros(1000, numpy.float32), step=0)

    def function(job):
        assert job.state is state and (job.rank, job.size) == (job.comm.rank, job.comm.size)
        if leaves:
            job.leave()
        while state.step < STEPS or job.size != size:
            gradient = numpy.full(1000, 2 * (job.rank + 1) / (job.size + 1), numpy.float32)
            state.weights += job.comm.allreduce(gradient, op="average")
            state.step += 1
            if dies and state.step == DEATH:
                if not keeps_store:
                    shutil.rmtree(self.folder / "meet")
                os.kill(os.getpid(), signal.SIGKILL)
            self.went_on(state.step)
            job.commit()
        return job.memberships

    memberships = banyan.elastic.run(function, state, self.meet(), self.size, every=every)
    if leaves:
        assert memberships is None and state.step == every
        return
    assert state.step >= STEPS and memberships in (1, 2, 3), (state.step, memberships)
    assert numpy.allclose(state.weights, state.step, rtol=1e-5), state.weights


def ddp(self, dies=False):
    """The same with DDP, momentum, and a store of PyTorch."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import banyan.torch  # noqa: F401

    torch.manual_seed(os.getpid())  # All get the parameters of one.
    network = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9)
    state = banyan.State(network=network, optimizer=optimizer, step=0)

    def function(job):
        model = DistributedDataParallel(network)
        assert dist.get_world_size() == job.size and dist.get_rank() == job.rank
        while state.step < STEPS or job.size != self.size:
            if dies and state.step == DEATH:
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            model(torch.full((2, 8), job.rank / job.size)).sum().backward()
            optimizer.step()
            state.step += 1
            self.went_on(state.step)
            job.commit()
        mine = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
        most, least = mine.clone(), mine.clone()
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        dist.all_reduce(least, op=dist.ReduceOp.MIN)
        assert torch.equal(most, least) and len(optimizer.state) == 2
        return job.size

    store = dist.FileStore(str(self.folder / "store"), -1)
    assert banyan.elastic.run(function, state, store, self.size) == self.size
    assert not dist.is_initialized()


def wrong(self):
    """What the program does wrong is raised, in the process that does it."""
    state = banyan.State(step=0)

    def function(job):
        if job.rank == 1:
            raise ValueError("a mistake")
        while job.size > 1:
            job.comm.allreduce(numpy.ones(1))
        return job.size

    try:
        assert banyan.elastic.run(function, state, self.meet(), self.size) == 1
    except ValueError as error:
        assert str(error) == "a mistake"
        return 3


def stopped(self, with_torch=False):
    """All go on until the one that was stopped is back."""
    if with_torch:
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        importlib.import_module("banyan.torch")  # DDP's group has the members.
        network = torch.nn.Linear(8, 4)
    state = banyan.State(weights=numpy.zeros(1000, numpy.float32), step=0)
    sizes = []

    def function(job):
        sizes.append(job.size)
        model = DistributedDataParallel(network) if with_torch else None
        while not (len(sizes) > 1 and job.size == self.size):
            if with_torch:
                assert dist.get_world_size() == job.size
                model(torch.ones(2, 8)).sum().backward()
            state.weights += job.comm.allreduce(numpy.ones(1000, numpy.float32), op="average")
            state.step += 1
            if state.step == DEATH:
                (self.folder / f"began {os.getpid()}").touch()
            if job.size < self.size:
                (self.folder / "without it").touch()
            time.sleep(0.002)
            job.commit()

    banyan.elastic.run(function, state, self.meet(), self.size)
    assert (state.weights == state.step).all() and state.step >= DEATH
    assert sizes[0] == sizes[-1] == self.size, sizes


def arrives_and_dies(self, published):
    """One of the first processes dies before they have formed a group: with a handle that others wait for, or without."""
    store = self.meet()
    arrived = store.add("banyan/arrived/1", 1)
    if published:
        with banyan.Member(key=banyan.rendezvous.key_of(store, timedelta(seconds=9))) as member:
            store.set(f"banyan/arrived/1/{arrived}", member.handle)
            os.kill(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def forms(self):
    state = banyan.State(step=0)

    def function(job):
        assert job.comm.allreduce(numpy.ones(1))[0] == job.size == self.size
        return job.size

    assert banyan.elastic.run(function, state, self.meet(), self.size, timeout=4) == self.size


def launched():
    state = banyan.State(step=0)

    def function(job):
        assert job.size == int(os.environ["BANYAN_SIZE"])
        while state.step < 5:
            state.step += int(job.comm.allreduce(numpy.ones(1), op="average")[0])
            job.commit()
        return state.step

    assert banyan.elastic.run(function, state) == 5


def setUpModule():
    """PyTorch is imported once, for the processes that are forked. banyan.torch is imported only where it is used, as it changes
    what banyan.elastic does; where it was not yet compiled, that happens before tests begin that have a time limit."""
    if importlib.util.find_spec("torch"):
        importlib.import_module("torch")
        process = multiprocessing.get_context("fork").Process(target=importlib.import_module, args=("banyan.torch",))
        process.start()
        process.join()


class Elastic(unittest.TestCase):
    def replace(self, function):
        """One of three processes dies. When the others have gone on, a fourth one comes."""
        with jobs(3) as job:
            dying = job.start(function, True)
            others = [job.start(function) for _ in range(2)]
            job.ends(dying, -signal.SIGKILL)
            job.wait_for("went on")
            for process in [*others, job.start(function)]:
                job.ends(process)

    def test_replacement(self):
        self.replace(train)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch")
    def test_ddp(self):
        self.replace(ddp)

    def test_leaving(self):
        with jobs(3) as job:
            for process in [job.start(train, False, leaves, 2, 3) for leaves in (False, True, False)]:
                job.ends(process)

    def stop_one(self, with_torch):
        """A process that is stopped is left out, and comes back when it goes on."""
        with mock.patch.dict(os.environ, {"BANYAN_SILENCE": "2"}), jobs(4) as job:
            processes = [job.start(stopped, with_torch) for _ in range(4)]
            job.wait_for(*[f"began {process.pid}" for process in processes])
            os.kill(processes[0].pid, signal.SIGSTOP)
            job.wait_for("without it")
            os.kill(processes[0].pid, signal.SIGCONT)
            for process in processes:
                job.ends(process)

    def test_stopped(self):
        self.stop_one(with_torch=False)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch")
    def test_stopped_with_torch(self):
        self.stop_one(with_torch=True)

    def dies_at_first(self, published):
        with jobs(3) as job:
            job.ends(job.start(arrives_and_dies, published), -signal.SIGKILL)
            for process in [job.start(forms) for _ in range(3)]:
                job.ends(process)

    def test_first_formation(self):
        self.dies_at_first(published=True)

    def test_first_formation_without_a_handle(self):
        self.dies_at_first(published=False)

    def test_lost_store(self):
        """The store is lost with the process that dies."""
        with jobs(3) as job:
            processes = [job.start(train, dies, False, 2, 1, False) for dies in (False, True, False)]
            for process, code in zip(processes, (0, -signal.SIGKILL, 0)):
                job.ends(process, code)

    def test_mistake(self):
        with jobs(2) as job:
            processes = [job.start(wrong), job.start(wrong)]
            for process in processes:
                process.join(LIMIT)
            self.assertEqual(sorted(process.exitcode for process in processes), [0, 3])

    def test_launcher(self):
        ranks.run(3, launched)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch")
    @unittest.skipUnless(os.path.exists(IMAGES), f"no {IMAGES} (apt-get install dataset-fashion-mnist)")
    def test_example(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(EXAMPLE), f"--meet={folder}/meet", "--size=2", "--epochs=2", "--limit=12000"]
            begin = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            processes = [subprocess.Popen(command, **begin) for _ in range(2)]
            outputs = [process.communicate(timeout=LIMIT)[0] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0], outputs)
        accuracy = re.search(r"accuracy (0\.\d+) after 100 steps, 2 processes", "".join(outputs))
        self.assertTrue(accuracy and float(accuracy.group(1)) > 0.7, outputs)

    def test_leaving_between(self):
        """A process that asks to leave while the members change, and is left out of the membership after that, has left."""
        member = mock.Mock(handle="a")
        member.handles.return_value = ["a", "b"]
        member.recover.side_effect = banyan.Aborted("the others go on without it, as it asked to leave", 97)
        job = banyan.elastic.Job(member, banyan.State(step=0), 1)
        job.leave()
        job._enter(mock.Mock())
        self.assertIsNone(job._next(1))

    def test_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            store = banyan.elastic.Folder(Path(folder) / "new")
            self.assertEqual([store.add("a/n", 1), store.add("a/n", 2)], [1, 3])
            store.set("a/b", "text")
            store.wait(["a/b", "a/n"], timedelta(seconds=1))
            self.assertEqual(store.get("a/b"), b"text")
            with self.assertRaisesRegex(banyan.RequestError, "has no c after 0.1 s"):
                store.wait(["a/b", "c"], timedelta(seconds=0.1))
            self.assertEqual((Path(folder) / "new").stat().st_mode & 0o777, 0o700)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")
    def test_file_store(self):
        """All users can read PyTorch's FileStore, and so find no key there."""
        dist = importlib.import_module("torch.distributed")
        before, no_key = os.umask(0o022), {name: os.environ[name] for name in os.environ if not name.startswith("BANYAN_KEY")}
        self.addCleanup(os.umask, before)
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, no_key, clear=True):
            stores = [dist.PrefixStore("a", dist.PrefixStore("b", dist.FileStore(f"{folder}/store", 2))) for _ in range(2)]
            keys = {banyan.rendezvous.key_of(store, timedelta(seconds=10)) for store in stores}
            self.assertEqual(len(keys), 1)
            key = keys.pop()
            self.assertRegex(key, "^banyan_key_[0-9a-f]{64}_[0-9a-f]{8}$")
            holders = [path for path in Path(folder).iterdir() if key[11:75].encode() in path.read_bytes()]
            self.assertEqual([path.stat().st_mode & 0o777 for path in holders], [0o600])
            holders[0].chmod(0o644)
            with self.assertRaisesRegex(banyan.RequestError, "others may read or change this key"):
                banyan.rendezvous.key_of(stores[0], timedelta(seconds=10))

    def test_key_in_memory(self):
        """A process that makes one job after another keeps one descriptor."""
        no_key = {name: os.environ[name] for name in os.environ if not name.startswith("BANYAN_KEY")}
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, no_key, clear=True):
            keys, counts = set(), set()
            for number in range(3):
                store = banyan.elastic.Folder(f"{folder}/{number}")

                def meet(rank):
                    with banyan.rendezvous.meet(store, rank, 2, 10, lambda one_host: "root") as place:
                        return place.key

                with ThreadPoolExecutor(2) as pool:
                    first, second = pool.map(meet, range(2))
                self.assertEqual(first, second)
                self.assertIn(b"\n/proc/", store.get("banyan/1/root"))
                keys.add(first)
                counts.add(len(os.listdir("/proc/self/fd")))
            self.assertEqual((len(keys), len(counts)), (3, 1))

    def test_folder_of_others(self):
        """The key of the job is in the folder: whoever may write to it could put another there."""
        with tempfile.TemporaryDirectory() as folder:
            for mode in 0o777, 0o1777, 0o770:
                os.chmod(folder, mode)
                with self.assertRaisesRegex(banyan.RequestError, "others may write to this folder"):
                    banyan.elastic.Folder(folder)
            os.chmod(folder, 0o755)
            banyan.elastic.Folder(folder)
            if os.geteuid() == 0:
                os.chown(folder, 65534, 65534)
                with self.assertRaisesRegex(banyan.RequestError, "user 65534"):
                    banyan.elastic.Folder(folder)

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(banyan.RequestError, "the state is a dict"):
            banyan.elastic.run(lambda job: None, {"step": 0})
        with self.assertRaisesRegex(banyan.RequestError, "every is 0"):
            banyan.elastic.run(lambda job: None, banyan.State(step=0), every=0)

    def test_size(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(banyan.RequestError, "size="):
            os.environ.pop("WORLD_SIZE", None)
            banyan.elastic.run(lambda job: None, banyan.State(step=0), banyan.elastic.Folder(folder))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
