/* Runs the planner: packs trees, weighs other candidates by predicted time, and combines the fastest for each size. */
#include "planner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "own_classes.h"
#include "plan.h"
#include "plan_make.h"
#include "plan_order.h"

/* A candidate for smaller buffers must be faster than that for larger ones by the part `worth`. Candidates whose times
 * differ by at most the part `nearly` count as equal, and the simpler one is preferred. */
static const double worth = 0.05, nearly = 0.01;

enum { SMALLEST_SHIFT = 3, STEP_SHIFT = 1 };

/* Predicts the times of a plan and adds it as a candidate. Takes ownership of the plan, also on failure. A plan whose
 * load cannot be computed (BANYAN_ERR_UNSUPPORTED: too many pairs) is ignored. */
static enum banyan_status add_candidate(struct by_weighed *weighed, const char *what, struct by_plan *plan,
                                        const struct by_topology *topology, const struct by_cost_rates *rates) {
  struct by_candidate *next = &weighed->candidates[weighed->n];
  struct by_cost cost;
  enum banyan_status status =
      weighed->n < BY_WEIGH_MAX ? by_cost_init(&cost, plan, plan->classes, topology, rates) : BANYAN_ERR_UNSUPPORTED;
  if (status != BANYAN_OK) {
    by_plan_destroy(plan);
    return status == BANYAN_ERR_UNSUPPORTED ? BANYAN_OK : status;
  }
  *next = (struct by_candidate){.plan = plan, .rate = cost.load.rate};
  snprintf(next->what, sizeof next->what, "%s", what);
  bool known = true;
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) {
    next->seconds[i] = by_cost_time(&cost, (double)weighed->sizes[i]);
    known = known && !isnan(next->seconds[i]);
  }
  by_cost_fini(&cost);
  weighed->n++;
  return known ? BANYAN_OK : by_plan_no_memory();
}

static bool is_ever_faster(const struct by_candidate *a, const struct by_candidate *b) {
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++)
    if ((1 + nearly) * a->seconds[i] < b->seconds[i]) return true;
  return false;
}

/* Compares the last two candidates, which differ only in the order of ranks. If one of them is never faster than the
 * other, removes it. */
static void drop_slower_candidate(struct by_weighed *weighed) {
  struct by_candidate *last = &weighed->candidates[weighed->n - 1], *before = last - 1;
  if (is_ever_faster(last, before)) {
    if (is_ever_faster(before, last)) return;
    struct by_candidate dropped = *before;
    *before = *last;
    *last = dropped;
  }
  by_plan_destroy(last->plan);
  *last = (struct by_candidate){0};
  weighed->n--;
}

/* Returns the candidate with the fewest groups among those that are nearly as fast as the fastest; of equal ones the
 * first.
 *
 * Between two hosts, halving is preferred: a tree sends its results over the link on which it also sends data. Grants
 * wait behind this data, which predictions do not model: 16 MiB at 250 Mbit/s took 564 to 803 ms along one tree, and
 * 563 ms by halving, which every job has built in. */
static uint32_t find_fastest(const struct by_weighed *weighed, uint32_t size) {
  double min = INFINITY;
  uint32_t best = UINT32_MAX, groups = UINT32_MAX;
  for (uint32_t i = 0; i < weighed->n; i++) min = fmin(min, weighed->candidates[i].seconds[size]);
  if (weighed->halving && weighed->candidates[weighed->halving].seconds[size] <= (1 + nearly) * min)
    return weighed->halving;
  for (uint32_t i = 0; i < weighed->n; i++) {
    const struct by_candidate *candidate = &weighed->candidates[i];
    if (candidate->seconds[size] > (1 + nearly) * min || candidate->plan->classes->n_groups >= groups) continue;
    groups = candidate->plan->classes->n_groups;
    best = i;
  }
  return best;
}

/* Returns whether there are known calls that are larger than the previous size and at most as large as this one. */
static bool is_called(const uint64_t *calls, uint32_t size) {
  uint32_t log2 = SMALLEST_SHIFT + STEP_SHIFT * size;
  bool called = !calls || calls[log2] || calls[log2 - STEP_SHIFT];
  for (uint32_t i = 0; size == 0 && !called && i < log2; i++) called = calls[i];
  for (uint32_t i = log2; size + 1 == BY_WEIGH_SIZES && !called && i < BY_WEIGH_CALLS; i++) called = calls[i];
  return called;
}

