/* Deadlock checks over the control connections: any rank asks rank 0, rank 0 asks all, all answer, rank 0 decides. It
 * also finds helpers that are stopped. On the loop's thread unless said otherwise. */
#ifndef BY_JOB_CONTROL_CONTROL_DEADLOCK_H
#define BY_JOB_CONTROL_CONTROL_DEADLOCK_H

#include "connector.h"
#include "control_deaths.h"
#include "deadlock_round.h"

struct by_deadlock_check {
  struct by_control_peers *peers;
  struct by_deaths *deaths;
  const struct by_connector *connector; /* may be NULL */
  struct by_deadlock_round *round;      /* rank 0 only; NULL: none is under way */
  uint32_t rounds;                      /* that there have been */
  bool apart; /* the last one found that two processes cannot reach each other, which has been logged */
  struct by_timer answers, silence;
};

void by_deadlock_check_init(struct by_deadlock_check *check, struct by_deaths *deaths,
                            const struct by_connector *connector);
void by_deadlock_check_fini(struct by_deadlock_check *check);
/* `late` "": nothing is late, but nothing goes on either. */
void by_deadlock_check_ask(struct by_deadlock_check *check, const char *late, const char *awaited);
/* Any thread: see by_control_ask. */
bool by_deadlock_check_post(struct by_deadlock_check *check, const char *late, const char *awaited);
/* ASK, DESCRIBE and DESCRIPTION. */
void by_deadlock_check_handle(struct by_deadlock_check *check, struct by_control_peer *peer, uint16_t type,
                              const void *payload, size_t length);
/* This rank will not answer. */
void by_deadlock_check_left(struct by_deadlock_check *check, uint32_t rank);

#endif
