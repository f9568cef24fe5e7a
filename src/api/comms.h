/* The communicators of the program, with all that higher modules keep of one. Under the context's lock. */
#ifndef BY_API_COMMS_H
#define BY_API_COMMS_H

#include "comm.h"

/* Like by_comm_make; and takes what other ranks have sent to it already. */
BANYAN_CHECK enum banyan_status by_comm_open(struct by_context *context, uint32_t team_id, uint32_t rank, uint32_t n,
                                             const uint32_t *processes, struct banyan_comm **out);
/* Frees it, which is not the last of the job, unless the caller holds the context. */
void by_comm_close(struct banyan_comm *comm);

#endif
