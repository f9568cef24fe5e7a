/* Inside control: a tree through switches while it is set up, and after. */
#ifndef BY_COMMUNICATOR_CONTROL_TREES_H
#define BY_COMMUNICATOR_CONTROL_TREES_H

#include "control_parts.h"
#include "tree_setup.h"

struct by_control_switch;

struct by_control_tree {
  struct by_control_tree *next;
  struct by_control *control;
  struct by_switched_tree *tree;
  struct by_tree_ends ends;
  uint32_t processes[BY_FRAGMENT_WORKERS];
  bool told;
  /* while it is not: */
  uint64_t until;   /* for switches to answer */
  uint32_t renamed; /* how often its number was taken at some switch */
  /* one for each switch: */
  struct by_tree_answer *answers;
  struct by_control_switch **asked;
  bool *refused; /* it has said no, for good */
};

/* control_trees.c: another number, where this one is taken. */
enum banyan_status by_control_choose_numbers(struct by_control_tree *tree) BANYAN_CHECK;
/* What is known is what the ends are told. */
void by_control_tell_tree(struct by_control_tree *tree);

/* control_switches.c: asks them all; by_control_tell_tree follows, after ANSWERS_MS at the latest. */
enum banyan_status by_control_ask_switches(struct by_control_tree *tree) BANYAN_CHECK;
void by_control_switches_due(void *argument);
void by_control_forget_switches(struct by_control *control);

#endif
