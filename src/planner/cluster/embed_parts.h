/* What the files of embed.h share. Candidates: ways to carry a job's whole AllReduce, of which an embedding chooses
 * some and weights them. A candidate is one group of a plan, a tree or a tree rotated over an order, with what it loads
 * of every resource.
 *
 * All go down the way that they go up, so that each edge carries as much in both directions: the bound on trees of the
 * graph is then one on them too. */
#ifndef BY_PLANNER_CLUSTER_EMBED_PARTS_H
#define BY_PLANNER_CLUSTER_EMBED_PARTS_H

#include "embed.h"
#include "grow.h"
#include "lp.h"
#include "plan_methods.h"
#include "way_tree.h"

enum { BY_EMBED_MOST_LAYERS = 4, BY_EMBED_MOST_VERTICES = 2048 };

/* Groups of one layer. The last layer has one group, all vertices. */
struct by_embed_layer {
  uint32_t n_groups;
  uint32_t *group;      /* of each vertex; UINT32_MAX: a helper that is not in one group of this layer */
  bool *oversubscribed; /* of each group: less leads out of it than its terminals could send */
};

/* What a gradient at 1 bit/s takes of a row. */
struct by_embed_use {
  uint32_t row;
  double part;
};

/* A host that may serve, and the ways of all workers to it (embed_network.c). */
struct by_embed_server {
  uint32_t node;
  struct by_placement_job job;   /* the workers, and this server */
  struct by_placement_ways ways; /* one tree */
  uint32_t *first;               /* uses of the way up from vertex v: uses[first[v] .. first[v + 1]) */
  struct by_embed_use *uses;
  uint32_t *rent;             /* of vertex v if it adds: its memory if that is known, or its aggregator's link: */
  struct by_embed_use *rents; /* rents[rent[v] .. rent[v + 1]) */
  uint32_t height;            /* programmable switches on the longest way, or an aggregator, and one more */
};

struct by_embed_net {
  const struct by_topology *topology;
  const struct by_graph *graph;
  uint32_t n_rows;  /* of the linear program: the graph's resources, then what only in-network trees load */
  uint32_t *edge;   /* between vertices u and v: edge[u * n_vertices + v]; UINT32_MAX: none */
  double *capacity; /* of each vertex: what it can send and receive at once, bit/s */
  bool *shared;     /* of each row: a link between switches, which jobs on other hosts need too */
  uint32_t n_shared;
  double *left;      /* of each row: the part of it that others do not use; of memory 0, since links count alone */
  uint32_t *hops;    /* between vertices, like `edge`, the longer of both ways; UINT32_MAX: no way */
  uint32_t n_layers; /* >= 1 */
  struct by_embed_layer layers[BY_EMBED_MOST_LAYERS]; /* the smallest groups first */
  uint32_t *order;                                    /* the terminals, group by group */
  uint32_t n_servers;
  struct by_embed_server *servers;
  struct by_arena arena;
};

/* The topology and its graph must outlive it. BANYAN_ERR_UNSUPPORTED: more than BY_EMBED_MOST_VERTICES vertices.
 * Cost: vertices^2, and for each vertex a search of the topology. The caller gives it to by_embed_net_fini, also on
 * failure. */
BANYAN_CHECK enum banyan_status by_embed_net_init(struct by_embed_net *net, const struct by_topology *topology,
                                                  const struct by_graph *graph);
/* Adds the servers of the options that all workers reach and where some switch can add, or without helpers an
 * aggregator, and the rows that only their trees load. Before any candidates are made. Cost: for each server a search
 * of the topology. */
BANYAN_CHECK enum banyan_status by_embed_net_add_servers(struct by_embed_net *net,
                                                         const struct by_embed_options *options);
/* Also of one that is all zeros. */
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
  BY_EMBED_HUBS,    /* helpers that add for what is near them */
  BY_EMBED_NETWORK, /* the ways to a server, with switches that add */
  BY_EMBED_PACKED,  /* found by the prices of what is full */
  BY_EMBED_N_KINDS
};

struct by_embed_candidate {
  enum by_embed_candidate_kind kind;
  struct by_group group; /* order[] holds the graph's vertices; its share and rate are 0; down is up. Not of NETWORK */
  uint32_t server;       /* of BY_EMBED_NETWORK: which of the net's */
  bool *adds;            /* of BY_EMBED_NETWORK: of each vertex of the server's tree */
  uint32_t height;       /* edges from the root to the furthest leaf */
  uint32_t width;        /* children of the vertex that has most */
  double *load;          /* of each row: what it takes at 1 bit/s of the candidate, over its capacity */
  double theta;          /* the largest of these: seconds for each bit of the buffer if it carried everything */
  uint32_t set;          /* several that are known to go well together have the same number; 0: nothing is known */
};

