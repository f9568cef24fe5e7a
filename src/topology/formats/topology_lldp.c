/* LLDP's JSON is read into reports of one machine about another, before the topology is made. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "log.h"
#include "text.h"
#include "topology_formats.h"
#include "topology_reader.h"

/* A machine that speaks or is spoken of. */
struct lldp_machine {
  bool reports;   /* the neighbours it received are among the files */
  bool described; /* its capabilities are known: */
  bool bridges;   /* it forwards */
  bool is_phone;
  bool named_by_file;
};

/* Machine `from` received an announcement of `to` on its port. */
struct lldp_report {
  uint32_t from, to;
  const char *port;              /* of `from` */
  const char *far_id, *far_text; /* how `to` calls its port: id and description, "" not known */
  double rate;                   /* bit/s, NAN: not known */
  uint32_t partner;              /* the same cable as reported by its other end; UINT32_MAX: none */
};

struct lldp {
  double default_rate;
  const char *hosts;                /* patterns of the names that are hosts; NULL or "": by what they report */
  struct by_topology_builder names; /* of the machines, which have the same numbers */
  struct lldp_machine *machines;
  uint32_t machine_room;
  struct lldp_report *reports;
  uint32_t n_reports, report_room;
};

/* --- the topology --- */

/* A cable between two machines that both report is reported twice. The two reports are matched by the names of ports:
 * each end knows its own, and the other's as that one calls it. */

static const uint32_t nobody = UINT32_MAX, several = UINT32_MAX - 1;

enum { MOST_PATTERNS_TEXT = 1024 };

static const char *name_of(const struct lldp *lldp, uint32_t machine) {
  return by_topology_builder_node((struct by_topology_builder *)&lldp->names, machine)->name;
}

/* Of what is needed until the topology is made. */
static struct by_arena *arena_of(struct lldp *lldp) {
  return &lldp->names.topology->arena;
}

/* --- machines that a file names "n1" and others "n1.example.org" --- */

/* full[i]: the one machine whose name begins with that of i and a dot; i itself where there is none or several. */
static void find_full_names(const struct lldp *lldp, uint32_t *full) {
  uint32_t n = lldp->names.topology->n_nodes;
  char label[BY_TOPOLOGY_MOST_NAME + 1];
  for (uint32_t i = 0; i < n; i++) full[i] = nobody;
  for (uint32_t i = 0; i < n; i++) {
    const char *name = name_of(lldp, i);
    size_t length = strcspn(name, ".");
    if (!name[length]) continue;
    memcpy(label, name, length);
    label[length] = '\0';
    uint32_t machine = by_topology_builder_find(&lldp->names, label);
    if (machine != nobody && lldp->machines[machine].named_by_file)
      full[machine] = full[machine] == nobody ? i : several;
  }
  for (uint32_t i = 0; i < n; i++)
    if (full[i] == nobody || full[i] == several) full[i] = i;
}

static enum banyan_status join_names(struct lldp *lldp) {
  uint32_t n = lldp->names.topology->n_nodes, *full = BY_ARENA_ARRAY(arena_of(lldp), uint32_t, n), kept = 0;
  if (!full) return by_topology_no_memory();
  find_full_names(lldp, full);
  for (uint32_t i = 0; i < n; i++)
    if (full[i] != i) lldp->machines[full[i]].reports = true;
  for (uint32_t i = 0; i < lldp->n_reports; i++) {
    struct lldp_report report = lldp->reports[i];
    report.from = full[report.from];
    report.to = full[report.to];
    if (report.from != report.to) lldp->reports[kept++] = report;
  }
  lldp->n_reports = kept;
  return BANYAN_OK;
}

/* --- cables --- */

/* By the two machines, then by the reporting one, then by port. */
static int compare_reports(const void *a, const void *b) {
  const struct lldp_report *first = a, *second = b;
  int order = by_order_ends(first->from, first->to, second->from, second->to);
  if (!order) order = BY_ORDER(first->from, second->from);
  return order ? order : strcmp(first->port, second->port);
}

