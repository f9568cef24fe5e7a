/* The placement of in-network aggregation: for a job whose workers send their gradients through programmable switches
 * to servers, which switches add for which workers, which part of the job goes to which server, and what every worker
 * has to know. A placement is in one arena; equal input gives equal placements. It does not allocate slots, keys and
 * groups. */
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
  const uint32_t *workers; /* The nodes of the workers, all different, rank 0 first. */
  uint32_t n_workers;      /* The number of workers, at most BY_PLAN_MAX_WORKERS. */
  const uint32_t *servers; /* The hosts of the servers, all different; workers may be among them. */
  uint32_t n_servers;      /* The number of servers, at least 1. */
  /* The hosts that may aggregate for workers next to the same switch, if no switch on any path to the server can. */
  const uint32_t *aggregators;
  uint32_t n_aggregators;
};

struct by_placement_options {
  uint32_t max_adding; /* The largest number of switches of one tree that add; UINT32_MAX: any. */
  double turnaround;   /* The seconds that hosts and switches add to a round trip. */
  /* The number of queues of switches to be used together: this many trees replace each tree, with equal shares; 0: 1.
   */
  uint32_t queues;
};

/* A tree of paths to a server, with a part of the job. */
struct by_placed_tree {
  uint32_t server;   /* An index of the job's servers. */
  double share;      /* The part of the job's bytes. */
  double rate;       /* The rate in bit/s. */
  double round_trip; /* The seconds of the longest path there and back, with the turnaround. */
  uint32_t n;
  uint32_t *node;    /* The node of each vertex. Vertex 0 is the server, and parents come before children. */
  uint32_t *parent;  /* The parent of each vertex. */
  uint32_t *link;    /* The link of each vertex to its parent. */
  uint32_t *workers; /* The number of workers whose gradients pass or begin at each vertex. */
  bool *adds;
  uint32_t *aggregator; /* The node that adds instead of each vertex; UINT32_MAX: the vertex adds itself. */
  uint32_t *out;        /* The number of gradients that each vertex sends to its parent; as many results come back. */
  uint32_t *start;      /* The vertex of each of the job's workers. */
};

struct by_placement {
  uint32_t n_trees;
  struct by_placed_tree *trees; /* The trees, sorted by share, largest first. */
  double rate;                  /* The rate in bit/s: 1 / theta. */
  double bound;                 /* A rate in bit/s that no choice on these paths exceeds. */
  double without;               /* The rate in bit/s if no switch adds. */
  struct by_arena arena;
};

/* One switch on a worker's path to the server. The path back has these switches in the opposite order. */
struct by_placed_hop {
  uint32_t node;
  bool adds;         /* On the way up: whether it adds; on the way down: whether it has added. */
  uint32_t expected; /* The number of workers whose gradients arrive here. */
  uint32_t up, down; /* The links by which packets leave towards the server, and towards the worker. */
};

/* Returns the defaults: 100 us, any number of switches, one queue. */
static inline struct by_placement_options by_placement_defaults(void) {
  return (struct by_placement_options){.max_adding = UINT32_MAX, .turnaround = 100e-6, .queues = 1};
}

/* Places a job.
 *
 * If no switch on the paths can add, a host next to a switch may add in its stead: an aggregator, to which all workers
 * below that switch send, and whose link carries the terms and results of each. Of several hosts, the one with the
 * widest link is taken.
 *
 * Paths are those of topology_paths.h. A link counts with the residual capacity of its smaller direction, since the
 * result takes the same path back. A switch that adds needs rate * round trip of memory for each tree; one whose memory
 * is not known has enough. With one server, the placement has the smallest theta and the fewest switches, exactly
 * (by_flow_find_min). Otherwise, and if memory limits the rate, shares over trees that differ in server or adders are
 * optimised, exactly, by column generation: a linear program over links, nodes and memories, with new columns by
 * by_flow_find_cheapest. Afterwards unneeded adders are removed, tree by tree. With max_adding, each server has one
 * tree, that of by_flow_find_min, and only shares are optimised. The caller owns *out. BANYAN_ERR_ARGUMENT: the job is
 * not valid; BANYAN_ERR_TOPOLOGY: no path to a server; BANYAN_ERR_UNSUPPORTED: too many workers, or CLP is needed and
 * not installed. Cost: a search of the topology for each server, and programs of few rows. */
BANYAN_CHECK enum banyan_status by_placement_make(const struct by_topology *topology,
                                                  const struct by_placement_job *job,
                                                  const struct by_placement_options *options,
                                                  struct by_placement **out);
