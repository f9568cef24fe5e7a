#include "planner.h"

#include <math.h>
#include <stdio.h>

#include "pack_exact.h"
#include "pack_few.h"
#include "pack_weights.h"
#include "plan_packed.h"
#include "planner_parts.h"

enum { FEW_TREES = 8, EXACT_VERTICES = 200, EXACT_RESOURCES = 600 };
/* Of the bound: more throughput is not looked for. */
static const double enough = 0.99;
/* Bounds for few trees: one to begin with, at once and often as good as exact, and one where trees do not reach it. */
static const struct by_weights_options roughly = {.goal = 0.97, .most_trees = 1000}, closely = {.goal = 0.991};

struct by_planner_options by_planner_defaults(void) {
  return (struct by_planner_options){
      .most_trees = 8, .most_height = INFINITY, .tolerance = NAN, .seed = 1, .rates = by_cost_defaults()};
}

/* Column generation solves a program with a row for each resource, again and again. */
static bool is_small(const struct by_graph *graph) {
  return graph->n_vertices <= EXACT_VERTICES && graph->n_resources <= EXACT_RESOURCES;
}

static enum banyan_status pack_exact(const struct by_graph *graph, struct by_packing **out) {
  struct by_exact_options options = by_exact_defaults();
  return by_pack_exact(graph, &options, out);
}

static enum banyan_status bound_by_weights(const struct by_graph *graph, const struct by_weights_options *options,
                                           double *bound) {
  struct by_packing *packing;
  BY_TRY(by_pack_weights(graph, options, &packing));
  *bound = fmin(*bound, packing->bound);
  by_packing_destroy(packing);
  return BANYAN_OK;
}

static enum banyan_status tighten(void *graph, double *bound) {
  return bound_by_weights(graph, &closely, bound);
}

/* With optional vertices, bounds stay loose however long they are looked for, and column generation finds the best. */
static enum banyan_status begin_with_bound(struct by_graph *graph, struct by_few_options *few) {
  few->context = graph;
  if (graph->n_vertices == graph->n_terminals) {
    few->tighten = tighten;
    return bound_by_weights(graph, &roughly, &few->bound);
  }
  if (!is_small(graph)) return tighten(graph, &few->bound);
  struct by_packing *largest;
  BY_TRY(pack_exact(graph, &largest));
  few->bound = largest->bound;
  by_packing_destroy(largest);
  return BANYAN_OK;
}

/* Who allows many trees wants throughput. */
static double tolerance_of(const struct by_planner_options *o) {
  if (!isnan(o->tolerance)) return o->tolerance;
  return o->most_trees > FEW_TREES ? 0.01 : 0.05;
}

/* bound = INFINITY: it is not known yet. */
static enum banyan_status pack_few(struct by_graph *graph, const struct by_planner_options *o, double bound,
                                   struct by_packing **out) {
  struct by_few_options few = by_few_defaults();
  few.most_trees = o->most_trees;
  few.by_delay = o->by_delay;
  few.most_height = o->most_height;
  few.tolerance = tolerance_of(o);
  few.least_rate = o->least_rate;
  few.seed = o->seed;
  few.bound = bound;
  if (isinf(bound)) BY_TRY(begin_with_bound(graph, &few));
  return by_pack_few(graph, &few, out);
}

/* As many trees as a plan may have. */
static enum banyan_status pack_weights(const struct by_graph *graph, struct by_packing **out) {
  static const struct by_weights_options fewer = {.most_trees = BY_PLAN_MOST_GROUPS};
  struct by_packing *packing;
  BY_TRY(by_pack_weights(graph, NULL, &packing));
  if (packing->n_trees > BY_PLAN_MOST_GROUPS) {
    by_packing_destroy(packing);
    BY_TRY(by_pack_weights(graph, &fewer, &packing));
  }
  *out = packing;
  return BANYAN_OK;
}

static enum banyan_status pack(struct by_graph *graph, const struct by_planner_options *o, struct by_packing **out) {
  if (o->method == BY_PLANNER_EXACT) return pack_exact(graph, out);
  if (o->method == BY_PLANNER_WEIGHTS) return pack_weights(graph, out);
  return pack_few(graph, o, INFINITY, out);
}

/* --- by time --- */

static enum banyan_status add_trees(struct by_planned *p, const struct by_topology *topology,
                                    const struct by_planner_options *o, const struct by_packing *packing,
                                    const char *more) {
  struct by_plan *plan;
  char what[64];
  uint32_t n = packing->n_trees;
  BY_TRY(by_plan_of_packing("trees", topology, p->graph, packing, o->by_delay, &plan));
  snprintf(what, sizeof what, "%u packed tree%s%s", n, n == 1 ? "" : "s", more);
  return by_weighed_add(&p->weighed, what, plan, topology, &o->rates);
}

