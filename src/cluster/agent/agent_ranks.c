#include "agent_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "cluster_message.h"
#include "log.h"

static const double early = 0.8; /* of an interval after the last one: a rank that reports then has news */

static const struct by_budget_rules of_rank = {1000, 200, 4 << 20, 1 << 18}; /* it reports 100 times a second at most */

static char *copy_text(const char *text) {
  char *copy = strdup(text);
  if (!copy) by_error("agent", "out of memory; what was said is lost");
  return copy;
}

/* ---- sending */

static void send_text(const struct by_agent_ranks *ranks, const struct by_agent_rank *rank, struct by_text *text) {
  const struct by_agent_options *options = ranks->options;
  if (!text->failed) options->calls->send_to_rank(options->context, rank->connection, by_text_get(text), text->length);
  by_text_fini(text);
}

static void send_message(const struct by_agent_ranks *ranks, const struct by_agent_rank *rank,
                         const struct by_cluster_message *message) {
  struct by_text text;
  by_text_init(&text);
  by_cluster_message_print(message, &text);
  send_text(ranks, rank, &text);
}

void by_agent_ranks_send(const struct by_agent_ranks *ranks, const struct by_cluster_message *message) {
  for (const struct by_agent_rank *rank = LIST_FIRST(&ranks->all); rank; rank = LIST_NEXT(rank, entry))
    if (rank->job) send_message(ranks, rank, message);
}

bool by_agent_ranks_send_root(const struct by_agent_ranks *ranks, const struct by_cluster_message *message) {
  for (const struct by_agent_rank *rank = LIST_FIRST(&ranks->all); rank; rank = LIST_NEXT(rank, entry)) {
    if (!rank->job || rank->rank != 0 || strcmp(rank->job->id, message->job) != 0) continue;
    send_message(ranks, rank, message);
    return true;
  }
  return false;
}

static void send_refusal(struct by_agent_ranks *ranks, struct by_agent_rank *rank, const char *why, uint64_t now) {
  struct by_cluster_message message = {.type = BY_MESSAGE_REFUSED, .why = why};
  ranks->n_refused++;
  by_agent_users_log(ranks->jobs->users, rank->user->uid, why, now);
  send_message(ranks, rank, &message);
}

static void send_class(const struct by_agent_ranks *ranks, const struct by_agent_rank *rank) {
  const struct by_cluster_job class_ = {.job = rank->job->id, .class_ = rank->job->class_};
  struct by_cluster_message message = {.type = BY_MESSAGE_CLASSES, .n_jobs = 1, .jobs = &class_};
  send_message(ranks, rank, &message);
}

void by_agent_ranks_send_class(const struct by_agent_ranks *ranks, const struct by_agent_job *job) {
  for (const struct by_agent_rank *rank = LIST_FIRST(&ranks->all); rank; rank = LIST_NEXT(rank, entry))
    if (rank->job == job) send_class(ranks, rank);
}

/* ---- what a rank's connections showed of the network */

static void free_paths(struct by_agent_rank *rank) {
  for (uint32_t i = 0; rank->paths && i < rank->paths->n; i++) free((char *)rank->paths->all[i].to);
  free(rank->paths);
  rank->paths = NULL;
}

static const struct by_cluster_path *find_path(const struct by_agent_paths *paths, const char *to) {
  for (uint32_t i = 0; paths && i < paths->n; i++)
    if (!strcmp(paths->all[i].to, to)) return &paths->all[i];
  return NULL;
}

static bool have_changed(const struct by_agent_paths *before, const struct by_cluster_job *given) {
  for (uint32_t i = 0; i < given->n_paths; i++) {
    const struct by_cluster_path *then = find_path(before, given->paths[i].to);
    if (then && by_cluster_path_differs(then, &given->paths[i])) return true;
  }
  return false;
}

