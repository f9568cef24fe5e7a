/* Types and functions that the files of embed.h share. Candidates are groups that can carry a job's whole AllReduce, of
 * which an embedding chooses some and weights them. A candidate is one group of a plan, a tree or a tree rotated over
 * an order, with its load of every resource.
 *
 * Results take the same paths as gradients, so that each edge carries as much in both directions: the bound on trees of
 * the graph is then one on candidates too. */
#ifndef BY_PLANNER_CLUSTER_EMBED_PARTS_H
#define BY_PLANNER_CLUSTER_EMBED_PARTS_H

#include "embed.h"
#include "grow.h"
#include "lp.h"
#include "placement.h"
#include "plan.h"

enum { BY_EMBED_MAX_LAYERS = 4, BY_EMBED_MAX_VERTICES = 2048 };

/* Groups of one layer. The last layer has one group, all vertices. */
struct by_embed_layer {
  uint32_t n_groups;
  uint32_t *group;      /* of each vertex; UINT32_MAX: a helper that is not in one group of this layer */
  bool *oversubscribed; /* of each group: whether its terminals can send more than the links out of it carry */
};

/* The part of a row that a gradient at 1 bit/s uses. */
struct by_embed_use {
  uint32_t row;
  double part;
};

/* A host that may serve, and the paths of all workers to it (embed_network.c). */
struct by_embed_server {
  uint32_t node;
  struct by_placement_job job;     /* the workers, and this server */
  struct by_placement_paths paths; /* one tree */
  uint32_t *first;                 /* uses of the path up from vertex v: uses[first[v] .. first[v + 1]) */
  struct by_embed_use *uses;
  uint32_t *rent; /* uses of vertex v if it adds, rents[rent[v] .. rent[v + 1]): its memory if that is known, or its
                     aggregator's link */
  struct by_embed_use *rents; /* indexed by `rent` */
  uint32_t height;            /* programmable switches on the longest path, or an aggregator, and one more */
};

struct by_embed_net {
  const struct by_topology *topology;
  const struct by_graph *graph;
  uint32_t n_rows;  /* of the linear program: the graph's resources, then resources that only in-network trees load */
  uint32_t *edge;   /* between vertices u and v: edge[u * n_vertices + v]; UINT32_MAX: none */
  double *capacity; /* of each vertex: bit/s that it can send and receive at once */
  bool *shared;     /* of each row: whether it is a link between switches, which jobs on other hosts need too */
  uint32_t n_shared;
  double *left;      /* of each row: the part of it that others do not use; 0 for memory, since only links count */
  uint32_t *hops;    /* between vertices, like `edge`, the longer of both directions; UINT32_MAX: no path */
  uint32_t n_layers; /* >= 1 */
  struct by_embed_layer layers[BY_EMBED_MAX_LAYERS]; /* the smallest groups first */
  uint32_t *order;                                   /* the terminals, group by group */
  uint32_t n_servers;
  struct by_embed_server *servers;
  struct by_arena arena;
};

/* Initialises the network. The topology and its graph must outlive it. BANYAN_ERR_UNSUPPORTED: more than
 * BY_EMBED_MAX_VERTICES vertices. Cost: vertices^2, and for each vertex a search of the topology. The caller passes it
 * to by_embed_net_fini, also on failure. */
BANYAN_CHECK enum banyan_status by_embed_net_init(struct by_embed_net *net, const struct by_topology *topology,
                                                  const struct by_graph *graph);
/* Adds the servers of the options that all workers reach and where some switch can add, or without helpers an
 * aggregator, and the rows that only their trees load. It is called before any candidates are made. Cost: for each
 * server a search of the topology. */
BANYAN_CHECK enum banyan_status by_embed_net_add_servers(struct by_embed_net *net,
                                                         const struct by_embed_options *options);
/* Frees a network; one that is all zeros is allowed. */
void by_embed_net_fini(struct by_embed_net *net);

static inline uint32_t by_embed_edge(const struct by_embed_net *net, uint32_t u, uint32_t v) {
  return net->edge[(size_t)u * net->graph->n_vertices + v];
}

enum by_embed_candidate_kind {
  BY_EMBED_STAR,    /* a parameter server on a terminal or helper */
  BY_EMBED_SHARDED, /* a star at every terminal, or in two layers: a piece for each */
  BY_EMBED_RING,    /* a chain at every terminal */
  BY_EMBED_HALVING, /* a binomial tree at every terminal */
  BY_EMBED_CHAIN,
  BY_EMBED_TREE,    /* K children each, or binary in order: two of these have each terminal inside once */
  BY_EMBED_ELASTIC, /* a vertex that adds for each group that is oversubscribed */
  BY_EMBED_HUBS,    /* helpers that add for vertices near them */
  BY_EMBED_NETWORK, /* the paths to a server, with switches that add */
  BY_EMBED_PACKED,  /* found by the prices of full resources */
  BY_EMBED_N_KINDS
};

