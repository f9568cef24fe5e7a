#include "agent_users.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

static bool is_unused(struct by_agent_user *user, double now) {
  return by_budget_is_full(&user->forwards, now) && by_budget_is_full(&user->received, now) &&
         by_budget_is_full(&user->news, now);
}

/* One that has gone keeps what it has used up, until it may have all again. */
static void forget_others(struct by_agent_users *users, uint64_t now) {
  for (struct by_agent_user **at = &users->all; *at;) {
    struct by_agent_user *user = *at;
    if (user->n_ranks || !is_unused(user, by_clock_to_seconds(now))) {
      at = &user->next;
      continue;
    }
    *at = user->next;
    free(user);
  }
}

static struct by_agent_user *create(struct by_agent_users *users, unsigned uid, uint64_t now) {
  struct by_agent_user *user = calloc(1, sizeof *user);
  double seconds = by_clock_to_seconds(now);
  if (!user) return NULL;
  *user = (struct by_agent_user){.next = users->all,
                                 .uid = uid,
                                 .forwards = by_budget_full(&of_user, seconds),
                                 .received = by_budget_full(&of_received, seconds),
                                 .news = by_budget_full(&of_news, seconds)};
  users->all = user;
  return user;
}

enum banyan_status by_agent_users_connect(struct by_agent_users *users, unsigned uid, uint64_t now,
                                          struct by_agent_user **out) {
  struct by_agent_user *user = users->all;
  while (user && user->uid != uid) user = user->next;
  if (!user) forget_others(users, now);
  if (!user && !(user = create(users, uid, now))) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  if (user->n_ranks == BY_AGENT_RANKS / 2 && !is_root(user))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%d processes of user %u are connected already", BY_AGENT_RANKS / 2, uid);
  user->n_ranks++;
  *out = user;
  return BANYAN_OK;
}

void by_agent_users_disconnect(struct by_agent_user *user) {
  user->n_ranks--;
}

enum banyan_status by_agent_users_add_job(struct by_agent_user *user) {
  if (user->n_jobs >= BY_AGENT_JOBS / 2 && !is_root(user))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "user %u has %d jobs here already, the agent takes no more of one user",
                   user->uid, BY_AGENT_JOBS / 2);
  user->n_jobs++;
  return BANYAN_OK;
}

void by_agent_users_remove_job(struct by_agent_user *user) {
  user->n_jobs--;
}

enum banyan_status by_agent_users_may_send(struct by_agent_user *user, size_t length, uint64_t now) {
  if (is_root(user) || by_budget_take(&user->received, length, by_clock_to_seconds(now))) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL,
                 "all processes of user %u together say more than %.0f lines or %.0f bytes a second", user->uid,
                 of_received.lines_a_second, of_received.bytes_a_second);
}

bool by_agent_users_may_report_early(struct by_agent_user *user, uint64_t now) {
  return is_root(user) || by_budget_take(&user->news, 0, by_clock_to_seconds(now));
}

bool by_agent_users_may_forward(struct by_agent_users *users, struct by_agent_user *user, size_t length, uint64_t now) {
  double seconds = by_clock_to_seconds(now);
  bool may = !user || is_root(user) || by_budget_take(&user->forwards, length, seconds);
  return may && by_budget_take(&users->forwards, length, seconds);
}

enum banyan_status by_agent_users_keep(struct by_agent_users *users, struct by_agent_user *user, size_t length) {
  if (user->kept + length > MOST_KEPT / 4 && !is_root(user))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "what is told of the jobs of user %u here is more than %d bytes", user->uid,
                   MOST_KEPT / 4);
  if (users->kept + length > MOST_KEPT)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "what is told of the jobs here is more than %d bytes", MOST_KEPT);
  user->kept += length;
  users->kept += length;
  return BANYAN_OK;
}

void by_agent_users_release(struct by_agent_users *users, struct by_agent_user *user, size_t length) {
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
  for (struct by_agent_user *user = users->all, *next; user; user = next) {
    next = user->next;
    free(user);
  }
  by_repeats_flush(&users->rejections, "agent", INFINITY);
}
