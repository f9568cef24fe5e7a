/* Makes the plan of the second-best candidates, since predictions are inaccurate by some percent. */
#include <math.h>

#include "plan_make.h"
#include "planner.h"

/* Returns the fastest candidate for a size with another plan than the chosen one; the chosen one if none is predicted
 * to take at most `within` times as long. */
static uint32_t find_other(const struct by_weighed *weighed, uint32_t size, double within) {
  uint32_t chosen = weighed->used[size], best = chosen;
  for (uint32_t i = 0; i < weighed->n; i++) {
    const struct by_candidate *candidate = &weighed->candidates[i];
    if (candidate->seconds[size] > within * weighed->candidates[chosen].seconds[size] ||
        candidate->plan->version == weighed->candidates[chosen].plan->version)
      continue;
    if (best == chosen || candidate->seconds[size] < weighed->candidates[best].seconds[size]) best = i;
  }
  return best;
}

static enum banyan_status copy_own(void *context, struct by_plan *made, struct by_class *own) {
  const struct by_plan *from = *(const struct by_plan **)context;
  for (uint32_t i = 0; i < from->n_own; i++) {
    const struct by_class *class_ = &from->classes[from->n_classes + i];
    own[i] = *class_;
    BY_TRY(by_plan_add_groups(made, &own[i], class_->n_groups));
    for (uint32_t g = 0; g < class_->n_groups; g++)
      BY_TRY(by_group_copy(made, &own[i].groups[g], &class_->groups[g], NULL, NULL));
  }
  return BANYAN_OK;
}

/* Joins the plans of all sizes, and adds the own classes, control tree and origin of the chosen plan. */
static enum banyan_status join_parts(const struct by_plan *chosen, const struct by_plan_part *parts, uint32_t n,
                                     struct by_plan **out) {
  struct by_plan *joined, *whole;
  BY_TRY(by_plan_join(chosen->name, parts, n, &joined));
  enum banyan_status status = BANYAN_OK;
  if (chosen->n_own) {
    status = by_plan_extend(joined, chosen->n_own, copy_own, &chosen, &whole);
    by_plan_destroy(joined);
    BY_TRY(status);
    joined = whole;
  }
  if (chosen->control.parent) status = by_plan_set_control(joined, &chosen->control);
  joined->origin = chosen->origin;
  if (status == BANYAN_OK)
    *out = joined;
  else
    by_plan_destroy(joined);
  return status;
}

enum banyan_status by_planner_find_alternative(const struct by_planned *planned, double within, struct by_plan **out) {
  const struct by_weighed *weighed = &planned->weighed;
  const struct by_candidate *candidate = NULL;
  struct by_plan_part parts[BY_WEIGH_SIZES];
  uint32_t n = 0, others = 0, last = UINT32_MAX;
  *out = NULL;
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) {
    uint32_t other = find_other(weighed, i, within);
    others += other != weighed->used[i];
    candidate = &weighed->candidates[other];
    n += other != last;
    parts[n - 1] = (struct by_plan_part){.plan = candidate->plan, .up_to = weighed->sizes[i]};
    last = other;
  }
  if (!others) return BANYAN_OK;
  BY_TRY(join_parts(planned->plan, parts, n, out));
  double bound = planned->plan->facts.bound;
  (*out)->facts = (struct by_plan_facts){.throughput = fmin(candidate->rate, bound), .bound = bound};
  if (bound > 0) (*out)->facts.ratio = (*out)->facts.throughput / bound;
  return BANYAN_OK;
}
