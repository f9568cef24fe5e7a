/* Reads and writes topologies as JSON; docs/topology-format.md describes the format. When reading, errors that have a
 * place in the document are found here, all others by by_topology_validate. When writing, default values are omitted.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "json_doc.h"
#include "text.h"
#include "topology_make.h"

/* Jansson needs less than 1 GiB for the largest document, and far less for a real topology. */
static const struct by_doc_limits limits = {.bytes = BY_TOPOLOGY_MAX_FILE, .containers = 1 << 20, .elements = 8 << 20};
enum { MAX_SUGGESTED = 4096 }; /* the number of names with which a misspelt one is compared */

static const char document_fields[] = "format, name, nodes, links";
static const char node_fields[] = "name, kind, takes_part, helps, aggregates, memory, group, capacity, used, x, y";
static const char link_fields[] = "a, b, capacity, used, delay, loss, rough, ports";

/* --- Values. --- */

static enum banyan_status take_flag(const struct by_doc_path *place, const json_t *object, const char *field,
                                    bool *out) {
  const json_t *value = json_object_get(object, field);
  return value ? by_doc_bool(&(struct by_doc_path){.above = place, .field = field}, value, out) : BANYAN_OK;
}

static enum banyan_status take_text(struct by_topology_builder *builder, const struct by_doc_path *place,
                                    const json_t *object, const char *field, const char **out) {
  const json_t *value = json_object_get(object, field);
  if (!value) return BANYAN_OK;
  BY_TRY(by_doc_string(&(struct by_doc_path){.above = place, .field = field}, value, out));
  return by_topology_builder_keep(builder, *out, out);
}

static enum banyan_status take_positive_rate(const struct by_doc_path *place, const json_t *value, double *out) {
  BY_TRY(by_doc_rate(place, value, out));
  if (!(*out > 0)) return by_doc_fail(place, "is 0, must be more than 0");
  return by_check_rate(*out) == BANYAN_OK ? BANYAN_OK : by_doc_fail(place, "%s", banyan_error_text());
}

typedef enum banyan_status take_rate(const struct by_doc_path *place, const json_t *value, double *out);

/* Reads one rate for both directions, or an object with one for each of `names`; `both`: neither may be missing. */
static enum banyan_status take_directions(const struct by_doc_path *place, const json_t *value,
                                          const char *const *names, bool both, take_rate *take, double *out[2]) {
  char fields[16];
  if (!json_is_object(value)) {
    BY_TRY(take(place, value, out[0]));
    *out[1] = *out[0];
    return BANYAN_OK;
  }
  snprintf(fields, sizeof fields, "%s, %s", names[0], names[1]);
  BY_TRY(by_doc_fields(place, value, fields));
  for (int i = 0; i < 2; i++) {
    json_t *member = json_object_get(value, names[i]);
    if (!member && !both) continue;
    BY_TRY(by_doc_need_like(place, value, names[i], "\"10g\"", &member));
    BY_TRY(take(&(struct by_doc_path){.above = place, .field = names[i]}, member, out[i]));
  }
  return BANYAN_OK;
}

/* Reads "capacity" and "used" of a node or a link. */
static enum banyan_status take_capacities(const struct by_doc_path *place, const json_t *object,
                                          const char *const *names, bool needed, struct by_capacity *first,
                                          struct by_capacity *second) {
  const struct by_doc_path here = {.above = place, .field = "capacity"}, use = {.above = place, .field = "used"};
  json_t *capacity = json_object_get(object, "capacity"), *used = json_object_get(object, "used");
  if (needed) BY_TRY(by_doc_need_like(place, object, "capacity", "\"10g\"", &capacity));
  if (capacity)
    BY_TRY(
        take_directions(&here, capacity, names, needed, take_positive_rate, (double *[]){&first->all, &second->all}));
  if (!used) return BANYAN_OK;
  BY_TRY(take_directions(&use, used, names, false, by_doc_rate, (double *[]){&first->used, &second->used}));
  const struct by_capacity *over = first->used > first->all ? first : second;
  if (over->used <= over->all) return BANYAN_OK;
  return by_doc_fail(&use, "is %g, but the capacity is %g", over->used, over->all);
}

/* --- Nodes. --- */

