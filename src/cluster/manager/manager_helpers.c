/* Asks agents to start helpers and servers for a job, records which have joined, and releases them. */
#include "manager_plans.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job_key.h"
#include "json_doc.h"
#include "log.h"
#include "manager_cells.h"
#include "manager_hosts.h"

static const double join_wait = 10;   /* Seconds in which a helper must join. */
static const double barred_for = 300; /* Seconds in which a helper that did not join is not asked again. */

static const char *kind_of(bool server) {
  return server ? "server" : "helper";
}

const char *by_helpers_name(const struct by_manager *m, const struct by_manager_helper *helper, char out[96]) {
  snprintf(out, 96, "the %s on \"%.64s\"", kind_of(helper->server), m->hosts->all[helper->host].name);
  return out;
}

struct by_manager_helper *by_helpers_find(const struct by_manager_job *job, uint32_t host, bool server) {
  for (uint32_t i = 0; i < job->plans.n_helpers; i++)
    if (job->plans.helpers[i].host == host && job->plans.helpers[i].server == server) return &job->plans.helpers[i];
  return NULL;
}

bool by_helpers_is_barred(const struct by_manager *m, const struct by_manager_job *job, uint32_t host, bool server) {
  const struct by_manager_helper *helper = by_helpers_find(job, host, server);
  return helper && helper->state == BY_HELPER_BARRED && m->now < helper->until;
}

uint32_t by_helpers_count_barred_servers(const struct by_manager_job *job) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < job->plans.n_helpers; i++)
    n += job->plans.helpers[i].server && job->plans.helpers[i].state == BY_HELPER_BARRED;
  return n;
}

/* ---- rows */

static void keep_row(const struct by_manager *m, const struct by_manager_job *job,
                     const struct by_manager_helper *helper, bool gone) {
  struct by_manager_row row = {.table = helper->server ? BY_ROW_SERVER : BY_ROW_HELPER,
                               .gone = gone,
                               .job = job->id,
                               .name = m->hosts->all[helper->host].name};
  row.helper.joined = helper->state == BY_HELPER_JOINED;
  row.helper.trees = helper->trees;
  by_manager_keep_row(m, &row);
}

void by_helpers_keep(const struct by_manager *m, const struct by_manager_job *job) {
  for (uint32_t i = 0; i < job->plans.n_helpers; i++) keep_row(m, job, &job->plans.helpers[i], false);
}

static struct by_manager_helper *add_helper(struct by_manager_job *job, uint32_t host, bool server,
                                            enum by_helper_state state) {
  struct by_managed_plans *plans = &job->plans;
  if (!BY_ARRAY_GROW(&plans->helpers, &plans->helpers_capacity, (size_t)plans->n_helpers + 1)) return NULL;
  plans->helpers[plans->n_helpers] = (struct by_manager_helper){.host = host, .server = server, .state = state};
  return &plans->helpers[plans->n_helpers++];
}

enum banyan_status by_helpers_restore(struct by_manager *m, struct by_manager_job *job,
                                      const struct by_manager_row *row) {
  uint32_t host = by_manager_hosts_find(m, row->name);
  if (host == BY_NOWHERE || !row->helper.joined) return BANYAN_OK;
  struct by_manager_helper *helper = add_helper(job, host, row->table == BY_ROW_SERVER, BY_HELPER_JOINED);
  if (!helper) return by_manager_no_memory();
  helper->trees = row->helper.trees;
  return BANYAN_OK;
}

/* ---- the needs of a plan */

/* Tells whether a server is on a host: "HOST/N" is tree N of the server on HOST. */
static bool is_on(const struct by_vertex *server, const char *host) {
  const char *slash = strrchr(server->name, '/');
  size_t length = slash ? (size_t)(slash - server->name) : 0;
  return slash && strlen(host) == length && !memcmp(server->name, host, length);
}

static uint32_t host_of(const struct by_manager *m, const struct by_vertex *vertex) {
  char name[BY_CLUSTER_NAME + 1];
  const char *slash = vertex->kind == BY_VERTEX_SERVER ? strrchr(vertex->name, '/') : NULL;
  size_t length = slash ? (size_t)(slash - vertex->name) : strlen(vertex->name);
  snprintf(name, sizeof name, "%.*s", (int)length, vertex->name);
  return by_manager_hosts_find(m, name);
}

