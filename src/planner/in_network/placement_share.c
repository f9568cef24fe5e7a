/* Rates for choices by column generation. Rows: a link, a node with a limit, a switch's memory, each of which is 1 in
 * all; and a job, whose trees must carry its weight times the rate that is maximised, column 0. Rates are in units of
 * the widest link. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lp.h"
#include "placement_parts.h"

enum { MOST_ROUNDS = 500 };
#define NONE UINT32_MAX

static const double gain_wanted = 1e-9;

struct program {
  struct by_placement_ways *ways;
  struct by_choices *choices;
  struct by_lp *lp;
  uint32_t *link_row, *node_row, *memory_row; /* of links and nodes; NONE: none */
  uint32_t n_rows, first_job;
  double unit;   /* bit/s */
  double *load;  /* of each row, by one choice */
  uint32_t *out; /* of the vertices of a tree */
  double *price, *rent;
  bool *adds;
  struct by_arena arena;
};

/* --- rows --- */

static void take_row(struct program *p, uint32_t *row) {
  if (*row == NONE) *row = p->n_rows++;
}

static void find_rows(struct program *p) {
  const struct by_topology *topology = p->ways->topology;
  for (uint32_t i = 0; i < topology->n_links; i++) p->link_row[i] = NONE;
  for (uint32_t i = 0; i < topology->n_nodes; i++) p->node_row[i] = p->memory_row[i] = NONE;
  for (uint32_t t = 0; t < p->ways->n_trees; t++) {
    const struct by_way_tree *tree = &p->ways->trees[t];
    for (uint32_t v = 0; v < tree->flow.n; v++) {
      if (v) take_row(p, &p->link_row[tree->link[v]]);
      if (v) p->unit = fmax(p->unit, tree->capacity[v]);
      if (isfinite(tree->limit[v])) take_row(p, &p->node_row[tree->node[v]]);
      if (tree->hold[v] > 0) take_row(p, &p->memory_row[tree->node[v]]);
    }
  }
  p->first_job = p->n_rows;
  p->n_rows += p->ways->n_jobs;
}

static uint32_t largest_tree(const struct by_placement_ways *ways) {
  uint32_t n = 0;
  for (uint32_t t = 0; t < ways->n_trees; t++) n = ways->trees[t].flow.n > n ? ways->trees[t].flow.n : n;
  return n;
}

static enum banyan_status init(struct program *p) {
  struct by_arena *arena = &p->arena;
  size_t links = p->ways->topology->n_links, nodes = p->ways->topology->n_nodes, n = largest_tree(p->ways);
  p->link_row = BY_ARENA_ARRAY(arena, uint32_t, links);
  p->node_row = BY_ARENA_ARRAY(arena, uint32_t, nodes);
  p->memory_row = BY_ARENA_ARRAY(arena, uint32_t, nodes);
  if (!p->link_row || !p->node_row || !p->memory_row) return by_placement_no_memory();
  find_rows(p);
  p->load = BY_ARENA_ARRAY(arena, double, p->n_rows);
  p->out = BY_ARENA_ARRAY(arena, uint32_t, n);
  p->price = BY_ARENA_ARRAY(arena, double, n);
  p->rent = BY_ARENA_ARRAY(arena, double, n);
  p->adds = BY_ARENA_ARRAY(arena, bool, n);
  bool all = p->load && p->out && p->price && p->rent && p->adds;
  return all ? BANYAN_OK : by_placement_no_memory();
}

/* Adds what a choice at this rate takes of every row to load[]. */
static void add_load(struct program *p, const struct by_choice *choice, double rate, double *load) {
  const struct by_way_tree *tree = &p->ways->trees[choice->tree];
  (void)by_flow_theta(&tree->flow, choice->adds, p->out);
  for (uint32_t v = 0; v < tree->flow.n; v++) {
    uint32_t node = p->node_row[tree->node[v]], parent = p->node_row[tree->node[tree->parent[v]]];
    if (choice->adds[v] && tree->hold[v] > 0) load[p->memory_row[tree->node[v]]] += rate * tree->hold[v];
    if (!v) continue;
    load[p->link_row[tree->link[v]]] += rate * p->out[v] / tree->capacity[v];
    if (node != NONE) load[node] += rate * p->out[v] / tree->limit[v];
    if (parent != NONE) load[parent] += rate * p->out[v] / tree->limit[tree->parent[v]];
  }
}

