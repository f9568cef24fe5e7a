/* The clock of a simulation: lets streams send at their shares of the links,
 * from one event to the next. */
#ifndef BY_SIMULATE_RUN_H
#define BY_SIMULATE_RUN_H

#include "events.h"
#include "simulate.h"

/* Runs the messages of levels 0 .. most_level over chunks of `chunk` bytes and fills seconds, work, carried and use.
 * The simulator's bounds are set. */
BANYAN_CHECK enum banyan_status by_run(const struct by_simulator *simulator, const struct by_simulate_options *options,
                                       uint64_t chunk, uint32_t most_level, struct by_simulation *out);

#endif