struct by_embed_candidate {
  enum by_embed_candidate_kind kind;
  struct by_group
      group; /* order[] holds the graph's vertices; its share and rate are 0; down is up. Not of BY_EMBED_NETWORK */
  uint32_t server; /* of BY_EMBED_NETWORK: the number of the server */
  bool *adds;      /* of BY_EMBED_NETWORK: of each vertex of the server's tree */
  uint32_t height; /* edges from the root to the farthest leaf */
  uint32_t width;  /* the largest number of children of a vertex */
  double *load;    /* of each row: the load at 1 bit/s of the candidate, relative to the row's capacity */
  double theta;    /* the largest of these: seconds for each bit of the buffer if it carried everything */
  uint32_t set;    /* candidates that go well together have the same number; 0: none */
};

/* Kinds of sets: few trees of pack_few.h, candidates of an old embedding, trees over blocks of 2, 4, 8, ... helpers. */
enum { BY_EMBED_FEW = 1, BY_EMBED_OLD, BY_EMBED_BLOCKS, BY_EMBED_N_SETS = BY_EMBED_BLOCKS + 6 };

/* A candidate to be added: vertices at positions, their parents, and the digits of a rotation (none: one tree). */
struct by_draft {
  enum by_embed_candidate_kind kind;
  uint32_t n, root;
  uint32_t *order, *up; /* have the capacity for all vertices */
  uint32_t n_radix, radix[BY_PLAN_MAX_DIGITS];
};

struct by_embed_candidates {
  const struct by_embed_net *net;
  uint32_t max_height; /* higher candidates are left out */
  uint32_t allowed;    /* candidates of other methods are left out; bits of enum by_plan_method */
  uint32_t n, allocated;
  struct by_embed_candidate *items;
  struct by_arena arena;    /* owns the parts of the items */
  struct by_draft draft;    /* the next candidate */
  struct by_grower grower;  /* working memory of megabytes, for trees of edges */
  uint32_t *count, *height; /* working memory: of each vertex */
  double *load;             /* working memory: of each row */
};

/* Initialises the list. The net must outlive it. The caller passes it to by_embed_candidates_fini, also on failure. */
BANYAN_CHECK enum banyan_status by_embed_candidates_init(struct by_embed_candidates *list,
                                                         const struct by_embed_net *net, uint32_t max_height,
                                                         uint32_t allowed);
/* Frees a list; one that is all zeros is allowed. */
void by_embed_candidates_fini(struct by_embed_candidates *list);
/* Adds a copy of the draft. It is left out if it is too high or not allowed, needs an edge that the graph does not
 * have, or loads everything as a candidate before it does that is no higher and no wider. *found: its number, or that
 * of the one before it; UINT32_MAX: it does not fit; NULL: not wanted. Cost: its edges; of a rotated one, the edges of
 * its template that are not translations of each other, times its vertices. */
BANYAN_CHECK enum banyan_status by_embed_candidates_add(struct by_embed_candidates *list, uint32_t *found);
/* Adds a candidate whose load is in list->load, and which is complete otherwise; *found as above. */
BANYAN_CHECK enum banyan_status by_embed_candidates_keep(struct by_embed_candidates *list,
                                                         struct by_embed_candidate *new, uint32_t *found);
/* Adds the tree of these n edges of the graph, rooted at its centre; overwrites the draft. Cost: vertices. */
BANYAN_CHECK enum banyan_status by_embed_candidates_add_tree(struct by_embed_candidates *list, const uint32_t *edges,
                                                             uint32_t n, uint32_t *found);
/* Adds a group, whose vertex v is the graph's map[v]; overwrites the draft, whose kind is set before. A vertex that
 * maps to UINT32_MAX is gone, so the group does not fit. */
BANYAN_CHECK enum banyan_status by_embed_candidates_add_group(struct by_embed_candidates *list,
                                                              const struct by_group *group, const uint32_t *map,
                                                              uint32_t *found);
/* Adds the tree of a server where those vertices add. Cost: its vertices. */
BANYAN_CHECK enum banyan_status by_embed_candidates_add_network(struct by_embed_candidates *list, uint32_t server,
                                                                const bool *adds, uint32_t *found);
/* Adds for each server the tree with the smallest theta (by_flow_find_min). */
BANYAN_CHECK enum banyan_status by_embed_candidates_add_servers(struct by_embed_candidates *list);
/* Finds the lightest tree to each server at these prices of whole rows, and adds those that cost less than `worth`.
 * *min becomes the cost of the lightest of all, exactly, if that is less. */
BANYAN_CHECK enum banyan_status by_embed_candidates_price(struct by_embed_candidates *list, const double *price,
                                                          double worth, double *min);
/* Adds all that are made from their shapes (embed_shapes.c). Cost: some hundred candidates. */
BANYAN_CHECK enum banyan_status by_embed_candidates_make(struct by_embed_candidates *list);

