#include "control_plan.h"

#include <stdlib.h>

static enum banyan_status make(struct by_control *control, const struct by_control_options *options) {
  control->costs = by_control_costs_of(&control->near);
  BY_TRY(by_control_tree_make(&control->near, &options->limits, &control->costs, &control->tree));
  BY_TRY(by_control_tree_time(control->tree, &control->near, &control->costs, &control->tree_time));
  BY_TRY(by_control_find_ring(control, options->seed));
  control->use_ring = control->ring_time <= control->tree_time;
  return BANYAN_OK;
}

enum banyan_status by_control_make(const struct by_topology *topology, const struct by_control_options *options,
                                   struct by_control *out) {
  *out = (struct by_control){.topology = topology};
  BY_TRY(by_nearness_init(&out->near, topology, options->participants, options->n_participants));
  enum banyan_status status = make(out, options);
  if (status != BANYAN_OK) by_control_fini(out);
  return status;
}

void by_control_fini(struct by_control *control) {
  by_control_tree_destroy(control->tree);
  free(control->order);
  by_nearness_fini(&control->near);
  *control = (struct by_control){0};
}
