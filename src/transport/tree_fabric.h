/* A fabric over a worker of src/in_network/endpoints; how its packets travel is the
 * caller's business. */
#ifndef BY_TRANSPORT_TREE_FABRIC_H
#define BY_TRANSPORT_TREE_FABRIC_H

#include "clock.h"
#include "fabric.h"
#include "lane.h"
#include "worker.h"

struct by_tree_io {
  /* Gives packets that have come to by_worker_take. True if there were any. */
  bool (*take)(void *context, struct by_worker *worker, uint64_t now);
  /* All that is to be sent now has been given to the configuration's callback; may be NULL. */
  void (*flush)(void *context);
  /* May be NULL. */
  void (*set_mark)(void *context, const struct by_mark *mark);
  /* Nothing is sent or taken any more: the fabric was withdrawn, or is destroyed. Once; may be NULL. */
  void (*close)(void *context);
  void *context;
  int poll_fd; /* see by_fabric */
};

/* Packets leave through the configuration's callback. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_tree_fabric_create(const struct by_worker_config *config,
                                                      const struct by_tree_io *io, const struct by_clock *clock,
                                                      struct by_fabric **out);

#endif
