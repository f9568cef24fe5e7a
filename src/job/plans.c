/* Chooses the plan of each communicator, and notifies the helpers and servers that it names. */
#include "plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "control_messages.h"
#include "feature.h"
#include "job_state.h"
#include "log.h"
#include "switched_tree.h"
#include "text.h"

/* Host of each rank of the communicator, numbered in order of appearance, which the caller frees. NULL: out of memory.
 */
static uint32_t *number_hosts(const struct by_job *job, uint32_t n, const uint32_t *processes, uint32_t *n_hosts) {
  uint32_t *hosts = calloc((size_t)n + job->hosts.n, sizeof *hosts);
  *n_hosts = 0;
  for (uint32_t r = 0; hosts && r < n; r++) {
    uint32_t *number_plus_1 = &hosts[n + job->hosts.of[processes[r]]];
    if (!*number_plus_1) *number_plus_1 = ++*n_hosts;
    hosts[r] = *number_plus_1 - 1;
  }
  if (!hosts) (void)by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  return hosts;
}

enum banyan_status by_plans_fit(const struct by_job *job, uint32_t n, const uint32_t *processes, struct by_plan *plan,
                                struct by_plan **out) {
  if (plan->n_ranks == n) {
    *out = plan;
    return BANYAN_OK;
  }
  uint32_t n_hosts, *hosts = number_hosts(job, n, processes, &n_hosts);
  enum banyan_status status = hosts ? BANYAN_OK : BANYAN_ERR_NO_MEMORY;
  if (hosts && n_hosts != plan->n_ranks)
    status = by_fail(BANYAN_ERR_PLAN,
                     "plan '%s' is for %u ranks; this communicator has %u ranks on %u host%s: start as many ranks, or "
                     "hosts, as it is for, or make another plan",
                     plan->name, plan->n_ranks, n, n_hosts, n_hosts == 1 ? "" : "s");
  if (status == BANYAN_OK) status = by_plan_expand(plan, hosts, n, out);
  by_plan_destroy(plan);
  free(hosts);
  return status;
}

enum banyan_status by_plans_named(const struct by_job *job, uint32_t n, const uint32_t *processes, const char *text,
                                  struct by_plan **out) {
  struct by_plan *plan = NULL;
  if (!text || !*text) {
    uint32_t n_hosts, *hosts = number_hosts(job, n, processes, &n_hosts);
    enum banyan_status status = hosts ? by_plan_default(n, hosts, job->hosts.crowded, out) : BANYAN_ERR_NO_MEMORY;
    free(hosts);
    return status;
  }
  BY_TRY(by_plan_named(text, n, &plan));
  plan->origin.supplied = true;
  return by_plans_fit(job, n, processes, plan, out);
}

/* A plan that was planned for the job is one for its hosts. */
static bool are_in_order(uint32_t n, const uint32_t *processes) {
  uint32_t r = 0;
  while (r < n && processes[r] == r) r++;
  return r == n;
}

enum banyan_status by_plans_first(const struct by_job *job, uint32_t n, const uint32_t *processes,
                                  struct by_plan **out) {
  if (job->plans.given && n == job->size && are_in_order(n, processes)) {
    *out = by_plan_hold(job->plans.given);
    return BANYAN_OK;
  }
  return by_plans_named(job, n, processes, n == job->size ? job->settings.plan : NULL, out);
}

void by_plans_give(struct by_job *job, const struct by_plan *plan) {
  by_plan_destroy(job->plans.given);
  job->plans.given = plan ? by_plan_hold(plan) : NULL;
}

const struct by_plan *by_plans_given(const struct by_job *job) {
  return job->plans.given;
}

const struct by_plan *by_plans_chosen(const struct by_job *job) {
  return job->plans.chosen;
}

void by_plans_ignore_setting(struct by_job *job) {
  job->settings.plan = NULL;
}

void by_plans_choose(struct by_job *job, const struct by_plan *plan) {
  struct by_plan *before = job->plans.chosen;
  job->plans.chosen = by_plans_is_users(plan) ? by_plan_hold(plan) : NULL;
  by_plan_destroy(before);
}