/* The same port receives the same neighbor in several protocols. */
static void drop_repeats(struct lldp *lldp) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < lldp->n_reports; i++) {
    struct lldp_report *report = &lldp->reports[i], *before = kept ? &lldp->reports[kept - 1] : NULL;
    if (before && compare_reports(before, report) == 0) {
      if (isnan(before->rate)) before->rate = report->rate;
    } else {
      lldp->reports[kept++] = *report;
    }
  }
  lldp->n_reports = kept;
}

static int compare_port(const void *port, const void *report) {
  return strcmp(port, ((const struct lldp_report *)report)->port);
}

/* Among reports of one machine about one other, sorted by port; NULL: no report of that port that is still alone. */
static struct lldp_report *find_port(struct lldp_report *reports, uint32_t n, const char *port) {
  struct lldp_report *found = bsearch(port, reports, n, sizeof *reports, compare_port);
  return found && found->partner == nobody ? found : NULL;
}

static void become_partners(struct lldp *lldp, struct lldp_report *one, struct lldp_report *other) {
  one->partner = (uint32_t)(other - lldp->reports);
  other->partner = (uint32_t)(one - lldp->reports);
}

/* Matches by what `ours` report about the ports of `theirs`. */
static void match_ports(struct lldp *lldp, struct lldp_report *ours, uint32_t n_ours, struct lldp_report *theirs,
                        uint32_t n_theirs) {
  for (uint32_t i = 0; i < n_ours; i++) {
    if (ours[i].partner != nobody) continue;
    struct lldp_report *other = find_port(theirs, n_theirs, ours[i].far_id);
    if (!other) other = find_port(theirs, n_theirs, ours[i].far_text);
    if (other) become_partners(lldp, &ours[i], other);
  }
}

/* Every cable has two ends that report it, so what no name joins belongs together too. */
static void match_rest(struct lldp *lldp, struct lldp_report *ours, uint32_t n_ours, struct lldp_report *theirs,
                       uint32_t n_theirs) {
  uint32_t i = 0, j = 0;
  for (;;) {
    while (i < n_ours && ours[i].partner != nobody) i++;
    while (j < n_theirs && theirs[j].partner != nobody) j++;
    if (i == n_ours || j == n_theirs) return;
    become_partners(lldp, &ours[i], &theirs[j]);
  }
}

static void find_cables(struct lldp *lldp) {
  qsort(lldp->reports, lldp->n_reports, sizeof *lldp->reports, compare_reports);
  drop_repeats(lldp);
  for (uint32_t from = 0, to; from < lldp->n_reports; from = to) {
    struct lldp_report *first = &lldp->reports[from];
    uint32_t ours = 0;
    for (to = from; to < lldp->n_reports; to++) {
      const struct lldp_report *report = &lldp->reports[to];
      if (by_order_ends(report->from, report->to, first->from, first->to) != 0) break;
      ours += report->from == first->from;
    }
    struct lldp_report *theirs = first + ours;
    uint32_t n_theirs = to - from - ours;
    match_ports(lldp, first, ours, theirs, n_theirs);
    match_ports(lldp, theirs, n_theirs, first, ours);
    match_rest(lldp, first, ours, theirs, n_theirs);
  }
}

/* --- what the machines are --- */

static bool is_wanted(const char *patterns, const char *name) {
  char copy[MOST_PATTERNS_TEXT], *kept = NULL;
  strcpy(copy, patterns);
  for (char *word = strtok_r(copy, ",+ ", &kept); word; word = strtok_r(NULL, ",+ ", &kept))
    if (fnmatch(word, name, 0) == 0) return true;
  return false;
}

static bool is_plain(const struct lldp_machine *machine) {
  return machine->described && !machine->bridges;
}

/* Of those that report: hosts with containers claim to bridge too, but only a switch receives several plain hosts. Of
 * the others: one that reports nothing is more likely a switch, since people collect from hosts. */
static bool is_switch(const struct lldp *lldp, uint32_t machine, const uint32_t *plain_received) {
  const struct lldp_machine *it = &lldp->machines[machine];
  if (lldp->hosts && *lldp->hosts) return !is_wanted(lldp->hosts, name_of(lldp, machine));
  return it->reports ? it->bridges && plain_received[machine] > 1 : !is_plain(it);
}

