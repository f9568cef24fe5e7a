#!/usr/bin/env python3
"""The package banyan: every collective with its right result, NumPy and other buffers, requests, names, sparse
rows, and errors that name rank and host."""
import array
import ctypes
import json
import multiprocessing
import os
import platform
import re
import signal
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

import ranks

ranks.need("numpy")
import numpy  # noqa: E402

import banyan  # noqa: E402
from banyan import library  # noqa: E402

HEADERS = Path(__file__).resolve().parents[2] / "include" / "banyan"


def signals(folder):
    def run():
        values = numpy.ones(1000)
        comm.allreduce(values)
        assert values.tolist() == [2] * 1000

    def start():
        values = numpy.ones(1000)
        comm.start.allreduce(values).wait()
        assert values.tolist() == [2] * 1000

    def sparse():
        result = comm.sparse_allreduce(numpy.arange(5), numpy.ones((5, 3)), 5)
        assert result.values.tolist() == [[2] * 3] * 5

    def join():
        with banyan.Communicator() as joined:
            assert joined.size == 2

    def split():
        with comm.split(0) as part:
            assert part.size == 2

    def duplicate():
        with comm.duplicate() as other:
            assert other.size == 2

    def sync():
        assert kept.sync(comm).version == 0

    rank = int(os.environ["BANYAN_RANK"])

    def check(call):
        place = os.path.join(folder, call.__name__)
        os.makedirs(place, exist_ok=True)
        ranks.check_signals(rank, place, call)

    kept = banyan.State(step=0)
    with banyan.Communicator() as comm:
        for call in (run, start, sparse, split, duplicate, sync):
            check(call)
            comm.barrier()
    check(join)
    if rank == 1:
        Path(folder, "joined").touch()
    while not Path(folder, "joined").exists():  # The call that the exception has left needs this process.
        time.sleep(0.005)


def member_signals(folder):
    rank, names = int(os.environ["BANYAN_RANK"]), iter("abcd")

    def form():
        comm = member.reconfigure(next(names), handles, 60)
        assert comm.size == 2

    def allreduce():
        values = numpy.ones(1000)
        assert member.allreduce(comm, values, op="sum") == 2 and values.tolist() == [2] * 1000

    with banyan.Member() as member:
        Path(folder, f"{rank}.new").write_text(member.handle)
        Path(folder, f"{rank}.new").rename(Path(folder, str(rank)))
        while not Path(folder, str(1 - rank)).exists():
            time.sleep(0.005)
        handles = [Path(folder, str(r)).read_text() for r in range(2)]
        os.makedirs(os.path.join(folder, "form"), exist_ok=True)
        ranks.check_signals(rank, os.path.join(folder, "form"), form)
        comm = member.reconfigure("last", handles, 60)
        os.makedirs(os.path.join(folder, "allreduce"), exist_ok=True)
        ranks.check_signals(rank, os.path.join(folder, "allreduce"), allreduce)
        if rank == 1:
            Path(folder, "summed").touch()
        while not Path(folder, "summed").exists():  # The call that the exception has left needs this process.
            time.sleep(0.005)


