"""Makes collective calls with mpi4py, of NumPy arrays and of pickled objects."""
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
values = numpy.full(5000, rank + 1, numpy.float32)
comm.Allreduce(MPI.IN_PLACE, values)
assert (values == ranks * (ranks + 1) // 2).all()
blocks = numpy.empty((ranks, 500), numpy.int64)
comm.Allgather(numpy.full(500, rank, numpy.int64), blocks)
assert (blocks == numpy.arange(ranks)[:, None]).all()
block = numpy.empty(300)
comm.Reduce_scatter_block(numpy.arange(300.0 * ranks), block)
assert (block == ranks * numpy.arange(300 * rank, 300 * (rank + 1))).all()
assert comm.bcast([rank] * 5000, root=1) == [1] * 5000
assert comm.allreduce(rank, MPI.MAX) == ranks - 1
half = comm.Split(rank % 2, rank)
assert half.allgather(rank) == list(range(rank % 2, ranks, 2))
half.Free()
comm.Barrier()
if rank == 0:
    print("all sums are right, by", MPI.Get_library_version().split(",")[0].split()[0])
