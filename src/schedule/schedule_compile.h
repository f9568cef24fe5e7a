/* Shared by the files of the compiler only. A compile makes the layout, lists this rank's messages, numbers them, and
 * turns them into steps:
 *
 *    plan class -- compile.c --> pieces
 *               -- routes.c --> messages of this rank
 *               -- compile.c --> messages merged, with tags
 *               -- steps.c --> steps with dependencies
 *
 * Temporary data is in the compile's own arena and arrays. A failed allocation sets `failed`, which is reported once,
 * at the end. */
#ifndef BY_SCHEDULE_SCHEDULE_COMPILE_H
#define BY_SCHEDULE_SCHEDULE_COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "plan.h"
#include "schedule.h"

#define BY_NOWHERE UINT32_MAX

enum by_phase {
  BY_PHASE_UP,   /* Partial sums, which the receiver reduces. */
  BY_PHASE_DOWN, /* Results, which the receiver stores. */
};

/* A message of this rank; before merging, one piece of it. Level, group and phase are those of the tree's edge, so both
 * ends compute the same. */
struct by_message {
  uint32_t peer; /* The rank at the other end. */
  uint32_t first, last;
  uint32_t level;
  uint32_t group;
  uint32_t place; /* In an exchange, the sender's digit, which determines the order of the reduction. */
  uint8_t phase;
  bool out, exchange;
  uint32_t tag, peer_index; /* The message's number and its peer's index in the schedule, set by compile.c. */
  uint32_t fold;            /* The level at which the message is sent or reduced, set by steps.c. */
  /* The number of the batch, set by steps.c. All messages that one REDUCE step consumes have the same. */
  uint32_t batch;
  uint32_t far;      /* The order within a level, set by steps.c. */
  uint32_t incoming; /* The index into the schedule's `incoming`, set by steps.c. */
};

struct by_compile {
  const struct by_plan *plan;
  const struct by_class *class_;
  uint32_t part;                /* The part of the class that is compiled; by_schedule_compile_part describes it. */
  struct by_schedule *schedule; /* The schedule, in which collective, root, rank and layout are set. */
  struct by_arena work;
  struct by_message *messages;
  uint32_t n_messages, allocated_messages;
  uint32_t *base;  /* The first piece of each group in a share layout. */
  uint32_t *trees; /* The number of pieces of each group in a share layout. */
  /* The number of pieces of each rank's block that have their tree, in a class with a tree for each root. */
  uint32_t *placed;
  struct by_step *steps; /* Steps in the work arena. */
  uint32_t *deps;
  uint32_t allocated_deps;
  bool failed;
};

/* Whether a message continues the one before, so that they may be merged. */
static inline bool by_message_continues(const struct by_compile *compile, const struct by_message *before,
                                        const struct by_message *message) {
  return before->last == message->first && before->peer == message->peer && before->level == message->level &&
         before->phase == message->phase && before->out == message->out && before->group == message->group &&
         (compile->part != BY_PART_APART || compile->class_->groups[message->group].kind != BY_GROUP_TREE);
}

/* Compares two arrays of n numbers lexicographically. */
static inline int by_compare_keys(const uint32_t *a, const uint32_t *b, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}

static inline enum banyan_status by_schedule_no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the schedule");
}

/* Whether a group runs as an exchange. */
bool by_group_exchanges(const struct by_group *group, enum banyan_collective collective);
/* Lists this rank's messages, piece by piece (routes.c). */
BANYAN_CHECK enum banyan_status by_routes_list(struct by_compile *compile);
/* Makes steps, deps and incoming, in the order of the messages' levels, and fills in the schedule's numbers of them
 * (steps.c). */
BANYAN_CHECK enum banyan_status by_steps_build(struct by_compile *compile);

/* A tree as the compiler sees it: children, and levels, which determine the round in which a vertex's message goes up.
 * Made from a parent array, which it borrows; lives in an arena; immutable.
 *
 * Re-rooting a tree at x reverses exactly the edges between x and the old root: those above the vertices whose subtree
 * contains x. Subtrees are intervals of a depth-first numbering, so this test costs O(1) and no tree is ever rebuilt.
 */

struct by_tree_view {
  uint32_t n, root;
  uint32_t height;        /* The root's level. Every other level is smaller. */
  const uint32_t *parent; /* The parent of each vertex; the root is its own parent. */
  uint32_t *first_child; /* n + 1 elements; the children of u: child[first_child[u] .. first_child[u + 1]), ascending */
  uint32_t *child;
  uint32_t *level;        /* A level greater than every child's. The message to the parent is sent in this round. */
  uint32_t *enter, *size; /* The subtree of u has the numbers enter[u] .. enter[u] + size[u] - 1. */
};

/* Makes a view whose levels are heights: 0 at the leaves. False: no memory, or not a tree. */
bool by_tree_view_init(struct by_tree_view *view, const uint32_t *parent, uint32_t n, uint32_t root,
                       struct by_arena *arena);
/* Raises levels so that edges of equal length share one, if that is possible at all (in a ring it is not): in a rotated
 * group a message holds the pieces of many trees if their edges have equal length and level. */
bool by_tree_view_align(struct by_tree_view *view, const struct by_group *group, struct by_arena *arena);

/* Whether the subtree of u contains x. */
static inline bool by_tree_view_holds(const struct by_tree_view *view, uint32_t u, uint32_t x) {
  return view->enter[x] - view->enter[u] < view->size[u];
}

#endif
