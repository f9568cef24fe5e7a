/* Composes a topology from agents' reports, and compares it with one that people wrote. */
#include "manager_discovery.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology.h"
#include "topology_make.h"

static const double default_rate = 1e9; /* bit/s of a link whose rate is unknown. */

enum { TEXT = 640 };

/* An interface that is connected to a switch without an agent. */
struct claim {
  uint32_t node; /* Its node. */
  const struct by_discovered_interface *interface;
  bool shared;  /* Other interfaces claim the same port. */
  bool dropped; /* It is stale, and another interface claims the port. */
};

struct composing {
  const struct by_discovery_rules *rules;
  const struct by_discovered_node **nodes; /* Sorted; node i of the builder is nodes[i]. */
  uint32_t n;
  struct by_topology_builder builder;
  struct claim *claims;
  uint32_t n_claims, claims_capacity;
};

static void report_contradiction(const struct by_discovery_rules *rules, const char *format, ...) BY_PRINTF(2, 3);
static void report_contradiction(const struct by_discovery_rules *rules, const char *format, ...) {
  char text[TEXT];
  va_list arguments;
  if (!rules->contradiction) return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  rules->contradiction(rules->context, text);
}

/* ---- nodes */

static int compare_nodes(const void *a, const void *b) {
  const struct by_discovered_node *x = *(const struct by_discovered_node *const *)a,
                                  *y = *(const struct by_discovered_node *const *)b;
  return x->aggregates != y->aggregates ? x->aggregates - y->aggregates : strverscmp(x->name, y->name);
}

static enum banyan_status add_nodes(struct composing *c) {
  for (uint32_t i = 0; i < c->n; i++) {
    const struct by_discovered_node *node = c->nodes[i];
    uint32_t at;
    BY_TRY(by_topology_builder_add(&c->builder, node->aggregates ? BY_NODE_SWITCH : BY_NODE_HOST, node->name, &at));
    by_topology_builder_node(&c->builder, at)->aggregates = node->aggregates;
    if (node->aggregates) by_topology_builder_node(&c->builder, at)->memory = node->memory;
  }
  return BANYAN_OK;
}

/* ---- links */

static const struct by_discovered_interface *find_interface(const struct by_discovered_node *node, const char *name) {
  for (uint32_t i = 0; i < node->n_interfaces; i++)
    if (!strcmp(node->interfaces[i].name, name)) return &node->interfaces[i];
  return NULL;
}

static double min_rate(double a, double b) {
  double min = a > 0 && b > 0 ? fmin(a, b) : fmax(a, b);
  return min > 0 ? min : default_rate;
}

static enum banyan_status add_link(struct composing *c, uint32_t a, const char *port_a, uint32_t b, const char *port_b,
                                   double rate) {
  struct by_link *link;
  BY_TRY(by_topology_builder_add_link(&c->builder, a, b, rate, 0, &link));
  BY_TRY(by_topology_builder_keep(&c->builder, port_a, &link->port[0]));
  return by_topology_builder_keep(&c->builder, port_b, &link->port[1]);
}

/* Reports a contradiction between two agents. */
static void contradict_agent(const struct composing *c, const struct by_discovered_node *one,
                             const struct by_discovered_interface *here, const struct by_discovered_node *other,
                             const struct by_discovered_interface *there) {
  if (here->stale || (there && there->stale)) return; /* A stale report may be confirmed in a moment. */
  if (!there)
    report_contradiction(c->rules, "%.64s says that its %.32s leads to %.32s of %.64s, which has no such interface",
                         one->name, here->name, here->neighbour_port, other->name);
  else if (*there->neighbour)
    report_contradiction(
        c->rules, "%.64s says that its %.32s leads to %.32s of %.64s, which says that it leads to %.32s of %.64s",
        one->name, here->name, there->name, other->name, there->neighbour_port, there->neighbour);
  else
    report_contradiction(c->rules, "%.64s says that its %.32s leads to %.32s of %.64s, which hears nobody there",
                         one->name, here->name, there->name, other->name);
}

