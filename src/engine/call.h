/* Calls: a schedule's steps, and the messages and buffers that they work on.
 * A call's steps advance through a queue: whatever moves a step queues the
 * steps that depend on it. A call object belongs to its program, which uses it
 * again, so that a call in steady state allocates nothing. */
#ifndef BY_ENGINE_CALL_H
#define BY_ENGINE_CALL_H

#include <assert.h>

#include <banyan/collectives.h>

#include "reduce.h"
#include "schedule.h"
#include "team.h"
#include "transfer_link.h"

/* The life of a call, which by_call_set_state alone changes:
 *
 *    IDLE --> FILLED --> RUNNING --> ENDED --> IDLE
 *               '-------------------------------^
 *
 * A call that cannot begin returns to IDLE. */
enum by_call_state {
  BY_CALL_IDLE,    /* Its program keeps it for a later call. */
  BY_CALL_FILLED,  /* It was taken for a user's call, or for a part of one, and has not begun. */
  BY_CALL_RUNNING, /* Its steps advance. */
  BY_CALL_ENDED,   /* It has a status. Others may still refer to it. */
};

struct by_state {
  uint64_t at, end; /* Bytes of the layout; the step is done where at == end. */
  bool queued, done;
};

/* What happens to a call of recovery, or to one that is counted, in place of ending when its steps are done. */
struct by_call_ops {
  void (*done)(struct by_call *call);  /* All its steps are done. */
  void (*ended)(struct by_call *call); /* It has ended; may be NULL. */
  void (*freed)(struct by_call *call); /* It is being freed; may be NULL. */
};

struct by_call {
  struct by_exchange exchange; /* Must be the first member. */
  enum by_call_state state;
  struct by_call *sibling;  /* The next call in the program's list of all calls. */
  LIST_ENTRY(by_call) next; /* In the program's list of idle calls, or in the runner's list of running ones. */
  STAILQ_ENTRY(by_call) ready_next;
  LIST_ENTRY(by_call) listed; /* In the team's list of running sends and receives, or in that of a helper's calls. */
  struct by_program *program;
  const struct by_schedule *schedule;
  struct by_team *team;
  uint64_t kind; /* The kind of the team's calls that descriptor, bounds and the like were filled for; 0: none. */
  char *buffer[BY_BUFFERS];
  void *user_recv;     /* Where the user wants the block of an in-place call. */
  uint64_t user_bytes; /* The bytes to copy to user_recv at the end; 0: none. */
  uint64_t *bounds;
  size_t bounds_count; /* The count for which bounds[] was filled; SIZE_MAX: none. */
  size_t bounds_element;
  struct by_state *states;
  struct by_out *outs;
  struct by_in *ins;
  uint32_t *work; /* A ring of the steps that may be able to advance. */
  uint32_t work_first, work_n;
  uint32_t steps_left;
  uint32_t n_ins;
  by_kernel_reduce_fn reduce;
  uint32_t element_shift;
  uint32_t divisor; /* The sum is divided by this; 0: it is not divided. */
  uint64_t deadline;
  uint64_t seen; /* When by_engine_check_deadlines first found it under way; 0: it has not. */
  void *scratch; /* Memory for BY_BUFFER_TMP and its size, kept for the next call. */
  size_t scratch_bytes;
  enum banyan_status status;
  const struct by_call_ops *ops;      /* NULL: the call ends when its steps are done. */
  struct by_recoverable *recoverable; /* Its parts; NULL: it has none. Recovery owns them. */
  struct by_call *whole;              /* The call of which this one is a part; NULL: it is no part. */
  LIST_ENTRY(by_call) due_next;       /* In recovery's list of calls whose steps are done. */
  bool released, ready, relay, due;   /* relay: a helper passes it on for other ranks. */
  bool grants;                        /* Messages are granted ahead when it starts. */
  uint8_t barrier_byte;
  struct by_arena arena; /* Holds bounds, states, messages and work. */
};

static inline struct by_call *by_call_of(const struct by_exchange *exchange) {
  return (struct by_call *)(uintptr_t)exchange;
}

static inline struct by_runner *by_call_runner(const struct by_call *call) {
  return by_runner_of(call->exchange.transfer);
}

static inline bool by_call_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  return (const char *)a < (const char *)b + b_bytes && (const char *)b < (const char *)a + a_bytes;
}

/* Logs at debug level. It is out of line, since every call passes four states. */
void by_call_log_state(const struct by_call *call, enum by_call_state state);

static inline void by_call_set_state(struct by_call *call, enum by_call_state state) {
  static const uint8_t next[] = {[BY_CALL_IDLE] = 1 << BY_CALL_FILLED,
                                 [BY_CALL_FILLED] = 1 << BY_CALL_RUNNING | 1 << BY_CALL_IDLE,
                                 [BY_CALL_RUNNING] = 1 << BY_CALL_ENDED,
                                 [BY_CALL_ENDED] = 1 << BY_CALL_IDLE};
  assert(next[call->state] & 1 << state);
  if (by_call_runner(call)->logs) by_call_log_state(call, state);
  call->state = state;
}

/* The running call of a frame on this link, or the whole of which that call is a part; NULL: there is none. */
struct by_call *by_call_find(const struct by_team *team, const struct by_frame *frame, uint32_t rank);
/* Whether the call still has to send to the peer at this link, or a message from there is missing. */
bool by_call_awaits(const struct by_call *call, const struct by_transfer_link *link,
                    bool (*is_missing)(const struct by_in *in));
const char *by_call_describe(const struct by_frame *descriptor, char *text, size_t capacity);

/* Fills a call with that of a user: descriptor, bounds, buffers, scratch. `kind`: see struct by_call. */
BANYAN_CHECK enum banyan_status by_call_fill(struct by_call *call, const struct banyan_call *user, uint64_t kind,
                                             uint64_t deadline);
/* Fills a part, or the call of other ranks in a helper; its buffers begin with piece 0. */
BANYAN_CHECK enum banyan_status by_call_fill_part(struct by_call *call, const struct banyan_call *user, char *send,
                                                  char *recv);
void by_call_begin(struct by_call *call, const char *name); /* `name` is for timelines; NULL: none. */
/* Ends the call, or leaves that to its ops: all steps are done. */
void by_call_done(struct by_call *call);
void by_call_end(struct by_call *call, enum banyan_status status);
/* Gives the object back once nothing refers to it. */
void by_call_drop(struct by_call *call);
void by_call_free(struct by_call *call);
/* Describes the calls of a team that ended last, as completed ones. */
void by_call_report_history(const struct by_team *team, struct by_history *to);
/* Ends the calls of a team. Afterwards only users that have not released them refer to them. */
void by_calls_end(struct by_team *team);
/* Makes *memory, of *have bytes, at least `bytes` large. Its contents are lost. */
BANYAN_CHECK enum banyan_status by_call_need(struct by_runner *runner, void **memory, size_t *have, size_t bytes);

#endif
