/* Moves at the control connections, inside control: what rank 0 knows of one (control_moves.c), and the links that its
 * helpers are to make first (control_links.c). On the loop's thread. */
#ifndef BY_JOB_CONTROL_CONTROL_MOVES_H
#define BY_JOB_CONTROL_CONTROL_MOVES_H

#include "control_parts.h"
#include "move.h"

/* What a helper of a plan is asked for. */
struct by_helper_links {
  uint32_t helper;
  bool linked;
  size_t n;
  uint8_t *processes; /* as by_move_word has them */
};

/* Rank 0: a move that is not decided on. */
struct by_control_move {
  struct by_control_move *next;
  struct by_control *control;
  uint32_t comm, number;
  struct by_agreement agreement;
  uint64_t started;     /* calls of this rank, when it was proposed */
  bool queued;          /* not begun: another one is under way */
  bool waits;           /* until it is proposed again: somebody could not prepare it yet */
  bool links;           /* its helpers have not made all links */
  struct by_timer late; /* what it waits for has not come for long */
  uint64_t begun;       /* when its turn came, or its links were made */
  uint64_t due, again;  /* when it is looked at next, where it is queued or waits; and how long after that */
  uint32_t n_helpers;
  struct by_helper_links *helpers;
  struct by_told_move tell;
  uint32_t n;
  uint32_t *processes;
  bool *answered;
  size_t n_places;
  uint8_t *places;      /* who is at the plan's vertices behind the ranks */
  struct by_plan *plan; /* which stands in the */
  char *text;
  size_t length;
};

void by_control_send_move(const struct end *end, const struct by_move_word *word);

/* From a proposal: what each helper of the plan needs. */
BANYAN_CHECK enum banyan_status by_helper_links_find(struct by_control_move *move, const struct by_proposal *proposal);
void by_helper_links_fini(struct by_control_move *move);
/* Asks all helpers. False: one is not here any more. */
bool by_helper_links_ask(struct by_control_move *move);
/* One has them. True: now all have, which is so once. */
bool by_helper_links_made(struct by_control_move *move, uint32_t helper);
bool by_helper_links_has(const struct by_control_move *move, uint32_t helper);

/* A helper: a word of rank 0's. */
void by_control_heard_links(struct end *end, const struct by_move_word *word);

#endif
