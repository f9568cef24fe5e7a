/* Handles the messages of ranks and other processes, and stores the lines of jobs for the manager. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_state.h"
#include "clock.h"
#include "statement.h"

/* ---- users */

/* Part of the agent's own budget. */
static const struct by_budget_rules user_limits = {512, 5, 2 << 20, 1 << 16};
/* As much as some ranks may send at their limits, and many at normal rates. */
static const struct by_budget_rules receive_limits = {1 << 14, 2000, 64 << 20, 4 << 20};
static const struct by_budget_rules report_limits = {60, 0.25, 1, 1};

/* Removes users without connections once their budgets are full again. */
static void forget_users(struct by_agent *agent, double seconds) {
  for (struct by_agent_user *user = LIST_FIRST(&agent->ranks.users), *next; user; user = next) {
    next = LIST_NEXT(user, entry);
    if (user->n_ranks || !by_budget_is_full(&user->forwards, seconds) || !by_budget_is_full(&user->received, seconds) ||
        !by_budget_is_full(&user->news, seconds))
      continue;
    LIST_REMOVE(user, entry);
    free(user);
  }
}

/* Counts a new connection of a user. BANYAN_ERR_UNSUPPORTED: too many. */
static enum banyan_status connect_user(struct by_agent *agent, unsigned uid, double seconds,
                                       struct by_agent_user **out) {
  struct by_agent_user *user = LIST_FIRST(&agent->ranks.users);
  while (user && user->uid != uid) user = LIST_NEXT(user, entry);
  if (!user) {
    forget_users(agent, seconds);
    if (!(user = calloc(1, sizeof *user))) return by_fail(BANYAN_ERR_NO_MEMORY, "the agent is out of memory");
    *user = (struct by_agent_user){.uid = uid,
                                   .forwards = by_budget_full(&user_limits, seconds),
                                   .received = by_budget_full(&receive_limits, seconds),
                                   .news = by_budget_full(&report_limits, seconds)};
    LIST_INSERT_HEAD(&agent->ranks.users, user, entry);
  }
  if (user->n_ranks == BY_AGENT_RANKS / 2 && !by_agent_user_is_root(user))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%d processes of user %u are connected already", BY_AGENT_RANKS / 2, uid);
  user->n_ranks++;
  *out = user;
  return BANYAN_OK;
}

bool by_agent_ranks_may_forward(struct by_agent *agent, struct by_agent_user *user, size_t length, uint64_t now) {
  double seconds = by_clock_to_seconds(now);
  bool may = !user || by_agent_user_is_root(user) || by_budget_take(&user->forwards, length, seconds);
  return may && by_budget_take(&agent->ranks.forwards, length, seconds);
}

void by_agent_log_user(struct by_agent *agent, unsigned uid, const char *what, uint64_t now) {
  char process[32];
  snprintf(process, sizeof process, "a process of user %u", uid);
  by_repeats_warn(&agent->ranks.rejections, "agent", process, what, by_clock_to_seconds(now));
}

/* Causes a report soon because of a user's job, unless the user has caused too many recently. */
static void note_news(struct by_agent *agent, struct by_agent_user *user, uint64_t now) {
  if (agent->session.change_at != UINT64_MAX) return; /* A report is due anyway. */
  if (by_agent_user_is_root(user) || by_budget_take(&user->news, 0, by_clock_to_seconds(now)))
    by_agent_links_changed(agent, now);
}

/* Counts a line of one of its processes. BANYAN_ERR_PROTOCOL: they send too much. */
static enum banyan_status count_received(struct by_agent_user *user, size_t length, uint64_t now) {
  if (by_agent_user_is_root(user) || by_budget_take(&user->received, length, by_clock_to_seconds(now)))
    return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL,
                 "all processes of user %u together send more than %.0f lines or %.0f bytes a second", user->uid,
                 receive_limits.lines_a_second, receive_limits.bytes_a_second);
}

/* ---- sending to processes */

/* Sends a text, and frees it. */
static void send_text(const struct by_agent *agent, const struct by_agent_rank *rank, struct by_text *text) {
  const struct by_agent_options *options = &agent->options;
  if (!text->failed) options->calls->send_to_rank(options->context, rank->connection, by_text_get(text), text->length);
  by_text_fini(text);
}

