/* Makes a control tree under given limits, searches for limits that can be kept, and makes trees of numbered ranks. */
#include "control_tree.h"

#include <math.h>
#include <stdlib.h>

#include "arena.h"
#include "order.h"
#include "plan_make.h"

/* --- One tree under given limits. --- */

/* A tree is built from a root, level by level. Ranks of a class are equivalent, so a level is an assignment between
 * classes: each rank of the level above takes up to fan-out of the remaining ranks. Members of a class are placed in
 * their order; the members of class c on the level above are above[c] .. placed[c] - 1. */

enum { STEPS = 32 }; /* The number of steps into which distances are rounded. */

struct build {
  const struct by_nearness *near;
  const struct by_control_limits *limits;
  struct by_control_tree *tree;
  /* For each class: the number of members placed before the level above, and of all placed members. */
  uint32_t *above, *placed;
  uint32_t *upto; /* For each class: the number of members placed when the level began. */
  uint32_t *turn; /* For each class: the member of the level above that takes next. */
  uint32_t *supply, *demand;
  uint32_t *capacity; /* For each class: the number of children that the level above can still take. */
  struct by_assign_pair *pairs;
  uint32_t *flow;
  uint32_t n_pairs, allocated_pairs, allocated_flow;
  uint32_t left; /* The number of ranks that are not placed. */
  struct by_arena arena;
};

static double get_class_distance(const struct by_nearness *near, bool by_delay, uint32_t a, uint32_t b) {
  size_t cell = (size_t)a * near->n_classes + b;
  return by_delay ? (double)near->delay[cell] : near->hops[cell];
}

static double get_distance(const struct build *b, uint32_t x, uint32_t y) {
  return get_class_distance(b->near, b->limits->by_delay, x, y);
}

static uint32_t get_size(const struct build *b, uint32_t c) {
  return b->near->first[c + 1] - b->near->first[c];
}

static uint32_t get_member(const struct build *b, uint32_t c, uint32_t i) {
  return b->near->ranks[b->near->first[c] + i];
}

/* --- One assignment. --- */

static bool add_pair(struct build *b, uint32_t from, uint32_t to) {
  if (!BY_ARRAY_GROW(&b->pairs, &b->allocated_pairs, b->n_pairs + 1) ||
      !BY_ARRAY_GROW(&b->flow, &b->allocated_flow, b->n_pairs + 1))
    return false;
  double steps = b->limits->distance > 0 ? ceil(get_distance(b, from, to) / b->limits->distance * STEPS) : 0;
  b->pairs[b->n_pairs++] = (struct by_assign_pair){.from = from, .to = to, .cost = (uint32_t)steps};
  return true;
}

static bool list_pairs(struct build *b) {
  b->n_pairs = 0;
  for (uint32_t from = 0; from < b->near->n_classes; from++)
    for (uint32_t to = 0; to < b->near->n_classes && b->supply[from]; to++)
      if (b->demand[to] && get_distance(b, from, to) <= b->limits->distance && !add_pair(b, from, to)) return false;
  return true;
}

/* Makes `n` more ranks of one class children of those of another on the level above, in turn. */
static void attach_ranks(struct build *b, uint32_t from, uint32_t to, uint32_t n) {
  uint32_t parents = b->upto[from] - b->above[from];
  double distance = get_distance(b, from, to);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t parent = get_member(b, from, b->above[from] + b->turn[from]++ % parents);
    b->tree->parent[get_member(b, to, b->placed[to]++)] = parent;
  }
  b->capacity[from] -= n;
  b->left -= n;
  b->tree->sum += distance * n;
  if (n) b->tree->distance = fmax(b->tree->distance, distance);
}

/* Places as many ranks of `demand` as possible. */
static enum banyan_status place_ranks(struct build *b) {
  for (uint32_t c = 0; c < b->near->n_classes; c++) b->supply[c] = b->capacity[c];
  if (!list_pairs(b)) return by_plan_no_memory();
  struct by_assign assign = {.n_from = b->near->n_classes,
                             .n_to = b->near->n_classes,
                             .supply = b->supply,
                             .demand = b->demand,
                             .n_pairs = b->n_pairs,
                             .pairs = b->pairs};
  if (!b->n_pairs) return BANYAN_OK;
  BY_TRY(by_assign_solve(&assign, b->flow));
  for (uint32_t i = 0; i < b->n_pairs; i++) attach_ranks(b, b->pairs[i].from, b->pairs[i].to, b->flow[i]);
  return BANYAN_OK;
}