/* Chooses a candidate for every size, from the largest down. The largest size gets the fastest candidate, or the first
 * one unless `any_for_largest`. A smaller size gets another candidate only if that is clearly faster, so that there are
 * few classes. Sizes without calls use the candidate of their neighbours. */
static void choose_candidates(struct by_weighed *weighed, bool any_for_largest, const uint64_t *calls) {
  const struct by_candidate *all = weighed->candidates;
  uint32_t now = any_for_largest ? find_fastest(weighed, BY_WEIGH_SIZES - 1) : 0, largest = BY_WEIGH_SIZES;
  while (largest > 1 && !is_called(calls, largest - 1)) largest--;
  for (uint32_t size = largest; size-- > 0;) {
    uint32_t best = find_fastest(weighed, size);
    bool weighs = size + 1 < BY_WEIGH_SIZES && is_called(calls, size);
    if (weighs && all[now].seconds[size] > (1 + worth) * all[best].seconds[size]) now = best;
    weighed->used[size] = now;
  }
  for (uint32_t size = largest; size < BY_WEIGH_SIZES; size++) weighed->used[size] = weighed->used[largest - 1];
}

/* Makes the plan of the choices. Adjacent sizes with the same choice are one class. */
static enum banyan_status combine_choices(const struct by_weighed *weighed, const char *name, struct by_plan **out) {
  struct by_plan_part parts[BY_WEIGH_SIZES] = {{0}};
  uint32_t n = 0;
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) {
    const struct by_plan *plan = weighed->candidates[weighed->used[i]].plan;
    if (n && parts[n - 1].plan == plan) n--;
    parts[n++] = (struct by_plan_part){.plan = plan, .up_to = weighed->sizes[i]};
  }
  return by_plan_join(name, parts, n, out);
}

/* --- Candidates beside the packed trees: a low tree, rings and other built-ins in a good order. --- */

/* If the number of ranks times that of edges exceeds MAX_WORK, only low trees and rings are considered. Orders as given
 * are considered for at most MAX_GIVEN_ORDER ranks. */
enum { MAX_WORK = 1 << 18, MAX_GIVEN_ORDER = 64 };

struct weighing {
  const struct by_topology *topology;
  const struct by_planner_options *options;
  struct by_planned *planned;
  const struct by_plan *names; /* A plan over the ranks, which has their names. */
  uint32_t n;                  /* The number of ranks. */
  uint32_t *order, *other;     /* The good order of ranks, and scratch memory for orders derived from it. */
};

/* --- A low tree. --- */

static enum banyan_status add_plan(struct weighing *w, const char *what, struct by_plan *plan) {
  return add_candidate(&w->planned->weighed, what, plan, w->topology, &w->options->rates);
}

static enum banyan_status add_low_tree(struct weighing *w, bool hops, const char *what) {
  const struct by_graph *graph = w->planned->graph;
  struct by_packing *packing;
  struct by_plan *plan;
  BY_TRY(by_pack_low(graph, hops, &packing));
  if (!packing) return BANYAN_OK;
  packing->bound = packing->throughput;
  enum banyan_status status = by_plan_of_packing("tree", w->topology, graph, packing, !hops, &plan);
  by_packing_destroy(packing);
  return status == BANYAN_OK ? add_plan(w, what, plan) : status;
}

/* --- Built-ins. --- */

static enum banyan_status add_builtin(struct weighing *w, const char *name, const uint32_t *order, const char *what) {
  struct by_plan *plan, *ordered;
  BY_TRY(by_plan_builtin(name, w->n, &plan));
  enum banyan_status status = by_plan_reorder(plan, order, w->names, &ordered);
  by_plan_destroy(plan);
  return status == BANYAN_OK ? add_plan(w, what, ordered) : status;
}

/* Adds a built-in plan in the good order of ranks, and in the given order if that differs: an order that is good for a
 * ring need not be good for all plans. */
