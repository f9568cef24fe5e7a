/* Reads LLDP's JSON into machines and reports of one about another, from which the topology is made. */
#define HASH_NONFATAL_OOM 1
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "json_doc.h"
#include "lldp_parts.h"
#include "log.h"
#include "text.h"
#include "topology_formats.h"
#include "topology_reader.h"

/* --- Machines. --- */

/* Names are compared in lower case. Three tables map a chassis id, a name, and a name's first label to a machine or to
 * the fact that there are several. */

static const uint32_t nobody = UINT32_MAX, several = UINT32_MAX - 1;

struct entry {
  const char *key;
  uint32_t machine, other; /* if `machine` is `several`, `other` is the first of them */
  UT_hash_handle hh;
};

struct tables {
  struct by_lldp_network *network;
  struct entry *ids, *names, *labels;
  uint32_t n_shared, n_renamed; /* Only the first of such names is reported, so that a file cannot fill a log. */
};

static const char *fold_case(struct by_lldp_network *network, const char *text, size_t length) {
  char *out = BY_ARENA_ARRAY(&network->arena, char, length + 1);
  for (size_t i = 0; out && i < length; i++) out[i] = (char)tolower((unsigned char)text[i]);
  if (out) out[length] = '\0';
  return out ? out : "";
}

static struct entry *find_entry(struct entry *table, const char *key) {
  struct entry *found;
  HASH_FIND_STR(table, key, found);
  return found;
}

static uint32_t find_machine(struct entry *table, const char *key) {
  const struct entry *found = find_entry(table, key);
  return found ? found->machine : nobody;
}

/* Enters a key. Returns false if this machine has made the key ambiguous. */
static bool enter_key(struct tables *tables, struct entry **table, const char *key, uint32_t machine) {
  struct entry *entry = find_entry(*table, key);
  if (entry && entry->machine != machine) {
    bool is_new = entry->machine != several;
    entry->machine = several;
    return !is_new;
  }
  if (entry || !(entry = BY_ARENA_ARRAY(&tables->network->arena, struct entry, 1))) return true;
  *entry = (struct entry){.key = key, .machine = machine, .other = machine};
  HASH_ADD_KEYPTR(hh, *table, entry->key, strlen(entry->key), entry);
  return true;
}

/* --- Machines. --- */

static void enter_name(struct tables *tables, uint32_t number) {
  struct by_lldp_machine *machine = &tables->network->machines[number];
  const char *name = fold_case(tables->network, machine->name, strlen(machine->name));
  if (!*name) return;
  if (!enter_key(tables, &tables->names, name, number) && !tables->n_shared++) {
    const struct by_lldp_machine *other = &tables->network->machines[find_entry(tables->names, name)->other];
    by_warn("topology",
            "the machines named \"%s\" have different chassis ids, %s in %s and %s in %s: taken as different machines",
            machine->name, other->id, other->first->source, machine->id, machine->first->source);
  }
  (void)enter_key(tables, &tables->labels, fold_case(tables->network, name, strcspn(name, ".")), number);
}

static enum banyan_status add_machine(struct tables *tables, const struct by_lldp_mention *mention, uint32_t *out) {
  struct by_lldp_network *network = tables->network;
  if (!BY_ARRAY_GROW(&network->machines, &network->allocated_machine, network->n_machines + 1))
    return by_topology_no_memory();
  *out = network->n_machines++;
  network->machines[*out] = (struct by_lldp_machine){.first = mention, .id = mention->id, .name = mention->name};
  return BANYAN_OK;
}

static enum banyan_status take_id(struct tables *tables, struct by_lldp_mention *mention) {
  const char *id = fold_case(tables->network, mention->id, strlen(mention->id));
  mention->machine = find_machine(tables->ids, id);
  if (mention->machine == nobody) {
    BY_TRY(add_machine(tables, mention, &mention->machine));
    (void)enter_key(tables, &tables->ids, id, mention->machine);
    return BANYAN_OK;
  }
  struct by_lldp_machine *machine = &tables->network->machines[mention->machine];
  if (!*machine->name)
    machine->name = mention->name;
  else if (*mention->name && !by_host_names_agree(machine->name, mention->name) && !tables->n_renamed++)
    by_warn("topology", "the chassis %s is named \"%s\" in %s and \"%s\" in %s: taken as one machine", machine->id,
            machine->name, machine->first->source, mention->name, mention->source);
  return BANYAN_OK;
}

