/* Receives from any rank, which are requests until their message has come. Under the context's lock. */
#ifndef BY_JOB_CALLS_H
#define BY_JOB_CALLS_H

#include "comm.h"

/* Gives receives from any rank the messages that have come. True if one got its own. */
bool by_any_advance(struct by_context *context);
/* To be called before the communicator's team is destroyed. */
void by_any_forget(struct banyan_comm *comm);

#endif
