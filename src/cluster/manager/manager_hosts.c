/* Hosts, and what their interfaces say of the links of the topology. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager_parts.h"

static const double much_less = 0.9;   /* of what the topology says: the link is slower than that */
static const double changed = 0.05;    /* of a capacity */
static const double overhead = 0.2;    /* headers, answers and what was counted early or late, of what jobs send */
static const double fresh_part = 0.25; /* of a mean of late is what was just said */
static const double of_a_dead = 0.01;  /* capacity that a link keeps which is down, so that numbers stay numbers */

/* ---- by name */

static int compare_names(const void *a, const void *b, void *context) {
  const struct by_topology *t = context;
  return strcmp(t->nodes[*(const uint32_t *)a].name, t->nodes[*(const uint32_t *)b].name);
}

uint32_t by_manager_hosts_find(const struct by_manager *m, const char *name) {
  uint32_t low = 0, high = m->topology->n_nodes;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    int order = strcmp(m->topology->nodes[m->by_name[middle]].name, name);
    if (!order) return m->by_name[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return BY_NOWHERE;
}

enum banyan_status by_manager_hosts_find_or_add(struct by_manager *m, const char *name, uint32_t *out) {
  *out = by_manager_hosts_find(m, name);
  for (uint32_t h = m->topology->n_nodes; *out == BY_NOWHERE && h < m->n_hosts; h++)
    if (!strcmp(m->hosts[h].name, name)) *out = h;
  if (*out != BY_NOWHERE) return BANYAN_OK;
  if (m->n_hosts - m->topology->n_nodes == BY_MANAGER_STRANGERS)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "%d hosts have come already that are not in the manager's topology: add \"%.64s\" to it",
                   BY_MANAGER_STRANGERS, name);
  char *copy = strdup(name);
  if (!copy) return by_manager_no_memory();
  by_warn("manager", "host \"%s\" is not in the topology: it is shown, but its jobs get no plans", name);
  *out = m->n_hosts++;
  m->hosts[*out] = (struct by_manager_host){.name = copy, .node = BY_NOWHERE};
  return BANYAN_OK;
}

/* ---- who may help */

static enum banyan_status allow(struct by_manager *m, const char *names) {
  bool all = !strcmp(names, "all");
  for (uint32_t v = 0; v < m->topology->n_nodes; v++) m->allowed[v] = all;
  if (all || !strcmp(names, "none")) return BANYAN_OK;
  while (*names) {
    size_t length = strcspn(names, ",");
    char name[BY_CLUSTER_NAME + 1];
    snprintf(name, sizeof name, "%.*s", (int)length, names);
    uint32_t node = by_manager_hosts_find(m, name);
    if (node == BY_NOWHERE)
      return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\" is to help, but is not in the topology", name);
    m->allowed[node] = true;
    names += length + (names[length] == ',');
  }
  return BANYAN_OK;
}

enum banyan_status by_manager_hosts_init(struct by_manager *m) {
  uint32_t n = m->topology->n_nodes;
  m->n_hosts = n;
  m->hosts = calloc((size_t)n + BY_MANAGER_STRANGERS, sizeof *m->hosts);
  m->by_name = calloc(n, sizeof *m->by_name);
  m->allowed = calloc(n, sizeof *m->allowed);
  if (!m->hosts || !m->by_name || !m->allowed) return by_manager_no_memory();
  for (uint32_t v = 0; v < n; v++) {
    m->by_name[v] = v;
    m->hosts[v] = (struct by_manager_host){.name = m->topology->nodes[v].name, .node = v, .parted = m->now};
  }
  qsort_r(m->by_name, n, sizeof *m->by_name, compare_names, (void *)m->topology);
  return allow(m, m->options.helpers);
}

static void free_interfaces(struct by_manager_host *host) {
  for (uint32_t i = 0; i < host->n_interfaces; i++) free(host->interfaces[i].name);
  free(host->interfaces);
  host->interfaces = NULL;
  host->n_interfaces = 0;
}

void by_manager_hosts_fini(struct by_manager *m) {
  for (uint32_t h = 0; m->hosts && h < m->n_hosts; h++) {
    free_interfaces(&m->hosts[h]);
    free(m->hosts[h].unknown);
    if (m->hosts[h].node == BY_NOWHERE) free((char *)m->hosts[h].name);
  }
  free(m->hosts);
  free(m->by_name);
  free(m->allowed);
}

/* ---- links */

