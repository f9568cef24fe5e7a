/* Solves the linear program over candidates, finds new candidates by its prices, and chooses few of them. */
#include "embed_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_make.h"
#include "rates.h"
#include "text.h"

enum { SHORT_LIST = 256, SWEEPS = 6, EXCHANGES = 4, TRIED = 12 };
/* The part of the time that counts for the height and width of all ranks together. */
static const double height_weight = 0.005;
/* The number of hops for which a child counts: queues overflow where many send to one port. */
static const double hops_per_child = 2;
static const double use_weight = 0.05; /* The part of the time for which full links count (get_use). */
static const double min_better = 1e-9;

/* --- The program. --- */

enum banyan_status by_embed_master_add(struct by_embed_master *m) {
  for (uint32_t c = m->lp->n_columns; c < m->list->n; c++) {
    for (uint32_t r = 0; r < m->lp->n_rows; r++) m->load[r] = m->list->items[c].load[r] * m->lp->unit;
    BY_TRY(by_lp_add(m->lp, 1, m->load));
  }
  return BANYAN_OK;
}

enum banyan_status by_embed_master_init(struct by_embed_master *m, struct by_embed_candidates *list) {
  uint32_t n = list->net->n_rows;
  double min = INFINITY;
  *m = (struct by_embed_master){.list = list, .fair = calloc(n, sizeof *m->fair), .load = calloc(n, sizeof *m->load)};
  if (!m->fair || !m->load) return by_plan_no_memory();
  for (uint32_t c = 0; c < list->n; c++) min = fmin(min, list->items[c].theta);
  for (uint32_t r = 0; r < n; r++) m->load[r] = 1;
  BY_TRY(by_lp_create(n, m->load, 1 / min, &m->lp));
  return by_embed_master_add(m);
}

void by_embed_master_fini(struct by_embed_master *master) {
  by_lp_destroy(master->lp);
  free(master->fair);
  free(master->load);
  *master = (struct by_embed_master){0};
}

/* Returns the load of the fullest resource at the rates, relative to its capacity. */
static double get_max_load(struct by_embed_master *m) {
  uint32_t n = m->list->net->n_rows;
  double max = 0;
  memset(m->load, 0, n * sizeof *m->load);
  for (uint32_t c = 0; c < m->list->n; c++)
    for (uint32_t r = 0; m->lp->rate[c] > 0 && r < n; r++) m->load[r] += m->lp->rate[c] * m->list->items[c].load[r];
  for (uint32_t r = 0; r < n; r++) max = fmax(max, m->load[r]);
  return max;
}

enum banyan_status by_embed_master_solve(struct by_embed_master *m) {
  BY_TRY(by_lp_solve(m->lp));
  double max = get_max_load(m);
  m->throughput = by_lp_scale(m->lp, max > 0 ? max : 1);
  return BANYAN_OK;
}

/* --- New candidates by its prices. --- */

/* The smallest gain of a new tree, and of a round, as parts of the bound. */
static const double min_gain = 1e-6, progress = 1e-4;
enum { IDLE_LIMIT = 40 };

struct pricing {
  struct by_embed_master *master;
  /* The search for trees. Its bound is only an estimate, as if no tree were lighter than those found. */
  struct by_pricing trees;
  double *price; /* The price of each whole row. */
  bool graph;    /* Trees of the graph are allowed. */
};

static enum banyan_status solve_master(void *context, double *throughput) {
  struct by_embed_master *m = ((struct pricing *)context)->master;
  BY_TRY(by_embed_master_solve(m));
  *throughput = m->throughput;
  return BANYAN_OK;
}

/* Adds a light tree of the graph if at the program's prices it is worth more than it costs. *min becomes its weight at
 * the prices at which it was searched. */
static enum banyan_status price_tree(struct pricing *p, double *min) {
  const struct by_lp *lp = p->master->lp;
  const struct by_span *span = &p->trees.span;
  double cost = 0;
  *min = by_pricing_find(&p->trees);
  for (uint32_t i = 0; i < span->n_tree; i++) {
    const struct by_graph_edge *edge = &span->graph->edges[span->tree[i]];
    for (uint32_t j = 0; j < edge->n; j++) {
      uint32_t r = span->graph->uses[edge->first + j];
      cost += lp->price[r] / span->graph->capacity[r];
    }
  }
  if (cost * lp->unit >= 1 - min_gain) return BANYAN_OK;
  return by_embed_candidates_add_tree(p->master->list, span->tree, span->n_tree, NULL);
}