/* Joins two nodes with agents. The first of them adds the link. */
static enum banyan_status join_agents(struct composing *c, uint32_t a, const struct by_discovered_interface *here,
                                      uint32_t b) {
  const struct by_discovered_node *one = c->nodes[a], *other = c->nodes[b];
  const struct by_discovered_interface *there = find_interface(other, here->neighbour_port);
  bool agree = there && !strcmp(there->neighbour, one->name) && !strcmp(there->neighbour_port, here->name);
  if (a == b)
    report_contradiction(c->rules, "%.64s says that its %.32s leads to its own %.32s", one->name, here->name,
                         here->neighbour_port);
  else if (!agree)
    contradict_agent(c, one, here, other, there);
  else if (a < b)
    return add_link(c, a, here->name, b, there->name, min_rate(here->rate, there->rate));
  return BANYAN_OK;
}

static int compare_ports(const void *a, const void *b) {
  const struct claim *x = *(struct claim *const *)a, *y = *(struct claim *const *)b;
  int order = strcmp(x->interface->neighbour, y->interface->neighbour);
  if (!order) order = strcmp(x->interface->neighbour_port, y->interface->neighbour_port);
  if (!order) order = x->interface->stale - y->interface->stale;
  return order ? order : (x > y) - (x < y);
}

static bool is_same_port(const struct claim *a, const struct claim *b) {
  return !strcmp(a->interface->neighbour, b->interface->neighbour) &&
         !strcmp(a->interface->neighbour_port, b->interface->neighbour_port);
}

/* Interfaces that name the same port are at this switch, but their ports are unknown. */
static enum banyan_status compare_claims(struct composing *c) {
  struct claim **sorted = calloc((size_t)c->n_claims + 1, sizeof *sorted);
  if (!sorted) return by_topology_no_memory();
  for (uint32_t i = 0; i < c->n_claims; i++) sorted[i] = &c->claims[i];
  qsort(sorted, c->n_claims, sizeof *sorted, compare_ports);
  for (uint32_t i = 1, first = 0; i < c->n_claims; i++) {
    if (!is_same_port(sorted[first], sorted[i])) {
      first = i;
    } else if (sorted[i]->interface->stale) {
      sorted[i]->dropped = true;
    } else {
      sorted[first]->shared = sorted[i]->shared = true;
      report_contradiction(c->rules, "%.64s and %.64s both say that they are at port %.32s of %.64s",
                           c->nodes[sorted[first]->node]->name, c->nodes[sorted[i]->node]->name,
                           sorted[i]->interface->neighbour_port, sorted[i]->interface->neighbour);
    }
  }
  free(sorted);
  return BANYAN_OK;
}

static enum banyan_status list_claims(struct composing *c) {
  for (uint32_t a = 0; a < c->n; a++)
    for (uint32_t i = 0; i < c->nodes[a]->n_interfaces; i++) {
      const struct by_discovered_interface *here = &c->nodes[a]->interfaces[i];
      if (!*here->neighbour || by_topology_builder_find(&c->builder, here->neighbour) < c->n) continue;
      if (!BY_ARRAY_GROW(&c->claims, &c->claims_capacity, c->n_claims + 1)) return by_topology_no_memory();
      c->claims[c->n_claims++] = (struct claim){.node = a, .interface = here};
    }
  return compare_claims(c);
}

static enum banyan_status join_other(struct composing *c, const struct claim *claim) {
  const struct by_discovered_interface *interface = claim->interface;
  uint32_t node = by_topology_builder_find(&c->builder, interface->neighbour);
  if (claim->dropped) return BANYAN_OK;
  if (node == UINT32_MAX) BY_TRY(by_topology_builder_add(&c->builder, BY_NODE_SWITCH, interface->neighbour, &node));
  return add_link(c, claim->node, interface->name, node, claim->shared ? "" : interface->neighbour_port,
                  min_rate(interface->rate, 0));
}

static enum banyan_status add_links(struct composing *c) {
  uint32_t next = 0; /* Index of the claims, which are in the same order. */
  BY_TRY(list_claims(c));
  for (uint32_t a = 0; a < c->n; a++)
    for (uint32_t i = 0; i < c->nodes[a]->n_interfaces; i++) {
      const struct by_discovered_interface *here = &c->nodes[a]->interfaces[i];
      if (next < c->n_claims && c->claims[next].interface == here)
        BY_TRY(join_other(c, &c->claims[next++]));
      else if (*here->neighbour)
        BY_TRY(join_agents(c, a, here, by_topology_builder_find(&c->builder, here->neighbour)));
    }
  return BANYAN_OK;
}

