/* A job's part in a cluster as a capability: a rank's connection to the agent of its host or to the manager, and the
 * plans and classes that it receives. */
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

#include "agent_client.h"
#include "control.h"
#include "feature.h"
#include "key_ring.h"
#include "log.h"
#include "plan.h"
#include "plan_make.h"
#include "plan_switch.h"
#include "plans.h"
#include "socket.h"

enum {
  WORLD = 0,      /* The first communicator's id. */
  MIN_MS = 10,    /* Minimum time between reports. */
  FIRST_MS = 100, /* Pause before the second attempt; it doubles each time, up to the next value. */
  LAST_MS = 5000,
  WELCOME_MS = 10000, /* Maximum wait for a welcome. */
  QUIET_S = 60,       /* Time between lines in the log; also the longest pause after refusals. */
  RESOLVE_MS = 50,    /* Pause between checks whether the manager's name has been resolved. */
  MAX_QUEUED = 4 << 20
};

/* ---- losing the connection */

static void drop_connection(struct by_agent_client *link) {
  by_stream_destroy(link->stream);
  by_resolving_destroy(link->resolving);
  link->stream = NULL;
  link->resolving = NULL;
  link->welcome = false;
  by_loop_cancel_timer(&link->report);
  by_job_lock(link->job);
  link->observed->on_next_call = NULL;
  by_job_unlock(link->job);
}

/* Logs that the other end is away: one line, on one rank, for all attempts; few for an end that comes and goes. */
static void log_absence(struct by_agent_client *link, const char *why) {
  enum by_log_level level = by_job_rank(link->job) == 0 ? BY_LOG_WARN : BY_LOG_INFO;
  uint64_t now = by_loop_now(by_job_loop(link->job));
  bool quiet = link->missed || (link->missed_at && now - link->missed_at < QUIET_S * BY_SECOND);
  link->missed = true;
  if (quiet) return;
  link->missed_at = now;
  by_log(level, "cluster", "%s at %s is not reachable: %s; the job continues without it, and keeps trying",
         link->agent ? "the agent" : "the manager", link->agent ? link->agent : link->manager, why);
}

static void lose_connection(struct by_agent_client *link, const char *why) {
  log_absence(link, why);
  drop_connection(link);
  by_loop_set_delay(by_job_loop(link->job), &link->retry, link->delay);
  link->delay = MIN(2 * link->delay, LAST_MS * BY_MILLISECOND);
}

static void lose_for_long(struct by_agent_client *link, const char *why) {
  bool went_well = link->welcome && by_loop_now(by_job_loop(link->job)) - link->welcome_at > QUIET_S * BY_SECOND;
  link->refused = went_well || !link->refused ? LAST_MS * BY_MILLISECOND : 2 * link->refused;
  link->refused = MIN(link->refused, QUIET_S * BY_SECOND);
  link->delay = link->refused;
  lose_connection(link, why);
}

static void handle_ended(void *context, enum banyan_status status, const char *reason) {
  struct by_agent_client *link = context;
  if (status == BANYAN_ERR_AUTH)
    lose_for_long(link, reason);
  else
    lose_connection(link, reason);
}

/* ---- plans of the manager: over hosts, proposed to the ranks as a plan by hand would be */

/* A proposed plan that is not decided on. */
struct by_cluster_proposal {
  LIST_ENTRY(by_cluster_proposal) entry;
  struct by_agent_client *link;
  uint64_t number;
};

static struct by_plan_switches_view view_plan(const struct by_agent_client *link) {
  return by_plan_switches_view(link->job, WORLD);
}

static void send_kept(struct by_agent_client *link, uint64_t number, const char *why) {
  char text[BY_CLUSTER_REASON + 1];
  by_keep_printable(why, text, sizeof text);
  by_agent_client_send(
      link, &(struct by_cluster_message){.type = BY_MESSAGE_KEPT, .job = link->id, .number = number, .why = text});
}

static void remove_proposal(struct by_cluster_proposal *proposal) {
  LIST_REMOVE(proposal, entry);
  free(proposal);
}

