/* Checks that the tests of all packing methods share. */
#ifndef BY_TESTS_PACKING_CHECK_H
#define BY_TESTS_PACKING_CHECK_H

#include <math.h>

#include "grow.h"
#include "packing.h"
#include "plan_make.h"
#include "topology.h"

static const double check_slack = 1e-9; /* relative tolerance of the check */

struct packing_check {
  const struct by_graph *graph;
  uint32_t *above; /* the next vertex towards the leader of the part, for each vertex */
  bool *touched;
  double *load;
};

static inline enum banyan_status join_packed(struct packing_check *check, uint32_t tree, uint32_t e) {
  const struct by_graph_edge *edge = &check->graph->edges[e];
  uint32_t a = by_find_leader(check->above, edge->a), b = by_find_leader(check->above, edge->b);
  if (a == b) return by_fail(BANYAN_ERR_PLAN, "packed tree %u: its edge %u closes a cycle", tree, e);
  check->above[a] = b;
  check->touched[edge->a] = check->touched[edge->b] = true;
  return BANYAN_OK;
}

static inline enum banyan_status check_packed(struct packing_check *check, uint32_t t, const struct by_packed *tree) {
  const struct by_graph *graph = check->graph;
  for (uint32_t v = 0; v < graph->n_vertices; v++) {
    check->above[v] = v;
    check->touched[v] = v < graph->n_terminals;
  }
  for (uint32_t i = 0; i < tree->n; i++) {
    if (tree->edges[i] >= graph->n_edges || (i > 0 && tree->edges[i] <= tree->edges[i - 1]))
      return by_fail(BANYAN_ERR_PLAN, "packed tree %u: edge %u of %u is out of order or not in the graph", t,
                     tree->edges[i], graph->n_edges);
    BY_TRY(join_packed(check, t, tree->edges[i]));
  }
  for (uint32_t v = 1; v < graph->n_vertices; v++)
    if (check->touched[v] && by_find_leader(check->above, v) != by_find_leader(check->above, 0))
      return by_fail(BANYAN_ERR_PLAN, "packed tree %u does not join vertex %u to the others", t, v);
  if (!(tree->rate > 0) || !isfinite(tree->rate))
    return by_fail(BANYAN_ERR_PLAN, "packed tree %u has a rate of %g", t, tree->rate);
  by_graph_add_load(graph, tree->edges, tree->n, tree->rate, check->load);
  return BANYAN_OK;
}

static inline enum banyan_status check_packing(struct packing_check *check, const struct by_packing *packing) {
  const struct by_graph *graph = check->graph;
  double sum = 0;
  for (uint32_t t = 0; t < packing->n_trees; t++) {
    BY_TRY(check_packed(check, t, &packing->trees[t]));
    sum += packing->trees[t].rate;
    if (t > 0 && packing->trees[t].rate > packing->trees[t - 1].rate)
      return by_fail(BANYAN_ERR_PLAN, "packed tree %u carries more than the one before it", t);
  }
  for (uint32_t r = 0; r < graph->n_resources; r++)
    if (check->load[r] > graph->capacity[r] * (1 + check_slack))
      return by_fail(BANYAN_ERR_PLAN, "resource %u of the graph carries %.15g bit/s of %.15g", r, check->load[r],
                     graph->capacity[r]);
  if (!(fabs(packing->throughput - sum) <= check_slack * sum))
    return by_fail(BANYAN_ERR_PLAN, "the packing says %.15g bit/s, and its trees carry %.15g", packing->throughput,
                   sum);
  if (!(packing->throughput <= packing->bound * (1 + check_slack)))
    return by_fail(BANYAN_ERR_PLAN, "the packing carries %.15g bit/s, above its bound of %.15g", packing->throughput,
                   packing->bound);
  return BANYAN_OK;
}

/* Checks that the packing satisfies its claims. Every tree is a tree, spans the terminals and has a rate above 0. No
 * resource is loaded beyond its capacity (1e-9 of it for rounding). The throughput is the sum of the rates and not
 * above the bound. The error is BANYAN_ERR_PLAN and names the tree or resource. */
static inline enum banyan_status packing_check(const struct by_graph *graph, const struct by_packing *packing) {
  struct by_arena arena;
  by_arena_init(&arena);
  struct packing_check check = {.graph = graph,
                                .above = BY_ARENA_ARRAY(&arena, uint32_t, graph->n_vertices),
                                .touched = BY_ARENA_ARRAY(&arena, bool, graph->n_vertices),
                                .load = BY_ARENA_ARRAY(&arena, double, graph->n_resources)};
  enum banyan_status status = arena.failed ? by_plan_no_memory() : check_packing(&check, packing);
  by_arena_fini(&arena);
  return status;
}

/* Returns the largest height of a packing's trees when each is rooted at its centre. `hops`: heights count edges;
 * otherwise they are seconds of delay. */
static inline enum banyan_status packing_height(const struct by_graph *graph, const struct by_packing *packing,
                                                bool hops, double *height) {
  struct by_grower grower;
  *height = 0;
  BY_TRY(by_grower_init(&grower, graph, hops));
  for (uint32_t t = 0; t < packing->n_trees; t++) {
    uint32_t root;
    double of_tree;
    by_tree_centre(&grower, packing->trees[t].edges, packing->trees[t].n, &root, &of_tree);
    *height = fmax(*height, of_tree);
  }
  by_grower_fini(&grower);
  return BANYAN_OK;
}

#endif