/* ---- connected parts */

static bool *find_linked(const struct by_topology *t) {
  bool *linked = calloc((size_t)t->n_nodes + 1, sizeof *linked);
  for (uint32_t l = 0; linked && l < t->n_links; l++) linked[t->links[l].a] = linked[t->links[l].b] = true;
  return linked;
}

static bool is_silent(const struct by_discovered_node *node) {
  for (uint32_t i = 0; i < node->n_interfaces; i++)
    if (*node->interfaces[i].neighbour) return false;
  return !node->aggregates && node->n_interfaces;
}

/* Joins hosts without neighbours by one switch, at their first interface, which is the fastest. */
static enum banyan_status join_silent(struct composing *c) {
  uint32_t n = 0, network = UINT32_MAX;
  for (uint32_t a = 0; a < c->n; a++) n += is_silent(c->nodes[a]);
  if (!c->rules->assume_network || n < 2) return BANYAN_OK;
  if (by_topology_builder_find(&c->builder, BY_DISCOVERY_NETWORK) != UINT32_MAX)
    return BANYAN_OK; /* Another node has that name. */
  BY_TRY(by_topology_builder_add(&c->builder, BY_NODE_SWITCH, BY_DISCOVERY_NETWORK, &network));
  for (uint32_t a = 0; a < c->n; a++) {
    const struct by_discovered_interface *first = c->nodes[a]->interfaces;
    if (is_silent(c->nodes[a])) BY_TRY(add_link(c, a, first->name, network, "", min_rate(first->rate, 0)));
  }
  return BANYAN_OK;
}

/* Only the part of the network with the most hosts takes part, the first of equals. */
static enum banyan_status choose_largest_part(struct composing *c) {
  struct by_topology *t = c->builder.topology;
  uint32_t *above = calloc((size_t)t->n_nodes + 1, sizeof *above),
           *hosts = calloc((size_t)t->n_nodes + 1, sizeof *hosts);
  bool *linked = find_linked(t);
  uint32_t best = 0;
  for (uint32_t v = 0; above && v < t->n_nodes; v++) above[v] = v;
  for (uint32_t l = 0; above && l < t->n_links; l++) {
    uint32_t a = by_find_leader(above, t->links[l].a), b = by_find_leader(above, t->links[l].b);
    above[a > b ? a : b] = a > b ? b : a;
  }
  for (uint32_t v = 0; above && hosts && v < t->n_nodes; v++) {
    uint32_t leader = by_find_leader(above, v);
    hosts[leader] += t->nodes[v].kind == BY_NODE_HOST;
    if (hosts[leader] > hosts[best]) best = leader;
  }
  for (uint32_t v = 0; above && linked && hosts && v < t->n_nodes; v++) {
    if (t->nodes[v].kind != BY_NODE_HOST || by_find_leader(above, v) == by_find_leader(above, best)) continue;
    t->nodes[v].takes_part = false;
    if (linked[v])
      report_contradiction(c->rules, "%.64s does not reach %.64s over any link that both ends agree on",
                           t->nodes[v].name, t->nodes[by_find_leader(above, best)].name);
  }
  bool ok = above && hosts && linked;
  free(above);
  free(hosts);
  free(linked);
  return ok ? BANYAN_OK : by_topology_no_memory();
}

/* ---- all of it */

static enum banyan_status compose(struct composing *c) {
  BY_TRY(add_nodes(c));
  BY_TRY(add_links(c));
  BY_TRY(join_silent(c));
  return choose_largest_part(c);
}

