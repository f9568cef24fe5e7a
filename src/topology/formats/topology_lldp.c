/* Reads LLDP's JSON into mentions of machines and reports of one about another, from which the topology is made. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "lldp_parts.h"
#include "text.h"
#include "topology_formats.h"
#include "topology_reader.h"

static const struct by_doc_limits limits = {.bytes = 64 << 20, .containers = 1 << 20, .elements = 4 << 20};

enum { MAX_REPORTS = 1 << 20 };

/* --- JSON. --- */

/* Checks that a value is an array, as everywhere in json0. */
static enum banyan_status check_array(const struct by_doc_path *place, const json_t *value) {
  if (json_is_array(value)) return BANYAN_OK;
  return by_doc_fail(place, "must be an array, as `lldpcli -f json0` (not json) prints it");
}

/* Returns the first object of the array object[field], as json0 stores everything in arrays; NULL: none. */
static enum banyan_status take_first(const struct by_doc_path *place, const json_t *object, const char *field,
                                     json_t **out) {
  const json_t *array = json_object_get(object, field);
  struct by_doc_path here = {.above = place, .field = field};
  *out = NULL;
  if (!array) return BANYAN_OK;
  BY_TRY(check_array(&here, array));
  if (json_array_size(array) == 0) return BANYAN_OK;
  *out = json_array_get(array, 0);
  return json_is_object(*out) ? BANYAN_OK : by_doc_fail(&here, "must be an array of objects");
}

/* Returns object[field][0].value; "": there is none. */
static enum banyan_status take_value(const struct by_doc_path *place, const json_t *object, const char *field,
                                     const char **out) {
  json_t *first;
  *out = "";
  BY_TRY(take_first(place, object, field, &first));
  const json_t *value = json_object_get(first, "value");
  struct by_doc_path here = {.above = place, .field = field};
  return value ? by_doc_string(&here, value, out) : BANYAN_OK;
}

/* --- Machines. --- */

static enum banyan_status keep_text(struct by_lldp_network *network, const char *text, const char **out) {
  char kept[BY_TOPOLOGY_MAX_NAME + 1];
  by_keep_printable(text, kept, sizeof kept);
  *out = by_arena_string(&network->arena, kept);
  return *out ? BANYAN_OK : by_topology_no_memory();
}

static enum banyan_status add_mention(struct by_lldp_network *network, const char *source, const char *id,
                                      const char *name, uint32_t *out) {
  if (!BY_ARRAY_GROW(&network->mentions, &network->allocated_mention, network->n_mentions + 1))
    return by_topology_no_memory();
  struct by_lldp_mention *mention = &network->mentions[ *out = network->n_mentions++];
  *mention = (struct by_lldp_mention){.source = source};
  BY_TRY(keep_text(network, id, &mention->id));
  return keep_text(network, name, &mention->name);
}

static enum banyan_status take_capabilities(const struct by_doc_path *place, const json_t *chassis,
                                            struct by_lldp_mention *mention) {
  const json_t *list = json_object_get(chassis, "capability"), *one;
  size_t i;
  if (list && !json_is_array(list))
    return by_doc_fail(&(struct by_doc_path){.above = place, .field = "capability"}, "must be an array");
  json_array_foreach(list, i, one) {
    const char *type = json_string_value(json_object_get(one, "type"));
    bool enabled = json_is_true(json_object_get(one, "enabled"));
    mention->described = true;
    if (type && enabled && (strcmp(type, "Bridge") == 0 || strcmp(type, "Router") == 0)) mention->bridges = true;
    if (type && enabled && strcmp(type, "Tel") == 0) mention->a_phone = true;
  }
  return BANYAN_OK;
}

/* Whether a chassis id is unique: hardware and network addresses are unique worldwide, others are chosen by the
 * machine, mostly its name. */
static bool is_unique(const json_t *id) {
  const char *type = json_string_value(json_object_get(id, "type"));
  return type && (strcmp(type, "mac") == 0 || strcmp(type, "ip") == 0);
}

static enum banyan_status take_chassis(struct by_lldp_network *network, const struct by_doc_path *place,
                                       const json_t *object, const char *source, uint32_t *out) {
  struct by_doc_path here = {.above = place, .field = "chassis"};
  const char *name, *id;
  json_t *chassis, *first;
  BY_TRY(take_first(place, object, "chassis", &chassis));
  if (!chassis) return by_doc_fail(place, "the field \"chassis\" is missing");
  BY_TRY(take_value(&here, chassis, "name", &name));
  BY_TRY(take_value(&here, chassis, "id", &id));
  BY_TRY(take_first(&here, chassis, "id", &first));
  if (!is_unique(first)) {
    if (!*name) name = id;
    id = "";
  }
  if (!*name && !*id) return by_doc_fail(&here, "has neither a name nor an id");
  BY_TRY(add_mention(network, source, id, name, out));
  return take_capabilities(&here, chassis, &network->mentions[*out]);
}

