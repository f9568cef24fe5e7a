/* Reduces a packing of pairs to a few, by local search: the parents of hosts and the roots change at random, and
 * changes that overload resources are accepted less and less often (annealing: Kirkpatrick, Gelatt and Vecchi 1983),
 * while the linear program sets the shares. */
#include <math.h>
#include <string.h>

#include "pairs_parts.h"

#define NONE UINT32_MAX

enum { ATTEMPTS = 8, STEPS = 64, CHANGES = 400 /* Tried in each step, for each host and pair. */, ROOT_EVERY = 8 };
static const double first_heat = 1e-3, last_heat = 1e-6;
static const double ahead = 1.005;   /* The throughput that is aimed at, relative to the best one. */
static const double damping = 0.5;   /* The part by which shares move towards those of the program. */
static const double deviation = 0.4; /* The largest deviation of first shares from the best ones, as a logarithm. */
/* A pair with less than this part of an average share gets half of another pair's share. */
static const double min_share = 0.02;

/* --- Selecting by rate. --- */

static uint32_t find_smallest(const struct by_pair_search *s, uint32_t *n) {
  uint32_t smallest = NONE;
  *n = 0;
  for (uint32_t p = 0; p < s->n_pairs; p++) {
    if (!(s->lp->rate[p] > 0)) continue;
    ++*n;
    if (smallest == NONE || s->lp->rate[p] < s->lp->rate[smallest]) smallest = p;
  }
  return smallest;
}

/* Solves, and drops pairs of the smallest rates until at most `max` pairs have a rate, and none of them less than the
 * minimum. */
static enum banyan_status keep_largest(struct by_pair_search *s, uint32_t max) {
  for (;;) {
    uint32_t n;
    BY_TRY(by_pairs_solve(s));
    uint32_t smallest = find_smallest(s, &n);
    if (!n || (n <= max && s->lp->rate[smallest] >= s->options->min_rate)) return BANYAN_OK;
    for (uint32_t p = 0; p < s->n_pairs; p++)
      if (!(s->lp->rate[p] > 0) && s->lp->allowed[p]) by_lp_allow(s->lp, p, false);
    for (uint32_t drop = n > max ? (n - max + 7) / 8 : 1; drop > 0; drop--)
      by_lp_allow(s->lp, find_smallest(s, &n), false);
  }
}

static void allow_only(struct by_pair_search *s, const uint32_t *pairs, uint32_t n) {
  for (uint32_t p = 0; p < s->n_pairs; p++)
    if (s->lp->allowed[p]) by_lp_allow(s->lp, p, false);
  for (uint32_t i = 0; i < n; i++) by_lp_allow(s->lp, pairs[i], true);
}

/* --- The state of the local search. --- */

struct few {
  struct by_pair_search *search;
  uint32_t max, n_best;
  uint32_t *best;   /* The columns of the best pairs, n_best of them. */
  double best_rate; /* Their throughput in bit/s. */
  /* The present pairs, as many as are allowed. Their arcs are copies, and each has a part of the throughput. */
  struct by_pair_arcs *pair;
  uint32_t *column;
  double *share;
  double target; /* The throughput that is aimed at, in units of the program. */
  double *used;  /* The load of each row at the target, as a part of its capacity. */
  double heat;
  uint32_t *into[2], *first[2]; /* The arcs into host v: into[up][first[up][v] .. first[up][v + 1]). */
};

/* Notes the pairs that have a rate as the best ones. */
static void note_best(struct few *f) {
  const struct by_pair_search *s = f->search;
  f->best_rate = s->rate;
  f->n_best = 0;
  for (uint32_t p = 0; p < s->n_pairs; p++)
    if (s->lp->rate[p] > 0) f->best[f->n_best++] = p;
}

/* Solves with the present pairs; if `mixed`, also with the best ones. Notes the result if it is better. */
static enum banyan_status keep_better(struct few *f, bool mixed) {
  struct by_pair_search *s = f->search;
  allow_only(s, f->best, mixed ? f->n_best : 0);
  for (uint32_t i = 0; i < f->max; i++) by_lp_allow(s->lp, f->column[i], true);
  BY_TRY(keep_largest(s, f->max));
  if (s->rate <= f->best_rate) return BANYAN_OK;
  note_best(f);
  return BANYAN_OK;
}

/* --- Changes. --- */

static const struct by_directed *get_net(const struct few *f, bool up) {
  return up ? &f->search->turned : f->search->net;
}

static double get_cost(double load) {
  return load > 1 ? (load - 1) * (load - 1) : 0;
}

/* Loads the arc's rows by `rate`, in units. Returns by how much the cost rises. */
static double load_arc(struct few *f, uint32_t arc, double rate) {
  const struct by_pair_search *s = f->search;
  const struct by_arc *a = &s->net->arcs[arc];
  double rise = 0;
  for (uint32_t i = 0; i < a->n; i++) {
    uint32_t row = s->row[s->net->uses[a->first + i]];
    if (row == NONE) continue;
    double before = f->used[row], now = before + rate / s->capacity[row];
    rise += get_cost(now) - get_cost(before);
    f->used[row] = now;
  }
  return rise;
}

