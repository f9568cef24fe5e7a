/* Computes the load that a plan puts on the links and nodes of a topology. */
#include "plan_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "switched_tree.h"
#include "topology_paths.h"

#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the load of a plan")

/* --- Pairs of nodes that send to each other. --- */

enum { FIRST_PAIRS = 1024 };

/* A growing open hash table of pairs. A share of 0 marks a free slot. */
struct table {
  const struct by_plan *plan;
  const uint32_t *node_of;
  struct by_plan_pair *pairs;
  size_t n, allocated;
};

static struct by_plan_pair *find_slot(const struct table *table, uint32_t from, uint32_t to) {
  uint64_t hash = ((uint64_t)from << 32 | to) * 0x9e3779b97f4a7c15ull;
  size_t at = (size_t)(hash >> 20) & (table->allocated - 1);
  while (table->pairs[at].share > 0 && (table->pairs[at].from != from || table->pairs[at].to != to))
    at = (at + 1) & (table->allocated - 1);
  return &table->pairs[at];
}

static enum banyan_status grow_table(struct table *table) {
  struct table old = *table;
  if (table->n >= BY_PLAN_MAX_PAIRS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "plan %s: more than %d pairs send to each other", table->plan->name,
                   BY_PLAN_MAX_PAIRS);
  table->allocated = old.allocated ? 2 * old.allocated : FIRST_PAIRS;
  table->pairs = calloc(table->allocated, sizeof *table->pairs);
  if (!table->pairs) {
    *table = old;
    return NO_MEMORY;
  }
  for (size_t i = 0; i < old.allocated; i++)
    if (old.pairs[i].share > 0) *find_slot(table, old.pairs[i].from, old.pairs[i].to) = old.pairs[i];
  free(old.pairs);
  return BANYAN_OK;
}

/* Adds what one vertex sends to another. Data that stays on one node uses no link. */
static enum banyan_status add_share(struct table *table, uint32_t from, uint32_t to, double share) {
  from = table->node_of[from];
  to = table->node_of[to];
  if (from == to) return BANYAN_OK;
  if (2 * table->n >= table->allocated) BY_TRY(grow_table(table));
  struct by_plan_pair *pair = find_slot(table, from, to);
  table->n += !(pair->share > 0);
  *pair = (struct by_plan_pair){.from = from, .to = to, .share = pair->share + share};
  return BANYAN_OK;
}

/* Adds what u sends up; switches that only forward pass it on unchanged. */
static enum banyan_status add_sums(struct table *table, const struct by_group *group, uint32_t u) {
  bool on = by_group_adds(group, group->order[u]);
  for (; on && u != group->root; u = group->up[u]) {
    BY_TRY(add_share(table, group->order[u], group->order[group->up[u]], group->share));
    on = !by_group_adds(group, group->order[group->up[u]]);
  }
  return BANYAN_OK;
}

/* Adds the edges of a tree. Switches copy results on their way down. */
static enum banyan_status add_tree(struct table *table, const struct by_group *group) {
  for (uint32_t u = 0; u < group->n; u++) {
    if (u == group->root) continue;
    BY_TRY(add_sums(table, group, u));
    BY_TRY(add_share(table, group->order[group->down[u]], group->order[u], group->share));
  }
  return BANYAN_OK;
}

/* Adds the edges of a rotated group. Over all trees, an edge of the template with digit offset d starts once at every
 * position. */
static enum banyan_status add_rotated(struct table *table, const struct by_group *group) {
  uint32_t *edges = calloc(group->n, sizeof *edges); /* how many edges of the template have each offset */
  enum banyan_status status = edges ? BANYAN_OK : NO_MEMORY;
  for (uint32_t u = 0; edges && u < group->n; u++) {
    if (u == group->root) continue;
    edges[by_group_untranslate(group, group->up[u], u)]++;
    edges[by_group_untranslate(group, u, group->down[u])]++;
  }
  for (uint32_t d = 0; d < group->n; d++)
    for (uint32_t u = 0; status == BANYAN_OK && edges[d] && u < group->n; u++)
      status = add_share(table, group->order[u], group->order[by_group_translate(group, u, d)],
                         group->share * edges[d] / group->n);
  free(edges);
  return status;
}