/* --- Levels. --- */

/* Demands of every class its part of the free capacity, so that the remaining ranks are near to some that are
 * placed. */
static void demand_parts(struct build *b, uint64_t free_children) {
  uint64_t before = 0, asked = 0;
  for (uint32_t c = 0; c < b->near->n_classes; c++) {
    before += get_size(b, c) - b->placed[c];
    uint64_t upto = (2 * before * free_children + b->left) / (2 * (uint64_t)b->left);
    b->demand[c] = (uint32_t)(upto - asked);
    asked = upto;
  }
}

static enum banyan_status place_level(struct build *b, bool in_parts) {
  uint64_t free_children = 0;
  for (uint32_t c = 0; c < b->near->n_classes; c++) {
    b->upto[c] = b->placed[c];
    b->turn[c] = 0;
    b->capacity[c] = (b->upto[c] - b->above[c]) * b->limits->fan_out;
    free_children += b->capacity[c];
  }
  if (in_parts && free_children < b->left) {
    demand_parts(b, free_children);
    BY_TRY(place_ranks(b));
  }
  for (uint32_t c = 0; c < b->near->n_classes; c++) b->demand[c] = get_size(b, c) - b->placed[c];
  BY_TRY(place_ranks(b));
  for (uint32_t c = 0; c < b->near->n_classes; c++) b->above[c] = b->upto[c];
  return BANYAN_OK;
}

static enum banyan_status place_all(struct build *b, uint32_t root_class, bool in_parts) {
  struct by_control_tree *tree = b->tree;
  for (uint32_t c = 0; c < b->near->n_classes; c++) b->above[c] = b->placed[c] = 0;
  b->placed[root_class] = 1;
  b->left = b->near->n_ranks - 1;
  tree->root = get_member(b, root_class, 0);
  tree->parent[tree->root] = tree->root;
  tree->height = 0;
  tree->sum = tree->distance = 0;
  for (uint32_t left = UINT32_MAX; b->left && b->left < left && tree->height < b->limits->height; tree->height++) {
    left = b->left;
    BY_TRY(place_level(b, in_parts));
  }
  return BANYAN_OK;
}

/* Makes the tree. A tree without all ranks is destroyed. */
static enum banyan_status make_tree(struct build *b, uint32_t root_class, bool in_parts, struct by_control_tree **out) {
  struct by_control_tree *tree = b->tree = calloc(1, sizeof *tree);
  if (!tree) return by_plan_no_memory();
  tree->n = b->near->n_ranks;
  tree->parent = BY_ARENA_ARRAY(&tree->arena, uint32_t, tree->n);
  enum banyan_status status = tree->parent ? place_all(b, root_class, in_parts) : by_plan_no_memory();
  bool whole = status == BANYAN_OK && !b->left;
  *out = whole ? b->tree : NULL;
  if (!whole) by_control_tree_destroy(b->tree);
  return status;
}

static enum banyan_status count_children(struct by_control_tree *tree) {
  uint32_t *children = calloc(tree->n, sizeof *children);
  if (!children) return by_plan_no_memory();
  for (uint32_t r = 0; r < tree->n; r++)
    if (r != tree->root && ++children[tree->parent[r]] > tree->fan_out) tree->fan_out++;
  free(children);
  return BANYAN_OK;
}

/* Returns the better of two trees, either of which may be NULL, and destroys the other. */
static struct by_control_tree *choose_better(struct by_control_tree *a, struct by_control_tree *b) {
  bool first = a && (!b || a->sum <= b->sum);
  by_control_tree_destroy(first ? b : a);
  return first ? a : b;
}

/* Makes a tree whose root is the first rank of a class, under these limits, which are all given. *out stays NULL if
 * none is found. */
