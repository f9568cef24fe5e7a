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

enum banyan_status by_plan_check_kinds(const struct by_plan *plan) {
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++)
    if (plan->vertices[v].kind != BY_VERTEX_HELPER)
      return by_fail(BANYAN_ERR_UNSUPPORTED,
                     "vertex \"%s\" of plan '%s' is a %s: only plans over ranks and helpers run",
                     plan->vertices[v].name, plan->name, by_vertex_kind_name(plan->vertices[v].kind));
  return BANYAN_OK;
}

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

static uint32_t first_child(const struct cut *cut, const uint32_t *parent, uint32_t u) {
  for (uint32_t c = 0; c < cut->group->n; c++)
    if (c != u && parent[c] == u && !cut->taken[c]) return c;
  return GONE;
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
    uint32_t root = first_child(cut, group->up, u);
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

static enum banyan_status copy_group(const struct by_plan *from, const struct by_group *source, struct by_plan *plan,
                                     struct by_group *group) {
  bool other_way = source->down != source->up;
  BY_TRY(by_group_init(plan, group, source->kind, source->n, other_way));
  memcpy(group->order, source->order, source->n * sizeof *group->order);
  group->share = source->share;
  group->rate = source->rate;
  group->root = source->root;
  if (group->up) memcpy(group->up, source->up, source->n * sizeof *group->up);
  if (group->up && other_way) memcpy(group->down, source->down, source->n * sizeof *group->down);
  if (source->kind != BY_GROUP_TREE) BY_TRY(by_group_set_radix(plan, group, source->radix, source->n_radix));
  group->twigs = BY_ARENA_ARRAY(&plan->arena, struct by_twig, source->n_twigs);
  if (!group->twigs) return by_plan_no_memory();
  if (source->n_twigs) memcpy(group->twigs, source->twigs, source->n_twigs * sizeof *group->twigs);
  group->n_twigs = source->n_twigs;
  if (!by_group_has_helpers(from, source)) return BANYAN_OK;
  if (source->kind == BY_GROUP_TREE && group->up && group->down) return cut_down(plan, group);
  return by_fail(
      BANYAN_ERR_UNSUPPORTED,
      "plan '%s' has a helper in a group of kind \"rotated\" or \"exchange\", where nobody can be left out if it "
      "is lost: give it trees of kind \"tree\"",
      from->name);
}

static enum banyan_status fill(const struct by_plan *from, struct by_plan *plan) {
  BY_TRY(by_plan_add_vertices(plan, from->n_ranks, 0));
  for (uint32_t r = 0; r < from->n_ranks; r++) {
    plan->vertices[r].name = by_arena_string(&plan->arena, from->vertices[r].name);
    if (!plan->vertices[r].name) return by_plan_no_memory();
  }
  plan->chunk = from->chunk;
  BY_TRY(by_plan_add_classes(plan, from->n_classes));
  for (uint32_t c = 0; c < from->n_classes; c++) {
    const struct by_class *source = &from->classes[c];
    struct by_class *class_ = &plan->classes[c];
    class_->up_to = source->up_to;
    BY_TRY(by_plan_add_groups(plan, class_, source->n_groups));
    for (uint32_t g = 0; g < source->n_groups; g++)
      BY_TRY(copy_group(from, &source->groups[g], plan, &class_->groups[g]));
  }
  return BANYAN_OK;
}

/* To the last bit, so that both plans cut a buffer at the same places. */
static void keep_shares(const struct by_plan *from, struct by_plan *plan) {
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++)
      plan->classes[c].groups[g].share = from->classes[c].groups[g].share;
  plan->version = by_plan_hash(plan);
}

enum banyan_status by_plan_among_ranks(const struct by_plan *plan, struct by_plan **out) {
  struct by_plan *made = NULL;
  BY_TRY(by_plan_create(plan->name, &made));
  enum banyan_status status = fill(plan, made);
  if (status != BANYAN_OK) {
    by_plan_destroy(made);
    return status;
  }
  BY_TRY(by_plan_finish(made, out));
  keep_shares(plan, *out);
  return BANYAN_OK;
}
