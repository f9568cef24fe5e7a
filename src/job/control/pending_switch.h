/* Rank 0's plan switches that are not decided on: what each is, and where it stands. control_plan_switches.c drives
 * them. On the loop's thread, but for making one. */
#ifndef BY_JOB_CONTROL_PENDING_SWITCH_H
#define BY_JOB_CONTROL_PENDING_SWITCH_H

#include "control_plan_switches.h"

/* Where a plan switch stands. by_pending_switch_set_state alone changes it, from one to the next:
 *
 *   QUEUED   -> GROWING   its turn has come, and its plan has in-network trees, which are set up
 *   QUEUED   -> LINKING   it has none, or they are set up, and its plan names helpers, which make their links
 *   GROWING  -> LINKING
 *   QUEUED   -> ASKED     it names none: the members are asked
 *   GROWING  -> ASKED
 *   LINKING  -> ASKED     all helpers have made them
 *   ASKED    -> PUT_OFF   a member could not prepare it yet
 *   PUT_OFF  -> ASKED     it is proposed again
 *
 * Any may be the last. */
enum by_pending_switch_state {
  BY_SWITCH_QUEUED,
  BY_SWITCH_GROWING,
  BY_SWITCH_LINKING,
  BY_SWITCH_ASKED,
  BY_SWITCH_PUT_OFF,
  BY_SWITCH_STATES
};

struct by_pending_switch {
  LIST_ENTRY(by_pending_switch) entry;
  struct by_plan_switching *switching;
  uint32_t comm, number;
  enum by_pending_switch_state state;
  struct by_agreement agreement;
  uint64_t started;     /* calls of this rank, when it was proposed */
  struct by_timer late; /* what it waits for has not come for long */
  uint64_t begun;       /* when its turn came, or its links were made */
  uint64_t due, again;  /* when it is looked at next, where it is queued or put off; and how long after that */
  struct by_helper_links links;
  struct by_plan_switch_observer notify;
  uint32_t n;
  struct {
    uint32_t process;
    bool answered;
  } * members;
  bool repeats;                 /* see struct by_proposal, */
  uint32_t used;                /* and this */
  uint32_t trees;               /* the version of its in-network trees; 0: it has none */
  struct by_tree_grants grants; /* number 0: it is not the manager's. In the plan's arena */
  uint32_t *processes;          /* members by rank, and those at the vertices behind them; in the plan's arena */
  size_t n_places;
  uint8_t *places;      /* the processes at the plan's vertices behind the ranks */
  struct by_plan *plan; /* as `text` describes it */
  char *text;
  size_t length;
};

/* A queued one, not in any list yet. `late` is called when what it waits for has not come for long. The proposal's plan
 * stays the caller's if this fails. */
BANYAN_CHECK enum banyan_status by_pending_switch_make(struct by_plan_switching *switching,
                                                       const struct by_proposal *proposal, void (*late)(void *pending),
                                                       struct by_pending_switch **out);
void by_pending_switch_free(struct by_pending_switch *pending);
void by_pending_switch_set_state(struct by_pending_switch *pending, enum by_pending_switch_state state);

/* Its plan is one that this job made; that the manager made; either, so that it may not take the place of a plan that
 * the user set. The default plan, which the program may propose, may. */
bool by_pending_switch_is_own(const struct by_pending_switch *pending);
bool by_pending_switch_is_managers(const struct by_pending_switch *pending);
bool by_pending_switch_is_made(const struct by_pending_switch *pending);
/* Whether its plan has in-network trees. */
bool by_pending_switch_has_trees(const struct by_pending_switch *pending);
/* Whether it needs this process: as a rank, a helper or a server. */
bool by_pending_switch_has_member(const struct by_pending_switch *pending, uint32_t process);
/* A message about it. */
struct by_plan_switch_message by_pending_switch_message(const struct by_pending_switch *pending,
                                                        enum by_plan_switch_kind kind);

#endif