static enum banyan_status take_kind(const struct by_doc_path *place, const json_t *object, enum by_node_kind *out) {
  const struct by_doc_path here = {.above = place, .field = "kind"};
  const json_t *value = json_object_get(object, "kind");
  const char *name = by_node_kind_name(BY_NODE_HOST);
  if (value) BY_TRY(by_doc_string(&here, value, &name));
  for (enum by_node_kind kind = BY_NODE_HOST; by_node_kind_name(kind); kind++) {
    if (strcmp(name, by_node_kind_name(kind)) != 0) continue;
    *out = kind;
    return BANYAN_OK;
  }
  return by_doc_fail(&here, "is \"%.64s\", must be host or switch", name);
}

static enum banyan_status fill_node(struct by_topology_builder *builder, const struct by_doc_path *place,
                                    const json_t *value, struct by_node *node) {
  static const char *const names[] = {"out", "in"};
  static const char *const host_fields[] = {"takes_part", "helps"}, *const switch_fields[] = {"aggregates", "memory"};
  const char *const *others =
      node->kind == BY_NODE_HOST ? switch_fields : host_fields; /* the fields that this kind must not have */
  const json_t *memory = json_object_get(value, "memory"), *x = json_object_get(value, "x"),
               *y = json_object_get(value, "y");
  for (int i = 0; i < 2; i++)
    if (json_object_get(value, others[i]))
      return by_doc_fail(&(struct by_doc_path){.above = place, .field = others[i]}, "is not for a %s",
                         by_node_kind_name(node->kind));
  BY_TRY(take_flag(place, value, "takes_part", &node->takes_part));
  BY_TRY(take_flag(place, value, "helps", &node->may_help));
  BY_TRY(take_flag(place, value, "aggregates", &node->aggregates));
  if (memory)
    BY_TRY(by_doc_bytes(&(struct by_doc_path){.above = place, .field = "memory"}, memory, INT64_MAX, &node->memory));
  BY_TRY(take_text(builder, place, value, "group", &node->group));
  if (!x != !y) return by_doc_fail(place, "has only one of \"x\" and \"y\"");
  if (x) BY_TRY(by_doc_number(&(struct by_doc_path){.above = place, .field = "x"}, x, &node->x));
  if (y) BY_TRY(by_doc_number(&(struct by_doc_path){.above = place, .field = "y"}, y, &node->y));
  return take_capacities(place, value, names, false, &node->out, &node->in);
}

static enum banyan_status add_node(struct by_topology_builder *builder, const struct by_doc_path *of_name,
                                   const char *name, enum by_node_kind kind, uint32_t *out) {
  enum banyan_status status = by_topology_builder_add(builder, kind, name, out);
  return status == BANYAN_ERR_TOPOLOGY ? by_doc_fail(of_name, "%s", banyan_error_text()) : status;
}

/* Reads a node. A host may be written as its name alone. */
static enum banyan_status take_node(struct by_topology_builder *builder, const struct by_doc_path *place,
                                    const json_t *value) {
  const struct by_doc_path of_name = {.above = place, .field = "name"};
  const char *text;
  json_t *name;
  enum by_node_kind kind = BY_NODE_HOST;
  uint32_t at = 0;
  if (json_is_string(value)) return add_node(builder, place, json_string_value(value), BY_NODE_HOST, &at);
  BY_TRY(by_doc_fields(place, value, node_fields));
  BY_TRY(by_doc_need_like(place, value, "name", "\"h0\"", &name));
  BY_TRY(by_doc_string(&of_name, name, &text));
  BY_TRY(take_kind(place, value, &kind));
  BY_TRY(add_node(builder, &of_name, text, kind, &at));
  return fill_node(builder, place, value, by_topology_builder_node(builder, at));
}

/* --- Links. --- */