bool by_plans_is_pinned(const struct by_plan *current, const struct by_plan *proposed) {
  enum banyan_plan_source source = proposed->origin.source;
  bool planned = source == BANYAN_PLAN_MANAGER || source == BANYAN_PLAN_TOPOLOGY || source == BANYAN_PLAN_MEASURED;
  return planned && !proposed->origin.supplied && by_plans_is_users(current);
}

bool by_plans_is_users(const struct by_plan *plan) {
  return plan->origin.supplied && plan->origin.source != BANYAN_PLAN_MANAGER;
}

/* ---- the log */

/* "exchange up to 16 KiB, sharded beyond" */
static void add_parts(struct by_text *text, const struct by_plan *plan) {
  char size[32];
  for (uint32_t c = 0; c < plan->n_classes; c++) {
    const struct by_class *class_ = &plan->classes[c];
    by_text_add(text, "%s%s", c ? ", " : "; ", class_->part ? class_->part : "other trees");
    if (class_->up_to < UINT64_MAX)
      by_text_add(text, " up to %s", by_print_bytes(class_->up_to, size));
    else
      by_text_add(text, "%s", c ? " beyond" : "");
  }
}

void by_plans_log(const struct by_job *job, const struct by_plan *plan, const char *when) {
  struct by_text text;
  char rate[2][32];
  if (job->rank != 0) return;
  by_text_init(&text);
  by_text_add(&text, "%s%s", banyan_plan_source_name(plan->origin.source),
              by_plans_is_users(plan) ? ", supplied by the user" : "");
  if (plan->classes[0].part) add_parts(&text, plan);
  if (plan->facts.throughput > 0)
    by_text_add(&text, "; %s of at most %s", by_print_rate(plan->facts.throughput, rate[0]),
                by_print_rate(plan->facts.bound, rate[1]));
  by_info("plan", "plan '%s'%s (%s)", plan->name, when, by_text_get(&text));
  by_text_fini(&text);
}

/* ---- helpers and servers */

/* Of a server that is what is before the last "/". */
static bool is_on(const struct by_vertex *vertex, const char *host) {
  size_t length = vertex->kind == BY_VERTEX_SERVER ? by_server_host_bytes(vertex->name) : strlen(vertex->name);
  return strlen(host) == length && !memcmp(host, vertex->name, length);
}

/* The plan that this job was given; NULL: none, or it cannot be read. */
static struct by_plan *given_plan(const struct by_job *job) {
  const char *text = job->settings.plan;
  struct by_plan *plan = NULL;
  if (!text || !*text || by_plan_named(text, job->size, &plan) != BANYAN_OK) return NULL;
  return plan;
}

void by_plans_join(const struct by_job *job, struct by_join *hello, char *name, size_t room) {
  const char *text = job->settings.plan;
  struct by_plan *plan = given_plan(job);
  snprintf(name, room, "%s", plan ? plan->name : "");
  hello->plan = name;
  hello->plan_version = plan ? plan->version : text && *text ? BY_PLAN_UNREADABLE : 0;
  by_plan_destroy(plan);
}

bool by_plans_find_given(void *context, char *name, size_t room) {
  by_plans_join(context, &(struct by_join){0}, name, room);
  return *name;
}

uint32_t by_plans_count(const struct by_job *job, enum by_vertex_kind kind, const char *host) {
  struct by_plan *plan = given_plan(job);
  uint32_t n = 0;
  for (uint32_t v = plan ? plan->n_ranks : 0; plan && v < plan->n_vertices; v++)
    n += plan->vertices[v].kind == kind && (!host || is_on(&plan->vertices[v], host));
  by_plan_destroy(plan);
  return n;
}

/* A process for a vertex: helpers take helpers' vertices, servers take servers', none takes switches'. */
static uint32_t find_one(const struct by_job *job, const struct by_vertex *vertex, bool by_name, const bool *taken) {
  if (vertex->kind != BY_VERTEX_HELPER && vertex->kind != BY_VERTEX_SERVER) return UINT32_MAX;
  enum by_member_kind kind = vertex->kind == BY_VERTEX_HELPER ? BY_MEMBER_HELPER : BY_MEMBER_SERVER;
  const struct by_member *members = job->members;
  for (uint32_t p = job->size; p < job->founders; p++)
    if (!taken[p] && members[p].kind == kind && (!by_name || is_on(vertex, members[p].host))) return p;
  return UINT32_MAX;
}