/* True: it says so before its time, or a path is much slower or faster than it was. */
static bool take_paths(struct by_agent_rank *rank, const struct by_cluster_job *given, double interval, uint64_t now) {
  bool soon = rank->paths && now < rank->paths_at + by_clock_from_seconds(early * interval);
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

/* ---- coming and going */

enum banyan_status by_agent_ranks_connect(struct by_agent_ranks *ranks, void *connection, unsigned uid, uint64_t now,
                                          struct by_agent_rank **out) {
  struct by_agent_user *user;
  *out = NULL;
  if (ranks->n == BY_AGENT_RANKS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%d processes are connected already", BY_AGENT_RANKS);
  BY_TRY(by_agent_users_connect(ranks->jobs->users, uid, now, &user));
  struct by_agent_rank *rank = calloc(1, sizeof *rank);
  if (!rank) {
    by_agent_users_disconnect(user);
    return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  }
  *rank = (struct by_agent_rank){
      .connection = connection, .user = user, .budget = by_budget_full(&of_rank, by_clock_to_seconds(now))};
  LIST_INSERT_HEAD(&ranks->all, rank, entry);
  ranks->n++;
  *out = rank;
  return BANYAN_OK;
}

static void drop(struct by_agent_ranks *ranks, struct by_agent_rank *rank) {
  LIST_REMOVE(rank, entry);
  ranks->n--;
  by_agent_users_disconnect(rank->user);
  free_paths(rank);
  free(rank);
}

/* What is not sent now is known from the next report, which does not name that rank. */
static void send_left(struct by_agent_ranks *ranks, const struct by_agent_rank *rank, uint64_t now) {
  enum { BYTES = 128 };
  struct by_cluster_message message = {.type = BY_MESSAGE_LEFT, .job = rank->job->id, .rank = rank->rank};
  if (by_agent_users_may_forward(ranks->jobs->users, rank->user, BYTES, now))
    by_agent_session_send(ranks->jobs->session, &message, now);
}

void by_agent_ranks_disconnect(struct by_agent_ranks *ranks, struct by_agent_rank *rank, uint64_t now) {
  if (rank->job) {
    send_left(ranks, rank, now);
    by_agent_jobs_note_news(ranks->jobs, rank->user, now);
    by_agent_jobs_leave(ranks->jobs, rank->job);
  }
  drop(ranks, rank);
}

void by_agent_ranks_fini(struct by_agent_ranks *ranks) {
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&ranks->all)) drop(ranks, LIST_FIRST(&ranks->all));
}

/* One that connects again is the same rank: its old connection may not have been seen to close. */
static void replace(struct by_agent_ranks *ranks, struct by_agent_rank *rank, uint64_t now) {
  for (struct by_agent_rank *old = LIST_FIRST(&ranks->all); old; old = LIST_NEXT(old, entry)) {
    if (old == rank || old->job != rank->job || old->rank != rank->rank) continue;
    send_refusal(ranks, old, "the rank has connected once more", now);
    ranks->options->calls->end_rank(ranks->options->context, old->connection);
    by_agent_jobs_leave(ranks->jobs, old->job);
    drop(ranks, old);
    return;
  }
}

/* ---- messages */

static enum banyan_status join(struct by_agent_ranks *ranks, struct by_agent_rank *rank,
                               const struct by_cluster_message *message) {
  if (rank->job) return by_fail(BANYAN_ERR_PROTOCOL, "says hello twice");
  if (message->version != BY_CLUSTER_VERSION)
    return by_fail(BANYAN_ERR_PROTOCOL, "speaks version %u, this agent %d; use the same Banyan on this host",
                   message->version, BY_CLUSTER_VERSION);
  if (!message->job) return by_fail(BANYAN_ERR_PROTOCOL, "names no job; agents say hello to the manager");
  BY_TRY(by_agent_jobs_join(ranks->jobs, message->job, rank->user, &rank->job));
  rank->rank = message->rank;
  return BANYAN_OK;
}

static enum banyan_status handle_hello(struct by_agent_ranks *ranks, struct by_agent_rank *rank,
                                       const struct by_cluster_message *message, uint64_t now) {
  struct by_cluster_message welcome = {.type = BY_MESSAGE_WELCOME,
                                       .version = BY_CLUSTER_VERSION,
                                       .host = ranks->options->host,
                                       .interval = ranks->jobs->session->interval,
                                       .rate = ranks->jobs->session->rate};
  BY_TRY(join(ranks, rank, message));
  replace(ranks, rank, now);
  send_message(ranks, rank, &welcome);
  send_class(ranks, rank);
  by_agent_jobs_note_news(ranks->jobs, rank->user, now);
  return BANYAN_OK;
}

/* What only rank 0 may send, of its own job. A job is sent whenever rank 0 has connected, and then what the job runs:
 * what an earlier one has sent counts no more. */
static enum banyan_status handle_of_job(struct by_agent_ranks *ranks, const struct by_agent_rank *rank,
                                        const struct by_cluster_message *message, uint64_t now) {
  static const enum by_agent_line lines[BY_MESSAGE_KINDS] = {
      [BY_MESSAGE_JOB] = BY_AGENT_JOB,
      [BY_MESSAGE_RESERVE] = BY_AGENT_RESERVE,
      [BY_MESSAGE_SWITCHED] = BY_AGENT_SWITCHED,
      [BY_MESSAGE_KEPT] = BY_AGENT_KEEPS,
  };
  struct by_cluster_message nobody = {.type = BY_MESSAGE_CELLS, .job = message->job};
  if (rank->rank != 0 || strcmp(rank->job->id, message->job) != 0)
    return by_fail(BANYAN_ERR_PROTOCOL, "rank %u of job %s says \"%s\", which is for rank 0 of its own job", rank->rank,
                   rank->job->id, by_cluster_type_name(message->type));
  if (message->type == BY_MESSAGE_JOB) by_agent_jobs_begin(ranks->jobs, rank->job, copy_text(message->name));
  BY_TRY(by_agent_jobs_keep(ranks->jobs, rank->job, lines[message->type], message, now));
  /* Without a manager nobody shares switches' memory out, and rank 0 need not wait. */
  if (message->type == BY_MESSAGE_RESERVE && ranks->jobs->session->state != BY_SESSION_WELCOME)
    send_message(ranks, rank, &nobody);
  return BANYAN_OK;
}

