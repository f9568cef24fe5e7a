/* A process's part in a job from joining to leaving: makes its engine, connections and threads, and ends them. */
#include "job_life.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "connector.h"
#include "control_messages.h"
#include "credentials.h"
#include "describe.h"
#include "descriptor.h"
#include "feature.h"
#include "formation.h"
#include "host_trust.h"
#include "job_events.h"
#include "job_state.h"
#include "key_ring.h"
#include "ledger.h"
#include "log.h"
#include "opening.h"
#include "plans.h"
#include "settings.h"
#include "timeline.h"

/* With several connections, the fast ones of a link run ahead of the slow ones by up to SPREAD_WINDOW. */
enum { AWAITED = 64, GOODBYE_MS = 5000, RETIRING_MS = 1000, SPREAD_WINDOW = 4 << 20 };

/* ---- what the engine asks */

static void engine_connect(void *argument, uint32_t process) {
  struct by_job *job = argument;
  if (job->members[process].kind == BY_MEMBER_SERVER) return; /* Its tree is attached when it is set up. */
  by_connector_want(job->connector, process);
}

static const char *name_process(void *context, uint32_t process) {
  return by_job_name(context, process);
}

static bool engine_failed(void *argument, enum banyan_status status, uint32_t process, const char *text) {
  const struct by_job *job = argument;
  return job->control && !job->is_interrupted && by_control_failed(job->control, status, process, text);
}

static bool engine_suspects(void *argument, uint32_t process, const char *text) {
  struct by_job *job = argument;
  return job->control && by_control_suspect(job->control, process, text);
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
    job->service_ops->waits(job->service, job->membership, by_engine_get_state(job->engine)->still_since, awaited.ranks,
                            awaited.n);
}

void by_job_note_wait(const struct by_job *job, uint64_t since, const uint32_t *processes, uint32_t n) {
  if (job->service && n) job->service_ops->waits(job->service, job->membership, since, processes, n);
}

static bool engine_asks(void *argument, const char *late, const char *awaited) {
  struct by_job *job = argument;
  if (!late && job->service) ask_members(job);
  return job->control && by_control_ask(job->control, late, awaited);
}

static bool ask_rank_0(void *argument) {
  struct by_job *job = argument;
  return job->control && by_control_ask(job->control, NULL, NULL);
}

static void engine_locate(void *argument, const void *memory, size_t bytes, struct by_offer *offer) {
  const struct by_job *job = argument;
  by_regions_locate(&job->memory.regions, memory, bytes, offer);
}

