/* What each user of this host may have of the agent, and have passed on to the manager: nobody uses up what is meant
 * for all. What is too much just now is said later; the manager never hears more than it takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_parts.h"

/* Of the budget of the agent itself. */
static const struct by_budget_rules of_user = {512, 5, 2 << 20, 1 << 16};
/* As much as some ranks may say each, and each of many as a rule. */
static const struct by_budget_rules of_words = {1 << 14, 2000, 64 << 20, 4 << 20};
static const struct by_budget_rules of_news = {60, 0.25, 1, 1};

/* ---- users */

static bool is_root(const struct by_agent_user *user) {
  return user->uid == 0; /* who could have all anyway */
}

static bool has_rested(struct by_agent_user *user, double now) {
  return by_budget_is_full(&user->budget, now) && by_budget_is_full(&user->words, now) &&
         by_budget_is_full(&user->news, now);
}

/* One that has gone keeps what it has used up, until it may have all again. */
static void forget_others(struct by_agent *agent, uint64_t now) {
  for (struct by_agent_user **at = &agent->users; *at;) {
    struct by_agent_user *user = *at;
    if (user->n_ranks || !has_rested(user, by_clock_to_seconds(now))) {
      at = &user->next;
      continue;
    }
    *at = user->next;
    free(user);
  }
}

static struct by_agent_user *find_user(const struct by_agent *agent, unsigned uid) {
  struct by_agent_user *user = agent->users;
  while (user && user->uid != uid) user = user->next;
  return user;
}

static struct by_agent_user *make_user(struct by_agent *agent, unsigned uid, uint64_t now) {
  struct by_agent_user *user = calloc(1, sizeof *user);
  double seconds = by_clock_to_seconds(now);
  if (!user) return NULL;
  *user = (struct by_agent_user){.next = agent->users,
                                 .uid = uid,
                                 .budget = by_budget_full(&of_user, seconds),
                                 .words = by_budget_full(&of_words, seconds),
                                 .news = by_budget_full(&of_news, seconds)};
  agent->users = user;
  return user;
}

enum banyan_status by_agent_user_came(struct by_agent *agent, unsigned uid, uint64_t now, struct by_agent_user **out) {
  struct by_agent_user *user = find_user(agent, uid);
  if (!user) forget_others(agent, now);
  if (!user && !(user = make_user(agent, uid, now))) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  if (user->n_ranks == BY_AGENT_RANKS / 2 && !is_root(user))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%d processes of user %u are connected already", BY_AGENT_RANKS / 2, uid);
  user->n_ranks++;
  *out = user;
  return BANYAN_OK;
}

enum banyan_status by_agent_user_may_have_job(const struct by_agent_user *user) {
  if (user->n_jobs < BY_AGENT_JOBS / 2 || is_root(user)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "user %u has %d jobs here already, the agent takes no more of one user",
                 user->uid, BY_AGENT_JOBS / 2);
}

enum banyan_status by_agent_user_may_speak(struct by_agent_user *user, size_t length, uint64_t now) {
  if (is_root(user) || by_budget_take(&user->words, length, by_clock_to_seconds(now))) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL,
                 "all processes of user %u together say more than %.0f lines or %.0f bytes a second", user->uid,
                 of_words.lines_a_second, of_words.bytes_a_second);
}

void by_agent_note_news(struct by_agent *agent, struct by_agent_user *user, uint64_t now) {
  if (agent->change_at != UINT64_MAX) return; /* a report comes anyway */
  if (is_root(user) || by_budget_take(&user->news, 0, by_clock_to_seconds(now))) by_agent_note_change(agent, now);
}

void by_agent_users_init(struct by_agent *agent, uint64_t now) {
  agent->budget = by_budget_full(&by_budget_of_agent, by_clock_to_seconds(now));
}

void by_agent_users_free(struct by_agent *agent) {
  for (struct by_agent_user *user = agent->users, *next; user; user = next) {
    next = user->next;
    free(user);
  }
}

