/* How the ranks of a job agree on what is ready: along a control tree, or round a ring where the network holds one
 * through all ranks and it is no slower. A value, made from a topology, that can be printed. */
#ifndef BY_PLAN_CONTROL_PLAN_H
#define BY_PLAN_CONTROL_PLAN_H

#include "control_tree.h"
#include "hamilton.h"
#include "nearness.h"
#include "topology.h"

/* Fills the parents of `n` participants (nodes of the topology); the root is its own. Errors as of by_control_make. */
BANYAN_CHECK enum banyan_status by_control_ways_make(const struct by_topology *topology, const uint32_t *participants,
                                                     uint32_t n, uint32_t *up, uint32_t *down);

struct by_control_options {
  const uint32_t *participants; /* nodes, rank 0 first; NULL: the hosts that take part */
  uint32_t n_participants;
  struct by_control_limits limits;
  uint64_t seed; /* of the search for a ring */
};

struct by_control {
  const struct by_topology *topology; /* borrowed */
  struct by_nearness near;
  struct by_control_costs costs;
  struct by_control_tree *tree;
  struct by_hamilton ring;     /* whether there is one; vertices are ranks */
  uint32_t *order;             /* the ring; meaningless unless there is one */
  double tree_time, ring_time; /* seconds; the ring's is INFINITY where there is none */
  bool use_ring;
};

/* Makes tree and ring. Two ranks are neighbours on a ring if packets get from one to the other without passing a third:
 * over a link between them, or through nodes that are no ranks. The order liked best goes from a rank to the nearest,
 * so it goes through rack after rack. Empty it with by_control_fini; the topology must live as long. Errors as of
 * by_nearness_init and by_control_tree_make. Cost: theirs. */
BANYAN_CHECK enum banyan_status by_control_make(const struct by_topology *topology,
                                                const struct by_control_options *options, struct by_control *out);
void by_control_fini(struct by_control *control);

struct by_text;
/* Adds a drawing for people. */
BANYAN_CHECK enum banyan_status by_control_draw(const struct by_control *control, struct by_text *text);
/* Adds one line of JSON without a newline, docs/plan-format.md. */
void by_control_print(const struct by_control *control, struct by_text *text);

#endif
