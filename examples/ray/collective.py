"""Banyan as a backend of ray.util.collective: four actors sum arrays with Ray's own functions.

    python3 examples/ray/collective.py

BanyanGroup implements all of Ray's calls for NumPy arrays, and for tensors in host memory of types that NumPy has. Copy it into a program of your own, and
register it in the driver and in each actor."""
import json
import time

import numpy
import ray
import ray.experimental.internal_kv as store
from ray.util import collective
from ray.util.collective.collective_group.base_collective_group import BaseGroup
from ray.util.collective.types import ReduceOp

import banyan
from banyan.library import key_create, root_choose

OPERATIONS = {ReduceOp.SUM: "sum", ReduceOp.PRODUCT: "prod", ReduceOp.MIN: "min", ReduceOp.MAX: "max"}


class BanyanGroup(BaseGroup):
    """A group of Ray over a communicator of Banyan. Rank 0 publishes its address and a new key in Ray's store, which every
    program of the Ray cluster can read. Ray passes the tensors of a rank as a list, which has one element on CPUs."""

    def __init__(self, world_size, rank, group_name, timeout=60):
        super().__init__(world_size, rank, group_name)
        entry = f"banyan_collective_{group_name}"
        if rank == 0:
            meeting = {"root": root_choose(), "key": key_create()}
            store._internal_kv_put(entry, json.dumps(meeting), overwrite=True)
        else:
            meeting = self._wait(entry, time.monotonic() + timeout)
        self.comm = banyan.Communicator(rank=rank, size=world_size, deadline=timeout, **meeting)
        self.comm.barrier()
        if rank == 0:
            store._internal_kv_del(entry)  # All ranks have read it.

    @staticmethod
    def _wait(entry, end):
        while (found := store._internal_kv_get(entry)) is None:
            if time.monotonic() > end:
                raise TimeoutError(f"rank 0 has not published {entry}")
            time.sleep(0.05)
        return json.loads(found)

    @classmethod
    def backend(cls):
        return "BANYAN"

    @classmethod
    def check_backend_availability(cls):
        return True

    def destroy_group(self):
        self.comm.close()

    def allreduce(self, tensor, allreduce_options=None):
        self.comm.allreduce(tensor[0], tensor[0], op=OPERATIONS[allreduce_options.reduceOp])

    def barrier(self, barrier_options=None):
        self.comm.barrier()

    def reduce(self, tensor, reduce_options=None):
        self.comm.reduce(tensor[0], tensor[0], reduce_options.root_rank, OPERATIONS[reduce_options.reduceOp])

    def broadcast(self, tensor, broadcast_options=None):
        self.comm.broadcast(tensor[0], broadcast_options.root_rank)

    def allgather(self, tensor_list, tensor, allgather_options=None):
        own = numpy.ascontiguousarray(tensor[0])
        blocks = numpy.empty((self.world_size, *own.shape), own.dtype)
        self.comm.allgather(own, blocks)
        for block, to in zip(blocks, tensor_list[0]):
            numpy.asarray(to)[...] = block

    def reducescatter(self, tensor, tensor_list, reducescatter_options=None):
        blocks = numpy.stack([numpy.asarray(block) for block in tensor_list[0]])
        self.comm.reduce_scatter(blocks, tensor[0], op=OPERATIONS[reducescatter_options.reduceOp])

    def send(self, tensor, send_options):
        self.comm.send(tensor[0], send_options.dst_rank)

    def recv(self, tensor, recv_options):
        self.comm.recv(tensor[0], recv_options.src_rank)


@ray.remote(num_cpus=0.5)
class Worker:
    """An actor that makes every call of ray.util.collective once, and compares the results."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size
        collective.register_collective_backend("BANYAN", BanyanGroup)
        collective.init_collective_group(size, rank, backend="BANYAN", group_name="example")

    def run(self):
        total = self.size * (self.size + 1) / 2
        own = numpy.full((2, 3), self.rank + 1, numpy.float32)
        everywhere = own.copy()
        collective.allreduce(everywhere, "example")
        assert (everywhere == total).all(), everywhere
        largest = own.copy()
        collective.allreduce(largest, "example", ReduceOp.MAX)
        assert (largest == self.size).all(), largest
        at_one = own.copy()
        collective.reduce(at_one, 1, "example")
        assert (at_one == (total if self.rank == 1 else self.rank + 1)).all(), at_one
        of_one = own.copy()
        collective.broadcast(of_one, 1, "example")
        assert (of_one == 2).all(), of_one
        blocks = [numpy.empty_like(own) for _ in range(self.size)]
        collective.allgather(blocks, own, "example")
        assert all((block == rank + 1).all() for rank, block in enumerate(blocks)), blocks
        part = numpy.empty_like(own)
        collective.reducescatter(part, [own * rank for rank in range(self.size)], "example")
        assert (part == total * self.rank).all(), part
        if self.rank == 0:
            collective.send(own, 1, "example")
        elif self.rank == 1:
            collective.recv(part, 0, "example")
            assert (part == 1).all(), part
        collective.barrier("example")
        collective.destroy_collective_group("example")
        return float(everywhere.sum())


def main(size=4):
    ray.init(num_cpus=2, include_dashboard=False)
    workers = [Worker.remote(rank, size) for rank in range(size)]
    sums = ray.get([worker.run.remote() for worker in workers], timeout=120)
    assert sums == [60.0] * size, sums
    print(f"{size} actors have made all calls of ray.util.collective over Banyan")
    ray.shutdown()


if __name__ == "__main__":
    main()
