/* In-network trees of a plan as switches and workers need them: who adds what, in which groups, and over which ports.
 * Pure. */
#ifndef BY_PLAN_SWITCHED_TREE_H
#define BY_PLAN_SWITCHED_TREE_H

#include "fragment.h"
#include "plan.h"

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

/* The structure of an in-network tree: the number and group of each worker, the switches on the paths and their order,
 * and the interfaces by which they reach each other. Made from a group of a plan whose root is a server; a value in one
 * arena, freed by one call, independent of the plan. It does not contain the workers' twigs, which ranks know.
 *
 *          h/0            server: on host h
 *         /   \
 *       s1     \          switch, place 0
 *      /  \     \
 *     s2   \     \        switch, place 1; its parent is s1
 *    /  \   \     \
 *   0    1   2     3      workers; 3 runs on h, with no switch on its path   */

/* What a switch reaches through one interface towards the workers: a worker, or the next switch. There may be several
 * workers behind an interface if a switch in between is not part of the plan. */
struct by_switched_below {
  const char *interface; /* NULL for an aggregator */
  bool is_switch;
  uint32_t n_workers; /* the workers behind it, by number; the addresses of all of them lead there */
  uint32_t *workers;
};

struct by_switched_switch {
  uint32_t vertex; /* the vertex of the plan */
  const char *name;
  bool aggregator; /* It is a server below the root. */
  bool adds;       /* If not, it only forwards and needs no cells. */
  uint32_t
      place; /* The number of switches between it and the server: its entry in the stack of each worker below it. */
  uint32_t parent;          /* index into `switches`; BY_SWITCHED_NONE: the server */
  struct by_worker_set set; /* the workers below it, or their groups; empty if it does not add */
  bool whole;               /* These workers are a whole group, whose sum it forwards as the group's. */
  const char *up;           /* the interface towards the parent; NULL for an aggregator */
  uint32_t n_below;
  struct by_switched_below *below;
};

struct by_switched_tree {
  uint32_t server; /* the vertex of the plan */
  const char *server_name;
  uint32_t n_workers;
  struct by_worker_groups groups;
  uint32_t *workers; /* the rank of worker w, sorted in each group */
  uint32_t *first;   /* the index into `switches` of the switch right above worker w; BY_SWITCHED_NONE: none */
  uint32_t n_switches;
  struct by_switched_switch *switches; /* parents before the switches below them */
  struct by_arena arena;
};

/* Makes the tree of group `group` of class `class_`. The caller owns *out. BANYAN_ERR_UNSUPPORTED: an error of
 * by_plan_check_switches, the group's root is no server, or the plan does not name ("ports") the interface by which a
 * switch reaches a neighbour. Cost: the square of the tree's size. */
BANYAN_CHECK enum banyan_status by_switched_tree_make(const struct by_plan *plan, uint32_t class_, uint32_t group,
                                                      struct by_switched_tree **out);
/* NULL is allowed. */
void by_switched_tree_destroy(struct by_switched_tree *tree);

/* Returns the length of the host's part of a server's name: the bytes before the last "/", or all. */
size_t by_server_host_bytes(const char *server_name);

#endif
