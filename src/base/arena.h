/* Memory: arenas, which are freed all at once, and arrays on the heap that grow. Topology, plan and schedule live in
 * an arena each. An arena is not for several threads. */
#ifndef BY_BASE_ARENA_H
#define BY_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct by_arena_block;
struct by_arena {
  struct by_arena_block *last;
  size_t used, bytes; /* Bytes used of the last block; bytes of all blocks. */
  bool failed;        /* Some allocation returned NULL, so one check serves after several of them. */
};

static inline void by_arena_init(struct by_arena *arena) {
  memset(arena, 0, sizeof *arena); /* C++ has no compound literals. */
}
/* Frees everything that came from the arena. */
void by_arena_fini(struct by_arena *arena);
/* Allocates n elements of `size` bytes, zeroed, aligned for any type. NULL if memory is out or n * size overflows; n
 * = 0 gives a valid pointer. */
void *by_arena_alloc(struct by_arena *arena, size_t n, size_t size);
/* Copies a string, or `length` bytes with a NUL behind. */
char *by_arena_string(struct by_arena *arena, const char *text);
char *by_arena_copy(struct by_arena *arena, const void *bytes, size_t length);

#define BY_ARENA_NEW(arena, type) ((type *)by_arena_alloc((arena), 1, sizeof(type)))
#define BY_ARENA_ARRAY(arena, type, n) ((type *)by_arena_alloc((arena), (n), sizeof(type)))

/* See BY_ARRAY_GROW; for elements of `size` bytes. */
bool by_array_grow(void **array, size_t *capacity, size_t need, size_t size);
bool by_array_grow_u32(void **array, uint32_t *capacity, size_t need, size_t size);

/* Makes room for `need` elements in *array, which has room for *capacity, a uint32_t or a size_t; at least doubles
 * it, so that appending costs constant time on average. New elements are not initialised. Returns false without
 * memory; the array is unchanged. */
#define BY_ARRAY_GROW(array, capacity, need)                                                                           \
  ((need) <= *(capacity) || _Generic((capacity), uint32_t *                                                            \
                                     : by_array_grow_u32, size_t *                                                     \
                                     : by_array_grow)((void **)(array), (capacity), (need), sizeof **(array)))

#endif
