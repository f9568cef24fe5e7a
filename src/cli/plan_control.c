#include "plan_control.h"

#include <stdio.h>
#include <stdlib.h>

#include "control_plan.h"
#include "placement.h"
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

/* --- aggregation on switches --- */

static enum banyan_status show_placement(const struct by_topology *topology, const struct by_placement_job *job,
                                         const struct by_placement_options *options, bool json) {
  struct by_placement *placement;
  struct by_text text;
  BY_TRY(by_placement_make(topology, job, 1, options, &placement));
  by_text_init(&text);
  enum banyan_status status = (json ? by_placement_print : by_placement_draw)(placement, topology, job, &text);
  by_placement_destroy(placement);
  return finish(status, &text);
}

/* The hosts that take part, if none are named. */
static enum banyan_status find_workers(const struct by_topology *topology, const char *names, uint32_t **out,
                                       uint32_t *n) {
  if (names) return by_plan_find_nodes(topology, "ranks", names, out, n);
  *out = calloc((size_t)topology->n_nodes + 1, sizeof **out);
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the names of hosts");
  for (uint32_t node = 0; node < topology->n_nodes; node++)
    if (topology->nodes[node].takes_part) (*out)[(*n)++] = node;
  return BANYAN_OK;
}

static enum banyan_status place(const struct by_in_network_request *request, const struct by_topology *topology) {
  struct by_placement_options options = by_placement_defaults();
  struct by_placement_job job = {.weight = 1};
  uint32_t *workers = NULL, *servers = NULL, best = 0;
  if (request->most_adding >= 0) options.most_adding = (uint32_t)request->most_adding;
  enum banyan_status status = find_workers(topology, request->ranks, &workers, &job.n_workers);
  if (status == BANYAN_OK && request->servers)
    status = by_plan_find_nodes(topology, "server", request->servers, &servers, &job.n_servers);
  if (status == BANYAN_OK && !request->servers) {
    status = by_placement_best_server(topology, workers, job.n_workers, &options, &best);
    job.n_servers = 1;
  }
  job.workers = workers;
  job.servers = servers ? servers : &best;
  if (status == BANYAN_OK) status = show_placement(topology, &job, &options, request->json);
  free(workers);
  free(servers);
  return status;
}

enum banyan_status by_plan_show_in_network(const struct by_in_network_request *request) {
  struct by_topology *topology;
  BY_TRY(by_topology_named(request->topology, &topology));
  enum banyan_status status = place(request, topology);
  by_topology_destroy(topology);
  return status;
}
