/* What rank 0 knows of the network under its job: the topology that it planned from, and which node each host of the
 * job is. An immutable value with a reference count, so that planning may take its time while another thread keeps a
 * newer one: it is replaced as a whole, never changed.
 *
 * Its successors, two ranks on other hosts, have copies, so that the loss of a host does not lose it; other ranks have
 * none. Rank 0 sends what it keeps to them, and they follow a little later. */
#ifndef BY_ADAPTATION_JOB_NETWORK_H
#define BY_ADAPTATION_JOB_NETWORK_H

#include <banyan/types.h>

#include "bytes.h"
#include "job_life.h"
#include "topology.h"

struct by_received;

struct by_job_network {
  struct by_topology *topology;   /* The topology; owned. */
  uint32_t *nodes;                /* The node of each host of the job; hosts on one machine share a node. Owned. */
  uint32_t n_hosts;               /* The number of hosts in `nodes`. */
  enum banyan_plan_source source; /* BANYAN_PLAN_TOPOLOGY or BANYAN_PLAN_MEASURED */
  _Atomic uint32_t references;
};

enum { BY_JOB_SUCCESSORS = 2 };

/* The lowest ranks on the first two hosts that are not rank 0's, in this order; the same at all ranks. Returns how many
 * there are. */
uint32_t by_job_successors(const struct by_job *job, uint32_t out[BY_JOB_SUCCESSORS]);
/* Rank 0: keeps a topology, with the node of each of the job's hosts, in place of the one before, and sends it to its
 * successors. Takes ownership of `topology`, on failure too; `nodes` is copied. Takes the lock. */
BANYAN_CHECK enum banyan_status by_job_network_keep(struct by_job *job, struct by_topology *topology,
                                                    const uint32_t *nodes, enum banyan_plan_source source);
/* Handles NETWORK at a successor of rank 0: keeps the topology; an invalid one is logged and ignored. `context`: a
 * struct by_job. Takes the lock. */
void by_job_network_handle(void *context, const struct by_received *received);
/* Nothing is known any more, at rank 0's successors either. Takes the lock. */
void by_job_network_drop(struct by_job *job);
/* Rank 0 and its successors: a reference to what is kept, which by_job_network_release gives back, on any thread. NULL:
 * no topology is known here. Takes the lock. */
struct by_job_network *by_job_network_hold(struct by_job *job);
/* NULL is allowed. */
void by_job_network_release(struct by_job_network *network);

/* ---- the message */

struct by_network_message {
  enum banyan_plan_source source; /* The source of plans that are made from it. */
  const uint8_t *nodes;           /* The node of each host of the job, as u32 in the order of the wire; borrowed. */
  uint32_t n_hosts;               /* Number of hosts; 0: nothing is known any more. */
  const char *text;               /* The topology as JSON, `length` bytes without a NUL; borrowed. */
  size_t length;
};

void by_network_message_write(struct by_writer *writer, const struct by_network_message *message);
/* Reads a message. `nodes` and `text` are borrowed from the bytes. */
BANYAN_CHECK enum banyan_status by_network_message_read(const void *bytes, size_t length,
                                                        struct by_network_message *out);
uint32_t by_network_message_node(const struct by_network_message *message, uint32_t host);

enum { BY_NETWORK_FIXED_BYTES = 1 + 4 + 4 };

#endif
