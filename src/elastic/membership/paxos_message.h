/* What members of a membership exchange to decide its successor, as values, without I/O. docs/decisions describes the
 * exchange (107); they are not sent over connections yet. */
#ifndef BY_ELASTIC_MEMBERSHIP_PAXOS_MESSAGE_H
#define BY_ELASTIC_MEMBERSHIP_PAXOS_MESSAGE_H

#include "successor.h"

enum by_paxos_kind {
  BY_PAXOS_REPORT = 1, /* to the coordinator: what the sender knows; a change is wanted */
  BY_PAXOS_PREPARE,    /* ballot, dead */
  BY_PAXOS_PROMISE,    /* ballot, accepted, value, and what the sender knows */
  BY_PAXOS_ACCEPT,     /* ballot, dead, value */
  BY_PAXOS_ACCEPTED,   /* ballot */
  BY_PAXOS_REFUSED,    /* ballot, and the higher one that was promised as `accepted` */
  BY_PAXOS_DECIDED,    /* value */
  BY_PAXOS_EXCLUDED,   /* to one that is not in the successor: its name as value */
  BY_PAXOS_GONE,       /* the answer to that: the sender has ended */
  BY_PAXOS_NOTICE,     /* what the sender knows; no change is wanted */
  BY_PAXOS_WELCOME,    /* to a newcomer, which does not know the predecessor; see below */
};

enum { BY_NEWCOMERS_MOST = 4096 };
/* Ballots are below this. */
#define BY_BALLOT_MOST (1ull << 48)

/* What a member knows of others. */
struct by_paxos_view {
  struct by_rank_set suspected; /* silent, or unreachable from the member */
  struct by_rank_set dead;      /* proven by a launcher, an agent or the host's kernel */
  struct by_rank_set leaving;   /* on their own wish */
  struct by_rank_set gone;      /* of those that were excluded before: ended or dead; counted from 0 */
  bool settled;                 /* the membership is, see paxos.h */
  uint32_t n_newcomers;
  struct by_fingerprint *newcomers; /* want to join; owned by the view */
};

/* Empty sets. BANYAN_ERR_NO_MEMORY. All zeros may be given to fini. */
BANYAN_CHECK enum banyan_status by_paxos_view_init(struct by_paxos_view *view, const struct by_membership *membership);
void by_paxos_view_fini(struct by_paxos_view *view);
/* Adds one that is not in the list yet. Returns whether it was added: there may be too many, or no memory. */
bool by_paxos_view_add(struct by_paxos_view *view, const struct by_fingerprint *newcomer);

struct by_paxos_message {
  enum by_paxos_kind kind;
  uint64_t number; /* of the membership whose successor this is about */
  uint64_t ballot, accepted;
  const void *value; /* borrowed */
  size_t length;     /* of the value */
  struct by_paxos_view view;
};

/* Of the view, only what the kind needs is written. */
void by_paxos_message_write(struct by_writer *writer, const struct by_paxos_message *message);
/* BANYAN_ERR_PROTOCOL: it is malformed, or about another membership. Afterwards the view needs by_paxos_view_fini, if
 * it succeeded. The value is not read. Not for a WELCOME. */
BANYAN_CHECK enum banyan_status by_paxos_message_read(const void *bytes, size_t length,
                                                      const struct by_membership *membership,
                                                      struct by_paxos_message *out);

/* A WELCOME: the number of the predecessor, the new membership and its secret. */
void by_paxos_welcome_write(struct by_writer *writer, uint64_t number, const struct by_membership *membership,
                            const uint8_t secret[BY_SECRET_BYTES]);
BANYAN_CHECK enum banyan_status by_paxos_welcome_read(const void *bytes, size_t length, uint64_t *number,
                                                      struct by_membership **out, uint8_t secret[BY_SECRET_BYTES]);

#endif
