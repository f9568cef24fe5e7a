/* From an embedding to a plan that runs. */
#include <stdlib.h>
#include <string.h>

#include "embed_parts.h"
#include "plan_make.h"

#define NONE UINT32_MAX

struct planning {
  const struct by_embedding *embedding;
  struct by_plan *plan;
  uint32_t *vertex; /* of each of the graph's: the plan's; NONE: nothing uses it */
  uint32_t *helper; /* optional vertices that are used, by name */
  uint32_t n_helpers;
};

/* ---- vertices */

static void find_helpers(struct planning *p) {
  const struct by_embedding *e = p->embedding;
  uint32_t terminals = e->graph->n_terminals;
  for (uint32_t v = 0; v < e->graph->n_vertices; v++) p->vertex[v] = v < terminals ? v : NONE;
  for (uint32_t i = 0; i < e->picks.n; i++) {
    const struct by_group *group = &e->candidates.items[e->picks.items[i].candidate].group;
    for (uint32_t u = 0; u < group->n; u++) {
      uint32_t v = group->order[u], at = p->n_helpers;
      if (p->vertex[v] != NONE) continue;
      p->vertex[v] = 0; /* its number when all are known */
      for (; at > 0 && strcmp(e->name[p->helper[at - 1]], e->name[v]) > 0; at--) p->helper[at] = p->helper[at - 1];
      p->helper[at] = v;
      p->n_helpers++;
    }
  }
  for (uint32_t i = 0; i < p->n_helpers; i++) p->vertex[p->helper[i]] = terminals + i;
}

static enum banyan_status name_vertices(struct planning *p) {
  const struct by_embedding *e = p->embedding;
  uint32_t terminals = e->graph->n_terminals;
  BY_TRY(by_plan_add_vertices(p->plan, terminals, p->n_helpers));
  for (uint32_t i = 0; i < p->plan->n_vertices; i++) {
    uint32_t v = i < terminals ? i : p->helper[i - terminals];
    p->plan->vertices[i].name = by_arena_string(&p->plan->arena, e->name[v]);
    if (!p->plan->vertices[i].name) return by_plan_no_memory();
    if (e->is_switch[v]) p->plan->vertices[i].kind = BY_VERTEX_SWITCH;
  }
  return BANYAN_OK;
}

/* ---- groups */

/* A tree's positions follow the plan's order of vertices; those of a rotated one mean something and stay. */
static enum banyan_status add_group(struct planning *p, const struct by_group *from, uint32_t *position,
                                    struct by_group *to) {
  bool rotated = from->kind == BY_GROUP_ROTATED;
  uint32_t n = 0;
  BY_TRY(by_group_init(p->plan, to, from->kind, from->n, false));
  if (rotated) BY_TRY(by_group_set_radix(p->plan, to, from->radix, from->n_radix));
  for (uint32_t v = 0; v < p->plan->n_vertices; v++) position[v] = NONE;
  for (uint32_t u = 0; u < from->n; u++) position[p->vertex[from->order[u]]] = u;
  for (uint32_t v = 0; !rotated && v < p->plan->n_vertices; v++)
    if (position[v] != NONE) to->order[n] = v, position[v] = n++;
  for (uint32_t u = 0; u < from->n; u++) {
    uint32_t self = position[p->vertex[from->order[u]]];
    to->order[self] = p->vertex[from->order[u]];
    to->up[self] = position[p->vertex[from->order[from->up[u]]]];
    if (u == from->root) to->root = self;
  }
  return BANYAN_OK;
}

static enum banyan_status add_groups(struct planning *p, uint32_t *position) {
  const struct by_embedding *e = p->embedding;
  struct by_plan *plan = p->plan;
  double sum = 0; /* of those that are used: the program may have left a trace of rate on others */
  for (uint32_t i = 0; i < e->picks.n; i++) sum += e->picks.items[i].rate;
  BY_TRY(by_plan_add_classes(plan, 1));
  BY_TRY(by_plan_add_groups(plan, plan->classes, e->picks.n));
  for (uint32_t i = 0; i < e->picks.n; i++) {
    struct by_group *group = &plan->classes->groups[i];
    BY_TRY(add_group(p, &e->candidates.items[e->picks.items[i].candidate].group, position, group));
    group->rate = e->picks.items[i].rate;
    group->share = group->rate / sum;
  }
  plan->facts = (struct by_plan_facts){
      .throughput = e->picks.throughput, .bound = e->bound, .ratio = e->picks.throughput / e->bound};
  return BANYAN_OK;
}

static enum banyan_status fill(struct planning *p) {
  find_helpers(p);
  BY_TRY(name_vertices(p));
  uint32_t *position = calloc(p->plan->n_vertices, sizeof *position);
  if (!position) return by_plan_no_memory();
  enum banyan_status status = add_groups(p, position);
  free(position);
  return status;
}

enum banyan_status by_embedding_plan(const struct by_embedding *embedding, const char *name, struct by_plan **out) {
  struct planning p = {.embedding = embedding};
  size_t n = embedding->graph->n_vertices;
  BY_TRY(by_plan_create(name, &p.plan));
  p.vertex = calloc(n, sizeof *p.vertex);
  p.helper = calloc(n, sizeof *p.helper);
  enum banyan_status status = p.vertex && p.helper ? fill(&p) : by_plan_no_memory();
  free(p.vertex);
  free(p.helper);
  if (status == BANYAN_OK) return by_plan_finish(p.plan, out);
  by_plan_destroy(p.plan);
  return status;
}