/* Of a host with one link, the busiest interface has it, however that is called. */
static uint32_t only_link(const struct by_topology *t, uint32_t node) {
  uint32_t found = BY_NOWHERE;
  for (uint32_t l = 0; l < t->n_links; l++) {
    if (t->links[l].a != node && t->links[l].b != node) continue;
    if (found != BY_NOWHERE) return BY_NOWHERE;
    found = l;
  }
  return found;
}

static uint32_t busiest(const struct by_manager_host *host) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < host->n_interfaces; i++) {
    const struct by_manager_interface *a = &host->interfaces[i], *b = &host->interfaces[best];
    if (a->sent + a->received > b->sent + b->received) best = i;
  }
  return best;
}

static void match_links(const struct by_manager *m, struct by_manager_host *host) {
  const struct by_topology *t = m->topology;
  uint32_t only = only_link(t, host->node);
  char name[BY_TOPOLOGY_MOST_NAME + 1];
  bool found = false;
  for (uint32_t l = 0; l < t->n_links; l++) {
    if (t->links[l].a != host->node && t->links[l].b != host->node) continue;
    by_topology_interface(t, l, host->node, name, sizeof name);
    for (uint32_t i = 0; i < host->n_interfaces; i++) {
      struct by_manager_interface *interface = &host->interfaces[i];
      if (interface->name && !strcmp(interface->name, name)) interface->link = l, found = true;
    }
  }
  if (!found && only != BY_NOWHERE && host->n_interfaces) host->interfaces[busiest(host)].link = only;
}

static uint32_t step_out(const struct by_topology *t, uint32_t link, uint32_t node) {
  return 2 * link + (t->links[link].a == node ? BY_AB : BY_BA);
}

/* Ranks and interfaces are counted at different moments, and what ranks gave away waits in the kernel for a while, so
 * single reports differ by whole bursts. */
static void follow(double *mean, double said, bool first) {
  *mean = first ? said : *mean + fresh_part * (said - *mean);
}

static double of_others(struct by_manager_interface *i, int way, double all, double ours) {
  bool first = i->mean[way] < 0;
  follow(&i->mean[way], all, first);
  follow(&i->mean_ours[way], ours, first);
  return fmax(0, i->mean[way] - (1 + overhead) * i->mean_ours[way]);
}

void by_links_set(struct by_manager *m, uint32_t step) {
  const struct by_link *link = &m->topology->links[step / 2];
  const char *from = m->topology->nodes[step % 2 ? link->b : link->a].name;
  const char *to = m->topology->nodes[step % 2 ? link->a : link->b].name;
  char before[32], after[32];
  double was = m->seen[step].marked, now = fmin(m->seen[step].said, m->seen[step].rate);
  now = fmax(now, of_a_dead * by_use_given(m->topology, step)); /* whatever a job says it has seen */
  m->all[step] = now;
  if (fabs(now - was) <= changed * was) return;
  m->seen[step].marked = now;
  by_info("manager", "from \"%s\" to \"%s\" the link carries %s%s, no longer %s", from, to, by_print_rate(now, after),
          now < m->seen[step].said ? " as far as is seen" : "", by_print_rate(was, before));
  m->changed = m->now;
  by_due_mark_all(m, "the link from %.64s to %.64s carries %s", from, to, after);
}

/* Both directions of a link carry so much at most, says the agent at one of its ends; of two words the smaller counts.
 */
static void set_capacity(struct by_manager *m, const struct by_manager_host *host, uint32_t link, double said) {
  m->said[step_out(m->topology, link, host->node)] = said;
  double rate = fmin(m->said[2 * link], m->said[2 * link + 1]);
  for (uint32_t s = 2 * link; s < 2 * link + 2; s++) {
    double given = by_use_given(m->topology, s);
    m->seen[s].told = isfinite(rate);
    m->seen[s].said = rate < much_less * given ? fmax(rate, of_a_dead * given) : given;
    by_links_set(m, s);
  }
}

static void read_interface(struct by_manager *m, const struct by_manager_host *host, struct by_manager_interface *i) {
  if (i->link == BY_NOWHERE) return;
  uint32_t out = step_out(m->topology, i->link, host->node), in = out ^ 1;
  double of_jobs[2] = {i->ours_sent, i->ours_received};
  /* What passes a switch is nobody's there: what jobs put on the link is known from their plans. */
  if (m->topology->nodes[host->node].kind == BY_NODE_SWITCH)
    for (int c = 0; c < BY_PRIORITY_CLASSES; c++) of_jobs[0] += m->ours[c][out], of_jobs[1] += m->ours[c][in];
  m->others[0][out] = of_others(i, 0, i->sent, of_jobs[0]);
  m->others[1][in] = of_others(i, 1, i->received, of_jobs[1]);
  set_capacity(m, host, i->link, i->rate > 0 ? i->rate : INFINITY);
}

