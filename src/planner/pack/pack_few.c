#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "plan_make.h"
#include "rates.h"
#include "text.h"

/* How the search goes: sweeps in which prices get steeper, then rounds in which a linear program sets the shares. */
enum {
  ATTEMPTS = 4,
  MOST_ATTEMPTS = 24,
  IDLE_ATTEMPTS = 8, /* without a gain, one after the other */
  LEAST_SWEEPS = 8,
  SWEEPS = 24,
  LOOK_EVERY = 4,
  IDLE_LIMIT = 4,
  DULL_LOOKS = 3,
  HEIGHTS = 12
};
enum { MOST_ROOTS = 256, ENOUGH_ROOTS = 24 };
/* Edges that are looked at in all growths together: for the throughput, and with what lowering takes. A second or two,
 * which only dense graphs of more than a hundred vertices need. */
static const double most_work = 5e6, most_work_in_all = 1e7;
static const double work_of_more = 5e5;  /* after so much the first attempts must do */
static const double work_of_tries = 2e6; /* and after so much the further ones, which begin near the best */
static const double first_steepness = 4, last_steepness = 200;
static const double ahead_of_swaps = 1.005, first_heat = 1e-4, last_heat = 1e-7;
static const double work_of_swap = 0.05;   /* an edge that a swap looks at, beside one of a growth */
static const double ahead = 1.02;          /* the target, over the best that was seen */
static const double damping = 0.5;         /* how far shares move to what the program says */
static const double near_enough = 0.9999;  /* of the bound, at first; */
static const double gap_in_the_end = 2e-3; /* this is enough after so much work: */
static const double work_to_the_end = 5e5; /* the last part of a part in thousand is dear in large graphs */
static const double good_enough = 0.99;    /* of the bound, where an attempt gains nothing */
static const double worth_an_attempt = 1.001;
static const double proves_the_bound = 0.992;
static const double worth_a_round = 1.0003; /* a gain that makes another round worth while */
static const double hopeless = 0.8;         /* of what is wanted, after annealing: it will not get there */
static const double worth_a_tree = 1e-3;    /* a smaller part of the throughput is not */
static const double worth_fewer = 1.001;    /* a limit that is so much better is worth having fewer trees */
static const double stray = 0.4;            /* how far from the best shares, as a logarithm, at most */

/* How swaps go: so often cooled, and each time so many edges looked at, for each of all trees' edges and at most. */
struct cooling {
  uint32_t steps;
  double each, most;
};
static const struct cooling cooled_briefly = {16, 200, 1e5}, cooled_well = {64, 400, 1.8e5};

/* With which shares an attempt begins: they decide more than anything else in the search, which moves trees better than
 * shares. */
enum { PLANNED = 4 };
struct start {
  uint32_t n;
  double *share; /* of each; room for as many as may be; they sum to 1 */
};

struct search {
  const struct by_graph *graph;
  const struct by_few_options *options;
  struct by_grower grower;
  struct by_rates best; /* under the height that is being tried */
  double least_rate, bound;
  double limit;    /* what so many trees cannot exceed; INFINITY: not known */
  double work;     /* edges that were looked at */
  uint32_t sweeps; /* of an attempt; half as many rounds */
  bool tightened;
  uint32_t luckiest;               /* the attempt that gave the best */
  struct start start, lucky_start; /* of this attempt, and of that one */
  uint32_t n_reach, n_roots;
  uint32_t *vertex, *roots; /* from where trees may grow, nearest to everything first; those for one height */
  double *reach;            /* of each of them */
  struct by_arena arena;
};

struct by_few_options by_few_defaults(void) {
  return (struct by_few_options){
      .max_trees = 8, .most_height = INFINITY, .tolerance = 0.01, .bound = INFINITY, .seed = 1};
}

/* More than that is not to be had. */
static double goal(const struct search *s) {
  return fmin(s->bound, s->limit);
}

/* --- shares to begin with --- */

