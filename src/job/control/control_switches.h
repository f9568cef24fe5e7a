/* Rank 0 asks switches for cells: one connection to each switch, for all trees over it. A switch that does not answer
 * in time, or refuses, gets no part in the tree: it is not asked any more, since what the ends know of it stays. One
 * that had its part and is gone is asked until it is back; meanwhile sums go past it. On the loop's thread. */
#ifndef BY_JOB_CONTROL_CONTROL_SWITCHES_H
#define BY_JOB_CONTROL_CONTROL_SWITCHES_H

#include "job_state.h"
#include "tree_setup.h"

struct by_control_switch;

/* A tree through switches while it is set up, and after. The first part is of control_trees.c, which lists it. */
struct by_control_tree {
  struct by_control_tree *next;
  struct by_trees *trees;
  struct by_switched_tree *tree;
  struct by_tree_ends ends;
  uint32_t processes[BY_FRAGMENT_WORKERS];
  bool notified; /* its ends know their parts */
  /* while they do not: */
  uint64_t since;   /* switches have been asked */
  uint32_t renamed; /* how often its number was taken at some switch */
  /* one for each switch: */
  struct by_tree_answer *answers;
  struct by_tree_part {
    struct by_control_switch *asked;
    bool refused;     /* it has refused, for good */
    uint32_t allowed; /* most slots that are asked for; of control_trees.c */
  } * parts;
};

struct by_switch_events {
  /* All switches of this tree have answered, or their time is up: its ends can be sent their parts. */
  void (*settled)(void *context, struct by_control_tree *tree);
  /* What is granted has changed. */
  void (*changed)(void *context);
  void *context;
};

struct by_switches {
  const struct by_job *job;
  struct by_switch_events events;
  struct by_control_tree *trees;   /* listed by control_trees.c */
  struct by_control_switch *first; /* which are asked */
};

void by_switches_fini(struct by_switches *switches);
/* Random numbers for a tree; others, where these are taken. */
BANYAN_CHECK enum banyan_status by_switches_choose_numbers(struct by_control_tree *tree);
/* Asks all switches of a tree; by_switches_look sees what they answer. */
BANYAN_CHECK enum banyan_status by_switches_ask(struct by_switches *switches, struct by_control_tree *tree);
/* The same of a tree whose ends know their part. */
void by_switches_ask_again(const struct by_control_tree *tree);
/* False: there is nothing to wait for. */
bool by_switches_look(struct by_switches *switches);
/* Gives all cells of all trees back to the switches. */
void by_switches_drop_cells(const struct by_switches *switches);

#endif
