/* Plans how the ranks of a job agree on what is ready: along a control tree, or, if the user requests it, around a ring
 * if the network has one through all ranks. Small messages go from every rank to the root and back, so the tree is low,
 * no rank has many children, and ranks that exchange messages are near. A ring is never faster than the tree that
 * results from cutting it and rooting it in its middle. Pure values; equal input gives equal values. */
#ifndef BY_PLANNER_CONTROL_TREE_CONTROL_TREE_H
#define BY_PLANNER_CONTROL_TREE_CONTROL_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"
#include "plan.h"
#include "plan_order.h"
#include "topology.h"

/* The distances between ranks in a topology. Ranks with links of equal delays to the same nodes (such as those of a
 * rack) cannot be distinguished and are one class, so that thousands of hosts need little memory. Distances are those
 * of the paths with the fewest links, over links with residual capacity in both directions, and among these of one with
 * the shortest delay. */
struct by_nearness {
  uint32_t n_ranks, n_classes;
  uint32_t *node;     /* The node of each rank. */
  uint32_t *class_of; /* The class of each rank. Classes are numbered by their first ranks. */
  uint32_t *first;    /* The ranks of class c are ranks[first[c] .. first[c + 1]), ascending. */
  uint32_t *ranks;
  /* Element a * n_classes + b is the number of links between ranks of classes a and b; a == b: between two ranks of the
   * class. */
  uint16_t *hops;
  float *delay; /* The delays in one direction in seconds, indexed as `hops`. */
  struct by_arena arena;
};

/* The largest number of ranks whose distances are kept. */
enum { BY_NEARNESS_MAX = 8192 };

/* Computes the distances. Participants are nodes, all different, rank 0 first; NULL: the hosts that take part.
 * BANYAN_ERR_ARGUMENT: a participant is not in the topology; BANYAN_ERR_TOPOLOGY: ranks cannot reach each other, or are
 * too far apart; BANYAN_ERR_UNSUPPORTED: more than BY_NEARNESS_MAX ranks. The caller calls by_nearness_fini. Cost:
 * classes * links, and 6 bytes * classes^2. */
BANYAN_CHECK enum banyan_status by_nearness_init(struct by_nearness *nearness, const struct by_topology *topology,
                                                 const uint32_t *participants, uint32_t n);
static inline void by_nearness_fini(struct by_nearness *nearness) {
  by_arena_fini(&nearness->arena);
  *nearness = (struct by_nearness){0};
}

/* These functions return the distance between two ranks in links, and in seconds; 0 for a rank and itself. */
static inline uint32_t by_hops_between(const struct by_nearness *near, uint32_t a, uint32_t b) {
  return a == b ? 0 : near->hops[(size_t)near->class_of[a] * near->n_classes + near->class_of[b]];
}
static inline double by_delay_between(const struct by_nearness *near, uint32_t a, uint32_t b) {
  return a == b ? 0 : (double)near->delay[(size_t)near->class_of[a] * near->n_classes + near->class_of[b]];
}

/* --- The tree. --- */

/* The costs of a message between two controllers. */
struct by_control_costs {
  double delay;   /* The seconds that it travels. */
  double wake;    /* The seconds until the waiting thread runs. */
  double message; /* The seconds for which sending or receiving it keeps a controller busy. */
};

struct by_control_limits {
  uint32_t fan_out; /* The largest number of children; 0: computed from the costs. */
  /* The largest number of levels below the root; 0: the smallest that the fan-out allows. */
  uint32_t height;
  /* The largest distance between a rank and its parent; 0: the smallest that connects all ranks. */
  double distance;
  bool by_delay; /* Distances are seconds of delay; if false, numbers of links. */
};

struct by_control_tree {
  uint32_t n, root;
  uint32_t *parent;              /* The parent of each rank. The root is its own parent. */
  uint32_t height, fan_out;      /* The height of this tree, and its largest number of children. */
  double distance, sum;          /* The largest distance between a rank and its parent, and the sum of all of these. */
  struct by_control_limits kept; /* The limits that the tree keeps, all > 0 except perhaps the distance. */
  bool farther, higher;          /* The requested distance, or height, had to be exceeded. */
  struct by_arena arena;
};