/* Whether a vertex is a server that finishes a tree; an aggregator is none. */
static bool is_root(const struct by_plan *plan, uint32_t vertex) {
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++) {
      const struct by_group *group = &plan->classes[c].groups[g];
      if (by_group_has_server(plan, group) && group->order[group->root] == vertex) return true;
    }
  return false;
}

/* Which processes stand where the plan has helpers and servers: first those whose hosts have the vertices' names, then
 * the others in turn, of those that were there when the job started; a tree can do without its aggregators, which come
 * last. The same on all ranks. Places that are not UINT32_MAX stay. */
static void place_helpers(const struct by_job *job, const struct by_plan *plan, uint32_t *helpers, bool *taken) {
  enum { BY_NAME, NEEDED, ALL, TURNS };
  uint32_t n = plan->n_vertices - plan->n_ranks;
  for (uint32_t i = 0; i < n; i++)
    if (helpers[i] != UINT32_MAX) taken[helpers[i]] = true;
  for (int turn = BY_NAME; turn < TURNS; turn++)
    for (uint32_t i = 0; i < n; i++) {
      const struct by_vertex *vertex = &plan->vertices[plan->n_ranks + i];
      bool waits = turn == NEEDED && vertex->kind == BY_VERTEX_SERVER && !is_root(plan, plan->n_ranks + i);
      if (helpers[i] != UINT32_MAX || waits) continue;
      helpers[i] = find_one(job, vertex, turn == BY_NAME, taken);
      if (helpers[i] != UINT32_MAX) taken[helpers[i]] = true;
    }
}

/* Whether a process stands at one of the vertices; with `server`, at one of a server. */
static bool has_places(const struct by_plan *plan, const uint32_t *helpers, bool server) {
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++)
    if (helpers[v - plan->n_ranks] != UINT32_MAX && (!server || plan->vertices[v].kind == BY_VERTEX_SERVER))
      return true;
  return false;
}

static bool is_taken(const uint32_t *helpers, uint32_t n, uint32_t process) {
  for (uint32_t i = 0; i < n; i++)
    if (helpers[i] == process) return true;
  return false;
}

/* Of a plan that was agreed on while the job runs: helpers and servers by name alone, the one that came last that does
 * not stand at one of the n places before. Under lock. */
static uint32_t find_living(const struct by_job *job, const struct by_vertex *vertex, const uint32_t *helpers,
                            uint32_t n) {
  enum by_member_kind kind = vertex->kind == BY_VERTEX_HELPER ? BY_MEMBER_HELPER : BY_MEMBER_SERVER;
  for (uint32_t p = job->processes; p-- > job->size;)
    if (job->members[p].kind == kind && is_on(vertex, job->members[p].host) && !by_engine_peer(job->engine, p).lost &&
        !is_taken(helpers, n, p))
      return p;
  return UINT32_MAX;
}

static enum banyan_status fail_absent(const struct by_job *job, const char *plan, const struct by_vertex *vertex) {
  const char *lost = NULL; /* Why the latest process of this name was lost; NULL: none was. */
  const char *kind = by_vertex_kind_name(vertex->kind);
  for (uint32_t p = job->processes; p-- > job->size && !lost;)
    if (is_on(vertex, job->members[p].host)) lost = job->lost[p];
  return by_fail(BANYAN_ERR_PLAN,
                 "%s \"%.64s\" of plan '%.64s' is not here: %s%sstart it with `banyan %s --name`, or propose a plan "
                 "without it",
                 kind, vertex->name, plan, lost ? lost : "", lost ? "; " : "", kind);
}

enum banyan_status by_plans_find_helpers(const struct by_job *job, const struct by_plan *plan, uint32_t *helpers) {
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++) {
    const struct by_vertex *vertex = &plan->vertices[v];
    uint32_t i = v - plan->n_ranks;
    helpers[i] = UINT32_MAX;
    if (vertex->kind == BY_VERTEX_SWITCH) continue;
    helpers[i] = find_living(job, vertex, helpers, i);
    if (helpers[i] == UINT32_MAX) return fail_absent(job, plan->name, vertex);
  }
  return BANYAN_OK;
}

