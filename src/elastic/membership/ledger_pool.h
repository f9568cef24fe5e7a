/* The ledgers that a member holds: its own, of memberships that have ended, and those that others have sent it. Members
 * of a new membership send each other all that they hold, and compare those of each membership.
 *
 * A process that dies meanwhile may make that fail on some. Therefore a barrier follows. Whoever completes it knows
 * that all members hold the same ledgers, decides by them, and drops them. Whoever fails in it holds them on, sends
 * them to the members of the membership after that, and decides by the same. No I/O. */
#ifndef BY_ELASTIC_MEMBERSHIP_LEDGER_POOL_H
#define BY_ELASTIC_MEMBERSHIP_LEDGER_POOL_H

#include "ledger.h"

/* Zero-initialised, it is empty. */
struct by_ledger_pool {
  struct by_held_ledger *first; /* The oldest ledger comes first. */
};

/* The result of a comparison, in an arena. */
struct by_interrupted_calls {
  struct banyan_interrupted *calls;
  uint64_t *memberships; /* Number of the membership of each call. */
  size_t n;
  struct by_ended_membership { /* Ended memberships of which this process had a ledger. */
    uint64_t number;
    bool newcomers; /* The new membership has members that were not in this one. */
  } * ended;
  size_t n_ended;
};

/* What a process does with an interrupted call. */
enum by_verdict {
  BY_CALL_HAS_RESULT, /* The call completed on all members, so its result is valid. */
  BY_CALL_AGAIN,      /* The call completed on no process that could have continued, so it is repeated. */
  BY_CALL_WITHDRAWN   /* Like BY_CALL_AGAIN, but newcomers cannot repeat the call, so it is not repeated. */
};

void by_ledger_pool_fini(struct by_ledger_pool *pool);
/* Holds this process's ledger of the membership with this number; `self` is its fingerprint. Returns
 * BANYAN_ERR_NO_MEMORY also if the ledger lacks some calls. */
BANYAN_CHECK enum banyan_status by_ledger_pool_keep(struct by_ledger_pool *pool, const struct by_ledger *ledger,
                                                    uint64_t membership, const struct by_fingerprint *self);
/* Encoded bytes of all ledgers: for each one, the process's fingerprint, the membership's number and a blob. */
size_t by_ledger_pool_length(const struct by_ledger_pool *pool);
void by_ledger_pool_write(const struct by_ledger_pool *pool, struct by_writer *writer);
/* Holds the ledgers that another process has written. May return BANYAN_ERR_PROTOCOL or BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_ledger_pool_take(struct by_ledger_pool *pool, const void *bytes, size_t length);
/* Compares the ledgers of each membership of which this process has one. `formed` is the new membership, which defines
 * the ranks. Returns BANYAN_ERR_PROTOCOL if a ledger is malformed, or BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_ledger_pool_compare(const struct by_ledger_pool *pool,
                                                       const struct by_membership *formed, struct by_arena *arena,
                                                       struct by_interrupted_calls *out);
/* Decides about call `number` of a communicator in a membership, where processes confirmed each call after it
 * completed; `begun` says whether this process began it. All processes with a ledger of the membership come to the same
 * verdict. */
enum by_verdict by_interrupted_calls_judge(const struct by_interrupted_calls *calls, uint64_t membership,
                                           uint32_t communicator, uint32_t number, bool begun);
/* Whether a call of this communicator is withdrawn that others had begun, but not the process that now has `rank`. */
bool by_interrupted_calls_lack(const struct by_interrupted_calls *calls, uint32_t communicator, uint32_t rank);
/* Drops all ledgers, once all members are known to hold and to have compared them. */
void by_ledger_pool_drop(struct by_ledger_pool *pool);

#endif
