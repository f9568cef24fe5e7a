/* An arena: memory that is freed all at once. Topology, plan and schedule live
 * in one each. Not for several threads. */
#ifndef BY_BASE_ARENA_H
#define BY_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct by_arena_block;
struct by_arena {
  struct by_arena_block *last;
  size_t used, bytes; /* of the last block; of all */
  bool failed;        /* some allocation returned NULL: one check serves after several of them */
};

void by_arena_init(struct by_arena *arena);
/* Frees everything that came from the arena. */
void by_arena_fini(struct by_arena *arena);
/* n elements of `size` bytes, zeroed, aligned for any type. NULL when memory
 * is out or n * size overflows; n = 0 gives a valid pointer. */
void *by_arena_alloc(struct by_arena *arena, size_t n, size_t size);
/* Copies of a string, or of `length` bytes with a NUL behind. */
char *by_arena_string(struct by_arena *arena, const char *text);
char *by_arena_copy(struct by_arena *arena, const void *bytes, size_t length);

#define BY_ARENA_NEW(arena, type) ((type *)by_arena_alloc((arena), 1, sizeof(type)))
#define BY_ARENA_ARRAY(arena, type, n) ((type *)by_arena_alloc((arena), (n), sizeof(type)))

#endif
