#include "plan_join.h"

#include <stdlib.h>
#include <string.h>

#include "plan_make.h"

struct joining {
  struct by_plan *plan;
  const struct by_plan *from;
  uint32_t *vertex; /* of each of from's vertices: which of the plan's it is */
};

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct by_vertex *)a)->name, ((const struct by_vertex *)b)->name);
}

/* --- vertices --- */

static enum banyan_status keep_name(struct by_plan *plan, struct by_vertex *vertex, const char *name) {
  vertex->name = by_arena_string(&plan->arena, name);
  return vertex->name ? BANYAN_OK : by_plan_no_memory();
}

/* All that are no ranks, each name once, in order. The caller frees *out. */
static enum banyan_status list_others(const struct by_plan_part *parts, uint32_t n, struct by_vertex **out,
                                      uint32_t *count) {
  size_t most = 0, listed = 0;
  for (uint32_t i = 0; i < n; i++) most += parts[i].plan->n_vertices - parts[i].plan->n_ranks;
  struct by_vertex *others = calloc(most + 1, sizeof *others);
  if (!others) return by_plan_no_memory();
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t v = parts[i].plan->n_ranks; v < parts[i].plan->n_vertices; v++)
      others[listed++] = parts[i].plan->vertices[v];
  qsort(others, listed, sizeof *others, by_name);
  *count = 0;
  for (size_t i = 0; i < listed; i++)
    if (!*count || by_name(&others[i], &others[*count - 1]) != 0) others[(*count)++] = others[i];
  *out = others;
  return BANYAN_OK;
}

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

static void map_vertices(struct joining *j) {
  const struct by_plan *plan = j->plan;
  for (uint32_t v = 0; v < j->from->n_vertices; v++) {
    j->vertex[v] = v;
    if (v < plan->n_ranks) continue;
    const struct by_vertex *found = bsearch(&j->from->vertices[v], plan->vertices + plan->n_ranks,
                                            plan->n_vertices - plan->n_ranks, sizeof *found, by_name);
    j->vertex[v] = (uint32_t)(found - plan->vertices);
  }
}

/* --- groups --- */

static enum banyan_status copy(struct by_plan *plan, const uint32_t *from, uint32_t n, uint32_t **out) {
  *out = BY_ARENA_ARRAY(&plan->arena, uint32_t, n);
  if (!*out) return by_plan_no_memory();
  memcpy(*out, from, n * sizeof *from);
  return BANYAN_OK;
}

static int by_child(const void *a, const void *b) {
  uint32_t x = ((const struct by_twig *)a)->child, y = ((const struct by_twig *)b)->child;
  return (x > y) - (x < y);
}

static enum banyan_status copy_twigs(const struct joining *j, const struct by_group *from, struct by_group *to) {
  to->twigs = BY_ARENA_ARRAY(&j->plan->arena, struct by_twig, from->n_twigs);
  if (!to->twigs) return by_plan_no_memory();
  for (uint32_t i = 0; i < from->n_twigs; i++)
    to->twigs[i] = (struct by_twig){j->vertex[from->twigs[i].child], j->vertex[from->twigs[i].parent]};
  if (from->n_twigs) qsort(to->twigs, from->n_twigs, sizeof *to->twigs, by_child);
  return BANYAN_OK;
}

static uint32_t joined_vertex(const void *joining, uint32_t vertex) {
  return ((const struct joining *)joining)->vertex[vertex];
}

static enum banyan_status copy_group(const struct joining *j, const struct by_group *from, struct by_group *to) {
  *to = *from;
  BY_TRY(copy(j->plan, from->order, from->n, &to->order));
  for (uint32_t i = 0; i < from->n; i++) to->order[i] = j->vertex[from->order[i]];
  if (from->up) BY_TRY(copy(j->plan, from->up, from->n, &to->up));
  to->down = to->up;
  if (from->down != from->up) BY_TRY(copy(j->plan, from->down, from->n, &to->down));
  if (from->n_radix) BY_TRY(copy(j->plan, from->radix, from->n_radix, &to->radix));
  BY_TRY(by_group_copy_ports(j->plan, to, from, joined_vertex, j));
  return copy_twigs(j, from, to);
}

static enum banyan_status copy_class(const struct joining *j, const struct by_class *from, struct by_class *to) {
  BY_TRY(by_plan_add_groups(j->plan, to, from->n_groups));
  for (uint32_t i = 0; i < from->n_groups; i++) BY_TRY(copy_group(j, &from->groups[i], &to->groups[i]));
  return BANYAN_OK;
}

/* --- plans --- */

static enum banyan_status fill(struct by_plan *plan, const struct by_plan_part *parts, uint32_t n) {
  struct joining j = {.plan = plan, .vertex = calloc((size_t)plan->n_vertices + 1, sizeof *j.vertex)};
  enum banyan_status status = j.vertex ? by_plan_add_classes(plan, n) : by_plan_no_memory();
  for (uint32_t i = 0; i < n && status == BANYAN_OK; i++) {
    uint64_t up_to = i + 1 < n ? parts[i].up_to : UINT64_MAX;
    j.from = parts[i].plan;
    map_vertices(&j);
    plan->classes[i].up_to = up_to;
    status = copy_class(&j, by_plan_class(j.from, up_to), &plan->classes[i]);
  }
  free(j.vertex);
  return status;
}

enum banyan_status by_plan_join(const char *name, const struct by_plan_part *parts, uint32_t n, struct by_plan **out) {
  const struct by_plan *last = parts[n - 1].plan;
  struct by_plan *plan;
  struct by_vertex *others = NULL;
  uint32_t n_others = 0;
  BY_TRY(by_plan_create(name, &plan));
  enum banyan_status status = list_others(parts, n, &others, &n_others);
  if (status == BANYAN_OK) status = add_vertices(plan, last, others, n_others);
  free(others);
  if (status == BANYAN_OK) status = fill(plan, parts, n);
  plan->facts = last->facts;
  plan->chunk = last->chunk;
  if (status == BANYAN_OK) return by_plan_finish(plan, out);
  by_plan_destroy(plan);
  return status;
}

static enum banyan_status fill_reordered(struct by_plan *plan, const struct by_plan *from, const uint32_t *order,
                                         const struct by_plan *names) {
  struct joining j = {.plan = plan, .from = from};
  BY_TRY(add_vertices(plan, names, from->vertices + from->n_ranks, from->n_vertices - from->n_ranks));
  BY_TRY(by_plan_add_classes(plan, from->n_classes));
  j.vertex = BY_ARENA_ARRAY(&plan->arena, uint32_t, from->n_vertices);
  if (!j.vertex) return by_plan_no_memory();
  for (uint32_t v = 0; v < from->n_vertices; v++) j.vertex[v] = v < from->n_ranks ? order[v] : v;
  for (uint32_t i = 0; i < from->n_classes; i++) {
    plan->classes[i].up_to = from->classes[i].up_to;
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
  enum banyan_status status = fill_reordered(made, plan, order, names);
  if (status == BANYAN_OK) return by_plan_finish(made, out);
  by_plan_destroy(made);
  return status;
}