/* Sends a message to one process. */
static void send_message(const struct by_agent *agent, const struct by_agent_rank *rank,
                         const struct by_cluster_message *message) {
  struct by_text text = by_cluster_message_line(message);
  send_text(agent, rank, &text);
}

/* ---- processes that are no ranks of a job, but ask the manager for something */

static void give_number(struct by_agent *agent, struct by_agent_rank *rank) {
  if (!rank->number) rank->number = ++agent->ranks.n_numbers;
}

void by_agent_meetings_send_offer(const struct by_agent *agent, const struct by_cluster_message *offer) {
  const struct by_agent_rank *rank = LIST_FIRST(&agent->ranks.all);
  while (rank && rank->number != offer->number) rank = LIST_NEXT(rank, entry);
  if (rank && offer->number) send_message(agent, rank, offer);
}

static bool is_for(const struct by_agent_rank *rank, const struct by_cluster_message *list) {
  if (!rank->meet || strcmp(rank->meets, list->job) != 0) return false;
  if (list->number) return rank->number == list->number;
  for (uint32_t i = 0; i < list->n_handles; i++)
    if (!strcmp(rank->handle, list->handles[i])) return true;
  return false;
}

void by_agent_meetings_send_list(const struct by_agent *agent, const struct by_cluster_message *list) {
  const struct by_agent_rank *rank;
  LIST_FOREACH(rank, &agent->ranks.all, entry) {
    if (is_for(rank, list)) send_message(agent, rank, list);
  }
}

/* Forwards a launcher's request for hosts; it asks again if no answer comes. Without a manager there are none. */
static void forward_want(struct by_agent *agent, struct by_agent_rank *rank, const struct by_cluster_message *message,
                         uint64_t now) {
  enum { BYTES = 64 };
  give_number(agent, rank);
  struct by_cluster_message wanted = {.type = BY_MESSAGE_WANTED, .number = rank->number, .count = message->count};
  struct by_cluster_message none = {.type = BY_MESSAGE_OFFERED, .number = rank->number};
  if (agent->session.state != BY_SESSION_WELCOME)
    send_message(agent, rank, &none);
  else if (by_agent_ranks_may_forward(agent, rank->user, BYTES, now))
    by_agent_session_send(agent, &wanted, now);
}

void by_agent_meetings_send(struct by_agent *agent, bool all, uint64_t now) {
  for (struct by_agent_rank *rank = LIST_FIRST(&agent->ranks.all); rank; rank = LIST_NEXT(rank, entry)) {
    if (!rank->meet) continue;
    if (all) rank->unsent = true, rank->known = false;
    if (!rank->unsent || !by_agent_session_is_open(agent)) continue;
    if (!by_agent_ranks_may_forward(agent, rank->user, strlen(rank->meet), now)) {
      note_news(agent, rank->user, now); /* The next report tries again. */
      continue;                          /* Another user may have a larger budget. */
    }
    rank->unsent = false;
    rank->known = true;
    by_agent_session_send_line(agent, rank->meet, now);
  }
}

/* Stores and forwards the line of a process that meets others. It stays connected as long as it lives. */
static enum banyan_status handle_meeting(struct by_agent *agent, struct by_agent_rank *rank,
                                         const struct by_cluster_message *message, uint64_t now) {
  struct by_cluster_message meet = *message;
  if (!agent->options.manager)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this host's agent has no manager, through which processes could meet");
  if (rank->meets && strcmp(rank->meets, message->job) != 0)
    return by_fail(BANYAN_ERR_PROTOCOL, "a process meets those of two jobs");
  give_number(agent, rank);
  if (!rank->meets) rank->meets = strdup(message->job);
  free(rank->handle);
  rank->handle = strdup(message->handle);
  meet.number = rank->number;
  struct by_text text = by_cluster_message_line(&meet);
  free(rank->meet);
  rank->meet = text.failed || !rank->meets || !rank->handle ? NULL : strdup(by_text_get(&text));
  by_text_fini(&text);
  if (!rank->meet) return by_fail(BANYAN_ERR_NO_MEMORY, "the agent is out of memory");
  rank->unsent = true;
  by_agent_meetings_send(agent, false, now);
  return BANYAN_OK;
}

