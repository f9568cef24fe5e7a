/* Small random graphs for the tests of packing, and what brute force finds for them. Each program includes this header
 * once. */
#ifndef BY_TESTS_RANDOM_GRAPH_H
#define BY_TESTS_RANDOM_GRAPH_H

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "graph.h"
#include "graph_limits.h"
#include "rng.h"

static inline uint32_t below(struct by_rng *rng, uint32_t n) {
  return (uint32_t)by_rng_below(rng, n);
}

struct random_shape {
  uint32_t n_terminals, n_optional;
  uint32_t n_more; /* The number of edges beyond those of a tree; parallel edges occur. */
  bool limits;     /* Some vertices have limits. */
  bool shared;     /* Some edges load resources of other edges too. */
};

static inline double random_capacity(struct by_rng *rng) {
  static const double usual[] = {1, 2.5, 10, 40, 100};
  return below(rng, 2) ? 1 + below(rng, 9) : usual[below(rng, 5)];
}

/* Makes a random tree over all vertices, and more edges. */
static inline struct by_graph *random_graph(struct by_rng *rng, const struct random_shape *shape) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  uint32_t n = shape->n_terminals + shape->n_optional;
  by_graph_builder_init(&builder, shape->n_terminals, n);
  uint32_t common = by_graph_add_resource(&builder, 1 + below(rng, 20));
  for (uint32_t i = 1; i < n + shape->n_more; i++) {
    uint32_t b = i < n ? i : below(rng, n), a = i < n ? below(rng, i) : (b + 1 + below(rng, n - 1)) % n;
    uint32_t uses[] = {by_graph_add_resource(&builder, random_capacity(rng)), common, common};
    by_graph_add_edge(&builder, a, b, 0, uses, shape->shared && below(rng, 3) == 0 ? 2 + below(rng, 2) : 1);
  }
  for (uint32_t v = 0; v < n; v++)
    if (shape->limits && below(rng, 2)) add_limit(&builder, v, 1 + below(rng, 20));
  assert_ok(finish_limited(&builder, &graph));
  return graph;
}

/* Returns whether the set of edges is a tree that spans the terminals and has no leaf that could be left out. */
static inline bool is_tree(const struct by_graph *graph, uint64_t edges) {
  uint32_t above[32], degree[32] = {0};
  for (uint32_t v = 0; v < graph->n_vertices; v++) above[v] = v;
  for (uint32_t e = 0; e < graph->n_edges; e++) {
    uint32_t a = graph->edges[e].a, b = graph->edges[e].b;
    if (!(edges >> e & 1)) continue;
    degree[a]++;
    degree[b]++;
    while (above[a] != a) a = above[a];
    while (above[b] != b) b = above[b];
    if (a == b) return false;
    above[a] = b;
  }
  uint32_t root = 0;
  while (above[root] != root) root = above[root];
  for (uint32_t v = 0; v < graph->n_vertices; v++) {
    uint32_t top = v;
    while (above[top] != top) top = above[top];
    if (v < graph->n_terminals ? top != root : degree[v] == 1 || (degree[v] && top != root)) return false;
  }
  return true;
}

static inline double weigh_edges(const struct by_graph *graph, uint64_t edges, const double *price) {
  double sum = 0;
  for (uint32_t e = 0; e < graph->n_edges; e++)
    for (uint32_t i = 0; i < graph->edges[e].n && edges >> e & 1; i++)
      sum += price[graph->uses[graph->edges[e].first + i]];
  return sum;
}

/* Returns the weight of the lightest tree, from all sets of edges. This works for at most about 14 edges. */
static inline double brute_lightest(const struct by_graph *graph, const double *price) {
  double least = INFINITY;
  for (uint64_t edges = 1; edges < 1ull << graph->n_edges; edges++)
    if (is_tree(graph, edges)) least = fmin(least, weigh_edges(graph, edges, price));
  return least;
}

/* --- the exact optimum --- */

/* A tableau of max sum(x), A x <= capacity, x >= 0. It has a row for each resource and one of reduced costs below; the
 * last column is the right side. The columns of the trees are followed by those of the slacks. */
