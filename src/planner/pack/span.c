#include "span.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "leader.h"
#include "steiner.h"

enum { DIGIT = 11, DIGITS = 6, BUCKETS = 1 << DIGIT, WORD = 64 };

static enum banyan_status no_memory(struct by_span *span) {
  by_span_fini(span);
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory to look for trees");
  return BANYAN_ERR_NO_MEMORY;
}

/* Prim's algorithm looks at all waiting vertices in each step, Kruskal's sorts and joins: about 16 times the work of
 * such a look for an edge. */
static bool is_dense(const struct by_graph *graph) {
  return (uint64_t)graph->n_vertices * graph->n_vertices < 8 * (uint64_t)graph->n_edges;
}

enum banyan_status by_span_init(struct by_span *span, const struct by_graph *graph) {
  size_t n = graph->n_vertices, m = graph->n_edges;
  *span = (struct by_span){.graph = graph, .dense = is_dense(graph)};
  span->weight = calloc(m, sizeof *span->weight);
  span->tree = calloc(n, sizeof *span->tree);
  span->chosen = calloc(m / WORD + 1, sizeof *span->chosen);
  span->ends = calloc(2 * m, sizeof *span->ends);
  if (!span->weight || !span->tree || !span->chosen || !span->ends) return no_memory(span);
  for (uint32_t v = 0; v < n; v++)
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++)
      span->ends[i] = by_graph_other_end(graph, graph->incident[i], v);
  if (span->dense) {
    span->via = calloc(n, sizeof *span->via);
    span->near = calloc(n, sizeof *span->near);
    span->waiting = calloc(n, sizeof *span->waiting);
    if (!span->via || !span->near || !span->waiting) return no_memory(span);
  } else {
    span->keys = calloc(2 * m, sizeof *span->keys);
    span->above = calloc(n, sizeof *span->above);
    if (!span->keys || !span->above) return no_memory(span);
  }
  if (graph->n_vertices == graph->n_terminals) return BANYAN_OK;
  span->steiner = by_steiner_create(graph);
  return span->steiner ? BANYAN_OK : no_memory(span);
}

void by_span_fini(struct by_span *span) {
  free(span->weight);
  free(span->tree);
  free(span->keys);
  free(span->ends);
  free(span->above);
  free(span->via);
  free(span->near);
  free(span->waiting);
  free(span->chosen);
  by_steiner_destroy(span->steiner);
  *span = (struct by_span){0};
}

void by_span_set_prices(struct by_span *span, const double *price) {
  const struct by_graph *graph = span->graph;
  for (uint32_t e = 0; e < graph->n_edges; e++) {
    const struct by_graph_edge *edge = &graph->edges[e];
    const uint32_t *uses = graph->uses + edge->first;
    double sum = price[uses[0]];
    for (uint32_t i = 1; i < edge->n; i++) sum += price[uses[i]];
    span->weight[e] = sum;
  }
  span->sorted = false;
}

/* --- Kruskal --- */

/* One digit's place in the order; false: all keys have the same one. */
static bool sort_digit(const struct by_span_key *from, struct by_span_key *to, uint32_t n, uint32_t *count, int shift) {
  uint32_t at = 0;
  if (count[from[0].weight >> shift & (BUCKETS - 1)] == n) return false;
  for (uint32_t i = 0; i < BUCKETS; i++) {
    uint32_t here = count[i];
    count[i] = at;
    at += here;
  }
  for (uint32_t i = 0; i < n; i++) to[count[from[i].weight >> shift & (BUCKETS - 1)]++] = from[i];
  return true;
}

/* Radix sort, least digit first; equal weights stay in the order of their numbers. */
static void sort_edges(struct by_span *span) {
  uint32_t n = span->graph->n_edges, count[DIGITS][BUCKETS] = {{0}};
  struct by_span_key *from = span->keys, *to = span->keys + n;
  for (uint32_t e = 0; e < n; e++) {
    memcpy(&from[e].weight, &span->weight[e], sizeof from[e].weight);
    from[e].edge = e;
    for (int d = 0; d < DIGITS; d++) count[d][from[e].weight >> (d * DIGIT) & (BUCKETS - 1)]++;
  }
  for (int d = 0; d < DIGITS; d++) {
    if (!sort_digit(from, to, n, count[d], d * DIGIT)) continue;
    struct by_span_key *kept = from;
    from = to;
    to = kept;
  }
  if (from != span->keys) memcpy(span->keys, from, n * sizeof *from);
  span->sorted = true;
}

