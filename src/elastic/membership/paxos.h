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
  BY_PAXOS_QUIET,     /* no change is wanted */
  BY_PAXOS_WAITING,   /* for another member's decision, or before the next attempt */
  BY_PAXOS_PREPARING, /* has asked for promises */
  BY_PAXOS_ACCEPTING, /* has proposed */
  BY_PAXOS_CLOSED,    /* knows the successor; answers members that do not */
  BY_PAXOS_ENDED      /* was excluded, or found no quorum; answers only that it has */
};

struct by_paxos_config {
  const struct by_membership *membership; /* borrowed; must outlive the machine */
  uint32_t self;
  uint64_t seed;                 /* of random delays */
  uint8_t root[BY_SECRET_BYTES]; /* secret random bytes, from which the secrets of own proposals are derived */
  uint64_t delay;                /* of the timer, before a member is asked again first; of any unit */
  /* To a member. The bytes are valid during the call. */
  void (*send)(void *context, uint32_t to, const void *message, size_t length);
  /* A WELCOME to a newcomer. */
  void (*welcome)(void *context, const struct by_fingerprint *to, const void *message, size_t length);
  /* by_paxos_timer is to be called after so long; a timer set before is forgotten. */
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
/* The rest returns BANYAN_OK or BANYAN_ERR_NO_MEMORY. Only this one starts a change where there is none: what else
 * becomes known waits for it, or for another member's. The successor may have the same members. */
BANYAN_CHECK enum banyan_status by_paxos_request(struct by_paxos *paxos);
BANYAN_CHECK enum banyan_status by_paxos_timer(struct by_paxos *paxos);
/* A member seems to know the successor, since it sends about that: asks it. */
BANYAN_CHECK enum banyan_status by_paxos_ask(struct by_paxos *paxos, uint32_t rank);
/* A member does not answer. It is excluded if it makes no promise either, or if most others suspect it. */
BANYAN_CHECK enum banyan_status by_paxos_suspect(struct by_paxos *paxos, uint32_t rank);
/* A launcher, an agent or the host's kernel has seen the end of this member's process. This must be true. */
BANYAN_CHECK enum banyan_status by_paxos_dead(struct by_paxos *paxos, uint32_t rank);
/* This member wants to leave. It votes until a successor without it is decided, and ends then. */
BANYAN_CHECK enum banyan_status by_paxos_leave(struct by_paxos *paxos);
/* A newcomer asks to join. It is to ask again until it receives a WELCOME. BANYAN_ERR_CLOSED: the successor is decided
 * without it, and it must ask a member of that. */
BANYAN_CHECK enum banyan_status by_paxos_join(struct by_paxos *paxos, const struct by_fingerprint *newcomer);
/* A newcomer is not interested any more, or has died. */
void by_paxos_withdraw(struct by_paxos *paxos, const struct by_fingerprint *newcomer);
/* A suspected member answers again. */
void by_paxos_trust(struct by_paxos *paxos, uint32_t rank);
/* A member can be reached, and what was sent to it before may be lost: sends again what it has not answered. */
BANYAN_CHECK enum banyan_status by_paxos_remind(struct by_paxos *paxos, uint32_t rank);
/* All members of the machine's membership have met in it. */
BANYAN_CHECK enum banyan_status by_paxos_formed(struct by_paxos *paxos);
/* A process that was excluded before has ended, or its death is proven. Others are ignored. */
BANYAN_CHECK enum banyan_status by_paxos_gone(struct by_paxos *paxos, const struct by_fingerprint *fingerprint);

enum by_paxos_state by_paxos_state(const struct by_paxos *paxos);
/* What a change that is under way waits for. `text` holds BY_QUORUM_TEXT bytes. Returns `text`. */
const char *by_paxos_explain(const struct by_paxos *paxos, char *text);
/* The successor, also for a member that is not in it; NULL unless the state is BY_PAXOS_CLOSED. Borrowed. */
const struct by_successor *by_paxos_decision(const struct by_paxos *paxos);

#endif
