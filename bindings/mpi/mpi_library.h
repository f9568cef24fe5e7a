/* The functions of the MPI library that this library stands before. All others are called by their PMPI names.
 * Fortran's bindings call MPI functions or PMPI functions, as it happens, so both names are replaced, and these
 * pointers, which are set when this library is loaded, are the only way to the originals. */
#ifndef BY_MPI_LIBRARY_H
#define BY_MPI_LIBRARY_H

#include <mpi.h>

struct mpi_library {
  __typeof__(MPI_Init) *Init;
  __typeof__(MPI_Init_thread) *Init_thread;
  __typeof__(MPI_Allreduce) *Allreduce;
  __typeof__(MPI_Reduce) *Reduce;
  __typeof__(MPI_Bcast) *Bcast;
  __typeof__(MPI_Allgather) *Allgather;
  __typeof__(MPI_Allgatherv) *Allgatherv;
  __typeof__(MPI_Reduce_scatter) *Reduce_scatter;
  __typeof__(MPI_Reduce_scatter_block) *Reduce_scatter_block;
  __typeof__(MPI_Alltoall) *Alltoall;
  __typeof__(MPI_Barrier) *Barrier;
  MPI_Comm self; /* private copy of MPI_COMM_SELF, which returns errors; MPI_COMM_NULL: MPI makes all calls */
};

extern struct mpi_library mpi;

/* Before each function that takes the place of MPI's, and behind it. */
#define BY_MPI_PUBLIC __attribute__((visibility("default")))
#define BY_MPI_ALSO_PMPI(name)                                                                                         \
  extern __typeof__(MPI_##name) PMPI_##name __attribute__((alias("MPI_" #name), visibility("default")));

#endif
