#include "agent_jobs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "clock.h"

enum { MOST_KEPT = 8 << 20 /* bytes of all jobs' lines; a quarter of that of one user */ };

/* Of the budget of the agent itself. */
static const struct by_budget_rules of_user = {512, 5, 2 << 20, 1 << 16};
/* As much as some ranks may send each, and each of many as a rule. */
static const struct by_budget_rules of_received = {1 << 14, 2000, 64 << 20, 4 << 20};
static const struct by_budget_rules of_news = {60, 0.25, 1, 1};

static bool is_root(const struct by_agent_user *user) {
  return user->uid == 0;
}

/* One that has gone keeps what it has used up, until it may have all again. */
static void forget_others(struct by_agent_users *users, uint64_t now) {
  double seconds = by_clock_to_seconds(now);
  for (struct by_agent_user *user = LIST_FIRST(&users->all), *next; user; user = next) {
    next = LIST_NEXT(user, entry);
    if (user->n_ranks || !by_budget_is_full(&user->forwards, seconds) || !by_budget_is_full(&user->received, seconds) ||
        !by_budget_is_full(&user->news, seconds))
      continue;
    LIST_REMOVE(user, entry);
    free(user);
  }
}

static struct by_agent_user *create_user(struct by_agent_users *users, unsigned uid, uint64_t now) {
  struct by_agent_user *user = calloc(1, sizeof *user);
  double seconds = by_clock_to_seconds(now);
  if (!user) return NULL;
  *user = (struct by_agent_user){.uid = uid,
                                 .forwards = by_budget_full(&of_user, seconds),
                                 .received = by_budget_full(&of_received, seconds),
                                 .news = by_budget_full(&of_news, seconds)};
  LIST_INSERT_HEAD(&users->all, user, entry);
  return user;
}

enum banyan_status by_agent_users_connect(struct by_agent_users *users, unsigned uid, uint64_t now,
                                          struct by_agent_user **out) {
  struct by_agent_user *user = LIST_FIRST(&users->all);
  while (user && user->uid != uid) user = LIST_NEXT(user, entry);
  if (!user) forget_others(users, now);
  if (!user && !(user = create_user(users, uid, now))) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  if (user->n_ranks == BY_AGENT_RANKS / 2 && !is_root(user))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%d processes of user %u are connected already", BY_AGENT_RANKS / 2, uid);
  user->n_ranks++;
  *out = user;
  return BANYAN_OK;
}

void by_agent_users_disconnect(struct by_agent_user *user) {
  user->n_ranks--;
}

enum banyan_status by_agent_users_may_send(struct by_agent_user *user, size_t length, uint64_t now) {
  if (is_root(user) || by_budget_take(&user->received, length, by_clock_to_seconds(now))) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL,
                 "all processes of user %u together say more than %.0f lines or %.0f bytes a second", user->uid,
                 of_received.lines_a_second, of_received.bytes_a_second);
}

bool by_agent_users_may_forward(struct by_agent_users *users, struct by_agent_user *user, size_t length, uint64_t now) {
  double seconds = by_clock_to_seconds(now);
  bool may = !user || is_root(user) || by_budget_take(&user->forwards, length, seconds);
  return may && by_budget_take(&users->forwards, length, seconds);
}

/* Counts bytes of a line that is kept for a user. BANYAN_ERR_UNSUPPORTED: it would be too much. */
static enum banyan_status agent_users_keep(struct by_agent_users *users, struct by_agent_user *user, size_t length) {
  if (user->kept + length > MOST_KEPT / 4 && !is_root(user))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "what is told of the jobs of user %u here is more than %d bytes", user->uid,
                   MOST_KEPT / 4);
  if (users->kept + length > MOST_KEPT)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "what is told of the jobs here is more than %d bytes", MOST_KEPT);
  user->kept += length;
  users->kept += length;
  return BANYAN_OK;
}

static void agent_users_release(struct by_agent_users *users, struct by_agent_user *user, size_t length) {
  user->kept -= length;
  users->kept -= length;
}

