/* The planner: from a topology to a plan that runs, with a bound that proves how good it is. It puts together the
 * parts: the graph (graph_topology.h), a bound, trees, and the plan (packing.h); and for each size of buffer weighs
 * those trees against one low tree, rings and other built-ins by predicted time (cost.h). Pure: no I/O, no clock, and
 * the same seed gives the same plan. */
#ifndef BY_PLANNER_PLANNER_H
#define BY_PLANNER_PLANNER_H

#include <stdatomic.h>

#include "control_tree.h"
#include "cost.h"
#include "embed.h"
#include "graph.h"
#include "graph_topology.h"
#include "packing.h"
#include "plan.h"
#include "topology.h"

enum { BY_WEIGH_SIZES = 28, BY_WEIGH_MOST = 24, BY_WEIGH_CALLS = 64 };

/* One way to sum everything, over the ranks that take part. */
struct by_candidate {
  struct by_plan *plan; /* of one class; owned */
  char what[48];        /* for people: "ring in a good order" */
  double rate;          /* bit/s of input for large buffers */
  double seconds[BY_WEIGH_SIZES];
};

struct by_weighed {
  uint32_t n;
  struct by_candidate candidates[BY_WEIGH_MOST];
  uint64_t sizes[BY_WEIGH_SIZES]; /* bytes, ascending */
  uint32_t used[BY_WEIGH_SIZES];  /* which candidate, for each size and all between it and the one before */
  uint32_t halving;               /* the candidate between two hosts that is preferred; 0: none */
};

enum by_planner_method {
  BY_PLANNER_FEW,        /* at most K trees, low ones */
  BY_PLANNER_EXACT,      /* as many trees as the largest throughput needs */
  BY_PLANNER_WEIGHTS,    /* the same nearly, for large graphs */
  BY_PLANNER_CLUSTER,    /* at most K of rings, stars, elastic trees, packed trees and others (embed.h) */
  BY_PLANNER_IN_NETWORK, /* aggregation placed on switches: not of by_planner_run but of placement.h */
};
#define BY_PLANNER_METHODS "few|exact|weights|cluster|in-network"
#define BY_PLANNER_METRICS "hops|delay" /* of heights */

/* What is weighed by predicted time. */
enum by_planner_weighing {
  BY_PLANNER_WEIGH_ALL,   /* everything for every size */
  BY_PLANNER_WEIGH_SMALL, /* the same, but large buffers go along the trees that were asked for */
  BY_PLANNER_WEIGH_NONE,  /* those trees for every size */
};

struct by_planner_options {
  enum by_planner_method method;
  struct by_graph_choice choice; /* who takes part, who may help */
  uint32_t max_trees;            /* K, of BY_PLANNER_FEW and _CLUSTER */
  double most_height;            /* of each tree, of the same; INFINITY: any */
  bool by_delay;                 /* heights are seconds, else hops */
  double least_rate;             /* of each tree, bit/s, of the same */
  double tolerance;              /* part of the bound that may go for less height; NAN: 0.05, above 8 trees 0.01 */
  uint64_t seed;
  const uint32_t *servers; /* of BY_PLANNER_CLUSTER, as are those below: hosts for in-network trees (embed.h) */
  uint32_t n_servers;
  uint32_t ways;                  /* bits of enum by_plan_way */
  uint32_t steps;                 /* of weights */
  uint32_t queues;                /* of switches, to share the work (embed.h) */
  double penalty;                 /* for each tree */
  const struct by_embedding *old; /* planned again (by_embed_again); NULL: for the first time */
  const uint64_t
      *calls; /* of BY_WEIGH_CALLS sizes: how many of 2^i bytes up to twice as many; NULL: any size may come */
  enum by_planner_weighing weighing;
  struct by_cost_rates rates;       /* for predicted times */
  struct by_control_limits control; /* of the control tree */
  const atomic_bool *cancelled;     /* see struct by_graph; for any thread, borrowed while by_planner_run runs */
  const double *ranks_on;           /* of each participant: how many ranks it has; NULL: one each */
};

/* What came out; filled by by_planner_run, emptied by by_planned_fini. */
struct by_planned {
  struct by_plan *plan;
  struct by_graph *graph;
  struct by_packing *packing;         /* the trees that were packed first; NULL: of BY_PLANNER_CLUSTER */
  struct by_embedding *embedding;     /* of BY_PLANNER_CLUSTER; else NULL */
  struct by_embed_change change;      /* where there was an old one; a gain is what is more */
  struct by_weighed weighed;          /* what the plan was chosen from; the trees of either are the first */
  struct by_cost_rates rates;         /* that times were predicted with */
  struct by_controller_trees control; /* the plan's control tree; borrows the topology. tree NULL: the plan has none */
};

/* few, 8 trees of any height, the usual tolerance, seed 1; everything is weighed at the usual costs. */
struct by_planner_options by_planner_defaults(void);
/* Plans. The name is the plan's. With BY_PLANNER_CLUSTER, in-network trees are weighed by time, too: small calls go
 * along trees among hosts where those are faster. Sizes of which no calls are known have no class of their own, so that
 * a job whose calls are all small has a plan without servers. The plan has a control tree, unless none can be
 * made (by_nearness_init). BANYAN_ERR_ARGUMENT, BANYAN_ERR_TOPOLOGY: see
 * by_graph_of_topology; BANYAN_ERR_ARGUMENT: BY_PLANNER_IN_NETWORK, too; BANYAN_ERR_PLAN: no trees keep the limits;
 * BANYAN_ERR_ABORTED: it was cancelled, which BY_PLANNER_CLUSTER does not look at. Cost: that of the parts; a second
 * for 1000 vertices.
 */
BANYAN_CHECK enum banyan_status by_planner_run(const char *name, const struct by_topology *topology,
                                               const struct by_planner_options *options, struct by_planned *out);
void by_planned_fini(struct by_planned *planned);

struct by_text;
/* Adds, in words and numbers: what the plan reaches of what no plan exceeds, which links and machines limit it, what is
 * used for which sizes, and what everything that was weighed would give. */
void by_planned_explain(const struct by_planned *planned, const struct by_topology *topology, struct by_text *text);
/* The same as members of a JSON object that the caller begins and ends (docs/plan-format.md, "Explanations"). */
void by_planned_put_json(const struct by_planned *planned, const struct by_topology *topology, struct by_text *text);

#endif