static void normalise(struct start *start) {
  double sum = 0;
  for (uint32_t i = 0; i < start->n; i++) sum += start->share[i];
  for (uint32_t i = 0; i < start->n; i++) start->share[i] /= sum;
}

/* Of how many equal trees most may be expected: of a torus in three dimensions, six use what eight cannot share out. */
static uint32_t best_of_equal(const struct by_graph *graph, uint32_t most, double bound) {
  double best = fmin(by_limit_of_equal_trees(graph, most), bound);
  uint32_t chosen = most;
  for (uint32_t n = most - 1; n > most / 4 && best < bound; n--) {
    double limit = fmin(by_limit_of_equal_trees(graph, n), bound);
    if (limit < best * worth_fewer) continue;
    best = limit;
    chosen = n;
  }
  return chosen;
}

/* Shares far apart suit unequal links, one tree over a wide one and others over narrow ones; equal ones suit equal
 * links. */
static void start_planned(struct start *start, const struct by_graph *graph, uint32_t most, double bound,
                          uint32_t number) {
  static const double powers[PLANNED] = {1, 0, 0.5, 0};
  start->n = number == 1 ? best_of_equal(graph, most, bound) : most;
  for (uint32_t i = 0; i < start->n; i++) start->share[i] = pow(i + 1, -powers[number]);
  normalise(start);
}

static void start_near(struct start *start, const struct by_rates *best, uint32_t most, struct by_rng *rng) {
  uint32_t n = 0;
  for (uint32_t t = 0; t < best->pool.n_trees && n < most; t++)
    if (best->lp->rate[t] > 0) start->share[n++] = best->lp->rate[t] / best->throughput;
  while (n < most) start->share[n++] = 1.0 / 4 / most;
  for (uint32_t i = 0; i < most; i++) start->share[i] *= exp(stray * (by_rng_unit(rng) + by_rng_unit(rng) - 1));
  start->n = most;
  normalise(start);
}

/* --- shares by linear program --- */

/* A slot whose tree is not wanted gets half of what the largest has, for a tree that is. */
static void share_out(struct by_slots *slots, uint32_t idle) {
  uint32_t largest = 0;
  for (uint32_t i = 1; i < slots->n; i++)
    if (slots->slots[i].share > slots->slots[largest].share) largest = i;
  slots->slots[idle].share = slots->slots[largest].share /= 2;
}

/* Moves the shares towards the rates of the program. */
static void move_shares(struct by_slots *slots, const struct by_rates *rates) {
  double sum = 0;
  for (uint32_t i = 0; i < slots->n; i++) {
    uint32_t same = 0; /* slots may hold the same tree */
    for (uint32_t j = 0; j < slots->n; j++) same += slots->slots[j].number == slots->slots[i].number;
    double wanted = rates->lp->rate[slots->slots[i].number] / rates->throughput / same;
    slots->slots[i].share += damping * (wanted - slots->slots[i].share);
  }
  for (uint32_t i = 0; i < slots->n; i++)
    if (slots->slots[i].share < 0.02 / slots->n) share_out(slots, i);
  for (uint32_t i = 0; i < slots->n; i++) sum += slots->slots[i].share;
  for (uint32_t i = 0; i < slots->n; i++) slots->slots[i].share /= sum;
}

/* Takes `rates` over: as the best one, or it is freed. */
static void keep_better(struct search *s, struct by_rates *rates) {
  struct by_rates worse = *rates;
  if (rates->throughput > s->best.throughput) {
    worse = s->best;
    s->best = *rates;
  }
  by_rates_fini(&worse);
}

/* The best rates of the slots' trees, and if `mixed` of the K best of these and of the best so far, which need not be
 * all of one or the other; and shares after them, if `move`. */
