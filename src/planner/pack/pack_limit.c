/* Computes limits of a given number of trees.
 *
 * A partition of the vertices into p parts is crossed by every spanning tree p - 1 times at least. Looked at are the
 * two kinds that are quick to count: every vertex for itself, and one vertex against all others.
 *
 * n trees of rate x each: an edge of capacity c is in floor(c / x) of them at most, and all edges that cross must be in
 * n * (p - 1) together. That gives the greatest x, e(n).
 *
 * n trees of rates x_1 >= x_2 >= ...: the first k of them still fit when all are lowered to x_k, so x_k <= e(k), and
 * together they carry at most e(1) + ... + e(n). And they cross n * (p - 1) times where it matters: together they carry
 * at most what the widest n * (p - 1) of the crossing edges do, over p - 1.
 *
 * A tree leaves out as many edges as there are beyond those of a tree. What n trees cannot all leave out is in every
 * one of them: then they carry no more than its edge does. On a ring fewer trees than vertices carry no more than one.
 */
#include <math.h>
#include <stdlib.h>

#include "packing.h"
#include "plan_make.h"

static const double rounding = 1 + 1e-9;
enum { HALVINGS = 30, MAX_WORK = 1 << 18 };

static double get_capacity(const struct by_graph *graph, uint32_t edge) {
  return graph->capacity[graph->uses[graph->edges[edge].first]];
}

/* Returns whether the limit can be counted quickly: every edge has one resource of its own. */
static bool can_count(const struct by_graph *graph, uint32_t n) {
  if (n > BY_LIMIT_MAX_TREES || (uint64_t)n * graph->n_edges > MAX_WORK) return false;
  return graph->n_terminals == graph->n_vertices && graph->n_uses == graph->n_edges &&
         graph->n_resources == graph->n_edges;
}

static double count_uses(const struct by_graph *graph, uint32_t edge, uint32_t n, double rate) {
  return fmin(n, floor(get_capacity(graph, edge) / rate * rounding));
}

/* Returns whether counting permits n trees of this rate. */
static bool may_fit(const struct by_graph *graph, uint32_t n, double rate) {
  double uses = 0;
  for (uint32_t e = 0; e < graph->n_edges; e++) uses += count_uses(graph, e, n, rate);
  bool fits = uses >= (double)n * (graph->n_vertices - 1);
  for (uint32_t v = 0; v < graph->n_vertices && fits; v++) {
    uses = 0;
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1] && uses < n; i++)
      uses += count_uses(graph, graph->incident[i], n, rate);
    fits = uses >= n;
  }
  return fits;
}

static double find_equal_rate(const struct by_graph *graph, uint32_t n) {
  double low = 0, high = 0;
  for (uint32_t e = 0; e < graph->n_edges; e++) high = fmax(high, get_capacity(graph, e));
  if (may_fit(graph, n, high)) return high;
  for (int i = 0; i < HALVINGS; i++) {
    double middle = (low + high) / 2;
    *(may_fit(graph, n, middle) ? &low : &high) = middle;
  }
  return high;
}

double by_limit_of_equal_trees(const struct by_graph *graph, uint32_t n) {
  return can_count(graph, n) ? n * find_equal_rate(graph, n) : INFINITY;
}

static int compare_widest(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

/* Returns the sum of the capacities of the widest of these edges, and sorts them. */
static double sum_widest(double *capacity, uint32_t n, uint64_t max) {
  double sum = 0;
  qsort(capacity, n, sizeof *capacity, compare_widest);
  for (uint32_t i = 0; i < n && i < max; i++) sum += capacity[i];
  return sum;
}

static double get_limit_by_widest(const struct by_graph *graph, uint32_t n, double *capacity) {
  uint32_t apart = graph->n_vertices - 1;
  for (uint32_t e = 0; e < graph->n_edges; e++) capacity[e] = get_capacity(graph, e);
  double min = sum_widest(capacity, graph->n_edges, (uint64_t)n * apart) / apart;
  /* At best these are the widest edges, which all trees have; they are first now. */
  uint64_t left_out = (uint64_t)n * (graph->n_edges - apart);
  if (left_out < graph->n_edges) min = fmin(min, capacity[graph->n_edges - left_out - 1]);
  for (uint32_t v = 0; v < graph->n_vertices; v++) {
    uint32_t first = graph->edge_at[v], degree = graph->edge_at[v + 1] - first;
    for (uint32_t i = 0; i < degree; i++) capacity[i] = get_capacity(graph, graph->incident[first + i]);
    min = fmin(min, sum_widest(capacity, degree, n));
  }
  return min;
}

enum banyan_status by_limit_of_trees(const struct by_graph *graph, uint32_t n, double *out) {
  double sum = 0;
  *out = INFINITY;
  if (!can_count(graph, n)) return BANYAN_OK;
  double *capacity = calloc(graph->n_edges, sizeof *capacity);
  if (!capacity) return by_plan_no_memory();
  for (uint32_t k = 1; k <= n; k++) sum += find_equal_rate(graph, k);
  *out = fmin(sum, get_limit_by_widest(graph, n, capacity)) * rounding;
  free(capacity);
  return BANYAN_OK;
}
