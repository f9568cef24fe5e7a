/* What a process's calls are like, for an agent or a manager: how many, of which
 * sizes, and how often they make an iteration. Counting costs a call some
 * instructions, so it is only done where somebody is told; under the context's
 * lock. Iterations begin where banyan_step says so; where nothing does, they
 * are found in the calls. */
#ifndef BY_COMMUNICATOR_OBSERVE_H
#define BY_COMMUNICATOR_OBSERVE_H

#include <banyan/types.h>

#include "call_period.h"

enum { BY_OBSERVED_SIZES = 64, BY_OBSERVED_TIMES = 7 };

struct by_observation {
  bool on;
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
/* Not to be called but by by_observe. */
void by_observe_wake(struct by_observation *observation);

/* A call begins, while this is on. `key`: which call of an iteration it is, see by_call_key. */
static inline void by_observe(struct by_observation *o, uint64_t key, uint64_t bytes, uint64_t now) {
  o->calls++;
  o->input += bytes;
  o->sizes[63 - __builtin_clzll(bytes | 1)]++;
  o->last = now;
  if (by_call_period_hear(&o->period, key)) o->turned = now;
  if (o->awake) by_observe_wake(o);
}

/* Iteration `step` begins. */
void by_observe_step(struct by_observation *observation, uint64_t step, uint64_t now);
/* How it stands; the time of the iterations since this was last asked enters the median. */
void by_observe_look(struct by_observation *observation, struct by_observed *out);

#endif
