/* Makes plans: from nothing, as changed copies, and as combinations of other plans. */
#include "plan_make.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sums closer to 1 are not changed, so that a plan that is printed and read keeps every bit. */
static const double rounding = 1e-9;

enum banyan_status by_plan_create(const char *name, struct by_plan **out) {
  struct by_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return by_plan_no_memory();
  plan->name = by_arena_string(&plan->arena, name);
  if (!plan->name) {
    by_plan_destroy(plan);
    return by_plan_no_memory();
  }
  *out = plan;
  return BANYAN_OK;
}

enum banyan_status by_plan_add_vertices(struct by_plan *plan, uint32_t n_ranks, uint32_t n_others) {
  enum { NAME_BYTES = 12 };
  if (n_ranks < 1 || n_ranks > BY_PLAN_MAX_VERTICES || n_others > BY_PLAN_MAX_VERTICES - n_ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "a plan over %u ranks and %u others is not possible: 1 to %d in all are",
                   n_ranks, n_others, BY_PLAN_MAX_VERTICES);
  plan->n_ranks = n_ranks;
  plan->n_vertices = n_ranks + n_others;
  plan->vertices = BY_ARENA_ARRAY(&plan->arena, struct by_vertex, plan->n_vertices);
  char *names = by_arena_alloc(&plan->arena, n_ranks, NAME_BYTES);
  if (!plan->vertices || !names) return by_plan_no_memory();
  for (uint32_t i = 0; i < n_ranks; i++) {
    char *name = names + (size_t)i * NAME_BYTES;
    snprintf(name, NAME_BYTES, "%u", i);
    plan->vertices[i] = (struct by_vertex){.name = name, .kind = BY_VERTEX_RANK, .rank = i};
  }
  for (uint32_t i = n_ranks; i < plan->n_vertices; i++)
    plan->vertices[i] = (struct by_vertex){.kind = BY_VERTEX_HELPER, .rank = UINT32_MAX};
  return BANYAN_OK;
}

enum banyan_status by_plan_add_classes(struct by_plan *plan, uint32_t n, uint32_t n_own) {
  plan->classes = BY_ARENA_ARRAY(&plan->arena, struct by_class, (size_t)n + n_own);
  if (!plan->classes) return by_plan_no_memory();
  plan->n_classes = n;
  plan->n_own = n_own;
  if (n) plan->classes[n - 1].up_to = UINT64_MAX;
  for (uint32_t i = n; i < n + n_own; i++) plan->classes[i].up_to = UINT64_MAX;
  return BANYAN_OK;
}

enum banyan_status by_plan_add_groups(struct by_plan *plan, struct by_class *class_, uint32_t n) {
  class_->groups = BY_ARENA_ARRAY(&plan->arena, struct by_group, n);
  if (!class_->groups) return by_plan_no_memory();
  class_->n_groups = n;
  return BANYAN_OK;
}

enum banyan_status by_group_init(struct by_plan *plan, struct by_group *group, enum by_group_kind kind, uint32_t n,
                                 bool separate_down) {
  bool exchange = kind == BY_GROUP_EXCHANGE;
  *group = (struct by_group){.kind = kind, .n = n};
  group->order = BY_ARENA_ARRAY(&plan->arena, uint32_t, n);
  if (!exchange) group->up = BY_ARENA_ARRAY(&plan->arena, uint32_t, n);
  group->down = separate_down && !exchange ? BY_ARENA_ARRAY(&plan->arena, uint32_t, n) : group->up;
  if (!group->order || (!exchange && (!group->up || !group->down))) return by_plan_no_memory();
  for (uint32_t i = 0; i < n; i++) group->order[i] = i;
  return BANYAN_OK;
}

enum banyan_status by_group_set_radix(struct by_plan *plan, struct by_group *group, const uint32_t *radix,
                                      uint32_t n_radix) {
  group->radix = BY_ARENA_ARRAY(&plan->arena, uint32_t, n_radix);
  if (!group->radix) return by_plan_no_memory();
  group->n_radix = 0;
  for (uint32_t i = 0; i < n_radix; i++)
    if (radix[i] != 1) group->radix[group->n_radix++] = radix[i];
  return BANYAN_OK;
}

enum banyan_status by_plan_end(struct by_plan *plan, enum banyan_status status, struct by_plan **out) {
  if (status == BANYAN_OK) status = by_plan_validate(plan);
  if (status != BANYAN_OK) {
    by_plan_destroy(plan);
    return status;
  }
  for (uint32_t c = 0; c < plan->n_classes + plan->n_own; c++) {
    struct by_class *class_ = &plan->classes[c];
    double sum = 0;
    if (class_->per_root)
      continue; /* The shares of a rank's own trees are not normalised; the last tree has the rest. */
    for (uint32_t i = 0; i < class_->n_groups; i++) sum += class_->groups[i].share;
    if (fabs(sum - 1) < rounding) continue;
    for (uint32_t i = 0; i < class_->n_groups; i++) class_->groups[i].share /= sum;
  }
  plan->version = by_plan_hash(plan);
  *out = plan;
  return BANYAN_OK;
}