static enum banyan_status take_end(struct by_topology_builder *builder, const struct by_doc_path *place,
                                   const json_t *object, const char *field, uint32_t *out) {
  const struct by_doc_path here = {.above = place, .field = field};
  json_t *value;
  const char *name;
  BY_TRY(by_doc_need_like(place, object, field, "\"h0\"", &value));
  BY_TRY(by_doc_string(&here, value, &name));
  *out = by_topology_builder_find(builder, name);
  if (*out != UINT32_MAX) return BANYAN_OK;
  const struct by_topology *topology = builder->topology;
  const char *names[MAX_SUGGESTED];
  size_t n = 0;
  for (; n < topology->n_nodes && n < MAX_SUGGESTED; n++) names[n] = topology->nodes[n].name;
  const char *near = by_suggest(name, names, n);
  if (near) return by_doc_fail(&here, "there is no node \"%.64s\"; did you mean \"%.64s\"?", name, near);
  return by_doc_fail(&here, "there is no node \"%.64s\"", name);
}

static enum banyan_status fill_link(struct by_topology_builder *builder, const struct by_doc_path *place,
                                    const json_t *value, struct by_link *link) {
  static const char *const names[] = {"ab", "ba"};
  const struct by_doc_path of_loss = {.above = place, .field = "loss"}, of_ports = {.above = place, .field = "ports"};
  const json_t *delay = json_object_get(value, "delay"), *loss = json_object_get(value, "loss"),
               *ports = json_object_get(value, "ports");
  BY_TRY(take_capacities(place, value, names, true, &link->capacity[BY_AB], &link->capacity[BY_BA]));
  if (delay) BY_TRY(by_doc_seconds(&(struct by_doc_path){.above = place, .field = "delay"}, delay, &link->delay));
  if (loss) BY_TRY(by_doc_real(&of_loss, loss, &link->loss));
  if (link->loss > 1) return by_doc_fail(&of_loss, "is %g, must be 0 to 1", link->loss);
  BY_TRY(take_flag(place, value, "rough", &link->rough));
  if (!ports) return BANYAN_OK;
  BY_TRY(by_doc_fields(&of_ports, ports, "a, b"));
  BY_TRY(take_text(builder, &of_ports, ports, "a", &link->port[0]));
  return take_text(builder, &of_ports, ports, "b", &link->port[1]);
}

static enum banyan_status take_link(struct by_topology_builder *builder, const struct by_doc_path *place,
                                    const json_t *value) {
  uint32_t a, b;
  struct by_link *link;
  BY_TRY(by_doc_fields(place, value, link_fields));
  BY_TRY(take_end(builder, place, value, "a", &a));
  BY_TRY(take_end(builder, place, value, "b", &b));
  if (a == b) return by_doc_fail(place, "leads from \"%.64s\" to itself", by_topology_builder_node(builder, a)->name);
  BY_TRY(by_topology_builder_add_link(builder, a, b, 0, 0, &link));
  return fill_link(builder, place, value, link);
}

/* --- The document. --- */

typedef enum banyan_status take_element(struct by_topology_builder *builder, const struct by_doc_path *place,
                                        const json_t *value);

static enum banyan_status take_array(struct by_topology_builder *builder, const struct by_doc_path *document,
                                     const json_t *root, const char *field, size_t max, take_element *take) {
  const struct by_doc_path place = {.above = document, .field = field};
  json_t *array;
  BY_TRY(by_doc_need_like(document, root, field, "[...]", &array));
  BY_TRY(by_doc_array(&place, array, 0, max));
  for (size_t i = 0; i < json_array_size(array); i++)
    BY_TRY(take(builder, &(struct by_doc_path){.above = &place, .index = i}, json_array_get(array, i)));
  return BANYAN_OK;
}

static enum banyan_status take_document(struct by_topology_builder *builder, const struct by_doc_path *document,
                                        const json_t *root) {
  const struct by_doc_path place = {.above = document, .field = "format"};
  json_t *format;
  const char *text = json_string_value(json_object_get(root, "format"));
  if (text && !strncmp(text, "banyan-plan ", strlen("banyan-plan ")))
    return by_doc_fail(
        &place,
        "is \"%.64s\", so this is a plan and no topology: give it to `banyan plan --file` or `banyan run --plan`",
        text);
  BY_TRY(by_doc_fields(document, root, document_fields));
  BY_TRY(by_doc_need_like(document, root, "format", "\"banyan-topology 1\"", &format));
  BY_TRY(by_doc_string(&place, format, &text));
  if (strcmp(text, "banyan-topology 1") != 0)
    return by_doc_fail(&place, "is \"%.64s\", this version reads \"banyan-topology 1\"", text);
  BY_TRY(take_text(builder, document, root, "name", &builder->topology->name));
  BY_TRY(take_array(builder, document, root, "nodes", BY_TOPOLOGY_MAX_NODES, take_node));
  return take_array(builder, document, root, "links", BY_TOPOLOGY_MAX_LINKS, take_link);
}

