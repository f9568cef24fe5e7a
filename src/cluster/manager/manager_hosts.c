/* Records hosts, their interfaces and their offers, and finds the links of the topology to which interfaces belong. */
#include "manager_hosts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager_links.h"

static const double overhead = 0.2;    /* Fraction that is added to jobs' traffic for headers, acknowledgements and
                                          measurements at different times. */
static const double fresh_part = 0.25; /* Weight of a new report in the smoothed traffic. */
static const double together = 0.5;    /* Seconds without a change after which switches are complete. */
static const double max_together = 3;  /* Maximum of seconds to wait for that. */

/* ---- by name */

static struct by_manager_host *find_host(const struct by_manager *m, const char *name) {
  struct by_manager_host *host;
  HASH_FIND_STR(m->hosts->by_name, name, host);
  return host;
}

uint32_t by_manager_hosts_find(const struct by_manager *m, const char *name) {
  const struct by_manager_host *host = find_host(m, name);
  return host ? host->node : BY_NOWHERE;
}

/* Adds a host. The name must live as long as it does. */
static enum banyan_status add_host(struct by_manager *m, const char *name, uint32_t node) {
  struct by_manager_host *host = &m->hosts->all[m->hosts->n];
  *host = (struct by_manager_host){.name = name, .node = node, .parted = node == BY_NOWHERE ? 0 : m->now};
  HASH_ADD_KEYPTR(hh, m->hosts->by_name, name, strlen(name), host);
  if (!host->hh.tbl) return by_manager_no_memory();
  m->hosts->n++;
  return BANYAN_OK;
}

static uint32_t max_others(const struct by_manager *m) {
  return m->options.discovers ? BY_MANAGER_DISCOVERED : BY_MANAGER_UNAUTHENTICATED;
}

enum banyan_status by_manager_hosts_find_or_add(struct by_manager *m, const char *name, uint32_t *out) {
  const struct by_manager_host *host = find_host(m, name);
  *out = host ? (uint32_t)(host - m->hosts->all) : m->hosts->n;
  if (host) return BANYAN_OK;
  if (m->hosts->n - m->topology->n_nodes == max_others(m))
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "%u hosts have come already that are not in the manager's topology: add \"%.64s\" to it",
                   max_others(m), name);
  char *copy = strdup(name);
  if (!copy || add_host(m, copy, BY_NOWHERE) != BANYAN_OK) {
    free(copy);
    return by_manager_no_memory();
  }
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the table of hosts owns the copy now */
  if (!m->options.discovers)
    by_warn("manager", "host \"%s\" is not in the topology: it is shown, but its jobs get no plans", name);
  return BANYAN_OK;
}

/* ---- hosts that may help and serve */

static enum banyan_status allow_hosts(struct by_manager *m, const char *names, const char *what, bool *allowed) {
  bool all = !strcmp(names, "all");
  for (uint32_t v = 0; v < m->topology->n_nodes; v++) allowed[v] = all;
  if (all || !strcmp(names, "none")) return BANYAN_OK;
  while (*names) {
    size_t length = strcspn(names, ",");
    char name[BY_CLUSTER_NAME + 1];
    snprintf(name, sizeof name, "%.*s", (int)length, names);
    uint32_t node = by_manager_hosts_find(m, name);
    if (node == BY_NOWHERE && !m->options.discovers)
      return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\" is to %s, but is not in the topology", name, what);
    if (node != BY_NOWHERE) allowed[node] = true;
    names += length + (names[length] == ',');
  }
  return BANYAN_OK;
}