static enum banyan_status look(struct search *s, struct by_slots *slots, bool move, bool mixed) {
  const struct by_pool *known = &s->best.pool;
  struct by_rates rates;
  BY_TRY(by_graph_check_cancelled(s->graph));
  BY_TRY(by_rates_init(&rates, s->graph));
  enum banyan_status status = BANYAN_OK;
  for (uint32_t i = 0; status == BANYAN_OK && i < slots->n; i++)
    status = by_rates_add(&rates, slots->slots[i].edges, slots->slots[i].n, &slots->slots[i].number);
  for (uint32_t t = 0; status == BANYAN_OK && mixed && t < known->n_trees; t++)
    status = by_rates_add(&rates, known->trees[t]->edges, known->trees[t]->n, NULL);
  if (status == BANYAN_OK) status = by_rates_keep(&rates, mixed ? s->options->max_trees : 0, s->least_rate);
  if (status != BANYAN_OK) {
    by_rates_fini(&rates);
    return status;
  }
  if (move && rates.throughput > 0) move_shares(slots, &rates);
  keep_better(s, &rates);
  if (s->best.throughput > 0) {
    slots->target = fmin(goal(s), s->best.throughput * ahead);
    by_slots_recount(slots);
  }
  return BANYAN_OK;
}

/* --- one attempt --- */

/* wanted = INFINITY: as much as the work is worth. */
static bool enough(const struct search *s, double wanted) {
  double gap = fmin(s->work / work_to_the_end, 1) * gap_in_the_end;
  return s->best.throughput >= (isinf(wanted) ? (near_enough - gap) * goal(s) : wanted);
}

static bool sweep_once(struct search *s, struct by_slots *slots) {
  s->work += (double)slots->n * s->graph->n_edges;
  return by_slots_sweep(slots);
}

/* Prices get steeper from sweep to sweep: at first trees spread, at last the fullest resource alone counts. In large
 * graphs it ends when nothing has been gained for a while. */
static enum banyan_status anneal(struct search *s, struct by_slots *slots, double wanted) {
  uint32_t idle = 0, idle_limit = s->work > work_of_more ? DULL_LOOKS : s->sweeps;
  for (uint32_t sweep = 0; sweep < s->sweeps && idle < idle_limit && !enough(s, wanted); sweep++) {
    double before = s->best.throughput;
    BY_TRY(by_graph_check_cancelled(s->graph));
    slots->steep = first_steepness * pow(last_steepness / first_steepness, (double)sweep / (s->sweeps - 1));
    if (!sweep_once(s, slots)) return BANYAN_OK;
    if (sweep % LOOK_EVERY != 0 && sweep + 1 < s->sweeps) continue;
    BY_TRY(look(s, slots, false, false));
    idle = s->best.throughput > before * worth_a_round ? 0 : idle + 1;
  }
  return BANYAN_OK;
}

/* Shares and trees in turn, until neither gains. */
static enum banyan_status polish(struct search *s, struct by_slots *slots, double wanted) {
  for (uint32_t round = 0, idle = 0; round < s->sweeps / 2 && idle < IDLE_LIMIT && !enough(s, wanted);
       round++, idle++) {
    double before = s->best.throughput;
    BY_TRY(look(s, slots, true, false));
    if (s->best.throughput > before * worth_a_round) idle = 0;
    if (!sweep_once(s, slots)) return BANYAN_OK;
  }
  return BANYAN_OK;
}

/* --- edge by edge --- */

/* Less and less of what overloads links, with shares after the program; always for a little more than the best. */
static enum banyan_status cool(struct search *s, struct by_slots *slots, const struct cooling *how) {
  struct by_swaps swaps;
  if (!slots->slots[slots->n - 1].n) return BANYAN_OK;
  BY_TRY(by_swaps_init(&swaps, slots));
  enum banyan_status status = BANYAN_OK;
  double work = fmin(how->each * slots->n * s->graph->n_vertices, how->most);
  for (uint32_t i = 0; status == BANYAN_OK && i < how->steps && !enough(s, INFINITY); i++) {
    slots->target = fmin(goal(s), s->best.throughput * ahead_of_swaps);
    by_swaps_try(&swaps, (uint64_t)work, first_heat * pow(last_heat / first_heat, (double)i / (how->steps - 1)));
    s->work += work_of_swap * work;
    status = look(s, slots, true, false);
  }
  by_swaps_fini(&swaps);
  return status;
}