enum banyan_status by_discovery_compose(const struct by_discovered_node *nodes, uint32_t n,
                                        const struct by_discovery_rules *rules, struct by_topology **out) {
  struct composing c = {.rules = rules, .n = n, .nodes = calloc((size_t)n + 1, sizeof *c.nodes)};
  *out = NULL;
  if (!c.nodes) return by_topology_no_memory();
  for (uint32_t i = 0; i < n; i++) c.nodes[i] = &nodes[i];
  qsort(c.nodes, n, sizeof *c.nodes, compare_nodes);
  enum banyan_status status = by_topology_builder_init(&c.builder, "discovered");
  if (status == BANYAN_OK) status = by_topology_builder_end(&c.builder, compose(&c), "what agents report", out);
  free(c.nodes);
  free(c.claims);
  return status;
}

/* ---- comparing */

static bool is_same_node(const struct by_node *a, const struct by_node *b) {
  return !strcmp(a->name, b->name) && a->kind == b->kind && a->takes_part == b->takes_part &&
         a->aggregates == b->aggregates && a->memory == b->memory;
}

static bool is_same_link(const struct by_link *a, const struct by_link *b) {
  return a->a == b->a && a->b == b->b && !strcmp(a->port[0], b->port[0]) && !strcmp(a->port[1], b->port[1]);
}

bool by_discovery_is_same(const struct by_topology *a, const struct by_topology *b) {
  bool same = a->n_nodes == b->n_nodes && a->n_links == b->n_links;
  for (uint32_t v = 0; same && v < a->n_nodes; v++) same = is_same_node(&a->nodes[v], &b->nodes[v]);
  for (uint32_t l = 0; same && l < a->n_links; l++) same = is_same_link(&a->links[l], &b->links[l]);
  return same;
}

/* A port that the written topology does not name matches any. */
static bool is_port(const char *written, const char *composed) {
  return !*written || !*composed || !strcmp(written, composed);
}

static bool has_link(const struct by_topology *written, uint32_t a, uint32_t b, const char *const ports[2]) {
  for (uint32_t l = 0; l < written->n_links; l++) {
    const struct by_link *link = &written->links[l];
    if (link->a == a && link->b == b && is_port(link->port[0], ports[0]) && is_port(link->port[1], ports[1]))
      return true;
    if (link->a == b && link->b == a && is_port(link->port[0], ports[1]) && is_port(link->port[1], ports[0]))
      return true;
  }
  return false;
}

static uint32_t compare_links(const struct by_topology *written, const struct by_topology *composed,
                              const struct by_discovery_rules *rules) {
  uint32_t n = 0;
  for (uint32_t l = 0; l < composed->n_links; l++) {
    const struct by_link *link = &composed->links[l];
    const char *a = composed->nodes[link->a].name, *b = composed->nodes[link->b].name;
    uint32_t at_a = by_topology_find(written, a), at_b = by_topology_find(written, b);
    if (at_a == UINT32_MAX || at_b == UINT32_MAX || has_link(written, at_a, at_b, link->port)) continue;
    report_contradiction(rules, "%.32s of %.64s leads to %.32s of %.64s, which is no link of the topology",
                         link->port[0], a, *link->port[1] ? link->port[1] : "a port", b);
    n++;
  }
  return n;
}

static uint32_t compare_node(const struct by_node *written, const struct by_node *composed,
                             const struct by_discovery_rules *rules) {
  if (composed->aggregates && written->kind == BY_NODE_HOST) {
    report_contradiction(rules, "%.64s is a switch that aggregates, and a host in the topology", written->name);
    return 1;
  }
  /* An agent may run without knowledge of the cells of a switch on its host. */
  if (!written->aggregates || !composed->aggregates || composed->memory >= written->memory) return 0;
  report_contradiction(rules, "%.64s has %llu bytes of cells, and %llu in the topology", written->name,
                       (unsigned long long)composed->memory, (unsigned long long)written->memory);
  return 1;
}

uint32_t by_discovery_compare(const struct by_topology *written, const struct by_topology *composed,
                              const struct by_discovery_rules *rules) {
  uint32_t n = compare_links(written, composed, rules);
  for (uint32_t v = 0; v < composed->n_nodes; v++) {
    uint32_t at = by_topology_find_from(written, composed->nodes[v].name, v);
    if (at != UINT32_MAX) n += compare_node(&written->nodes[at], &composed->nodes[v], rules);
  }
  return n;
}