static void handle_decision(void *context, uint64_t at, const char *why) {
  struct by_cluster_proposal *proposal = context;
  struct by_agent_client *link = proposal->link;
  uint64_t number = proposal->number;
  remove_proposal(proposal);
  if (why) {
    send_kept(link, number, why);
    return;
  }
  link->number = number;
  link->at = at;
  link->plan_switch = view_plan(link).last;
  by_agent_client_send_switched(link);
}

bool by_agent_client_runs_plan(const struct by_agent_client *link) {
  return link->number && link->plan_switch && view_plan(link).last == link->plan_switch;
}

uint32_t by_agent_client_find_own_plan(const struct by_agent_client *link, char out[BY_CLUSTER_NAME + 1]) {
  struct by_plan_switches_view view = view_plan(link);
  if (!*view.plan) view.supplied = by_plans_find_given(link->job, view.plan, sizeof view.plan);
  by_keep_printable(view.supplied ? view.plan : "", out, BY_CLUSTER_NAME + 1);
  return view.supplied ? view.version : 0;
}

/* Checks that the plan's h-th rank is the h-th host: its trees would go over other hosts otherwise. */
static enum banyan_status check_hosts(const struct by_job *job, const struct by_plan *plan) {
  for (uint32_t r = 0, h = 0; r < by_job_size(job); r++) {
    const char *host = by_job_members(job)[r].host;
    if (by_job_hosts(job)->of[r] != h) continue;
    const char *name = h < plan->n_ranks ? plan->vertices[h].name : "missing";
    if (strcmp(name, host) != 0)
      return by_fail(BANYAN_ERR_PLAN, "host %u of the job is \"%.64s\", of plan '%.64s' it is \"%.64s\"", h, host,
                     plan->name, name);
    h++;
  }
  return BANYAN_OK;
}

static enum banyan_status propose_plan(struct by_cluster_proposal *proposal, struct by_plan **plan,
                                       const struct by_tree_grants *grants) {
  struct by_job *job = proposal->link->job;
  struct by_plan_switch_observer notify = {handle_decision, proposal};
  uint32_t *all = calloc(by_job_size(job), sizeof *all);
  if (!all) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  for (uint32_t r = 0; r < by_job_size(job); r++) all[r] = r;
  enum banyan_status status =
      by_plan_switches_propose(proposal->link->job, WORLD, by_job_size(job), all, *plan, grants, &notify);
  *plan = NULL;
  free(all);
  return status;
}

static enum banyan_status accept_plan(struct by_agent_client *link, const struct by_cluster_message *message,
                                      bool replaces, struct by_plan **plan) {
  struct by_tree_grants grants = {.number = message->number,
                                  .n_switches = message->n_switches,
                                  .n_cells = message->n_cells,
                                  .switches = message->switches,
                                  .cells = message->cells};
  char own_plan[BY_CLUSTER_NAME + 1];
  (void)by_agent_client_find_own_plan(link, own_plan);
  if (*own_plan && !replaces)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "the user has set plan '%.64s', which a manager does not replace", own_plan);
  BY_TRY(check_hosts(link->job, *plan));
  (*plan)->origin = (struct by_plan_origin){.source = BANYAN_PLAN_MANAGER, .supplied = replaces};
  struct by_cluster_proposal *proposal = calloc(1, sizeof *proposal);
  if (!proposal) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  *proposal = (struct by_cluster_proposal){.link = link, .number = message->number};
  LIST_INSERT_HEAD(&link->proposals, proposal, entry);
  enum banyan_status status = propose_plan(proposal, plan, &grants);
  if (status != BANYAN_OK) remove_proposal(proposal);
  return status;
}

/* Keeps the topology, from which groups of the job are planned, whatever becomes of the plan that it comes with. */
static void take_topology(const struct by_agent_client *link, const char *topology) {
  if (topology && by_features_topology_received(link->job, topology) != BANYAN_OK)
    by_warn("cluster", "groups of the job keep their plans: %s", banyan_error_text());
}

static void take_plan(struct by_agent_client *link, const struct by_cluster_message *message) {
  struct by_plan *plan = NULL; /* NULL again once it is proposed. */
  take_topology(link, message->topology);
  enum banyan_status status = by_plan_named(message->plan, by_job_size(link->job), &plan);
  bool replaces = message->replace_plan || by_job_settings(link->job)->replace_plan;
  if (status == BANYAN_OK) status = accept_plan(link, message, replaces, &plan);
  if (status != BANYAN_OK) send_kept(link, message->number, banyan_error_text());
  by_plan_destroy(plan);
}

