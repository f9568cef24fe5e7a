/* Arenas, and arrays on the heap that grow. */
#include "arena.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BLOCK = 4096, MAX_BLOCK = 1 << 20, ALIGN = 16, FIRST_CAPACITY = 16 };

struct by_arena_block {
  struct by_arena_block *before;
  size_t bytes;
  _Alignas(ALIGN) char data[];
};

void by_arena_fini(struct by_arena *arena) {
  struct by_arena_block *block = arena->last;
  while (block) {
    struct by_arena_block *before = block->before;
    free(block);
    block = before;
  }
  by_arena_init(arena);
}

static struct by_arena_block *add_block(struct by_arena *arena, size_t need) {
  size_t bytes = arena->last ? arena->last->bytes * 2 : FIRST_BLOCK;
  if (bytes > MAX_BLOCK) bytes = MAX_BLOCK;
  if (bytes < need) bytes = need;
  struct by_arena_block *block = calloc(1, sizeof *block + bytes);
  if (!block) return NULL;
  block->bytes = bytes;
  block->before = arena->last;
  arena->last = block;
  arena->used = 0;
  arena->bytes += bytes;
  return block;
}

void *by_arena_alloc(struct by_arena *arena, size_t n, size_t size) {
  bool fits = !size || n <= (SIZE_MAX / 2 - ALIGN) / size;
  size_t need = fits ? (n * size + ALIGN - 1) & ~(size_t)(ALIGN - 1) : 0;
  struct by_arena_block *block = arena->last;
  if (fits && (!block || block->bytes - arena->used < need)) block = add_block(arena, need);
  if (!fits || !block) {
    arena->failed = true;
    return NULL;
  }
  void *memory = block->data + arena->used;
  arena->used += need;
  return memory;
}

char *by_arena_copy(struct by_arena *arena, const void *bytes, size_t length) {
  char *copy = by_arena_alloc(arena, length + 1, 1);
  if (copy && length) memcpy(copy, bytes, length);
  return copy;
}

char *by_arena_string(struct by_arena *arena, const char *text) {
  return by_arena_copy(arena, text, strlen(text));
}

bool by_array_grow(void **array, size_t *capacity, size_t need, size_t size) {
  if (need <= *capacity) return true;
  size_t wanted = *capacity <= SIZE_MAX / 2 && 2 * *capacity > need ? 2 * *capacity : need;
  if (wanted < FIRST_CAPACITY) wanted = FIRST_CAPACITY;
  void *grown = reallocarray(*array, wanted, size);
  if (!grown) return false;
  *array = grown;
  *capacity = wanted;
  return true;
}

bool by_array_grow_u32(void **array, uint32_t *capacity, size_t need, size_t size) {
  size_t wide = *capacity;
  if (need > UINT32_MAX / 2 || !by_array_grow(array, &wide, need, size)) return false;
  *capacity = (uint32_t)wide;
  return true;
}
