/* What the ranks of this host say. */
#include <stdlib.h>
#include <string.h>

#include "agent_parts.h"
#include "log.h"

static const struct by_budget_rules of_rank = {1000, 200, 4 << 20, 1 << 18}; /* it reports 100 times a second at most */

/* ---- what they are told */

void by_agent_tell_rank(const struct by_agent *agent, const struct by_agent_rank *rank,
                        const struct by_cluster_message *message) {
  struct by_text text;
  by_text_init(&text);
  by_cluster_message_print(message, &text);
  if (!text.failed)
    agent->options.calls->say_rank(agent->options.context, rank->connection, by_text_get(&text), text.length);
  by_text_fini(&text);
}

static void refuse(struct by_agent *agent, struct by_agent_rank *rank, const char *why, uint64_t now) {
  struct by_cluster_message message = {.say = BY_SAY_REFUSED, .why = why};
  agent->refused++;
  by_agent_log_user(agent, rank->user->uid, why, now);
  by_agent_tell_rank(agent, rank, &message);
}

static void tell_class(const struct by_agent *agent, const struct by_agent_rank *rank) {
  const struct by_cluster_job class_ = {.job = rank->job->id, .class_ = rank->job->class_};
  struct by_cluster_message message = {.say = BY_SAY_CLASSES, .n_jobs = 1, .jobs = &class_};
  by_agent_tell_rank(agent, rank, &message);
}

void by_agent_set_class(struct by_agent *agent, struct by_agent_job *job, uint32_t class_) {
  job->class_ = class_;
  for (const struct by_agent_rank *rank = agent->ranks; rank; rank = rank->next)
    if (rank->job == job) tell_class(agent, rank);
}

/* ---- jobs, which are here as long as one of their ranks is */

void by_agent_drop_job(struct by_agent *agent, struct by_agent_job *job) {
  struct by_agent_job **at = &agent->jobs;
  while (*at != job) at = &(*at)->next;
  *at = job->next;
  agent->n_jobs--;
  job->user->n_jobs--;
  by_agent_drop_lines(agent, job);
  free(job->name);
  free(job);
}