/* Destroys a placement. NULL is allowed. */
void by_placement_destroy(struct by_placement *placement);
/* Finds the best host for a single server, for a job without servers: a helper that is not a worker if there is one,
 * otherwise any worker; of equal ones the one with the lowest number. Cost: a placement for each. */
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
/* The first function adds a drawing for people, the second one line of JSON without a newline (docs/plan-format.md). */
BANYAN_CHECK enum banyan_status by_placement_draw(const struct by_placement *placement,
                                                  const struct by_topology *topology,
                                                  const struct by_placement_job *job, struct by_text *text);
BANYAN_CHECK enum banyan_status by_placement_print(const struct by_placement *placement,
                                                   const struct by_topology *topology,
                                                   const struct by_placement_job *job, struct by_text *text);

/* The paths of a job's workers to a server as a tree, and which switches on it should add: for the placement on
 * switches, and for planners that compare in-network trees with others. */

/* A tree in which some vertices can add: workers' gradients flow along it to the server at its root. A vertex that adds
 * sends one gradient on; another vertex sends all gradients that it receives. The result takes the same paths back.
 * Pure, without names. All loads are numbers of gradients: at rate x each of them takes x bit/s of a link, in both
 * directions. */
struct by_rooted_flow {
  uint32_t n;       /* The number of vertices. Vertex 0 is the server, and parents come before children. */
  uint32_t *parent; /* The parent of each vertex; parent[0] = 0. */
  uint32_t *own;    /* The number of gradients that begin at each vertex. Those of the server are not sent. */
  bool *able;       /* Whether each vertex may add. */
  /* The bit/s, above 0, from each vertex to its parent or back, the smaller of the two. Not used for the server. */
  double *capacity;
  /* The bit/s that each vertex may send, and receive, over all links; INFINITY: any. */
  double *limit;
  /* The seconds per bit of each vertex if it adds: its memory, or the link of its aggregator, allows no higher rate
   * than 1 / hold; 0: any. */
  double *hold;
};

/* Returns the seconds per bit of a choice: the largest of load / capacity, load / limit, and the holds of the adders.
 * out[v] is set to the number of gradients that v sends to its parent; `out` may be NULL. Cost: n. */
double by_flow_theta(const struct by_rooted_flow *flow, const bool *adds, uint32_t *out);

/* Finds the fewest vertices, at most `max`, that must add so that theta is no larger than given. *found is set to
 * whether there are any; if so, adds[] is filled. Tree knapsack: g_v(k) is the minimum that v sends if k vertices of
 * its subtree add. Exact, since sending less never makes it worse. Cost: n * min(max, able ones).
 * BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_flow_find_fewest(const struct by_rooted_flow *flow, double theta, uint32_t max,
                                                    bool *adds, bool *found);
/* Finds the smallest theta with at most `max` adders, to 1e-12, and the fewest adders that reach it, by bisection.
 * *theta is that of adds[]. */
BANYAN_CHECK enum banyan_status by_flow_find_min(const struct by_rooted_flow *flow, uint32_t max, bool *adds,
                                                 double *theta);
/* Finds the choice of least cost, where each gradient sent by v costs price[v] >= 0 and adding at v costs rent[v] >= 0;
 * exact, by the next adder above. *cost is the total. Cost: n * depth. */
BANYAN_CHECK enum banyan_status by_flow_find_cheapest(const struct by_rooted_flow *flow, const double *price,
                                                      const double *rent, bool *adds, double *cost);

/* The paths of a job's workers to one of its servers, before the adders are chosen. */
struct by_path_tree {
  uint32_t server; /* An index of the job's servers. */
  double round_trip;
  /* See struct by_placed_tree. Only vertices that are able have an aggregator. */
  uint32_t *node, *link, *workers, *start, *aggregator;
  uint32_t *detour; /* The link of the aggregator of each vertex. */
  struct by_rooted_flow flow;
};

/* Returns the number of gradients that an aggregator's link carries in each direction: those of its workers and one
 * result, or one sum and their results. */
static inline uint32_t by_aggregator_load(const struct by_path_tree *tree, uint32_t v) {
  return tree->workers[v] + 1;
}

/* Returns the residual bit/s in the smaller direction of a link. */
static inline double by_link_min_left(const struct by_topology *topology, uint32_t link) {
  const struct by_link *at = &topology->links[link];
  return fmin(by_residual(at->capacity[BY_AB]), by_residual(at->capacity[BY_BA]));
}

struct by_placement_paths {
  const struct by_topology *topology;
  const struct by_placement_job *job;
  uint32_t n_trees;
  struct by_path_tree *trees; /* One for each server. */
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