/* Over a time in which more than a few packets go; a report on a change may come just behind another. */
static void measure_rate(struct by_agent_rank *rank, double interval, uint64_t now) {
  double seconds = by_clock_to_seconds(now - rank->rated_at);
  if (rank->rated_at && seconds < interval / 4) return;
  rank->rate = rank->rated_at && rank->usage.sent >= rank->rated_sent
                   ? 8 * (double)(rank->usage.sent - rank->rated_sent) / seconds
                   : 0;
  rank->rated_at = now;
  rank->rated_sent = rank->usage.sent;
}

static enum banyan_status handle_report(struct by_agent_ranks *ranks, struct by_agent_rank *rank,
                                        const struct by_cluster_message *message, uint64_t now) {
  const struct by_cluster_job *job = message->jobs;
  double interval = ranks->jobs->session->interval;
  if (message->n_jobs != 1 || strcmp(job->job, rank->job->id) != 0 || job->n_ranks != 1 || job->ranks[0] != rank->rank)
    return by_fail(BANYAN_ERR_PROTOCOL, "rank %u of job %s reports more or less than itself", rank->rank,
                   rank->job->id);
  bool first = rank->usage.calls == 0 && job->calls > 0;
  rank->usage = (struct by_agent_usage){.iterations = job->iterations,
                                        .expected = rank->rank == 0 ? job->expected : 0,
                                        .calls = job->calls,
                                        .sent = job->sent,
                                        .input = job->input,
                                        .iteration_time = job->iteration_time};
  for (uint32_t i = 0; i < job->n_sizes; i++) rank->usage.sizes[job->sizes[i].log2] = job->sizes[i].calls;
  measure_rate(rank, interval, now);
  bool news = take_paths(rank, job, interval, now);
  if (first || news) by_agent_jobs_note_news(ranks->jobs, rank->user, now);
  return BANYAN_OK;
}

static enum banyan_status handle(struct by_agent_ranks *ranks, struct by_agent_rank *rank,
                                 const struct by_cluster_message *message, uint64_t now) {
  if (message->type == BY_MESSAGE_HELLO) return handle_hello(ranks, rank, message, now);
  if (!rank->job)
    return by_fail(BANYAN_ERR_PROTOCOL, "received \"%s\" before \"hello\"", by_cluster_type_name(message->type));
  switch (message->type) {
  case BY_MESSAGE_REPORT: return handle_report(ranks, rank, message, now);
  case BY_MESSAGE_JOB:
  case BY_MESSAGE_RESERVE:
  case BY_MESSAGE_SWITCHED:
  case BY_MESSAGE_KEPT: return handle_of_job(ranks, rank, message, now);
  default:
    return by_fail(BANYAN_ERR_PROTOCOL, "rank %u of job %s says \"%s\", which is not for a rank to say", rank->rank,
                   rank->job->id, by_cluster_type_name(message->type));
  }
}

static bool is_leaving(const struct by_agent_rank *rank, const struct by_cluster_message *message) {
  return message->type == BY_MESSAGE_LEFT && rank->job && !strcmp(rank->job->id, message->job) &&
         rank->rank == message->rank;
}

static enum banyan_status read_line(struct by_agent_rank *rank, const char *line, size_t length,
                                    struct by_cluster_message *message, uint64_t now) {
  if (!by_budget_take(&rank->budget, length, by_clock_to_seconds(now)))
    return by_fail(BANYAN_ERR_PROTOCOL, "says more than %.0f lines or %.0f bytes a second", of_rank.lines_a_second,
                   of_rank.bytes_a_second);
  BY_TRY(by_agent_users_may_send(rank->user, length, now));
  return by_cluster_message_read(line, length, message);
}

static void send_status(const struct by_agent_ranks *ranks, const struct by_agent_rank *rank, uint64_t now) {
  struct by_text text;
  by_text_init(&text);
  ranks->print_status(ranks->context, rank->user->uid, now, &text);
  send_text(ranks, rank, &text);
}

/* A process that asks has been answered, and one that leaves has gone: either ends the connection. */
bool by_agent_ranks_receive(struct by_agent_ranks *ranks, struct by_agent_rank *rank, const char *line, size_t length,
                            uint64_t now) {
  struct by_cluster_message message = {0};
  enum banyan_status status = read_line(rank, line, length, &message, now);
  bool asks = status == BANYAN_OK && message.type == BY_MESSAGE_STATUS && !rank->job;
  bool ends = asks || (status == BANYAN_OK && is_leaving(rank, &message));
  if (asks) send_status(ranks, rank, now);
  if (status == BANYAN_OK && !ends) status = handle(ranks, rank, &message, now);
  if (status != BANYAN_OK) send_refusal(ranks, rank, banyan_error_text(), now);
  by_cluster_message_fini(&message);
  if (status == BANYAN_OK && !ends) return true;
  by_agent_ranks_disconnect(ranks, rank, now);
  return false;
}
