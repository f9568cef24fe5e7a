/* Receives from any rank. Under the context's lock. */
#ifndef BY_API_ANY_H
#define BY_API_ANY_H

#include "comm.h"

/* Gives such receives the messages that have come. True if one got its own. */
bool by_any_advance(struct by_context *context);
/* To be called before the communicator's team is destroyed. */
void by_any_forget(struct banyan_comm *comm);

#endif
