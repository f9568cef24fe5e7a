/* A queue of the user-space switch: handles the fragments of some grants. It has a socket for each path between a
 * worker and the server in each direction, passes received fragments to by_switch_step and sends the results, many in
 * one system call. It runs on its own thread, or on the caller's loop. One thread calls it at a time; calls wait for
 * the queue's thread, at most until it has handled what has arrived. */
#ifndef BY_IN_NETWORK_SWITCH_USER_QUEUE_H
#define BY_IN_NETWORK_SWITCH_USER_QUEUE_H

#include <net/if.h>

#include "data_plane.h"
#include "fail.h"
#include "reservation.h"
#include "step.h"

struct by_queue;

/* The queue borrows this, and shares `cells` with other queues: no two have grants for the same cells. */
struct by_queue_options {
  struct by_loop *loop;       /* NULL: it has its own thread. */
  struct by_capture *capture; /* Used by one queue at a time, during calls. */
  const char (*ports)[IF_NAMESIZE];
  struct by_cells cells; /* Without `floats`: each queue has its own. */
};

/* The options must outlive it. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_queue_create(const struct by_queue_options *options, struct by_queue **out);
/* NULL is allowed. */
void by_queue_destroy(struct by_queue *queue);

/* Replaces the job's grant. The arguments must have been checked. */
BANYAN_CHECK enum banyan_status by_queue_grant(struct by_queue *queue, const struct by_grant *grant,
                                               const struct by_plane_ends *ends);
BANYAN_CHECK enum banyan_status by_queue_revoke(struct by_queue *queue, uint16_t job);
BANYAN_CHECK enum banyan_status by_queue_set_group(struct by_queue *queue, uint16_t group,
                                                   const struct by_switch_target *targets, uint32_t n);
/* Clears the queue's own sums of these cells. */
BANYAN_CHECK enum banyan_status by_queue_clear(struct by_queue *queue, uint32_t base, uint32_t count);
/* Adds its counts. */
BANYAN_CHECK enum banyan_status by_queue_count(struct by_queue *queue, struct by_plane_counts *counts);

/* ---- capture.c
 *
 * Makes the kernel deliver UDP packets to this process that are addressed to others, and forward them again when the
 * process has ended: a TUN device, which ends with its descriptor; in a separate routing table, a local route for
 * everything over the device, of IPv4 and of IPv6; and for each flow of packets a routing rule that selects the table.
 * The rules of a process that was killed select an empty table, which changes nothing; the next process removes them.
 * Requests block for the kernel's answer, which comes at once. One thread at a time. */

enum { BY_CAPTURE_TABLE = 7612 }; /* Routing table, and priority of the rules. */

struct by_capture;

/* Packets from one sender to one receiver that arrive at one interface; both of IPv4, or of IPv6. */
struct by_capture_flow {
  char interface[IF_NAMESIZE];
  struct by_udp_end from, to;
};

/* BANYAN_ERR_UNSUPPORTED: this user may not; BANYAN_ERR_ARGUMENT: another process does. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_capture_open(struct by_capture **out);
/* All flows must have been dropped. NULL is allowed. */
void by_capture_close(struct by_capture *capture);
/* Delivers the flow's packets to a socket that is bound to its receiver's address and port, which requires
 * IP_TRANSPARENT, until the flow is dropped. A flow may be added once at a time. */
BANYAN_CHECK enum banyan_status by_capture_add(struct by_capture *capture, const struct by_capture_flow *flow);
void by_capture_drop(struct by_capture *capture, const struct by_capture_flow *flow);

#endif
