/* Deadlock checks over the control connections: when nothing goes on, any rank asks rank 0, rank 0 asks all ranks for
 * their calls, and compares the answers. Ranks that make different calls wait for each other without ever exchanging a
 * frame; and a rank whose deadline passed knows only the rank that it waits for, which may wait for another in turn. It
 * also finds helpers that are stopped. On the loop's thread unless said otherwise. */
#ifndef BY_JOB_CONTROL_CONTROL_DEADLOCK_H
#define BY_JOB_CONTROL_CONTROL_DEADLOCK_H

#include "control_deaths.h"
#include "unreached.h"

/* ---- one check, at rank 0; no I/O */

struct by_deadlock_round;

BANYAN_CHECK enum banyan_status by_deadlock_round_create(struct by_job *job, struct by_deadlock_round **out);
/* Notes that a rank has left on purpose, and will not answer. True if no rank is left to answer. */
bool by_deadlock_round_left(struct by_deadlock_round *round, uint32_t rank);
/* Adds a rank's answer: what by_engine_describe wrote there, followed by the processes that cannot be reached from
 * there; copied. True if no rank is left to answer. */
bool by_deadlock_round_answer(struct by_deadlock_round *round, uint32_t rank, const void *answer, size_t length);
/* Notes that a rank's deadline has passed: how its error text begins, and the rank that it waits for itself. The first
 * such note counts. */
void by_deadlock_round_late(struct by_deadlock_round *round, const char *passed, const char *awaited);
/* Notes that a call has waited for long: how the report begins. The first such note counts. */
void by_deadlock_round_stalled(struct by_deadlock_round *round, const char *waits);
/* Writes the report on that call, if there is a rank to name. */
bool by_deadlock_round_report(const struct by_deadlock_round *round, char *text, size_t room);
/* Judges the answers: BANYAN_ERR_MISMATCH, BANYAN_ERR_TIMEOUT if a rank is late, BANYAN_ERR_CONNECT if two processes
 * that cannot reach each other are the reason, or BANYAN_OK. Sets the process at fault and the text. */
enum banyan_status by_deadlock_round_judge(const struct by_deadlock_round *round, uint32_t *culprit, char *text,
                                           size_t room);
/* NULL is allowed. */
void by_deadlock_round_destroy(struct by_deadlock_round *round);

/* ---- over the control connections */

struct by_deadlock_check {
  struct by_control_peers *peers;
  struct by_deaths *deaths;
  const struct by_connector *connector; /* NULL: the job has no connector. */
  struct by_deadlock_round *round;      /* The check in progress, at rank 0 only; NULL: none. */
  uint32_t rounds;                      /* Number of checks so far. */
  struct by_large_loss_finder finder;   /* Finds losses of large packets of this process. */
  uint64_t reported;                    /* When calls that wait for long were last reported; 0: never. */
  bool apart; /* The last check found that two processes cannot reach each other, which has been logged. */
  struct by_timer answers, silence;
};

void by_deadlock_check_init(struct by_deadlock_check *check, struct by_deaths *deaths,
                            const struct by_connector *connector);
void by_deadlock_check_fini(struct by_deadlock_check *check);
/* Starts a check. `late` "": nothing is late, but nothing progresses either; `awaited` may begin a report of a call
 * that waits. */
void by_deadlock_check_ask(struct by_deadlock_check *check, const char *late, const char *awaited);
/* Handles ASK, DESCRIBE and DESCRIPTION. */
void by_deadlock_check_handle(void *argument, const struct by_received *message);
/* Notes that this rank will not answer. */
void by_deadlock_check_left(struct by_deadlock_check *check, uint32_t rank);

#endif
