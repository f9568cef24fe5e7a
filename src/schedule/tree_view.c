/* Makes the compiler's view of a tree, and aligns its levels. */
#include "tree_view.h"

#include <string.h>

enum { MAX_ROUNDS = 64 }; /* Halving over 65536 ranks takes two dozen. */

static bool allocate_arrays(struct by_tree_view *view, struct by_arena *arena) {
  uint32_t n = view->n;
  view->first_child = BY_ARENA_ARRAY(arena, uint32_t, n + 2);
  view->child = BY_ARENA_ARRAY(arena, uint32_t, n);
  view->level = BY_ARENA_ARRAY(arena, uint32_t, n);
  view->enter = BY_ARENA_ARRAY(arena, uint32_t, n);
  view->size = BY_ARENA_ARRAY(arena, uint32_t, n);
  return view->first_child && view->child && view->level && view->enter && view->size;
}

/* Sorts the vertices by their parents, by counting. */
static void list_children(struct by_tree_view *view) {
  uint32_t *first = view->first_child;
  for (uint32_t u = 0; u < view->n; u++)
    if (u != view->root) first[view->parent[u] + 2]++;
  for (uint32_t u = 2; u < view->n + 2; u++) first[u] += first[u - 1];
  for (uint32_t u = 0; u < view->n; u++)
    if (u != view->root) view->child[first[view->parent[u] + 1]++] = u;
}

/* Lists the vertices breadth first, parents before children. Returns how many the root reaches. */
static uint32_t list_breadth_first(struct by_tree_view *view, uint32_t *queue) {
  uint32_t n = 1;
  queue[0] = view->root;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t u = queue[i];
    for (uint32_t k = view->first_child[u]; k < view->first_child[u + 1]; k++) queue[n++] = view->child[k];
  }
  return n;
}

static void compute_levels(struct by_tree_view *view, const uint32_t *queue) {
  for (uint32_t i = view->n; i-- > 0;) {
    uint32_t u = queue[i], p = view->parent[u];
    view->size[u]++;
    if (u == view->root) continue;
    view->size[p] += view->size[u];
    if (view->level[p] <= view->level[u]) view->level[p] = view->level[u] + 1;
  }
  for (uint32_t i = 0; i < view->n; i++) {
    uint32_t u = queue[i], next = view->enter[u] + 1;
    for (uint32_t k = view->first_child[u]; k < view->first_child[u + 1]; k++) {
      view->enter[view->child[k]] = next;
      next += view->size[view->child[k]];
    }
  }
  view->height = view->level[view->root];
}

bool by_tree_view_init(struct by_tree_view *view, const uint32_t *parent, uint32_t n, uint32_t root,
                       struct by_arena *arena) {
  *view = (struct by_tree_view){.n = n, .root = root, .parent = parent};
  uint32_t *queue = BY_ARENA_ARRAY(arena, uint32_t, n);
  if (!queue || !allocate_arrays(view, arena)) return false;
  list_children(view);
  if (list_breadth_first(view, queue) != n) return false;
  compute_levels(view, queue);
  return true;
}

/* One round: every edge gets the highest level of its length, then every vertex is raised above its children. Vertices
 * are visited before their parents. False: nothing changed. */
static bool raise_levels(struct by_tree_view *view, const uint32_t *queue, const uint32_t *length, uint32_t *highest) {
  bool changed = false;
  memset(highest, 0, view->n * sizeof *highest);
  for (uint32_t u = 0; u < view->n; u++)
    if (u != view->root && highest[length[u]] < view->level[u]) highest[length[u]] = view->level[u];
  for (uint32_t i = view->n; i-- > 0;) {
    uint32_t u = queue[i];
    if (u == view->root) continue;
    if (view->level[u] < highest[length[u]]) {
      view->level[u] = highest[length[u]];
      changed = true;
    }
    uint32_t p = view->parent[u];
    if (view->level[p] > view->level[u]) continue;
    view->level[p] = view->level[u] + 1;
    changed = true;
  }
  return changed;
}

bool by_tree_view_align(struct by_tree_view *view, const struct by_group *group, struct by_arena *arena) {
  uint32_t n = view->n;
  uint32_t *queue = BY_ARENA_ARRAY(arena, uint32_t, n), *length = BY_ARENA_ARRAY(arena, uint32_t, n);
  uint32_t *highest = BY_ARENA_ARRAY(arena, uint32_t, n), *heights = BY_ARENA_ARRAY(arena, uint32_t, n);
  if (!queue || !length || !highest || !heights) return false;
  list_breadth_first(view, queue);
  memcpy(heights, view->level, n * sizeof *heights);
  for (uint32_t u = 0; u < n; u++) length[u] = by_group_untranslate(group, view->parent[u], u);
  for (uint32_t round = 0; round < MAX_ROUNDS && view->level[view->root] < n; round++) {
    if (raise_levels(view, queue, length, highest)) continue;
    view->height = view->level[view->root];
    return true;
  }
  /* The levels do not converge: some edge is, through others, above one of its own length. */
  memcpy(view->level, heights, n * sizeof *heights);
  return true;
}
