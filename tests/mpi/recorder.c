/* recorder: a library for LD_PRELOAD that counts calls as profilers of MPI do, before Banyan or MPI makes them. */
#include <mpi.h>
#include <stdio.h>

#define PUBLIC __attribute__((visibility("default")))

static int calls;

PUBLIC int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  calls++;
  return PMPI_Allreduce(send, recv, count, type, op, comm);
}

PUBLIC int MPI_Finalize(void) {
  printf("%d calls of MPI_Allreduce\n", calls);
  return PMPI_Finalize();
}