def interrupted_alone(folder):
    """The other rank never comes. Closing does not wait for the call either."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if int(os.environ["BANYAN_RANK"]) == 1:
        while not os.path.exists(os.path.join(folder, "interrupted")):
            time.sleep(0.01)
        return
    with banyan.Member() as member:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            member.start(200)
            raise AssertionError("SIGINT has not raised KeyboardInterrupt")
        except KeyboardInterrupt:
            pass
    Path(folder, "interrupted").touch()


def elastic(folder):
    rank, size = int(os.environ["BANYAN_RANK"]), int(os.environ["BANYAN_SIZE"])
    with banyan.Member() as member:
        place = Path(folder) / str(rank)
        place.with_suffix(".new").write_text(member.handle)
        place.with_suffix(".new").rename(place)
        places = [Path(folder) / str(r) for r in range(size)]
        while not all(p.exists() for p in places):
            time.sleep(0.005)
        handles = [p.read_text() for p in places]
        first = comm = member.reconfigure("all", handles, 30)
        assert (comm.rank, comm.size) == (rank, size)
        number = numpy.array([rank + 1.0])
        assert comm.allreduce(number, op="sum")[0] == size * (size + 1) / 2
        try:
            member.reconfigure("all", handles, 30)
            raise AssertionError("a name was used twice")
        except banyan.RequestError as error:
            assert "already used" in str(error)
        try:
            member.reconfigure("wrong", handles[:1] + ["no handle"], 30)
            raise AssertionError("a wrong handle was taken")
        except banyan.RequestError as error:
            assert '"no handle" is not the handle of a process' in str(error)
        comm.allreduce(numpy.ones(1))
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            while True:
                comm.allreduce(numpy.ones(1))
        except banyan.PeerDead as error:
            assert error.rank == 1
        comm = member.reconfigure("left", [h for r, h in enumerate(handles) if r != 1], 30)
        assert comm.size == size - 1
        assert all(call.communicator == first.number == 0 and call.call < first.calls and call.collective == "allreduce" and
                   call.outcomes[1] == "absent" and call.ranks[1] is None for call in member.interrupted())
        number[0] = rank
        assert comm.allreduce(number, op="sum")[0] == size * (size - 1) / 2 - 1
        number[0] = rank
        assert member.allreduce(comm, number, op="sum") == size - 1 and number[0] == size * (size - 1) / 2 - 1
        try:
            first.allreduce(number)
            raise AssertionError("the communicator before goes on")
        except banyan.PeerDead:
            pass
    try:
        member.handle
        raise AssertionError("a closed member has a handle")
    except banyan.RequestError:
        pass


def state():
    with banyan.Communicator() as comm:
        rank, n = comm.rank, comm.size
        weights, flags = numpy.full((3, 5), rank, numpy.float32), numpy.zeros(4, numpy.int16)
        kept = banyan.State(weights=weights, flags=flags, step=0, more={"m": {1: numpy.zeros(2)}, "rate": 0.5})
        assert kept.version == -1
        assert kept.sync(comm)[:3] == (0, 1, n - 1) and (weights == 0).all() and kept.version == 0
        if rank == 1:  # it alone completes a step
            weights += 7
            kept.step += 1
            kept.flags[2] = -3
            kept.more["m"][1][0] = 4
            kept.more["rate"], kept.more["new"] = (0.25, 1), [1, {"a": None}]
            assert kept.commit() == 1
        weights -= 1
        kept.step = 100
        done = kept.sync(comm)
        assert done[:3] == (1, 1, n - 1) and (done.bytes > 0) == (rank != 1)
        assert (weights == 7).all() and kept.weights is weights and kept.step == 1 and flags.tolist() == [0, 0, -3, 0]
        assert kept.more["m"][1].tolist() == [4, 0] and kept.more["new"] == [1, {"a": None}], kept.more
        assert list(kept.more["rate"]) == [0.25, 1]
        weights[:] = 9
        kept.more["extra"] = "soon gone"
        kept.restore()
        assert (weights == 7).all() and "extra" not in kept.more
        if rank == 0:
            kept.weights = numpy.zeros(7)  # another array
        kept.commit(10)
        try:
            kept.sync(comm)
            raise AssertionError("buffers of other sizes were taken")
        except banyan.Mismatch as error:
            assert 'buffer "weights" has 15 elements of f32 on rank 1' in str(error), error
        for value in (object(), 1j):
            try:
                kept.step = value
                kept.commit()
                raise AssertionError("a value that cannot be kept was taken")
            except banyan.RequestError as error:
                assert "cannot be kept" in str(error)
        for name in ("commit", "_handle", "no name"):
            try:
                kept.add(name, 1)
                raise AssertionError("a wrong name was taken")
            except banyan.RequestError:
                pass
        kept.close()
        kept.close()
        comm.barrier()


def everything(dtype, transport):
    with banyan.Communicator(transport=transport) as comm:
        n, rank, count = comm.size, comm.rank, 1000
        total = n * (n + 1) // 2
        mine = numpy.full(count, rank + 1, dtype)
        result = numpy.empty(count, dtype)
        assert comm.allreduce(mine, result) is result and (result == total).all() and (mine == rank + 1).all()
        comm.allreduce(mine, op="max")
        assert (mine == n).all()
        mine[:] = rank + 1
        comm.reduce(mine, root=n - 1)
        assert (mine == (total if rank == n - 1 else rank + 1)).all()
        mine[:] = rank + 1
        comm.broadcast(mine, root=1)
        assert (mine == 2).all()
        mine[:] = rank + 1
        blocks = numpy.empty(count * n, dtype)
        comm.allgather(mine, blocks)
        assert (blocks.reshape(n, count) == numpy.arange(1, n + 1)[:, None]).all()
        comm.reduce_scatter(blocks, mine)
        assert (mine == n * (rank + 1)).all()
        comm.scatter(blocks if rank == 0 else None, mine)
        assert (mine == rank + 1).all()
        blocks[:] = 0
        comm.gather(mine, blocks if rank == 1 else None, root=1)
        assert rank != 1 or (blocks.reshape(n, count) == numpy.arange(1, n + 1)[:, None]).all()
        other = numpy.repeat(numpy.arange(n) + 10 * rank, 5).astype(dtype)
        got = numpy.empty_like(other)
        comm.alltoall(other, got)
        assert (got == numpy.repeat(10 * numpy.arange(n) + rank, 5)).all()
        counts = [r + 1 for r in range(n)]
        ragged = numpy.empty(sum(counts), dtype)
        comm.allgather(numpy.full(rank + 1, rank, dtype), ragged, counts=counts)
        assert (ragged == numpy.repeat(numpy.arange(n), counts)).all()
        comm.barrier()


def requests():
    with banyan.Communicator() as comm:
        arrays = [numpy.full(5000, comm.rank + i, numpy.float32) for i in range(8)]
        started = [comm.start.allreduce(a, scale=0.5) for a in arrays]
        for i, request in enumerate(started):
            result = request.wait()
            assert result is arrays[i] and (result == 0.5 * (3 + 3 * i)).all()
            assert request.done() and request.wait() is result
        del request, started
        comm.start.allreduce(arrays[0])  # No code waits for the call, and it still completes.
        if comm.rank == 0:
            comm.send(b"hello", to=2, tag=7)
        if comm.rank == 2:
            received = bytearray(5)
            assert comm.recv_any(received, tag=7) == 0 and received == b"hello"
        while not comm.start.barrier().done():
            break
        numbers = array.array("d", [comm.rank] * 3)
        comm.allreduce(numbers)
        assert list(numbers) == [3, 3, 3]
        shared = comm.empty((10, 10))
        shared[:] = 1
        assert (comm.allreduce(shared) == 3).all()
        half = numpy.full(4, 0x3F80, numpy.uint16)  # The value is 1 as bfloat16.
        comm.allreduce(half, dtype="bfloat16")
        assert (half == 0x4040).all()
        empty = numpy.empty(0, numpy.float32)
        comm.allreduce(empty)


def names():
    with banyan.Communicator() as comm:
        comm.expect(3)
        for step in range(3):
            comm.step(step)
            order = [0, 1, 2] if comm.rank % 2 else [2, 0, 1]
            arrays = {i: numpy.full(100, i, numpy.float32) for i in order}
            waiting = [comm.named(f"layer{i}").allreduce(arrays[i]) for i in order]
            for request in waiting:
                request.wait()
            assert all((arrays[i] == i * comm.size).all() for i in order)
            with comm.together() as together:
                waiting = [together.named(f"layer{i}").allreduce(arrays[i]) for i in reversed(order)]
                try:
                    waiting[0].wait()
                except banyan.RequestError as error:
                    assert "together" in str(error)
                else:
                    raise AssertionError("an operation was waited for before it was submitted")
            for request in waiting:
                request.wait()
            assert all((arrays[i] == i * comm.size ** 2).all() for i in order)
        arrays = [numpy.ones(1, numpy.float32) for _ in range(3)]
        requests = []
        try:
            with comm.together() as together:
                for summed in arrays[:2]:
                    requests.append(together.named("once").allreduce(summed))
        except banyan.RequestError as error:
            assert '"once"' in str(error), error
        else:
            raise AssertionError("a name was used twice")
        try:
            with comm.together() as together:
                requests.append(together.named("never").allreduce(arrays[2]))
                raise KeyError("never")
        except KeyError:
            pass
        requests[0].wait()
        assert [int(summed[0]) for summed in arrays] == [comm.size, 1, 1], arrays
        for request in requests[1:]:
            try:
                request.wait()
            except (banyan.RequestError, KeyError):
                continue
            raise AssertionError("an operation that was not submitted ended well")


def sparse():
    with banyan.Communicator() as comm:
        rows = numpy.array([5, comm.rank, 5], numpy.int64)
        values = numpy.ones((3, 4), numpy.float32)
        result = comm.sparse_allreduce(rows, values, height=10)
        assert result.rows.tolist() == [0, 1, 2, 5] and result.values[:, 0].tolist() == [1, 1, 1, 6], result
        every = comm.start.sparse_allgather(rows, values, height=10).wait()
        assert every.counts == (3, 3, 3) and every.rows.tolist() == [5, 0, 5, 5, 1, 5, 5, 2, 5]
        one, none = numpy.ones((1, 4), numpy.float32), numpy.empty((0, 4), numpy.float32)
        tables = [(rows, values, 10), (numpy.empty(0, numpy.int64), none, 3), (rows[1:2], 2 * one[:, :2], 4)]
        first, second, third = comm.sparse_allreduce_tables(tables, op="average")
        assert first.rows.tolist() == [0, 1, 2, 5] and first.values[3, 0] == 2, first
        assert second.rows.tolist() == [] and third.rows.tolist() == [0, 1, 2] and third.way == first.way, third
        assert third.values.shape == (3, 2) and third.values.sum() == 4, third
        try:
            comm.sparse_allreduce(numpy.array([10]), numpy.ones((1, 4), numpy.float32), height=10)
        except banyan.RequestError as error:
            assert "10" in str(error)
        else:
            raise AssertionError("a row that is out of range was taken")
        comm.barrier()  # The job continues.


def groups():
    with banyan.Communicator() as comm:
        value = numpy.array([comm.rank], numpy.int32)
        part = comm.split(comm.rank % 2)
        assert part.allreduce(value.copy())[0] == sum(r for r in range(comm.size) if r % 2 == comm.rank % 2)
        if comm.rank < 2:
            assert comm.subset([1, 0], 3).allreduce(value.copy())[0] == 1
        assert comm.split(-1) is None and comm.duplicate().allreduce(value.copy())[0] == 6
        assert len(comm.hosts) == 4 and comm.local_size == 4 and comm.local_rank == comm.rank
        comm.set_plan("ring")
        comm.set_deadline(20)
        assert comm.allreduce(value)[0] == 6 and comm.counters()["calls"] > 3


def forgotten():
    """A rank that closes its communicator and drops a part of it has left, and the others continue."""
    with banyan.Communicator() as comm:
        comm.duplicate()
        part, rest = comm.split(0), comm.subset([1, 2], 1) if comm.rank else None
        pages = part.empty((4,))
        del part
        if comm.rank:
            time.sleep(0.3)  # Rank 0 has left by now.
            assert rest.allreduce(numpy.ones(1))[0] == 2
        pages[:] = 1


def death():
    comm = banyan.Communicator()
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.allreduce(numpy.ones(10, numpy.float32))
    except banyan.PeerDead as error:
        assert error.rank == 1 and error.host and "rank 1" in str(error)
    else:
        raise AssertionError("a dead rank was not missed")
    comm.close()


def late():
    comm = banyan.Communicator()
    try:
        if comm.rank == 0:
            comm.allreduce(numpy.ones(10, numpy.float32), deadline=0.2)
        else:
            time.sleep(4)  # By then rank 0 has given up, however slow it is.
            comm.barrier()
    except banyan.Timeout as error:
        assert comm.rank == 1 or error.rank == 1, error
    else:
        raise AssertionError("no rank was late")
    comm.close()


def refused():
    with banyan.Communicator() as comm:
        good = numpy.ones((4, 4), numpy.float32)
        wrong = [
            ("one piece", lambda: comm.allreduce(good[:, 1])),
            ("type", lambda: comm.allreduce(numpy.ones(4, numpy.complex64))),
            ("read-only", lambda: comm.allreduce(numpy.broadcast_to(numpy.float32(1), 1))),
            ("no operation", lambda: comm.allreduce(good, op="plus")),
            ("differ", lambda: comm.allreduce(good, numpy.ones(4, numpy.float32))),
            ("allreduce(send): it is of type int: give an array", lambda: comm.allreduce(3)),
            ("allgather(recv): it is missing: give an array", lambda: comm.allgather(good)),
            ("not defined for f32", lambda: comm.allreduce(good, op="and")),
            ("no rank 9", lambda: comm.broadcast(good, root=9)),
            ("needed", lambda: comm.allgather(good, good)),
        ]
        for text, call in wrong:
            try:
                call()
            except banyan.RequestError as error:
                assert text in str(error), f"{error} does not contain {text!r}"
            else:
                raise AssertionError(f"no error about {text!r}")
        comm.barrier()
        comm.close()
        try:
            comm.barrier()
        except banyan.RequestError as error:
            assert "closed" in str(error)


def known_root(of_parent, told):
    """The fingerprint in the address is that of the process that rank 0 is; a child of fork() has another one."""
    os.environ.update(BANYAN_ENCRYPT="always", BANYAN_JOIN_DEADLINE="30")
    root, own = os.environ["BANYAN_ROOT"], library.root_fingerprint()
    assert own == library.root_fingerprint() and len(own) == 64 and own != of_parent
    if os.environ["BANYAN_RANK"] == "0":
        told.put(own)
    else:
        try:
            banyan.Communicator(root=f"{root}#{of_parent}")
            raise AssertionError("another process was taken for rank 0")
        except banyan.Error as error:
            assert "another process answers there" in str(error), error
        own = told.get()
    with banyan.Communicator(root=f"{root}#{own}") as comm:
        comm.barrier()


def options(timeline):
    """Plan, topology and timeline are given to one job of three hosts by name."""
    host = f"h{os.environ['BANYAN_RANK']}"
    with banyan.Communicator(host=host, topology="star:3,nic=1g", timeline=timeline) as comm:
        ones = numpy.ones(1000, numpy.float32)
        assert (comm.allreduce(ones) == 3).all() and comm.hosts == ["h0", "h1", "h2"]
        if comm.rank == 0:
            comm.propose_plan("ring")
        # All ranks end after the same call: one may have switched before the others reach the call with the new plan.
        switched, until = 0, time.monotonic() + 30
        while switched < 3:
            switched = comm.allreduce(numpy.float32([comm.counters()["plan_switches"]]))[0]
            assert time.monotonic() < until
        assert "banyan_" in comm.metrics()
    try:
        banyan.Communicator(host=host, topology="star:nonsense")
    except banyan.Error as error:
        assert "nonsense" in str(error), error
    else:
        raise AssertionError("a topology that makes no sense was taken")


def plans(path):
    """The job reports the plan in use, its source, and its owner."""
    with banyan.Communicator() as comm:
        assert (comm.plan.name, comm.plan.source, comm.plan.supplied) == ("default", "built-in", False), comm.plan
        small, large = comm.plan_for(8), comm.plan
        assert small.part and large.part and small.up_to < 2**30 and large.up_to is None and small.bound is None, small
        assert repr(comm) == f"<banyan.Communicator rank {comm.rank} of 3, plan default (built-in)>", repr(comm)
        comm.set_plan("ring")
        assert (comm.plan.name, comm.plan.source, comm.plan.supplied) == ("ring", "built-in", True), comm.plan
        assert comm.plan.part == "" and comm.plan.version != large.version
        assert repr(comm).endswith(", plan ring (built-in, supplied by the user)>"), repr(comm)
        comm.set_plan(path)
        assert (comm.plan.name, comm.plan.source, comm.plan.bound) == ("mine", "file", 2e9), comm.plan
        assert comm.plan_for(2**20, "allgather").bound is None, comm.plan_for(2**20, "allgather")
        with open(path, encoding="utf-8") as file:
            comm.set_plan(file.read())
        assert (comm.plan.name, comm.plan.source, comm.plan.throughput) == ("mine", "json", 1e9), comm.plan
        comm.set_plan(None)
        assert comm.plan == large
    assert repr(comm).endswith(", closed>"), repr(comm)
    host = f"h{os.environ['BANYAN_RANK']}"
    with banyan.Communicator(host=host, topology="star:3,nic=1g") as comm:
        assert (comm.plan.source, comm.plan.supplied) == ("topology", False) and comm.plan.bound, comm.plan
        assert comm.plan_for(2**20, "broadcast").bound > 0.99e9 > comm.plan.bound, comm.plan_for(2**20, "broadcast")


def timelines(path):
    with banyan.Communicator(plan="ring") as comm:
        comm.start_timeline(path)
        comm.allreduce(numpy.ones(10, numpy.float32))
        comm.barrier()
        if comm.rank == 0:
            comm.stop_timeline()


def members(header, name):
    """Returns the members of a struct in the header: name and bytes."""
    text = re.sub(r"/\*.*?\*/", "", (HEADERS / header).read_text(encoding="utf-8"), flags=re.DOTALL)
    body = re.search(rf"struct {name} {{(.*?)}};", text, re.DOTALL).group(1)
    sizes = {"int": 4, "uint32_t": 4, "bool": 1, "double": 8, "size_t": 8, "uint64_t": 8}
    for declaration in filter(None, (line.strip() for line in body.split(";"))):
        kind, names = re.match(r"(?:const )?((?:enum |struct )?\w+) (.*)", declaration, re.DOTALL).groups()
        for one in names.split(","):
            size = 8 if "*" in one else 4 if kind.startswith("enum ") else sizes[kind]
            yield one.strip(" *\n"), size


class Package(unittest.TestCase):
    def test_structs(self):
        """Python has all members of C's structs in their order."""
        for header, name, ours in (("comm.h", "banyan_options", library.Options), ("comm.h", "banyan_counters", library.Counters),
                                   ("collectives.h", "banyan_call", library.Call), ("sparse.h", "banyan_sparse", library.Sparse),
                                   ("sparse.h", "banyan_sparse_call", library.SparseCall),
                                   ("submit.h", "banyan_submission", library.Submission),
                                   ("interrupted.h", "banyan_interrupted", library.Interrupted)):
            mine = [(field.rstrip("_"), ctypes.sizeof(kind)) for field, kind in ours._fields_]
            self.assertEqual(mine, list(members(header, name)), name)

    def test_options(self):
        with tempfile.TemporaryDirectory() as folder:
            for function in (options, timelines):
                path = os.path.join(folder, function.__name__)
                ranks.run(3, function, path)
                with open(path, encoding="utf-8") as file:
                    self.assertIn("allreduce", json.dumps(json.load(file)))

    def test_everything(self):
        for dtype in ("float32", "float64", "int32", "int64", "float16"):
            with self.subTest(dtype):
                ranks.run(3, everything, dtype, "tcp" if dtype == "float64" else "auto")

    def test_plans(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"format": "banyan-plan 1", "name": "mine", "ranks": 3, "throughput": 1e9, "bound": 2e9,
                           "trees": [{"share": 1, "root": "0", "up": {"1": "0", "2": "1"}}]}, file)
            ranks.run(3, plans, path)

    def test_requests(self):
        ranks.run(3, requests)

    def test_names(self):
        ranks.run(3, names)

    def test_sparse(self):
        ranks.run(3, sparse)

    def test_groups(self):
        ranks.run(4, groups)

    def test_forgotten(self):
        ranks.run(3, forgotten)

    def test_signals(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(2, signals, folder)

    def test_member_signals(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(2, member_signals, folder)

    def test_interrupted_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(2, interrupted_alone, folder)

    def test_elastic(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(4, elastic, folder, expected=[0, -signal.SIGKILL, 0, 0])

    def test_known_root(self):
        ranks.run(2, known_root, library.root_fingerprint(), multiprocessing.get_context("fork").SimpleQueue())

    def test_state(self):
        ranks.run(3, state)

    def test_death(self):
        ranks.run(3, death, expected=[0, -signal.SIGKILL, 0])

    def test_late(self):
        ranks.run(2, late)

    def test_refused(self):
        ranks.run(2, refused)

    def test_where_the_library_is_looked_for(self):
        """The library is found beside the package and in the system's folders, not in some folder above it."""
        debian = f"lib/{platform.machine()}-linux-gnu"
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ):
            root, name = Path(folder), library.NAME
            os.environ.pop("BANYAN_LIBRARY", None)
            for place in ("lib", debian, f"opt/{debian}", "minimal/lib64"):
                (root / place).mkdir(parents=True, exist_ok=True)
                (root / place / name).touch()
            beside, minimal = (str(root / place / name) for place in (f"opt/{debian}", "minimal/lib64"))
            for package, wanted in (("opt/lib/python3.11/dist-packages/banyan", [beside, name]),
                                    ("opt/local/lib/python3.11/dist-packages/banyan", [beside, name]),
                                    ("minimal/lib/python3.11/dist-packages/banyan", [minimal, name]),
                                    ("opt/home/lib/python3.11/site-packages/banyan", [name]),
                                    ("opt/src/bindings/python/banyan", [name])):
                self.assertEqual(list(library._candidates(root / package)), wanted)
            wheel = root / "opt/lib/python3.11/site-packages/banyan"
            (wheel / "lib").mkdir(parents=True)
            (wheel / "lib" / name).touch()
            self.assertEqual(list(library._candidates(wheel)), [str(wheel / "lib" / name)])

    def test_remedy(self):
        """What is missing is named, whatever else could not be loaded."""
        for reason, named in (("libssl.so.3: cannot open shared object file", "libssl3"),
                              ("libc.so.6: version `GLIBC_2.38' not found", "newer glibc"), ("no such file", "make install"),
                              ("no such file", "BANYAN_LIBRARY")):
            self.assertIn(named, library._remedy(["another", reason]))

    def test_alone(self):
        ranks.run(1, everything_alone)


def everything_alone():
    with banyan.Communicator() as comm:
        assert (comm.size, comm.rank) == (1, 0) and comm.allreduce(numpy.ones(3))[0] == 1


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
