/* threads: several threads of each rank make collective calls at the same time, each on a communicator of its own,
 * whose counterparts in Banyan they therefore create at the same time. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, ROUNDS = 10, COUNT = 2000 };

static int rank, ranks;

static void *call(void *argument) {
  MPI_Comm *comm = argument;
  double *values = malloc(COUNT * sizeof *values), *gathered = malloc((size_t)ranks * COUNT * sizeof *gathered);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < COUNT; i++) values[i] = rank + round;
    MPI_Allreduce(MPI_IN_PLACE, values, COUNT, MPI_DOUBLE, MPI_SUM, *comm);
    if (values[COUNT - 1] != ranks * (ranks - 1) / 2 + ranks * round) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Bcast(values, COUNT, MPI_DOUBLE, round % ranks, *comm);
    values[0] = rank;
    MPI_Allgather(values, COUNT, MPI_DOUBLE, gathered, COUNT, MPI_DOUBLE, *comm);
    for (int r = 0; r < ranks; r++)
      if (gathered[r * COUNT] != r) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(*comm);
  }
  MPI_Comm_free(comm);
  free(values);
  free(gathered);
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS];
  MPI_Comm comms[THREADS];
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (int i = 0; i < THREADS; i++) {
    if (provided < MPI_THREAD_MULTIPLE) /* then one after the other */
      call(&comms[i]);
    else if (pthread_create(&threads[i], NULL, call, &comms[i]))
      MPI_Abort(MPI_COMM_WORLD, 1);
  }
  for (int i = 0; provided >= MPI_THREAD_MULTIPLE && i < THREADS; i++) pthread_join(threads[i], NULL);
  if (rank == 0) puts(provided >= MPI_THREAD_MULTIPLE ? "threads are right" : "calls are right, one after the other");
  MPI_Finalize();
  return 0;
}
