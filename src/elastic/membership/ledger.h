/* A ledger: what became of a process's calls in a membership that has ended. The members of the next one exchange
 * theirs, and compare them: so each learns which calls completed on all of them, on some, or on none.
 *
 * A ledger consists of series, one for each sequence of calls that members number alike: the calls of a communicator,
 * and the operations that were submitted to it. All calls of a series that began have completed, but for those that are
 * noted as failed. Other notes only describe calls. Pure values, no I/O. */
#ifndef BY_ELASTIC_MEMBERSHIP_LEDGER_H
#define BY_ELASTIC_MEMBERSHIP_LEDGER_H

#include <banyan/interrupted.h>

#include "bytes.h"
#include "history.h"
#include "membership.h"

enum by_ledger_kind { BY_LEDGER_CALLS, BY_LEDGER_OPERATIONS };

struct by_ledger_note {
  uint32_t number;
  /* BY_HISTORY_WAITED is an operation that failed before it started and has no number. */
  enum by_history_outcome outcome;
  uint8_t collective, dtype;
  uint8_t sparse;
  uint32_t root;
  uint64_t count;
  const char *name; /* Name of the operation, borrowed; "" if it has none. */
};

struct by_ledger_series {
  uint8_t kind; /* An enum by_ledger_kind. */
  uint32_t communicator;
  uint32_t size, rank; /* Size of the communicator, and this process's rank in it. */
  uint32_t begun;      /* Number of the next call; numbers wrap. */
  uint32_t n_notes;
  struct by_ledger_note *notes;
};

/* The encoded bytes of a ledger that is being written. Zero-initialised, it is empty. */
struct by_ledger {
  uint8_t *data;
  size_t length, room;
  size_t notes; /* Offset of the last series' number of notes. */
  uint32_t n_series;
  bool lacks; /* Memory was exhausted, so some calls are missing. */
};

void by_ledger_fini(struct by_ledger *ledger);
/* Adds a series without its notes, which are added next. `notes` and `n_notes` are ignored. */
void by_ledger_add_series(struct by_ledger *ledger, const struct by_ledger_series *series);
void by_ledger_add_note(struct by_ledger *ledger, const struct by_ledger_note *note);
/* Adds notes for all calls of a history. If a call has several notes, the first one counts. */
void by_ledger_add_history(struct by_ledger *ledger, const struct by_history *history);

/* A ledger that was read. */
struct by_ledger_view {
  struct by_ledger_series *series;
  uint32_t n_series;
};

/* Reads a ledger; series and names are allocated in the arena. Returns BANYAN_ERR_PROTOCOL if it is malformed, or
 * BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_ledger_read(const void *bytes, size_t length, struct by_arena *arena,
                                               struct by_ledger_view *out);

/* Compares the ledgers of processes that were in one membership. ranks[i] is the rank in the new membership of the
 * process from which views[i] comes; -1 if it is no member, and then its outcome is absent. Lists in the arena the
 * calls that did not complete on all processes with a ledger of the communicator; the result does not depend on the
 * order of the views. Contradictory ledgers of a communicator are ignored. May return BANYAN_ERR_NO_MEMORY. Cost: for
 * each communicator, processes times notes times calls that differ. */
BANYAN_CHECK enum banyan_status by_ledger_compare(const struct by_ledger_view *views, const int *ranks,
                                                  uint32_t n_views, struct by_arena *arena,
                                                  struct banyan_interrupted **out, size_t *n);

/* ---- ledger_pool.c: the ledgers that a member holds, its own of ended memberships and those that others have sent.
 * Members of a new membership send each other all that they hold, and compare those of each membership.
 *
 * A process that dies meanwhile may make that fail on some. Therefore a barrier follows. A member that completes it
 * knows that all members hold the same ledgers, decides by them, and drops them. A member on which it fails keeps them,
 * sends them to the members of the membership after that, and decides by the same. No I/O. */

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
  BY_CALL_WITHDRAWN,  /* Like BY_CALL_AGAIN, but newcomers cannot repeat the call, so it is not repeated. */
  BY_CALL_UNKNOWN     /* The comparison has no ledger of the membership: an earlier comparison decided about it. */
};

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
/* Drops all ledgers: once all members are known to hold and to have compared them, and at the end. */
void by_ledger_pool_drop(struct by_ledger_pool *pool);

#endif
