/* The limits, and the search for the ones that can be kept. One tree under given limits is made in control_level.c. */
#include "control_tree.h"

#include <math.h>
#include <stdlib.h>

#include "control_level.h"

enum { MUCH = 8192 }; /* fewer roots are tried where there are so many classes that it would take long */

/* --- what serves --- */

struct by_control_costs by_control_costs_usual(void) {
  return (struct by_control_costs){.delay = 30e-6, .wake = 30e-6, .message = 7e-6};
}

uint32_t by_control_height(uint32_t n, uint32_t fan_out) {
  uint64_t room = 1, level = 1;
  uint32_t height = 0;
  for (; room < n; room += level, height++) level *= fan_out;
  return height;
}

uint32_t by_control_fan_out(uint32_t n, const struct by_control_costs *costs) {
  uint32_t best = 2, least = 2;
  double wanted = (costs->delay + costs->wake) / costs->message;
  while (best < BY_NEARNESS_MOST && (best + 0.5) * (log(best + 0.5) - 1) < wanted) best++;
  while (by_control_height(n, least) > by_control_height(n, best)) least++;
  return least;
}

/* --- distances --- */

static double between(const struct by_nearness *near, bool by_delay, uint32_t a, uint32_t b) {
  size_t cell = (size_t)a * near->n_classes + b;
  return by_delay ? (double)near->delay[cell] : near->hops[cell];
}

static bool is_alone(const struct by_nearness *near, uint32_t c) {
  return near->first[c + 1] - near->first[c] == 1;
}

static double eccentricity(const struct by_nearness *near, bool by_delay, uint32_t c) {
  double most = 0;
  for (uint32_t other = 0; other < near->n_classes; other++) most = fmax(most, between(near, by_delay, c, other));
  return most;
}

/* The least distance over which all ranks hang together: the longest step of a least spanning tree of the classes
 * (Prim), or within a class. O(classes^2) */
static enum banyan_status joining_distance(const struct by_nearness *near, bool by_delay, double *out) {
  double most = 0, *to = calloc(near->n_classes, sizeof *to);
  if (!to) return by_control_no_memory();
  for (uint32_t c = 0; c < near->n_classes; c++) {
    to[c] = c ? between(near, by_delay, 0, c) : -1;
    if (!is_alone(near, c)) most = fmax(most, between(near, by_delay, c, c));
  }
  for (uint32_t i = 1; i < near->n_classes; i++) {
    uint32_t nearest = 0;
    for (uint32_t c = 1; c < near->n_classes; c++)
      if (to[c] >= 0 && (!nearest || to[c] < to[nearest])) nearest = c;
    most = fmax(most, to[nearest]);
    to[nearest] = -1;
    for (uint32_t c = 1; c < near->n_classes; c++) to[c] = fmin(to[c], between(near, by_delay, nearest, c));
  }
  free(to);
  *out = most;
  return BANYAN_OK;
}

/* The least distance between two ranks that is not 0; INFINITY: there is none. */
static double least_distance(const struct by_nearness *near, bool by_delay) {
  double least = INFINITY;
  for (uint32_t a = 0; a < near->n_classes; a++)
    for (uint32_t b = 0; b < near->n_classes; b++)
      if (between(near, by_delay, a, b) > 0) least = fmin(least, between(near, by_delay, a, b));
  return least;
}

/* --- roots --- */

struct candidate {
  uint32_t class_;
  double from_middle, reach;
};

static int compare_candidates(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  if (x->from_middle != y->from_middle) return x->from_middle < y->from_middle ? -1 : 1;
  return (x->class_ > y->class_) - (x->class_ < y->class_);
}

/* The classes by their distance from the one in the middle, which comes first. */
static void sort_candidates(const struct by_nearness *near, bool by_delay, struct candidate *candidates) {
  uint32_t n = near->n_classes, middle = 0;
  for (uint32_t c = 0; c < n; c++) {
    candidates[c] = (struct candidate){.class_ = c, .reach = eccentricity(near, by_delay, c)};
    if (candidates[c].reach < candidates[middle].reach) middle = c;
  }
  for (uint32_t c = 0; c < n; c++) candidates[c].from_middle = c == middle ? -1 : between(near, by_delay, middle, c);
  qsort(candidates, n, sizeof *candidates, compare_candidates);
}

