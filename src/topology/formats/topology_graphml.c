/* Reads GraphML. A graph is collected first, since unique labels, the median speed and the other direction of a
 * directed edge are known only at its end. */
#define HASH_NONFATAL_OOM 1
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <uthash.h>

#include "graphml_keys.h"
#include "log.h"
#include "order.h"
#include "text.h"
#include "topology_formats.h"
#include "topology_reader.h"

struct graphml_node {
  const xmlNode *element;
  const char *id, *label, *group;
  double latitude, longitude, x, y; /* NAN: not known */
  double rate[2];                   /* What it sends and receives over all links; NAN: not known. */
  const char *rate_without_unit[2];
  bool is_switch, shares_label;
  UT_hash_handle by_id, by_label;
};

struct graphml_edge {
  const xmlNode *element;
  uint32_t a, b;
  double rate[2], delay, loss; /* NAN: not known */
  const char *rate_without_unit, *delay_without_unit;
  bool directed, done; /* done: another edge has it as its opposite direction */
};

struct graphml {
  struct by_xml xml;
  struct by_arena arena;
  double default_rate, default_delay;
  const xmlNode *element;
  const char *name; /* NULL: none */
  struct by_graphml_keys keys;
  struct graphml_node *nodes;
  uint32_t n_nodes;
  struct graphml_node *by_id; /* a hash table of all nodes by id */
  struct graphml_edge *edges;
  uint32_t n_edges, n_loops; /* Loops are not among the edges. */
};

/* --- Missing values and opposite directions. --- */

enum { MAX_LABEL = 160, MAX_ID = 80 };

static const double METRES_PER_SECOND = 2e8, EARTH_RADIUS = 6371e3, RADIANS = M_PI / 180;

static const char *print_edge(const struct graphml *graph, const struct graphml_edge *edge, char *out, size_t size) {
  snprintf(out, size, "%.*s-%.*s", MAX_ID, graph->nodes[edge->a].label, MAX_ID, graph->nodes[edge->b].label);
  return out;
}

/* Links of 10 Tbit/s do not exist and few are slower than 1 Mbit/s, so numbers without a unit are in Mbit/s unless some
 * are that large. */
static const double large_rate = 1e7;

/* Assumes units of the capacities of nodes. */
static enum banyan_status assume_node_rates(struct graphml *graph) {
  const struct graphml_node *example = NULL;
  double max = 0, shown = 0;
  const char *name = NULL;
  char text[32];
  for (uint32_t i = 0; i < 2 * graph->n_nodes; i++)
    if (graph->nodes[i / 2].rate_without_unit[i % 2]) max = fmax(max, graph->nodes[i / 2].rate[i % 2]);
  for (uint32_t i = 0; i < 2 * graph->n_nodes; i++) {
    struct graphml_node *node = &graph->nodes[i / 2];
    double *rate = &node->rate[i % 2];
    if (node->rate_without_unit[i % 2] && max < large_rate) *rate *= 1e6;
    if (!isnan(*rate) && by_check_rate(*rate) != BANYAN_OK)
      return by_xml_fail(&graph->xml, node->element, "its capacity %s", banyan_error_text());
    if (!node->rate_without_unit[i % 2] || example) continue;
    example = node;
    name = node->rate_without_unit[i % 2];
    shown = *rate;
  }
  if (example)
    by_warn("topology", "%s: %s has no unit; %s are assumed: node %.*s has %s", graph->xml.source, name,
            max < large_rate ? "Mbit/s" : "bit/s", MAX_ID, example->label, by_print_rate(shown, text));
  return BANYAN_OK;
}

