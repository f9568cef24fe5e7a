/* Packs pairs of directed trees with the same root: sums go to the root along one, results leave it along the other.
 *
 * A linear program finds the rates of the known pairs, and its prices of resources find more pairs (column generation).
 * The lightest pair at any prices y proves a bound: every pair uses resources of at least this weight, so that no set
 * of pairs has a rate above sum(capacity * y) / weight. pairs_few.c reduces the pairs to a limited number. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pairs_parts.h"

#define NONE UINT32_MAX

enum { ROUNDS = 400, IDLE_ROUNDS = 20 };
/* The weight of the best prices in a mixture, and the parts of the bound for by_lp_generate: the throughput at which it
 * ends, the gain that counts as progress, and the throughput that suffices without progress. */
static const double smoothing = 0.7, exact_ratio = 0.9995, progress = 1e-4, good_enough = 0.99;

/* --- Trees. --- */

/* Returns the depth of the deepest host, in hops or seconds. */
static double measure_height(const struct by_pair_search *s, const struct by_directed *net, uint32_t root,
                             const uint32_t *arc) {
  double height = 0;
  for (uint32_t v = 0; v < net->n; v++) {
    double depth = 0;
    for (uint32_t u = v; u != root; u = net->arcs[arc[u]].from)
      depth += s->options->by_delay ? net->arcs[arc[u]].delay : 1;
    height = fmax(height, depth);
  }
  return height;
}

/* Grows a tree from the root by the lightest arc that keeps the height limit. Returns false if some host cannot be
 * added. */
static bool grow_low(struct by_pair_search *s, const struct by_directed *net, uint32_t root, uint32_t *arc) {
  for (uint32_t v = 0; v < net->n; v++) s->depth[v] = v == root ? 0 : INFINITY;
  for (uint32_t added = 1; added < net->n; added++) {
    uint32_t best = NONE;
    for (uint32_t a = 0; a < net->n_arcs; a++) {
      const struct by_arc *x = &net->arcs[a];
      double depth = s->depth[x->from] + (s->options->by_delay ? x->delay : 1);
      if (isfinite(s->depth[x->to]) || depth > s->options->max_height) continue;
      if (best == NONE || s->weight[a] < s->weight[best]) best = a;
    }
    if (best == NONE) return false;
    const struct by_arc *x = &net->arcs[best];
    s->depth[x->to] = s->depth[x->from] + (s->options->by_delay ? x->delay : 1);
    arc[x->to] = best;
  }
  return true;
}

/* Finds a light tree within the height limit, and stores its arcs. `*min` becomes the weight of the lightest tree of
 * any height. Returns the weight of the tree; INFINITY: none was found. */
static double find_tree(struct by_pair_search *s, struct by_arborescence *search, uint32_t root, uint32_t *arc,
                        double *min) {
  double weight = *min = by_arborescence_find(search, root, s->weight);
  if (isinf(weight)) return weight;
  memcpy(arc, search->arc, s->net->n * sizeof *arc);
  if (isinf(s->options->max_height) || measure_height(s, search->net, root, arc) <= s->options->max_height)
    return weight;
  if (!grow_low(s, search->net, root, arc)) return INFINITY;
  weight = 0;
  for (uint32_t v = 0; v < s->net->n; v++)
    if (v != root) weight += s->weight[arc[v]];
  return weight;
}

static void add_load(const struct by_pair_search *s, const uint32_t *arc, uint32_t root, double rate, double *load) {
  const struct by_directed *net = s->net;
  for (uint32_t v = 0; v < net->n; v++)
    for (uint32_t i = 0; v != root && i < net->arcs[arc[v]].n; i++) {
      uint32_t row = s->row[net->uses[net->arcs[arc[v]].first + i]];
      if (row != NONE) load[row] += rate;
    }
}

void by_pair_set_load(const struct by_pair_search *s, const struct by_pair_arcs *pair, double *load) {
  memset(load, 0, s->lp->n_rows * sizeof *load);
  add_load(s, pair->up, pair->root, 1, load);
  add_load(s, pair->down, pair->root, 1, load);
}

double by_pair_height(const struct by_pair_search *s, const struct by_pair_arcs *pair) {
  double up = measure_height(s, &s->turned, pair->root, pair->up);
  return fmax(up, measure_height(s, s->net, pair->root, pair->down));
}