/* Where few trees are far from what may be had, as well as that is known, and heights do not matter. */
static bool may_swap(const struct search *s, double most_height, double wanted) {
  return isinf(wanted) && isinf(most_height) && isfinite(s->bound) && s->graph->n_vertices == s->graph->n_terminals &&
         (s->tightened || !s->options->tighten) && s->best.throughput > 0 && s->best.throughput < good_enough * goal(s);
}

/* The first attempts begin as planned, those after them near the best. Where a height is wanted, the luckiest one is
 * made again. */
static void begin(struct search *s, uint32_t number, double wanted, struct by_rng *rng) {
  const struct by_few_options *o = s->options;
  if (!isinf(wanted)) {
    s->start.n = s->lucky_start.n;
    memcpy(s->start.share, s->lucky_start.share, s->start.n * sizeof *s->start.share);
  } else if (number < PLANNED || !(s->best.throughput > 0)) {
    start_planned(&s->start, s->graph, o->max_trees, goal(s), number % PLANNED);
  } else {
    start_near(&s->start, &s->best, o->max_trees, rng);
  }
}

static enum banyan_status attempt(struct search *s, uint32_t number, double most_height, double wanted) {
  struct by_rng rng;
  by_rng_init(&rng, s->options->seed + number);
  begin(s, number, wanted, &rng);
  struct by_slots slots;
  BY_TRY(by_slots_init(&slots, &s->grower, s->start.n, s->options->seed + number));
  slots.most_height = most_height;
  slots.roots = s->roots;
  slots.n_roots = s->n_roots;
  for (uint32_t i = 0; i < slots.n; i++) slots.slots[i].share = s->start.share[i];
  slots.target = isfinite(goal(s)) ? goal(s) : s->best.lp->unit;
  enum banyan_status status = anneal(s, &slots, wanted);
  bool hopeful = isinf(wanted) || s->best.throughput >= hopeless * wanted;
  if (status == BANYAN_OK && hopeful) status = polish(s, &slots, wanted);
  if (status == BANYAN_OK && may_swap(s, most_height, wanted)) status = cool(s, &slots, &cooled_briefly);
  bool whole = s->best.pool.n_trees && slots.slots[slots.n - 1].n;
  if (status == BANYAN_OK && hopeful && whole && !enough(s, wanted)) status = look(s, &slots, false, true);
  by_slots_fini(&slots);
  return status;
}