/* Assumes units of the capacities of links. */
static enum banyan_status assume_rates(struct graphml *graph) {
  const struct graphml_edge *example = NULL;
  double max = 0;
  char shown[2 * MAX_ID + 2], text[32];
  for (uint32_t i = 0; i < graph->n_edges; i++) {
    const struct graphml_edge *edge = &graph->edges[i];
    if (edge->rate_without_unit && !example) example = edge;
    if (edge->rate_without_unit) max = fmax(max, edge->rate[0]);
  }
  for (uint32_t i = 0; i < graph->n_edges; i++) {
    struct graphml_edge *edge = &graph->edges[i];
    if (edge->rate_without_unit && max < large_rate) edge->rate[0] = edge->rate[1] = edge->rate[0] * 1e6;
    if (!isnan(edge->rate[0]) && by_check_rate(edge->rate[0]) != BANYAN_OK)
      return by_xml_fail(&graph->xml, edge->element, "its capacity %s", banyan_error_text());
  }
  if (example)
    by_warn("topology", "%s: %s has no unit; %s are assumed: %s is %s", graph->xml.source, example->rate_without_unit,
            max < large_rate ? "Mbit/s" : "bit/s", print_edge(graph, example, shown, sizeof shown),
            by_print_rate(example->rate[0], text));
  return BANYAN_OK;
}

static enum banyan_status assume_units(struct graphml *graph) {
  const struct graphml_edge *example = NULL;
  char shown[2 * MAX_ID + 2], text[32];
  BY_TRY(assume_node_rates(graph));
  BY_TRY(assume_rates(graph));
  for (uint32_t i = 0; i < graph->n_edges; i++) {
    struct graphml_edge *edge = &graph->edges[i];
    if (!edge->delay_without_unit) continue;
    edge->delay *= 1e-3;
    if (!example) example = edge;
  }
  if (example)
    by_warn("topology", "%s: %s has no unit; ms are assumed: %s has %s", graph->xml.source, example->delay_without_unit,
            print_edge(graph, example, shown, sizeof shown), by_print_seconds(example->delay, text));
  return BANYAN_OK;
}

/* Fills in missing rates. `values` is scratch memory for n_edges elements. */
static void fill_rates(struct graphml *graph, double *values) {
  size_t known = 0;
  for (uint32_t i = 0; i < graph->n_edges; i++)
    if (!isnan(graph->edges[i].rate[0])) values[known++] = graph->edges[i].rate[0];
  if (known == graph->n_edges) return;
  double rate = known ? by_median(values, known) : graph->default_rate;
  char text[32];
  by_warn("topology", "%s: %zu of %u links have no speed; taken as %s, %s", graph->xml.source, graph->n_edges - known,
          graph->n_edges, by_print_rate(rate, text), known ? "the median of the others" : "since no link has one");
  for (uint32_t i = 0; i < graph->n_edges; i++)
    if (isnan(graph->edges[i].rate[0])) graph->edges[i].rate[0] = graph->edges[i].rate[1] = rate;
}

/* Returns the delay along the great circle (haversine). NAN: a location is not known. */
static double distance_delay(const struct graphml_node *a, const struct graphml_node *b) {
  double north = sin((b->latitude - a->latitude) * RADIANS / 2),
         east = sin((b->longitude - a->longitude) * RADIANS / 2);
  double h = north * north + cos(a->latitude * RADIANS) * cos(b->latitude * RADIANS) * east * east;
  return 2 * EARTH_RADIUS * asin(h > 1 ? 1 : sqrt(h)) / METRES_PER_SECOND; /* fmin would lose NAN. */
}

static void fill_delays(struct graphml *graph, double *values) {
  size_t known = 0;
  for (uint32_t i = 0; i < graph->n_edges; i++) {
    struct graphml_edge *edge = &graph->edges[i];
    if (isnan(edge->delay)) edge->delay = distance_delay(&graph->nodes[edge->a], &graph->nodes[edge->b]);
    if (!isnan(edge->delay)) values[known++] = edge->delay;
  }
  if (known == graph->n_edges) return;
  double delay = known ? by_median(values, known) : graph->default_delay;
  char text[32];
  by_info("topology", "%s: %zu of %u links have neither a delay nor places at both ends; taken as %s",
          graph->xml.source, graph->n_edges - known, graph->n_edges, by_print_seconds(delay, text));
  for (uint32_t i = 0; i < graph->n_edges; i++)
    if (isnan(graph->edges[i].delay)) graph->edges[i].delay = delay;
}

