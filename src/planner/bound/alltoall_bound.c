/* What each link's direction and each node's limit carries when every host sends its blocks along its packets' ways. */
#include <math.h>

#include "collective_bound.h"
#include "topology_paths.h"

struct loads {
  const struct by_topology *topology;
  const struct by_bound_request *request;
  struct by_paths paths;
  struct by_hop *hops;
  uint32_t *bundle;       /* of each link, the first of those between the same nodes, which share what they carry */
  double (*capacity)[2];  /* of each bundle, as its first link is directed */
  double (*link)[2];      /* blocks over each bundle */
  double *out, *in;       /* blocks that each node sends and receives, those of others included */
  uint32_t *seen, *stamp; /* scratch of each node: its bundle, and for which node that is */
};

static uint8_t way_from(const struct loads *loads, uint32_t link, uint32_t from) {
  return from == loads->topology->links[link].a ? BY_AB : BY_BA;
}

static void find_bundles(struct loads *loads) {
  const struct by_topology *t = loads->topology;
  for (uint32_t v = 0; v < t->n_nodes; v++)
    for (uint32_t i = loads->paths.first[v]; i < loads->paths.first[v + 1]; i++) {
      uint32_t l = loads->paths.links[i], other = by_link_other(&t->links[l], v);
      if (loads->stamp[other] != v + 1) loads->seen[other] = l;
      loads->stamp[other] = v + 1;
      uint32_t bundle = loads->bundle[l] = loads->seen[other];
      loads->capacity[bundle][way_from(loads, bundle, v)] += by_residual(t->links[l].capacity[way_from(loads, l, v)]);
    }
}

static double blocks_of(const struct loads *loads, uint32_t host) {
  return loads->request->blocks ? loads->request->blocks[host] : 1;
}

/* All that goes to one host. */
static enum banyan_status send_to(struct loads *loads, uint32_t host) {
  const struct by_bound_request *request = loads->request;
  uint32_t to = request->hosts[host];
  BY_TRY(by_paths_between(&loads->paths, to, request->hosts, request->n_hosts, loads->hops));
  for (uint32_t h = 0; h < request->n_hosts; h++) {
    double blocks = blocks_of(loads, h) * blocks_of(loads, host);
    for (uint32_t v = request->hosts[h]; v != to && blocks > 0; v = loads->hops[v].next) {
      if (loads->hops[v].link == UINT32_MAX)
        return by_fail(BANYAN_ERR_TOPOLOGY, "alltoall: %s cannot reach %s", loads->topology->nodes[v].name,
                       loads->topology->nodes[to].name);
      uint32_t bundle = loads->bundle[loads->hops[v].link];
      loads->link[bundle][way_from(loads, bundle, v)] += blocks;
      loads->out[v] += blocks;
      loads->in[loads->hops[v].next] += blocks;
    }
  }
  return BANYAN_OK;
}

/* `blocks` go over a limit. Of all of them the tightest stays. */
static void weigh(struct by_collective_bound *out, double total, double blocks, struct by_bound_limit limit) {
  if (blocks <= 0 || total * limit.capacity / blocks >= out->rate) return;
  out->rate = total * limit.capacity / blocks;
  out->part = blocks / total;
  out->n_limits = 1;
  out->limits[0] = limit;
}

static void find_tightest(const struct loads *loads, struct by_collective_bound *out) {
  const struct by_topology *t = loads->topology;
  double total = 0;
  for (uint32_t h = 0; h < loads->request->n_hosts; h++) total += blocks_of(loads, h);
  for (uint32_t l = 0; l < t->n_links; l++)
    for (uint8_t way = 0; way < 2; way++)
      weigh(
          out, total, loads->link[l][way],
          (struct by_bound_limit){.kind = BY_BOUND_LINK, .index = l, .way = way, .capacity = loads->capacity[l][way]});
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    weigh(out, total, loads->out[v],
          (struct by_bound_limit){.kind = BY_BOUND_OUT, .index = v, .capacity = by_residual(t->nodes[v].out)});
    weigh(out, total, loads->in[v],
          (struct by_bound_limit){.kind = BY_BOUND_IN, .index = v, .capacity = by_residual(t->nodes[v].in)});
  }
}

static enum banyan_status find(struct loads *loads, struct by_arena *arena, struct by_collective_bound *out) {
  size_t n = loads->topology->n_nodes, m = loads->topology->n_links;
  loads->hops = BY_ARENA_ARRAY(arena, struct by_hop, n);
  loads->bundle = BY_ARENA_ARRAY(arena, uint32_t, m);
  loads->capacity = by_arena_alloc(arena, m, sizeof *loads->capacity);
  loads->link = by_arena_alloc(arena, m, sizeof *loads->link);
  loads->out = BY_ARENA_ARRAY(arena, double, n);
  loads->in = BY_ARENA_ARRAY(arena, double, n);
  loads->seen = BY_ARENA_ARRAY(arena, uint32_t, n);
  loads->stamp = BY_ARENA_ARRAY(arena, uint32_t, n);
  out->limits = BY_ARENA_NEW(&out->arena, struct by_bound_limit);
  if (arena->failed || out->arena.failed)
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the loads of %zu links", m);
  find_bundles(loads);
  for (uint32_t h = 0; h < loads->request->n_hosts; h++) BY_TRY(send_to(loads, h));
  find_tightest(loads, out);
  return BANYAN_OK;
}

enum banyan_status by_alltoall_bound_find(const struct by_topology *topology, const struct by_bound_request *request,
                                          struct by_collective_bound *out) {
  struct loads loads = {.topology = topology, .request = request};
  struct by_arena arena;
  BY_TRY(by_paths_init(&loads.paths, topology));
  by_arena_init(&arena);
  enum banyan_status status = find(&loads, &arena, out);
  by_arena_fini(&arena);
  by_paths_fini(&loads.paths);
  return status;
}
