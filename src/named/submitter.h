/* What is submitted to a communicator: its controller, the operations that wait or run, and the calls that they become.
 * Operations run in a communicator of their own with the same members, because their place among the direct calls of
 * this one is not known.
 *
 * All of it is under the lock of the context. */
#ifndef BY_NAMED_SUBMITTER_H
#define BY_NAMED_SUBMITTER_H

#include <sys/queue.h>

#include <banyan/submit.h>

#include "controller.h"
#include "named.h"
#include "plan_switch.h"
#include "request.h"

/* What is larger than this starts by itself: a call of its own costs less than copying it in and out. The same on all
 * ranks. */
enum { BY_FUSE_EACH = 64 << 10 };

/* An operation's life; by_submitted_set_state alone changes it.
 *
 *   FREE          -> WAITS         it is submitted
 *   WAITS         -> ROOT_ASKED    its deadline has passed: the root of the controllers is asked why
 *   ROOT_ASKED    -> RANK_0_ASKED  the root has not answered
 *   these three   -> RUNS          all ranks have submitted it
 *   all but FREE  -> ENDED
 *   FREE, ENDED   -> FREE          it is given back */
enum by_submitted_state {
  BY_SUBMITTED_FREE,
  BY_SUBMITTED_WAITS,
  BY_SUBMITTED_ROOT_ASKED,
  BY_SUBMITTED_RANK_0_ASKED,
  BY_SUBMITTED_RUNS,
  BY_SUBMITTED_ENDED
};

/* An operation. Objects are used again. */
struct by_submitted {
  struct banyan_request request; /* the caller's handle */
  struct by_submitter *owner;
  LIST_ENTRY(by_submitted) entry; /* in the owner's list of those that have not ended, or of spare ones */
  char name[BY_OPERATION_NAME + 1];
  struct by_operation operation;
  enum by_submitted_state state;
  int priority;
  uint64_t deadline;
  uint64_t limit;            /* until when it waits for others at most */
  uint64_t trace;            /* its record in the tracer; 0: none */
  struct banyan_call *calls; /* copied, with their counts */
  size_t n_calls, calls_room;
  size_t *counts, counts_room;
  struct by_sparse_exchange **exchanges; /* NULL: it has ended */
  size_t n_sparse, sparse_room;
  size_t left;    /* calls and exchanges that have not ended */
  uint64_t group; /* bytes of the group whose first it is; UINT64_MAX: it is not the first of one */
  enum banyan_status status;
  uint32_t number; /* how many had started before it */
  char *text;      /* of its error; NULL: there is no memory for it */
};

/* A call of the engine: AllReduces of operations, one behind the other; or one call of any kind. */
struct by_flight {
  LIST_ENTRY(by_flight) entry; /* in the owner's list of those under way, or of spare ones */
  struct by_call *call;
  struct by_piece {
    struct by_submitted *submitted;
    const struct banyan_call *call;
  } * pieces;
  size_t n, room;
  struct by_fuse_buffer *buffer; /* what results are copied from; NULL: they are in place */
};

/* Where pieces lie together that do not do so in the program's memory. */
struct by_fuse_buffer {
  LIST_ENTRY(by_fuse_buffer) entry; /* in the owner's list of free ones */
  struct by_region *region;
};

struct by_submitter {
  struct banyan_comm *comm; /* NULL: it is gone, and this waits for its last operation to be given back */
  struct by_submit_log log; /* the communicator in which operations run, and whether this rank is the root */
  struct by_job *job;
  struct by_controller *controller;
  struct by_neighbour {
    uint32_t process, rank;
  } * neighbours; /* the senders of its control messages */
  uint32_t n_neighbours;
  struct { /* submitted.c */
    LIST_HEAD(, by_submitted) open, spare;
    uint32_t taken; /* in callers' hands */
  } operations;
  struct { /* flight.c */
    LIST_HEAD(, by_flight) running, spare;
    LIST_HEAD(, by_fuse_buffer) buffers;
    uint32_t exchanges; /* that are running */
  } flights;
  uint32_t id;       /* the inner communicator's number, which its control messages carry too */
  bool dirty;        /* the controller may have something to send */
  uint64_t deadline; /* no operation's limit is before it */
  struct by_still {  /* still.c */
    uint64_t since;  /* when an operation has started last, or the first one began to wait */
    uint64_t after;  /* then members are asked again */
    uint64_t at;     /* when; UINT64_MAX: not */
  } still;
  struct banyan_negotiation counts;
  uint32_t started;          /* operations; in the same order on all ranks */
  struct by_history history; /* of operations, by how many had started before them */
};

/* ---- submitted.c */

void by_submitted_set_state(struct by_submitted *s, enum by_submitted_state to);
/* Ends it; without a text, with that of the thread's last error. */
void by_submitted_end(struct by_submitted *s, enum banyan_status status, const char *text);
/* A part of it has ended, with this status and the thread's error text; the last part ends it. */
void by_submitted_part_ended(struct by_submitted *s, enum banyan_status status);
/* Makes room for so many elements of `each` bytes. */
BANYAN_CHECK enum banyan_status by_submitter_make_room(struct by_submitter *owner, void **memory, size_t *room,
                                                       size_t wanted, size_t each);
/* Frees a submitter whose communicator and operations are gone. */
void by_submitter_free(struct by_submitter *owner);

enum { BY_REPORT_TEXT = 1024 };
/* Fails the job, with `what` and the thread's last error. */
void by_submitter_fail(struct by_submitter *owner, enum banyan_status status, const char *what);

/* ---- flight.c */

/* Starts operations as one; see by_controller_config. `submitter`: a struct by_submitter. */
void by_submit_start(void *submitter, void *const *operations, uint32_t n);
/* Ends operations whose calls have ended. True if any did. */
bool by_submit_collect(struct by_submitter *owner);
/* All calls have ended, and no more will start. */
void by_flights_fini(struct by_submitter *owner);

/* ---- submitter.c */

/* The communicator's submitter, made if need be, without an inner communicator. */
BANYAN_CHECK enum banyan_status by_submitter_need(struct banyan_comm *comm, struct by_submitter **out);

/* ---- still.c */

/* Something has started, or begins to wait where nothing did. */
void by_submitter_note_start(struct by_submitter *owner, uint64_t now);
/* Has the neighbours in the control tree asked whether they run, if something waits and nothing has started for long.
 */
void by_submitter_ask_if_still(struct by_submitter *owner, uint64_t now);

/* ---- control_place.c */

/* The control tree that goes with a plan, or, with NULL, the first one, which all ranks make without asking each other,
 * whatever their plans have come to. The caller frees out->up, which holds both ways. */
BANYAN_CHECK enum banyan_status by_control_place_tree(const struct banyan_comm *comm, const struct by_plan *plan,
                                                      struct by_controller_tree *out);

#endif
