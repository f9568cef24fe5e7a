/* A context's timeline: when it is on, what its records are worth in rank 0's
 * time, and, at rank 0, the file. Words about it travel on the control
 * connections (control_timeline.c), those of rank 0 to all and of all to it:
 *
 *   rank 0              another
 *   ON      ----------> notes from now on; then measures the clocks, by
 *           <---------- PING, eight times
 *   PONG    ---------->
 *   ...
 *           <---------- every half second or later: PING again, then RECORDS
 *   OFF     ----------> notes no more, measures the clocks again, and sends
 *           <---------- RECORDS ..., END
 *   TAKEN   ---------->
 *
 * Who leaves before OFF does as if it had come. What rank 0 hears goes to the
 * file at once, so that it keeps none of it. */
#ifndef BY_COMMUNICATOR_TIMELINE_PARTS_H
#define BY_COMMUNICATOR_TIMELINE_PARTS_H

#include "timeline_file.h"
#include "timeline_word.h"

struct by_context;
struct by_watch;

enum { BY_TIMELINE_PINGS = 8 };

/* The clocks' difference, as measured at one time. */
struct by_clock_point {
  uint64_t at;     /* this process's time; 0: not measured */
  uint64_t offset; /* rank 0's time less this process's, modulo 2^64 */
  uint64_t error;  /* ns that it may be off */
};

enum by_timeline_phase {
  BY_TIMELINE_IDLE,    /* none is kept */
  BY_TIMELINE_KEPT,    /* it is on */
  BY_TIMELINE_CLOSING, /* rank 0: waits for others; others: measure once more */
  BY_TIMELINE_SENT     /* others: rank 0 has not said yet that it has all */
};

struct by_timeline {
  _Atomic int phase; /* changed on the loop's thread, but by a start */
  uint64_t most;     /* records that rank 0 takes from each at the end */
  uint64_t from;     /* the oldest record of this process that may still have to be written or sent */
  /* others */
  struct by_clock_point points[2];
  uint32_t point, pings, looks;
  uint64_t error; /* ns that the times sent so far may be off */
  /* rank 0 */
  struct by_timeline_file *file;
  bool *told;                /* by process: all of it has come */
  enum banyan_status status; /* of the file */
  char text[512];
  int bell;                    /* rings when a signal comes, see timeline_signal.c; */
  struct by_watch *bell_watch; /* NULL: none is waited for */
};

/* A measurement more: the point keeps the one that took least. */
void by_clock_point_add(struct by_clock_point *point, uint64_t sent, uint64_t theirs, uint64_t now);
/* Whether both have the same clock is known: then a difference that is no larger than its error is none. */
void by_clock_point_same(struct by_clock_point *point);
/* Rank 0's time at this one: between two points as if the difference grew evenly. */
uint64_t by_clock_points_apply(const struct by_clock_point points[2], uint64_t at);

/* The context's records in rank 0's time, oldest first. */
struct by_timeline_reel {
  struct by_tracer *tracer;
  const struct by_clock_point *points; /* two; NULL: it is rank 0's time */
  uint64_t next, end;
  uint64_t skip, left; /* how many to leave out, and then how many to give at most */
  uint64_t open;       /* the oldest one given that has not ended; 0: none */
  uint64_t missing;
};
/* Those that were not given before: a limited number of the oldest ones, or, at the end, `most` of the newest. */
void by_timeline_reel_begin(struct by_timeline_reel *reel, struct by_context *context, bool at_end);
/* False: that was all. */
bool by_timeline_reel_next(struct by_timeline_reel *reel, struct by_trace_record *out);
/* What was given need not be given again. */
void by_timeline_reel_end(const struct by_timeline_reel *reel, struct by_timeline *timeline);
/* How long to wait between two times that records are written or sent, in ns. */
uint64_t by_timeline_period(const struct by_context *context);

/* Any thread, rank 0: begins one, or ends it and waits until it is written. */
BANYAN_CHECK enum banyan_status by_timeline_begin(struct by_context *context, const char *path);
BANYAN_CHECK enum banyan_status by_timeline_end(struct by_context *context);
/* The same without waiting for it. */
BANYAN_CHECK enum banyan_status by_timeline_close(struct by_context *context);
/* Before this process leaves the job: what it has noted goes to rank 0, or into the file. */
void by_timeline_leave(struct by_context *context);
/* Rank 0, on the loop's thread: puts what is new of its own into the file. */
void by_timeline_write_new(struct by_context *context);
/* Rank 0, on the loop's thread or where there is none: puts its own records into the file and closes it. */
void by_timeline_finish(struct by_context *context);

/* timeline_signal.c; rank 0, where BANYAN_TIMELINE_SIGNAL asks for it. Before the loop's thread begins, and after it
 * has ended. */
BANYAN_CHECK enum banyan_status by_timeline_signal_open(struct by_context *context);
void by_timeline_signal_close(struct by_context *context);

#endif
