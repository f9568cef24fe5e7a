#include "embed_candidate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"

#define NONE UINT32_MAX

static const char *const names[BY_EMBED_N_KINDS] = {"parameter server",
                                                    "sharded parameter server",
                                                    "ring",
                                                    "recursive halving and doubling",
                                                    "chain",
                                                    "tree",
                                                    "elastic aggregation tree",
                                                    "tree over helpers",
                                                    "in-network tree",
                                                    "packed tree"};

const char *by_embed_candidate_kind_name(enum by_embed_candidate_kind kind) {
  return names[kind];
}

enum banyan_status by_embed_candidates_init(struct by_embed_candidates *list, const struct by_embed_net *net,
                                            uint32_t most_height) {
  *list = (struct by_embed_candidates){.net = net, .most_height = most_height};
  by_arena_init(&list->arena);
  list->count = BY_ARENA_ARRAY(&list->arena, uint32_t, net->graph->n_vertices);
  list->height = BY_ARENA_ARRAY(&list->arena, uint32_t, net->graph->n_vertices);
  list->load = BY_ARENA_ARRAY(&list->arena, double, net->graph->n_resources);
  if (list->count && list->height && list->load) return BANYAN_OK;
  by_embed_candidates_fini(list);
  return by_embed_no_memory();
}

void by_embed_candidates_fini(struct by_embed_candidates *list) {
  if (list->net) by_arena_fini(&list->arena);
  free(list->items);
  *list = (struct by_embed_candidates){0};
}

/* ---- shape */

/* Height and width of the template. */
static void measure(struct by_embed_candidates *list, const struct by_draft *draft, struct by_embed_candidate *out) {
  uint32_t *depth = list->height, *children = list->count;
  for (uint32_t u = 0; u < draft->n; u++) {
    children[u] = 0;
    depth[u] = u == draft->root ? 0 : NONE;
  }
  for (uint32_t u = 0; u < draft->n; u++) {
    if (u == draft->root) continue;
    uint32_t most = ++children[draft->up[u]], above = 0, at = u;
    if (most > out->width) out->width = most;
    for (; depth[at] == NONE; at = draft->up[at]) above++;
    uint32_t here = depth[at] + above;
    if (here > out->height) out->height = here;
    for (at = u; depth[at] == NONE; at = draft->up[at]) depth[at] = here--;
  }
}

/* ---- load */

/* Adds what the edge between two vertices loads. False: there is none. */
static bool add_edge(struct by_embed_candidates *list, uint32_t u, uint32_t v, double rate) {
  const struct by_graph *graph = list->net->graph;
  uint32_t e = by_embed_edge(list->net, u, v);
  if (e == NONE) return false;
  const uint32_t *uses = graph->uses + graph->edges[e].first;
  for (uint32_t i = 0; i < graph->edges[e].n; i++) list->load[uses[i]] += rate;
  return true;
}

static bool load_tree(struct by_embed_candidates *list, const struct by_draft *draft) {
  for (uint32_t u = 0; u < draft->n; u++)
    if (u != draft->root && !add_edge(list, draft->order[u], draft->order[draft->up[u]], 1)) return false;
  return true;
}

/* Each edge of the template stands for one from every position to the one as far on; edges that lead as far are the
 * same ones. */
static bool load_rotated(struct by_embed_candidates *list, const struct by_draft *draft, const struct by_group *group) {
  uint32_t *times = list->count;
  memset(times, 0, draft->n * sizeof *times);
  for (uint32_t u = 0; u < draft->n; u++)
    if (u != draft->root) times[by_group_untranslate(group, draft->up[u], u)]++;
  for (uint32_t far = 1; far < draft->n; far++)
    for (uint32_t u = 0; times[far] && u < draft->n; u++) {
      uint32_t v = by_group_translate(group, u, far);
      if (!add_edge(list, draft->order[u], draft->order[v], (double)times[far] / draft->n)) return false;
    }
  return true;
}

/* Fills list->load and theta. False: an edge is missing. */
static bool find_load(struct by_embed_candidates *list, const struct by_draft *draft, struct by_embed_candidate *out) {
  const struct by_graph *graph = list->net->graph;
  memset(list->load, 0, graph->n_resources * sizeof *list->load);
  if (!(draft->n_radix ? load_rotated(list, draft, &out->group) : load_tree(list, draft))) return false;
  for (uint32_t r = 0; r < graph->n_resources; r++) {
    list->load[r] /= graph->capacity[r];
    out->theta = fmax(out->theta, list->load[r]);
  }
  return true;
}

static uint32_t find_known(const struct by_embed_candidates *list, const struct by_embed_candidate *new) {
  size_t bytes = list->net->graph->n_resources * sizeof *list->load;
  for (uint32_t i = 0; i < list->n; i++) {
    const struct by_embed_candidate *old = &list->items[i];
    if (old->theta == new->theta && old->height <= new->height && old->width <= new->width &&
        !memcmp(old->load, list->load, bytes))
      return i;
  }
  return NONE;
}

/* ---- adding */

static enum banyan_status make_room(struct by_embed_candidates *list) {
  return BY_ARRAY_GROW(&list->items, &list->room, list->n + 1) ? BANYAN_OK : by_embed_no_memory();
}

static enum banyan_status copy(struct by_embed_candidates *list, const struct by_draft *draft,
                               struct by_embed_candidate *new) {
  struct by_group *group = &new->group;
  size_t bytes = draft->n * sizeof *group->order, n_resources = list->net->graph->n_resources;
  group->order = BY_ARENA_ARRAY(&list->arena, uint32_t, draft->n);
  group->up = group->down = BY_ARENA_ARRAY(&list->arena, uint32_t, draft->n);
  group->radix = BY_ARENA_ARRAY(&list->arena, uint32_t, draft->n_radix);
  new->load = BY_ARENA_ARRAY(&list->arena, double, n_resources);
  if (!group->order || !group->up || !group->radix || !new->load) return by_embed_no_memory();
  memcpy(group->order, draft->order, bytes);
  memcpy(group->up, draft->up, bytes);
  memcpy(group->radix, draft->radix, draft->n_radix * sizeof *group->radix);
  memcpy(new->load, list->load, n_resources * sizeof *new->load);
  group->up[group->root] = group->root;
  BY_TRY(make_room(list));
  list->items[list->n++] = *new;
  return BANYAN_OK;
}

enum banyan_status by_embed_candidates_add(struct by_embed_candidates *list, const struct by_draft *draft,
                                           uint32_t *found) {
  uint32_t radix[BY_PLAN_MOST_DIGITS], unasked;
  struct by_embed_candidate new = {.kind = draft->kind};
  memcpy(radix, draft->radix, sizeof radix);
  new.group = (struct by_group){.kind = draft->n_radix ? BY_GROUP_ROTATED : BY_GROUP_TREE, .n = draft->n};
  new.group.root = draft->root;
  new.group.n_radix = draft->n_radix;
  new.group.radix = radix;
  if (!found) found = &unasked;
  *found = NONE;
  measure(list, draft, &new);
  if (new.height > list->most_height || !find_load(list, draft, &new)) return BANYAN_OK;
  *found = find_known(list, &new);
  if (*found != NONE) return BANYAN_OK;
  *found = list->n;
  return copy(list, draft, &new);
}
