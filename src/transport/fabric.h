/* A fabric: a rank's end of a tree through switches. Instead of messages it takes this rank's terms and returns the
 * sum over all ranks of the tree. The executor drives it. It never blocks, allocates nothing while it runs, and
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
  enum banyan_status status; /* BANYAN_OK while the fabric works; after that every function does nothing. */
  char error[192];
  int poll_fd;   /* Poll it for readability before sleeping; -1: none. */
  uint64_t sent; /* Bytes given to the network so far. */
};

struct by_fabric_ops {
  const char *name;
  /* Begins a call: dst = the sum of all ranks' src, of `bytes`, undivided; dst may be src. All ranks of the tree
   * begin the same calls, described by `descriptor`, in the same order. The fabric uses both buffers until all is
   * done or withdraw(). Returns false if no more calls can run at once. *number is the call's. */
  bool (*begin)(struct by_fabric *fabric, const struct by_frame *descriptor, const void *src, void *dst, uint64_t bytes,
                uint32_t *number);
  /* The first `bytes` of src are final, which are more than before. */
  void (*advance)(struct by_fabric *fabric, uint32_t number, uint64_t bytes);
  /* The number of first bytes of dst that are complete, and of src that are no longer needed. Not to be called after
   * it returned all. */
  uint64_t (*done)(struct by_fabric *fabric, uint32_t number);
  /* Receives, and sends what may be sent or is due. Returns whether anything moved. */
  bool (*progress)(struct by_fabric *fabric);
  /* The latest time, by the engine's clock, at which progress must be called even if nothing arrives; UINT64_MAX:
   * none. */
  uint64_t (*deadline)(const struct by_fabric *fabric);
  /* Sets the mark of what is sent from now on. */
  void (*set_mark)(struct by_fabric *fabric, const struct by_mark *mark);
  /* This process is lost: nothing more is sent through it. */
  void (*lose)(struct by_fabric *fabric, uint32_t process);
  /* The memory of running calls is no longer used; the fabric has failed. */
  void (*withdraw)(struct by_fabric *fabric);
  void (*destroy)(struct by_fabric *fabric);
};

/* Whether switches can add this type and operation. Other calls use a plan's trees among ranks. */
static inline bool by_fabric_adds(enum banyan_dtype dtype, enum banyan_op op) {
  bool type = dtype == BANYAN_FLOAT32 || dtype == BANYAN_FLOAT16 || dtype == BANYAN_BFLOAT16 || dtype == BANYAN_INT32;
  return type && (op == BANYAN_SUM || op == BANYAN_AVERAGE);
}

/* Moves the packets of a worker (in_network/endpoints). */
struct by_tree_io {
  /* Passes received packets to by_worker_take. Returns whether there were any. */
  bool (*take)(void *context, struct by_worker *worker, uint64_t now);
  /* Called when everything to be sent now was passed to the configuration's callback; may be NULL. */
  void (*flush)(void *context);
  /* May be NULL. */
  void (*set_mark)(void *context, const struct by_mark *mark);
  /* See by_fabric_ops; may be NULL. */
  void (*lose)(void *context, uint32_t process);
  /* Called once, when the fabric is withdrawn or destroyed: nothing is sent or received after it; may be NULL. */
  void (*close)(void *context);
  void *context;
  int poll_fd; /* See struct by_fabric. */
};

/* A fabric over a worker. Packets leave through the configuration's callback. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_tree_fabric_create(const struct by_worker_config *config,
                                                      const struct by_tree_io *io, const struct by_clock *clock,
                                                      struct by_fabric **out);

#endif
