/* Decides by the times of a job's own calls which of several plans the job uses. */
#include "trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"

static const double faster = 0.97;     /* Maximum ratio of times at which a plan is faster for sure. */
static const double much_slower = 1.5; /* Ratio of times from which a plan is not tried any longer. */
static const double clearly = 1.1;     /* Ratio of times in all calls at which a few calls are enough. */
static const double longer = 0.1;      /* Seconds from which a call is long. */
enum {
  SOON = 2, /* Calls that show that a plan is much slower. */
  RARE = 4  /* Factor between the calls of two sizes from which the rarer one is not waited for. */
};

/* ---- times */

static double median(const struct by_trial_times *times) {
  double sorted[BY_TRIAL_CALLS];
  memcpy(sorted, times->seconds, times->n * sizeof *sorted);
  return by_median(sorted, times->n);
}

static double least(const struct by_trial_times *times) {
  double seconds = INFINITY;
  for (uint32_t i = 0; i < times->n; i++) seconds = fmin(seconds, times->seconds[i]);
  return seconds;
}

static double most(const struct by_trial_times *times) {
  double seconds = 0;
  for (uint32_t i = 0; i < times->n; i++) seconds = fmax(seconds, times->seconds[i]);
  return seconds;
}

static bool has_enough(const struct by_trial_times *times) {
  return times->n >= BY_TRIAL_LEAST;
}

static bool is_full(const struct by_trial_times *times) {
  return times->n == BY_TRIAL_CALLS;
}

/* Of all sizes of a range that were timed in both phases. 0: none was. */
static double ratio(const struct by_trial *t, uint32_t range, enum by_trial_phase phase, enum by_trial_phase to) {
  double sum = 0, sum_to = 0;
  for (uint32_t i = 0; i < t->n_sizes; i++) {
    const struct by_trial_size *size = &t->sizes[i];
    if (size->range != range || !has_enough(&size->of[phase]) || !has_enough(&size->of[to])) continue;
    sum += median(&size->of[phase]);
    sum_to += median(&size->of[to]);
  }
  return sum_to > 0 ? sum / sum_to : 0;
}

double by_trial_ratio(const struct by_trial *trial, uint32_t range) {
  if (!trial->rival || trial->ranges[range].rivals < trial->rival) return 0;
  return ratio(trial, range, BY_TRIAL_RIVAL, BY_TRIAL_FIRST);
}

static bool is_faster(const struct by_trial *t, uint32_t range, enum by_trial_phase than) {
  double r = ratio(t, range, BY_TRIAL_RIVAL, than);
  return r > 0 && r < faster;
}

/* ---- calls */

/* Whether the rival may be so much faster that it is used, for what its calls cost. */
static bool may_win(const struct by_trial *t, const struct by_trial_size *size, uint32_t rival) {
  const struct by_trial_range *range = &t->ranges[size->range];
  if (range->rivals < rival || !has_enough(&size->of[BY_TRIAL_FIRST])) return false;
  double first = median(&size->of[BY_TRIAL_FIRST]);
  bool at_bound = t->rate > 0 && faster * first * t->rate < (double)size->bytes.all;
  return !at_bound && (first < longer || range->slower[rival] < 1 / faster);
}

/* Whether times of this size are waited for. */
static bool matters(const struct by_trial *t, const struct by_trial_size *size) {
  return t->phase == BY_TRIAL_FIRST || may_win(t, size, t->rival);
}

static struct by_trial_size *find_size(struct by_trial *t, struct by_call_bytes bytes) {
  uint32_t range = 0;
  for (uint32_t i = 0; i < t->n_sizes; i++)
    if (t->sizes[i].bytes.all == bytes.all && t->sizes[i].bytes.max == bytes.max) return &t->sizes[i];
  while (range + 1 < t->n_ranges && bytes.max > t->ranges[range].up_to) range++;
  if (t->phase != BY_TRIAL_FIRST || t->n_sizes == BY_TRIAL_SIZES || !t->ranges[range].rivals) return NULL;
  t->sizes[t->n_sizes] = (struct by_trial_size){.bytes = bytes, .range = range};
  return &t->sizes[t->n_sizes++];
}

