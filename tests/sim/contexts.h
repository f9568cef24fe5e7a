/* A rank's context over an engine of a world: what joining makes of a process, without sockets and threads. The test
 * drives: nothing waits, as there is nobody to wake it. */
#ifndef BY_TESTS_SIM_CONTEXTS_H
#define BY_TESTS_SIM_CONTEXTS_H

#include "context.h"
#include "world.h"

/* Ranks are on so many hosts, in turn. */
void context_make(struct by_context *context, const struct world *world, uint32_t rank, uint32_t hosts);
/* Ends its communicators, before the world goes. */
void context_end_comms(struct by_context *context);
/* After it. */
void context_fini(struct by_context *context);

#endif