/* --- Plans made from others, group by group. --- */

int by_compare_numbers(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

int by_compare_vertices(const void *a, const void *b) {
  return strcmp(((const struct by_vertex *)a)->name, ((const struct by_vertex *)b)->name);
}

/* by_compare_numbers compares twigs by child, which is their first member. */
_Static_assert(offsetof(struct by_twig, child) == 0, "twigs are sorted by by_compare_numbers");

static uint32_t *copy_numbers(struct by_plan *plan, const uint32_t *from, uint32_t n) {
  uint32_t *copy = BY_ARENA_ARRAY(&plan->arena, uint32_t, n);
  return copy && n ? memcpy(copy, from, n * sizeof *copy) : copy;
}

enum banyan_status by_group_copy(struct by_plan *plan, struct by_group *group, const struct by_group *from,
                                 uint32_t (*map)(const void *context, uint32_t vertex), const void *context) {
  struct by_arena *arena = &plan->arena;
  *group = *from;
  group->order = copy_numbers(plan, from->order, from->n);
  if (from->up) group->up = copy_numbers(plan, from->up, from->n);
  group->down = from->down == from->up ? group->up : copy_numbers(plan, from->down, from->n);
  group->radix = copy_numbers(plan, from->radix, from->n_radix);
  group->forwards = copy_numbers(plan, from->forwards, from->n_forwards);
  group->twigs = BY_ARENA_ARRAY(arena, struct by_twig, from->n_twigs);
  group->ports = BY_ARENA_ARRAY(arena, struct by_group_port, from->n_ports);
  if (arena->failed) return by_plan_no_memory();
  if (from->n_twigs) memcpy(group->twigs, from->twigs, from->n_twigs * sizeof *group->twigs);
  for (uint32_t i = 0; i < from->n_ports; i++) {
    group->ports[i] = from->ports[i];
    group->ports[i].interface = by_arena_string(arena, from->ports[i].interface);
  }
  if (arena->failed) return by_plan_no_memory();
  if (!map) return BANYAN_OK;
  for (uint32_t i = 0; i < from->n; i++) group->order[i] = map(context, from->order[i]);
  for (uint32_t i = 0; i < from->n_forwards; i++) group->forwards[i] = map(context, from->forwards[i]);
  for (uint32_t i = 0; i < from->n_twigs; i++)
    group->twigs[i] = (struct by_twig){map(context, from->twigs[i].child), map(context, from->twigs[i].parent)};
  for (uint32_t i = 0; i < from->n_ports; i++) {
    group->ports[i].at = map(context, from->ports[i].at);
    group->ports[i].towards = map(context, from->ports[i].towards);
  }
  if (from->n_twigs) qsort(group->twigs, from->n_twigs, sizeof *group->twigs, by_compare_numbers);
  by_group_sort_ports(group);
  return BANYAN_OK;
}

static enum banyan_status keep_name(struct by_plan *plan, struct by_vertex *vertex, const char *name) {
  vertex->name = by_arena_string(&plan->arena, name);
  return vertex->name ? BANYAN_OK : by_plan_no_memory();
}

/* Copies a plan. Own classes are copied if `from` has n_own of them, otherwise they are empty. */
static enum banyan_status copy_plan(const struct by_plan *from, uint32_t n_vertices, uint32_t n_own,
                                    by_group_rework rework, struct by_plan *plan) {
  BY_TRY(by_plan_add_vertices(plan, from->n_ranks, n_vertices - from->n_ranks));
  for (uint32_t v = 0; v < n_vertices; v++) {
    plan->vertices[v].kind = from->vertices[v].kind;
    BY_TRY(keep_name(plan, &plan->vertices[v], from->vertices[v].name));
  }
  plan->chunk = from->chunk;
  BY_TRY(by_plan_control_copy(plan, &from->control, NULL));
  BY_TRY(by_plan_add_classes(plan, from->n_classes, n_own));
  for (uint32_t c = 0; c < from->n_classes + (n_own == from->n_own ? n_own : 0); c++) {
    const struct by_class *source = &from->classes[c];
    struct by_class *class_ = &plan->classes[c];
    *class_ = *source;
    BY_TRY(by_plan_add_groups(plan, class_, source->n_groups));
    for (uint32_t g = 0; g < source->n_groups; g++) {
      BY_TRY(by_group_copy(plan, &class_->groups[g], &source->groups[g], NULL, NULL));
      if (rework) BY_TRY(rework(from, plan, &class_->groups[g]));
    }
  }
  return BANYAN_OK;
}

enum banyan_status by_plan_rework(const struct by_plan *from, uint32_t n_vertices, by_group_rework rework,
                                  struct by_plan **out) {
  struct by_plan *made = NULL;
  BY_TRY(by_plan_create(from->name, &made));
  BY_TRY(by_plan_end(made, copy_plan(from, n_vertices, from->n_own, rework, made), out));
  for (uint32_t c = 0; c < (*out)->n_classes + (*out)->n_own; c++) /* Finishing has normalised the shares. */
    for (uint32_t g = 0; g < (*out)->classes[c].n_groups; g++)
      (*out)->classes[c].groups[g].share = from->classes[c].groups[g].share;
  (*out)->version = by_plan_hash(*out);
  (*out)->facts = from->facts;
  (*out)->origin = from->origin;
  return BANYAN_OK;
}

enum banyan_status by_plan_copy(const struct by_plan *plan, struct by_plan **out) {
  return by_plan_rework(plan, plan->n_vertices, NULL, out);
}

enum banyan_status by_plan_extend(const struct by_plan *plan, uint32_t n_own,
                                  enum banyan_status (*fill_own)(void *context, struct by_plan *made,
                                                                 struct by_class *own),
                                  void *context, struct by_plan **out) {
  struct by_plan *made = NULL;
  BY_TRY(by_plan_create(plan->name, &made));
  made->facts = plan->facts;
  made->origin = plan->origin;
  enum banyan_status status = copy_plan(plan, plan->n_vertices, n_own, NULL, made);
  if (status == BANYAN_OK) status = fill_own(context, made, made->classes + made->n_classes);
  return by_plan_end(made, status, out);
}

/* --- Combining and reordering. --- */

struct joining {
  struct by_plan *plan;
  const struct by_plan *from;
  uint32_t *vertex; /* the plan's vertex for each vertex of `from` */
};

static enum banyan_status add_vertices(struct by_plan *plan, const struct by_plan *names,
                                       const struct by_vertex *others, uint32_t n_others) {
  BY_TRY(by_plan_add_vertices(plan, names->n_ranks, n_others));
  for (uint32_t r = 0; r < plan->n_ranks; r++) BY_TRY(keep_name(plan, &plan->vertices[r], names->vertices[r].name));
  for (uint32_t i = 0; i < n_others; i++) {
    struct by_vertex *vertex = &plan->vertices[plan->n_ranks + i];
    *vertex = others[i];
    BY_TRY(keep_name(plan, vertex, others[i].name));
  }
  return BANYAN_OK;
}

/* Adds the ranks with the names of `names`, and the other vertices of all parts, each name once, sorted. */
static enum banyan_status join_vertices(struct by_plan *plan, const struct by_plan *names,
                                        const struct by_plan_part *parts, uint32_t n) {
  size_t max = 0, listed = 0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++) max += parts[i].plan->n_vertices - parts[i].plan->n_ranks;
  struct by_vertex *others = calloc(max + 1, sizeof *others);
  if (!others) return by_plan_no_memory();
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t v = parts[i].plan->n_ranks; v < parts[i].plan->n_vertices; v++)
      others[listed++] = parts[i].plan->vertices[v];
  qsort(others, listed, sizeof *others, by_compare_vertices);
  for (size_t i = 0; i < listed; i++)
    if (!kept || by_compare_vertices(&others[i], &others[kept - 1]) != 0) others[kept++] = others[i];
  enum banyan_status status = add_vertices(plan, names, others, kept);
  free(others);
  return status;
}

