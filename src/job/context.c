/* A process's part in a job from joining to leaving: makes its engine, connections and threads, and ends them. */
#include "context.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "connector.h"
#include "context_events.h"
#include "control_messages.h"
#include "credentials.h"
#include "descriptor.h"
#include "feature.h"
#include "formation.h"
#include "key_ring.h"
#include "ledger.h"
#include "log.h"
#include "log_file.h"
#include "opening.h"
#include "own_statement.h"
#include "plans.h"
#include "settings.h"
#include "timeline.h"

/* With several connections, the fast ones of a link run ahead of the slow ones by up to SPREAD_WINDOW. */
enum { AWAITED = 64, GOODBYE_MS = 5000, RETIRING_MS = 1000, SPREAD_WINDOW = 4 << 20 };

/* ---- what the engine asks */

static void engine_connect(void *argument, uint32_t process) {
  struct by_context *context = argument;
  if (context->job.members[process].kind == BY_MEMBER_SERVER) return; /* Its tree is attached when it is set up. */
  by_connector_want(context->connector, process);
}

static bool engine_failed(void *argument, enum banyan_status status, uint32_t process, const char *text) {
  const struct by_context *context = argument;
  return context->control && !context->is_interrupted && by_control_failed(context->control, status, process, text);
}

static bool engine_suspects(void *argument, uint32_t process, const char *text) {
  struct by_context *context = argument;
  return context->control && by_control_suspect(context->control, process, text);
}

/* Ranks that calls wait for. */
struct awaited {
  const struct by_job *job;
  uint32_t n, ranks[AWAITED];
};

static void add_awaited(void *context, uint32_t process) {
  struct awaited *awaited = context;
  bool known = process >= awaited->job->size || awaited->n == AWAITED;
  for (uint32_t i = 0; i < awaited->n; i++) known |= awaited->ranks[i] == process;
  if (!known) awaited->ranks[awaited->n++] = process;
}

/* Asks the member's service, as no call has ended for a while, whether the awaited ranks run. */
static void ask_members(const struct by_job *job) {
  struct awaited awaited = {.job = job};
  by_engine_visit_awaited(job->engine, add_awaited, &awaited);
  if (awaited.n)
    job->service_ops->waits(job->service, job->membership, by_engine_still_since(job->engine), awaited.ranks,
                            awaited.n);
}

void by_context_waits_for(const struct by_context *context, uint64_t since, const uint32_t *processes, uint32_t n) {
  const struct by_job *job = &context->job;
  if (job->service && n) job->service_ops->waits(job->service, job->membership, since, processes, n);
}

static bool engine_asks(void *argument, const char *late, const char *awaited) {
  struct by_context *context = argument;
  if (!late && context->job.service) ask_members(&context->job);
  return context->control && by_control_ask(context->control, late, awaited);
}

static bool ask_rank_0(void *argument) {
  struct by_context *context = argument;
  return context->control && by_control_ask(context->control, NULL, NULL);
}

static void engine_locate(void *argument, const void *memory, size_t bytes, struct by_offer *offer) {
  const struct by_context *context = argument;
  by_regions_locate(&context->memory.regions, memory, bytes, offer);
}