static void choose(struct by_span *span, uint32_t e) {
  span->chosen[e / WORD] |= 1ull << e % WORD;
}

static double kruskal(struct by_span *span, const bool *in) {
  const struct by_graph *graph = span->graph;
  uint32_t *above = span->above, left = 0;
  double sum = 0;
  if (!span->sorted) sort_edges(span);
  for (uint32_t v = 0; v < graph->n_vertices; v++) {
    above[v] = v;
    left += !in || in[v];
  }
  left--;
  for (uint32_t i = 0; i < graph->n_edges && left; i++) {
    uint32_t e = span->keys[i].edge, a = graph->edges[e].a, b = graph->edges[e].b;
    if (in && !(in[a] && in[b])) continue;
    a = by_leader(above, a);
    b = by_leader(above, b);
    if (a == b) continue;
    above[a] = b;
    choose(span, e);
    sum += span->weight[e];
    left--;
  }
  return left ? INFINITY : sum;
}

/* --- Prim --- */

static void come_near(struct by_span *span, uint32_t v) {
  const struct by_graph *graph = span->graph;
  for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++) {
    uint32_t e = graph->incident[i], other = span->ends[i];
    if (span->weight[e] < span->near[other]) {
      span->near[other] = span->weight[e];
      span->via[other] = e;
    }
  }
  span->near[v] = -1; /* nothing is below that: v stays in */
}

static uint32_t nearest(const struct by_span *span, uint32_t n) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < n; i++)
    if (span->near[span->waiting[i]] < span->near[span->waiting[best]]) best = i;
  return best;
}

static double prim(struct by_span *span, const bool *in) {
  uint32_t n = 0;
  double sum = 0;
  for (uint32_t v = 0; v < span->graph->n_vertices; v++) {
    bool is_in = !in || in[v];
    span->near[v] = is_in ? INFINITY : -1;
    if (is_in && v > 0) span->waiting[n++] = v;
  }
  come_near(span, 0); /* a terminal, so it is in */
  while (n) {
    uint32_t best = nearest(span, n), v = span->waiting[best];
    if (isinf(span->near[v])) return INFINITY;
    sum += span->near[v];
    choose(span, span->via[v]);
    come_near(span, v);
    span->waiting[best] = span->waiting[--n];
  }
  return sum;
}

/* --- --- */

/* The chosen edges, ascending, and none chosen after that. */
static void collect(struct by_span *span) {
  span->n_tree = 0;
  for (uint32_t i = 0; i <= span->graph->n_edges / WORD; i++) {
    for (uint64_t bits = span->chosen[i]; bits; bits &= bits - 1)
      span->tree[span->n_tree++] = i * WORD + (uint32_t)__builtin_ctzll(bits);
    span->chosen[i] = 0;
  }
}

double by_span_over(struct by_span *span, const bool *in) {
  double sum = span->dense ? prim(span, in) : kruskal(span, in);
  collect(span);
  return sum;
}

double by_span_lightest(struct by_span *span) {
  return span->steiner ? by_steiner_lightest(span->steiner, span) : by_span_over(span, NULL);
}

double by_span_least(struct by_span *span) {
  return span->steiner ? by_steiner_least(span->steiner, span) : by_span_over(span, NULL);
}

bool by_span_is_exact(const struct by_span *span) {
  return !span->steiner || by_steiner_is_exact(span->steiner);
}

static double certify(struct by_span *span, const double *price, bool well) {
  static const double rounding = 1 + 0x1p-36; /* of sums of some thousand terms, generously */
  double sum = 0;
  by_span_set_prices(span, price);
  for (uint32_t r = 0; r < span->graph->n_resources; r++) sum += span->graph->capacity[r] * price[r];
  double least = well && span->steiner ? by_steiner_least_well(span->steiner, span) : by_span_least(span);
  return least > 0 ? sum * rounding / least : INFINITY;
}

double by_span_certify(struct by_span *span, const double *price) {
  return certify(span, price, false);
}

double by_span_certify_well(struct by_span *span, const double *price) {
  return certify(span, price, true);
}