/* --- Speeds. --- */

/* Parses the speed in IEEE 802.3's name of a port: "1000BaseTFD - ...", "10GigBaseSR - ...", "2p5GbaseX",
 * "100GbaseSR4", in Mbit/s unless a G means Gbit/s. NAN: another name. */
static double parse_rate(const char *mau) {
  double value = 0, place = 1;
  size_t n = 0;
  for (; mau[n] >= '0' && mau[n] <= '9' && n < 6; n++) value = value * 10 + (mau[n] - '0');
  if (n == 0) return NAN;
  if ((mau[n] == 'p' || mau[n] == '.') && mau[n + 1] >= '0' && mau[n + 1] <= '9')
    for (n++; mau[n] >= '0' && mau[n] <= '9' && n < 9; n++) value += (mau[n] - '0') * (place /= 10);
  bool giga = strncasecmp(mau + n, "gig", 3) == 0 || strncasecmp(mau + n, "gbase", 5) == 0;
  bool mega = strncasecmp(mau + n, "base", 4) == 0 || strncasecmp(mau + n, "broad", 5) == 0;
  return value > 0 && (giga || mega) ? value * (giga ? 1e9 : 1e6) : NAN;
}

/* --- Reports. --- */

static enum banyan_status take_port(struct by_lldp_network *network, const struct by_doc_path *place,
                                    const json_t *interface, struct by_lldp_report *out) {
  struct by_doc_path here = {.above = place, .field = "port"}, of_rate = {.above = &here, .field = "auto-negotiation"};
  const char *id = "", *text = "", *current = "";
  json_t *port, *negotiation = NULL;
  BY_TRY(take_first(place, interface, "port", &port));
  if (port) {
    BY_TRY(take_value(&here, port, "id", &id));
    BY_TRY(take_value(&here, port, "descr", &text));
    BY_TRY(take_first(&here, port, "auto-negotiation", &negotiation));
  }
  if (negotiation) BY_TRY(take_value(&of_rate, negotiation, "current", &current));
  out->rate = parse_rate(current);
  BY_TRY(keep_text(network, id, &out->far_id));
  return keep_text(network, text, &out->far_text);
}

/* Reads a neighbor that `from` receives on one of its interfaces. */
static enum banyan_status take_interface(struct by_lldp_network *network, const struct by_doc_path *place,
                                         const json_t *interface, const char *source, uint32_t from) {
  struct by_lldp_report report = {.from = from, .rate = NAN, .partner = UINT32_MAX};
  struct by_doc_path here = {.above = place, .field = "name"};
  json_t *name;
  const char *port;
  if (!json_is_object(interface)) return by_doc_fail(place, "must be an object");
  if (json_object_get(interface, "status") && !json_object_get(interface, "via"))
    return by_doc_fail(place, "is of the machine itself; run `show neighbors details`, not `show interfaces`");
  BY_TRY(by_doc_need(place, interface, "name", &name));
  BY_TRY(by_doc_string(&here, name, &port));
  BY_TRY(keep_text(network, port, &report.port));
  BY_TRY(take_chassis(network, place, interface, source, &report.to));
  BY_TRY(take_port(network, place, interface, &report));
  if (network->n_reports == MAX_REPORTS) return by_doc_fail(place, "more than %d neighbors in all", MAX_REPORTS);
  if (!BY_ARRAY_GROW(&network->reports, &network->allocated_report, network->n_reports + 1))
    return by_topology_no_memory();
  network->reports[network->n_reports++] = report;
  return BANYAN_OK;
}

/* --- Documents. --- */

/* Reads the neighbors that `host` received. */
static enum banyan_status take_neighbors(struct by_lldp_network *network, const struct by_doc_path *place,
                                         const json_t *list, const char *source, uint32_t host) {
  struct by_doc_path here = {.above = place, .field = "lldp"};
  json_t *one, *interfaces, *interface;
  size_t i, j;
  BY_TRY(check_array(&here, list));
  network->mentions[host].reports = true;
  json_array_foreach(list, i, one) {
    struct by_doc_path at = {.above = &here, .index = i};
    if (!json_is_object(one)) return by_doc_fail(&at, "must be an object");
    struct by_doc_path there = {.above = &at, .field = "interface"};
    if (!(interfaces = json_object_get(one, "interface"))) continue;
    BY_TRY(check_array(&there, interfaces));
    json_array_foreach(interfaces, j, interface) {
      BY_TRY(take_interface(network, &(struct by_doc_path){.above = &there, .index = j}, interface, source, host));
    }
  }
  return BANYAN_OK;
}

