/* Predicted time of an AllReduce by one class of a plan over a topology, where
 * calls follow each other: from one's end to the next one's.
 *
 * Plain trees are followed chunk by chunk, all of a class at once, so that they
 * wait for each other where they share links or cores (cost_flow.c). Others:
 *
 *   T = call + max(hypot(max(way, bytes / rate of the plan's load), work of all / cores), work of the busiest vertex)
 *
 * where work is message * messages or byte * bytes, and `way` what the first chunk of a piece takes: it passes through
 * its tree hop by hop, waits for those before it on its first and its last link, then takes chunk / capacity + delay +
 * hop + link * links, and the vertex `message` more. A link idles until the first tree that uses it has bytes for it,
 * and after it has carried the last ones, until the tree that is done soonest after it is. So a ring, in which every
 * link has work from the first moment to the last, pays its steps only where they are longer than its bytes.
 *
 * An in-network tree takes two trips to its server and back, and its fragments' time on the fullest link of its ways
 * (cost_network.c). A class takes as long as the slowest of its trees.
 * by_cost_fit finds the costs with which predicted times are nearest to measured ones. */
#ifndef BY_PLANNER_COST_COST_H
#define BY_PLANNER_COST_COST_H

#include "plan_load.h"

/* What hosts and links cost; seconds and bytes. docs/measurements/2026-11-22-predicted-times.md tells where the
 * defaults come from. */
struct by_cost_rates {
  double wire;    /* bytes on a link for a byte of data, >= 1 */
  double call;    /* of every call */
  double hop;     /* from the last byte's arrival at a vertex to its leaving it, waking up included */
  double link;    /* of every link on a way: what forwards in between */
  double message; /* of a vertex for each message, or chunk of one, it sends or takes */
  double cores;   /* that all vertices share; INFINITY, or as many as there are: each has its own */
  double byte;    /* of a vertex for each byte it sends or takes: copying, adding */
  double grain;   /* bytes of a long message that go at a time; of a shorter one a quarter of it, or half of this */
  double burst; /* what a link that idled so long lets through at once, and a packet's length; 0: nothing (lab: 1 ms) */
};

/* A host of its own for each rank, TCP over Ethernet. */
struct by_cost_rates by_cost_defaults(void);
/* Changes those that are named: "hop=40us,wire=1.05,grain=64K". BANYAN_ERR_ARGUMENT names what is wrong. */
BANYAN_CHECK enum banyan_status by_cost_parse(const char *text, struct by_cost_rates *rates);

/* One tree of the class, over the plan's vertices; or an exchange. */
struct by_cost_tree;
struct by_cost_flow;
struct by_cost_network;

/* Everything but the size. Borrows the topology, not the plan. */
struct by_cost {
  const struct by_topology *topology;
  struct by_cost_rates rates;
  struct by_plan_load load;
  uint32_t n_trees;
  struct by_cost_tree *trees; /* of a rotated group only some, evenly spaced */
  struct by_cost_flow *flow;  /* of plain trees; NULL: there are others, or too many edges */
  uint32_t n_networks;
  struct by_cost_network *networks; /* in-network trees */
  double messages;                  /* that the busiest vertex sends and takes in a call */
  double all_messages;              /* that all vertices send and take */
  double busy;                      /* bytes that the busiest vertex sends and takes, per byte of input */
  double all_bytes;                 /* the same of all vertices */
  struct by_arena arena;
};

/* Free it with by_cost_fini. Errors and cost: by_plan_load_init, and the edges of the trees that are looked at. */
BANYAN_CHECK enum banyan_status by_cost_init(struct by_cost *cost, const struct by_plan *plan,
                                             const struct by_class *class_, const struct by_topology *topology,
                                             const struct by_cost_rates *rates);
void by_cost_fini(struct by_cost *cost);
/* Seconds of a call over so many bytes. NAN: no memory. Cost: edges of the trees that are looked at, links of all ways.
 */
double by_cost_time(const struct by_cost *cost, double bytes);

/* One class of a plan with calls that were measured. */
struct by_cost_sample {
  struct by_cost cost;
  uint32_t n;
  double *bytes, *seconds;
};

/* Changes call, hop, message and byte, beginning with what *rates says, until none of them alone is better by a
 * fiftieth; none becomes 64 times more or less. the samples' costs have these rates then. *error becomes the mean of
 * what logarithms of times differ by, at most `BY_COST_FIT_MOST` each, so that a few odd ones do not decide. Cost: some
 * hundred predictions of all. */
#define BY_COST_FIT_MOST 0.5
BANYAN_CHECK enum banyan_status by_cost_fit(struct by_cost_sample *samples, uint32_t n, struct by_cost_rates *rates,
                                            double *error);

#endif
