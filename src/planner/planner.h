/* Makes a plan from a topology, with a bound that proves how good it is. It packs trees (packing.h) into the graph of
 * the topology (graph.h), and for each size of buffer compares them with a low tree, rings and other built-in plans by
 * predicted time (cost.h). Pure: no I/O, no clock; equal seeds give equal plans. */
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

/* A plan for all data among the participating ranks, which is compared with other plans. */
struct by_candidate {
  struct by_plan *plan; /* Has a single class. Owned. */
  char what[48];        /* The description for users, such as "ring in a good order". */
  double rate;          /* The input in bit/s that large buffers reach. */
  double seconds[BY_WEIGH_SIZES];
};

struct by_weighed {
  uint32_t n;
  struct by_candidate candidates[BY_WEIGH_MAX];
  uint64_t sizes[BY_WEIGH_SIZES]; /* The sizes of buffers in bytes, ascending. */
  /* The candidate chosen for each size, which also serves the sizes between it and the previous one. */
  uint32_t used[BY_WEIGH_SIZES];
  uint32_t halving; /* The index of the candidate that is preferred between two hosts; 0: none. */
};

enum by_planner_method {
  BY_PLANNER_FEW,        /* At most K low trees. */
  BY_PLANNER_EXACT,      /* As many trees as the largest throughput requires. */
  BY_PLANNER_WEIGHTS,    /* Approximates the largest throughput, for large graphs. */
  BY_PLANNER_CLUSTER,    /* At most K of rings, stars, elastic trees, packed trees and others (embed.h). */
  BY_PLANNER_IN_NETWORK, /* Places aggregation on switches (placement.h). by_planner_run refuses this method. */
};
#define BY_PLANNER_METHODS "few|exact|weights|cluster|in-network"
#define BY_PLANNER_METRICS "hops|delay" /* The units of heights. */

/* For which sizes of buffers candidates are compared by predicted time. */
enum by_planner_weighing {
  BY_PLANNER_WEIGH_ALL,   /* All candidates are compared for every size. */
  BY_PLANNER_WEIGH_SMALL, /* All candidates are compared, but large buffers use the requested trees. */
  BY_PLANNER_WEIGH_NONE,  /* The requested trees are used for every size. */
};

struct by_planner_options {
  enum by_planner_method method;
  struct by_graph_choice choice; /* The participants and possible helpers. */
  uint32_t max_trees;            /* K, for BY_PLANNER_FEW and BY_PLANNER_CLUSTER. */
  double max_height;             /* The limit of the height of each tree, for these two methods; INFINITY: none. */
  bool by_delay;                 /* Heights are in seconds; if false, in hops. */
  double min_rate;               /* The smallest rate of each tree in bit/s, for these two methods. */
  double tolerance; /* The part of the bound that may be given up for less height; NAN: 0.05, above 8 trees 0.01. */
  uint64_t seed;
  /* The hosts that may serve in-network trees (embed.h). This field and those up to `old` are for BY_PLANNER_CLUSTER.
   */
  const uint32_t *servers;
  uint32_t n_servers;
  uint32_t allowed;               /* A set of bits of enum by_plan_method. */
  uint32_t steps;                 /* Weights of trees are multiples of 1 / steps. */
  uint32_t queues;                /* The number of queues of a switch that share the work (embed.h). */
  double penalty;                 /* The part of the time that another tree must save, 0 to 1. */
  const struct by_embedding *old; /* The embedding that is to be improved (by_embed); NULL: there is none. */
  /* Element i is the number of calls with at least 2^i and less than 2^(i + 1) bytes; NULL: any size may occur. */
  const uint64_t *calls;
  enum by_planner_weighing weighing;
  struct by_cost_rates rates;       /* The costs for predicted times. */
  struct by_control_limits control; /* The limits of the control tree. */
  /* Cancels planning (see struct by_graph). Borrowed while by_planner_run runs; any thread may set it. */
  const atomic_bool *cancelled;
  const double *ranks_on; /* The number of ranks on each participant; NULL: one on each. */
};

/* The result of by_planner_run. Free it with by_planned_fini. */
struct by_planned {
  struct by_plan *plan;
  struct by_graph *graph;
  struct by_packing *packing;     /* The trees that were packed first; NULL for BY_PLANNER_CLUSTER. */
  struct by_embedding *embedding; /* The result of BY_PLANNER_CLUSTER; NULL for other methods. */
  struct by_weighed weighed;      /* The candidates. The first one has the trees of the packing or embedding. */
  struct by_cost_rates rates;     /* The costs that were used for predicted times. */
  /* The plan's control tree, which borrows the topology. Its tree is NULL if the plan has none. */
  struct by_controller_trees control;
};