/* Adds in-network trees that are worth more than they cost. *min becomes their weight if that is less. */
static enum banyan_status price_network(struct pricing *p, double *min) {
  const struct by_embed_net *net = p->master->list->net;
  double ignored = INFINITY;
  for (uint32_t r = 0; r < net->n_rows; r++)
    p->price[r] = p->trees.price[r] * (r < net->graph->n_resources ? net->graph->capacity[r] : 1);
  BY_TRY(by_embed_candidates_price(p->master->list, p->price, 0, min));
  return by_embed_candidates_price(p->master->list, p->master->lp->price, (1 - min_gain) / p->master->lp->unit,
                                   &ignored);
}

static enum banyan_status add_priced(struct pricing *p, bool near_best) {
  double min = INFINITY;
  by_pricing_mix(&p->trees, p->master->lp->price, near_best);
  if (p->graph) BY_TRY(price_tree(p, &min));
  BY_TRY(price_network(p, &min));
  by_pricing_prove(&p->trees, min);
  return BANYAN_OK;
}

static enum banyan_status price_all_trees(void *context, double *bound, bool *added) {
  struct pricing *p = context;
  uint32_t known = p->master->list->n;
  BY_TRY(add_priced(p, true));
  BY_TRY(add_priced(p, false));
  *added = p->master->list->n > known;
  *bound = p->trees.bound;
  return by_embed_master_add(p->master);
}

/* Proves the bound with the best prices. */
static enum banyan_status prove_bound(struct pricing *p, double *bound) {
  struct by_embed_master *m = p->master;
  const struct by_graph *graph = m->list->net->graph;
  double all = 0, of_graph = 0, min = INFINITY;
  *bound = 0;
  for (uint32_t r = 0; r < m->list->net->n_rows; r++) {
    m->fair[r] = p->trees.best[r];
    all += m->fair[r];
    if (r >= graph->n_resources) continue;
    of_graph += m->fair[r];
    m->load[r] = m->fair[r] / graph->capacity[r];
  }
  if (p->graph) *bound = by_span_certify(&p->trees.span, m->load, true) * (all / of_graph);
  BY_TRY(by_embed_candidates_price(m->list, m->fair, 0, &min));
  *bound = fmax(*bound, all / min);
  return BANYAN_OK;
}

enum banyan_status by_embed_master_price(struct by_embed_master *master, double ratio, uint32_t rounds, double *bound) {
  const struct by_embed_net *net = master->list->net;
  const struct by_lp_rounds how = {.ratio = ratio,
                                   .max = rounds,
                                   .progress = progress,
                                   .idle_limit = IDLE_LIMIT,
                                   .solve = solve_master,
                                   .price = price_all_trees};
  struct pricing p = {.master = master,
                      .graph = master->list->allowed & ~(uint32_t)BY_PLAN_SWITCHES,
                      .price = calloc(net->n_rows, sizeof *p.price)};
  enum banyan_status status =
      p.price ? by_pricing_init(&p.trees, net->graph, net->n_rows, true, INFINITY) : by_plan_no_memory();
  if (status == BANYAN_OK) status = by_lp_generate(&how, &p, &p.trees.bound);
  if (status == BANYAN_OK) status = prove_bound(&p, bound);
  by_span_fini(&p.trees.span);
  free(p.price);
  return status;
}

/* --- Choosing few. --- */

struct choosing {
  struct by_embed_master *master;
  const struct by_embed_options *options;
  double best;                 /* The throughput in bit/s of any number of candidates, without later sets. */
  uint32_t n;                  /* The length of the short list. */
  uint32_t *listed;            /* The short list of candidates, those that cost least at the prices first. */
  double *cost;                /* The cost of each candidate at the prices. */
  double *rate;                /* The rate in bit/s of each candidate in the whole program. */
  double *load;                /* The load of each row by the steps. */
  uint32_t *steps;             /* The number of steps of each candidate of the short list. */
  struct by_embed_pick *trial; /* The trial, with the capacity for all candidates. */
  uint32_t n_trial;
  struct by_embed_picks *picks; /* The best picks so far. */
  struct by_arena arena;
};

static const struct by_embed_candidate *get_candidate(const struct choosing *c, uint32_t candidate) {
  return &c->master->list->items[candidate];
}

/* --- The score of a set. --- */

/* Returns how full links between switches are, on average, of the residual capacity, plus how full the fullest resource
 * is, of its total capacity. So of plans with another bottleneck, the one that does best when others use less is
 * chosen. */
