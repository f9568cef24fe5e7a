/* Records hosts, their interfaces and offers, finds the links of the topology to which interfaces belong, and handles
 * the messages of agents and of ranks without one. */
#include "manager_hosts.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager_cells.h"
#include "manager_job.h"
#include "manager_links.h"
#include "manager_plans.h"

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

/* Finds a host, or adds it as one that is not in the topology. BANYAN_ERR_UNSUPPORTED: too many. */
static enum banyan_status find_or_add_host(struct by_manager *m, const char *name, uint32_t *out) {
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

/* Sets the agent of a host, with what its hello offers. */
static enum banyan_status set_agent(struct by_manager *m, uint32_t index, struct by_manager_peer *agent,
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

/* Records the interfaces that an agent reports; forgets its unknown jobs. */
static enum banyan_status take_interfaces(struct by_manager *m, uint32_t index,
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

/* The agent has gone, so its use of links is unknown. */
static void forget_use(struct by_manager *m, uint32_t index) {
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

static void note_unknown(struct by_manager *m, uint32_t index, const char *job) {
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

/* Returns the bit/s of a host's links by the topology; 0: unknown. */
static double rate_of_host(const struct by_manager *m, uint32_t index) {
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

/* ---- connections */

enum { JOBS_OF_ONE = 512 /* Jobs of one certificate. */ };

static const double found_again = 6; /* Seconds in which ranks find an agent that was restarted. */

#define refuse(...) by_fail(BANYAN_ERR_PROTOCOL, __VA_ARGS__)

static void set_state(struct by_manager_peer *peer, enum by_peer_state state) {
  static const char *const names[] = {"new", "welcome", "reported"};
  by_debug("manager", "connection %llu, of \"%s\": %s -> %s", (unsigned long long)peer->number, peer->host,
           names[peer->state], names[state]);
  assert(state == peer->state + 1);
  peer->state = state;
}

/* ---- hello */

static enum banyan_status greet_agent(struct by_manager *m, struct by_manager_peer *peer,
                                      const struct by_cluster_message *message) {
  uint32_t index;
  if (peer->role == BY_ROLE_JOB)
    return by_fail(BANYAN_ERR_AUTH,
                   "the certificate of \"%.64s\" is a job's: an agent needs one of `banyan keys agent`",
                   peer->name ? peer->name : "");
  if (peer->name && strcmp(peer->name, message->host) != 0)
    return by_fail(BANYAN_ERR_AUTH, "the certificate is for host \"%.64s\", not for \"%.64s\": make one for it",
                   peer->name, message->host);
  BY_TRY(find_or_add_host(m, message->host, &index));
  const struct by_manager_host *host = &m->hosts->all[index];
  if (host->agent && m->now - host->agent->last_message < 3 * m->options.interval)
    return refuse("host \"%.64s\" has an agent already: stop one of them, or name this host otherwise", message->host);
  peer->index = index;
  peer->born = m->now - message->age;
  BY_TRY(set_agent(m, index, peer, message));
  return take_interfaces(m, index, message->interfaces, message->n_interfaces);
}

static enum banyan_status greet_rank(struct by_manager_peer *peer, const struct by_cluster_message *message) {
  if (peer->role == BY_ROLE_AGENT)
    return by_fail(BANYAN_ERR_AUTH, "the certificate of \"%.64s\" is an agent's: a job needs one of `banyan keys job`",
                   peer->name ? peer->name : "");
  if (peer->name && strcmp(peer->name, message->host) != 0)
    return by_fail(BANYAN_ERR_AUTH,
                   "the certificate is for jobs whose rank 0 is on \"%.64s\", this one's is on \"%.64s\": make one for "
                   "that host, or name it by BANYAN_HOST",
                   peer->name, message->host);
  if (message->rank != 0) return refuse("rank %u speaks to the manager: only rank 0 may", message->rank);
  memcpy(peer->job, message->job, sizeof peer->job);
  return BANYAN_OK;
}

static enum banyan_status handle_hello(struct by_manager *m, struct by_manager_peer *peer,
                                       const struct by_cluster_message *message) {
  if (peer->state != BY_PEER_NEW) return refuse("received \"hello\" twice");
  if (message->version != BY_CLUSTER_VERSION)
    return refuse("it uses version %u of the protocol, this manager %d: install the same Banyan on both",
                  message->version, BY_CLUSTER_VERSION);
  if (!(peer->host = strdup(message->host))) return by_manager_no_memory();
  BY_TRY(message->job ? greet_rank(peer, message) : greet_agent(m, peer, message));
  set_state(peer, BY_PEER_WELCOME);
  uint32_t host = peer->index != BY_NOWHERE ? peer->index : by_manager_hosts_find(m, message->host);
  by_manager_send(m, peer,
                  &(struct by_cluster_message){.type = BY_MESSAGE_WELCOME,
                                               .version = BY_CLUSTER_VERSION,
                                               .interval = m->options.interval,
                                               .rate = host == BY_NOWHERE ? 0 : rate_of_host(m, host)});
  return BANYAN_OK;
}

/* ---- about jobs */

/* A rank may only speak for its own job. */
static enum banyan_status may_send(const struct by_manager_peer *peer, const char *job) {
  if (!*peer->job || !strcmp(peer->job, job)) return BANYAN_OK;
  return refuse("job %.32s speaks for job %.32s", peer->job, job);
}

/* Ignores an error in a message that an agent forwards: any process may cause it, and the host must not lose its
 * manager. */
static enum banyan_status ignore_error(struct by_manager *m, const struct by_manager_peer *peer,
                                       enum banyan_status status) {
  if (status == BANYAN_OK || *peer->job) return status;
  by_info("manager", "ignored a message of the agent of \"%.64s\": %s", peer->host, banyan_error_text());
  m->counters.refused++;
  return BANYAN_OK;
}

static enum banyan_status begin_job(struct by_manager *m, struct by_manager_peer *peer,
                                    const struct by_cluster_message *message) {
  struct by_manager_job *job = by_jobs_find(m, message->job);
  if (strcmp(peer->host, message->hosts[0]) != 0)
    return refuse("\"%.64s\" speaks for rank 0 of a job, which is on \"%.64s\"", peer->host, message->hosts[0]);
  /* A job belongs to the certificate that announced it: an agent's, or another one for the host of its rank 0. */
  char owner[BY_MANAGER_OWNER];
  snprintf(owner, sizeof owner, "%s %.64s", peer->role == BY_ROLE_AGENT ? "agent" : "job",
           peer->name ? peer->name : "");
  if (job && !by_job_has_left(job) && strcmp(job->hosts[0], peer->host) != 0)
    return refuse("job %.32s is another one's, on \"%.64s\"", message->job, job->hosts[0]);
  if (job && !by_job_has_left(job) && *job->owner && strcmp(job->owner, owner) != 0)
    return refuse("job %.32s is another one's, which came with the certificate of %s", message->job, job->owner);
  uint32_t n = 0;
  for (const struct by_manager_job *other = by_jobs_first_of(m, peer->host); other; other = by_jobs_next_of(other))
    n += !by_job_has_left(other) && !strcmp(other->owner, owner);
  if ((!job || by_job_has_left(job)) && n >= JOBS_OF_ONE)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "the manager has %d jobs that came with the certificate of %s", JOBS_OF_ONE,
                   owner);
  BY_TRY(by_jobs_begin(m, message, &job));
  by_jobs_set_speaker(m, job, peer, owner);
  return BANYAN_OK;
}

/* Ends the jobs whose rank 0 is on an agent's host and that its report does not name. An agent sends all jobs before
 * its first report, but ranks take some seconds to find an agent that has just begun. */
static void end_unreported(struct by_manager *m, const struct by_manager_peer *peer,
                           const struct by_cluster_message *message) {
  if (peer->index == BY_NOWHERE) return;
  bool young = m->now - peer->born < found_again;
  for (struct by_manager_job *job = by_jobs_first_of(m, peer->host); job; job = by_jobs_next_of(job)) {
    if (by_job_has_left(job) || (young && job->peer != peer)) continue;
    uint32_t i = 0;
    while (i < message->n_jobs && strcmp(message->jobs[i].job, job->id) != 0) i++;
    if (i == message->n_jobs && (!job->peer || *job->peer->job == 0))
      by_jobs_leave(m, job, "its agent does not know it");
  }
}

static enum banyan_status handle_report(struct by_manager *m, struct by_manager_peer *peer,
                                        const struct by_cluster_message *message) {
  m->counters.reports++;
  bool is_agent = peer->index != BY_NOWHERE;
  if (is_agent) BY_TRY(take_interfaces(m, peer->index, message->interfaces, message->n_interfaces));
  for (uint32_t i = 0; i < message->n_jobs; i++) {
    BY_TRY(may_send(peer, message->jobs[i].job));
    struct by_manager_job *job = by_jobs_find(m, message->jobs[i].job);
    bool may = job && !by_job_has_left(job) && (!*peer->job || job->peer == peer);
    if (may) by_jobs_report(m, job, peer, &message->jobs[i]);
    if ((!job || by_job_has_left(job)) && is_agent) note_unknown(m, peer->index, message->jobs[i].job);
  }
  end_unreported(m, peer, message);
  if (peer->state == BY_PEER_REPORTED) return BANYAN_OK;
  if (is_agent) by_plans_end_unreported(m, peer);
  set_state(peer, BY_PEER_REPORTED);
  return BANYAN_OK;
}

/* Answers a job that requests cells and gets none, as it waits. */
static void answer_none(struct by_manager *m, struct by_manager_peer *peer, const struct by_cluster_message *message) {
  struct by_cluster_message none = {.type = BY_MESSAGE_CELLS, .job = message->job};
  if (message->type == BY_MESSAGE_RESERVE) by_manager_send(m, peer, &none);
}

static enum banyan_status handle_of_job(struct by_manager *m, struct by_manager_peer *peer,
                                        const struct by_cluster_message *message) {
  struct by_manager_job *job = by_jobs_find(m, message->job);
  BY_TRY(may_send(peer, message->job));
  if (!job || by_job_has_left(job)) {
    answer_none(m, peer, message); /* The job has left meanwhile, or its announcement was ignored. */
    return BANYAN_OK;
  }
  if (message->type == BY_MESSAGE_HELPING) {
    uint32_t host = by_manager_hosts_find(m, message->helper);
    if (host != BY_NOWHERE && host == peer->index)
      by_plans_helping(m, job, host, message->server, message->joined ? peer : NULL, message->why);
    return BANYAN_OK;
  }
  bool sends_for_root = job->peer == peer;
  if (message->type == BY_MESSAGE_LEFT) {
    if (message->rank == 0 && sends_for_root) by_jobs_leave(m, job, "it ended");
    return BANYAN_OK;
  }
  if (!sends_for_root) {
    answer_none(m, peer, message);
    return ignore_error(
        m, peer,
        refuse("\"%.64s\" reports what job %.32s does, and does not speak for its rank 0", peer->host, message->job));
  }
  if (message->type == BY_MESSAGE_RESERVE) return by_cells_reserve(m, job, message);
  if (message->type == BY_MESSAGE_SWITCHED)
    by_plans_switched(m, job, message->number);
  else if (message->type == BY_MESSAGE_KEPT)
    by_plans_kept(m, job, message->number, message->why);
  else
    by_plans_released(m, job, message->number);
  return BANYAN_OK;
}

static enum banyan_status handle_message(struct by_manager *m, struct by_manager_peer *peer,
                                         const struct by_cluster_message *message) {
  if (message->type != BY_MESSAGE_HELLO && peer->state == BY_PEER_NEW)
    return refuse("received \"%s\" before \"hello\"", by_cluster_type_name(message->type));
  switch (message->type) {
  case BY_MESSAGE_HELLO: return handle_hello(m, peer, message);
  case BY_MESSAGE_JOB: BY_TRY(may_send(peer, message->job)); return ignore_error(m, peer, begin_job(m, peer, message));
  case BY_MESSAGE_REPORT: return handle_report(m, peer, message);
  case BY_MESSAGE_WANTED: return by_manager_offer(m, peer, message);
  case BY_MESSAGE_MEET: return ignore_error(m, peer, by_meetings_take(m, peer, message));
  case BY_MESSAGE_PARTED: by_meetings_part(m, peer, message); return BANYAN_OK;
  case BY_MESSAGE_LEFT:
  case BY_MESSAGE_SWITCHED:
  case BY_MESSAGE_KEPT:
  case BY_MESSAGE_RELEASED:
  case BY_MESSAGE_RESERVE:
  case BY_MESSAGE_HELPING: return handle_of_job(m, peer, message);
  default: return refuse("\"%s\" is not for a manager", by_cluster_type_name(message->type));
  }
}

enum banyan_status by_manager_handle(struct by_manager *m, struct by_manager_peer *peer,
                                     const struct by_cluster_message *message, double now) {
  m->now = now;
  peer->last_message = now;
  enum banyan_status status = handle_message(m, peer, message);
  if (status != BANYAN_OK) m->counters.refused++;
  return status;
}

/* ---- coming and going */

static void free_peer(struct by_manager *m, struct by_manager_peer *peer) {
  TAILQ_REMOVE(&m->peers, peer, entry);
  free(peer->name);
  free(peer->host);
  free(peer);
}

enum banyan_status by_manager_joined(struct by_manager *m, void *connection, enum by_manager_role role,
                                     const char *name, double now, struct by_manager_peer **out) {
  struct by_manager_peer *peer = calloc(1, sizeof *peer);
  m->now = now;
  if (!peer) return by_manager_no_memory();
  *peer = (struct by_manager_peer){.connection = connection,
                                   .number = ++m->n_joined,
                                   .role = role,
                                   .name = name ? strdup(name) : NULL,
                                   .index = BY_NOWHERE,
                                   .born = now,
                                   .last_message = now};
  TAILQ_INSERT_TAIL(&m->peers, peer, entry);
  if (name && !peer->name) {
    free_peer(m, peer);
    return by_manager_no_memory();
  }
  *out = peer;
  return BANYAN_OK;
}

void by_manager_gone(struct by_manager *m, struct by_manager_peer *peer, double now) {
  m->now = now;
  by_jobs_forget_peer(m, peer);
  by_meetings_forget_peer(m, peer);
  if (peer->index != BY_NOWHERE && m->hosts->all[peer->index].agent == peer) forget_use(m, peer->index);
  free_peer(m, peer);
}

void by_manager_peers_fini(struct by_manager *m) {
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!TAILQ_EMPTY(&m->peers)) free_peer(m, TAILQ_FIRST(&m->peers));
}
