#include "plan_pairs.h"

#include <stdlib.h>

enum { FIRST_PAIRS = 1024 };

/* An open hash table that grows. A share of 0 marks a free slot. */
struct table {
  const struct by_plan *plan;
  const uint32_t *node_of;
  struct by_plan_pair *pairs;
  size_t n, room;
};

#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for who sends to whom in a plan")

static struct by_plan_pair *slot_of(const struct table *table, uint32_t from, uint32_t to) {
  uint64_t hash = ((uint64_t)from << 32 | to) * 0x9e3779b97f4a7c15ull;
  size_t at = (size_t)(hash >> 20) & (table->room - 1);
  while (table->pairs[at].share > 0 && (table->pairs[at].from != from || table->pairs[at].to != to))
    at = (at + 1) & (table->room - 1);
  return &table->pairs[at];
}

static enum banyan_status grow(struct table *table) {
  struct table old = *table;
  if (table->n >= BY_PLAN_MOST_PAIRS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "plan %s: more than %d pairs send to each other", table->plan->name,
                   BY_PLAN_MOST_PAIRS);
  table->room = old.room ? 2 * old.room : FIRST_PAIRS;
  table->pairs = calloc(table->room, sizeof *table->pairs);
  if (!table->pairs) {
    *table = old;
    return NO_MEMORY;
  }
  for (size_t i = 0; i < old.room; i++)
    if (old.pairs[i].share > 0) *slot_of(table, old.pairs[i].from, old.pairs[i].to) = old.pairs[i];
  free(old.pairs);
  return BANYAN_OK;
}

/* Between vertices; what one node would send to itself takes no link. */
static enum banyan_status add(struct table *table, uint32_t from, uint32_t to, double share) {
  from = table->node_of[from];
  to = table->node_of[to];
  if (from == to) return BANYAN_OK;
  if (2 * table->n >= table->room) BY_TRY(grow(table));
  struct by_plan_pair *pair = slot_of(table, from, to);
  table->n += !(pair->share > 0);
  *pair = (struct by_plan_pair){.from = from, .to = to, .share = pair->share + share};
  return BANYAN_OK;
}

/* What u sends up; switches that only forward send it on as it is. */
static enum banyan_status add_way_up(struct table *table, const struct by_group *group, uint32_t u) {
  bool on = by_group_adds(group, group->order[u]);
  for (; on && u != group->root; u = group->up[u]) {
    BY_TRY(add(table, group->order[u], group->order[group->up[u]], group->share));
    on = !by_group_adds(group, group->order[group->up[u]]);
  }
  return BANYAN_OK;
}

/* Down, switches make copies. */
static enum banyan_status add_tree(struct table *table, const struct by_group *group) {
  for (uint32_t u = 0; u < group->n; u++) {
    if (u == group->root) continue;
    BY_TRY(add_way_up(table, group, u));
    BY_TRY(add(table, group->order[group->down[u]], group->order[u], group->share));
  }
  return BANYAN_OK;
}

/* Over all trees an edge of the template that goes d on, digit by digit, begins once at every position. */
static enum banyan_status add_rotated(struct table *table, const struct by_group *group) {
  uint32_t *edges = calloc(group->n, sizeof *edges); /* of the template, by how far they go on */
  enum banyan_status status = edges ? BANYAN_OK : NO_MEMORY;
  for (uint32_t u = 0; edges && u < group->n; u++) {
    if (u == group->root) continue;
    edges[by_group_untranslate(group, group->up[u], u)]++;
    edges[by_group_untranslate(group, u, group->down[u])]++;
  }
  for (uint32_t d = 0; d < group->n; d++)
    for (uint32_t u = 0; status == BANYAN_OK && edges[d] && u < group->n; u++)
      status = add(table, group->order[u], group->order[by_group_translate(group, u, d)],
                   group->share * edges[d] / group->n);
  free(edges);
  return status;
}

/* In each step all to all among those who differ in one digit. */
static enum banyan_status add_exchange(struct table *table, const struct by_group *group) {
  for (uint32_t i = 0, weight = 1; i < group->n_radix; weight *= group->radix[i++])
    for (uint32_t u = 0; u < group->n; u++) {
      uint32_t digit = u / weight % group->radix[i];
      for (uint32_t d = 0; d < group->radix[i]; d++)
        if (d != digit)
          BY_TRY(add(table, group->order[u], group->order[u - digit * weight + d * weight], group->share));
    }
  return BANYAN_OK;
}

static enum banyan_status add_group(struct table *table, const struct by_group *group) {
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    BY_TRY(add(table, group->twigs[i].child, group->twigs[i].parent, group->share));
    BY_TRY(add(table, group->twigs[i].parent, group->twigs[i].child, group->share));
  }
  switch (group->kind) {
  case BY_GROUP_ROTATED: return add_rotated(table, group);
  case BY_GROUP_EXCHANGE: return add_exchange(table, group);
  case BY_GROUP_TREE: break;
  }
  return add_tree(table, group);
}

int by_plan_pairs_compare(const void *a, const void *b) {
  const struct by_plan_pair *p = a, *q = b;
  if (p->to != q->to) return p->to < q->to ? -1 : 1;
  return (p->from > q->from) - (p->from < q->from);
}

enum banyan_status by_plan_pairs_list(const struct by_plan *plan, const struct by_class *class_,
                                      const uint32_t *node_of, struct by_plan_pair **out, size_t *n) {
  struct table table = {.plan = plan, .node_of = node_of};
  enum banyan_status status = BANYAN_OK;
  for (uint32_t i = 0; status == BANYAN_OK && i < class_->n_groups; i++) status = add_group(&table, &class_->groups[i]);
  *n = 0;
  for (size_t i = 0; i < table.room; i++)
    if (table.pairs[i].share > 0) table.pairs[(*n)++] = table.pairs[i];
  if (*n) qsort(table.pairs, *n, sizeof *table.pairs, by_plan_pairs_compare);
  *out = table.pairs;
  if (status == BANYAN_OK) return BANYAN_OK;
  free(table.pairs);
  *out = NULL;
  return status;
}
