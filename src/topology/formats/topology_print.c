/* Writes topologies as JSON, the reverse of topology_json.c. What is usual is left out. */
#include <inttypes.h>
#include <math.h>

#include "json_doc.h"
#include "topology.h"

static void add_text(struct by_text *text, const char *field, const char *value) {
  if (!*value) return;
  by_text_add(text, ", \"%s\": ", field);
  by_json_add_string(text, value);
}

static void add_real(struct by_text *text, const char *field, double value) {
  by_text_add(text, ", \"%s\": ", field);
  by_json_add_real(text, value);
}

/* Two directions' values as one where they are equal; a value that is `usual` is left out. */
static void add_directions(struct by_text *text, const char *field, const char *const *names, const double *values,
                           double usual) {
  if (values[0] == usual && values[1] == usual) return;
  if (values[0] == values[1]) {
    add_real(text, field, values[0]);
    return;
  }
  const char *between = "";
  by_text_add(text, ", \"%s\": {", field);
  for (int i = 0; i < 2; i++) {
    if (values[i] == usual) continue;
    by_text_add(text, "%s\"%s\": ", between, names[i]);
    by_json_add_real(text, values[i]);
    between = ", ";
  }
  by_text_add(text, "}");
}

static void add_capacities(struct by_text *text, const char *const *names, const struct by_capacity *first,
                           const struct by_capacity *second) {
  add_directions(text, "capacity", names, (double[]){first->all, second->all}, INFINITY);
  add_directions(text, "used", names, (double[]){first->used, second->used}, 0);
}

static void add_part(struct by_text *text, const struct by_node *node) {
  if (node->kind != BY_NODE_HOST) by_text_add(text, ", \"kind\": \"%s\"", by_node_kind_name(node->kind));
  if (node->kind == BY_NODE_HOST && !node->takes_part) by_text_add(text, ", \"takes_part\": false");
  if (node->may_help) by_text_add(text, ", \"helps\": true");
  if (node->aggregates) by_text_add(text, ", \"aggregates\": true");
  if (node->memory) by_text_add(text, ", \"memory\": %" PRIu64, node->memory);
}

static void add_node(struct by_text *text, const struct by_node *node) {
  static const char *const ways[] = {"out", "in"};
  by_text_add(text, "{\"name\": ");
  by_json_add_string(text, node->name);
  add_part(text, node);
  add_text(text, "group", node->group);
  add_capacities(text, ways, &node->out, &node->in);
  if (!isnan(node->x)) {
    add_real(text, "x", node->x);
    add_real(text, "y", node->y);
  }
  by_text_add(text, "}");
}

static void add_ports(struct by_text *text, const struct by_link *link) {
  const char *between = "";
  if (!*link->port[0] && !*link->port[1]) return;
  by_text_add(text, ", \"ports\": {");
  for (int i = 0; i < 2; i++) {
    if (!*link->port[i]) continue;
    by_text_add(text, "%s\"%c\": ", between, "ab"[i]);
    by_json_add_string(text, link->port[i]);
    between = ", ";
  }
  by_text_add(text, "}");
}

static void add_link(struct by_text *text, const struct by_topology *topology, const struct by_link *link) {
  static const char *const ways[] = {"ab", "ba"};
  by_text_add(text, "{\"a\": ");
  by_json_add_string(text, topology->nodes[link->a].name);
  add_text(text, "b", topology->nodes[link->b].name);
  add_capacities(text, ways, &link->capacity[BY_AB], &link->capacity[BY_BA]);
  if (link->delay > 0) add_real(text, "delay", link->delay);
  if (link->loss > 0) add_real(text, "loss", link->loss);
  add_ports(text, link);
  by_text_add(text, "}");
}

void by_topology_print(const struct by_topology *topology, struct by_text *text) {
  by_text_add(text, "{\"format\": \"banyan-topology 1\"");
  add_text(text, "name", topology->name);
  by_text_add(text, ", \"nodes\": [");
  for (uint32_t i = 0; i < topology->n_nodes; i++) {
    by_text_add(text, i ? ", " : "");
    add_node(text, &topology->nodes[i]);
  }
  by_text_add(text, "], \"links\": [");
  for (uint32_t i = 0; i < topology->n_links; i++) {
    by_text_add(text, i ? ", " : "");
    add_link(text, topology, &topology->links[i]);
  }
  by_text_add(text, "]}");
}
