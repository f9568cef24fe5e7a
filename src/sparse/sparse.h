/* Sparse calls of communicators. A communicator's first call makes its queue of exchanges. Under the context's lock. */
#ifndef BY_SPARSE_SPARSE_H
#define BY_SPARSE_SPARSE_H

#include <banyan/sparse.h>

#include "feature.h"

struct by_sparse_exchange;

extern const struct by_feature by_sparse_feature;

/* Checks a call, without the lock. */
BANYAN_CHECK enum banyan_status by_sparse_call_check(const struct banyan_comm *comm,
                                                     const struct banyan_sparse_call *call);
/* Takes an exchange for by_sparse_prepare. */
BANYAN_CHECK enum banyan_status by_comm_take_exchange(struct banyan_comm *comm, struct by_sparse_exchange **out);
/* Returns how often exchanges of the context's communicators have progressed so far. */
uint64_t by_sparse_count_moves(const struct by_job *job);

#endif
