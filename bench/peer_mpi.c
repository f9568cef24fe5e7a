/* Times collectives of MPI, and is built once with each MPI's compiler wrapper. The algorithm and the transport are
 * chosen by mpirun's parameters and the environment, so that here they are only text to print. */
#include "peer_common.h"

#include <mpi.h>

enum { MOST_RANKS = 4096 };

#ifdef OPEN_MPI
#define IMPL "openmpi"
#define RANK_VARIABLE "OMPI_COMM_WORLD_RANK"
#else
#define IMPL "mpich"
#define RANK_VARIABLE "PMI_RANK"
#endif

static void allreduce(struct peer *peer, const float *send, float *recv, size_t count) {
  MPI_Allreduce(send == recv ? MPI_IN_PLACE : send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* MPI_Reduce_scatter, which has more algorithms than the call for equal blocks. */
static void reduce_scatter(struct peer *peer, float *send, float *recv, size_t count) {
  int counts[MOST_RANKS];
  for (int i = 0; i < peer->ranks; i++) counts[i] = (int)count / peer->ranks;
  MPI_Reduce_scatter(send, recv, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void allgather(struct peer *peer, float *send, float *recv, size_t count) {
  int block = (int)count / peer->ranks;
  MPI_Allgather(send, block, MPI_FLOAT, recv, block, MPI_FLOAT, MPI_COMM_WORLD);
}

static void broadcast(struct peer *peer, float *recv, size_t count) {
  MPI_Bcast(recv, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void alltoall(struct peer *peer, float *send, float *recv, size_t count) {
  int block = (int)count / peer->ranks;
  MPI_Alltoall(send, block, MPI_FLOAT, recv, block, MPI_FLOAT, MPI_COMM_WORLD);
}

static void barrier(struct peer *peer) {
  MPI_Barrier(MPI_COMM_WORLD);
}

static void broadcast_from_0(struct peer *peer, long *value) {
  MPI_Bcast(value, 1, MPI_LONG, 0, MPI_COMM_WORLD);
}

static void to_0(struct peer *peer, double *values, size_t count, MPI_Op op) {
  if (peer->rank == 0)
    MPI_Reduce(MPI_IN_PLACE, values, (int)count, MPI_DOUBLE, op, 0, MPI_COMM_WORLD);
  else
    MPI_Reduce(values, NULL, (int)count, MPI_DOUBLE, op, 0, MPI_COMM_WORLD);
}

static void max_to_0(struct peer *peer, double *values, size_t count) {
  to_0(peer, values, count, MPI_MAX);
}

static void sum_to_0(struct peer *peer, double *value) {
  to_0(peer, value, 1, MPI_SUM);
}

int main(int argc, char **argv) {
  struct peer_options options;
  peer_parse_options(&options, argc, argv);
  const char *rank = getenv(RANK_VARIABLE);
  if (options.pin && rank) peer_pin(atoi(rank));
  struct peer peer = {.impl = IMPL,
                      .allreduce = allreduce,
                      .reduce_scatter = reduce_scatter,
                      .allgather = allgather,
                      .broadcast = broadcast,
                      .alltoall = alltoall,
                      .barrier = barrier,
                      .broadcast_from_0 = broadcast_from_0,
                      .max_to_0 = max_to_0,
                      .sum_to_0 = sum_to_0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &peer.ranks);
  if (peer.ranks > MOST_RANKS) MPI_Abort(MPI_COMM_WORLD, 2);
  int status = peer_main_loop(&peer, &options);
  MPI_Finalize();
  return status;
}
