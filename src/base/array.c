#include "array.h"

#include <stdlib.h>

bool by_array_grow(void **array, uint32_t *room, uint32_t need, size_t size) {
  enum { FIRST = 64 };
  if (need <= *room) return true;
  uint32_t wanted = *room < FIRST / 2 ? FIRST : *room <= UINT32_MAX / 2 ? *room * 2 : UINT32_MAX;
  if (wanted < need) wanted = need;
  void *grown = reallocarray(*array, wanted, size);
  if (!grown) return false;
  *array = grown;
  *room = wanted;
  return true;
}
