#include "events.h"

#include <stdlib.h>

#include "array.h"

#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for what happens in a simulation")

/* --- leavings --- */

enum banyan_status by_leavings_init(struct by_leavings *l, uint32_t n_streams, struct by_arena *arena) {
  *l = (struct by_leavings){.heap = BY_ARENA_ARRAY(arena, uint32_t, n_streams),
                            .place = BY_ARENA_ARRAY(arena, uint32_t, n_streams),
                            .at = BY_ARENA_ARRAY(arena, double, n_streams)};
  if (!l->heap || !l->place || !l->at) return NO_MEMORY;
  for (uint32_t i = 0; i < n_streams; i++) l->place[i] = UINT32_MAX;
  return BANYAN_OK;
}

static bool leaves_before(const struct by_leavings *l, uint32_t a, uint32_t b) {
  double at_a = l->at[a], at_b = l->at[b];
  return at_a < at_b || (at_a == at_b && a < b);
}

static void put(struct by_leavings *l, uint32_t place, uint32_t stream) {
  l->heap[place] = stream;
  l->place[stream] = place;
}

static void rise(struct by_leavings *l, uint32_t place, uint32_t stream) {
  for (; place && leaves_before(l, stream, l->heap[(place - 1) / 2]); place = (place - 1) / 2)
    put(l, place, l->heap[(place - 1) / 2]);
  put(l, place, stream);
}

static void sink(struct by_leavings *l, uint32_t place, uint32_t stream) {
  for (uint32_t child; (child = 2 * place + 1) < l->n; place = child) {
    if (child + 1 < l->n && leaves_before(l, l->heap[child + 1], l->heap[child])) child++;
    if (leaves_before(l, stream, l->heap[child])) break;
    put(l, place, l->heap[child]);
  }
  put(l, place, stream);
}

void by_leavings_set(struct by_leavings *l, uint32_t stream, double at) {
  if (l->place[stream] == UINT32_MAX) {
    l->at[stream] = at;
    rise(l, l->n++, stream);
    return;
  }
  bool later = at > l->at[stream];
  l->at[stream] = at;
  if (later)
    sink(l, l->place[stream], stream);
  else
    rise(l, l->place[stream], stream);
}

uint32_t by_leavings_take(struct by_leavings *l) {
  uint32_t first = l->heap[0], last = l->heap[--l->n];
  l->place[first] = UINT32_MAX;
  if (l->n) sink(l, 0, last);
  return first;
}

/* --- arrivals --- */

void by_arrivals_fini(struct by_arrivals *a) {
  free(a->heap);
  *a = (struct by_arrivals){0};
}

static bool arrives_before(const struct by_arrival *a, const struct by_arrival *b) {
  return a->at < b->at || (a->at == b->at && a->number < b->number);
}

enum banyan_status by_arrivals_add(struct by_arrivals *a, double at, bool added, const struct by_parcel *parcel) {
  if (!BY_ARRAY_GROW(&a->heap, &a->room, a->n + 1)) return NO_MEMORY;
  struct by_arrival arrival = {at, a->next_number++, added, *parcel};
  size_t place = a->n++;
  for (; place && arrives_before(&arrival, &a->heap[(place - 1) / 2]); place = (place - 1) / 2)
    a->heap[place] = a->heap[(place - 1) / 2];
  a->heap[place] = arrival;
  return BANYAN_OK;
}

struct by_arrival by_arrivals_take(struct by_arrivals *a) {
  struct by_arrival first = a->heap[0], last = a->heap[--a->n];
  size_t place = 0;
  for (size_t child; (child = 2 * place + 1) < a->n; place = child) {
    if (child + 1 < a->n && arrives_before(&a->heap[child + 1], &a->heap[child])) child++;
    if (arrives_before(&last, &a->heap[child])) break;
    a->heap[place] = a->heap[child];
  }
  if (a->n) a->heap[place] = last;
  return first;
}