static bool same_interfaces(const struct by_manager_host *host, const struct by_cluster_interface *said, uint32_t n) {
  if (host->n_interfaces != n) return false;
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(host->interfaces[i].name, said[i].name) != 0) return false;
  return true;
}

/* The links of interfaces that are not there any more carry nothing. */
static void take_down(struct by_manager *m, const struct by_manager_host *host, const struct by_cluster_interface *said,
                      uint32_t n) {
  for (uint32_t i = 0; i < host->n_interfaces; i++) {
    uint32_t j = 0;
    while (j < n && strcmp(host->interfaces[i].name, said[j].name) != 0) j++;
    if (j == n && n && host->interfaces[i].link != BY_NOWHERE) set_capacity(m, host, host->interfaces[i].link, 0);
  }
}

static enum banyan_status list_interfaces(struct by_manager *m, struct by_manager_host *host,
                                          const struct by_cluster_interface *said, uint32_t n) {
  struct by_manager_interface *fresh = calloc((size_t)n + 1, sizeof *fresh);
  if (!fresh) return by_manager_no_memory();
  take_down(m, host, said, n);
  free_interfaces(host);
  host->interfaces = fresh;
  for (uint32_t i = 0; i < n; i++) {
    char *name = strdup(said[i].name);
    if (!name) return by_manager_no_memory();
    fresh[i] = (struct by_manager_interface){.name = name, .link = BY_NOWHERE, .mean = {-1, -1}};
    host->n_interfaces++;
  }
  return BANYAN_OK;
}

enum banyan_status by_manager_hosts_report(struct by_manager *m, uint32_t index,
                                           const struct by_cluster_interface *said, uint32_t n) {
  struct by_manager_host *host = &m->hosts[index];
  bool fresh = !same_interfaces(host, said, n);
  if (fresh) BY_TRY(list_interfaces(m, host, said, n));
  for (uint32_t i = 0; i < n; i++) {
    struct by_manager_interface *to = &host->interfaces[i];
    to->rate = said[i].rate;
    to->sent = said[i].sent;
    to->received = said[i].received;
    to->ours_sent = said[i].ours_sent;
    to->ours_received = said[i].ours_received;
  }
  if (host->node == BY_NOWHERE) return BANYAN_OK;
  if (fresh) match_links(m, host);
  for (uint32_t i = 0; i < n; i++) read_interface(m, host, &host->interfaces[i]);
  return BANYAN_OK;
}

void by_manager_hosts_forget(struct by_manager *m, uint32_t index) {
  struct by_manager_host *host = &m->hosts[index];
  host->agent = NULL;
  host->parted = m->now;
  host->n_unknown = 0;
  for (uint32_t i = 0; i < host->n_interfaces; i++) {
    if (host->interfaces[i].link == BY_NOWHERE) continue;
    uint32_t out = step_out(m->topology, host->interfaces[i].link, host->node);
    m->others[0][out] = m->others[1][out ^ 1] = 0;
    m->seen[out].told = m->seen[out ^ 1].told = false; /* what it has said is as good as nothing else */
    host->interfaces[i].sent = host->interfaces[i].received = 0;
    host->interfaces[i].ours_sent = host->interfaces[i].ours_received = 0;
    host->interfaces[i].mean[0] = host->interfaces[i].mean[1] = -1;
  }
}

/* ---- jobs that are not known yet */

void by_manager_hosts_note_unknown(struct by_manager_host *host, const char *job) {
  if (!host->unknown) host->unknown = calloc(BY_MANAGER_UNKNOWN, sizeof *host->unknown);
  if (!host->unknown || host->n_unknown == BY_MANAGER_UNKNOWN) return; /* the next report may find them known */
  snprintf(host->unknown[host->n_unknown++], sizeof *host->unknown, "%s", job);
}

bool by_manager_hosts_has_unknown(const struct by_manager_host *host, const char *job) {
  uint32_t i = 0;
  while (i < host->n_unknown && strcmp(host->unknown[i], job) != 0) i++;
  return i < host->n_unknown;
}

double by_manager_hosts_rate(const struct by_manager *m, uint32_t index) {
  uint32_t node = m->hosts[index].node;
  double most = 0;
  if (node == BY_NOWHERE) return 0;
  for (uint32_t l = 0; l < m->topology->n_links; l++) {
    const struct by_link *link = &m->topology->links[l];
    if (link->a == node || link->b == node) most = fmax(most, link->capacity[link->a == node ? BY_AB : BY_BA].all);
  }
  return fmin(most, m->topology->nodes[node].out.all);
}
