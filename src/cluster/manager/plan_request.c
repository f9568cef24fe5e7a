/* Runs the planner for one job, and finds the load and the cells of the new plan. */
#include "plan_request.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_message.h"
#include "log.h"
#include "plan_load.h"
#include "planner.h"
#include "topology.h"
#include "topology_paths.h"

static const double min_detour = 0.5; /* Minimum rate around higher classes, as a fraction of that without them. */

/* ---- the load of a plan */

/* Lists the shares and returns their number; out: NULL, or an array for them. */
static uint32_t list_shares(const struct by_plan_load *load, const struct by_topology *t, struct by_link_share *out) {
  uint32_t n = 0, links = 2 * t->n_links;
  for (uint32_t s = 0; s < links + 2 * t->n_nodes; s++) {
    uint32_t i = s < links ? s / 2 : (s - links) / 2;
    double part = s < links ? load->link[i][s % 2] : load->node[i][s % 2];
    bool counts = s < links || isfinite(s % 2 ? t->nodes[i].in.all : t->nodes[i].out.all);
    if (!(part > 0) || !counts) continue;
    if (out) out[n] = (struct by_link_share){s, part};
    n++;
  }
  return n;
}

enum banyan_status by_link_shares_find(const struct by_plan *plan, const struct by_topology *topology,
                                       struct by_link_shares *out, double *rate) {
  struct by_plan_load load;
  if (out) *out = (struct by_link_shares){0};
  BY_TRY(by_plan_load_init(&load, plan, &plan->classes[plan->n_classes - 1], topology));
  if (out) out->items = calloc((size_t)list_shares(&load, topology, NULL) + 1, sizeof *out->items);
  if (out && out->items) out->n = list_shares(&load, topology, out->items);
  if (rate) *rate = load.rate;
  by_plan_load_fini(&load);
  return !out || out->items ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the load of a plan");
}

enum banyan_status by_plan_ring_over(const struct by_topology *topology, const uint32_t *nodes, uint32_t n,
                                     struct by_plan **out) {
  struct by_plan *plan;
  BY_TRY(by_plan_builtin("ring", n, &plan));
  for (uint32_t r = 0; r < n; r++) {
    plan->vertices[r].name = by_arena_string(&plan->arena, topology->nodes[nodes[r]].name);
    if (plan->vertices[r].name) continue;
    by_plan_destroy(plan);
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a ring");
  }
  *out = plan;
  return BANYAN_OK;
}

/* ---- the cells that a plan needs */

static const double turnaround = 100e-6; /* Seconds that hosts and switches add to a round trip, as in placement.h. */

struct needs_builder {
  const struct by_plan *plan;
  const struct by_topology *topology;
  const uint32_t *node_of;
  struct by_paths paths;
  struct by_next_hop *hops;
  struct by_plan_needs *out;
  uint32_t allocated;
};

/* Returns the minimum bit/s that are left on the path of a worker. */
static double left_on_path(const struct needs_builder *n, uint32_t from, uint32_t server) {
  double rate = INFINITY;
  for (uint32_t v = from; v != server && n->hops[v].link != UINT32_MAX; v = n->hops[v].next) {
    const struct by_link *link = &n->topology->links[n->hops[v].link];
    rate = fmin(rate, by_residual(link->capacity[link->a == v ? BY_AB : BY_BA]));
  }
  return rate;
}

/* Returns the slots of a tree: the fragments in flight to the server and back, at its rate or, if that is unknown, at
 * the rate that its links have left. */
static uint32_t slots_of(const struct needs_builder *n, const struct by_group *group, uint32_t server) {
  double rate = group->rate > 0 ? group->rate : INFINITY, delay = 0;
  for (uint32_t i = 0; i < group->n; i++) {
    uint32_t vertex = group->order[i];
    if (n->plan->vertices[vertex].kind != BY_VERTEX_RANK) continue;
    delay = fmax(delay, n->hops[n->node_of[vertex]].delay);
    if (!(group->rate > 0)) rate = fmin(rate, left_on_path(n, n->node_of[vertex], server));
  }
  double slots = isfinite(rate) ? ceil(rate / 8 * (2 * delay + turnaround) / BY_PLAN_NEED_PAYLOAD) : 1;
  return slots < UINT16_MAX ? (uint32_t)slots : UINT16_MAX;
}

