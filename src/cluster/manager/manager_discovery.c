#include "manager_discovery.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "discovery.h"
#include "json_doc.h"
#include "log.h"

static const double settling = 0.4; /* s without a change, after which it counts; */
static const double most = 2;       /* but so long at most after the first one */
static const double silence = 1.5;  /* s after the first agent has come, in which all that speaks LLDP was heard */
static const double doubt = 3;      /* s that a contradiction lasts before it is one: both ends do not learn at once */
static const double doubt_of_cells = 10;
static const double forgotten = 600; /* s after which a machine whose agent is away is none any more */
static const double start_up = 30;   /* s in which a written topology can be rejected */

enum { AGENTS = 16384, CONTRADICTIONS = 256 };

/* Another topology costs all jobs a moment of the manager, so agents that say now this and now that have it seldom. */
static const struct by_budget_rules of_changes = {
    .lines_at_once = 16, .lines_a_second = 1.0 / 30, .bytes_at_once = 1, .bytes_a_second = 1};
static const double later = 30; /* s */
static const struct by_budget_rules of_lines = {
    .lines_at_once = 16, .lines_a_second = 0.1, .bytes_at_once = 1, .bytes_a_second = 1};

/* An interface: strings are on the heap, "" if they are not known. */
struct interface {
  char *name, *neighbour, *port;
  double rate;
  bool stale, listed; /* listed: in the message that is read */
};

struct agent {
  char *host;
  double parted; /* since when it is away; INFINITY: it is there */
  bool aggregates;
  uint64_t memory;
  uint32_t cells;
  const char *misfit; /* what does not fit of its cells; NULL: nothing */
  uint32_t n, room;
  struct interface *interfaces;
  UT_hash_handle hh;
};

struct contradiction {
  char *text;
  double from;       /* when it is one: */
  bool lasts;        /* it was logged */
  bool again;        /* it was found when they were last looked for */
  bool with_written; /* it is about the written topology */
};

struct by_manager_discovery {
  struct by_manager_discovery_options options;
  struct agent *agents;
  double first;                   /* when the first agent came; INFINITY: none has */
  double changed, waiting;        /* the last change, and the first that was not looked at; INFINITY: none */
  bool assumes;                   /* who has heard nobody so far has no neighbour that speaks LLDP */
  const struct by_topology *last; /* that was composed: the caller's */
  struct by_budget changes;
  uint32_t n;
  struct contradiction all[CONTRADICTIONS];
  bool with_written; /* while contradictions are collected, */
  double doubt;      /* s that they last before they are some */
  double now;
  struct by_budget lines; /* of the log */
};

/* ---- what agents say */

static void note_change(struct by_manager_discovery *d, double now) {
  d->changed = now;
  if (isinf(d->waiting)) d->waiting = now;
}

static void free_interface(struct interface *interface) {
  free(interface->name);
  free(interface->neighbour);
  free(interface->port);
}

static void free_agent(struct agent *agent) {
  for (uint32_t i = 0; i < agent->n; i++) free_interface(&agent->interfaces[i]);
  free(agent->interfaces);
  free(agent->host);
  free(agent);
}

static struct agent *find_or_add(struct by_manager_discovery *d, const char *host) {
  struct agent *agent;
  HASH_FIND_STR(d->agents, host, agent);
  if (agent || HASH_COUNT(d->agents) >= AGENTS || !(agent = calloc(1, sizeof *agent))) return agent;
  agent->host = strdup(host);
  agent->parted = INFINITY;
  if (agent->host) HASH_ADD_KEYPTR(hh, d->agents, agent->host, strlen(agent->host), agent);
  if (agent->host && agent->hh.tbl) return agent;
  free_agent(agent);
  return NULL;
}

static struct interface *find_interface(const struct agent *agent, const char *name) {
  for (uint32_t i = 0; i < agent->n; i++)
    if (!strcmp(agent->interfaces[i].name, name)) return &agent->interfaces[i];
  return NULL;
}

/* NULL: there is no memory; the next report comes soon. */
static struct interface *add_interface(struct agent *agent, const char *name) {
  struct interface fresh = {.name = strdup(name), .neighbour = strdup(""), .port = strdup("")};
  if (fresh.name && fresh.neighbour && fresh.port && BY_ARRAY_GROW(&agent->interfaces, &agent->room, agent->n + 1)) {
    agent->interfaces[agent->n] = fresh;
    return &agent->interfaces[agent->n++];
  }
  free_interface(&fresh);
  return NULL;
}