/* What sets are: few trees of pack_few.h, what an old embedding used, trees over blocks of 2, 4, 8, ... helpers. */
enum { BY_EMBED_FEW = 1, BY_EMBED_OLD, BY_EMBED_BLOCKS, BY_EMBED_N_SETS = BY_EMBED_BLOCKS + 6 };

/* A candidate to be added: vertices at positions, their parents, and the digits of a rotation (none: one tree). */
struct by_draft {
  enum by_embed_candidate_kind kind;
  uint32_t n, root;
  uint32_t *order, *up; /* room for all vertices */
  uint32_t n_radix, radix[BY_PLAN_MAX_DIGITS];
};

struct by_embed_candidates {
  const struct by_embed_net *net;
  uint32_t most_height; /* higher ones are left out, */
  uint32_t ways;        /* and those that are not among these, bits of enum by_plan_way */
  uint32_t n, room;
  struct by_embed_candidate *items;
  struct by_arena arena;    /* of what they consist of */
  struct by_draft draft;    /* of the next one */
  struct by_grower grower;  /* working memory, of megabytes: for trees of edges, */
  uint32_t *count, *height; /* of each vertex */
  double *load;             /* and of each row */
};

/* The net must outlive it. The caller gives it to by_embed_candidates_fini, also on failure. */
BANYAN_CHECK enum banyan_status by_embed_candidates_init(struct by_embed_candidates *list,
                                                         const struct by_embed_net *net, uint32_t most_height,
                                                         uint32_t ways);
/* No more are added: gives the working memory back. */
void by_embed_candidates_complete(struct by_embed_candidates *list);
/* Also of one that is all zeros. */
void by_embed_candidates_fini(struct by_embed_candidates *list);
/* Copies the draft; not one that is too high or not allowed, that needs an edge which the graph does not have, or that
 * loads everything as one before it does, which is no higher and no wider. *found: its number, or that of the one
 * before it; UINT32_MAX: it does not fit; NULL: nobody asks. Cost: its edges; of a rotated one, the edges of its
 * template that are not translations of each other, times its vertices. */
BANYAN_CHECK enum banyan_status by_embed_candidates_add(struct by_embed_candidates *list, uint32_t *found);
/* The same of one whose load is in list->load, and which is complete but for that; *found as above. */
BANYAN_CHECK enum banyan_status by_embed_candidates_keep(struct by_embed_candidates *list,
                                                         struct by_embed_candidate *new, uint32_t *found);
/* The same of the tree of these n edges of the graph, hung up at its centre, as the draft. Cost: vertices. */
BANYAN_CHECK enum banyan_status by_embed_candidates_add_tree(struct by_embed_candidates *list, const uint32_t *edges,
                                                             uint32_t n, uint32_t *found);
/* The same of a group, whose vertex v is the graph's map[v], as the draft. UINT32_MAX: that vertex is gone, so it does
 * not fit. The draft's kind is set before. */
BANYAN_CHECK enum banyan_status by_embed_candidates_add_group(struct by_embed_candidates *list,
                                                              const struct by_group *group, const uint32_t *map,
                                                              uint32_t *found);
/* The same of the tree of a server where those vertices add. Cost: its vertices. */
BANYAN_CHECK enum banyan_status by_embed_candidates_add_network(struct by_embed_candidates *list, uint32_t server,
                                                                const bool *adds, uint32_t *found);
/* Adds for each server the tree of the least theta (by_flow_least). */
BANYAN_CHECK enum banyan_status by_embed_candidates_add_servers(struct by_embed_candidates *list);
/* The lightest tree to each server where rows have these prices, as a whole; adds those that cost less than `worth`.
 * *least becomes the cost of the lightest of all, exactly, if that is less. */
BANYAN_CHECK enum banyan_status by_embed_candidates_price(struct by_embed_candidates *list, const double *price,
                                                          double worth, double *least);
/* Adds all that are made from their shapes (embed_shapes.c). Cost: some hundred candidates. */
BANYAN_CHECK enum banyan_status by_embed_candidates_make(struct by_embed_candidates *list);
/* "parameter server", "ring", ... Static storage. */
const char *by_embed_candidate_kind_name(enum by_embed_candidate_kind kind);

/* --- choosing --- */