/* --- columns --- */

static enum banyan_status add_column(struct program *p, uint32_t choice) {
  const struct by_choice *item = &p->choices->items[choice];
  memset(p->load, 0, p->n_rows * sizeof *p->load);
  add_load(p, item, p->unit, p->load);
  p->load[p->first_job + p->ways->trees[item->tree].job] = -1;
  return by_lp_add(p->lp, 0, p->load);
}

static enum banyan_status start(struct program *p) {
  for (uint32_t r = 0; r < p->n_rows; r++) p->load[r] = r < p->first_job;
  BY_TRY(by_lp_create(p->n_rows, p->load, p->unit, &p->lp));
  memset(p->load, 0, p->n_rows * sizeof *p->load);
  for (uint32_t j = 0; j < p->ways->n_jobs; j++) p->load[p->first_job + j] = p->ways->jobs[j].weight;
  BY_TRY(by_lp_add(p->lp, 1, p->load));
  for (uint32_t i = 0; i < p->choices->n; i++) BY_TRY(add_column(p, i));
  return BANYAN_OK;
}

/* --- prices --- */

static double dual(const struct program *p, uint32_t row) {
  return row == NONE ? 0 : p->lp->price[row] * p->unit;
}

/* The cheapest choice on a tree, into adds[]. */
static enum banyan_status find_cheapest(struct program *p, const struct by_way_tree *tree, double *cost) {
  for (uint32_t v = 1; v < tree->flow.n; v++) {
    uint32_t parent = tree->parent[v];
    p->price[v] = dual(p, p->link_row[tree->link[v]]) / tree->capacity[v] +
                  dual(p, p->node_row[tree->node[v]]) / tree->limit[v] +
                  dual(p, p->node_row[tree->node[parent]]) / tree->limit[parent];
    p->rent[v] = tree->hold[v] > 0 ? dual(p, p->memory_row[tree->node[v]]) * tree->hold[v] : 0;
  }
  return by_flow_cheapest(&tree->flow, p->price, p->rent, p->adds, cost);
}

/* Weak duality: any prices bound the rate by what all rows cost over what the jobs' weights cost at least. */
static enum banyan_status price(struct program *p, bool more, double *bound, bool *grown) {
  double rows = 0, jobs = 0, least = INFINITY;
  *grown = false;
  for (uint32_t r = 0; r < p->first_job; r++) rows += p->lp->price[r];
  for (uint32_t t = 0; t < p->ways->n_trees; t++) {
    const struct by_way_tree *tree = &p->ways->trees[t];
    double cost = 0, pays = p->lp->price[p->first_job + tree->job];
    uint32_t before = p->choices->n;
    BY_TRY(find_cheapest(p, tree, &cost));
    least = fmin(tree->server ? least : INFINITY, cost);
    if (tree->server + 1 == p->ways->jobs[tree->job].n_servers) jobs += p->ways->jobs[tree->job].weight * least;
    if (more && cost < pays - gain_wanted) BY_TRY(by_choices_add(p->choices, p->ways, t, p->adds, NULL));
    *grown = *grown || p->choices->n > before;
  }
  if (jobs > 0) *bound = fmin(*bound, rows / jobs * p->unit);
  return BANYAN_OK;
}

static enum banyan_status solve(struct program *p, bool more, double *rate, double *bound) {
  bool grown = true;
  *bound = INFINITY;
  BY_TRY(start(p));
  for (uint32_t round = 0; grown && round < MOST_ROUNDS; round++) {
    uint32_t known = p->choices->n;
    BY_TRY(by_lp_solve(p->lp));
    BY_TRY(price(p, more, bound, &grown));
    for (uint32_t i = known; i < p->choices->n; i++) BY_TRY(add_column(p, i));
  }
  BY_TRY(by_lp_solve(p->lp));
  *rate = p->lp->objective * p->unit;
  for (uint32_t i = 0; i < p->choices->n; i++) p->choices->items[i].rate = p->lp->rate[i + 1];
  return BANYAN_OK;
}