/* Whether it is another one than before. Nothing is known of one who is not named: the last one holds, as stale. */
static bool take_neighbour(struct interface *interface, const char *neighbour, const char *port) {
  bool was_stale = interface->stale;
  interface->stale = !neighbour && *interface->neighbour;
  if (!neighbour) return interface->stale != was_stale;
  if (!port) port = "";
  if (!strcmp(interface->neighbour, neighbour) && !strcmp(interface->port, port)) return was_stale;
  char *name = strdup(neighbour), *at = strdup(port);
  if (!name || !at) {
    free(name);
    free(at);
    return false;
  }
  free(interface->neighbour);
  free(interface->port);
  interface->neighbour = name;
  interface->port = at;
  return true;
}

/* Interfaces that are not listed any more stay as far as something is linked to them, and while they are not many. */
static bool end_unlisted(struct agent *agent) {
  bool changed = false;
  for (uint32_t i = 0; i < agent->n;) {
    struct interface *interface = &agent->interfaces[i];
    if (!interface->listed && (!*interface->neighbour || agent->n > BY_CLUSTER_INTERFACES)) {
      free_interface(interface);
      memmove(interface, interface + 1, (--agent->n - i) * sizeof *interface);
      changed = true;
      continue;
    }
    changed |= !interface->listed && !interface->stale;
    interface->stale |= !interface->listed;
    i++;
  }
  return changed;
}

static bool take_interfaces(struct agent *agent, const struct by_cluster_message *message) {
  bool changed = false;
  for (uint32_t i = 0; i < agent->n; i++) agent->interfaces[i].listed = false;
  for (uint32_t i = 0; i < message->n_interfaces; i++) {
    const struct by_cluster_interface *from = &message->interfaces[i];
    struct interface *to = find_interface(agent, from->name);
    changed |= !to;
    if (!to && !(to = add_interface(agent, from->name))) continue;
    to->listed = true;
    to->rate = from->rate;
    changed |= take_neighbour(to, from->neighbour, from->neighbour_port);
  }
  return end_unlisted(agent) || changed;
}

static bool take_cells(struct agent *agent, const struct by_cluster_aggregates *aggregates) {
  bool had = agent->aggregates;
  uint64_t memory = agent->memory;
  agent->aggregates = aggregates && aggregates->cells;
  agent->cells = agent->aggregates ? aggregates->cells : 0;
  agent->memory = agent->aggregates ? (uint64_t)aggregates->cells * aggregates->bytes : 0;
  if (!agent->aggregates) agent->misfit = NULL;
  return agent->aggregates != had || agent->memory != memory;
}

void by_manager_discovery_handle(struct by_manager_discovery *d, const char *host,
                                 const struct by_cluster_message *message, double now) {
  uint32_t before = HASH_COUNT(d->agents);
  struct agent *agent = find_or_add(d, host);
  if (!agent) return;
  bool changed = HASH_COUNT(d->agents) != before;
  if (isinf(d->first)) d->first = now;
  agent->parted = INFINITY;
  if (message->type == BY_MESSAGE_HELLO) changed |= take_cells(agent, message->aggregates);
  changed |= take_interfaces(agent, message);
  if (changed) note_change(d, now);
}

void by_manager_discovery_part(struct by_manager_discovery *d, const char *host, double now) {
  struct agent *agent;
  HASH_FIND_STR(d->agents, host, agent);
  for (uint32_t i = 0; agent && i < agent->n; i++) agent->interfaces[i].stale = *agent->interfaces[i].neighbour;
  if (!agent) return;
  agent->parted = now;
  note_change(d, now);
}

/* Who was last heard there is not there any more. */
static void forget_neighbour(struct by_manager_discovery *d, const char *name) {
  for (struct agent *agent = d->agents; agent; agent = agent->hh.next)
    for (uint32_t i = 0; i < agent->n; i++) {
      struct interface *interface = &agent->interfaces[i];
      if (!interface->stale || strcmp(interface->neighbour, name) != 0) continue;
      *interface->neighbour = *interface->port = '\0';
      interface->stale = false;
    }
}

static void forget_parted(struct by_manager_discovery *d, double now) {
  for (struct agent *agent = d->agents, *next; agent; agent = next) {
    next = agent->hh.next;
    if (now < agent->parted + forgotten) continue;
    HASH_DELETE(hh, d->agents, agent);
    forget_neighbour(d, agent->host);
    free_agent(agent);
    note_change(d, now - settling); /* at once */
  }
}

