/* Plans made of others, group by group. */
#include <string.h>

#include "plan_make.h"

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
