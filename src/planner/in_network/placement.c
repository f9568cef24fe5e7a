#include "placement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "placement_parts.h"

/* Shares that are smaller are not worth a tree, and less gain not a split. */
static const double least_share = 1e-6, least_gain = 1e-3;

struct by_placement_options by_placement_defaults(void) {
  return (struct by_placement_options){.most_adding = UINT32_MAX, .turnaround = 100e-6};
}

/* --- who adds --- */

/* The choice with the least theta on one tree. */
static enum banyan_status add_best(struct by_choices *choices, struct by_placement_ways *ways, uint32_t t,
                                   uint32_t most, double *theta) {
  const struct by_flow *flow = &ways->trees[t].flow;
  bool *adds = calloc((size_t)flow->n + 1, sizeof *adds);
  if (!adds) return by_placement_no_memory();
  enum banyan_status status = by_flow_least(flow, most, adds, theta);
  if (status == BANYAN_OK) status = by_choices_add(choices, ways, t, adds, NULL);
  free(adds);
  return status;
}

static enum banyan_status add_none(struct by_choices *choices, struct by_placement_ways *ways, uint32_t t) {
  bool *adds = calloc((size_t)ways->trees[t].flow.n + 1, sizeof *adds);
  enum banyan_status status = adds ? by_choices_add(choices, ways, t, adds, NULL) : by_placement_no_memory();
  free(adds);
  return status;
}

/* 1 / theta if all who are able add, or nobody does, memory aside. */
static double rate_if(const struct by_flow *flow, bool all_add) {
  double *hold = calloc((size_t)flow->n + 1, sizeof *hold);
  bool *none = calloc((size_t)flow->n + 1, sizeof *none);
  struct by_flow unheld = *flow;
  unheld.hold = hold;
  double theta = hold && none ? by_flow_theta(&unheld, all_add ? flow->able : none, NULL) : INFINITY;
  free(hold);
  free(none);
  return 1 / theta;
}

/* Only the first choice is used. */
static void use_first(struct by_choices *choices, double rate) {
  for (uint32_t i = 0; i < choices->n; i++) choices->items[i].rate = i ? 0 : rate;
}

static enum banyan_status share(struct by_choices *choices, struct by_placement_ways *ways, bool price_more,
                                struct by_placement *out) {
  BY_TRY(by_choices_share(choices, ways, price_more, &out->rate, &out->bound));
  return by_choices_prune(choices, ways);
}

/* One job with one server. Shares between choices pay only where memory is short. */
static enum banyan_status place_one(struct by_choices *choices, struct by_placement_ways *ways, uint32_t most,
                                    struct by_placement *out) {
  double theta = 0;
  BY_TRY(add_best(choices, ways, 0, most, &theta));
  double weight = ways->jobs[0].weight, rate = 1 / theta;
  use_first(choices, rate);
  out->bound = rate_if(&ways->trees[0].flow, true) / weight;
  out->rate = rate / weight;
  if (most != UINT32_MAX || out->rate >= out->bound * (1 - least_gain)) return BANYAN_OK;
  enum banyan_status status = share(choices, ways, true, out);
  bool worth_it = status == BANYAN_OK && out->rate * weight > rate * (1 + least_gain);
  if (worth_it || (status != BANYAN_OK && status != BANYAN_ERR_UNSUPPORTED)) return status;
  choices->n = 0; /* pruning has changed them */
  BY_TRY(add_best(choices, ways, 0, most, &theta));
  use_first(choices, rate);
  out->rate = rate / weight;
  return BANYAN_OK;
}

static enum banyan_status place_several(struct by_choices *choices, struct by_placement_ways *ways, uint32_t most,
                                        struct by_placement *out) {
  double theta;
  for (uint32_t t = 0; t < ways->n_trees; t++) {
    BY_TRY(add_best(choices, ways, t, most, &theta));
    if (most == UINT32_MAX) BY_TRY(add_none(choices, ways, t));
  }
  return share(choices, ways, most == UINT32_MAX, out);
}

/* The rate if no switch adds. */
static enum banyan_status place_none(struct by_placement_ways *ways, double *rate) {
  struct by_choices choices = {.n = 0};
  double bound;
  *rate = rate_if(&ways->trees[0].flow, false) / ways->jobs[0].weight;
  if (ways->n_trees == 1) return BANYAN_OK;
  for (uint32_t t = 0; t < ways->n_trees; t++) BY_TRY(add_none(&choices, ways, t));
  return by_choices_share(&choices, ways, false, rate, &bound);
}

/* --- the value --- */

static enum banyan_status copy_tree(struct by_placement *out, const struct by_placement_ways *ways,
                                    const struct by_choice *choice, struct by_placed_tree *placed) {
  const struct by_way_tree *tree = &ways->trees[choice->tree];
  size_t n = tree->flow.n, workers = ways->jobs[tree->job].n_workers;
  *placed = (struct by_placed_tree){.job = tree->job, .server = tree->server, .rate = choice->rate};
  uint32_t *numbers = BY_ARENA_ARRAY(&out->arena, uint32_t, 5 * n + workers);
  placed->adds = BY_ARENA_ARRAY(&out->arena, bool, n);
  if (!numbers || !placed->adds) return by_placement_no_memory();
  placed->n = tree->flow.n;
  placed->round_trip = tree->round_trip;
  placed->node = memcpy(numbers, tree->node, n * sizeof *numbers);
  placed->parent = memcpy(numbers + n, tree->parent, n * sizeof *numbers);
  placed->link = memcpy(numbers + 2 * n, tree->link, n * sizeof *numbers);
  placed->workers = memcpy(numbers + 3 * n, tree->workers, n * sizeof *numbers);
  placed->out = numbers + 4 * n;
  placed->start = memcpy(numbers + 5 * n, tree->start, workers * sizeof *numbers);
  memcpy(placed->adds, choice->adds, n * sizeof *placed->adds);
  (void)by_flow_theta(&tree->flow, placed->adds, placed->out);
  return BANYAN_OK;
}