static bool is_same(const struct by_pair_search *s, const struct by_pair_arcs *a, const struct by_pair_arcs *b) {
  bool same = a->root == b->root;
  for (uint32_t v = 0; same && v < s->net->n; v++)
    same = v == a->root || (a->up[v] == b->up[v] && a->down[v] == b->down[v]);
  return same;
}

enum banyan_status by_pair_add(struct by_pair_search *s, const struct by_pair_arcs *pair, uint32_t *column) {
  uint32_t n = s->net->n, p = 0;
  while (p < s->n_pairs && !is_same(s, pair, &s->pairs[p])) p++;
  *column = p;
  if (p < s->n_pairs) return BANYAN_OK;
  if (!BY_ARRAY_GROW(&s->pairs, &s->allocated_pairs, (size_t)p + 1)) return by_directed_no_memory();
  uint32_t *arcs = BY_ARENA_ARRAY(&s->arena, uint32_t, 2 * (size_t)n);
  if (!arcs) return by_directed_no_memory();
  struct by_pair_arcs *made = &s->pairs[s->n_pairs++];
  *made = (struct by_pair_arcs){.root = pair->root, .up = arcs, .down = arcs + n};
  memcpy(made->up, pair->up, n * sizeof *arcs);
  memcpy(made->down, pair->down, n * sizeof *arcs);
  by_pair_set_load(s, pair, s->load);
  return by_lp_add(s->lp, 1, s->load);
}

/* --- Prices. --- */

static void weigh_arcs(struct by_pair_search *s) {
  const struct by_directed *net = s->net;
  for (uint32_t a = 0; a < net->n_arcs; a++) {
    s->weight[a] = 0;
    for (uint32_t i = 0; i < net->arcs[a].n; i++) {
      uint32_t row = s->row[net->uses[net->arcs[a].first + i]];
      if (row != NONE) s->weight[a] += s->price[row];
    }
  }
}

static double sum_prices(const struct by_pair_search *s, const double *price) {
  double sum = 0;
  for (uint32_t r = 0; r < s->lp->n_rows; r++) sum += s->capacity[r] * price[r];
  return sum;
}

/* The prices prove a bound if no pair is lighter than `min`. */
static void prove_bound(struct by_pair_search *s, double min) {
  double all = sum_prices(s, s->price), bound = all / min * s->lp->unit;
  if (!(min > 0) || !(bound < s->bound)) return;
  s->bound = bound;
  for (uint32_t r = 0; r < s->lp->n_rows; r++) s->best_price[r] = s->price[r] / all;
}

/* Finds the lightest pair of each root at the prices, and adds the lightest of all and those that weigh at most
 * `limit`. */
static enum banyan_status find_pairs(struct by_pair_search *s, double limit) {
  double min = INFINITY;
  uint32_t n = s->net->n, lightest = 0, column;
  weigh_arcs(s);
  for (uint32_t r = 0; r < n; r++) {
    double up, down, *weight = &s->lightest_weight[r];
    struct by_pair_arcs *pair = &s->lightest[r];
    *weight = find_tree(s, &s->towards, r, pair->up, &up) + find_tree(s, &s->away, r, pair->down, &down);
    min = fmin(min, up + down);
    if (*weight < s->lightest_weight[lightest]) lightest = r;
  }
  if (isinf(min)) return by_fail(BANYAN_ERR_TOPOLOGY, "no host can reach all others and be reached by them");
  prove_bound(s, min);
  for (uint32_t r = 0; r < n; r++)
    if (isfinite(s->lightest_weight[r]) && (r == lightest || s->lightest_weight[r] <= limit))
      BY_TRY(by_pair_add(s, &s->lightest[r], &column));
  return BANYAN_OK;
}

/* --- The largest packing. --- */

enum banyan_status by_pairs_solve(struct by_pair_search *s) {
  BY_TRY(by_lp_solve(s->lp));
  s->rate = s->lp->objective * s->lp->unit;
  return BANYAN_OK;
}

static enum banyan_status solve_rates(void *context, double *rate) {
  struct by_pair_search *s = context;
  BY_TRY(by_pairs_solve(s));
  *rate = s->rate;
  return BANYAN_OK;
}

