/* Makes candidates from their shapes alone, without prices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed_parts.h"
#include "plan_make.h"

/* --- Shapes that follow the network's layers. --- */

/* Trees that get an extra vertex where a layer needs one: elastic aggregation trees over ranks and helpers, and trees
 * over helpers near the vertices for which they add. Layer by layer, the smallest groups first, the vertices of a group
 * that have no parent yet become children of one of them, which alone continues in the next layer.
 *
 *      rack 0        rack 1
 *     b   c
 *      \ /
 *       a      d   e   f
 *
 * Here rack 0 is oversubscribed and rack 1 is not: a adds for rack 0, and a, d, e, f get one parent, the root. */

#define NONE UINT32_MAX
enum { MAX_ROOTS = 16 };

/* Which groups get an adder of their own, and which vertex it is. */
enum adder_policy {
  BY_TERMINALS, /* Oversubscribed groups get a terminal. */
  BY_HELPERS,   /* Oversubscribed groups get a helper if there is one. */
  BY_HUBS,      /* Groups with a helper get the helper; other oversubscribed groups get a terminal. */
};

struct builder {
  struct by_embed_candidates *list;
  enum adder_policy adder_policy;
  uint32_t arity;     /* The number of children of each vertex within a group's tree; NONE: a star. */
  uint32_t top_arity; /* The number of children of each vertex in the tree over all groups. */
  uint32_t root;      /* The root; NONE: the best one. */
  bool *parentless;   /* Whether each vertex is in the tree and has no parent yet. */
  uint32_t *parent;   /* The parent of each vertex; NONE: it is not in the tree, or has no parent yet. */
  uint32_t *heads;    /* The vertices of a group that have no parent yet. */
  uint32_t *position; /* The position of each vertex in the draft. */
  bool grouped;       /* Some group got an adder. */
};

static const struct by_embed_net *get_net(const struct builder *w) {
  return w->list->net;
}

/* --- Adders. --- */

/* Returns the strongest helper of the group that is in no tree yet. Returns NONE if there is none. */
static uint32_t find_strongest_helper(const struct builder *w, const struct by_embed_layer *layer, uint32_t group) {
  const struct by_embed_net *net = get_net(w);
  uint32_t best = NONE;
  for (uint32_t v = net->graph->n_terminals; v < net->graph->n_vertices; v++) {
    if (layer->group[v] != group || w->parentless[v] || w->parent[v] != NONE || v == w->root) continue;
    if (best == NONE || net->capacity[v] > net->capacity[best]) best = v;
  }
  return best;
}

static uint32_t find_strongest_head(const struct builder *w, uint32_t n) {
  const double *capacity = get_net(w)->capacity;
  uint32_t best = w->heads[0];
  for (uint32_t i = 1; i < n; i++)
    if (capacity[w->heads[i]] > capacity[best]) best = w->heads[i];
  return best;
}

/* Returns which vertex adds for the n heads of a group. Returns NONE if none does, so that they continue in the next
 * layer. */
static uint32_t choose_adder(const struct builder *w, uint32_t l, uint32_t group, uint32_t n) {
  const struct by_embed_net *net = get_net(w);
  const struct by_embed_layer *layer = &net->layers[l];
  bool top = l + 1 == net->n_layers, needed = top || layer->oversubscribed[group];
  uint32_t helper = NONE;
  bool roots = w->root != NONE && (top || layer->group[w->root] == group);
  if (roots && (needed || w->adder_policy == BY_HUBS)) return w->root;
  if (w->adder_policy == BY_HUBS || (w->adder_policy == BY_HELPERS && needed))
    helper = find_strongest_helper(w, layer, group);
  if (helper != NONE) return helper;
  return needed ? find_strongest_head(w, n) : NONE;
}

/* --- One group. --- */

static uint32_t list_heads(const struct builder *w, const struct by_embed_layer *layer, uint32_t group) {
  const struct by_embed_net *net = get_net(w);
  uint32_t n = 0;
  for (uint32_t i = 0; i < net->graph->n_vertices; i++) {
    uint32_t v = i < net->graph->n_terminals ? net->order[i] : i;
    if (w->parentless[v] && layer->group[v] == group) w->heads[n++] = v;
  }
  return n;
}

