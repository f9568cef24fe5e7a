/* Computes the rate of a collective over a class of a plan. */
#include "class_rate.h"

#include <math.h>
#include <stdlib.h>

#include "arena.h"
#include "collective.h"
#include "routed_rate.h"

struct loads {
  const struct by_group *group;
  uint32_t n;
  bool up;            /* sums go towards the root of a piece; else results go away from it */
  double *sent;       /* n x n: how often the buffer is sent from one rank to another */
  bool *passed;       /* for each position: the piece's root is in its subtree */
  uint32_t *position; /* for each rank: its position, or that of a twig's parent */
};

static double get_sent(const void *context, uint32_t from, uint32_t to) {
  const struct loads *loads = context;
  return loads->sent[(size_t)from * loads->n + to];
}

/* Adds an edge whose end `near` is nearer to the piece's root. */
static void add_edge(const struct loads *loads, uint32_t near, uint32_t far, double weight) {
  uint32_t from = loads->up ? far : near, to = loads->up ? near : far;
  loads->sent[(size_t)from * loads->n + to] += weight;
}

/* Adds a piece of `owner` along the template, translated by t. */
static void add_tree(const struct loads *loads, uint32_t owner, uint32_t t, double weight) {
  const struct by_group *group = loads->group;
  const uint32_t *parent = loads->up ? group->up : group->down;
  uint32_t at = loads->position[owner], top = t ? by_group_untranslate(group, at, t) : at;
  for (uint32_t u = 0; u < group->n; u++) loads->passed[u] = false;
  for (uint32_t u = top; u != group->root; u = parent[u]) loads->passed[u] = true;
  for (uint32_t u = 0; u < group->n; u++) {
    if (u == group->root) continue;
    uint32_t child = group->order[t ? by_group_translate(group, u, t) : u];
    uint32_t above = group->order[t ? by_group_translate(group, parent[u], t) : parent[u]];
    add_edge(loads, loads->passed[u] ? child : above, loads->passed[u] ? above : child, weight);
  }
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    const struct by_twig *twig = &group->twigs[i];
    bool owns = twig->child == owner;
    add_edge(loads, owns ? twig->child : twig->parent, owns ? twig->parent : twig->child, weight);
  }
}

/* Adds all pieces of a group of which `owner` owns a part. */
static void add_owner(const struct loads *loads, bool blocks, uint32_t owner, double part) {
  const struct by_group *group = loads->group;
  bool rotated = group->kind == BY_GROUP_ROTATED;
  if (!rotated || blocks) {
    uint32_t t = rotated ? by_group_untranslate(group, loads->position[owner], group->root) : 0;
    add_tree(loads, owner, t, group->share * part);
    return;
  }
  for (uint32_t t = 0; t < group->n; t++) add_tree(loads, owner, t, group->share / group->n * part);
}

static bool is_known(const struct by_plan *plan, const struct by_class *class_) {
  for (uint32_t g = 0; g < class_->n_groups; g++) {
    const struct by_group *group = &class_->groups[g];
    if (group->kind == BY_GROUP_EXCHANGE) return false;
    for (uint32_t u = 0; u < group->n; u++)
      if (group->order[u] >= plan->n_ranks) return false;
  }
  return true;
}

static void add_group(struct loads *loads, const struct by_class *class_, const struct by_group *group, bool blocks,
                      const double *part, uint32_t root) {
  loads->group = group;
  for (uint32_t u = 0; u < group->n; u++) loads->position[group->order[u]] = u;
  for (uint32_t i = 0; i < group->n_twigs; i++)
    loads->position[group->twigs[i].child] = loads->position[group->twigs[i].parent];
  for (uint32_t r = 0; r < loads->n; r++) {
    if ((!blocks && r != root) || (class_->per_root && !by_group_is_of(group, r))) continue;
    add_owner(loads, blocks, r, blocks ? part[r] : 1);
  }
}

enum banyan_status by_class_rate(const struct by_topology *topology, const uint32_t *hosts, const struct by_plan *plan,
                                 const struct by_class *class_, enum banyan_collective collective, const double *part,
                                 uint32_t root, double *rate) {
  struct by_arena arena = {0};
  uint32_t n = plan->n_ranks;
  struct loads loads = {.n = n,
                        .up = by_collective(collective)->up,
                        .sent = BY_ARENA_ARRAY(&arena, double, (size_t)n *n),
                        .passed = BY_ARENA_ARRAY(&arena, bool, n),
                        .position = BY_ARENA_ARRAY(&arena, uint32_t, n)};
  const struct by_routed routed = {hosts, n, get_sent, &loads};
  struct by_bound_limit limit;
  *rate = 0;
  enum banyan_status status =
      arena.failed ? by_fail(BANYAN_ERR_NO_MEMORY, "no memory for what %u hosts send", n) : BANYAN_OK;
  if (status == BANYAN_OK && is_known(plan, class_)) {
    for (uint32_t g = 0; g < class_->n_groups; g++)
      add_group(&loads, class_, &class_->groups[g], by_collective(collective)->blocks, part, root);
    status = by_routed_rate(topology, &routed, rate, &limit);
  }
  by_arena_fini(&arena);
  return status;
}