static enum banyan_status make_tree_from(const struct by_nearness *near, const struct by_control_limits *limits,
                                         uint32_t root_class, struct by_control_tree **out) {
  struct build b = {.near = near, .limits = limits};
  struct by_control_tree *in_parts = NULL, *unrestricted = NULL;
  uint32_t **const arrays[] = {&b.above, &b.placed, &b.upto, &b.turn, &b.supply, &b.demand, &b.capacity};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    *arrays[i] = BY_ARENA_ARRAY(&b.arena, uint32_t, near->n_classes);
  enum banyan_status status = b.arena.failed ? by_plan_no_memory() : make_tree(&b, root_class, true, &in_parts);
  if (status == BANYAN_OK) status = make_tree(&b, root_class, false, &unrestricted);
  free(b.pairs);
  free(b.flow);
  by_arena_fini(&b.arena);
  struct by_control_tree *tree = choose_better(in_parts, unrestricted);
  if (status == BANYAN_OK && tree) status = count_children(tree);
  if (status != BANYAN_OK) {
    by_control_tree_destroy(tree);
    return status;
  }
  *out = tree;
  return BANYAN_OK;
}

void by_control_tree_destroy(struct by_control_tree *tree) {
  if (!tree) return;
  by_arena_fini(&tree->arena);
  free(tree);
}

/* If there are so many classes that it would be slow, fewer roots are tried. */
enum { MAX_TRIED_WORK = 8192 };

/* --- Default costs and limits. --- */

uint32_t by_control_height(uint32_t n, uint32_t fan_out) {
  uint64_t capacity = 1, level = 1;
  uint32_t height = 0;
  for (; capacity < n; capacity += level, height++) level *= fan_out;
  return height;
}

uint32_t by_control_fan_out(uint32_t n, const struct by_control_costs *costs) {
  uint32_t best = 2, min = 2;
  double wanted = (costs->delay + costs->wake) / costs->message;
  while (best < BY_NEARNESS_MAX && (best + 0.5) * (log(best + 0.5) - 1) < wanted) best++;
  while (by_control_height(n, min) > by_control_height(n, best)) min++;
  return min;
}

/* --- Distances. --- */

static double get_eccentricity(const struct by_nearness *near, bool by_delay, uint32_t c) {
  double max = 0;
  for (uint32_t other = 0; other < near->n_classes; other++)
    max = fmax(max, get_class_distance(near, by_delay, c, other));
  return max;
}

/* Computes the smallest distance that connects all ranks: the longest step of a minimum spanning tree of the classes
 * (Prim), or within a class. Cost: classes^2. */
static enum banyan_status find_joining_distance(const struct by_nearness *near, bool by_delay, double *out) {
  double max = 0, *to = calloc(near->n_classes, sizeof *to);
  if (!to) return by_plan_no_memory();
  for (uint32_t c = 0; c < near->n_classes; c++) {
    to[c] = c ? get_class_distance(near, by_delay, 0, c) : -1;
    if (near->first[c + 1] - near->first[c] > 1) max = fmax(max, get_class_distance(near, by_delay, c, c));
  }
  for (uint32_t i = 1; i < near->n_classes; i++) {
    uint32_t nearest = 0;
    for (uint32_t c = 1; c < near->n_classes; c++)
      if (to[c] >= 0 && (!nearest || to[c] < to[nearest])) nearest = c;
    max = fmax(max, to[nearest]);
    to[nearest] = -1;
    for (uint32_t c = 1; c < near->n_classes; c++) to[c] = fmin(to[c], get_class_distance(near, by_delay, nearest, c));
  }
  free(to);
  *out = max;
  return BANYAN_OK;
}

/* Returns the smallest distance between two ranks that is not 0. Returns INFINITY if there is none. */
static double find_min_distance(const struct by_nearness *near, bool by_delay) {
  double min = INFINITY;
  for (uint32_t a = 0; a < near->n_classes; a++)
    for (uint32_t b = 0; b < near->n_classes; b++)
      if (get_class_distance(near, by_delay, a, b) > 0) min = fmin(min, get_class_distance(near, by_delay, a, b));
  return min;
}

/* --- Roots. --- */

/* Returns the class in the middle: that from which the farthest one is nearest. */
static uint32_t find_middle(const struct by_nearness *near, bool by_delay) {
  uint32_t middle = 0;
  double min = INFINITY;
  for (uint32_t c = 0; c < near->n_classes; c++) {
    double reach = get_eccentricity(near, by_delay, c);
    if (reach >= min) continue;
    min = reach;
    middle = c;
  }
  return middle;
}

