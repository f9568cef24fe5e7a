#include "planner_rivals.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan_make.h"

static const uint32_t none = UINT32_MAX;

/* ---- which candidates */

static bool is_listed(const struct by_weighed *weighed, const uint32_t *listed, uint32_t n, uint32_t candidate) {
  for (uint32_t i = 0; i < n; i++)
    if (weighed->candidates[listed[i]].plan->version == weighed->candidates[candidate].plan->version) return true;
  return false;
}

/* The fastest that is not among the n listed ones, nor the same plan under another name. */
static uint32_t next_best(const struct by_weighed *weighed, uint32_t size, double most, const uint32_t *listed,
                          uint32_t n) {
  uint32_t best = none;
  for (uint32_t i = 0; i < weighed->n; i++) {
    const double *seconds = weighed->candidates[i].seconds;
    if (seconds[size] > most || is_listed(weighed, listed, n, i)) continue;
    if (best == none || seconds[size] < weighed->candidates[best].seconds[size]) best = i;
  }
  return best;
}

/* What was chosen for a size, and its rivals; returns how many it lists. */
static uint32_t list(const struct by_weighed *weighed, uint32_t size, double within, uint32_t *listed) {
  uint32_t n = 1;
  listed[0] = weighed->used[size];
  double most = within * weighed->candidates[listed[0]].seconds[size];
  while (n < BY_RIVAL_PLANS && (listed[n] = next_best(weighed, size, most, listed, n)) != none) n++;
  return n;
}

/* ---- ranges */

struct listed {
  uint32_t n, candidates[BY_RIVAL_PLANS];
};

static bool are_alike(const struct listed *a, const struct listed *b) {
  return a->n == b->n && !memcmp(a->candidates, b->candidates, a->n * sizeof *a->candidates);
}

static void describe(const struct by_weighed *weighed, const struct listed *all, uint32_t first, uint32_t last,
                     struct by_rival_range *range) {
  *range = (struct by_rival_range){.above = first ? weighed->sizes[first - 1] : 0,
                                   .up_to = last + 1 < BY_WEIGH_SIZES ? weighed->sizes[last] : UINT64_MAX,
                                   .n = all[first].n - 1};
  for (uint32_t k = 0; k < all[first].n; k++) {
    const struct by_candidate *candidate = &weighed->candidates[all[first].candidates[k]];
    snprintf(range->what[k], sizeof range->what[k], "%s", candidate->what);
    range->predicted[k] = candidate->seconds[last];
  }
}

/* ---- plans */

static enum banyan_status copy_own(void *context, struct by_plan *made, struct by_class *own) {
  const struct by_plan *from = context;
  for (uint32_t i = 0; i < from->n_own; i++) {
    const struct by_class *class_ = &from->classes[from->n_classes + i];
    own[i] = *class_;
    BY_TRY(by_plan_add_groups(made, &own[i], class_->n_groups));
    for (uint32_t g = 0; g < class_->n_groups; g++)
      BY_TRY(by_group_copy(made, &own[i].groups[g], &class_->groups[g], NULL, NULL));
  }
  return BANYAN_OK;
}

/* Joins parts, neighbouring ones of the same class as one, and adds what else the plan that was chosen has. */
static enum banyan_status join(const struct by_plan *chosen, struct by_plan_part *parts, uint32_t n,
                               struct by_plan **out) {
  struct by_plan *joined, *whole;
  uint32_t kept = 0;
  *out = NULL;
  for (uint32_t i = 0; i < n; i++) {
    bool same = kept && by_plan_class(parts[kept - 1].plan, parts[kept - 1].up_to) ==
                            by_plan_class(parts[i].plan, parts[i].up_to);
    parts[same ? kept - 1 : kept] = parts[i];
    kept += !same;
  }
  BY_TRY(by_plan_join(chosen->name, parts, kept, &joined));
  enum banyan_status status = BANYAN_OK;
  if (chosen->n_own) {
    status = by_plan_extend(joined, chosen->n_own, copy_own, (void *)(uintptr_t)chosen, &whole);
    by_plan_destroy(joined);
    if (status != BANYAN_OK) return status;
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

/* The plan with the k-th rival wherever there is one. */
static enum banyan_status make_rival(const struct by_planned *planned, const struct listed *all, uint32_t k,
                                     struct by_plan **out) {
  const struct by_weighed *weighed = &planned->weighed;
  struct by_plan_part parts[BY_WEIGH_SIZES];
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) {
    uint32_t which = all[i].candidates[k < all[i].n ? k : 0];
    parts[i] = (struct by_plan_part){.plan = weighed->candidates[which].plan, .up_to = weighed->sizes[i]};
  }
  BY_TRY(join(planned->plan, parts, BY_WEIGH_SIZES, out));
  const struct listed *largest = &all[BY_WEIGH_SIZES - 1];
  double rate = weighed->candidates[largest->candidates[k < largest->n ? k : 0]].rate;
  double bound = planned->plan->facts.bound;
  (*out)->facts = (struct by_plan_facts){.throughput = fmin(rate, bound), .bound = bound};
  if (bound > 0) (*out)->facts.ratio = (*out)->facts.throughput / bound;
  return BANYAN_OK;
}

/* ---- for others */

enum banyan_status by_rivals_find(const struct by_planned *planned, double within, struct by_rivals *out) {
  struct listed all[BY_WEIGH_SIZES] = {{0}};
  uint32_t most = 0, first = 0;
  *out = (struct by_rivals){.n_plans = 1, .most_rate = planned->plan->facts.bound};
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) {
    all[i].n = list(&planned->weighed, i, within, all[i].candidates);
    if (all[i].n > most) most = all[i].n;
  }
  for (uint32_t i = 1; i <= BY_WEIGH_SIZES; i++) {
    if (i < BY_WEIGH_SIZES && are_alike(&all[first], &all[i])) continue;
    describe(&planned->weighed, all, first, i - 1, &out->ranges[out->n_ranges++]);
    first = i;
  }
  enum banyan_status status = by_plan_copy(planned->plan, &out->plans[0]);
  for (uint32_t k = 1; k < most && status == BANYAN_OK; k++) {
    status = make_rival(planned, all, k, &out->plans[k]);
    if (status == BANYAN_OK) out->n_plans++;
  }
  if (status != BANYAN_OK) by_rivals_fini(out);
  return status;
}

void by_rivals_fini(struct by_rivals *rivals) {
  for (uint32_t k = 0; k < BY_RIVAL_PLANS; k++) by_plan_destroy(rivals->plans[k]);
  *rivals = (struct by_rivals){0};
}

enum banyan_status by_rivals_join(const struct by_rivals *rivals, const uint32_t *choices, struct by_plan **out) {
  struct by_plan_part parts[BY_WEIGH_SIZES];
  for (uint32_t i = 0; i < rivals->n_ranges; i++)
    parts[i] = (struct by_plan_part){.plan = rivals->plans[choices[i]], .up_to = rivals->ranges[i].up_to};
  return join(rivals->plans[0], parts, rivals->n_ranges, out);
}
