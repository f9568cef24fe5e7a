/* What the files of the placement share: the ways to a server as a tree, and who adds there. */
#ifndef BY_PLAN_PLACEMENT_PARTS_H
#define BY_PLAN_PLACEMENT_PARTS_H

#include "placement.h"

/* The ways of one job's workers to one of its servers, before it is known who adds. */
struct by_way_tree {
  uint32_t job, server;
  double round_trip;
  uint32_t *node, *link, *workers, *start; /* as of by_placed_tree */
  uint32_t *parent, *own;
  bool *able;
  double *capacity, *limit, *hold;
  struct by_flow flow; /* of these */
};

struct by_placement_ways {
  const struct by_topology *topology;
  const struct by_placement_job *jobs;
  uint32_t n_jobs, n_trees;
  struct by_way_tree *trees; /* by job, then server */
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_placement_ways_init(struct by_placement_ways *ways,
                                                       const struct by_topology *topology,
                                                       const struct by_placement_job *jobs, uint32_t n_jobs,
                                                       double turnaround);
void by_placement_ways_fini(struct by_placement_ways *ways);

/* One choice of who adds on a tree, with a rate. */
struct by_choice {
  uint32_t tree;
  double rate; /* bit/s */
  bool *adds;
};

/* A growing list of choices, in the ways' arena. */
struct by_choices {
  uint32_t n, room;
  struct by_choice *items;
};
/* *out (or NULL): its number. Equal ones are listed once. */
BANYAN_CHECK enum banyan_status by_choices_add(struct by_choices *choices, struct by_placement_ways *ways,
                                               uint32_t tree, const bool *adds, uint32_t *out);

/* Rates for choices, and new choices by pricing if `price_more`, so that all jobs get as much as they can, each by its
 * weight. *rate is what a job of weight 1 gets; *bound what it cannot exceed, whoever adds. Every tree has a choice. */
BANYAN_CHECK enum banyan_status by_choices_share(struct by_choices *choices, struct by_placement_ways *ways,
                                                 bool price_more, double *rate, double *bound);
/* Leaves out, tree by tree, what the rates do not need to add. */
BANYAN_CHECK enum banyan_status by_choices_prune(struct by_choices *choices, struct by_placement_ways *ways);

static inline enum banyan_status by_placement_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory to place aggregation on switches");
  return BANYAN_ERR_NO_MEMORY;
}

#endif
