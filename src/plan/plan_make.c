#include "plan_make.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sums nearer to 1 than this stay as they are, so that a plan printed and read again keeps every bit. */
static const double even_enough = 1e-9;

enum banyan_status by_plan_create(const char *name, struct by_plan **out) {
  struct by_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return by_plan_no_memory();
  by_arena_init(&plan->arena);
  plan->name = by_arena_string(&plan->arena, name);
  if (!plan->name) {
    by_plan_destroy(plan);
    return by_plan_no_memory();
  }
  *out = plan;
  return BANYAN_OK;
}

static enum banyan_status name_ranks(struct by_plan *plan) {
  enum { NAME_BYTES = 12 };
  char *names = by_arena_alloc(&plan->arena, plan->n_ranks, NAME_BYTES);
  if (!names) return by_plan_no_memory();
  for (uint32_t i = 0; i < plan->n_ranks; i++) {
    char *name = names + (size_t)i * NAME_BYTES;
    snprintf(name, NAME_BYTES, "%u", i);
    plan->vertices[i] = (struct by_vertex){.name = name, .kind = BY_VERTEX_RANK, .rank = i};
  }
  return BANYAN_OK;
}

enum banyan_status by_plan_add_vertices(struct by_plan *plan, uint32_t n_ranks, uint32_t n_others) {
  if (n_ranks < 1 || n_ranks > BY_PLAN_MOST_VERTICES || n_others > BY_PLAN_MOST_VERTICES - n_ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "a plan over %u ranks and %u others is not possible: 1 to %d in all are",
                   n_ranks, n_others, BY_PLAN_MOST_VERTICES);
  plan->n_ranks = n_ranks;
  plan->n_vertices = n_ranks + n_others;
  plan->vertices = BY_ARENA_ARRAY(&plan->arena, struct by_vertex, plan->n_vertices);
  if (!plan->vertices) return by_plan_no_memory();
  for (uint32_t i = n_ranks; i < plan->n_vertices; i++)
    plan->vertices[i] = (struct by_vertex){.kind = BY_VERTEX_HELPER, .rank = UINT32_MAX};
  return name_ranks(plan);
}

enum banyan_status by_plan_add_classes(struct by_plan *plan, uint32_t n) {
  plan->classes = BY_ARENA_ARRAY(&plan->arena, struct by_class, n);
  if (!plan->classes) return by_plan_no_memory();
  plan->n_classes = n;
  if (n) plan->classes[n - 1].up_to = UINT64_MAX;
  return BANYAN_OK;
}

enum banyan_status by_plan_add_groups(struct by_plan *plan, struct by_class *class_, uint32_t n) {
  class_->groups = BY_ARENA_ARRAY(&plan->arena, struct by_group, n);
  if (!class_->groups) return by_plan_no_memory();
  class_->n_groups = n;
  return BANYAN_OK;
}