/* Watches a lane's descriptor; without that a sleeping thread would not notice arriving data. */
static void watch_lane(struct by_job *job, uint32_t process, int fd) {
  char text[400];
  if (fd < 0 || by_progress_watch(job, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) return;
  snprintf(text, sizeof text, "%s cannot watch its link to %s: %s", by_job_name(job, job->rank),
           by_job_name(job, process), strerror(errno));
  by_engine_fail(job->engine, BANYAN_ERR_SYSTEM, job->rank, text);
  pthread_cond_broadcast(&job->changed);
}

/* Attaches and watches a peer's lanes. */
static void attach_lanes(void *argument, uint32_t process, struct by_lane *const *lanes, uint32_t n) {
  struct by_job *job = argument;
  by_job_lock(job);
  bool fresh = !by_engine_peer(job->engine, process).attached;
  for (uint32_t i = 0; i < n && fresh; i++) watch_lane(job, process, lanes[i]->poll_fd);
  by_engine_attach(job->engine, process, lanes, n);
  if (job->state == BY_JOB_LEAVING && by_engine_status(job->engine) == BANYAN_OK) (void)by_engine_goodbye(job->engine);
  by_job_unlock(job);
  by_job_wake(job);
}

/* ---- making one */

static void set_state(struct by_job *job, enum by_job_life to) {
  static const char *const names[] = {"joins", "runs", "leaves"};
  assert(to == job->state + 1);
  by_debug("communicator", "job: %s -> %s", names[job->state], names[to]);
  job->state = to;
}

static const char *keep(struct by_job *job, const char *text) {
  return text ? by_arena_string(&job->arena, text) : NULL;
}

enum banyan_status by_job_read_settings(const struct banyan_options *options, struct by_settings *s) {
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
static enum banyan_status use_formation(struct by_job *job) {
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
  job->ledger = BY_ARENA_NEW(&job->arena, struct by_ledger);
  return job->ledger ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a ledger of calls");
}

static enum banyan_status read_options(struct by_job *job, const struct banyan_options *options) {
  struct by_settings *s = &job->settings;
  BY_TRY(by_job_read_settings(options, s));
  bool beside = job->role.kind != BY_MEMBER_RANK;
  if (job->role.formation)
    BY_TRY(use_formation(job));
  else if (s->asks_pmix && !beside)
    BY_TRY(by_pmix_read(s));
  if (beside) s->rank = s->size = 0;
  if (job->role.deadline > 0) s->join_deadline = job->role.deadline;
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
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) *kept[i] = keep(job, *kept[i]);
  job->rank = (uint32_t)s->rank;
  job->size = job->places = (uint32_t)s->size;
  job->processes = job->size;
  if (beside) job->rank = UINT32_MAX; /* Rank 0 assigns the number. */
  if (beside || job->size == 1) return BANYAN_OK;
  job->servers = s->servers < 0 ? by_plans_count(job, BY_VERTEX_SERVER, NULL) : (uint32_t)s->servers;
  if (job->rank != 0) return BANYAN_OK;
  job->places += s->helpers < 0 ? by_plans_count(job, BY_VERTEX_HELPER, NULL) : (uint32_t)s->helpers;
  job->places += job->servers;
  return BANYAN_OK;
}

/* ---- what this process has joined: a second time as the same rank would wait for others in vain */

static struct by_job *joined; /* The first of those joined; under the lock of descriptors, as fork waits for it. */

static enum banyan_status note_joining(struct by_job *job) {
  enum banyan_status status = BANYAN_OK;
  bool named = job->settings.root && !job->membership;
  if (job->role.kind != BY_MEMBER_RANK || job->size == 1 || !named) return BANYAN_OK;
  by_descriptors_lock();
  if (joined && joined->generation != job->generation) joined = NULL; /* A forked child has joined nothing. */
  for (const struct by_job *other = joined; other && status == BANYAN_OK; other = other->next_joined)
    if (other->rank == job->rank && !strcmp(other->settings.root, job->settings.root))
      status = by_fail(BANYAN_ERR_ARGUMENT,
                       "this process is rank %u of the job at %s already: make further communicators of the job with "
                       "banyan_comm_duplicate or banyan_comm_split, or destroy all that it has before it joins again",
                       job->rank, job->settings.root);
  if (status == BANYAN_OK) {
    job->next_joined = joined;
    joined = job;
  }
  by_descriptors_unlock();
  return status;
}

static void forget_joining(const struct by_job *job) {
  by_descriptors_lock();
  for (struct by_job **place = &joined; *place; place = &(*place)->next_joined)
    if (*place == job) {
      *place = job->next_joined;
      break;
    }
  by_descriptors_unlock();
}

static enum banyan_status describe_self(struct by_job *job, struct by_member *self) {
  self->kind = job->role.kind;
  self->udp_port = (uint32_t)job->role.udp_port;
  BY_TRY(by_member_describe(&job->settings, &job->arena, self));
  BY_TRY(by_job_take_identity(job));
  if (job->identity) self->fingerprint = *by_process_identity_fingerprint(job->identity);
  if (!job->role.formation) return BANYAN_OK;
  self->handle = keep(job, job->role.formation->handle);
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

static enum banyan_status name_members(struct by_job *job) {
  job->names = BY_ARENA_ARRAY(&job->arena, const char *, job->processes);
  job->left = BY_ARENA_ARRAY(&job->arena, bool, job->processes);
  job->lost = BY_ARENA_ARRAY(&job->arena, const char *, job->processes);
  if (!job->names || !job->left || !job->lost) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
  job->founders = job->room = job->processes;
  for (uint32_t r = 0; r < job->processes; r++) {
    job->names[r] = by_job_name_member(job, r);
    if (!job->names[r]) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for names");
  }
  BY_TRY(by_hosts_index(job));
  warn_of_plain_text(job);
  return BANYAN_OK;
}

static enum banyan_status make_engine(struct by_job *job) {
  const struct by_settings *s = &job->settings;
  const struct by_member *zero = &job->members[0]; /* Ranks have the same values; helpers need not know them. */
  struct by_engine_options options = {.clock = by_clock_system,
                                      .processes = job->processes,
                                      .ranks = job->size,
                                      .self = job->rank,
                                      .eager_limit = zero->eager_limit,
                                      .window = strcmp(s->connections, "1") ? SPREAD_WINDOW : 0,
                                      .link_credit = zero->credit,
                                      .chunk = s->chunk,
                                      .block = s->block,
                                      .connect = engine_connect,
                                      .name = name_process,
                                      .failed = engine_failed,
                                      .suspects = engine_suspects,
                                      .asks = engine_asks,
                                      .locate = engine_locate,
                                      .stall = job->role.kind == BY_MEMBER_RANK ? by_clock_from_seconds(s->stall) : 0,
                                      .tracer = &job->tracer,
                                      .keeps_lanes = job->membership,
                                      .context = job};
  job->progress.spin = s->spin >= 0 ? by_clock_from_seconds(s->spin) : 200 * BY_MICROSECOND;
  BY_TRY(by_engine_create(&options, &job->engine));
  by_job_mark_first(job);
  return BANYAN_OK;
}

static void *loop_main(void *argument) {
  struct by_job *job = argument;
  if (by_loop_run(job->loop) != BANYAN_OK) by_error("net", "the control thread ended: %s", banyan_error_text());
  return NULL;
}

static enum banyan_status join_control(struct by_job *job, const struct by_control_events *events,
                                       const struct by_member *self) {
  char plan[BY_PLAN_MAX_NAME + 1];
  struct by_join hello = {0};
  if (job->role.kind == BY_MEMBER_RANK) by_plans_join(job, &hello, plan, sizeof plan);
  struct by_control_join_options options = {.job = job,
                                            .connector = job->connector,
                                            .timeline = job->timeline,
                                            .self = self,
                                            .plan = hello.plan,
                                            .plan_version = hello.plan_version,
                                            .events = *events};
  options.events.context = job;
  return by_control_join(&options, &job->control);
}

static enum banyan_status connect_to_others(struct by_job *job, const struct by_control_events *events,
                                            struct by_member *self) {
  BY_TRY(by_features_describe_self(job, self));
  BY_TRY(by_connector_create(job, self, &(struct by_connector_events){attach_lanes, ask_rank_0, job}, &job->connector));
  return join_control(job, events, self);
}

static enum banyan_status join(struct by_job *job, const struct by_control_events *events) {
  struct by_member self = {0};
  BY_TRY(describe_self(job, &self));
  if (job->size == 1) {
    job->members = BY_ARENA_NEW(&job->arena, struct by_member);
    if (!job->members) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
    job->members[0] = self;
    return name_members(job);
  }
  BY_TRY(by_job_take_keys(job, &self));
  BY_TRY(connect_to_others(job, events, &self));
  BY_TRY(name_members(job));
  BY_TRY(by_control_check(job->control));
  return by_connector_open(job->connector);
}

static void destroy(struct by_job *job) {
  atomic_store(&job->ends, true);
  forget_joining(job);
  if (job->state != BY_JOB_JOINING) by_presence_leave();
  if (job->state != BY_JOB_JOINING && job->size > 1) {
    by_loop_stop(job->loop);
    pthread_join(job->thread, NULL);
  }
  by_features_stop(job);
  by_progress_stop(job); /* The control thread could have started it again. */
  by_timeline_destroy(job->timeline);
  if (job->loop) by_loop_close(job->loop); /* Its tasks refer to the next two. */
  by_features_detach(job);
  by_connector_destroy(job->connector);
  by_control_destroy(job->control);
  job->control = NULL;
  by_engine_destroy(job->engine);
  by_features_fini(job);
  by_tracer_fini(&job->tracer);
  by_regions_fini(&job->memory.regions);
  by_plans_fini(job);
  by_membership_destroy(job->formed);
  by_own_statement_release(job->statement);
  by_process_identity_destroy(job->identity);
  by_key_ring_destroy(job->keys);
  if (job->service) job->service_ops->release(job->service);
  if (job->ledger) by_ledger_fini(job->ledger);
  by_loop_destroy(job->loop);
  by_progress_fini(job);
  pthread_mutex_destroy(&job->lock);
  pthread_cond_destroy(&job->changed);
  by_settings_wipe_key(&job->settings);
  by_arena_fini(&job->arena);
  free(job);
}

static enum banyan_status begin(struct by_job *job, const struct banyan_options *options,
                                const struct by_job_events *events) {
  bool is_rank = job->role.kind == BY_MEMBER_RANK;
  struct by_progress_events progress = events->progress;
  progress.context = job;
  BY_TRY(by_progress_init(job, &progress));
  BY_TRY(by_features_attach(job));
  BY_TRY(by_loop_create(&by_clock_system, &job->loop));
  BY_TRY(read_options(job, options));
  if (is_rank) by_log_file_set_rank((int)job->rank);
  by_log_set_rank(job->size > 1 && is_rank ? (int)job->rank : -1);
  BY_TRY(by_timeline_create(job, &job->timeline));
  BY_TRY(note_joining(job));
  BY_TRY(join(job, &events->control));
  job->role.formation = NULL; /* The caller's formation is borrowed no longer. */
  BY_TRY(make_engine(job));
  enum banyan_status status = job->formed ? BANYAN_OK : by_timeline_open(job->timeline, false);
  if (status != BANYAN_OK) return by_job_fail_here(job, status, "cannot take part"); /* Others have joined. */
  int error = job->size > 1 ? by_thread_start(&job->thread, loop_main, job) : 0;
  if (error) return by_fail_errno(BANYAN_ERR_SYSTEM, error, "starting the control thread");
  by_job_lock(job); /* The control thread may use it. */
  set_state(job, BY_JOB_ACTIVE);
  by_presence_join();
  by_job_unlock(job);
  if (job->size == 1 || !is_rank) return BANYAN_OK;
  by_features_start(job);
  return BANYAN_OK;
}

enum banyan_status by_job_create_with(const struct banyan_options *options, const struct by_job_role *role,
                                      const struct by_job_events *events, struct by_job **out) {
  struct by_job *job = calloc(1, sizeof *job);
  if (!job) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a job");
  by_descriptors_close_in_children();
  job->generation = by_process_generation();
  by_arena_init(&job->arena);
  pthread_mutex_init(&job->lock, NULL);
  pthread_cond_init(&job->changed, NULL);
  job->class_ = -1;
  job->given.end = &job->given.first;
  if (role) job->role = *role;
  enum banyan_status status = begin(job, options, events);
  if (status != BANYAN_OK) {
    char text[1024]; /* Destroying may overwrite the error text. */
    snprintf(text, sizeof text, "%s", banyan_error_text());
    destroy(job);
    return by_fail(status, "%s", text);
  }
  *out = job;
  return BANYAN_OK;
}

/* Sends pending data, so that peers do not report our exit as a failure. */
static void send_goodbye(struct by_job *job, uint64_t milliseconds) {
  uint64_t until = by_clock_now(&by_clock_system) + milliseconds * BY_MILLISECOND;
  if (job->control) by_control_leave(job->control);
  by_job_lock(job);
  set_state(job, BY_JOB_LEAVING);
  while (by_engine_status(job->engine) == BANYAN_OK && !by_engine_goodbye(job->engine)) {
    by_engine_progress(job->engine);
    if (by_clock_now(&by_clock_system) > until) break;
    by_job_unlock(job);
    usleep(100);
    by_job_lock(job);
  }
  by_job_unlock(job);
}

void by_job_retire(struct by_job *job, const char *text) {
  by_features_retire(job);
  by_timeline_leave(job->timeline, true);
  by_job_await_failure(job); /* A failure that is not settled has no text to add to. */
  if (job->size > 1) send_goodbye(job, RETIRING_MS);
  by_job_lock(job);
  if (by_engine_status(job->engine) == BANYAN_OK)
    by_engine_fail(job->engine, BANYAN_ERR_CLOSED, UINT32_MAX, text);
  else
    by_engine_explain(job->engine, text);
  by_job_changed(job);
}

bool by_job_interrupt(struct by_job *job, const char *text, bool at_once) {
  struct banyan_counters counters = {0};
  by_job_lock(job);
  by_engine_counters(job->engine, &counters);
  uint64_t moved = 1 + counters.calls + counters.bytes_sent + counters.bytes_received;
  bool moves = by_engine_status(job->engine) == BANYAN_OK && moved != job->moved;
  job->moved = moved;
  if (moves && !at_once) {
    by_job_unlock(job);
    return false;
  }
  job->is_interrupted = true;
  by_engine_fail(job->engine, BANYAN_ERR_CLOSED, UINT32_MAX, text);
  by_job_changed(job);
  return true;
}

/* Keeps the lanes to a process, whose number was `was` in the membership before; if there are none to keep, notifies it
 * that no more is sent. */
static void keep_lanes_to(struct by_job *job, struct by_job *before, uint32_t rank, uint32_t was) {
  struct by_lane *lanes[BY_LANES];
  by_job_lock(before);
  uint32_t n = by_engine_take_lanes(before->engine, was, lanes);
  for (uint32_t i = 0; i < n; i++) by_progress_unwatch(before, lanes[i]->poll_fd);
  by_job_unlock(before);
  if (n) by_connector_keep(job->connector, rank, lanes, n);
}

static void hang_up(struct by_job *before, uint32_t process) {
  by_job_lock(before);
  (void)by_engine_take_lanes(before->engine, process, NULL);
  by_job_unlock(before);
}

void by_job_inherit(struct by_job *job, struct by_job *before) {
  by_timeline_inherit(job->timeline, before->timeline);
  const struct by_membership *was = before->formed;
  for (uint32_t p = 0; p < before->processes; p++) {
    uint32_t rank = p < was->n ? by_membership_find(job->formed, &was->members[p].fingerprint) : BY_NO_MEMBER;
    bool stays = job->connector && rank < job->size && rank != job->rank;
    if (p == before->rank) continue;
    if (stays)
      keep_lanes_to(job, before, rank, p);
    else
      hang_up(before, p);
  }
}

enum banyan_status by_job_go_on(struct by_job *job, uint64_t memberships) {
  by_job_lock(job);
  job->memberships = memberships;
  by_job_unlock(job);
  enum banyan_status status = by_timeline_open(job->timeline, memberships > 1);
  return status == BANYAN_OK ? status : by_job_fail_here(job, status, "cannot take part");
}

void by_job_hold(struct by_job *job) {
  job->references++;
}

bool by_job_is_of_parent(const struct by_job *job) {
  return job->generation != by_process_generation();
}

enum banyan_status by_job_list_handles(struct by_job *job, const char ***out) {
  const struct by_member *members = job->members;
  const char **handles = BY_ARENA_ARRAY(&job->arena, const char *, job->size);
  if (!handles) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u handles", job->size);
  for (uint32_t i = 0; i < job->size; i++) handles[i] = members[i].handle;
  *out = handles;
  return BANYAN_OK;
}

enum banyan_status by_job_check_process(const struct by_job *job) {
  if (!by_job_is_of_parent(job)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "a process that was made by fork() cannot use its parent's communicators and "
                                      "requests: make the call in the parent, or create a communicator here");
}

enum banyan_status by_job_fail_here(struct by_job *job, enum banyan_status status, const char *what) {
  char text[600];
  snprintf(text, sizeof text, "%s %s: %.400s", by_job_name(job, job->rank), what, banyan_error_text());
  by_job_fail(job, status, job->rank, text);
  by_job_await_failure(job);
  by_job_lock(job);
  enum banyan_status agreed = by_job_status(job);
  by_job_unlock(job);
  return agreed == BANYAN_OK ? by_fail(status, "%s", text) : agreed;
}

void by_job_await_failure(struct by_job *job) {
  bool open = job->state != BY_JOB_JOINING; /* The thread does not run before. */
  while (open) {
    by_job_lock(job);
    by_engine_check_deadlines(job->engine);
    open = by_engine_get_state(job->engine)->settles_by;
    by_job_unlock(job);
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

enum banyan_status by_job_status(const struct by_job *job) {
  enum banyan_status status = by_engine_status(job->engine);
  return status == BANYAN_OK ? status : by_fail(status, "%s", by_engine_get_state(job->engine)->error);
}

void by_job_unlock_and_release(struct by_job *job) {
  bool last = --job->references == 0;
  by_job_unlock(job);
  if (last) by_job_release(job);
}

void by_job_release(struct by_job *job) {
  if (!job) return;
  by_progress_stop(job);
  by_timeline_leave(job->timeline, false);
  if (job->size > 1 && job->state != BY_JOB_LEAVING) send_goodbye(job, GOODBYE_MS);
  destroy(job);
}