/* Puts `first` before the others. Strong ones follow if they will have children, equal ones in their order. */
static void sort_heads(const struct builder *w, uint32_t first, uint32_t arity, uint32_t *n) {
  const double *capacity = get_net(w)->capacity;
  uint32_t at = 0;
  while (at < *n && w->heads[at] != first) at++;
  if (at == *n) ++*n;
  for (; at > 0; at--) w->heads[at] = w->heads[at - 1];
  w->heads[0] = first;
  for (uint32_t i = 2; arity > 1 && i < *n; i++) {
    uint32_t v = w->heads[i], j = i;
    for (; j > 1 && capacity[w->heads[j - 1]] < capacity[v]; j--) w->heads[j] = w->heads[j - 1];
    w->heads[j] = v;
  }
}

static void add_group(struct builder *w, uint32_t l, uint32_t group) {
  uint32_t n = list_heads(w, &get_net(w)->layers[l], group);
  bool top = l + 1 == get_net(w)->n_layers;
  uint32_t arity = top ? w->top_arity : w->arity;
  if (n < 2) return;
  uint32_t adder = choose_adder(w, l, group, n);
  if (adder == NONE) return;
  w->grouped |= !top;
  sort_heads(w, adder, arity, &n);
  for (uint32_t i = 1; i < n; i++) {
    w->parent[w->heads[i]] = w->heads[arity == NONE ? 0 : (i - 1) / arity];
    w->parentless[w->heads[i]] = false;
  }
  w->parentless[adder] = true;
}

/* --- One tree. --- */

static enum banyan_status add_grouped_tree(struct builder *w, enum by_embed_candidate_kind kind) {
  uint32_t n_vertices = get_net(w)->graph->n_vertices;
  struct by_draft *draft = &w->list->draft;
  draft->kind = kind;
  draft->n = draft->n_radix = 0;
  for (uint32_t v = 0; v < n_vertices; v++) {
    if (w->parent[v] == NONE && !w->parentless[v]) continue;
    w->position[v] = draft->n;
    draft->order[draft->n++] = v;
  }
  for (uint32_t u = 0; u < draft->n; u++) {
    uint32_t parent = w->parent[draft->order[u]];
    if (parent == NONE) draft->root = u;
    draft->up[u] = parent == NONE ? u : w->position[parent];
  }
  return by_embed_candidates_add(w->list, NULL);
}

/* Makes trees of several arities. Trees without adders below the root are among the other shapes. */
static enum banyan_status add_layer_trees(struct builder *w, enum adder_policy adder_policy, uint32_t root) {
  static const enum by_embed_candidate_kind kinds[] = {BY_EMBED_ELASTIC, BY_EMBED_ELASTIC, BY_EMBED_HUBS};
  static const uint32_t arities[][2] = {{NONE, NONE}, {NONE, 2}, {NONE, 1}, {4, 4}, {2, 2}, {2, 1}, {1, 2}, {1, 1}};
  const struct by_embed_net *net = get_net(w);
  w->adder_policy = adder_policy;
  w->root = root;
  for (size_t i = 0; i < sizeof arities / sizeof *arities; i++) {
    w->arity = arities[i][0];
    w->top_arity = arities[i][1];
    w->grouped = false;
    for (uint32_t v = 0; v < net->graph->n_vertices; v++) {
      w->parentless[v] = v < net->graph->n_terminals;
      w->parent[v] = NONE;
    }
    for (uint32_t l = 0; l < net->n_layers; l++)
      for (uint32_t g = 0; g < net->layers[l].n_groups; g++) add_group(w, l, g);
    if (w->grouped) BY_TRY(add_grouped_tree(w, kinds[adder_policy]));
  }
  return BANYAN_OK;
}

/* --- All trees. --- */

