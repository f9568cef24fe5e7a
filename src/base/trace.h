/* What happens to operations, and when: a ring of records, one for each operation or call, in which the time of each
 * state is noted. While it is off, each of these costs a call and a branch. While it is
 * on nothing is allocated; the oldest records make room for new ones. Any thread, but for create and destroy. */
#ifndef BY_BASE_TRACE_H
#define BY_BASE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "clock.h"
#include "fail.h"

/* In this order; some are passed over. A named operation is submitted and negotiated; a call is queued, on the wire
 * (its first byte goes or comes), adding, done. Several operations may be done by one call. */
enum by_trace_state {
  BY_TRACE_SUBMITTED,
  BY_TRACE_NEGOTIATED,
  BY_TRACE_QUEUED,
  BY_TRACE_WIRE,
  BY_TRACE_ADDING,
  BY_TRACE_DONE,
  BY_TRACE_STATES
};

enum { BY_TRACE_NAME = 255, BY_TRACE_RECORDS = 1 << 16 };

struct by_traced {
  const char *name; /* NULL: none */
  uint64_t bytes;
  uint32_t team, call; /* the communicator's number, the call's in it */
  uint8_t collective;
};

struct by_tracer_ring;

struct by_tracer {
  _Atomic bool on;
  struct by_tracer_ring *ring; /* NULL: never on so far */
};

/* One that is never on. */
extern struct by_tracer by_tracer_off;

/* --- while running --- */

/* A record begins, in this state. 0: it is off; the others take that as nothing to do. */
uint64_t by_trace_begin(struct by_tracer *tracer, const struct by_traced *what, enum by_trace_state state);
/* It comes into this state now, unless it has been there. */
void by_trace(struct by_tracer *tracer, uint64_t id, enum by_trace_state state);
/* This call, a record of its own, does the operation; what becomes of it becomes of the operation. */
void by_trace_through(struct by_tracer *tracer, uint64_t id, uint64_t call);
/* It has been adding since then (by_clock_system), and is not any more. */
void by_trace_added(struct by_tracer *tracer, uint64_t id, uint64_t since);
void by_trace_ended(struct by_tracer *tracer, uint64_t id, enum banyan_status status);

/* --- on and off, and what was noted --- */

/* Begins anew, with no records. Already on: goes on. BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_tracer_start(struct by_tracer *tracer);
/* No more records; what is noted stays. */
void by_tracer_stop(struct by_tracer *tracer);
/* Frees the records. */
void by_tracer_fini(struct by_tracer *tracer);

/* A record, with the data of its call. */
struct by_trace_record {
  uint64_t id;
  uint64_t bytes;
  uint64_t at[BY_TRACE_STATES]; /* ns; 0: it was not in this state, or is not yet */
  uint64_t added;               /* when it last was adding; 0: never */
  uint64_t adding;              /* ns that it was, in all */
  uint32_t team, call;
  uint8_t collective, status;
  bool has_call; /* else it is one that has only been submitted */
  char name[BY_TRACE_NAME + 1];
};

/* Since it was last started: numbers of the first record that is still there and of the next that will be, and how many
 * were overwritten before they were taken. */
void by_tracer_range(struct by_tracer *tracer, uint64_t *first, uint64_t *next, uint64_t *dropped);
/* Gives each record that has ended only once; one that has not ended may be given again. False: it is not there any
 * more, was given, or is reported by the operations that the call did. */
bool by_tracer_take(struct by_tracer *tracer, uint64_t id, struct by_trace_record *out);
/* How many records by_tracer_take would give for these numbers, from <= number < to. */
uint64_t by_tracer_count_untaken(struct by_tracer *tracer, uint64_t from, uint64_t to);

/* Of all records since the context began, for each state that a record has left. */
struct by_trace_totals {
  uint64_t n, bytes, ns;
};
void by_tracer_totals(struct by_tracer *tracer, struct by_trace_totals out[BY_TRACE_STATES]);
/* "submitted", ... */
const char *by_trace_state_name(enum by_trace_state state);

#endif
