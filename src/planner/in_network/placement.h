/* Where switches add: for a job whose workers send their gradients through programmable switches to servers, which
 * switches add for whom, how much of the job goes to which server, and what every worker has to be told. A value in one
 * arena; the same input gives the same value. Handing out slots, keys and groups is not its part. */
#ifndef BY_PLANNER_IN_NETWORK_PLACEMENT_H
#define BY_PLANNER_IN_NETWORK_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "plan.h"
#include "topology.h"

struct by_placement_job {
  const uint32_t *workers; /* nodes, different, rank 0 first */
  uint32_t n_workers;      /* at most BY_PLAN_MOST_WORKERS */
  const uint32_t *servers; /* hosts, different; some may be workers */
  uint32_t n_servers;      /* >= 1 */
  /* Hosts that may aggregate for workers next to the same switch, where no switch can on any way to the server. */
  const uint32_t *aggregators;
  uint32_t n_aggregators;
};

struct by_placement_options {
  uint32_t most_adding; /* switches of one tree that add; UINT32_MAX: any */
  double turnaround;    /* seconds that ends and switches add to a round trip */
  uint32_t queues;      /* of switches, to be used together: so many trees in place of each, with equal shares; 0: 1 */
};

/* A tree of ways to a server, with a part of the job. */
struct by_placed_tree {
  uint32_t server;   /* a place among the job's */
  double share;      /* of the job's bytes */
  double rate;       /* bit/s */
  double round_trip; /* seconds of the longest way there and back, with the turnaround */
  uint32_t n;
  uint32_t *node;    /* of each vertex; 0 is the server, parents come before children */
  uint32_t *parent;  /* vertex */
  uint32_t *link;    /* the link to the parent */
  uint32_t *workers; /* whose gradients pass the vertex or begin there */
  bool *adds;
  uint32_t *aggregator; /* the node that adds in a vertex's place; UINT32_MAX: it does so itself */
  uint32_t *out;        /* gradients that go on to the parent, and come back */
  uint32_t *start;      /* of each of the job's workers: its vertex */
};

struct by_placement {
  uint32_t n_trees;
  struct by_placed_tree *trees; /* largest share first */
  double rate;                  /* bit/s; 1 / theta */
  double bound;                 /* that no choice on these ways exceeds */
  double without;               /* the rate when no switch adds */
  struct by_arena arena;
};

/* One switch on a worker's way to the server. The way back has the same switches in opposite order. */
struct by_placed_hop {
  uint32_t node;
  bool adds;         /* up: add here; down: something was added here */
  uint32_t expected; /* workers whose gradients arrive here */
  uint32_t up, down; /* links to leave by: towards the server, towards the worker */
};

/* 100 us, any number of switches, one queue. */
struct by_placement_options by_placement_defaults(void);

/* Where no switch on the ways can add, a host next to one may in its place: an aggregator, to which all workers below
 * that switch send, and whose link carries each one's terms and results. Of several the one with the widest link.
 *
 * Ways are those of topology_paths.h; a link counts with what is left of its smaller direction, since the result comes
 * back the same way. A switch that adds needs rate x round trip of memory for each tree; one whose memory is not known
 * has enough. One server: least theta, then fewest switches, exactly (by_flow_least). Else, and where
 * memory is what holds the rate back, shares over trees that differ in server or in who adds, exactly, by column
 * generation: a linear program over links, nodes and memories, new columns by by_flow_cheapest; then what is not needed
 * to add is left out, tree by tree. With most_adding, each server has one tree, by_flow_least's, and only shares are
 * optimised. The caller owns *out. BANYAN_ERR_ARGUMENT: the job makes no sense; BANYAN_ERR_TOPOLOGY: no way to a
 * server; BANYAN_ERR_UNSUPPORTED: too many workers, or CLP is needed and not installed. Cost: a search of the topology
 * for each server, and programs of few rows. */
BANYAN_CHECK enum banyan_status by_placement_make(const struct by_topology *topology,
                                                  const struct by_placement_job *job,
                                                  const struct by_placement_options *options,
                                                  struct by_placement **out);
/* NULL is allowed. */
void by_placement_destroy(struct by_placement *placement);
/* The host with which one server does best, for a job without servers: a helper that is no worker if there is one, else
 * any worker; the lowest number of equal ones. Cost: a placement for each. */
BANYAN_CHECK enum banyan_status by_placement_best_server(const struct by_topology *topology,
                                                         const struct by_placement_job *job,
                                                         const struct by_placement_options *options, uint32_t *server);

/* The programmable switches on a worker's way, from the worker to the server; hops has room for tree->n. Returns how
 * many there are: 0 for a worker that is the server itself. */
uint32_t by_placed_stack(const struct by_placed_tree *tree, const struct by_topology *topology, uint32_t worker,
                         struct by_placed_hop *hops);
/* The plan, which can be run (by_plan_check_switches): ranks are the workers, each tree has a server
 * "HOST/0", "HOST/1", ... at its root, its aggregators, and all programmable switches of its ways, with the interfaces
 * by which they reach each other (by_topology_interface). A worker on the server's host hangs on the server. The caller
 * owns *out. */
BANYAN_CHECK enum banyan_status by_plan_of_placement(const char *name, const struct by_topology *topology,
                                                     const struct by_placement *placement,
                                                     const struct by_placement_job *job, struct by_plan **out);

struct by_text;
/* Adds a drawing for people; and one line of JSON without a newline, docs/plan-format.md. */
BANYAN_CHECK enum banyan_status by_placement_draw(const struct by_placement *placement,
                                                  const struct by_topology *topology,
                                                  const struct by_placement_job *job, struct by_text *text);
BANYAN_CHECK enum banyan_status by_placement_print(const struct by_placement *placement,
                                                   const struct by_topology *topology,
                                                   const struct by_placement_job *job, struct by_text *text);

#endif
