/* Rank 0 asks switches for cells: one connection to each switch, for all trees over it. Trees that are tried in vain
 * get nothing there: a switch that refuses, or does not answer in time, has no part in the tree, since what the ends
 * know of it stays. One that had its part and is gone is asked until it is back; meanwhile sums go past it. On the
 * loop's thread. */
#ifndef BY_IN_NETWORK_CONTROL_SWITCHES_H
#define BY_IN_NETWORK_CONTROL_SWITCHES_H

#include "job_state.h"
#include "tree_setup.h"

struct by_control_switch;
struct by_cluster_switch;

/* How far an in-network tree is. Its cells are asked for, and then all its switches have granted them, or have no part;
 * then its ends are given what they must know. */
enum by_tree_stage { BY_TREE_PLANNED, BY_TREE_ASKED, BY_TREE_SETTLED, BY_TREE_GIVEN, BY_TREE_OVER };

/* An in-network tree at rank 0. control_trees.c owns it. */
struct by_in_network_tree {
  struct by_in_network_tree *next;
  struct by_tree_set *set;
  struct by_switched_tree *tree;
  struct by_tree_ends ends;
  uint32_t processes[BY_TREE_WORKERS];
  /* From here on, control_switches.c's too. */
  enum by_tree_stage stage;
  bool together;    /* it is of no use unless all its switches grant what is asked for */
  uint64_t since;   /* switches have been asked */
  uint32_t renamed; /* how often its number was taken at some switch */
  /* one for each switch: */
  struct by_tree_answer *answers;
  struct by_tree_part {
    struct by_control_switch *asked; /* NULL: it is an aggregator, which has its part unless refused */
    bool refused;                    /* it has refused, for good */
    uint32_t allowed;                /* slots that are asked for, and how few will do where all have to grant; */
    uint32_t least;                  /* both of control_trees.c */
  } * parts;
};

struct by_switch_events {
  /* All switches of this tree have answered, or their time is up; its stage is BY_TREE_SETTLED. */
  void (*settled)(void *context, struct by_in_network_tree *tree);
  /* What is granted has changed. */
  void (*changed)(void *context);
  void *context;
};

struct by_switches {
  const struct by_job *job;
  struct by_switch_events events;
  struct by_in_network_tree *trees; /* all; listed by control_trees.c */
  struct by_control_switch *first;  /* which are asked */
};

void by_switches_fini(struct by_switches *switches);
/* Random numbers for a tree that none of the listed trees has; others, where a switch says that these are taken. */
BANYAN_CHECK enum banyan_status by_switches_choose_numbers(const struct by_switches *switches,
                                                           struct by_in_network_tree *tree);
/* Which of `places` a tree's switches are; those that are not among them are known by name. */
BANYAN_CHECK enum banyan_status by_switches_find(struct by_switches *switches, struct by_in_network_tree *tree,
                                                 const struct by_cluster_switch *places, uint32_t n);
/* This process is lost. If it is an aggregator of the tree, the tree is set up without it; ends of one that is set up
 * notice for themselves. */
void by_switches_lose(struct by_in_network_tree *tree, uint32_t process);
/* Asks all switches of a tree; by_switches_look sees what they answer. */
void by_switches_ask(struct by_switches *switches, struct by_in_network_tree *tree);
/* False: there is nothing to wait for. */
bool by_switches_look(struct by_switches *switches);
/* Why a tree that is settled cannot do without a switch that has no part, or too little, in `text`. False: it can. */
bool by_switches_lack(const struct by_in_network_tree *tree, char *text, size_t room);
/* Gives all cells of a tree back to the switches. */
void by_switches_drop(const struct by_in_network_tree *tree);

#endif
