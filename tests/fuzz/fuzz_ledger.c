/* Ledgers of calls. The input is cut in two at its first byte: the ledgers of two processes, which are read, written
 * again, and compared. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ledger.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_again(const uint8_t *data, size_t size, const struct by_ledger_view *view) {
  struct by_ledger ledger = {0};
  for (uint32_t i = 0; i < view->n_series; i++) {
    by_ledger_add_series(&ledger, &view->series[i]);
    for (uint32_t k = 0; k < view->series[i].n_notes; k++) by_ledger_add_note(&ledger, &view->series[i].notes[k]);
  }
  assert(!ledger.lacks && ledger.n_series == view->n_series && ledger.length == size - 4);
  assert(!ledger.length || !memcmp(ledger.data, data + 4, ledger.length));
  by_ledger_fini(&ledger);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_ledger_view views[2];
  struct banyan_interrupted *records;
  struct by_arena arena;
  static const int ranks[] = {0, 1};
  size_t n;
  if (!size) return 0;
  size_t first = data[0] < size - 1 ? data[0] : size - 1;
  by_arena_init(&arena);
  if (by_ledger_read(data + 1, first, &arena, &views[0]) == BANYAN_OK &&
      by_ledger_read(data + 1 + first, size - 1 - first, &arena, &views[1]) == BANYAN_OK) {
    write_again(data + 1, first, &views[0]);
    write_again(data + 1 + first, size - 1 - first, &views[1]);
    assert(by_ledger_compare(views, ranks, 2, &arena, &records, &n) == BANYAN_OK);
    for (size_t i = 0; i < n; i++)
      assert(records[i].n_calls > 0 && records[i].completed + records[i].failed + records[i].not_begun <= 2);
  }
  by_arena_fini(&arena);
  return 0;
}