/* --- Choosing. --- */

/* The linear program over an embedding's candidates: rates of the largest sum that keep to all capacities; new
 * candidates by its prices; and choosing few of them by the integer program
 *
 *     min theta + penalty * (number of candidates used) + flat * (the highest and widest of them)
 *         + thrift * (how full links between switches get, and the fullest part of the network if nobody else used it)
 *
 * where theta is the time with the best weights for the used candidates. A ring and trees from rack to rack may be as
 * fast for a job alone; the trees leave more of the uplinks to others. */
struct by_embed_master {
  struct by_embed_candidates *list; /* grows by pricing */
  struct by_lp *lp;  /* a column for each candidate, in bit/s; rows as the net's, each with the price of all of it */
  double throughput; /* the sum of the rates of the last solve */
  double *
      fair; /* prices that proved the bound, with the sum 1; at these no candidate is cheaper than throughput / bound */
  double *load; /* working memory */
};

/* Initialises the program with all candidates of the list, at least one; the list must outlive it. The caller passes it
 * to by_embed_master_fini, also on failure. */
BANYAN_CHECK enum banyan_status by_embed_master_init(struct by_embed_master *master, struct by_embed_candidates *list);
/* Frees a program; one that is all zeros is allowed. */
void by_embed_master_fini(struct by_embed_master *master);
/* Adds the candidates that are new in the list. */
BANYAN_CHECK enum banyan_status by_embed_master_add(struct by_embed_master *master);
/* Computes rates for the candidates that are allowed, which never exceed the capacities, and prices. Starts from the
 * last basis. */
BANYAN_CHECK enum banyan_status by_embed_master_solve(struct by_embed_master *master);
/* Column generation (Gilmore and Gomory 1961): adds lightest trees under the prices, of the graph and to servers, and
 * under prices between them and the best so far (Wentges 1997), until the rates reach `ratio` of the bound, nothing new
 * helps, or so many rounds are over. *bound: bit/s that no set of trees of the graph and to servers exceeds. Rates and
 * prices are solved. Cost: two trees and a few pivots a round. */
BANYAN_CHECK enum banyan_status by_embed_master_price(struct by_embed_master *master, double ratio, uint32_t rounds,
                                                      double *bound);

enum { BY_EMBED_MAX_LATER = 64 };

struct by_embed_pick {
  uint32_t candidate;
  double rate; /* bit/s */
};

struct by_embed_picks {
  uint32_t n;
  struct by_embed_pick *items; /* sorted by rate, largest first */
  double throughput;           /* bit/s */
  double score;                /* the value that is minimised, relative to the shortest time */
};

/* Chooses few candidates. The master must be solved with everything allowed; afterwards it is solved for the last
 * trial. Weights in steps of 1/Z, for Z = 1, 2, 4, ... up to the options' steps, cannot use more than Z candidates, so
 * that each Z stands for a number of them without a binary variable for each; a local search moves one step at a time,
 * and each result is solved as a linear program over just its candidates. Then single candidates are dropped and
 * exchanged. The caller frees picks->items. BANYAN_ERR_PLAN: no candidate has the minimum rate. Cost: some hundred
 * small programs, and steps * 256 * rows a sweep.
 *
 * With a set, which is not 0, it does the same for newly added candidates, at most BY_EMBED_MAX_LATER and all of that
 * set: alone, with the picks, and exchanged with them one by one. `best` is the throughput of all candidates before.
 * The picks only get better. */
BANYAN_CHECK enum banyan_status by_embed_choose(struct by_embed_master *master, const struct by_embed_options *options,
                                                double best, uint32_t set, struct by_embed_picks *picks);
/* Returns the score of n candidates with this throughput together, each its rate; `best` is the throughput of all. */
double by_embed_score(const struct by_embed_candidates *list, const struct by_embed_pick *picks, uint32_t n,
                      double throughput, double best, double penalty);

struct by_embedding {
  struct by_graph *graph;
  struct by_embed_net net; /* its topology is not used any more */
  struct by_embed_candidates candidates;
  struct by_embed_picks picks;
  struct by_vertex *vertices;       /* of the graph: their names and kinds */
  const char **node_names;          /* of nodes on paths to servers; NULL: it is not on one */
  struct by_plan *network;          /* the in-network trees of the picks, in their order; NULL: none */
  double bound, any_number, before; /* see struct by_embed_facts */
  struct by_arena arena;
};

/* --- In-network trees of an embedding. --- */

/* Copies the names of nodes on paths to servers, since the topology may be gone when it is planned again. */
BANYAN_CHECK enum banyan_status by_embed_name_nodes(struct by_embedding *embedding);
/* Makes `network` of the picks, each in `queues` trees. */
BANYAN_CHECK enum banyan_status by_embed_make_network(struct by_embedding *embedding, uint32_t queues);

#endif
