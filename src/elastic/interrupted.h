/* What became of the calls that a change of members interrupted: how the members of a new membership exchange their
 * ledgers, and copy results. One thread at a time. */
#ifndef BY_ELASTIC_INTERRUPTED_H
#define BY_ELASTIC_INTERRUPTED_H

#include <banyan/interrupted.h>

#include "comm.h"
#include "ledger_pool.h"

/* Zero-initialised, it is empty. */
struct by_interrupted {
  struct by_ledger_pool pool;
  struct by_arena arena; /* Holds the memory of `found`. */
  struct by_interrupted_calls found;
  /* Others had begun a call that this process has not made, and that cannot be repeated, since newcomers are members.
   */
  bool withdrawn;
  /* Communicator of the current membership for exchanges among members; NULL without a membership. */
  struct banyan_comm *inner;
};

void by_interrupted_fini(struct by_interrupted *interrupted);
/* Keeps the ledger of a membership that has ended on this process; its job `before` has been retired. `self` is this
 * process. May return BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_interrupted_keep(struct by_interrupted *interrupted, struct by_job *before,
                                                    const struct by_fingerprint *self);
/* Exchanges ledgers with all members of the new membership, and compares them. Blocks for at most about `timeout`
 * seconds. On failure the new membership has failed. */
BANYAN_CHECK enum banyan_status by_interrupted_exchange(struct by_interrupted *interrupted, struct banyan_comm *comm,
                                                        double timeout);
/* See banyan_member_copy_result. */
BANYAN_CHECK enum banyan_status by_interrupted_copy(const struct by_interrupted *interrupted,
                                                    const struct banyan_interrupted *call, void *result, size_t bytes,
                                                    double timeout);

#endif