static enum banyan_status add_columns(void *context, double *bound, bool *added) {
  struct by_pair_search *s = context;
  uint32_t before = s->n_pairs;
  for (int mixed = 1; mixed >= 0; mixed--) {
    double all = sum_prices(s, s->lp->price), part = mixed ? smoothing : 0;
    for (uint32_t r = 0; r < s->lp->n_rows; r++)
      s->price[r] = part * s->best_price[r] + (1 - part) * s->lp->price[r] / all;
    BY_TRY(find_pairs(s, 1 / all));
  }
  *added = s->n_pairs > before;
  *bound = s->bound;
  return BANYAN_OK;
}

static enum banyan_status pack_all(struct by_pair_search *s) {
  const struct by_lp_rounds rounds = {.ratio = exact_ratio,
                                      .max = ROUNDS,
                                      .progress = progress,
                                      .idle_limit = IDLE_ROUNDS,
                                      .good_enough = good_enough,
                                      .solve = solve_rates,
                                      .price = add_columns};
  for (uint32_t r = 0; r < s->lp->n_rows; r++) s->price[r] = 1 / s->capacity[r];
  BY_TRY(find_pairs(s, 0));
  if (!s->n_pairs) return BANYAN_OK;
  return by_lp_generate(&rounds, s, &s->bound);
}

/* --- The result. --- */

static int compare_rates(const void *a, const void *b) {
  const struct by_tree_pair *x = a, *y = b;
  return (x->rate < y->rate) - (x->rate > y->rate);
}

static enum banyan_status fill_pair(const struct by_pair_search *s, const struct by_pair_arcs *from,
                                    struct by_tree_pair *to, struct by_arena *arena) {
  uint32_t n = s->net->n;
  *to = (struct by_tree_pair){
      .root = from->root, .up = BY_ARENA_ARRAY(arena, uint32_t, n), .down = BY_ARENA_ARRAY(arena, uint32_t, n)};
  if (!to->up || !to->down) return by_directed_no_memory();
  for (uint32_t v = 0; v < n; v++) {
    to->up[v] = v == from->root ? v : s->net->arcs[from->up[v]].to;
    to->down[v] = v == from->root ? v : s->net->arcs[from->down[v]].from;
  }
  return BANYAN_OK;
}

static enum banyan_status fill_pairs(struct by_pair_search *s, struct by_pairs *out) {
  uint32_t n = 0, rows = s->lp->n_rows;
  double fullest = 0;
  for (uint32_t p = 0; p < s->n_pairs; p++) n += s->lp->rate[p] > 0;
  if (!n) return by_fail(BANYAN_ERR_PLAN, "no pair of trees meets the limits of height and rate");
  out->pairs = BY_ARENA_ARRAY(&out->arena, struct by_tree_pair, n);
  out->price = BY_ARENA_ARRAY(&out->arena, double, s->net->n_resources);
  if (out->arena.failed) return by_directed_no_memory();
  double *load = BY_ARENA_ARRAY(&s->arena, double, rows);
  if (!load) return by_directed_no_memory();
  for (uint32_t p = 0; p < s->n_pairs; p++) {
    const struct by_pair_arcs *pair = &s->pairs[p];
    if (!(s->lp->rate[p] > 0)) continue;
    BY_TRY(fill_pair(s, pair, &out->pairs[out->n_pairs], &out->arena));
    out->pairs[out->n_pairs++].rate = s->lp->rate[p];
    out->height = fmax(out->height, by_pair_height(s, pair));
    add_load(s, pair->up, pair->root, s->lp->rate[p], load);
    add_load(s, pair->down, pair->root, s->lp->rate[p], load);
  }
  for (uint32_t r = 0; r < rows; r++) fullest = fmax(fullest, load[r] / (s->capacity[r] * s->lp->unit));
  for (uint32_t p = 0; p < out->n_pairs; p++) out->throughput += out->pairs[p].rate /= fullest;
  out->bound = fmax(s->bound, out->throughput);
  for (uint32_t i = 0; i < s->net->n_resources; i++)
    if (s->row[i] != NONE) out->price[i] = s->best_price[s->row[i]] * s->capacity[s->row[i]];
  qsort(out->pairs, out->n_pairs, sizeof *out->pairs, compare_rates);
  return BANYAN_OK;
}

/* --- Setting up. --- */