/* ---- messages to this rank */

static bool is_ours(const struct by_agent_client *link, const char *job) {
  return job && !strcmp(job, link->id);
}

/* Compares this host's name with the agent's: a manager knows a host by its agent's name. */
static void compare_names(struct by_agent_client *link, const char *theirs) {
  const struct by_job *job = link->job;
  const char *ours = by_job_members(job)[by_job_rank(job)].host;
  if (by_job_rank(job) != 0 || !theirs || link->misnamed || strcmp(ours, theirs) == 0) return;
  link->misnamed = true;
  by_warn("cluster",
          "this host is \"%s\" for its ranks and \"%s\" for its agent: the job gets no plans; set BANYAN_HOST (or "
          "the name in `banyan run -H`) to the agent's name for it, or start the agent with --name",
          ours, theirs);
}

static void handle_welcome(struct by_agent_client *link, const struct by_cluster_message *message) {
  compare_names(link, message->host);
  if (link->missed) by_info("cluster", "%s is there", link->agent ? "the agent" : "the manager");
  link->welcome = true;
  link->missed = false;
  link->interval = MAX(by_clock_from_seconds(message->interval), MIN_MS * BY_MILLISECOND);
  by_loop_cancel_timer(&link->retry);
  link->welcome_at = by_loop_now(by_job_loop(link->job));
  link->delay = FIRST_MS * BY_MILLISECOND;
  by_agent_client_send_reservation(link);
  by_agent_client_report(link);
}

/* Passes classes on: helpers and servers are connected to no agent, and without agents neither are the other ranks. */
static void handle_classes(struct by_agent_client *link, const struct by_cluster_message *message) {
  for (uint32_t i = 0; i < message->n_jobs; i++) {
    if (!is_ours(link, message->jobs[i].job)) continue;
    uint32_t class_ = message->jobs[i].class_;
    by_job_set_class(link->job, class_);
    if (by_job_rank(link->job) == 0) by_control_send_class(by_job_control(link->job), class_, link->manager != NULL);
  }
}

static void handle_message(struct by_agent_client *link, const struct by_cluster_message *message) {
  switch (message->type) {
  case BY_MESSAGE_WELCOME: handle_welcome(link, message); break;
  case BY_MESSAGE_CLASSES: handle_classes(link, message); break;
  case BY_MESSAGE_PLAN:
    if (is_ours(link, message->job) && by_job_rank(link->job) == 0) take_plan(link, message);
    break;
  case BY_MESSAGE_CELLS:
    if (is_ours(link, message->job) && by_job_rank(link->job) == 0)
      by_features_trees(link->job)->cells_granted(link->job, message->cells, message->n_cells);
    break;
  case BY_MESSAGE_REFUSED: lose_for_long(link, message->why); break;
  default: by_debug("cluster", "\"%s\" is not for ranks; ignored", by_cluster_type_name(message->type)); break;
  }
}

/* ---- making the connection */

static void handle_line(void *context, uint16_t type, const void *line, size_t length) {
  struct by_agent_client *link = context;
  struct by_cluster_message message;
  (void)type;
  if (by_cluster_message_read(line, length, &message) != BANYAN_OK) {
    lose_for_long(link, banyan_error_text());
    return;
  }
  handle_message(link, &message);
  by_cluster_message_fini(&message);
}

static void handle_opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  (void)purpose;
  (void)hello;
  (void)length;
  by_agent_client_introduce(context);
}

