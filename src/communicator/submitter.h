/* What a communicator submits: its controller, the operations that wait or are
 * under way, and the calls that they become. Operations run in a communicator
 * of their own with the same members, since nobody knows when they start
 * between the direct calls of this one.
 *
 *   submit.c            what programs call
 *   submit_operation.c  one operation, from its call to its end
 *   submit_start.c      groups that start become calls; calls that end, ends of operations
 *   submit_fuse.c       several AllReduces as one call
 *   submit_letters.c    controllers, their letters and clocks
 *   submit_tree.c       who stands where in the control tree
 *   submit_report.c     what is said of refusals and stalls
 *
 * All of it is under the lock of the context. */
#ifndef BY_COMMUNICATOR_SUBMITTER_H
#define BY_COMMUNICATOR_SUBMITTER_H

#include <banyan/submit.h>

#include "context.h"
#include "controller.h"

/* What is larger than this starts by itself: a call of its own costs less than copying it in and out. The same on all
 * ranks. */
enum { BY_FUSE_EACH = 64 << 10 };

enum by_submitted_state { BY_SUBMITTED_WAITS, BY_SUBMITTED_RUNS, BY_SUBMITTED_ENDED };

/* An operation. Objects are used again. */
struct by_submitted {
  struct banyan_request request; /* the caller's handle */
  struct by_submitter *owner;
  struct by_submitted *next, **back; /* in the owner's list of those that have not ended; or the next spare one */
  char name[BY_OPERATION_NAME + 1];
  struct by_operation operation;
  enum by_submitted_state state;
  uint64_t deadline;
  uint64_t limit; /* until when it waits for others at most */
  /* whether its deadline has passed, and who has been asked for the reason */
  enum { BY_LATE_NOT, BY_LATE_ROOT_ASKED, BY_LATE_RANK_0_ASKED } late;
  uint64_t trace;            /* its record in the tracer; 0: none */
  struct banyan_call *calls; /* copied, with their counts */
  size_t n_calls, calls_room;
  size_t *counts, counts_room;
  struct by_sparse_exchange **exchanges; /* NULL: it has ended */
  size_t n_sparse, sparse_room;
  size_t left;    /* calls and exchanges that have not ended */
  uint64_t group; /* bytes of the group whose first it is; UINT64_MAX: it is not the first of one */
  enum banyan_status status;
  char *text; /* of its error; NULL: there is no memory for it */
};

/* A call of the engine: AllReduces of operations, one behind the other; or one call of any kind. */
struct by_flight {
  struct by_flight *next;
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
  struct by_fuse_buffer *next;
  struct by_region *region;
};

struct by_submitter {
  struct banyan_comm *comm;  /* NULL: it is gone, and this waits for its last operation to be given back */
  struct banyan_comm *inner; /* where operations run; NULL: nothing has been submitted here */
  struct by_context *context;
  struct by_controller *controller;
  struct by_neighbour {
    uint32_t process, rank;
  } * neighbours; /* whom letters come from */
  uint32_t n_neighbours;
  struct by_submitted *open, *spare;
  struct by_flight *flights, *spare_flights;
  struct by_fuse_buffer *buffers; /* free ones */
  uint32_t taken;                 /* operations in callers' hands */
  uint32_t sparse_running;        /* exchanges */
  uint32_t id;                    /* the inner communicator's number, which its letters carry too */
  bool root;
  bool dirty;        /* the controller may have something to say */
  uint64_t deadline; /* no operation's limit is before it */
  struct banyan_negotiation counts;
};

/* ---- submit_operation.c */

/* A new operation, or one that was given back. NULL: out of memory. */
struct by_submitted *by_submitted_take(struct by_submitter *owner);
/* Checks and copies the calls; `deadline` is the communicator's, in nanoseconds. Exchanges are not prepared yet. */
BANYAN_CHECK enum banyan_status by_submitted_fill(struct by_submitted *s, const char *name,
                                                  const struct banyan_submission *submission, uint64_t deadline);
/* From now on it is one of those that have not ended. */
void by_submitted_open(struct by_submitted *s);
/* Ends it; without a text, with that of the thread's last error. */
void by_submitted_end(struct by_submitted *s, enum banyan_status status, const char *text);
/* A part of it has ended, with this status and the thread's error text; the last part ends it. */
void by_submitted_part_ended(struct by_submitted *s, enum banyan_status status);
/* Its status; the thread's error text is set if that is not BANYAN_OK. */
enum banyan_status by_submitted_result(const struct by_submitted *s);
/* Gives it back: it has ended, or was never opened. */
void by_submitted_release(struct by_submitted *s);
/* Frees a submitter whose communicator and operations are gone. */
void by_submitter_free(struct by_submitter *owner);

/* ---- submit_start.c */

void by_submit_start(struct by_submitter *owner, void *const *operations, uint32_t n);
/* Ends operations whose calls have ended. True if any did. */
bool by_submit_collect(struct by_submitter *owner);

/* ---- submit_fuse.c */

/* Makes one call of a flight's AllReduces, which are of one type and operation: where they lie one behind the other
 * it reads and writes them there, else in a buffer, into which they are copied. */
BANYAN_CHECK enum banyan_status by_fuse(struct by_submitter *owner, struct by_flight *flight, struct banyan_call *out);
/* The call has ended: copies what is not in place yet, if it went well, and takes the buffer back. */
void by_unfuse(struct by_submitter *owner, struct by_flight *flight, bool well);
/* What may start as one call within an operation: from `first` on, so many. */
size_t by_fuse_run(const struct by_submitted *s, size_t first, uint64_t most);
void by_fuse_buffers_free(struct by_submitter *owner);

/* ---- submit_letters.c */

/* The communicator's submitter, made if need be, without an inner communicator. */
BANYAN_CHECK enum banyan_status by_submitter_need(struct banyan_comm *comm, struct by_submitter **out);
void by_submitter_fail(struct by_submitter *owner, enum banyan_status status, const char *what);

/* ---- submit_tree.c */

/* A rank's place: whom it tells what is ready, and whom it hears from what starts. */
struct by_control_place {
  uint32_t up, down; /* parents; of the root: itself */
  uint32_t n_up, n_down;
  uint32_t *up_children, *down_children;
};
BANYAN_CHECK enum banyan_status by_control_place_find(const struct banyan_comm *comm, struct by_control_place *out);
void by_control_place_fini(struct by_control_place *place);

/* ---- submit_report.c */

enum { BY_REPORT_TEXT = 1024 };
/* Why nobody starts an operation that ranks have submitted differently. */
void by_report_refusal(const struct banyan_comm *comm, const struct by_refusal *refusal, char text[BY_REPORT_TEXT]);
/* Adds whether a rank has left, so that it will never submit anything. */
void by_report_left(const struct banyan_comm *comm, char text[BY_REPORT_TEXT]);
/* Who lacks an operation, and what they have in common. */
void by_report_stall(const struct banyan_comm *comm, const struct by_stall *stall, char text[BY_REPORT_TEXT]);

#endif
