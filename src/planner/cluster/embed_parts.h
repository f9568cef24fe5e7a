/* Types and functions that the files of embed.h share. Candidates are groups that can perform a job's whole AllReduce,
 * of which an embedding chooses some and weights them. A candidate is one group of a plan, a tree or a tree rotated
 * over an order, with its load of every resource.
 *
 * Results take the same paths as gradients, so that each edge has the same load in both directions. So the bound on
 * trees of the graph is also a bound on candidates. */
#ifndef BY_PLANNER_CLUSTER_EMBED_PARTS_H
#define BY_PLANNER_CLUSTER_EMBED_PARTS_H

#include "embed.h"
#include "grow.h"
#include "lp.h"
#include "placement.h"
#include "plan.h"

enum { BY_EMBED_MAX_LAYERS = 4, BY_EMBED_MAX_VERTICES = 2048 };

/* The groups of one layer. The last layer has one group, all vertices. */
struct by_embed_layer {
  uint32_t n_groups;
  uint32_t *group; /* The group of each vertex; UINT32_MAX: a helper that is not in one group of this layer. */
  /* Whether the terminals of each group can send more than the capacity of the links out of it. */
  bool *oversubscribed;
};

/* The part of a row that a gradient at 1 bit/s uses. */
struct by_embed_use {
  uint32_t row;
  double part;
};

/* A host that may serve, and the paths of all workers to it (embed_network.c). */
struct by_embed_server {
  uint32_t node;
  struct by_placement_job job;     /* The workers, and this server. */
  struct by_placement_paths paths; /* A single tree. */
  uint32_t *first; /* The uses of the path from vertex v to its parent are uses[first[v] .. first[v + 1]). */
  struct by_embed_use *uses;
  /* The uses of vertex v if it adds are rents[rent[v] .. rent[v + 1]): its memory if that is known, or the link of its
   * aggregator. */
  uint32_t *rent;
  struct by_embed_use *rents; /* The uses, indexed by `rent`. */
  /* The number of programmable switches on the longest path, or 1 for an aggregator, plus 1. */
  uint32_t height;
};

struct by_embed_net {
  const struct by_topology *topology;
  const struct by_graph *graph;
  /* The rows of the linear program: the graph's resources, followed by resources that only in-network trees load. */
  uint32_t n_rows;
  /* Element u * n_vertices + v is the edge between vertices u and v; UINT32_MAX: none. */
  uint32_t *edge;
  double *capacity; /* The bit/s that each vertex can both send and receive. */
  /* Whether each row is a link between switches, which jobs on other hosts also need. */
  bool *shared;
  uint32_t n_shared;
  /* The part of each row that others do not use; 0 for memory, since only links count. */
  double *left;
  /* Element u * n_vertices + v is the number of hops between vertices u and v, the larger one of both directions;
   * UINT32_MAX: no path. */
  uint32_t *hops;
  uint32_t n_layers;                                 /* The number of layers, at least 1. */
  struct by_embed_layer layers[BY_EMBED_MAX_LAYERS]; /* The layers, the smallest groups first. */
  uint32_t *order;                                   /* The terminals, group by group. */
  uint32_t n_servers;
  struct by_embed_server *servers;
  struct by_arena arena;
};

/* Initialises the network. The topology and its graph must outlive it. BANYAN_ERR_UNSUPPORTED: more than
 * BY_EMBED_MAX_VERTICES vertices. Cost: vertices^2, and for each vertex a search of the topology. The caller passes it
 * to by_embed_net_fini, also on failure. */
BANYAN_CHECK enum banyan_status by_embed_net_init(struct by_embed_net *net, const struct by_topology *topology,
                                                  const struct by_graph *graph);
/* Adds the servers of the options that all workers reach and for which some switch can add, or without helpers an
 * aggregator, and the rows that only their trees load. It is called before any candidates are made. Cost: for each
 * server a search of the topology. */
BANYAN_CHECK enum banyan_status by_embed_net_add_servers(struct by_embed_net *net,
                                                         const struct by_embed_options *options);
/* Frees a network, which may be all zeros. */
void by_embed_net_fini(struct by_embed_net *net);

static inline uint32_t by_embed_edge(const struct by_embed_net *net, uint32_t u, uint32_t v) {
  return net->edge[(size_t)u * net->graph->n_vertices + v];
}

enum by_embed_candidate_kind {
  BY_EMBED_STAR,    /* A parameter server on a terminal or helper. */
  BY_EMBED_SHARDED, /* A star at every terminal, or in two layers: a piece for each terminal. */
  BY_EMBED_RING,    /* A chain at every terminal. */
  BY_EMBED_HALVING, /* A binomial tree at every terminal. */
  BY_EMBED_CHAIN,
  /* A tree of K children each, or binary in order: each terminal is an inner vertex of one of two of these. */
  BY_EMBED_TREE,
  BY_EMBED_ELASTIC, /* A vertex that adds for each group that is oversubscribed. */
  BY_EMBED_HUBS,    /* Helpers that add for vertices near them. */
  BY_EMBED_NETWORK, /* The paths to a server, with switches that add. */
  BY_EMBED_PACKED,  /* A tree found by the prices of full resources. */
  BY_EMBED_N_KINDS
};

