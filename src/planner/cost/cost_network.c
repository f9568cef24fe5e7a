/* In-network trees in the cost model. Terms go up to the server and results come back in fragments, each on its own, so
 * nothing waits for others on inner vertices. Openings agree on the exponents of fragments (docs/in-network.md), which
 * follow when their results are there:
 *
 *   openings   |--------> results
 *   fragments           |------------------->|--------> results
 *
 * A trip there and back passes each link of a path twice, and wakes up the server and the worker. */
#include "cost_tree.h"

#include <math.h>

#include "plan_make.h"

/* The bytes of data in a fragment and in a TCP segment; by how much a fragment's headers, up to UDP's, are longer than
 * TCP's; the slots that a job requests, for which openings have exponents; and the sizes of lanes and lines: a lane of
 * four bytes for three workers. */
static const double payload = 1408, tcp_payload = 1448, longer_headers = 64 + 8 - 32, slots = 512, lane = 4,
                    workers_in_lane = 3, line = 64;

/* --- Paths. --- */

/* Adds a path to the trip of a worker. */
static void add_path(const struct by_cost *cost, const struct by_plan_pair *path, struct by_cost_trip *trip) {
  if (!path) return;
  trip->delay += path->delay;
  trip->links += path->n_steps;
  for (uint32_t i = 0; i < path->n_steps; i++) {
    uint32_t step = cost->load.steps[path->step + i];
    trip->byte += 8 / by_residual(cost->topology->links[step / 2].capacity[step % 2]);
  }
}

static struct by_cost_trip get_trip(const struct by_cost *cost, const struct by_group *group, uint32_t u) {
  struct by_cost_trip trip = {0};
  for (; u != group->root; u = group->up[u]) {
    uint32_t below = group->order[u], above = group->order[group->up[u]];
    add_path(cost, by_plan_load_pair(&cost->load, below, above), &trip);
    add_path(cost, by_plan_load_pair(&cost->load, above, below), &trip);
  }
  return trip;
}

/* Returns the seconds for a byte of input on the fullest resource of a path, including everything that the class sends
 * there. */
static double get_slowest(const struct by_cost *cost, const struct by_plan_pair *path) {
  const struct by_topology *t = cost->topology;
  const struct by_plan_load *load = &cost->load;
  double max = 0;
  for (uint32_t i = 0; path && i < path->n_steps; i++) {
    uint32_t step = load->steps[path->step + i];
    const struct by_link *link = &t->links[step / 2];
    uint32_t from = step % 2 ? link->b : link->a, to = step % 2 ? link->a : link->b;
    max = fmax(max, load->link[step / 2][step % 2] / by_residual(link->capacity[step % 2]));
    max = fmax(max, load->node[from][0] / by_residual(t->nodes[from].out));
    max = fmax(max, load->node[to][1] / by_residual(t->nodes[to].in));
  }
  return 8 * max;
}

struct by_cost_network by_cost_network_of(const struct by_cost *cost, const struct by_group *group, uint32_t n_ranks) {
  struct by_cost_network network = {.share = group->share, .twigs = group->n_twigs > 0};
  for (uint32_t u = 0; u < group->n; u++) {
    if (u == group->root) continue;
    network.workers += group->order[u] < n_ranks;
    uint32_t below = group->order[u], above = group->order[group->up[u]];
    struct by_cost_trip trip = get_trip(cost, group, u);
    if (trip.delay > network.trip.delay || (trip.delay == network.trip.delay && trip.byte > network.trip.byte))
      network.trip = trip;
    network.slowest = fmax(network.slowest, get_slowest(cost, by_plan_load_pair(&cost->load, below, above)));
    network.slowest = fmax(network.slowest, get_slowest(cost, by_plan_load_pair(&cost->load, above, below)));
  }
  return network;
}

/* --- One size. --- */

/* Rounds a payload up to whole lines. */
static double round_to_lines(double bytes) {
  return ceil(bytes / line) * line;
}

double by_cost_network_time(const struct by_cost_network *network, const struct by_cost_rates *rates, double bytes) {
  double share = round_to_lines(fmax(network->share * bytes, 1)), fragments = ceil(share / payload);
  double headers = (rates->wire - 1) * tcp_payload + longer_headers, first = fmin(share, payload) + headers;
  double byte = network->slowest / network->share; /* of the tree, on the fullest link */
  double trip = network->trip.delay + network->trip.links * rates->link + 2 * (rates->hop + rates->message);
  double exponents = round_to_lines(fmin(fragments, slots) * lane * ceil(network->workers / workers_in_lane));
  double openings = exponents + ceil(exponents / payload) * headers;
  double begin = fmax(trip + (fmin(exponents, payload) + headers) * network->trip.byte, openings * byte);
  double rest = (share + fragments * headers - first) * byte;
  double twigs = network->twigs ? 2 * (rates->hop + rates->message) : 0;
  return rates->call + twigs + begin + rest + trip + first * network->trip.byte;
}