static enum banyan_status add_in_orders(struct weighing *w, const char *name, const char *what) {
  uint32_t before = w->planned->weighed.n;
  bool given = true;
  char as_given[64];
  BY_TRY(add_builtin(w, name, w->order, what));
  for (uint32_t r = 0; r < w->n; r++) {
    given &= w->order[r] == r;
    w->other[r] = r;
  }
  if (w->n > MAX_GIVEN_ORDER || given) return BANYAN_OK;
  snprintf(as_given, sizeof as_given, "%s, in rank order", what);
  BY_TRY(add_builtin(w, name, w->other, as_given));
  if (w->planned->weighed.n == before + 2) drop_slower_candidate(&w->planned->weighed);
  return BANYAN_OK;
}

/* Reverses the bits of positions: in halving the most distant positions exchange most data, so these become
 * adjacent. */
static void reverse_bits(const struct weighing *w) {
  uint32_t bits = 0;
  while (1u << bits < w->n) bits++;
  for (uint32_t u = 0; u < w->n; u++) {
    uint32_t turned = 0;
    for (uint32_t i = 0; i < bits; i++) turned |= (u >> i & 1) << (bits - 1 - i);
    w->other[turned] = w->order[u];
  }
}

/* Orders hosts by rack, racks in the order of their first hosts. Returns the number of hosts in each rack; 0: the
 * numbers differ, or there is a single rack. */
static uint32_t gather_racks(const struct weighing *w) {
  const struct by_node *nodes = w->topology->nodes;
  const uint32_t *node = w->planned->graph->node;
  uint32_t placed = 0, of_rack = 0;
  bool *done = calloc(w->n, sizeof *done);
  for (uint32_t i = 0; done && i < w->n; i++) {
    uint32_t begin = placed;
    const char *rack = nodes[node[w->order[i]]].group;
    for (uint32_t k = i; !done[i] && k < w->n; k++)
      if (!done[k] && (k == i || (*rack && strcmp(nodes[node[w->order[k]]].group, rack) == 0))) {
        w->other[placed++] = w->order[k];
        done[k] = k != i;
      }
    if (placed == begin) continue;
    done[i] = true;
    if (of_rack && placed - begin != of_rack) {
      of_rack = 0;
      break;
    }
    of_rack = placed - begin;
  }
  free(done);
  return placed == w->n && of_rack > 1 && of_rack < w->n ? of_rack : 0;
}

static enum banyan_status add_rings(struct weighing *w) {
  char name[32];
  for (uint32_t i = 0; i < w->n; i++) w->other[i] = w->order[i];
  BY_TRY(by_ring_search(w->topology, w->planned->graph, w->other));
  BY_TRY(add_builtin(w, "ring", w->other, "ring"));
  uint32_t of_rack = gather_racks(w);
  if (!of_rack) return BANYAN_OK;
  snprintf(name, sizeof name, "ring2d:%ux%u", of_rack, w->n / of_rack);
  return add_builtin(w, name, w->other, "rings in racks, then across");
}

static enum banyan_status add_few_steps(struct weighing *w) {
  if (w->n <= 256) {
    BY_TRY(add_in_orders(w, "halving", "halving"));
    if (w->n == 2) w->planned->weighed.halving = w->planned->weighed.n - 1;
    if ((w->n & (w->n - 1)) == 0 && w->n > 4) {
      reverse_bits(w);
      BY_TRY(add_builtin(w, "halving", w->other, "halving, mostly between neighbours"));
    }
    BY_TRY(add_in_orders(w, "doubling", "doubling"));
  }
  if (w->n <= 64) BY_TRY(add_builtin(w, "sharded", w->order, "sharded"));
  if (w->n <= 16) BY_TRY(add_in_orders(w, "exchange", "exchange"));
  return BANYAN_OK;
}

static enum banyan_status add_builtins_and_trees(struct weighing *w) {
  const struct by_graph *graph = w->planned->graph;
  bool large = (uint64_t)w->n * graph->n_edges > MAX_WORK, delays = false;
  for (uint32_t e = 0; e < graph->n_edges; e++) delays |= graph->edges[e].delay > 0;
  BY_TRY(by_plan_order(w->topology, graph, w->options->seed, w->order));
  if (w->options->allowed & BY_PLAN_TREE) BY_TRY(add_low_tree(w, true, "one tree of few hops"));
  if (delays && w->options->allowed & BY_PLAN_TREE) BY_TRY(add_low_tree(w, false, "one tree of low delay"));
  if (w->options->allowed & BY_PLAN_RING) BY_TRY(add_rings(w));
  if (large || !(w->options->allowed & BY_PLAN_TREE)) return BANYAN_OK;
  BY_TRY(add_in_orders(w, "tree:2", "tree of two children"));
  BY_TRY(add_in_orders(w, "tree:4", "tree of four children"));
  BY_TRY(add_in_orders(w, "double-tree", "double binary tree"));
  return add_few_steps(w);
}

