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
  struct by_paxos_view view; /* What this member knows about others. */
  bool formed;
  uint32_t timers;   /* Timers that expired since the change began. */
  uint32_t waits;    /* Timers that expired while waiting. */
  bool asked;        /* Others want this member to propose. */
  uint32_t followed; /* Timers left for the round of another member. */
  /* The acceptor. */
  uint64_t promised, accepted;
  struct by_paxos_value accepted_value;
  /* The proposer. */
  uint64_t ballot, highest; /* Ballot of this member's round, and the highest known ballot. */
  struct by_rank_set votes; /* Members that have promised; once proposed, members that have accepted. */
  struct by_rank_set ballot_dead;
  struct by_rank_set targets; /* Members to which the proposal is sent. */
  uint32_t *suspicions;       /* For each rank, how many members that promised suspect it. */
  uint32_t asks;
  uint32_t rounds; /* Rounds that this member has begun in this change. */
  uint64_t best;
  struct by_paxos_value proposal; /* Value of the highest ballot among the promises; then the proposed value. */
  /* The learner. */
  struct by_paxos_value decided;
  struct by_successor successor;
};

/* --- paxos_learner.c --- */

BANYAN_CHECK enum banyan_status by_paxos_set_value(struct by_paxos_value *value, const void *bytes, size_t length);
void by_paxos_clear_value(struct by_paxos_value *value);
/* Sends a message to all members of the set except this one. */
BANYAN_CHECK enum banyan_status by_paxos_send(struct by_paxos *paxos, const struct by_rank_set *set,
                                              struct by_paxos_message message);
BANYAN_CHECK enum banyan_status by_paxos_reply(struct by_paxos *paxos, uint32_t to, struct by_paxos_message message);
/* Sets the timer. */
void by_paxos_arm(struct by_paxos *paxos);
/* Ends a round: sets the timer, and leaves the decision to others or to a later round. */
void by_paxos_wait(struct by_paxos *paxos);
void by_paxos_end(struct by_paxos *paxos, enum by_paxos_state state, const char *text);
void by_paxos_end_excluded(struct by_paxos *paxos, enum by_paxos_state state, const char *name);
/* Ends the machine without a quorum. */
void by_paxos_give_up(struct by_paxos *paxos);
/* Sends the decision to a member that does not know it. */
BANYAN_CHECK enum banyan_status by_paxos_answer(struct by_paxos *paxos, uint32_t to);
BANYAN_CHECK enum banyan_status by_paxos_send_welcome(struct by_paxos *paxos, const struct by_fingerprint *to,
                                                      uint32_t n);
/* Learns the decided successor. Returns BANYAN_ERR_PROTOCOL if it is malformed; then nothing has changed. */
BANYAN_CHECK enum banyan_status by_paxos_learn(struct by_paxos *paxos, const void *bytes, size_t length);
/* Decides on the proposal, and notifies all other members. */
BANYAN_CHECK enum banyan_status by_paxos_decide(struct by_paxos *paxos);

/* --- paxos_proposer.c --- */

BANYAN_CHECK enum banyan_status by_paxos_begin_round(struct by_paxos *paxos);
/* Checks whether a round can proceed, after a vote or after the death of a member became known. */
BANYAN_CHECK enum banyan_status by_paxos_check_votes(struct by_paxos *paxos);
/* Asks again in a round after the timer expired. */
BANYAN_CHECK enum banyan_status by_paxos_ask_again(struct by_paxos *paxos);
/* Resends a round's request to a member, unless it has voted. */
BANYAN_CHECK enum banyan_status by_paxos_ask_member(struct by_paxos *paxos, uint32_t rank);
/* Adds a promise to the round. */
BANYAN_CHECK enum banyan_status by_paxos_add_promise(struct by_paxos *paxos, uint32_t from,
                                                     const struct by_paxos_message *message);

#endif