static enum banyan_status start_stream(struct by_agent_client *link, int fd, const struct by_address *connecting) {
  struct by_tls_options tls = {.identity = link->keys ? by_tls_watch_get(link->keys) : NULL, .peers = BY_TLS_MANAGER};
  struct by_stream_options options = {.loop = by_job_loop(link->job),
                                      .fd = fd,
                                      .connecting = connecting,
                                      .tls = tls.identity ? &tls : NULL,
                                      .max_frame = BY_CLUSTER_LINE_UP,
                                      .max_queued = MAX_QUEUED,
                                      .max_line = BY_CLUSTER_LINE_DOWN,
                                      .quiet = true,
                                      .opened = handle_opened,
                                      .frame = handle_line,
                                      .ended = handle_ended,
                                      .context = link};
  BY_TRY(by_stream_create(&options, &link->stream));
  link->reported = (struct by_observed){0};
  link->reported_sent = 0;
  link->reported_expected = 0;
  link->reported_at = 0;
  by_loop_set_delay(by_job_loop(link->job), &link->retry, WELCOME_MS * BY_MILLISECOND);
  return BANYAN_OK;
}

static enum banyan_status reach_agent(struct by_agent_client *link) {
  int fd;
  BY_TRY(by_path_socket_connect(link->agent, "agent", &fd));
  BY_TRY(start_stream(link, fd, NULL));
  by_agent_client_introduce(link);
  return BANYAN_OK;
}

static void judge_manager(void *context) {
  struct by_agent_client *link = context;
  if (!link->stream || !by_stream_get_subject(link->stream)) return;
  if (by_stream_judge_again(link->stream, by_tls_watch_get(link->keys)) != BANYAN_OK)
    lose_for_long(link, banyan_error_text());
}

static enum banyan_status reach_manager(struct by_agent_client *link) {
  struct by_address address;
  bool known = false;
  size_t n;
  int fd;
  if (!link->resolving) BY_TRY(by_resolving_start(link->manager, link->tries++, &link->resolving));
  BY_TRY(by_resolving_look(link->resolving, &address, 1, &n, &known));
  if (!known) {
    by_loop_set_delay(by_job_loop(link->job), &link->retry, RESOLVE_MS * BY_MILLISECOND);
    return BANYAN_OK;
  }
  by_resolving_destroy(link->resolving);
  link->resolving = NULL;
  const struct by_tls_watch_options of_keys = {.loop = by_job_loop(link->job),
                                               .folder = by_job_settings(link->job)->keys,
                                               .role = BY_TLS_JOB,
                                               .looked = judge_manager,
                                               .context = link};
  if (link->keys) /* A job may outlive its certificate, and begin before it has one. */
    by_tls_watch_look(link->keys);
  else
    BY_TRY(by_tls_watch_create(&of_keys, &link->keys));
  BY_TRY(by_socket_connect_start(&address, &fd));
  (void)!by_socket_set_keepalive(fd, 5, 2, 3);
  return start_stream(link, fd, &address);
}

static void send_left(struct by_agent_client *link) {
  const struct by_cluster_message message = {.type = BY_MESSAGE_LEFT, .job = link->id, .rank = by_job_rank(link->job)};
  if (link->welcome) by_agent_client_send(link, &message);
}

/* Called when it is time for the next attempt, or when the welcome is overdue. */
static void attempt_connection(void *context) {
  struct by_agent_client *link = context;
  if (link->stream) {
    lose_connection(link, "it takes connections and sends nothing");
    return;
  }
  enum banyan_status status = link->agent ? reach_agent(link) : reach_manager(link);
  if (status != BANYAN_OK) lose_connection(link, banyan_error_text());
}

/* ---- life */

/* Makes the job's name: the same at all ranks, and only processes with the job's key can make it. Successive
 * memberships with the same root are different jobs to the cluster. */
static enum banyan_status name_job(const struct by_job *job, char *out) {
  char text[4096], membership[32] = "";
  struct by_key name = {{0}};
  if (by_job_membership(job))
    snprintf(membership, sizeof membership, "\n%016llx", (unsigned long long)by_job_membership(job));
  int length = snprintf(text, sizeof text, "a job's id\n%s%s", by_job_settings(job)->root, membership);
  if (length >= (int)sizeof text) return by_fail(BANYAN_ERR_UNSUPPORTED, "the job's root is too long");
  enum banyan_status status = by_key_hash(by_key_ring_job(by_job_keys(job)), text, &name);
  for (int i = 0; i < BY_CLUSTER_JOB_ID / 2; i++) snprintf(out + 2 * i, 3, "%02x", name.bytes[i]);
  return status;
}

