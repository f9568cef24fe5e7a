/* A job's state that all its parts share: names of members, the wake-up of threads, its failure, and its class. */
#include "job_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "priority.h"

/* ---- the lock */

void by_job_lock(struct by_job *job) {
  if (pthread_mutex_trylock(&job->lock) == 0) return;
  atomic_fetch_add(&job->contenders, 1);
  pthread_mutex_lock(&job->lock);
  atomic_fetch_sub(&job->contenders, 1);
}

void by_job_unlock(struct by_job *job) {
  pthread_mutex_unlock(&job->lock);
}

void by_job_wake(struct by_job *job) {
  uint64_t one = 1;
  while (write(job->wake, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void by_job_changed(struct by_job *job) {
  pthread_cond_broadcast(&job->changed);
  by_job_unlock(job);
  by_job_wake(job);
}

void by_job_fail(struct by_job *job, enum banyan_status status, uint32_t process, const char *text) {
  by_job_lock(job);
  by_engine_fail(job->engine, status, process, text);
  by_job_changed(job);
}

void by_job_settle(struct by_job *job, enum banyan_status status, uint32_t process, const char *text) {
  by_job_lock(job);
  by_engine_settle(job->engine, status, process, text);
  by_job_changed(job);
}

bool by_job_has_failed(struct by_job *job) {
  by_job_lock(job);
  bool failed = job->engine && by_engine_status(job->engine) != BANYAN_OK;
  by_job_unlock(job);
  return failed;
}

/* ---- members */

/* The names that there are for so many processes are loaded after these; gcc subscripts an atomic pointer without an
 * atomic load. */
const char *by_job_name(const struct by_job *job, uint32_t process) {
  if (process >= job->processes) return "an unknown process";
  const char **names = job->names;
  return names[process];
}

const char *by_job_name_member(struct by_job *job, uint32_t process) {
  const struct by_member *member = &job->members[process];
  char text[BY_MEMBER_STRING + 32];
  snprintf(text, sizeof text, "%s %u (host %s)", by_member_kind_name(member->kind),
           process < job->size ? process : process - job->size, member->host);
  return by_arena_string(&job->arena, text);
}

enum banyan_status by_job_make_room(struct by_job *job) {
  uint32_t n = job->processes, room = 2 * job->room + 8;
  if (n < job->room) return BANYAN_OK;
  struct by_member *members = BY_ARENA_ARRAY(&job->arena, struct by_member, room);
  const char **names = BY_ARENA_ARRAY(&job->arena, const char *, room);
  const char **lost = BY_ARENA_ARRAY(&job->arena, const char *, room);
  bool *left = BY_ARENA_ARRAY(&job->arena, bool, room);
  if (!members || !names || !left || !lost) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
  memcpy(members, job->members, n * sizeof *members);
  memcpy(names, job->names, n * sizeof *names);
  memcpy(left, job->left, n * sizeof *left);
  memcpy(lost, job->lost, n * sizeof *lost);
  job->members = members;
  job->names = names;
  job->left = left;
  job->lost = lost;
  job->room = room;
  return BANYAN_OK;
}

/* ---- the class in which this process sends, as marks on its connections. Control connections are never marked: the
 * host's queues serve what has no mark as early as the highest class, with a share of its own. */

/* A ToS by hand takes precedence over a class. */
static struct by_mark mark_of(const struct by_job *job) {
  struct by_mark mark = {-1, -1};
  if (job->class_ >= 0)
    mark = (struct by_mark){by_priority_tos((uint32_t)job->class_), by_priority_socket((uint32_t)job->class_)};
  if (job->settings.tos >= 0) mark.tos = (int)job->settings.tos;
  return mark;
}

static void apply(struct by_job *job) {
  struct by_mark mark = mark_of(job);
  by_engine_set_mark(job->engine, &mark);
  if (job->role.mark) job->role.mark(job->role.context, &mark);
}

void by_job_mark_first(struct by_job *job) {
  if (job->settings.class_ >= 0) job->class_ = job->settings.class_;
  apply(job);
}

void by_job_set_class(struct by_job *job, uint32_t class_) {
  by_job_lock(job);
  bool by_hand = job->settings.class_ >= 0 || job->settings.tos >= 0;
  if (!by_hand && class_ < BY_PRIORITY_CLASSES && job->class_ != (long)class_) {
    by_debug("cluster", "sends in class %u from now on", class_);
    job->class_ = (long)class_;
    job->class_changes++;
    if (job->engine) apply(job); /* Before there is an engine, the mark is applied when all have joined. */
  }
  by_job_unlock(job);
}

/* ---- what others may know */

uint32_t by_job_rank(const struct by_job *job) {
  return job->rank;
}

uint32_t by_job_size(const struct by_job *job) {
  return job->size;
}

uint32_t by_job_processes(const struct by_job *job) {
  return job->processes;
}

uint32_t by_job_founders(const struct by_job *job) {
  return job->founders;
}

const struct by_member *by_job_members(const struct by_job *job) {
  return job->members;
}

bool by_job_member_left(const struct by_job *job, uint32_t process) {
  return job->left[process];
}

void by_job_set_udp_port(struct by_job *job, uint32_t process, uint32_t port) {
  by_job_lock(job);
  struct by_member *members = job->members;
  members[process].udp_port = port;
  by_job_unlock(job);
}

const struct by_job_hosts *by_job_hosts(const struct by_job *job) {
  return &job->hosts;
}

const struct by_membership *by_job_formed(const struct by_job *job) {
  return job->formed;
}

uint64_t by_job_membership(const struct by_job *job) {
  return job->membership;
}

bool by_job_has_service(const struct by_job *job) {
  return job->service;
}

const struct by_job_role *by_job_get_role(const struct by_job *job) {
  return &job->role;
}

const struct by_settings *by_job_settings(const struct by_job *job) {
  return &job->settings;
}

struct by_key_ring *by_job_keys(const struct by_job *job) {
  return job->keys;
}

struct by_process_identity *by_job_identity(const struct by_job *job) {
  return job->identity;
}

uint32_t by_job_servers(const struct by_job *job) {
  return job->servers;
}

bool by_job_is_leaving(const struct by_job *job) {
  return job->state == BY_JOB_LEAVING;
}

const atomic_bool *by_job_ends(const struct by_job *job) {
  return &job->ends;
}

bool by_job_is_managed(const struct by_job *job) {
  return job->managed;
}

void by_job_set_managed(struct by_job *job, bool managed) {
  job->managed = managed;
}

struct by_engine *by_job_engine(const struct by_job *job) {
  return job->engine;
}

struct by_loop *by_job_loop(const struct by_job *job) {
  return job->loop;
}

struct by_control *by_job_control(const struct by_job *job) {
  return job->control;
}

struct by_tracer *by_job_tracer(struct by_job *job) {
  return &job->tracer;
}

struct by_observation *by_job_observation(struct by_job *job) {
  return &job->observed;
}
