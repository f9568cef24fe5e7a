/* Packs few low trees by local search: sweeps during which prices become steeper, followed by rounds in which a linear
 * program sets the shares. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "plan_make.h"
#include "rates.h"
#include "text.h"

/* --- Limits of a given number of trees. --- */

/* Computes limits of a given number of trees.
 *
 * Every spanning tree crosses a partition of the vertices into p parts at least p - 1 times. Two kinds of partitions
 * can be counted quickly: each vertex is a part, and one vertex against all others.
 *
 * n trees of rate x each: an edge of capacity c is in at most floor(c / x) of them, and all edges between parts must be
 * in n * (p - 1) together. This gives the greatest x, e(n).
 *
 * n trees of rates x_1 >= x_2 >= ...: the first k of them still fit when all are lowered to x_k, so x_k <= e(k), and
 * their sum is at most e(1) + ... + e(n). Besides, they cross the partition n * (p - 1) times, so their sum is at most
 * the capacity of the widest n * (p - 1) edges between parts, divided by p - 1.
 *
 * A tree leaves out all edges beyond those of a tree. Edges that n trees cannot all leave out are in each of the trees,
 * so the sum is at most the capacity of such an edge. On a ring, fewer trees than vertices have at most the rate of
 * one. */
static const double rounding = 1 + 1e-9;
enum { LIMIT_HALVINGS = 30, MAX_COUNTED = 1 << 18 };

static double get_capacity(const struct by_graph *graph, uint32_t edge) {
  return graph->capacity[graph->uses[graph->edges[edge].first]];
}

/* Returns whether the limit can be counted quickly: every edge has one resource of its own. */
static bool can_count(const struct by_graph *graph, uint32_t n) {
  if (n > BY_LIMIT_MAX_TREES || (uint64_t)n * graph->n_edges > MAX_COUNTED) return false;
  return graph->n_terminals == graph->n_vertices && graph->n_uses == graph->n_edges &&
         graph->n_resources == graph->n_edges;
}

static double count_uses(const struct by_graph *graph, uint32_t edge, uint32_t n, double rate) {
  return fmin(n, floor(get_capacity(graph, edge) / rate * rounding));
}

/* Returns whether counting permits n trees of this rate. */
static bool may_fit(const struct by_graph *graph, uint32_t n, double rate) {
  double uses = 0;
  for (uint32_t e = 0; e < graph->n_edges; e++) uses += count_uses(graph, e, n, rate);
  bool fits = uses >= (double)n * (graph->n_vertices - 1);
  for (uint32_t v = 0; v < graph->n_vertices && fits; v++) {
    uses = 0;
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1] && uses < n; i++)
      uses += count_uses(graph, graph->incident[i], n, rate);
    fits = uses >= n;
  }
  return fits;
}

static double find_equal_rate(const struct by_graph *graph, uint32_t n) {
  double low = 0, high = 0;
  for (uint32_t e = 0; e < graph->n_edges; e++) high = fmax(high, get_capacity(graph, e));
  if (may_fit(graph, n, high)) return high;
  for (int i = 0; i < LIMIT_HALVINGS; i++) {
    double middle = (low + high) / 2;
    *(may_fit(graph, n, middle) ? &low : &high) = middle;
  }
  return high;
}

double by_limit_of_equal_trees(const struct by_graph *graph, uint32_t n) {
  return can_count(graph, n) ? n * find_equal_rate(graph, n) : INFINITY;
}