/* A tree that several classes have needs its cells once. */
static enum banyan_status add_need(struct needs_builder *n, const char *server, uint32_t node, uint32_t slots) {
  for (uint32_t i = 0; i < n->out->n; i++) {
    struct by_plan_need *need = &n->out->all[i];
    if (need->node != node || strcmp(need->server, server) != 0) continue;
    if (need->slots < slots) need->slots = slots;
    return BANYAN_OK;
  }
  if (!BY_ARRAY_GROW(&n->out->all, &n->allocated, (size_t)n->out->n + 1))
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the cells of a plan");
  n->out->all[n->out->n++] = (struct by_plan_need){server, node, slots};
  return BANYAN_OK;
}

static enum banyan_status add_tree(struct needs_builder *n, const struct by_group *group) {
  if (group->kind != BY_GROUP_TREE) return BANYAN_OK;
  uint32_t root = group->order[group->root];
  if (n->plan->vertices[root].kind != BY_VERTEX_SERVER) return BANYAN_OK;
  BY_TRY(by_paths_to(&n->paths, n->node_of[root], n->hops));
  uint32_t slots = slots_of(n, group, n->node_of[root]);
  for (uint32_t i = 0; i < group->n; i++) {
    uint32_t vertex = group->order[i];
    if (n->plan->vertices[vertex].kind == BY_VERTEX_SWITCH && by_group_adds(group, vertex))
      BY_TRY(add_need(n, n->plan->vertices[root].name, n->node_of[vertex], slots));
  }
  return BANYAN_OK;
}

static enum banyan_status add_trees(struct needs_builder *n, uint32_t *node_of) {
  BY_TRY(by_plan_locate(n->plan, n->topology, node_of));
  BY_TRY(by_paths_init(&n->paths, n->topology));
  for (uint32_t c = 0; c < n->plan->n_classes; c++)
    for (uint32_t g = 0; g < n->plan->classes[c].n_groups; g++) BY_TRY(add_tree(n, &n->plan->classes[c].groups[g]));
  return BANYAN_OK;
}

enum banyan_status by_plan_needs_find(const struct by_plan *plan, const struct by_topology *topology,
                                      struct by_plan_needs *out) {
  uint32_t *node_of = calloc((size_t)plan->n_vertices + 1, sizeof *node_of), v = plan->n_ranks;
  struct needs_builder needs_builder = {.plan = plan, .topology = topology, .node_of = node_of, .out = out};
  *out = (struct by_plan_needs){0};
  while (v < plan->n_vertices && plan->vertices[v].kind != BY_VERTEX_SERVER) v++;
  needs_builder.hops = calloc(topology->n_nodes, sizeof *needs_builder.hops);
  enum banyan_status status =
      node_of && needs_builder.hops ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the cells of a plan");
  if (status == BANYAN_OK && v < plan->n_vertices) status = add_trees(&needs_builder, node_of);
  by_paths_fini(&needs_builder.paths);
  free(needs_builder.hops);
  free(node_of);
  if (status == BANYAN_OK) return BANYAN_OK;
  free(out->all);
  *out = (struct by_plan_needs){0};
  return status;
}

/* ---- planning */

static_assert((int)BY_PLAN_CALLS == (int)BY_WEIGH_CALLS, "sizes of calls as the planner has them");

static struct by_planner_options options_of(const struct by_plan_request *request) {
  struct by_planner_options options = by_planner_defaults();
  options.method = BY_PLANNER_CLUSTER;
  options.weighing = BY_PLANNER_WEIGH_SMALL;
  options.choice = (struct by_graph_choice){.participants = request->nodes,
                                            .n_participants = request->n_nodes,
                                            .helpers = request->helpers,
                                            .n_helpers = request->n_helpers};
  options.servers = request->servers;
  options.n_servers = request->n_servers;
  options.allowed = request->ways;
  options.old = request->old;
  options.calls = request->has_calls ? request->calls : NULL;
  options.rates = request->rates;
  if (request->penalty > 0) options.penalty = request->penalty;
  if (request->steps) options.steps = request->steps;
  if (request->trees) options.max_trees = request->trees;
  if (request->queues) options.queues = request->queues;
  return options;
}

static enum banyan_status make_plan(struct by_plan_request *request, const struct by_topology *network) {
  const struct by_planner_options options = options_of(request);
  struct by_planned planned;
  by_embedding_destroy(request->embedding);
  by_plan_destroy(request->plan);
  request->embedding = NULL;
  request->plan = NULL;
  BY_TRY(by_planner_run("cluster", network, &options, &planned));
  request->embedding = planned.embedding;
  request->plan = planned.plan;
  planned.embedding = NULL;
  planned.plan = NULL;
  by_planned_fini(&planned);
  return BANYAN_OK;
}

