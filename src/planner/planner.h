/* The planner makes from a topology a plan that runs, with a bound that proves how good it is. It combines the graph
 * (graph_topology.h), a bound, trees, and the plan (packing.h). For each size of buffer it weighs those trees against a
 * low tree, rings and other built-ins by predicted time (cost.h). Pure: no I/O, no clock; equal seeds give equal plans.
 */
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

enum { BY_WEIGH_SIZES = 28, BY_WEIGH_MAX = 24, BY_WEIGH_CALLS = 64 };

/* A plan for all data among the participating ranks, which is weighed against others. */
struct by_candidate {
  struct by_plan *plan; /* with a single class; owned */
  char what[48];        /* for users, such as "ring in a good order" */
  double rate;          /* bit/s of input for large buffers */
  double seconds[BY_WEIGH_SIZES];
};

struct by_weighed {
  uint32_t n;
  struct by_candidate candidates[BY_WEIGH_MAX];
  uint64_t sizes[BY_WEIGH_SIZES]; /* in bytes, ascending */
  uint32_t used[BY_WEIGH_SIZES]; /* the chosen candidate for each size, and for sizes between it and the previous one */
  uint32_t halving;              /* the candidate that is preferred between two hosts; 0: none */
};

enum by_planner_method {
  BY_PLANNER_FEW,        /* at most K low trees */
  BY_PLANNER_EXACT,      /* as many trees as the largest throughput requires */
  BY_PLANNER_WEIGHTS,    /* approximates the largest throughput, for large graphs */
  BY_PLANNER_CLUSTER,    /* at most K of rings, stars, elastic trees, packed trees and others (embed.h) */
  BY_PLANNER_IN_NETWORK, /* places aggregation on switches; see placement.h, not by_planner_run */
};
#define BY_PLANNER_METHODS "few|exact|weights|cluster|in-network"
#define BY_PLANNER_METRICS "hops|delay" /* the units of heights */

/* What is weighed by predicted time. */
enum by_planner_weighing {
  BY_PLANNER_WEIGH_ALL,   /* all candidates for every size */
  BY_PLANNER_WEIGH_SMALL, /* all candidates, but large buffers use the requested trees */
  BY_PLANNER_WEIGH_NONE,  /* the requested trees are used for every size */
};

struct by_planner_options {
  enum by_planner_method method;
  struct by_graph_choice choice; /* the participants and possible helpers */
  uint32_t max_trees;            /* K, for BY_PLANNER_FEW and _CLUSTER */
  double max_height;             /* limit for each tree, for the same methods; INFINITY: none */
  bool by_delay;                 /* heights are in seconds, else in hops */
  double min_rate;               /* of each tree in bit/s, for the same methods */
  double tolerance; /* the part of the bound that may be given up for less height; NAN: 0.05, above 8 trees 0.01 */
  uint64_t seed;
  const uint32_t
      *servers; /* hosts for in-network trees (embed.h); this and the fields below are for BY_PLANNER_CLUSTER */
  uint32_t n_servers;
  uint32_t allowed;               /* bits of enum by_plan_method */
  uint32_t steps;                 /* steps of the weights */
  uint32_t queues;                /* queues of switches that share the work (embed.h) */
  double penalty;                 /* the penalty for each tree */
  const struct by_embedding *old; /* the embedding that is planned again (by_embed_again); NULL: there is none */
  const uint64_t
      *calls; /* calls[i]: the number of calls with 2^i bytes up to twice as many; NULL: any size may occur */
  enum by_planner_weighing weighing;
  struct by_cost_rates rates;       /* costs for predicted times */
  struct by_control_limits control; /* limits of the control tree */
  const atomic_bool *cancelled;     /* see struct by_graph; borrowed while by_planner_run runs; any thread may set it */
  const double *ranks_on;           /* for each participant: its number of ranks; NULL: one each */
};

/* The result of by_planner_run; free it with by_planned_fini. */
struct by_planned {
  struct by_plan *plan;
  struct by_graph *graph;
  struct by_packing *packing;     /* the trees that were packed first; NULL for BY_PLANNER_CLUSTER */
  struct by_embedding *embedding; /* for BY_PLANNER_CLUSTER; else NULL */
  struct by_embed_change change;  /* if there was an old embedding: what changed */
  struct by_weighed weighed;      /* the candidates; the first are the trees of packing or embedding */
  struct by_cost_rates rates;     /* the costs that were used for predicted times */
  struct by_controller_trees
      control; /* the plan's control tree, which borrows the topology; its tree is NULL if the plan has none */
};

/* Returns the defaults: method few, 8 trees of any height, default tolerance, seed 1; all candidates are weighed with
 * the default costs. */
struct by_planner_options by_planner_defaults(void);
/* Plans; `name` is the plan's. With BY_PLANNER_CLUSTER, in-network trees are weighed by time, too: small calls use
 * trees among hosts if those are faster. Sizes without known calls get no class of their own, so a job whose calls are
 * all small has a plan without servers. The plan has a control tree if one can be made (by_nearness_init).
 * BANYAN_ERR_ARGUMENT, BANYAN_ERR_TOPOLOGY: see by_graph_of_topology; BANYAN_ERR_ARGUMENT: also for
 * BY_PLANNER_IN_NETWORK; BANYAN_ERR_PLAN: no trees meet the limits; BANYAN_ERR_ABORTED: it was cancelled, which
 * BY_PLANNER_CLUSTER does not check. Cost: that of the parts; a second for 1000 vertices. */
BANYAN_CHECK enum banyan_status by_planner_run(const char *name, const struct by_topology *topology,
                                               const struct by_planner_options *options, struct by_planned *out);
void by_planned_fini(struct by_planned *planned);

struct by_text;
/* Adds an explanation: what part of the bound the plan reaches, which links and hosts limit it, what is used for which
 * sizes, and what every candidate would give. */
void by_planned_explain(const struct by_planned *planned, const struct by_topology *topology, struct by_text *text);
/* Adds the explanation as members of a JSON object that the caller begins and ends (docs/plan-format.md,
 * "Explanations"). */
void by_planned_put_json(const struct by_planned *planned, const struct by_topology *topology, struct by_text *text);

/* Makes another plan over the same ranks, with the same control tree and own classes: for each size of buffer it has
 * the best other candidate that is predicted to take at most `within` times as long, if there is one. *out is NULL if
 * there is none for any size. Calls have to decide between both plans, since predictions are inaccurate by some
 * percent. The caller owns *out. Cost: the plan's size. */
BANYAN_CHECK enum banyan_status by_planner_find_alternative(const struct by_planned *planned, double within,
                                                            struct by_plan **out);

#endif
