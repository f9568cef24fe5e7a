/* Messages about timelines, as bytes: a kind (u8) and
 *
 *   ON, OFF     rank 0's: how many records it takes from each (u64)
 *   PING        a rank's: its time (u64)
 *   PONG        rank 0's answer: that, and its own time (u64)
 *   RECORDS     a rank's: a list of records, in rank 0's time
 *   END         a rank's: that was all; how many are missing (u64), how far its clock may be off (u64, ns), and for
 *               each state the totals (3 u64)
 *   TAKEN       rank 0's answer */
#ifndef BY_JOB_TIMELINE_TIMELINE_MESSAGE_H
#define BY_JOB_TIMELINE_TIMELINE_MESSAGE_H

#include "bytes.h"
#include "trace.h"

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