/* Ends a process, and notifies the manager if it knows it. */
static void end_meeting(struct by_agent *agent, const struct by_agent_rank *rank, uint64_t now) {
  struct by_cluster_message parted = {.type = BY_MESSAGE_PARTED, .job = rank->meets, .number = rank->number};
  if (rank->known) by_agent_session_send(agent, &parted, now);
}

/* ---- the state of ranks and jobs */

enum {
  MAX_STORED = 64 << 20,   /* Maximum bytes of all jobs' stored lines; a quarter of that for one user. */
  MAX_SECONDS = 1000000000 /* Maximum seconds until the end of a job that the clock can represent. */
};

static const struct by_budget_rules rank_limits = {1000, 200, 4 << 20,
                                                   1 << 18}; /* A rank reports at most 100 times a second. */

static const double early_part = 0.8; /* An earlier report than after this fraction of an interval is about a change. */

/* Inline code, so that the compiler sees that the status is an error. */
static enum banyan_status no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "the agent is out of memory");
  return BANYAN_ERR_NO_MEMORY;
}

static char *copy_text(const char *text) {
  char *copy = strdup(text);
  if (!copy) by_error("agent", "out of memory; a text is lost");
  return copy;
}

/* ---- sending to ranks */

void by_agent_ranks_send(const struct by_agent *agent, const struct by_cluster_message *message) {
  for (const struct by_agent_rank *rank = LIST_FIRST(&agent->ranks.all); rank; rank = LIST_NEXT(rank, entry))
    if (rank->job) send_message(agent, rank, message);
}

bool by_agent_ranks_send_root(const struct by_agent *agent, const struct by_cluster_message *message) {
  for (const struct by_agent_rank *rank = LIST_FIRST(&agent->ranks.all); rank; rank = LIST_NEXT(rank, entry)) {
    if (!rank->job || rank->rank != 0 || strcmp(rank->job->id, message->job) != 0) continue;
    send_message(agent, rank, message);
    return true;
  }
  return false;
}

static void send_refusal(struct by_agent *agent, struct by_agent_rank *rank, const char *why, uint64_t now) {
  struct by_cluster_message message = {.type = BY_MESSAGE_REFUSED, .why = why};
  agent->ranks.n_refused++;
  by_agent_log_user(agent, rank->user->uid, why, now);
  send_message(agent, rank, &message);
}

static void send_class(const struct by_agent *agent, const struct by_agent_rank *rank) {
  const struct by_cluster_job class_ = {.job = rank->job->id, .class_ = rank->job->class_};
  struct by_cluster_message message = {.type = BY_MESSAGE_CLASSES, .n_jobs = 1, .jobs = &class_};
  send_message(agent, rank, &message);
}

void by_agent_job_set_class(const struct by_agent *agent, struct by_agent_job *job, uint32_t class_, bool managed) {
  bool changes = job->class_ != class_;
  job->class_ = class_;
  job->managed |= managed;
  for (const struct by_agent_rank *rank = LIST_FIRST(&agent->ranks.all); rank && changes; rank = LIST_NEXT(rank, entry))
    if (rank->job == job) send_class(agent, rank);
}

/* ---- jobs and their stored lines */

struct by_agent_job *by_agent_jobs_find(const struct by_agent *agent, const char *id) {
  struct by_agent_job *job = TAILQ_FIRST(&agent->ranks.jobs);
  while (job && strcmp(job->id, id) != 0) job = TAILQ_NEXT(job, entry);
  return job;
}

/* Counts the bytes of a stored line for a user. BANYAN_ERR_UNSUPPORTED: too many. */
static enum banyan_status count_stored(struct by_agent *agent, struct by_agent_user *user, size_t length) {
  if (user->kept + length > MAX_STORED / 4 && !by_agent_user_is_root(user))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "what is kept of the jobs of user %u here is more than %d bytes", user->uid,
                   MAX_STORED / 4);
  if (agent->ranks.kept + length > MAX_STORED)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "what is kept of the jobs here is more than %d bytes", MAX_STORED);
  user->kept += length;
  agent->ranks.kept += length;
  return BANYAN_OK;
}