/* --- Directed edges become links with two capacities. --- */

/* Orders edges by their ends, then by direction, then as in the file. */
static int compare_edges(const void *a, const void *b, void *edges) {
  const struct graphml_edge *first = (const struct graphml_edge *)edges + *(const uint32_t *)a;
  const struct graphml_edge *second = (const struct graphml_edge *)edges + *(const uint32_t *)b;
  int order = by_order_ends(first->a, first->b, second->a, second->b);
  if (!order) order = BY_ORDER(first->a, second->a);
  return order ? order : BY_ORDER(first, second);
}

/* Pairs the directed edges between the same two nodes: the i-th edge in one direction and the i-th in the other are a
 * link. Returns how many remain alone. */
static uint32_t pair_groups(struct graphml *graph, const uint32_t *order, uint32_t n) {
  uint32_t alone = 0;
  for (uint32_t from = 0, to; from < n; from = to) {
    const struct graphml_edge *first = &graph->edges[order[from]];
    uint32_t forth = 0;
    for (to = from; to < n; to++) {
      const struct graphml_edge *edge = &graph->edges[order[to]];
      if (by_order_ends(edge->a, edge->b, first->a, first->b) != 0) break;
      forth += edge->a == first->a;
    }
    uint32_t n_back = to - from - forth, pairs = MIN(forth, n_back);
    for (uint32_t i = from; i < from + pairs; i++) {
      struct graphml_edge *edge = &graph->edges[order[i]], *back = &graph->edges[order[i + forth]];
      edge->rate[1] = back->rate[0];
      edge->delay = (edge->delay + back->delay) / 2;
      edge->loss = fmax(edge->loss, back->loss);
      back->done = true;
    }
    alone += forth + n_back - 2 * pairs;
  }
  return alone;
}

static enum banyan_status pair_directions(struct graphml *graph) {
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

/* --- The topology. --- */

static enum banyan_status add_node(struct by_topology_builder *builder, const struct graphml_node *node) {
  char label[MAX_LABEL + 1], id[MAX_ID + 1], name[MAX_LABEL + MAX_ID + 8], group[BY_TOPOLOGY_MAX_NAME + 1];
  uint32_t number;
  by_keep_printable(node->label, label, sizeof label);
  by_keep_printable(node->id, id, sizeof id);
  by_keep_printable(node->group, group, sizeof group);
  snprintf(name, sizeof name, node->shares_label ? "%s (%s)" : "%s", label, id);
  BY_TRY(by_topology_builder_add(builder, node->is_switch ? BY_NODE_SWITCH : BY_NODE_HOST, name, &number));
  struct by_node *made = by_topology_builder_node(builder, number);
  made->x = node->x;
  made->y = node->y;
  if (!isnan(node->rate[0])) made->out.all = node->rate[0];
  if (!isnan(node->rate[1])) made->in.all = node->rate[1];
  return by_topology_builder_keep(builder, group, &made->group);
}

static enum banyan_status add_graph(struct graphml *graph, struct by_topology_builder *builder) {
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    enum banyan_status status = add_node(builder, &graph->nodes[i]);
    if (status != BANYAN_OK) return by_xml_fail_within(&graph->xml, graph->nodes[i].element, status);
  }
  for (uint32_t i = 0; i < graph->n_edges; i++) {
    const struct graphml_edge *edge = &graph->edges[i];
    struct by_link *link;
    if (edge->done) continue;
    BY_TRY(by_topology_builder_add_link(builder, edge->a, edge->b, edge->rate[0], edge->delay, &link));
    link->capacity[BY_BA].all = edge->rate[1];
    link->loss = edge->loss;
  }
  return BANYAN_OK;
}

/* --- Nodes. --- */