/* One end of a link, as its agent has reported it. */
static void restore_end(struct by_manager_discovery *d, const struct by_topology *t, const struct by_link *link,
                        int end, double now) {
  const struct by_node *here = &t->nodes[end ? link->b : link->a], *there = &t->nodes[end ? link->a : link->b];
  struct agent *agent;
  HASH_FIND_STR(d->agents, here->name, agent);
  if (!agent || !*link->port[end]) return;
  struct interface *interface = find_interface(agent, link->port[end]);
  if (!interface && !(interface = add_interface(agent, link->port[end]))) return;
  interface->rate = link->capacity[end].all;
  if (strcmp(there->name, BY_DISCOVERY_NETWORK) != 0 || *link->port[!end])
    (void)take_neighbour(interface, there->name, link->port[!end]);
  else
    d->assumes = true;
  interface->stale = *interface->neighbour;
  note_change(d, now - settling);
}

void by_manager_discovery_restore(struct by_manager_discovery *d, const struct by_topology *t, double now) {
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    const struct by_node *node = &t->nodes[v];
    struct agent *agent = node->kind == BY_NODE_HOST || node->aggregates ? find_or_add(d, node->name) : NULL;
    if (!agent) continue;
    agent->aggregates = node->aggregates;
    agent->memory = node->memory;
    agent->parted = now;
    note_change(d, now - settling);
  }
  for (uint32_t l = 0; l < t->n_links; l++)
    for (int end = 0; end < 2; end++) restore_end(d, t, &t->links[l], end, now);
}

void by_manager_discovery_count(struct by_manager_discovery *d, const char *host, uint32_t used, uint64_t held,
                                double now) {
  struct agent *agent;
  HASH_FIND_STR(d->agents, host, agent);
  if (!agent || !agent->aggregates) return;
  const char *misfit = used > agent->cells ? "has granted more cells than it has"
                       : used < held       ? "has granted fewer cells than jobs say that they hold there"
                                           : NULL;
  if (misfit != agent->misfit) note_change(d, now);
  agent->misfit = misfit;
}

/* ---- contradictions */

static void collect(void *context, const char *text) {
  struct by_manager_discovery *d = context;
  struct contradiction *at = d->all, *end = at + d->n;
  while (at < end && strcmp(at->text, text) != 0) at++;
  if (at == end) {
    char *copy = d->n < CONTRADICTIONS ? strdup(text) : NULL;
    if (!copy) return;
    *at = (struct contradiction){.text = copy, .from = d->now + d->doubt, .with_written = d->with_written};
    d->n++;
  }
  at->again = true;
}

static void end_contradictions(struct by_manager_discovery *d) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < d->n; i++)
    if (d->all[i].again)
      d->all[kept++] = d->all[i];
    else
      free(d->all[i].text);
  d->n = kept;
  for (uint32_t i = 0; i < d->n; i++) d->all[i].again = false;
}

/* All are shown; of very many only some are logged. */
static void log_lasting(struct by_manager_discovery *d, double now) {
  for (uint32_t i = 0; i < d->n; i++) {
    struct contradiction *one = &d->all[i];
    if (one->lasts || now < one->from) continue;
    one->lasts = true;
    if (!by_budget_take(&d->lines, 0, now)) continue;
    by_warn("manager", "%s: %s",
            one->with_written ? "an agent contradicts the topology, which counts"
                              : "agents contradict each other, so what they disagree on does not count",
            one->text);
  }
}

/* ---- composing */

static enum banyan_status compose(struct by_manager_discovery *d, struct by_topology **out) {
  uint32_t n = HASH_COUNT(d->agents), of_all = 0, at = 0, node = 0;
  const struct by_discovery_rules rules = {.assume_network = d->assumes, .contradiction = collect, .context = d};
  for (const struct agent *agent = d->agents; agent; agent = agent->hh.next) of_all += agent->n;
  struct by_discovered_node *nodes = calloc((size_t)n + 1, sizeof *nodes);
  struct by_discovered_interface *interfaces = calloc((size_t)of_all + 1, sizeof *interfaces);
  for (const struct agent *agent = d->agents; nodes && interfaces && agent; agent = agent->hh.next) {
    nodes[node++] = (struct by_discovered_node){.name = agent->host,
                                                .aggregates = agent->aggregates,
                                                .memory = agent->memory,
                                                .n_interfaces = agent->n,
                                                .interfaces = &interfaces[at]};
    for (uint32_t i = 0; i < agent->n; i++) {
      const struct interface *from = &agent->interfaces[i];
      interfaces[at++] = (struct by_discovered_interface){.name = from->name,
                                                          .neighbour = from->neighbour,
                                                          .neighbour_port = from->port,
                                                          .rate = from->rate,
                                                          .stale = from->stale};
    }
  }
  enum banyan_status status = nodes && interfaces
                                  ? by_discovery_compose(nodes, n, &rules, out)
                                  : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the topology that agents report");
  free(nodes);
  free(interfaces);
  return status;
}