static enum banyan_status store_result(struct by_plan_request *request, const struct by_topology *network) {
  free(request->shares.items);
  BY_TRY(by_link_shares_find(request->plan, network, &request->shares, &request->rate));
  free(request->needs.all);
  BY_TRY(by_plan_needs_find(request->plan, network, &request->needs));
  request->gain = request->rate / request->rate_before;
  request->carries = request->rate;
  return BANYAN_OK;
}

static double residual_of(const struct by_topology *t, uint32_t step) {
  if (step < 2 * t->n_links) return by_residual(t->links[step / 2].capacity[step % 2]);
  const struct by_node *node = &t->nodes[step / 2 - t->n_links];
  return by_residual(step % 2 ? node->in : node->out);
}

/* Tells whether higher classes send where the current plan, or the ring, does. */
static bool gives_way(const struct by_plan_request *request) {
  uint32_t i = 0, n = request->calm.nodes ? request->before.n : 0;
  while (i < n && residual_of(&request->residual, request->before.items[i].step) >=
                      residual_of(&request->calm, request->before.items[i].step))
    i++;
  return i < n;
}

/* Higher classes come and go: without them the job has the whole network, with them almost nothing. So trees that are
 * best for that little would cost more than they gain. As nobody knows how long they will be silent, a gain in one case
 * may be a loss in the other, and the geometric mean of both counts. */
static enum banyan_status plan_beside_higher(struct by_plan_request *request, const struct by_plan *current) {
  double calm, other;
  BY_TRY(by_link_shares_find(current, &request->calm, NULL, &calm));
  if (by_embedding_facts(request->embedding).throughput >= min_detour * calm) {
    BY_TRY(store_result(request, &request->residual));
    BY_TRY(by_link_shares_find(request->plan, &request->calm, NULL, &other));
    request->gain = sqrt(request->gain * other / calm);
    return BANYAN_OK;
  }
  request->rate_before = calm;
  BY_TRY(make_plan(request, &request->calm));
  BY_TRY(store_result(request, &request->calm));
  BY_TRY(by_link_shares_find(request->plan, &request->residual, NULL, &other));
  request->gain = sqrt(request->gain * other / request->rate_now);
  request->carries = other;
  return BANYAN_OK;
}

/* Prints the topology for the job, which plans for its own groups. Without it they keep their built-in plans. */
static void print_topology(struct by_plan_request *request) {
  struct by_topology *part;
  struct by_text text;
  if (by_topology_part(&request->residual, request->nodes, request->n_nodes, &part) != BANYAN_OK) {
    by_info("manager", "a job plans for no groups: %s", banyan_error_text());
    return;
  }
  by_text_init(&text);
  by_topology_print(part, &text);
  by_topology_destroy(part);
  free(request->topology);
  request->topology = text.failed || text.length > BY_CLUSTER_TOPOLOGY ? NULL : strdup(by_text_get(&text));
  by_text_fini(&text);
}

/* Plans from the current plan, or the ring. */
static enum banyan_status plan_from(struct by_plan_request *request, const struct by_plan *current) {
  BY_TRY(by_link_shares_find(current, &request->residual, &request->before, &request->rate_now));
  request->rate_before = request->rate_now;
  BY_TRY(make_plan(request, &request->residual));
  return gives_way(request) ? plan_beside_higher(request, current) : store_result(request, &request->residual);
}

void by_plan_request_run(struct by_plan_request *request) {
  const struct by_plan *current = request->current;
  struct by_plan *ring = NULL;
  if (!current) {
    request->status = by_plan_ring_over(&request->residual, request->nodes, request->n_nodes, &ring);
    current = ring; /* NULL if it failed. */
  }
  if (current) request->status = plan_from(request, current);
  if (request->status == BANYAN_OK) print_topology(request);
  by_plan_destroy(ring);
  if (request->status != BANYAN_OK) snprintf(request->why, sizeof request->why, "%s", banyan_error_text());
}

void by_plan_request_destroy(struct by_plan_request *request) {
  if (!request) return;
  free(request->residual.nodes);
  free(request->residual.links);
  free(request->calm.nodes);
  free(request->calm.links);
  free(request->nodes);
  free(request->helpers);
  free(request->servers);
  free(request->shares.items);
  free(request->needs.all);
  free(request->before.items);
  by_embedding_destroy(request->old);
  by_embedding_destroy(request->embedding);
  by_plan_destroy(request->plan);
  free(request->topology);
  free(request);
}
