/* Inquiries: when nothing goes on, rank 0 asks all ranks what they are at and
 * compares the answers. Ranks that make different calls wait for each other
 * without ever exchanging a frame; and a rank whose deadline passed knows only
 * whom it waits for, who may wait for somebody else in turn. No I/O: control
 * hands in the answers. On rank 0 only, on the loop's thread. */
#ifndef BY_JOB_CONTROL_DEADLOCK_ROUND_H
#define BY_JOB_CONTROL_DEADLOCK_ROUND_H

#include "job_state.h"

struct by_deadlock_round;

BANYAN_CHECK enum banyan_status by_deadlock_round_create(struct by_job *job, struct by_deadlock_round **out);
/* A rank left on purpose: it will not answer. True if nobody is left to answer. */
bool by_deadlock_round_left(struct by_deadlock_round *round, uint32_t rank);
/* What by_engine_describe wrote there, and behind it who cannot be reached from there, if anybody; copied. True if
 * nobody is left to answer. */
bool by_deadlock_round_answer(struct by_deadlock_round *round, uint32_t rank, const void *answer, size_t length);
/* Two processes that lost each other though both still answer: of all that was reported, the pair that has for longest,
 * if that is so many milliseconds at least. Fills one of them and the text, which names both. */
bool by_deadlock_round_find_apart(const struct by_deadlock_round *round, uint32_t least, uint32_t *culprit, char *text,
                                  size_t room);
/* A rank's deadline has passed: how its error text begins, and whom it waits for itself. The first counts. */
void by_deadlock_round_late(struct by_deadlock_round *round, const char *passed, const char *awaited);
/* What follows from the answers: BANYAN_ERR_MISMATCH, BANYAN_ERR_TIMEOUT if somebody is late,
 * BANYAN_ERR_CONNECT if the reason is that two processes cannot reach each other, or BANYAN_OK. Fills
 * the culprit and the text. */
enum banyan_status by_deadlock_round_judge(const struct by_deadlock_round *round, uint32_t *culprit, char *text,
                                           size_t room);
/* NULL is allowed. */
void by_deadlock_round_destroy(struct by_deadlock_round *round);

#endif