enum banyan_status by_manager_hosts_init(struct by_manager *m) {
  uint32_t n = m->topology->n_nodes;
  struct by_manager_hosts *hosts = m->hosts = calloc(1, sizeof *hosts);
  if (!hosts) return by_manager_no_memory();
  hosts->all = calloc((size_t)n + max_others(m), sizeof *hosts->all);
  hosts->allowed = calloc((size_t)n + 1, sizeof *hosts->allowed);
  hosts->may_serve = calloc((size_t)n + 1, sizeof *hosts->may_serve);
  if (!hosts->all || !hosts->allowed || !hosts->may_serve) return by_manager_no_memory();
  for (uint32_t v = 0; v < n; v++) BY_TRY(add_host(m, m->topology->nodes[v].name, v));
  BY_TRY(allow_hosts(m, m->options.helpers, "help", hosts->allowed));
  return allow_hosts(m, m->options.servers, "serve", hosts->may_serve);
}

static void free_aggregates(struct by_manager_host *host) {
  if (host->aggregates) {
    free(host->aggregates->address);
    free(host->aggregates->key);
  }
  free(host->aggregates);
  host->aggregates = NULL;
}

static void free_interfaces(struct by_manager_host *host) {
  for (uint32_t i = 0; i < host->n_interfaces; i++) free(host->interfaces[i].name);
  free(host->interfaces);
  host->interfaces = NULL;
  host->n_interfaces = 0;
}

void by_manager_hosts_fini(struct by_manager *m) {
  struct by_manager_hosts *hosts = m->hosts;
  if (!hosts) return;
  for (uint32_t h = 0; hosts->all && h < hosts->n; h++) {
    free_interfaces(&hosts->all[h]);
    free_aggregates(&hosts->all[h]);
    free(hosts->all[h].unknown);
    if (hosts->all[h].node == BY_NOWHERE) free((char *)hosts->all[h].name);
  }
  HASH_CLEAR(hh, hosts->by_name);
  free(hosts->all);
  free(hosts->allowed);
  free(hosts->may_serve);
  free(hosts);
}

static enum banyan_status set_aggregates(struct by_manager_host *host, const struct by_cluster_aggregates *message) {
  struct by_manager_aggregates *aggregates = message ? calloc(1, sizeof *aggregates) : NULL;
  free_aggregates(host);
  if (!message) return BANYAN_OK;
  if (!aggregates) return by_manager_no_memory();
  host->aggregates = aggregates;
  *aggregates = (struct by_manager_aggregates){.cells = message->cells,
                                               .bytes = message->bytes,
                                               .address = strdup(message->address),
                                               .key = message->key ? strdup(message->key) : NULL,
                                               .float32 = message->float32};
  return aggregates->address && (aggregates->key || !message->key) ? BANYAN_OK : by_manager_no_memory();
}

static void note_switch_change(const struct by_manager *m) {
  if (m->now - m->hosts->switches_changed >= together) m->hosts->switches_unsettled = m->now;
  m->hosts->switches_changed = m->now;
}

bool by_manager_hosts_settle(const struct by_manager *m, double planned) {
  if (m->now - m->hosts->switches_changed >= together) return false;
  return m->now - fmax(m->hosts->switches_unsettled, planned) < max_together;
}

enum banyan_status by_manager_hosts_set_agent(struct by_manager *m, uint32_t index, struct by_manager_peer *agent,
                                              const struct by_cluster_message *hello) {
  struct by_manager_host *host = &m->hosts->all[index];
  bool known = host->node != BY_NOWHERE, added = host->aggregates != NULL;
  host->agent = agent;
  host->may_help = known && hello->may_help && m->hosts->allowed[host->node];
  host->may_serve = known && hello->may_serve && m->hosts->may_serve[host->node];
  BY_TRY(set_aggregates(host, known ? hello->aggregates : NULL));
  if (added || host->aggregates) {
    note_switch_change(m);
    char why[BY_MANAGER_WHY];
    snprintf(why, sizeof why, "switch \"%.64s\" is there", host->name);
    by_due_mark_all(m, BY_DUE_SWITCH, why);
    by_info("manager", "%s: %u cells of %u bytes at %s", why, host->aggregates ? host->aggregates->cells : 0,
            host->aggregates ? host->aggregates->bytes : 0,
            host->aggregates ? host->aggregates->address : "no address");
  }
  return BANYAN_OK;
}

