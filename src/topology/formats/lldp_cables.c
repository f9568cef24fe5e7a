/* Makes cables from LLDP reports. A cable between two machines that both report is reported twice. The two reports are
 * matched by the names of ports: each end knows its own name, and the name that the other end announces. Then every
 * report joins two ports. Joined ports are the ends of one cable, or, if there are more than two, ports at a switch
 * that does not speak LLDP. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lldp_parts.h"
#include "log.h"
#include "text.h"
#include "topology.h"
#include "topology_reader.h"

static const uint32_t nobody = UINT32_MAX;

enum { MAX_PATTERNS_TEXT = 1024 };

/* --- Matching the reports of one cable. --- */

/* Orders reports by the two machines, then by the reporting one, then by port. */
static int compare_reports(const void *a, const void *b) {
  const struct by_lldp_report *first = a, *second = b;
  int order = by_order_ends(first->from, first->to, second->from, second->to);
  if (!order) order = BY_ORDER(first->from, second->from);
  return order ? order : strcmp(first->port, second->port);
}

/* Removes duplicates: a port may receive the same neighbor in several protocols. */
static void drop_repeats(struct by_lldp_network *network) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < network->n_reports; i++) {
    struct by_lldp_report *report = &network->reports[i], *before = kept ? &network->reports[kept - 1] : NULL;
    if (before && compare_reports(before, report) == 0) {
      if (isnan(before->rate)) before->rate = report->rate;
    } else {
      network->reports[kept++] = *report;
    }
  }
  network->n_reports = kept;
}

static int compare_port(const void *port, const void *report) {
  return strcmp(port, ((const struct by_lldp_report *)report)->port);
}

/* Searches the reports of one machine about another, sorted by port; NULL: there is no unmatched report of that port.
 */
static struct by_lldp_report *find_port(struct by_lldp_report *reports, uint32_t n, const char *port) {
  struct by_lldp_report *found = bsearch(port, reports, n, sizeof *reports, compare_port);
  return found && found->partner == nobody ? found : NULL;
}

static void become_partners(struct by_lldp_network *network, struct by_lldp_report *one, struct by_lldp_report *other) {
  one->partner = (uint32_t)(other - network->reports);
  other->partner = (uint32_t)(one - network->reports);
}

/* Matches reports by what `ours` state about the ports of `theirs`. */
static void match_ports(struct by_lldp_network *network, struct by_lldp_report *ours, uint32_t n_ours,
                        struct by_lldp_report *theirs, uint32_t n_theirs) {
  for (uint32_t i = 0; i < n_ours; i++) {
    if (ours[i].partner != nobody) continue;
    struct by_lldp_report *other = find_port(theirs, n_theirs, ours[i].far_id);
    if (!other) other = find_port(theirs, n_theirs, ours[i].far_text);
    if (other) become_partners(network, &ours[i], other);
  }
}

/* Matches the remaining reports in order, since every cable has two ends that report it. */
static void match_rest(struct by_lldp_network *network, struct by_lldp_report *ours, uint32_t n_ours,
                       struct by_lldp_report *theirs, uint32_t n_theirs) {
  uint32_t i = 0, j = 0;
  for (;;) {
    while (i < n_ours && ours[i].partner != nobody) i++;
    while (j < n_theirs && theirs[j].partner != nobody) j++;
    if (i == n_ours || j == n_theirs) return;
    become_partners(network, &ours[i], &theirs[j]);
  }
}

static void match_reports(struct by_lldp_network *network) {
  qsort(network->reports, network->n_reports, sizeof *network->reports, compare_reports);
  drop_repeats(network);
  for (uint32_t from = 0, to; from < network->n_reports; from = to) {
    struct by_lldp_report *first = &network->reports[from];
    uint32_t ours = 0;
    for (to = from; to < network->n_reports; to++) {
      const struct by_lldp_report *report = &network->reports[to];
      if (by_order_ends(report->from, report->to, first->from, first->to) != 0) break;
      ours += report->from == first->from;
    }
    struct by_lldp_report *theirs = first + ours;
    uint32_t n_theirs = to - from - ours;
    match_ports(network, first, ours, theirs, n_theirs);
    match_ports(network, theirs, n_theirs, first, ours);
    match_rest(network, first, ours, theirs, n_theirs);
  }
}