/* --- the topology --- */

struct making {
  struct lldp *lldp;
  struct by_topology_builder builder;
  bool *switches, *joined;  /* of the machines: those that are switches; those that anybody is joined to */
  uint32_t *plain_received; /* by each machine: plain hosts */
  uint32_t *numbers;        /* of the machines in the topology */
  uint32_t n_guessed;
};

/* Those that report take part; where only switches do, the hosts that they receive. A machine that none is joined to
 * any more (its name was the short form of another's) is left out. */
static enum banyan_status add_machines(struct making *making) {
  const struct lldp *lldp = making->lldp;
  uint32_t n = lldp->names.topology->n_nodes;
  bool some_report = false;
  for (uint32_t i = 0; i < n; i++) some_report = some_report || (lldp->machines[i].reports && !making->switches[i]);
  for (uint32_t i = 0; i < n; i++) {
    const struct lldp_machine *machine = &lldp->machines[i];
    uint32_t *number = &making->numbers[i];
    if (!making->joined[i]) continue;
    BY_TRY(by_topology_builder_add(&making->builder, making->switches[i] ? BY_NODE_SWITCH : BY_NODE_HOST,
                                   name_of(lldp, i), number));
    struct by_node *node = by_topology_builder_node(&making->builder, *number);
    node->takes_part = !making->switches[i] && !machine->is_phone && (machine->reports || !some_report);
  }
  return BANYAN_OK;
}

static enum banyan_status add_cable(struct making *making, const struct lldp_report *report) {
  const struct lldp_report *other = report->partner == nobody ? NULL : &making->lldp->reports[report->partner];
  double rate = other ? fmin(report->rate, other->rate) : report->rate; /* fmin passes over NAN */
  struct by_link *link;
  const char *near, *far;
  making->n_guessed += isnan(rate);
  if (isnan(rate)) rate = making->lldp->default_rate;
  BY_TRY(by_topology_builder_keep(&making->builder, report->port, &near));
  far = other ? other->port : *report->far_text ? report->far_text : report->far_id;
  BY_TRY(by_topology_builder_keep(&making->builder, far, &far));
  BY_TRY(by_topology_builder_add_link(&making->builder, making->numbers[report->from], making->numbers[report->to],
                                      rate, 0, &link));
  link->port[0] = near;
  link->port[1] = far;
  return BANYAN_OK;
}

static enum banyan_status fill(struct making *making) {
  struct lldp *lldp = making->lldp;
  struct by_arena *arena = arena_of(lldp);
  uint32_t n = lldp->names.topology->n_nodes;
  making->switches = BY_ARENA_ARRAY(arena, bool, n);
  making->joined = BY_ARENA_ARRAY(arena, bool, n);
  making->plain_received = BY_ARENA_ARRAY(arena, uint32_t, n);
  making->numbers = BY_ARENA_ARRAY(arena, uint32_t, n);
  if (arena->failed) return by_topology_no_memory();
  for (uint32_t i = 0; i < lldp->n_reports; i++) {
    const struct lldp_report *report = &lldp->reports[i];
    making->joined[report->from] = making->joined[report->to] = true;
    making->plain_received[report->from] += is_plain(&lldp->machines[report->to]);
  }
  for (uint32_t i = 0; i < n; i++) making->switches[i] = is_switch(lldp, i, making->plain_received);
  BY_TRY(add_machines(making));
  for (uint32_t i = 0; i < lldp->n_reports; i++)
    if (lldp->reports[i].partner == nobody || lldp->reports[i].partner > i)
      BY_TRY(add_cable(making, &lldp->reports[i]));
  char text[32];
  if (making->n_guessed)
    by_warn("topology", "no end reports the speed of %u of %u links; taken as %s", making->n_guessed,
            making->builder.topology->n_links, by_print_rate(lldp->default_rate, text));
  return BANYAN_OK;
}

