/* Forwards requests to the manager from processes that are no ranks of a job: launchers that can use more hosts, and
 * processes that meet others of their job. Each has a number, by which the manager answers. */
#include <stdlib.h>
#include <string.h>

#include "agent_state.h"

static void give_number(struct by_agent *agent, struct by_agent_rank *rank) {
  if (!rank->number) rank->number = ++agent->ranks.n_numbers;
}

void by_agent_meetings_send_offer(const struct by_agent *agent, const struct by_cluster_message *offer) {
  const struct by_agent_rank *rank = LIST_FIRST(&agent->ranks.all);
  while (rank && rank->number != offer->number) rank = LIST_NEXT(rank, entry);
  if (rank && offer->number) by_agent_rank_send(agent, rank, offer);
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
    if (is_for(rank, list)) by_agent_rank_send(agent, rank, list);
  }
}

/* Forwards a launcher's request for hosts; it asks again if no answer comes. Without a manager there are none. */
void by_agent_meeting_want(struct by_agent *agent, struct by_agent_rank *rank, const struct by_cluster_message *message,
                           uint64_t now) {
  enum { BYTES = 64 };
  give_number(agent, rank);
  struct by_cluster_message wanted = {.type = BY_MESSAGE_WANTED, .number = rank->number, .count = message->count};
  struct by_cluster_message none = {.type = BY_MESSAGE_OFFERED, .number = rank->number};
  if (agent->session.state != BY_SESSION_WELCOME)
    by_agent_rank_send(agent, rank, &none);
  else if (by_agent_ranks_may_forward(agent, rank->user, BYTES, now))
    by_agent_session_send(agent, &wanted, now);
}

void by_agent_meetings_send(struct by_agent *agent, bool all, uint64_t now) {
  for (struct by_agent_rank *rank = LIST_FIRST(&agent->ranks.all); rank; rank = LIST_NEXT(rank, entry)) {
    if (!rank->meet) continue;
    if (all) rank->unsent = true, rank->known = false;
    if (!rank->unsent || !by_agent_session_is_open(agent)) continue;
    if (!by_agent_ranks_may_forward(agent, rank->user, strlen(rank->meet), now)) {
      by_agent_note_news(agent, rank->user, now); /* The next report tries again. */
      continue;                                   /* Another user may have a larger budget. */
    }
    rank->unsent = false;
    rank->known = true;
    by_agent_session_send_line(agent, rank->meet, now);
  }
}

/* Stores and forwards the line of a process that meets others. It stays connected as long as it lives. */
enum banyan_status by_agent_meeting_handle(struct by_agent *agent, struct by_agent_rank *rank,
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

void by_agent_meeting_end(struct by_agent *agent, const struct by_agent_rank *rank, uint64_t now) {
  struct by_cluster_message parted = {.type = BY_MESSAGE_PARTED, .job = rank->meets, .number = rank->number};
  if (rank->known) by_agent_session_send(agent, &parted, now);
}
