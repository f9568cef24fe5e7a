"""Times the sum of the sparse gradients of many embeddings in PyTorch: one all_reduce after the other, all of them started
together, and banyan.torch.allreduce_sparse_gradients, which needs one exchange. By default 10 tables of 10000 x 64, of
which each rank has 200 rows. Prints the median time on rank 0.

    banyan lab star:4,nic=1g,delay=10ms -- python3 bench/sparse_gradients.py [TABLES [ROWS]]

PYTHONPATH must name bindings/python, and BANYAN_LIBRARY the libbanyan.so to use."""

import statistics
import sys
import time

import torch
import torch.distributed as dist

import banyan.torch

HEIGHT, WIDTH, ROUNDS, WARMUP = 10000, 64, 9, 2


def one_by_one(parameters):
    for parameter in parameters:
        dist.all_reduce(parameter.grad)


def started_together(parameters):
    for work in [dist.all_reduce(parameter.grad, async_op=True) for parameter in parameters]:
        work.wait()


def in_one_exchange(parameters):
    banyan.torch.allreduce_sparse_gradients(parameters, average=False)


def timed(reduce, parameters, rows):
    for parameter in parameters:
        numbers = torch.randperm(HEIGHT)[:rows][None]
        parameter.grad = torch.sparse_coo_tensor(numbers, torch.ones(rows, WIDTH), parameter.shape)
    dist.barrier()
    start = time.perf_counter()
    reduce(parameters)
    return time.perf_counter() - start


def main():
    tables, rows = (int(given) for given in (sys.argv[1:] + ["10", "200"][len(sys.argv) - 1:]))
    dist.init_process_group("banyan")
    torch.manual_seed(dist.get_rank())
    torch.set_num_threads(1)
    parameters = [torch.nn.Parameter(torch.zeros(HEIGHT, WIDTH)) for _ in range(tables)]
    for reduce in (one_by_one, started_together, in_one_exchange):
        times = [timed(reduce, parameters, rows) for _ in range(ROUNDS)][WARMUP:]
        if dist.get_rank() == 0:
            print(f"{tables} tables, {reduce.__name__.replace('_', ' ')}: {1e3 * statistics.median(times):.1f} ms")
    dist.destroy_process_group()


main()
