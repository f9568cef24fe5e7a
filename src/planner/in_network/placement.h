/* The placement of in-network aggregation: for a job whose workers send their gradients through programmable switches
 * to servers, which switches add for which workers, which part of the job goes to which server, and what every worker
 * has to know. A value in one arena; the same input gives the same value. It does not allocate slots, keys and groups.
 */
#ifndef BY_PLANNER_IN_NETWORK_PLACEMENT_H
#define BY_PLANNER_IN_NETWORK_PLACEMENT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "plan.h"
#include "topology.h"

struct by_placement_job {
  const uint32_t *workers; /* nodes, all different, rank 0 first */
  uint32_t n_workers;      /* at most BY_PLAN_MAX_WORKERS */
  const uint32_t *servers; /* hosts, all different; workers may be among them */
  uint32_t n_servers;      /* >= 1 */
  /* Hosts that may aggregate for workers next to the same switch, where no switch on any path to the server can. */
  const uint32_t *aggregators;
  uint32_t n_aggregators;
};

struct by_placement_options {
  uint32_t max_adding; /* the largest number of switches of one tree that add; UINT32_MAX: any */
  double turnaround;   /* seconds that ends and switches add to a round trip */
  uint32_t
      queues; /* queues of switches to be used together: this many trees in place of each, with equal shares; 0: 1 */
};

/* A tree of paths to a server, with a part of the job. */
struct by_placed_tree {
  uint32_t server;   /* an index into the job's servers */
  double share;      /* part of the job's bytes */
  double rate;       /* bit/s */
  double round_trip; /* seconds of the longest path there and back, with the turnaround */
  uint32_t n;
  uint32_t *node;    /* of each vertex; 0 is the server, parents come before children */
  uint32_t *parent;  /* of each vertex: its parent */
  uint32_t *link;    /* of each vertex: the link to the parent */
  uint32_t *workers; /* of each vertex: workers whose gradients pass it or begin there */
  bool *adds;
  uint32_t *aggregator; /* of each vertex: the node that adds in its stead; UINT32_MAX: it adds itself */
  uint32_t *out;        /* of each vertex: gradients that it sends to the parent; as many come back */
  uint32_t *start;      /* of each of the job's workers: its vertex */
};

struct by_placement {
  uint32_t n_trees;
  struct by_placed_tree *trees; /* sorted by share, largest first */
  double rate;                  /* bit/s; 1 / theta */
  double bound;                 /* bit/s that no choice on these paths exceeds */
  double without;               /* the rate if no switch adds, bit/s */
  struct by_arena arena;
};

/* One switch on a worker's path to the server. The path back has the same switches in opposite order. */
struct by_placed_hop {
  uint32_t node;
  bool adds;         /* up: whether it adds; down: whether it has added */
  uint32_t expected; /* workers whose gradients arrive here */
  uint32_t up, down; /* links by which packets leave: towards the server, towards the worker */
};

/* Returns the defaults: 100 us, any number of switches, one queue. */
static inline struct by_placement_options by_placement_defaults(void) {
  return (struct by_placement_options){.max_adding = UINT32_MAX, .turnaround = 100e-6, .queues = 1};
}

/* Where no switch on the paths can add, a host next to one may add in its stead: an aggregator, to which all workers
 * below that switch send, and whose link carries the terms and results of each. Of several, the one with the widest
 * link is taken.
 *
 * Paths are those of topology_paths.h; a link counts with the capacity left in its smaller direction, since the result
 * takes the same path back. A switch that adds needs rate x round trip of memory for each tree; one whose memory is not
 * known has enough. One server: the smallest theta, then the fewest switches, exactly (by_flow_find_min). Otherwise,
 * and where memory limits the rate, shares over trees that differ in server or adders, exactly, by column generation: a
 * linear program over links, nodes and memories, new columns by by_flow_find_cheapest; then unneeded adders are
 * removed, tree by tree. With max_adding, each server has one tree, by_flow_find_min's, and only shares are optimised.
 * The caller owns *out. BANYAN_ERR_ARGUMENT: the job is not valid; BANYAN_ERR_TOPOLOGY: no path to a server;
 * BANYAN_ERR_UNSUPPORTED: too many workers, or CLP is needed and not installed. Cost: a search of the topology for each
 * server, and programs of few rows. */
BANYAN_CHECK enum banyan_status by_placement_make(const struct by_topology *topology,
                                                  const struct by_placement_job *job,
                                                  const struct by_placement_options *options,
                                                  struct by_placement **out);
/* Destroys a placement; NULL is allowed. */
void by_placement_destroy(struct by_placement *placement);
/* Finds the best host for a single server, for a job without servers: a helper that is no worker if there is one, else
 * any worker; the lowest number of equal ones. Cost: a placement for each. */
BANYAN_CHECK enum banyan_status by_placement_best_server(const struct by_topology *topology,
                                                         const struct by_placement_job *job,
                                                         const struct by_placement_options *options, uint32_t *server);

/* Lists the programmable switches on a worker's path, from the worker to the server; hops has the capacity tree->n.
 * Returns their number: 0 for a worker that is the server itself. */
