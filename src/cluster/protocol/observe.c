#include "observe.h"

#include <string.h>

void by_observe_begin(struct by_observation *observation) {
  observation->on = true;
  by_call_period_init(&observation->period);
}

void by_observe_wake(struct by_observation *observation) {
  void (*awake)(void *context) = observation->awake;
  observation->awake = NULL;
  awake(observation->context);
}

static void count(struct by_observation *o, uint64_t key, uint64_t bytes, uint64_t n) {
  o->calls += n;
  o->input += n * bytes;
  o->sizes[63 - __builtin_clzll(bytes | 1)] += n;
  if (by_call_period_hear_many(&o->period, key, n)) o->turned = o->last;
}

/* Of the collectives with blocks, one block counts. */
static void count_repeated(struct by_observation *o) {
  uint64_t n = o->n_repeated, bytes = (o->repeated >> 8) * banyan_dtype_size((enum banyan_dtype)(o->repeated & 15));
  o->n_repeated = 0;
  if (n) count(o, by_call_key(o->repeated >> 4 & 15, bytes), bytes, n);
}

void by_observe_other(struct by_observation *observation, uint64_t call) {
  count_repeated(observation);
  observation->repeated = call;
}

void by_observe_odd(struct by_observation *observation, uint32_t kind, uint64_t shape, uint64_t bytes, uint64_t now) {
  count_repeated(observation);
  observation->last = now;
  count(observation, by_call_key(kind, shape), bytes, 1);
  if (observation->awake) by_observe_wake(observation);
}

void by_observe_step(struct by_observation *observation, uint64_t step, uint64_t now) {
  if (!observation->on || (observation->steps && step == observation->step)) return;
  observation->steps++;
  observation->step = step;
  observation->turned = now;
  if (observation->awake) by_observe_wake(observation);
}

bool by_observe_beat(struct by_observation *observation, uint64_t started, uint64_t *began, uint64_t *period) {
  const struct by_call_period *found = &observation->period;
  count_repeated(observation);
  if (!observation->on || found->state != BY_CALLS_FOUND || found->now.calls != started) return false;
  *began = found->begun.calls;
  *period = found->length;
  return true;
}

/* ---- times */

static double median(const double *times, uint32_t n) {
  double sorted[BY_OBSERVED_TIMES];
  for (uint32_t i = 0, at; i < n; i++) {
    for (at = i; at && sorted[at - 1] > times[i]; at--) sorted[at] = sorted[at - 1];
    sorted[at] = times[i];
  }
  return n ? sorted[n / 2] : 0;
}

/* Several at once, which evens out how coarse the clock is. */
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
  uint64_t iterations = stepped ? observation->steps - 1 : by_call_period_iterations(&observation->period);
  if (iterations != observation->counted)
    add_time(observation, iterations, alike && !stepped ? observation->last : observation->turned);
  uint32_t n = observation->n_times < BY_OBSERVED_TIMES ? observation->n_times : BY_OBSERVED_TIMES;
  *out = (struct by_observed){.calls = observation->calls,
                              .input = observation->input,
                              .iterations = iterations,
                              .iteration_time = median(observation->times, n)};
}
