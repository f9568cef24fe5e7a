/* Decides by the times of a job's own calls which of two plans is faster. */
#include "trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"
#include "thresholds.h"

enum {
  SOON = 2, /* Calls that show that a plan is much slower. */
  RARE = 4  /* Factor between the calls of two sizes from which the rarer one is not waited for. */
};

/* ---- times */

static double find_median(const struct by_trial_times *times) {
  double sorted[BY_TRIAL_CALLS];
  memcpy(sorted, times->seconds, times->n * sizeof *sorted);
  return by_median(sorted, times->n);
}

static double find_min(const struct by_trial_times *times) {
  double seconds = INFINITY;
  for (uint32_t i = 0; i < times->n; i++) seconds = fmin(seconds, times->seconds[i]);
  return seconds;
}

static double find_max(const struct by_trial_times *times) {
  double seconds = 0;
  for (uint32_t i = 0; i < times->n; i++) seconds = fmax(seconds, times->seconds[i]);
  return seconds;
}

static bool has_enough(const struct by_trial_times *times) {
  return times->n >= BY_TRIAL_MIN_CALLS;
}

static bool is_full(const struct by_trial_times *times) {
  return times->n == BY_TRIAL_CALLS;
}

double by_trial_ratio(const struct by_trial *trial) {
  double sum = 0, sum_first = 0;
  for (uint32_t i = 0; i < trial->n_sizes; i++) {
    const struct by_trial_times *first = &trial->sizes[i].of[BY_TRIAL_FIRST],
                                *second = &trial->sizes[i].of[BY_TRIAL_SECOND];
    if (!has_enough(first) || !has_enough(second)) continue;
    sum += find_median(second);
    sum_first += find_median(first);
  }
  return sum_first > 0 ? sum / sum_first : 0;
}

/* ---- calls */

/* Returns whether the second plan may be faster: calls by the first plan were timed, and are not at the network's
 * bound. */
static bool may_win(const struct by_trial *t, const struct by_trial_size *size) {
  const struct by_trial_times *first = &size->of[BY_TRIAL_FIRST];
  return has_enough(first) &&
         !(t->rate > 0 && by_limit_faster * find_median(first) * t->rate < (double)size->bytes.all);
}

/* Returns whether times of this size are waited for. */
static bool matters(const struct by_trial *t, const struct by_trial_size *size) {
  return t->phase == BY_TRIAL_FIRST || may_win(t, size);
}

static struct by_trial_size *find_size(struct by_trial *t, struct by_call_bytes bytes) {
  for (uint32_t i = 0; i < t->n_sizes; i++)
    if (t->sizes[i].bytes.all == bytes.all && t->sizes[i].bytes.max == bytes.max) return &t->sizes[i];
  if (t->phase != BY_TRIAL_FIRST || t->n_sizes == BY_TRIAL_SIZES) return NULL;
  t->sizes[t->n_sizes] = (struct by_trial_size){.bytes = bytes};
  return &t->sizes[t->n_sizes++];
}

void by_trial_set_recent(struct by_trial *trial, struct by_call_bytes bytes, double seconds) {
  struct by_trial_size *size = find_size(trial, bytes);
  if (size) size->recent = seconds;
}

void by_trial_add(struct by_trial *trial, struct by_call_bytes bytes, double seconds) {
  struct by_trial_size *size = trial->phase == BY_TRIAL_OVER ? NULL : find_size(trial, bytes);
  if (!size || !matters(trial, size)) return;
  struct by_trial_times *times = &size->of[trial->phase];
  times->seen++;
  if (times->seen > (seconds > by_limit_long_call ? 1 : BY_TRIAL_SKIPPED) && !is_full(times))
    times->seconds[times->n++] = seconds;
}

/* ---- phases */

static bool is_much_slower(const struct by_trial_size *size) {
  const struct by_trial_times *times = &size->of[BY_TRIAL_SECOND];
  return times->n >= SOON && find_min(times) > by_limit_much_slower * find_median(&size->of[BY_TRIAL_FIRST]);
}

