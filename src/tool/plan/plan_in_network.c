#include "plan_in_network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "placement.h"
#include "text.h"
#include "topology_synth.h"

/* ---- names of hosts */

static enum banyan_status unknown(const struct by_topology *topology, const char *option, const char *name) {
  return by_fail(BANYAN_ERR_ARGUMENT, "--%s: there is no \"%.64s\" in the topology%s%s", option, name,
                 topology->n_nodes ? "; its first node is " : "", topology->n_nodes ? topology->nodes[0].name : "");
}

enum banyan_status by_plan_find_nodes(const struct by_topology *topology, const char *option, const char *names,
                                      uint32_t **out, uint32_t *n) {
  char *copy = strdup(names), *rest = copy;
  uint32_t *nodes = malloc((strlen(names) / 2 + 1) * sizeof *nodes);
  enum banyan_status status = BANYAN_OK;
  if (!copy || !nodes) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the names of hosts");
  *n = 0;
  for (char *name; status == BANYAN_OK && (name = strsep(&rest, ",")) != NULL;) {
    if (!*name) continue;
    uint32_t node = by_topology_find(topology, name);
    if (node == UINT32_MAX) status = unknown(topology, option, name);
    if (status == BANYAN_OK) nodes[(*n)++] = node;
  }
  free(copy);
  *out = nodes;
  if (status != BANYAN_OK) free(nodes);
  if (status != BANYAN_OK) *out = NULL;
  return status;
}

/* ---- placing */

/* A job placed; the arrays are what its pointers point to. */
struct placed {
  struct by_placement_job job;
  struct by_placement *placement;
  uint32_t *workers, *servers;
};

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

/* The host that does best, if none are named. */
static enum banyan_status find_servers(const struct by_topology *topology, const char *names,
                                       const struct by_placement_options *options, const struct by_placement_job *job,
                                       uint32_t **out, uint32_t *n) {
  if (names) return by_plan_find_nodes(topology, "server", names, out, n);
  *out = calloc(1, sizeof **out);
  *n = 1;
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the names of hosts");
  return by_placement_best_server(topology, job->workers, job->n_workers, options, *out);
}

static enum banyan_status place(const struct by_in_network_request *request, const struct by_topology *topology,
                                struct placed *placed) {
  struct by_placement_options options = by_placement_defaults();
  struct by_placement_job *job = &placed->job;
  job->weight = 1;
  if (request->most_adding >= 0) options.most_adding = (uint32_t)request->most_adding;
  BY_TRY(find_workers(topology, request->ranks, &placed->workers, &job->n_workers));
  job->workers = placed->workers;
  BY_TRY(find_servers(topology, request->servers, &options, job, &placed->servers, &job->n_servers));
  job->servers = placed->servers;
  return by_placement_make(topology, job, 1, &options, &placed->placement);
}

static void placed_fini(struct placed *placed) {
  by_placement_destroy(placed->placement);
  free(placed->workers);
  free(placed->servers);
}

static enum banyan_status write_placed(const struct placed *placed, const struct by_topology *topology, bool json,
                                       FILE *to) {
  struct by_text text;
  by_text_init(&text);
  enum banyan_status status =
      (json ? by_placement_print : by_placement_draw)(placed->placement, topology, &placed->job, &text);
  if (json) by_text_add(&text, "\n");
  if (status == BANYAN_OK && text.failed) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the text");
  if (status == BANYAN_OK) fputs(by_text_get(&text), to);
  by_text_fini(&text);
  return status;
}

enum banyan_status by_plan_in_network(const struct by_in_network_request *request, const struct by_topology *topology,
                                      bool explain, struct by_plan **out) {
  struct placed placed = {0};
  const char *name = topology->name[0] ? topology->name : "in-network";
  enum banyan_status status = place(request, topology, &placed);
  if (status == BANYAN_OK && explain) status = write_placed(&placed, topology, false, stderr);
  if (status == BANYAN_OK) status = by_plan_of_placement(name, topology, placed.placement, 0, &placed.job, out);
  placed_fini(&placed);
  return status;
}

enum banyan_status by_plan_show_in_network(const struct by_in_network_request *request, const char *name, bool json) {
  struct by_topology *topology;
  struct placed placed = {0};
  BY_TRY(by_topology_named(name, &topology));
  enum banyan_status status = place(request, topology, &placed);
  if (status == BANYAN_OK) status = write_placed(&placed, topology, json, stdout);
  placed_fini(&placed);
  by_topology_destroy(topology);
  return status;
}