static void drop_line(struct by_agent *agent, struct by_agent_job *job, enum by_agent_line which) {
  size_t length = job->lines[which] ? strlen(job->lines[which]) : 0;
  job->user->kept -= length;
  agent->ranks.kept -= length;
  free(job->lines[which]);
  job->lines[which] = NULL;
  job->unsent[which] = false;
}

static void drop_lines(struct by_agent *agent, struct by_agent_job *job) {
  for (int i = 0; i < BY_AGENT_LINES; i++) drop_line(agent, job, (enum by_agent_line)i);
}

static enum banyan_status store_text(struct by_agent *agent, struct by_agent_job *job, enum by_agent_line which,
                                     const struct by_text *text) {
  drop_line(agent, job, which);
  if (text->failed || text->length > BY_CLUSTER_LINE_UP)
    return by_fail(BANYAN_ERR_PROTOCOL, "a line of %zu bytes cannot be passed on", text->length);
  char *line = strdup(by_text_get(text));
  enum banyan_status status = line ? count_stored(agent, job->user, text->length) : no_memory();
  if (status != BANYAN_OK) {
    free(line);
    return status;
  }
  job->lines[which] = line;
  job->unsent[which] = true;
  return BANYAN_OK;
}

/* Sends lines in their order, since the manager must know a job before the plan that it runs. */
static void send_unsent(struct by_agent *agent, struct by_agent_job *job, uint64_t now) {
  for (int i = 0; i < BY_AGENT_LINES && by_agent_session_is_open(agent); i++) {
    if (!job->unsent[i]) continue;
    if (!by_agent_ranks_may_forward(agent, job->user, strlen(job->lines[i]), now)) {
      note_news(agent, job->user, now); /* The next report tries again. */
      return;
    }
    job->unsent[i] = false;
    by_agent_session_send_line(agent, job->lines[i], now);
  }
}

/* Replaces a stored line, and sends unsent lines as far as budgets allow. */
static enum banyan_status store_message(struct by_agent *agent, struct by_agent_job *job, enum by_agent_line which,
                                        const struct by_cluster_message *message, uint64_t now) {
  struct by_text text = by_cluster_message_line(message);
  if (which == BY_AGENT_SWITCHED) drop_line(agent, job, BY_AGENT_KEEPS);
  enum banyan_status status = store_text(agent, job, which, &text);
  by_text_fini(&text);
  if (status == BANYAN_OK) send_unsent(agent, job, now);
  return status;
}

void by_agent_jobs_send(struct by_agent *agent, bool all, uint64_t now) {
  struct by_agent_job *job;
  TAILQ_FOREACH(job, &agent->ranks.jobs, entry) {
    for (int i = 0; i < BY_AGENT_LINES && all; i++) job->unsent[i] = job->lines[i] != NULL;
  }
  TAILQ_FOREACH(job, &agent->ranks.jobs, entry) send_unsent(agent, job, now);
}

static enum banyan_status create_job(struct by_agent *agent, const char *id, struct by_agent_user *user,
                                     struct by_agent_job **out) {
  if (agent->ranks.n_jobs == BY_AGENT_JOBS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this host has %d jobs already, the agent takes no more", BY_AGENT_JOBS);
  if (user->n_jobs >= BY_AGENT_JOBS / 2 && !by_agent_user_is_root(user))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "user %u has %d jobs here already, the agent takes no more of one user",
                   user->uid, BY_AGENT_JOBS / 2);
  struct by_agent_job *job = calloc(1, sizeof *job);
  *out = job;
  if (!job) return no_memory();
  strcpy(job->id, id);
  job->user = user;
  TAILQ_INSERT_TAIL(&agent->ranks.jobs, job, entry);
  agent->ranks.n_jobs++;
  user->n_jobs++;
  return BANYAN_OK;
}

static void drop_job(struct by_agent *agent, struct by_agent_job *job) {
  TAILQ_REMOVE(&agent->ranks.jobs, job, entry);
  agent->ranks.n_jobs--;
  job->user->n_jobs--;
  drop_lines(agent, job);
  free(job->name);
  free(job);
}