/* Adds the edges of an exchange: in each step, positions that differ in one digit send to each other. */
static enum banyan_status add_exchange(struct table *table, const struct by_group *group) {
  for (uint32_t i = 0, weight = 1; i < group->n_radix; weight *= group->radix[i++])
    for (uint32_t u = 0; u < group->n; u++) {
      uint32_t digit = u / weight % group->radix[i];
      for (uint32_t d = 0; d < group->radix[i]; d++)
        if (d != digit)
          BY_TRY(add_share(table, group->order[u], group->order[u - digit * weight + d * weight], group->share));
    }
  return BANYAN_OK;
}

static enum banyan_status add_group(struct table *table, const struct by_group *group) {
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    BY_TRY(add_share(table, group->twigs[i].child, group->twigs[i].parent, group->share));
    BY_TRY(add_share(table, group->twigs[i].parent, group->twigs[i].child, group->share));
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
  for (size_t i = 0; i < table.allocated; i++)
    if (table.pairs[i].share > 0) table.pairs[(*n)++] = table.pairs[i];
  if (*n) qsort(table.pairs, *n, sizeof *table.pairs, by_plan_pairs_compare);
  *out = table.pairs;
  if (status == BANYAN_OK) return BANYAN_OK;
  free(table.pairs);
  *out = NULL;
  return status;
}

/* --- Locations of vertices. --- */

struct load_state {
  struct by_plan_load *out;
  const struct by_plan *plan;
  const struct by_topology *topology;
  struct by_paths paths;
  struct by_next_hop *hops;
  uint32_t *sources; /* the senders of the pairs to one node */
  size_t allocated_steps;
};

/* --- The node of each vertex. --- */

/* Whether all ranks' names are hosts. Ranks mostly come in the order of their hosts, so the search continues behind the
 * last host. */
static bool ranks_are_named(const struct by_plan *plan, const struct by_topology *topology) {
  for (uint32_t r = 0, node = 0; r < plan->n_ranks; r++) {
    node = by_topology_find_from(topology, plan->vertices[r].name, node);
    if (node == UINT32_MAX || topology->nodes[node].kind != BY_NODE_HOST) return false;
  }
  return true;
}

enum banyan_status by_plan_locate(const struct by_plan *plan, const struct by_topology *topology, uint32_t *node_of) {
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
    bool is_server = vertex->kind == BY_VERTEX_SERVER; /* A server is on the host after which it is named. */
    char name[BY_PLAN_MAX_NAME + 1];
    size_t bytes = is_server ? by_server_host_bytes(vertex->name) : strlen(vertex->name);
    snprintf(name, sizeof name, "%.*s", (int)bytes, vertex->name);
    node_of[i] = by_topology_find_from(topology, name, i ? node_of[i - 1] : 0);
    if (node_of[i] == UINT32_MAX)
      return by_fail(BANYAN_ERR_PLAN, "plan %s has a %s \"%.64s\", which is not in the topology", plan->name,
                     by_vertex_kind_name(plan->vertices[i].kind), plan->vertices[i].name);
  }
  return BANYAN_OK;
}

/* --- The links of each pair. --- */

static enum banyan_status add_path(struct load_state *l, struct by_plan_pair *pair) {
  const struct by_topology *t = l->topology;
  const struct by_next_hop *hops = l->hops;
  pair->delay = hops[pair->from].delay;
  pair->capacity = INFINITY;
  pair->step = l->out->n_steps;
  pair->n_steps = hops[pair->from].hops;
  for (uint32_t at = pair->from, next; at != pair->to; at = next) {
    uint32_t link = hops[at].link, direction = t->links[link].a == at ? BY_AB : BY_BA;
    next = hops[at].next;
    if (!BY_ARRAY_GROW(&l->out->steps, &l->allocated_steps, l->out->n_steps + 1)) return NO_MEMORY;
    l->out->steps[l->out->n_steps++] = 2 * link + direction;
    l->out->link[link][direction] += pair->share;
    l->out->node[at][0] += pair->share;
    l->out->node[next][1] += pair->share;
    double of_nodes = fmin(by_residual(t->nodes[at].out), by_residual(t->nodes[next].in));
    pair->capacity = fmin(pair->capacity, fmin(by_residual(t->links[link].capacity[direction]), of_nodes));
  }
  return BANYAN_OK;
}

