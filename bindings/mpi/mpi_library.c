#include "mpi_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct mpi_library mpi = {.self = MPI_COMM_NULL};

static void *find(const char *name) {
  void *function = dlsym(RTLD_NEXT, name);
  if (function) return function;
  fprintf(stderr, "banyan mpi: the MPI library has no %s\n", name);
  abort();
}

#define FIND(name) *(void **)&mpi.name = find("PMPI_" #name)

/* Handles of one MPI library are no handles of the other. */
static void check_library(void) {
#ifdef OPEN_MPI
  static const char name[] = "Open MPI", other[] = "MPICH", abi[] = "mpich";
#else
  static const char name[] = "MPICH", other[] = "Open MPI", abi[] = "openmpi";
#endif
  __typeof__(MPI_Get_library_version) *get;
  char version[8192] = ""; /* the larger of their limits */
  int length;
  *(void **)&get = find("MPI_Get_library_version");
  get(version, &length);
  if (!strstr(version, other)) return;
  fprintf(stderr, "banyan mpi: this program is one of %s, not of %s; use `banyan mpirun --abi %s`\n", other, name, abi);
  _exit(1);
}

__attribute__((constructor)) static void find_all(void) {
  check_library();
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
