#!/usr/bin/env python3
"""Groups of torch.distributed whose processes change: the scenarios of PyTorch's tests for groups that are reconfigured,
with 2, 3, 4 and 8 processes; deaths; DDP. By the functions of banyan.torch, and where PyTorch has them, by its own."""
import os
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
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import banyan.torch  # noqa: E402

TIMEOUT = 60


class Ours:
    """The functions of banyan.torch, which work with every version of PyTorch."""
    init = {"pg_options": banyan.torch.Options(reconfigure=True)}
    handle = staticmethod(banyan.torch.reconfigure_handle)
    abort = staticmethod(banyan.torch.abort)
    error = staticmethod(banyan.torch.error_state)

    @staticmethod
    def reconfigure(number, handles):
        banyan.torch.reconfigure(number, handles, timeout=TIMEOUT)


class Theirs:
    """PyTorch's functions, from 2.14 on."""
    init = {"enable_reconfigure": True}

    @staticmethod
    def handle():
        return dist._get_reconfigure_handle()

    @staticmethod
    def reconfigure(number, handles):
        assert dist._supports_reconfigure()
        dist._reconfigure(number, handles, timeout=timedelta(seconds=TIMEOUT)).wait()

    @staticmethod
    def abort():
        dist.get_backend_impl(None, torch.device("cpu")).abort()

    @staticmethod
    def error():
        return dist.get_backend_impl(None, torch.device("cpu")).get_error().name.lower().replace("comm_", "communication ")


class Process:
    """One process of a scenario: `id` of `n`. Every scenario has a store and a group of its own."""

    def __init__(self, api, folder):
        self.api = api
        self.id, self.n = int(os.environ["BANYAN_RANK"]), int(os.environ["BANYAN_SIZE"])
        os.environ.pop("BANYAN_KEY", None)  # The store has one.
        self.store = dist.FileStore(os.path.join(folder, "store"), self.n)
        dist.init_process_group("banyan", store=self.store, rank=self.id, world_size=self.n,
                                timeout=timedelta(seconds=TIMEOUT), **api.init)
        self.handles = self.exchange("handle", api.handle())

    def exchange(self, what, value="here"):
        """Returns the values of all processes; so it waits for all."""
        self.store.set(f"{what} {self.id}", value)
        return [self.store.get(f"{what} {other}").decode() for other in range(self.n)]

    def form(self, number, ids):
        """Forms a group of these processes, and checks that it consists of them."""
        self.api.reconfigure(number, [self.handles[i] for i in ids])
        self.check(ids)

    def check(self, ids):
        assert dist.get_world_size() == len(ids) and ids[dist.get_rank()] == self.id
        group = dist.group.WORLD
        assert (group.rank(), group.size()) == (dist.get_rank(), dist.get_world_size())
        value = torch.full((1000,), float(self.id))
        dist.all_reduce(value)
        assert (value == sum(ids)).all(), value
        value.fill_(self.id)
        dist.broadcast(value, len(ids) - 1)
        assert (value == ids[-1]).all(), value
        gathered = [torch.empty(1, dtype=torch.int64) for _ in ids]
        dist.all_gather(gathered, torch.tensor([self.id]))
        assert [int(value) for value in gathered] == ids, gathered

    @property
    def every(self):
        return list(range(self.n))

    def end(self):
        self.exchange("end")
        dist.destroy_process_group()


def first(self):
    self.form(100, self.every)


def reductions(self):
    self.form(200, self.every)
    for op, expected in ((dist.ReduceOp.MAX, self.n - 1), (dist.ReduceOp.AVG, (self.n - 1) / 2)):
        value = torch.full((4,), float(self.id))
        dist.all_reduce(value, op=op)
        assert (value == expected).all(), value


def pairs(self):
    self.form(300, self.every)
    value = torch.zeros(4)
    calls = [dist.isend(torch.full((4,), self.id + 1.0), (self.id + 1) % self.n),
             dist.irecv(value, (self.id - 1) % self.n)]
    for call in calls:
        call.wait()
    assert (value == (self.id - 1) % self.n + 1).all(), value


def without(self, number, left_out):
    self.form(number, self.every)
    if self.id != left_out:
        self.form(number + 1, [i for i in self.every if i != left_out])


def without_last(self):
    without(self, 400, self.n - 1)