void by_trial_doubt(struct by_trial *trial) {
  trial->doubts = true;
}

void by_trial_set_before(struct by_trial *trial, struct by_call_bytes bytes, double seconds) {
  struct by_trial_size *size = find_size(trial, bytes);
  if (size) size->before = seconds;
}

void by_trial_add(struct by_trial *trial, struct by_call_bytes bytes, double seconds) {
  struct by_trial_size *size = trial->phase == BY_TRIAL_OVER ? NULL : find_size(trial, bytes);
  if (!size || !matters(trial, size)) return;
  struct by_trial_times *times = &size->of[trial->phase];
  times->seen++;
  if (times->seen > (seconds > longer ? 1 : BY_TRIAL_SKIPPED) && !is_full(times)) times->seconds[times->n++] = seconds;
}

/* ---- phases */

static bool is_much_slower(const struct by_trial_size *size) {
  const struct by_trial_times *times = &size->of[BY_TRIAL_RIVAL];
  return times->n >= SOON && least(times) > much_slower * median(&size->of[BY_TRIAL_FIRST]);
}

/* Calls are long, and the few so far agree, or the rival was faster in none. */
static bool is_settled(const struct by_trial *t, const struct by_trial_size *size) {
  const struct by_trial_times *times = &size->of[t->phase];
  if (!has_enough(times) || least(times) < longer) return false;
  return faster * most(times) < least(times) ||
         (t->phase == BY_TRIAL_RIVAL && least(times) > faster * median(&size->of[BY_TRIAL_FIRST]));
}

/* The first plan is clearly slower than what was before it, or than the rival. */
static bool is_clear(const struct by_trial *t, const struct by_trial_size *size) {
  const struct by_trial_times *times = &size->of[t->phase], *rival = &size->of[BY_TRIAL_RIVAL];
  bool again = t->phase == BY_TRIAL_AGAIN;
  double other = !again ? size->before : has_enough(rival) ? median(rival) : 0;
  return t->phase != BY_TRIAL_RIVAL && other > 0 && has_enough(times) && least(times) > clearly * other;
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
  for (uint32_t i = 0; i < t->n_sizes && t->phase == BY_TRIAL_RIVAL; i++)
    t->dropped |= matters(t, &t->sizes[i]) && is_much_slower(&t->sizes[i]);
  return t->dropped || is_timed(t) || t->calls > (t->phase == BY_TRIAL_FIRST ? BY_TRIAL_WAITS : BY_TRIAL_MOST);
}

static void enter(struct by_trial *t, enum by_trial_phase phase) {
  t->phase = phase;
  t->calls = 0;
  for (uint32_t i = 0; phase != BY_TRIAL_OVER && i < t->n_sizes; i++)
    t->sizes[i].of[phase] = (struct by_trial_times){0};
}

static bool may_win_any(const struct by_trial *t, uint32_t rival) {
  bool any = false;
  for (uint32_t i = 0; i < t->n_sizes; i++) any |= may_win(t, &t->sizes[i], rival);
  return any;
}

static bool has_timed(const struct by_trial *t) {
  for (uint32_t i = 0; i < t->n_sizes; i++)
    if (has_enough(&t->sizes[i].of[BY_TRIAL_FIRST])) return true;
  return false;
}

/* Returns whether the first plan is faster than the plan before it. */
static bool is_better(const struct by_trial *t) {
  double sum = 0, before = 0;
  for (uint32_t i = 0; i < t->n_sizes; i++) {
    const struct by_trial_size *size = &t->sizes[i];
    if (!size->before || !has_enough(&size->of[BY_TRIAL_FIRST])) continue;
    sum += median(&size->of[BY_TRIAL_FIRST]);
    before += size->before;
  }
  return before > 0 && sum < faster * before;
}