/* Watches a lane's descriptor; without that a sleeping thread would not notice arriving data. */
static void watch_lane(struct by_context *context, uint32_t process, int fd) {
  char text[400];
  if (fd < 0 || by_progress_watch(&context->progress, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) return;
  snprintf(text, sizeof text, "%s cannot watch its link to %s: %s", by_context_name(context, context->job.rank),
           by_context_name(context, process), strerror(errno));
  by_engine_fail(context->job.engine, BANYAN_ERR_SYSTEM, context->job.rank, text);
  pthread_cond_broadcast(&context->job.changed);
}

/* Attaches and watches a peer's lanes. */
static void attach_lanes(void *argument, uint32_t process, struct by_lane *const *lanes, uint32_t n) {
  struct by_context *context = argument;
  by_context_lock(context);
  bool fresh = !by_engine_attached(context->job.engine, process);
  for (uint32_t i = 0; i < n && fresh; i++) watch_lane(context, process, lanes[i]->poll_fd);
  by_engine_attach(context->job.engine, process, lanes, n);
  if (context->state == BY_CONTEXT_LEAVES && by_engine_status(context->job.engine) == BANYAN_OK)
    (void)by_engine_goodbye(context->job.engine);
  by_context_unlock(context);
  by_job_wake(&context->job);
}

/* ---- making one */

static void set_state(struct by_context *context, enum by_context_state to) {
  static const char *const names[] = {"joins", "runs", "leaves"};
  assert(to == context->state + 1);
  by_debug("communicator", "job: %s -> %s", names[context->state], names[to]);
  context->state = to;
}

static const char *keep(struct by_context *context, const char *text) {
  return text ? by_arena_string(&context->job.arena, text) : NULL;
}

enum banyan_status by_context_settings(const struct banyan_options *options, struct by_settings *s) {
  struct banyan_options given;
  by_crypto_init();
  BY_TRY(by_settings_read(s));
  if (!options) return BANYAN_OK;
  BY_TRY(by_copy_versioned("banyan_options", options, options->size_of_struct, &given, sizeof given));
  if (given.rank_plus_1 < 0 || given.size < 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "the options have rank_plus_1 %d and size %d; 0 leaves them to the environment",
                   given.rank_plus_1, given.size);
  if (given.rank_plus_1) s->rank = given.rank_plus_1 - 1;
  if (given.size) s->size = given.size;
  if (given.root) s->root = given.root;
  if (given.key) s->key = given.key, s->key_file = NULL;
  if (given.host) s->host = given.host;
  if (given.transport) s->transport = given.transport;
  if (given.plan) s->plan = given.plan;
  if (given.quorum) s->quorum = given.quorum;
  if (given.topology) s->topology = given.topology;
  if (given.timeline) s->timeline = given.timeline;
  if (given.deadline != 0) s->deadline = given.deadline;
  if (given.join_deadline != 0) s->join_deadline = given.join_deadline;
  return by_settings_check(s);
}

/* Uses a formation in place of a launcher's settings. */
static enum banyan_status use_formation(struct by_context *context) {
  struct by_job *job = &context->job;
  const struct by_formation *formation = job->role.formation;
  struct by_settings *s = &job->settings;
  s->rank = (long)formation->rank;
  s->size = (long)formation->membership->n;
  s->root = formation->root;
  s->source = "the handles";
  if (formation->deadline > 0) s->join_deadline = formation->deadline;
  BY_TRY(by_membership_create(formation->membership, &job->formed));
  job->membership = job->formed->number;
  job->service = formation->service;
  job->service_ops = formation->ops;
  if (job->service) job->service_ops->hold(job->service);
  context->ledger = BY_ARENA_NEW(&job->arena, struct by_ledger);
  return context->ledger ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a ledger of calls");
}

static enum banyan_status read_options(struct by_context *context, const struct banyan_options *options) {
  struct by_settings *s = &context->job.settings;
  BY_TRY(by_context_settings(options, s));
  bool beside = context->job.role.kind != BY_MEMBER_RANK;
  if (context->job.role.formation)
    BY_TRY(use_formation(context));
  else if (s->asks_pmix && !beside)
    BY_TRY(by_pmix_read(s));
  if (beside) s->rank = s->size = 0;
  if (context->job.role.deadline > 0) s->join_deadline = context->job.role.deadline;
  if (s->rank < 0 && s->size < 0) s->rank = 0, s->size = 1;
  if (s->rank < 0 || s->size < 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "the rank and the number of ranks go together, but only %s is given (from %s)",
                   s->rank < 0 ? "the number" : "the rank", s->source);
  if (!beside && (s->size < 1 || s->rank >= s->size))
    return by_fail(BANYAN_ERR_ARGUMENT, "rank %ld of %ld ranks (from %s): ranks go from 0 to the number of ranks - 1",
                   s->rank, s->size, s->source);
  if (s->rank == 0 && !beside) by_settings_warn();
  const char **kept[] = {&s->root,  &s->host,     &s->transport,  &s->plan,         &s->topology,
                         &s->cache, &s->timeline, &s->switches,   &s->agent,        &s->manager,
                         &s->keys,  &s->job,      &s->switch_key, &s->identity_file};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) *kept[i] = keep(context, *kept[i]);
  context->job.rank = (uint32_t)s->rank;
  context->job.size = context->job.places = (uint32_t)s->size;
  context->job.processes = context->job.size;
  if (beside) context->job.rank = UINT32_MAX; /* Rank 0 assigns the number. */
  if (beside || context->job.size == 1) return BANYAN_OK;
  context->job.servers = s->servers < 0 ? by_plans_count(context, BY_VERTEX_SERVER, NULL) : (uint32_t)s->servers;
  if (context->job.rank != 0) return BANYAN_OK;
  context->job.places += s->helpers < 0 ? by_plans_count(context, BY_VERTEX_HELPER, NULL) : (uint32_t)s->helpers;
  context->job.places += context->job.servers;
  return BANYAN_OK;
}

