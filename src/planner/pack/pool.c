#include <stdlib.h>
#include <string.h>

#include "packing.h"

enum { FIRST_TREES = 64, FIRST_SLOTS = 256 /* a power of two */ };

static enum banyan_status no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the trees that are packed");
  return BANYAN_ERR_NO_MEMORY;
}

enum banyan_status by_pool_init(struct by_pool *pool, const struct by_graph *graph) {
  *pool = (struct by_pool){.graph = graph, .room_trees = FIRST_TREES, .n_slots = FIRST_SLOTS};
  pool->at = calloc(FIRST_TREES + 1, sizeof *pool->at);
  pool->slots = calloc(FIRST_SLOTS, sizeof *pool->slots);
  if (pool->at && pool->slots) return BANYAN_OK;
  by_pool_fini(pool);
  return no_memory();
}

void by_pool_fini(struct by_pool *pool) {
  free(pool->at);
  free(pool->edges);
  free(pool->slots);
  *pool = (struct by_pool){0};
}

/* FNV-1a, a word at a time. */
static uint64_t hash_of(const uint32_t *edges, uint32_t n) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (uint32_t i = 0; i < n; i++) hash = (hash ^ edges[i]) * 0x100000001b3ull;
  return hash ^ hash >> 29;
}

/* Where the tree is in the table, or would be. */
static size_t find_slot(const struct by_pool *pool, const uint32_t *edges, uint32_t n) {
  size_t mask = pool->n_slots - 1, slot = hash_of(edges, n) & mask;
  for (; pool->slots[slot]; slot = (slot + 1) & mask) {
    uint32_t t = pool->slots[slot] - 1;
    if (by_pool_size(pool, t) == n && memcmp(by_pool_edges(pool, t), edges, n * sizeof *edges) == 0) break;
  }
  return slot;
}

static bool grow_slots(struct by_pool *pool) {
  uint32_t *slots = calloc(pool->n_slots * 2, sizeof *slots);
  if (!slots) return false;
  free(pool->slots);
  pool->slots = slots;
  pool->n_slots *= 2;
  for (uint32_t t = 0; t < pool->n_trees; t++)
    slots[find_slot(pool, by_pool_edges(pool, t), by_pool_size(pool, t))] = t + 1;
  return true;
}

static bool grow_trees(struct by_pool *pool) {
  size_t *at = realloc(pool->at, (2 * pool->room_trees + 1) * sizeof *at);
  if (!at) return false;
  pool->at = at;
  pool->room_trees *= 2;
  return true;
}

static bool grow_edges(struct by_pool *pool, uint32_t n) {
  size_t used = pool->at[pool->n_trees], room = pool->room_edges + pool->room_edges / 2 + n;
  if (used + n <= pool->room_edges) return true;
  uint32_t *edges = realloc(pool->edges, room * sizeof *edges);
  if (!edges) return false;
  pool->edges = edges;
  pool->room_edges = room;
  return true;
}

enum banyan_status by_pool_add(struct by_pool *pool, const uint32_t *edges, uint32_t n, uint32_t *out) {
  size_t slot = find_slot(pool, edges, n);
  *out = pool->slots[slot] - 1;
  if (pool->slots[slot]) return BANYAN_OK;
  if (pool->n_trees == pool->room_trees && !grow_trees(pool)) return no_memory();
  if (!grow_edges(pool, n)) return no_memory();
  if (2 * (size_t)(pool->n_trees + 1) > pool->n_slots) {
    if (!grow_slots(pool)) return no_memory();
    slot = find_slot(pool, edges, n);
  }
  size_t at = pool->at[pool->n_trees];
  if (n) memcpy(pool->edges + at, edges, n * sizeof *edges);
  pool->at[pool->n_trees + 1] = at + n;
  *out = pool->n_trees++;
  pool->slots[slot] = pool->n_trees;
  return BANYAN_OK;
}