/* Lists the strongest terminal of each of the first smallest groups, and returns their number. */
static uint32_t list_strongest(const struct builder *w, uint32_t *roots) {
  const struct by_embed_net *net = get_net(w);
  const struct by_embed_layer *layer = &net->layers[0];
  uint32_t n = layer->n_groups < MAX_ROOTS ? layer->n_groups : MAX_ROOTS;
  for (uint32_t g = 0; g < n; g++) roots[g] = NONE;
  for (uint32_t v = 0; v < net->graph->n_terminals; v++) {
    uint32_t g = layer->group[v];
    if (g < n && (roots[g] == NONE || net->capacity[v] > net->capacity[roots[g]])) roots[g] = v;
  }
  return n;
}

static enum banyan_status add_all_trees(struct builder *w) {
  const struct by_embed_net *net = get_net(w);
  uint32_t roots[MAX_ROOTS], n = list_strongest(w, roots);
  for (uint32_t i = 0; i < n; i++) {
    BY_TRY(add_layer_trees(w, BY_TERMINALS, roots[i]));
    if (net->graph->n_vertices > net->graph->n_terminals) BY_TRY(add_layer_trees(w, BY_HELPERS, roots[i]));
  }
  uint32_t terminals = net->graph->n_terminals, helpers = net->graph->n_vertices - terminals;
  for (uint32_t i = 0; i < helpers && i < MAX_ROOTS; i++) {
    BY_TRY(add_layer_trees(w, BY_HELPERS, terminals + i));
    BY_TRY(add_layer_trees(w, BY_HUBS, terminals + i));
  }
  return helpers ? add_layer_trees(w, BY_HUBS, NONE) : BANYAN_OK;
}

static enum banyan_status make_elastic(struct by_embed_candidates *list) {
  size_t n = list->net->graph->n_vertices;
  struct by_arena arena = {0};
  struct builder w = {.list = list,
                      .parentless = BY_ARENA_ARRAY(&arena, bool, n),
                      .parent = BY_ARENA_ARRAY(&arena, uint32_t, n),
                      .heads = BY_ARENA_ARRAY(&arena, uint32_t, n + 1),
                      .position = BY_ARENA_ARRAY(&arena, uint32_t, n)};
  enum banyan_status status = arena.failed ? by_plan_no_memory() : add_all_trees(&w);
  by_arena_fini(&arena);
  return status;
}

enum { MAX_STARS = 128, MAX_HUBS = 64, NAME_BYTES = 32 };

static enum banyan_status add_builtin(struct by_embed_candidates *list, const char *name) {
  struct by_plan *plan;
  enum banyan_status status = BANYAN_OK;
  BY_TRY(by_plan_builtin(name, list->net->graph->n_terminals, &plan));
  for (uint32_t g = 0; status == BANYAN_OK && g < plan->classes->n_groups; g++)
    status = by_embed_candidates_add_group(list, &plan->classes->groups[g], list->net->order, NULL);
  by_plan_destroy(plan);
  return status;
}

/* Returns the number of terminals of each group of the layer. Returns 0 if the numbers differ, or are 1 or all. */
static uint32_t get_even_size(const struct by_embed_net *net, const struct by_embed_layer *layer) {
  uint32_t n = net->graph->n_terminals, size = n / layer->n_groups;
  if (n % layer->n_groups || size < 2 || layer->n_groups < 2) return 0;
  for (uint32_t i = 0; i < n; i++) /* The order goes from group to group. */
    if (layer->group[net->order[i]] != layer->group[net->order[i / size * size]]) return 0;
  return size;
}

/* Adds stars within each group, whose hubs are at the same index in their groups, and a star among these hubs. */
static enum banyan_status add_star_of_stars(struct by_embed_candidates *list, uint32_t size) {
  struct by_draft *draft = &list->draft;
  draft->n = list->net->graph->n_terminals;
  draft->root = 0;
  draft->n_radix = 2;
  draft->radix[0] = size;
  draft->radix[1] = draft->n / size;
  for (uint32_t u = 0; u < draft->n; u++) {
    draft->order[u] = list->net->order[u];
    draft->up[u] = u % size ? u / size * size : 0;
  }
  return by_embed_candidates_add(list, NULL);
}