/* ---- what this process has joined: a second time as the same rank would wait for others in vain */

static struct by_context *joined; /* The first of those joined; under the lock of descriptors, as fork waits for it. */

static enum banyan_status note_joining(struct by_context *context) {
  enum banyan_status status = BANYAN_OK;
  bool named = context->job.settings.root && !context->job.membership;
  if (context->job.role.kind != BY_MEMBER_RANK || context->job.size == 1 || !named) return BANYAN_OK;
  by_descriptors_lock();
  if (joined && joined->generation != context->generation) joined = NULL; /* A forked child has joined nothing. */
  for (const struct by_context *other = joined; other && status == BANYAN_OK; other = other->next_joined)
    if (other->job.rank == context->job.rank && !strcmp(other->job.settings.root, context->job.settings.root))
      status = by_fail(BANYAN_ERR_ARGUMENT,
                       "this process is rank %u of the job at %s already: make further communicators of the job with "
                       "banyan_comm_duplicate or banyan_comm_split, or destroy all that it has before it joins again",
                       context->job.rank, context->job.settings.root);
  if (status == BANYAN_OK) {
    context->next_joined = joined;
    joined = context;
  }
  by_descriptors_unlock();
  return status;
}

static void forget_joining(const struct by_context *context) {
  by_descriptors_lock();
  for (struct by_context **place = &joined; *place; place = &(*place)->next_joined)
    if (*place == context) {
      *place = context->next_joined;
      break;
    }
  by_descriptors_unlock();
}

static enum banyan_status describe_self(struct by_context *context, struct by_member *self) {
  self->kind = context->job.role.kind;
  self->udp_port = (uint32_t)context->job.role.udp_port;
  BY_TRY(by_member_describe(&context->job.settings, &context->job.arena, self));
  BY_TRY(by_job_take_identity(&context->job));
  if (context->job.identity) self->fingerprint = *by_process_identity_fingerprint(context->job.identity);
  if (!context->job.role.formation) return BANYAN_OK;
  self->handle = keep(context, context->job.role.formation->handle);
  return self->handle ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a handle");
}

static void warn_of_plain_text(const struct by_job *job) {
  bool apart = false;
  if (job->rank != 0 || by_encryption_of(job->settings.encrypt) != BY_ENCRYPT_OFF) return;
  for (uint32_t r = 1; r < job->processes; r++) apart |= !by_member_same_network(&job->members[0], &job->members[r]);
  if (apart)
    by_warn("net", "BANYAN_ENCRYPT=off: whoever is on the way between the hosts of this job can read and change what "
                   "they send");
}

static enum banyan_status name_members(struct by_context *context) {
  context->job.names = BY_ARENA_ARRAY(&context->job.arena, const char *, context->job.processes);
  context->job.left = BY_ARENA_ARRAY(&context->job.arena, bool, context->job.processes);
  context->job.lost = BY_ARENA_ARRAY(&context->job.arena, const char *, context->job.processes);
  if (!context->job.names || !context->job.left || !context->job.lost)
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
  context->job.founders = context->job.room = context->job.processes;
  for (uint32_t r = 0; r < context->job.processes; r++) {
    context->job.names[r] = by_job_name_member(&context->job, r);
    if (!context->job.names[r]) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for names");
  }
  BY_TRY(by_hosts_index(&context->job));
  warn_of_plain_text(&context->job);
  return BANYAN_OK;
}

