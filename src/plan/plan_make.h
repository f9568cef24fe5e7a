/* Makes a plan: create it with its vertices and classes, add groups to each class and arrays to each group, fill them,
 * finish it. Everything is in the plan's arena. For the parser, the built-ins and the planners. */
#ifndef BY_PLAN_PLAN_MAKE_H
#define BY_PLAN_PLAN_MAKE_H

#include <jansson.h>

#include "plan.h"

/* Makes an empty plan; the caller owns *out and passes it to by_plan_end or by_plan_destroy. */
BANYAN_CHECK enum banyan_status by_plan_create(const char *name, struct by_plan **out);
/* Adds n_ranks vertices for the ranks, named "0", "1", ..., and n_others helpers without a name. */
BANYAN_CHECK enum banyan_status by_plan_add_vertices(struct by_plan *plan, uint32_t n_ranks, uint32_t n_others);
/* Adds n empty size classes, the last one without a limit, and n_own own classes. */
BANYAN_CHECK enum banyan_status by_plan_add_classes(struct by_plan *plan, uint32_t n, uint32_t n_own);
BANYAN_CHECK enum banyan_status by_plan_add_groups(struct by_plan *plan, struct by_class *class_, uint32_t n);
/* Sets the kind and arrays of a group of n positions. Positions are vertices 0 .. n - 1 in this order; parents are
 * zero; an exchange has none. `down` is the same array as `up` unless `separate_down`. */
BANYAN_CHECK enum banyan_status by_group_init(struct by_plan *plan, struct by_group *group, enum by_group_kind kind,
                                              uint32_t n, bool separate_down);
/* Copies n_radix digits; digits of 1 are omitted. */
BANYAN_CHECK enum banyan_status by_group_set_radix(struct by_plan *plan, struct by_group *group, const uint32_t *radix,
                                                   uint32_t n_radix);
/* Makes `group` a copy of `from` in which vertex v becomes map(context, v); map may be NULL. */
BANYAN_CHECK enum banyan_status by_group_copy(struct by_plan *plan, struct by_group *group, const struct by_group *from,
                                              uint32_t (*map)(const void *context, uint32_t vertex),
                                              const void *context);
/* Sorts forwards and ports. */
void by_group_sort_ports(struct by_group *group);
/* If `status` is BANYAN_OK, normalises shares whose sum differs from 1 by rounding, validates and sets the version.
 * Takes ownership of `plan`: on failure, and with another status, which it returns, it is destroyed. */
BANYAN_CHECK enum banyan_status by_plan_end(struct by_plan *plan, enum banyan_status status, struct by_plan **out);
/* Changes a group of `plan`, which is a copy of one of `from`. */
typedef enum banyan_status (*by_group_rework)(const struct by_plan *from, struct by_plan *plan, struct by_group *group);
/* Copies a plan with its first n_vertices and changed groups. Shares stay equal to the last bit, so that both plans cut
 * a buffer at the same positions. */
BANYAN_CHECK enum banyan_status by_plan_rework(const struct by_plan *from, uint32_t n_vertices, by_group_rework rework,
                                               struct by_plan **out);
/* Copies a control tree into a finished plan, and updates the version. On failure the plan still has to be destroyed.
 * BANYAN_ERR_PLAN: it is not one tree of all ranks. */
BANYAN_CHECK enum banyan_status by_plan_set_control(struct by_plan *plan, const struct by_plan_control *control);
struct by_plan_part {
  const struct by_plan *plan; /* the plan whose class for buffers of up_to bytes is used */
  uint64_t up_to;             /* ascending; the last part is for all larger buffers, and its value is ignored */
};

/* Combines plans over the same ranks to one with size classes. The last plan names the ranks. Other vertices are
 * identified by name. Facts and frame size are those of the last part; there is no control tree. Nothing is borrowed;
 * the caller owns *out. Cost: the classes' size. */
BANYAN_CHECK enum banyan_status by_plan_join(const char *name, const struct by_plan_part *parts, uint32_t n,
                                             struct by_plan **out);
/* Copies a plan with n_own own classes, which `fill_own` fills in from the empty `own`. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_plan_extend(const struct by_plan *plan, uint32_t n_own,
                                               enum banyan_status (*fill_own)(void *context, struct by_plan *made,
                                                                              struct by_class *own),
                                               void *context, struct by_plan **out);
/* Combines plans over the same ranks to one with a single class: it has the groups of their classes for the largest
 * buffers, and each plan has its share of the buffer. The limits of parts are ignored. Vertices are as with
 * by_plan_join; there are no facts. Nothing is borrowed; the caller owns *out. Cost: the classes' size. */
BANYAN_CHECK enum banyan_status by_plan_mix(const char *name, const struct by_plan_part *parts, const double *shares,
                                            uint32_t n, struct by_plan **out);
/* Copies a plan with its ranks reordered: rank r of a group becomes order[r]; the names are those of `names`, a plan
 * over as many ranks. Other vertices stay. */
BANYAN_CHECK enum banyan_status by_plan_reorder(const struct by_plan *plan, const uint32_t *order,
                                                const struct by_plan *names, struct by_plan **out);
/* For qsort: compares numbers, and vertices by name. */
int by_compare_numbers(const void *a, const void *b);
int by_compare_vertices(const void *a, const void *b);
/* Reports that memory is exhausted. It is inline so that analysers see that it never returns BANYAN_OK. */
static inline enum banyan_status by_plan_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the plan");
  return BANYAN_ERR_NO_MEMORY;
}

/* The control tree of a plan, along which ranks agree on which operations are ready. For files that make, copy and read
 * plans; users of a plan include plan.h. */

struct by_doc_path;
struct by_text;

/* Checks that the tree is one tree over all ranks, and that the ring has each rank once. BANYAN_ERR_PLAN. Cost: ranks.
 */
BANYAN_CHECK enum banyan_status by_plan_control_check(const struct by_plan *plan);
/* Copies the control tree of `from`; rank r becomes order[r] (NULL: r). Without a control tree it does nothing. */
BANYAN_CHECK enum banyan_status by_plan_control_copy(struct by_plan *plan, const struct by_plan_control *from,
                                                     const uint32_t *order);
/* The ranks on each host: rank[start[h]] .. rank[start[h + 1] - 1]. */
struct by_plan_host_ranks {
  uint32_t n_hosts, n_ranks;
  const uint32_t *start, *rank;
};
/* Expands a control tree over hosts to ranks. The first rank of a host has the host's role, and the other ranks of the
 * host are below it. No rank has more children than the fan-out: if a host's children leave no slot for its own ranks,
 * one of the children is attached to another rank of the host. On a ring the ranks of a host are adjacent. With several
 * ranks on a host the ring is longer than the one that was compared with the tree, so the tree is used. */
BANYAN_CHECK enum banyan_status by_plan_control_expand(struct by_plan *plan, const struct by_plan_control *over_hosts,
                                                       const struct by_plan_host_ranks *places);
/* Expands only the tree: computes the parents of ranks from those of hosts. */
BANYAN_CHECK enum banyan_status by_plan_control_hang(const struct by_plan_host_ranks *places, uint32_t fan_out,
                                                     const uint32_t *parent_of_host, uint32_t *parent);
/* Reads the member "control". `vertex_of` maps names to vertices. Errors like those of by_plan_parse. */
BANYAN_CHECK enum banyan_status by_plan_control_read(struct by_plan *plan, const struct by_doc_path *place,
                                                     json_t *control, const json_t *vertex_of);
/* Adds the member with a preceding comma; nothing if the plan has no control tree. */
void by_plan_control_print(const struct by_plan *plan, struct by_text *text);

#endif