static enum banyan_status take_number(struct graphml *graph, const xmlNode *element, const char *what, const char *text,
                                      double max, double *out) {
  *out = NAN;
  if (!text) return BANYAN_OK;
  if (by_parse_number(text, out) != BANYAN_OK)
    return by_xml_fail(&graph->xml, element, "its %s: %s", what, banyan_error_text());
  if (fabs(*out) <= max) return BANYAN_OK;
  return by_xml_fail(&graph->xml, element, "its %s is %s, must be %g to %g", what, text, -max, max);
}

/* What a node's links carry together: one capacity for both directions, or one for each. */
static enum banyan_status take_node_rates(struct graphml *graph, const xmlNode *element,
                                          const struct by_graphml_data *data, struct graphml_node *out) {
  static const enum by_graphml_meaning of[] = {BY_GRAPHML_SENDS, BY_GRAPHML_RECEIVES};
  for (int direction = 0; direction < 2; direction++) {
    enum by_graphml_meaning meaning = data->values[of[direction]].text ? of[direction] : BY_GRAPHML_CAPACITY;
    BY_TRY(by_graphml_quantity(&graph->keys, element, data, meaning, "capacity", &out->rate[direction],
                               &out->rate_without_unit[direction]));
    if (data->values[meaning].text && !(out->rate[direction] > 0))
      return by_xml_fail(&graph->xml, element, "its capacity is %s, must be more than 0", data->values[meaning].text);
  }
  return BANYAN_OK;
}

static enum banyan_status take_node(struct graphml *graph, const xmlNode *element, struct graphml_node *out) {
  struct by_graphml_data data;
  *out = (struct graphml_node){.element = element};
  const xmlNode *inner = by_xml_find(element->children, "graph");
  if (inner) return by_xml_fail(&graph->xml, inner, "a graph inside a node is not read");
  BY_TRY(by_xml_need(&graph->xml, element, "id", &out->id));
  BY_TRY(by_graphml_take_data(&graph->keys, element, BY_GRAPHML_NODE, &data));
  out->label = data.values[BY_GRAPHML_LABEL].text ? data.values[BY_GRAPHML_LABEL].text : out->id;
  out->group = data.values[BY_GRAPHML_GROUP].text ? data.values[BY_GRAPHML_GROUP].text : "";
  out->is_switch = data.values[BY_GRAPHML_KIND].text && strcmp(data.values[BY_GRAPHML_KIND].text, "switch") == 0;
  if (data.values[BY_GRAPHML_KIND].text && !out->is_switch && strcmp(data.values[BY_GRAPHML_KIND].text, "host") != 0)
    return by_xml_fail(&graph->xml, element, "its kind is \"%.40s\", must be host or switch",
                       data.values[BY_GRAPHML_KIND].text);
  BY_TRY(take_number(graph, element, "latitude", data.values[BY_GRAPHML_LATITUDE].text, 90, &out->latitude));
  BY_TRY(take_number(graph, element, "longitude", data.values[BY_GRAPHML_LONGITUDE].text, 360, &out->longitude));
  BY_TRY(take_number(graph, element, "x", data.values[BY_GRAPHML_X].text, 1e300, &out->x));
  BY_TRY(take_number(graph, element, "y", data.values[BY_GRAPHML_Y].text, 1e300, &out->y));
  if (isnan(out->latitude) || isnan(out->longitude)) out->latitude = out->longitude = NAN;
  if (!isnan(out->latitude)) {
    out->x = out->longitude;
    out->y = out->latitude;
  }
  if (isnan(out->x) || isnan(out->y)) out->x = out->y = NAN;
  return take_node_rates(graph, element, &data, out);
}