/* The linear program over an embedding's candidates: rates of the largest sum that keep to all capacities; new
 * candidates by its prices; and choosing few of them: the integer program
 *
 *     min theta + penalty * (number of candidates used) + flat * (the highest and widest of them)
 *         + thrift * (how full links between switches get, and the fullest part of the network if nobody else used it)
 *
 * theta being the time with the best weights for those that are used. A ring and trees from rack to rack may be as fast
 * for a job alone; the trees leave more of the uplinks to others. */
struct by_embed_master {
  struct by_embed_candidates *list; /* grows by pricing */
  struct by_lp *lp;  /* a column for each candidate, in bit/s; rows as the net's, each with the price of all of it */
  double throughput; /* the sum of the rates of the last solve */
  double *fair;      /* prices that proved the bound, 1 together; nothing is cheaper than throughput / bound at it */
  double *load;      /* working memory */
};

/* Takes all candidates of the list, one at least, which must outlive it. The caller gives it to by_embed_master_fini,
 * also on failure. */
BANYAN_CHECK enum banyan_status by_embed_master_init(struct by_embed_master *master, struct by_embed_candidates *list);
/* Also of one that is all zeros. */
void by_embed_master_fini(struct by_embed_master *master);
/* Takes those that the list has got since. */
BANYAN_CHECK enum banyan_status by_embed_master_add(struct by_embed_master *master);
/* Rates for the candidates that are allowed, never more than the capacities, and prices. Starts from the last basis. */
BANYAN_CHECK enum banyan_status by_embed_master_solve(struct by_embed_master *master);
/* Column generation (Gilmore and Gomory 1961): adds lightest trees under the prices, of the graph and to servers, and
 * under prices between them and the best so far (Wentges 1997), until the rates reach `ratio` of the bound, nothing new
 * helps, or so many rounds are over. *bound: no set of trees of the graph and to servers carries more, bit/s. Rates and
 * prices are solved. Cost: two trees and a few pivots a round. */
BANYAN_CHECK enum banyan_status by_embed_master_price(struct by_embed_master *master, double ratio, uint32_t rounds,
                                                      double *bound);

enum { BY_EMBED_MOST_LATER = 64 };

struct by_embed_pick {
  uint32_t candidate;
  double rate; /* bit/s */
};

struct by_embed_picks {
  uint32_t n;
  struct by_embed_pick *items; /* by rate, largest first */
  double throughput;           /* bit/s */
  double score;                /* what is minimised, in parts of the least time */
};

/* The master must be solved with everything allowed, and is left with what was tried last. Weights in steps of 1/Z, for
 * Z = 1, 2, 4, ... up to the options' steps, cannot use more than Z candidates, so that each Z stands for a number of
 * them without a binary variable for each; a local search moves one step at a time, and each result is solved as a
 * linear program over just its candidates. Then single candidates are dropped and exchanged. The caller frees
 * picks->items. BANYAN_ERR_PLAN: no candidate has the least rate. Cost: some hundred small programs, and steps * 256 *
 * rows a sweep.
 *
 * With a set, which is not 0, the same for candidates that have come since, BY_EMBED_MOST_LATER at most, all of that
 * set: alone, with what was picked, and exchanged with it one by one. `best` is what all could carry before. The picks
 * only get better. */
BANYAN_CHECK enum banyan_status by_embed_choose(struct by_embed_master *master, const struct by_embed_options *options,
                                                double best, uint32_t set, struct by_embed_picks *picks);
/* What is minimised for n candidates that carry so much together, each its rate; `best` is what all could. */
double by_embed_score(const struct by_embed_candidates *list, const struct by_embed_pick *picks, uint32_t n,
                      double throughput, double best, double penalty);

struct by_embedding {
  struct by_graph *graph;
  struct by_embed_net net; /* its topology is not looked at any more */
  struct by_embed_candidates candidates;
  struct by_embed_picks picks;
  struct by_vertex *vertices; /* of the graph: their names and kinds */
  const char **node_names;    /* of nodes on ways to servers; NULL: it is not on one */
  struct by_plan *network;    /* the in-network trees of the picks, in their order; NULL: none */
  double bound, any_number;
  struct by_arena arena;
};

/* --- in-network trees of an embedding --- */

/* Keeps the names of nodes on ways to servers, since the topology may be gone when it is planned again. */
BANYAN_CHECK enum banyan_status by_embed_name_nodes(struct by_embedding *embedding);
/* Makes `network` of the picks, each in `queues` trees. */
BANYAN_CHECK enum banyan_status by_embed_make_network(struct by_embedding *embedding, uint32_t queues);

#endif
