/* Arrays on the heap that grow. Any thread. */
#ifndef BY_BASE_ARRAY_H
#define BY_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* See BY_ARRAY_GROW; for elements of `size` bytes. */
bool by_array_grow(void **array, size_t *room, size_t need, size_t size);
bool by_array_grow_u32(void **array, uint32_t *room, size_t need, size_t size);

/* Makes room for `need` elements in *array, where there is room for *room, a uint32_t or a size_t; at least doubles it,
 * so that appending costs constant time on average. New elements are not initialised. False: no memory; the array is as
 * before. */
#define BY_ARRAY_GROW(array, room, need)                                                                               \
  ((need) <= *(room) || _Generic((room), uint32_t *                                                                    \
                                 : by_array_grow_u32, size_t *                                                         \
                                 : by_array_grow)((void **)(array), (room), (need), sizeof **(array)))

#endif
