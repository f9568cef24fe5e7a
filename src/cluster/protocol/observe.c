/* Detects the iterations of a job in its calls and measures how long they take; observe.h describes the states. */
#include "observe.h"

#include <string.h>
#include <sys/param.h>

#include "order.h"

enum {
  FIRST_WINDOW = 32,
  MIN_EQUAL = 64, /* Equal calls that must be seen before each of them is considered an iteration. */
  RARE = 64,      /* One of so many calls may be odd. */
  MAX_MARKS = 16, /* Maximum marks in an iteration. */
  TRIALS = 3,     /* Equal sequences that confirm an iteration. */
  ATTEMPTS = 8,   /* Trials before the survey gets longer. */
  OVERDUE = 4,    /* Iterations without a mark before detection ends. */
  MAX_BAD = 3,
  BLOCK = 64,    /* Equal calls are checked in blocks of so many. */
  CERTAIN = 1024 /* Equal calls after which another kind of call is a change of the program. */
};

#define MAX_WINDOW (1ull << 20)

_Static_assert(TRIALS *MAX_MARKS < BY_CALL_MARKS, "a trial looks back so far");

/* ---- survey */

static void start_survey(struct by_iteration_detector *p, uint64_t window) {
  p->state = BY_CALLS_SURVEYED;
  p->length = p->mark = p->look_at = 0;
  p->window = MIN(window, MAX_WINDOW);
  p->since = p->now.calls;
  memset(p->slots, 0, sizeof p->slots);
}

void by_iteration_detector_init(struct by_iteration_detector *detector) {
  *detector = (struct by_iteration_detector){0};
  start_survey(detector, FIRST_WINDOW);
}

/* A call that came only once may be the rarest one of a sequence that is longer than the survey. */
static bool is_conclusive(const struct by_iteration_detector *p) {
  uint64_t once = 0, kinds = 0;
  for (int i = 0; i < BY_CALL_SLOTS; i++) {
    once += p->slots[i].n == 1;
    kinds += p->slots[i].n > 0;
  }
  return once <= p->window / RARE && (kinds - once > 1 || p->window >= MIN_EQUAL);
}

/* Lower is better. If calls are shuffled, those at fixed positions come at even distances. */
static uint32_t rank_slot(const struct by_call_slot *slot, uint32_t rarest) {
  return slot->n < 2 || slot->n > rarest + 1 ? UINT32_MAX : slot->uneven;
}

/* Returns one of the rarest calls that repeat, the next one of equally good calls at each attempt; -1: none. */
static int choose_mark(const struct by_iteration_detector *p) {
  uint32_t rarest = UINT32_MAX - 1, best = UINT32_MAX, n = 0;
  for (int i = 0; i < BY_CALL_SLOTS; i++)
    if (p->slots[i].n >= 2 && p->slots[i].n < rarest) rarest = p->slots[i].n;
  for (int i = 0; i < BY_CALL_SLOTS; i++) {
    uint32_t rank = rank_slot(&p->slots[i], rarest);
    n = rank < best ? 1 : n + (rank == best);
    if (rank < best) best = rank;
  }
  if (best == UINT32_MAX) return -1;
  uint32_t skip = p->attempts % n;
  for (int i = 0; i < BY_CALL_SLOTS; i++)
    if (rank_slot(&p->slots[i], rarest) == best && skip-- == 0) return i;
  return -1;
}

static void survey_one(struct by_iteration_detector *p, uint64_t key) {
  struct by_call_slot *slot = &p->slots[key >> 1 & (BY_CALL_SLOTS - 1)];
  if (!slot->n) slot->key = key;
  if (slot->key == key) {
    uint64_t apart = p->now.calls - slot->last;
    slot->uneven += slot->n > 1 && apart != slot->apart;
    slot->apart = apart;
    slot->last = p->now.calls;
    slot->n++;
  }
  if (p->now.calls - p->since < p->window) return;
  int chosen = is_conclusive(p) ? choose_mark(p) : -1;
  if (chosen < 0) {
    start_survey(p, 2 * p->window);
    return;
  }
  p->state = BY_CALLS_TRIED;
  p->mark = p->slots[chosen].key;
  p->marks = 0;
  p->max_marks = MIN(p->slots[chosen].n, MAX_MARKS);
  p->look_at = p->now.calls + OVERDUE * p->window;
}

