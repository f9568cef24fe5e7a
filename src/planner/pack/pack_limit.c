/* A partition of the vertices into p parts is crossed by every spanning tree p - 1 times at least. Looked at are the
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
enum { HALVINGS = 30, MOST_WORK = 1 << 18 };

static double capacity_of(const struct by_graph *graph, uint32_t edge) {
  return graph->capacity[graph->uses[graph->edges[edge].first]];
}

/* Whether it can be counted, and soon: every edge has one resource, which no other has. */
static bool can_count(const struct by_graph *graph, uint32_t n) {
  if (n > BY_LIMIT_MOST_TREES || (uint64_t)n * graph->n_edges > MOST_WORK) return false;
  return graph->n_terminals == graph->n_vertices && graph->n_uses == graph->n_edges &&
         graph->n_resources == graph->n_edges;
}

static double uses_of(const struct by_graph *graph, uint32_t edge, uint32_t n, double rate) {
  return fmin(n, floor(capacity_of(graph, edge) / rate * rounding));
}

/* Whether counting does not forbid n trees of this rate. */
static bool may_fit(const struct by_graph *graph, uint32_t n, double rate) {
  double uses = 0;
  for (uint32_t e = 0; e < graph->n_edges; e++) uses += uses_of(graph, e, n, rate);
  bool fits = uses >= (double)n * (graph->n_vertices - 1);
  for (uint32_t v = 0; v < graph->n_vertices && fits; v++) {
    uses = 0;
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1] && uses < n; i++)
      uses += uses_of(graph, graph->incident[i], n, rate);
    fits = uses >= n;
  }
  return fits;
}

static double equal_rate(const struct by_graph *graph, uint32_t n) {
  double low = 0, high = 0;
  for (uint32_t e = 0; e < graph->n_edges; e++) high = fmax(high, capacity_of(graph, e));
  if (may_fit(graph, n, high)) return high;
  for (int i = 0; i < HALVINGS; i++) {
    double middle = (low + high) / 2;
    *(may_fit(graph, n, middle) ? &low : &high) = middle;
  }
  return high;
}

double by_limit_of_equal_trees(const struct by_graph *graph, uint32_t n) {
  return can_count(graph, n) ? n * equal_rate(graph, n) : INFINITY;
}

static int compare_widest(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

/* What the widest of these edges carry together. Sorts them. */
static double widest(double *capacity, uint32_t n, uint64_t most) {
  double sum = 0;
  qsort(capacity, n, sizeof *capacity, compare_widest);
  for (uint32_t i = 0; i < n && i < most; i++) sum += capacity[i];
  return sum;
}

static double limit_by_widest(const struct by_graph *graph, uint32_t n, double *capacity) {
  uint32_t apart = graph->n_vertices - 1;
  for (uint32_t e = 0; e < graph->n_edges; e++) capacity[e] = capacity_of(graph, e);
  double least = widest(capacity, graph->n_edges, (uint64_t)n * apart) / apart;
  /* At best it is the widest edges that every tree has; they stand first now. */
  uint64_t left_out = (uint64_t)n * (graph->n_edges - apart);
  if (left_out < graph->n_edges) least = fmin(least, capacity[graph->n_edges - left_out - 1]);
  for (uint32_t v = 0; v < graph->n_vertices; v++) {
    uint32_t first = graph->edge_at[v], degree = graph->edge_at[v + 1] - first;
    for (uint32_t i = 0; i < degree; i++) capacity[i] = capacity_of(graph, graph->incident[first + i]);
    least = fmin(least, widest(capacity, degree, n));
  }
  return least;
}

enum banyan_status by_limit_of_trees(const struct by_graph *graph, uint32_t n, double *out) {
  double sum = 0;
  *out = INFINITY;
  if (!can_count(graph, n)) return BANYAN_OK;
  double *capacity = calloc(graph->n_edges, sizeof *capacity);
  if (!capacity) return by_plan_no_memory();
  for (uint32_t k = 1; k <= n; k++) sum += equal_rate(graph, k);
  *out = fmin(sum, limit_by_widest(graph, n, capacity)) * rounding;
  free(capacity);
  return BANYAN_OK;
}