/* Returns whether host v is on the way from host u to the root. */
static bool is_above(const struct by_directed *net, const uint32_t *arc, uint32_t root, uint32_t u, uint32_t v) {
  while (u != v && u != root) u = net->arcs[arc[u]].from;
  return u == v;
}

static bool accepts(struct few *f, double rise) {
  return rise <= 0 || by_rng_unit(&f->search->rng) < exp(-rise / f->heat);
}

static uint32_t choose_arc_into(struct few *f, bool up, uint32_t host) {
  uint32_t first = f->first[up][host], n = f->first[up][host + 1] - first;
  return n ? f->into[up][first + by_rng_below(&f->search->rng, n)] : NONE;
}

static bool is_too_high(struct few *f, const struct by_pair_arcs *pair) {
  return isfinite(f->search->options->max_height) && by_pair_height(f->search, pair) > f->search->options->max_height;
}

/* Tries another parent of one host in one tree. */
static void try_parent(struct few *f, uint32_t i, uint32_t v) {
  struct by_pair_arcs *pair = &f->pair[i];
  bool up = by_rng_next(&f->search->rng) >> 63;
  const struct by_directed *net = get_net(f, up);
  uint32_t *arc = up ? pair->up : pair->down, in = choose_arc_into(f, up, v), out = arc[v];
  if (v == pair->root || in == NONE || out == in || is_above(net, arc, pair->root, net->arcs[in].from, v)) return;
  double rate = f->share[i] * f->target, rise = load_arc(f, out, -rate) + load_arc(f, in, rate);
  arc[v] = in;
  if (accepts(f, rise) && !is_too_high(f, pair)) return;
  arc[v] = out;
  load_arc(f, in, -rate);
  load_arc(f, out, rate);
}

/* Tries another root: in both trees it loses its parent, and the old root gets one below it. */
static void try_root(struct few *f, uint32_t i, uint32_t next) {
  struct by_pair_arcs *pair = &f->pair[i];
  const struct by_pair_search *s = f->search;
  uint32_t root = pair->root, up = choose_arc_into(f, true, root), down = choose_arc_into(f, false, root);
  if (next == root || up == NONE || down == NONE) return;
  if (!is_above(&s->turned, pair->up, root, s->turned.arcs[up].from, next) ||
      !is_above(s->net, pair->down, root, s->net->arcs[down].from, next))
    return;
  double rate = f->share[i] * f->target,
         rise = load_arc(f, pair->up[next], -rate) + load_arc(f, pair->down[next], -rate);
  rise += load_arc(f, up, rate) + load_arc(f, down, rate);
  pair->up[root] = up;
  pair->down[root] = down;
  pair->root = next;
  if (accepts(f, rise) && !is_too_high(f, pair)) return;
  pair->root = root;
  load_arc(f, up, -rate);
  load_arc(f, down, -rate);
  load_arc(f, pair->up[next], rate);
  load_arc(f, pair->down[next], rate);
}

/* --- Shares. --- */

static void normalise_shares(struct few *f) {
  double sum = 0;
  for (uint32_t i = 0; i < f->max; i++) sum += f->share[i];
  for (uint32_t i = 0; i < f->max; i++) f->share[i] /= sum;
}

static void split_largest_share(struct few *f, uint32_t idle) {
  uint32_t largest = 0;
  for (uint32_t i = 1; i < f->max; i++)
    if (f->share[i] > f->share[largest]) largest = i;
  f->share[idle] = f->share[largest] /= 2;
}

/* Moves the shares towards the rates of the program. */
static void move_shares(struct few *f) {
  const struct by_pair_search *s = f->search;
  for (uint32_t i = 0; i < f->max; i++) {
    uint32_t same = 0; /* Several of the present pairs may be the same. */
    for (uint32_t j = 0; j < f->max; j++) same += f->column[j] == f->column[i];
    f->share[i] += damping * (s->lp->rate[f->column[i]] / s->rate / same - f->share[i]);
  }
  for (uint32_t i = 0; i < f->max; i++)
    if (f->share[i] < min_share / f->max) split_largest_share(f, i);
  normalise_shares(f);
}

/* --- Attempts. --- */

static void copy_pair(const struct few *f, const struct by_pair_arcs *from, struct by_pair_arcs *to) {
  size_t bytes = f->search->net->n * sizeof *to->up;
  to->root = from->root;
  memcpy(to->up, from->up, bytes);
  memcpy(to->down, from->down, bytes);
}

/* Starts from the best pairs, with disturbed shares. Other pairs are forgotten, since the program becomes slow with
 * thousands of them. */