/* ---- trial */

static const struct by_call_position *position_before(const struct by_iteration_detector *p, uint32_t marks) {
  return &p->positions[(p->marks - 1 - marks) % BY_CALL_MARKS];
}

static bool is_equal(const struct by_iteration_detector *p, uint32_t multiple) {
  const struct by_call_position *a = position_before(p, 0), *b = position_before(p, multiple);
  uint64_t sum = a->sum - b->sum, calls = a->calls - b->calls;
  for (uint32_t i = 2; i <= TRIALS; i++) {
    a = b;
    b = position_before(p, i * multiple);
    if (a->sum - b->sum != sum || a->calls - b->calls != calls) return false;
  }
  return true;
}

static void begin_found(struct by_iteration_detector *p, uint32_t multiple) {
  const struct by_call_position *before = position_before(p, multiple);
  p->multiple = multiple;
  p->reference = p->now.sum - before->sum;
  p->length = p->now.calls - before->calls;
  p->begun = p->now;
  p->found_at = p->now.calls;
  p->marks = p->bad = p->attempts = 0;
  p->look_at = p->now.calls + OVERDUE * p->length;
  p->state = BY_CALLS_FOUND;
  if (p->length == 1) {
    p->state = BY_CALLS_ALIKE;
    p->mark = 0;
    p->look_at = p->now.calls + BLOCK;
  }
  uint64_t since = (p->now.calls - p->base_at) / p->length;
  if (p->base + since > p->iterations) p->iterations = p->base + since;
}

static bool try_mark(struct by_iteration_detector *p) {
  p->positions[p->marks++ % BY_CALL_MARKS] = p->now;
  for (uint32_t multiple = 1; multiple <= p->max_marks && TRIALS * multiple < p->marks; multiple++)
    if (is_equal(p, multiple)) {
      begin_found(p, multiple);
      return true;
    }
  if (p->marks < (TRIALS + 2) * p->max_marks + TRIALS) return false;
  start_survey(p, ++p->attempts % ATTEMPTS ? p->window : 2 * p->window);
  return false;
}

/* ---- found */

/* Begins again; the iterations so far stay counted. */
static void forget_iterations(struct by_iteration_detector *p) {
  p->base = p->iterations;
  p->base_at = p->now.calls;
  start_survey(p, FIRST_WINDOW);
}

static bool end_stretch(struct by_iteration_detector *p) {
  if (++p->marks < p->multiple) return false;
  p->bad = p->now.sum - p->begun.sum == p->reference ? 0 : p->bad + 1;
  p->marks = 0;
  p->begun = p->now;
  p->look_at = p->now.calls + OVERDUE * p->length;
  p->iterations++;
  if (p->bad < MAX_BAD) return true;
  forget_iterations(p);
  return false;
}

/* One odd call in a block is not part of an iteration. If another comes soon, the equal calls were part of a longer
 * iteration. */
static bool end_block(struct by_iteration_detector *p) {
  p->bad = p->now.sum - p->begun.sum == BLOCK * p->reference ? 0 : p->bad + 1;
  p->iterations += BLOCK;
  p->begun = p->now;
  p->look_at = p->now.calls + BLOCK;
  if (p->bad < 2) return true;
  if (p->now.calls - p->found_at > CERTAIN)
    forget_iterations(p);
  else
    start_survey(p, OVERDUE * BLOCK);
  return false;
}

bool by_iteration_detector_look(struct by_iteration_detector *period, uint64_t key) {
  bool is_other = key != period->mark;
  switch (period->state) {
  case BY_CALLS_SURVEYED: survey_one(period, key); return false;
  case BY_CALLS_ALIKE: return end_block(period);
  case BY_CALLS_TRIED:
    if (!is_other) return try_mark(period);
    start_survey(period, 2 * period->window);
    return false;
  case BY_CALLS_FOUND:
    if (!is_other) return end_stretch(period);
    forget_iterations(period);
    return false;
  }
  return false;
}

