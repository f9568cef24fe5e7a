/* How the members of a job meet: rank 0 collects them and sends the list to all, or why there will be no job. On the
 * loop's thread. */
#ifndef BY_JOB_CONTROL_CONTROL_MEETING_H
#define BY_JOB_CONTROL_CONTROL_MEETING_H

#include "acceptor.h"
#include "connector.h"
#include "control_trust.h"
#include "dialer.h"

struct by_meeting_events {
  /* Rank 0: a helper or server comes while the job runs. */
  void (*newcomer)(void *context, struct by_control_peer *peer, const struct by_member *member);
  /* Others: the number of members is known. */
  enum banyan_status (*make_room)(void *context);
  void *context;
};

struct by_used_ticket;

struct by_control_meeting {
  struct by_control_peers *peers;
  struct by_deaths *deaths;
  struct by_control_trust *trust;
  struct by_connector *connector;
  struct by_meeting_events events;
  char given_plan[BY_PLAN_MAX_NAME + 1]; /* The plan that this rank was given, and its version; see by_join. */
  uint32_t given_version;
  bool done;           /* This process has joined. */
  uint64_t ask_at;     /* Of a formation: when ranks that have not come are asked whether their lists differ. */
  uint32_t next_asked; /* The rank that is asked first. */
  /* Members that only rank 0 uses. */
  struct by_acceptor *acceptor;
  uint32_t joined, helpers;    /* Ranks, and helpers, that have joined. */
  bool waits_for_helpers;      /* All ranks have joined. */
  struct by_timer absence;     /* Time for a rank to come again that left while the job was starting. */
  uint32_t absent;             /* That rank, while the timer is set. */
  char absent_text[TEXT_MOST]; /* Why there will be no job without that rank. */
  struct by_used_ticket *used; /* Tickets of helpers and servers that have come, with the identities of their users. */
  uint32_t n_used, used_room;
  struct by_key links;    /* The key of links of this membership, see job_key.h. */
  char failed[TEXT_MOST]; /* Why the last connection of an unknown process failed; "": none did. */
  /* Members that other processes use. */
  struct by_dialer *dialer; /* Dials rank 0, until this process has joined. */
  uint32_t hangups;         /* Successive hang-ups of rank 0 before its welcome. */
};

void by_meeting_init(struct by_control_meeting *meeting, struct by_control_trust *trust, struct by_connector *connector,
                     const char *plan, uint32_t plan_version, const struct by_meeting_events *events);
void by_meeting_fini(struct by_control_meeting *meeting);
/* Meets the others: runs until all have joined, or the join deadline has passed. */
BANYAN_CHECK enum banyan_status by_meeting_run(struct by_control_meeting *meeting, const struct by_member *self);

/* See struct by_control_peer_events; `ended`: while this process has not joined. */
void by_meeting_opened(struct by_control_meeting *meeting, struct by_control_peer *peer, uint8_t purpose,
                       const void *hello, size_t length);
void by_meeting_ended(struct by_control_meeting *meeting, struct by_control_peer *peer, enum banyan_status status,
                      const char *reason);
/* Rank 0: welcomes all, as no more will join. */
void by_meeting_welcome(struct by_control_meeting *meeting);
/* Rank 0: sends the list of members to these processes. */
BANYAN_CHECK enum banyan_status by_meeting_send_welcome(const struct by_control_meeting *meeting, uint32_t first,
                                                        uint32_t end);
/* Handles WELCOME. */
void by_meeting_handle_welcome(void *argument, const struct by_received *message);

#endif