/* Finds a machine by its name. A full name also matches a machine with only a short name, and vice versa. */
static const struct entry *find_name(struct tables *tables, const char *text) {
  const char *name = fold_case(tables->network, text, strlen(text));
  size_t label = strcspn(name, ".");
  const struct entry *found = find_entry(tables->names, name);
  if (found) return found;
  return name[label] ? find_entry(tables->names, fold_case(tables->network, name, label))
                     : find_entry(tables->labels, name);
}

static enum banyan_status fail_ambiguous(const struct tables *tables, const struct by_lldp_mention *mention,
                                         const struct entry *found) {
  const struct by_lldp_machine *first = &tables->network->machines[found->other];
  return by_fail(BANYAN_ERR_TOPOLOGY,
                 "%s: \"%s\" may be several machines, such as \"%s\" of %s, chassis id %s; put what `lldpcli -f json0 "
                 "show chassis` prints before the neighbors of each machine",
                 mention->source, mention->name, first->name, first->first->source, *first->id ? first->id : "unknown");
}

/* --- Machines of files that no mention names: they are identified by what others receive where their ports lead. ---
 */

static uint32_t get_reporter(const struct by_lldp_network *network, const struct by_lldp_report *report) {
  return network->mentions[report->from].machine;
}

static int compare_from(const void *a, const void *b, void *argument) {
  const struct by_lldp_network *network = argument;
  const struct by_lldp_report *first = a, *second = b;
  int order = BY_ORDER(get_reporter(network, first), get_reporter(network, second));
  if (!order && get_reporter(network, first) == nobody) order = BY_ORDER(first->from, second->from);
  return order ? order : strcmp(first->port, second->port);
}

/* Returns the only machine that `machine` receives on a port; `nobody`: none or several. */
static uint32_t find_received(const struct by_lldp_network *network, uint32_t machine, const char *port) {
  uint32_t low = 0, high = network->n_reports, found = nobody;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const struct by_lldp_report *report = &network->reports[middle];
    int order = BY_ORDER(get_reporter(network, report), machine);
    if (order < 0 || (order == 0 && strcmp(report->port, port) < 0))
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < network->n_reports && get_reporter(network, &network->reports[low]) == machine &&
         strcmp(network->reports[low].port, port) == 0;
       low++) {
    uint32_t to = network->mentions[network->reports[low].to].machine;
    if (found != nobody && found != to) return nobody;
    found = to;
  }
  return found;
}

/* Identifies the machine of one file by its reports `from` to `to`. */
static uint32_t find_by_ports(const struct by_lldp_network *network, uint32_t from, uint32_t to) {
  uint32_t found = nobody;
  for (uint32_t i = from; i < to; i++) {
    const struct by_lldp_report *report = &network->reports[i];
    uint32_t neighbor = network->mentions[report->to].machine, seen = nobody;
    if (neighbor != nobody) seen = find_received(network, neighbor, report->far_id);
    if (neighbor != nobody && seen == nobody) seen = find_received(network, neighbor, report->far_text);
    if (seen != nobody && found != nobody && seen != found) return nobody;
    if (seen != nobody) found = seen;
  }
  return found;
}

static void find_all_by_ports(struct by_lldp_network *network) {
  if (!network->n_reports) return;
  qsort_r(network->reports, network->n_reports, sizeof *network->reports, compare_from, network);
  uint32_t from = network->n_reports, *found = BY_ARENA_ARRAY(&network->arena, uint32_t, network->n_mentions);
  for (uint32_t i = 0; found && i < network->n_mentions; i++) found[i] = nobody;
  while (from > 0 && get_reporter(network, &network->reports[from - 1]) == nobody) from--;
  for (uint32_t to; found && from < network->n_reports; from = to) {
    uint32_t mention = network->reports[from].from;
    for (to = from; to < network->n_reports && network->reports[to].from == mention;) to++;
    found[mention] = find_by_ports(network, from, to);
  }
  for (uint32_t i = 0; found && i < network->n_mentions; i++)
    if (network->mentions[i].machine == nobody) network->mentions[i].machine = found[i];
}

/* --- All mentions. --- */

/* Assigns mentions without an id to machines by name. Long names come first, so that short ones find them; names of
 * files come last, since people have chosen them. */
static enum banyan_status take_names(struct tables *tables, bool by_file, bool may_add) {
  struct by_lldp_network *network = tables->network;
  for (int is_short = 0; is_short < 2; is_short++)
    for (uint32_t i = 0; i < network->n_mentions; i++) {
      struct by_lldp_mention *mention = &network->mentions[i];
      if (mention->machine != nobody || *mention->id || mention->by_file != by_file ||
          (strchr(mention->name, '.') == NULL) != (is_short == 1))
        continue;
      const struct entry *found = find_name(tables, mention->name);
      if (found && found->machine == several) {
        if (may_add) return fail_ambiguous(tables, mention, found);
      } else if (found) {
        mention->machine = found->machine;
      } else if (may_add) {
        BY_TRY(add_machine(tables, mention, &mention->machine));
        enter_name(tables, mention->machine);
      }
    }
  return BANYAN_OK;
}