static enum banyan_status make_job(struct by_agent *agent, const char *id, struct by_agent_user *user,
                                   struct by_agent_job **out) {
  if (agent->n_jobs == BY_AGENT_JOBS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this host has %d jobs already, the agent takes no more", BY_AGENT_JOBS);
  BY_TRY(by_agent_user_may_have_job(user));
  struct by_agent_job *job = calloc(1, sizeof *job);
  *out = job;
  if (!job) return by_fail(BANYAN_ERR_NO_MEMORY, "the agent is out of memory");
  strcpy(job->id, id);
  job->user = user;
  user->n_jobs++;
  struct by_agent_job **at = &agent->jobs;
  while (*at) at = &(*at)->next;
  *at = job;
  agent->n_jobs++;
  return BANYAN_OK;
}

void by_agent_merge(const struct by_agent *agent, const struct by_agent_job *job, struct by_agent_deeds *out) {
  *out = (struct by_agent_deeds){0};
  for (const struct by_agent_rank *rank = agent->ranks; rank; rank = rank->next) {
    const struct by_agent_deeds *deeds = &rank->deeds;
    if (rank->job != job) continue;
    out->sent = deeds->sent < INT64_MAX - out->sent ? out->sent + deeds->sent : INT64_MAX; /* most that can be said */
    if (deeds->iterations > out->iterations) out->iterations = deeds->iterations;
    if (deeds->expected) out->expected = deeds->expected;
    if (deeds->calls > out->calls) out->calls = deeds->calls;
    if (deeds->input > out->input) out->input = deeds->input;
    if (deeds->iteration_time > out->iteration_time) out->iteration_time = deeds->iteration_time;
    for (int i = 0; i < BY_CLUSTER_SIZES; i++)
      if (deeds->sizes[i] > out->sizes[i]) out->sizes[i] = deeds->sizes[i];
  }
}

/* ---- ranks */

enum banyan_status by_agent_rank_came(struct by_agent *agent, void *connection, unsigned uid, uint64_t now,
                                      struct by_agent_rank **out) {
  struct by_agent_user *user;
  *out = NULL;
  if (agent->n_ranks == BY_AGENT_RANKS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%d processes are connected already", BY_AGENT_RANKS);
  BY_TRY(by_agent_user_came(agent, uid, now, &user));
  struct by_agent_rank *rank = calloc(1, sizeof *rank);
  if (!rank) {
    user->n_ranks--;
    return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  }
  rank->connection = connection;
  rank->user = user;
  rank->budget = by_budget_full(&of_rank, by_clock_to_seconds(now));
  rank->next = agent->ranks;
  agent->ranks = rank;
  agent->n_ranks++;
  *out = rank;
  return BANYAN_OK;
}

void by_agent_drop_rank(struct by_agent *agent, struct by_agent_rank *rank) {
  struct by_agent_rank **at = &agent->ranks;
  while (*at != rank) at = &(*at)->next;
  *at = rank->next;
  agent->n_ranks--;
  rank->user->n_ranks--;
  by_agent_free_paths(rank);
  free(rank);
}

static void leave_job(struct by_agent *agent, struct by_agent_rank *rank, uint64_t now) {
  struct by_agent_job *job = rank->job;
  by_agent_say_left(agent, rank, now);
  by_agent_note_news(agent, rank->user, now);
  if (--job->ranks == 0) by_agent_drop_job(agent, job);
}

void by_agent_rank_gone(struct by_agent *agent, struct by_agent_rank *rank, uint64_t now) {
  if (rank->job) leave_job(agent, rank, now);
  by_agent_drop_rank(agent, rank);
}

/* One that connects again is the same rank: its old connection may not have been seen to close. */
static void replace(struct by_agent *agent, struct by_agent_rank *rank, uint64_t now) {
  for (struct by_agent_rank *old = agent->ranks; old; old = old->next) {
    if (old == rank || old->job != rank->job || old->rank != rank->rank) continue;
    refuse(agent, old, "the rank has connected once more", now);
    agent->options.calls->end_rank(agent->options.context, old->connection);
    old->job->ranks--;
    by_agent_drop_rank(agent, old);
    return;
  }
}

/* ---- what they say */

static enum banyan_status hear_hello(struct by_agent *agent, struct by_agent_rank *rank,
                                     const struct by_cluster_message *message) {
  if (rank->job) return by_fail(BANYAN_ERR_PROTOCOL, "says hello twice");
  if (message->version != BY_CLUSTER_VERSION)
    return by_fail(BANYAN_ERR_PROTOCOL, "speaks version %u, this agent %d; use the same Banyan on this host",
                   message->version, BY_CLUSTER_VERSION);
  if (!message->job) return by_fail(BANYAN_ERR_PROTOCOL, "names no job; agents say hello to the manager");
  struct by_agent_job *job = by_agent_find_job(agent, message->job);
  if (job && job->user != rank->user)
    return by_fail(BANYAN_ERR_PROTOCOL, "job %s is of user %u, not of %u", job->id, job->user->uid, rank->user->uid);
  if (!job) BY_TRY(make_job(agent, message->job, rank->user, &job));
  job->ranks++;
  rank->job = job;
  rank->rank = message->rank;
  return BANYAN_OK;
}

static void greet(struct by_agent *agent, struct by_agent_rank *rank, uint64_t now) {
  struct by_cluster_message welcome = {.say = BY_SAY_WELCOME,
                                       .version = BY_CLUSTER_VERSION,
                                       .host = agent->options.host,
                                       .interval = agent->interval,
                                       .rate = agent->manager_rate};
  replace(agent, rank, now);
  by_agent_tell_rank(agent, rank, &welcome);
  tell_class(agent, rank);
  by_agent_note_news(agent, rank->user, now);
}

static enum banyan_status is_of(const struct by_agent_rank *rank, const struct by_cluster_message *message) {
  if (strcmp(rank->job->id, message->job) == 0 && rank->rank == 0) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL, "rank %u of job %s says \"%s\", which is for rank 0 of its own job", rank->rank,
                 rank->job->id, by_cluster_say_name(message->say));
}

/* Rank 0 says it whenever it has connected, and then what the job runs: an earlier one's word counts no more. */
static enum banyan_status hear_job(struct by_agent *agent, const struct by_agent_rank *rank,
                                   const struct by_cluster_message *message, uint64_t now) {
  struct by_agent_job *job = rank->job;
  BY_TRY(is_of(rank, message));
  free(job->name);
  job->name = by_agent_copy_text(message->name);
  by_agent_drop_lines(agent, job);
  BY_TRY(by_agent_keep_line(agent, job, BY_AGENT_JOB, message));
  by_agent_say_kept(agent, job, now);
  return BANYAN_OK;
}

static enum banyan_status hear_moved(struct by_agent *agent, const struct by_agent_rank *rank,
                                     const struct by_cluster_message *message, uint64_t now) {
  BY_TRY(is_of(rank, message));
  by_agent_drop_line(agent, rank->job, BY_AGENT_KEEPS);
  BY_TRY(by_agent_keep_line(agent, rank->job, BY_AGENT_MOVED, message));
  by_agent_say_kept(agent, rank->job, now);
  return BANYAN_OK;
}

static enum banyan_status hear_kept(struct by_agent *agent, const struct by_agent_rank *rank,
                                    const struct by_cluster_message *message, uint64_t now) {
  BY_TRY(is_of(rank, message));
  BY_TRY(by_agent_keep_line(agent, rank->job, BY_AGENT_KEEPS, message));
  by_agent_say_kept(agent, rank->job, now);
  return BANYAN_OK;
}

/* Where there is no manager, nobody shares switches' memory out, and rank 0 need not wait. */
static enum banyan_status hear_wish(struct by_agent *agent, const struct by_agent_rank *rank,
                                    const struct by_cluster_message *message, uint64_t now) {
  struct by_cluster_message nobody = {.say = BY_SAY_CELLS, .job = message->job};
  BY_TRY(is_of(rank, message));
  BY_TRY(by_agent_keep_line(agent, rank->job, BY_AGENT_WISH, message));
  by_agent_say_kept(agent, rank->job, now);
  if (!agent->welcome) by_agent_tell_rank(agent, rank, &nobody);
  return BANYAN_OK;
}

/* Over a time in which more than a few packets go; a report on a change may come just behind another. */
static void measure_rate(const struct by_agent *agent, struct by_agent_rank *rank, uint64_t now) {
  double seconds = by_clock_to_seconds(now - rank->rated_at);
  if (rank->rated_at && seconds < agent->interval / 4) return;
  rank->rate = rank->rated_at && rank->deeds.sent >= rank->rated_sent
                   ? 8 * (double)(rank->deeds.sent - rank->rated_sent) / seconds
                   : 0;
  rank->rated_at = now;
  rank->rated_sent = rank->deeds.sent;
}

static enum banyan_status hear_report(struct by_agent *agent, struct by_agent_rank *rank,
                                      const struct by_cluster_message *message, uint64_t now) {
  const struct by_cluster_job *job = message->jobs;
  if (message->n_jobs != 1 || strcmp(job->job, rank->job->id) != 0 || job->n_ranks != 1 || job->ranks[0] != rank->rank)
    return by_fail(BANYAN_ERR_PROTOCOL, "rank %u of job %s reports more or less than itself", rank->rank,
                   rank->job->id);
  bool first = rank->deeds.calls == 0 && job->calls > 0;
  rank->deeds = (struct by_agent_deeds){.iterations = job->iterations,
                                        .expected = rank->rank == 0 ? job->expected : 0,
                                        .calls = job->calls,
                                        .sent = job->sent,
                                        .input = job->input,
                                        .iteration_time = job->iteration_time};
  for (uint32_t i = 0; i < job->n_sizes; i++) rank->deeds.sizes[job->sizes[i].log2] = job->sizes[i].calls;
  measure_rate(agent, rank, now);
  bool news = by_agent_take_paths(agent, rank, job, now);
  if (first || news) by_agent_note_news(agent, rank->user, now);
  return BANYAN_OK;
}

/* To who is no rank, before anything else. */
static void say_status(const struct by_agent *agent, const struct by_agent_rank *rank, uint64_t now) {
  struct by_text text;
  by_text_init(&text);
  by_agent_print(agent, rank->user->uid, now, &text);
  if (!text.failed)
    agent->options.calls->say_rank(agent->options.context, rank->connection, by_text_get(&text), text.length);
  by_text_fini(&text);
}

static enum banyan_status hear(struct by_agent *agent, struct by_agent_rank *rank,
                               const struct by_cluster_message *message, uint64_t now) {
  if (message->say == BY_SAY_HELLO) {
    BY_TRY(hear_hello(agent, rank, message));
    greet(agent, rank, now);
    return BANYAN_OK;
  }
  if (!rank->job) return by_fail(BANYAN_ERR_PROTOCOL, "says \"%s\" before hello", by_cluster_say_name(message->say));
  switch (message->say) {
  case BY_SAY_JOB: return hear_job(agent, rank, message, now);
  case BY_SAY_REPORT: return hear_report(agent, rank, message, now);
  case BY_SAY_WISH: return hear_wish(agent, rank, message, now);
  case BY_SAY_MOVED: return hear_moved(agent, rank, message, now);
  case BY_SAY_KEPT: return hear_kept(agent, rank, message, now);
  default:
    return by_fail(BANYAN_ERR_PROTOCOL, "rank %u of job %s says \"%s\", which is not for a rank to say", rank->rank,
                   rank->job->id, by_cluster_say_name(message->say));
  }
}

static bool says_goodbye(const struct by_agent_rank *rank, const struct by_cluster_message *message) {
  return message->say == BY_SAY_LEFT && rank->job && !strcmp(rank->job->id, message->job) &&
         rank->rank == message->rank;
}

static enum banyan_status read_line(struct by_agent_rank *rank, const char *line, size_t length,
                                    struct by_cluster_message *message, uint64_t now) {
  if (!by_budget_take(&rank->budget, length, by_clock_to_seconds(now)))
    return by_fail(BANYAN_ERR_PROTOCOL, "says more than %.0f lines or %.0f bytes a second", of_rank.lines_a_second,
                   of_rank.bytes_a_second);
  BY_TRY(by_agent_user_may_speak(rank->user, length, now));
  return by_cluster_message_read(line, length, message);
}

/* Who asks has been answered, and who leaves has gone: either ends the connection. */
bool by_agent_rank_hear(struct by_agent *agent, struct by_agent_rank *rank, const char *line, size_t length,
                        uint64_t now) {
  struct by_cluster_message message = {0};
  enum banyan_status status = read_line(rank, line, length, &message, now);
  bool asks = status == BANYAN_OK && message.say == BY_SAY_STATUS && !rank->job;
  bool ends = asks || (status == BANYAN_OK && says_goodbye(rank, &message));
  if (asks) say_status(agent, rank, now);
  if (status == BANYAN_OK && !ends) status = hear(agent, rank, &message, now);
  if (status != BANYAN_OK) refuse(agent, rank, banyan_error_text(), now);
  by_cluster_message_fini(&message);
  if (status == BANYAN_OK && !ends) return true;
  by_agent_rank_gone(agent, rank, now);
  return false;
}
