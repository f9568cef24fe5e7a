/* The properties of each collective: how it uses its callers' buffers and a plan's trees. Immutable; any thread. */
#ifndef BY_BASE_COLLECTIVE_H
#define BY_BASE_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include <banyan/types.h>

/* What a caller's buffer holds: nothing, this rank's block, or all of the data, on every rank or on the root alone. */
enum by_extent { BY_EXTENT_NOTHING, BY_EXTENT_BLOCK, BY_EXTENT_ALL, BY_EXTENT_ALL_AT_ROOT };

struct by_collective {
  const char *name, *alias; /* The name that is printed, and one that is also accepted or NULL. */
  uint8_t send, recv;       /* Values of enum by_extent. */
  bool adds;                /* It has an operation that combines the elements of all ranks. */
  bool rooted;              /* `root` names a rank with a role of its own. */
  bool blocks;              /* The data is one block for each rank. */
  bool up, down;            /* It uses the plan's trees towards their roots, and away from them. */
  bool direct;              /* Blocks go from their owner to their user, without a tree. */
  bool helpers;             /* Helpers add and forward in it. */
  bool pair;                /* It is a send or receive between two ranks. */
};

/* By enum banyan_collective. The last one is named "?" and does nothing, for invalid numbers. */
extern const struct by_collective by_collectives[BANYAN_COLLECTIVES + 1];

static inline const struct by_collective *by_collective(enum banyan_collective collective) {
  unsigned row = (unsigned)collective;
  return &by_collectives[row < BANYAN_COLLECTIVES ? row : (unsigned)BANYAN_COLLECTIVES];
}

/* Whether every rank gives a term and gets the result, so that all trees are used in both directions. */
static inline bool by_collective_is_everywhere(enum banyan_collective collective) {
  return by_collective(collective)->up && by_collective(collective)->down;
}

#endif
