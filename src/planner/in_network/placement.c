/* Places a job's in-network trees: which switches add, and with which rates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lp.h"
#include "placement.h"
#include "plan_make.h"

#define NONE UINT32_MAX

/* Trees of smaller shares are dropped, and a smaller gain does not justify a split. */
static const double min_share = 1e-6, min_gain = 1e-3;

/* --- Choices. --- */

enum { MAX_ROUNDS = 500 };
static const double gain_wanted = 1e-9;

/* A choice of the adders of a tree, with a rate. */
struct choice {
  uint32_t tree;
  double rate; /* The rate in bit/s. */
  bool *adds;  /* Whether each vertex adds, in the paths' arena. */
};

/* A set of different choices. */
struct choices {
  struct by_placement_paths *paths;
  uint32_t n, allocated;
  struct choice *items;
};

static enum banyan_status add_choice(struct choices *choices, uint32_t tree, const bool *adds) {
  uint32_t n = choices->paths->trees[tree].flow.n;
  for (uint32_t i = 0; i < choices->n; i++)
    if (choices->items[i].tree == tree && memcmp(choices->items[i].adds, adds, n) == 0) return BANYAN_OK;
  bool *copy = BY_ARENA_ARRAY(&choices->paths->arena, bool, n);
  if (!copy || !BY_ARRAY_GROW(&choices->items, &choices->allocated, choices->n + 1)) return by_plan_no_memory();
  memcpy(copy, adds, n * sizeof *copy);
  choices->items[choices->n++] = (struct choice){.tree = tree, .adds = copy};
  return BANYAN_OK;
}

/* --- The program. --- */

/* The program for rates of choices with the largest sum, by column generation. The rows are links, nodes with a limit,
 * and memories of switches, each with capacity 1. Rates are in units of the widest link. */

struct program {
  struct by_placement_paths *paths;
  struct choices *choices;
  struct by_lp *lp;
  uint32_t *link_row, *node_row, *memory_row; /* The rows of links and nodes; NONE: there is none. */
  uint32_t n_rows;
  double unit;   /* The unit of rates in bit/s. */
  double *load;  /* The load of each row by one choice. */
  uint32_t *out; /* The number of gradients that each vertex of a tree sends. */
  double *price, *rent;
  bool *adds;
  bool more; /* New choices are searched. */
  struct by_arena arena;
};

/* --- Rows. --- */

static double get_limit(const struct by_topology *topology, uint32_t node) {
  return fmin(by_residual(topology->nodes[node].out), by_residual(topology->nodes[node].in));
}

static void add_row(struct program *p, uint32_t *row) {
  if (*row == NONE) *row = p->n_rows++;
}

/* Adds rows for the link of an aggregator and its limit. */
static void add_aggregator_rows(struct program *p, const struct by_path_tree *tree, uint32_t v) {
  const struct by_topology *topology = p->paths->topology;
  uint32_t host = tree->aggregator[v];
  add_row(p, &p->link_row[tree->detour[v]]);
  if (isfinite(get_limit(topology, host))) add_row(p, &p->node_row[host]);
}

static void find_rows(struct program *p) {
  const struct by_topology *topology = p->paths->topology;
  for (uint32_t i = 0; i < topology->n_links; i++) p->link_row[i] = NONE;
  for (uint32_t i = 0; i < topology->n_nodes; i++) p->node_row[i] = p->memory_row[i] = NONE;
  for (uint32_t t = 0; t < p->paths->n_trees; t++) {
    const struct by_path_tree *tree = &p->paths->trees[t];
    for (uint32_t v = 0; v < tree->flow.n; v++) {
      if (v) add_row(p, &p->link_row[tree->link[v]]);
      if (v) p->unit = fmax(p->unit, tree->flow.capacity[v]);
      if (isfinite(tree->flow.limit[v])) add_row(p, &p->node_row[tree->node[v]]);
      if (tree->aggregator[v] != NONE)
        add_aggregator_rows(p, tree, v);
      else if (tree->flow.hold[v] > 0)
        add_row(p, &p->memory_row[tree->node[v]]);
    }
  }
}

