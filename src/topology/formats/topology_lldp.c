#include "topology_lldp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "log.h"
#include "text.h"
#include "topology_lldp_draft.h"

static const struct by_doc_limits limits = {.bytes = 64 << 20, .containers = 1 << 20, .elements = 4 << 20};

enum { MOST_REPORTS = 1 << 20 };

/* --- JSON --- */

/* In json0 everything stands in arrays: object[field] is one of objects, of which *out is the first; NULL: none. */
static enum banyan_status take_first(const struct by_place *place, const json_t *object, const char *field,
                                     json_t **out) {
  const json_t *array = json_object_get(object, field);
  struct by_place here = {.above = place, .field = field};
  *out = NULL;
  if (!array) return BANYAN_OK;
  if (!json_is_array(array)) return by_doc_fail(&here, "must be an array, as `lldpcli -f json0` (not json) prints it");
  if (json_array_size(array) == 0) return BANYAN_OK;
  *out = json_array_get(array, 0);
  return json_is_object(*out) ? BANYAN_OK : by_doc_fail(&here, "must be an array of objects");
}

/* object[field][0].value; "" where there is none. */
static enum banyan_status take_value(const struct by_place *place, const json_t *object, const char *field,
                                     const char **out) {
  json_t *first;
  *out = "";
  BY_TRY(take_first(place, object, field, &first));
  const json_t *value = json_object_get(first, "value");
  struct by_place here = {.above = place, .field = field};
  return value ? by_doc_string(&here, value, out) : BANYAN_OK;
}

/* --- machines --- */

static enum banyan_status add_machine(struct by_lldp *lldp, const char *text, uint32_t *out) {
  char name[BY_TOPOLOGY_MOST_NAME + 1];
  by_keep_printable(text, name, sizeof name);
  *out = by_topology_builder_find(&lldp->names, name);
  if (*out != UINT32_MAX) return BANYAN_OK;
  void *machines = lldp->machines;
  enum banyan_status status =
      by_topology_make_room(&machines, lldp->names.topology->n_nodes, &lldp->machine_room, sizeof *lldp->machines);
  lldp->machines = machines;
  BY_TRY(status);
  BY_TRY(by_topology_builder_add_host(&lldp->names, name, out));
  lldp->machines[*out] = (struct by_lldp_machine){0};
  return BANYAN_OK;
}

static enum banyan_status take_capabilities(const struct by_place *place, const json_t *chassis,
                                            struct by_lldp_machine *machine) {
  const json_t *list = json_object_get(chassis, "capability"), *one;
  size_t i;
  if (list && !json_is_array(list))
    return by_doc_fail(&(struct by_place){.above = place, .field = "capability"}, "must be an array");
  json_array_foreach(list, i, one) {
    const char *type = json_string_value(json_object_get(one, "type"));
    bool enabled = json_is_true(json_object_get(one, "enabled"));
    machine->described = true;
    if (type && enabled && (strcmp(type, "Bridge") == 0 || strcmp(type, "Router") == 0)) machine->bridges = true;
    if (type && enabled && strcmp(type, "Tel") == 0) machine->is_phone = true;
  }
  return BANYAN_OK;
}

/* A chassis is known by its name, or by its id where it tells none. */
static enum banyan_status take_chassis(struct by_lldp *lldp, const struct by_place *place, const json_t *object,
                                       uint32_t *out) {
  struct by_place here = {.above = place, .field = "chassis"};
  const char *name;
  json_t *chassis;
  BY_TRY(take_first(place, object, "chassis", &chassis));
  if (!chassis) return by_doc_fail(place, "the field \"chassis\" is missing");
  BY_TRY(take_value(&here, chassis, "name", &name));
  if (!*name) BY_TRY(take_value(&here, chassis, "id", &name));
  if (!*name) return by_doc_fail(&here, "has neither a name nor an id");
  enum banyan_status status = add_machine(lldp, name, out);
  if (status == BANYAN_ERR_TOPOLOGY) return by_doc_fail(&here, "%s", banyan_error_text());
  BY_TRY(status);
  return take_capabilities(&here, chassis, &lldp->machines[*out]);
}

/* --- speeds --- */

/* What IEEE 802.3 calls a port: "1000BaseTFD - ...", "10GigBaseSR - ...", "2p5GbaseX", "100GbaseSR4": Mbit/s unless a G
 * says Gbit/s. NAN: none of these. */
