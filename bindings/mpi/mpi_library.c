#include "mpi_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct mpi_library mpi = {.self = MPI_COMM_NULL};

static void *find(const char *name) {
  void *function = dlsym(RTLD_NEXT, name);
  if (function) return function;
  fprintf(stderr, "banyan: the MPI library has no %s\n", name);
  abort();
}

#define FIND(name) *(void **)&mpi.name = find("PMPI_" #name)

__attribute__((constructor)) static void find_all(void) {
  FIND(Init);
  FIND(Init_thread);
  FIND(Allreduce);
  FIND(Reduce);
  FIND(Bcast);
  FIND(Allgather);
  FIND(Allgatherv);
  FIND(Reduce_scatter);
  FIND(Reduce_scatter_block);
  FIND(Alltoall);
  FIND(Barrier);
}