static enum banyan_status make_engine(struct by_context *context) {
  const struct by_settings *s = &context->job.settings;
  const struct by_member *zero = &context->job.members[0]; /* Ranks have the same values; helpers need not know them. */
  struct by_engine_options options = {
      .clock = by_clock_system,
      .processes = context->job.processes,
      .ranks = context->job.size,
      .self = context->job.rank,
      .eager_limit = zero->eager_limit,
      .window = strcmp(s->connections, "1") ? SPREAD_WINDOW : 0,
      .link_credit = zero->credit,
      .chunk = s->chunk,
      .block = s->block,
      .connect = engine_connect,
      .name = by_context_name,
      .failed = engine_failed,
      .suspects = engine_suspects,
      .asks = engine_asks,
      .locate = engine_locate,
      .stall = context->job.role.kind == BY_MEMBER_RANK ? by_clock_from_seconds(s->stall) : 0,
      .tracer = &context->job.tracer,
      .keeps_lanes = context->job.membership,
      .context = context};
  context->progress.spin = s->spin >= 0 ? by_clock_from_seconds(s->spin) : 200 * BY_MICROSECOND;
  BY_TRY(by_engine_create(&options, &context->job.engine));
  by_job_mark_first(&context->job);
  return BANYAN_OK;
}

static void *loop_main(void *argument) {
  struct by_context *context = argument;
  if (by_loop_run(context->job.loop) != BANYAN_OK) by_error("net", "the control thread ended: %s", banyan_error_text());
  return NULL;
}

static enum banyan_status join_control(struct by_context *context, const struct by_control_events *events,
                                       const struct by_member *self) {
  char plan[BY_PLAN_MAX_NAME + 1];
  struct by_join hello = {0};
  if (context->job.role.kind == BY_MEMBER_RANK) by_plans_join(context, &hello, plan, sizeof plan);
  struct by_control_join_options options = {.job = &context->job,
                                            .connector = context->connector,
                                            .timeline = context->timeline,
                                            .self = self,
                                            .plan = hello.plan,
                                            .plan_version = hello.plan_version,
                                            .events = *events};
  options.events.context = context;
  return by_control_join(&options, &context->control);
}

static enum banyan_status connect_to_others(struct by_context *context, const struct by_control_events *events,
                                            struct by_member *self) {
  BY_TRY(by_features_describe_self(context, self));
  BY_TRY(by_connector_create(&context->job, self, &(struct by_connector_events){attach_lanes, ask_rank_0, context},
                             &context->connector));
  return join_control(context, events, self);
}

static enum banyan_status join(struct by_context *context, const struct by_control_events *events) {
  struct by_member self = {0};
  BY_TRY(describe_self(context, &self));
  if (context->job.size == 1) {
    context->job.members = BY_ARENA_NEW(&context->job.arena, struct by_member);
    if (!context->job.members) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
    context->job.members[0] = self;
    return name_members(context);
  }
  BY_TRY(by_job_take_keys(&context->job, &self));
  BY_TRY(connect_to_others(context, events, &self));
  BY_TRY(name_members(context));
  BY_TRY(by_control_check(context->control));
  return by_connector_open(context->connector);
}

static void destroy(struct by_context *context) {
  atomic_store(&context->ends, true);
  forget_joining(context);
  if (context->state != BY_CONTEXT_JOINS) by_presence_leave();
  if (context->state != BY_CONTEXT_JOINS && context->job.size > 1) {
    by_loop_stop(context->job.loop);
    pthread_join(context->thread, NULL);
  }
  by_features_stop(context);
  by_progress_stop(&context->progress); /* The control thread could have started it again. */
  by_timeline_destroy(context->timeline);
  if (context->job.loop) by_loop_close(context->job.loop); /* Its tasks refer to the next two. */
  by_features_detach(context);
  by_connector_destroy(context->connector);
  by_control_destroy(context->control);
  context->control = NULL;
  by_engine_destroy(context->job.engine);
  by_features_fini(context);
  by_tracer_fini(&context->job.tracer);
  by_regions_fini(&context->memory.regions);
  by_plans_fini(context);
  by_membership_destroy(context->job.formed);
  by_own_statement_release(context->job.statement);
  by_process_identity_destroy(context->job.identity);
  by_key_ring_destroy(context->job.keys);
  if (context->job.service) context->job.service_ops->release(context->job.service);
  if (context->ledger) by_ledger_fini(context->ledger);
  by_loop_destroy(context->job.loop);
  by_progress_fini(&context->progress);
  pthread_mutex_destroy(&context->job.lock);
  pthread_cond_destroy(&context->job.changed);
  by_settings_wipe_key(&context->job.settings);
  by_arena_fini(&context->job.arena);
  free(context);
}

