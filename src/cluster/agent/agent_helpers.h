/* The helpers of other hosts' jobs that run on this host, as the manager asks for them.
 *
 *   state      next states        meaning
 *   STARTING   JOINED, CANCELLED  until its job has admitted it
 *   JOINED     LEAVING
 *   CANCELLED  -                  it is to leave, and had not joined
 *   LEAVING    -                  it is to leave
 *
 * From each it may end, and is forgotten. */
#ifndef BY_AGENT_AGENT_HELPERS_H
#define BY_AGENT_AGENT_HELPERS_H

#include "agent_session.h"

enum by_agent_helper_state {
  BY_AGENT_HELPER_STARTING,
  BY_AGENT_HELPER_JOINED,
  BY_AGENT_HELPER_CANCELLED,
  BY_AGENT_HELPER_LEAVING
};

struct by_agent_helper {
  struct by_agent_helper *next;
  char job[BY_CLUSTER_JOB_ID + 1];
  char *name;
  enum by_agent_helper_state state;
  char *again; /* the manager wants it once more after it has ended: its line; NULL: it does not */
};

struct by_agent_helpers {
  const struct by_agent_options *options; /* borrowed, like the next */
  struct by_agent_session *session;
  struct by_agent_helper *all;
  uint32_t n;
};

void by_agent_helpers_fini(struct by_agent_helpers *helpers);
/* What the manager asks for. */
void by_agent_helpers_start(struct by_agent_helpers *helpers, const struct by_cluster_message *help, uint64_t now);
void by_agent_helpers_stop(struct by_agent_helpers *helpers, const char *job);
/* What the helpers do. */
void by_agent_helpers_joined(struct by_agent_helpers *helpers, const char *job, uint64_t now);
void by_agent_helpers_ended(struct by_agent_helpers *helpers, const char *job, const char *why, uint64_t now);
/* Names all that help to the manager. */
void by_agent_helpers_send(const struct by_agent_helpers *helpers, uint64_t now);
bool by_agent_helper_has_joined(const struct by_agent_helper *helper);

#endif