static int compare_trees(const void *a, const void *b) {
  const struct by_placed_tree *x = a, *y = b;
  if (x->job != y->job) return x->job < y->job ? -1 : 1;
  if (x->rate != y->rate) return x->rate > y->rate ? -1 : 1;
  return (x->server > y->server) - (x->server < y->server);
}

/* What the kept choices of a job carry together. */
static double rate_of_job(const struct by_choices *choices, const struct by_placement_ways *ways, uint32_t job,
                          double least) {
  double sum = 0;
  for (uint32_t i = 0; i < choices->n; i++)
    if (ways->trees[choices->items[i].tree].job == job && choices->items[i].rate > least) sum += choices->items[i].rate;
  return sum;
}

static enum banyan_status copy_trees(struct by_placement *out, const struct by_choices *choices,
                                     const struct by_placement_ways *ways) {
  out->trees = BY_ARENA_ARRAY(&out->arena, struct by_placed_tree, choices->n);
  if (!out->trees) return by_placement_no_memory();
  for (uint32_t i = 0; i < choices->n; i++) {
    const struct by_choice *choice = &choices->items[i];
    uint32_t job = ways->trees[choice->tree].job;
    double least = least_share * rate_of_job(choices, ways, job, 0);
    if (choice->rate <= least) continue;
    struct by_placed_tree *placed = &out->trees[out->n_trees++];
    BY_TRY(copy_tree(out, ways, choice, placed));
    placed->share = choice->rate / rate_of_job(choices, ways, job, least);
  }
  qsort(out->trees, out->n_trees, sizeof *out->trees, compare_trees);
  return BANYAN_OK;
}

/* A server alone with itself sends nothing. */
static bool is_idle(const struct by_placement_ways *ways) {
  for (uint32_t t = 0; t < ways->n_trees; t++)
    if (ways->trees[t].flow.n > 1) return false;
  return true;
}

static enum banyan_status place(struct by_placement_ways *ways, const struct by_placement_options *options,
                                struct by_placement *out) {
  struct by_choices choices = {.n = 0};
  if (is_idle(ways)) return by_fail(BANYAN_ERR_ARGUMENT, "the only worker is the server: nothing is sent");
  BY_TRY(place_none(ways, &out->without));
  if (ways->n_trees == 1)
    BY_TRY(place_one(&choices, ways, options->most_adding, out));
  else
    BY_TRY(place_several(&choices, ways, options->most_adding, out));
  return copy_trees(out, &choices, ways);
}

enum banyan_status by_placement_make(const struct by_topology *topology, const struct by_placement_job *jobs,
                                     uint32_t n_jobs, const struct by_placement_options *options,
                                     struct by_placement **out) {
  struct by_placement_ways ways;
  BY_TRY(by_placement_ways_init(&ways, topology, jobs, n_jobs, options->turnaround));
  struct by_placement *placement = calloc(1, sizeof *placement);
  enum banyan_status status = by_placement_no_memory();
  if (placement) {
    by_arena_init(&placement->arena);
    status = place(&ways, options, placement);
  }
  by_placement_ways_fini(&ways);
  if (status != BANYAN_OK) {
    by_placement_destroy(placement);
    return status;
  }
  *out = placement;
  return BANYAN_OK;
}

void by_placement_destroy(struct by_placement *placement) {
  if (!placement) return;
  struct by_arena arena = placement->arena;
  free(placement);
  by_arena_fini(&arena);
}

/* --- a server --- */

/* Candidates beside each other. */
struct contest {
  const struct by_topology *topology;
  const struct by_placement_options *options;
  const uint32_t *workers;
  uint32_t n_workers, best;
  double rate; /* of the best; 0: there is none yet */
};

static enum banyan_status try_server(struct contest *contest, uint32_t candidate) {
  struct by_placement_job job = {.workers = contest->workers, .n_workers = contest->n_workers, .weight = 1};
  struct by_placement *placement;
  job.servers = &candidate;
  job.n_servers = 1;
  BY_TRY(by_placement_make(contest->topology, &job, 1, contest->options, &placement));
  if (placement->rate > contest->rate * (1 + least_share)) {
    contest->rate = placement->rate;
    contest->best = candidate;
  }
  by_placement_destroy(placement);
  return BANYAN_OK;
}

static bool is_worker(const struct contest *contest, uint32_t node) {
  for (uint32_t i = 0; i < contest->n_workers; i++)
    if (contest->workers[i] == node) return true;
  return false;
}

enum banyan_status by_placement_best_server(const struct by_topology *topology, const uint32_t *workers, uint32_t n,
                                            const struct by_placement_options *options, uint32_t *server) {
  struct contest contest = {.topology = topology, .options = options, .workers = workers, .n_workers = n};
  for (uint32_t node = 0; node < topology->n_nodes; node++)
    if (topology->nodes[node].may_help && !is_worker(&contest, node)) BY_TRY(try_server(&contest, node));
  bool helped = contest.rate > 0;
  for (uint32_t i = 0; i < n && !helped; i++) BY_TRY(try_server(&contest, workers[i]));
  *server = contest.best;
  return BANYAN_OK;
}
