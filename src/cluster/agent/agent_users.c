/* Limits what the processes of each user may send, so that none displaces others, and sends to processes. */
#include <stdio.h>
#include <stdlib.h>

#include "agent_state.h"
#include "clock.h"

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

enum banyan_status by_agent_user_connect(struct by_agent *agent, unsigned uid, double seconds,
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

void by_agent_note_news(struct by_agent *agent, struct by_agent_user *user, uint64_t now) {
  if (agent->session.change_at != UINT64_MAX) return; /* A report is due anyway. */
  if (by_agent_user_is_root(user) || by_budget_take(&user->news, 0, by_clock_to_seconds(now)))
    by_agent_links_changed(agent, now);
}

enum banyan_status by_agent_user_receive(struct by_agent_user *user, size_t length, uint64_t now) {
  if (by_agent_user_is_root(user) || by_budget_take(&user->received, length, by_clock_to_seconds(now)))
    return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL,
                 "all processes of user %u together send more than %.0f lines or %.0f bytes a second", user->uid,
                 receive_limits.lines_a_second, receive_limits.bytes_a_second);
}

/* ---- sending to processes */

void by_agent_rank_send_text(const struct by_agent *agent, const struct by_agent_rank *rank, struct by_text *text) {
  const struct by_agent_options *options = &agent->options;
  if (!text->failed) options->calls->send_to_rank(options->context, rank->connection, by_text_get(text), text->length);
  by_text_fini(text);
}

void by_agent_rank_send(const struct by_agent *agent, const struct by_agent_rank *rank,
                        const struct by_cluster_message *message) {
  struct by_text text = by_cluster_message_line(message);
  by_agent_rank_send_text(agent, rank, &text);
}
