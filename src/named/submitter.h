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

/* Bytes; a larger operation starts as a call of its own, which costs less than copying it. Must be the same on all
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

/* An operation. Objects are reused. */
struct by_submitted {
  struct banyan_request request; /* Handle of the caller. */
  struct by_submitter *owner;
  LIST_ENTRY(by_submitted) entry; /* In the owner's list of open or of spare operations. */
  char name[BY_OPERATION_NAME + 1];
  struct by_operation operation;
  enum by_submitted_state state;
  int priority;
  uint64_t deadline;
  uint64_t limit;            /* Time until which it waits for other ranks (ns). */
  uint64_t trace;            /* Its record in the tracer; 0 if it has none. */
  struct banyan_call *calls; /* Copies of the calls; their counts are in `counts`. */
  size_t n_calls, calls_room;
  size_t *counts, counts_room;
  struct by_sparse_exchange **exchanges; /* Sparse exchanges; an entry is NULL once it has ended. */
  size_t n_sparse, sparse_room;
  size_t left;    /* Number of calls and exchanges that have not ended. */
  uint64_t group; /* Bytes of the group whose first operation it is; UINT64_MAX if it is not the first. */
  enum banyan_status status;
  uint32_t number; /* Number of operations that started before it. */
  char *text;      /* Text of its error; NULL if memory was exhausted. */
};

/* A call of the engine: AllReduces of operations, one behind the other; or one call of any kind. */
struct by_flight {
  LIST_ENTRY(by_flight) entry; /* In the owner's list of running or of spare flights. */
  struct by_call *call;
  struct by_piece {
    struct by_submitted *submitted;
    const struct banyan_call *call;
  } * pieces;
  size_t n, room;
  struct by_fuse_buffer *buffer; /* Buffer from which results are copied; NULL if they are in place. */
};

/* Contiguous memory for pieces that are not contiguous in the program's memory. */
struct by_fuse_buffer {
  LIST_ENTRY(by_fuse_buffer) entry; /* In the owner's list of free buffers. */
  struct by_region *region;
};

struct by_submitter {
  struct banyan_comm *comm; /* NULL once it is destroyed, while operations have not been released yet. */
  struct by_submit_log log; /* Names the communicator in which operations run, and whether this rank is the root. */
  struct by_job *job;
  struct by_controller *controller;
  struct by_neighbour {
    uint32_t process, rank;
  } * neighbours; /* Senders of the controller's messages. */
  uint32_t n_neighbours;
  struct { /* State of submitted.c. */
    LIST_HEAD(, by_submitted) open, spare;
    uint32_t taken; /* Operations that callers have not released. */
  } operations;
  struct { /* State of flight.c. */
    LIST_HEAD(, by_flight) running, spare;
    LIST_HEAD(, by_fuse_buffer) buffers;
    uint32_t exchanges; /* Number of running exchanges. */
  } flights;
  uint32_t id;       /* Number of the inner communicator, also used in its control messages. */
  bool dirty;        /* The controller may have messages to send. */
  uint64_t deadline; /* Earliest limit of a waiting operation (ns). */
  struct by_still {  /* Detects that nothing starts while operations wait. */
    uint64_t since;  /* Time of the last start, or since when the first operation waits (ns). */
    uint64_t after;  /* Interval after which members are asked again (ns). */
    uint64_t at;     /* Time at which members are asked next (ns); UINT64_MAX if not. */
  } still;
  struct banyan_negotiation counts;
  uint32_t started;          /* Number of operations started; the order is the same on all ranks. */
  struct by_history history; /* History of operations, by the number started before each. */
};

/* ---- submitted.c */

void by_submitted_set_state(struct by_submitted *s, enum by_submitted_state to);
/* Ends an operation. If `text` is NULL, it has the text of the thread's last error. */
void by_submitted_end(struct by_submitted *s, enum banyan_status status, const char *text);
/* Notes that a part of an operation has ended with this status and the thread's error text; the last part ends the
 * operation. */
void by_submitted_part_ended(struct by_submitted *s, enum banyan_status status);
/* Grows an array to `wanted` elements of `each` bytes. */
BANYAN_CHECK enum banyan_status by_submitter_make_room(struct by_submitter *owner, void **memory, size_t *room,
                                                       size_t wanted, size_t each);
/* Frees a submitter whose communicator and operations are gone. */
void by_submitter_free(struct by_submitter *owner);

enum { BY_REPORT_TEXT = 1024 };
/* Fails the job, with `what` and the thread's last error. */
void by_submitter_fail(struct by_submitter *owner, enum banyan_status status, const char *what);

/* ---- flight.c */

/* Starts operations as one group, as the callback `start` of by_controller_config. `submitter` is a struct
 * by_submitter. */
void by_submit_start(void *submitter, void *const *operations, uint32_t n);
/* Ends operations whose calls have ended. Returns true if any call has. */
bool by_submit_collect(struct by_submitter *owner);
/* Frees flights and buffers, once all calls have ended and no more will start. */
void by_flights_fini(struct by_submitter *owner);

/* ---- submitter.c */

/* Returns the communicator's submitter. If necessary, creates one, without an inner communicator. */
BANYAN_CHECK enum banyan_status by_submitter_need(struct banyan_comm *comm, struct by_submitter **out);

/* Notes that an operation has started, or that the first one begins to wait. */
void by_submitter_note_start(struct by_submitter *owner, uint64_t now);

/* ---- control_place.c */

/* Makes the control tree of a plan. NULL makes the first tree, which is the same on all ranks whatever plans they use.
 * The caller frees out->up, which also holds out->down. */
BANYAN_CHECK enum banyan_status by_control_place_tree(const struct banyan_comm *comm, const struct by_plan *plan,
                                                      struct by_controller_tree *out);

#endif
