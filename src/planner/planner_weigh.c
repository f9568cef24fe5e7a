#include "planner_weigh.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan_join.h"
#include "plan_make.h"

/* Another class has to be worth it: so much faster, or the plan stays as it is for larger buffers. What is nearly as
 * fast is as good, and better if it is simpler. */
static const double worth = 0.05, nearly = 0.01;

enum { SMALLEST_SHIFT = 8, STEP_SHIFT = 1 };

enum banyan_status by_weighed_init(struct by_weighed *weighed) {
  *weighed = (struct by_weighed){.candidates = calloc(BY_WEIGH_MOST, sizeof *weighed->candidates)};
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) weighed->sizes[i] = 1ull << (SMALLEST_SHIFT + STEP_SHIFT * i);
  return weighed->candidates ? BANYAN_OK : by_plan_no_memory();
}

void by_weighed_fini(struct by_weighed *weighed) {
  for (uint32_t i = 0; i < weighed->n; i++) by_plan_destroy(weighed->candidates[i].plan);
  free(weighed->candidates);
  *weighed = (struct by_weighed){0};
}

enum banyan_status by_weighed_add(struct by_weighed *weighed, const char *what, struct by_plan *plan,
                                  const struct by_topology *topology, const struct by_cost_rates *rates) {
  struct by_candidate *next = &weighed->candidates[weighed->n];
  struct by_cost cost;
  enum banyan_status status =
      weighed->n < BY_WEIGH_MOST ? by_cost_init(&cost, plan, plan->classes, topology, rates) : BANYAN_ERR_UNSUPPORTED;
  if (status != BANYAN_OK) {
    by_plan_destroy(plan);
    return status == BANYAN_ERR_UNSUPPORTED ? BANYAN_OK : status;
  }
  *next = (struct by_candidate){.plan = plan, .rate = cost.load.rate};
  snprintf(next->what, sizeof next->what, "%s", what);
  bool known = true;
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) {
    next->seconds[i] = by_cost_time(&cost, (double)weighed->sizes[i]);
    known = known && !isnan(next->seconds[i]);
  }
  by_cost_fini(&cost);
  weighed->n++;
  return known ? BANYAN_OK : by_plan_no_memory();
}

static bool is_ever_faster(const struct by_candidate *a, const struct by_candidate *b) {
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++)
    if ((1 + nearly) * a->seconds[i] < b->seconds[i]) return true;
  return false;
}

void by_weighed_drop_slower(struct by_weighed *weighed) {
  struct by_candidate *last = &weighed->candidates[weighed->n - 1], *before = last - 1;
  if (is_ever_faster(last, before)) {
    if (is_ever_faster(before, last)) return;
    struct by_candidate dropped = *before;
    *before = *last;
    *last = dropped;
  }
  by_plan_destroy(last->plan);
  *last = (struct by_candidate){0};
  weighed->n--;
}

static uint32_t groups_of(const struct by_candidate *candidate) {
  return candidate->plan->classes[0].n_groups;
}

/* Of those that are nearly the fastest the first of the fewest groups: a ring is one. */
static uint32_t fastest(const struct by_weighed *weighed, uint32_t size) {
  double least = INFINITY;
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < weighed->n; i++) least = fmin(least, weighed->candidates[i].seconds[size]);
  for (uint32_t i = 0; i < weighed->n; i++) {
    const struct by_candidate *candidate = &weighed->candidates[i];
    if (candidate->seconds[size] > (1 + nearly) * least) continue;
    if (best == UINT32_MAX || groups_of(candidate) < groups_of(&weighed->candidates[best])) best = i;
  }
  return best;
}

void by_weighed_choose(struct by_weighed *weighed, bool any_for_largest) {
  const struct by_candidate *all = weighed->candidates;
  uint32_t now = any_for_largest ? fastest(weighed, BY_WEIGH_SIZES - 1) : 0;
  for (uint32_t size = BY_WEIGH_SIZES; size-- > 0;) {
    uint32_t best = fastest(weighed, size);
    bool largest = size + 1 == BY_WEIGH_SIZES;
    if (!largest && all[now].seconds[size] > (1 + worth) * all[best].seconds[size]) now = best;
    weighed->used[size] = now;
  }
}

enum banyan_status by_weighed_plan(const struct by_weighed *weighed, const char *name, struct by_plan **out) {
  struct by_plan_part parts[BY_WEIGH_SIZES] = {{0}};
  uint32_t n = 0;
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) {
    const struct by_plan *plan = weighed->candidates[weighed->used[i]].plan;
    if (n && parts[n - 1].plan == plan) n--;
    parts[n++] = (struct by_plan_part){.plan = plan, .up_to = weighed->sizes[i]};
  }
  return by_plan_join(name, parts, n, out);
}