static const struct by_doc_limits limits = {.bytes = 64 << 20, .containers = 1 << 20, .elements = 4 << 20};

enum { MOST_REPORTS = 1 << 20 };

/* --- JSON --- */

/* An array of json0. */
static enum banyan_status check_array(const struct by_place *place, const json_t *value) {
  if (json_is_array(value)) return BANYAN_OK;
  return by_doc_fail(place, "must be an array, as `lldpcli -f json0` (not json) prints it");
}

/* In json0 everything stands in arrays: object[field] is one of objects, of which *out is the first; NULL: none. */
static enum banyan_status take_first(const struct by_place *place, const json_t *object, const char *field,
                                     json_t **out) {
  const json_t *array = json_object_get(object, field);
  struct by_place here = {.above = place, .field = field};
  *out = NULL;
  if (!array) return BANYAN_OK;
  BY_TRY(check_array(&here, array));
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

static enum banyan_status add_machine(struct lldp *lldp, const char *text, uint32_t *out) {
  char name[BY_TOPOLOGY_MOST_NAME + 1];
  by_keep_printable(text, name, sizeof name);
  *out = by_topology_builder_find(&lldp->names, name);
  if (*out != UINT32_MAX) return BANYAN_OK;
  if (!BY_ARRAY_GROW(&lldp->machines, &lldp->machine_room, lldp->names.topology->n_nodes + 1))
    return by_topology_no_memory();
  BY_TRY(by_topology_builder_add(&lldp->names, BY_NODE_HOST, name, out));
  lldp->machines[*out] = (struct lldp_machine){0};
  return BANYAN_OK;
}

static enum banyan_status take_capabilities(const struct by_place *place, const json_t *chassis,
                                            struct lldp_machine *machine) {
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

/* A chassis is known by its name, or by its id where it reports none. */
static enum banyan_status take_chassis(struct lldp *lldp, const struct by_place *place, const json_t *object,
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
 * means Gbit/s. NAN: none of these. */
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

/* --- reports --- */

static enum banyan_status keep_text(struct lldp *lldp, const char *text, const char **out) {
  char kept[BY_TOPOLOGY_MOST_NAME + 1];
  by_keep_printable(text, kept, sizeof kept);
  return by_topology_builder_keep(&lldp->names, kept, out);
}

static enum banyan_status take_port(struct lldp *lldp, const struct by_place *place, const json_t *interface,
                                    struct lldp_report *out) {
  struct by_place here = {.above = place, .field = "port"}, of_rate = {.above = &here, .field = "auto-negotiation"};
  const char *id = "", *text = "", *current = "";
  json_t *port, *negotiation = NULL;
  BY_TRY(take_first(place, interface, "port", &port));
  if (port) {
    BY_TRY(take_value(&here, port, "id", &id));
    BY_TRY(take_value(&here, port, "descr", &text));
    BY_TRY(take_first(&here, port, "auto-negotiation", &negotiation));
  }
  if (negotiation) BY_TRY(take_value(&of_rate, negotiation, "current", &current));
  out->rate = rate_of(current);
  BY_TRY(keep_text(lldp, id, &out->far_id));
  return keep_text(lldp, text, &out->far_text);
}

/* One neighbor that `from` receives on one of its interfaces. */
static enum banyan_status take_interface(struct lldp *lldp, const struct by_place *place, const json_t *interface,
                                         uint32_t from) {
  struct lldp_report report = {.from = from, .rate = NAN, .partner = UINT32_MAX};
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
  if (report.from == report.to) return BANYAN_OK;
  if (lldp->n_reports == MOST_REPORTS) return by_doc_fail(place, "more than %d neighbors in all", MOST_REPORTS);
  if (!BY_ARRAY_GROW(&lldp->reports, &lldp->report_room, lldp->n_reports + 1)) return by_topology_no_memory();
  lldp->reports[lldp->n_reports++] = report;
  return BANYAN_OK;
}

/* --- documents --- */

/* The neighbors that `host` received. */
static enum banyan_status take_neighbors(struct lldp *lldp, const struct by_place *place, const json_t *list,
                                         uint32_t host) {
  struct by_place here = {.above = place, .field = "lldp"};
  json_t *one, *interfaces, *interface;
  size_t i, j;
  BY_TRY(check_array(&here, list));
  lldp->machines[host].reports = true;
  json_array_foreach(list, i, one) {
    struct by_place at = {.above = &here, .index = i};
    if (!json_is_object(one)) return by_doc_fail(&at, "must be an object");
    struct by_place there = {.above = &at, .field = "interface"};
    if (!(interfaces = json_object_get(one, "interface"))) continue;
    BY_TRY(check_array(&there, interfaces));
    json_array_foreach(interfaces, j, interface) {
      BY_TRY(take_interface(lldp, &(struct by_place){.above = &there, .index = j}, interface, host));
    }
  }
  return BANYAN_OK;
}

/* "spine1" of "/tmp/lldp/spine1.json" */
static enum banyan_status add_host_of_file(struct lldp *lldp, const char *source, uint32_t *out) {
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

/* {"local-chassis": ...} names the machine whose neighbors follow, {"lldp": ...} holds them. *host is UINT32_MAX as
 * long as it is not known. */
static enum banyan_status take_document(struct lldp *lldp, const struct by_place *place, const json_t *document,
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
static enum banyan_status take_hosts(struct lldp *lldp, const struct by_place *place, json_t *document) {
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

static enum banyan_status take_file(struct lldp *lldp, const struct by_lldp_file *file) {
  struct by_place place = {.field = file->source};
  uint32_t host = UINT32_MAX;
  for (size_t at = 0; at < file->length || at == 0;) {
    json_t *document;
    BY_TRY(by_doc_load_next(file->source, file->text, file->length, &limits, &at, &document));
    bool of_one_host = !json_is_object(document) || json_object_size(document) == 0 ||
                       json_object_get(document, "lldp") || json_object_get(document, "local-chassis");
    enum banyan_status status =
        of_one_host ? take_document(lldp, &place, document, file->source, &host) : take_hosts(lldp, &place, document);
    json_decref(document);
    BY_TRY(status);
  }
  return BANYAN_OK;
}

static enum banyan_status read_files(struct lldp *lldp, const struct by_lldp_file *files, size_t n,
                                     struct by_topology **out) {
  for (size_t i = 0; i < n; i++) BY_TRY(take_file(lldp, &files[i]));
  if (lldp->n_reports == 0)
    return by_fail(BANYAN_ERR_PARSE,
                   "%s%s: no machine there received a neighbor; run `lldpcli -f json0 show neighbors details`",
                   n ? files[0].source : "no file", n > 1 ? " and the others" : "");
  struct making making = {.lldp = lldp};
  if (lldp->hosts && strlen(lldp->hosts) >= MOST_PATTERNS_TEXT)
    return by_fail(BANYAN_ERR_ARGUMENT, "the patterns of hosts are longer than %d bytes", MOST_PATTERNS_TEXT);
  BY_TRY(join_names(lldp));
  find_cables(lldp);
  BY_TRY(by_topology_builder_init(&making.builder, ""));
  enum banyan_status status = by_topology_builder_end(&making.builder, fill(&making), NULL, out);
  if (status == BANYAN_ERR_TOPOLOGY)
    return by_fail_within(status, "%s%s", files[0].source, n > 1 ? " and the others" : "");
  return status;
}

enum banyan_status by_topology_parse_lldp(const struct by_lldp_file *files, size_t n, const char *options,
                                          struct by_topology **out) {
  static const char *const names[] = {"rate", "hosts"};
  struct lldp lldp = {.default_rate = 1e9};
  struct by_options given;
  BY_TRY(by_options_take(&given, options, names));
  BY_TRY(by_options_rate(given.values[0], &lldp.default_rate));
  lldp.hosts = given.values[1];
  BY_TRY(by_topology_builder_init(&lldp.names, ""));
  enum banyan_status status = read_files(&lldp, files, n, out);
  by_topology_builder_fini(&lldp.names);
  free(lldp.machines);
  free(lldp.reports);
  return status;
}