/* --- Ports. --- */

struct port {
  uint32_t machine;
  const char *name;
  uint32_t report;     /* for a port without a name: its report + 1, which distinguishes it; else 0 */
  double rate;         /* the lowest rate that others report of it; NAN: not known */
  bool leads_to_plain; /* It leads to a machine that does not forward. */
  uint32_t next;       /* the next port of the same cable or switch, in a circular list */
};

struct making {
  struct by_lldp_network *network;
  struct by_topology_builder *builder;
  struct port *ports;
  uint32_t n_ports;
  uint32_t *ends[2]; /* for each report: the port that received, and the port that sent */
  uint32_t *above;   /* for each port: the parent in the disjoint sets of joined ports */
  bool *made;        /* for each leader: its cables are made */
  uint32_t *numbers; /* the number of each machine in the topology; nobody: not in it */
  bool *switches;    /* for each machine: it is a switch */
  uint32_t n_guessed, n_hidden,
      last_number; /* cables of assumed rate; hidden switches; the number in the last one's name */
};

static int compare_ports(const void *a, const void *b) {
  const struct port *first = a, *second = b;
  int order = BY_ORDER(first->machine, second->machine);
  if (!order) order = strcmp(first->name, second->name);
  return order ? order : BY_ORDER(first->report, second->report);
}

static uint32_t find_end(const struct making *making, uint32_t n, uint32_t machine, const char *name, uint32_t report) {
  struct port wanted = {.machine = machine, .name = name, .report = report};
  const struct port *found = bsearch(&wanted, making->ports, n, sizeof wanted, compare_ports);
  return found ? (uint32_t)(found - making->ports) : nobody;
}

static void sort_ports(struct making *making) {
  uint32_t kept = 0;
  qsort(making->ports, making->n_ports, sizeof *making->ports, compare_ports);
  for (uint32_t i = 0; i < making->n_ports; i++)
    if (!kept || compare_ports(&making->ports[kept - 1], &making->ports[i]) != 0)
      making->ports[kept++] = making->ports[i];
  making->n_ports = kept;
}

/* Returns the port that sent the announcement of a report, with the name that the sender's own reports use, if known.
 */
static struct port get_sender(const struct making *making, uint32_t n_own, uint32_t i) {
  const struct by_lldp_report *report = &making->network->reports[i];
  const char *name = *report->far_id ? report->far_id : report->far_text;
  if (report->partner != nobody)
    name = making->network->reports[report->partner].port;
  else if (find_end(making, n_own, report->to, report->far_id, 0) == nobody &&
           find_end(making, n_own, report->to, report->far_text, 0) != nobody)
    name = report->far_text;
  return (struct port){.machine = report->to, .name = name, .report = *name ? 0 : i + 1, .rate = NAN};
}

static enum banyan_status list_ports(struct making *making) {
  const struct by_lldp_network *network = making->network;
  struct by_arena *arena = &making->network->arena;
  uint32_t n = network->n_reports;
  making->ports = BY_ARENA_ARRAY(arena, struct port, 2 * (size_t)n);
  struct port *senders = BY_ARENA_ARRAY(arena, struct port, n);
  for (int end = 0; end < 2; end++) making->ends[end] = BY_ARENA_ARRAY(arena, uint32_t, n);
  if (arena->failed) return by_topology_no_memory();
  for (uint32_t i = 0; i < n; i++)
    making->ports[i] =
        (struct port){.machine = network->reports[i].from, .name = network->reports[i].port, .rate = NAN};
  making->n_ports = n;
  sort_ports(making);
  for (uint32_t i = 0; i < n; i++) senders[i] = get_sender(making, making->n_ports, i);
  memcpy(making->ports + making->n_ports, senders, n * sizeof *senders);
  making->n_ports += n;
  sort_ports(making);
  for (uint32_t i = 0; i < n; i++) {
    making->ends[0][i] = find_end(making, making->n_ports, network->reports[i].from, network->reports[i].port, 0);
    making->ends[1][i] = find_end(making, making->n_ports, senders[i].machine, senders[i].name, senders[i].report);
  }
  return BANYAN_OK;
}

