/* Operations: calls whose buffers a test fills and whose results it computes by itself. All ranks derive the same
 * operation from the same random numbers. Each rank chooses alone where the buffers are (malloc or banyan_alloc).
 * Elements are small integers that differ by operation, rank and position, so that all results are exact in every type
 * and in any order of addition. */
#ifndef BY_TESTS_NET_NET_OPERATIONS_H
#define BY_TESTS_NET_NET_OPERATIONS_H

#include "job.h"

struct operation {
  struct banyan_call call; /* operation_prepare fills in the buffers */
  size_t counts[JOB_RANKS];
  bool in_place;
  uint32_t salt; /* makes the values differ between operations */
  /* The fields below are set by operation_prepare. */
  struct banyan_comm *comm;
  unsigned char *send, *recv, *before; /* before: the former content of `send`, if it must not change */
  size_t send_bytes, recv_bytes;
  bool send_shared, recv_shared;
};

/* Chooses a random call with at most `most` elements. collective < 0: a random collective. */
void operation_choose(struct by_rng *rng, int ranks, int collective, size_t most, struct operation *operation);
/* Chooses dtype, op, scale, root, counts and in-place at random so that they fit the collective and the count. */
void operation_vary(struct by_rng *rng, int ranks, struct operation *operation);
/* Allocates and fills this rank's buffers. Bits of `shared` select banyan_alloc: bit 0 for send, bit 1 for recv. */
void operation_prepare(struct banyan_comm *comm, struct operation *operation, unsigned shared);
/* Ends the rank if an element is wrong, if a send buffer changed, or if bytes beside a buffer were overwritten. */
void operation_check(const struct operation *operation);
/* Ends the rank if a send buffer changed. */
void operation_check_input(const struct operation *operation);
void operation_free(struct operation *operation);
/* Prepares, runs, checks and frees an operation. */
void operation_do(struct banyan_comm *comm, struct operation *operation, unsigned shared);
/* Prints a description such as "allreduce of 12 x f32, sum, ...". */
const char *operation_print(const struct operation *operation, char *text, size_t room);

#endif