/* Adds all candidates but the first one, which has the packed trees. */
static enum banyan_status add_other_candidates(struct by_planned *planned, const struct by_topology *topology,
                                               const struct by_planner_options *options) {
  struct weighing w = {.topology = topology, .options = options, .planned = planned};
  w.names = planned->weighed.candidates[0].plan;
  w.n = planned->graph->n_terminals;
  w.order = calloc(2 * (size_t)w.n, sizeof *w.order);
  if (!w.order) return by_plan_no_memory();
  w.other = w.order + w.n;
  enum banyan_status status = add_builtins_and_trees(&w);
  free(w.order);
  return status;
}

enum { FEW_TREES = 8, EXACT_VERTICES = 200, EXACT_RESOURCES = 600 };
/* The part of the bound above which no more throughput is searched for. */
static const double enough = 0.99;
/* The two bounds for few trees: a first one that is quick and often as good as the exact one, and a closer one for
 * trees that do not reach it. */
static const struct by_weights_options quick_bound = {.goal = 0.97, .max_trees = 1000}, close_bound = {.goal = 0.991};

struct by_planner_options by_planner_defaults(void) {
  const struct by_embed_options cluster = by_embed_defaults();
  return (struct by_planner_options){.max_trees = 8,
                                     .max_height = INFINITY,
                                     .tolerance = NAN,
                                     .seed = 1,
                                     .allowed = cluster.allowed,
                                     .steps = cluster.steps,
                                     .queues = cluster.queues,
                                     .penalty = cluster.penalty,
                                     .rates = by_cost_defaults()};
}

/* Returns whether column generation is affordable: it repeatedly solves a program with a row for each resource. */
static bool is_small(const struct by_graph *graph) {
  return graph->n_vertices <= EXACT_VERTICES && graph->n_resources <= EXACT_RESOURCES;
}

static enum banyan_status bound_by_weights(const struct by_graph *graph, const struct by_weights_options *options,
                                           double *bound) {
  struct by_packing *packing;
  BY_TRY(by_pack_weights(graph, options, &packing));
  *bound = fmin(*bound, packing->bound);
  by_packing_destroy(packing);
  return BANYAN_OK;
}

static enum banyan_status tighten_bound(void *graph, double *bound) {
  return bound_by_weights(graph, &close_bound, bound);
}

/* Computes a first bound. With optional vertices, bounds by weights remain loose; column generation finds the best
 * bound. */
static enum banyan_status compute_first_bound(struct by_graph *graph, struct by_few_options *few) {
  few->context = graph;
  if (graph->n_vertices == graph->n_terminals) {
    few->tighten = tighten_bound;
    return bound_by_weights(graph, &quick_bound, &few->bound);
  }
  if (!is_small(graph)) return tighten_bound(graph, &few->bound);
  struct by_packing *largest;
  BY_TRY(by_pack_exact(graph, NULL, &largest));
  few->bound = largest->bound;
  by_packing_destroy(largest);
  return BANYAN_OK;
}

/* Packs few trees. INFINITY as bound: it is not known yet. */
static enum banyan_status pack_few(struct by_graph *graph, const struct by_planner_options *o, double bound,
                                   struct by_packing **out) {
  struct by_few_options few = by_few_defaults();
  few.max_trees = o->max_trees;
  few.by_delay = o->by_delay;
  few.max_height = o->max_height;
  few.tolerance = o->tolerance;
  if (isnan(o->tolerance))
    few.tolerance = o->max_trees > FEW_TREES ? 0.01 : 0.05; /* Users who allow many trees want throughput. */
  few.min_rate = o->min_rate;
  few.seed = o->seed;
  few.bound = bound;
  if (isinf(bound)) BY_TRY(compute_first_bound(graph, &few));
  return by_pack_few(graph, &few, out);
}