static enum banyan_status begin(struct by_context *context, const struct banyan_options *options,
                                const struct by_context_events *events) {
  bool is_rank = context->job.role.kind == BY_MEMBER_RANK;
  struct by_progress_events progress = events->progress;
  progress.context = context;
  BY_TRY(by_progress_init(&context->progress, &context->job, &progress));
  BY_TRY(by_features_attach(context));
  BY_TRY(by_loop_create(&by_clock_system, &context->job.loop));
  BY_TRY(read_options(context, options));
  if (is_rank) by_log_file_set_rank((int)context->job.rank);
  by_log_set_rank(context->job.size > 1 && is_rank ? (int)context->job.rank : -1);
  BY_TRY(by_timeline_create(&context->job, &context->timeline));
  BY_TRY(note_joining(context));
  BY_TRY(join(context, &events->control));
  context->job.role.formation = NULL; /* The caller's formation is borrowed no longer. */
  BY_TRY(make_engine(context));
  enum banyan_status status = context->job.formed ? BANYAN_OK : by_timeline_open(context->timeline, false);
  if (status != BANYAN_OK) return by_context_fail(context, status, "cannot take part"); /* Others have joined. */
  int error = context->job.size > 1 ? by_thread_start(&context->thread, loop_main, context) : 0;
  if (error) return by_fail_errno(BANYAN_ERR_SYSTEM, error, "starting the control thread");
  by_context_lock(context); /* The control thread may use it. */
  set_state(context, BY_CONTEXT_RUNS);
  by_presence_join();
  by_context_unlock(context);
  if (context->job.size == 1 || !is_rank) return BANYAN_OK;
  by_features_start(context);
  return BANYAN_OK;
}

enum banyan_status by_context_create(const struct banyan_options *options, const struct by_job_role *role,
                                     const struct by_context_events *events, struct by_context **out) {
  struct by_context *context = calloc(1, sizeof *context);
  if (!context) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a job");
  by_descriptors_close_in_children();
  context->generation = by_process_generation();
  by_arena_init(&context->job.arena);
  pthread_mutex_init(&context->job.lock, NULL);
  pthread_cond_init(&context->job.changed, NULL);
  context->job.class_ = -1;
  context->given.end = &context->given.first;
  if (role) context->job.role = *role;
  enum banyan_status status = begin(context, options, events);
  if (status != BANYAN_OK) {
    char text[1024]; /* Destroying may overwrite the error text. */
    snprintf(text, sizeof text, "%s", banyan_error_text());
    destroy(context);
    return by_fail(status, "%s", text);
  }
  *out = context;
  return BANYAN_OK;
}

/* Sends pending data, so that peers do not report our exit as a failure. */
static void send_goodbye(struct by_context *context, uint64_t milliseconds) {
  uint64_t until = by_clock_now(&by_clock_system) + milliseconds * BY_MILLISECOND;
  if (context->control) by_control_leave(context->control);
  by_context_lock(context);
  set_state(context, BY_CONTEXT_LEAVES);
  while (by_engine_status(context->job.engine) == BANYAN_OK && !by_engine_goodbye(context->job.engine)) {
    by_engine_progress(context->job.engine);
    if (by_clock_now(&by_clock_system) > until) break;
    by_context_unlock(context);
    usleep(100);
    by_context_lock(context);
  }
  by_context_unlock(context);
}

void by_context_retire(struct by_context *context, const char *text) {
  by_features_retire(context);
  by_timeline_leave(context->timeline, true);
  by_context_settle(context); /* A failure that is not settled has no text to add to. */
  if (context->job.size > 1) send_goodbye(context, RETIRING_MS);
  by_context_lock(context);
  if (by_engine_status(context->job.engine) == BANYAN_OK)
    by_engine_fail(context->job.engine, BANYAN_ERR_CLOSED, UINT32_MAX, text);
  else
    by_engine_explain(context->job.engine, text);
  by_job_changed(&context->job);
}

/* Suspects all processes of its host, so that nobody waits for them when the next group is decided. */
void by_context_vanished(void *argument, uint32_t process) {
  const struct by_context *context = argument;
  const struct by_job *job = &context->job;
  for (uint32_t r = 0; job->service && process < job->size && r < job->size; r++)
    if (!strcmp(job->members[r].machine, job->members[process].machine))
      job->service_ops->suspect(job->service, &job->formed->members[r].fingerprint);
}

