/* The trees through switches of one plan: which processes are their ends, at which addresses, and how many slots each
 * tree asks its switches for. Made from a plan, as values; control_trees.c sets them up. On the loop's thread, except
 * that one may be made by any thread before others see it. */
#ifndef BY_IN_NETWORK_CONTROL_TREE_SET_H
#define BY_IN_NETWORK_CONTROL_TREE_SET_H

#include <sys/queue.h>

#include "control.h"
#include "control_switches.h"

/* How far a set is. by_tree_set_go alone changes it, from one to the next:
 *
 *   OPENING   -> WAITING     all ends have a UDP port; the manager is asked for memory of switches
 *   OPENING   -> ACQUIRING   or need not be asked: switches are asked
 *   WAITING   -> ACQUIRING   the manager has answered, or is late
 *   ACQUIRING -> GIVEN       the ends are sent their parts
 *   GIVEN     -> READY       and have them
 *
 * From each of the last three to ENDING: no worker uses it any more, and its servers are to forget it. From each of the
 * first four to HOPELESS: its plan is not to be proposed. From all to OVER: it is to be freed. */
enum by_set_state {
  BY_SET_OPENING,
  BY_SET_WAITING,
  BY_SET_ACQUIRING,
  BY_SET_GIVEN,
  BY_SET_READY,
  BY_SET_ENDING,
  BY_SET_HOPELESS,
  BY_SET_OVER,
  BY_SET_STATES
};

/* A process that is an end of one or several of a set's trees. */
struct by_set_end {
  uint32_t process;
  uint32_t parts; /* Parts that it has been sent and has not reported as ready. */
  bool unused;    /* It does not use the set any more, or is gone. */
};

/* The trees of one plan. */
struct by_tree_set {
  LIST_ENTRY(by_tree_set) entry;
  struct by_trees *trees;       /* Owned by control_trees.c. */
  struct by_switches *switches; /* They list the trees of all sets. */
  uint32_t version;
  uint64_t number; /* The number of the manager's plan; 0: the plan is not the manager's. */
  enum by_set_state state;
  bool together; /* The plan is to be proposed: all its trees are granted, or none. */
  char *why;     /* Why the set has failed. */
  struct by_timer late;
  uint32_t n_ends;
  struct by_set_end *ends; /* Each end once. */
};

/* Makes a set, and the list of its trees, which the caller adds to the others. On failure there is nothing. */
BANYAN_CHECK enum banyan_status by_tree_set_make(struct by_switches *switches, const struct by_tree_wanted *wanted,
                                                 bool together, struct by_in_network_tree **list,
                                                 struct by_tree_set **out);
/* Frees a list of trees that was not added to the others. */
void by_tree_set_free_list(struct by_in_network_tree *trees);
/* Destroys a set and its trees, which are removed from the others. The set is in no list any more. */
void by_tree_set_destroy(struct by_tree_set *set);
/* Changes the state. Changes that are not listed above are a fault. */
void by_tree_set_go(struct by_tree_set *set, enum by_set_state state);
/* NULL: the process is none of its ends. */
struct by_set_end *by_tree_set_find_end(const struct by_tree_set *set, uint32_t process);
/* The trees of a set, one after the other. */
struct by_in_network_tree *by_tree_set_first(const struct by_tree_set *set);
struct by_in_network_tree *by_tree_set_next(const struct by_in_network_tree *tree);
/* Finds the addresses of all ends, which have UDP ports by now, and the maximum size of fragments. */
BANYAN_CHECK enum banyan_status by_tree_set_find_addresses(const struct by_tree_set *set);
/* Returns whether some end has no UDP port yet. */
bool by_tree_set_lacks_ports(const struct by_tree_set *set);
/* Gives all ends of a tree the slots of the switch that allows fewest: more elsewhere would be useless. */
void by_tree_set_level(struct by_in_network_tree *tree);

#endif