enum banyan_status by_choices_share(struct by_choices *choices, struct by_placement_ways *ways, bool price_more,
                                    double *rate, double *bound) {
  struct program p = {.ways = ways, .choices = choices};
  by_arena_init(&p.arena);
  enum banyan_status status = init(&p);
  if (status == BANYAN_OK) status = solve(&p, price_more, rate, bound);
  by_lp_destroy(p.lp);
  by_arena_fini(&p.arena);
  return status;
}

/* --- choices --- */

enum banyan_status by_choices_add(struct by_choices *choices, struct by_placement_ways *ways, uint32_t tree,
                                  const bool *adds, uint32_t *out) {
  uint32_t n = ways->trees[tree].flow.n, i = 0;
  while (i < choices->n && (choices->items[i].tree != tree || memcmp(choices->items[i].adds, adds, n) != 0)) i++;
  if (out) *out = i;
  if (i < choices->n) return BANYAN_OK;
  if (choices->n == choices->room) {
    uint32_t room = choices->room * 2 + 16;
    struct by_choice *items = BY_ARENA_ARRAY(&ways->arena, struct by_choice, room);
    if (!items) return by_placement_no_memory();
    if (choices->n) memcpy(items, choices->items, choices->n * sizeof *items);
    choices->items = items;
    choices->room = room;
  }
  bool *copy = BY_ARENA_ARRAY(&ways->arena, bool, n);
  if (!copy) return by_placement_no_memory();
  memcpy(copy, adds, n * sizeof *copy);
  choices->items[choices->n++] = (struct by_choice){.tree = tree, .adds = copy};
  return BANYAN_OK;
}

/* --- what need not add --- */

/* A flow as large as the tree's at its rate, in what the other choices leave of each row, and where only those may add
 * that do. In units of the choice's rate, so that a theta of 1 does. */
static void fill_spared(struct program *p, const struct by_choice *choice, const double *load, struct by_flow *spared,
                        double *capacity, double *limit) {
  const struct by_way_tree *tree = &p->ways->trees[choice->tree];
  memset(p->load, 0, p->n_rows * sizeof *p->load);
  add_load(p, choice, choice->rate, p->load);
  *spared = tree->flow;
  spared->able = choice->adds;
  spared->capacity = capacity;
  spared->limit = limit;
  for (uint32_t v = 0; v < tree->flow.n; v++) {
    uint32_t link = v ? p->link_row[tree->link[v]] : NONE, node = p->node_row[tree->node[v]];
    capacity[v] = link == NONE ? INFINITY : fmax(1 - load[link], 0) + p->load[link];
    capacity[v] *= tree->capacity[v] / choice->rate;
    limit[v] = node == NONE ? INFINITY : (fmax(1 - load[node], 0) + p->load[node]) * tree->limit[v] / choice->rate;
  }
}

static enum banyan_status prune_one(struct program *p, struct by_choice *choice, double *load) {
  struct by_flow spared;
  bool found;
  fill_spared(p, choice, load, &spared, p->price, p->rent);
  BY_TRY(by_flow_fewest(&spared, 1 + gain_wanted, UINT32_MAX, p->adds, &found));
  if (!found) return BANYAN_OK;
  for (uint32_t r = 0; r < p->n_rows; r++) load[r] -= p->load[r];
  memcpy(choice->adds, p->adds, spared.n * sizeof *choice->adds);
  add_load(p, choice, choice->rate, load);
  return BANYAN_OK;
}

static enum banyan_status prune(struct program *p) {
  BY_TRY(init(p));
  double *load = BY_ARENA_ARRAY(&p->arena, double, p->n_rows);
  if (!load) return by_placement_no_memory();
  for (uint32_t i = 0; i < p->choices->n; i++)
    if (p->choices->items[i].rate > 0) add_load(p, &p->choices->items[i], p->choices->items[i].rate, load);
  for (uint32_t i = 0; i < p->choices->n; i++)
    if (p->choices->items[i].rate > 0) BY_TRY(prune_one(p, &p->choices->items[i], load));
  return BANYAN_OK;
}

enum banyan_status by_choices_prune(struct by_choices *choices, struct by_placement_ways *ways) {
  struct program p = {.ways = ways, .choices = choices};
  by_arena_init(&p.arena);
  enum banyan_status status = prune(&p);
  by_arena_fini(&p.arena);
  return status;
}