/* Returns the trees that a host's server must have for a plan; their numbers may have gaps. */
static uint32_t trees_on(const struct by_plan *plan, const char *host) {
  uint32_t max = 0;
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++) {
    if (plan->vertices[v].kind != BY_VERTEX_SERVER || !is_on(&plan->vertices[v], host)) continue;
    uint32_t trees = (uint32_t)strtoul(strrchr(plan->vertices[v].name, '/') + 1, NULL, 10) + 1;
    if (trees > max) max = trees;
  }
  return max;
}

bool by_helpers_are_used(const struct by_manager *m, const struct by_plan *plan,
                         const struct by_manager_helper *helper) {
  const char *host = m->hosts->all[helper->host].name;
  for (uint32_t v = plan ? plan->n_ranks : 0; plan && v < plan->n_vertices; v++) {
    const struct by_vertex *vertex = &plan->vertices[v];
    if (helper->server ? vertex->kind == BY_VERTEX_SERVER && is_on(vertex, host)
                       : vertex->kind == BY_VERTEX_HELPER && !strcmp(vertex->name, host))
      return true;
  }
  return false;
}

/* ---- requests to agents */

static void set_state(const struct by_manager *m, const struct by_manager_job *job, struct by_manager_helper *helper,
                      enum by_helper_state state) {
  static const char *const names[] = {"barred", "asked", "joined"};
  const double seconds[] = {barred_for, join_wait, 0};
  char name[96];
  by_debug("manager", "%s for job %s: %s -> %s", by_helpers_name(m, helper, name), job->id, names[helper->state],
           names[state]);
  assert(state != BY_HELPER_ASKED || helper->state != BY_HELPER_ASKED);
  helper->state = state;
  helper->until = m->now + seconds[state];
  keep_row(m, job, helper, false);
}

/* Sends a ticket that is valid for this helper only, since agents must not know the key. */
static enum banyan_status send_help(struct by_manager *m, const struct by_manager_job *job,
                                    const struct by_manager_helper *helper, const struct by_manager_host *host) {
  struct by_ticket_subject subject = {helper->server ? BY_TICKET_SERVER : BY_TICKET_HELPER, host->name};
  char ticket[BY_TICKET_TEXT];
  struct by_key key;
  BY_TRY(by_key_derive(job->key, &key));
  enum banyan_status status = by_ticket_issue(&key, &subject, (uint64_t)m->now + BY_TICKET_SECONDS, ticket);
  explicit_bzero(&key, sizeof key);
  BY_TRY(status);
  by_manager_send(m, host->agent,
                  &(struct by_cluster_message){.type = BY_MESSAGE_HELP,
                                               .job = job->id,
                                               .root = job->root,
                                               .key = ticket,
                                               .helper = host->name,
                                               .server = helper->server,
                                               .trees = helper->trees});
  explicit_bzero(ticket, sizeof ticket);
  return BANYAN_OK;
}

/* Asks for a helper. An agent restarts a server that has joined and must serve more trees. */
static bool ask_host(struct by_manager *m, struct by_manager_job *job, uint32_t host, bool server, uint32_t trees) {
  struct by_manager_helper *helper = by_helpers_find(job, host, server);
  if (!helper && !(helper = add_helper(job, host, server, BY_HELPER_BARRED))) return false;
  if (helper->state == BY_HELPER_ASKED && helper->trees >= trees) return true;
  if (helper->state == BY_HELPER_JOINED && helper->trees >= trees) return true;
  if (trees > helper->trees) helper->trees = trees;
  if (helper->state != BY_HELPER_ASKED) set_state(m, job, helper, BY_HELPER_ASKED);
  return send_help(m, job, helper, &m->hosts->all[host]) == BANYAN_OK;
}

bool by_helpers_ask(struct by_manager *m, struct by_manager_job *job, const struct by_plan *plan) {
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++) {
    const struct by_vertex *vertex = &plan->vertices[v];
    if (vertex->kind != BY_VERTEX_HELPER && vertex->kind != BY_VERTEX_SERVER) continue;
    uint32_t host = host_of(m, vertex);
    bool server = vertex->kind == BY_VERTEX_SERVER;
    uint32_t trees = server && host != BY_NOWHERE ? trees_on(plan, m->hosts->all[host].name) : 0;
    if (host == BY_NOWHERE || trees > BY_CLUSTER_TREES || !job->key || !ask_host(m, job, host, server, trees))
      return false;
  }
  return true;
}