void by_agent_log_user(struct by_agent *agent, unsigned uid, const char *what, uint64_t now) {
  char who[32];
  snprintf(who, sizeof who, "a process of user %u", uid);
  by_repeats_warn(&agent->rejected, "agent", who, what, by_clock_to_seconds(now));
}

/* ---- lines that are kept, to be said on each new connection */

void by_agent_drop_line(struct by_agent *agent, struct by_agent_job *job, enum by_agent_line which) {
  size_t length = job->lines[which] ? strlen(job->lines[which]) : 0;
  job->user->kept -= length;
  agent->kept -= length;
  free(job->lines[which]);
  job->lines[which] = NULL;
  job->unsaid[which] = false;
}

void by_agent_drop_lines(struct by_agent *agent, struct by_agent_job *job) {
  for (int i = 0; i < BY_AGENT_LINES; i++) by_agent_drop_line(agent, job, (enum by_agent_line)i);
}

static enum banyan_status keep_text(struct by_agent *agent, struct by_agent_job *job, enum by_agent_line which,
                                    const struct by_text *text) {
  struct by_agent_user *user = job->user;
  by_agent_drop_line(agent, job, which);
  if (text->failed || text->length > BY_CLUSTER_LINE_UP)
    return by_fail(BANYAN_ERR_PROTOCOL, "a line of %zu bytes cannot be passed on", text->length);
  if (user->kept + text->length > BY_AGENT_KEPT / 4 && !is_root(user))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "what is told of the jobs of user %u here is more than %d bytes", user->uid,
                   BY_AGENT_KEPT / 4);
  if (agent->kept + text->length > BY_AGENT_KEPT)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "what is told of the jobs here is more than %d bytes", BY_AGENT_KEPT);
  if (!(job->lines[which] = by_agent_copy_text(by_text_get(text))))
    return by_fail(BANYAN_ERR_NO_MEMORY, "the agent is out of memory");
  job->unsaid[which] = true;
  user->kept += text->length;
  agent->kept += text->length;
  return BANYAN_OK;
}

enum banyan_status by_agent_keep_line(struct by_agent *agent, struct by_agent_job *job, enum by_agent_line which,
                                      const struct by_cluster_message *message) {
  struct by_text text;
  by_text_init(&text);
  by_cluster_message_print(message, &text);
  enum banyan_status status = keep_text(agent, job, which, &text);
  by_text_fini(&text);
  return status;
}

/* ---- saying them */

static bool may_say(struct by_agent *agent, struct by_agent_user *user, size_t length, uint64_t now) {
  return (is_root(user) || by_budget_take(&user->budget, length, by_clock_to_seconds(now))) &&
         by_budget_take(&agent->budget, length, by_clock_to_seconds(now));
}

/* In their order: a plan that a job runs is of a job that is known. */
void by_agent_say_kept(struct by_agent *agent, struct by_agent_job *job, uint64_t now) {
  for (int i = 0; i < BY_AGENT_LINES && agent->link == BY_AGENT_LINK_OPEN; i++) {
    if (!job->unsaid[i]) continue;
    if (!may_say(agent, job->user, strlen(job->lines[i]), now)) {
      by_agent_note_news(agent, job->user, now); /* it is tried again then */
      return;
    }
    job->unsaid[i] = false;
    by_agent_tell_line(agent, job->lines[i], now);
  }
}

void by_agent_say_unsaid(struct by_agent *agent, uint64_t now) {
  for (struct by_agent_job *job = agent->jobs; job; job = job->next) by_agent_say_kept(agent, job, now);
}

bool by_agent_may_say(struct by_agent *agent, size_t length, uint64_t now) {
  return by_budget_take(&agent->budget, length, by_clock_to_seconds(now));
}

/* What is not said now is known from the next report, which does not name that rank. */
void by_agent_say_left(struct by_agent *agent, const struct by_agent_rank *rank, uint64_t now) {
  struct by_cluster_message message = {.say = BY_SAY_LEFT, .job = rank->job->id, .rank = rank->rank};
  if (may_say(agent, rank->user, 128, now)) by_agent_tell_manager(agent, &message, now);
}
