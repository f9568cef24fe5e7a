/* What a process's calls are like, for an agent or a manager: how many, of which
 * sizes, and how often they make an iteration. Counting costs a call some
 * instructions, so it is only done where somebody is told; under the context's
 * lock. Iterations begin where banyan_step says so; where nothing does, they
 * are found in the calls. */
#ifndef BY_CLUSTER_PROTOCOL_OBSERVE_H
#define BY_CLUSTER_PROTOCOL_OBSERVE_H

#include <banyan/types.h>

#include "call_period.h"

enum { BY_OBSERVED_SIZES = 64, BY_OBSERVED_TIMES = 7 };

struct by_observation {
  bool on;
  uint64_t repeated, n_repeated;     /* the last call, as calls.c has it, and how often it came; counted later */
  uint64_t calls, input;             /* bytes */
  uint64_t sizes[BY_OBSERVED_SIZES]; /* calls of 2^i bytes up to twice as many; of none: with those of 1 */
  struct by_call_period period;
  uint64_t steps, step;  /* banyan_step's, and the last one's number */
  uint64_t last, turned; /* when the last call began, and the last iteration; ns, to some milliseconds */
  /* the iterations' times, as they are asked for */
  uint64_t counted, counted_at;
  double times[BY_OBSERVED_TIMES];
  uint32_t n_times;
  /* called once with the next call; NULL: nobody waits for one */
  void (*awake)(void *context);
  void *context;
};

/* What it is all about at one time. */
struct by_observed {
  uint64_t calls, input, iterations;
  double iteration_time; /* seconds, the median of the last ones; 0: not known */
};

void by_observe_begin(struct by_observation *observation);
/* Not to be called but by the two below. */
void by_observe_other(struct by_observation *observation, uint64_t call);
void by_observe_wake(struct by_observation *observation);

/* A call of a collective begins, while this is on. Small calls often come many times in a row: then that is counted. */
static inline void by_observe(struct by_observation *o, enum banyan_collective collective, enum banyan_dtype dtype,
                              uint64_t count, uint64_t now) {
  uint64_t call = count << 8 | (uint64_t)collective << 4 | (uint64_t)dtype;
  o->last = now;
  if (call != o->repeated) by_observe_other(o, call);
  o->n_repeated++;
  if (o->awake) by_observe_wake(o);
}
/* One of another sort. `shape`: what is the same of it in each iteration. */
void by_observe_odd(struct by_observation *observation, uint32_t kind, uint64_t shape, uint64_t bytes, uint64_t now);

/* Iteration `step` begins. */
void by_observe_step(struct by_observation *observation, uint64_t step, uint64_t now);
/* Where iterations are found in calls that are all of one communicator, which has started so many: calls of one, and
 * after how many the last one began, always at the same place of it. False: they are not. */
bool by_observe_beat(struct by_observation *observation, uint64_t started, uint64_t *began, uint64_t *period);
/* How it stands; the time of the iterations since this was last asked enters the median. */
void by_observe_look(struct by_observation *observation, struct by_observed *out);

#endif
