/* What each collective does with its callers' buffers and with a plan's trees: one table, which every module asks that
 * treats collectives differently. Immutable; any thread. */
#ifndef BY_BASE_COLLECTIVE_H
#define BY_BASE_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include <banyan/types.h>

/* What a caller's buffer holds: nothing, this rank's block, or all of the data, on every rank or on the root alone. */
enum by_extent { BY_EXTENT_NOTHING, BY_EXTENT_BLOCK, BY_EXTENT_ALL, BY_EXTENT_ALL_AT_ROOT };

struct by_collective {
  const char *name, *alias; /* as printed; as also accepted, or NULL */
  uint8_t send, recv;       /* enum by_extent */
  bool adds;                /* takes an operation, with which the elements of all ranks are combined */
  bool rooted;              /* `root` names a rank with a role of its own */
  bool blocks;              /* the data is one block for each rank */
  bool up, down;            /* goes over the plan's trees towards their roots, and away from them */
  bool direct;              /* goes from the owner of a block to its user, without a tree */
  bool helpers;             /* helpers add and forward in it */
  bool pair;                /* between two ranks: send and recv */
};

/* By enum banyan_collective; behind them one named "?" that does nothing, for numbers that are none. */
extern const struct by_collective by_collectives[BANYAN_COLLECTIVES + 1];

static inline const struct by_collective *by_collective(enum banyan_collective collective) {
  unsigned row = (unsigned)collective;
  return &by_collectives[row < BANYAN_COLLECTIVES ? row : (unsigned)BANYAN_COLLECTIVES];
}

/* Every rank gives a term and gets the result, so all trees are used in both directions. */
static inline bool by_collective_is_everywhere(enum banyan_collective collective) {
  return by_collective(collective)->up && by_collective(collective)->down;
}

#endif
