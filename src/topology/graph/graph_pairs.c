/* Which vertices get an edge. */
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "graph_overlay.h"

static bool add_pair(struct by_pairs *pairs, uint32_t a, uint32_t b) {
  if (!BY_ARRAY_GROW(&pairs->keys, &pairs->room, pairs->n + 1)) return false;
  pairs->keys[pairs->n++] = by_pair(a, b);
  return true;
}

static int compare_keys(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Sorts them and leaves each once, without those of `except`, which is sorted. */
static void tidy(struct by_pairs *pairs, const struct by_pairs *except) {
  size_t kept = 0, at = 0;
  if (pairs->n) qsort(pairs->keys, pairs->n, sizeof *pairs->keys, compare_keys);
  for (size_t i = 0; i < pairs->n; i++) {
    uint64_t key = pairs->keys[i];
    while (except && at < except->n && except->keys[at] < key) at++;
    bool known = except && at < except->n && except->keys[at] == key;
    if (!known && (!kept || pairs->keys[kept - 1] != key)) pairs->keys[kept++] = key;
  }
  pairs->n = kept;
}

static bool find_direct(struct by_overlay *overlay) {
  for (uint32_t b = 0; b < overlay->n_bundles; b++) {
    const struct by_bundle *bundle = &overlay->bundles[b];
    uint32_t v = overlay->vertex[bundle->low], w = overlay->vertex[bundle->high];
    bool joined = v != UINT32_MAX && w != UINT32_MAX && bundle->left[0] > 0 && bundle->left[1] > 0;
    if (joined && !add_pair(&overlay->direct, v, w)) return false;
  }
  tidy(&overlay->direct, NULL);
  return true;
}

/* --- vertices round the same forwarding nodes --- */

/* A walk through forwarding nodes that lists the vertices beside them, rack by rack: deep first, and of the nodes
 * beside one those first that are nearer to some vertex. */
struct walk {
  struct by_overlay *overlay;
  uint32_t *level;  /* of each forwarding node: links to the nearest vertex; UINT32_MAX: not known */
  bool *done;       /* of each node: the walk has passed it */
  bool *listed;     /* of each vertex, for this walk only */
  uint32_t *stack;  /* forwarding nodes; one waits once for each link */
  uint32_t *queue;  /* for the levels */
  uint32_t *beside; /* the vertices found */
  uint32_t n_stack, n_beside;
};

static uint32_t other_at(const struct by_overlay *overlay, uint32_t node, uint32_t i) {
  return by_link_other(&overlay->topology->links[overlay->paths.links[i]], node);
}

/* Breadth first from all vertices that do not forward. */
static void find_levels(struct walk *walk) {
  const struct by_overlay *overlay = walk->overlay;
  uint32_t n = 0;
  for (uint32_t node = 0; node < overlay->topology->n_nodes; node++) walk->level[node] = UINT32_MAX;
  for (uint32_t v = 0; v < overlay->n_vertices; v++) {
    if (by_overlay_forwards(overlay, overlay->node[v])) continue;
    walk->level[overlay->node[v]] = 0;
    walk->queue[n++] = overlay->node[v];
  }
  for (uint32_t at = 0; at < n; at++) {
    uint32_t node = walk->queue[at];
    for (uint32_t i = overlay->paths.first[node]; i < overlay->paths.first[node + 1]; i++) {
      uint32_t other = other_at(overlay, node, i);
      if (walk->level[other] != UINT32_MAX) continue;
      walk->level[other] = walk->level[node] + 1;
      walk->queue[n++] = other;
    }
  }
}

static void list_beside(struct walk *walk, uint32_t node) {
  const struct by_overlay *overlay = walk->overlay;
  for (uint32_t i = overlay->paths.first[node]; i < overlay->paths.first[node + 1]; i++) {
    uint32_t v = overlay->vertex[other_at(overlay, node, i)];
    if (v == UINT32_MAX || walk->listed[v]) continue;
    walk->listed[v] = true;
    walk->beside[walk->n_beside++] = v;
  }
}

static void push_beside(struct walk *walk, uint32_t node) {
  const struct by_overlay *overlay = walk->overlay;
  for (uint32_t up = 2; up-- > 0;) /* the nearer ones last, so that they come off first */
    for (uint32_t i = overlay->paths.first[node + 1]; i-- > overlay->paths.first[node];) {
      uint32_t other = other_at(overlay, node, i);
      bool farther = walk->level[other] > walk->level[node];
      if (by_overlay_forwards(overlay, other) && !walk->done[other] && farther == up)
        walk->stack[walk->n_stack++] = other;
    }
}

static void go(struct walk *walk, uint32_t start) {
  walk->n_beside = 0;
  walk->stack[walk->n_stack++] = start;
  while (walk->n_stack) {
    uint32_t node = walk->stack[--walk->n_stack];
    if (walk->done[node]) continue;
    walk->done[node] = true;
    list_beside(walk, node);
    push_beside(walk, node);
  }
  for (uint32_t i = 0; i < walk->n_beside; i++) walk->listed[walk->beside[i]] = false;
}

static bool mesh(struct walk *walk) {
  for (uint32_t i = 0; i < walk->n_beside; i++)
    for (uint32_t j = 0; j < i; j++)
      if (!add_pair(&walk->overlay->distant, walk->beside[j], walk->beside[i])) return false;
  return true;
}

/* Each with those 1, 2, 4, ... places on, round and round. */
static bool join_sparsely(struct walk *walk) {
  uint32_t n = walk->n_beside;
  for (uint32_t step = 1; step <= n / 2; step *= 2)
    for (uint32_t i = 0; i < n; i++)
      if (!add_pair(&walk->overlay->distant, walk->beside[i], walk->beside[(i + step) % n])) return false;
  return true;
}

static bool find_distant(struct walk *walk) {
  struct by_overlay *overlay = walk->overlay;
  find_levels(walk);
  for (uint32_t node = 0; node < overlay->topology->n_nodes; node++) {
    if (!by_overlay_forwards(overlay, node) || walk->done[node] || walk->level[node] != 1) continue;
    go(walk, node);
    if (!(walk->n_beside <= overlay->most_meshed ? mesh(walk) : join_sparsely(walk))) return false;
  }
  tidy(&overlay->distant, &overlay->direct);
  return true;
}

bool by_overlay_find_pairs(struct by_overlay *overlay) {
  size_t n = overlay->topology->n_nodes, m = overlay->topology->n_links;
  struct walk walk = {.overlay = overlay};
  walk.level = calloc(n + 1, sizeof *walk.level);
  walk.done = calloc(n + 1, sizeof *walk.done);
  walk.listed = calloc(overlay->n_vertices + (size_t)1, sizeof *walk.listed);
  walk.stack = calloc(2 * m + 1, sizeof *walk.stack);
  walk.queue = calloc(n + 1, sizeof *walk.queue);
  walk.beside = calloc(n + 1, sizeof *walk.beside);
  bool good = walk.level && walk.done && walk.listed && walk.stack && walk.queue && walk.beside;
  good = good && find_direct(overlay) && find_distant(&walk);
  free(walk.level);
  free(walk.done);
  free(walk.listed);
  free(walk.stack);
  free(walk.queue);
  free(walk.beside);
  return good;
}