void by_agent_users_log(struct by_agent_users *users, unsigned uid, const char *what, uint64_t now) {
  char who[32];
  snprintf(who, sizeof who, "a process of user %u", uid);
  by_repeats_warn(&users->rejections, "agent", who, what, by_clock_to_seconds(now));
}

void by_agent_users_init(struct by_agent_users *users, uint64_t now) {
  *users = (struct by_agent_users){.forwards = by_budget_full(&by_budget_of_agent, by_clock_to_seconds(now))};
}

void by_agent_users_fini(struct by_agent_users *users) {
  for (struct by_agent_user *user; (user = LIST_FIRST(&users->all)); free(user)) LIST_REMOVE(user, entry);
  by_repeats_flush(&users->rejections, "agent", INFINITY);
}

struct by_agent_job *by_agent_jobs_find(const struct by_agent_jobs *jobs, const char *id) {
  struct by_agent_job *job = TAILQ_FIRST(&jobs->all);
  while (job && strcmp(job->id, id) != 0) job = TAILQ_NEXT(job, entry);
  return job;
}

void by_agent_jobs_note_news(struct by_agent_jobs *jobs, struct by_agent_user *user, uint64_t now) {
  if (jobs->session->change_at != UINT64_MAX) return; /* a report comes anyway */
  if (is_root(user) || by_budget_take(&user->news, 0, by_clock_to_seconds(now)))
    by_agent_session_note_change(jobs->session, now);
}

/* ---- lines that are kept */

static void drop_line(struct by_agent_jobs *jobs, struct by_agent_job *job, enum by_agent_line which) {
  if (job->lines[which]) agent_users_release(jobs->users, job->user, strlen(job->lines[which]));
  free(job->lines[which]);
  job->lines[which] = NULL;
  job->unsent[which] = false;
}

static void drop_lines(struct by_agent_jobs *jobs, struct by_agent_job *job) {
  for (int i = 0; i < BY_AGENT_LINES; i++) drop_line(jobs, job, (enum by_agent_line)i);
}

static enum banyan_status keep_text(struct by_agent_jobs *jobs, struct by_agent_job *job, enum by_agent_line which,
                                    const struct by_text *text) {
  drop_line(jobs, job, which);
  if (text->failed || text->length > BY_CLUSTER_LINE_UP)
    return by_fail(BANYAN_ERR_PROTOCOL, "a line of %zu bytes cannot be passed on", text->length);
  BY_TRY(agent_users_keep(jobs->users, job->user, text->length));
  if (!(job->lines[which] = strdup(by_text_get(text)))) {
    agent_users_release(jobs->users, job->user, text->length);
    return by_fail(BANYAN_ERR_NO_MEMORY, "the agent is out of memory");
  }
  job->unsent[which] = true;
  return BANYAN_OK;
}

/* In their order: a plan that a job runs is of a job that is known. */
static void send_unsent(struct by_agent_jobs *jobs, struct by_agent_job *job, uint64_t now) {
  for (int i = 0; i < BY_AGENT_LINES && by_agent_session_is_open(jobs->session); i++) {
    if (!job->unsent[i]) continue;
    if (!by_agent_users_may_forward(jobs->users, job->user, strlen(job->lines[i]), now)) {
      by_agent_jobs_note_news(jobs, job->user, now); /* it is tried again then */
      return;
    }
    job->unsent[i] = false;
    by_agent_session_send_line(jobs->session, job->lines[i], now);
  }
}

void by_agent_jobs_begin(struct by_agent_jobs *jobs, struct by_agent_job *job, char *name) {
  free(job->name);
  job->name = name;
  drop_lines(jobs, job);
}

enum banyan_status by_agent_jobs_keep(struct by_agent_jobs *jobs, struct by_agent_job *job, enum by_agent_line which,
                                      const struct by_cluster_message *message, uint64_t now) {
  struct by_text text;
  if (which == BY_AGENT_SWITCHED) drop_line(jobs, job, BY_AGENT_KEEPS);
  by_text_init(&text);
  by_cluster_message_print(message, &text);
  enum banyan_status status = keep_text(jobs, job, which, &text);
  by_text_fini(&text);
  if (status == BANYAN_OK) send_unsent(jobs, job, now);
  return status;
}

