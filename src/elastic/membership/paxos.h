/* Agreement on the successor of a membership: single-decree Paxos among its members, as a state machine in each of them
 * that is proposer, acceptor and learner. The first member that is believed alive proposes; when it seems not to do so,
 * members turn to the next. Newcomers have no vote. docs/decisions/0181 has the proof.
 *
 * No I/O and no clock: the caller passes messages, the end of the timer, and what it knows of other members; messages
 * leave through callbacks, which must not call the machine. Every machine decides, or ends with a text, as long as its
 * timer is served. State is in memory only: a process that restarts is a new one with another fingerprint, and must
 * never go on under the old one. One thread at a time. */
#ifndef BY_ELASTIC_MEMBERSHIP_PAXOS_H
#define BY_ELASTIC_MEMBERSHIP_PAXOS_H

#include "paxos_message.h"

enum by_paxos_state {
  BY_PAXOS_QUIET,     /* No change was requested. */
  BY_PAXOS_WAITING,   /* Waits for another member's decision, or before its own next attempt. */
  BY_PAXOS_PREPARING, /* Has asked for promises. */
  BY_PAXOS_ACCEPTING, /* Has proposed a successor. */
  BY_PAXOS_CLOSED,    /* Knows the successor, and tells members that do not. */
  BY_PAXOS_ENDED      /* Was excluded, or found no quorum; confirms only that it was excluded. */
};

struct by_paxos_config {
  const struct by_membership *membership; /* Borrowed; must outlive the machine. */
  uint32_t self;
  uint64_t seed; /* Seed of random delays. */
  /* Secret random bytes from which the secrets of this member's proposals are derived. */
  uint8_t root[BY_SECRET_BYTES];
  uint64_t delay; /* Shortest delay of the timer, before a member is asked again; any unit. */
  /* Sends a message to a member. The bytes are valid during the call. */
  void (*send)(void *context, uint32_t to, const void *message, size_t length);
  /* Sends a WELCOME to a newcomer. */
  void (*welcome)(void *context, const struct by_fingerprint *to, const void *message, size_t length);
  /* Sets the only timer: by_paxos_timer is to be called after `delay`. It replaces an earlier one. */
  void (*set_timer)(void *context, uint64_t delay);
  /* This process is in the successor, and must enter no other. It keeps the machine for members that learn late, at
   * least until the new membership has met. */
  void (*decided)(void *context, const struct by_successor *successor);
  /* This process must not go on; the text says why. The next calls do nothing. */
  void (*ended)(void *context, const char *text);
  /* A process that was excluded has ended. The caller remembers it, and calls by_paxos_gone in the memberships that
   * follow. */
  void (*gone)(void *context, const struct by_fingerprint *fingerprint);
  void *context;
};

struct by_paxos;

BANYAN_CHECK enum banyan_status by_paxos_create(const struct by_paxos_config *config, struct by_paxos **out);
/* NULL is allowed. */
void by_paxos_destroy(struct by_paxos *paxos);

/* A message from a member, whose connection is authenticated. Those of members that are proven dead are discarded.
 * BANYAN_ERR_PROTOCOL: it is malformed or about another membership, and nothing has changed; _NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_paxos_receive(struct by_paxos *paxos, uint32_t from, const void *message,
                                                 size_t length);
/* Requests a change. The functions below return BANYAN_OK or BANYAN_ERR_NO_MEMORY. Only this one starts a change; what
 * the others report waits for it, or for another member's request. The successor may have the same members. */
BANYAN_CHECK enum banyan_status by_paxos_request(struct by_paxos *paxos);
BANYAN_CHECK enum banyan_status by_paxos_timer(struct by_paxos *paxos);
/* Asks a member for the successor, about which it has sent a message. */
BANYAN_CHECK enum banyan_status by_paxos_ask(struct by_paxos *paxos, uint32_t rank);
/* Reports that a member does not answer. It is excluded if it makes no promise, or if most others suspect it. */
BANYAN_CHECK enum banyan_status by_paxos_suspect(struct by_paxos *paxos, uint32_t rank);
/* Reports that a launcher, an agent or the host's kernel has seen the end of this member's process. This must be true.
 */
BANYAN_CHECK enum banyan_status by_paxos_dead(struct by_paxos *paxos, uint32_t rank);
/* Notes that this member wants to leave. It votes until a successor without it is decided, and then ends. */
BANYAN_CHECK enum banyan_status by_paxos_leave(struct by_paxos *paxos);
/* Handles a newcomer's request to join. The newcomer repeats it until it receives a WELCOME. Returns BANYAN_ERR_CLOSED
 * if a successor without it is decided; then it must ask a member of the successor. */
BANYAN_CHECK enum banyan_status by_paxos_join(struct by_paxos *paxos, const struct by_fingerprint *newcomer);
/* Removes a newcomer that no longer wants to join or has died. */
void by_paxos_withdraw(struct by_paxos *paxos, const struct by_fingerprint *newcomer);
/* Reports that a suspected member answers again. */
void by_paxos_trust(struct by_paxos *paxos, uint32_t rank);
/* Resends to a member what it has not answered, since it can be reached again and messages may have been lost. */
BANYAN_CHECK enum banyan_status by_paxos_remind(struct by_paxos *paxos, uint32_t rank);
/* Reports that all members of the machine's membership have met. */
BANYAN_CHECK enum banyan_status by_paxos_formed(struct by_paxos *paxos);
/* Reports that an excluded process has ended or is proven dead. Other processes are ignored. */
BANYAN_CHECK enum banyan_status by_paxos_gone(struct by_paxos *paxos, const struct by_fingerprint *fingerprint);

enum by_paxos_state by_paxos_state(const struct by_paxos *paxos);
/* Describes what a change in progress waits for. `text` holds BY_QUORUM_TEXT bytes. Returns `text`. */
const char *by_paxos_explain(const struct by_paxos *paxos, char *text);
/* Returns the successor, borrowed, also if this member is not in it; NULL unless the state is BY_PAXOS_CLOSED. */
const struct by_successor *by_paxos_decision(const struct by_paxos *paxos);

#endif