static enum banyan_status init_program(struct program *p) {
  struct by_arena *arena = &p->arena;
  const struct by_topology *topology = p->paths->topology;
  uint32_t n = 0;
  for (uint32_t t = 0; t < p->paths->n_trees; t++) n = p->paths->trees[t].flow.n > n ? p->paths->trees[t].flow.n : n;
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

enum { MAX_RENTS = 3 };

/* The parts of rows that a vertex uses if it adds at a rate of 1, in addition to its gradients. */
struct rent {
  uint32_t row[MAX_RENTS];
  double part[MAX_RENTS];
};

static struct rent get_rent(const struct program *p, const struct by_path_tree *tree, uint32_t v) {
  const struct by_topology *topology = p->paths->topology;
  uint32_t host = tree->aggregator[v], link = tree->detour[v];
  struct rent rent = {{NONE, NONE, NONE}, {tree->flow.hold[v], 0, 0}};
  if (host == NONE) {
    if (tree->flow.hold[v] > 0) rent.row[0] = p->memory_row[tree->node[v]];
    return rent;
  }
  double load = by_aggregator_load(tree, v);
  return (struct rent){
      {p->link_row[link], p->node_row[host], p->node_row[tree->node[v]]},
      {load / by_link_min_left(topology, link), load / get_limit(topology, host), load / tree->flow.limit[v]}};
}

/* Adds the load of a choice at this rate to load[]. */
static void add_load(struct program *p, const struct choice *choice, double rate, double *load) {
  const struct by_path_tree *tree = &p->paths->trees[choice->tree];
  (void)by_flow_theta(&tree->flow, choice->adds, p->out);
  for (uint32_t v = 0; v < tree->flow.n; v++) {
    uint32_t node = p->node_row[tree->node[v]], parent = p->node_row[tree->node[tree->flow.parent[v]]];
    struct rent rent = get_rent(p, tree, v);
    for (int i = 0; i < MAX_RENTS && choice->adds[v]; i++)
      if (rent.row[i] != NONE) load[rent.row[i]] += rate * rent.part[i];
    if (!v) continue;
    load[p->link_row[tree->link[v]]] += rate * p->out[v] / tree->flow.capacity[v];
    if (node != NONE) load[node] += rate * p->out[v] / tree->flow.limit[v];
    if (parent != NONE) load[parent] += rate * p->out[v] / tree->flow.limit[tree->flow.parent[v]];
  }
}

/* --- Columns. --- */

static enum banyan_status add_column(struct program *p, uint32_t choice) {
  const struct choice *item = &p->choices->items[choice];
  memset(p->load, 0, p->n_rows * sizeof *p->load);
  add_load(p, item, p->unit, p->load);
  return by_lp_add(p->lp, 1, p->load);
}

static enum banyan_status start_program(struct program *p) {
  for (uint32_t r = 0; r < p->n_rows; r++) p->load[r] = 1;
  BY_TRY(by_lp_create(p->n_rows, p->load, p->unit, &p->lp));
  for (uint32_t i = 0; i < p->choices->n; i++) BY_TRY(add_column(p, i));
  return BANYAN_OK;
}

/* --- Prices. --- */

static double get_dual(const struct program *p, uint32_t row) {
  return row == NONE ? 0 : p->lp->price[row] * p->unit;
}

/* Finds the cheapest choice on a tree, and stores it in adds[]. */
static enum banyan_status find_cheapest(struct program *p, const struct by_path_tree *tree, double *cost) {
  for (uint32_t v = 1; v < tree->flow.n; v++) {
    uint32_t parent = tree->flow.parent[v];
    p->price[v] = get_dual(p, p->link_row[tree->link[v]]) / tree->flow.capacity[v] +
                  get_dual(p, p->node_row[tree->node[v]]) / tree->flow.limit[v] +
                  get_dual(p, p->node_row[tree->node[parent]]) / tree->flow.limit[parent];
    struct rent rent = get_rent(p, tree, v);
    p->rent[v] = 0;
    for (int i = 0; i < MAX_RENTS; i++) p->rent[v] += get_dual(p, rent.row[i]) * rent.part[i];
  }
  return by_flow_find_cheapest(&tree->flow, p->price, p->rent, p->adds, cost);
}

/* Finds cheaper choices and a bound. Weak duality: any prices bound the rate by the cost of all rows over the minimum
 * cost of a bit. */
static enum banyan_status price_choices(void *context, double *bound, bool *added) {
  struct program *p = context;
  double rows = 0, min = INFINITY;
  uint32_t known = p->choices->n;
  for (uint32_t r = 0; r < p->n_rows; r++) rows += p->lp->price[r];
  for (uint32_t t = 0; t < p->paths->n_trees; t++) {
    const struct by_path_tree *tree = &p->paths->trees[t];
    double cost = 0;
    BY_TRY(find_cheapest(p, tree, &cost));
    min = fmin(min, cost);
    if (p->more && cost < 1 - gain_wanted) BY_TRY(add_choice(p->choices, t, p->adds));
  }
  if (min > 0) *bound = fmin(*bound, rows / min * p->unit);
  *added = p->choices->n > known;
  for (uint32_t i = known; i < p->choices->n; i++) BY_TRY(add_column(p, i));
  return BANYAN_OK;
}

static enum banyan_status solve_program(void *context, double *rate) {
  struct program *p = context;
  BY_TRY(by_lp_solve(p->lp));
  *rate = p->lp->objective * p->unit;
  return BANYAN_OK;
}

static enum banyan_status find_rates(struct program *p, double *rate, double *bound) {
  static const struct by_lp_rounds rounds = {
      .ratio = INFINITY, .max = MAX_ROUNDS, .idle_limit = UINT32_MAX, .solve = solve_program, .price = price_choices};
  *bound = INFINITY;
  BY_TRY(init_program(p));
  BY_TRY(start_program(p));
  BY_TRY(by_lp_generate(&rounds, p, bound));
  BY_TRY(solve_program(p, rate));
  for (uint32_t i = 0; i < p->choices->n; i++) p->choices->items[i].rate = p->lp->rate[i];
  return BANYAN_OK;
}

/* --- Adders that are not needed. --- */

/* Makes a flow as large as the tree's at its rate, in the capacity that the other choices leave of each row, where only
 * the present adders may add. It is in units of the choice's rate, so that a theta of 1 is enough. */
static void fill_spared(struct program *p, const struct choice *choice, const double *load,
                        struct by_rooted_flow *spared, double *capacity, double *limit) {
  const struct by_path_tree *tree = &p->paths->trees[choice->tree];
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

static enum banyan_status remove_adders(struct program *p, struct choice *choice, double *load) {
  struct by_rooted_flow spared;
  bool found;
  fill_spared(p, choice, load, &spared, p->price, p->rent);
  BY_TRY(by_flow_find_fewest(&spared, 1 + gain_wanted, UINT32_MAX, p->adds, &found));
  if (!found) return BANYAN_OK;
  for (uint32_t r = 0; r < p->n_rows; r++) load[r] -= p->load[r];
  memcpy(choice->adds, p->adds, spared.n * sizeof *choice->adds);
  add_load(p, choice, choice->rate, load);
  return BANYAN_OK;
}

/* Removes, tree by tree, adders that the rates do not need. */
static enum banyan_status remove_all_adders(struct program *p) {
  double *load = BY_ARENA_ARRAY(&p->arena, double, p->n_rows);
  if (!load) return by_plan_no_memory();
  for (uint32_t i = 0; i < p->choices->n; i++)
    if (p->choices->items[i].rate > 0) add_load(p, &p->choices->items[i], p->choices->items[i].rate, load);
  for (uint32_t i = 0; i < p->choices->n; i++)
    if (p->choices->items[i].rate > 0) BY_TRY(remove_adders(p, &p->choices->items[i], load));
  return BANYAN_OK;
}

/* Computes rates for choices, and new choices by pricing if `more`. *rate is the sum of the rates, *bound a limit for
 * any choice of adders, both in bit/s. Every tree has a choice. */
static enum banyan_status divide_rates(struct choices *choices, bool more, bool pruned, double *rate, double *bound) {
  struct program p = {.paths = choices->paths, .choices = choices, .more = more};
  enum banyan_status status = find_rates(&p, rate, bound);
  if (status == BANYAN_OK && pruned) status = remove_all_adders(&p);
  by_lp_destroy(p.lp);
  by_arena_fini(&p.arena);
  return status;
}

/* --- Placing. --- */

/* Adds the choice with the smallest theta on one tree. */
static enum banyan_status add_best(struct choices *choices, uint32_t t, uint32_t max, double *theta) {
  const struct by_rooted_flow *flow = &choices->paths->trees[t].flow;
  bool *adds = BY_ARENA_ARRAY(&choices->paths->arena, bool, flow->n);
  if (!adds) return by_plan_no_memory();
  BY_TRY(by_flow_find_min(flow, max, adds, theta));
  return add_choice(choices, t, adds);
}

static enum banyan_status add_none(struct choices *choices, uint32_t t) {
  const bool *adds = BY_ARENA_ARRAY(&choices->paths->arena, bool, choices->paths->trees[t].flow.n);
  return adds ? add_choice(choices, t, adds) : by_plan_no_memory();
}

/* Returns 1 / theta if all vertices that are able add, or none, without the limits of memory. */
static double get_rate_if(struct by_placement_paths *paths, bool all_add) {
  struct by_rooted_flow unheld = paths->trees[0].flow;
  const bool *none = BY_ARENA_ARRAY(&paths->arena, bool, unheld.n);
  unheld.hold = BY_ARENA_ARRAY(&paths->arena, double, unheld.n);
  return none && unheld.hold ? 1 / by_flow_theta(&unheld, all_add ? unheld.able : none, NULL) : 0;
}

/* Places a job with one server. A division between choices is only justified if memory is short. */
static enum banyan_status place_one(struct choices *choices, uint32_t max, struct by_placement *out) {
  double theta = 0;
  BY_TRY(add_best(choices, 0, max, &theta));
  double rate = 1 / theta;
  choices->items[0].rate = out->rate = rate;
  out->bound = get_rate_if(choices->paths, true);
  if (max != UINT32_MAX || out->rate >= out->bound * (1 - min_gain)) return BANYAN_OK;
  enum banyan_status status = divide_rates(choices, true, true, &out->rate, &out->bound);
  bool worth_it = status == BANYAN_OK && out->rate > rate * (1 + min_gain);
  if (worth_it || (status != BANYAN_OK && status != BANYAN_ERR_UNSUPPORTED)) return status;
  choices->n = 0; /* Pruning has changed them. */
  BY_TRY(add_best(choices, 0, max, &theta));
  choices->items[0].rate = out->rate = rate;
  return BANYAN_OK;
}

static enum banyan_status place_several(struct choices *choices, uint32_t max, struct by_placement *out) {
  double theta;
  for (uint32_t t = 0; t < choices->paths->n_trees; t++) {
    BY_TRY(add_best(choices, t, max, &theta));
    if (max == UINT32_MAX) BY_TRY(add_none(choices, t));
  }
  return divide_rates(choices, max == UINT32_MAX, true, &out->rate, &out->bound);
}

/* Computes the rate if no switch adds. */
static enum banyan_status place_none(struct by_placement_paths *paths, double *rate) {
  struct choices choices = {.paths = paths};
  double bound;
  *rate = get_rate_if(paths, false);
  if (paths->n_trees == 1) return BANYAN_OK;
  enum banyan_status status = BANYAN_OK;
  for (uint32_t t = 0; t < paths->n_trees && status == BANYAN_OK; t++) status = add_none(&choices, t);
  if (status == BANYAN_OK) status = divide_rates(&choices, false, false, rate, &bound);
  free(choices.items);
  return status;
}

/* --- The result. --- */

static int compare_trees(const void *a, const void *b) {
  const struct by_placed_tree *x = a, *y = b;
  if (x->rate != y->rate) return x->rate > y->rate ? -1 : 1;
  return (x->server > y->server) - (x->server < y->server);
}

/* Returns the sum of the rates of the kept choices in bit/s. */
static double sum_rates(const struct choices *choices, double min) {
  double sum = 0;
  for (uint32_t i = 0; i < choices->n; i++)
    if (choices->items[i].rate > min) sum += choices->items[i].rate;
  return sum;
}

/* Makes trees of the choices that have a rate, each `copies` times. They use the arrays of the paths. */
static enum banyan_status make_trees(struct by_placement *out, const struct choices *choices, uint32_t copies) {
  struct by_placement_paths *paths = choices->paths;
  out->trees = BY_ARENA_ARRAY(&paths->arena, struct by_placed_tree, (size_t)choices->n * copies);
  if (!out->trees) return by_plan_no_memory();
  for (uint32_t i = 0; i < choices->n; i++) {
    const struct choice *choice = &choices->items[i];
    const struct by_path_tree *tree = &paths->trees[choice->tree];
    double min = min_share * sum_rates(choices, 0);
    if (choice->rate <= min) continue;
    struct by_placed_tree *placed = &out->trees[out->n_trees++];
    *placed = (struct by_placed_tree){.server = tree->server,
                                      .share = choice->rate / sum_rates(choices, min) / copies,
                                      .rate = choice->rate / copies,
                                      .round_trip = tree->round_trip,
                                      .n = tree->flow.n,
                                      .node = tree->node,
                                      .parent = tree->flow.parent,
                                      .link = tree->link,
                                      .workers = tree->workers,
                                      .adds = choice->adds,
                                      .aggregator = tree->aggregator,
                                      .out = BY_ARENA_ARRAY(&paths->arena, uint32_t, tree->flow.n),
                                      .start = tree->start};
    if (!placed->out) return by_plan_no_memory();
    (void)by_flow_theta(&tree->flow, placed->adds, placed->out);
    for (uint32_t copy = 1; copy < copies; copy++) out->trees[out->n_trees++] = *placed;
  }
  qsort(out->trees, out->n_trees, sizeof *out->trees, compare_trees);
  return BANYAN_OK;
}

static enum banyan_status make_placement(struct by_placement_paths *paths, const struct by_placement_options *options,
                                         struct by_placement *out) {
  struct choices choices = {.paths = paths};
  bool idle = true;
  for (uint32_t t = 0; t < paths->n_trees; t++) idle &= paths->trees[t].flow.n <= 1;
  if (idle) return by_fail(BANYAN_ERR_ARGUMENT, "the only worker is the server: nothing is sent");
  BY_TRY(place_none(paths, &out->without));
  enum banyan_status status = paths->n_trees == 1 ? place_one(&choices, options->max_adding, out)
                                                  : place_several(&choices, options->max_adding, out);
  if (status == BANYAN_OK) status = make_trees(out, &choices, MAX(options->queues, 1));
  free(choices.items);
  return status;
}

enum banyan_status by_placement_make(const struct by_topology *topology, const struct by_placement_job *job,
                                     const struct by_placement_options *options, struct by_placement **out) {
  struct by_placement_paths paths;
  BY_TRY(by_placement_paths_init(&paths, topology, job, options->turnaround));
  struct by_placement *placement = calloc(1, sizeof *placement);
  enum banyan_status status = placement ? make_placement(&paths, options, placement) : by_plan_no_memory();
  if (status != BANYAN_OK) {
    free(placement);
    by_placement_paths_fini(&paths);
    return status;
  }
  placement->arena = paths.arena;
  *out = placement;
  return BANYAN_OK;
}

void by_placement_destroy(struct by_placement *placement) {
  if (!placement) return;
  by_arena_fini(&placement->arena);
  free(placement);
}

/* --- The best server. --- */

/* The search among candidates. */
struct server_search {
  const struct by_topology *topology;
  const struct by_placement_options *options;
  const struct by_placement_job *job;
  uint32_t best;
  double rate; /* The rate of the best one in bit/s; 0: there is none yet. */
};

static enum banyan_status try_server(struct server_search *server_search, uint32_t candidate) {
  struct by_placement_job job = *server_search->job;
  job.servers = &candidate;
  job.n_servers = 1;
  struct by_placement *placement;
  BY_TRY(by_placement_make(server_search->topology, &job, server_search->options, &placement));
  if (placement->rate > server_search->rate * (1 + min_share)) {
    server_search->rate = placement->rate;
    server_search->best = candidate;
  }
  by_placement_destroy(placement);
  return BANYAN_OK;
}

enum banyan_status by_placement_best_server(const struct by_topology *topology, const struct by_placement_job *job,
                                            const struct by_placement_options *options, uint32_t *server) {
  struct server_search server_search = {.topology = topology, .options = options, .job = job};
  const uint32_t *workers = job->workers, n = job->n_workers;
  for (uint32_t node = 0; node < topology->n_nodes; node++) {
    bool may_serve = topology->nodes[node].may_help;
    for (uint32_t i = 0; may_serve && i < n; i++) may_serve = workers[i] != node;
    if (may_serve) BY_TRY(try_server(&server_search, node));
  }
  bool helped = server_search.rate > 0;
  for (uint32_t i = 0; i < n && !helped; i++) BY_TRY(try_server(&server_search, workers[i]));
  *server = server_search.best;
  return BANYAN_OK;
}