void by_agent_jobs_send(struct by_agent_jobs *jobs, bool all, uint64_t now) {
  for (struct by_agent_job *job = TAILQ_FIRST(&jobs->all); job && all; job = TAILQ_NEXT(job, entry))
    for (int i = 0; i < BY_AGENT_LINES; i++) job->unsent[i] = job->lines[i] != NULL;
  for (struct by_agent_job *job = TAILQ_FIRST(&jobs->all); job; job = TAILQ_NEXT(job, entry))
    send_unsent(jobs, job, now);
}

/* ---- coming and going */

static enum banyan_status create(struct by_agent_jobs *jobs, const char *id, struct by_agent_user *user,
                                 struct by_agent_job **out) {
  if (jobs->n == BY_AGENT_JOBS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this host has %d jobs already, the agent takes no more", BY_AGENT_JOBS);
  if (user->n_jobs >= BY_AGENT_JOBS / 2 && !is_root(user))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "user %u has %d jobs here already, the agent takes no more of one user",
                   user->uid, BY_AGENT_JOBS / 2);
  struct by_agent_job *job = calloc(1, sizeof *job);
  *out = job;
  if (!job) return by_fail(BANYAN_ERR_NO_MEMORY, "the agent is out of memory");
  strcpy(job->id, id);
  job->user = user;
  TAILQ_INSERT_TAIL(&jobs->all, job, entry);
  jobs->n++;
  user->n_jobs++;
  return BANYAN_OK;
}

static void drop(struct by_agent_jobs *jobs, struct by_agent_job *job) {
  TAILQ_REMOVE(&jobs->all, job, entry);
  jobs->n--;
  job->user->n_jobs--;
  drop_lines(jobs, job);
  free(job->name);
  free(job);
}

enum banyan_status by_agent_jobs_join(struct by_agent_jobs *jobs, const char *id, struct by_agent_user *user,
                                      struct by_agent_job **out) {
  struct by_agent_job *job = by_agent_jobs_find(jobs, id);
  if (job && job->user != user)
    return by_fail(BANYAN_ERR_PROTOCOL, "job %s is of user %u, not of %u", job->id, job->user->uid, user->uid);
  if (!job) BY_TRY(create(jobs, id, user, &job));
  job->ranks++;
  *out = job;
  return BANYAN_OK;
}

void by_agent_jobs_leave(struct by_agent_jobs *jobs, struct by_agent_job *job) {
  if (--job->ranks == 0) drop(jobs, job);
}

void by_agent_jobs_init(struct by_agent_jobs *jobs, struct by_agent_users *users, struct by_agent_session *session) {
  *jobs = (struct by_agent_jobs){.users = users, .session = session};
  TAILQ_INIT(&jobs->all);
}

void by_agent_jobs_fini(struct by_agent_jobs *jobs) {
  while (!TAILQ_EMPTY(&jobs->all)) drop(jobs, TAILQ_FIRST(&jobs->all));
}

/* ---- classes */

/* One that has not said how long it is never goes back up: ranks that leave take what they have sent with them. */
void by_agent_job_find_place(struct by_agent_job *job, const struct by_priority_rules *rules, uint64_t iterations,
                             uint64_t sent, uint64_t expected) {
  uint32_t before = job->place.queue;
  by_job_length_update(&job->length, expected, iterations);
  job->place = by_priority_find(rules, 1, iterations, sent, &job->length);
  if (!job->length.expected && job->place.queue < before) job->place.queue = before;
}

bool by_agent_job_set_class(struct by_agent_job *job, uint32_t class_, bool managed) {
  bool changes = job->class_ != class_;
  job->class_ = class_;
  job->managed |= managed;
  return changes;
}
