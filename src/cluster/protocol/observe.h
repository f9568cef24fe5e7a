/* What a process's calls are like, for an agent or a manager: how many, of which sizes, and how often they make an
 * iteration. Counting costs a call a few instructions, so it is done only if the job reports. The context's lock
 * protects it. Iterations begin with banyan_step; without it they are detected in the calls.
 *
 * An iteration is the shortest sequence of calls (kinds and bytes, in any order within it) that repeats. A few odd
 * calls are ignored; after the program changes, detection begins again. The detector is a value without I/O, clock or
 * memory beyond its struct.
 *
 *   SURVEYED  counts the kinds of calls; the rarest one that repeats becomes the mark, which bounds sequences.
 *   TRIED     checks whether sequences from one mark to the m-th after it hold the same calls, three times in a row.
 *   FOUND     counts each such sequence, until three in a row differ or the mark does not come any more.
 *   ALIKE     counts each call, as all are equal; it checks blocks of calls, since small calls are often equal. */
#ifndef BY_CLUSTER_PROTOCOL_OBSERVE_H
#define BY_CLUSTER_PROTOCOL_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

#include <banyan/types.h>

enum { BY_CALL_SLOTS = 64, BY_CALL_MARKS = 64 };

struct by_call_position {
  uint64_t sum, calls; /* Of all calls so far; the sum of their keys, modulo 2^64. */
};

struct by_iteration_detector {
  enum { BY_CALLS_SURVEYED, BY_CALLS_TRIED, BY_CALLS_FOUND, BY_CALLS_ALIKE } state;
  struct by_call_position now;
  uint64_t mark;       /* Key of the call that bounds sequences; 0: none. */
  uint64_t look_at;    /* Number of calls after which to check though the mark did not come. */
  uint64_t iterations; /* See by_iteration_detector_iterations. */
  uint64_t length;     /* Calls of an iteration; 0: unknown. */
  /* State SURVEYED. */
  uint64_t window, since; /* Number of calls to survey, and the call at which the survey began. */
  struct by_call_slot {
    uint64_t key, last; /* `last`: number of the last call with this key. */
    uint64_t apart;     /* Calls between the last two with this key. */
    uint32_t n, uneven; /* Calls with this key; how often their distance differed from the previous one. */
  } slots[BY_CALL_SLOTS];
  /* States TRIED and FOUND. */
  uint32_t multiple, max_marks, marks; /* Marks in a sequence, its maximum, and marks seen so far. */
  uint32_t attempts;
  struct by_call_position positions[BY_CALL_MARKS]; /* Positions of the last marks. */
  uint64_t reference;                               /* Sum of an iteration. */
  struct by_call_position begun;                    /* Start of the current sequence. */
  uint32_t bad;                                     /* Consecutive sequences that differed. */
  uint64_t found_at;
  uint64_t base, base_at; /* Iterations that are certain, and the calls that they took. */
};

void by_iteration_detector_init(struct by_iteration_detector *detector);
/* Handles a call that the inline function below cannot; only for by_iteration_detector_add. */
bool by_iteration_detector_look(struct by_iteration_detector *period, uint64_t key);

/* Adds n equal calls. The result is that of n single additions, but it is faster. */
bool by_iteration_detector_add_many(struct by_iteration_detector *period, uint64_t key, uint64_t n);

/* Returns a call's kind and bytes as one number. */
static inline uint64_t by_call_key(uint32_t kind, uint64_t bytes) {
  uint64_t x = (bytes ^ (uint64_t)kind << 48) * 0x9e3779b97f4a7c15ull;
  return (x ^ x >> 29) | 1;
}

/* Adds a call. Returns true if an iteration ends with it; of equal calls only for some. */
static inline bool by_iteration_detector_add(struct by_iteration_detector *period, uint64_t key) {
  period->now.sum += key;
  period->now.calls++;
  if (key != period->mark && period->now.calls < period->look_at) return false;
  return by_iteration_detector_look(period, key);
}

/* Returns the iterations so far. Once they are detected, earlier calls count, too. The number never decreases. */
static inline uint64_t by_iteration_detector_iterations(const struct by_iteration_detector *period) {
  bool alike = period->state == BY_CALLS_ALIKE;
  return period->iterations + (alike ? period->now.calls - period->begun.calls : 0);
}

enum { BY_OBSERVED_SIZES = 64, BY_OBSERVED_TIMES = 7 };

struct by_observation {
  bool on;
  uint64_t repeated, n_repeated;     /* The last call, as by_observe encodes it, and its uncounted repetitions. */
  uint64_t calls, input;             /* Number of calls, and bytes of their input. */
  uint64_t sizes[BY_OBSERVED_SIZES]; /* Calls of 2^i bytes up to twice as many; [0] includes calls of 0 bytes. */
  struct by_iteration_detector period;
  uint64_t steps, step;  /* How many times banyan_step was called, and its last number. */
  uint64_t last, turned; /* When the last call and the last iteration began, in ns, accurate to some milliseconds. */
  /* Times of the iterations, taken when a report asks for them. */
  uint64_t counted, counted_at;
  double times[BY_OBSERVED_TIMES];
  uint32_t n_times;
  /* Called once at the next call; NULL: nobody waits for it. */
  void (*on_next_call)(void *context);
  void *context;
};

/* A summary of the calls so far. */
struct by_observed {
  uint64_t calls, input, iterations;
  double iteration_time; /* Seconds, the median of the last iterations; 0: unknown. */
};

void by_observe_begin(struct by_observation *observation);
/* Slow paths of the inline functions; only for them. */
void by_observe_other(struct by_observation *observation, uint64_t call);
void by_observe_wake(struct by_observation *observation);

/* Counts a call of a collective. Small calls often repeat, so repetitions are counted first and processed later. */
static inline void by_observe(struct by_observation *o, enum banyan_collective collective, enum banyan_dtype dtype,
                              uint64_t count, uint64_t now) {
  uint64_t call = count << 8 | (uint64_t)collective << 4 | (uint64_t)dtype;
  o->last = now;
  if (call != o->repeated) by_observe_other(o, call);
  o->n_repeated++;
  if (o->on_next_call) by_observe_wake(o);
}
/* Counts another kind of call. `shape` is what stays the same in each iteration. */
void by_observe_odd(struct by_observation *observation, uint32_t kind, uint64_t shape, uint64_t bytes, uint64_t now);

/* Records that iteration `step` begins. */
void by_observe_step(struct by_observation *observation, uint64_t step, uint64_t now);
/* If iterations are detected and all calls were of one communicator, which has started `started` calls: stores the
 * number of calls in an iteration, and the number of calls before the last one began. Returns false otherwise. */
bool by_observe_iteration(struct by_observation *observation, uint64_t started, uint64_t *began, uint64_t *period);
/* Stores the summary. The time of the iterations since the previous summary enters the median. */
void by_observe_look(struct by_observation *observation, struct by_observed *out);

#endif
