/* Making a plan: create it with its vertices and classes, give each class its groups and each group its arrays, fill
 * them, finish it. Everything lives in the plan's arena. For the parser, the built-ins and the planners. */
#ifndef BY_PLAN_PLAN_MAKE_H
#define BY_PLAN_PLAN_MAKE_H

#include "plan.h"

/* An empty plan; the caller owns *out and gives it to by_plan_finish or by_plan_destroy. */
BANYAN_CHECK enum banyan_status by_plan_create(const char *name, struct by_plan **out);
/* n_ranks vertices named "0", "1", ... for the ranks and behind them n_others helpers without a name. */
BANYAN_CHECK enum banyan_status by_plan_add_vertices(struct by_plan *plan, uint32_t n_ranks, uint32_t n_others);
/* n empty size classes, the last one without a limit, and behind them n_own of some collectives. */
BANYAN_CHECK enum banyan_status by_plan_add_classes(struct by_plan *plan, uint32_t n, uint32_t n_own);
BANYAN_CHECK enum banyan_status by_plan_add_groups(struct by_plan *plan, struct by_class *class_, uint32_t n);
/* The kind and arrays of a group of n positions, which stand for vertices 0 .. n - 1 in this order; parents are
 * zeroed; an exchange has none. `down` is the same array as `up` unless `other_way_down`. */
BANYAN_CHECK enum banyan_status by_group_init(struct by_plan *plan, struct by_group *group, enum by_group_kind kind,
                                              uint32_t n, bool other_way_down);
/* Copies n_radix digits; digits of 1 are left out. */
BANYAN_CHECK enum banyan_status by_group_set_radix(struct by_plan *plan, struct by_group *group, const uint32_t *radix,
                                                   uint32_t n_radix);
/* Makes `group` a copy of `from` with other vertices: vertex v becomes map(context, v), NULL: stays. */
BANYAN_CHECK enum banyan_status by_group_copy(struct by_plan *plan, struct by_group *group, const struct by_group *from,
                                              uint32_t (*map)(const void *context, uint32_t vertex),
                                              const void *context);
/* Puts forwards and ports in order. */
void by_group_sort_ports(struct by_group *group);
/* Evens out shares whose sum is off by rounding, validates and sets the version. Takes `plan` over: on failure it is
 * destroyed. */
BANYAN_CHECK enum banyan_status by_plan_finish(struct by_plan *plan, struct by_plan **out);
/* The same if `status`, what filling the plan came to, is BANYAN_OK; else destroys it and returns that. */
BANYAN_CHECK enum banyan_status by_plan_end(struct by_plan *plan, enum banyan_status status, struct by_plan **out);
/* What becomes of a group, which so far is a copy of that of `from`. */
typedef enum banyan_status (*by_group_rework)(const struct by_plan *from, struct by_plan *plan, struct by_group *group);
/* A copy with the first n_vertices and with other groups, whose shares are the same to the last bit, so that both plans
 * cut a buffer at the same places. */
BANYAN_CHECK enum banyan_status by_plan_rework(const struct by_plan *from, uint32_t n_vertices, by_group_rework rework,
                                               struct by_plan **out);
/* Gives a finished plan a control tree, copied, and the version that goes with it. On failure the plan is still to be
 * destroyed. BANYAN_ERR_PLAN: it is not one tree of all ranks. */
BANYAN_CHECK enum banyan_status by_plan_set_control(struct by_plan *plan, const struct by_plan_control *control);
struct by_plan_part {
  const struct by_plan *plan; /* its class for buffers of up_to bytes is taken */
  uint64_t up_to;             /* ascending; the last one's does not matter: it takes all larger buffers */
};

/* A plan of size classes out of plans over the same ranks; those of the last name them. Other vertices are joined by
 * name. Facts and frame size are the last part's; there is no control tree. Nothing is borrowed; the caller owns *out.
 * Cost: the classes' size. */
BANYAN_CHECK enum banyan_status by_plan_join(const char *name, const struct by_plan_part *parts, uint32_t n,
                                             struct by_plan **out);
/* A copy with n_own classes of some collectives, which `fill_own` makes of the empty `own`. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_plan_extend(const struct by_plan *plan, uint32_t n_own,
                                               enum banyan_status (*fill_own)(void *context, struct by_plan *made,
                                                                              struct by_class *own),
                                               void *context, struct by_plan **out);
/* A plan of one class out of plans over the same ranks: the groups of their classes for the largest buffers, each
 * plan's with its share of the buffer; where parts end does not matter. Vertices as by_plan_join has them; no facts.
 * Nothing is borrowed; the caller owns *out. Cost: the classes' size. */
BANYAN_CHECK enum banyan_status by_plan_mix(const char *name, const struct by_plan_part *parts, const double *shares,
                                            uint32_t n, struct by_plan **out);
/* A copy whose ranks stand in another order: where a group has rank r, it gets order[r]; their names come from `names`,
 * a plan over as many ranks. Other vertices stay. */
BANYAN_CHECK enum banyan_status by_plan_reorder(const struct by_plan *plan, const uint32_t *order,
                                                const struct by_plan *names, struct by_plan **out);
/* For qsort: numbers, and vertices by their names. */
int by_compare_numbers(const void *a, const void *b);
int by_compare_vertices(const void *a, const void *b);
/* The error for memory that is out. Inline, so that analysers see that it is never BANYAN_OK. */
static inline enum banyan_status by_plan_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the plan");
  return BANYAN_ERR_NO_MEMORY;
}

#endif
