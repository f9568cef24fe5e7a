/* Packs trees away from the hosts that own parts of a buffer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "directed.h"
#include "lp.h"

/* The linear program maximises t, so that t * part_v <= the sum of the rates of v's trees for each owner v, and no
 * resource is overloaded.
 *
 * The first trees come from multiplicative weights (Garg and Konemann 1998): prices of resources grow exponentially
 * with the load of the lightest trees so far. In the following rounds, the program's own prices give more trees. Any
 * prices y prove a bound: sum(capacity * y) / sum over v of part_v * (weight of the lightest tree of v). */

enum { SWEEPS = 40, ROUNDS = 60, IDLE_LIMIT = 6, PRUNES = 4 };
static const double steepness = 0.3, enough = 0.998, progress = 2e-4;
/* min_share: the smallest part of its root's part that a tree may carry; for_fewer: the part of the throughput that
 * fewer trees must keep; per_hop: the cost of each hop of height. */
static const double min_share = 0.03, for_fewer = 0.985, per_hop = 3e-4;

struct tree {
  uint32_t root, column, height;
  uint32_t *arc; /* The arc to each host but the root. */
};

struct packing {
  const struct by_directed *net;
  const double *part;
  struct by_arborescence search;
  struct by_lp *lp;
  uint32_t *row; /* The row of the program for each owner. */
  struct tree *trees;
  uint32_t n_trees, allocated_trees;
  double *price, *weight, *load; /* The price of each resource, the weight of each arc, and the load of each row. */
  uint32_t *depth;
  double unit, bound;
  struct by_arena arena;
};

/* --- Trees. --- */

static uint32_t get_depth(struct packing *p, uint32_t root, const uint32_t *arc, uint32_t host) {
  uint32_t hops = 0;
  for (uint32_t v = host; v != root; v = p->net->arcs[arc[v]].from) hops++;
  return hops;
}

static bool is_known(const struct packing *p, uint32_t root, const uint32_t *arc) {
  for (uint32_t t = 0; t < p->n_trees; t++) {
    const struct tree *tree = &p->trees[t];
    bool same = tree->root == root;
    for (uint32_t v = 0; same && v < p->net->n; v++) same = v == root || tree->arc[v] == arc[v];
    if (same) return true;
  }
  return false;
}

/* Adds the search's last tree as a column. */
static enum banyan_status add_tree(struct packing *p, uint32_t root, bool *added) {
  const struct by_directed *net = p->net;
  const uint32_t *arc = p->search.arc;
  uint32_t height = 0;
  if (is_known(p, root, arc)) return BANYAN_OK;
  if (!BY_ARRAY_GROW(&p->trees, &p->allocated_trees, (size_t)p->n_trees + 1)) return by_directed_no_memory();
  struct tree tree = {.root = root, .column = p->lp->n_columns, .arc = BY_ARENA_ARRAY(&p->arena, uint32_t, net->n)};
  if (!tree.arc) return by_directed_no_memory();
  memset(p->load, 0, p->lp->n_rows * sizeof *p->load);
  for (uint32_t v = 0; v < net->n; v++) {
    if (v == root) continue;
    const struct by_arc *a = &net->arcs[tree.arc[v] = arc[v]];
    for (uint32_t i = 0; i < a->n; i++) p->load[net->uses[a->first + i]]++;
    uint32_t depth = get_depth(p, root, arc, v);
    if (depth > height) height = depth;
  }
  p->load[p->row[root]] = -1;
  tree.height = height;
  p->trees[p->n_trees++] = tree;
  *added = true;
  return by_lp_add(p->lp, -per_hop * height, p->load);
}

/* --- Prices. --- */

/* Computes the weights of arcs. If prices are equal, arcs from the root are lighter. */
static void weigh_arcs(struct packing *p, uint32_t root, double nudge) {
  const struct by_directed *net = p->net;
  for (uint32_t a = 0; a < net->n_arcs; a++) {
    const struct by_arc *arc = &net->arcs[a];
    p->weight[a] = arc->from == root ? 0 : nudge;
    for (uint32_t i = 0; i < arc->n; i++) p->weight[a] += p->price[net->uses[arc->first + i]];
  }
}

