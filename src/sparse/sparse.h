/* Sparse calls of communicators: the first makes a queue of exchanges. Under the context's lock. */
#ifndef BY_SPARSE_SPARSE_H
#define BY_SPARSE_SPARSE_H

#include <banyan/sparse.h>

#include "comm.h"

struct by_sparse_exchange;

/* Without the lock. */
BANYAN_CHECK enum banyan_status by_sparse_call_check(const struct banyan_comm *comm,
                                                     const struct banyan_sparse_call *call);
/* An exchange for by_sparse_prepare. */
BANYAN_CHECK enum banyan_status by_comm_take_exchange(struct banyan_comm *comm, struct by_sparse_exchange **out);
/* Goes on with sparse calls whose parts have ended. True if anything was done. */
bool by_sparse_calls_advance(struct by_context *context);
/* Whether rows are being merged without the lock, after which a call goes on. */
bool by_sparse_calls_have_work(const struct by_context *context);

#endif
