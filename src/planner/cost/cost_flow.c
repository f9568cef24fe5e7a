/* Who waits for whom in plain trees. */
#include "cost_flow.h"

#include <stdlib.h>

#include "cost_tree.h"
#include "plan_make.h"

/* A flow of more edges would have too many events. */
enum { MOST_EDGES = 1024 };
#define NONE UINT32_MAX

/* 0: there is no flow. */
static uint32_t count_edges(const struct by_cost *cost, const struct by_class *class_) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < class_->n_groups; i++)
    if (class_->groups[i].kind != BY_GROUP_TREE) return 0;
  for (uint32_t t = 0; t < cost->n_trees; t++) n += cost->trees[t].n_up + cost->trees[t].n_down;
  return n <= MOST_EDGES ? (uint32_t)n : 0;
}

static void add_edge(const struct by_cost *cost, struct by_cost_flow *flow, const struct by_cost_edge *edge, bool up) {
  struct by_flow_place *places = &flow->places[(size_t)flow->n_trees * cost->load.n_vertices];
  uint32_t e = flow->n_edges++;
  flow->edges[e] = (struct by_flow_edge){.way = edge->way,
                                         .from = edge->from,
                                         .to = edge->to,
                                         .tree = flow->n_trees,
                                         .beside = NONE,
                                         .sister = NONE,
                                         .up = up};
  flow->share[flow->n_trees] = edge->share;
  places[edge->from].used = places[edge->to].used = true;
  if (up) {
    flow->edges[e].sister = places[edge->to].below;
    places[edge->to].below = e;
    places[edge->to].needs++;
    places[edge->from].above = e;
  } else {
    places[edge->from].n_down++;
  }
  if (!edge->way) return;
  uint32_t link = cost->load.steps[edge->way->step];
  flow->edges[e].beside = flow->first[link];
  flow->first[link] = e;
}

static void add_tree(const struct by_cost *cost, struct by_cost_flow *flow, const struct by_cost_tree *tree,
                     uint32_t *n_downs) {
  uint32_t n = cost->load.n_vertices;
  struct by_flow_place *places = &flow->places[(size_t)flow->n_trees * n];
  for (uint32_t v = 0; v < n; v++) places[v] = (struct by_flow_place){.above = NONE, .below = NONE};
  for (uint32_t i = 0; i < tree->n_up; i++) add_edge(cost, flow, &tree->up[i], true);
  uint32_t down = flow->n_edges;
  for (uint32_t i = 0; i < tree->n_down; i++) add_edge(cost, flow, &tree->down[i], false);
  for (uint32_t v = 0; v < n; v++) {
    places[v].down = *n_downs;
    *n_downs += places[v].n_down;
    places[v].n_down = 0;
  }
  for (uint32_t i = 0; i < tree->n_down; i++) {
    struct by_flow_place *place = &places[tree->down[i].from];
    flow->downs[place->down + place->n_down++] = down + i;
  }
  flow->n_trees++;
}

enum banyan_status by_cost_flow_init(struct by_cost *cost, const struct by_class *class_) {
  struct by_arena *arena = &cost->arena;
  size_t edges = count_edges(cost, class_), links = 2 * (size_t)cost->topology->n_links;
  size_t places = (size_t)cost->n_trees * cost->load.n_vertices;
  struct by_cost_flow *flow = edges ? BY_ARENA_NEW(arena, struct by_cost_flow) : NULL;
  if (!edges) return BANYAN_OK;
  if (!flow) return by_plan_no_memory();
  *flow = (struct by_cost_flow){.edges = BY_ARENA_ARRAY(arena, struct by_flow_edge, edges),
                                .places = BY_ARENA_ARRAY(arena, struct by_flow_place, places),
                                .share = BY_ARENA_ARRAY(arena, double, cost->n_trees),
                                .downs = BY_ARENA_ARRAY(arena, uint32_t, edges),
                                .first = BY_ARENA_ARRAY(arena, uint32_t, links + 1)};
  if (!flow->edges || !flow->places || !flow->share || !flow->downs || !flow->first) return by_plan_no_memory();
  uint32_t n_downs = 0;
  for (size_t i = 0; i < links; i++) flow->first[i] = NONE;
  for (uint32_t t = 0; t < cost->n_trees; t++) add_tree(cost, flow, &cost->trees[t], &n_downs);
  cost->flow = flow;
  return BANYAN_OK;
}