static double rate_of(const char *mau) {
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

static enum banyan_status take_rate(const struct by_place *place, const json_t *port, double *out) {
  struct by_place here = {.above = place, .field = "auto-negotiation"};
  const char *current = "";
  json_t *negotiation;
  BY_TRY(take_first(place, port, "auto-negotiation", &negotiation));
  if (negotiation) BY_TRY(take_value(&here, negotiation, "current", &current));
  *out = rate_of(current);
  return BANYAN_OK;
}

/* --- reports --- */

static enum banyan_status keep_text(struct by_lldp *lldp, const char *text, const char **out) {
  char kept[BY_TOPOLOGY_MOST_NAME + 1];
  by_keep_printable(text, kept, sizeof kept);
  return by_topology_builder_keep(&lldp->names, kept, out);
}

static enum banyan_status take_port(struct by_lldp *lldp, const struct by_place *place, const json_t *interface,
                                    struct by_lldp_report *out) {
  struct by_place here = {.above = place, .field = "port"};
  const char *id = "", *text = "";
  json_t *port;
  BY_TRY(take_first(place, interface, "port", &port));
  if (port) {
    BY_TRY(take_value(&here, port, "id", &id));
    BY_TRY(take_value(&here, port, "descr", &text));
    BY_TRY(take_rate(&here, port, &out->rate));
  }
  BY_TRY(keep_text(lldp, id, &out->far_id));
  return keep_text(lldp, text, &out->far_text);
}

static enum banyan_status keep_report(struct by_lldp *lldp, const struct by_place *place,
                                      const struct by_lldp_report *report) {
  if (lldp->n_reports == MOST_REPORTS) return by_doc_fail(place, "more than %d neighbors in all", MOST_REPORTS);
  void *reports = lldp->reports;
  enum banyan_status status =
      by_topology_make_room(&reports, lldp->n_reports, &lldp->report_room, sizeof *lldp->reports);
  lldp->reports = reports;
  BY_TRY(status);
  lldp->reports[lldp->n_reports++] = *report;
  return BANYAN_OK;
}

/* One neighbor that `from` hears on one of its interfaces. */
static enum banyan_status take_interface(struct by_lldp *lldp, const struct by_place *place, const json_t *interface,
                                         uint32_t from) {
  struct by_lldp_report report = {.from = from, .rate = NAN, .partner = UINT32_MAX};
  struct by_place here = {.above = place, .field = "name"};
  json_t *name;
  const char *port;
  if (!json_is_object(interface)) return by_doc_fail(place, "must be an object");
  if (json_object_get(interface, "status") && !json_object_get(interface, "via"))
    return by_doc_fail(place, "is of the machine itself; run `show neighbors details`, not `show interfaces`");
  BY_TRY(by_doc_need(place, interface, "name", &name));
  BY_TRY(by_doc_string(&here, name, &port));
  BY_TRY(keep_text(lldp, port, &report.port));
  BY_TRY(take_chassis(lldp, place, interface, &report.to));
  BY_TRY(take_port(lldp, place, interface, &report));
  return report.from == report.to ? BANYAN_OK : keep_report(lldp, place, &report);
}

static enum banyan_status take_interfaces(struct by_lldp *lldp, const struct by_place *place, const json_t *list,
                                          uint32_t from) {
  struct by_place here = {.above = place, .field = "interface"};
  json_t *one;
  size_t i;
  if (!json_is_array(list)) return by_doc_fail(&here, "must be an array, as `lldpcli -f json0` (not json) prints it");
  json_array_foreach(list, i, one) {
    struct by_place at = {.above = &here, .index = i};
    BY_TRY(take_interface(lldp, &at, one, from));
  }
  return BANYAN_OK;
}

/* --- documents --- */

/* What `host` heard. */
static enum banyan_status take_neighbors(struct by_lldp *lldp, const struct by_place *place, const json_t *list,
                                         uint32_t host) {
  struct by_place here = {.above = place, .field = "lldp"};
  json_t *one, *interfaces;
  size_t i;
  if (!json_is_array(list)) return by_doc_fail(&here, "must be an array, as `lldpcli -f json0` (not json) prints it");
  lldp->machines[host].reports = true;
  json_array_foreach(list, i, one) {
    struct by_place at = {.above = &here, .index = i};
    if (!json_is_object(one)) return by_doc_fail(&at, "must be an object");
    if ((interfaces = json_object_get(one, "interface")) != NULL) BY_TRY(take_interfaces(lldp, &at, interfaces, host));
  }
  return BANYAN_OK;
}

/* "spine1" of "/tmp/lldp/spine1.json" */
static enum banyan_status add_host_of_file(struct by_lldp *lldp, const char *source, uint32_t *out) {
  const char *base = strrchr(source, '/');
  char name[BY_TOPOLOGY_MOST_NAME + 1];
  snprintf(name, sizeof name, "%s", base ? base + 1 : source);
  char *end = strrchr(name, '.');
  if (end && end != name && (strcmp(end, ".json") == 0 || strcmp(end, ".json0") == 0 || strcmp(end, ".lldp") == 0))
    *end = '\0';
  uint32_t before = lldp->names.topology->n_nodes;
  BY_TRY(add_machine(lldp, name, out));
  if (*out == before) lldp->machines[*out].named_by_file = true;
  return BANYAN_OK;
}

/* {"local-chassis": ...} says whose neighbors follow, {"lldp": ...} holds them; *host is UINT32_MAX until it is known.
 */
static enum banyan_status take_document(struct by_lldp *lldp, const struct by_place *place, const json_t *document,
                                        const char *source, uint32_t *host) {
  const json_t *neighbors = json_object_get(document, "lldp");
  json_t *local;
  if (!json_is_object(document)) return by_doc_fail(place, "must be an object with \"lldp\" or \"local-chassis\"");
  BY_TRY(take_first(place, document, "local-chassis", &local));
  if (local) BY_TRY(take_chassis(lldp, &(struct by_place){.above = place, .field = "local-chassis"}, local, host));
  if (!neighbors) return BANYAN_OK;
  if (*host == UINT32_MAX) BY_TRY(add_host_of_file(lldp, source, host));
  return take_neighbors(lldp, place, neighbors, *host);
}

/* {"HOST": {"lldp": ...}, ...} */
static enum banyan_status take_hosts(struct by_lldp *lldp, const struct by_place *place, json_t *document) {
  const char *name;
  json_t *one;
  json_object_foreach(document, name, one) {
    struct by_place here = {.above = place, .key = name};
    uint32_t host;
    if (!json_object_get(one, "lldp"))
      return by_doc_fail(&here,
                         "must be an object with \"lldp\", as `lldpcli -f json0 show neighbors details` prints it");
    BY_TRY(add_machine(lldp, name, &host));
    BY_TRY(take_document(lldp, &here, one, name, &host));
  }
  return BANYAN_OK;
}

static bool is_of_one_host(const json_t *document) {
  return !json_is_object(document) || json_object_size(document) == 0 || json_object_get(document, "lldp") ||
         json_object_get(document, "local-chassis");
}

static enum banyan_status take_file(struct by_lldp *lldp, const struct by_lldp_file *file) {
  struct by_place place = {.field = file->source};
  uint32_t host = UINT32_MAX;
  for (size_t at = 0; at < file->length || at == 0;) {
    json_t *document;
    BY_TRY(by_doc_load_next(file->source, file->text, file->length, &limits, &at, &document));
    enum banyan_status status = is_of_one_host(document) ? take_document(lldp, &place, document, file->source, &host)
                                                         : take_hosts(lldp, &place, document);
    json_decref(document);
    BY_TRY(status);
  }
  return BANYAN_OK;
}

static enum banyan_status read_files(struct by_lldp *lldp, const struct by_lldp_file *files, size_t n,
                                     struct by_topology **out) {
  for (size_t i = 0; i < n; i++) BY_TRY(take_file(lldp, &files[i]));
  if (lldp->n_reports == 0)
    return by_fail(BANYAN_ERR_PARSE,
                   "%s%s: nobody there hears a neighbor; run `lldpcli -f json0 show neighbors details`",
                   n ? files[0].source : "no file", n > 1 ? " and the others" : "");
  enum banyan_status status = by_lldp_make(lldp, out);
  if (status == BANYAN_ERR_TOPOLOGY)
    return by_fail_within(status, "%s%s", files[0].source, n > 1 ? " and the others" : "");
  return status;
}

enum banyan_status by_topology_parse_lldp(const struct by_lldp_file *files, size_t n,
                                          const struct by_lldp_options *options, struct by_topology **out) {
  struct by_lldp lldp = {.options = options ? *options : (struct by_lldp_options){0}};
  BY_TRY(by_topology_builder_init(&lldp.names, ""));
  enum banyan_status status = read_files(&lldp, files, n, out);
  by_topology_builder_fini(&lldp.names);
  free(lldp.machines);
  free(lldp.reports);
  return status;
}