static enum banyan_status start_attempt(struct few *f) {
  struct by_pair_search *s = f->search;
  BY_TRY(by_pairs_forget_others(s, f->best, f->n_best));
  for (uint32_t i = 0; i < f->n_best; i++) f->best[i] = i;
  BY_TRY(by_pairs_solve(s));
  for (uint32_t i = 0; i < f->max; i++) {
    f->column[i] = f->best[i % f->n_best];
    f->share[i] = i < f->n_best ? s->lp->rate[f->best[i]] / s->rate : 1.0 / 4 / f->max;
    f->share[i] *= exp(deviation * (by_rng_unit(&s->rng) + by_rng_unit(&s->rng) - 1));
    copy_pair(f, &s->pairs[f->column[i]], &f->pair[i]);
  }
  normalise_shares(f);
  return BANYAN_OK;
}

static void recount(struct few *f) {
  const struct by_pair_search *s = f->search;
  memset(f->used, 0, s->lp->n_rows * sizeof *f->used);
  for (uint32_t i = 0; i < f->max; i++) {
    by_pair_set_load(s, &f->pair[i], s->load);
    for (uint32_t r = 0; r < s->lp->n_rows; r++) f->used[r] += f->share[i] * f->target * s->load[r] / s->capacity[r];
  }
}

static enum banyan_status run_step(struct few *f) {
  struct by_pair_search *s = f->search;
  uint32_t n = s->net->n;
  f->target = fmin(f->best_rate * ahead, s->bound) / s->lp->unit;
  recount(f);
  for (uint32_t c = 0; c < CHANGES * f->max * n; c++) {
    uint32_t i = (uint32_t)by_rng_below(&s->rng, f->max), v = (uint32_t)by_rng_below(&s->rng, n);
    if (c % ROOT_EVERY == 0)
      try_root(f, i, v);
    else
      try_parent(f, i, v);
  }
  for (uint32_t i = 0; i < f->max; i++) BY_TRY(by_pair_add(s, &f->pair[i], &f->column[i]));
  BY_TRY(keep_better(f, false));
  if (s->rate > 0) move_shares(f);
  return BANYAN_OK;
}

static enum banyan_status run_attempt(struct few *f, double wanted) {
  BY_TRY(start_attempt(f));
  for (uint32_t step = 0; step < STEPS && f->best_rate < wanted; step++) {
    f->heat = first_heat * pow(last_heat / first_heat, (double)step / (STEPS - 1));
    BY_TRY(run_step(f));
  }
  return keep_better(f, true);
}

/* --- Setting up. --- */

static void list_arcs(struct few *f, bool up) {
  const struct by_directed *net = get_net(f, up);
  uint32_t at = 0;
  for (uint32_t v = 0; v < net->n; v++) {
    f->first[up][v] = at;
    for (uint32_t a = 0; a < net->n_arcs; a++)
      if (net->arcs[a].to == v) f->into[up][at++] = a;
  }
  f->first[up][net->n] = at;
}

static enum banyan_status init_few(struct few *f) {
  struct by_pair_search *s = f->search;
  struct by_arena *arena = &s->arena;
  uint32_t n = s->net->n;
  f->best = BY_ARENA_ARRAY(arena, uint32_t, f->max);
  f->column = BY_ARENA_ARRAY(arena, uint32_t, f->max);
  f->share = BY_ARENA_ARRAY(arena, double, f->max);
  f->used = BY_ARENA_ARRAY(arena, double, s->lp->n_rows);
  f->pair = BY_ARENA_ARRAY(arena, struct by_pair_arcs, f->max);
  uint32_t *arcs = BY_ARENA_ARRAY(arena, uint32_t, 2 * (size_t)n * f->max);
  for (int up = 0; up < 2; up++) {
    f->into[up] = BY_ARENA_ARRAY(arena, uint32_t, s->net->n_arcs);
    f->first[up] = BY_ARENA_ARRAY(arena, uint32_t, n + 1);
  }
  if (arena->failed) return by_directed_no_memory();
  for (uint32_t i = 0; i < f->max; i++) {
    f->pair[i].up = arcs + 2 * (size_t)i * n;
    f->pair[i].down = f->pair[i].up + n;
  }
  for (int up = 0; up < 2; up++) list_arcs(f, up);
  return BANYAN_OK;
}

enum banyan_status by_pairs_reduce(struct by_pair_search *search, double wanted) {
  struct few f = {.search = search, .max = search->options->max_trees};
  BY_TRY(init_few(&f));
  BY_TRY(keep_largest(search, f.max));
  note_best(&f);
  if (!f.n_best || f.best_rate >= wanted) return BANYAN_OK;
  for (uint32_t i = 0; i < ATTEMPTS && f.best_rate < wanted; i++) BY_TRY(run_attempt(&f, wanted));
  allow_only(search, f.best, f.n_best);
  return by_pairs_solve(search);
}