/* The differences as an error, while the manager starts. */
static bool is_rejected(struct by_manager_discovery *d, const struct by_topology *composed) {
  const struct by_discovery_rules rules = {.contradiction = collect, .context = d};
  struct by_text text;
  d->with_written = true;
  uint32_t n = by_discovery_compare(d->options.written, composed, &rules);
  d->with_written = false;
  if (!n || d->options.trust || d->now > d->first + start_up) return false;
  by_text_init(&text);
  for (uint32_t i = 0; i < d->n; i++)
    if (d->all[i].with_written && d->all[i].again) by_text_add(&text, "%s%s", text.length ? "; " : "", d->all[i].text);
  (void)by_fail(BANYAN_ERR_TOPOLOGY,
                "the topology differs from what agents report (--trust-topology uses it nevertheless): %s",
                by_text_get(&text));
  by_text_fini(&text);
  return true;
}

double by_manager_discovery_next(const struct by_manager_discovery *d) {
  double next = fmin(d->changed + settling, d->waiting + most);
  if (!d->assumes) next = fmin(next, d->first + silence);
  for (const struct agent *agent = d->agents; agent; agent = agent->hh.next)
    next = fmin(next, agent->parted + forgotten);
  for (uint32_t i = 0; i < d->n; i++)
    if (!d->all[i].lasts) next = fmin(next, d->all[i].from);
  return next;
}

/* What jobs hold changes before the switch reports it, so this takes longer to be one. */
static void collect_cells(struct by_manager_discovery *d) {
  char text[512];
  for (const struct agent *agent = d->agents; agent; agent = agent->hh.next) {
    if (!agent->misfit) continue;
    snprintf(text, sizeof text, "%.255s says that it %s", agent->host, agent->misfit);
    d->doubt = doubt_of_cells;
    collect(d, text);
    d->doubt = doubt;
  }
}

static enum by_discovery_verdict look(struct by_manager_discovery *d, struct by_topology **out) {
  struct by_topology *composed;
  enum by_discovery_verdict verdict = BY_DISCOVERY_SAME;
  d->changed = d->waiting = INFINITY;
  enum banyan_status status = compose(d, &composed);
  if (status != BANYAN_OK) {
    by_debug("manager", "%s", banyan_error_text());
  } else if (d->options.written) {
    verdict = is_rejected(d, composed) ? BY_DISCOVERY_REJECTED : BY_DISCOVERY_SAME;
    by_topology_destroy(composed);
  } else if (d->last && by_discovery_is_same(d->last, composed)) {
    by_topology_destroy(composed);
  } else if (!by_budget_take(&d->changes, 0, d->now)) {
    by_topology_destroy(composed);
    d->changed = d->now + later - settling;
  } else {
    d->last = *out = composed;
    verdict = BY_DISCOVERY_CHANGED;
  }
  collect_cells(d);
  end_contradictions(d);
  return verdict;
}

enum by_discovery_verdict by_manager_discovery_look(struct by_manager_discovery *d, double now,
                                                    struct by_topology **out) {
  forget_parted(d, now);
  bool silent = !d->assumes && now >= d->first + silence;
  bool settled = now >= fmin(d->changed + settling, d->waiting + most);
  *out = NULL;
  d->now = now;
  d->assumes |= silent;
  enum by_discovery_verdict verdict = settled || silent ? look(d, out) : BY_DISCOVERY_SAME;
  log_lasting(d, now);
  return verdict;
}

/* ---- all of it */

void by_manager_discovery_print(const struct by_manager_discovery *d, struct by_text *text) {
  by_json_put_bool(text, "discovered", !d->options.written);
  by_json_begin_member(text, "contradictions");
  by_text_add(text, "[");
  for (uint32_t i = 0; i < d->n; i++) {
    if (!d->all[i].lasts) continue;
    by_json_separate(text);
    by_json_add_string(text, d->all[i].text);
  }
  by_text_add(text, "]");
}

enum banyan_status by_manager_discovery_create(const struct by_manager_discovery_options *options, double now,
                                               struct by_manager_discovery **out) {
  struct by_manager_discovery *d = calloc(1, sizeof *d);
  *out = d;
  if (!d) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for what agents report");
  d->options = *options;
  d->now = now;
  d->changes = by_budget_full(&of_changes, now);
  d->lines = by_budget_full(&of_lines, now);
  d->doubt = doubt;
  d->first = d->changed = d->waiting = INFINITY;
  return BANYAN_OK;
}

void by_manager_discovery_destroy(struct by_manager_discovery *d) {
  struct agent *agents, *agent, *next;
  if (!d) return;
  agents = d->agents;
  HASH_ITER(hh, agents, agent, next) {
    HASH_DELETE(hh, d->agents, agent);
    free_agent(agent);
  }
  for (uint32_t i = 0; i < d->n; i++) free(d->all[i].text);
  free(d);
}
