/* Counts refused connections by reason. */
#include "refusal.h"

#include <stdatomic.h>

static _Atomic uint64_t counts[BY_REFUSAL_REASONS];

const char *by_refusal_name(enum by_refusal reason) {
  static const char *const names[] = {
#define NAME(reason, name) [BY_REFUSED_##reason] = (name),
      BY_REFUSALS(NAME)
#undef NAME
  };
  return names[reason];
}

void by_refusal_count(enum by_refusal reason) {
  atomic_fetch_add_explicit(&counts[reason], 1, memory_order_relaxed);
}

uint64_t by_refusals(enum by_refusal reason) {
  return atomic_load_explicit(&counts[reason], memory_order_relaxed);
}
