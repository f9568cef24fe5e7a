/* What the files of the control tree share: one tree under limits that are given. */
#ifndef BY_PLAN_CONTROL_LEVEL_H
#define BY_PLAN_CONTROL_LEVEL_H

#include "control_tree.h"

/* An empty tree for n ranks, all parents 0. */
BANYAN_CHECK enum banyan_status by_control_tree_create(uint32_t n, struct by_control_tree **out);
/* A tree whose root is the first rank of a class, under these limits, all of them given; *out stays NULL where none is
 * found. */
BANYAN_CHECK enum banyan_status by_control_tree_from(const struct by_nearness *near,
                                                     const struct by_control_limits *limits, uint32_t root_class,
                                                     struct by_control_tree **out);

/* The error for memory that is out. Inline, so that analysers see that it is never BANYAN_OK. */
static inline enum banyan_status by_control_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the control tree");
  return BANYAN_ERR_NO_MEMORY;
}

#endif