/* Packs by weights, with at most as many trees as a plan may have. */
static enum banyan_status pack_weights(const struct by_graph *graph, struct by_packing **out) {
  static const struct by_weights_options fewer = {.max_trees = BY_PLAN_MAX_GROUPS};
  struct by_packing *packing;
  BY_TRY(by_pack_weights(graph, NULL, &packing));
  if (packing->n_trees > BY_PLAN_MAX_GROUPS) {
    by_packing_destroy(packing);
    BY_TRY(by_pack_weights(graph, &fewer, &packing));
  }
  *out = packing;
  return BANYAN_OK;
}

static enum banyan_status pack_trees(struct by_graph *graph, const struct by_planner_options *o,
                                     struct by_packing **out) {
  if (o->method == BY_PLANNER_EXACT) return by_pack_exact(graph, NULL, out);
  if (o->method == BY_PLANNER_WEIGHTS) return pack_weights(graph, out);
  return pack_few(graph, o, INFINITY, out);
}

/* --- Weighing by time. --- */

static enum banyan_status add_trees(struct by_planned *p, const struct by_topology *topology,
                                    const struct by_planner_options *o, const struct by_packing *packing,
                                    const char *more) {
  struct by_plan *plan;
  char what[64];
  uint32_t n = packing->n_trees;
  BY_TRY(by_plan_of_packing("trees", topology, p->graph, packing, o->by_delay, &plan));
  snprintf(what, sizeof what, "%u packed tree%s%s", n, n == 1 ? "" : "s", more);
  return add_candidate(&p->weighed, what, plan, topology, &o->rates);
}

/* Adds trees of any height, since more throughput may outweigh less height. */
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

/* Sets the rates of a plan. The bound is that of all trees, even if the plan is a single tree, which was packed with a
 * bound of its own. A plan without rates of its own gets the rate of its candidate. */
static void add_facts(struct by_plan *plan, const struct by_candidate *used, double bound) {
  const struct by_class *class_ = &plan->classes[plan->n_classes - 1];
  bool packed = plan->facts.throughput > 0;
  if (!packed) plan->facts = (struct by_plan_facts){.throughput = fmin(used->rate, bound)};
  plan->facts.bound = bound;
  plan->facts.ratio = plan->facts.throughput / bound;
  if (packed) return;
  for (uint32_t i = 0; i < class_->n_groups; i++)
    class_->groups[i].rate = class_->groups[i].share * plan->facts.throughput;
}

static struct by_embed_options embed_options(const struct by_planner_options *o) {
  struct by_embed_options options = by_embed_defaults();
  options.choice = o->choice;
  options.max_trees = o->max_trees;
  options.max_height = o->max_height;
  options.min_rate = o->min_rate;
  options.servers = o->servers;
  options.n_servers = o->n_servers;
  options.allowed = o->allowed;
  options.steps = o->steps;
  options.queues = o->queues;
  options.penalty = o->penalty;
  return options;
}

static enum banyan_status embed_trees(struct by_planned *p, const struct by_topology *topology,
                                      const struct by_planner_options *o) {
  struct by_embed_options options = embed_options(o);
  options.old = o->old;
  if (o->by_delay && !isinf(o->max_height))
    return by_fail(BANYAN_ERR_ARGUMENT, "for a job on a shared cluster the height is limited in hops only");
  return by_embed(topology, &options, &p->embedding);
}

static enum banyan_status add_embedding(struct by_planned *p, const struct by_topology *topology,
                                        const struct by_planner_options *o) {
  struct by_plan *plan;
  char what[64];
  uint32_t n = by_embedding_facts(p->embedding).n_used;
  BY_TRY(by_embedding_plan(p->embedding, "trees", &plan));
  snprintf(what, sizeof what, "%u trees of method cluster", n);
  return add_candidate(&p->weighed, what, plan, topology, &o->rates);
}