static double get_use(const struct by_embed_candidates *list, const struct by_embed_pick *picks, uint32_t n) {
  const struct by_embed_net *net = list->net;
  double sum = 0, max = 0;
  for (uint32_t r = 0; r < net->n_rows; r++) {
    double full = 0;
    for (uint32_t i = 0; i < n; i++) full += picks[i].rate * list->items[picks[i].candidate].load[r];
    if (net->shared[r]) sum += full;
    max = fmax(max, full * net->left[r]);
  }
  return max + (net->n_shared ? sum / net->n_shared : 0);
}

double by_embed_score(const struct by_embed_candidates *list, const struct by_embed_pick *picks, uint32_t n,
                      double throughput, double best, double penalty) {
  double max = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct by_embed_candidate *candidate = &list->items[picks[i].candidate];
    max = fmax(max, candidate->height + hops_per_child * candidate->width);
  }
  return best / throughput + penalty * n + height_weight * max / list->net->graph->n_terminals +
         use_weight * get_use(list, picks, n);
}

static int compare_rates(const void *a, const void *b) {
  const struct by_embed_pick *x = a, *y = b;
  if (x->rate != y->rate) return x->rate > y->rate ? -1 : 1;
  return (x->candidate > y->candidate) - (x->candidate < y->candidate);
}

/* Solves for just the candidates of the trial, and keeps those that have a rate, largest first. */
static enum banyan_status solve_trial(struct choosing *c) {
  struct by_embed_master *m = c->master;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < m->list->n; i++) by_lp_allow(m->lp, i, false);
  for (uint32_t i = 0; i < c->n_trial; i++) by_lp_allow(m->lp, c->trial[i].candidate, true);
  BY_TRY(by_embed_master_solve(m));
  for (uint32_t i = 0; i < c->n_trial; i++) {
    uint32_t candidate = c->trial[i].candidate;
    if (m->lp->rate[candidate] > 0) c->trial[kept++] = (struct by_embed_pick){candidate, m->lp->rate[candidate]};
  }
  c->n_trial = kept;
  if (kept) qsort(c->trial, kept, sizeof *c->trial, compare_rates);
  return BANYAN_OK;
}

/* Keeps the trial, without candidates that the limits do not allow, if it is better than all before. */
static enum banyan_status consider_trial(struct choosing *c) {
  struct by_embed_picks *picks = c->picks;
  for (;;) {
    BY_TRY(solve_trial(c));
    if (!c->n_trial) return BANYAN_OK;
    bool too_small = c->trial[c->n_trial - 1].rate < c->options->min_rate;
    if (c->n_trial <= c->options->max_trees && !too_small) break;
    c->n_trial -= c->n_trial > c->options->max_trees ? (c->n_trial - c->options->max_trees + 3) / 4 : 1;
  }
  double score =
      by_embed_score(c->master->list, c->trial, c->n_trial, c->master->throughput, c->best, c->options->penalty);
  if (score >= picks->score - min_better) return BANYAN_OK;
  *picks = (struct by_embed_picks){c->n_trial, picks->items, c->master->throughput, score};
  memcpy(picks->items, c->trial, c->n_trial * sizeof *c->trial);
  return BANYAN_OK;
}

/* --- Single candidates. --- */

static enum banyan_status try_single(struct choosing *c, struct by_embed_pick *found) {
  *found = (struct by_embed_pick){0};
  double min = INFINITY;
  for (uint32_t i = 0; i < c->master->list->n; i++) {
    struct by_embed_pick pick = {i, 1 / get_candidate(c, i)->theta};
    double score = by_embed_score(c->master->list, &pick, 1, pick.rate, c->best, c->options->penalty);
    if (score >= min) continue;
    min = score;
    *found = pick;
  }
  c->trial[0] = *found;
  c->n_trial = 1;
  return consider_trial(c);
}

/* --- Weights in steps. --- */

/* Returns a smooth substitute for the largest load, of `load` and another candidate's step. It stops beyond `max`. */
static double get_fullness(const struct choosing *c, const double *step, double part, double max) {
  uint32_t n = c->master->list->net->n_rows;
  double sum = 0;
  for (uint32_t r = 0; r < n && sum < max; r++) {
    double x = c->load[r] + part * step[r];
    x *= x;
    x *= x;
    x *= x;
    sum += x * x;
  }
  return sum;
}

static void add_step(struct choosing *c, uint32_t i, double part) {
  const double *step = get_candidate(c, c->listed[i])->load;
  for (uint32_t r = 0; r < c->master->list->net->n_rows; r++) c->load[r] = fmax(c->load[r] + part * step[r], 0);
}

