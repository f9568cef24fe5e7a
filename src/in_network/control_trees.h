/* In-network trees at rank 0. Each plan's trees are a set of their own, with a version: their own numbers, keys and
 * cells, so that nothing of one plan is taken for something of another. What the ends have sent when they joined, and
 * what switches grant, becomes what each end must know.
 *
 * A plan that all ranks are given at the same call (the first one, or one that is set by hand) has its trees set up in
 * the background, and its calls wait for that; switches that do not answer in time have no part. A plan that is
 * proposed while calls go on has them set up before it is agreed on: all grants or none, and calls go on under the plan
 * before.
 *
 * A set ends when all its workers have reported that no call is over it any more, nor will be. Then its servers forget
 * it, its cells are given back, and the manager is notified.
 *
 * For plans that are not the manager's, the manager is sent what trees request, answers how much of the switches'
 * memory they may take, and is sent what they have got. A job whose manager is away, or silent, takes what it gets. On
 * the loop's thread unless said otherwise. */
#ifndef BY_IN_NETWORK_CONTROL_TREES_H
#define BY_IN_NETWORK_CONTROL_TREES_H

#include <sys/queue.h>

#include "control.h"
#include "control_deaths.h"
#include "control_messages.h"
#include "control_plan_switches.h"
#include "job_access.h"
#include "member.h"
#include "reservation.h"
#include "switched_tree.h"

/* ---- tree_setup.c
 *
 * Setting up one tree through switches: from the tree, where its ends are and
 * what switches have granted to what each switch is asked for, and what each end
 * is sent. No I/O, no state.
 *
 * A switch that has not answered gets no part: its entries stay empty, and as it
 * has no grant it sends on whatever comes by its address. Nor do results for all
 * get past it, so those behind it get their own. */

enum {
  BY_TREE_WANTED = 512,   /* Slots to request: only fast networks have more fragments in flight. */
  BY_TREE_WORTHWHILE = 16 /* Minimum of slots: with fewer, a switch would slow all down, so it only forwards. */
};

/* What the ends have sent, and what rank 0 has chosen. */
struct by_tree_ends {
  uint32_t version; /* Version of the plan's trees. */
  uint16_t job, key;
  uint32_t lines;
  bool exact; /* Numbers are sent unconverted, to switches that can add float32. */
  bool keyed; /* Fragments have MACs, which needs encrypted control connections to switches. */
  unsigned char secret[BY_TREE_SECRET];
  uint32_t server;      /* The server's process. */
  struct by_address at; /* The server's address; all addresses are IPv4, or all are IPv6. */
  struct by_address workers[BY_TREE_WORKERS];
};

/* The grant of one switch, or the address of an aggregator, which grants all. */
struct by_tree_answer {
  bool granted;
  struct by_granted what;
  uint32_t aggregator; /* The aggregator's process; UINT32_MAX: this is a switch, or there is none. */
  struct by_address at;
};

/* An end of a tree, and where it is to be reached. */
struct by_tree_end {
  const struct by_member *member;
  struct by_address *at;
};

/* Returns the maximum lines of a fragment in packets of `mtu` bytes, IP header included; at least 1. */
uint32_t by_tree_lines(uint32_t mtu, int family);
/* Finds the ends' addresses and the maximum size of fragments: all by IPv4, or all by IPv6, or by the loopback
 * interface if all are on one machine. BANYAN_ERR_CONNECT names hosts that lack addresses of a family. */
BANYAN_CHECK enum banyan_status by_tree_find_addresses(const struct by_tree_end *ends, uint32_t n, uint32_t *lines);
/* Makes the request to switch number `which`, which is no aggregator. */
void by_tree_reservation(const struct by_switched_tree *tree, const struct by_tree_ends *ends, uint32_t which,
                         struct by_reservation *out);
/* Makes the message to worker number `worker`, or with BY_TREE_FOR_SERVER to the server. `answers`: one for each
 * switch. */
void by_tree_describe(const struct by_switched_tree *tree, const struct by_tree_ends *ends,
                      const struct by_tree_answer *answers, uint32_t worker, struct by_tree_message *out);

/* Makes the message to the aggregator that is number `which` of the switches, and has granted its part. */
void by_tree_describe_aggregator(const struct by_switched_tree *tree, const struct by_tree_ends *ends,
                                 const struct by_tree_answer *answers, uint32_t which, struct by_tree_message *out);

/* ---- control_switches.c
 *
 * Rank 0 asks switches for cells: one connection to each switch, for all trees over it. A switch that refuses, or does
 * not answer in time, has no part in the tree for good, since the ends keep what they were sent. A switch that had its
 * part and is gone is asked until it is back; meanwhile sums pass by it. On the loop's thread. */

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

/* ---- control_tree_set.c
 *
 * The trees through switches of one plan: which processes are their ends, at which addresses, and how many slots each
 * tree asks its switches for. Made from a plan, as values; control_trees.c sets them up. On the loop's thread, except
 * that one may be made by any thread before others see it. */

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

/* ---- control_trees.c */

struct by_trees {
  struct by_control_peers *peers;
  struct by_deaths *deaths;
  struct by_plan_switching *switching;
  const struct by_control_events *events;
  struct by_control *control;
  struct by_switches switches;
  LIST_HEAD(, by_tree_set) sets;
  struct by_timer due;  /* Runs while a tree waits for switches, or for the manager's answer. */
  uint64_t cells_until; /* Time until which the manager's answer about memory is awaited; 0: none is. */
  struct by_cell_request {
    struct by_in_network_tree *tree; /* NULL: the tree is gone. */
    uint32_t which;                  /* Index among the tree's switches. */
  } * requested;                     /* The last request to the manager, entry by entry. */
  uint32_t n_requests;
  uint64_t released; /* The last of the manager's plans whose cells have been given back; 0 if there is none. */
};

void by_trees_init(struct by_trees *trees, struct by_control *control);
void by_trees_fini(struct by_trees *trees);
/* Any thread, under the job's lock: see struct by_tree_service. */
void by_trees_begin(struct by_trees *trees, const struct by_plan *plan, const uint32_t *processes,
                    const uint32_t *helpers, uint32_t version);
/* Sets up the trees of a plan that is to be proposed; by_plan_switching_have_trees is called once later, unless they
 * are withdrawn before. */
BANYAN_CHECK enum banyan_status by_trees_prepare(void *argument, const struct by_tree_wanted *wanted);
/* Frees the trees of a plan that is not proposed, or not agreed on. */
void by_trees_withdraw(void *argument, uint32_t version);
/* Handles the manager's grants of requested memory. */
void by_trees_handle_cells(struct by_trees *trees, const struct by_cluster_cells *cells, uint32_t n);
/* Handles TREE_REPORT. */
void by_trees_handle(void *argument, const struct by_received *received);
void by_trees_take_report(void *argument, uint32_t process, const struct by_tree_report *report);
/* Notes that a server is lost, or that a rank leaves: nothing more comes from it. */
void by_trees_lost(struct by_trees *trees, uint32_t process);
/* Gives all cells back, as the job has failed. */
void by_trees_fail(struct by_trees *trees);

#endif