static enum banyan_status take_mentions(struct tables *tables) {
  struct by_lldp_network *network = tables->network;
  for (uint32_t i = 0; i < network->n_mentions; i++) {
    network->mentions[i].machine = nobody;
    if (*network->mentions[i].id) BY_TRY(take_id(tables, &network->mentions[i]));
  }
  for (uint32_t i = 0; i < network->n_machines; i++) enter_name(tables, i);
  BY_TRY(take_names(tables, false, true));
  BY_TRY(take_names(tables, true, false));
  find_all_by_ports(network);
  return take_names(tables, true, true);
}

/* Numbers machines in the order of their first mentions. */
static enum banyan_status sort_machines(struct by_lldp_network *network) {
  uint32_t *numbers = BY_ARENA_ARRAY(&network->arena, uint32_t, network->n_machines), n = 0;
  struct by_lldp_machine *before = BY_ARENA_ARRAY(&network->arena, struct by_lldp_machine, network->n_machines);
  if (network->arena.failed) return by_topology_no_memory();
  if (network->n_machines) memcpy(before, network->machines, network->n_machines * sizeof *before);
  for (uint32_t i = 0; i < network->n_machines; i++) before[i].first = NULL;
  for (uint32_t i = 0; i < network->n_mentions; i++) {
    struct by_lldp_mention *mention = &network->mentions[i];
    struct by_lldp_machine *machine = &before[mention->machine];
    if (!machine->first) numbers[mention->machine] = n++;
    if (!machine->first) machine->first = mention;
    machine->reports |= mention->reports;
    machine->described |= mention->described;
    machine->bridges |= mention->bridges;
    machine->a_phone |= mention->a_phone;
    mention->machine = numbers[mention->machine];
  }
  for (uint32_t i = 0; i < network->n_machines; i++) network->machines[numbers[i]] = before[i];
  return BANYAN_OK;
}

/* Gives every machine a unique name: the chassis id is added to names that several machines share. */
static enum banyan_status name_machines(struct tables *tables) {
  struct by_lldp_network *network = tables->network;
  for (uint32_t i = 0; i < network->n_machines; i++) {
    struct by_lldp_machine *machine = &network->machines[i];
    bool shared = *machine->name &&
                  find_machine(tables->names, fold_case(network, machine->name, strlen(machine->name))) == several;
    char shown[2 * BY_TOPOLOGY_MAX_NAME + 4];
    snprintf(shown, sizeof shown, shared ? "%s (%s)" : *machine->name ? "%s" : "%s%s", machine->name, machine->id);
    if (!(machine->shown = by_arena_string(&network->arena, shown))) return by_topology_no_memory();
  }
  return network->arena.failed ? by_topology_no_memory() : BANYAN_OK;
}

static void set_report_ends(struct by_lldp_network *network) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < network->n_reports; i++) {
    struct by_lldp_report report = network->reports[i];
    report.from = network->mentions[report.from].machine;
    report.to = network->mentions[report.to].machine;
    if (report.from != report.to) network->reports[kept++] = report;
  }
  network->n_reports = kept;
}

/* Finds out which mentions are of the same machine: those with the same chassis id; without an id, those whose names
 * agree in their first label, ignoring case; and for a file that names no machine, the machine that others receive
 * where the file's ports lead. After it, the ends of reports are machines. BANYAN_ERR_TOPOLOGY: a name may mean several
 * machines. */
static enum banyan_status find_machines(struct by_lldp_network *network) {
  struct tables tables = {.network = network};
  enum banyan_status status = take_mentions(&tables);
  if (status == BANYAN_OK) status = sort_machines(network);
  if (status == BANYAN_OK) status = name_machines(&tables);
  if (status == BANYAN_OK) set_report_ends(network);
  uint32_t more = tables.n_shared + tables.n_renamed - (tables.n_shared > 0) - (tables.n_renamed > 0);
  if (more) by_warn("topology", "%u more machines share names or have several", more);
  HASH_CLEAR(hh, tables.ids);
  HASH_CLEAR(hh, tables.names);
  HASH_CLEAR(hh, tables.labels);
  return status;
}

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
  BY_TRY(find_machines(network));
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
