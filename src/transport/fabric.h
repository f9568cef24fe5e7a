/* A fabric: a tree through switches, as a rank sees it. In place of messages to
 * others it takes what this rank has and gives the sum over all ranks of the
 * tree. Driven by the executor. Never blocks, allocates nothing while it runs,
 * belongs to one thread at a time. */
#ifndef BY_TRANSPORT_FABRIC_H
#define BY_TRANSPORT_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <banyan/types.h>

#include "clock.h"
#include "frame.h"
#include "lane.h"

struct by_worker;
struct by_worker_config;

struct by_fabric {
  const struct by_fabric_ops *ops;
  enum banyan_status status; /* BANYAN_OK while it lives; after that every function does nothing */
  char error[192];
  int poll_fd;   /* to be polled for readability before sleeping; -1: none */
  uint64_t sent; /* bytes given to the network so far */
};

struct by_fabric_ops {
  const char *name;
  /* A call: dst = the sum of all ranks' src, of `bytes`, undivided; dst may be src. All ranks of the tree begin the
   * same calls in the same order; `descriptor` describes it. Both stay in use until all is done or withdraw(). False:
   * as many are under way as can be. *number is the call's. */
  bool (*begin)(struct by_fabric *fabric, const struct by_frame *descriptor, const void *src, void *dst, uint64_t bytes,
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
  /* This process is lost: nothing more is sent through it. */
  void (*lose)(struct by_fabric *fabric, uint32_t process);
  /* The memory of calls under way is no longer used; the fabric has failed. */
  void (*withdraw)(struct by_fabric *fabric);
  void (*destroy)(struct by_fabric *fabric);
};

/* Whether switches can add it: for the rest, a plan's trees go among ranks. */
static inline bool by_fabric_adds(enum banyan_dtype dtype, enum banyan_op op) {
  bool type = dtype == BANYAN_FLOAT32 || dtype == BANYAN_FLOAT16 || dtype == BANYAN_BFLOAT16 || dtype == BANYAN_INT32;
  return type && (op == BANYAN_SUM || op == BANYAN_AVERAGE);
}

/* How the packets of a worker (in_network/endpoints) travel. */
struct by_tree_io {
  /* Passes packets that have come to by_worker_take. True if there were any. */
  bool (*take)(void *context, struct by_worker *worker, uint64_t now);
  /* All that is to be sent now has been passed to the configuration's callback; may be NULL. */
  void (*flush)(void *context);
  /* May be NULL. */
  void (*set_mark)(void *context, const struct by_mark *mark);
  /* See by_fabric_ops; may be NULL. */
  void (*lose)(void *context, uint32_t process);
  /* Nothing is sent or taken any more: the fabric was withdrawn, or is destroyed. Once; may be NULL. */
  void (*close)(void *context);
  void *context;
  int poll_fd; /* see by_fabric */
};

/* A fabric over a worker. Packets leave through the configuration's callback. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_tree_fabric_create(const struct by_worker_config *config,
                                                      const struct by_tree_io *io, const struct by_clock *clock,
                                                      struct by_fabric **out);

#endif
