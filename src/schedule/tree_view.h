/* A tree as the compiler sees it: children, and levels, which determine the round in which a vertex's message goes up.
 * Made from a parent array, which it borrows; lives in an arena; immutable.
 *
 * Re-rooting a tree at x reverses exactly the edges between x and the old root: those above the vertices whose subtree
 * contains x. Subtrees are intervals of a depth-first numbering, so this test costs O(1) and no tree is ever rebuilt.
 */
#ifndef BY_SCHEDULE_TREE_VIEW_H
#define BY_SCHEDULE_TREE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "plan.h"

struct by_tree_view {
  uint32_t n, root;
  uint32_t height;        /* level[root]; every other level is smaller */
  const uint32_t *parent; /* the parent of each vertex; the root's is itself */
  uint32_t *first_child; /* n + 1 elements; the children of u: child[first_child[u] .. first_child[u + 1]), ascending */
  uint32_t *child;
  uint32_t *level;        /* greater than every child's; the message to the parent goes up in this round */
  uint32_t *enter, *size; /* the subtree of u has the numbers enter[u] .. enter[u] + size[u] - 1 */
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