struct by_control_costs by_control_costs_of(const struct by_nearness *near) {
  struct by_control_costs costs = by_control_costs_usual();
  uint32_t n = near->n_ranks, middle = 0;
  double sum = 0;
  double least = INFINITY;
  for (uint32_t c = 0; c < near->n_classes; c++) {
    double reach = eccentricity(near, true, c);
    if (reach >= least) continue;
    least = reach;
    middle = c;
  }
  for (uint32_t r = 0; r < n; r++) sum += by_delay_between(near, near->ranks[near->first[middle]], r);
  if (n > 1 && sum > 0) costs.delay = sum / (n - 1);
  return costs;
}

/* --- the search --- */

/* Tries all roots; *out stays NULL where none has a tree. A root from which so many steps over so many links do not
 * reach is left out at once. */
static enum banyan_status try_roots(const struct by_nearness *near, const struct by_control_limits *limits,
                                    const struct candidate *candidates, struct by_control_tree **out) {
  uint32_t most = 1 + (uint32_t)ceil(sqrt(near->n_ranks)), quick = 1 + MUCH / near->n_classes;
  if (most > quick) most = quick;
  for (uint32_t i = 0; i < near->n_classes && i < most && !*out; i++)
    if (limits->by_delay || candidates[i].reach <= limits->height * limits->distance)
      BY_TRY(by_control_tree_from(near, limits, candidates[i].class_, out));
  return BANYAN_OK;
}

static enum banyan_status search(const struct by_nearness *near, struct by_control_limits *limits,
                                 struct by_control_tree **out) {
  struct candidate *candidates = calloc(near->n_classes, sizeof *candidates);
  if (!candidates) return by_control_no_memory();
  sort_candidates(near, limits->by_delay, candidates);
  enum banyan_status status = try_roots(near, limits, candidates, out);
  while (status == BANYAN_OK && !*out) {
    limits->distance = limits->distance > 0 ? 2 * limits->distance : least_distance(near, limits->by_delay);
    status = try_roots(near, limits, candidates, out);
  }
  free(candidates);
  return status;
}

/* Puts the least that can do in place of what was left open. */
static void settle(uint32_t n, const struct by_control_costs *costs, struct by_control_limits *limits) {
  if (!limits->fan_out) limits->fan_out = by_control_fan_out(n, costs);
  uint32_t least = by_control_height(n, limits->fan_out);
  if (limits->height < least) limits->height = least;
}

enum banyan_status by_control_tree_make(const struct by_nearness *near, const struct by_control_limits *limits,
                                        const struct by_control_costs *costs, struct by_control_tree **out) {
  struct by_control_limits kept = *limits;
  double joining = 0;
  *out = NULL;
  if (!near->n_ranks) return by_fail(BANYAN_ERR_ARGUMENT, "there are no ranks for a control tree");
  settle(near->n_ranks, costs, &kept);
  if (!(kept.distance > 0)) {
    BY_TRY(joining_distance(near, kept.by_delay, &joining));
    kept.distance = joining;
  }
  BY_TRY(search(near, &kept, out));
  (*out)->kept = kept;
  (*out)->farther = kept.distance > (limits->distance > 0 ? limits->distance : joining);
  (*out)->higher = limits->height && kept.height > limits->height;
  return BANYAN_OK;
}

/* --- without a topology --- */

enum banyan_status by_control_tree_by_number(uint32_t n, const struct by_control_limits *limits,
                                             const struct by_control_costs *costs, struct by_control_tree **out) {
  struct by_control_limits kept = *limits;
  if (!n) return by_fail(BANYAN_ERR_ARGUMENT, "there are no ranks for a control tree");
  settle(n, costs, &kept);
  BY_TRY(by_control_tree_create(n, out));
  struct by_control_tree *tree = *out;
  for (uint32_t r = 1; r < n; r++) tree->parent[r] = (r - 1) / kept.fan_out;
  tree->height = by_control_height(n, kept.fan_out);
  tree->fan_out = n - 1 < kept.fan_out ? n - 1 : kept.fan_out;
  tree->distance = n > 1;
  tree->sum = n - 1;
  tree->kept = kept;
  tree->higher = limits->height && kept.height > limits->height;
  return BANYAN_OK;
}
