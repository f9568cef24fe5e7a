/* Records agents' reports about the network, composes a topology when they have settled, logs contradictions, and holds
 * the topology in use. */
#include "manager_discovery.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "json_doc.h"
#include "log.h"

static const double settling = 0.4;    /* Seconds without a change after which reports are evaluated. */
static const double max_settling = 2;  /* Maximum seconds from the first change to that. */
static const double lldp_time = 1.5;   /* Seconds from the first agent until all devices with LLDP have been noticed. */
static const double confirm_after = 3; /* Seconds until a contradiction is confirmed: ends learn at different times. */
static const double confirm_cells_after = 10;
static const double forgotten = 600; /* Seconds after which a host without a connected agent is forgotten. */
static const double start_up = 30;   /* Seconds in which a written topology can be rejected. */

enum { AGENTS = 16384, CONTRADICTIONS = 256 };

/* A new topology delays all jobs, so it is limited how often agents can cause one. */
static const struct by_budget_rules change_limits = {
    .lines_at_once = 16, .lines_a_second = 1.0 / 30, .bytes_at_once = 1, .bytes_a_second = 1};
static const double retry_after = 30; /* Seconds until the next attempt. */
static const struct by_budget_rules line_limits = {
    .lines_at_once = 16, .lines_a_second = 0.1, .bytes_at_once = 1, .bytes_a_second = 1};

/* An interface. Its strings are on the heap, "" if unknown. */
struct interface {
  char *name, *neighbour, *port;
  double rate;
  bool stale, listed; /* `listed`: contained in the message that is being read. */
};

struct agent {
  char *host;
  double parted; /* When its agent disconnected; INFINITY: it is connected. */
  bool aggregates;
  uint64_t memory;
  uint32_t cells;
  const char *misfit; /* A contradiction about its cells; NULL: none. */
  uint32_t n, allocated;
  struct interface *interfaces;
  UT_hash_handle hh;
};

struct contradiction {
  char *text;
  double from;       /* When it is confirmed. */
  bool is_confirmed; /* It was confirmed, and logged. */
  bool found_again;  /* It was found in the last evaluation. */
  bool with_written; /* It is about the written topology. */
};

struct by_manager_discovery {
  struct by_manager_discovery_options options;
  struct agent *agents;
  double first;                   /* When the first agent connected; INFINITY: none has. */
  double changed, waiting;        /* The last change, and the first that was not evaluated; INFINITY: none. */
  bool assumes;                   /* Hosts without neighbours so far are assumed to have none that speaks LLDP. */
  const struct by_topology *last; /* The last composed topology, owned by the caller. */
  struct by_budget changes;
  uint32_t n;
  struct contradiction all[CONTRADICTIONS];
  bool with_written;    /* Contradictions being collected are about the written topology. */
  double confirm_after; /* Seconds until they are confirmed. */
  double now;
  struct by_budget lines; /* Limits lines of the log. */
};

/* ---- agents' reports */

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

/* Adds an interface. NULL: no memory; the next report comes soon. */
static struct interface *add_interface(struct agent *agent, const char *name) {
  struct interface fresh = {.name = strdup(name), .neighbour = strdup(""), .port = strdup("")};
  if (fresh.name && fresh.neighbour && fresh.port &&
      BY_ARRAY_GROW(&agent->interfaces, &agent->allocated, agent->n + 1)) {
    agent->interfaces[agent->n] = fresh;
    return &agent->interfaces[agent->n++];
  }
  free_interface(&fresh);
  return NULL;
}