static enum banyan_status index_nodes(struct graphml *graph) {
  struct graphml_node *by_label = NULL, *found;
  enum banyan_status status = BANYAN_OK;
  for (struct graphml_node *node = graph->nodes; node < graph->nodes + graph->n_nodes; node++) {
    HASH_FIND(by_label, by_label, node->label, strlen(node->label), found);
    if (found)
      found->shares_label = node->shares_label = true;
    else
      HASH_ADD_KEYPTR(by_label, by_label, node->label, strlen(node->label), node);
    HASH_FIND(by_id, graph->by_id, node->id, strlen(node->id), found);
    if (found && status == BANYAN_OK)
      status =
          by_xml_fail(&graph->xml, node->element, "another node has that id, on line %ld", by_xml_line(found->element));
    if (!found) HASH_ADD_KEYPTR(by_id, graph->by_id, node->id, strlen(node->id), node);
  }
  HASH_CLEAR(by_label, by_label);
  return status;
}

/* --- Edges. --- */

static enum banyan_status take_end(struct graphml *graph, const xmlNode *element, const char *which, uint32_t *out) {
  const char *id;
  struct graphml_node *found;
  BY_TRY(by_xml_need(&graph->xml, element, which, &id));
  HASH_FIND(by_id, graph->by_id, id, strlen(id), found);
  if (!found) return by_xml_fail(&graph->xml, element, "there is no node with the id \"%.64s\"", id);
  *out = (uint32_t)(found - graph->nodes);
  return BANYAN_OK;
}

/* Reads the capacity of an edge from the key with the clearest meaning. */
static enum banyan_status take_rate(struct graphml *graph, const xmlNode *element, const struct by_graphml_data *data,
                                    struct graphml_edge *out) {
  static const enum by_graphml_meaning order[] = {BY_GRAPHML_CAPACITY, BY_GRAPHML_SPEED, BY_GRAPHML_BANDWIDTH};
  size_t i = 0;
  while (i < 2 && !data->values[order[i]].text) i++;
  const char *text = data->values[order[i]].text;
  BY_TRY(
      by_graphml_quantity(&graph->keys, element, data, order[i], "capacity", &out->rate[0], &out->rate_without_unit));
  if (text && !(out->rate[0] > 0))
    return by_xml_fail(&graph->xml, element, "its capacity is %s, must be more than 0", text);
  out->rate[1] = out->rate[0];
  return BANYAN_OK;
}

static enum banyan_status take_edge(struct graphml *graph, const xmlNode *element, bool directed,
                                    struct graphml_edge *out) {
  const char *own = by_xml_attribute(element, "directed"), *unused;
  struct by_graphml_data data;
  *out = (struct graphml_edge){.element = element, .directed = own ? strcmp(own, "true") == 0 : directed};
  BY_TRY(take_end(graph, element, "source", &out->a));
  BY_TRY(take_end(graph, element, "target", &out->b));
  BY_TRY(by_graphml_take_data(&graph->keys, element, BY_GRAPHML_EDGE, &data));
  BY_TRY(take_rate(graph, element, &data, out));
  BY_TRY(by_graphml_quantity(&graph->keys, element, &data, BY_GRAPHML_DELAY, "delay", &out->delay,
                             &out->delay_without_unit));
  BY_TRY(by_graphml_quantity(&graph->keys, element, &data, BY_GRAPHML_LOSS, "loss", &out->loss, &unused));
  if (isnan(out->loss)) out->loss = 0;
  return out->loss <= 1 ? BANYAN_OK : by_xml_fail(&graph->xml, element, "its loss is %g, must be 0 to 1", out->loss);
}

/* --- The graph. --- */

static enum banyan_status take_nodes(struct graphml *graph) {
  uint32_t n = by_xml_count(graph->element, "node"), i = 0;
  if (n == 0 || n > BY_TOPOLOGY_MAX_NODES)
    return by_xml_fail(&graph->xml, graph->element, "has %u nodes, must have 1 to %d", n, BY_TOPOLOGY_MAX_NODES);
  graph->nodes = BY_ARENA_ARRAY(&graph->arena, struct graphml_node, n);
  if (!graph->nodes) return by_topology_no_memory();
  graph->n_nodes = n;
  for (const xmlNode *node = by_xml_find(graph->element->children, "node"); node;
       node = by_xml_find(node->next, "node"))
    BY_TRY(take_node(graph, node, &graph->nodes[i++]));
  return index_nodes(graph);
}

