/* The checker: proves that the schedules of all ranks together do what the
 * call promises, without a network and for every count at once. It knows
 * nothing of plans or of how schedules are made. Any thread; keeps nothing.
 *
 * Proved: every message is sent once and taken once, with the same pieces on
 * both ends, from equal layouts, so with equal lengths for all counts; nothing
 * deadlocks, even where a send ends only when its receiver has used all of it;
 * nothing is overwritten that may still be read, nothing is read before it is
 * written; every rank ends with every term exactly once, divided once, added
 * in the same order on all ranks; blocks end where they belong. All of this
 * also in place where the collective may run in place. */
#ifndef BY_TESTS_SCHEDULE_CHECK_H
#define BY_TESTS_SCHEDULE_CHECK_H

#include "schedule.h"

/* Compiles for all ranks and checks. BANYAN_ERR_PLAN: something does not hold;
 * the text names rank, step, piece and term. `root` as in by_schedule_compile. */
BANYAN_CHECK enum banyan_status by_schedule_check(const struct by_plan *plan, const struct by_class *class_,
                                                  enum banyan_collective collective, uint32_t root);
/* The same for schedules at hand, of ranks 0 .. n - 1, or of all ranks and the helpers behind them. Cost: for each
 * piece, the steps on it squared / 64. */
BANYAN_CHECK enum banyan_status by_schedule_check_all(struct by_schedule *const *schedules, uint32_t n);

#endif