static uint32_t map_joined_vertex(const void *joining, uint32_t vertex) {
  return ((const struct joining *)joining)->vertex[vertex];
}

static enum banyan_status copy_class(const struct joining *j, const struct by_class *from, struct by_class *to) {
  BY_TRY(by_plan_add_groups(j->plan, to, from->n_groups));
  for (uint32_t i = 0; i < from->n_groups; i++)
    BY_TRY(by_group_copy(j->plan, &to->groups[i], &from->groups[i], map_joined_vertex, j));
  return BANYAN_OK;
}

/* Fills in `vertex`: ranks are the same, other vertices are identified by name. */
static void find_vertices(struct joining *j) {
  const struct by_plan *plan = j->plan;
  for (uint32_t v = 0; v < j->from->n_vertices; v++) {
    j->vertex[v] = v;
    if (v < plan->n_ranks) continue;
    const struct by_vertex *found = bsearch(&j->from->vertices[v], plan->vertices + plan->n_ranks,
                                            plan->n_vertices - plan->n_ranks, sizeof *found, by_compare_vertices);
    j->vertex[v] = (uint32_t)(found - plan->vertices);
  }
}

static enum banyan_status fill_joined(struct by_plan *plan, const struct by_plan_part *parts, uint32_t n) {
  struct joining j = {.plan = plan, .vertex = BY_ARENA_ARRAY(&plan->arena, uint32_t, plan->n_vertices)};
  if (!j.vertex) return by_plan_no_memory();
  BY_TRY(by_plan_add_classes(plan, n, 0));
  for (uint32_t i = 0; i < n; i++) {
    uint64_t up_to = i + 1 < n ? parts[i].up_to : UINT64_MAX;
    j.from = parts[i].plan;
    find_vertices(&j);
    plan->classes[i].up_to = up_to;
    BY_TRY(copy_class(&j, by_plan_class(j.from, up_to), &plan->classes[i]));
  }
  return BANYAN_OK;
}

