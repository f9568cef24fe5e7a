/* Planning again: what an old embedding found is taken over by the names of its vertices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "embed_parts.h"

#define NONE UINT32_MAX
enum { MOST_KEPT = 256 }; /* of the trees that pricing found, the newest: or they would be more with each time */

struct taking {
  struct by_embedding *embedding;
  const struct by_embedding *old;
  uint32_t *vertex; /* of each of the old graph's: the new one's; NONE: it is gone */
  struct by_draft draft;
  double *load; /* of each resource under the old weights, over its capacity */
  bool gone;    /* something that the old embedding uses */
};

static enum banyan_status match_vertices(const struct taking *t) {
  const struct by_graph *graph = t->embedding->graph, *before = t->old->graph;
  if (graph->n_terminals != before->n_terminals)
    return by_fail(BANYAN_ERR_ARGUMENT, "a job of %u workers cannot be planned again for %u", before->n_terminals,
                   graph->n_terminals);
  for (uint32_t v = 0; v < before->n_vertices; v++) {
    uint32_t w = v < graph->n_terminals ? v : graph->n_terminals;
    uint32_t end = v < graph->n_terminals ? v + 1 : graph->n_vertices;
    while (w < end && strcmp(t->embedding->name[w], t->old->name[v]) != 0) w++;
    t->vertex[v] = w < end ? w : NONE;
    if (v < graph->n_terminals && w == end)
      return by_fail(BANYAN_ERR_ARGUMENT, "rank %u of the job was on \"%.64s\" and is now on \"%.64s\"", v,
                     t->old->name[v], t->embedding->name[v]);
  }
  return BANYAN_OK;
}

/* The number of the same candidate in the new list; NONE: it does not fit any more. */
static enum banyan_status take(struct taking *t, const struct by_embed_candidate *candidate, uint32_t *found) {
  const struct by_group *group = &candidate->group;
  struct by_draft *draft = &t->draft;
  draft->kind = candidate->kind;
  draft->n = group->n;
  draft->root = group->root;
  draft->n_radix = group->n_radix;
  for (uint32_t i = 0; i < group->n_radix; i++) draft->radix[i] = group->radix[i];
  *found = NONE;
  for (uint32_t u = 0; u < group->n; u++) {
    draft->order[u] = t->vertex[group->order[u]];
    draft->up[u] = group->up[u];
    if (draft->order[u] == NONE) return BANYAN_OK;
  }
  return by_embed_candidates_add(&t->embedding->candidates, draft, found);
}

static enum banyan_status take_used(struct taking *t) {
  const struct by_embed_picks *picks = &t->old->picks;
  struct by_embed_candidates *list = &t->embedding->candidates;
  for (uint32_t i = 0; i < picks->n; i++) {
    uint32_t found;
    BY_TRY(take(t, &t->old->candidates.items[picks->items[i].candidate], &found));
    t->gone |= found == NONE;
    if (found == NONE) continue;
    list->items[found].set = BY_EMBED_OLD;
    for (uint32_t r = 0; r < t->embedding->graph->n_resources; r++)
      t->load[r] += picks->items[i].rate / picks->throughput * list->items[found].load[r];
  }
  return BANYAN_OK;
}

static enum banyan_status take_priced(struct taking *t) {
  const struct by_embed_candidates *from = &t->old->candidates;
  uint32_t kept = 0, found;
  for (uint32_t i = from->n; i-- > 0 && kept < MOST_KEPT;) {
    if (from->items[i].kind != BY_EMBED_PACKED) continue;
    kept++;
    BY_TRY(take(t, &from->items[i], &found));
  }
  return BANYAN_OK;
}

static enum banyan_status take_over(struct taking *t, double *before) {
  double most = 0;
  BY_TRY(match_vertices(t));
  BY_TRY(take_used(t));
  BY_TRY(take_priced(t));
  for (uint32_t r = 0; r < t->embedding->graph->n_resources; r++) most = fmax(most, t->load[r]);
  *before = t->gone ? 0 : 1 / most;
  return BANYAN_OK;
}

enum banyan_status by_embed_take_over(struct by_embedding *embedding, const struct by_embedding *old, double *before) {
  struct taking t = {.embedding = embedding, .old = old};
  size_t n = old->graph->n_vertices;
  t.vertex = calloc(n, sizeof *t.vertex);
  t.draft.order = calloc(n, sizeof *t.draft.order);
  t.draft.up = calloc(n, sizeof *t.draft.up);
  t.load = calloc(embedding->graph->n_resources, sizeof *t.load);
  bool all = t.vertex && t.draft.order && t.draft.up && t.load;
  enum banyan_status status = all ? take_over(&t, before) : by_embed_no_memory();
  free(t.vertex);
  free(t.draft.order);
  free(t.draft.up);
  free(t.load);
  return status;
}
