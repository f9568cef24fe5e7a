/* What trees of a job on a shared cluster are made from: which edge of the
 * graph joins two vertices, what a vertex can carry, and the layers of the
 * network (racks, pods, sites), found from the ways of packets: vertices that
 * are at most so many links from one another are a group of the layer. Used by
 * the files of embed.h alone. */
#ifndef BY_PLAN_EMBED_NET_H
#define BY_PLAN_EMBED_NET_H

#include "graph.h"
#include "topology.h"

enum { BY_EMBED_MOST_LAYERS = 4, BY_EMBED_MOST_VERTICES = 2048 };

/* Groups of one layer. The last layer has one group, all vertices. */
struct by_embed_layer {
  uint32_t n_groups;
  uint32_t *group;      /* of each vertex; UINT32_MAX: a helper or switch that is not in one group of this layer */
  bool *oversubscribed; /* of each group: less leads out of it than its terminals could send */
};

struct by_embed_net {
  const struct by_topology *topology;
  const struct by_graph *graph;
  uint32_t *edge;   /* between vertices u and v: edge[u * n_vertices + v]; UINT32_MAX: none */
  double *capacity; /* of each vertex: what it can send and receive at once, bit/s */
  bool *shared;     /* of each resource: a link between switches, which jobs on other hosts need too */
  uint32_t n_shared;
  double *left;      /* of each resource: the part of it that others do not use */
  uint32_t *hops;    /* between vertices, like `edge`, the longer of both ways; UINT32_MAX: no way */
  uint32_t n_layers; /* >= 1 */
  struct by_embed_layer layers[BY_EMBED_MOST_LAYERS]; /* the smallest groups first */
  uint32_t *order;                                    /* the terminals, group by group */
  struct by_arena arena;
};

/* The topology and its graph must outlive it. BANYAN_ERR_UNSUPPORTED: more than BY_EMBED_MOST_VERTICES vertices.
 * Cost: vertices^2, and for each vertex a search of the topology. */
BANYAN_CHECK enum banyan_status by_embed_net_init(struct by_embed_net *net, const struct by_topology *topology,
                                                  const struct by_graph *graph);
/* Also of one that is all zeros. */
void by_embed_net_fini(struct by_embed_net *net);

static inline uint32_t by_embed_edge(const struct by_embed_net *net, uint32_t u, uint32_t v) {
  return net->edge[(size_t)u * net->graph->n_vertices + v];
}
static inline bool by_embed_is_switch(const struct by_embed_net *net, uint32_t v) {
  return net->topology->nodes[net->graph->node[v]].kind == BY_NODE_SWITCH;
}

#endif
