/* How long the ranks need to hear of each other. */
#include <math.h>
#include <stdlib.h>

#include "control_tree.h"

static double hop(const struct by_nearness *near, const struct by_control_costs *costs, uint32_t a, uint32_t b) {
  double delay = near ? by_delay_between(near, a, b) : 0;
  return (delay > 0 ? delay : costs->delay) + costs->wake;
}

/* --- the tree --- */

struct walk {
  const struct by_control_tree *tree;
  const struct by_nearness *near;
  const struct by_control_costs *costs;
  uint32_t *first, *children; /* of each rank */
  uint32_t *order;            /* every rank behind its parent */
  double *ready;              /* of each rank: when it has heard of all below; then when it knows */
  double *heard;              /* of one rank's children */
};

static void list_children(struct walk *w) {
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

/* Its children's messages wait for each other. */
static void collect(struct walk *w, uint32_t r) {
  uint32_t n = w->first[r + 1] - w->first[r];
  for (uint32_t i = 0; i < n; i++) {
    uint32_t child = w->children[w->first[r] + i];
    w->heard[i] = w->ready[child] + w->costs->message + hop(w->near, w->costs, child, r);
  }
  if (n) qsort(w->heard, n, sizeof *w->heard, compare_times);
  w->ready[r] = 0;
  for (uint32_t i = 0; i < n; i++) w->ready[r] = fmax(w->ready[r], w->heard[i]) + w->costs->message;
}

static double tell(struct walk *w, uint32_t r) {
  double at = w->ready[r];
  for (uint32_t i = w->first[r]; i < w->first[r + 1]; i++) {
    at += w->costs->message;
    w->ready[w->children[i]] = at + hop(w->near, w->costs, r, w->children[i]) + w->costs->message;
  }
  return w->ready[r];
}

enum banyan_status by_control_tree_time(const struct by_control_tree *tree, const struct by_nearness *near,
                                        const struct by_control_costs *costs, double *out) {
  size_t n = tree->n;
  struct walk w = {.tree = tree, .near = near, .costs = costs};
  struct by_arena scratch;
  by_arena_init(&scratch);
  w.first = BY_ARENA_ARRAY(&scratch, uint32_t, n + 2);
  w.children = BY_ARENA_ARRAY(&scratch, uint32_t, n);
  w.order = BY_ARENA_ARRAY(&scratch, uint32_t, n);
  w.ready = BY_ARENA_ARRAY(&scratch, double, n);
  w.heard = BY_ARENA_ARRAY(&scratch, double, n);
  bool all = w.first && w.children && w.order && w.ready && w.heard;
  *out = 0;
  if (all) {
    list_children(&w);
    for (uint32_t i = tree->n; i-- > 0;) collect(&w, w.order[i]);
    for (uint32_t i = 0; i < tree->n; i++) *out = fmax(*out, tell(&w, w.order[i]));
  }
  by_arena_fini(&scratch);
  return all ? BANYAN_OK : by_control_no_memory();
}

/* --- the ring --- */

double by_control_ring_time(const uint32_t *order, uint32_t n, const struct by_nearness *near,
                            const struct by_control_costs *costs) {
  double round = 0, spared = 0;
  if (n < 2) return 0;
  for (uint32_t i = 0; i < n; i++) {
    double here = hop(near, costs, order[i], order[(i + 1) % n]);
    double next = hop(near, costs, order[(i + 1) % n], order[(i + 2) % n]);
    round += here;
    spared = fmax(spared, here + next);
  }
  return 2 * round - spared + 4 * (n - 1) * costs->message;
}
