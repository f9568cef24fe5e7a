/* Arrays on the heap that grow. Any thread. */
#ifndef BY_BASE_ARRAY_H
#define BY_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes room for `need` elements of `size` bytes where there is room for *room; at least doubles it, so that appending
 * costs constant time on average. New elements are not initialised. False: no memory; the array is as before. */
bool by_array_grow(void **array, uint32_t *room, uint32_t need, size_t size);

/* The same for an array of any type. */
#define BY_ARRAY_GROW(array, room, need) by_array_grow((void **)(array), (room), (need), sizeof **(array))

#endif