/* What was given up for less height may be worth more than the height. */
static enum banyan_status add_higher_trees(struct by_planned *p, const struct by_topology *topology,
                                           const struct by_planner_options *o) {
  struct by_planner_options higher = *o;
  struct by_packing *packing;
  if (o->method != BY_PLANNER_FEW || !is_small(p->graph) || p->packing->throughput >= enough * p->packing->bound)
    return BANYAN_OK;
  higher.tolerance = 0;
  BY_TRY(pack_few(p->graph, &higher, p->packing->bound, &packing));
  enum banyan_status status = add_trees(p, topology, o, packing, " of any height");
  by_packing_destroy(packing);
  return status;
}

/* A plan that was weighed for its rate alone says so. */
static void add_facts(struct by_plan *plan, const struct by_candidate *used, double bound) {
  const struct by_class *class_ = &plan->classes[plan->n_classes - 1];
  if (plan->facts.throughput > 0) return;
  plan->facts = (struct by_plan_facts){.throughput = fmin(used->rate, bound), .bound = bound};
  plan->facts.ratio = plan->facts.throughput / bound;
  for (uint32_t i = 0; i < class_->n_groups; i++)
    class_->groups[i].rate = class_->groups[i].share * plan->facts.throughput;
}

static enum banyan_status add_embedding(struct by_planned *p, const struct by_topology *topology,
                                        const struct by_planner_options *o) {
  struct by_plan *plan;
  char what[64];
  uint32_t n = by_embedding_facts(p->embedding).n_used;
  BY_TRY(by_embedding_plan(p->embedding, "trees", &plan));
  snprintf(what, sizeof what, "%u of the cluster's ways", n);
  return by_weighed_add(&p->weighed, what, plan, topology, &o->rates);
}

static enum banyan_status weigh(const char *name, struct by_planned *p, const struct by_topology *topology,
                                const struct by_planner_options *o) {
  struct by_weighed *weighed = &p->weighed;
  double bound = p->embedding ? by_embedding_facts(p->embedding).bound : p->packing->bound;
  BY_TRY(by_weighed_init(weighed));
  BY_TRY(p->embedding ? add_embedding(p, topology, o) : add_trees(p, topology, o, p->packing, ""));
  if (o->weighing == BY_PLANNER_WEIGH_ALL && p->packing) BY_TRY(add_higher_trees(p, topology, o));
  if (o->weighing != BY_PLANNER_WEIGH_NONE) BY_TRY(by_planned_add_candidates(p, topology, o));
  by_weighed_choose(weighed, o->weighing == BY_PLANNER_WEIGH_ALL);
  BY_TRY(by_weighed_plan(weighed, name, &p->plan));
  add_facts(p->plan, &weighed->candidates[weighed->used[BY_WEIGH_SIZES - 1]], bound);
  return BANYAN_OK;
}

static enum banyan_status embed(const struct by_topology *topology, const struct by_planner_options *o,
                                struct by_embedding **out) {
  struct by_embed_options options = by_embed_defaults();
  if (o->by_delay && !isinf(o->most_height))
    return by_fail(BANYAN_ERR_ARGUMENT, "for a job on a shared cluster the height is limited in hops only");
  options.choice = o->choice;
  options.most_trees = o->most_trees;
  options.most_height = o->most_height;
  options.least_rate = o->least_rate;
  return by_embed(topology, &options, out);
}

enum banyan_status by_planner_run(const char *name, const struct by_topology *topology,
                                  const struct by_planner_options *options, struct by_planned *out) {
  *out = (struct by_planned){.rates = options->rates};
  BY_TRY(by_graph_of_topology(topology, &options->choice, &out->graph));
  enum banyan_status status = options->method == BY_PLANNER_CLUSTER ? embed(topology, options, &out->embedding)
                                                                    : pack(out->graph, options, &out->packing);
  if (status == BANYAN_OK) status = weigh(name, out, topology, options);
  if (status != BANYAN_OK) by_planned_fini(out);
  return status;
}

void by_planned_fini(struct by_planned *planned) {
  by_plan_destroy(planned->plan);
  by_packing_destroy(planned->packing);
  by_embedding_destroy(planned->embedding);
  by_graph_destroy(planned->graph);
  by_weighed_fini(&planned->weighed);
  *planned = (struct by_planned){0};
}