/* Sets the neighbour and returns whether anything changed. Without a neighbour the last one stays, as stale. */
static bool set_neighbour(struct interface *interface, const char *neighbour, const char *port) {
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

/* Removes interfaces that are no longer listed, unless they have a neighbour and are not too many. */
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

static bool read_interfaces(struct agent *agent, const struct by_cluster_message *message) {
  bool changed = false;
  for (uint32_t i = 0; i < agent->n; i++) agent->interfaces[i].listed = false;
  for (uint32_t i = 0; i < message->n_interfaces; i++) {
    const struct by_cluster_interface *from = &message->interfaces[i];
    struct interface *to = find_interface(agent, from->name);
    changed |= !to;
    if (!to && !(to = add_interface(agent, from->name))) continue;
    to->listed = true;
    to->rate = from->rate;
    changed |= set_neighbour(to, from->neighbour, from->neighbour_port);
  }
  return end_unlisted(agent) || changed;
}

static bool read_cells(struct agent *agent, const struct by_cluster_aggregates *aggregates) {
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
  if (message->type == BY_MESSAGE_HELLO) changed |= read_cells(agent, message->aggregates);
  changed |= read_interfaces(agent, message);
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

/* Forgets a neighbour whose agent is gone for good. */
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
    note_change(d, now - settling); /* Evaluates it at once. */
  }
}

/* Restores one end of a link, as its agent has reported it. */
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
    (void)set_neighbour(interface, there->name, link->port[!end]);
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

static void collect_contradiction(void *context, const char *text) {
  struct by_manager_discovery *d = context;
  struct contradiction *at = d->all, *end = at + d->n;
  while (at < end && strcmp(at->text, text) != 0) at++;
  if (at == end) {
    char *copy = d->n < CONTRADICTIONS ? strdup(text) : NULL;
    if (!copy) return;
    *at = (struct contradiction){.text = copy, .from = d->now + d->confirm_after, .with_written = d->with_written};
    d->n++;
  }
  at->found_again = true;
}

static void end_contradictions(struct by_manager_discovery *d) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < d->n; i++)
    if (d->all[i].found_again)
      d->all[kept++] = d->all[i];
    else
      free(d->all[i].text);
  d->n = kept;
  for (uint32_t i = 0; i < d->n; i++) d->all[i].found_again = false;
}

/* All contradictions are shown, but the number of logged ones is limited. */
static void log_confirmed(struct by_manager_discovery *d, double now) {
  for (uint32_t i = 0; i < d->n; i++) {
    struct contradiction *one = &d->all[i];
    if (one->is_confirmed || now < one->from) continue;
    one->is_confirmed = true;
    if (!by_budget_take(&d->lines, 0, now)) continue;
    by_warn("manager", "%s: %s",
            one->with_written ? "an agent contradicts the topology, which counts"
                              : "agents contradict each other, so what they disagree on does not count",
            one->text);
  }
}

/* ---- composing */