def without_middle(self):
    without(self, 500, self.n // 2)


def shrink_and_grow(self):
    self.form(600 + self.id, [self.id])
    self.form(650, self.every)
    self.form(660 + self.id, [self.id])


def one_to_all(self):
    self.form(700 + self.id, [self.id])
    self.form(750, self.every)


def again(self):
    """The same processes in the same order, and in another one. Groups made from the one before end."""
    self.form(800, self.every)
    part = dist.new_group(self.every)
    dist.all_reduce(torch.ones(1), group=part)
    self.form(801, self.every)
    try:
        dist.all_reduce(torch.ones(1), group=part)
        raise AssertionError("a group of the membership before goes on")
    except RuntimeError as error:
        assert "left" in str(error), error
    self.form(802, self.every[::-1])
    value = torch.ones(1)
    dist.all_reduce(value, group=dist.new_group(self.every))
    assert value.item() == self.n


def late(self):
    if self.id < self.n // 2:
        self.form(900, self.every[:self.n // 2])
    self.form(901, self.every)


def merge(self):
    half = self.n // 2
    self.form(1000 + (self.id >= half), self.every[:half] if self.id < half else self.every[half:])
    self.form(1002, self.every)


def after_abort(self):
    self.form(1100, self.every)
    self.exchange("formed")
    self.api.abort()
    assert self.api.error() == "success"
    try:
        dist.all_reduce(torch.ones(1))
        raise AssertionError("a group that was aborted goes on")
    except RuntimeError as error:
        assert "abort" in str(error), error
    self.exchange("aborted")
    self.form(1101, self.every)


def reused(self):
    self.form(1200 + self.id, [self.id])
    try:
        self.api.reconfigure(1200 + self.id, [self.handles[self.id]])
        raise AssertionError("a name was used twice")
    except RuntimeError as error:
        assert "already used" in str(error), error
    self.check([self.id])


SCENARIOS = (first, reductions, pairs, without_last, without_middle, shrink_and_grow, one_to_all, again, late, merge,
             after_abort, reused)


def scenarios(api, folder):
    for scenario in SCENARIOS:
        place = os.path.join(folder, scenario.__name__)
        os.makedirs(place, exist_ok=True)
        try:
            self = Process(api, place)
            scenario(self)
            self.end()
        except BaseException:
            print(f"{scenario.__name__}:", file=sys.stderr)
            raise


def unformed(folder):
    """Before the first reconfigure, calls say what is missing."""
    self = Process(Ours, folder)
    assert banyan.torch.supports_reconfigure()
    for call in (lambda: dist.all_reduce(torch.ones(1)), lambda: dist.new_group([0, 1])):
        try:
            call()
            raise AssertionError("a group without members works")
        except RuntimeError as error:
            assert "no members yet" in str(error), error
    for handles in ([self.handles[0], "no handle"], [self.handles[1 - self.id]]):
        try:
            self.api.reconfigure(1 + len(handles), handles)
            raise AssertionError("wrong handles were taken")
        except banyan.RequestError:
            pass
    self.form(5, self.every)
    self.end()


def fixed():
    dist.init_process_group("banyan")
    assert not banyan.torch.supports_reconfigure()
    try:
        banyan.torch.reconfigure_handle()
        raise AssertionError("a group of fixed ranks has a handle")
    except RuntimeError as error:
        assert "Options(reconfigure=True)" in str(error), error
    dist.barrier()
    dist.destroy_process_group()


def late_calls(folder):
    """A call that times out, after which the group is reconfigured."""
    self = Process(Ours, folder)
    self.form(1, self.every)
    if self.id == 0:
        banyan.torch.communicator().set_deadline(0.5)
        try:
            dist.group.WORLD.allreduce([torch.ones(1)], options_with(0.5)).wait()
            raise AssertionError("nobody was late")
        except banyan.Timeout:
            assert banyan.torch.error_state() == "timeout"
    self.exchange("over")
    self.form(2, self.every)
    assert banyan.torch.error_state() == "success"
    self.end()


def options_with(seconds):
    options = dist.AllreduceOptions()
    options.timeout = timedelta(seconds=seconds)
    return options


def train(self, steps, dies_at=None):
    """Steps of DDP whose gradient is the average of the ids of its processes."""
    model = DistributedDataParallel(torch.nn.Linear(64, 64, bias=False))
    for step in range(steps):
        if step == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        model.zero_grad()
        (self.id * model(torch.ones(1, 64)).sum()).backward()
    return model


def check_average(self, model, ids):
    gradient = model.module.weight.grad
    assert torch.allclose(gradient, torch.full_like(gradient, sum(ids) / len(ids))), gradient


def ddp(folder):
    """Process 1 dies while all train; DDP is made again over those that are left, also after a change without a death."""
    self = Process(Ours, folder)
    self.form(1, self.every)
    try:
        train(self, 10 ** 6, dies_at=20 if self.id == 1 else None)
        raise AssertionError("a death was missed")
    except RuntimeError:
        assert banyan.torch.error_state() == "communication error"
    left = [i for i in self.every if i != 1]
    self.form(2, left)
    model = train(self, 5)
    check_average(self, model, left)
    now = left[:1] if self.id == left[0] else left[1:]
    self.form(3 + (self.id == left[0]), now)
    model.zero_grad()  # After a change between two steps, DDP itself goes on with the new members.
    (self.id * model(torch.ones(1, 64)).sum()).backward()
    check_average(self, model, now)
    dist.destroy_process_group()


class Reconfigure(unittest.TestCase):
    def scenarios(self, api):
        for size in (2, 3, 4, 8):
            with tempfile.TemporaryDirectory() as folder:
                begun = time.monotonic()
                ranks.run(size, scenarios, api, folder)
                print(f"{len(SCENARIOS)} scenarios of {api.__name__} with {size} processes: "
                      f"{time.monotonic() - begun:.1f} s", file=sys.stderr)

    def test_scenarios(self):
        self.scenarios(Ours)

    @unittest.skipUnless(hasattr(dist, "_reconfigure"), f"PyTorch {torch.__version__} has no functions of its own")
    def test_scenarios_of_pytorchs_functions(self):
        self.scenarios(Theirs)

    def test_unformed(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(2, unformed, folder)

    def test_fixed(self):
        ranks.run(2, fixed)

    def test_timeout(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(2, late_calls, folder)

    def test_ddp(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(4, ddp, folder, expected=[0, -signal.SIGKILL, 0, 0])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
