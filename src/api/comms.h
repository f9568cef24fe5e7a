/* The communicators of the program, with all that higher modules keep of one; and what these modules do for a context:
 * progress, control messages and what the agent asks for. Under the context's lock. */
#ifndef BY_API_COMMS_H
#define BY_API_COMMS_H

#include "comm.h"

extern const struct by_context_events by_context_events;

/* Like by_comm_make; and takes what other ranks have sent to it already. */
BANYAN_CHECK enum banyan_status by_comm_open(struct by_context *context, uint32_t team_id, uint32_t rank, uint32_t n,
                                             const uint32_t *processes, struct banyan_comm **out);
/* Frees it, which is not the last of the job, unless the caller holds the context. */
void by_comm_close(struct banyan_comm *comm);

/* calls.c: gives receives from any rank the messages that have come. True if one got its own. */
bool by_any_advance(struct by_context *context);
/* To be called before the communicator's team is destroyed. */
void by_any_forget(struct banyan_comm *comm);

#endif
