#include "plan_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "plan_pairs.h"
#include "switched_tree.h"
#include "topology_paths.h"

struct loading {
  struct by_plan_load *out;
  const struct by_plan *plan;
  const struct by_topology *topology;
  uint32_t *sources; /* of the pairs to one node */
  size_t room_steps;
};

#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the load of a plan")

/* --- which node a vertex is --- */

/* Ranks mostly come in the order of their hosts, so each is looked for behind the one before. */
static bool ranks_are_named(const struct by_plan *plan, const struct by_topology *topology) {
  for (uint32_t r = 0, node = 0; r < plan->n_ranks; r++) {
    node = by_topology_find_from(topology, plan->vertices[r].name, node);
    if (node == UINT32_MAX || topology->nodes[node].kind != BY_NODE_HOST) return false;
  }
  return true;
}

static enum banyan_status place_in_order(const struct by_plan *plan, const struct by_topology *t, uint32_t *node_of) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    if (!t->nodes[v].takes_part) continue;
    if (n < plan->n_ranks) node_of[n] = v;
    n++;
  }
  if (n == plan->n_ranks) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PLAN, "plan %s is for %u ranks, but %u hosts of the topology take part", plan->name,
                 plan->n_ranks, n);
}

/* A server is on the host that it is named after. */
static uint32_t find_other(const struct by_vertex *vertex, const struct by_topology *topology, uint32_t start) {
  char name[BY_PLAN_MOST_NAME + 1];
  size_t bytes = vertex->kind == BY_VERTEX_SERVER ? by_server_host_bytes(vertex->name) : strlen(vertex->name);
  snprintf(name, sizeof name, "%.*s", (int)bytes, vertex->name);
  return by_topology_find_from(topology, name, start);
}

enum banyan_status by_plan_place(const struct by_plan *plan, const struct by_topology *topology, uint32_t *node_of) {
  bool named = ranks_are_named(plan, topology);
  if (!named) BY_TRY(place_in_order(plan, topology, node_of));
  for (uint32_t i = named ? 0 : plan->n_ranks; i < plan->n_vertices; i++) {
    node_of[i] = find_other(&plan->vertices[i], topology, i ? node_of[i - 1] : 0);
    if (node_of[i] == UINT32_MAX)
      return by_fail(BANYAN_ERR_PLAN, "plan %s has a %s \"%.64s\", which is not in the topology", plan->name,
                     by_vertex_kind_name(plan->vertices[i].kind), plan->vertices[i].name);
  }
  return BANYAN_OK;
}

/* --- which links that takes --- */

static bool add_step(struct loading *l, uint32_t step) {
  struct by_plan_load *out = l->out;
  if (!BY_ARRAY_GROW(&out->steps, &l->room_steps, out->n_steps + 1)) return false;
  out->steps[out->n_steps++] = step;
  return true;
}

static enum banyan_status walk(struct loading *l, struct by_plan_pair *pair, const struct by_hop *hops) {
  const struct by_topology *t = l->topology;
  pair->delay = hops[pair->from].delay;
  pair->capacity = INFINITY;
  pair->step = l->out->n_steps;
  pair->n_steps = hops[pair->from].hops;
  for (uint32_t at = pair->from, next; at != pair->to; at = next) {
    uint32_t link = hops[at].link, way = t->links[link].a == at ? BY_AB : BY_BA;
    next = hops[at].next;
    if (!add_step(l, 2 * link + way)) return NO_MEMORY;
    l->out->link[link][way] += pair->share;
    l->out->node[at][0] += pair->share;
    l->out->node[next][1] += pair->share;
    double of_nodes = fmin(by_residual(t->nodes[at].out), by_residual(t->nodes[next].in));
    pair->capacity = fmin(pair->capacity, fmin(by_residual(t->links[link].capacity[way]), of_nodes));
  }
  return BANYAN_OK;
}

/* The n pairs to one node: one search serves them. */
static enum banyan_status lay(struct loading *l, const struct by_paths *paths, struct by_plan_pair *pairs, uint32_t n,
                              struct by_hop *hops) {
  const struct by_node *nodes = l->topology->nodes;
  for (uint32_t i = 0; i < n; i++) l->sources[i] = pairs[i].from;
  BY_TRY(by_paths_between(paths, pairs->to, l->sources, n, hops));
  for (uint32_t i = 0; i < n; i++) {
    if (hops[pairs[i].from].hops == UINT32_MAX)
      return by_fail(BANYAN_ERR_PLAN, "plan %s sends from \"%.64s\" to \"%.64s\", between which there is no way",
                     l->plan->name, nodes[pairs[i].from].name, nodes[pairs[i].to].name);
    BY_TRY(walk(l, &pairs[i], hops));
  }
  return BANYAN_OK;
}

static enum banyan_status lay_all(struct loading *l, const struct by_paths *paths, struct by_hop *hops) {
  struct by_plan_pair *pairs = l->out->pairs;
  for (size_t i = 0, end; i < l->out->n_pairs; i = end) {
    for (end = i + 1; end < l->out->n_pairs && pairs[end].to == pairs[i].to;) end++;
    BY_TRY(lay(l, paths, &pairs[i], (uint32_t)(end - i), hops));
  }
  return BANYAN_OK;
}

static enum banyan_status search_and_lay(struct loading *l) {
  struct by_paths paths;
  struct by_hop *hops = calloc((size_t)l->topology->n_nodes + 1, sizeof *hops);
  l->sources = calloc((size_t)l->topology->n_nodes + 1, sizeof *l->sources);
  enum banyan_status status = hops && l->sources ? by_paths_init(&paths, l->topology) : NO_MEMORY;
  if (status == BANYAN_OK) {
    status = lay_all(l, &paths, hops);
    by_paths_fini(&paths);
  }
  free(hops);
  free(l->sources);
  return status;
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

static enum banyan_status run(struct loading *l, const struct by_class *class_) {
  struct by_plan_load *out = l->out;
  BY_TRY(by_plan_place(l->plan, l->topology, l->out->node_of));
  BY_TRY(by_plan_pairs_list(l->plan, class_, out->node_of, &out->pairs, &out->n_pairs));
  BY_TRY(search_and_lay(l));
  find_tightest(out, l->topology);
  return BANYAN_OK;
}

enum banyan_status by_plan_load_init(struct by_plan_load *load, const struct by_plan *plan,
                                     const struct by_class *class_, const struct by_topology *topology) {
  struct loading l = {.out = load, .plan = plan, .topology = topology};
  *load = (struct by_plan_load){.n_vertices = plan->n_vertices,
                                .link = calloc((size_t)topology->n_links + 1, sizeof *load->link),
                                .node = calloc((size_t)topology->n_nodes + 1, sizeof *load->node),
                                .node_of = calloc(plan->n_vertices, sizeof *load->node_of)};
  enum banyan_status status = load->link && load->node && load->node_of ? run(&l, class_) : NO_MEMORY;
  if (status != BANYAN_OK) by_plan_load_fini(load);
  return status;
}

void by_plan_load_fini(struct by_plan_load *load) {
  free(load->link);
  free(load->node);
  free(load->node_of);
  free(load->pairs);
  free(load->steps);
  *load = (struct by_plan_load){0};
}

const struct by_plan_pair *by_plan_load_pair(const struct by_plan_load *load, uint32_t from, uint32_t to) {
  struct by_plan_pair key = {.from = load->node_of[from], .to = load->node_of[to]};
  if (!load->n_pairs) return NULL;
  return bsearch(&key, load->pairs, load->n_pairs, sizeof key, by_plan_pairs_compare);
}
