/* Finds the machines that LLDP mentions. Names are compared in lower case. Three tables map a chassis id, a name, and a
 * name's first label to a machine or to the fact that there are several. */
#define HASH_NONFATAL_OOM 1
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "lldp_parts.h"
#include "log.h"
#include "text.h"
#include "topology_reader.h"

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

enum banyan_status by_lldp_find_machines(struct by_lldp_network *network) {
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
