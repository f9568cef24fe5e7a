/* What a graph leaves out is filled in, and the two directions of a link found, before the topology is made. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "text.h"
#include "topology_graphml_draft.h"
#include "topology_make.h"

enum { MOST_LABEL = 160, MOST_ID = 80 };

static const double DEFAULT_RATE = 1e9, METRES_PER_SECOND = 2e8, EARTH_RADIUS = 6371e3, RADIANS = M_PI / 180;

/* --- what is missing --- */

static int compare_numbers(const void *a, const void *b) {
  double first = *(const double *)a, second = *(const double *)b;
  return (first > second) - (first < second);
}

/* `otherwise` where there are none. Sorts. */
static double median(double *values, size_t n, double otherwise) {
  if (n == 0) return otherwise;
  qsort(values, n, sizeof *values, compare_numbers);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void say_rate(const struct by_graphml *graph, size_t known, double rate) {
  char text[32];
  by_warn("topology", "%s: %zu of %u links have no speed; taken as %s, %s", graph->xml.source, graph->n_edges - known,
          graph->n_edges, by_print_rate(rate, text), known ? "the median of the others" : "since no link has one");
}

static void fill_rates(struct by_graphml *graph, double *values) {
  size_t known = 0;
  for (uint32_t i = 0; i < graph->n_edges; i++)
    if (!isnan(graph->edges[i].rate[0])) values[known++] = graph->edges[i].rate[0];
  if (known == graph->n_edges) return;
  double rate = median(values, known, graph->options.default_rate > 0 ? graph->options.default_rate : DEFAULT_RATE);
  say_rate(graph, known, rate);
  for (uint32_t i = 0; i < graph->n_edges; i++)
    if (isnan(graph->edges[i].rate[0])) graph->edges[i].rate[0] = graph->edges[i].rate[1] = rate;
}

/* Along the great circle (haversine). NAN: a place is not known. */
static double distance_delay(const struct by_graphml_node *a, const struct by_graphml_node *b) {
  double north = sin((b->latitude - a->latitude) * RADIANS / 2),
         east = sin((b->longitude - a->longitude) * RADIANS / 2);
  double h = north * north + cos(a->latitude * RADIANS) * cos(b->latitude * RADIANS) * east * east;
  return 2 * EARTH_RADIUS * asin(h > 1 ? 1 : sqrt(h)) / METRES_PER_SECOND; /* fmin would lose the NAN */
}

static void fill_delays(struct by_graphml *graph, double *values) {
  size_t known = 0;
  for (uint32_t i = 0; i < graph->n_edges; i++) {
    struct by_graphml_edge *edge = &graph->edges[i];
    if (isnan(edge->delay)) edge->delay = distance_delay(&graph->nodes[edge->a], &graph->nodes[edge->b]);
    if (!isnan(edge->delay)) values[known++] = edge->delay;
  }
  if (known == graph->n_edges) return;
  double delay = median(values, known, graph->options.default_delay);
  char text[32];
  by_info("topology", "%s: %zu of %u links have neither a delay nor places at both ends; taken as %s",
          graph->xml.source, graph->n_edges - known, graph->n_edges, by_print_seconds(delay, text));
  for (uint32_t i = 0; i < graph->n_edges; i++)
    if (isnan(graph->edges[i].delay)) graph->edges[i].delay = delay;
}

/* --- directed edges become links with two capacities --- */

static uint32_t lower(const struct by_graphml_edge *edge) {
  return edge->a < edge->b ? edge->a : edge->b;
}

static uint32_t upper(const struct by_graphml_edge *edge) {
  return edge->a < edge->b ? edge->b : edge->a;
}

#define ORDER(x, y) (((x) > (y)) - ((x) < (y)))

/* By their ends, then direction, then as in the file. */
static int compare_edges(const void *a, const void *b, void *edges) {
  const struct by_graphml_edge *first = (const struct by_graphml_edge *)edges + *(const uint32_t *)a;
  const struct by_graphml_edge *second = (const struct by_graphml_edge *)edges + *(const uint32_t *)b;
  int order = ORDER(lower(first), lower(second));
  if (!order) order = ORDER(upper(first), upper(second));
  if (!order) order = ORDER(first->a, second->a);
  return order ? order : ORDER(first, second);
}

/* Of the directed edges order[0 .. n) between two nodes, `forth` of them lead one way: the first of those and the first
 * that lead back are a link, and so on. */
static void pair_group(struct by_graphml *graph, const uint32_t *order, uint32_t n, uint32_t forth) {
  for (uint32_t i = 0; i < forth && forth + i < n; i++) {
    struct by_graphml_edge *edge = &graph->edges[order[i]], *back = &graph->edges[order[forth + i]];
    edge->rate[1] = back->rate[0];
    edge->delay = (edge->delay + back->delay) / 2;
    edge->loss = fmax(edge->loss, back->loss);
    back->done = true;
  }
}

static uint32_t pair_groups(struct by_graphml *graph, const uint32_t *order, uint32_t n) {
  uint32_t alone = 0;
  for (uint32_t from = 0, to; from < n; from = to) {
    const struct by_graphml_edge *first = &graph->edges[order[from]];
    uint32_t forth = 0;
    for (to = from; to < n; to++) {
      const struct by_graphml_edge *edge = &graph->edges[order[to]];
      if (lower(edge) != lower(first) || upper(edge) != upper(first)) break;
      forth += edge->a == first->a;
    }
    uint32_t back = to - from - forth;
    pair_group(graph, order + from, to - from, forth);
    alone += forth > back ? forth - back : back - forth;
  }
  return alone;
}

static enum banyan_status pair_directions(struct by_graphml *graph) {
  uint32_t n = 0, *order = BY_ARENA_ARRAY(&graph->arena, uint32_t, graph->n_edges);
  if (!order) return by_topology_no_memory();
  for (uint32_t i = 0; i < graph->n_edges; i++)
    if (graph->edges[i].directed) order[n++] = i;
  if (n == 0) return BANYAN_OK;
  qsort_r(order, n, sizeof *order, compare_edges, graph->edges);
  uint32_t alone = pair_groups(graph, order, n);
  if (alone)
    by_warn("topology", "%s: %u directed edges lead one way only; their capacity is taken both ways", graph->xml.source,
            alone);
  return BANYAN_OK;
}

/* --- the topology --- */

static enum banyan_status add_node(struct by_topology_builder *builder, const struct by_graphml_node *node) {
  char label[MOST_LABEL + 1], id[MOST_ID + 1], name[MOST_LABEL + MOST_ID + 8], group[BY_TOPOLOGY_MOST_NAME + 1];
  uint32_t number;
  by_keep_printable(node->label, label, sizeof label);
  by_keep_printable(node->id, id, sizeof id);
  by_keep_printable(node->group, group, sizeof group);
  snprintf(name, sizeof name, node->shares_label ? "%s (%s)" : "%s", label, id);
  BY_TRY(node->is_switch ? by_topology_builder_add_switch(builder, name, &number)
                         : by_topology_builder_add_host(builder, name, &number));
  struct by_node *made = by_topology_builder_node(builder, number);
  made->x = node->x;
  made->y = node->y;
  return by_topology_builder_keep(builder, group, &made->group);
}

static enum banyan_status add_all(struct by_graphml *graph, struct by_topology_builder *builder) {
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    enum banyan_status status = add_node(builder, &graph->nodes[i]);
    if (status != BANYAN_OK) return by_xml_fail_within(&graph->xml, graph->nodes[i].element, status);
  }
  for (uint32_t i = 0; i < graph->n_edges; i++) {
    const struct by_graphml_edge *edge = &graph->edges[i];
    struct by_link *link;
    if (edge->done) continue;
    BY_TRY(by_topology_builder_add_link(builder, edge->a, edge->b, edge->rate[0], edge->delay, &link));
    link->capacity[BY_BA].all = edge->rate[1];
    link->loss = edge->loss;
  }
  return BANYAN_OK;
}

static enum banyan_status build(struct by_graphml *graph, struct by_topology **out) {
  struct by_topology_builder builder;
  char name[BY_TOPOLOGY_MOST_NAME + 1];
  by_keep_printable(graph->name ? graph->name : "", name, sizeof name);
  BY_TRY(by_topology_builder_init(&builder, name));
  enum banyan_status status = add_all(graph, &builder);
  if (status == BANYAN_OK) {
    status = by_topology_builder_finish(&builder, out);
    if (status != BANYAN_OK) status = by_fail_within(status, "%s", graph->xml.source);
  }
  by_topology_builder_fini(&builder);
  return status;
}

enum banyan_status by_graphml_make(struct by_graphml *graph, struct by_topology **out) {
  double *values = BY_ARENA_ARRAY(&graph->arena, double, graph->n_edges);
  if (!values) return by_topology_no_memory();
  fill_rates(graph, values);
  fill_delays(graph, values);
  BY_TRY(pair_directions(graph));
  return build(graph, out);
}