static enum banyan_status compose_reports(struct by_manager_discovery *d, struct by_topology **out) {
  uint32_t n = HASH_COUNT(d->agents), of_all = 0, at = 0, node = 0;
  const struct by_discovery_rules rules = {
      .assume_network = d->assumes, .contradiction = collect_contradiction, .context = d};
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

/* Reports the differences as an error, while the manager starts. */
static bool is_rejected(struct by_manager_discovery *d, const struct by_topology *composed) {
  const struct by_discovery_rules rules = {.contradiction = collect_contradiction, .context = d};
  struct by_text text;
  d->with_written = true;
  uint32_t n = by_discovery_compare(d->options.written, composed, &rules);
  d->with_written = false;
  if (!n || d->options.trust || d->now > d->first + start_up) return false;
  by_text_init(&text);
  for (uint32_t i = 0; i < d->n; i++)
    if (d->all[i].with_written && d->all[i].found_again)
      by_text_add(&text, "%s%s", text.length ? "; " : "", d->all[i].text);
  (void)by_fail(BANYAN_ERR_TOPOLOGY,
                "the topology differs from what agents report (--trust-topology uses it nevertheless): %s",
                by_text_get(&text));
  by_text_fini(&text);
  return true;
}

double by_manager_discovery_next(const struct by_manager_discovery *d) {
  double next = fmin(d->changed + settling, d->waiting + max_settling);
  if (!d->assumes) next = fmin(next, d->first + lldp_time);
  for (const struct agent *agent = d->agents; agent; agent = agent->hh.next)
    next = fmin(next, agent->parted + forgotten);
  for (uint32_t i = 0; i < d->n; i++)
    if (!d->all[i].is_confirmed) next = fmin(next, d->all[i].from);
  return next;
}

/* Collects contradictions about cells. Jobs' cells change before the switch's report, so confirmation takes longer. */
static void collect_cells(struct by_manager_discovery *d) {
  char text[512];
  for (const struct agent *agent = d->agents; agent; agent = agent->hh.next) {
    if (!agent->misfit) continue;
    snprintf(text, sizeof text, "%.255s says that it %s", agent->host, agent->misfit);
    d->confirm_after = confirm_cells_after;
    collect_contradiction(d, text);
    d->confirm_after = confirm_after;
  }
}

static enum by_discovery_verdict evaluate(struct by_manager_discovery *d, struct by_topology **out) {
  struct by_topology *composed;
  enum by_discovery_verdict verdict = BY_DISCOVERY_SAME;
  d->changed = d->waiting = INFINITY;
  enum banyan_status status = compose_reports(d, &composed);
  if (status != BANYAN_OK) {
    by_debug("manager", "%s", banyan_error_text());
  } else if (d->options.written) {
    verdict = is_rejected(d, composed) ? BY_DISCOVERY_REJECTED : BY_DISCOVERY_SAME;
    by_topology_destroy(composed);
  } else if (d->last && by_discovery_is_same(d->last, composed)) {
    by_topology_destroy(composed);
  } else if (!by_budget_take(&d->changes, 0, d->now)) {
    by_topology_destroy(composed);
    d->changed = d->now + retry_after - settling;
  } else {
    d->last = *out = composed;
    verdict = BY_DISCOVERY_CHANGED;
  }
  collect_cells(d);
  end_contradictions(d);
  return verdict;
}

enum by_discovery_verdict by_manager_discovery_evaluate(struct by_manager_discovery *d, double now,
                                                        struct by_topology **out) {
  forget_parted(d, now);
  bool silent = !d->assumes && now >= d->first + lldp_time;
  bool settled = now >= fmin(d->changed + settling, d->waiting + max_settling);
  *out = NULL;
  d->now = now;
  d->assumes |= silent;
  enum by_discovery_verdict verdict = settled || silent ? evaluate(d, out) : BY_DISCOVERY_SAME;
  log_confirmed(d, now);
  return verdict;
}

/* ---- all of it */

void by_manager_discovery_print(const struct by_manager_discovery *d, struct by_text *text) {
  by_json_put_bool(text, "discovered", !d->options.written);
  by_json_begin_member(text, "contradictions");
  by_text_add(text, "[");
  for (uint32_t i = 0; i < d->n; i++) {
    if (!d->all[i].is_confirmed) continue;
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
  d->changes = by_budget_full(&change_limits, now);
  d->lines = by_budget_full(&line_limits, now);
  d->confirm_after = confirm_after;
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

struct by_manager_topology {
  struct by_manager_topology_options options;
  struct by_manager_discovery *discovery;
  struct by_timer settle_timer; /* Evaluates agents' reports. */
  struct by_topology *composed; /* The topology in use; NULL: the written one. */
  struct by_topology *next;     /* NULL: none. */
};

static double now_of(const struct by_manager_topology *t) {
  return t->options.now(t->options.context);
}

static void set_timer(struct by_manager_topology *t) {
  double wait = by_manager_discovery_next(t->discovery) - now_of(t);
  if (isfinite(wait))
    by_loop_set_delay(t->options.loop, &t->settle_timer, by_clock_from_seconds(fmax(0, wait)));
  else
    by_loop_cancel_timer(&t->settle_timer);
}

static void evaluate_reports(void *context) {
  struct by_manager_topology *t = context;
  struct by_topology *fresh;
  switch (by_manager_discovery_evaluate(t->discovery, now_of(t), &fresh)) {
  case BY_DISCOVERY_SAME: break;
  case BY_DISCOVERY_CHANGED:
    by_topology_destroy(t->next);
    t->next = fresh;
    t->options.composed(t->options.context);
    break;
  case BY_DISCOVERY_REJECTED: t->options.rejected(t->options.context, banyan_error_text()); break;
  }
  set_timer(t);
}

/* ---- agents' reports */

void by_manager_topology_handle(struct by_manager_topology *t, const char *host,
                                const struct by_cluster_message *message, uint64_t held) {
  by_manager_discovery_handle(t->discovery, host, message, now_of(t));
  if (message->type == BY_MESSAGE_REPORT)
    by_manager_discovery_count(t->discovery, host, message->used_cells, held, now_of(t));
  set_timer(t);
}

void by_manager_topology_part(struct by_manager_topology *t, const char *host) {
  by_manager_discovery_part(t->discovery, host, now_of(t));
  set_timer(t);
}

void by_manager_topology_print(const struct by_manager_topology *t, struct by_text *text) {
  by_manager_discovery_print(t->discovery, text);
}

/* ---- the topology in use, and the next one */

const struct by_topology *by_manager_topology_get(const struct by_manager_topology *t) {
  return t->composed ? t->composed : t->options.written;
}

const struct by_topology *by_manager_topology_next(const struct by_manager_topology *t) {
  return t->next;
}

void by_manager_topology_advance(struct by_manager_topology *t, struct by_manager_store *store) {
  by_topology_destroy(t->composed);
  t->composed = t->next;
  t->next = NULL;
  by_manager_topology_keep(t, store);
  by_warn("manager", "the topology that agents report has %u node%s and %u link%s", t->composed->n_nodes,
          by_plural(t->composed->n_nodes), t->composed->n_links, by_plural(t->composed->n_links));
}

/* ---- restart of the manager */

void by_manager_topology_keep(const struct by_manager_topology *t, struct by_manager_store *store) {
  struct by_text text = {0};
  if (!t->composed) return;
  by_topology_print(t->composed, &text);
  if (!text.failed) by_manager_store_keep_topology(store, by_text_get(&text));
  by_manager_store_commit(store);
  by_text_fini(&text);
}

void by_manager_topology_restore(struct by_manager_topology *t, struct by_manager_store *store) {
  struct by_topology *kept = NULL;
  struct by_text text = {0};
  enum banyan_status status = by_manager_store_get_topology(store, &text);
  if (status == BANYAN_OK && text.length)
    status = by_topology_parse("the topology that was kept", by_text_get(&text), text.length, &kept);
  if (status != BANYAN_OK) by_warn("manager", "%s", banyan_error_text());
  if (kept) by_manager_discovery_restore(t->discovery, kept, now_of(t));
  by_topology_destroy(kept);
  by_text_fini(&text);
  evaluate_reports(t);
}

/* ---- beginning and end */

static enum banyan_status begin_discovery(struct by_manager_topology *t) {
  const struct by_manager_discovery_options options = {.written = t->options.written, .trust = t->options.trust};
  BY_TRY(by_manager_discovery_create(&options, now_of(t), &t->discovery));
  if (options.written) return BANYAN_OK;
  t->composed = calloc(1, sizeof *t->composed);
  if (!t->composed) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the manager");
  t->composed->name = "";
  return BANYAN_OK;
}

enum banyan_status by_manager_topology_create(const struct by_manager_topology_options *options,
                                              struct by_manager_topology **out) {
  struct by_manager_topology *t = calloc(1, sizeof *t);
  if (!t) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the manager");
  t->options = *options;
  by_timer_init(&t->settle_timer, evaluate_reports, t);
  enum banyan_status status = begin_discovery(t);
  if (status == BANYAN_OK)
    *out = t;
  else
    by_manager_topology_destroy(t);
  return status;
}

void by_manager_topology_destroy(struct by_manager_topology *t) {
  if (!t) return;
  by_loop_cancel_timer(&t->settle_timer);
  by_manager_discovery_destroy(t->discovery);
  by_topology_destroy(t->composed);
  by_topology_destroy(t->next);
  free(t);
}