bool by_helpers_have_joined(struct by_manager *m, struct by_manager_job *job, const struct by_plan *plan,
                            const struct by_manager_helper **lost) {
  bool all = true;
  *lost = NULL;
  for (uint32_t i = 0; i < job->plans.n_helpers; i++) {
    struct by_manager_helper *helper = &job->plans.helpers[i];
    if (!by_helpers_are_used(m, plan, helper)) continue;
    if (helper->state == BY_HELPER_ASKED && m->now >= helper->until) set_state(m, job, helper, BY_HELPER_BARRED);
    if (helper->state == BY_HELPER_BARRED) *lost = helper;
    all &= helper->state == BY_HELPER_JOINED;
  }
  return all;
}

bool by_helpers_are_missing(const struct by_manager *m, const struct by_manager_job *job, const struct by_plan *plan) {
  uint8_t *uses = job->plans.n_helpers ? by_jobs_find_uses(m, job) : NULL;
  bool missing = false;
  for (uint32_t i = 0; i < job->plans.n_helpers; i++) {
    const struct by_manager_helper *helper = &job->plans.helpers[i];
    bool lost = helper->state == BY_HELPER_BARRED || (!helper->server && uses && helper->host < m->topology->n_nodes &&
                                                      uses[helper->host] & BY_NODE_HAS_RANKS);
    missing |= lost && by_helpers_are_used(m, plan, helper);
  }
  free(uses);
  return missing;
}

/* A plan in the making may have a helper there, too. */
void by_helpers_mark_displaced(const struct by_manager *m, const struct by_manager_job *job) {
  for (struct by_manager_job *other = m->jobs; other; other = other->next) {
    if (other == job || by_job_has_left(other)) continue;
    bool helped = other->plans.running;
    for (uint32_t h = 0; h < job->n_hosts && !helped; h++)
      helped = by_helpers_find(other, job->nodes[h], false) != NULL;
    if (helped) by_due_mark(other, BY_DUE_HELPER, "job %.12s runs on the host of a helper", job->id);
  }
}

/* ---- reports of agents */

void by_helpers_set_joined(const struct by_manager *m, const struct by_manager_job *job,
                           struct by_manager_helper *helper, const struct by_manager_peer *by) {
  set_state(m, job, helper, by ? BY_HELPER_JOINED : BY_HELPER_BARRED);
  helper->by = by ? by->number : 0;
  if (!by) helper->trees = 0;
}

void by_helpers_send_release(const struct by_manager *m, const struct by_manager_job *job, uint32_t host, bool server) {
  by_manager_send(m, m->hosts->all[host].agent,
                  &(struct by_cluster_message){.type = BY_MESSAGE_REST, .job = job->id, .server = server});
}

void by_helpers_release(struct by_manager *m, struct by_manager_job *job, const struct by_plan *current,
                        const struct by_plan *proposed, bool all) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < job->plans.n_helpers; i++) {
    struct by_manager_helper helper = job->plans.helpers[i];
    bool used = by_helpers_are_used(m, current, &helper) || by_helpers_are_used(m, proposed, &helper);
    /* Calls of an earlier plan may still use its server. */
    used |= helper.server && by_grants_use_server(job, m->hosts->all[helper.host].name);
    used &= !all;
    bool barred = helper.state == BY_HELPER_BARRED;
    if (used || (barred && !all && m->now < helper.until)) {
      job->plans.helpers[kept++] = helper;
      continue;
    }
    if (!barred) by_helpers_send_release(m, job, helper.host, helper.server);
    keep_row(m, job, &helper, true);
  }
  job->plans.n_helpers = kept;
}

/* ---- state */

void by_helpers_print(const struct by_manager *m, const struct by_manager_job *job, bool server, struct by_text *text) {
  by_text_add(text, "[");
  for (uint32_t i = 0; i < job->plans.n_helpers; i++) {
    const struct by_manager_helper *helper = &job->plans.helpers[i];
    if (helper->server != server || helper->state == BY_HELPER_BARRED) continue;
    by_json_separate(text);
    by_text_add(text, "{");
    by_json_put_string(text, "host", m->hosts->all[helper->host].name);
    if (server) by_json_put_count(text, "trees", helper->trees);
    by_json_put_bool(text, "joined", helper->state == BY_HELPER_JOINED);
    by_text_add(text, "}");
  }
  by_text_add(text, "]");
}