static void next_rival(struct by_trial *t) {
  if (t->phase == BY_TRIAL_FIRST) t->better = is_better(t);
  uint32_t next = t->rival + 1;
  while (next < t->n_plans && !may_win_any(t, next)) next++;
  bool more = !t->better && next < t->n_plans;
  if (more) {
    t->rival = next;
    t->dropped = false;
  }
  enter(t, more ? BY_TRIAL_RIVAL : BY_TRIAL_OVER);
}

static bool seems_better(const struct by_trial *t) {
  for (uint32_t i = 0; i < t->n_ranges; i++)
    if (t->ranges[i].rivals >= t->rival && is_faster(t, i, BY_TRIAL_FIRST)) return true;
  return false;
}

/* It has to be faster than the first plan both before and after. */
static void choose(struct by_trial *t) {
  for (uint32_t i = 0; i < t->n_ranges; i++) {
    struct by_trial_range *range = &t->ranges[i];
    if (range->rivals < t->rival || !is_faster(t, i, BY_TRIAL_FIRST) || !is_faster(t, i, BY_TRIAL_AGAIN)) continue;
    double found = ratio(t, i, BY_TRIAL_RIVAL, BY_TRIAL_AGAIN);
    if (range->choice && found >= range->ratio) continue;
    range->choice = t->rival;
    range->ratio = found;
  }
}

/* For all ranges where the first plan is not known to be faster. */
static void choose_in_doubt(struct by_trial *t) {
  for (uint32_t i = 0; i < t->n_ranges && !t->dropped; i++) {
    double found = by_trial_ratio(t, i);
    if (!found || found > 1 / faster) continue;
    t->ranges[i].choice = t->rival;
    t->ranges[i].ratio = found;
  }
}

bool by_trial_step(struct by_trial *trial, uint64_t calls) {
  if (trial->phase == BY_TRIAL_OVER) return false;
  trial->calls = calls;
  if (!is_over(trial)) return false;
  if (trial->phase == BY_TRIAL_RIVAL && trial->doubts) {
    choose_in_doubt(trial);
    next_rival(trial);
    return true;
  }
  if (trial->phase == BY_TRIAL_RIVAL && !trial->dropped && seems_better(trial)) {
    enter(trial, BY_TRIAL_AGAIN);
    return true;
  }
  if (trial->phase == BY_TRIAL_AGAIN) choose(trial);
  next_rival(trial);
  return true;
}

enum by_trial_verdict by_trial_judge(const struct by_trial *trial) {
  if (!has_timed(trial)) return BY_TRIAL_UNKNOWN;
  bool better = trial->better || trial->dropped;
  for (uint32_t i = 0; i < trial->n_ranges; i++) better |= by_trial_ratio(trial, i) > 1 / faster;
  return better ? BY_TRIAL_BETTER : trial->rival ? BY_TRIAL_NO_BETTER : BY_TRIAL_UNKNOWN;
}

uint32_t by_trial_plan(const struct by_trial *trial) {
  return trial->phase == BY_TRIAL_RIVAL ? trial->rival : 0;
}

bool by_trial_tries(const struct by_trial *trial, uint32_t range) {
  bool tries = false;
  for (uint32_t i = 0; i < trial->n_sizes && trial->phase == BY_TRIAL_RIVAL; i++)
    tries |= trial->sizes[i].range == range && may_win(trial, &trial->sizes[i], trial->rival);
  return tries;
}

void by_trial_init(struct by_trial *trial, const struct by_alternatives *rivals) {
  *trial = (struct by_trial){.n_plans = rivals->n_plans, .n_ranges = rivals->n_ranges, .rate = rivals->max_rate / 8};
  for (uint32_t i = 0; i < rivals->n_ranges; i++) {
    const struct by_alternative_range *range = &rivals->ranges[i];
    trial->ranges[i] = (struct by_trial_range){.up_to = range->up_to, .rivals = range->n};
    for (uint32_t k = 1; k <= range->n && range->predicted[0] > 0; k++)
      trial->ranges[i].slower[k] = range->predicted[k] / range->predicted[0];
  }
}