/* Returns the default costs: 30 us in a network whose delay is not known, 30 us to wake a waiting thread, 7 us a
 * message. */
static inline struct by_control_costs by_control_costs_usual(void) {
  return (struct by_control_costs){.delay = 30e-6, .wake = 30e-6, .message = 7e-6};
}
/* Returns the costs with the average delay from the rank in the middle, if the topology has delays. */
struct by_control_costs by_control_costs_of(const struct by_nearness *near);
/* Returns the largest useful number of children. A level costs delay + wake + d * message and multiplies the ranks by
 * d, so the time is minimal if d (ln d - 1) = (delay + wake) / message: 8 at 30 us, 31 at 0.5 ms. Of the fan-outs up to
 * that one, it is the smallest that keeps the height over n ranks. At least 2. */
uint32_t by_control_fan_out(uint32_t n, const struct by_control_costs *costs);
/* Returns the smallest height of a tree over n ranks with this many children each. */
uint32_t by_control_height(uint32_t n, uint32_t fan_out);

/* Makes a tree for ranks in a topology. The roots that are tried are the middle and its nearest sqrt(n) ranks (fewer if
 * there are hundreds of classes). From the root down each level has as many ranks as the level above has free children,
 * with the smallest sum of distances (by_assign_solve): once without restriction, once a number from every class of
 * ranks (every rack) so that the remaining ranks are near to some. The tree of less distance is kept. If no root has a
 * tree, the distance is doubled; if the height cannot hold all ranks, it is raised. `farther` and `higher` report this.
 * Distances are rounded to 1/32 of the limit. The caller owns *out. BANYAN_ERR_ARGUMENT: no ranks. Cost: for each root
 * tried and level an assignment between classes. */
BANYAN_CHECK enum banyan_status by_control_tree_make(const struct by_nearness *near,
                                                     const struct by_control_limits *limits,
                                                     const struct by_control_costs *costs,
                                                     struct by_control_tree **out);
/* Destroys a tree. NULL is allowed. */
void by_control_tree_destroy(struct by_control_tree *tree);

/* Computes the seconds from the moment when all ranks are ready until every rank knows it: up the tree and down again.
 * A controller receives and sends its messages one after the other. If `near` is NULL, and between ranks whose delay is
 * not known, the delays are those of `costs`. */
BANYAN_CHECK enum banyan_status by_control_tree_time(const struct by_control_tree *tree, const struct by_nearness *near,
                                                     const struct by_control_costs *costs, double *out);
/* Computes these seconds for a ring in this order of ranks: a message goes from the first rank to the last, and on from
 * there until the last but one has the answer, 2 (n - 1) hops. It begins where the two hops that it leaves out are
 * longest. */
double by_control_ring_time(const uint32_t *order, uint32_t n, const struct by_nearness *near,
                            const struct by_control_costs *costs);

/* Makes a tree from a ring of at least one rank: it is cut at its longest hop, and the rank in the middle becomes the
 * root. Messages go half as far as around the ring. The limits are those of the tree that it replaces, except height
 * and distance. The caller owns *out. Cost: n. */
BANYAN_CHECK enum banyan_status by_control_tree_cut(const uint32_t *order, const struct by_nearness *near,
                                                    const struct by_control_costs *costs,
                                                    const struct by_control_limits *kept, struct by_control_tree **out);

/* --- Trees by the numbers of ranks, where no network is known. --- */

/* The root is rank 0, and its children are the next ranks. The following `fan_out` ranks are the children of rank 1,
 * and so on. */
struct by_control_numbered {
  uint32_t at_root; /* The largest number of children of the root. */
  uint32_t fan_out; /* The largest number of children of any other rank. */
};

/* Makes the shape. The root, which also decides what starts, has as few children as possible without making any rank
 * wait: the time of the tree (by_control_tree_time) is not longer than with `fan_out` children at the root.
 * BANYAN_ERR_NO_MEMORY. Cost: n * fan_out. */
BANYAN_CHECK enum banyan_status by_control_numbered_make(uint32_t n, uint32_t fan_out,
                                                         const struct by_control_costs *costs,
                                                         struct by_control_numbered *out);