static void choose_peer(struct by_agent_client *link) {
  const struct by_settings *settings = by_job_settings(link->job);
  link->agent = by_settings_agent(settings);
  if (!link->agent && by_job_rank(link->job) == 0) link->manager = settings->manager;
}

static enum banyan_status begin_client(struct by_agent_client *link) {
  struct by_job *job = link->job;
  struct timespec now;
  BY_TRY(name_job(job, link->id));
  clock_gettime(CLOCK_REALTIME, &now);
  link->began = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
  by_job_lock(job);
  by_observe_begin(link->observed);
  by_job_unlock(job);
  return by_loop_post(by_job_loop(job), attempt_connection, link);
}

/* Reports that this rank has left, and frees the connection. The loop no longer runs, and is closed. */
static void destroy_client(struct by_agent_client *link) {
  if (!link) return;
  send_left(link);
  by_stream_destroy(link->stream);
  by_resolving_destroy(link->resolving);
  by_tls_watch_destroy(link->keys);
  by_loop_cancel_timer(&link->retry);
  by_loop_cancel_timer(&link->report);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&link->proposals)) remove_proposal(LIST_FIRST(&link->proposals));
  by_path_watch_fini(&link->paths);
  free(link->reservation);
  free(link);
}

static enum banyan_status create_client(struct by_job *job, struct by_agent_client **out) {
  struct by_agent_client *link = calloc(1, sizeof *link);
  if (!link) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a connection to an agent");
  *link = (struct by_agent_client){.job = job, .observed = by_job_observation(job), .delay = FIRST_MS * BY_MILLISECOND};
  by_path_watch_init(&link->paths, link->job);
  by_timer_init(&link->retry, attempt_connection, link);
  by_timer_init(&link->report, by_agent_client_report, link);
  choose_peer(link);
  bool wanted = link->agent || link->manager;
  enum banyan_status status = wanted ? begin_client(link) : BANYAN_OK;
  if (status == BANYAN_OK && wanted)
    *out = link;
  else
    destroy_client(link);
  return status;
}

static void leave_cluster(void *context) {
  struct by_agent_client *link = context;
  send_left(link);
  drop_connection(link);
  by_loop_cancel_timer(&link->retry);
}

/* ---- the hooks that the job calls */

/* What a job keeps for its part in a cluster. */
struct cluster {
  struct by_agent_client *client; /* NULL: there is neither agent nor manager. */
};

static const struct by_feature_key key = {.bytes = sizeof(struct cluster)};

static struct by_agent_client *client_of(const struct by_job *job) {
  const struct cluster *cluster = by_feature_state(job, &key);
  return cluster->client;
}

static void start_client(struct by_job *job) {
  struct cluster *cluster = by_feature_state(job, &key);
  if (create_client(job, &cluster->client) != BANYAN_OK)
    by_warn("cluster", "no agent or manager is notified of this job: %s", banyan_error_text());
  by_job_set_managed(job, cluster->client != NULL);
}

/* Any thread: reports that this rank has left, and sends nothing more, though its job may live on for long. */
static void retire_client(struct by_job *job) {
  struct by_agent_client *link = client_of(job);
  if (link && by_loop_post(by_job_loop(link->job), leave_cluster, link) != BANYAN_OK)
    by_info("cluster", "this membership is reported until its communicators are destroyed: %s", banyan_error_text());
}

static void detach_client(struct by_job *job) {
  destroy_client(client_of(job));
  by_job_set_managed(job, false);
}

static void send_cells(struct by_job *job, const struct by_cluster_cells *cells, uint32_t n) {
  by_agent_client_reserve(client_of(job), cells, n);
}

static void send_released(struct by_job *job, uint64_t number) {
  struct by_agent_client *link = client_of(job);
  if (!link) return;
  link->released = number;
  if (link->welcome) by_agent_client_send_released(link);
}

/* Tells whether an answer may come: the other end is not known to be away. */
static bool may_answer(const struct by_job *job) {
  return client_of(job) && !client_of(job)->missed;
}

const struct by_feature by_cluster_feature = {.key = &key,
                                              .start = start_client,
                                              .retire = retire_client,
                                              .detach = detach_client,
                                              .cells_wanted = send_cells,
                                              .cells_released = send_released,
                                              .cells_may_come = may_answer};
