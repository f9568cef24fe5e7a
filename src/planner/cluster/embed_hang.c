#include "embed_hang.h"

#define NONE UINT32_MAX

enum banyan_status by_hanger_init(struct by_hanger *hanger, const struct by_graph *graph) {
  size_t n = graph->n_vertices;
  *hanger = (struct by_hanger){0};
  BY_TRY(by_grower_init(&hanger->grower, graph, true));
  by_arena_init(&hanger->arena);
  hanger->draft.order = BY_ARENA_ARRAY(&hanger->arena, uint32_t, n);
  hanger->draft.up = BY_ARENA_ARRAY(&hanger->arena, uint32_t, n);
  hanger->first = BY_ARENA_ARRAY(&hanger->arena, uint32_t, n);
  hanger->next = BY_ARENA_ARRAY(&hanger->arena, uint32_t, 2 * n);
  hanger->position = BY_ARENA_ARRAY(&hanger->arena, uint32_t, n);
  if (hanger->draft.order && hanger->draft.up && hanger->first && hanger->next && hanger->position) return BANYAN_OK;
  by_hanger_fini(hanger);
  return by_embed_no_memory();
}

void by_hanger_fini(struct by_hanger *hanger) {
  if (!hanger->grower.graph) return;
  by_grower_fini(&hanger->grower);
  by_arena_fini(&hanger->arena);
  *hanger = (struct by_hanger){0};
}

/* Chains the edges' ends at their vertices: end 2e is edge e's at a, 2e + 1 at b. */
static void list_ends(struct by_hanger *h, const uint32_t *edges, uint32_t n) {
  const struct by_graph *graph = h->grower.graph;
  for (uint32_t v = 0; v < graph->n_vertices; v++) h->first[v] = h->position[v] = NONE;
  for (uint32_t i = 0; i < 2 * n; i++) {
    const struct by_graph_edge *edge = &graph->edges[edges[i / 2]];
    uint32_t v = i % 2 ? edge->b : edge->a;
    h->next[i] = h->first[v];
    h->first[v] = i;
  }
}

/* Breadth first from the root. */
static void find_parents(struct by_hanger *h, const uint32_t *edges, uint32_t root) {
  struct by_draft *draft = &h->draft;
  draft->kind = BY_EMBED_PACKED;
  draft->n_radix = draft->root = 0;
  draft->n = 1;
  draft->order[0] = root;
  draft->up[0] = h->position[root] = 0;
  for (uint32_t done = 0; done < draft->n; done++)
    for (uint32_t v = draft->order[done], i = h->first[v]; i != NONE; i = h->next[i]) {
      uint32_t to = by_graph_other_end(h->grower.graph, edges[i / 2], v);
      if (h->position[to] != NONE) continue;
      h->position[to] = draft->n;
      draft->up[draft->n] = done;
      draft->order[draft->n++] = to;
    }
}

enum banyan_status by_hanger_add(struct by_hanger *hanger, struct by_embed_candidates *list, const uint32_t *edges,
                                 uint32_t n, uint32_t *found) {
  uint32_t root;
  double height;
  by_tree_centre(&hanger->grower, edges, n, &root, &height);
  list_ends(hanger, edges, n);
  find_parents(hanger, edges, root);
  return by_embed_candidates_add(list, &hanger->draft, found);
}