/* If in-network trees are used, adds the best plan without them, which may be faster for medium sizes. */
static enum banyan_status add_embedding_of_hosts(struct by_planned *p, const struct by_topology *topology,
                                                 const struct by_planner_options *o) {
  struct by_embed_options options = embed_options(o);
  struct by_embedding *of_hosts;
  struct by_plan *plan;
  options.allowed &= ~(uint32_t)BY_PLAN_SWITCHES;
  if (!by_embedding_facts(p->embedding).n_in_network || !options.allowed) return BANYAN_OK;
  enum banyan_status status = by_embed(topology, &options, &of_hosts);
  if (status != BANYAN_OK) return status == BANYAN_ERR_PLAN ? BANYAN_OK : status;
  status = by_embedding_plan(of_hosts, "trees", &plan);
  by_embedding_destroy(of_hosts);
  return status == BANYAN_OK
             ? add_candidate(&p->weighed, "the best of these without switches", plan, topology, &o->rates)
             : status;
}

/* Adds own classes for the other collectives. */
static enum banyan_status add_own_classes(struct by_planned *p, const struct by_topology *topology,
                                          const struct by_planner_options *o) {
  const struct by_plan *candidates[BY_WEIGH_MAX];
  struct by_plan *extended;
  for (uint32_t i = 0; i < p->weighed.n; i++) candidates[i] = p->weighed.candidates[i].plan;
  const struct by_own_request request = {.topology = topology,
                                         .hosts = p->graph->node,
                                         .ranks_on = o->ranks_on,
                                         .candidates = candidates,
                                         .n_candidates = p->weighed.n,
                                         .message = o->rates.message,
                                         .hop = o->rates.hop};
  BY_TRY(by_own_classes_add(&request, p->plan, &extended));
  if (!extended) return BANYAN_OK;
  by_plan_destroy(p->plan);
  p->plan = extended;
  return BANYAN_OK;
}

static enum banyan_status weigh_candidates(const char *name, struct by_planned *p, const struct by_topology *topology,
                                           const struct by_planner_options *o) {
  struct by_weighed *weighed = &p->weighed;
  double bound = p->embedding ? by_embedding_facts(p->embedding).bound : p->packing->bound;
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) weighed->sizes[i] = 1ull << (SMALLEST_SHIFT + STEP_SHIFT * i);
  BY_TRY(p->embedding ? add_embedding(p, topology, o) : add_trees(p, topology, o, p->packing, ""));
  if (o->weighing == BY_PLANNER_WEIGH_ALL && p->packing) BY_TRY(add_higher_trees(p, topology, o));
  if (o->weighing != BY_PLANNER_WEIGH_NONE && p->embedding) BY_TRY(add_embedding_of_hosts(p, topology, o));
  if (o->weighing != BY_PLANNER_WEIGH_NONE) BY_TRY(add_other_candidates(p, topology, o));
  choose_candidates(weighed, o->weighing == BY_PLANNER_WEIGH_ALL, o->calls);
  BY_TRY(combine_choices(weighed, name, &p->plan));
  add_facts(p->plan, &weighed->candidates[weighed->used[BY_WEIGH_SIZES - 1]], bound);
  BY_TRY(by_graph_check_cancelled(p->graph));
  bool others = o->weighing == BY_PLANNER_WEIGH_ALL || (o->weighing == BY_PLANNER_WEIGH_SMALL && p->embedding);
  return others ? add_own_classes(p, topology, o) : BANYAN_OK;
}

/* Adds a control tree. If none can be made, the plan stays without one. */
static enum banyan_status add_control(struct by_planned *p, const struct by_topology *topology,
                                      const struct by_planner_options *o) {
  const struct by_control_options options = {.participants = o->choice.participants,
                                             .n_participants = o->choice.n_participants,
                                             .limits = o->control,
                                             .seed = o->seed};
  enum banyan_status status = by_control_make(topology, &options, &p->control);
  if (status == BANYAN_ERR_UNSUPPORTED || status == BANYAN_ERR_TOPOLOGY) return BANYAN_OK;
  return status == BANYAN_OK ? by_control_give(&p->control, p->plan) : status;
}

enum banyan_status by_planner_run(const char *name, const struct by_topology *topology,
                                  const struct by_planner_options *options, struct by_planned *out) {
  *out = (struct by_planned){.rates = options->rates};
  if (options->method == BY_PLANNER_IN_NETWORK)
    return by_fail(BANYAN_ERR_ARGUMENT, "method in-network is for `banyan plan --json`, which makes a plan file");
  BY_TRY(by_graph_of_topology(topology, &options->choice, &out->graph));
  out->graph->cancelled = options->cancelled;
  enum banyan_status status = options->method == BY_PLANNER_CLUSTER ? embed_trees(out, topology, options)
                                                                    : pack_trees(out->graph, options, &out->packing);
  if (status == BANYAN_OK) status = weigh_candidates(name, out, topology, options);
  if (status == BANYAN_OK) status = add_control(out, topology, options);
  if (status != BANYAN_OK)
    by_planned_fini(out);
  else
    out->graph->cancelled = NULL;
  return status;
}