/* Finds the lightest tree of each owner at the prices. Better prices lower the bound. */
static enum banyan_status find_trees(struct packing *p, bool *added, double *used) {
  const struct by_directed *net = p->net;
  double worth = 0, min = 0, nudge = 0;
  for (uint32_t r = 0; r < net->n_resources; r++)
    if (isfinite(net->capacity[r])) worth += net->capacity[r] * p->price[r];
  for (uint32_t a = 0; a < net->n_arcs; a++)
    for (uint32_t i = 0; i < net->arcs[a].n; i++) nudge += p->price[net->uses[net->arcs[a].first + i]];
  nudge = 1e-3 * nudge / net->n_arcs;
  for (uint32_t v = 0; v < net->n; v++) {
    if (!(p->part[v] > 0)) continue;
    weigh_arcs(p, v, nudge);
    double lightest = by_arborescence_find(&p->search, v, p->weight);
    if (isinf(lightest)) return by_fail(BANYAN_ERR_TOPOLOGY, "host %u cannot reach all others", v);
    for (uint32_t h = 0; h < net->n; h++) {
      if (h == v) continue;
      const struct by_arc *arc = &net->arcs[p->search.arc[h]];
      if (arc->from != v) lightest -= nudge;
      for (uint32_t i = 0; used && i < arc->n; i++) used[net->uses[arc->first + i]] += p->part[v];
    }
    min += p->part[v] * lightest;
    BY_TRY(add_tree(p, v, added));
  }
  /* The nudge makes a tree up to hosts * nudge heavier than the lightest. */
  min -= nudge * (net->n - 1);
  if (min > 0) p->bound = fmin(p->bound, worth / min);
  return BANYAN_OK;
}

static enum banyan_status run_sweeps(struct packing *p) {
  const struct by_directed *net = p->net;
  double *used = BY_ARENA_ARRAY(&p->arena, double, net->n_resources);
  bool added;
  if (!used) return by_directed_no_memory();
  for (int i = 0; i < SWEEPS; i++) {
    double fullest = 0;
    for (uint32_t r = 0; r < net->n_resources; r++)
      if (used[r] > 0) fullest = fmax(fullest, used[r] / net->capacity[r]);
    for (uint32_t r = 0; r < net->n_resources; r++) {
      double over = fullest > 0 ? used[r] / net->capacity[r] / fullest : 0;
      bool counts = net->capacity[r] > 0 && isfinite(net->capacity[r]);
      p->price[r] = counts ? exp(steepness * i * (over - 1)) / net->capacity[r] : 0;
    }
    BY_TRY(find_trees(p, &added, used));
  }
  return BANYAN_OK;
}

/* --- Rates. --- */

static enum banyan_status solve_program(struct packing *p, double *rate) {
  BY_TRY(by_lp_solve(p->lp));
  *rate = p->lp->rate[0];
  return BANYAN_OK;
}

static enum banyan_status generate_trees(struct packing *p, double *rate) {
  double before = 0;
  BY_TRY(solve_program(p, rate));
  for (int round = 0, idle = 0; round < ROUNDS && idle < IDLE_LIMIT && *rate < enough * p->bound; round++) {
    bool added = false;
    for (uint32_t r = 0; r < p->net->n_resources; r++) p->price[r] = p->lp->price[r];
    BY_TRY(find_trees(p, &added, NULL));
    if (!added) break;
    before = *rate;
    BY_TRY(solve_program(p, rate));
    idle = *rate < (1 + progress) * before ? idle + 1 : 0;
  }
  return BANYAN_OK;
}

/* Forbids trees that carry little, as long as that costs little throughput. */
static enum banyan_status prune_trees(struct packing *p, double *rate) {
  double best = *rate, min = min_share;
  for (int i = 0; i < PRUNES; i++, min /= 2) {
    double now;
    for (uint32_t t = 0; t < p->n_trees; t++) {
      const struct tree *tree = &p->trees[t];
      by_lp_allow(p->lp, tree->column, p->lp->rate[tree->column] >= min * p->part[tree->root] * *rate);
    }
    BY_TRY(solve_program(p, &now));
    *rate = now;
    if (now >= for_fewer * best) return BANYAN_OK;
    for (uint32_t t = 0; t < p->n_trees; t++) by_lp_allow(p->lp, p->trees[t].column, true);
    BY_TRY(solve_program(p, rate));
  }
  return BANYAN_OK;
}

/* --- The result. --- */

static int compare_trees(const void *a, const void *b) {
  const struct by_rooted_tree *x = a, *y = b;
  if (x->root != y->root) return x->root < y->root ? -1 : 1;
  if (x->share != y->share) return x->share > y->share ? -1 : 1;
  return 0;
}

