/* The ledgers that a member holds: its own, of memberships that have ended, and those that others have sent it. Members
 * of a new membership send each other all that they hold, and compare those of each membership.
 *
 * A process that dies meanwhile may make that fail on some. Therefore a barrier follows. Whoever completes it knows
 * that all members hold the same ledgers, decides by them, and drops them. Whoever fails in it holds them on, sends
 * them to the members of the membership after that, and decides by the same. No I/O. */
#ifndef BY_ELASTIC_MEMBERSHIP_LEDGER_POOL_H
#define BY_ELASTIC_MEMBERSHIP_LEDGER_POOL_H

#include "ledger.h"

/* All zeros is an empty one. */
struct by_ledger_pool {
  struct by_held_ledger *first; /* oldest first */
};

/* What was compared, in an arena. */
struct by_interrupted_calls {
  struct banyan_interrupted *calls;
  uint64_t *memberships; /* the number of each one's membership */
  size_t n;
  struct by_ended_membership { /* Ended memberships of which this process had a ledger. */
    uint64_t number;
    bool newcomers; /* The new membership has members that were not in this one. */
  } * ended;
  size_t n_ended;
};

/* What is to become of a call that was interrupted. */
enum by_verdict {
  BY_CALL_HAS_RESULT, /* it completed on all */
  BY_CALL_AGAIN,      /* it completed on no process that could have gone on from it */
  BY_CALL_WITHDRAWN   /* the same, and newcomers could have no part in making it again */
};

void by_ledger_pool_fini(struct by_ledger_pool *pool);
/* Holds this process's ledger of the membership of this number; `self` is its fingerprint. BANYAN_ERR_NO_MEMORY, also
 * if the ledger lacks some of its calls. */
BANYAN_CHECK enum banyan_status by_ledger_pool_keep(struct by_ledger_pool *pool, const struct by_ledger *ledger,
                                                    uint64_t membership, const struct by_fingerprint *self);
/* Bytes of all that are held: of each the process's fingerprint, the membership's number, and a blob. */
size_t by_ledger_pool_length(const struct by_ledger_pool *pool);
void by_ledger_pool_write(const struct by_ledger_pool *pool, struct by_writer *writer);
/* Holds what another process has written. BANYAN_ERR_PROTOCOL, _NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_ledger_pool_take(struct by_ledger_pool *pool, const void *bytes, size_t length);
/* Compares the ledgers of each membership of which this process has one; `formed` says which processes have which ranks
 * now. BANYAN_ERR_PROTOCOL: one is malformed; _NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_ledger_pool_compare(const struct by_ledger_pool *pool,
                                                       const struct by_membership *formed, struct by_arena *arena,
                                                       struct by_interrupted_calls *out);
/* Of a call of a communicator that processes confirmed once it had completed, with this number in that membership;
 * `begun`: on this process. All processes with a ledger of the membership come to the same verdict. */
enum by_verdict by_interrupted_calls_judge(const struct by_interrupted_calls *calls, uint64_t membership,
                                           uint32_t communicator, uint32_t number, bool begun);
/* Whether others had begun a call of this communicator that the process that has `rank` now had not, and that is
 * withdrawn. */
bool by_interrupted_calls_lack(const struct by_interrupted_calls *calls, uint32_t communicator, uint32_t rank);
/* All members are known to have all of them, and they were compared. */
void by_ledger_pool_drop(struct by_ledger_pool *pool);

#endif