/* Returns the defaults: method few, 8 trees of any height, default tolerance, seed 1. All candidates are compared with
 * the default costs. */
struct by_planner_options by_planner_defaults(void);
/* Plans; `name` is the plan's. With BY_PLANNER_CLUSTER, in-network trees are compared by time, too: small calls use
 * trees among hosts if those are faster. Sizes without known calls get no class of their own, so a job whose calls are
 * all small has a plan without servers. The plan has a control tree if one can be made (by_nearness_init).
 * BANYAN_ERR_ARGUMENT, BANYAN_ERR_TOPOLOGY: see by_graph_of_topology; BANYAN_ERR_ARGUMENT: also for
 * BY_PLANNER_IN_NETWORK; BANYAN_ERR_PLAN: no trees meet the limits; BANYAN_ERR_ABORTED: it was cancelled, which
 * BY_PLANNER_CLUSTER does not check. Cost: that of the parts; a second for 1000 vertices. */
BANYAN_CHECK enum banyan_status by_planner_run(const char *name, const struct by_topology *topology,
                                               const struct by_planner_options *options, struct by_planned *out);
void by_planned_fini(struct by_planned *planned);

struct by_text;
/* Adds an explanation: what part of the bound the plan reaches, which links and hosts limit it, which candidate serves
 * which sizes, and the rate and times of every candidate. */
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

/* Sets the options that are given. They also determine for which sizes candidates are compared: a method or limits
 * select the requested trees for all sizes. `before` precedes names in errors: "--". All errors are BANYAN_ERR_ARGUMENT
 * or BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_planner_options_read(const struct by_planner_texts *texts, const char *before,
                                                        struct by_planner_options *options);
/* Like by_planner_options_read for one text, "trees=8,max-height=4,ways=ring+tree": lists in a value have "+" for the
 * comma, and names may omit "max-" and "min-". Errors name the item by number and text, and list the keys if a key is
 * unknown; a key may be given once. NULL: nothing is given. */
BANYAN_CHECK enum banyan_status by_planner_options_parse(const char *text, struct by_planner_options *options);

/* The options in such a text that apply to the plans of a manager, whose method is cluster. 0: not given. */
struct by_planner_managed {
  uint32_t ways; /* A set of bits of enum by_plan_method. */
  double tree_penalty;
  uint32_t steps, trees;
};
/* Parses such a text. All fields are 0 if the text has another method, or none. The errors are those of
 * by_planner_options_parse. */
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
  BY_SHARE_CURRENT, /* The group keeps its present plan. */
  BY_SHARE_ALONE,   /* The plan of the group alone. */
  BY_SHARE_JOINT,   /* A new plan, by_share_set.plan. */
};

/* The hosts of a group, or of several groups on the same hosts. */
struct by_share_set {
  const uint32_t *nodes; /* Two or more distinct nodes, which are the ranks of the plans. */
  uint32_t n_nodes;
  uint32_t groups;               /* The number of groups on these hosts, at least 1. */
  const struct by_plan *alone;   /* The plan that by_planner_run makes for them, with its bound. */
  const struct by_plan *current; /* The plan in use; NULL: none. */
  /* The following fields are results. */
  enum by_share_choice choice;
  struct by_plan *plan; /* The plan for BY_SHARE_JOINT, owned by the caller; NULL for other choices. */
};

struct by_shared {
  double rate;     /* The input of each group in bit/s when all groups call at the same time. */
  double bound;    /* A proven bound: no set of trees gives every group a higher rate at the same time. */
  double loss;     /* The largest bound / rate, for all groups together and for each alone; at least 1. */
  double min_loss; /* A proven bound: no trees have a smaller loss; 1: not known. */
};

enum {
  BY_SHARE_MAX = 64,        /* The largest number of sets that are planned together. */
  BY_SHARE_MAX_GROUPS = 64, /* The largest number of groups of a set that are counted. */
};

/* Chooses the plans of n sets of hosts, 1 .. BY_SHARE_MAX. `options` are those of by_planner_run; its participants and
 * helpers are ignored. Present plans stay unless the others lose less by a twentieth. On failure no set has a plan.
 * Errors: those of by_graph_of_topology, by_plan_load_init and by_planner_run. Cost: a packing over all sets, and if
 * their own plans do not share links well, another one and a plan for each. */
BANYAN_CHECK enum banyan_status by_planner_share(const char *name, const struct by_topology *topology,
                                                 const struct by_planner_options *options, struct by_share_set *sets,
                                                 uint32_t n, struct by_shared *out);

#endif
