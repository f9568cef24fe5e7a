/* A fabric: a tree through switches, as a rank sees it. In place of messages to
 * others it takes what this rank has and gives the sum over all ranks of the
 * tree. Made by whoever knows the switches; driven by the executor. Never
 * blocks, allocates nothing while it runs, belongs to one thread at a time. */
#ifndef BY_TRANSPORT_FABRIC_H
#define BY_TRANSPORT_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <banyan/types.h>

#include "frame.h"
#include "lane.h"

struct by_fabric {
  const struct by_fabric_ops *ops;
  enum banyan_status status; /* BANYAN_OK while it lives; after that every function does nothing */
  char error[192];
  int poll_fd; /* to be polled for readability before sleeping; -1: none */
};

struct by_fabric_ops {
  const char *name;
  /* A call: dst = the sum of all ranks' src, of `bytes`, undivided; dst may be src. All ranks of the tree begin the
   * same calls in the same order; `stamp` says which. Both stay in use until all is done or withdraw(). False: as many
   * are under way as can be. *number is the call's. */
  bool (*begin)(struct by_fabric *fabric, const struct by_frame *stamp, const void *src, void *dst, uint64_t bytes,
                uint32_t *number);
  /* The first `bytes` of src are final; more than before. */
  void (*advance)(struct by_fabric *fabric, uint32_t number, uint64_t bytes);
  /* How many of the first bytes of dst are in, and of src are no longer needed. Not to be asked again once it is all.
   */
  uint64_t (*done)(struct by_fabric *fabric, uint32_t number);
  /* Takes what has come, sends what may be sent or is due. True if anything moved. */
  bool (*progress)(struct by_fabric *fabric);
  /* When progress has to be made at the latest though nothing comes, by the engine's clock; UINT64_MAX: never. */
  uint64_t (*deadline)(const struct by_fabric *fabric);
  /* What is sent from now on. */
  void (*set_mark)(struct by_fabric *fabric, const struct by_mark *mark);
  /* Bytes given to the network so far. */
  uint64_t (*sent)(const struct by_fabric *fabric);
  /* The memory of calls under way is no longer used; the fabric has failed. */
  void (*withdraw)(struct by_fabric *fabric);
  void (*destroy)(struct by_fabric *fabric);
};

/* Whether switches can add it: for the rest, a plan's trees go among ranks. */
static inline bool by_fabric_adds(enum banyan_dtype dtype, enum banyan_op op) {
  bool type = dtype == BANYAN_FLOAT32 || dtype == BANYAN_FLOAT16 || dtype == BANYAN_BFLOAT16 || dtype == BANYAN_INT32;
  return type && (op == BANYAN_SUM || op == BANYAN_AVERAGE);
}

#endif
