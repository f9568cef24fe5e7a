/* What is asked of the planner for one job: a snapshot of what the others
 * leave of the network, and the job's hosts. Made and judged on the manager's
 * thread, run on any other; between the two nobody else touches it. */
#ifndef BY_CLUSTER_MANAGER_PLAN_REQUEST_H
#define BY_CLUSTER_MANAGER_PLAN_REQUEST_H

#include "cost.h"
#include "embed.h"

/* How much of a job's input a part of the network carries. Steps 2 * link + direction, and behind those of all links
 * 2 * node + (0 sent, 1 received) for nodes that have a limit. */
struct by_link_share {
  uint32_t step;
  double load; /* bytes for each byte of input */
};
struct by_link_shares {
  uint32_t n;
  struct by_link_share *items; /* ascending by step */
};

/* Of the class for large buffers of a plan whose vertices are nodes: what it puts on the network, and *rate, the bit/s
 * of input that the topology lets it carry. Either may be NULL. Free *out with free(out->items). */
BANYAN_CHECK enum banyan_status by_link_shares_find(const struct by_plan *plan, const struct by_topology *topology,
                                                    struct by_link_shares *out, double *rate);
/* What a job over these nodes is taken to do without a plan: a ring. */
BANYAN_CHECK enum banyan_status by_plan_ring_over(const struct by_topology *topology, const uint32_t *nodes, uint32_t n,
                                                  struct by_plan **out);

enum {
  BY_PLAN_NEED_PAYLOAD = 1024, /* bytes of a fragment, at least; larger ones need fewer slots */
  BY_PLAN_CALLS = 64,          /* sizes of calls, by log2 of their bytes */
};

/* Slots that a tree through switches fills at a switch that adds for it. */
struct by_plan_need {
  const char *server; /* the tree's root, by its name in the plan, which must outlive this */
  uint32_t node;      /* the switch */
  uint32_t slots;     /* in flight at the rate that the planner promised, or that its links leave */
};
struct by_plan_needs {
  uint32_t n;
  struct by_plan_need *all;
};

/* Of all trees of a plan, whatever sizes of buffers they are for. Free *out with free(out->all). BANYAN_ERR_PLAN: a
 * switch or a server's host is not in the topology. Cost: a search of the topology for each server. */
BANYAN_CHECK enum banyan_status by_plan_needs_find(const struct by_plan *plan, const struct by_topology *topology,
                                                   struct by_plan_needs *out);

struct by_plan_request {
  void *job;                   /* the manager's */
  struct by_topology residual; /* nodes and links of its own, the rest borrowed from the manager's */
  struct by_topology calm;     /* the same while no higher class sends; no nodes: none does where the job sends */
  uint32_t *nodes, *helpers;   /* the job's hosts, by their first rank; those that may help; */
  uint32_t *servers;           /* those that may run servers */
  uint32_t n_nodes, n_helpers, n_servers;
  uint32_t ways;                 /* that may be used, plan_ways.h */
  double penalty;                /* for each tree, part of the least time; 0: the planner's, like the next */
  uint32_t steps, trees;         /* weights are multiples of 1 / steps; most trees for one size of buffers */
  uint32_t queues;               /* of switches, among which each tree is divided */
  struct by_cost_rates rates;    /* for predicted times */
  bool has_calls;                /* the job has made calls, of these sizes: */
  uint64_t calls[BY_PLAN_CALLS]; /* how many of 2^i bytes up to twice as many */
  bool sways;                    /* other jobs use the same links: what is left is known less well */
  const struct by_plan *current; /* NULL: none; borrowed */
  struct by_embedding *old;      /* what it came from; NULL: not known. The request's until it is judged */

  /* The answer. */
  enum banyan_status status;
  char why[256];                        /* if it failed */
  struct by_embedding *embedding;       /* new */
  struct by_plan *plan;                 /* of it */
  struct by_link_shares shares, before; /* of the new plan; of the current one, or the ring */
  struct by_plan_needs needs;           /* of the new plan */
  double rate_now, carries; /* bit/s of input that the current plan, or the ring, and the new one carry now */
  double rate, rate_before; /* that the new one and it carry on the network that counts */
  double gain;              /* times as good as it; beside higher classes the mean of that and silence */
  char *topology; /* as JSON: the part of `residual` that concerns the job; NULL: it is too long for a message */
};

/* Fills in the answer. What counts is the residual network, if there is a way round higher classes: trees that carry
 * half of what the job has while they are silent. If there is none the job waits for them, and what counts is the
 * network while they are silent. Cost: by_planner_run, twice for a job that waits. */
void by_plan_request_run(struct by_plan_request *request);
/* Frees all that was not taken out, and the request. NULL is allowed. */
void by_plan_request_destroy(struct by_plan_request *request);

#endif