/* Calls are long, and the few so far agree, or none by the second plan was faster. */
static bool is_settled(const struct by_trial *t, const struct by_trial_size *size) {
  const struct by_trial_times *times = &size->of[t->phase];
  if (!has_enough(times) || find_min(times) < by_limit_long_call) return false;
  return by_limit_faster * find_max(times) < find_min(times) ||
         (t->phase == BY_TRIAL_SECOND && find_min(times) > by_limit_faster * find_median(&size->of[BY_TRIAL_FIRST]));
}

/* The first plan is clearly slower than what was before it. */
static bool is_clear(const struct by_trial *t, const struct by_trial_size *size) {
  const struct by_trial_times *times = &size->of[BY_TRIAL_FIRST];
  return t->phase == BY_TRIAL_FIRST && size->recent > 0 && has_enough(times) &&
         find_min(times) > by_limit_error * size->recent;
}

/* All sizes that matter have been timed, or one has had so many calls that the others are rare. */
static bool is_timed(const struct by_trial *t) {
  bool all = true;
  uint32_t n = 0, seen = 0;
  for (uint32_t i = 0; i < t->n_sizes; i++) {
    const struct by_trial_size *size = &t->sizes[i];
    if (!matters(t, size)) continue;
    n++; /* A size that is not called any more is rare. */
    all &= is_full(&size->of[t->phase]) || is_settled(t, size) || is_clear(t, size);
    if (size->of[t->phase].seen > seen) seen = size->of[t->phase].seen;
  }
  return n && (all || seen >= RARE * (BY_TRIAL_CALLS + BY_TRIAL_SKIPPED));
}

static bool is_over(struct by_trial *t) {
  for (uint32_t i = 0; i < t->n_sizes && t->phase == BY_TRIAL_SECOND; i++)
    t->dropped |= matters(t, &t->sizes[i]) && is_much_slower(&t->sizes[i]);
  return t->dropped || is_timed(t) ||
         t->calls > (t->phase == BY_TRIAL_FIRST ? BY_TRIAL_MAX_FIRST : BY_TRIAL_MAX_SECOND);
}

static bool has_timed(const struct by_trial *t) {
  for (uint32_t i = 0; i < t->n_sizes; i++)
    if (has_enough(&t->sizes[i].of[BY_TRIAL_FIRST])) return true;
  return false;
}

/* Returns whether the first plan is faster than what was before it. */
static bool is_better(const struct by_trial *t) {
  double sum = 0, recent = 0;
  for (uint32_t i = 0; i < t->n_sizes; i++) {
    const struct by_trial_size *size = &t->sizes[i];
    if (!size->recent || !has_enough(&size->of[BY_TRIAL_FIRST])) continue;
    sum += find_median(&size->of[BY_TRIAL_FIRST]);
    recent += size->recent;
  }
  return recent > 0 && sum < by_limit_faster * recent;
}

static bool may_win_any(const struct by_trial *t) {
  for (uint32_t i = 0; i < t->n_sizes; i++)
    if (may_win(t, &t->sizes[i])) return true;
  return false;
}

bool by_trial_step(struct by_trial *trial, uint64_t calls) {
  if (trial->phase == BY_TRIAL_OVER) return false;
  trial->calls = calls;
  if (!is_over(trial)) return false;
  trial->calls = 0;
  if (trial->phase == BY_TRIAL_FIRST) {
    trial->better = is_better(trial);
    trial->phase = trial->better || !may_win_any(trial) ? BY_TRIAL_OVER : BY_TRIAL_SECOND;
    return true;
  }
  double ratio = by_trial_ratio(trial);
  trial->takes_second =
      !trial->dropped && ratio > 0 && ratio <= (trial->cautious ? by_limit_faster : 1 / by_limit_faster);
  trial->phase = BY_TRIAL_OVER;
  return true;
}

enum by_trial_verdict by_trial_judge(const struct by_trial *trial) {
  if (!has_timed(trial)) return BY_TRIAL_UNKNOWN;
  if (trial->better || trial->dropped || by_trial_ratio(trial) > 1 / by_limit_faster) return BY_TRIAL_BETTER;
  return may_win_any(trial) ? BY_TRIAL_NO_BETTER : BY_TRIAL_UNKNOWN;
}