static int compare_widest(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

/* Returns the sum of the capacities of the widest of these edges, and sorts them. */
static double sum_widest(double *capacity, uint32_t n, uint64_t max) {
  double sum = 0;
  qsort(capacity, n, sizeof *capacity, compare_widest);
  for (uint32_t i = 0; i < n && i < max; i++) sum += capacity[i];
  return sum;
}

static double get_limit_by_widest(const struct by_graph *graph, uint32_t n, double *capacity) {
  uint32_t apart = graph->n_vertices - 1;
  for (uint32_t e = 0; e < graph->n_edges; e++) capacity[e] = get_capacity(graph, e);
  double min = sum_widest(capacity, graph->n_edges, (uint64_t)n * apart) / apart;
  /* At best these are the widest edges, which all trees have. They are first now. */
  uint64_t left_out = (uint64_t)n * (graph->n_edges - apart);
  if (left_out < graph->n_edges) min = fmin(min, capacity[graph->n_edges - left_out - 1]);
  for (uint32_t v = 0; v < graph->n_vertices; v++) {
    uint32_t first = graph->edge_at[v], degree = graph->edge_at[v + 1] - first;
    for (uint32_t i = 0; i < degree; i++) capacity[i] = get_capacity(graph, graph->incident[first + i]);
    min = fmin(min, sum_widest(capacity, degree, n));
  }
  return min;
}

enum banyan_status by_limit_of_trees(const struct by_graph *graph, uint32_t n, double *out) {
  double sum = 0;
  *out = INFINITY;
  if (!can_count(graph, n)) return BANYAN_OK;
  double *capacity = calloc(graph->n_edges, sizeof *capacity);
  if (!capacity) return by_plan_no_memory();
  for (uint32_t k = 1; k <= n; k++) sum += find_equal_rate(graph, k);
  *out = fmin(sum, get_limit_by_widest(graph, n, capacity)) * rounding;
  free(capacity);
  return BANYAN_OK;
}

/* --- The search. --- */

/* The numbers of attempts, sweeps, checks and tried heights. */
enum {
  ATTEMPTS = 4,
  MAX_ATTEMPTS = 24,
  IDLE_ATTEMPTS = 8, /* The limit of successive attempts without a gain. */
  MIN_SWEEPS = 8,
  SWEEPS = 24,
  CHECK_EVERY = 4,
  IDLE_LIMIT = 4,
  IDLE_CHECKS = 3,
  HEIGHTS = 12
};
enum { MAX_ROOTS = 256, ENOUGH_ROOTS = 24 };
/* The limits of examined edges in all growths: for the throughput, and including the search for lower trees. That takes
 * a second or two, which only dense graphs of more than a hundred vertices need. */
static const double max_work = 5e6, max_work_in_all = 1e7;
static const double work_of_more = 5e5;  /* After this much work, the search ends sooner. */
static const double work_of_tries = 2e6; /* After this much work, no further attempts near the best are made. */
static const double first_steepness = 4, last_steepness = 200;
static const double ahead_of_swaps = 1.005, first_heat = 1e-4, last_heat = 1e-7;
static const double work_of_swap = 0.05; /* The work of an edge examined by a swap, relative to one of a growth. */
static const double ahead = 1.02;        /* The target, relative to the best throughput. */
static const double damping = 0.5;       /* The part by which shares move towards those of the program. */
static const double early_goal = 0.9999; /* The part of the bound that suffices at first. */
/* After much work, the part of the bound that suffices is smaller by this. */
static const double late_gap = 2e-3;
/* The work after which that holds. The last part per thousand is expensive in large graphs. */
static const double work_of_late_gap = 5e5;
static const double good_enough = 0.99; /* The part of the bound that suffices if an attempt gains nothing. */
static const double worth_an_attempt = 1.001;
static const double proves_the_bound = 0.992;
static const double worth_a_round = 1.0003; /* A gain that justifies another round. */
/* If annealing does not reach this part of the wanted throughput, the attempt is abandoned. */
static const double abandon_below = 0.8;
static const double worth_a_tree = 1e-3; /* Trees with a smaller part of the throughput are removed. */
static const double worth_fewer = 1.001; /* A limit that is higher by this factor justifies fewer trees. */
static const double deviation = 0.4;     /* The largest deviation from the best shares, as a logarithm. */

/* The cooling schedule of swaps: the number of steps, and the number of edges examined in each step, for each edge of
 * the trees and as a limit. */
struct cooling {
  uint32_t steps;
  double each, max;
};
static const struct cooling brief_cooling = {16, 200, 1e5}, long_cooling = {64, 400, 1.8e5};

/* The shares with which an attempt starts. They matter more than anything else, since the search improves trees better
 * than shares. */
enum { PLANNED = 4 };
struct start {
  uint32_t n;
  /* The share of each tree. They sum to 1. There is capacity for the maximum number of trees. */
  double *share;
};

struct search {
  const struct by_graph *graph;
  const struct by_few_options *options;
  struct by_grower grower;
  struct by_rates best; /* The best rates under the present height limit. */
  double min_rate, bound;
  double limit;    /* The proven limit for this many trees in bit/s; INFINITY: not known. */
  double work;     /* The number of examined edges. */
  uint32_t sweeps; /* The number of sweeps in an attempt, which has half as many rounds. */
  bool tightened;
  uint32_t best_attempt;          /* The number of the best attempt. */
  struct start start, best_start; /* The shares of the present attempt, and of the best one. */
  uint32_t n_reach, n_roots;
  uint32_t *vertex, *roots; /* All possible roots, the most central first, and those for the present height. */
  double *reach;            /* The distance from each possible root to the farthest terminal, in hops or seconds. */
  struct by_arena arena;
};

/* Returns the throughput in bit/s that cannot be exceeded. */
static double get_goal(const struct search *s) {
  return fmin(s->bound, s->limit);
}

/* --- First shares. --- */

static void normalise_shares(struct start *start) {
  double sum = 0;
  for (uint32_t i = 0; i < start->n; i++) sum += start->share[i];
  for (uint32_t i = 0; i < start->n; i++) start->share[i] /= sum;
}

/* Returns for how many equal trees the limit is highest: in a three-dimensional torus, six trees can use links that
 * eight cannot divide. */
static uint32_t find_best_equal(const struct by_graph *graph, uint32_t max, double bound) {
  double best = fmin(by_limit_of_equal_trees(graph, max), bound);
  uint32_t chosen = max;
  for (uint32_t n = max - 1; n > max / 4 && best < bound; n--) {
    double limit = fmin(by_limit_of_equal_trees(graph, n), bound);
    if (limit < best * worth_fewer) continue;
    best = limit;
    chosen = n;
  }
  return chosen;
}

/* Sets planned shares. Very different shares suit unequal links, with one tree over a wide link and others over narrow
 * ones; equal shares suit equal links. */
static void set_planned_shares(struct start *start, const struct by_graph *graph, uint32_t max, double bound,
                               uint32_t number) {
  static const double powers[PLANNED] = {1, 0, 0.5, 0};
  start->n = number == 1 ? find_best_equal(graph, max, bound) : max;
  for (uint32_t i = 0; i < start->n; i++) start->share[i] = pow(i + 1, -powers[number]);
  normalise_shares(start);
}

static void set_near_shares(struct start *start, const struct by_rates *best, uint32_t max, struct by_rng *rng) {
  uint32_t n = 0;
  for (uint32_t t = 0; t < best->pool.n_trees && n < max; t++)
    if (best->lp->rate[t] > 0) start->share[n++] = best->lp->rate[t] / best->throughput;
  while (n < max) start->share[n++] = 1.0 / 4 / max;
  for (uint32_t i = 0; i < max; i++) start->share[i] *= exp(deviation * (by_rng_unit(rng) + by_rng_unit(rng) - 1));
  start->n = max;
  normalise_shares(start);
}

/* --- Shares by linear program. --- */

/* If a slot's tree is not used, moves half of the largest share to the slot, for another tree. */
static void split_largest_share(struct by_slots *slots, uint32_t idle) {
  uint32_t largest = 0;
  for (uint32_t i = 1; i < slots->n; i++)
    if (slots->slots[i].share > slots->slots[largest].share) largest = i;
  slots->slots[idle].share = slots->slots[largest].share /= 2;
}

/* Moves the shares towards the rates of the program. */
static void move_shares(struct by_slots *slots, const struct by_rates *rates) {
  double sum = 0;
  for (uint32_t i = 0; i < slots->n; i++) {
    uint32_t same = 0; /* Several slots may have this tree. */
    for (uint32_t j = 0; j < slots->n; j++) same += slots->slots[j].number == slots->slots[i].number;
    double wanted = rates->lp->rate[slots->slots[i].number] / rates->throughput / same;
    slots->slots[i].share += damping * (wanted - slots->slots[i].share);
  }
  for (uint32_t i = 0; i < slots->n; i++)
    if (slots->slots[i].share < 0.02 / slots->n) split_largest_share(slots, i);
  for (uint32_t i = 0; i < slots->n; i++) sum += slots->slots[i].share;
  for (uint32_t i = 0; i < slots->n; i++) slots->slots[i].share /= sum;
}

/* Keeps `rates` if they are the best so far, otherwise frees them. */
static void keep_better(struct search *s, struct by_rates *rates) {
  struct by_rates worse = *rates;
  if (rates->throughput > s->best.throughput) {
    worse = s->best;
    s->best = *rates;
  }
  by_rates_fini(&worse);
}

/* Computes the best rates of the slots' trees; if `mixed`, those of the K best among these and the best so far. If
 * `move`, moves the shares towards them. */
static enum banyan_status update_best(struct search *s, struct by_slots *slots, bool move, bool mixed) {
  const struct by_pool *known = &s->best.pool;
  struct by_rates rates;
  BY_TRY(by_graph_check_cancelled(s->graph));
  BY_TRY(by_rates_init(&rates, s->graph));
  enum banyan_status status = BANYAN_OK;
  for (uint32_t i = 0; status == BANYAN_OK && i < slots->n; i++)
    status = by_rates_add(&rates, slots->slots[i].edges, slots->slots[i].n, &slots->slots[i].number);
  for (uint32_t t = 0; status == BANYAN_OK && mixed && t < known->n_trees; t++)
    status = by_rates_add(&rates, known->trees[t]->edges, known->trees[t]->n, NULL);
  if (status == BANYAN_OK) status = by_rates_keep(&rates, mixed ? s->options->max_trees : 0, s->min_rate);
  if (status != BANYAN_OK) {
    by_rates_fini(&rates);
    return status;
  }
  if (move && rates.throughput > 0) move_shares(slots, &rates);
  keep_better(s, &rates);
  if (s->best.throughput > 0) {
    slots->target = fmin(get_goal(s), s->best.throughput * ahead);
    by_slots_recount(slots);
  }
  return BANYAN_OK;
}

/* --- One attempt. --- */

/* Returns whether the throughput suffices. If `wanted` is INFINITY, the amount of work decides how much suffices. */
static bool is_enough(const struct search *s, double wanted) {
  double gap = fmin(s->work / work_of_late_gap, 1) * late_gap;
  return s->best.throughput >= (isinf(wanted) ? (early_goal - gap) * get_goal(s) : wanted);
}

static bool sweep_once(struct search *s, struct by_slots *slots) {
  s->work += (double)slots->n * s->graph->n_edges;
  return by_slots_sweep(slots);
}

/* Runs sweeps with ever steeper prices: at first trees spread, at last only the fullest resource counts. In large
 * graphs it ends after some sweeps without a gain. */
static enum banyan_status run_annealing(struct search *s, struct by_slots *slots, double wanted) {
  uint32_t idle = 0, idle_limit = s->work > work_of_more ? IDLE_CHECKS : s->sweeps;
  for (uint32_t sweep = 0; sweep < s->sweeps && idle < idle_limit && !is_enough(s, wanted); sweep++) {
    double before = s->best.throughput;
    BY_TRY(by_graph_check_cancelled(s->graph));
    slots->steep = first_steepness * pow(last_steepness / first_steepness, (double)sweep / (s->sweeps - 1));
    if (!sweep_once(s, slots)) return BANYAN_OK;
    if (sweep % CHECK_EVERY != 0 && sweep + 1 < s->sweeps) continue;
    BY_TRY(update_best(s, slots, false, false));
    idle = s->best.throughput > before * worth_a_round ? 0 : idle + 1;
  }
  return BANYAN_OK;
}

/* Improves shares and trees in turn until neither gains. */
static enum banyan_status run_polishing(struct search *s, struct by_slots *slots, double wanted) {
  for (uint32_t round = 0, idle = 0; round < s->sweeps / 2 && idle < IDLE_LIMIT && !is_enough(s, wanted);
       round++, idle++) {
    double before = s->best.throughput;
    BY_TRY(update_best(s, slots, true, false));
    if (s->best.throughput > before * worth_a_round) idle = 0;
    if (!sweep_once(s, slots)) return BANYAN_OK;
  }
  return BANYAN_OK;
}

/* --- Swaps. --- */

/* Swaps edges, accepting less and less overload, with shares from the program. The target is always slightly above the
 * best throughput. */
static enum banyan_status run_swaps(struct search *s, struct by_slots *slots, const struct cooling *how) {
  struct by_swaps swaps;
  if (!slots->slots[slots->n - 1].n) return BANYAN_OK;
  BY_TRY(by_swaps_init(&swaps, slots));
  enum banyan_status status = BANYAN_OK;
  double work = fmin(how->each * slots->n * s->graph->n_vertices, how->max);
  for (uint32_t i = 0; status == BANYAN_OK && i < how->steps && !is_enough(s, INFINITY); i++) {
    slots->target = fmin(get_goal(s), s->best.throughput * ahead_of_swaps);
    by_swaps_try(&swaps, (uint64_t)work, first_heat * pow(last_heat / first_heat, (double)i / (how->steps - 1)));
    s->work += work_of_swap * work;
    status = update_best(s, slots, true, false);
  }
  by_swaps_fini(&swaps);
  return status;
}

/* Returns whether swaps are worthwhile: few trees are known to be far from the bound, and heights do not matter. */
static bool may_swap(const struct search *s, double max_height, double wanted) {
  return isinf(wanted) && isinf(max_height) && isfinite(s->bound) && s->graph->n_vertices == s->graph->n_terminals &&
         (s->tightened || !s->options->tighten) && s->best.throughput > 0 &&
         s->best.throughput < good_enough * get_goal(s);
}

/* Chooses the first shares: planned ones for the first attempts, later variations of the best. For a height limit the
 * best attempt is repeated. */
static void choose_start(struct search *s, uint32_t number, double wanted, struct by_rng *rng) {
  const struct by_few_options *o = s->options;
  if (!isinf(wanted)) {
    s->start.n = s->best_start.n;
    memcpy(s->start.share, s->best_start.share, s->start.n * sizeof *s->start.share);
  } else if (number < PLANNED || !(s->best.throughput > 0)) {
    set_planned_shares(&s->start, s->graph, o->max_trees, get_goal(s), number % PLANNED);
  } else {
    set_near_shares(&s->start, &s->best, o->max_trees, rng);
  }
}

static enum banyan_status run_attempt(struct search *s, uint32_t number, double max_height, double wanted) {
  struct by_rng rng;
  by_rng_init(&rng, s->options->seed + number);
  choose_start(s, number, wanted, &rng);
  struct by_slots slots;
  BY_TRY(by_slots_init(&slots, &s->grower, s->start.n, s->options->seed + number));
  slots.max_height = max_height;
  slots.roots = s->roots;
  slots.n_roots = s->n_roots;
  for (uint32_t i = 0; i < slots.n; i++) slots.slots[i].share = s->start.share[i];
  slots.target = isfinite(get_goal(s)) ? get_goal(s) : s->best.lp->unit;
  enum banyan_status status = run_annealing(s, &slots, wanted);
  bool promising = isinf(wanted) || s->best.throughput >= abandon_below * wanted;
  if (status == BANYAN_OK && promising) status = run_polishing(s, &slots, wanted);
  if (status == BANYAN_OK && may_swap(s, max_height, wanted)) status = run_swaps(s, &slots, &brief_cooling);
  bool whole = s->best.pool.n_trees && slots.slots[slots.n - 1].n;
  if (status == BANYAN_OK && promising && whole && !is_enough(s, wanted)) status = update_best(s, &slots, false, true);
  by_slots_fini(&slots);
  return status;
}

static void copy_best_trees(const struct search *s, struct by_slots *slots) {
  const struct by_pool *pool = &s->best.pool;
  uint32_t n = 0;
  for (uint32_t t = 0; t < pool->n_trees; t++) {
    if (s->best.lp->rate[t] == 0) continue;
    struct by_slot *slot = &slots->slots[n++];
    slot->n = pool->trees[t]->n;
    slot->share = s->best.lp->rate[t] / s->best.throughput;
    memcpy(slot->edges, pool->trees[t]->edges, slot->n * sizeof *slot->edges);
  }
}

/* Swaps edges of the best trees as long as that gains. */
static enum banyan_status swap_while_improving(struct search *s) {
  struct by_slots slots;
  double before;
  do {
    uint32_t n = 0;
    before = s->best.throughput;
    for (uint32_t t = 0; t < s->best.pool.n_trees; t++) n += s->best.lp->rate[t] > 0;
    BY_TRY(by_slots_init(&slots, &s->grower, n, s->options->seed));
    copy_best_trees(s, &slots);
    enum banyan_status status = run_swaps(s, &slots, &long_cooling);
    by_slots_fini(&slots);
    BY_TRY(status);
  } while (s->best.throughput > before * worth_an_attempt && s->work < max_work);
  return BANYAN_OK;
}

/* --- Heights. --- */

/* Returns the vertex that may be most central: that with the smallest lower bound of its distance to the farthest
 * terminal. */
static uint32_t find_most_central(const struct search *s, const double *at_min) {
  uint32_t found = 0;
  for (uint32_t v = 1; v < s->graph->n_terminals; v++)
    if (at_min[v] < at_min[found]) found = v;
  return found;
}

/* Computes the distances of central terminals to their farthest terminals until no other can be more central than the
 * best (Takes and Kosters 2013: every search bounds the distances of all others). Usually some dozens are enough. */
static void find_central(struct search *s, double *at_min) {
  double min = INFINITY;
  uint32_t max = s->graph->n_terminals < MAX_ROOTS ? s->graph->n_terminals : MAX_ROOTS;
  for (s->n_reach = 0; s->n_reach < max;) {
    uint32_t root = find_most_central(s, at_min);
    if (s->n_reach >= ENOUGH_ROOTS && at_min[root] >= min) return;
    double reach = by_grower_reach(&s->grower, root);
    for (uint32_t v = 0; v < s->graph->n_terminals; v++)
      at_min[v] = fmax(at_min[v], fmax(s->grower.depth[v], reach - s->grower.depth[v]));
    at_min[root] = INFINITY;
    s->vertex[s->n_reach] = root;
    s->reach[s->n_reach++] = reach;
    min = fmin(min, reach);
  }
}

static enum banyan_status measure_reach(struct search *s) {
  s->vertex = BY_ARENA_ARRAY(&s->arena, uint32_t, MAX_ROOTS);
  s->roots = BY_ARENA_ARRAY(&s->arena, uint32_t, MAX_ROOTS);
  s->reach = BY_ARENA_ARRAY(&s->arena, double, MAX_ROOTS);
  double *at_min = BY_ARENA_ARRAY(&s->arena, double, s->graph->n_terminals);
  if (!s->vertex || !s->roots || !s->reach || !at_min) return by_plan_no_memory();
  for (uint32_t v = 0; v < s->graph->n_vertices; v++) s->grower.allowed[v] = true;
  find_central(s, at_min);
  return BANYAN_OK;
}

static double get_min_reach(const struct search *s) {
  double min = INFINITY;
  for (uint32_t i = 0; i < s->n_reach; i++) min = fmin(min, s->reach[i]);
  return min;
}

/* Requests a better bound once, if it matters: trees that nearly reach a loose bound prove it good. Without a better
 * bound the search would continue without a chance. */
static enum banyan_status tighten_bound(struct search *s) {
  const struct by_few_options *o = s->options;
  if (!o->tighten || s->tightened || s->best.throughput >= proves_the_bound * s->bound) return BANYAN_OK;
  s->tightened = true;
  return o->tighten(o->context, &s->bound);
}

static void remember_start(struct search *s, uint32_t number) {
  struct start best = s->start;
  s->start = s->best_start;
  s->best_start = best;
  s->best_attempt = number;
}

/* Searches the best trees under a height limit, by attempts first .. end - 1, and stops at `wanted` bit/s. s->best is
 * empty if there are none. */
static enum banyan_status search_under(struct search *s, double max_height, double wanted, uint32_t first,
                                       uint32_t end) {
  BY_TRY(by_rates_init(&s->best, s->graph));
  s->n_roots = 0;
  for (uint32_t i = 0; i < s->n_reach; i++)
    if (s->reach[i] <= max_height) s->roots[s->n_roots++] = s->vertex[i];
  for (uint32_t i = first, idle = 0; i < end && s->n_roots && idle < IDLE_ATTEMPTS && !is_enough(s, wanted); i++) {
    if (i > first && s->work > (i < ATTEMPTS ? max_work : work_of_tries)) break;
    double before = s->best.throughput;
    BY_TRY(run_attempt(s, i, max_height, wanted));
    if (isinf(wanted)) BY_TRY(tighten_bound(s));
    if (isinf(wanted) && i == first && !is_enough(s, wanted))
      BY_TRY(by_limit_of_trees(s->graph, s->options->max_trees, &s->limit));
    if (isinf(wanted) && s->best.throughput > before) remember_start(s, i);
    bool no_gain = i > first && s->best.throughput < before * worth_an_attempt;
    if (no_gain && s->best.throughput >= good_enough * get_goal(s)) break;
    idle = no_gain ? idle + 1 : 0;
  }
  if (may_swap(s, max_height, wanted)) BY_TRY(swap_while_improving(s));
  return by_rates_keep(&s->best, 0, fmax(s->min_rate, worth_a_tree * s->best.throughput));
}

static double get_height(struct search *s) {
  double highest = 0;
  for (uint32_t t = 0; t < s->best.pool.n_trees; t++) {
    uint32_t root;
    double height;
    if (s->best.lp->rate[t] == 0) continue;
    by_tree_centre(&s->grower, s->best.pool.trees[t]->edges, s->best.pool.trees[t]->n, &root, &height);
    highest = fmax(highest, height);
  }
  return highest;
}

/* Returns the height to try next between one that is too low and one that suffices; NAN: none. */
static double choose_height(const struct search *s, double low, double high) {
  double exact = s->work > work_of_more ? 0.1 * high : s->options->by_delay ? 0.02 * high : 1;
  if (s->options->by_delay) return high - low > exact ? (low + high) / 2 : NAN;
  return high - low > fmax(exact, 1) ? floor((low + high) / 2) : NAN;
}

/* Bisects for the smallest height that keeps `wanted`, and keeps the result in s->best. A larger height need not give
 * more throughput, since this is a heuristic. So the lowest height that was seen to suffice is kept. */
static enum banyan_status lower_height(struct search *s, double wanted) {
  double low = get_min_reach(s), high = get_height(s);
  const uint32_t best = s->best_attempt;
  low -= s->options->by_delay ? 1e-9 * low : 1;
  for (int i = 0; i < HEIGHTS && s->work < max_work_in_all; i++) {
    double height = choose_height(s, low, high);
    if (isnan(height)) break;
    struct by_rates kept = s->best;
    enum banyan_status status = search_under(s, height, wanted, best, best + 1);
    bool good = status == BANYAN_OK && s->best.throughput >= wanted;
    if (!good) {
      by_rates_fini(&s->best);
      s->best = kept;
      if (status != BANYAN_OK) return status;
      low = height;
      continue;
    }
    by_rates_fini(&kept);
    high = get_height(s);
  }
  return BANYAN_OK;
}

static enum banyan_status check_options(const struct by_few_options *o) {
  if (!o->max_trees || o->max_trees > 4096)
    return by_fail(BANYAN_ERR_ARGUMENT, "%u trees were asked for; must be 1 to 4096", o->max_trees);
  if (!(o->max_height > 0)) return by_fail(BANYAN_ERR_ARGUMENT, "a height of %g; must be > 0", o->max_height);
  if (!(o->tolerance <= 1)) return by_fail(BANYAN_ERR_ARGUMENT, "a tolerance of %g; must be <= 1", o->tolerance);
  if (!(o->min_rate >= 0)) return by_fail(BANYAN_ERR_ARGUMENT, "a least rate of %g; must be >= 0", o->min_rate);
  return o->bound > 0 ? BANYAN_OK : by_fail(BANYAN_ERR_ARGUMENT, "a bound of %g; must be > 0", o->bound);
}

static enum banyan_status report_nothing_found(const struct search *s) {
  const char *unit = s->options->by_delay ? " s" : "";
  char rate[32];
  if (!s->n_roots)
    return by_fail(BANYAN_ERR_PLAN, "no tree has a height of %g%s: the lowest has %g%s", s->options->max_height, unit,
                   get_min_reach(s), unit);
  return by_fail(BANYAN_ERR_PLAN, "no tree was found that carries %s; lower the least rate",
                 by_print_rate(s->min_rate, rate));
}

static enum banyan_status pack_few(struct search *s, struct by_packing **out) {
  const struct by_few_options *o = s->options;
  s->min_rate = o->min_rate;
  s->bound = o->bound;
  s->limit = INFINITY;
  s->start.share = BY_ARENA_ARRAY(&s->arena, double, o->max_trees);
  s->best_start.share = BY_ARENA_ARRAY(&s->arena, double, o->max_trees);
  if (!s->start.share || !s->best_start.share) return by_plan_no_memory();
  s->sweeps = (uint32_t)fmin(SWEEPS, fmax(MIN_SWEEPS, max_work / 2 / o->max_trees / s->graph->n_edges));
  BY_TRY(measure_reach(s));
  BY_TRY(search_under(s, o->max_height, INFINITY, 0, o->attempts ? o->attempts : MAX_ATTEMPTS));
  if (!(s->best.throughput > 0)) return report_nothing_found(s);
  double min = (1 - o->tolerance) * (isfinite(s->bound) ? s->bound : s->best.throughput);
  if (o->tolerance >= 0) BY_TRY(lower_height(s, fmin(min, s->best.throughput)));
  BY_TRY(by_packing_make(&s->best.pool, s->best.lp->rate, s->bound, out));
  (*out)->max_trees = o->max_trees;
  (*out)->limit = s->limit;
  return BANYAN_OK;
}

enum banyan_status by_pack_few(const struct by_graph *graph, const struct by_few_options *options,
                               struct by_packing **out) {
  BY_TRY(check_options(options));
  struct search s = {.graph = graph, .options = options};
  BY_TRY(by_grower_init(&s.grower, graph, !options->by_delay));
  enum banyan_status status = pack_few(&s, out);
  by_rates_fini(&s.best);
  by_arena_fini(&s.arena);
  by_grower_fini(&s.grower);
  return status;
}
