/* Plans a job on a shared cluster: chooses some of many groups on the capacity that other jobs leave, and their
 * weights, by the integer program
 *
 *     min theta + penalty * sum y_t   s.t.   sum_t p_t load_t(i) <= theta capacity(i) for all resources i,
 *                                            sum p_t = 1,  0 <= p_t <= y_t,  sum y_t <= max_trees
 *
 * over candidates t: parameter servers, rings, chains, trees, elastic aggregation trees, trees over helpers, in-network
 * trees to servers, and trees found by prices of full links (embed_parts.h). 1 / theta is the throughput. Each
 * candidate is one group of a plan, so a ring counts once. Pure: no I/O, no clock. An embedding is immutable and
 * borrows nothing. */
#ifndef BY_PLANNER_CLUSTER_EMBED_H
#define BY_PLANNER_CLUSTER_EMBED_H

#include "graph.h"
#include "plan.h"
#include "topology.h"

struct by_embed_options {
  struct by_graph_choice choice; /* The workers, and the helpers, which are hosts. */
  /* The hosts that may complete the sums of in-network trees, all different. Workers may be among them. */
  const uint32_t *servers;
  uint32_t n_servers;             /* The number of servers; 0: there are no in-network trees. */
  uint32_t allowed;               /* The allowed bits of enum by_plan_method, not 0. */
  uint32_t max_trees;             /* The largest number of candidates used, at least 1. */
  uint32_t steps;                 /* The weights that are tried are multiples of 1 / 1, 1 / 2, ... 1 / steps. */
  double max_height;              /* The largest height of each candidate in hops; INFINITY: any. */
  double min_rate;                /* The smallest rate of each candidate in bit/s. */
  double penalty;                 /* The penalty for each candidate, as a part of the shortest time, >= 0. */
  const struct by_embedding *old; /* An earlier embedding of the same workers; NULL: none. */
  double turnaround;              /* The seconds that hosts and switches add to the round trip of an in-network tree. */
  /* The number of queues of switches, at least 1. The plan has each in-network tree this many times, with equal
   * shares. */
  uint32_t queues;
};

enum { BY_EMBED_MAX_STEPS = 64, BY_EMBED_MAX_SERVERS = 128 };

struct by_embedding;

/* Returns the defaults: all methods, but no servers; 8 trees of any height and rate, a penalty of 1 %, steps down to
 * 1/16, a turnaround of 100 us. */
struct by_embed_options by_embed_defaults(void);
/* Embeds a job. The caller owns *out and passes it to by_embedding_destroy.
 *
 * With an old embedding it plans again for the same workers (by name, in the same order) on a topology whose use by
 * others, helpers or links have changed; the topology does not count what this job itself uses. The candidates of the
 * old embedding are kept where they still fit, so that those that pricing found are not lost.
 *
 * Errors: those of by_graph_of_topology; BANYAN_ERR_ARGUMENT: a helper or server is a switch, a number is out of range,
 * or the old embedding has other workers; BANYAN_ERR_UNSUPPORTED: CLP is not installed, or more than 2048 vertices;
 * BANYAN_ERR_PLAN: no allowed candidate keeps the limits. There are no in-network trees if there are more than
 * BY_PLAN_MAX_WORKERS workers, or if no switch on their paths can add. Servers beyond the first BY_EMBED_MAX_SERVERS
 * are left out, and so are those that some worker cannot reach. Cost: for 64 hosts in 8 racks some hundred candidates
 * of 90 resources, at most half a second. */
BANYAN_CHECK enum banyan_status by_embed(const struct by_topology *topology, const struct by_embed_options *options,
                                         struct by_embedding **out);
/* Destroys an embedding. NULL is allowed. */
void by_embedding_destroy(struct by_embedding *embedding);

struct by_embed_facts {
  double throughput; /* The rate of the input in bit/s: 1 / theta. */
  double bound;      /* A rate in bit/s that no set of trees over these vertices exceeds. */
  double any_number; /* The rate in bit/s if any number of candidates may be used. */
  /* The rate in bit/s with the old embedding's weights on this topology; 0: they need something that does not exist any
   * more, or there is no old embedding. */
  double before;
  uint32_t n_candidates, n_used;
  /* The number of in-network trees of the plan, several for each that is used if there are several queues. */
  uint32_t n_in_network;
};
struct by_embed_facts by_embedding_facts(const struct by_embedding *embedding);

/* Makes the plan: a group for each candidate that is used. Rank r is the graph's terminal r, under its node's name. It
 * can be run (by_plan_check_switches): in-network trees have servers "HOST/0", "HOST/1", ... and the interfaces of
 * their switches. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_embedding_plan(const struct by_embedding *embedding, const char *name,
                                                  struct by_plan **out);
struct by_text;
/* Adds text for people: the used candidates, and the throughput of the best candidate of each kind alone. */
void by_embedding_explain(const struct by_embedding *embedding, struct by_text *text);

#endif
