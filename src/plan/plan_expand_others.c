/* Vertices of a plan over hosts that are no hosts, where it becomes one over ranks. A tree becomes one tree for each
 * leader, and each of these needs a server of its own, on the same host; helpers and switches serve them all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_make.h"

/* One vertex of the new plan. */
struct copy {
  const char *name;
  enum by_vertex_kind kind;
  uint32_t from, leader;
};

static bool is_split(const struct by_vertex *vertex, uint32_t leaders) {
  return leaders > 1 && vertex->kind == BY_VERTEX_SERVER;
}

/* "a/0" of leader 1 is "a/0.1", "a" is "a/1": what is before the last "/" stays the host. */
static const char *name_of(struct by_plan *plan, const struct by_vertex *vertex, bool split, uint32_t leader) {
  char name[BY_PLAN_MOST_NAME + 16];
  if (!split) return by_arena_string(&plan->arena, vertex->name);
  const char *between = strchr(vertex->name, '/') ? "." : "/";
  snprintf(name, sizeof name, "%.*s%s%u", BY_PLAN_MOST_NAME, vertex->name, between, leader);
  return by_arena_string(&plan->arena, name);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct copy *)a)->name, ((const struct copy *)b)->name);
}

static enum banyan_status fill_copies(struct by_plan *plan, const struct by_plan *from, uint32_t leaders,
                                      struct copy *copies) {
  uint32_t n = 0;
  for (uint32_t v = from->n_ranks; v < from->n_vertices; v++) {
    const struct by_vertex *vertex = &from->vertices[v];
    bool split = is_split(vertex, leaders);
    for (uint32_t leader = 0; leader < (split ? leaders : 1); leader++) {
      const char *name = name_of(plan, vertex, split, leader);
      if (!name) return by_plan_no_memory();
      copies[n++] = (struct copy){.name = name, .kind = vertex->kind, .from = v - from->n_ranks, .leader = leader};
    }
  }
  if (n) qsort(copies, n, sizeof *copies, by_name);
  return BANYAN_OK;
}

enum banyan_status by_plan_add_others(struct by_plan *plan, const struct by_plan *over_hosts, uint32_t n_ranks,
                                      uint32_t leaders, const uint32_t **out) {
  uint32_t others = over_hosts->n_vertices - over_hosts->n_ranks, n = 0;
  for (uint32_t v = over_hosts->n_ranks; v < over_hosts->n_vertices; v++)
    n += is_split(&over_hosts->vertices[v], leaders) ? leaders : 1;
  BY_TRY(by_plan_add_vertices(plan, n_ranks, n));
  struct copy *copies = BY_ARENA_ARRAY(&plan->arena, struct copy, n);
  uint32_t *vertex = BY_ARENA_ARRAY(&plan->arena, uint32_t, (size_t)others * leaders);
  if (!copies || !vertex) return by_plan_no_memory();
  BY_TRY(fill_copies(plan, over_hosts, leaders, copies));
  for (uint32_t i = 0; i < n; i++) {
    const struct copy *copy = &copies[i];
    bool split = is_split(&over_hosts->vertices[over_hosts->n_ranks + copy->from], leaders);
    plan->vertices[n_ranks + i].name = copy->name;
    plan->vertices[n_ranks + i].kind = copy->kind;
    for (uint32_t leader = 0; leader < leaders; leader++)
      if (!split || leader == copy->leader) vertex[(size_t)copy->from * leaders + leader] = n_ranks + i;
  }
  *out = vertex;
  return BANYAN_OK;
}