struct by_control_costs by_control_costs_of(const struct by_nearness *near) {
  struct by_control_costs costs = by_control_costs_usual();
  uint32_t middle = near->ranks[near->first[find_middle(near, true)]];
  double sum = 0;
  for (uint32_t r = 0; r < near->n_ranks; r++) sum += by_delay_between(near, middle, r);
  if (near->n_ranks > 1 && sum > 0) costs.delay = sum / (near->n_ranks - 1);
  return costs;
}

/* --- The search. --- */

/* Tries all roots, the middle and its nearest first. *out stays NULL if none has a tree. A root is left out at once if
 * as many steps as the height, over as many links as the distance, do not reach all. */
static enum banyan_status try_roots(const struct by_nearness *near, const struct by_control_limits *limits,
                                    const struct by_heap_item *roots, struct by_control_tree **out) {
  uint32_t max = 1 + (uint32_t)ceil(sqrt(near->n_ranks)), quick = 1 + MAX_TRIED_WORK / near->n_classes;
  if (max > quick) max = quick;
  for (uint32_t i = 0; i < near->n_classes && i < max && !*out; i++)
    if (limits->by_delay || get_eccentricity(near, false, roots[i].number) <= limits->height * limits->distance)
      BY_TRY(make_tree_from(near, limits, roots[i].number, out));
  return BANYAN_OK;
}

static enum banyan_status search_limits(const struct by_nearness *near, struct by_control_limits *limits,
                                        struct by_control_tree **out) {
  /* The classes, sorted by their distance from the middle. */
  struct by_heap_item *roots = calloc(near->n_classes, sizeof *roots);
  uint32_t middle = find_middle(near, limits->by_delay);
  if (!roots) return by_plan_no_memory();
  for (uint32_t c = 0; c < near->n_classes; c++)
    roots[c] = (struct by_heap_item){c == middle ? -1 : get_class_distance(near, limits->by_delay, middle, c), c};
  qsort(roots, near->n_classes, sizeof *roots, by_heap_compare);
  enum banyan_status status = try_roots(near, limits, roots, out);
  while (status == BANYAN_OK && !*out) {
    limits->distance = limits->distance > 0 ? 2 * limits->distance : find_min_distance(near, limits->by_delay);
    status = try_roots(near, limits, roots, out);
  }
  free(roots);
  return status;
}

enum banyan_status by_control_tree_make(const struct by_nearness *near, const struct by_control_limits *limits,
                                        const struct by_control_costs *costs, struct by_control_tree **out) {
  struct by_control_limits kept = *limits;
  *out = NULL;
  if (!near->n_ranks) return by_fail(BANYAN_ERR_ARGUMENT, "there are no ranks for a control tree");
  if (!kept.fan_out) kept.fan_out = by_control_fan_out(near->n_ranks, costs);
  uint32_t min = by_control_height(near->n_ranks, kept.fan_out);
  if (kept.height < min) kept.height = min;
  if (!(kept.distance > 0)) BY_TRY(find_joining_distance(near, kept.by_delay, &kept.distance));
  BY_TRY(search_limits(near, &kept, out));
  (*out)->kept = kept;
  (*out)->farther = limits->distance > 0 && kept.distance > limits->distance;
  (*out)->higher = limits->height && kept.height > limits->height;
  return BANYAN_OK;
}

/* --- The time in which all ranks receive from each other. --- */

static double get_hop_time(const struct by_nearness *near, const struct by_control_costs *costs, uint32_t a,
                           uint32_t b) {
  double delay = near ? by_delay_between(near, a, b) : 0;
  return (delay > 0 ? delay : costs->delay) + costs->wake;
}

struct timing {
  const struct by_control_tree *tree;
  const struct by_nearness *near;
  const struct by_control_costs *costs;
  uint32_t *first, *children; /* The children of each rank, and where they begin. */
  uint32_t *order;            /* All ranks, each after its parent. */
  /* The seconds until each rank has received from all below, and later until it has the result. */
  double *ready;
  double *received; /* The seconds until one rank has received from each of its children. */
};

