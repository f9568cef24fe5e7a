/* One thing to be timed: a collective, its type, its size and what that means
 * for this rank's buffers. `bytes` counts the largest buffer of the call, so
 * that algorithm bandwidth means the same for all of them:
 *
 *   allreduce reduce broadcast sendrecv   every rank's buffer
 *   reduce_scatter allgather alltoall     all blocks together
 *   gather scatter                        all blocks at the root */
#ifndef BY_CLI_BENCH_CASE_H
#define BY_CLI_BENCH_CASE_H

#include <banyan/banyan.h>

struct by_bench_case {
  enum banyan_collective collective; /* BANYAN_SEND: ping-pong between ranks 0 and 1, 2 and 3, ... */
  enum banyan_dtype dtype;
  enum banyan_op op;
  int root, rank, ranks;
  bool in_place;
  size_t bytes;                  /* as above; whole blocks of whole elements */
  size_t count;                  /* of struct banyan_call */
  size_t send_count, recv_count; /* elements of this rank's buffers; 0: unused */
};

/* "allreduce", ..., "sendrecv". */
enum banyan_status by_bench_parse_collective(const char *name, struct by_bench_case *out) BANYAN_CHECK;
const char *by_bench_collective_name(const struct by_bench_case *c);
/* Whether dtype, op, root and in_place fit the collective. */
enum banyan_status by_bench_check(const struct by_bench_case *c) BANYAN_CHECK;
bool by_bench_reduces(const struct by_bench_case *c);
/* Sets the counts for about so many bytes: as many whole blocks as fit, at least one element in each. */
void by_bench_resize(struct by_bench_case *c, size_t bytes);
/* The rank this one plays ping-pong with; -1: nobody, it looks on. */
int by_bench_peer(const struct by_bench_case *c);
/* Bus bandwidth = this times algorithm bandwidth, as nccl-tests define it. */
double by_bench_bus_factor(const struct by_bench_case *c);
/* Makes the call; ping-pong: there and back. */
enum banyan_status by_bench_call(const struct by_bench_case *c, struct banyan_comm *comm, const void *send,
                                 void *recv) BANYAN_CHECK;

#endif
