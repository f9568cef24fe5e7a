#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lp.h"
#include "plan_make.h"
#include "way_tree.h"

#define NONE UINT32_MAX

/* Shares that are smaller are not worth a tree, and less gain not a split. */
static const double least_share = 1e-6, least_gain = 1e-3;

struct by_placement_options by_placement_defaults(void) {
  return (struct by_placement_options){.most_adding = UINT32_MAX, .turnaround = 100e-6, .queues = 1};
}

/* --- choices --- */

enum { MOST_ROUNDS = 500 };
static const double gain_wanted = 1e-9;

/* One choice of who adds on a tree, with a rate. */
struct choice {
  uint32_t tree;
  double rate; /* bit/s */
  bool *adds;  /* in the ways' arena */
};

/* Choices, each once. */
struct choices {
  struct by_placement_ways *ways;
  uint32_t n, room;
  struct choice *items;
};

static enum banyan_status choices_add(struct choices *choices, uint32_t tree, const bool *adds) {
  uint32_t n = choices->ways->trees[tree].flow.n;
  for (uint32_t i = 0; i < choices->n; i++)
    if (choices->items[i].tree == tree && memcmp(choices->items[i].adds, adds, n) == 0) return BANYAN_OK;
  bool *copy = BY_ARENA_ARRAY(&choices->ways->arena, bool, n);
  if (!copy || !BY_ARRAY_GROW(&choices->items, &choices->room, choices->n + 1)) return by_plan_no_memory();
  memcpy(copy, adds, n * sizeof *copy);
  choices->items[choices->n++] = (struct choice){.tree = tree, .adds = copy};
  return BANYAN_OK;
}

/* --- the program --- */

/* Rates of the largest sum for choices by column generation. Rows: a link, a node with a limit, a switch's memory, each
 * of which is 1 in all. Rates are in units of the widest link. */

struct program {
  struct by_placement_ways *ways;
  struct choices *choices;
  struct by_lp *lp;
  uint32_t *link_row, *node_row, *memory_row; /* of links and nodes; NONE: none */
  uint32_t n_rows;
  double unit;   /* bit/s */
  double *load;  /* of each row, by one choice */
  uint32_t *out; /* of the vertices of a tree */
  double *price, *rent;
  bool *adds;
  bool more; /* choices are looked for */
  struct by_arena arena;
};

/* --- rows --- */

static double limit_of(const struct by_topology *topology, uint32_t node) {
  return fmin(by_residual(topology->nodes[node].out), by_residual(topology->nodes[node].in));
}

static void take_row(struct program *p, uint32_t *row) {
  if (*row == NONE) *row = p->n_rows++;
}

/* Its link, and its own limit. */
static void take_aggregator(struct program *p, const struct by_way_tree *tree, uint32_t v) {
  const struct by_topology *topology = p->ways->topology;
  uint32_t host = tree->aggregator[v];
  take_row(p, &p->link_row[tree->detour[v]]);
  if (isfinite(limit_of(topology, host))) take_row(p, &p->node_row[host]);
}

static void find_rows(struct program *p) {
  const struct by_topology *topology = p->ways->topology;
  for (uint32_t i = 0; i < topology->n_links; i++) p->link_row[i] = NONE;
  for (uint32_t i = 0; i < topology->n_nodes; i++) p->node_row[i] = p->memory_row[i] = NONE;
  for (uint32_t t = 0; t < p->ways->n_trees; t++) {
    const struct by_way_tree *tree = &p->ways->trees[t];
    for (uint32_t v = 0; v < tree->flow.n; v++) {
      if (v) take_row(p, &p->link_row[tree->link[v]]);
      if (v) p->unit = fmax(p->unit, tree->flow.capacity[v]);
      if (isfinite(tree->flow.limit[v])) take_row(p, &p->node_row[tree->node[v]]);
      if (tree->aggregator[v] != NONE)
        take_aggregator(p, tree, v);
      else if (tree->flow.hold[v] > 0)
        take_row(p, &p->memory_row[tree->node[v]]);
    }
  }
}