static void list_children(struct timing *w) {
  const struct by_control_tree *tree = w->tree;
  uint32_t n = 0;
  for (uint32_t r = 0; r < tree->n; r++)
    if (r != tree->root) w->first[tree->parent[r] + 2]++;
  for (uint32_t r = 2; r <= tree->n; r++) w->first[r] += w->first[r - 1];
  for (uint32_t r = 0; r < tree->n; r++)
    if (r != tree->root) w->children[w->first[tree->parent[r] + 1]++] = r;
  w->order[n++] = tree->root;
  for (uint32_t done = 0; done < n; done++)
    for (uint32_t i = w->first[w->order[done]]; i < w->first[w->order[done] + 1]; i++) w->order[n++] = w->children[i];
}

static int compare_times(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Computes when a rank has received from its children, whose messages are handled one after the other. */
static void compute_received(struct timing *w, uint32_t r) {
  uint32_t n = w->first[r + 1] - w->first[r];
  for (uint32_t i = 0; i < n; i++) {
    uint32_t child = w->children[w->first[r] + i];
    w->received[i] = w->ready[child] + w->costs->message + get_hop_time(w->near, w->costs, child, r);
  }
  if (n) qsort(w->received, n, sizeof *w->received, compare_times);
  w->ready[r] = 0;
  for (uint32_t i = 0; i < n; i++) w->ready[r] = fmax(w->ready[r], w->received[i]) + w->costs->message;
}

static double compute_notified(struct timing *w, uint32_t r) {
  double at = w->ready[r];
  for (uint32_t i = w->first[r]; i < w->first[r + 1]; i++) {
    at += w->costs->message;
    w->ready[w->children[i]] = at + get_hop_time(w->near, w->costs, r, w->children[i]) + w->costs->message;
  }
  return w->ready[r];
}

enum banyan_status by_control_tree_time(const struct by_control_tree *tree, const struct by_nearness *near,
                                        const struct by_control_costs *costs, double *out) {
  size_t n = tree->n;
  struct by_arena scratch = {0};
  struct timing w = {.tree = tree,
                     .near = near,
                     .costs = costs,
                     .first = BY_ARENA_ARRAY(&scratch, uint32_t, n + 2),
                     .children = BY_ARENA_ARRAY(&scratch, uint32_t, n),
                     .order = BY_ARENA_ARRAY(&scratch, uint32_t, n),
                     .ready = BY_ARENA_ARRAY(&scratch, double, n),
                     .received = BY_ARENA_ARRAY(&scratch, double, n)};
  bool all = !scratch.failed;
  *out = 0;
  if (all) {
    list_children(&w);
    for (uint32_t i = tree->n; i-- > 0;) compute_received(&w, w.order[i]);
    for (uint32_t i = 0; i < tree->n; i++) *out = fmax(*out, compute_notified(&w, w.order[i]));
  }
  by_arena_fini(&scratch);
  return all ? BANYAN_OK : by_plan_no_memory();
}

double by_control_ring_time(const uint32_t *order, uint32_t n, const struct by_nearness *near,
                            const struct by_control_costs *costs) {
  double round = 0, spared = 0;
  if (n < 2) return 0;
  for (uint32_t i = 0; i < n; i++) {
    double here = get_hop_time(near, costs, order[i], order[(i + 1) % n]);
    double next = get_hop_time(near, costs, order[(i + 1) % n], order[(i + 2) % n]);
    round += here;
    spared = fmax(spared, here + next);
  }
  return 2 * round - spared + 4 * (n - 1) * costs->message;
}

/* Returns the index, in the ring cut before `first`, of the rank from which the farthest end is nearest. */
static uint32_t find_middle_of_cut(const uint32_t *order, uint32_t first, const struct by_nearness *near,
                                   const struct by_control_costs *costs) {
  uint32_t n = near->n_ranks, middle = 0;
  double behind = 0, before = 0;
  for (uint32_t i = 0; i + 1 < n; i++)
    behind += get_hop_time(near, costs, order[(first + i) % n], order[(first + i + 1) % n]);
  while (middle + 1 < n) {
    double next = get_hop_time(near, costs, order[(first + middle) % n], order[(first + middle + 1) % n]);
    if (fmax(before + next, behind - next) >= fmax(before, behind)) break;
    before += next;
    behind -= next;
    middle++;
  }
  return middle;
}

static void fill_cut_tree(const uint32_t *order, uint32_t first, uint32_t middle, const struct by_nearness *near,
                          struct by_control_tree *tree) {
  uint32_t n = tree->n;
  tree->root = order[(first + middle) % n];
  for (uint32_t i = 0; i < n; i++) {
    uint32_t rank = order[(first + i) % n], above = i < middle ? i + 1 : i > middle ? i - 1 : i;
    uint32_t parent = tree->parent[rank] = order[(first + above) % n];
    double distance = tree->kept.by_delay ? by_delay_between(near, rank, parent) : by_hops_between(near, rank, parent);
    tree->distance = fmax(tree->distance, distance);
    tree->sum += distance;
  }
}

enum banyan_status by_control_tree_cut(const uint32_t *order, const struct by_nearness *near,
                                       const struct by_control_costs *costs, const struct by_control_limits *kept,
                                       struct by_control_tree **out) {
  uint32_t n = near->n_ranks, first = 0;
  double longest = -1;
  *out = NULL;
  if (!n) return by_fail(BANYAN_ERR_ARGUMENT, "there are no ranks for a control tree");
  struct by_control_tree *tree = *out = calloc(1, sizeof *tree);
  if (tree) tree->parent = BY_ARENA_ARRAY(&tree->arena, uint32_t, n);
  if (!tree || !tree->parent) {
    by_control_tree_destroy(tree);
    *out = NULL;
    return by_plan_no_memory();
  }
  for (uint32_t i = 0; i < n; i++) {
    double here = get_hop_time(near, costs, order[i], order[(i + 1) % n]);
    if (here > longest) first = (i + 1) % n;
    longest = fmax(longest, here);
  }
  uint32_t middle = find_middle_of_cut(order, first, near, costs);
  tree->n = n;
  tree->kept = *kept;
  fill_cut_tree(order, first, middle, near, tree);
  tree->height = middle > n - 1 - middle ? middle : n - 1 - middle;
  tree->fan_out = n == 1 ? 0 : middle > 0 && middle < n - 1 ? 2 : 1;
  tree->kept.height = tree->height;
  tree->kept.distance = tree->distance;
  return BANYAN_OK;
}

/* --- A tree of numbered ranks. --- */

static enum banyan_status compute_time(const struct by_control_numbered *shape, struct by_control_tree *tree,
                                       const struct by_control_costs *costs, double *out) {
  for (uint32_t i = 0; i < tree->n; i++) tree->parent[i] = by_control_parent(shape, i);
  return by_control_tree_time(tree, NULL, costs, out);
}

/* Reduces the number of children of the root, which is `fan_out` at first: sets the smallest number that keeps the
 * height and does not make the tree slower. */
static enum banyan_status reduce_root(struct by_control_numbered *shape, struct by_control_tree *tree,
                                      const struct by_control_costs *costs) {
  uint64_t below = 1, level = 1; /* The number of ranks of a full tree that is lower by one level. */
  double max, seconds;
  for (; 1 + shape->fan_out * below < tree->n; below += level) level *= shape->fan_out;
  BY_TRY(compute_time(shape, tree, costs, &max));
  struct by_control_numbered other = *shape;
  for (other.at_root = (uint32_t)((tree->n - 2) / below + 1); other.at_root < shape->at_root; other.at_root++) {
    BY_TRY(compute_time(&other, tree, costs, &seconds));
    if (seconds > max * (1 + 1e-9)) continue;
    *shape = other;
    break;
  }
  return BANYAN_OK;
}

enum banyan_status by_control_numbered_make(uint32_t n, uint32_t fan_out, const struct by_control_costs *costs,
                                            struct by_control_numbered *out) {
  *out = (struct by_control_numbered){.at_root = fan_out, .fan_out = fan_out};
  if (n < 2) return BANYAN_OK;
  struct by_control_tree tree = {.n = n, .parent = calloc(n, sizeof *tree.parent)};
  enum banyan_status status = tree.parent ? reduce_root(out, &tree, costs) : by_plan_no_memory();
  free(tree.parent);
  return status;
}
