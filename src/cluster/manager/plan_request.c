#include "plan_request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_load.h"

static const double way_round = 0.5; /* of what a job carries while higher classes are silent */

/* ---- what a plan puts on the network */

/* Returns how many there are; out: NULL, or room for them. */
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

/* ---- running it */

static enum banyan_status embed(struct by_plan_request *request, const struct by_topology *network) {
  struct by_embed_options options = by_embed_defaults();
  options.choice = (struct by_graph_choice){.participants = request->nodes,
                                            .n_participants = request->n_nodes,
                                            .helpers = request->helpers,
                                            .n_helpers = request->n_helpers};
  by_embedding_destroy(request->embedding);
  request->embedding = NULL;
  if (!request->old) return by_embed(network, &options, &request->embedding);
  struct by_embed_change change;
  return by_embed_again(network, &options, request->old, 0, &change, &request->embedding);
}

static enum banyan_status take(struct by_plan_request *request, const struct by_topology *network) {
  BY_TRY(by_embedding_plan(request->embedding, "cluster", &request->plan));
  BY_TRY(by_link_shares_find(request->plan, network, &request->shares, &request->rate));
  request->gain = request->rate / request->rate_before;
  request->carries = request->rate;
  return BANYAN_OK;
}

static double left_of(const struct by_topology *t, uint32_t step) {
  if (step < 2 * t->n_links) return by_residual(t->links[step / 2].capacity[step % 2]);
  const struct by_node *node = &t->nodes[step / 2 - t->n_links];
  return by_residual(step % 2 ? node->in : node->out);
}

/* Whether higher classes take something where the current plan, or the ring, sends. */
static bool gives_way(const struct by_plan_request *request) {
  uint32_t i = 0, n = request->calm.nodes ? request->before.n : 0;
  while (i < n && left_of(&request->residual, request->before.items[i].step) >=
                      left_of(&request->calm, request->before.items[i].step))
    i++;
  return i < n;
}

/* Higher classes come and go: when they are silent the job has all of the network, and what it has beside them is next
 * to nothing. So trees that make most of that little would cost more than they gain. How long they will be silent
 * nobody knows: what trees gain in one of both cases they may lose in the other only in part. */
static enum banyan_status take_beside_higher(struct by_plan_request *request, const struct by_plan *current) {
  double calm, other;
  BY_TRY(by_link_shares_find(current, &request->calm, NULL, &calm));
  if (by_embedding_facts(request->embedding).throughput >= way_round * calm) {
    BY_TRY(take(request, &request->residual));
    BY_TRY(by_link_shares_find(request->plan, &request->calm, NULL, &other));
    request->gain = sqrt(request->gain * other / calm);
    return BANYAN_OK;
  }
  request->rate_before = calm;
  BY_TRY(embed(request, &request->calm));
  BY_TRY(take(request, &request->calm));
  BY_TRY(by_link_shares_find(request->plan, &request->residual, NULL, &other));
  request->gain = sqrt(request->gain * other / request->rate_now);
  request->carries = other;
  return BANYAN_OK;
}

/* From the current plan, or the ring. */
static enum banyan_status run(struct by_plan_request *request, const struct by_plan *current) {
  BY_TRY(by_link_shares_find(current, &request->residual, &request->before, &request->rate_now));
  request->rate_before = request->rate_now;
  BY_TRY(embed(request, &request->residual));
  return gives_way(request) ? take_beside_higher(request, current) : take(request, &request->residual);
}

void by_plan_request_run(struct by_plan_request *request) {
  const struct by_plan *current = request->current;
  struct by_plan *ring = NULL;
  if (!current) {
    request->status = by_plan_ring_over(&request->residual, request->nodes, request->n_nodes, &ring);
    current = ring; /* NULL: there is none */
  }
  if (current) request->status = run(request, current);
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
  free(request->shares.items);
  free(request->before.items);
  by_embedding_destroy(request->old);
  by_embedding_destroy(request->embedding);
  by_plan_destroy(request->plan);
  free(request);
}
