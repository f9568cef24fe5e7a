/* Internals of the checker, shared only by its files: all schedules side by side, with their steps numbered
 * consecutively and their messages joined, and one piece of them. */
#ifndef BY_TESTS_SCHEDULE_CHECK_PARTS_H
#define BY_TESTS_SCHEDULE_CHECK_PARTS_H

#include "schedule.h"

struct by_check {
  struct by_schedule *const *schedules;
  uint32_t n;       /* schedules: of the ranks, and after them of the helpers */
  uint32_t n_ranks; /* ranks, which have terms and get results */
  enum banyan_collective collective;
  uint32_t root, n_pieces;
  const uint32_t *block; /* of the layout; NULL without blocks */
  bool in_place;         /* SEND and RECV are the same memory where they overlap */
  uint32_t *first_step;  /* n + 1 entries: rank r's steps have the numbers first_step[r] .. first_step[r + 1] - 1 */
  uint32_t *first_in;    /* n + 1 entries: likewise for the messages that a rank receives */
  uint32_t *taken_by;    /* by step, for a SEND: the step that receives its message */
  uint32_t *sent_by;     /* by message: the SEND */
  uint32_t *rank_of;     /* by step */
  struct by_arena arena;
};

/* Sets an error text that begins with "rank 2, step 5: " and ends with the reason. Returns BANYAN_ERR_PLAN. */
enum banyan_status by_check_wrong(const struct by_check *check, uint32_t step, const char *format, ...) BY_PRINTF(3, 4);
const struct by_step *by_check_step(const struct by_check *check, uint32_t step);
/* Writes the pieces that a rank's buffer holds in this collective: *first .. *last. Both are 0 if there are none. */
void by_check_extent(const struct by_check *check, uint32_t rank, enum by_buffer buffer, uint32_t *first,
                     uint32_t *last);

/* The symbolic value of a piece: which expression it is, and which ranks' terms it contains. */
struct by_value {
  uint64_t hash;
  uint64_t *terms; /* a set of ranks as bits */
  bool written, divided;
};

/* A use of bytes from node `start` until node `end` has run. */
struct by_use {
  uint32_t start, end, next;
  bool writes;
};

/* The state for one piece or, in alltoall, where blocks change places, for all pieces. */
struct by_slot {
  const struct by_check *check;
  uint32_t piece, width; /* pieces piece .. piece + width - 1 */
  uint32_t words;        /* words in a set of ranks */
  uint32_t n;
  uint32_t *steps; /* n nodes */
  uint32_t *node;  /* by step; valid for this slot's steps; shared by all slots */
  uint32_t n_edges;
  uint32_t *edge_from, *edge_to; /* in the order they are found; `after` sorts them by node */
  uint32_t *first_after, *after;
  uint32_t *order; /* nodes, each after those it waits for */
  uint64_t *reach; /* n x reach_words: nodes that come after this one; NULL until needed */
  uint32_t reach_words;
  struct by_value *places; /* by rank, buffer and piece */
  struct by_value *sent;   /* by node: what its message holds */
  uint32_t *first_use;     /* by place */
  struct by_use *uses;
  uint32_t n_uses;
  struct by_arena arena;
};

/* Returns where a buffer's piece is kept. In place, this is RECV for pieces that SEND shares with it. */
uint32_t by_slot_place(const struct by_slot *slot, uint32_t rank, enum by_buffer buffer, uint32_t piece);
const struct by_step *by_slot_step(const struct by_slot *slot, uint32_t node);
/* Returns the piece that a node works on. */
uint32_t by_slot_piece(const struct by_slot *slot, const struct by_step *step);
enum banyan_status by_check_no_memory(void);

/* Checks each schedule by itself, and that both ends of every message agree. (schedule_check_links.c) */
BANYAN_CHECK enum banyan_status by_check_links(struct by_check *check);
/* Fills `order`, or returns an error if there is a deadlock. (schedule_check_links.c) */
BANYAN_CHECK enum banyan_status by_check_order(struct by_slot *slot);
/* Checks that all uses of the same bytes are ordered. (schedule_check_links.c) */
BANYAN_CHECK enum banyan_status by_check_races(struct by_slot *slot);

#endif