static enum banyan_status add_layered(struct by_embed_candidates *list) {
  const struct by_embed_net *net = list->net;
  char name[NAME_BYTES];
  for (uint32_t l = 0; l < net->n_layers; l++) {
    uint32_t size = get_even_size(net, &net->layers[l]);
    if (!size) continue;
    list->draft.kind = BY_EMBED_SHARDED;
    BY_TRY(add_star_of_stars(list, size));
    list->draft.kind = BY_EMBED_RING;
    snprintf(name, sizeof name, "ring2d:%ux%u", size, net->graph->n_terminals / size);
    BY_TRY(add_builtin(list, name));
  }
  return BANYAN_OK;
}

static enum banyan_status add_star(struct by_embed_candidates *list, uint32_t hub) {
  struct by_draft *draft = &list->draft;
  uint32_t n = list->net->graph->n_terminals;
  draft->n = n + (hub >= n);
  for (uint32_t u = 0; u < n; u++) draft->order[u] = u;
  if (hub >= n) draft->order[n] = hub;
  draft->root = hub < n ? hub : n;
  for (uint32_t u = 0; u < draft->n; u++) draft->up[u] = draft->root;
  return by_embed_candidates_add(list, NULL);
}

/* Adds a star at every helper, and at up to MAX_STARS terminals, evenly spaced. */
static enum banyan_status add_stars(struct by_embed_candidates *list) {
  uint32_t n = list->net->graph->n_terminals, step = (n + MAX_STARS - 1) / MAX_STARS;
  list->draft.kind = BY_EMBED_STAR;
  list->draft.n_radix = 0;
  for (uint32_t v = 0; v < n; v += step) BY_TRY(add_star(list, v));
  for (uint32_t v = n; v < list->net->graph->n_vertices; v++) BY_TRY(add_star(list, v));
  return BANYAN_OK;
}

/* Adds a tree over several helpers: the terminals are divided into as many parts as there are helpers in the block,
 * each part below one of them, and the helpers are a chain. So one tree uses the residual capacity of several
 * helpers. */
static enum banyan_status add_shared(struct by_embed_candidates *list, const uint32_t *helpers, uint32_t size,
                                     uint32_t set) {
  struct by_draft *draft = &list->draft;
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
  BY_TRY(by_embed_candidates_add(list, &found));
  if (found != UINT32_MAX) list->items[found].set = set;
  return BANYAN_OK;
}

/* Adds trees over blocks of 2, 4, 8, ... helpers, and over all. */
static enum banyan_status add_hubs(struct by_embed_candidates *list) {
  const struct by_graph *graph = list->net->graph;
  uint32_t helpers[MAX_HUBS], n = 0, set = BY_EMBED_BLOCKS;
  for (uint32_t v = graph->n_terminals; v < graph->n_vertices && n < MAX_HUBS; v++) helpers[n++] = v;
  list->draft.kind = BY_EMBED_HUBS;
  for (uint32_t size = 2; n >= 2 && size <= graph->n_terminals / 2; size *= 2, set++) {
    uint32_t block = size < n ? size : n;
    for (uint32_t i = 0; i + block <= n; i += block) BY_TRY(add_shared(list, helpers + i, block, set));
    if (block == n) break;
  }
  return BANYAN_OK;
}

enum banyan_status by_embed_candidates_make(struct by_embed_candidates *list) {
  static const struct {
    enum by_embed_candidate_kind kind;
    const char *builtin;
  } shapes[] = {{BY_EMBED_SHARDED, "sharded"},  {BY_EMBED_HALVING, "halving"}, {BY_EMBED_RING, "ring"},
                {BY_EMBED_TREE, "double-tree"}, {BY_EMBED_TREE, "tree:2"},     {BY_EMBED_TREE, "tree:4"},
                {BY_EMBED_CHAIN, "chain"}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    list->draft.kind = shapes[i].kind;
    BY_TRY(add_builtin(list, shapes[i].builtin));
  }
  BY_TRY(add_layered(list));
  BY_TRY(add_stars(list));
  BY_TRY(add_hubs(list));
  BY_TRY(make_elastic(list));
  return by_embed_candidates_add_servers(list);
}
