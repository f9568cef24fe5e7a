/* Times steps of sharded training over Banyan with the loop of the peers; `banyan bench` times single collectives. It
 * is one of the ranks that somebody else has started; the plan is that of any job there. */
#include "peer_common.h"

#include <banyan/banyan.h>

static struct banyan_comm *comm;

static void must(enum banyan_status status) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "peer_banyan: %s\n", banyan_error_text());
  exit(1);
}

static void reduce_scatter(struct peer *peer, float *send, float *recv, size_t count) {
  must(banyan_reduce_scatter(comm, send, recv, count / (size_t)peer->ranks, BANYAN_FLOAT32, BANYAN_SUM));
}

static void allgather(struct peer *peer, float *send, float *recv, size_t count) {
  must(banyan_allgather(comm, send, recv, count / (size_t)peer->ranks, BANYAN_FLOAT32));
}

static void barrier(struct peer *peer) {
  must(banyan_barrier(comm));
}

static void max_to_0(struct peer *peer, double *values, size_t count) {
  must(banyan_allreduce(comm, values, values, count, BANYAN_FLOAT64, BANYAN_MAX));
}

static void sum_to_0(struct peer *peer, double *value) {
  must(banyan_allreduce(comm, value, value, 1, BANYAN_FLOAT64, BANYAN_SUM));
}

int main(int argc, char **argv) {
  struct peer_options options;
  peer_parse_options(&options, argc, argv);
  if (options.collective != PEER_SHARDED) {
    fprintf(stderr, "peer_banyan: use `banyan bench` for single collectives\n");
    return 2;
  }
  must(banyan_comm_create(NULL, &comm));
  struct peer peer = {.impl = "banyan",
                      .rank = banyan_comm_rank(comm),
                      .ranks = banyan_comm_size(comm),
                      .reduce_scatter = reduce_scatter,
                      .allgather = allgather,
                      .barrier = barrier,
                      .max_to_0 = max_to_0,
                      .sum_to_0 = sum_to_0};
  int status = peer_main_loop(&peer, &options);
  banyan_comm_destroy(comm);
  return status;
}
