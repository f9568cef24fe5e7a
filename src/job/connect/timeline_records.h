/* The records of a tracer in rank 0's time, the difference of two clocks, which is measured by messages that go there
 * and back, and these messages. Values; no I/O. */
#ifndef BY_JOB_CONNECT_TIMELINE_RECORDS_H
#define BY_JOB_CONNECT_TIMELINE_RECORDS_H

#include "bytes.h"
#include "trace.h"

/* The clocks' difference, as measured at one time. */
struct by_clock_point {
  uint64_t at;     /* This process's time of the measurement; 0: not measured. */
  uint64_t offset; /* Rank 0's time minus this process's, in nanoseconds modulo 2^64. */
  uint64_t error;  /* The maximum error of `offset` in nanoseconds. */
};

/* Adds a measurement. The point keeps the measurement with the shortest round trip. */
void by_clock_point_add(struct by_clock_point *point, uint64_t sent, uint64_t theirs, uint64_t now);
/* Notes that both processes have the same clock, so that an offset within its error becomes 0. */
void by_clock_point_same(struct by_clock_point *point);
/* Converts this process's time to rank 0's, interpolating the offset linearly between two points. */
uint64_t by_clock_points_apply(const struct by_clock_point points[2], uint64_t at);

/* Records of a tracer, oldest first. */
struct by_timeline_reel {
  struct by_tracer *tracer;
  const struct by_clock_point *points; /* Two points; NULL: the records are in rank 0's time already. */
  uint64_t next, end;
  uint64_t skip;            /* The number of records to leave out first. */
  uint64_t left, left_open; /* The numbers of ended and of open records that may still be given. */
  uint64_t open;            /* The oldest record found that has not ended; 0: none. */
  uint64_t given,
      given_ended; /* Records given since the caller last cleared these, and those of them that had ended. */
  uint64_t missing;
};

/* Begins with record `from`: gives at most `most` of the oldest records that have ended, and as many that have not. */
void by_timeline_reel_begin(struct by_timeline_reel *reel, struct by_tracer *tracer,
                            const struct by_clock_point *points, uint64_t from, uint64_t most);
/* Gives `most` of the newest records instead, at the end of a timeline. Call it after by_timeline_reel_begin. */
void by_timeline_reel_keep_newest(struct by_timeline_reel *reel, uint64_t most);
/* Returns the next record, or false if there are no more. */
bool by_timeline_reel_next(struct by_timeline_reel *reel, struct by_trace_record *out);
/* Notes that the records given since the caller cleared `given` and `given_ended` could not be sent. Those that have
 * not ended are given again later. Returns the number of those that had ended, which are lost. */
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
  uint64_t most;           /* ON, OFF: the maximum of records from each process at the end. */
  uint64_t sent, now;      /* PING, PONG: the sender's time, and rank 0's, in nanoseconds. */
  uint32_t n;              /* RECORDS: the number of records, which by_timeline_read_record reads. */
  uint64_t missing, error; /* END: the number of missing records; the maximum clock error in nanoseconds. */
  struct by_trace_totals totals[BY_TRACE_STATES];
};

/* Writes a message, except for its records. */
void by_timeline_message_write(struct by_writer *writer, const struct by_timeline_message *message);
void by_timeline_write_record(struct by_writer *writer, const struct by_trace_record *record);

/* Reads a message up to its first record. BANYAN_ERR_PROTOCOL. */
BANYAN_CHECK enum banyan_status by_timeline_message_read(struct by_reader *reader, struct by_timeline_message *out);
/* Reads a record. Returns false if it is malformed or missing. */
bool by_timeline_read_record(struct by_reader *reader, struct by_trace_record *out);

#endif