bool by_context_interrupt(struct by_context *context, const char *text, bool at_once) {
  struct banyan_counters counters = {0};
  by_context_lock(context);
  by_engine_counters(context->job.engine, &counters);
  uint64_t moved = 1 + counters.calls + counters.bytes_sent + counters.bytes_received;
  bool moves = by_engine_status(context->job.engine) == BANYAN_OK && moved != context->moved;
  context->moved = moved;
  if (moves && !at_once) {
    by_context_unlock(context);
    return false;
  }
  context->is_interrupted = true;
  by_engine_fail(context->job.engine, BANYAN_ERR_CLOSED, UINT32_MAX, text);
  by_job_changed(&context->job);
  return true;
}

/* Keeps the lanes to a process. `was`: its number in the membership before. False: there are no lanes to keep. */
static bool keep_lanes_to(struct by_context *context, struct by_context *before, uint32_t rank, uint32_t was) {
  struct by_lane *lanes[BY_LANES];
  by_context_lock(before);
  uint32_t n = by_engine_take_lanes(before->job.engine, was, lanes);
  for (uint32_t i = 0; i < n; i++) by_progress_unwatch(&before->progress, lanes[i]->poll_fd);
  by_context_unlock(before);
  if (n) by_connector_keep(context->connector, rank, lanes, n);
  return n > 0;
}

static void hang_up(struct by_context *before, uint32_t process) {
  by_context_lock(before);
  by_engine_hang_up(before->job.engine, process);
  by_context_unlock(before);
}

void by_context_keep_lanes(struct by_context *context, struct by_context *before) {
  const struct by_membership *was = before->job.formed;
  for (uint32_t p = 0; p < before->job.processes; p++) {
    uint32_t rank = p < was->n ? by_membership_find(context->job.formed, &was->members[p].fingerprint) : BY_NO_MEMBER;
    bool stays = context->connector && rank < context->job.size && rank != context->job.rank;
    if (p != before->job.rank && (!stays || !keep_lanes_to(context, before, rank, p))) hang_up(before, p);
  }
}

enum banyan_status by_context_go_on(struct by_context *context, uint64_t memberships) {
  by_context_lock(context);
  context->job.memberships = memberships;
  by_context_unlock(context);
  enum banyan_status status = by_timeline_open(context->timeline, memberships > 1);
  return status == BANYAN_OK ? status : by_context_fail(context, status, "cannot take part");
}

enum banyan_status by_context_check_process(const struct by_context *context) {
  if (!by_context_is_of_parent(context)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "a process that was made by fork() cannot use its parent's communicators and "
                                      "requests: make the call in the parent, or create a communicator here");
}

enum banyan_status by_context_fail(struct by_context *context, enum banyan_status status, const char *what) {
  char text[600];
  snprintf(text, sizeof text, "%s %s: %.400s", by_context_name(context, context->job.rank), what, banyan_error_text());
  by_job_fail(&context->job, status, context->job.rank, text);
  by_context_settle(context);
  by_context_lock(context);
  enum banyan_status agreed = by_context_status(context);
  by_context_unlock(context);
  return agreed == BANYAN_OK ? by_fail(status, "%s", text) : agreed;
}

void by_context_settle(struct by_context *context) {
  bool open = context->state != BY_CONTEXT_JOINS; /* The thread does not run before. */
  while (open) {
    by_context_lock(context);
    by_engine_check_deadlines(context->job.engine);
    open = by_engine_is_open(context->job.engine);
    by_context_unlock(context);
    if (open) usleep(100);
  }
}

enum banyan_status by_copy_versioned(const char *name, const void *from, size_t given, void *to, size_t bytes) {
  if (given > bytes)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "struct %s has %zu bytes, this library knows %zu: the program was built for a later one", name,
                   given, bytes);
  memset(to, 0, bytes);
  memcpy(to, from, given ? given : bytes);
  return BANYAN_OK;
}

enum banyan_status by_context_status(const struct by_context *context) {
  enum banyan_status status = by_engine_status(context->job.engine);
  return status == BANYAN_OK ? status : by_fail(status, "%s", by_engine_error(context->job.engine));
}

void by_context_unlock_and_release(struct by_context *context) {
  bool last = --context->references == 0;
  by_context_unlock(context);
  if (last) by_context_release(context);
}

void by_context_release(struct by_context *context) {
  if (!context) return;
  by_progress_stop(&context->progress);
  by_timeline_leave(context->timeline, false);
  if (context->job.size > 1 && context->state != BY_CONTEXT_LEAVES) send_goodbye(context, GOODBYE_MS);
  destroy(context);
}