uint32_t by_placed_stack(const struct by_placed_tree *tree, const struct by_topology *topology, uint32_t worker,
                         struct by_placed_hop *hops);
/* Makes the plan, which can be run (by_plan_check_switches): ranks are the workers, each tree has a server "HOST/0",
 * "HOST/1", ... at its root, its aggregators, and all programmable switches of its paths, with the interfaces by which
 * they reach each other (by_topology_interface). A worker on the server's host is a child of the server. The caller
 * owns *out. */
BANYAN_CHECK enum banyan_status by_plan_of_placement(const char *name, const struct by_topology *topology,
                                                     const struct by_placement *placement,
                                                     const struct by_placement_job *job, struct by_plan **out);

struct by_text;
/* The first adds a drawing for people, the second one line of JSON without a newline (docs/plan-format.md). */
BANYAN_CHECK enum banyan_status by_placement_draw(const struct by_placement *placement,
                                                  const struct by_topology *topology,
                                                  const struct by_placement_job *job, struct by_text *text);
BANYAN_CHECK enum banyan_status by_placement_print(const struct by_placement *placement,
                                                   const struct by_topology *topology,
                                                   const struct by_placement_job *job, struct by_text *text);

/* The paths of a job's workers to a server as a tree, and which switches on it add best: for the placement on switches,
 * and for planners that compare in-network trees with others. */

/* A tree in which some vertices can add: workers' gradients flow along it to the server at its root. A vertex that adds
 * sends one gradient on, another one sends all that came; the result takes the same paths back. Pure, without names.
 * All loads are gradients: at rate x each of them takes x bit/s of a link, in both directions. */
struct by_rooted_flow {
  uint32_t n;       /* number of vertices; 0 is the server, parents come before children */
  uint32_t *parent; /* of each vertex; parent[0] = 0 */
  uint32_t *own;    /* of each vertex: gradients that begin there; those of the server do not travel */
  bool *able;       /* of each vertex: whether it may add */
  double *capacity; /* of each vertex: bit/s > 0 to and from the parent, the smaller one; not used for the server */
  double *limit;    /* of each vertex: bit/s that it may send, and receive, over all links; INFINITY: any */
  double *hold;     /* of each vertex, seconds per bit: if it adds, its memory, or the link of its aggregator, allows no
                       higher rate than 1 / hold; 0: any */
};

/* Returns the seconds per bit of a choice: the largest of load / capacity, load / limit, and the holds of the adders.
 * out[v] (NULL: not wanted): gradients that v sends to its parent. Cost: n. */
double by_flow_theta(const struct by_rooted_flow *flow, const bool *adds, uint32_t *out);

/* Finds the fewest vertices, at most `max`, that must add so that theta is no larger than given: *found says whether
 * there are any, and then adds[] is filled. Tree knapsack: g_v(k) is the minimum that v sends if k vertices of its
 * subtree add. Exact, since sending less never makes it worse. Cost: n x min(max, able ones). BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_flow_find_fewest(const struct by_rooted_flow *flow, double theta, uint32_t max,
                                                    bool *adds, bool *found);
/* Finds the smallest theta with at most `max` adders, to 1e-12, and the fewest adders that reach it, by bisection.
 * *theta is that of adds[]. */
BANYAN_CHECK enum banyan_status by_flow_find_min(const struct by_rooted_flow *flow, uint32_t max, bool *adds,
                                                 double *theta);
/* Finds the choice of least cost, where each gradient sent by v costs price[v] >= 0 and adding at v costs rent[v] >= 0;
 * exact, by the next adder above. *cost is the total. Cost: n x depth. */
BANYAN_CHECK enum banyan_status by_flow_find_cheapest(const struct by_rooted_flow *flow, const double *price,
                                                      const double *rent, bool *adds, double *cost);

/* The paths of a job's workers to one of its servers, before the adders are chosen. */
struct by_path_tree {
  uint32_t server; /* an index into the job's servers */
  double round_trip;
  uint32_t *node, *link, *workers, *start,
      *aggregator;  /* as in by_placed_tree; `aggregator` of vertices that are able */
  uint32_t *detour; /* of each vertex: its aggregator's link */
  struct by_rooted_flow flow;
};

/* Returns the gradients that an aggregator's link carries in each direction: those of its workers and one result, or
 * one sum and their results. */
static inline uint32_t by_aggregator_load(const struct by_path_tree *tree, uint32_t v) {
  return tree->workers[v] + 1;
}

/* Returns the bit/s left in the smaller direction of a link. */
static inline double by_link_min_left(const struct by_topology *topology, uint32_t link) {
  const struct by_link *at = &topology->links[link];
  return fmin(by_residual(at->capacity[BY_AB]), by_residual(at->capacity[BY_BA]));
}

struct by_placement_paths {
  const struct by_topology *topology;
  const struct by_placement_job *job;
  uint32_t n_trees;
  struct by_path_tree *trees; /* one for each server */
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_placement_paths_init(struct by_placement_paths *paths,
                                                        const struct by_topology *topology,
                                                        const struct by_placement_job *job, double turnaround);
static inline void by_placement_paths_fini(struct by_placement_paths *paths) {
  by_arena_fini(&paths->arena);
  *paths = (struct by_placement_paths){0};
}

#endif