/* ---- links */

/* Returns the only link of a host, or BY_NOWHERE. Its busiest interface then belongs to it, whatever its name. */
static uint32_t only_link(const struct by_topology *t, uint32_t node) {
  uint32_t found = BY_NOWHERE;
  for (uint32_t l = 0; l < t->n_links; l++) {
    if (t->links[l].a != node && t->links[l].b != node) continue;
    if (found != BY_NOWHERE) return BY_NOWHERE;
    found = l;
  }
  return found;
}

static uint32_t find_busiest(const struct by_manager_host *host) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < host->n_interfaces; i++) {
    const struct by_manager_interface *a = &host->interfaces[i], *b = &host->interfaces[best];
    if (a->message.sent + a->message.received > b->message.sent + b->message.received) best = i;
  }
  return best;
}

static void match_links(const struct by_manager *m, struct by_manager_host *host) {
  const struct by_topology *t = m->topology;
  uint32_t only = only_link(t, host->node);
  char name[BY_TOPOLOGY_MAX_NAME + 1];
  bool found = false;
  for (uint32_t l = 0; l < t->n_links; l++) {
    if (t->links[l].a != host->node && t->links[l].b != host->node) continue;
    by_topology_interface(t, l, host->node, name, sizeof name);
    for (uint32_t i = 0; i < host->n_interfaces; i++) {
      struct by_manager_interface *interface = &host->interfaces[i];
      if (interface->name && !strcmp(interface->name, name)) interface->link = l, found = true;
    }
  }
  if (!found && only != BY_NOWHERE && host->n_interfaces) host->interfaces[find_busiest(host)].link = only;
}

/* Smooths traffic: ranks and interfaces are read at different moments, and data of ranks waits in the kernel for a
 * while, so single reports differ by whole bursts. */
static void smooth(double *mean, double message, bool first) {
  *mean = first ? message : *mean + fresh_part * (message - *mean);
}

static double traffic_of_others(struct by_manager_interface *i, int direction, double all, double ours) {
  bool first = i->mean[direction] < 0;
  smooth(&i->mean[direction], all, first);
  smooth(&i->mean_ours[direction], ours, first);
  return fmax(0, i->mean[direction] - (1 + overhead) * i->mean_ours[direction]);
}

static void read_interface(struct by_manager *m, const struct by_manager_host *host, struct by_manager_interface *i) {
  if (i->link == BY_NOWHERE) return;
  uint32_t out = by_links_step_out(m->topology, i->link, host->node), in = out ^ 1;
  double of_jobs[2] = {i->message.ours_sent, i->message.ours_received};
  /* Ranks do not account for what passes a switch or what a server sends, so the load of jobs there comes from their
   * plans. */
  if (m->topology->nodes[host->node].kind == BY_NODE_SWITCH) {
    of_jobs[0] += by_use_of_jobs(m, out);
    of_jobs[1] += by_use_of_jobs(m, in);
  } else if (by_jobs_have_server(m, host->node)) {
    of_jobs[0] = fmax(of_jobs[0], by_use_of_jobs(m, out));
    of_jobs[1] = fmax(of_jobs[1], by_use_of_jobs(m, in));
  }
  double sent = traffic_of_others(i, 0, i->message.sent, of_jobs[0]),
         received = traffic_of_others(i, 1, i->message.received, of_jobs[1]);
  by_links_set_others(m, host->node, i->link, sent, received);
  by_links_set_capacity(m, host->node, i->link, i->message.rate > 0 ? i->message.rate : INFINITY);
}

/* Sets the capacity of links to 0 whose interfaces have disappeared. */
static void remove_links(struct by_manager *m, const struct by_manager_host *host,
                         const struct by_cluster_interface *message, uint32_t n) {
  for (uint32_t i = 0; i < host->n_interfaces; i++) {
    uint32_t j = 0;
    while (j < n && strcmp(host->interfaces[i].name, message[j].name) != 0) j++;
    if (j == n && n && host->interfaces[i].link != BY_NOWHERE)
      by_links_set_capacity(m, host->node, host->interfaces[i].link, 0);
  }
}

