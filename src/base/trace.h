/* Records operations over time: a ring of records, one for each operation or call, with the time of each state. While
 * it is off, each function costs a call and a branch. While it is on nothing is allocated; new records replace the
 * oldest ones. Any thread, except for create and destroy. */
#ifndef BY_BASE_TRACE_H
#define BY_BASE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "clock.h"
#include "fail.h"

/* The order of states, some of which may be skipped. A named operation is submitted and negotiated; a call is queued,
 * on the wire (its first byte is sent or received), adding, done. One call may do several operations. */
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
  const char *name; /* NULL: none. */
  uint64_t bytes;
  uint32_t team, call; /* The communicator's number, and the call's in it. */
  uint8_t collective;
};

struct by_tracer_ring;

struct by_tracer {
  _Atomic bool on;
  struct by_tracer_ring *ring; /* NULL: it was never on. */
};

/* --- while running --- */

/* Begins a record in this state. Returns 0 if the tracer is off, which the functions below ignore. */
uint64_t by_trace_begin(struct by_tracer *tracer, const struct by_traced *what, enum by_trace_state state);
/* The record enters this state now, unless it has been there. */
void by_trace(struct by_tracer *tracer, uint64_t id, enum by_trace_state state);
/* The operation is done by this call, which has a record of its own: its states become the operation's. */
void by_trace_through(struct by_tracer *tracer, uint64_t id, uint64_t call);
/* The record was adding from `since` (by_clock_system) until now. */
void by_trace_added(struct by_tracer *tracer, uint64_t id, uint64_t since);
void by_trace_ended(struct by_tracer *tracer, uint64_t id, enum banyan_status status);

/* --- on and off, and what was noted --- */

/* Starts with no records. Does nothing if it is on. BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_tracer_start(struct by_tracer *tracer);
/* Stops recording; the records stay. */
void by_tracer_stop(struct by_tracer *tracer);
/* Frees the records. */
void by_tracer_fini(struct by_tracer *tracer);

/* A record, with the data of its call. */
struct by_trace_record {
  uint64_t id;
  uint64_t bytes;
  uint64_t at[BY_TRACE_STATES]; /* Nanoseconds; 0: it was not in this state, or is not yet. */
  uint64_t added;               /* When it was last adding; 0: never. */
  uint64_t adding;              /* The total of nanoseconds in which it was adding. */
  uint32_t team, call;
  uint8_t collective, status;
  bool has_call; /* Otherwise it has only been submitted. */
  char name[BY_TRACE_NAME + 1];
};

/* Since the last start: the numbers of the first record that still exists and of the next new one, and how many were
 * overwritten before they were taken. */
void by_tracer_range(struct by_tracer *tracer, uint64_t *first, uint64_t *next, uint64_t *dropped);
/* Takes a record: one that has ended only once, one that has not may be taken again. Returns false if it does not
 * exist any more, was taken, or is reported by the operations that the call did. */
bool by_tracer_take(struct by_tracer *tracer, uint64_t id, struct by_trace_record *out);
/* How many records by_tracer_take would return for these numbers, from <= number < to. */
uint64_t by_tracer_count_untaken(struct by_tracer *tracer, uint64_t from, uint64_t to);

/* Totals of all records since the context began, for each state that a record has left. */
struct by_trace_totals {
  uint64_t n, bytes, ns;
};
void by_tracer_totals(struct by_tracer *tracer, struct by_trace_totals out[BY_TRACE_STATES]);
/* The state's name: "submitted", ... */
const char *by_trace_state_name(enum by_trace_state state);

#endif
