/* What the files of a machine of paxos.h share: paxos.c has the acceptor and decides what happens next, above
 * paxos_proposer.c, above paxos_learner.c, which sends and knows the end. */
#ifndef BY_ELASTIC_MEMBERSHIP_PAXOS_OBJECT_H
#define BY_ELASTIC_MEMBERSHIP_PAXOS_OBJECT_H

#include "paxos.h"
#include "rng.h"

/* An encoded successor. */
struct by_paxos_value {
  uint8_t *bytes;
  size_t length;
};

struct by_paxos {
  struct by_paxos_config config;
  const struct by_membership *membership;
  uint32_t n;
  struct by_rng rng;
  enum by_paxos_state state;
  struct by_paxos_view view; /* what this member knows */
  bool formed;
  uint32_t timers;   /* that went off since the change began */
  uint32_t waits;    /* those while waiting */
  bool asked;        /* others want this member to propose */
  uint32_t followed; /* timers that are left to the round that another member has begun */
  /* The acceptor. */
  uint64_t promised, accepted;
  struct by_paxos_value accepted_value;
  /* The proposer. */
  uint64_t ballot, highest; /* the own one, and the highest that was heard of */
  struct by_rank_set votes; /* promises while preparing, then acceptances */
  struct by_rank_set ballot_dead;
  struct by_rank_set targets; /* members that the proposal is sent to */
  uint32_t *suspicions;       /* of those that made promises, by rank */
  uint32_t asks;
  uint32_t rounds; /* that this member has begun in this change */
  uint64_t best;
  struct by_paxos_value proposal; /* that of the highest ballot in the promises; then what is proposed */
  /* The learner. */
  struct by_paxos_value decided;
  struct by_successor successor;
};

/* --- paxos_learner.c --- */

BANYAN_CHECK enum banyan_status by_paxos_set_value(struct by_paxos_value *value, const void *bytes, size_t length);
void by_paxos_clear_value(struct by_paxos_value *value);
/* To all in the set but oneself. */
BANYAN_CHECK enum banyan_status by_paxos_send(struct by_paxos *paxos, const struct by_rank_set *set,
                                              struct by_paxos_message message);
BANYAN_CHECK enum banyan_status by_paxos_reply(struct by_paxos *paxos, uint32_t to, struct by_paxos_message message);
/* Sets the timer. */
void by_paxos_arm(struct by_paxos *paxos);
/* Sets the timer, and leaves it to others or to a later round to decide. */
void by_paxos_wait(struct by_paxos *paxos);
void by_paxos_end(struct by_paxos *paxos, enum by_paxos_state state, const char *text);
void by_paxos_end_excluded(struct by_paxos *paxos, enum by_paxos_state state, const char *name);
/* Ends without a quorum. */
void by_paxos_give_up(struct by_paxos *paxos);
/* Sends the decision to a member that does not know it. */
BANYAN_CHECK enum banyan_status by_paxos_answer(struct by_paxos *paxos, uint32_t to);
BANYAN_CHECK enum banyan_status by_paxos_send_welcome(struct by_paxos *paxos, const struct by_fingerprint *to,
                                                      uint32_t n);
/* The successor is decided. BANYAN_ERR_PROTOCOL: it is malformed, and nothing has changed. */
BANYAN_CHECK enum banyan_status by_paxos_learn(struct by_paxos *paxos, const void *bytes, size_t length);
/* The same for the proposer, which notifies all others. */
BANYAN_CHECK enum banyan_status by_paxos_decide(struct by_paxos *paxos);

/* --- paxos_proposer.c --- */

BANYAN_CHECK enum banyan_status by_paxos_begin_round(struct by_paxos *paxos);
/* In a round: after a vote, or after the death of a member became known. */
BANYAN_CHECK enum banyan_status by_paxos_check_votes(struct by_paxos *paxos);
/* After the timer. */
BANYAN_CHECK enum banyan_status by_paxos_ask_again(struct by_paxos *paxos);
/* In a round: sends its request once more to a member, unless that has voted. */
BANYAN_CHECK enum banyan_status by_paxos_ask_member(struct by_paxos *paxos, uint32_t rank);
/* A promise of the round. */
BANYAN_CHECK enum banyan_status by_paxos_add_promise(struct by_paxos *paxos, uint32_t from,
                                                     const struct by_paxos_message *message);

#endif
