#include "array.h"

#include <stdlib.h>

enum { FIRST_ROOM = 16 };

bool by_array_grow(void **array, size_t *room, size_t need, size_t size) {
  if (need <= *room) return true;
  size_t wanted = *room <= SIZE_MAX / 2 && 2 * *room > need ? 2 * *room : need;
  if (wanted < FIRST_ROOM) wanted = FIRST_ROOM;
  void *grown = reallocarray(*array, wanted, size);
  if (!grown) return false;
  *array = grown;
  *room = wanted;
  return true;
}

bool by_array_grow_u32(void **array, uint32_t *room, size_t need, size_t size) {
  size_t wide = *room;
  if (need > UINT32_MAX / 2 || !by_array_grow(array, &wide, need, size)) return false;
  *room = (uint32_t)wide;
  return true;
}
