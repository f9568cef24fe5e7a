#include "draw_plan.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan_load.h"
#include "text.h"
#include "topology_draw.h"

static enum banyan_status write_file(const char *path, const struct by_text *text) {
  FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
  if (!file) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open %s for writing", path);
  bool wrote = fwrite(by_text_get(text), 1, text->length, file) == text->length;
  int why = errno;
  if (file != stdout && fclose(file) != 0) {
    wrote = false;
    why = errno;
  }
  return wrote ? BANYAN_OK : by_fail_errno(BANYAN_ERR_SYSTEM, why, "cannot write %s", path);
}

static enum banyan_status draw(const char *path, const struct by_topology *topology, const char *name,
                               const struct by_plan_load *load) {
  struct by_draw_options options = {.load = (const double(*)[2])load->link, .load_name = name};
  struct by_text text;
  by_text_init(&text);
  enum banyan_status status = by_topology_svg(topology, &options, &text);
  if (status == BANYAN_OK && text.failed) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the drawing");
  if (status == BANYAN_OK) status = write_file(path, &text);
  by_text_fini(&text);
  return status;
}

enum banyan_status by_draw_plan(const char *path, const struct by_topology *topology, const struct by_plan *plan,
                                uint64_t bytes) {
  struct by_plan_load load;
  char name[BY_PLAN_MOST_NAME + 64], size[32];
  BY_TRY(by_plan_load_init(&load, plan, by_plan_class(plan, bytes), topology));
  double rate = isfinite(load.rate) ? load.rate : 0;
  for (uint32_t i = 0; i < 2 * topology->n_links; i++) load.link[i / 2][i % 2] *= rate;
  snprintf(name, sizeof name, "plan %s, %s", plan->name, by_print_bytes(bytes, size));
  enum banyan_status status = draw(path, topology, name, &load);
  by_plan_load_fini(&load);
  return status;
}
