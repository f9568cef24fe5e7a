/* What a process's calls are like, for an agent or a manager: how many, of which
 * sizes, and how often they make an iteration. Counting costs a call some
 * instructions, so it is only done where this is reported; under the context's
 * lock. Iterations begin with banyan_step; where nothing calls it, they
 * are found in the calls.
 *
 * Iterations, found from the calls that a job makes: the shortest stretch of
 * calls (kinds and bytes, in any order within it) that comes again and again.
 * A few odd calls are passed over; where the program changes, so does what is
 * found. A value: no I/O, no clock, no memory of its own beyond this struct;
 * each call takes a few instructions.
 *
 *   survey    which calls come again? The rarest of them becomes the mark.
 *   trial     do stretches from one mark to the m-th after it hold the same calls, three times in a row?
 *   found     each such stretch is an iteration, until three in a row are something else, or the mark stays away.
 *   alike     so is each call where all are the same; looked at now and then, since small calls are often such. */
#ifndef BY_CLUSTER_PROTOCOL_OBSERVE_H
#define BY_CLUSTER_PROTOCOL_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

#include <banyan/types.h>

enum { BY_CALL_SLOTS = 64, BY_CALL_MARKS = 64 };

struct by_call_place {
  uint64_t sum, calls; /* of all calls so far */
};

struct by_iteration_detector {
  enum { BY_CALLS_SURVEYED, BY_CALLS_TRIED, BY_CALLS_FOUND, BY_CALLS_ALIKE } state;
  struct by_call_place now;
  uint64_t mark;       /* the key that bounds stretches, once there is one */
  uint64_t look_at;    /* calls after which to look though the mark did not come */
  uint64_t iterations; /* see by_iteration_detector_iterations */
  uint64_t length;     /* calls of one; 0: not found */
  /* survey */
  uint64_t window, since; /* so many calls, from that one on */
  struct by_call_slot {
    uint64_t key, last; /* the call that it came in */
    uint64_t apart;     /* from the one before */
    uint32_t n, uneven; /* how often; and how often it was farther apart, or nearer, than before */
  } slots[BY_CALL_SLOTS];
  /* trial, and found */
  uint32_t multiple, most, marks; /* marks of one stretch; how many it may have; seen so far */
  uint32_t attempts;
  struct by_call_place places[BY_CALL_MARKS]; /* of the last marks */
  uint64_t reference;                         /* sum of an iteration */
  struct by_call_place begun;                 /* the stretch */
  uint32_t bad;                               /* stretches that were none, one after the other */
  uint64_t found_at;
  uint64_t base, base_at; /* iterations that are certain, and calls that they took */
};

void by_iteration_detector_init(struct by_iteration_detector *period);
/* Not to be called but by by_iteration_detector_add. */
bool by_iteration_detector_look(struct by_iteration_detector *period, uint64_t key);

/* So many calls that are the same, one after the other; as if each were counted by itself, but faster. */
bool by_iteration_detector_add_many(struct by_iteration_detector *period, uint64_t key, uint64_t n);

/* A call as one number. */
static inline uint64_t by_call_key(uint32_t kind, uint64_t bytes) {
  uint64_t x = (bytes ^ (uint64_t)kind << 48) * 0x9e3779b97f4a7c15ull;
  return (x ^ x >> 29) | 1;
}

/* One more call. True: an iteration ends here, and the next begins. Where calls are alike, this is true of some only.
 */
static inline bool by_iteration_detector_add(struct by_iteration_detector *period, uint64_t key) {
  period->now.sum += key;
  period->now.calls++;
  if (key != period->mark && period->now.calls < period->look_at) return false;
  return by_iteration_detector_look(period, key);
}

/* Iterations so far: once they are found, as many as there must have been since the first call. Never fewer than
 * before. */
static inline uint64_t by_iteration_detector_iterations(const struct by_iteration_detector *period) {
  bool alike = period->state == BY_CALLS_ALIKE;
  return period->iterations + (alike ? period->now.calls - period->begun.calls : 0);
}

enum { BY_OBSERVED_SIZES = 64, BY_OBSERVED_TIMES = 7 };

struct by_observation {
  bool on;
  uint64_t repeated, n_repeated;     /* the last call, as calls.c has it, and how often it came; counted later */
  uint64_t calls, input;             /* bytes */
  uint64_t sizes[BY_OBSERVED_SIZES]; /* calls of 2^i bytes up to twice as many; of none: with those of 1 */
  struct by_iteration_detector period;
  uint64_t steps, step;  /* banyan_step's, and the last one's number */
  uint64_t last, turned; /* when the last call began, and the last iteration; ns, to some milliseconds */
  /* the iterations' times, as they are asked for */
  uint64_t counted, counted_at;
  double times[BY_OBSERVED_TIMES];
  uint32_t n_times;
  /* called once with the next call; NULL: nothing waits for one */
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
bool by_observe_iteration(struct by_observation *observation, uint64_t started, uint64_t *began, uint64_t *period);
/* How it stands; the time of the iterations since this was last asked enters the median. */
void by_observe_look(struct by_observation *observation, struct by_observed *out);

#endif