static enum banyan_status init(struct program *p) {
  struct by_arena *arena = &p->arena;
  const struct by_topology *topology = p->ways->topology;
  uint32_t n = 0;
  for (uint32_t t = 0; t < p->ways->n_trees; t++) n = p->ways->trees[t].flow.n > n ? p->ways->trees[t].flow.n : n;
  p->link_row = BY_ARENA_ARRAY(arena, uint32_t, topology->n_links);
  p->node_row = BY_ARENA_ARRAY(arena, uint32_t, topology->n_nodes);
  p->memory_row = BY_ARENA_ARRAY(arena, uint32_t, topology->n_nodes);
  if (arena->failed) return by_plan_no_memory();
  find_rows(p);
  p->load = BY_ARENA_ARRAY(arena, double, p->n_rows);
  p->out = BY_ARENA_ARRAY(arena, uint32_t, n);
  p->price = BY_ARENA_ARRAY(arena, double, n);
  p->rent = BY_ARENA_ARRAY(arena, double, n);
  p->adds = BY_ARENA_ARRAY(arena, bool, n);
  return arena->failed ? by_plan_no_memory() : BANYAN_OK;
}

enum { MOST_RENTS = 3 };

/* What a vertex that adds at a rate of 1 takes of rows beside what its gradients do. */
struct rent {
  uint32_t row[MOST_RENTS];
  double part[MOST_RENTS];
};

static struct rent rent_of(const struct program *p, const struct by_way_tree *tree, uint32_t v) {
  const struct by_topology *topology = p->ways->topology;
  uint32_t host = tree->aggregator[v], link = tree->detour[v];
  struct rent rent = {{NONE, NONE, NONE}, {tree->flow.hold[v], 0, 0}};
  if (host == NONE) {
    if (tree->flow.hold[v] > 0) rent.row[0] = p->memory_row[tree->node[v]];
    return rent;
  }
  double load = by_aggregator_load(tree, v);
  return (struct rent){
      {p->link_row[link], p->node_row[host], p->node_row[tree->node[v]]},
      {load / by_link_least(topology, link), load / limit_of(topology, host), load / tree->flow.limit[v]}};
}

/* Adds what a choice at this rate takes of every row to load[]. */
static void add_load(struct program *p, const struct choice *choice, double rate, double *load) {
  const struct by_way_tree *tree = &p->ways->trees[choice->tree];
  (void)by_flow_theta(&tree->flow, choice->adds, p->out);
  for (uint32_t v = 0; v < tree->flow.n; v++) {
    uint32_t node = p->node_row[tree->node[v]], parent = p->node_row[tree->node[tree->flow.parent[v]]];
    struct rent rent = rent_of(p, tree, v);
    for (int i = 0; i < MOST_RENTS && choice->adds[v]; i++)
      if (rent.row[i] != NONE) load[rent.row[i]] += rate * rent.part[i];
    if (!v) continue;
    load[p->link_row[tree->link[v]]] += rate * p->out[v] / tree->flow.capacity[v];
    if (node != NONE) load[node] += rate * p->out[v] / tree->flow.limit[v];
    if (parent != NONE) load[parent] += rate * p->out[v] / tree->flow.limit[tree->flow.parent[v]];
  }
}

/* --- columns --- */

static enum banyan_status add_column(struct program *p, uint32_t choice) {
  const struct choice *item = &p->choices->items[choice];
  memset(p->load, 0, p->n_rows * sizeof *p->load);
  add_load(p, item, p->unit, p->load);
  return by_lp_add(p->lp, 1, p->load);
}

static enum banyan_status start(struct program *p) {
  for (uint32_t r = 0; r < p->n_rows; r++) p->load[r] = 1;
  BY_TRY(by_lp_create(p->n_rows, p->load, p->unit, &p->lp));
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
    uint32_t parent = tree->flow.parent[v];
    p->price[v] = dual(p, p->link_row[tree->link[v]]) / tree->flow.capacity[v] +
                  dual(p, p->node_row[tree->node[v]]) / tree->flow.limit[v] +
                  dual(p, p->node_row[tree->node[parent]]) / tree->flow.limit[parent];
    struct rent rent = rent_of(p, tree, v);
    p->rent[v] = 0;
    for (int i = 0; i < MOST_RENTS; i++) p->rent[v] += dual(p, rent.row[i]) * rent.part[i];
  }
  return by_flow_cheapest(&tree->flow, p->price, p->rent, p->adds, cost);
}

