/* Receives from any rank, which are requests until their message has come. Under the context's lock. */
#ifndef BY_JOB_CALLS_H
#define BY_JOB_CALLS_H

#include "comm.h"

/* Gives arrived messages to receives from any rank. Returns true if one got its message. */
bool by_any_advance(struct by_job *job);
/* Forgets the communicator's receives from any rank; called before its team is destroyed. */
void by_any_forget(struct banyan_comm *comm);

#endif