static enum banyan_status fill_tree(const struct packing *p, const struct tree *tree, double carried,
                                    struct by_rooted_packing *out) {
  const struct by_directed *net = p->net;
  struct by_rooted_tree *made = &out->trees[out->n_trees++];
  *made = (struct by_rooted_tree){.root = tree->root,
                                  .parent = BY_ARENA_ARRAY(&out->arena, uint32_t, net->n),
                                  .share = p->lp->rate[tree->column] / carried};
  if (!made->parent) return by_directed_no_memory();
  for (uint32_t v = 0; v < net->n; v++) {
    made->parent[v] = v == tree->root ? v : net->arcs[tree->arc[v]].from;
    const struct by_arc *arc = v == tree->root ? NULL : &net->arcs[tree->arc[v]];
    for (uint32_t i = 0; arc && i < arc->n; i++)
      p->load[net->uses[arc->first + i]] += made->share * p->part[tree->root];
  }
  return BANYAN_OK;
}

/* Computes shares from the rates of each root's trees, and the throughput that the fullest resource permits. */
static enum banyan_status fill_packing(const struct packing *p, struct by_rooted_packing *out) {
  const struct by_directed *net = p->net;
  out->trees = BY_ARENA_ARRAY(&out->arena, struct by_rooted_tree, p->n_trees);
  double *carried = BY_ARENA_ARRAY(&out->arena, double, net->n), fullest = 0;
  if (!out->trees || !carried) return by_directed_no_memory();
  memset(p->load, 0, p->lp->n_rows * sizeof *p->load);
  for (uint32_t t = 0; t < p->n_trees; t++) carried[p->trees[t].root] += p->lp->rate[p->trees[t].column];
  for (uint32_t t = 0; t < p->n_trees; t++)
    if (p->lp->rate[p->trees[t].column] > 0) BY_TRY(fill_tree(p, &p->trees[t], carried[p->trees[t].root], out));
  for (uint32_t r = 0; r < net->n_resources; r++)
    if (p->load[r] > 0) fullest = fmax(fullest, p->load[r] / net->capacity[r]);
  out->throughput = 1 / fullest;
  out->bound = fmax(p->bound, out->throughput);
  qsort(out->trees, out->n_trees, sizeof *out->trees, compare_trees);
  return BANYAN_OK;
}

static enum banyan_status make_program(struct packing *p) {
  const struct by_directed *net = p->net;
  uint32_t rows = net->n_resources;
  p->row = BY_ARENA_ARRAY(&p->arena, uint32_t, net->n);
  p->price = BY_ARENA_ARRAY(&p->arena, double, net->n_resources);
  p->weight = BY_ARENA_ARRAY(&p->arena, double, net->n_arcs);
  p->load = BY_ARENA_ARRAY(&p->arena, double, (size_t)rows + net->n);
  double *upper = BY_ARENA_ARRAY(&p->arena, double, (size_t)rows + net->n);
  if (p->arena.failed) return by_directed_no_memory();
  for (uint32_t r = 0; r < net->n_resources; r++)
    if (isfinite(net->capacity[r])) p->unit = fmax(p->unit, net->capacity[r]);
  if (!(p->unit > 0)) return by_fail(BANYAN_ERR_TOPOLOGY, "nothing limits what these hosts send");
  for (uint32_t r = 0; r < rows; r++) upper[r] = isfinite(net->capacity[r]) ? net->capacity[r] / p->unit : 0;
  for (uint32_t v = 0; v < net->n; v++)
    if (p->part[v] > 0) p->row[v] = rows++;
  BY_TRY(by_lp_create(rows, upper, p->unit, &p->lp));
  for (uint32_t v = 0; v < net->n; v++)
    if (p->part[v] > 0) p->load[p->row[v]] = p->part[v];
  return by_lp_add(p->lp, 1, p->load);
}

static enum banyan_status pack_rooted(struct packing *p, struct by_rooted_packing *out) {
  double rate;
  BY_TRY(by_arborescence_init(&p->search, p->net));
  BY_TRY(make_program(p));
  BY_TRY(run_sweeps(p));
  BY_TRY(generate_trees(p, &rate));
  BY_TRY(prune_trees(p, &rate));
  return fill_packing(p, out);
}

enum banyan_status by_rooted_pack(const struct by_directed *net, const double *part, struct by_rooted_packing *out) {
  struct packing p = {.net = net, .part = part, .bound = INFINITY};
  *out = (struct by_rooted_packing){0};
  enum banyan_status status = pack_rooted(&p, out);
  by_lp_destroy(p.lp);
  by_arborescence_fini(&p.search);
  by_arena_fini(&p.arena);
  free(p.trees);
  if (status != BANYAN_OK) by_rooted_packing_fini(out);
  return status;
}
