/* Plans the groups of one job that call at the same time over the same links, such as the data-parallel and the
 * model-parallel groups of a mesh.
 *
 * Trees are packed for all groups together, every group at the same rate: the graphs of the groups become one graph,
 * whose spanning trees consist of one tree of each group. That proves a bound for all together. A group that calls
 * alone may be slower with such trees than with its own, so plans are judged by their worst loss: of that bound, and of
 * each group's bound alone. A second packing minimises this loss: in it a group may load a link only so far that its
 * loss alone does not exceed that of all together. Then each link is divided between the groups whose trees need it, in
 * proportion to their load, and each group is planned with its part of the capacities. Pure: no I/O, no clock. */
#ifndef BY_PLANNER_PLANNER_SHARE_H
#define BY_PLANNER_PLANNER_SHARE_H

#include "planner.h"

enum by_share_choice {
  BY_SHARE_CURRENT, /* the group keeps its present plan */
  BY_SHARE_ALONE,   /* the plan of the group alone */
  BY_SHARE_JOINT,   /* a new plan: by_share_set.plan */
};

/* The hosts of a group, or of several groups on the same hosts. */
struct by_share_set {
  const uint32_t *nodes; /* two or more distinct nodes: the ranks of its plans */
  uint32_t n_nodes;
  uint32_t groups;               /* the number of groups on these hosts, >= 1 */
  const struct by_plan *alone;   /* the plan that by_planner_run makes for them, with its bound */
  const struct by_plan *current; /* the plan in use; NULL: none */
  /* The following fields are results. */
  enum by_share_choice choice;
  struct by_plan *plan; /* for BY_SHARE_JOINT, owned by the caller; else NULL */
};

struct by_shared {
  double rate;     /* bit/s of input of each group when all call at the same time */
  double bound;    /* proven: no set of trees gives every group more at the same time */
  double loss;     /* the worst bound / rate, for all groups together and for each alone; >= 1 */
  double min_loss; /* proven: no trees have a smaller loss; 1: not known */
};

enum {
  BY_SHARE_MAX = 64 /* the limit of sets that are planned together */,
  BY_SHARE_MAX_GROUPS = 64 /* the limit of groups of a set that are counted */
};

/* Chooses the plans of n sets of hosts, 1 .. BY_SHARE_MAX. `options` are those of by_planner_run; its participants and
 * helpers are ignored. Present plans stay unless the others lose less by a twentieth. On failure no set has a plan.
 * Errors: those of by_graph_of_topology, by_plan_load_init and by_planner_run. Cost: a packing over all sets, and if
 * their own plans do not share links well, another one and a plan for each. */
BANYAN_CHECK enum banyan_status by_planner_share(const char *name, const struct by_topology *topology,
                                                 const struct by_planner_options *options, struct by_share_set *sets,
                                                 uint32_t n, struct by_shared *out);

#endif