static enum banyan_status take_edges(struct graphml *graph) {
  const char *kind = by_xml_attribute(graph->element, "edgedefault");
  bool directed = kind && strcmp(kind, "directed") == 0;
  graph->edges = BY_ARENA_ARRAY(&graph->arena, struct graphml_edge, by_xml_count(graph->element, "edge"));
  if (!graph->edges) return by_topology_no_memory();
  for (const xmlNode *child = by_xml_find(graph->element->children, NULL); child;
       child = by_xml_find(child->next, NULL)) {
    if (by_xml_is(child, "hyperedge")) return by_xml_fail(&graph->xml, child, "is not read; use a node of kind switch");
    if (!by_xml_is(child, "edge")) continue;
    struct graphml_edge *edge = &graph->edges[graph->n_edges];
    BY_TRY(take_edge(graph, child, directed, edge));
    *(edge->a == edge->b ? &graph->n_loops : &graph->n_edges) += 1;
  }
  return BANYAN_OK;
}

static enum banyan_status read_graph(struct graphml *graph, struct by_topology **out) {
  struct by_graphml_data data;
  for (const xmlNode *child = by_xml_find(graph->xml.root->children, NULL); child;
       child = by_xml_find(child->next, NULL)) {
    if (by_xml_is(child, "key")) BY_TRY(by_graphml_take_key(&graph->keys, child));
    if (!by_xml_is(child, "graph")) continue;
    if (graph->element) return by_xml_fail(&graph->xml, child, "a second graph; a topology is one");
    graph->element = child;
  }
  if (!graph->element) return by_xml_fail(&graph->xml, graph->xml.root, "holds no <graph>");
  BY_TRY(by_graphml_take_data(&graph->keys, graph->element, BY_GRAPHML_GRAPH, &data));
  graph->name = data.values[BY_GRAPHML_LABEL].text;
  memcpy(graph->keys.units, data.units, sizeof data.units);
  BY_TRY(take_nodes(graph));
  BY_TRY(take_edges(graph));
  if (graph->n_loops)
    by_warn("topology", "%s: %u edges lead from a node to itself and are left out", graph->xml.source, graph->n_loops);
  double *scratch = BY_ARENA_ARRAY(&graph->arena, double, graph->n_edges);
  if (!scratch) return by_topology_no_memory();
  BY_TRY(assume_units(graph));
  fill_rates(graph, scratch);
  fill_delays(graph, scratch);
  BY_TRY(pair_directions(graph));
  struct by_topology_builder builder;
  char name[BY_TOPOLOGY_MAX_NAME + 1];
  by_keep_printable(graph->name ? graph->name : "", name, sizeof name);
  BY_TRY(by_topology_builder_init(&builder, name));
  return by_topology_builder_end(&builder, add_graph(graph, &builder), graph->xml.source, out);
}

enum banyan_status by_topology_parse_graphml(const char *source, const char *text, size_t length, const char *options,
                                             struct by_topology **out) {
  static const char *const names[] = {"rate", "delay"};
  struct graphml graph = {.default_rate = 1e9};
  struct by_options given;
  BY_TRY(by_options_take(&given, options, names));
  BY_TRY(by_options_rate(given.values[0], &graph.default_rate));
  if (given.values[1]) BY_TRY(by_parse_seconds(given.values[1], &graph.default_delay));
  BY_TRY(by_xml_parse(&graph.xml, source, text, length, "graphml", "GraphML"));
  graph.keys = (struct by_graphml_keys){.xml = &graph.xml, .arena = &graph.arena};
  enum banyan_status status = read_graph(&graph, out);
  HASH_CLEAR(by_id, graph.by_id);
  by_arena_fini(&graph.arena);
  by_xml_fini(&graph.xml);
  return status;
}
