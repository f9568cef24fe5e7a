/* Selects alternatives to a plan, and makes plans with them. */
#include "planner_alternatives.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan_make.h"

static const uint32_t none = UINT32_MAX;

/* ---- Candidates. */

static bool is_listed(const struct by_weighed *weighed, const uint32_t *listed, uint32_t n, uint32_t candidate) {
  for (uint32_t i = 0; i < n; i++)
    if (weighed->candidates[listed[i]].plan->version == weighed->candidates[candidate].plan->version) return true;
  return false;
}

/* Returns the fastest candidate whose plan is not among the n listed ones; none: there is none that fast. */
static uint32_t find_next_best(const struct by_weighed *weighed, uint32_t size, double max, const uint32_t *listed,
                               uint32_t n) {
  uint32_t best = none;
  for (uint32_t i = 0; i < weighed->n; i++) {
    const double *seconds = weighed->candidates[i].seconds;
    if (seconds[size] > max || is_listed(weighed, listed, n, i)) continue;
    if (best == none || seconds[size] < weighed->candidates[best].seconds[size]) best = i;
  }
  return best;
}

/* Lists the chosen candidate for a size and its alternatives. Returns how many it lists. */
static uint32_t list_candidates(const struct by_weighed *weighed, uint32_t size, double within, uint32_t *listed) {
  uint32_t n = 1;
  listed[0] = weighed->used[size];
  double max = within * weighed->candidates[listed[0]].seconds[size];
  while (n < BY_ALTERNATIVE_PLANS && (listed[n] = find_next_best(weighed, size, max, listed, n)) != none) n++;
  return n;
}

/* ---- Ranges. */

struct listed {
  uint32_t n, candidates[BY_ALTERNATIVE_PLANS];
};

static bool are_equal(const struct listed *a, const struct listed *b) {
  return a->n == b->n && !memcmp(a->candidates, b->candidates, a->n * sizeof *a->candidates);
}

static void fill_range(const struct by_weighed *weighed, const struct listed *all, uint32_t first, uint32_t last,
                       struct by_alternative_range *range) {
  *range = (struct by_alternative_range){.above = first ? weighed->sizes[first - 1] : 0,
                                         .up_to = last + 1 < BY_WEIGH_SIZES ? weighed->sizes[last] : UINT64_MAX,
                                         .n = all[first].n - 1};
  for (uint32_t k = 0; k < all[first].n; k++) {
    const struct by_candidate *candidate = &weighed->candidates[all[first].candidates[k]];
    snprintf(range->what[k], sizeof range->what[k], "%s", candidate->what);
    range->predicted[k] = candidate->seconds[last];
  }
}

/* ---- Plans. */

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

/* Joins parts, adjacent ones of the same class as one, and adds the own classes, control tree and origin of the chosen
 * plan. */
static enum banyan_status join_parts(const struct by_plan *chosen, struct by_plan_part *parts, uint32_t n,
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

/* Makes the plan that uses the k-th alternative wherever there is one. */
static enum banyan_status make_alternative(const struct by_planned *planned, const struct listed *all, uint32_t k,
                                           struct by_plan **out) {
  const struct by_weighed *weighed = &planned->weighed;
  struct by_plan_part parts[BY_WEIGH_SIZES];
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) {
    uint32_t which = all[i].candidates[k < all[i].n ? k : 0];
    parts[i] = (struct by_plan_part){.plan = weighed->candidates[which].plan, .up_to = weighed->sizes[i]};
  }
  BY_TRY(join_parts(planned->plan, parts, BY_WEIGH_SIZES, out));
  const struct listed *largest = &all[BY_WEIGH_SIZES - 1];
  double rate = weighed->candidates[largest->candidates[k < largest->n ? k : 0]].rate;
  double bound = planned->plan->facts.bound;
  (*out)->facts = (struct by_plan_facts){.throughput = fmin(rate, bound), .bound = bound};
  if (bound > 0) (*out)->facts.ratio = (*out)->facts.throughput / bound;
  return BANYAN_OK;
}

/* ---- The interface. */

enum banyan_status by_alternatives_find(const struct by_planned *planned, double within, struct by_alternatives *out) {
  struct listed all[BY_WEIGH_SIZES] = {{0}};
  uint32_t max = 0, first = 0;
  *out = (struct by_alternatives){.n_plans = 1, .max_rate = planned->plan->facts.bound};
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) {
    all[i].n = list_candidates(&planned->weighed, i, within, all[i].candidates);
    if (all[i].n > max) max = all[i].n;
  }
  for (uint32_t i = 1; i <= BY_WEIGH_SIZES; i++) {
    if (i < BY_WEIGH_SIZES && are_equal(&all[first], &all[i])) continue;
    fill_range(&planned->weighed, all, first, i - 1, &out->ranges[out->n_ranges++]);
    first = i;
  }
  enum banyan_status status = by_plan_copy(planned->plan, &out->plans[0]);
  for (uint32_t k = 1; k < max && status == BANYAN_OK; k++) {
    status = make_alternative(planned, all, k, &out->plans[k]);
    if (status == BANYAN_OK) out->n_plans++;
  }
  if (status != BANYAN_OK) by_alternatives_fini(out);
  return status;
}

void by_alternatives_fini(struct by_alternatives *alternatives) {
  for (uint32_t k = 0; k < BY_ALTERNATIVE_PLANS; k++) by_plan_destroy(alternatives->plans[k]);
  *alternatives = (struct by_alternatives){0};
}

enum banyan_status by_alternatives_join(const struct by_alternatives *alternatives, const uint32_t *choices,
                                        struct by_plan **out) {
  struct by_plan_part parts[BY_WEIGH_SIZES];
  for (uint32_t i = 0; i < alternatives->n_ranges; i++)
    parts[i] = (struct by_plan_part){.plan = alternatives->plans[choices[i]], .up_to = alternatives->ranges[i].up_to};
  return join_parts(alternatives->plans[0], parts, alternatives->n_ranges, out);
}
