/* Which workers of an in-network tree form groups, and what each switch adds: so
 * that a switch above switches of more than 64 workers in all gets sums of whole
 * groups. Pure; nothing is kept.
 *
 *            server               above s1, s2 and s3 are more than 64 workers, so it
 *              |                  adds sums of groups. Groups: those of s1, those of s2,
 *              s0                 those of s3 (s4 has a part of them), and worker 130,
 *          /  |   \   \           who is alone
 *        s1  s2    s3  130
 *       50   40   / \
 *                s4  20
 *                20                                                              */
#ifndef BY_PLAN_SWITCHED_GROUPS_H
#define BY_PLAN_SWITCHED_GROUPS_H

#include "worker_groups.h"

#define BY_SWITCHED_NONE UINT32_MAX

struct by_switched_place {
  uint32_t parent; /* switch; BY_SWITCHED_NONE: the server */
  bool adds;
  /* filled in: */
  uint32_t workers;         /* below it */
  uint32_t group;           /* of all of them, where it adds at most 64; BY_SWITCHED_NONE else */
  struct by_worker_set set; /* what it adds: empty where it does not */
  bool whole;               /* these are its group, whose sum goes on as that of a group */
};

/* `first`: the switch above each of the 1 to BY_TREE_WORKERS workers, or BY_SWITCHED_NONE. number_of[w]: the number
 * that worker w gets: where there is one group, w. False: there would be more than 64 groups. */
bool by_switched_groups(struct by_switched_place *switches, uint32_t n_switches, const uint32_t *first,
                        uint32_t n_workers, uint32_t *number_of, struct by_worker_groups *groups);

#endif
