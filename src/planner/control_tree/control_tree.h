/* The control tree: along which ranks tell each other what is ready. Small messages go from every rank to the root and
 * back, so it is low, no rank has many children, and those who talk to each other are near. A pure value; the same
 * input gives the same tree. */
#ifndef BY_PLAN_CONTROL_TREE_H
#define BY_PLAN_CONTROL_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"
#include "nearness.h"

/* The error for memory that is out. Inline, so that analysers see that it is never BANYAN_OK. */
static inline enum banyan_status by_control_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the control tree");
  return BANYAN_ERR_NO_MEMORY;
}

/* What a message costs between two controllers. */
struct by_control_costs {
  double delay;   /* seconds that it travels */
  double wake;    /* seconds until who waits for it runs */
  double message; /* seconds that sending or taking it keeps a controller busy */
};

struct by_control_limits {
  uint32_t fan_out; /* most children; 0: what the costs advise */
  uint32_t height;  /* most links from the root to a leaf; 0: the least that the fan-out allows */
  double distance;  /* most between a rank and its parent; 0: the least over which all ranks hang together */
  bool by_delay;    /* distances are seconds of delay, else links */
};

struct by_control_tree {
  uint32_t n, root;
  uint32_t *parent;              /* of each rank; of the root: itself */
  uint32_t height, fan_out;      /* that it has */
  double distance, sum;          /* the largest between a rank and its parent; of all together */
  struct by_control_limits kept; /* limits that it keeps, none of them 0 but perhaps the distance */
  bool farther, higher;          /* whether the distance or the height asked for had to be exceeded */
  struct by_arena arena;
};

/* 30 us in a network whose delay is not known, 30 us to wake a waiting thread, 7 us a message. */
struct by_control_costs by_control_costs_usual(void);
/* The costs with the delay from the rank in the middle to a usual one, where the topology tells delays. */
struct by_control_costs by_control_costs_of(const struct by_nearness *near);
/* The most children that serve: a level costs delay + wake + d x message and multiplies the ranks by d, so time is
 * least where d (ln d - 1) = (delay + wake) / message: 8 at 30 us, 31 at 0.5 ms. Of the fan-outs up to that one, the
 * least that keeps the height over n ranks. At least 2. */
uint32_t by_control_fan_out(uint32_t n, const struct by_control_costs *costs);
/* The least height of a tree over n ranks with so many children each. */
uint32_t by_control_height(uint32_t n, uint32_t fan_out);

/* A tree for ranks in a topology. Tried as roots are the middle and its nearest sqrt(n) (fewer where hundreds of ranks
 * are no two alike); from the root down each level
 * takes as many ranks as it has places for, nearest first in sum (by_assign_solve), once at will, once so many from
 * every class of ranks (every rack) that those left have somebody near: the tree of less distance is kept. Where no
 * root has a tree the distance is doubled; where the height cannot hold all ranks it is raised: `farther` and `higher`
 * say so. Distances are told apart to 1/32 of the limit. The caller owns *out. BANYAN_ERR_ARGUMENT: no ranks.
 * Cost: for each root tried and level an assignment between classes. */
BANYAN_CHECK enum banyan_status by_control_tree_make(const struct by_nearness *near,
                                                     const struct by_control_limits *limits,
                                                     const struct by_control_costs *costs,
                                                     struct by_control_tree **out);
/* The same where no topology is known: rank r hangs on rank (r - 1) / fan-out. Distances are 1. */
BANYAN_CHECK enum banyan_status by_control_tree_by_number(uint32_t n, const struct by_control_limits *limits,
                                                          const struct by_control_costs *costs,
                                                          struct by_control_tree **out);
/* NULL is allowed. */
void by_control_tree_destroy(struct by_control_tree *tree);

/* Seconds from the moment when all ranks are ready until every rank knows it: up the tree and down again. A controller
 * takes and sends its messages one after the other. `near` may be NULL: then, and between ranks whose delay is not
 * known, all are as near as `costs` says. */
BANYAN_CHECK enum banyan_status by_control_tree_time(const struct by_control_tree *tree, const struct by_nearness *near,
                                                     const struct by_control_costs *costs, double *out);
/* The same for a ring in this order of ranks: a message goes from the first to the last, and on from there until the
 * last but one has the answer, 2 (n - 1) hops. It begins where the two hops that it leaves out are longest. */
double by_control_ring_time(const uint32_t *order, uint32_t n, const struct by_nearness *near,
                            const struct by_control_costs *costs);

#endif
