/* A rank's context over an engine of a simulated world: what joining creates in a process, without sockets and threads.
 * The test makes all progress. Functions do not wait because there is no thread that could wake them. */
#ifndef BY_TESTS_SIM_CONTEXTS_H
#define BY_TESTS_SIM_CONTEXTS_H

#include "job_life.h"
#include "job_state.h"
#include "world.h"

/* Makes a rank's context. Ranks are distributed over the hosts in turn. */
void context_make(struct by_job *job, const struct world *world, uint32_t rank, uint32_t hosts);
/* Destroys the context's communicators. Call this before the world is destroyed. */
void context_end_comms(struct by_job *job);
/* Destroys the context. Call this after the world is destroyed. */
void context_fini(struct by_job *job);

#endif
