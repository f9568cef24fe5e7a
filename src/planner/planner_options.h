/* The options of the planner. One table makes the options of `banyan plan` and the keys of BANYAN_PLANNER, with the
 * same names and limits. Pure. */
#ifndef BY_PLANNER_PLANNER_OPTIONS_H
#define BY_PLANNER_PLANNER_OPTIONS_H

#include "plan_methods.h"
#include "planner.h"

/* Rows: key, name, letter on the command line (0: none), name of the value, help. */
#define BY_PLANNER_KEYS(X)                                                                                             \
  X(TREES, "trees", 'k', "K", "for a TOPOLOGY: largest number of trees; default 8")                                    \
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
    "for cluster: another tree must save this part of the time;\ndefault 0.01")                                        \
  X(STEPS, "steps", 0, "Z", "for cluster: weights are tried in steps down to 1/Z; default 16")                         \
  X(COST, "cost", 0, "NAME=VALUE,...",                                                                                 \
    "costs for predicted times: \"hop=25us,message=5us,\nwire=1.05,grain=32K\"; see docs/measurements")                \
  X(FAN_OUT, "fan-out", 0, "D",                                                                                        \
    "for the control tree: most children of a rank; default: derived\nfrom delay and costs of messages")               \
  X(CONTROL_HEIGHT, "control-height", 0, "H", "for the control tree: most hops to the root; default: the\nminimum")    \
  X(CONTROL_DISTANCE, "control-distance", 0, "D",                                                                      \
    "for the control tree: most links, or seconds, between a rank and\nits parent; default: the minimum")

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

#endif