/* Adds a rank to a job, which begins with its first rank. BANYAN_ERR_PROTOCOL: it is another user's;
 * BANYAN_ERR_UNSUPPORTED: too many. */
static enum banyan_status join_job(struct by_agent *agent, const char *id, struct by_agent_user *user,
                                   struct by_agent_job **out) {
  struct by_agent_job *job = by_agent_jobs_find(agent, id);
  if (job && job->user != user)
    return by_fail(BANYAN_ERR_PROTOCOL, "job %s is of user %u, not of %u", job->id, job->user->uid, user->uid);
  if (!job) BY_TRY(create_job(agent, id, user, &job));
  job->ranks++;
  *out = job;
  return BANYAN_OK;
}

/* Removes a rank from a job, which ends with its last rank here. */
static void leave_job(struct by_agent *agent, struct by_agent_job *job) {
  if (--job->ranks == 0) drop_job(agent, job);
}

/* A job of unknown length never moves up: when ranks leave, what they sent no longer counts. */
void by_agent_job_update_position(const struct by_agent *agent, struct by_agent_job *job, uint64_t now) {
  const struct by_agent_usage usage = by_agent_usage_merge(agent, job);
  uint32_t before = job->place.queue;
  double seconds = by_clock_to_seconds(now);
  by_job_length_limit(&job->length, usage.ends ? by_clock_to_seconds(usage.ends) - seconds : 0, seconds);
  by_job_length_update(&job->length, usage.expected, usage.iterations);
  double max_iterations = by_job_length_max_iterations(&job->length, usage.iteration_time, seconds);
  job->place = by_priority_find(&agent->options.rules, 1, usage.iterations, usage.sent, &job->length, max_iterations);
  if (!job->length.expected && isinf(max_iterations) && job->place.queue < before) job->place.queue = before;
}

/* ---- measurements of a rank's connections */

static void free_paths(struct by_agent_rank *rank) {
  for (uint32_t i = 0; rank->paths && i < rank->paths->n; i++) free((char *)rank->paths->all[i].to);
  free(rank->paths);
  rank->paths = NULL;
}

static bool have_changed(const struct by_agent_paths *before, const struct by_cluster_job *given) {
  for (uint32_t i = 0; before && i < given->n_paths; i++)
    for (uint32_t k = 0; k < before->n; k++) {
      const struct by_cluster_path *then = &before->all[k], *now = &given->paths[i];
      if (!strcmp(then->to, now->to) && by_cluster_path_differs(then, now)) return true;
    }
  return false;
}

/* Stores the paths. Returns true if the report is early, or a path is much slower or faster than before. */
static bool store_paths(struct by_agent_rank *rank, const struct by_cluster_job *given, double interval, uint64_t now) {
  bool soon = rank->paths && now < rank->paths_at + by_clock_from_seconds(early_part * interval);
  bool news = soon || have_changed(rank->paths, given);
  free_paths(rank);
  rank->paths_at = now;
  rank->paths = given->n_paths ? calloc(1, sizeof *rank->paths) : NULL;
  for (uint32_t i = 0; rank->paths && i < given->n_paths; i++) {
    struct by_cluster_path path = given->paths[i];
    path.to = copy_text(path.to);
    if (path.to) rank->paths->all[rank->paths->n++] = path;
  }
  return news;
}

/* ---- connections */

