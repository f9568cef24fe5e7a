#include "control_ways.h"

#include <string.h>

#include "control_plan.h"

static void go_round(const uint32_t *order, uint32_t n, uint32_t *up, uint32_t *down) {
  for (uint32_t i = 0; i < n; i++) {
    up[order[i]] = order[i + 1 < n ? i + 1 : i];
    down[order[i]] = order[i + 1 == n ? i : (i + n - 1) % n];
  }
}

enum banyan_status by_control_ways_make(const struct by_topology *topology, const uint32_t *participants, uint32_t n,
                                        uint32_t *up, uint32_t *down) {
  struct by_control_options options = {.participants = participants, .n_participants = n};
  struct by_control control;
  BY_TRY(by_control_make(topology, &options, &control));
  if (control.use_ring) {
    go_round(control.order, n, up, down);
  } else {
    memcpy(up, control.tree->parent, n * sizeof *up);
    memcpy(down, control.tree->parent, n * sizeof *down);
  }
  by_control_fini(&control);
  return BANYAN_OK;
}