static bool is_here(const struct by_job *job, const struct by_vertex *vertex, uint32_t process) {
  enum by_member_kind kind = vertex->kind == BY_VERTEX_HELPER ? BY_MEMBER_HELPER : BY_MEMBER_SERVER;
  if (vertex->kind == BY_VERTEX_SWITCH) return process == UINT32_MAX;
  return process >= job->size && process < job->processes && job->members[process].kind == kind;
}

/* Found by rank 0; this process knows them all, as rank 0 has made sure before it admitted them. Under lock. */
enum banyan_status by_plans_check_helpers(const struct by_job *job, const struct by_plan *plan, const uint32_t *helpers,
                                          size_t n) {
  bool fits = n == plan->n_vertices - plan->n_ranks;
  for (uint32_t i = 0; fits && i < n; i++)
    fits = is_here(job, &plan->vertices[plan->n_ranks + i], helpers[i]) &&
           (helpers[i] == UINT32_MAX || !is_taken(helpers, i, helpers[i]));
  return fits ? BANYAN_OK : by_fail(BANYAN_ERR_PROTOCOL, "a plan names helpers that are not known here");
}

/* `servers`: of these too. What becomes of an aggregator's tree is logged when that is set up. */
static void warn_of_missing(const struct by_job *job, const struct by_plan *plan, const uint32_t *helpers,
                            bool servers) {
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices && job->rank == 0; v++)
    if (helpers[v - plan->n_ranks] == UINT32_MAX &&
        (plan->vertices[v].kind == BY_VERTEX_HELPER || (servers && is_root(plan, v))))
      by_warn("communicator", "%s \"%s\" of plan '%s' is not there: its trees go among ranks alone",
              by_vertex_kind_name(plan->vertices[v].kind), plan->vertices[v].name, plan->name);
}

/* Rank 0 has all that helpers must know. */
static void notify_helpers(const struct by_job *job, const struct by_team *team, const uint32_t *processes,
                           const struct by_plan *plan, const uint32_t *helpers) {
  uint8_t *bytes;
  size_t length;
  if (by_plan_message_write(by_team_id(team), processes, helpers, plan, &bytes, &length) == BANYAN_OK)
    by_control_send_plan(job->control, bytes, length);
  else
    by_error("communicator", "notifying helpers failed: %s", banyan_error_text());
  free(bytes);
}

static bool has_trees(const struct by_plan *plan) {
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++)
      if (by_group_has_server(plan, &plan->classes[c].groups[g])) return true;
  return false;
}

/* The plan whose in-network trees the job's own communicator has, at rank 0, which may propose it again. */
static void keep_through(struct by_job *job, const struct by_plan *plan) {
  by_plan_destroy(job->plans.through);
  job->plans.through = NULL;
  if (plan && job->rank == 0) job->plans.through = by_plan_hold(plan);
}

enum {
  OWN = 0,          /* The number of the job's own communicator. */
  BY_HAND = 1 << 30 /* The bit in versions of trees of plans that the program sets. */
};

/* Trees of a plan that all ranks are given at the same call: all count them alike, so that they need not be told the
 * version. The job's own communicator has such plans at the same call everywhere; of several communicators, and of one
 * and what is submitted to it, each would have a new plan first on some rank. To others the servers are not there. */
static uint32_t set_up_trees(struct by_job *job, const uint32_t *processes, const struct by_plan *plan,
                             const uint32_t *helpers) {
  uint32_t version = BY_HAND | ++job->plans.set_up;
  if (job->rank == 0) by_features_trees(job)->begin(job, plan, processes, helpers, version);
  return version;
}

/* Those of the plan before are over with its calls. A job of one rank has no control. */
static void use_trees(struct by_job *job, const struct by_team *team, uint32_t trees) {
  if (job->control) by_features_trees(job)->use(job, by_team_id(team), trees);
}