bool by_iteration_detector_add_many(struct by_iteration_detector *period, uint64_t key, uint64_t n) {
  bool turned = false;
  while (n) {
    uint64_t step = 1;
    if (period->state == BY_CALLS_ALIKE) { /* Skips to the end of the block. */
      step = period->look_at - period->now.calls;
      if (step > n) step = n;
      period->now.sum += (step - 1) * key;
      period->now.calls += step - 1;
    }
    turned |= by_iteration_detector_add(period, key);
    n -= step;
  }
  return turned;
}

void by_observe_begin(struct by_observation *observation) {
  observation->on = true;
  by_iteration_detector_init(&observation->period);
}

void by_observe_wake(struct by_observation *observation) {
  void (*on_next_call)(void *context) = observation->on_next_call;
  observation->on_next_call = NULL;
  on_next_call(observation->context);
}

static void add_calls(struct by_observation *o, uint64_t key, uint64_t bytes, uint64_t n) {
  o->calls += n;
  o->input += n * bytes;
  o->sizes[63 - __builtin_clzll(bytes | 1)] += n;
  if (by_iteration_detector_add_many(&o->period, key, n)) o->turned = o->last;
}

/* Of collectives with blocks, the size of one block counts. */
static void count_repeated(struct by_observation *o) {
  uint64_t n = o->n_repeated, bytes = (o->repeated >> 8) * banyan_dtype_size((enum banyan_dtype)(o->repeated & 15));
  o->n_repeated = 0;
  if (n) add_calls(o, by_call_key(o->repeated >> 4 & 15, bytes), bytes, n);
}

void by_observe_other(struct by_observation *observation, uint64_t call) {
  count_repeated(observation);
  observation->repeated = call;
}

void by_observe_odd(struct by_observation *observation, uint32_t kind, uint64_t shape, uint64_t bytes, uint64_t now) {
  count_repeated(observation);
  observation->last = now;
  add_calls(observation, by_call_key(kind, shape), bytes, 1);
  if (observation->on_next_call) by_observe_wake(observation);
}

void by_observe_step(struct by_observation *observation, uint64_t step, uint64_t now) {
  if (!observation->on || (observation->steps && step == observation->step)) return;
  observation->steps++;
  observation->step = step;
  observation->turned = now;
  if (observation->on_next_call) by_observe_wake(observation);
}

bool by_observe_iteration(struct by_observation *observation, uint64_t started, uint64_t *began, uint64_t *period) {
  const struct by_iteration_detector *found = &observation->period;
  count_repeated(observation);
  if (!observation->on || found->state != BY_CALLS_FOUND || found->now.calls != started) return false;
  *began = found->begun.calls;
  *period = found->length;
  return true;
}

/* ---- times */

static double median_time(const double *times, uint32_t n) {
  double sorted[BY_OBSERVED_TIMES];
  memcpy(sorted, times, n * sizeof *sorted);
  return by_median(sorted, n);
}

/* Averages several iterations, as the clock is coarse. */
static void add_time(struct by_observation *o, uint64_t iterations, uint64_t at) {
  if (o->counted && iterations > o->counted && at > o->counted_at)
    o->times[o->n_times++ % BY_OBSERVED_TIMES] =
        1e-9 * (double)(at - o->counted_at) / (double)(iterations - o->counted);
  o->counted = iterations;
  o->counted_at = at;
}

void by_observe_look(struct by_observation *observation, struct by_observed *out) {
  count_repeated(observation);
  bool stepped = observation->steps > 0, alike = observation->period.state == BY_CALLS_ALIKE;
  uint64_t iterations = stepped ? observation->steps - 1 : by_iteration_detector_iterations(&observation->period);
  if (iterations != observation->counted)
    add_time(observation, iterations, alike && !stepped ? observation->last : observation->turned);
  *out = (struct by_observed){.calls = observation->calls,
                              .input = observation->input,
                              .iterations = iterations,
                              .iteration_time =
                                  median_time(observation->times, MIN(observation->n_times, BY_OBSERVED_TIMES))};
}
