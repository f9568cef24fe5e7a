/* The checker proves that the schedules of all ranks together do what the call promises, without a network and for
 * every count at once. It knows nothing of plans or of how schedules are made. It may be called from any thread and
 * keeps no state.
 *
 * It proves:
 * - Every message is sent once and received once, with the same pieces on both ends, from equal layouts, so with equal
 *   lengths for all counts.
 * - Nothing deadlocks, even where a send ends only when its receiver has used all of it.
 * - Nothing is overwritten that may still be read, and nothing is read before it is written.
 * - Every rank ends with every term exactly once, divided once, added in the same order on all ranks.
 * - Blocks end where they belong.
 *
 * All of this also holds in place where the collective may run in place. */
#ifndef BY_TESTS_SCHEDULE_CHECK_H
#define BY_TESTS_SCHEDULE_CHECK_H

#include "schedule.h"

/* Compiles the schedules of all ranks and checks them, those for large buffers too, where they differ. BANYAN_ERR_PLAN:
 * a property does not hold; the text names rank, step, piece and term. `root` as in by_schedule_compile. */
BANYAN_CHECK enum banyan_status by_schedule_check(const struct by_plan *plan, const struct by_class *class_,
                                                  enum banyan_collective collective, uint32_t root);
/* Checks existing schedules, of ranks 0 .. n - 1, or of all ranks and the helpers after them. Cost: for each piece, the
 * square of the number of steps on it / 64. */
BANYAN_CHECK enum banyan_status by_schedule_check_all(struct by_schedule *const *schedules, uint32_t n);

#endif