/* Adds the step that fills least. Returns its index in the short list. */
static uint32_t add_best_step(struct choosing *c, double part) {
  double min = INFINITY;
  uint32_t found = 0;
  for (uint32_t i = 0; i < c->n; i++) {
    double full = get_fullness(c, get_candidate(c, c->listed[i])->load, part, min);
    if (full >= min) continue;
    min = full;
    found = i;
  }
  add_step(c, found, part);
  c->steps[found]++;
  return found;
}

/* Starts with steps in the proportions of the program's rates, rounded down, or with none, and adds the best steps. */
static void start_steps(struct choosing *c, uint32_t z, bool from_rates) {
  uint32_t left = z;
  memset(c->steps, 0, c->n * sizeof *c->steps);
  memset(c->load, 0, c->master->list->net->n_rows * sizeof *c->load);
  for (uint32_t i = 0; from_rates && i < c->n; i++) {
    uint32_t whole = (uint32_t)(c->rate[c->listed[i]] / c->best * z);
    c->steps[i] = whole < left ? whole : left;
    left -= c->steps[i];
    add_step(c, i, c->best / z * c->steps[i]);
  }
  while (left--) (void)add_best_step(c, c->best / z);
}

/* Removes each step in turn and adds the best one instead, until nothing changes. */
static void move_steps(struct choosing *c, uint32_t z) {
  bool moved = true;
  for (int sweep = 0; moved && sweep < SWEEPS; sweep++) {
    moved = false;
    for (uint32_t i = 0; i < c->n; i++)
      for (uint32_t left = c->steps[i]; left > 0; left--) {
        add_step(c, i, -c->best / z);
        c->steps[i]--;
        moved |= add_best_step(c, c->best / z) != i;
      }
  }
}

static enum banyan_status try_steps(struct choosing *c, bool from_rates) {
  uint32_t finest = c->options->steps;
  for (uint32_t z = 1, next; z; z = next) {
    next = z == finest ? 0 : 2 * z < finest ? 2 * z : finest;
    start_steps(c, z, from_rates);
    move_steps(c, z);
    c->n_trial = 0;
    for (uint32_t i = 0; i < c->n; i++)
      if (c->steps[i]) c->trial[c->n_trial++] = (struct by_embed_pick){.candidate = c->listed[i]};
    BY_TRY(consider_trial(c));
  }
  return BANYAN_OK;
}

/* --- Exchange. --- */

static void price_all(struct choosing *c, const double *price) {
  const struct by_embed_master *m = c->master;
  for (uint32_t i = 0; i < m->list->n; i++) {
    c->cost[i] = 0;
    for (uint32_t r = 0; r < m->list->net->n_rows; r++) c->cost[i] += price[r] * m->list->items[i].load[r];
  }
}

static void copy_picks(struct choosing *c) {
  c->n_trial = c->picks->n;
  memcpy(c->trial, c->picks->items, c->picks->n * sizeof *c->trial);
}

static enum banyan_status try_without_each(struct choosing *c) {
  for (uint32_t i = 0; i < c->picks->n && c->picks->n > 1; i++) {
    copy_picks(c);
    c->trial[i] = c->trial[--c->n_trial];
    BY_TRY(consider_trial(c));
  }
  return BANYAN_OK;
}

static bool has_pick(const struct choosing *c, uint32_t candidate) {
  for (uint32_t i = 0; i < c->picks->n; i++)
    if (c->picks->items[i].candidate == candidate) return true;
  return false;
}

/* Tries each of the candidates that are cheapest at the prices of the best set. Over the limit the smallest is
 * dropped. */
static enum banyan_status try_with_others(struct choosing *c) {
  copy_picks(c);
  BY_TRY(solve_trial(c));
  price_all(c, c->master->lp->price);
  for (int i = 0; i < TRIED; i++) {
    uint32_t cheapest = 0;
    for (uint32_t j = 1; j < c->n; j++)
      if (c->cost[c->listed[j]] < c->cost[c->listed[cheapest]]) cheapest = j;
    c->cost[c->listed[cheapest]] = INFINITY;
    if (has_pick(c, c->listed[cheapest])) continue;
    copy_picks(c);
    c->trial[c->n_trial++] = (struct by_embed_pick){.candidate = c->listed[cheapest]};
    BY_TRY(consider_trial(c));
  }
  return BANYAN_OK;
}

static enum banyan_status exchange_picks(struct choosing *c) {
  for (int i = 0; i < EXCHANGES; i++) {
    double before = c->picks->score;
    BY_TRY(try_without_each(c));
    BY_TRY(try_with_others(c));
    if (c->picks->score >= before) break;
  }
  return BANYAN_OK;
}