struct tableau {
  uint32_t rows, columns; /* The last row and the last column are not counted. */
  double *cell;           /* This has (rows + 1) x (columns + 1) cells. */
};

static inline double *at(const struct tableau *t, uint32_t row, uint32_t column) {
  return &t->cell[(size_t)row * (t->columns + 1) + column];
}

static inline void pivot(struct tableau *t, uint32_t row, uint32_t column) {
  double by = *at(t, row, column);
  for (uint32_t j = 0; j <= t->columns; j++) *at(t, row, j) /= by;
  for (uint32_t i = 0; i <= t->rows; i++) {
    double times = *at(t, i, column);
    for (uint32_t j = 0; j <= t->columns && i != row; j++) *at(t, i, j) -= times * *at(t, row, j);
  }
}

/* Returns the row that limits the column. Ties go to the first row, which does not cycle here when the first column
 * that gains is chosen. */
static inline uint32_t leaving_row(const struct tableau *t, uint32_t column) {
  uint32_t best = t->rows;
  double least = INFINITY;
  for (uint32_t i = 0; i < t->rows; i++) {
    double ratio = *at(t, i, t->columns) / *at(t, i, column);
    if (*at(t, i, column) > 1e-9 && ratio < least - 1e-12) least = ratio, best = i;
  }
  return best;
}

/* Runs the simplex method and returns the optimum. */
static inline double solve(struct tableau *t) {
  for (uint32_t column = 0; column < t->columns; column++) {
    if (*at(t, t->rows, column) > -1e-9) continue;
    uint32_t row = leaving_row(t, column);
    assert_true(row < t->rows);
    pivot(t, row, column);
    column = UINT32_MAX; /* The search starts again from the first column. */
  }
  return *at(t, t->rows, t->columns);
}

static inline void fill_column(struct tableau *t, const struct by_graph *graph, uint64_t edges, uint32_t column) {
  *at(t, graph->n_resources, column) = -1;
  for (uint32_t e = 0; e < graph->n_edges; e++)
    for (uint32_t i = 0; i < graph->edges[e].n && edges >> e & 1; i++)
      *at(t, graph->uses[graph->edges[e].first + i], column) += 1;
}

/* Returns T*, by an exact linear program over all trees. This works for graphs of at most about 14 edges. */
static inline double brute_optimum(const struct by_graph *graph) {
  uint32_t n = 0, rows = graph->n_resources;
  for (uint64_t edges = 1; edges < 1ull << graph->n_edges; edges++) n += is_tree(graph, edges);
  struct tableau t = {.rows = rows, .columns = n + rows};
  t.cell = calloc((size_t)(rows + 1) * (t.columns + 1), sizeof *t.cell);
  assert_non_null(t.cell);
  n = 0;
  for (uint64_t edges = 1; edges < 1ull << graph->n_edges; edges++)
    if (is_tree(graph, edges)) fill_column(&t, graph, edges, n++);
  for (uint32_t r = 0; r < rows; r++) {
    *at(&t, r, n + r) = 1;
    *at(&t, r, t.columns) = graph->capacity[r];
  }
  double optimum = solve(&t);
  free(t.cell);
  return optimum;
}

/* Returns the least of capacity between parts / (parts - 1) over all partitions of the vertices (Tutte, Nash-Williams
 * 1961). This is T* where all vertices are terminals and every edge has one resource of its own. part[] is a
 * restricted growth string. */
static inline double partition_optimum(const struct by_graph *graph, uint32_t v, uint32_t n_parts, uint32_t *part) {
  double least = INFINITY, between = 0;
  if (v == graph->n_vertices) {
    for (uint32_t e = 0; e < graph->n_edges; e++)
      if (part[graph->edges[e].a] != part[graph->edges[e].b])
        between += graph->capacity[graph->uses[graph->edges[e].first]];
    return n_parts > 1 ? between / (n_parts - 1) : INFINITY;
  }
  for (part[v] = 0; part[v] <= n_parts; part[v]++) {
    uint32_t kept = part[v];
    least = fmin(least, partition_optimum(graph, v + 1, kept == n_parts ? n_parts + 1 : n_parts, part));
    part[v] = kept;
  }
  return least;
}

#endif