/* Adds the machine that a file's name means, such as "spine1" for "/tmp/lldp/spine1.json". */
static enum banyan_status add_host_of_file(struct by_lldp_network *network, const char *source, uint32_t *out) {
  const char *base = strrchr(source, '/');
  char name[BY_TOPOLOGY_MAX_NAME + 1];
  snprintf(name, sizeof name, "%s", base ? base + 1 : source);
  char *end = strrchr(name, '.');
  if (end && end != name && (strcmp(end, ".json") == 0 || strcmp(end, ".json0") == 0 || strcmp(end, ".lldp") == 0))
    *end = '\0';
  BY_TRY(add_mention(network, source, "", name, out));
  network->mentions[*out].by_file = true;
  return BANYAN_OK;
}

/* Reads one document: {"local-chassis": ...} names the machine whose neighbors follow, {"lldp": ...} lists them. *host
 * is UINT32_MAX until it is known. */
static enum banyan_status take_document(struct by_lldp_network *network, const struct by_doc_path *place,
                                        const json_t *document, const char *source, uint32_t *host) {
  const json_t *neighbors = json_object_get(document, "lldp");
  json_t *local;
  if (!json_is_object(document)) return by_doc_fail(place, "must be an object with \"lldp\" or \"local-chassis\"");
  BY_TRY(take_first(place, document, "local-chassis", &local));
  if (local)
    BY_TRY(take_chassis(network, &(struct by_doc_path){.above = place, .field = "local-chassis"}, local, source, host));
  if (!neighbors) return BANYAN_OK;
  if (*host == UINT32_MAX) BY_TRY(add_host_of_file(network, source, host));
  return take_neighbors(network, place, neighbors, source, *host);
}

/* Reads a document of several hosts: {"HOST": {"lldp": ...}, ...}. */
static enum banyan_status take_hosts(struct by_lldp_network *network, const struct by_doc_path *place, json_t *document,
                                     const char *source) {
  const char *name;
  json_t *one;
  json_object_foreach(document, name, one) {
    struct by_doc_path here = {.above = place, .key = name};
    uint32_t host;
    if (!json_object_get(one, "lldp"))
      return by_doc_fail(&here,
                         "must be an object with \"lldp\", as `lldpcli -f json0 show neighbors details` prints it");
    BY_TRY(add_mention(network, source, "", name, &host));
    network->mentions[host].by_file = true;
    BY_TRY(take_document(network, &here, one, source, &host));
  }
  return BANYAN_OK;
}

static enum banyan_status take_file(struct by_lldp_network *network, const struct by_lldp_file *file) {
  struct by_doc_path place = {.field = file->source};
  uint32_t host = UINT32_MAX;
  for (size_t at = 0; at < file->length || at == 0;) {
    json_t *document;
    BY_TRY(by_doc_load_next(file->source, file->text, file->length, &limits, &at, &document));
    bool of_one_host = !json_is_object(document) || json_object_size(document) == 0 ||
                       json_object_get(document, "lldp") || json_object_get(document, "local-chassis");
    enum banyan_status status = of_one_host ? take_document(network, &place, document, file->source, &host)
                                            : take_hosts(network, &place, document, file->source);
    json_decref(document);
    BY_TRY(status);
  }
  return BANYAN_OK;
}

static enum banyan_status read_files(struct by_lldp_network *network, const struct by_lldp_file *files, size_t n,
                                     struct by_topology **out) {
  struct by_topology_builder builder;
  for (size_t i = 0; i < n; i++) BY_TRY(take_file(network, &files[i]));
  BY_TRY(by_lldp_find_machines(network));
  if (network->n_reports == 0)
    return by_fail(BANYAN_ERR_PARSE,
                   "%s%s: no machine there received a neighbor; run `lldpcli -f json0 show neighbors details`",
                   n ? files[0].source : "no file", n > 1 ? " and the others" : "");
  BY_TRY(by_topology_builder_init(&builder, ""));
  enum banyan_status status = by_topology_builder_end(&builder, by_lldp_add_cables(network, &builder), NULL, out);
  if (status == BANYAN_ERR_TOPOLOGY)
    return by_fail_within(status, "%s%s", files[0].source, n > 1 ? " and the others" : "");
  return status;
}

enum banyan_status by_topology_parse_lldp(const struct by_lldp_file *files, size_t n, const char *options,
                                          struct by_topology **out) {
  static const char *const names[] = {"rate", "hosts"};
  struct by_lldp_network network = {.default_rate = 1e9};
  struct by_options given;
  BY_TRY(by_options_take(&given, options, names));
  BY_TRY(by_options_rate(given.values[0], &network.default_rate));
  network.hosts = given.values[1];
  enum banyan_status status = read_files(&network, files, n, out);
  by_arena_fini(&network.arena);
  free(network.mentions);
  free(network.machines);
  free(network.reports);
  return status;
}