enum banyan_status by_agent_rank_came(struct by_agent *agent, void *connection, unsigned uid, uint64_t now,
                                      struct by_agent_rank **out) {
  struct by_agent_user *user = NULL;
  double seconds = by_clock_to_seconds(now);
  *out = NULL;
  if (agent->ranks.n == BY_AGENT_RANKS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%d processes are connected already", BY_AGENT_RANKS);
  BY_TRY(connect_user(agent, uid, seconds, &user));
  struct by_agent_rank *rank = calloc(1, sizeof *rank);
  if (!rank) {
    user->n_ranks--;
    return no_memory();
  }
  *rank =
      (struct by_agent_rank){.connection = connection, .user = user, .budget = by_budget_full(&rank_limits, seconds)};
  LIST_INSERT_HEAD(&agent->ranks.all, rank, entry);
  agent->ranks.n++;
  *out = rank;
  return BANYAN_OK;
}

static void drop_rank(struct by_agent *agent, struct by_agent_rank *rank) {
  LIST_REMOVE(rank, entry);
  agent->ranks.n--;
  rank->user->n_ranks--;
  free(rank->meets);
  free(rank->handle);
  free(rank->meet);
  free_paths(rank);
  free(rank);
}

void by_agent_rank_gone(struct by_agent *agent, struct by_agent_rank *rank, uint64_t now) {
  enum { BYTES = 128 };
  if (rank->job) {
    struct by_cluster_message message = {.type = BY_MESSAGE_LEFT, .job = rank->job->id, .rank = rank->rank};
    /* If it is not sent now, the next report without that rank tells the manager. */
    if (by_agent_ranks_may_forward(agent, rank->user, BYTES, now)) by_agent_session_send(agent, &message, now);
    note_news(agent, rank->user, now);
    leave_job(agent, rank->job);
  }
  end_meeting(agent, rank, now);
  drop_rank(agent, rank);
}

void by_agent_ranks_init(struct by_agent *agent, uint64_t now) {
  agent->ranks.forwards = by_budget_full(&by_budget_of_agent, by_clock_to_seconds(now));
  TAILQ_INIT(&agent->ranks.jobs);
}

void by_agent_ranks_fini(struct by_agent *agent) {
  struct by_agent_ranks *ranks = &agent->ranks;
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&agent->ranks.all)) drop_rank(agent, LIST_FIRST(&agent->ranks.all));
  while (!TAILQ_EMPTY(&ranks->jobs)) drop_job(agent, TAILQ_FIRST(&ranks->jobs));
  for (struct by_agent_user *user; (user = LIST_FIRST(&ranks->users)); free(user)) LIST_REMOVE(user, entry);
  by_repeats_flush(&ranks->rejections, "agent", INFINITY);
  by_log_flush();
}

/* Ends an older connection of the same rank, whose end may not have been noticed. */
static void end_old_connection(struct by_agent *agent, struct by_agent_rank *rank, uint64_t now) {
  for (struct by_agent_rank *old = LIST_FIRST(&agent->ranks.all); old; old = LIST_NEXT(old, entry)) {
    if (old == rank || old->job != rank->job || old->rank != rank->rank) continue;
    send_refusal(agent, old, "the rank has connected once more", now);
    agent->options.calls->end_rank(agent->options.context, old->connection);
    leave_job(agent, old->job);
    drop_rank(agent, old);
    return;
  }
}

/* ---- messages */

static enum banyan_status join_by_hello(struct by_agent *agent, struct by_agent_rank *rank,
                                        const struct by_cluster_message *message) {
  if (rank->job) return by_fail(BANYAN_ERR_PROTOCOL, "sends hello twice");
  if (rank->number) return by_fail(BANYAN_ERR_PROTOCOL, "sends hello, and has asked for something without a job");
  if (message->version != BY_CLUSTER_VERSION)
    return by_fail(BANYAN_ERR_PROTOCOL, "uses version %u, this agent %d; use the same Banyan on this host",
                   message->version, BY_CLUSTER_VERSION);
  if (!message->job) return by_fail(BANYAN_ERR_PROTOCOL, "names no job; agents send hello to the manager");
  BY_TRY(join_job(agent, message->job, rank->user, &rank->job));
  rank->rank = message->rank;
  return BANYAN_OK;
}

static enum banyan_status handle_hello(struct by_agent *agent, struct by_agent_rank *rank,
                                       const struct by_cluster_message *message, uint64_t now) {
  struct by_cluster_message welcome = {.type = BY_MESSAGE_WELCOME,
                                       .version = BY_CLUSTER_VERSION,
                                       .host = agent->options.host,
                                       .interval = agent->session.interval,
                                       .rate = agent->session.rate};
  BY_TRY(join_by_hello(agent, rank, message));
  end_old_connection(agent, rank, now);
  send_message(agent, rank, &welcome);
  send_class(agent, rank);
  note_news(agent, rank->user, now);
  return BANYAN_OK;
}

