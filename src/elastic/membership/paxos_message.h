/* What members of a membership exchange to decide its successor, as values, without I/O. The decision on the protocol
 * is docs/decisions/0181. */
#ifndef BY_ELASTIC_MEMBERSHIP_PAXOS_MESSAGE_H
#define BY_ELASTIC_MEMBERSHIP_PAXOS_MESSAGE_H

#include "membership.h"

/* ---- successor.c: the successor of a membership as a difference to it: which members stay, in their order, and which
 * processes are added behind them. An added process may be a member that does not keep its position, so that any order
 * can be expressed. A message about 10,000 members of which one died has 2.5 KiB. */

enum { BY_SECRET_BYTES = 32 };

struct by_successor {
  char name[BY_MEMBERSHIP_NAME + 1];
  uint8_t secret[BY_SECRET_BYTES];
  bool settled; /* The predecessor is settled, so all of its members count as founders. */
  struct by_rank_set kept;
  /* Members and excluded processes of the predecessor that are not in the successor and may be alive. */
  struct by_rank_set excluded;
  uint32_t n_added;
  struct by_fingerprint *added;
};

/* Makes an empty successor. May return BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_successor_init(struct by_successor *successor, const struct by_membership *before);
/* Accepts a zero-initialised successor. */
void by_successor_fini(struct by_successor *successor);
BANYAN_CHECK enum banyan_status by_successor_add(struct by_successor *successor,
                                                 const struct by_fingerprint *fingerprint);

/* Whether this member of the predecessor is in the successor. */
bool by_successor_has(const struct by_successor *successor, const struct by_membership *before, uint32_t rank);
/* Returns BANYAN_ERR_ARGUMENT if the successor has no name, no member, too many members, a member twice or one that was
 * excluded before; or if the rule is BY_QUORUM_SURVIVORS and it has no founder. */
BANYAN_CHECK enum banyan_status by_successor_check(const struct by_successor *successor,
                                                   const struct by_membership *before);
/* Makes the successor's membership. Fails as by_successor_check does. Cost: n log(n). */
BANYAN_CHECK enum banyan_status by_successor_apply(const struct by_successor *successor,
                                                   const struct by_membership *before, struct by_membership **out);

/* Encode and decode a successor. Reading checks it, and returns BANYAN_ERR_PROTOCOL; after success, `out` needs
 * by_successor_fini. */
void by_successor_write(struct by_writer *writer, const struct by_successor *successor);
BANYAN_CHECK enum banyan_status by_successor_read(const void *bytes, size_t length, const struct by_membership *before,
                                                  struct by_successor *out);

/* ---- messages */

enum by_paxos_kind {
  BY_PAXOS_REPORT = 1, /* To the coordinator: a change is wanted. Has the sender's view. */
  BY_PAXOS_PREPARE,    /* Has the ballot and the dead members. */
  BY_PAXOS_PROMISE,    /* Has the ballot, the accepted ballot and value, and the sender's view. */
  BY_PAXOS_ACCEPT,     /* Has the ballot, the dead members and the value. */
  BY_PAXOS_ACCEPTED,   /* Has the ballot. */
  BY_PAXOS_REFUSED,    /* Has the ballot, and as `accepted` the higher one that was promised. */
  BY_PAXOS_DECIDED,    /* Has the value. */
  BY_PAXOS_EXCLUDED,   /* To a member that is not in the successor. Has the successor's name as value. */
  BY_PAXOS_GONE,       /* The answer to EXCLUDED: the sender has ended. */
  BY_PAXOS_NOTICE,     /* Has the sender's view; no change is wanted. */
  BY_PAXOS_WELCOME,    /* To a newcomer, which does not know the predecessor; see by_paxos_welcome_write. */
};

enum { BY_NEWCOMERS_MOST = 4096 };
/* Upper limit, exclusive, of ballots. */
#define BY_BALLOT_MOST (1ull << 48)

/* What a member knows about others. */
struct by_paxos_view {
  struct by_rank_set suspected; /* Members that do not answer or cannot be reached. */
  struct by_rank_set dead;      /* Members whose end a launcher, an agent or the host's kernel has seen. */
  struct by_rank_set leaving;   /* Members that want to leave. */
  struct by_rank_set gone;      /* Excluded processes that have ended or died; the first excluded one is 0. */
  bool settled;                 /* The membership is settled: no excluded process can continue without it. */
  uint32_t n_newcomers;
  struct by_fingerprint *newcomers; /* Processes that want to join; owned by the view. */
};

/* Makes a view with empty sets. May return BANYAN_ERR_NO_MEMORY. A zero-initialised view may be passed to fini. */
BANYAN_CHECK enum banyan_status by_paxos_view_init(struct by_paxos_view *view, const struct by_membership *membership);
void by_paxos_view_fini(struct by_paxos_view *view);
/* Adds a newcomer. Returns whether it was added: false if it is listed, there are too many, or memory is exhausted. */
bool by_paxos_view_add(struct by_paxos_view *view, const struct by_fingerprint *newcomer);

struct by_paxos_message {
  enum by_paxos_kind kind;
  uint64_t number; /* Number of the membership whose successor is decided. */
  uint64_t ballot, accepted;
  const void *value; /* Borrowed. */
  size_t length;     /* Bytes of the value. */
  struct by_paxos_view view;
};

/* Encodes a message with the parts of the view that its kind needs. */
void by_paxos_message_write(struct by_writer *writer, const struct by_paxos_message *message);
/* Decodes a message other than a WELCOME; the value is not decoded. Returns BANYAN_ERR_PROTOCOL if it is malformed or
 * about another membership. After success, the view needs by_paxos_view_fini. */
BANYAN_CHECK enum banyan_status by_paxos_message_read(const void *bytes, size_t length,
                                                      const struct by_membership *membership,
                                                      struct by_paxos_message *out);

/* Encode and decode a WELCOME: the number of the predecessor, the new membership and its secret. */
void by_paxos_welcome_write(struct by_writer *writer, uint64_t number, const struct by_membership *membership,
                            const uint8_t secret[BY_SECRET_BYTES]);
BANYAN_CHECK enum banyan_status by_paxos_welcome_read(const void *bytes, size_t length, uint64_t *number,
                                                      struct by_membership **out, uint8_t secret[BY_SECRET_BYTES]);

#endif