struct by_embed_candidate {
  enum by_embed_candidate_kind kind;
  /* The group, for all kinds but BY_EMBED_NETWORK. `order` has the graph's vertices, share and rate are 0, and down is
   * up. */
  struct by_group group;
  uint32_t server; /* For BY_EMBED_NETWORK: the number of the server. */
  bool *adds;      /* For BY_EMBED_NETWORK: whether each vertex of the server's tree adds. */
  uint32_t height; /* The number of edges from the root to the farthest leaf. */
  uint32_t width;  /* The largest number of children of a vertex. */
  double *load;    /* The load of each row at 1 bit/s of the candidate, relative to the row's capacity. */
  double theta;    /* The largest load: the seconds for each bit of the buffer if the candidate were used alone. */
  uint32_t set;    /* The set of candidates with which it is tried together; 0: none. */
};

/* The kinds of sets: few trees of by_pack_few, candidates of an old embedding, trees over blocks of 2, 4, 8, ...
 * helpers. */
enum { BY_EMBED_FEW = 1, BY_EMBED_OLD, BY_EMBED_BLOCKS, BY_EMBED_N_SETS = BY_EMBED_BLOCKS + 6 };

/* A candidate to be added: vertices at positions, their parents, and the digits of a rotation (none: one tree). */
struct by_draft {
  enum by_embed_candidate_kind kind;
  uint32_t n, root;
  uint32_t *order, *up; /* They have the capacity for all vertices. */
  uint32_t n_radix, radix[BY_PLAN_MAX_DIGITS];
};

struct by_embed_candidates {
  const struct by_embed_net *net;
  uint32_t max_height; /* Candidates of larger height are left out. */
  uint32_t allowed;    /* A set of bits of enum by_plan_method. Candidates of other methods are left out. */
  uint32_t n, allocated;
  struct by_embed_candidate *items;
  struct by_arena arena;    /* The owner of the parts of the items. */
  struct by_draft draft;    /* The next candidate. */
  struct by_grower grower;  /* Working memory of megabytes, for trees of edges. */
  uint32_t *count, *height; /* Working memory with an element for each vertex. */
  double *load;             /* Working memory with an element for each row. */
};

/* Initialises the list. The net must outlive it. The caller passes it to by_embed_candidates_fini, also on failure. */
BANYAN_CHECK enum banyan_status by_embed_candidates_init(struct by_embed_candidates *list,
                                                         const struct by_embed_net *net, uint32_t max_height,
                                                         uint32_t allowed);
/* Frees a list, which may be all zeros. */
void by_embed_candidates_fini(struct by_embed_candidates *list);
/* Adds a copy of the draft. It is left out if it is too high or not allowed, needs an edge that the graph does not
 * have, or has the loads of an earlier candidate that is at most as high and as wide. *found becomes its number, or
 * that of the earlier one; UINT32_MAX: it does not fit. `found` may be NULL. Cost: its edges; for a rotated candidate,
 * the edges of its template that are not translations of each other, times its vertices. */
BANYAN_CHECK enum banyan_status by_embed_candidates_add(struct by_embed_candidates *list, uint32_t *found);
/* Adds a candidate whose load is in list->load, and which is complete otherwise. *found is set as by
 * by_embed_candidates_add. */
BANYAN_CHECK enum banyan_status by_embed_candidates_keep(struct by_embed_candidates *list,
                                                         struct by_embed_candidate *new, uint32_t *found);
/* Adds the tree of these n edges of the graph, rooted at its centre. Overwrites the draft. Cost: vertices. */
BANYAN_CHECK enum banyan_status by_embed_candidates_add_tree(struct by_embed_candidates *list, const uint32_t *edges,
                                                             uint32_t n, uint32_t *found);
/* Adds a group, whose vertex v is the graph's map[v]. Overwrites the draft, whose kind is set before. If a vertex maps
 * to UINT32_MAX, it does not exist any more, so the group does not fit. */
BANYAN_CHECK enum banyan_status by_embed_candidates_add_group(struct by_embed_candidates *list,
                                                              const struct by_group *group, const uint32_t *map,
                                                              uint32_t *found);
/* Adds the tree of a server in which these vertices add. Cost: its vertices. */
BANYAN_CHECK enum banyan_status by_embed_candidates_add_network(struct by_embed_candidates *list, uint32_t server,
                                                                const bool *adds, uint32_t *found);
/* Adds for each server the tree with the smallest theta (by_flow_find_min). */
BANYAN_CHECK enum banyan_status by_embed_candidates_add_servers(struct by_embed_candidates *list);
/* Finds the lightest tree to each server at these prices of whole rows, and adds those that cost less than `worth`.
 * *min becomes the cost of the lightest of all, exactly, if that is less. */
BANYAN_CHECK enum banyan_status by_embed_candidates_price(struct by_embed_candidates *list, const double *price,
                                                          double worth, double *min);
/* Adds all candidates that are made from their shapes (embed_shapes.c). Cost: some hundred candidates. */
BANYAN_CHECK enum banyan_status by_embed_candidates_make(struct by_embed_candidates *list);