static enum banyan_status make_program(struct by_pair_search *s) {
  const struct by_directed *net = s->net;
  uint32_t rows = 0;
  double unit = 0;
  for (uint32_t r = 0; r < net->n_resources; r++) s->row[r] = NONE;
  for (uint32_t i = 0; i < net->n_uses; i++) {
    uint32_t r = net->uses[i];
    if (s->row[r] != NONE || isinf(net->capacity[r])) continue;
    s->capacity[rows] = net->capacity[r];
    unit = fmax(unit, net->capacity[r]);
    s->row[r] = rows++;
  }
  if (!rows) return by_fail(BANYAN_ERR_TOPOLOGY, "nothing limits what these hosts send");
  for (uint32_t r = 0; r < rows; r++) s->capacity[r] /= unit;
  return by_lp_create(rows, s->capacity, unit, &s->lp);
}

enum banyan_status by_pairs_forget_others(struct by_pair_search *s, const uint32_t *columns, uint32_t n) {
  struct by_lp *lp;
  BY_TRY(by_lp_create(s->lp->n_rows, s->capacity, s->lp->unit, &lp));
  by_lp_destroy(s->lp);
  s->lp = lp;
  s->n_pairs = n;
  for (uint32_t i = 0; i < n; i++) {
    s->pairs[i] = s->pairs[columns[i]];
    by_pair_set_load(s, &s->pairs[i], s->load);
    BY_TRY(by_lp_add(s->lp, 1, s->load));
  }
  return BANYAN_OK;
}

static enum banyan_status turn_arcs(struct by_pair_search *s) {
  struct by_arc *arcs = BY_ARENA_ARRAY(&s->arena, struct by_arc, s->net->n_arcs);
  if (!arcs) return by_directed_no_memory();
  s->turned = *s->net;
  s->turned.arcs = arcs;
  for (uint32_t a = 0; a < s->net->n_arcs; a++) {
    arcs[a] = s->net->arcs[a];
    arcs[a].from = s->net->arcs[a].to;
    arcs[a].to = s->net->arcs[a].from;
  }
  return BANYAN_OK;
}

static enum banyan_status init_search(struct by_pair_search *s) {
  const struct by_directed *net = s->net;
  uint32_t n = net->n;
  struct by_arena *arena = &s->arena;
  double **const of_rows[] = {&s->capacity, &s->price, &s->best_price, &s->load};
  for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++)
    *of_rows[i] = BY_ARENA_ARRAY(arena, double, net->n_resources);
  s->row = BY_ARENA_ARRAY(arena, uint32_t, net->n_resources);
  s->weight = BY_ARENA_ARRAY(arena, double, net->n_arcs);
  s->lightest = BY_ARENA_ARRAY(arena, struct by_pair_arcs, n);
  s->lightest_weight = BY_ARENA_ARRAY(arena, double, n);
  s->depth = BY_ARENA_ARRAY(arena, double, n);
  uint32_t *arcs = BY_ARENA_ARRAY(arena, uint32_t, 2 * (size_t)n * n);
  if (arena->failed) return by_directed_no_memory();
  for (uint32_t r = 0; r < n; r++)
    s->lightest[r] =
        (struct by_pair_arcs){.root = r, .up = arcs + 2 * (size_t)n * r, .down = arcs + (2 * (size_t)r + 1) * n};
  by_rng_init(&s->rng, s->options->seed);
  BY_TRY(turn_arcs(s));
  BY_TRY(by_arborescence_init(&s->away, net));
  BY_TRY(by_arborescence_init(&s->towards, &s->turned));
  return make_program(s);
}

enum banyan_status by_pairs_pack(const struct by_directed *net, const struct by_pairs_options *options,
                                 struct by_pairs *out) {
  struct by_pair_search s = {.net = net, .options = options, .bound = INFINITY};
  *out = (struct by_pairs){0};
  enum banyan_status status = init_search(&s);
  if (status == BANYAN_OK) status = pack_all(&s);
  if (status == BANYAN_OK && options->max_trees) status = by_pairs_reduce(&s, (1 - options->tolerance) * s.bound);
  if (status == BANYAN_OK) status = fill_pairs(&s, out);
  by_lp_destroy(s.lp);
  by_arborescence_fini(&s.away);
  by_arborescence_fini(&s.towards);
  by_arena_fini(&s.arena);
  free(s.pairs);
  if (status != BANYAN_OK) by_pairs_fini(out);
  return status;
}