static inline uint32_t by_control_parent(const struct by_control_numbered *shape, uint32_t rank) {
  return rank <= shape->at_root ? 0 : 1 + (rank - 1 - shape->at_root) / shape->fan_out;
}

/* --- A tree and a ring that can be printed. --- */

struct by_control_options {
  const uint32_t *participants; /* The nodes of the ranks, rank 0 first; NULL: the hosts that take part. */
  uint32_t n_participants;
  struct by_control_limits limits;
  uint64_t seed; /* The seed of the search for a ring. */
};

struct by_controller_trees {
  const struct by_topology *topology; /* Borrowed. */
  struct by_nearness near;
  struct by_control_costs costs;
  struct by_control_tree *tree;
  struct by_hamilton ring;     /* Whether there is a ring. Its vertices are ranks. */
  uint32_t *order;             /* The ring; undefined if there is none. */
  double tree_time, ring_time; /* The seconds of the tree, and of the ring; INFINITY if there is no ring. */
  bool cut;                    /* The tree is the ring, cut and rooted in its middle. */
};

/* Makes tree and ring. The ring becomes the tree, cut open, if that is faster and no limits were given. Two ranks are
 * neighbours on a ring if packets get from one to the other without passing a third: over a link between them, or
 * through nodes that are not ranks. The preferred order goes from a rank to the nearest, so it goes through rack after
 * rack. The caller calls by_control_fini; the topology must outlive `out`. Errors and cost are those of
 * by_nearness_init and by_control_tree_make. */
BANYAN_CHECK enum banyan_status by_control_make(const struct by_topology *topology,
                                                const struct by_control_options *options,
                                                struct by_controller_trees *out);
void by_control_fini(struct by_controller_trees *control);
/* Sets this tree, and the ring if there is one, in a plan over the same ranks. */
BANYAN_CHECK enum banyan_status by_control_give(const struct by_controller_trees *control, struct by_plan *plan);
/* Makes a control tree for a plan whose ranks are nodes of the topology, by name (by_plan_locate), and sets it in the
 * plan. The participants of the options are ignored. A plan for which none can be made (by_nearness_init) is not
 * changed. */
BANYAN_CHECK enum banyan_status by_control_add(const struct by_topology *topology,
                                               const struct by_control_options *options, struct by_plan *plan);

struct by_text;
/* Adds a drawing for people. */
BANYAN_CHECK enum banyan_status by_control_draw(const struct by_controller_trees *control, struct by_text *text);
/* Adds one line of JSON without a newline (docs/plan-format.md). */
void by_control_print(const struct by_controller_trees *control, struct by_text *text);

/* --- Assignment, for the levels of a tree. --- */

/* Assignment with capacities: of all assignments of as many units as possible, one with the least cost (a maximum
 * b-matching of least cost, the transportation problem). */

/* A pair: `from` may take `to`, at this cost for each unit. */
struct by_assign_pair {
  uint32_t from, to;
  uint32_t cost;
};

struct by_assign {
  uint32_t n_from, n_to;
  const uint32_t *supply; /* The largest number of units that each `from` takes. */
  const uint32_t *demand; /* The largest number of units that are taken of each `to`. */
  uint32_t n_pairs;
  const struct by_assign_pair *pairs; /* The pairs, ascending by `from`, no pair twice. */
};

/* Up to this many pairs are assigned at least cost. Of more pairs, cheap ones are taken first. */
enum { BY_ASSIGN_EXACT = 20000 };

/* Computes flow[i], the units of pair i; the caller allocates n_pairs numbers. Their sum is the largest possible. Up to
 * BY_ASSIGN_EXACT pairs, the flow has the least cost of all with that sum: shortest paths with potentials, all paths of
 * equal cost at once (the primal-dual method of Ford and Fulkerson, with Dinic's blocking flows), which takes pairs *
 * log(n_from + n_to) for each cost that a path can have. Of more pairs, the cheapest are taken in turn (at most twice
 * the least cost for as many units), and afterwards paths are found to take more, at any cost: at worst pairs *
 * sqrt(n_from + n_to). BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_assign_solve(const struct by_assign *assign, uint32_t *flow);

#endif
