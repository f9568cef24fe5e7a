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

#endif
