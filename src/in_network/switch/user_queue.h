/* A queue of the user-space switch: the fragments of some grants, and what they
 * pass. It has a socket for each way of each of its workers, from it to the
 * server and back, takes what comes there through by_switch_step and sends on what
 * comes out, many in one system call. It runs on a thread of its own, or on the
 * caller's loop. Calls are for one thread at a time; they wait for the queue's
 * thread, which is never longer than it takes what has come. */
#ifndef BY_IN_NETWORK_SWITCH_USER_QUEUE_H
#define BY_IN_NETWORK_SWITCH_USER_QUEUE_H

#include <net/if.h>

#include "capture.h"
#include "data_plane.h"
#include "step.h"

struct by_queue;

/* The queue keeps it, except for `cells`, which are shared with other queues: no two have grants for the same ones. */
struct by_queue_options {
  struct by_loop *loop;       /* NULL: a thread of its own */
  struct by_capture *capture; /* used by one queue at a time, during calls */
  const char (*ports)[IF_NAMESIZE];
  struct by_cells cells; /* without floats: each queue has its own */
};

/* The options must outlive it. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_queue_create(const struct by_queue_options *options, struct by_queue **out);
/* NULL is allowed. */
void by_queue_destroy(struct by_queue *queue);

/* Takes the place of what its job had here. What is given has been checked. */
BANYAN_CHECK enum banyan_status by_queue_grant(struct by_queue *queue, const struct by_grant *grant,
                                               const struct by_plane_ends *ends);
BANYAN_CHECK enum banyan_status by_queue_revoke(struct by_queue *queue, uint16_t job);
BANYAN_CHECK enum banyan_status by_queue_set_group(struct by_queue *queue, uint16_t group,
                                                   const struct by_switch_target *targets, uint32_t n);
/* What it has of these cells beside what is in `cells`. */
BANYAN_CHECK enum banyan_status by_queue_clear(struct by_queue *queue, uint32_t base, uint32_t count);
/* Adds its counts. */
BANYAN_CHECK enum banyan_status by_queue_count(struct by_queue *queue, struct by_plane_counts *counts);

#endif