static void take_best(const struct search *s, struct by_slots *slots) {
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

/* The best once more, as long as it gets better. */
static enum banyan_status swap_while_it_helps(struct search *s) {
  struct by_slots slots;
  double before;
  do {
    uint32_t n = 0;
    before = s->best.throughput;
    for (uint32_t t = 0; t < s->best.pool.n_trees; t++) n += s->best.lp->rate[t] > 0;
    BY_TRY(by_slots_init(&slots, &s->grower, n, s->options->seed));
    take_best(s, &slots);
    enum banyan_status status = cool(s, &slots, &cooled_well);
    by_slots_fini(&slots);
    BY_TRY(status);
  } while (s->best.throughput > before * worth_an_attempt && s->work < most_work);
  return BANYAN_OK;
}

/* --- heights --- */

/* Of those that were not looked at, the vertex that may be most central: the least of what they reach at least. */
static uint32_t most_central(const struct search *s, const double *at_least) {
  uint32_t found = 0;
  for (uint32_t v = 1; v < s->graph->n_terminals; v++)
    if (at_least[v] < at_least[found]) found = v;
  return found;
}

/* Looks at the central terminals, and how far everything is from them, until none can be more central than the best
 * (Takes and Kosters 2013: every search bounds the reach of all others). Usually some dozens are enough. */
static void find_central(struct search *s, double *at_least) {
  double least = INFINITY;
  uint32_t most = s->graph->n_terminals < MOST_ROOTS ? s->graph->n_terminals : MOST_ROOTS;
  for (s->n_reach = 0; s->n_reach < most;) {
    uint32_t root = most_central(s, at_least);
    if (s->n_reach >= ENOUGH_ROOTS && at_least[root] >= least) return;
    double reach = by_grower_reach(&s->grower, root);
    for (uint32_t v = 0; v < s->graph->n_terminals; v++)
      at_least[v] = fmax(at_least[v], fmax(s->grower.depth[v], reach - s->grower.depth[v]));
    at_least[root] = INFINITY;
    s->vertex[s->n_reach] = root;
    s->reach[s->n_reach++] = reach;
    least = fmin(least, reach);
  }
}

static enum banyan_status measure_reach(struct search *s) {
  s->vertex = BY_ARENA_ARRAY(&s->arena, uint32_t, MOST_ROOTS);
  s->roots = BY_ARENA_ARRAY(&s->arena, uint32_t, MOST_ROOTS);
  s->reach = BY_ARENA_ARRAY(&s->arena, double, MOST_ROOTS);
  double *at_least = BY_ARENA_ARRAY(&s->arena, double, s->graph->n_terminals);
  if (!s->vertex || !s->roots || !s->reach || !at_least) return by_plan_no_memory();
  for (uint32_t v = 0; v < s->graph->n_vertices; v++) s->grower.allowed[v] = true;
  find_central(s, at_least);
  return BANYAN_OK;
}

static double least_reach(const struct search *s) {
  double least = INFINITY;
  for (uint32_t i = 0; i < s->n_reach; i++) least = fmin(least, s->reach[i]);
  return least;
}

/* Asks for a better bound, once, where it matters: trees that nearly reach a loose one prove it good, and where they do
 * not, the search would go on in vain. */
static enum banyan_status tighten(struct search *s) {
  const struct by_few_options *o = s->options;
  if (!o->tighten || s->tightened || s->best.throughput >= proves_the_bound * s->bound) return BANYAN_OK;
  s->tightened = true;
  return o->tighten(o->context, &s->bound);
}

static void remember_start(struct search *s, uint32_t number) {
  struct start lucky = s->start;
  s->start = s->lucky_start;
  s->lucky_start = lucky;
  s->luckiest = number;
}

/* The best trees under that height into s->best, which is empty where there are none: from the attempts first .. end
 * - 1. Stops at `wanted`. */
static enum banyan_status search_under(struct search *s, double most_height, double wanted, uint32_t first,
                                       uint32_t end) {
  BY_TRY(by_rates_init(&s->best, s->graph));
  s->n_roots = 0;
  for (uint32_t i = 0; i < s->n_reach; i++)
    if (s->reach[i] <= most_height) s->roots[s->n_roots++] = s->vertex[i];
  for (uint32_t i = first, idle = 0; i < end && s->n_roots && idle < IDLE_ATTEMPTS && !enough(s, wanted); i++) {
    if (i > first && s->work > (i < ATTEMPTS ? most_work : work_of_tries)) break;
    double before = s->best.throughput;
    BY_TRY(attempt(s, i, most_height, wanted));
    if (isinf(wanted)) BY_TRY(tighten(s));
    if (isinf(wanted) && i == first && !enough(s, wanted))
      BY_TRY(by_limit_of_trees(s->graph, s->options->max_trees, &s->limit));
    if (isinf(wanted) && s->best.throughput > before) remember_start(s, i);
    bool dull = i > first && s->best.throughput < before * worth_an_attempt;
    if (dull && s->best.throughput >= good_enough * goal(s)) break;
    idle = dull ? idle + 1 : 0;
  }
  if (may_swap(s, most_height, wanted)) BY_TRY(swap_while_it_helps(s));
  return by_rates_keep(&s->best, 0, fmax(s->least_rate, worth_a_tree * s->best.throughput));
}

static double height_of(struct search *s) {
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

/* The height to try next between one that is too low and one that will do; NAN: none. */
static double between(const struct search *s, double low, double high) {
  double exact = s->work > work_of_more ? 0.1 * high : s->options->by_delay ? 0.02 * high : 1;
  if (s->options->by_delay) return high - low > exact ? (low + high) / 2 : NAN;
  return high - low > fmax(exact, 1) ? floor((low + high) / 2) : NAN;
}

/* Bisects for the least height that keeps `wanted`. More height need not give more throughput, since the search is
 * a search; so the lowest that was seen to do is kept. On return that is s->best. */
static enum banyan_status lower(struct search *s, double wanted) {
  double low = least_reach(s), high = height_of(s);
  const uint32_t lucky = s->luckiest;
  low -= s->options->by_delay ? 1e-9 * low : 1;
  for (int i = 0; i < HEIGHTS && s->work < most_work_in_all; i++) {
    double height = between(s, low, high);
    if (isnan(height)) break;
    struct by_rates kept = s->best;
    enum banyan_status status = search_under(s, height, wanted, lucky, lucky + 1);
    bool good = status == BANYAN_OK && s->best.throughput >= wanted;
    if (!good) {
      by_rates_fini(&s->best);
      s->best = kept;
      if (status != BANYAN_OK) return status;
      low = height;
      continue;
    }
    by_rates_fini(&kept);
    high = height_of(s);
  }
  return BANYAN_OK;
}

static enum banyan_status check_options(const struct by_few_options *o) {
  if (!o->max_trees || o->max_trees > 4096)
    return by_fail(BANYAN_ERR_ARGUMENT, "%u trees were asked for; must be 1 to 4096", o->max_trees);
  if (!(o->most_height > 0)) return by_fail(BANYAN_ERR_ARGUMENT, "a height of %g; must be > 0", o->most_height);
  if (!(o->tolerance <= 1)) return by_fail(BANYAN_ERR_ARGUMENT, "a tolerance of %g; must be <= 1", o->tolerance);
  if (!(o->least_rate >= 0)) return by_fail(BANYAN_ERR_ARGUMENT, "a least rate of %g; must be >= 0", o->least_rate);
  return o->bound > 0 ? BANYAN_OK : by_fail(BANYAN_ERR_ARGUMENT, "a bound of %g; must be > 0", o->bound);
}

static enum banyan_status report_nothing_found(const struct search *s) {
  const char *unit = s->options->by_delay ? " s" : "";
  char rate[32];
  if (!s->n_roots)
    return by_fail(BANYAN_ERR_PLAN, "no tree has a height of %g%s: the least that there is, is %g%s",
                   s->options->most_height, unit, least_reach(s), unit);
  return by_fail(BANYAN_ERR_PLAN, "no tree was found that carries %s; lower the least rate",
                 by_print_rate(s->least_rate, rate));
}

static enum banyan_status run(struct search *s, struct by_packing **out) {
  const struct by_few_options *o = s->options;
  s->least_rate = o->least_rate;
  s->bound = o->bound;
  s->limit = INFINITY;
  s->start.share = BY_ARENA_ARRAY(&s->arena, double, o->max_trees);
  s->lucky_start.share = BY_ARENA_ARRAY(&s->arena, double, o->max_trees);
  if (!s->start.share || !s->lucky_start.share) return by_plan_no_memory();
  s->sweeps = (uint32_t)fmin(SWEEPS, fmax(LEAST_SWEEPS, most_work / 2 / o->max_trees / s->graph->n_edges));
  BY_TRY(measure_reach(s));
  BY_TRY(search_under(s, o->most_height, INFINITY, 0, o->attempts ? o->attempts : MOST_ATTEMPTS));
  if (!(s->best.throughput > 0)) return report_nothing_found(s);
  double least = (1 - o->tolerance) * (isfinite(s->bound) ? s->bound : s->best.throughput);
  if (o->tolerance >= 0) BY_TRY(lower(s, fmin(least, s->best.throughput)));
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
  by_arena_init(&s.arena);
  enum banyan_status status = run(&s, out);
  by_rates_fini(&s.best);
  by_arena_fini(&s.arena);
  by_grower_fini(&s.grower);
  return status;
}
