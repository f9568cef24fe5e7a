/* Inside the compiler, shared by its files only. A compile makes the layout,
 * lists this rank's messages, numbers them, and turns them into steps:
 *
 *   plan class -- layout.c --> pieces
 *              -- routes.c --> messages of this rank
 *              -- compile.c --> messages merged, with tags
 *              -- steps.c --> steps with dependencies
 *
 * What is only needed on the way lives in the compile's own arena and arrays.
 * Memory that runs out is remembered in `failed` and reported once, at the end. */
#ifndef BY_SCHEDULE_SCHEDULE_COMPILE_H
#define BY_SCHEDULE_SCHEDULE_COMPILE_H

#include "schedule.h"

#define BY_NOWHERE UINT32_MAX

enum by_phase {
  BY_PHASE_UP,   /* partial sums, folded by the receiver */
  BY_PHASE_DOWN, /* results, stored by the receiver */
};

/* A message of this rank, or before merging, one piece of it. Level, group and
 * phase are those of the tree's edge, so both ends find the same. */
struct by_message {
  uint32_t peer; /* rank */
  uint32_t first, last;
  uint32_t level;
  uint32_t group;
  uint32_t place; /* exchange: the sender's digit; the order of folding */
  uint8_t phase;
  bool out, exchange;
  uint32_t tag, peer_index; /* set by compile.c, like these by steps.c: */
  uint32_t fold;            /* level at which it is sent or taken */
  uint32_t batch;           /* messages that one REDUCE folds share it */
  uint32_t far;             /* order within a level */
  uint32_t incoming;        /* index */
};

struct by_compile {
  const struct by_plan *plan;
  const struct by_class *class_;
  uint32_t part;                /* as of by_schedule_compile_part */
  struct by_schedule *schedule; /* carries collective, root, rank and the layout */
  struct by_arena work;
  struct by_message *messages;
  uint32_t n_messages, allocated_messages;
  uint32_t *base;        /* n_groups: first piece (share layout) */
  uint32_t *trees;       /* n_groups: pieces (share layout) */
  uint32_t *placed;      /* n_ranks: pieces of the rank's block that have their tree (class per root) */
  struct by_step *steps; /* in the work arena */
  uint32_t *deps;
  uint32_t allocated_deps;
  bool failed;
};

/* Whether a message goes on where the one before it ends, and may be one with it. */
static inline bool by_message_continues(const struct by_compile *compile, const struct by_message *before,
                                        const struct by_message *message) {
  return before->last == message->first && before->peer == message->peer && before->level == message->level &&
         before->phase == message->phase && before->out == message->out && before->group == message->group &&
         (compile->part != BY_PART_APART || compile->class_->groups[message->group].kind != BY_GROUP_TREE);
}

/* Compares n numbers, the first ones first; for qsort. */
static inline int by_compare_keys(const uint32_t *a, const uint32_t *b, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}

static inline enum banyan_status by_schedule_no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the schedule");
}

/* layout.c: whether a group is run as an exchange. */
bool by_group_exchanges(const struct by_group *group, enum banyan_collective collective);
/* layout.c: pieces, cuts and origins. */
BANYAN_CHECK enum banyan_status by_layout_make(struct by_compile *compile);
/* routes.c: this rank's messages, piece by piece. */
BANYAN_CHECK enum banyan_status by_routes_list(struct by_compile *compile);
/* steps.c: steps, deps and incoming, in the order of the messages' levels; fills the schedule's numbers of them. */
BANYAN_CHECK enum banyan_status by_steps_build(struct by_compile *compile);

#endif
