#include "draw_plan.h"

#include <math.h>
#include <stdio.h>

#include "plan_load.h"
#include "topology_draw.h"
#include "write.h"

enum banyan_status by_draw_plan(const char *path, const struct by_topology *topology, const struct by_plan *plan,
                                uint64_t bytes) {
  struct by_plan_load load;
  char name[BY_PLAN_MOST_NAME + 64], size[32];
  BY_TRY(by_plan_load_init(&load, plan, by_plan_class(plan, bytes), topology));
  double rate = isfinite(load.rate) ? load.rate : 0;
  for (uint32_t i = 0; i < 2 * topology->n_links; i++) load.link[i / 2][i % 2] *= rate;
  snprintf(name, sizeof name, "plan %s, %s", plan->name, by_print_bytes(bytes, size));
  struct by_draw_options options = {.load = (const double(*)[2])load.link, .load_name = name};
  enum banyan_status status = by_write_svg(path, topology, &options);
  by_plan_load_fini(&load);
  return status;
}