enum banyan_status by_topology_parse(const char *source, const char *text, size_t length, struct by_topology **out) {
  json_t *root;
  struct by_topology_builder builder;
  BY_TRY(by_doc_load(source, text, length, &limits, &root));
  enum banyan_status status = by_topology_builder_init(&builder, "");
  if (status == BANYAN_OK) status = take_document(&builder, &(struct by_doc_path){.field = source}, root);
  status = by_topology_builder_end(&builder, status, source, out);
  json_decref(root);
  return status;
}

/* --- Writing. --- */

static void add_text(struct by_text *text, const char *field, const char *value) {
  if (!*value) return;
  by_text_add(text, ", \"%s\": ", field);
  by_json_add_string(text, value);
}

static void add_real(struct by_text *text, const char *field, double value) {
  by_text_add(text, ", \"%s\": ", field);
  by_json_add_real(text, value);
}

/* Prints the values of two directions, as one if they are equal. The default value `usual` is omitted. */
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

static void print_node(struct by_text *text, const struct by_node *node) {
  static const char *const names[] = {"out", "in"};
  by_text_add(text, "{\"name\": ");
  by_json_add_string(text, node->name);
  if (node->kind != BY_NODE_HOST) by_text_add(text, ", \"kind\": \"%s\"", by_node_kind_name(node->kind));
  if (node->kind == BY_NODE_HOST && !node->takes_part) by_text_add(text, ", \"takes_part\": false");
  if (node->may_help) by_text_add(text, ", \"helps\": true");
  if (node->aggregates) by_text_add(text, ", \"aggregates\": true");
  if (node->memory) by_text_add(text, ", \"memory\": %" PRIu64, node->memory);
  add_text(text, "group", node->group);
  add_capacities(text, names, &node->out, &node->in);
  if (!isnan(node->x)) {
    add_real(text, "x", node->x);
    add_real(text, "y", node->y);
  }
  by_text_add(text, "}");
}

static void print_link(struct by_text *text, const struct by_topology *topology, const struct by_link *link) {
  static const char *const names[] = {"ab", "ba"};
  by_text_add(text, "{\"a\": ");
  by_json_add_string(text, topology->nodes[link->a].name);
  add_text(text, "b", topology->nodes[link->b].name);
  add_capacities(text, names, &link->capacity[BY_AB], &link->capacity[BY_BA]);
  if (link->delay > 0) add_real(text, "delay", link->delay);
  if (link->loss > 0) add_real(text, "loss", link->loss);
  if (link->rough) by_text_add(text, ", \"rough\": true");
  const char *between = ", \"ports\": {";
  for (int i = 0; i < 2; i++) {
    if (!*link->port[i]) continue;
    by_text_add(text, "%s\"%c\": ", between, "ab"[i]);
    by_json_add_string(text, link->port[i]);
    between = ", ";
  }
  if (*link->port[0] || *link->port[1]) by_text_add(text, "}");
  by_text_add(text, "}");
}

void by_topology_print(const struct by_topology *topology, struct by_text *text) {
  by_text_add(text, "{\"format\": \"banyan-topology 1\"");
  add_text(text, "name", topology->name);
  by_text_add(text, ", \"nodes\": [");
  for (uint32_t i = 0; i < topology->n_nodes; i++) {
    by_text_add(text, i ? ", " : "");
    print_node(text, &topology->nodes[i]);
  }
  by_text_add(text, "], \"links\": [");
  for (uint32_t i = 0; i < topology->n_links; i++) {
    by_text_add(text, i ? ", " : "");
    print_link(text, topology, &topology->links[i]);
  }
  by_text_add(text, "]}");
}

enum banyan_status by_topology_copy(const struct by_topology *topology, struct by_topology **out) {
  struct by_text text;
  by_text_init(&text);
  by_topology_print(topology, &text);
  enum banyan_status status = text.failed ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a topology")
                                          : by_topology_parse("topology", by_text_get(&text), text.length, out);
  by_text_fini(&text);
  return status;
}
