/* Deeds: calls whose buffers a test fills and whose results it works out by
 * itself. All ranks make the same operation from the same random numbers; where the
 * buffers lie (malloc or banyan_alloc) each rank chooses alone. Elements are
 * small whole numbers that differ by operation, rank and place, so that all results
 * are exact in every type whatever the order of adding. */
#ifndef BY_TESTS_NET_NET_OPERATIONS_H
#define BY_TESTS_NET_NET_OPERATIONS_H

#include "job.h"

struct operation {
  struct banyan_call call; /* operation_prepare fills in the buffers */
  size_t counts[JOB_RANKS];
  bool in_place;
  uint32_t salt; /* other values for every operation */
  /* of operation_prepare */
  struct banyan_comm *comm;
  unsigned char *send, *recv, *before; /* before: what `send` held, if it must not change */
  size_t send_bytes, recv_bytes;
  bool send_shared, recv_shared;
};

/* A random call with at most `most` elements; collective < 0: a random one. */
void operation_choose(struct by_rng *rng, int ranks, int collective, size_t most, struct operation *operation);
/* Gives dtype, op, scale, root, counts and in-place some values that fit the collective and count. */
void operation_vary(struct by_rng *rng, int ranks, struct operation *operation);
/* Allocates and fills this rank's buffers; `shared` bit 0: send by banyan_alloc, bit 1: recv. */
void operation_prepare(struct banyan_comm *comm, struct operation *operation, unsigned shared);
/* Ends the rank if an element is wrong, a send buffer changed or something was written beside a buffer. */
void operation_check(const struct operation *operation);
void operation_free(struct operation *operation);
/* prepare, run, check, free */
void operation_do(struct banyan_comm *comm, struct operation *operation, unsigned shared);
/* "allreduce of 12 x f32, sum, ..." */
const char *operation_print(const struct operation *operation, char *text, size_t room);

#endif