/* Weak duality: any prices bound the rate by what all rows cost over what a bit costs at least. */
static enum banyan_status price(void *context, double *bound, bool *added) {
  struct program *p = context;
  double rows = 0, least = INFINITY;
  uint32_t known = p->choices->n;
  for (uint32_t r = 0; r < p->n_rows; r++) rows += p->lp->price[r];
  for (uint32_t t = 0; t < p->ways->n_trees; t++) {
    const struct by_way_tree *tree = &p->ways->trees[t];
    double cost = 0;
    BY_TRY(find_cheapest(p, tree, &cost));
    least = fmin(least, cost);
    if (p->more && cost < 1 - gain_wanted) BY_TRY(choices_add(p->choices, t, p->adds));
  }
  if (least > 0) *bound = fmin(*bound, rows / least * p->unit);
  *added = p->choices->n > known;
  for (uint32_t i = known; i < p->choices->n; i++) BY_TRY(add_column(p, i));
  return BANYAN_OK;
}

static enum banyan_status solve(void *context, double *rate) {
  struct program *p = context;
  BY_TRY(by_lp_solve(p->lp));
  *rate = p->lp->objective * p->unit;
  return BANYAN_OK;
}

static enum banyan_status find_rates(struct program *p, double *rate, double *bound) {
  static const struct by_lp_rounds rounds = {
      .ratio = INFINITY, .most = MOST_ROUNDS, .idle_limit = UINT32_MAX, .solve = solve, .price = price};
  *bound = INFINITY;
  BY_TRY(init(p));
  BY_TRY(start(p));
  BY_TRY(by_lp_generate(&rounds, p, bound));
  BY_TRY(solve(p, rate));
  for (uint32_t i = 0; i < p->choices->n; i++) p->choices->items[i].rate = p->lp->rate[i];
  return BANYAN_OK;
}

/* --- what need not add --- */

/* A flow as large as the tree's at its rate, in what the other choices leave of each row, and where only those may add
 * that do. In units of the choice's rate, so that a theta of 1 does. */
static void fill_spared(struct program *p, const struct choice *choice, const double *load,
                        struct by_rooted_flow *spared, double *capacity, double *limit) {
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
    capacity[v] *= tree->flow.capacity[v] / choice->rate;
    limit[v] = node == NONE ? INFINITY : (fmax(1 - load[node], 0) + p->load[node]) * tree->flow.limit[v] / choice->rate;
  }
}

static enum banyan_status prune_one(struct program *p, struct choice *choice, double *load) {
  struct by_rooted_flow spared;
  bool found;
  fill_spared(p, choice, load, &spared, p->price, p->rent);
  BY_TRY(by_flow_fewest(&spared, 1 + gain_wanted, UINT32_MAX, p->adds, &found));
  if (!found) return BANYAN_OK;
  for (uint32_t r = 0; r < p->n_rows; r++) load[r] -= p->load[r];
  memcpy(choice->adds, p->adds, spared.n * sizeof *choice->adds);
  add_load(p, choice, choice->rate, load);
  return BANYAN_OK;
}

/* Leaves out, tree by tree, what the rates do not need to add. */
static enum banyan_status prune(struct program *p) {
  double *load = BY_ARENA_ARRAY(&p->arena, double, p->n_rows);
  if (!load) return by_plan_no_memory();
  for (uint32_t i = 0; i < p->choices->n; i++)
    if (p->choices->items[i].rate > 0) add_load(p, &p->choices->items[i], p->choices->items[i].rate, load);
  for (uint32_t i = 0; i < p->choices->n; i++)
    if (p->choices->items[i].rate > 0) BY_TRY(prune_one(p, &p->choices->items[i], load));
  return BANYAN_OK;
}

/* Rates for choices, and new choices by pricing if `more`: `rate` is their sum, `bound` what it cannot exceed, whatever
 * adds. Every tree has a choice. */
static enum banyan_status share(struct choices *choices, bool more, bool pruned, double *rate, double *bound) {
  struct program p = {.ways = choices->ways, .choices = choices, .more = more};
  enum banyan_status status = find_rates(&p, rate, bound);
  if (status == BANYAN_OK && pruned) status = prune(&p);
  by_lp_destroy(p.lp);
  by_arena_fini(&p.arena);
  return status;
}

/* --- who adds --- */

