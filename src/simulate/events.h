/* What happens next in a simulation: streams whose chunk leaves at a time that
 * changes with their rates, and parcels that arrive at times that stand. */
#ifndef BY_SIMULATE_EVENTS_H
#define BY_SIMULATE_EVENTS_H

#include "traffic.h"

/* A heap of streams by the times at which their chunks leave; of equal times the lower stream comes first. */
struct by_leavings {
  uint32_t n, *heap, *place; /* place: of each stream in the heap; UINT32_MAX: not in it */
  double *at;
};

BANYAN_CHECK enum banyan_status by_leavings_init(struct by_leavings *leavings, uint32_t n_streams,
                                                 struct by_arena *arena);
/* Puts a stream in or moves it. */
void by_leavings_set(struct by_leavings *leavings, uint32_t stream, double at);
/* Takes the first out. There is one. */
uint32_t by_leavings_take(struct by_leavings *leavings);

/* What arrives, or what has been added; of equal times the one that was put in first comes first. */
struct by_arrival {
  double at;
  uint64_t number;
  bool added; /* else it is there, but was not added yet */
  struct by_parcel parcel;
};

struct by_arrivals {
  size_t n, room;
  uint64_t next_number;
  struct by_arrival *heap;
};

void by_arrivals_fini(struct by_arrivals *arrivals);
BANYAN_CHECK enum banyan_status by_arrivals_add(struct by_arrivals *arrivals, double at, bool added,
                                                const struct by_parcel *parcel);
struct by_arrival by_arrivals_take(struct by_arrivals *arrivals);

#endif
