/* A plan without its helpers, for what has to go among ranks alone:
 *
 *        h                   a                 a, b, c: children of helper h; the first takes its
 *      / | \\      -->      /                  place where h was the root, else they hang below
 *     a  b  c             b                    h's parent, one below the other
 *                        /
 *                       c                                                              */
#include <string.h>

#include "plan.h"
#include "plan_make.h"

#define GONE UINT32_MAX

bool by_group_has_helpers(const struct by_plan *plan, const struct by_group *group) {
  for (uint32_t i = 0; i < group->n; i++)
    if (group->order[i] >= plan->n_ranks) return true;
  return false;
}

/* A tree being cut down; positions are those of the group it came from. */
struct cut {
  struct by_group *group; /* of the new plan, still with all positions */
  bool *taken;            /* out of the tree */
};

static void turn_round(uint32_t *parent, uint32_t root, uint32_t to) {
  uint32_t before = to, u = parent[to];
  parent[to] = to;
  while (before != root) {
    uint32_t next = parent[u];
    parent[u] = before;
    before = u;
    u = next;
  }
}

static void chain_children(const struct cut *cut, uint32_t *parent, uint32_t u) {
  uint32_t last = parent[u];
  for (uint32_t c = 0; c < cut->group->n; c++)
    if (c != u && parent[c] == u && !cut->taken[c]) {
      parent[c] = last;
      last = c;
    }
}

/* A tree of ranks and helpers: a helper that is the root has a child. */
static void take_out(struct cut *cut, uint32_t u) {
  struct by_group *group = cut->group;
  if (group->root == u) {
    uint32_t root = 0;
    while (root == u || group->up[root] != u || cut->taken[root]) root++;
    turn_round(group->up, u, root);
    if (group->down != group->up) turn_round(group->down, u, root);
    group->root = root;
  }
  chain_children(cut, group->up, u);
  if (group->down != group->up) chain_children(cut, group->down, u);
  cut->taken[u] = true;
}

/* A rank that is a twig of a helper takes its place. */
static bool put_twig_in_place(struct by_group *group, uint32_t u) {
  uint32_t helper = group->order[u], n = 0, rank = GONE;
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    struct by_twig twig = group->twigs[i];
    if (twig.parent == helper && rank == GONE) {
      rank = twig.child;
      continue;
    }
    if (twig.parent == helper) twig.parent = rank;
    group->twigs[n++] = twig;
  }
  group->n_twigs = n;
  if (rank != GONE) group->order[u] = rank;
  return rank != GONE;
}

/* Closes the gaps; `place` is scratch. */
static void renumber(const struct cut *cut, uint32_t *place) {
  struct by_group *group = cut->group;
  bool both = group->down != group->up;
  uint32_t n = 0;
  for (uint32_t u = 0; u < group->n; u++) place[u] = cut->taken[u] ? GONE : n++;
  for (uint32_t u = 0; u < group->n; u++) {
    if (cut->taken[u]) continue;
    group->order[place[u]] = group->order[u];
    group->up[place[u]] = place[group->up[u]];
    if (both) group->down[place[u]] = place[group->down[u]];
  }
  group->root = place[group->root];
  group->n = n;
  group->n_forwards = group->n_ports = 0;
}

static enum banyan_status cut_down(struct by_plan *plan, struct by_group *group) {
  struct cut cut = {.group = group, .taken = BY_ARENA_ARRAY(&plan->arena, bool, group->n)};
  uint32_t *place = BY_ARENA_ARRAY(&plan->arena, uint32_t, group->n);
  if (!cut.taken || !place) return by_plan_no_memory();
  for (uint32_t u = 0; u < group->n; u++)
    if (group->order[u] >= plan->n_ranks && !put_twig_in_place(group, u)) take_out(&cut, u);
  renumber(&cut, place);
  return BANYAN_OK;
}

static enum banyan_status without_others(const struct by_plan *from, struct by_plan *plan, struct by_group *group) {
  if (!by_group_has_helpers(from, group)) return BANYAN_OK;
  if (group->kind == BY_GROUP_TREE && group->up && group->down) return cut_down(plan, group);
  return by_fail(
      BANYAN_ERR_UNSUPPORTED,
      "plan '%s' has a helper in a group of kind \"rotated\" or \"exchange\", where nobody can be left out if it "
      "is lost: give it trees of kind \"tree\"",
      from->name);
}

enum banyan_status by_plan_among_ranks(const struct by_plan *plan, struct by_plan **out) {
  return by_plan_rework(plan, plan->n_ranks, without_others, out);
}