enum banyan_status by_group_init(struct by_plan *plan, struct by_group *group, enum by_group_kind kind, uint32_t n,
                                 bool other_way_down) {
  bool exchange = kind == BY_GROUP_EXCHANGE;
  *group = (struct by_group){.kind = kind, .n = n};
  group->order = BY_ARENA_ARRAY(&plan->arena, uint32_t, n);
  if (!exchange) group->up = BY_ARENA_ARRAY(&plan->arena, uint32_t, n);
  group->down = other_way_down && !exchange ? BY_ARENA_ARRAY(&plan->arena, uint32_t, n) : group->up;
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

static void even_shares(struct by_class *class_) {
  double sum = 0;
  for (uint32_t i = 0; i < class_->n_groups; i++) sum += class_->groups[i].share;
  if (fabs(sum - 1) < even_enough) return;
  for (uint32_t i = 0; i < class_->n_groups; i++) class_->groups[i].share /= sum;
}

enum banyan_status by_plan_finish(struct by_plan *plan, struct by_plan **out) {
  enum banyan_status status = by_plan_validate(plan);
  if (status != BANYAN_OK) {
    by_plan_destroy(plan);
    return status;
  }
  for (uint32_t i = 0; i < plan->n_classes; i++) even_shares(&plan->classes[i]);
  plan->version = by_plan_hash(plan);
  *out = plan;
  return BANYAN_OK;
}

/* --- plans made of others, group by group --- */

static enum banyan_status copy_twigs(const struct by_group *from, struct by_plan *plan, struct by_group *group) {
  group->twigs = BY_ARENA_ARRAY(&plan->arena, struct by_twig, from->n_twigs);
  if (!group->twigs) return by_plan_no_memory();
  if (from->n_twigs) memcpy(group->twigs, from->twigs, from->n_twigs * sizeof *group->twigs);
  group->n_twigs = from->n_twigs;
  return BANYAN_OK;
}

static uint32_t same_vertex(const void *context, uint32_t vertex) {
  (void)context;
  return vertex;
}

static enum banyan_status copy_group(const struct by_group *from, struct by_plan *plan, struct by_group *group) {
  bool other_way = from->down != from->up;
  BY_TRY(by_group_init(plan, group, from->kind, from->n, other_way));
  memcpy(group->order, from->order, from->n * sizeof *group->order);
  group->share = from->share;
  group->rate = from->rate;
  group->root = from->root;
  if (group->up) memcpy(group->up, from->up, from->n * sizeof *group->up);
  if (group->up && other_way) memcpy(group->down, from->down, from->n * sizeof *group->down);
  if (from->kind != BY_GROUP_TREE) BY_TRY(by_group_set_radix(plan, group, from->radix, from->n_radix));
  BY_TRY(by_group_copy_ports(plan, group, from, same_vertex, NULL));
  return copy_twigs(from, plan, group);
}

static enum banyan_status copy_vertices(const struct by_plan *from, uint32_t n, struct by_plan *plan) {
  BY_TRY(by_plan_add_vertices(plan, from->n_ranks, n - from->n_ranks));
  for (uint32_t v = 0; v < n; v++) {
    plan->vertices[v].name = by_arena_string(&plan->arena, from->vertices[v].name);
    plan->vertices[v].kind = from->vertices[v].kind;
    if (!plan->vertices[v].name) return by_plan_no_memory();
  }
  return BANYAN_OK;
}

static enum banyan_status fill(const struct by_plan *from, uint32_t n_vertices, by_group_rework rework,
                               struct by_plan *plan) {
  BY_TRY(copy_vertices(from, n_vertices, plan));
  plan->chunk = from->chunk;
  BY_TRY(by_plan_add_classes(plan, from->n_classes));
  for (uint32_t c = 0; c < from->n_classes; c++) {
    const struct by_class *source = &from->classes[c];
    struct by_class *class_ = &plan->classes[c];
    class_->up_to = source->up_to;
    class_->part = source->part;
    BY_TRY(by_plan_add_groups(plan, class_, source->n_groups));
    for (uint32_t g = 0; g < source->n_groups; g++) {
      BY_TRY(copy_group(&source->groups[g], plan, &class_->groups[g]));
      BY_TRY(rework(from, plan, &class_->groups[g]));
    }
  }
  return BANYAN_OK;
}

/* Finishing evens them out. */
static void keep_shares(const struct by_plan *from, struct by_plan *plan) {
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++)
      plan->classes[c].groups[g].share = from->classes[c].groups[g].share;
  plan->version = by_plan_hash(plan);
}

static enum banyan_status leave_group(const struct by_plan *from, struct by_plan *plan, struct by_group *group) {
  (void)from;
  (void)plan;
  (void)group;
  return BANYAN_OK;
}

enum banyan_status by_plan_rework(const struct by_plan *from, uint32_t n_vertices, by_group_rework rework,
                                  struct by_plan **out) {
  struct by_plan *made = NULL;
  BY_TRY(by_plan_create(from->name, &made));
  enum banyan_status status = fill(from, n_vertices, rework, made);
  if (status != BANYAN_OK) {
    by_plan_destroy(made);
    return status;
  }
  BY_TRY(by_plan_finish(made, out));
  keep_shares(from, *out);
  (*out)->facts = from->facts;
  (*out)->origin = from->origin;
  return BANYAN_OK;
}

enum banyan_status by_plan_copy(const struct by_plan *plan, struct by_plan **out) {
  return by_plan_rework(plan, plan->n_vertices, leave_group, out);
}