/* Handles messages that only rank 0 may send, about its own job. It sends the job when it connects, and then the plan
 * that it runs, so earlier lines are dropped. */
static enum banyan_status handle_of_job(struct by_agent *agent, const struct by_agent_rank *rank,
                                        const struct by_cluster_message *message, uint64_t now) {
  static const enum by_agent_line lines[BY_MESSAGE_KINDS] = {
      [BY_MESSAGE_JOB] = BY_AGENT_JOB,           [BY_MESSAGE_RESERVE] = BY_AGENT_RESERVE,
      [BY_MESSAGE_SWITCHED] = BY_AGENT_SWITCHED, [BY_MESSAGE_KEPT] = BY_AGENT_KEEPS,
      [BY_MESSAGE_RELEASED] = BY_AGENT_RELEASED,
  };
  struct by_cluster_message nobody = {.type = BY_MESSAGE_CELLS, .job = message->job};
  if (rank->rank != 0 || strcmp(rank->job->id, message->job) != 0)
    return by_fail(BANYAN_ERR_PROTOCOL, "rank %u of job %s sends \"%s\", which is for rank 0 of its own job",
                   rank->rank, rank->job->id, by_cluster_type_name(message->type));
  if (message->type == BY_MESSAGE_JOB) {
    free(rank->job->name);
    rank->job->name = copy_text(message->name);
    drop_lines(agent, rank->job);
  }
  BY_TRY(store_message(agent, rank->job, lines[message->type], message, now));
  /* Without a manager the memory of switches is not shared, so rank 0 need not wait. */
  if (message->type == BY_MESSAGE_RESERVE && agent->session.state != BY_SESSION_WELCOME)
    send_message(agent, rank, &nobody);
  return BANYAN_OK;
}

/* Measures over at least a quarter of an interval, as reports of changes may come in quick succession. */
static void measure_rate(struct by_agent_rank *rank, double interval, uint64_t now) {
  double seconds = by_clock_to_seconds(now - rank->rated_at);
  if (rank->rated_at && seconds < interval / 4) return;
  rank->rate = rank->rated_at && rank->usage.sent >= rank->rated_sent
                   ? 8 * (double)(rank->usage.sent - rank->rated_sent) / seconds
                   : 0;
  rank->rated_at = now;
  rank->rated_sent = rank->usage.sent;
}

static enum banyan_status handle_report(struct by_agent *agent, struct by_agent_rank *rank,
                                        const struct by_cluster_message *message, uint64_t now) {
  const struct by_cluster_job *job = message->jobs;
  double interval = agent->session.interval;
  if (message->n_jobs != 1 || strcmp(job->job, rank->job->id) != 0 || job->n_ranks != 1 || job->ranks[0] != rank->rank)
    return by_fail(BANYAN_ERR_PROTOCOL, "rank %u of job %s reports more or less than itself", rank->rank,
                   rank->job->id);
  bool first = rank->usage.calls == 0 && job->calls > 0;
  rank->usage = (struct by_agent_usage){
      .iterations = job->iterations,
      .expected = rank->rank == 0 ? job->expected : 0,
      .ends = rank->rank == 0 && job->ends_in > 0 ? now + by_clock_from_seconds(fmin(job->ends_in, MAX_SECONDS)) : 0,
      .calls = job->calls,
      .sent = job->sent,
      .input = job->input,
      .iteration_time = job->iteration_time};
  for (uint32_t i = 0; i < job->n_sizes; i++) rank->usage.sizes[job->sizes[i].log2] = job->sizes[i].calls;
  measure_rate(rank, interval, now);
  bool news = store_paths(rank, job, interval, now);
  if (first || news) note_news(agent, rank->user, now);
  return BANYAN_OK;
}

