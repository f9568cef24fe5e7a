/* The placement of in-network aggregation: for a job whose workers send their gradients through programmable switches
 * to servers, which switches add for which workers, which part of the job goes to which server, and what every worker
 * has to know. A value in one arena; the same input gives the same value. It does not allocate slots, keys and groups.
 */
#ifndef BY_PLANNER_IN_NETWORK_PLACEMENT_H
#define BY_PLANNER_IN_NETWORK_PLACEMENT_H

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
struct by_placement_options by_placement_defaults(void);

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

#endif
