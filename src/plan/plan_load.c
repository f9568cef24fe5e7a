#include "plan_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "switched_tree.h"
#include "topology_paths.h"

#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the load of a plan")

/* --- how much each pair of nodes sends --- */

enum { FIRST_PAIRS = 1024 };

/* An open hash table that grows. A share of 0 marks a free slot. */
struct table {
  const struct by_plan *plan;
  const uint32_t *node_of;
  struct by_plan_pair *pairs;
  size_t n, room;
};

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

/* In each step all to all among those that differ in one digit. */
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

/* --- where vertices are --- */

struct loading {
  struct by_plan_load *out;
  const struct by_plan *plan;
  const struct by_topology *topology;
  struct by_paths paths;
  struct by_next_hop *hops;
  uint32_t *sources; /* of the pairs to one node */
  size_t room_steps;
};

/* --- which node a vertex is --- */

/* Ranks mostly come in the order of their hosts, so each is looked for behind the one before. */
static bool ranks_are_named(const struct by_plan *plan, const struct by_topology *topology) {
  for (uint32_t r = 0, node = 0; r < plan->n_ranks; r++) {
    node = by_topology_find_from(topology, plan->vertices[r].name, node);
    if (node == UINT32_MAX || topology->nodes[node].kind != BY_NODE_HOST) return false;
  }
  return true;
}

enum banyan_status by_plan_place(const struct by_plan *plan, const struct by_topology *topology, uint32_t *node_of) {
  bool named = ranks_are_named(plan, topology);
  uint32_t n = 0;
  for (uint32_t v = 0; v < topology->n_nodes && !named; v++) {
    if (!topology->nodes[v].takes_part) continue;
    if (n < plan->n_ranks) node_of[n] = v;
    n++;
  }
  if (!named && n != plan->n_ranks)
    return by_fail(BANYAN_ERR_PLAN, "plan %s is for %u ranks, but %u hosts of the topology take part", plan->name,
                   plan->n_ranks, n);
  for (uint32_t i = named ? 0 : plan->n_ranks; i < plan->n_vertices; i++) {
    const struct by_vertex *vertex = &plan->vertices[i];
    bool is_server = vertex->kind == BY_VERTEX_SERVER; /* a server is on the host that it is named after */
    char name[BY_PLAN_MOST_NAME + 1];
    size_t bytes = is_server ? by_server_host_bytes(vertex->name) : strlen(vertex->name);
    snprintf(name, sizeof name, "%.*s", (int)bytes, vertex->name);
    node_of[i] = by_topology_find_from(topology, name, i ? node_of[i - 1] : 0);
    if (node_of[i] == UINT32_MAX)
      return by_fail(BANYAN_ERR_PLAN, "plan %s has a %s \"%.64s\", which is not in the topology", plan->name,
                     by_vertex_kind_name(plan->vertices[i].kind), plan->vertices[i].name);
  }
  return BANYAN_OK;
}

/* --- which links that takes --- */

static enum banyan_status walk(struct loading *l, struct by_plan_pair *pair) {
  const struct by_topology *t = l->topology;
  const struct by_next_hop *hops = l->hops;
  pair->delay = hops[pair->from].delay;
  pair->capacity = INFINITY;
  pair->step = l->out->n_steps;
  pair->n_steps = hops[pair->from].hops;
  for (uint32_t at = pair->from, next; at != pair->to; at = next) {
    uint32_t link = hops[at].link, way = t->links[link].a == at ? BY_AB : BY_BA;
    next = hops[at].next;
    if (!BY_ARRAY_GROW(&l->out->steps, &l->room_steps, l->out->n_steps + 1)) return NO_MEMORY;
    l->out->steps[l->out->n_steps++] = 2 * link + way;
    l->out->link[link][way] += pair->share;
    l->out->node[at][0] += pair->share;
    l->out->node[next][1] += pair->share;
    double of_nodes = fmin(by_residual(t->nodes[at].out), by_residual(t->nodes[next].in));
    pair->capacity = fmin(pair->capacity, fmin(by_residual(t->links[link].capacity[way]), of_nodes));
  }
  return BANYAN_OK;
}

