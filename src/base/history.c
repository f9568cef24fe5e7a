/* Keeps the failed and the last calls of a sequence. */
#include "history.h"

#include <stdlib.h>

#include "arena.h"

void by_history_fini(struct by_history *history) {
  free(history->failed);
  free(history->past);
  *history = (struct by_history){0};
}

static void add_past(struct by_history *history, const struct by_history_call *call) {
  if (!history->past) history->past = calloc(BY_HISTORY_PAST, sizeof *history->past);
  if (history->past) history->past[history->n_past++ % BY_HISTORY_PAST] = *call;
}

void by_history_add(struct by_history *history, const struct by_history_call *call) {
  if (call->outcome == BY_HISTORY_COMPLETED) {
    add_past(history, call);
    return;
  }
  bool grown = BY_ARRAY_GROW(&history->failed, &history->capacity, history->n_failed + 1);
  history->lacks |= !grown;
  if (grown) history->failed[history->n_failed++] = *call;
}
