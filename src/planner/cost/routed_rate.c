/* Computes the rate at which all hosts can send to each other along the paths of packets. */
#include "collective_bound.h"

#include <math.h>

#include "arena.h"
#include "topology_paths.h"

struct loads {
  const struct by_topology *topology;
  const struct by_routed *routed;
  struct by_paths paths;
  struct by_next_hop *hops;
  double (*capacity)[2]; /* of each bundle, in the direction of its first link */
  double (*link)[2];     /* how often the buffer passes each bundle */
  double *out, *in;      /* how often the buffer is sent and received by each node, including what it forwards */
};

static uint8_t direction_from(const struct loads *loads, uint32_t link, uint32_t from) {
  return from == loads->topology->links[link].a ? BY_AB : BY_BA;
}

/* Adds up the capacities of parallel links, which share the traffic between their nodes. */
static void fill_capacities(const struct loads *loads) {
  const struct by_topology *t = loads->topology;
  for (uint32_t l = 0; l < t->n_links; l++) {
    uint32_t bundle = loads->paths.bundle[l];
    for (uint32_t direction = 0; direction < 2; direction++)
      loads->capacity[bundle][direction ^ (t->links[l].a != t->links[bundle].a)] +=
          by_residual(t->links[l].capacity[direction]);
  }
}

/* Adds the loads of all traffic to one host. */
static enum banyan_status add_loads_to(struct loads *loads, uint32_t host) {
  const struct by_routed *routed = loads->routed;
  uint32_t to = routed->hosts[host];
  BY_TRY(by_paths_between(&loads->paths, to, routed->hosts, routed->n_hosts, loads->hops));
  for (uint32_t h = 0; h < routed->n_hosts; h++) {
    double sent = h == host ? 0 : routed->sent(routed->context, h, host);
    for (uint32_t v = routed->hosts[h]; v != to && sent > 0; v = loads->hops[v].next) {
      if (loads->hops[v].link == UINT32_MAX)
        return by_fail(BANYAN_ERR_TOPOLOGY, "%s cannot reach %s", loads->topology->nodes[v].name,
                       loads->topology->nodes[to].name);
      uint32_t bundle = loads->paths.bundle[loads->hops[v].link];
      loads->link[bundle][direction_from(loads, bundle, v)] += sent;
      loads->out[v] += sent;
      loads->in[loads->hops[v].next] += sent;
    }
  }
  return BANYAN_OK;
}

/* Keeps a limit that `sent` passes if it is tighter than all before. */
static void keep_tighter(double sent, struct by_bound_limit limit, double *rate, struct by_bound_limit *tightest) {
  if (sent <= 0 || limit.capacity / sent >= *rate) return;
  *rate = limit.capacity / sent;
  *tightest = limit;
}

static void find_tightest(const struct loads *loads, double *rate, struct by_bound_limit *limit) {
  const struct by_topology *t = loads->topology;
  *rate = INFINITY;
  for (uint32_t l = 0; l < t->n_links; l++)
    for (uint8_t direction = 0; direction < 2; direction++)
      keep_tighter(loads->link[l][direction],
                   (struct by_bound_limit){BY_BOUND_LINK, .index = l, .direction = direction,
                                           .capacity = loads->capacity[l][direction]},
                   rate, limit);
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    keep_tighter(loads->out[v],
                 (struct by_bound_limit){BY_BOUND_OUT, .index = v, .capacity = by_residual(t->nodes[v].out)}, rate,
                 limit);
    keep_tighter(loads->in[v],
                 (struct by_bound_limit){BY_BOUND_IN, .index = v, .capacity = by_residual(t->nodes[v].in)}, rate,
                 limit);
  }
}

static enum banyan_status find_loads(struct loads *loads, struct by_arena *arena) {
  size_t n = loads->topology->n_nodes, m = loads->topology->n_links;
  loads->hops = BY_ARENA_ARRAY(arena, struct by_next_hop, n);
  loads->capacity = by_arena_alloc(arena, m, sizeof *loads->capacity);
  loads->link = by_arena_alloc(arena, m, sizeof *loads->link);
  loads->out = BY_ARENA_ARRAY(arena, double, n);
  loads->in = BY_ARENA_ARRAY(arena, double, n);
  if (arena->failed) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the loads of %zu links", m);
  fill_capacities(loads);
  for (uint32_t h = 0; h < loads->routed->n_hosts; h++) BY_TRY(add_loads_to(loads, h));
  return BANYAN_OK;
}

enum banyan_status by_routed_rate(const struct by_topology *topology, const struct by_routed *routed, double *rate,
                                  struct by_bound_limit *limit) {
  struct loads loads = {.topology = topology, .routed = routed};
  struct by_arena arena = {0};
  BY_TRY(by_paths_init(&loads.paths, topology));
  enum banyan_status status = find_loads(&loads, &arena);
  if (status == BANYAN_OK) find_tightest(&loads, rate, limit);
  by_arena_fini(&arena);
  by_paths_fini(&loads.paths);
  return status;
}
