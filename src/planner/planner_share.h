/* Plans for groups of one job that call at the same time over the same links, as the data-parallel and the
 * model-parallel groups of a mesh do.
 *
 * Trees are packed for all groups together, every group at the same rate: the graphs of the groups become one graph,
 * whose spanning trees are one tree of each group. That proves a bound for all together. A group that calls alone may
 * be slower with such trees than with its own, so plans are judged by what they lose at worst: of that bound, and of
 * each group's bound alone. A second packing loses as little as possible: in it a group may load a link by no more than
 * keeps its loss alone as low as that of all together. From this each link is divided between the groups whose trees
 * need it, in proportion to what they carry there, and each group is planned with its part of the capacities. Pure: no
 * I/O, no clock. */
#ifndef BY_PLANNER_PLANNER_SHARE_H
#define BY_PLANNER_PLANNER_SHARE_H

#include "planner.h"

enum by_share_choice {
  BY_SHARE_CURRENT, /* it keeps its plan */
  BY_SHARE_ALONE,   /* the plan of the group alone */
  BY_SHARE_JOINT,   /* a new one: `plan` */
};

/* The hosts of a group, or of several groups on the same hosts. */
struct by_share_set {
  const uint32_t *nodes; /* different, two or more: the ranks of its plans */
  uint32_t n_nodes;
  uint32_t groups;               /* on these hosts, >= 1 */
  const struct by_plan *alone;   /* as by_planner_run makes it for them, with its bound */
  const struct by_plan *current; /* that is in use; NULL: none is */
  /* filled: */
  enum by_share_choice choice;
  struct by_plan *plan; /* of BY_SHARE_JOINT, the caller's; else NULL */
};

struct by_shared {
  double rate;  /* bit/s of input that each group reaches with its plan when all call at the same time */
  double bound; /* certified: no set of trees gives every group more than this at the same time */
  double loss;  /* of this bound, or of a group's bound alone, at worst: bound / rate, >= 1 */
  double least; /* certified: no trees have a lower loss; 1: not known */
};

enum { BY_SHARE_MOST = 64 /* sets that are planned together */, BY_SHARE_MOST_GROUPS = 64 /* of a set are counted */ };

/* Chooses the plans of n sets of hosts, 1 .. BY_SHARE_MOST. `options` are those of by_planner_run; its participants and
 * helpers are ignored. A plan in use stays unless the others lose less by a twentieth. On failure no set has a plan.
 * Errors: those of by_graph_of_topology, by_plan_load_init and by_planner_run. Cost: a packing over all sets, and where
 * their own plans do not share links well, another one, and a plan for each. */
BANYAN_CHECK enum banyan_status by_planner_share(const char *name, const struct by_topology *topology,
                                                 const struct by_planner_options *options, struct by_share_set *sets,
                                                 uint32_t n, struct by_shared *out);

#endif
