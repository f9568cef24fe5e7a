/* Candidates whose shape does not look at the network: the built-in plans over the terminals in an order that goes from
 * rack to rack, and stars. Rotated ones give every vertex every place of the tree once: with equal machines all of them
 * load these equally, by 2 (n - 1) / n, and they differ in height and in what crosses the layers. */
#include <stdio.h>

#include "embed_candidate.h"

enum { MOST_STARS = 128, MOST_HUBS = 64, NAME_BYTES = 32 };

/* Takes over the shape of a group and the way up, for the terminals in the net's order. */
static enum banyan_status add_group(struct by_embed_candidates *list, struct by_draft *draft,
                                    const struct by_group *group) {
  draft->n = group->n;
  draft->root = group->root;
  draft->n_radix = group->n_radix;
  for (uint32_t i = 0; i < group->n_radix; i++) draft->radix[i] = group->radix[i];
  for (uint32_t u = 0; u < group->n; u++) {
    draft->order[u] = list->net->order[group->order[u]];
    draft->up[u] = group->up[u];
  }
  return by_embed_candidates_add(list, draft, NULL);
}

static enum banyan_status add_builtin(struct by_embed_candidates *list, struct by_draft *draft, const char *name) {
  struct by_plan *plan;
  enum banyan_status status = BANYAN_OK;
  BY_TRY(by_plan_builtin(name, list->net->graph->n_terminals, &plan));
  for (uint32_t g = 0; status == BANYAN_OK && g < plan->classes->n_groups; g++)
    status = add_group(list, draft, &plan->classes->groups[g]);
  by_plan_destroy(plan);
  return status;
}

/* How many terminals each group of the layer has; 0: not all the same, or one or all. */
static uint32_t even_size(const struct by_embed_net *net, const struct by_embed_layer *layer) {
  uint32_t n = net->graph->n_terminals, size = n / layer->n_groups;
  if (n % layer->n_groups || size < 2 || layer->n_groups < 2) return 0;
  for (uint32_t i = 0; i < n; i++) /* the order goes from group to group */
    if (layer->group[net->order[i]] != layer->group[net->order[i / size * size]]) return 0;
  return size;
}

/* Stars within each group, at the member that stands where the root stands in its own; a star among these. */
static enum banyan_status add_star_of_stars(struct by_embed_candidates *list, struct by_draft *draft, uint32_t size) {
  draft->n = list->net->graph->n_terminals;
  draft->root = 0;
  draft->n_radix = 2;
  draft->radix[0] = size;
  draft->radix[1] = draft->n / size;
  for (uint32_t u = 0; u < draft->n; u++) {
    draft->order[u] = list->net->order[u];
    draft->up[u] = u % size ? u / size * size : 0;
  }
  return by_embed_candidates_add(list, draft, NULL);
}

static enum banyan_status add_layered(struct by_embed_candidates *list, struct by_draft *draft) {
  const struct by_embed_net *net = list->net;
  char name[NAME_BYTES];
  for (uint32_t l = 0; l < net->n_layers; l++) {
    uint32_t size = even_size(net, &net->layers[l]);
    if (!size) continue;
    draft->kind = BY_EMBED_SHARDED;
    BY_TRY(add_star_of_stars(list, draft, size));
    draft->kind = BY_EMBED_RING;
    snprintf(name, sizeof name, "ring2d:%ux%u", size, net->graph->n_terminals / size);
    BY_TRY(add_builtin(list, draft, name));
  }
  return BANYAN_OK;
}

static enum banyan_status add_star(struct by_embed_candidates *list, struct by_draft *draft, uint32_t hub) {
  uint32_t n = list->net->graph->n_terminals;
  draft->n = n + (hub >= n);
  for (uint32_t u = 0; u < n; u++) draft->order[u] = u;
  if (hub >= n) draft->order[n] = hub;
  draft->root = hub < n ? hub : n;
  for (uint32_t u = 0; u < draft->n; u++) draft->up[u] = draft->root;
  return by_embed_candidates_add(list, draft, NULL);
}

/* At every helper, and at so many terminals, here and there. */
static enum banyan_status add_stars(struct by_embed_candidates *list, struct by_draft *draft) {
  uint32_t n = list->net->graph->n_terminals, step = (n + MOST_STARS - 1) / MOST_STARS;
  draft->kind = BY_EMBED_STAR;
  draft->n_radix = 0;
  for (uint32_t v = 0; v < n; v += step) BY_TRY(add_star(list, draft, v));
  for (uint32_t v = n; v < list->net->graph->n_vertices; v++)
    if (!by_embed_is_switch(list->net, v)) BY_TRY(add_star(list, draft, v));
  return BANYAN_OK;
}

/* The terminals in as many parts as there are helpers in the block, each part below one of them, and these a chain: so
 * one tree uses what several helpers have to spare. */
static enum banyan_status add_shared(struct by_embed_candidates *list, struct by_draft *draft, const uint32_t *helpers,
                                     uint32_t size, uint32_t set) {
  uint32_t found, n = list->net->graph->n_terminals;
  draft->n = n + size;
  for (uint32_t u = 0; u < n; u++) {
    draft->order[u] = list->net->order[u];
    draft->up[u] = n + (uint32_t)((uint64_t)u * size / n);
  }
  draft->root = n + size / 2;
  for (uint32_t i = 0; i < size; i++) {
    draft->order[n + i] = helpers[i];
    draft->up[n + i] = n + (i < size / 2 ? i + 1 : i - (i > size / 2));
  }
  BY_TRY(by_embed_candidates_add(list, draft, &found));
  if (found != UINT32_MAX) list->items[found].set = set;
  return BANYAN_OK;
}

/* In blocks of 2, 4, 8, ... and all of them. */
static enum banyan_status add_hubs(struct by_embed_candidates *list, struct by_draft *draft) {
  const struct by_graph *graph = list->net->graph;
  uint32_t helpers[MOST_HUBS], n = 0, set = BY_EMBED_BLOCKS;
  for (uint32_t v = graph->n_terminals; v < graph->n_vertices && n < MOST_HUBS; v++)
    if (!by_embed_is_switch(list->net, v)) helpers[n++] = v;
  draft->kind = BY_EMBED_HUBS;
  for (uint32_t size = 2; n >= 2 && size <= graph->n_terminals / 2; size *= 2, set++) {
    uint32_t block = size < n ? size : n;
    for (uint32_t i = 0; i + block <= n; i += block) BY_TRY(add_shared(list, draft, helpers + i, block, set));
    if (block == n) break;
  }
  return BANYAN_OK;
}

enum banyan_status by_embed_candidates_make_shapes(struct by_embed_candidates *list, struct by_draft *draft) {
  static const struct {
    enum by_embed_candidate_kind kind;
    const char *builtin;
  } shapes[] = {{BY_EMBED_SHARDED, "sharded"},  {BY_EMBED_HALVING, "halving"}, {BY_EMBED_RING, "ring"},
                {BY_EMBED_TREE, "double-tree"}, {BY_EMBED_TREE, "tree:2"},     {BY_EMBED_TREE, "tree:4"},
                {BY_EMBED_CHAIN, "chain"}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    draft->kind = shapes[i].kind;
    BY_TRY(add_builtin(list, draft, shapes[i].builtin));
  }
  BY_TRY(add_layered(list, draft));
  BY_TRY(add_stars(list, draft));
  return add_hubs(list, draft);
}