enum banyan_status by_plan_join(const char *name, const struct by_plan_part *parts, uint32_t n, struct by_plan **out) {
  const struct by_plan *last = parts[n - 1].plan;
  struct by_plan *plan;
  BY_TRY(by_plan_create(name, &plan));
  enum banyan_status status = join_vertices(plan, last, parts, n);
  if (status == BANYAN_OK) status = fill_joined(plan, parts, n);
  plan->facts = last->facts;
  plan->chunk = last->chunk;
  return by_plan_end(plan, status, out);
}

static enum banyan_status fill_mixed(struct by_plan *plan, const struct by_plan_part *parts, const double *shares,
                                     uint32_t n) {
  struct joining j = {.plan = plan, .vertex = BY_ARENA_ARRAY(&plan->arena, uint32_t, plan->n_vertices)};
  uint32_t groups = 0;
  if (!j.vertex) return by_plan_no_memory();
  for (uint32_t i = 0; i < n; i++) groups += parts[i].plan->classes[parts[i].plan->n_classes - 1].n_groups;
  BY_TRY(by_plan_add_classes(plan, 1, 0));
  BY_TRY(by_plan_add_groups(plan, plan->classes, groups));
  struct by_group *group = plan->classes->groups;
  for (uint32_t i = 0; i < n; i++) {
    j.from = parts[i].plan;
    find_vertices(&j);
    const struct by_class *class_ = &j.from->classes[j.from->n_classes - 1];
    for (uint32_t g = 0; g < class_->n_groups; g++, group++) {
      BY_TRY(by_group_copy(plan, group, &class_->groups[g], map_joined_vertex, &j));
      group->share *= shares[i];
    }
  }
  return BANYAN_OK;
}

enum banyan_status by_plan_mix(const char *name, const struct by_plan_part *parts, const double *shares, uint32_t n,
                               struct by_plan **out) {
  struct by_plan *plan;
  BY_TRY(by_plan_create(name, &plan));
  enum banyan_status status = join_vertices(plan, parts[0].plan, parts, n);
  if (status == BANYAN_OK) status = fill_mixed(plan, parts, shares, n);
  return by_plan_end(plan, status, out);
}

static enum banyan_status fill_reordered(struct by_plan *plan, const struct by_plan *from, const uint32_t *order,
                                         const struct by_plan *names) {
  struct joining j = {.plan = plan, .from = from};
  BY_TRY(add_vertices(plan, names, from->vertices + from->n_ranks, from->n_vertices - from->n_ranks));
  BY_TRY(by_plan_control_copy(plan, &from->control, order));
  BY_TRY(by_plan_add_classes(plan, from->n_classes, from->n_own));
  j.vertex = BY_ARENA_ARRAY(&plan->arena, uint32_t, from->n_vertices);
  if (!j.vertex) return by_plan_no_memory();
  for (uint32_t v = 0; v < from->n_vertices; v++) j.vertex[v] = v < from->n_ranks ? order[v] : v;
  for (uint32_t i = 0; i < from->n_classes + from->n_own; i++) {
    plan->classes[i] = from->classes[i];
    BY_TRY(copy_class(&j, &from->classes[i], &plan->classes[i]));
  }
  return BANYAN_OK;
}

enum banyan_status by_plan_reorder(const struct by_plan *plan, const uint32_t *order, const struct by_plan *names,
                                   struct by_plan **out) {
  struct by_plan *made;
  BY_TRY(by_plan_create(plan->name, &made));
  made->facts = plan->facts;
  made->chunk = plan->chunk;
  return by_plan_end(made, fill_reordered(made, plan, order, names), out);
}