/* --- Choosing. --- */

/* The linear program over an embedding's candidates: rates of the largest sum that keep all capacities; new candidates
 * by its prices; and the choice of few candidates by the integer program
 *
 *     min theta + penalty * (number of used candidates) + height_weight * (the largest height and width of them)
 *         + use_weight * (average load of links between switches, and the fullest part of the network without other
 * jobs)
 *
 * where theta is the time with the best weights for the used candidates. A ring and trees from rack to rack may be as
 * fast for a job alone; the trees leave more of the uplinks to others. */
struct by_embed_master {
  struct by_embed_candidates *list; /* The candidates, which pricing extends. */
  /* The program, with a column for each candidate, in bit/s. The rows are those of the net, each with the price of its
   * whole capacity. */
  struct by_lp *lp;
  double throughput; /* The sum of the rates of the last solution in bit/s. */
  /* The prices that proved the bound, with the sum 1. At these no candidate is cheaper than throughput / bound. */
  double *fair;
  double *load; /* Working memory. */
};

/* Initialises the program with all candidates of the list, at least one. The list must outlive it. The caller passes it
 * to by_embed_master_fini, also on failure. */
BANYAN_CHECK enum banyan_status by_embed_master_init(struct by_embed_master *master, struct by_embed_candidates *list);
/* Frees a program, which may be all zeros. */
void by_embed_master_fini(struct by_embed_master *master);
/* Adds the candidates that are new in the list. */
BANYAN_CHECK enum banyan_status by_embed_master_add(struct by_embed_master *master);
/* Computes prices, and rates for the candidates that are allowed, which never exceed the capacities. Starts from the
 * last basis. */
BANYAN_CHECK enum banyan_status by_embed_master_solve(struct by_embed_master *master);
/* Column generation (Gilmore and Gomory 1961): adds lightest trees under the prices, of the graph and to servers, and
 * under prices between them and the best so far (Wentges 1997), until the rates reach `ratio` of the bound, nothing new
 * helps, or `rounds` rounds are over. *bound is a rate in bit/s that no set of trees of the graph and to servers
 * exceeds. Rates and prices are solved. Cost: two trees and a few pivots a round. */
BANYAN_CHECK enum banyan_status by_embed_master_price(struct by_embed_master *master, double ratio, uint32_t rounds,
                                                      double *bound);

enum { BY_EMBED_MAX_LATER = 64 };

struct by_embed_pick {
  uint32_t candidate;
  double rate; /* The rate in bit/s. */
};

struct by_embed_picks {
  uint32_t n;
  struct by_embed_pick *items; /* The picks, sorted by rate, largest first. */
  double throughput;           /* The sum of the rates in bit/s. */
  double score;                /* The value that is minimised, relative to the shortest time. */
};

/* Chooses few candidates. The master must be solved with all candidates allowed; afterwards it is solved for the last
 * trial. Weights in steps of 1/Z, for Z = 1, 2, 4, ... up to the options' steps, cannot use more than Z candidates, so
 * that each Z stands for a number of them without a binary variable for each. A local search moves one step at a time,
 * and each result is solved as a linear program over just its candidates. Finally, single candidates are dropped and
 * exchanged. The caller frees picks->items. BANYAN_ERR_PLAN: no candidate has the minimum rate. Cost: some hundred
 * small programs, and steps * 256 * rows a sweep.
 *
 * If `set` is not 0, it considers newly added candidates, at most BY_EMBED_MAX_LATER and all of that set: alone, with
 * the picks, and exchanged with them one by one. `best` is the throughput of all candidates before. The picks only
 * improve. */
BANYAN_CHECK enum banyan_status by_embed_choose(struct by_embed_master *master, const struct by_embed_options *options,
                                                double best, uint32_t set, struct by_embed_picks *picks);
/* Returns the score of n candidates whose rates sum to this throughput. `best` is the throughput of all candidates. */
double by_embed_score(const struct by_embed_candidates *list, const struct by_embed_pick *picks, uint32_t n,
                      double throughput, double best, double penalty);

struct by_embedding {
  struct by_graph *graph;
  struct by_embed_net net; /* The network. Its topology is not used any more. */
  struct by_embed_candidates candidates;
  struct by_embed_picks picks;
  struct by_vertex *vertices;       /* The names and kinds of the graph's vertices. */
  const char **node_names;          /* The names of nodes on paths to servers; NULL for other nodes. */
  struct by_plan *network;          /* The in-network trees of the picks, in their order; NULL: none. */
  double bound, any_number, before; /* The fields of struct by_embed_facts. */
  struct by_arena arena;
};

/* --- In-network trees of an embedding. --- */

/* Copies the names of nodes on paths to servers, since the topology may no longer exist when the job is planned
 * again. */
BANYAN_CHECK enum banyan_status by_embed_name_nodes(struct by_embedding *embedding);
/* Makes `network` from the picks, each in `queues` trees. */
BANYAN_CHECK enum banyan_status by_embed_make_network(struct by_embedding *embedding, uint32_t queues);

#endif