void by_planned_fini(struct by_planned *planned) {
  by_plan_destroy(planned->plan);
  by_packing_destroy(planned->packing);
  by_embedding_destroy(planned->embedding);
  by_graph_destroy(planned->graph);
  by_control_fini(&planned->control);
  for (uint32_t i = 0; i < planned->weighed.n; i++) by_plan_destroy(planned->weighed.candidates[i].plan);
  *planned = (struct by_planned){0};
}

/* --- The plan of the second-best candidates, since predictions are inaccurate by some percent. --- */

/* Returns the fastest candidate for a size whose plan differs from the chosen one. Returns the chosen candidate if none
 * is predicted to take at most `within` times as long. */
static uint32_t find_other_candidate(const struct by_weighed *weighed, uint32_t size, double within) {
  uint32_t chosen = weighed->used[size], best = chosen;
  for (uint32_t i = 0; i < weighed->n; i++) {
    const struct by_candidate *candidate = &weighed->candidates[i];
    if (candidate->seconds[size] > within * weighed->candidates[chosen].seconds[size] ||
        candidate->plan->version == weighed->candidates[chosen].plan->version)
      continue;
    if (best == chosen || candidate->seconds[size] < weighed->candidates[best].seconds[size]) best = i;
  }
  return best;
}

static enum banyan_status copy_own_classes(void *context, struct by_plan *made, struct by_class *own) {
  const struct by_plan *from = *(const struct by_plan **)context;
  for (uint32_t i = 0; i < from->n_own; i++) {
    const struct by_class *class_ = &from->classes[from->n_classes + i];
    own[i] = *class_;
    BY_TRY(by_plan_add_groups(made, &own[i], class_->n_groups));
    for (uint32_t g = 0; g < class_->n_groups; g++)
      BY_TRY(by_group_copy(made, &own[i].groups[g], &class_->groups[g], NULL, NULL));
  }
  return BANYAN_OK;
}

/* Joins the plans of all sizes, and adds the own classes, control tree and origin of the chosen plan. */
static enum banyan_status join_parts(const struct by_plan *chosen, const struct by_plan_part *parts, uint32_t n,
                                     struct by_plan **out) {
  struct by_plan *joined, *whole;
  BY_TRY(by_plan_join(chosen->name, parts, n, &joined));
  enum banyan_status status = BANYAN_OK;
  if (chosen->n_own) {
    status = by_plan_extend(joined, chosen->n_own, copy_own_classes, &chosen, &whole);
    by_plan_destroy(joined);
    BY_TRY(status);
    joined = whole;
  }
  if (chosen->control.parent) status = by_plan_set_control(joined, &chosen->control);
  joined->origin = chosen->origin;
  if (status == BANYAN_OK)
    *out = joined;
  else
    by_plan_destroy(joined);
  return status;
}

enum banyan_status by_planner_find_alternative(const struct by_planned *planned, double within, struct by_plan **out) {
  const struct by_weighed *weighed = &planned->weighed;
  const struct by_candidate *candidate = NULL;
  struct by_plan_part parts[BY_WEIGH_SIZES];
  uint32_t n = 0, others = 0, last = UINT32_MAX;
  *out = NULL;
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) {
    uint32_t other = find_other_candidate(weighed, i, within);
    others += other != weighed->used[i];
    candidate = &weighed->candidates[other];
    n += other != last;
    parts[n - 1] = (struct by_plan_part){.plan = candidate->plan, .up_to = weighed->sizes[i]};
    last = other;
  }
  if (!others) return BANYAN_OK;
  BY_TRY(join_parts(planned->plan, parts, n, out));
  double bound = planned->plan->facts.bound;
  (*out)->facts = (struct by_plan_facts){.throughput = fmin(candidate->rate, bound), .bound = bound};
  if (bound > 0) (*out)->facts.ratio = (*out)->facts.throughput / bound;
  return BANYAN_OK;
}