static bool is_plain(const struct by_lldp_machine *machine) {
  return machine->described && !machine->bridges;
}

static enum banyan_status join_ports(struct making *making) {
  const struct by_lldp_network *network = making->network;
  making->above = BY_ARENA_ARRAY(&making->network->arena, uint32_t, making->n_ports);
  making->made = BY_ARENA_ARRAY(&making->network->arena, bool, making->n_ports);
  if (network->arena.failed) return by_topology_no_memory();
  for (uint32_t p = 0; p < making->n_ports; p++) making->above[p] = making->ports[p].next = p;
  for (uint32_t i = 0; i < network->n_reports; i++) {
    struct port *near = &making->ports[making->ends[0][i]], *far = &making->ports[making->ends[1][i]];
    near->leads_to_plain |= is_plain(&network->machines[network->reports[i].to]);
    far->leads_to_plain |= is_plain(&network->machines[network->reports[i].from]);
    far->rate = fmin(far->rate, network->reports[i].rate); /* fmin ignores NAN. */
    uint32_t a = by_find_leader(making->above, making->ends[0][i]),
             b = by_find_leader(making->above, making->ends[1][i]);
    if (a == b) continue;
    making->above[MAX(a, b)] = MIN(a, b);
    uint32_t next = near->next; /* Exchanging one link of each merges two circular lists. */
    near->next = far->next;
    far->next = next;
  }
  return BANYAN_OK;
}

/* --- Machines. --- */

static bool is_wanted(const char *patterns, const char *name) {
  char copy[MAX_PATTERNS_TEXT], *kept = NULL;
  strcpy(copy, patterns);
  for (char *word = strtok_r(copy, ",+ ", &kept); word; word = strtok_r(NULL, ",+ ", &kept))
    if (fnmatch(word, name, 0) == 0) return true;
  return false;
}

/* Decides whether a machine is a switch. Among machines that report, hosts with containers claim to bridge, too, but
 * only a switch receives several plain hosts. A machine that does not report is more likely a switch, since people
 * collect from hosts. */
static bool is_switch(const struct by_lldp_network *network, uint32_t number, uint32_t plain_ports) {
  const struct by_lldp_machine *machine = &network->machines[number];
  if (network->hosts && *network->hosts)
    return !is_wanted(network->hosts, *machine->name ? machine->name : machine->shown);
  return machine->reports ? machine->bridges && plain_ports > 1 : !is_plain(machine);
}

static enum banyan_status find_switches(struct making *making) {
  struct by_lldp_network *network = making->network;
  uint32_t n = network->n_machines, *plain_ports = BY_ARENA_ARRAY(&network->arena, uint32_t, n);
  making->switches = BY_ARENA_ARRAY(&network->arena, bool, n);
  making->numbers = BY_ARENA_ARRAY(&network->arena, uint32_t, n);
  if (network->arena.failed) return by_topology_no_memory();
  for (uint32_t p = 0; p < making->n_ports; p++) {
    plain_ports[making->ports[p].machine] += making->ports[p].leads_to_plain;
    making->numbers[making->ports[p].machine] = 1;
  }
  for (uint32_t i = 0; i < n; i++) {
    making->switches[i] = is_switch(network, i, plain_ports[i]);
    if (!making->numbers[i]) making->numbers[i] = nobody;
  }
  return BANYAN_OK;
}