static enum banyan_status handle_message(struct by_agent *agent, struct by_agent_rank *rank,
                                         const struct by_cluster_message *message, uint64_t now) {
  if (message->type == BY_MESSAGE_MEET && !rank->job) return handle_meeting(agent, rank, message, now);
  if (message->type == BY_MESSAGE_WANTED && !rank->job) {
    forward_want(agent, rank, message, now);
    return BANYAN_OK;
  }
  if (message->type == BY_MESSAGE_HELLO) return handle_hello(agent, rank, message, now);
  if (!rank->job)
    return by_fail(BANYAN_ERR_PROTOCOL, "received \"%s\" before \"hello\"", by_cluster_type_name(message->type));
  switch (message->type) {
  case BY_MESSAGE_REPORT: return handle_report(agent, rank, message, now);
  case BY_MESSAGE_JOB:
  case BY_MESSAGE_RESERVE:
  case BY_MESSAGE_SWITCHED:
  case BY_MESSAGE_KEPT:
  case BY_MESSAGE_RELEASED: return handle_of_job(agent, rank, message, now);
  default:
    return by_fail(BANYAN_ERR_PROTOCOL, "rank %u of job %s sends \"%s\", which is not for a rank to send", rank->rank,
                   rank->job->id, by_cluster_type_name(message->type));
  }
}

/* Signs a statement for any process: it is useless without the key of that fingerprint, and the kernel identifies the
 * user. */
static enum banyan_status send_statement(const struct by_agent *agent, const struct by_agent_rank *rank,
                                         const struct by_cluster_message *message) {
  const struct by_agent_options *options = &agent->options;
  struct by_statement statement = {.user = rank->user->uid};
  uint8_t bytes[BY_STATEMENT_MAX];
  char text[BY_STATEMENT_TEXT];
  size_t length;
  if (!by_fingerprint_parse(message->process, &statement.process))
    return by_fail(BANYAN_ERR_PROTOCOL, "a process asks for a statement about \"%s\", which is no fingerprint",
                   message->process);
  if (!options->calls->certify || strlen(options->host) >= sizeof statement.host)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this host's agent has no certificate");
  strcpy(statement.job, message->job);
  strcpy(statement.host, options->host);
  BY_TRY(options->calls->certify(options->context, &statement, bytes, &length));
  by_print_hex(bytes, length, text);
  send_message(agent, rank, &(struct by_cluster_message){.type = BY_MESSAGE_CERTIFIED, .statement = text});
  return BANYAN_OK;
}

static enum banyan_status read_line(struct by_agent_rank *rank, const char *line, size_t length,
                                    struct by_cluster_message *message, uint64_t now) {
  if (!by_budget_take(&rank->budget, length, by_clock_to_seconds(now)))
    return by_fail(BANYAN_ERR_PROTOCOL, "sends more than %.0f lines or %.0f bytes a second", rank_limits.lines_a_second,
                   rank_limits.bytes_a_second);
  BY_TRY(count_received(rank->user, length, now));
  return by_cluster_message_read(line, length, message);
}

/* Requests for the status or a statement, and leaving, end the connection. */
bool by_agent_handle_rank(struct by_agent *agent, struct by_agent_rank *rank, const char *line, size_t length,
                          uint64_t now) {
  struct by_cluster_message message = {0};
  enum banyan_status status = read_line(rank, line, length, &message, now);
  bool asks = status == BANYAN_OK && message.type == BY_MESSAGE_STATUS && !rank->job;
  bool certifies = status == BANYAN_OK && message.type == BY_MESSAGE_CERTIFY && !rank->job;
  bool leaves = status == BANYAN_OK && message.type == BY_MESSAGE_LEFT && rank->job &&
                !strcmp(rank->job->id, message.job) && rank->rank == message.rank;
  bool ends = asks || certifies || leaves;
  if (asks) {
    struct by_text text;
    by_text_init(&text);
    by_agent_print(agent, rank->user->uid, now, &text);
    send_text(agent, rank, &text);
  }
  if (certifies) status = send_statement(agent, rank, &message);
  if (status == BANYAN_OK && !ends) status = handle_message(agent, rank, &message, now);
  if (status != BANYAN_OK) send_refusal(agent, rank, banyan_error_text(), now);
  by_cluster_message_fini(&message);
  if (status == BANYAN_OK && !ends) return true;
  by_agent_rank_gone(agent, rank, now);
  return false;
}
