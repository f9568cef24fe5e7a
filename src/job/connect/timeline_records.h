/* The records of a tracer in rank 0's time, and how that is known: from how two clocks differ, which is measured by
 * messages that go there and back; and these messages. Values; no I/O. */
#ifndef BY_JOB_CONNECT_TIMELINE_RECORDS_H
#define BY_JOB_CONNECT_TIMELINE_RECORDS_H

#include "bytes.h"
#include "trace.h"

/* The clocks' difference, as measured at one time. */
struct by_clock_point {
  uint64_t at;     /* this process's time; 0: not measured */
  uint64_t offset; /* rank 0's time less this process's, modulo 2^64 */
  uint64_t error;  /* ns that it may be off */
};

/* A measurement more: the point keeps the one that took least. */
void by_clock_point_add(struct by_clock_point *point, uint64_t sent, uint64_t theirs, uint64_t now);
/* Whether both have the same clock is known: then a difference that is no larger than its error is none. */
void by_clock_point_same(struct by_clock_point *point);
/* Rank 0's time at this one: between two points as if the difference grew evenly. */
uint64_t by_clock_points_apply(const struct by_clock_point points[2], uint64_t at);

/* Records of a tracer, oldest first. */
struct by_timeline_reel {
  struct by_tracer *tracer;
  const struct by_clock_point *points; /* two; NULL: it is rank 0's time */
  uint64_t next, end;
  uint64_t skip;               /* how many to leave out first */
  uint64_t left, left_open;    /* how many that have ended may be given, and how many that have not */
  uint64_t open;               /* the oldest one met that has not ended; 0: none */
  uint64_t given, given_ended; /* since the caller last cleared them: how many, and how many of these had ended */
  uint64_t missing;
};

/* From record `from` on: of the oldest ones, at most so many that have ended, and as many that have not. */
void by_timeline_reel_begin(struct by_timeline_reel *reel, struct by_tracer *tracer,
                            const struct by_clock_point *points, uint64_t from, uint64_t most);
/* At the end, after by_timeline_reel_begin: `most` of the newest instead. */
void by_timeline_reel_keep_newest(struct by_timeline_reel *reel, uint64_t most);
/* False: that was all. */
bool by_timeline_reel_next(struct by_timeline_reel *reel, struct by_trace_record *out);
/* What was given since the caller cleared `given` and `given_ended` could not be sent. Those that have not ended are
 * given again, but at the end; returns how many have ended, which are lost. */
uint64_t by_timeline_reel_lose(struct by_timeline_reel *reel);
/* The first record that may have to be given again, as it has not ended or has not been given. */
uint64_t by_timeline_reel_resume(const struct by_timeline_reel *reel);

/* Messages about timelines, as bytes: a kind (u8) and
 *
 *   ON, OFF     rank 0's: how many records it takes from each (u64)
 *   PING        a rank's: its time (u64)
 *   PONG        rank 0's answer: that, and its own time (u64)
 *   RECORDS     a rank's: a list of records, in rank 0's time
 *   END         a rank's: that was all; how many are missing (u64), how far its clock may be off (u64, ns), and for
 *               each state the totals (3 u64)
 *   TAKEN       rank 0's answer */
enum by_timeline_kind {
  BY_TIMELINE_ON = 1,
  BY_TIMELINE_OFF,
  BY_TIMELINE_PING,
  BY_TIMELINE_PONG,
  BY_TIMELINE_RECORDS,
  BY_TIMELINE_END,
  BY_TIMELINE_TAKEN
};

struct by_timeline_message {
  enum by_timeline_kind kind;
  uint64_t most;           /* ON, OFF */
  uint64_t sent, now;      /* PING, PONG */
  uint32_t n;              /* RECORDS: to be read one by one */
  uint64_t missing, error; /* END */
  struct by_trace_totals totals[BY_TRACE_STATES];
};

/* All but records. */
void by_timeline_message_write(struct by_writer *writer, const struct by_timeline_message *message);
void by_timeline_write_record(struct by_writer *writer, const struct by_trace_record *record);

/* Leaves the reader before the first record. BANYAN_ERR_PROTOCOL. */
BANYAN_CHECK enum banyan_status by_timeline_message_read(struct by_reader *reader, struct by_timeline_message *out);
/* False: that is none, or there is none. */
bool by_timeline_read_record(struct by_reader *reader, struct by_trace_record *out);

#endif
