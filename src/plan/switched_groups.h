/* Computes which workers of an in-network tree form groups, and what each switch adds, so that a switch above switches
 * with more than 64 workers in total gets sums of whole groups. Pure.
 *
 *             server               above s1, s2 and s3 are more than 64 workers, so it
 *               |                  adds sums of groups. Groups: those of s1, those of s2,
 *               s0                 those of s3 (s4 has a part of them), and worker 130,
 *           /  |   \\   \\           who is alone
 *         s1  s2    s3  130
 *        50   40   / \\
 *                 s4  20
 *                 20 */
#ifndef BY_PLAN_SWITCHED_GROUPS_H
#define BY_PLAN_SWITCHED_GROUPS_H

#include "fragment.h"

#define BY_SWITCHED_NONE UINT32_MAX

struct by_switched_node {
  uint32_t parent; /* the switch above; BY_SWITCHED_NONE: the server */
  bool adds;
  /* The following fields are results. */
  uint32_t workers;         /* the number of workers below it */
  uint32_t group;           /* the group of all these workers, if it adds at most 64; otherwise BY_SWITCHED_NONE */
  struct by_worker_set set; /* what it adds; empty if it does not add */
  bool whole;               /* these workers are a whole group, whose sum it forwards as the group's */
};

/* `first`: the switch above each of the 1 to BY_TREE_WORKERS workers, or BY_SWITCHED_NONE. number_of[w]: the new number
 * of worker w; with one group it is w. False: there would be more than 64 groups. */
bool by_switched_groups(struct by_switched_node *switches, uint32_t n_switches, const uint32_t *first,
                        uint32_t n_workers, uint32_t *number_of, struct by_worker_groups *groups);

#endif
