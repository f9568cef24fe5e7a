/* Rank 0 asks switches for cells: one connection to each switch, for all trees over it. A switch that refuses, or does
 * not answer in time, has no part in the tree for good, since the ends keep what they were sent. A switch that had its
 * part and is gone is asked until it is back; meanwhile sums pass by it. On the loop's thread. */
#ifndef BY_IN_NETWORK_CONTROL_SWITCHES_H
#define BY_IN_NETWORK_CONTROL_SWITCHES_H

#include "job_access.h"
#include "tree_setup.h"

struct by_control_switch;
struct by_cluster_switch;

/* The progress of an in-network tree. First its cells are requested; it is settled when each of its switches has
 * granted them, or has no part; then its ends are sent their parts. */
enum by_tree_stage { BY_TREE_PLANNED, BY_TREE_ASKED, BY_TREE_SETTLED, BY_TREE_GIVEN, BY_TREE_OVER };

/* An in-network tree at rank 0. control_trees.c owns it. */
struct by_in_network_tree {
  struct by_in_network_tree *next;
  struct by_tree_set *set;
  struct by_switched_tree *tree;
  struct by_tree_ends ends;
  uint32_t processes[BY_TREE_WORKERS];
  /* The fields from here on are control_switches.c's too. */
  enum by_tree_stage stage;
  bool together;    /* The tree is of no use unless all its switches grant their cells. */
  uint64_t since;   /* When its switches were asked. */
  uint32_t renamed; /* How often its number was taken at some switch. */
  /* The answers, and the states, of the tree's switches. */
  struct by_tree_answer *answers;
  struct by_tree_part {
    struct by_control_switch *asked; /* NULL: the switch is an aggregator, which has its part unless refused. */
    bool refused;                    /* The switch has refused for good. */
    uint32_t allowed;                /* Slots to request; set by control_trees.c. */
    uint32_t least;                  /* Minimum of slots where all must grant; set by control_trees.c. */
  } * parts;
};

struct by_switch_events {
  /* All switches of this tree have answered, or their time is up; its stage is BY_TREE_SETTLED. */
  void (*settled)(void *context, struct by_in_network_tree *tree);
  /* Some switch's grant has changed. */
  void (*changed)(void *context);
  void *context;
};

struct by_switches {
  const struct by_job *job;
  struct by_switch_events events;
  struct by_in_network_tree *trees; /* All trees; listed by control_trees.c. */
  struct by_control_switch *first;  /* The switches that are asked. */
};

void by_switches_fini(struct by_switches *switches);
/* Chooses random numbers for a tree that no listed tree has; other ones if a switch says that these are taken. */
BANYAN_CHECK enum banyan_status by_switches_choose_numbers(const struct by_switches *switches,
                                                           struct by_in_network_tree *tree);
/* Finds the tree's switches among `places`; the others are known by name. */
BANYAN_CHECK enum banyan_status by_switches_find(struct by_switches *switches, struct by_in_network_tree *tree,
                                                 const struct by_cluster_switch *places, uint32_t n);
/* Notes that a process is lost. If it is an aggregator of the tree, the tree is set up without it; ends of a tree that
 * is set up notice the loss themselves. */
void by_switches_lose(struct by_in_network_tree *tree, uint32_t process);
/* Asks all switches of a tree; by_switches_look sees what they answer. */
void by_switches_ask(struct by_switches *switches, struct by_in_network_tree *tree);
/* Looks at the answers. False: there is nothing to wait for. */
bool by_switches_look(struct by_switches *switches);
/* Writes to `text` why a settled tree cannot do without a switch that has no part, or too little. False: it can. */
bool by_switches_lack(const struct by_in_network_tree *tree, char *text, size_t room);
/* Gives all cells of a tree back to the switches. */
void by_switches_drop(const struct by_in_network_tree *tree);

#endif
