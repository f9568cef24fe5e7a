/* A request to the planner for one job: a snapshot of the network that the others leave, and the job's hosts. It is
 * made and judged on the manager's thread, run on any other; meanwhile nobody else uses it. */
#ifndef BY_CLUSTER_MANAGER_PLAN_REQUEST_H
#define BY_CLUSTER_MANAGER_PLAN_REQUEST_H

#include "cost.h"
#include "embed.h"
#include "loop.h"

/* Which part of a job's input a step of the network carries. Steps are 2 * link + direction, and after those of all
 * links 2 * node + (0 sent, 1 received) for nodes that have a limit. */
struct by_link_share {
  uint32_t step;
  double load; /* Bytes for each byte of input. */
};
struct by_link_shares {
  uint32_t n;
  struct by_link_share *items; /* Ascending by step. */
};

/* Finds the load of the class for large buffers of a plan whose vertices are nodes, and *rate, the bit/s of input that
 * the topology lets it carry. Either may be NULL. Free out->items. */
BANYAN_CHECK enum banyan_status by_link_shares_find(const struct by_plan *plan, const struct by_topology *topology,
                                                    struct by_link_shares *out, double *rate);
/* Makes the assumed plan of a job over these nodes: a ring. */
BANYAN_CHECK enum banyan_status by_plan_ring_over(const struct by_topology *topology, const uint32_t *nodes, uint32_t n,
                                                  struct by_plan **out);

enum {
  BY_PLAN_NEED_PAYLOAD = 1024, /* Minimum bytes of a fragment; larger ones need fewer slots. */
  BY_PLAN_CALLS = 64,          /* Sizes of calls, by log2 of their bytes. */
};

/* Slots that a tree through switches fills at a switch that adds for it. */
struct by_plan_need {
  const char *server; /* The tree's root, by its name in the plan, which must outlive this. */
  uint32_t node;      /* The switch. */
  uint32_t slots;     /* Fragments in flight at the rate that the planner predicted, or that its links have left. */
};
struct by_plan_needs {
  uint32_t n;
  struct by_plan_need *all;
};

/* Finds the slots of all trees of a plan, for all sizes of buffers. Free out->all. BANYAN_ERR_PLAN: a switch or a
 * server's host is not in the topology. Cost: a search of the topology for each server. */
BANYAN_CHECK enum banyan_status by_plan_needs_find(const struct by_plan *plan, const struct by_topology *topology,
                                                   struct by_plan_needs *out);

struct by_plan_request {
  void *job;                   /* The manager's job. */
  struct by_topology residual; /* Its own nodes and links; the rest is borrowed from the manager. */
  struct by_topology calm;     /* The network without higher classes; no nodes: none sends where the job does. */
  uint32_t *nodes, *helpers;   /* The job's hosts, by their first rank; hosts that may help. */
  uint32_t *servers;           /* Hosts that may run servers. */
  uint32_t n_nodes, n_helpers, n_servers;
  uint32_t ways;  /* Allowed methods, plan.h. */
  double penalty; /* Penalty of each tree, as a fraction of the minimum time; 0: the planner's, and so for the following
                     three. */
  uint32_t steps, trees;         /* Weights are multiples of 1 / steps; maximum of trees for one size of buffers. */
  uint32_t queues;               /* Queues of switches among which each tree is divided. */
  struct by_cost_rates rates;    /* For predicted times. */
  bool has_calls;                /* The job has made calls; `calls` is valid. */
  uint64_t calls[BY_PLAN_CALLS]; /* How many of 2^i bytes up to twice as many. */
  bool is_shared;                /* Other jobs use the same links, so the residual network is less certain. */
  const struct by_plan *current; /* Borrowed; NULL: none. */
  struct by_embedding *old; /* Embedding of the current plan; NULL: unknown. Owned by the request until it is judged. */

  /* ---- The members that follow are the answer. */
  enum banyan_status status;
  char why[256];                        /* The reason of a failure. */
  struct by_embedding *embedding;       /* The new embedding. */
  struct by_plan *plan;                 /* The plan made from it. */
  struct by_link_shares shares, before; /* Loads of the new plan, and of the current one or the ring. */
  struct by_plan_needs needs;           /* Needs of the new plan. */
  double rate_now, carries; /* bit/s of input that the current plan, or the ring, and the new plan carry now. */
  double rate, rate_before; /* bit/s that the new plan and the current one carry on the network that counts. */
  double gain;    /* Ratio of these; beside higher classes the geometric mean of that with and without them. */
  char *topology; /* The part of `residual` that concerns the job, as JSON; NULL: too long for a message. */
};

/* Fills in the answer. The residual network counts if there are trees around higher classes that carry half of what the
 * job has without them. Otherwise the job waits for these classes, and the network without them counts. Cost:
 * by_planner_run, twice for a job that waits. */
void by_plan_request_run(struct by_plan_request *request);
/* Frees the request with all that was not taken from it. NULL is allowed. */
void by_plan_request_destroy(struct by_plan_request *request);

#endif
