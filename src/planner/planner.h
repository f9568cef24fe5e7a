/* The planner makes from a topology a plan that runs, with a bound that proves how good it is. It combines the graph
 * (graph.h), a bound, trees, and the plan (packing.h). For each size of buffer it weighs those trees against a
 * low tree, rings and other built-ins by predicted time (cost.h). Pure: no I/O, no clock; equal seeds give equal plans.
 */
#ifndef BY_PLANNER_PLANNER_H
#define BY_PLANNER_PLANNER_H

#include <stdatomic.h>

#include "control_tree.h"
#include "cost.h"
#include "embed.h"
#include "graph.h"
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
  const struct by_embedding *old; /* the embedding that is planned again (by_embed); NULL: there is none */
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

/* The options of the planner. One table makes the options of `banyan plan` and the keys of BANYAN_PLANNER, with the
 * same names and limits. Pure. */

/* Rows: key, name, letter on the command line (0: none), name of the value, help. */
#define BY_PLANNER_KEYS(X)                                                                                             \
  X(TREES, "trees", 0, "K", "for a TOPOLOGY: largest number of trees; default 8")                                      \
  X(MAX_HEIGHT, "max-height", 0, "H", "largest height of a tree, in hops or seconds")                                  \
  X(HEIGHT_METRIC, "height-metric", 0, BY_PLANNER_METRICS, "unit of heights; default hops")                            \
  X(MIN_RATE, "min-rate", 0, "RATE", "smallest rate of a tree, \"100m\"")                                              \
  X(TOLERANCE, "tolerance", 0, "PART",                                                                                 \
    "part of the throughput that may be lost for lower trees;\ndefault 0.05, with more than 8 trees 0.01")             \
  X(SEED, "seed", 0, "N", "seed of the search; default 1")                                                             \
  X(METHOD, "method", 0, BY_PLANNER_METHODS,                                                                           \
    "few: at most K low trees (default); exact: all trees that the\nlargest throughput needs; weights: nearly that, "  \
    "for large\ntopologies; cluster: a few of many candidates, for a job on a\nshared cluster; in-network: trees to "  \
    "servers through\naggregating switches")                                                                           \
  X(WAYS, "ways", 0, "LIST", "for cluster: what may be used, of " BY_PLAN_METHODS ";\ndefault: all")                   \
  X(TREE_PENALTY, "tree-penalty", 0, "PART",                                                                           \
    "for cluster: smallest saving of time, as a part of it, for\nwhich another tree is used; default 0.01")            \
  X(STEPS, "steps", 0, "Z", "for cluster: weights are tried in steps down to 1/Z; default 16")                         \
  X(COST, "cost", 0, "NAME=VALUE,...",                                                                                 \
    "costs for predicted times: \"hop=25us,message=5us,\nwire=1.05,grain=32K\"; see docs/measurements")                \
  X(FAN_OUT, "fan-out", 0, "D",                                                                                        \
    "for the control tree: largest number of children of a rank;\ndefault: derived from delay and costs of messages")  \
  X(CONTROL_HEIGHT, "control-height", 0, "H",                                                                          \
    "for the control tree: largest number of hops to the root;\ndefault: the minimum")                                 \
  X(CONTROL_DISTANCE, "control-distance", 0, "D",                                                                      \
    "for the control tree: largest number of links, or seconds, between\na rank and its parent; default: the minimum")

enum by_planner_key {
#define BY_PLANNER_KEY(key, ...) BY_PLANNER_##key,
  BY_PLANNER_KEYS(BY_PLANNER_KEY)
#undef BY_PLANNER_KEY
      BY_PLANNER_N_KEYS
};

/* The given texts, by enum by_planner_key; NULL: not given. Borrowed. */
struct by_planner_texts {
  const char *of[BY_PLANNER_N_KEYS];
};

/* Sets the options that are given. They also determine what is weighed beside the trees: a method or limits select such
 * trees for all sizes. `before` precedes names in errors: "--". All errors are BANYAN_ERR_ARGUMENT or
 * BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_planner_options_read(const struct by_planner_texts *texts, const char *before,
                                                        struct by_planner_options *options);
/* Like by_planner_options_read for one text, "trees=8,max-height=4,ways=ring+tree": lists in a value have "+" for the
 * comma, and names may omit "max-" and "min-". Errors name the item by number and text, and list the keys if a key is
 * unknown; a key may be given once. NULL: nothing is given. */
BANYAN_CHECK enum banyan_status by_planner_options_parse(const char *text, struct by_planner_options *options);

/* What such a text asks of the plans that a manager makes, which are those of the method cluster. 0: not given. */
struct by_planner_managed {
  uint32_t ways; /* enum by_plan_method */
  double tree_penalty;
  uint32_t steps, trees;
};
/* All 0 if the text has another method, or none. Errors as above. */
BANYAN_CHECK enum banyan_status by_planner_managed_parse(const char *text, struct by_planner_managed *out);

/* Plans the groups of one job that call at the same time over the same links, such as the data-parallel and the
 * model-parallel groups of a mesh.
 *
 * Trees are packed for all groups together, every group at the same rate: the graphs of the groups become one graph,
 * whose spanning trees consist of one tree of each group. That proves a bound for all together. A group that calls
 * alone may be slower with such trees than with its own, so plans are judged by their worst loss: of that bound, and of
 * each group's bound alone. A second packing minimises this loss: in it a group may load a link only so far that its
 * loss alone does not exceed that of all together. Then each link is divided between the groups whose trees need it, in
 * proportion to their load, and each group is planned with its part of the capacities. Pure: no I/O, no clock. */

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