static enum banyan_status list_interfaces(struct by_manager *m, struct by_manager_host *host,
                                          const struct by_cluster_interface *message, uint32_t n) {
  struct by_manager_interface *fresh = calloc((size_t)n + 1, sizeof *fresh);
  if (!fresh) return by_manager_no_memory();
  remove_links(m, host, message, n);
  free_interfaces(host);
  host->interfaces = fresh;
  for (uint32_t i = 0; i < n; i++) {
    char *name = strdup(message[i].name);
    if (!name) return by_manager_no_memory();
    fresh[i] = (struct by_manager_interface){.name = name, .link = BY_NOWHERE, .mean = {-1, -1}};
    host->n_interfaces++;
  }
  return BANYAN_OK;
}

enum banyan_status by_manager_hosts_report(struct by_manager *m, uint32_t index,
                                           const struct by_cluster_interface *message, uint32_t n) {
  struct by_manager_host *host = &m->hosts->all[index];
  bool fresh = host->n_interfaces != n;
  for (uint32_t i = 0; i < n && !fresh; i++) fresh = strcmp(host->interfaces[i].name, message[i].name) != 0;
  host->n_unknown = 0;
  if (fresh) BY_TRY(list_interfaces(m, host, message, n));
  for (uint32_t i = 0; i < n; i++) {
    host->interfaces[i].message = message[i];
    host->interfaces[i].message.name = host->interfaces[i].message.address = NULL;
  }
  if (host->node == BY_NOWHERE) return BANYAN_OK;
  if (fresh) match_links(m, host);
  for (uint32_t i = 0; i < n; i++) read_interface(m, host, &host->interfaces[i]);
  return BANYAN_OK;
}

void by_manager_hosts_forget(struct by_manager *m, uint32_t index) {
  struct by_manager_host *host = &m->hosts->all[index];
  host->agent = NULL;
  host->parted = m->now;
  host->n_unknown = 0;
  if (host->aggregates) note_switch_change(m);
  for (uint32_t i = 0; i < host->n_interfaces; i++) {
    if (host->interfaces[i].link == BY_NOWHERE) continue;
    by_links_forget(m, host->node, host->interfaces[i].link);
    host->interfaces[i].message = (struct by_cluster_interface){.rate = host->interfaces[i].message.rate};
    host->interfaces[i].mean[0] = host->interfaces[i].mean[1] = -1;
  }
}

/* ---- jobs that are not known yet */

void by_manager_hosts_note_unknown(struct by_manager *m, uint32_t index, const char *job) {
  struct by_manager_host *host = &m->hosts->all[index];
  if (!host->unknown) host->unknown = calloc(BY_MANAGER_UNKNOWN, sizeof *host->unknown);
  if (!host->unknown || host->n_unknown == BY_MANAGER_UNKNOWN) return; /* The next report may find them known. */
  snprintf(host->unknown[host->n_unknown++], sizeof *host->unknown, "%s", job);
}

bool by_manager_hosts_has_unknown(const struct by_manager *m, uint32_t index, const char *job) {
  const struct by_manager_host *host = &m->hosts->all[index];
  uint32_t i = 0;
  while (i < host->n_unknown && strcmp(host->unknown[i], job) != 0) i++;
  return i < host->n_unknown;
}

double by_manager_hosts_rate(const struct by_manager *m, uint32_t index) {
  uint32_t node = m->hosts->all[index].node;
  double max_rate = 0;
  if (node == BY_NOWHERE) return 0;
  for (uint32_t l = 0; l < m->topology->n_links; l++) {
    const struct by_link *link = &m->topology->links[l];
    if (link->a == node || link->b == node)
      max_rate = fmax(max_rate, link->capacity[link->a == node ? BY_AB : BY_BA].all);
  }
  return fmin(max_rate, m->topology->nodes[node].out.all);
}