/* The choice with the least theta on one tree. */
static enum banyan_status add_best(struct choices *choices, uint32_t t, uint32_t most, double *theta) {
  const struct by_rooted_flow *flow = &choices->ways->trees[t].flow;
  bool *adds = BY_ARENA_ARRAY(&choices->ways->arena, bool, flow->n);
  if (!adds) return by_plan_no_memory();
  BY_TRY(by_flow_least(flow, most, adds, theta));
  return choices_add(choices, t, adds);
}

static enum banyan_status add_none(struct choices *choices, uint32_t t) {
  const bool *adds = BY_ARENA_ARRAY(&choices->ways->arena, bool, choices->ways->trees[t].flow.n);
  return adds ? choices_add(choices, t, adds) : by_plan_no_memory();
}

/* 1 / theta if all who are able add, or nobody does, memory aside. */
static double rate_if(struct by_placement_ways *ways, bool all_add) {
  struct by_rooted_flow unheld = ways->trees[0].flow;
  const bool *none = BY_ARENA_ARRAY(&ways->arena, bool, unheld.n);
  unheld.hold = BY_ARENA_ARRAY(&ways->arena, double, unheld.n);
  return none && unheld.hold ? 1 / by_flow_theta(&unheld, all_add ? unheld.able : none, NULL) : 0;
}

/* One server. Shares between choices pay only where memory is short. */
static enum banyan_status place_one(struct choices *choices, uint32_t most, struct by_placement *out) {
  double theta = 0;
  BY_TRY(add_best(choices, 0, most, &theta));
  double rate = 1 / theta;
  choices->items[0].rate = out->rate = rate;
  out->bound = rate_if(choices->ways, true);
  if (most != UINT32_MAX || out->rate >= out->bound * (1 - least_gain)) return BANYAN_OK;
  enum banyan_status status = share(choices, true, true, &out->rate, &out->bound);
  bool worth_it = status == BANYAN_OK && out->rate > rate * (1 + least_gain);
  if (worth_it || (status != BANYAN_OK && status != BANYAN_ERR_UNSUPPORTED)) return status;
  choices->n = 0; /* pruning has changed them */
  BY_TRY(add_best(choices, 0, most, &theta));
  choices->items[0].rate = out->rate = rate;
  return BANYAN_OK;
}

static enum banyan_status place_several(struct choices *choices, uint32_t most, struct by_placement *out) {
  double theta;
  for (uint32_t t = 0; t < choices->ways->n_trees; t++) {
    BY_TRY(add_best(choices, t, most, &theta));
    if (most == UINT32_MAX) BY_TRY(add_none(choices, t));
  }
  return share(choices, most == UINT32_MAX, true, &out->rate, &out->bound);
}

/* The rate if no switch adds. */
static enum banyan_status place_none(struct by_placement_ways *ways, double *rate) {
  struct choices choices = {.ways = ways};
  double bound;
  *rate = rate_if(ways, false);
  if (ways->n_trees == 1) return BANYAN_OK;
  enum banyan_status status = BANYAN_OK;
  for (uint32_t t = 0; t < ways->n_trees && status == BANYAN_OK; t++) status = add_none(&choices, t);
  if (status == BANYAN_OK) status = share(&choices, false, false, rate, &bound);
  free(choices.items);
  return status;
}

/* --- the value --- */

static int compare_trees(const void *a, const void *b) {
  const struct by_placed_tree *x = a, *y = b;
  if (x->rate != y->rate) return x->rate > y->rate ? -1 : 1;
  return (x->server > y->server) - (x->server < y->server);
}

/* What the kept choices carry together. */
static double rate_of_all(const struct choices *choices, double least) {
  double sum = 0;
  for (uint32_t i = 0; i < choices->n; i++)
    if (choices->items[i].rate > least) sum += choices->items[i].rate;
  return sum;
}