/* Adds the machines that have cables. Hosts that report take part; if only switches report, all hosts take part. */
static enum banyan_status add_machines(struct making *making) {
  const struct by_lldp_network *network = making->network;
  bool some_report = false;
  for (uint32_t i = 0; i < network->n_machines; i++)
    some_report = some_report || (network->machines[i].reports && !making->switches[i]);
  for (uint32_t i = 0; i < network->n_machines; i++) {
    const struct by_lldp_machine *machine = &network->machines[i];
    if (making->numbers[i] == nobody) continue;
    BY_TRY(by_topology_builder_add(making->builder, making->switches[i] ? BY_NODE_SWITCH : BY_NODE_HOST, machine->shown,
                                   &making->numbers[i]));
    struct by_node *node = by_topology_builder_node(making->builder, making->numbers[i]);
    node->takes_part = !making->switches[i] && !machine->a_phone && (machine->reports || !some_report);
  }
  return BANYAN_OK;
}

/* --- Cables. --- */

static enum banyan_status add_cable(struct making *making, const struct port *near, uint32_t far, const char *far_name,
                                    double rate) {
  struct by_link *link;
  const char *names[2];
  making->n_guessed += isnan(rate);
  BY_TRY(by_topology_builder_keep(making->builder, near->name, &names[0]));
  BY_TRY(by_topology_builder_keep(making->builder, far_name, &names[1]));
  BY_TRY(by_topology_builder_add_link(making->builder, making->numbers[near->machine], far,
                                      isnan(rate) ? making->network->default_rate : rate, 0, &link));
  memcpy(link->port, names, sizeof names);
  return BANYAN_OK;
}

/* Adds a switch to which all ports of a circular list lead. A port of unknown rate is as fast as the fastest of them.
 */
static enum banyan_status add_hidden_switch(struct making *making, const struct port *first) {
  char name[BY_TOPOLOGY_MAX_NAME + 1];
  double fastest = NAN;
  uint32_t node;
  do snprintf(name, sizeof name, "unknown-switch-%u", ++making->last_number);
  while (by_topology_builder_find(making->builder, name) != UINT32_MAX);
  BY_TRY(by_topology_builder_add(making->builder, BY_NODE_SWITCH, name, &node));
  const struct port *port = first;
  do {
    fastest = fmax(fastest, port->rate);
    port = &making->ports[port->next];
  } while (port != first);
  do {
    BY_TRY(add_cable(making, port, node, "", isnan(port->rate) ? fastest : port->rate));
    port = &making->ports[port->next];
  } while (port != first);
  if (making->n_hidden++ == 0)
    by_warn("topology",
            "%s of %s is joined to several ports: a switch that does not speak LLDP is assumed there, and named %s",
            first->name, making->network->machines[first->machine].shown, name);
  return BANYAN_OK;
}

static enum banyan_status add_all(struct making *making) {
  for (uint32_t i = 0; i < making->network->n_reports; i++) {
    const struct port *near = &making->ports[making->ends[0][i]], *far = &making->ports[making->ends[1][i]];
    uint32_t leader = by_find_leader(making->above, making->ends[0][i]);
    if (making->made[leader]) continue;
    making->made[leader] = true;
    if (making->ports[near->next].next == making->ends[0][i])
      BY_TRY(add_cable(making, near, making->numbers[far->machine], far->name, fmin(near->rate, far->rate)));
    else
      BY_TRY(add_hidden_switch(making, near));
  }
  char text[32];
  if (making->n_hidden > 1) by_warn("topology", "%u such switches are assumed in all", making->n_hidden);
  if (making->n_guessed)
    by_warn("topology", "no end reports the speed of %u of %u links; taken as %s", making->n_guessed,
            making->builder->topology->n_links, by_print_rate(making->network->default_rate, text));
  return BANYAN_OK;
}

enum banyan_status by_lldp_add_cables(struct by_lldp_network *network, struct by_topology_builder *builder) {
  struct making making = {.network = network, .builder = builder};
  if (network->hosts && strlen(network->hosts) >= MAX_PATTERNS_TEXT)
    return by_fail(BANYAN_ERR_ARGUMENT, "the patterns of hosts are longer than %d bytes", MAX_PATTERNS_TEXT);
  match_reports(network);
  BY_TRY(list_ports(&making));
  BY_TRY(join_ports(&making));
  BY_TRY(find_switches(&making));
  BY_TRY(add_machines(&making));
  return add_all(&making);
}
