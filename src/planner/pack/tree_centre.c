/* The centre of a tree: the furthest vertex from anywhere is one end of a
 * longest path, the furthest from that is the other end, and a vertex's
 * eccentricity is its distance to the further one of the two (Jordan, 1869). */
#include "grow.h"

/* Distances from `from` into `distance`, over the tree whose neighbours are in `around`; returns the furthest. */
static uint32_t spread(struct by_grower *g, const struct by_around *around, uint32_t from, double *distance) {
  uint32_t n = 0, furthest = from;
  distance[from] = 0;
  g->via[from] = UINT32_MAX;
  g->order[n++] = from;
  for (uint32_t done = 0; done < n; done++) {
    uint32_t v = g->order[done];
    if (distance[v] > distance[furthest]) furthest = v;
    for (uint32_t i = around->at[v]; i < around->at[v + 1]; i++) {
      uint32_t e = around->edges[i], to = by_graph_other_end(g->graph, e, v);
      if (e == g->via[v]) continue;
      g->via[to] = e;
      distance[to] = distance[v] + g->length[e];
      g->order[n++] = to;
    }
  }
  return furthest;
}

static void list_neighbours(struct by_grower *g, const uint32_t *edges, uint32_t n_edges) {
  struct by_around *around = &g->around;
  const struct by_graph *graph = g->graph;
  for (uint32_t v = 0; v <= graph->n_vertices; v++) around->at[v] = 0;
  for (uint32_t i = 0; i < n_edges; i++) {
    around->at[graph->edges[edges[i]].a]++;
    around->at[graph->edges[edges[i]].b]++;
  }
  for (uint32_t v = 0, sum = 0; v <= graph->n_vertices; v++) around->at[v] = sum += around->at[v];
  for (uint32_t i = 0; i < n_edges; i++) {
    around->edges[--around->at[graph->edges[edges[i]].a]] = edges[i];
    around->edges[--around->at[graph->edges[edges[i]].b]] = edges[i];
  }
}

void by_tree_centre(struct by_grower *g, const uint32_t *edges, uint32_t n_edges, uint32_t *root, double *height) {
  list_neighbours(g, edges, n_edges);
  uint32_t one_end = spread(g, &g->around, 0, g->depth);
  uint32_t other_end = spread(g, &g->around, one_end, g->depth);
  (void)spread(g, &g->around, other_end, g->below);
  *root = one_end;
  *height = g->depth[other_end];
  for (uint32_t i = 0; i <= n_edges; i++) { /* the tree's vertices are in `order` */
    uint32_t v = g->order[i];
    double eccentricity = g->depth[v] > g->below[v] ? g->depth[v] : g->below[v];
    if (eccentricity > *height || (eccentricity == *height && v >= *root)) continue;
    *root = v;
    *height = eccentricity;
  }
}

enum banyan_status by_packing_height(const struct by_graph *graph, const struct by_packing *packing, bool hops,
                                     double *height) {
  struct by_grower grower;
  *height = 0;
  BY_TRY(by_grower_init(&grower, graph, hops));
  for (uint32_t t = 0; t < packing->n_trees; t++) {
    uint32_t root;
    double of_tree;
    by_tree_centre(&grower, packing->trees[t].edges, packing->trees[t].n, &root, &of_tree);
    if (of_tree > *height) *height = of_tree;
  }
  by_grower_fini(&grower);
  return BANYAN_OK;
}
