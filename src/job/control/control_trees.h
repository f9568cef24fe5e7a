/* Inside control: a tree through switches while it is set up, and after. */
#ifndef BY_JOB_CONTROL_CONTROL_TREES_H
#define BY_JOB_CONTROL_CONTROL_TREES_H

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
  uint64_t since;   /* switches have been asked */
  uint32_t renamed; /* how often its number was taken at some switch */
  /* one for each switch: */
  struct by_tree_answer *answers;
  struct by_control_switch **asked;
  bool *refused;     /* it has said no, for good */
  uint32_t *allowed; /* most slots that are asked for */
};

struct by_control_wished {
  struct by_control_tree *tree;
  uint32_t which; /* of its switches */
};

/* control_trees.c: another number, where this one is taken. */
enum banyan_status by_control_choose_numbers(struct by_control_tree *tree) BANYAN_CHECK;
/* What is known is what the ends are told. */
void by_control_tell_tree(struct by_control_tree *tree);

/* control_switches.c: gives all cells of all trees back to the switches. */
void by_control_drop_cells(struct by_control *control);

/* control_cells.c: wishes for slots, and whether the manager's answer is awaited. Then by_control_ask_all follows. */
bool by_control_wish(struct by_control *control);
/* While that is awaited, a few times. */
void by_control_await_cells(struct by_control *control);
/* What switches have granted. */
void by_control_say_granted(struct by_control *control);

/* The timer of what by_control_use_trees has asked for. */
void by_control_release_due(void *argument);

/* control_trees.c: all switches of all trees, those that are set up already for the cells that they had. */
void by_control_ask_all(struct by_control *control);

/* control_switches.c: asks them all; by_control_tell_tree follows, when all have answered or their time is up. */
enum banyan_status by_control_ask_switches(struct by_control_tree *tree) BANYAN_CHECK;
/* The same of a tree whose ends know their part. */
void by_control_ask_switches_again(struct by_control_tree *tree);
void by_control_switches_due(void *argument);
void by_control_forget_switches(struct by_control *control);

#endif
