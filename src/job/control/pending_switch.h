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
  uint64_t started;     /* Calls of this rank when it was proposed. */
  struct by_timer late; /* Expires when an awaited event is late. */
  uint64_t begun;       /* When its turn came, or its links were made. */
  uint64_t due, again;  /* When it is looked at next, if queued or put off; and the pause after that. */
  struct by_helper_links links;
  struct by_plan_switch_observer notify;
  uint32_t n;
  struct {
    uint32_t process;
    bool answered;
  } * members;
  bool repeats;                 /* See struct by_proposal. */
  uint32_t used;                /* See struct by_proposal. */
  uint32_t trees;               /* Version of its in-network trees; 0: none. */
  struct by_tree_grants grants; /* Number 0: the plan is not the manager's. In the plan's arena. */
  uint32_t *processes;          /* Members by rank, and processes at the vertices behind them; in the plan's arena. */
  size_t n_places;
  uint8_t *places;      /* Processes at the plan's vertices behind the ranks. */
  struct by_plan *plan; /* The plan that `text` describes. */
  char *text;
  size_t length;
};

/* Makes a queued plan switch, which is in no list yet. `late` is called when an awaited event is late. The proposal's
 * plan stays the caller's if this fails. */
BANYAN_CHECK enum banyan_status by_pending_switch_make(struct by_plan_switching *switching,
                                                       const struct by_proposal *proposal, void (*late)(void *pending),
                                                       struct by_pending_switch **out);
void by_pending_switch_free(struct by_pending_switch *pending);
void by_pending_switch_set_state(struct by_pending_switch *pending, enum by_pending_switch_state state);

/* Return whether its plan was made by this job; by the manager; or by either, so that it may not replace a plan that
 * the user set. The default plan, which the program may propose, may replace it. */
bool by_pending_switch_is_own(const struct by_pending_switch *pending);
bool by_pending_switch_is_managers(const struct by_pending_switch *pending);
bool by_pending_switch_is_made(const struct by_pending_switch *pending);
/* Returns whether its plan has in-network trees. */
bool by_pending_switch_has_trees(const struct by_pending_switch *pending);
/* Returns whether it needs this process: as a rank, a helper or a server. */
bool by_pending_switch_has_member(const struct by_pending_switch *pending, uint32_t process);
/* Makes a message about it. */
struct by_plan_switch_message by_pending_switch_message(const struct by_pending_switch *pending,
                                                        enum by_plan_switch_kind kind);

#endif