/* The n pairs to one node: one search serves them. */
static enum banyan_status lay(struct loading *l, struct by_plan_pair *pairs, uint32_t n) {
  const struct by_node *nodes = l->topology->nodes;
  for (uint32_t i = 0; i < n; i++) l->sources[i] = pairs[i].from;
  BY_TRY(by_paths_between(&l->paths, pairs->to, l->sources, n, l->hops));
  for (uint32_t i = 0; i < n; i++) {
    if (l->hops[pairs[i].from].hops == UINT32_MAX)
      return by_fail(BANYAN_ERR_PLAN, "plan %s sends from \"%.64s\" to \"%.64s\", between which there is no way",
                     l->plan->name, nodes[pairs[i].from].name, nodes[pairs[i].to].name);
    BY_TRY(walk(l, &pairs[i]));
  }
  return BANYAN_OK;
}

/* --- what is tightest --- */

/* Whether this is tighter than all before. */
static bool tighter(struct by_plan_load *load, double left, double share) {
  if (!(share > 0) || left / share >= load->rate) return false;
  load->rate = left / share;
  load->tightest_link = load->tightest_node = UINT32_MAX;
  return true;
}

static void find_tightest(struct by_plan_load *load, const struct by_topology *topology) {
  load->rate = INFINITY;
  load->tightest_link = load->tightest_node = UINT32_MAX;
  for (uint32_t i = 0; i < 2 * topology->n_links; i++)
    if (tighter(load, by_residual(topology->links[i / 2].capacity[i % 2]), load->link[i / 2][i % 2])) {
      load->tightest_link = i / 2;
      load->tightest_way = i % 2;
    }
  for (uint32_t i = 0; i < 2 * topology->n_nodes; i++) {
    const struct by_node *node = &topology->nodes[i / 2];
    if (!tighter(load, by_residual(i % 2 ? node->in : node->out), load->node[i / 2][i % 2])) continue;
    load->tightest_node = i / 2;
    load->tightest_way = i % 2;
  }
}

/* --- all of it --- */

static enum banyan_status run(struct loading *l, const struct by_class *class_, const uint32_t *node_of) {
  struct by_plan_load *out = l->out;
  if (node_of)
    memcpy(out->node_of, node_of, out->n_vertices * sizeof *node_of);
  else
    BY_TRY(by_plan_place(l->plan, l->topology, l->out->node_of));
  BY_TRY(by_plan_pairs_list(l->plan, class_, out->node_of, &out->pairs, &out->n_pairs));
  BY_TRY(by_paths_init(&l->paths, l->topology));
  for (size_t i = 0, end; i < out->n_pairs; i = end) {
    for (end = i + 1; end < out->n_pairs && out->pairs[end].to == out->pairs[i].to;) end++;
    BY_TRY(lay(l, &out->pairs[i], (uint32_t)(end - i)));
  }
  find_tightest(out, l->topology);
  return BANYAN_OK;
}

enum banyan_status by_plan_load_init(struct by_plan_load *load, const struct by_plan *plan,
                                     const struct by_class *class_, const struct by_topology *topology) {
  return by_plan_load_init_at(load, plan, class_, topology, NULL);
}

enum banyan_status by_plan_load_init_at(struct by_plan_load *load, const struct by_plan *plan,
                                        const struct by_class *class_, const struct by_topology *topology,
                                        const uint32_t *node_of) {
  struct by_arena *arena = &load->arena;
  *load = (struct by_plan_load){.n_vertices = plan->n_vertices};
  load->link = by_arena_alloc(arena, topology->n_links, sizeof *load->link);
  load->node = by_arena_alloc(arena, topology->n_nodes, sizeof *load->node);
  load->node_of = BY_ARENA_ARRAY(arena, uint32_t, plan->n_vertices);
  struct loading l = {.out = load,
                      .plan = plan,
                      .topology = topology,
                      .hops = BY_ARENA_ARRAY(arena, struct by_next_hop, topology->n_nodes),
                      .sources = BY_ARENA_ARRAY(arena, uint32_t, topology->n_nodes)};
  enum banyan_status status = arena->failed ? NO_MEMORY : run(&l, class_, node_of);
  by_paths_fini(&l.paths);
  if (status != BANYAN_OK) by_plan_load_fini(load);
  return status;
}

void by_plan_load_fini(struct by_plan_load *load) {
  by_arena_fini(&load->arena);
  free(load->pairs);
  free(load->steps);
  *load = (struct by_plan_load){0};
}

const struct by_plan_pair *by_plan_load_pair(const struct by_plan_load *load, uint32_t from, uint32_t to) {
  struct by_plan_pair key = {.from = load->node_of[from], .to = load->node_of[to]};
  if (!load->n_pairs) return NULL;
  return bsearch(&key, load->pairs, load->n_pairs, sizeof key, by_plan_pairs_compare);
}
