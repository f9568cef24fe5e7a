#include "switched_tree.h"

#include <stdlib.h>
#include <string.h>

#include "plan_make.h"

#define NONE BY_SWITCHED_NONE

/* A tree while it is made. Positions are those of the group. */
struct build {
  const struct by_plan *plan;
  const struct by_group *group;
  struct by_switched_tree *tree;
  uint32_t *switch_at; /* of each position, in `switches`; NONE: no switch */
  uint64_t *below;     /* of each position: the workers below it, or it itself */
};

static enum by_vertex_kind kind_at(const struct build *b, uint32_t u) {
  return b->plan->vertices[b->group->order[u]].kind;
}

/* Switches between a position and the root. */
static uint32_t place_of(const struct build *b, uint32_t u) {
  uint32_t place = 0;
  for (uint32_t v = b->group->up[u]; v != b->group->root; v = b->group->up[v]) place++;
  return place;
}

static uint32_t rank_at(const struct build *b, uint32_t u) {
  return b->plan->vertices[b->group->order[u]].rank;
}

static int compare_ranks(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Bits follow the ranks, whatever the group's order. */
static void number_workers(struct build *b) {
  struct by_switched_tree *tree = b->tree;
  for (uint32_t u = 0; u < b->group->n; u++)
    if (kind_at(b, u) == BY_VERTEX_RANK) tree->workers[tree->n_workers++] = rank_at(b, u);
  qsort(tree->workers, tree->n_workers, sizeof *tree->workers, compare_ranks);
}

static uint32_t worker_of(const struct by_switched_tree *tree, uint32_t rank) {
  uint32_t w = 0;
  while (tree->workers[w] != rank) w++;
  return w;
}

static void place_workers(struct build *b) {
  for (uint32_t u = 0; u < b->group->n; u++) {
    if (kind_at(b, u) != BY_VERTEX_RANK) continue;
    uint32_t worker = worker_of(b->tree, rank_at(b, u));
    b->tree->first[worker] = b->switch_at[b->group->up[u]];
    for (uint32_t v = u;; v = b->group->up[v]) {
      b->below[v] |= 1ull << worker;
      if (v == b->group->root) break;
    }
  }
}

/* The lowest places first, and among equals in the group's order. */
static void number_switches(struct build *b) {
  for (uint32_t u = 0; u < b->group->n; u++) b->switch_at[u] = NONE;
  for (uint32_t place = 0; place < BY_PLAN_MOST_HOPS; place++)
    for (uint32_t u = 0; u < b->group->n; u++)
      if (kind_at(b, u) == BY_VERTEX_SWITCH && place_of(b, u) == place) b->switch_at[u] = b->tree->n_switches++;
}

static enum banyan_status find_interface(const struct build *b, uint32_t at, uint32_t towards, const char **out) {
  const struct by_vertex *here = &b->plan->vertices[b->group->order[at]];
  const struct by_vertex *there = &b->plan->vertices[b->group->order[towards]];
  const char *name = by_group_interface(b->group, b->group->order[at], b->group->order[towards]);
  if (!name)
    return by_fail(
        BANYAN_ERR_UNSUPPORTED,
        "plan '%s' does not say by which interface switch \"%s\" reaches \"%s\": add it to the tree's \"ports\"",
        b->plan->name, here->name, there->name);
  *out = by_arena_string(&b->tree->arena, name);
  return *out ? BANYAN_OK : by_plan_no_memory();
}

static enum banyan_status fill_below(struct build *b, uint32_t u, struct by_switched_switch *to) {
  const struct by_group *group = b->group;
  uint32_t n = 0;
  for (uint32_t c = 0; c < group->n; c++) n += c != u && group->up[c] == u;
  to->below = BY_ARENA_ARRAY(&b->tree->arena, struct by_switched_below, n);
  if (!to->below) return by_plan_no_memory();
  for (uint32_t c = 0; c < group->n; c++) {
    if (c == u || group->up[c] != u) continue;
    struct by_switched_below *below = &to->below[to->n_below++];
    below->is_switch = kind_at(b, c) == BY_VERTEX_SWITCH;
    below->workers = b->below[c];
    BY_TRY(find_interface(b, u, c, &below->interface));
  }
  return BANYAN_OK;
}

static enum banyan_status fill_switch(struct build *b, uint32_t u, struct by_switched_switch *to) {
  uint32_t vertex = b->group->order[u], above = b->group->up[u];
  *to = (struct by_switched_switch){.vertex = vertex,
                                    .name = by_arena_string(&b->tree->arena, b->plan->vertices[vertex].name),
                                    .adds = by_group_adds(b->group, vertex),
                                    .place = place_of(b, u),
                                    .expected = (uint32_t)__builtin_popcountll(b->below[u]),
                                    .workers = b->below[u],
                                    .parent = b->switch_at[above]};
  if (!to->name) return by_plan_no_memory();
  BY_TRY(find_interface(b, u, above, &to->up));
  return fill_below(b, u, to);
}

static enum banyan_status fill(struct build *b) {
  struct by_switched_tree *tree = b->tree;
  uint32_t n = b->group->n;
  b->switch_at = BY_ARENA_ARRAY(&tree->arena, uint32_t, n);
  b->below = BY_ARENA_ARRAY(&tree->arena, uint64_t, n);
  tree->switches = BY_ARENA_ARRAY(&tree->arena, struct by_switched_switch, n);
  tree->server = b->group->order[b->group->root];
  tree->server_name = by_arena_string(&tree->arena, b->plan->vertices[tree->server].name);
  if (!b->switch_at || !b->below || !tree->switches || !tree->server_name) return by_plan_no_memory();
  number_workers(b);
  number_switches(b);
  place_workers(b);
  for (uint32_t u = 0; u < n; u++)
    if (b->switch_at[u] != NONE) BY_TRY(fill_switch(b, u, &tree->switches[b->switch_at[u]]));
  return BANYAN_OK;
}

enum banyan_status by_switched_tree_make(const struct by_plan *plan, uint32_t class_, uint32_t group,
                                         struct by_switched_tree **out) {
  struct build b = {.plan = plan, .group = &plan->classes[class_].groups[group]};
  BY_TRY(by_plan_check_switches(plan));
  if (!by_group_has_server(plan, b.group))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "plan '%s', class %u, group %u: has no server at its root", plan->name,
                   class_, group);
  b.tree = calloc(1, sizeof *b.tree);
  if (!b.tree) return by_plan_no_memory();
  by_arena_init(&b.tree->arena);
  enum banyan_status status = fill(&b);
  if (status != BANYAN_OK) {
    by_switched_tree_destroy(b.tree);
    return status;
  }
  *out = b.tree;
  return BANYAN_OK;
}

void by_switched_tree_destroy(struct by_switched_tree *tree) {
  if (!tree) return;
  struct by_arena arena = tree->arena;
  free(tree);
  by_arena_fini(&arena);
}

size_t by_server_host_bytes(const char *server_name) {
  const char *slash = strrchr(server_name, '/');
  return slash ? (size_t)(slash - server_name) : strlen(server_name);
}