/* Finds the paths of n pairs to the same node with one search. */
static enum banyan_status add_paths(struct load_state *l, struct by_plan_pair *pairs, uint32_t n) {
  const struct by_node *nodes = l->topology->nodes;
  for (uint32_t i = 0; i < n; i++) l->sources[i] = pairs[i].from;
  BY_TRY(by_paths_between(&l->paths, pairs->to, l->sources, n, l->hops));
  for (uint32_t i = 0; i < n; i++) {
    if (l->hops[pairs[i].from].hops == UINT32_MAX)
      return by_fail(BANYAN_ERR_PLAN, "plan %s sends from \"%.64s\" to \"%.64s\", between which there is no path",
                     l->plan->name, nodes[pairs[i].from].name, nodes[pairs[i].to].name);
    BY_TRY(add_path(l, &pairs[i]));
  }
  return BANYAN_OK;
}

/* --- The tightest link or node. --- */

/* Whether this is tighter than all before; if so, it is recorded. */
static bool check_tightest(struct by_plan_load *load, double left, double share) {
  if (!(share > 0) || left / share >= load->rate) return false;
  load->rate = left / share;
  load->tightest_link = load->tightest_node = UINT32_MAX;
  return true;
}

static void find_tightest(struct by_plan_load *load, const struct by_topology *topology) {
  load->rate = INFINITY;
  load->tightest_link = load->tightest_node = UINT32_MAX;
  for (uint32_t i = 0; i < 2 * topology->n_links; i++)
    if (check_tightest(load, by_residual(topology->links[i / 2].capacity[i % 2]), load->link[i / 2][i % 2])) {
      load->tightest_link = i / 2;
      load->tightest_direction = i % 2;
    }
  for (uint32_t i = 0; i < 2 * topology->n_nodes; i++) {
    const struct by_node *node = &topology->nodes[i / 2];
    if (!check_tightest(load, by_residual(i % 2 ? node->in : node->out), load->node[i / 2][i % 2])) continue;
    load->tightest_node = i / 2;
    load->tightest_direction = i % 2;
  }
}

/* --- The load. --- */

static enum banyan_status compute_load(struct load_state *l, const struct by_class *class_, const uint32_t *node_of) {
  struct by_plan_load *out = l->out;
  if (node_of)
    memcpy(out->node_of, node_of, out->n_vertices * sizeof *node_of);
  else
    BY_TRY(by_plan_locate(l->plan, l->topology, l->out->node_of));
  BY_TRY(by_plan_pairs_list(l->plan, class_, out->node_of, &out->pairs, &out->n_pairs));
  BY_TRY(by_paths_init(&l->paths, l->topology));
  for (size_t i = 0, end; i < out->n_pairs; i = end) {
    for (end = i + 1; end < out->n_pairs && out->pairs[end].to == out->pairs[i].to;) end++;
    BY_TRY(add_paths(l, &out->pairs[i], (uint32_t)(end - i)));
  }
  find_tightest(out, l->topology);
  return BANYAN_OK;
}

enum banyan_status by_plan_load_init_at(struct by_plan_load *load, const struct by_plan *plan,
                                        const struct by_class *class_, const struct by_topology *topology,
                                        const uint32_t *node_of) {
  struct by_arena *arena = &load->arena;
  *load = (struct by_plan_load){.n_vertices = plan->n_vertices};
  load->link = by_arena_alloc(arena, topology->n_links, sizeof *load->link);
  load->node = by_arena_alloc(arena, topology->n_nodes, sizeof *load->node);
  load->node_of = BY_ARENA_ARRAY(arena, uint32_t, plan->n_vertices);
  struct load_state l = {.out = load,
                         .plan = plan,
                         .topology = topology,
                         .hops = BY_ARENA_ARRAY(arena, struct by_next_hop, topology->n_nodes),
                         .sources = BY_ARENA_ARRAY(arena, uint32_t, topology->n_nodes)};
  enum banyan_status status = arena->failed ? NO_MEMORY : compute_load(&l, class_, node_of);
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