/* Trees of what has a rate, each `copies` times; their arrays are those of the ways. */
static enum banyan_status make_trees(struct by_placement *out, const struct choices *choices, uint32_t copies) {
  struct by_placement_ways *ways = choices->ways;
  out->trees = BY_ARENA_ARRAY(&ways->arena, struct by_placed_tree, (size_t)choices->n * copies);
  if (!out->trees) return by_plan_no_memory();
  for (uint32_t i = 0; i < choices->n; i++) {
    const struct choice *choice = &choices->items[i];
    const struct by_way_tree *tree = &ways->trees[choice->tree];
    double least = least_share * rate_of_all(choices, 0);
    if (choice->rate <= least) continue;
    struct by_placed_tree *placed = &out->trees[out->n_trees++];
    *placed = (struct by_placed_tree){.server = tree->server,
                                      .share = choice->rate / rate_of_all(choices, least) / copies,
                                      .rate = choice->rate / copies,
                                      .round_trip = tree->round_trip,
                                      .n = tree->flow.n,
                                      .node = tree->node,
                                      .parent = tree->flow.parent,
                                      .link = tree->link,
                                      .workers = tree->workers,
                                      .adds = choice->adds,
                                      .aggregator = tree->aggregator,
                                      .out = BY_ARENA_ARRAY(&ways->arena, uint32_t, tree->flow.n),
                                      .start = tree->start};
    if (!placed->out) return by_plan_no_memory();
    (void)by_flow_theta(&tree->flow, placed->adds, placed->out);
    for (uint32_t copy = 1; copy < copies; copy++) out->trees[out->n_trees++] = *placed;
  }
  qsort(out->trees, out->n_trees, sizeof *out->trees, compare_trees);
  return BANYAN_OK;
}

static enum banyan_status place(struct by_placement_ways *ways, const struct by_placement_options *options,
                                struct by_placement *out) {
  struct choices choices = {.ways = ways};
  bool idle = true;
  for (uint32_t t = 0; t < ways->n_trees; t++) idle &= ways->trees[t].flow.n <= 1;
  if (idle) return by_fail(BANYAN_ERR_ARGUMENT, "the only worker is the server: nothing is sent");
  BY_TRY(place_none(ways, &out->without));
  enum banyan_status status = ways->n_trees == 1 ? place_one(&choices, options->most_adding, out)
                                                 : place_several(&choices, options->most_adding, out);
  if (status == BANYAN_OK) status = make_trees(out, &choices, MAX(options->queues, 1));
  free(choices.items);
  return status;
}

enum banyan_status by_placement_make(const struct by_topology *topology, const struct by_placement_job *job,
                                     const struct by_placement_options *options, struct by_placement **out) {
  struct by_placement_ways ways;
  BY_TRY(by_placement_ways_init(&ways, topology, job, options->turnaround));
  struct by_placement *placement = calloc(1, sizeof *placement);
  enum banyan_status status = placement ? place(&ways, options, placement) : by_plan_no_memory();
  if (status != BANYAN_OK) {
    free(placement);
    by_placement_ways_fini(&ways);
    return status;
  }
  placement->arena = ways.arena;
  *out = placement;
  return BANYAN_OK;
}

void by_placement_destroy(struct by_placement *placement) {
  if (!placement) return;
  by_arena_fini(&placement->arena);
  free(placement);
}

/* --- a server --- */

/* Candidates beside each other. */
struct contest {
  const struct by_topology *topology;
  const struct by_placement_options *options;
  const struct by_placement_job *job;
  uint32_t best;
  double rate; /* of the best; 0: there is none yet */
};

static enum banyan_status try_server(struct contest *contest, uint32_t candidate) {
  struct by_placement_job job = *contest->job;
  job.servers = &candidate;
  job.n_servers = 1;
  struct by_placement *placement;
  BY_TRY(by_placement_make(contest->topology, &job, contest->options, &placement));
  if (placement->rate > contest->rate * (1 + least_share)) {
    contest->rate = placement->rate;
    contest->best = candidate;
  }
  by_placement_destroy(placement);
  return BANYAN_OK;
}

enum banyan_status by_placement_best_server(const struct by_topology *topology, const struct by_placement_job *job,
                                            const struct by_placement_options *options, uint32_t *server) {
  struct contest contest = {.topology = topology, .options = options, .job = job};
  const uint32_t *workers = job->workers, n = job->n_workers;
  for (uint32_t node = 0; node < topology->n_nodes; node++) {
    bool may_serve = topology->nodes[node].may_help;
    for (uint32_t i = 0; may_serve && i < n; i++) may_serve = workers[i] != node;
    if (may_serve) BY_TRY(try_server(&contest, node));
  }
  bool helped = contest.rate > 0;
  for (uint32_t i = 0; i < n && !helped; i++) BY_TRY(try_server(&contest, workers[i]));
  *server = contest.best;
  return BANYAN_OK;
}
