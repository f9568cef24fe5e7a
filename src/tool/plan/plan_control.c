#include "plan_control.h"

#include <stdio.h>
#include <stdlib.h>

#include "control_plan.h"
#include "plan_topology.h"
#include "text.h"
#include "topology_named.h"

static enum banyan_status parse_distance(const struct by_control_request *request, double *out) {
  long links = 0;
  if (!request->distance) return BANYAN_OK;
  if (request->by_delay) return by_parse_seconds(request->distance, out);
  BY_TRY(by_parse_int("--control-distance", request->distance, 1, UINT16_MAX, &links));
  *out = (double)links;
  return BANYAN_OK;
}

/* Prints the text if nothing failed, and frees it. */
static enum banyan_status finish(enum banyan_status status, struct by_text *text) {
  if (text->length && text->data[text->length - 1] != '\n') by_text_add(text, "\n");
  if (status == BANYAN_OK && text->failed) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the text");
  if (status == BANYAN_OK) fputs(by_text_get(text), stdout);
  by_text_fini(text);
  return status;
}

static enum banyan_status print(const struct by_control *control, bool json) {
  struct by_text text;
  enum banyan_status status = BANYAN_OK;
  by_text_init(&text);
  if (json)
    by_control_print(control, &text);
  else
    status = by_control_draw(control, &text);
  return finish(status, &text);
}

static enum banyan_status show(const struct by_control_request *request, const struct by_topology *topology,
                               struct by_control_options *options) {
  struct by_control control;
  BY_TRY(by_control_make(topology, options, &control));
  enum banyan_status status = print(&control, request->json);
  by_control_fini(&control);
  return status;
}

enum banyan_status by_plan_show_control(const struct by_control_request *request) {
  struct by_control_options options = {.seed = (uint64_t)request->seed};
  struct by_topology *topology;
  uint32_t *ranks = NULL;
  options.limits.fan_out = (uint32_t)request->fan_out;
  options.limits.height = (uint32_t)request->height;
  options.limits.by_delay = request->by_delay;
  BY_TRY(parse_distance(request, &options.limits.distance));
  BY_TRY(by_topology_named(request->topology, &topology));
  enum banyan_status status = BANYAN_OK;
  if (request->ranks) status = by_plan_find_nodes(topology, "ranks", request->ranks, &ranks, &options.n_participants);
  options.participants = ranks;
  if (status == BANYAN_OK) status = show(request, topology, &options);
  free(ranks);
  by_topology_destroy(topology);
  return status;
}
