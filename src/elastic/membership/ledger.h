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
  enum by_history_outcome outcome; /* WAITED: an operation that failed before it started; it has no number */
  uint8_t collective, dtype;
  uint8_t sparse;
  uint32_t root;
  uint64_t count;
  const char *name; /* "": it has none. Borrowed */
};

struct by_ledger_series {
  uint8_t kind; /* enum by_ledger_kind */
  uint32_t communicator;
  uint32_t size, rank; /* of the communicator, and in it */
  uint32_t begun;      /* the number of the next call; numbers wrap */
  uint32_t n_notes;
  struct by_ledger_note *notes;
};

/* The bytes of one, as they grow. All zeros is an empty one. */
struct by_ledger {
  uint8_t *data;
  size_t length, room;
  size_t notes; /* where the last series has its number of notes */
  uint32_t n_series;
  bool lacks; /* there was no memory for all of it */
};

void by_ledger_fini(struct by_ledger *ledger);
/* Adds a series; its notes follow. `notes` and `n_notes` are ignored. */
void by_ledger_add_series(struct by_ledger *ledger, const struct by_ledger_series *series);
void by_ledger_add_note(struct by_ledger *ledger, const struct by_ledger_note *note);
/* All of a history; of several notes of one call the first one counts. */
void by_ledger_add_history(struct by_ledger *ledger, const struct by_history *history);

/* What was read of one. */
struct by_ledger_view {
  struct by_ledger_series *series;
  uint32_t n_series;
};

/* The series go to the arena, names are borrowed from it too. BANYAN_ERR_PROTOCOL: malformed; _NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_ledger_read(const void *bytes, size_t length, struct by_arena *arena,
                                               struct by_ledger_view *out);

/* Compares the ledgers of processes that were in one membership: ranks[i] is the rank in a new one of the process that
 * views[i] comes from, -1: it is not in there, and its outcome is given as absent. The calls that did not complete on
 * all of them that have a ledger of the communicator; in the arena, and the same whatever the order of the views.
 * Ledgers of a communicator that contradict each other count as none. BANYAN_ERR_NO_MEMORY. Cost: for each
 * communicator, processes times notes times the calls that differ. */
BANYAN_CHECK enum banyan_status by_ledger_compare(const struct by_ledger_view *views, const int *ranks,
                                                  uint32_t n_views, struct by_arena *arena,
                                                  struct banyan_interrupted **out, size_t *n);

#endif