/* --- The choice. --- */

/* Lists the candidates that the program uses, followed by those that cost least at the fair prices. Trees that pricing
 * found all cost about the same, so those that the program does not use come last. */
static enum banyan_status make_short_list(struct choosing *c) {
  uint32_t n = c->master->list->n;
  struct by_heap_item *all = BY_ARENA_ARRAY(&c->arena, struct by_heap_item, n);
  if (!all) return by_plan_no_memory();
  price_all(c, c->master->fair);
  for (uint32_t i = 0; i < n; i++) {
    bool last = get_candidate(c, i)->kind == BY_EMBED_PACKED && !get_candidate(c, i)->set;
    all[i] = (struct by_heap_item){c->master->lp->rate[i] > 0 ? -1 : last ? INFINITY : c->cost[i], i};
  }
  qsort(all, n, sizeof *all, by_heap_compare);
  c->n = n < SHORT_LIST ? n : SHORT_LIST;
  for (uint32_t i = 0; i < c->n; i++) c->listed[i] = all[i].number;
  return BANYAN_OK;
}

/* Tries all candidates that have a rate in the whole program, and each set of candidates, also with the best single
 * candidate. */
static enum banyan_status try_sets(struct choosing *c, struct by_embed_pick single) {
  for (uint32_t set = 0; set < BY_EMBED_N_SETS; set++) {
    c->n_trial = 0;
    for (uint32_t i = 0; i < c->master->list->n; i++)
      if (set ? get_candidate(c, i)->set == set : c->rate[i] > 0)
        c->trial[c->n_trial++] = (struct by_embed_pick){.candidate = i};
    if (!c->n_trial) continue;
    BY_TRY(consider_trial(c));
    if (!set || get_candidate(c, single.candidate)->set == set) continue;
    c->trial[c->n_trial++] = single;
    BY_TRY(consider_trial(c));
  }
  return BANYAN_OK;
}

static enum banyan_status choose_few(struct choosing *c) {
  uint32_t n = c->master->list->n;
  struct by_embed_pick single;
  char rate[32];
  BY_TRY(make_short_list(c));
  memcpy(c->rate, c->master->lp->rate, n * sizeof *c->rate);
  BY_TRY(try_single(c, &single));
  BY_TRY(try_steps(c, true));
  BY_TRY(try_steps(c, false));
  BY_TRY(try_sets(c, single));
  if (!c->picks->n)
    return by_fail(BANYAN_ERR_PLAN, "none of the %u candidates carries %s alone, the least rate of a tree", n,
                   by_print_rate(c->options->min_rate, rate));
  return exchange_picks(c);
}

/* Tries the set alone, and with the picks, of which those with the smallest rates are dropped. */
static enum banyan_status choose_with_set(struct choosing *c, uint32_t set) {
  BY_TRY(make_short_list(c));
  for (int with_picks = 0; with_picks < 2; with_picks++) {
    c->n_trial = 0;
    if (with_picks) copy_picks(c);
    for (uint32_t i = 0; i < c->master->list->n; i++)
      if (get_candidate(c, i)->set == set && !(with_picks && has_pick(c, i)))
        c->trial[c->n_trial++] = (struct by_embed_pick){.candidate = i};
    BY_TRY(consider_trial(c));
  }
  return exchange_picks(c);
}

enum banyan_status by_embed_choose(struct by_embed_master *master, const struct by_embed_options *options, double best,
                                   uint32_t set, struct by_embed_picks *picks) {
  if (set) BY_TRY(by_embed_master_add(master));
  struct choosing c = {.master = master, .options = options, .best = best, .picks = picks};
  size_t n = master->list->n;
  c.listed = BY_ARENA_ARRAY(&c.arena, uint32_t, n);
  c.cost = BY_ARENA_ARRAY(&c.arena, double, n);
  c.rate = BY_ARENA_ARRAY(&c.arena, double, n);
  c.load = BY_ARENA_ARRAY(&c.arena, double, master->list->net->n_rows);
  c.steps = BY_ARENA_ARRAY(&c.arena, uint32_t, n);
  c.trial = BY_ARENA_ARRAY(&c.arena, struct by_embed_pick, 2 * n + 1);
  if (!set) *picks = (struct by_embed_picks){.score = INFINITY};
  if (!set) picks->items = calloc(n + BY_EMBED_MAX_LATER, sizeof *picks->items);
  enum banyan_status status = by_plan_no_memory();
  if (!c.arena.failed && picks->items) status = set ? choose_with_set(&c, set) : choose_few(&c);
  by_arena_fini(&c.arena);
  return status;
}
