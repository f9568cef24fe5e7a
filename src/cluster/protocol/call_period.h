/* Iterations, found from the calls that a job makes: the shortest stretch of
 * calls (kinds and bytes, in any order within it) that comes again and again.
 * A few odd calls are passed over; where the program changes, so does what is
 * found. A value: no I/O, no clock, no memory of its own beyond this struct;
 * each call takes a few instructions.
 *
 *   survey    which calls come again? The rarest of them becomes the mark.
 *   trial     do stretches from one mark to the m-th after it hold the same calls, three times in a row?
 *   found     each such stretch is an iteration, until three in a row are something else, or the mark stays away.
 *   alike     so is each call where all are the same; looked at now and then, since small calls are often such. */
#ifndef BY_CLUSTER_CALL_PERIOD_H
#define BY_CLUSTER_CALL_PERIOD_H

#include <stdbool.h>
#include <stdint.h>

enum { BY_CALL_SLOTS = 64, BY_CALL_MARKS = 64 };

struct by_call_place {
  uint64_t sum, calls; /* of all calls so far */
};

struct by_call_period {
  enum { BY_CALLS_SURVEYED, BY_CALLS_TRIED, BY_CALLS_FOUND, BY_CALLS_ALIKE } state;
  struct by_call_place now;
  uint64_t mark;       /* the key that bounds stretches, once there is one */
  uint64_t look_at;    /* calls after which to look though the mark did not come */
  uint64_t iterations; /* see by_call_period_iterations */
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

void by_call_period_init(struct by_call_period *period);
/* Not to be called but by by_call_period_hear. */
bool by_call_period_look(struct by_call_period *period, uint64_t key);

/* So many calls that are the same, one after the other; as if each were heard by itself, but faster. */
bool by_call_period_hear_many(struct by_call_period *period, uint64_t key, uint64_t n);

/* A call as one number. */
static inline uint64_t by_call_key(uint32_t kind, uint64_t bytes) {
  uint64_t x = (bytes ^ (uint64_t)kind << 48) * 0x9e3779b97f4a7c15ull;
  return (x ^ x >> 29) | 1;
}

/* One more call. True: an iteration ends here, and the next begins. Where calls are alike, this is said of some only.
 */
static inline bool by_call_period_hear(struct by_call_period *period, uint64_t key) {
  period->now.sum += key;
  period->now.calls++;
  if (key != period->mark && period->now.calls < period->look_at) return false;
  return by_call_period_look(period, key);
}

/* Iterations so far: once they are found, as many as there must have been since the first call. Never fewer than
 * before. */
static inline uint64_t by_call_period_iterations(const struct by_call_period *period) {
  bool alike = period->state == BY_CALLS_ALIKE;
  return period->iterations + (alike ? period->now.calls - period->begun.calls : 0);
}

#endif
