/* Moving to another plan while calls go on: all ranks of a communicator change at the same call, and none waits unless
 * it gets there before the word that says so. As values, without I/O; control_moves.c carries the words, moves.c does
 * what they say.
 *
 * Rank 0 of the job leads. PROPOSE brings the plan, and everybody answers PREPARED with how many calls it has started.
 * FIX names a call that nobody should have reached; from then on who gets there waits. FIXED says again how many calls
 * were started: where somebody was faster, FIX names a later one. TAKE: that call, and those after it, use the
 * plan. DROP: there will be no move. */
#ifndef BY_COMMUNICATOR_MOVE_H
#define BY_COMMUNICATOR_MOVE_H

#include "bytes.h"

enum by_move_kind {
  BY_MOVE_PROPOSE = 1, /* text: the plan, as JSON */
  BY_MOVE_FIX,         /* at */
  BY_MOVE_TAKE,
  BY_MOVE_DROP, /* text: why */
  /* answers */
  BY_MOVE_PREPARED, /* at: calls started */
  BY_MOVE_FIXED,    /* the same */
  BY_MOVE_REFUSED,  /* text: why */
  BY_MOVE_ABSENT    /* there is no such communicator here, perhaps not yet */
};

struct by_move_word {
  enum by_move_kind kind;
  uint32_t comm;   /* id of the communicator's domain */
  uint32_t number; /* of the move; counts up */
  uint64_t at;
  const char *text; /* borrowed; `length` bytes without an end */
  size_t length;
};

void by_move_word_write(struct by_writer *writer, const struct by_move_word *word);
/* `text` is borrowed from the bytes. */
BANYAN_CHECK enum banyan_status by_move_word_read(const void *bytes, size_t length, struct by_move_word *out);
bool by_move_is_answer(enum by_move_kind kind);

/* What the leader knows of a move. */
struct by_agreement {
  uint32_t members, missing; /* answers */
  uint64_t most, lead;       /* calls that a member has started; how far beyond them to look */
  uint64_t at;
  bool fixing, passed; /* what was asked; somebody was faster */
};

enum by_agreement_next { BY_AGREEMENT_WAITS, BY_AGREEMENT_FIX, BY_AGREEMENT_TAKE };

void by_agreement_init(struct by_agreement *agreement, uint32_t members);
/* One member's PREPARED or FIXED; each member answers each question once. `lead`: calls that are usually started while
 * a question is answered; looked at when all have prepared. Where calls are so rare that it is 0, nobody need start
 * another call for the move. */
enum by_agreement_next by_agreement_hear(struct by_agreement *agreement, uint64_t started, uint64_t lead);

/* What a member knows of a move. */
struct by_move {
  enum { BY_MOVE_NONE, BY_MOVE_IS_PREPARED, BY_MOVE_IS_FIXED, BY_MOVE_IS_TAKEN } state;
  uint32_t number;
  uint64_t at;
};

enum by_move_next { BY_MOVE_GOES_ON, BY_MOVE_WAITS, BY_MOVE_CHANGES };

/* False: another one has been decided on, and its call has not come yet; the answer is REFUSED. */
bool by_move_prepare(struct by_move *move, uint32_t number);
/* False, here and below: this is about another move, or makes no sense; no answer. */
bool by_move_fix(struct by_move *move, uint32_t number, uint64_t at);
bool by_move_take(struct by_move *move, uint32_t number);
bool by_move_drop(struct by_move *move, uint32_t number);
/* After TAKE, and before each call: what becomes of a call that is started now, after so many others. CHANGES: the plan
 * is to be set first, and by_move_end called. */
enum by_move_next by_move_next(const struct by_move *move, uint64_t started);
void by_move_end(struct by_move *move);

#endif