/* Once for each reason: its trees to servers go among ranks, since they serve other calls. */
static void log_unserved(struct by_job *job, const struct by_team *team, const struct by_plan *plan) {
  bool own = by_team_id(team) == OWN;
  bool *logged = own ? &job->plans.logged_operations : &job->plans.logged_apart;
  if (job->rank != 0 || *logged) return;
  *logged = true;
  if (own)
    by_info("innetwork",
            "the switches of plan '%s' serve what is submitted, which is more than is called directly: direct calls go "
            "among ranks",
            plan->name);
  else
    by_info("innetwork",
            "communicator %08x goes among ranks and not over the switches of plan '%s', which serve another one: "
            "propose a plan for it (banyan_comm_propose_plan) to use switches; submitted operations get them by "
            "themselves once they make most calls",
            by_team_id(team), plan->name);
}

/* Finds processes for vertices that have none: servers only where their trees are set up for this plan. */
static void find_places(struct by_job *job, const struct by_team *team, const struct by_plan *plan, uint32_t *helpers,
                        bool *taken, bool servers) {
  for (uint32_t p = job->size; p < job->founders && !servers; p++) taken[p] = job->members[p].kind == BY_MEMBER_SERVER;
  place_helpers(job, plan, helpers, taken);
  warn_of_missing(job, plan, helpers, servers);
  if (!servers && has_trees(plan)) log_unserved(job, team, plan);
}

static enum banyan_status set_helped(struct by_job *job, struct by_team *team, uint32_t n, const uint32_t *processes,
                                     const struct by_plan *plan, uint32_t *helpers, bool *taken, bool by_hand,
                                     uint32_t trees) {
  struct by_plan *seen = NULL;
  if (n == job->size && !trees) find_places(job, team, plan, helpers, taken, by_hand && by_team_id(team) == OWN);
  bool placed = has_places(plan, helpers, false);
  if (placed && job->rank == 0) notify_helpers(job, team, processes, plan, helpers);
  if (!trees && has_places(plan, helpers, true)) trees = set_up_trees(job, processes, plan, helpers);
  use_trees(job, team, trees);
  if (by_team_id(team) == OWN) keep_through(job, trees ? plan : NULL);
  enum banyan_status status = placed ? by_plan_without_switches(plan, &seen) : by_plan_among_ranks(plan, &seen);
  if (status == BANYAN_OK && placed) return by_team_set_helped_plan(team, seen, helpers, trees);
  if (status == BANYAN_OK) by_team_set_plan(team, seen);
  return status;
}

enum banyan_status by_plans_check(const struct by_plan *plan) {
  BY_TRY(by_plan_check_switches(plan));
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++) {
      struct by_switched_tree *tree = NULL;
      if (!by_group_has_server(plan, &plan->classes[c].groups[g])) continue;
      BY_TRY(by_switched_tree_make(plan, c, g, &tree));
      by_switched_tree_destroy(tree);
    }
  return BANYAN_OK;
}

enum banyan_status by_plans_set(struct by_job *job, struct by_team *team, uint32_t n, const uint32_t *processes,
                                struct by_plan *plan, const uint32_t *named, uint32_t trees) {
  if (plan->n_vertices == plan->n_ranks) {
    use_trees(job, team, 0);
    if (by_team_id(team) == OWN) keep_through(job, NULL);
    by_team_set_plan(team, plan);
    return BANYAN_OK;
  }
  uint32_t n_places = plan->n_vertices - plan->n_ranks, *helpers = calloc(n_places, sizeof *helpers);
  bool *taken = calloc(job->processes, sizeof *taken);
  for (uint32_t i = 0; helpers && i < n_places; i++) { /* A vertex gets a server only if its trees are set up. */
    bool known = named && (trees || plan->vertices[plan->n_ranks + i].kind == BY_VERTEX_HELPER);
    helpers[i] = known ? named[i] : UINT32_MAX;
  }
  enum banyan_status status = by_plans_check(plan);
  if (status == BANYAN_OK && (!helpers || !taken)) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  if (status == BANYAN_OK) status = set_helped(job, team, n, processes, plan, helpers, taken, !named, trees);
  by_plan_destroy(plan);
  free(helpers);
  free(taken);
  return status;
}

void by_plans_forget_trees(struct by_job *job, const struct by_team *team) {
  use_trees(job, team, 0);
}

const struct by_plan *by_plans_through(const struct by_job *job) {
  return job->plans.through;
}

void by_plans_fini(struct by_job *job) {
  by_plans_give(job, NULL);
  by_plan_destroy(job->plans.chosen);
  by_plan_destroy(job->plans.through);
}
