/* Finds the minimum cut: for each receiving host, blocks flow to it from an additional source, whose arcs carry each
 * host's part at the rate of the best cut so far. If not all of it arrives, the flow's minimum cut is better
 * (Dinkelbach 1967), and the search is repeated until all arrives. */
#include "collective_bound.h"

#include <math.h>
#include <string.h>

#include "collective.h"
#include "max_flow.h"

/* Parts of a flow and of a rate that count as all. The rate of a cut is computed from its capacities, so rounding of
 * flows does not falsify a bound. */
static const double all = 1 - 1e-12;

/* A node is three vertices: what it receives enters one, what it sends leaves another, and its limits are arcs between
 * them. Nodes without a limit are one vertex. */
struct cuts {
  const struct by_topology *topology;
  const struct by_bound_request *request;
  bool reversed; /* data flows against the arcs, which lead from the result to its terms */
  struct by_flow_network flow;
  struct by_bound_limit *limits; /* of each arc that is not from the source */
  uint32_t n_limits;
  double *part;           /* of each host */
  uint32_t *of_host;      /* for each host: the arc from the source */
  bool *inside, *best;    /* for each vertex: it is inside the present cut, or the best one */
  double rate, best_part; /* of the best cut */
};

static uint32_t get_sending_vertex(const struct cuts *cuts, uint32_t node) {
  const struct by_node *n = &cuts->topology->nodes[node];
  return isinf((cuts->reversed ? n->in : n->out).all) ? node : 2 * cuts->topology->n_nodes + node;
}

static uint32_t get_receiving_vertex(const struct cuts *cuts, uint32_t node) {
  const struct by_node *n = &cuts->topology->nodes[node];
  return isinf((cuts->reversed ? n->out : n->in).all) ? node : cuts->topology->n_nodes + node;
}

static void add_arc(struct cuts *cuts, uint32_t from, uint32_t to, struct by_bound_limit limit) {
  if (from == to || limit.capacity <= 0) return;
  cuts->limits[cuts->n_limits++] = limit;
  by_flow_add(&cuts->flow, from, to, limit.capacity);
}

static void add_node(struct cuts *cuts, uint32_t node) {
  const struct by_node *n = &cuts->topology->nodes[node];
  struct by_bound_limit out = {.kind = BY_BOUND_OUT, .index = node, .capacity = by_residual(n->out)},
                        in = {.kind = BY_BOUND_IN, .index = node, .capacity = by_residual(n->in)};
  add_arc(cuts, get_receiving_vertex(cuts, node), node, cuts->reversed ? out : in);
  add_arc(cuts, node, get_sending_vertex(cuts, node), cuts->reversed ? in : out);
}

static void add_link(struct cuts *cuts, uint32_t index) {
  const struct by_link *link = &cuts->topology->links[index];
  for (uint8_t direction = 0; direction < 2; direction++) {
    bool from_a = (direction == BY_AB) != cuts->reversed;
    uint32_t from = from_a ? link->a : link->b, to = from_a ? link->b : link->a;
    add_arc(cuts, get_sending_vertex(cuts, from), get_receiving_vertex(cuts, to),
            (struct by_bound_limit){.kind = BY_BOUND_LINK,
                                    .index = index,
                                    .direction = direction,
                                    .capacity = by_residual(link->capacity[direction])});
  }
}

static uint32_t get_source(const struct cuts *cuts) {
  return 3 * cuts->topology->n_nodes;
}

static enum banyan_status build_flow(struct cuts *cuts, struct by_arena *arena) {
  const struct by_topology *t = cuts->topology;
  const struct by_bound_request *request = cuts->request;
  uint32_t arcs = 2 * (t->n_nodes + t->n_links), vertices = get_source(cuts) + 1;
  cuts->limits = BY_ARENA_ARRAY(arena, struct by_bound_limit, arcs);
  cuts->part = BY_ARENA_ARRAY(arena, double, request->n_hosts);
  cuts->of_host = BY_ARENA_ARRAY(arena, uint32_t, request->n_hosts);
  cuts->inside = BY_ARENA_ARRAY(arena, bool, vertices);
  cuts->best = BY_ARENA_ARRAY(arena, bool, vertices);
  if (arena->failed) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the bound of %u nodes", t->n_nodes);
  BY_TRY(by_flow_init(&cuts->flow, vertices, arcs + request->n_hosts));
  for (uint32_t v = 0; v < t->n_nodes; v++) add_node(cuts, v);
  for (uint32_t l = 0; l < t->n_links; l++) add_link(cuts, l);
  for (uint32_t h = 0; h < request->n_hosts; h++)
    cuts->of_host[h] = by_flow_add(&cuts->flow, get_source(cuts), request->hosts[h], 0);
  by_flow_seal(&cuts->flow);
  return BANYAN_OK;
}

static void fill_parts(struct cuts *cuts) {
  const struct by_bound_request *request = cuts->request;
  const struct by_collective *collective = by_collective(request->collective);
  double sum = 0;
  for (uint32_t h = 0; h < request->n_hosts; h++) {
    if (!collective->blocks) /* The root owns all of it. */
      cuts->part[h] = h == request->root;
    else
      cuts->part[h] = request->blocks ? request->blocks[h] : 1;
    sum += cuts->part[h];
  }
  for (uint32_t h = 0; h < request->n_hosts; h++) cuts->part[h] /= sum;
}

/* Computes the rate of the cut `inside`, and keeps it if it is the best so far. */
static bool keep_if_better(struct cuts *cuts) {
  double capacity = 0, part = 0;
  for (uint32_t a = 0; a < cuts->n_limits; a++)
    if (cuts->inside[by_flow_tail(&cuts->flow, a)] && !cuts->inside[by_flow_head(&cuts->flow, a)])
      capacity += cuts->limits[a].capacity;
  for (uint32_t h = 0; h < cuts->request->n_hosts; h++)
    if (cuts->inside[cuts->request->hosts[h]]) part += cuts->part[h];
  if (part <= 0 || capacity / part >= cuts->rate * all) return false;
  cuts->rate = capacity / part;
  cuts->best_part = part;
  memcpy(cuts->best, cuts->inside, get_source(cuts) + 1);
  return true;
}

/* Finds the best cut with this host outside. */
static void find_cut_for_host(struct cuts *cuts, uint32_t host) {
  struct by_flow_network *flow = &cuts->flow;
  const uint32_t *hosts = cuts->request->hosts;
  memset(cuts->inside, true, get_source(cuts) + 1);
  cuts->inside[hosts[host]] = false;
  (void)keep_if_better(cuts);
  if (isinf(cuts->rate)) return; /* Nobody else owns anything. */
  for (;;) {
    double wanted = 0;
    for (uint32_t h = 0; h < cuts->request->n_hosts; h++) {
      double rate = h == host ? 0 : cuts->rate * cuts->part[h];
      flow->capacity[cuts->of_host[h]] = rate;
      wanted += rate;
    }
    if (by_flow_run(flow, get_source(cuts), hosts[host]) >= wanted * all) return;
    for (uint32_t v = 0; v <= get_source(cuts); v++) cuts->inside[v] = by_flow_is_inside(flow, v);
    if (!keep_if_better(cuts)) return;
  }
}

/* --- The result. --- */

static enum banyan_status fill_result(const struct cuts *cuts, struct by_collective_bound *out) {
  const struct by_bound_request *request = cuts->request;
  uint32_t inside = 0;
  out->rate = cuts->rate;
  out->part = cuts->best_part;
  if (isinf(cuts->rate)) return BANYAN_OK;
  for (uint32_t h = 0; h < request->n_hosts; h++) inside += cuts->best[request->hosts[h]];
  bool named = inside <= request->n_hosts - inside; /* the side that is named is the inside */
  out->leaves = named != cuts->reversed;
  out->side = BY_ARENA_ARRAY(&out->arena, uint32_t, request->n_hosts);
  out->limits = BY_ARENA_ARRAY(&out->arena, struct by_bound_limit, cuts->n_limits);
  if (out->arena.failed) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the bound of %u hosts", request->n_hosts);
  for (uint32_t h = 0; h < request->n_hosts; h++)
    if (cuts->best[request->hosts[h]] == named) out->side[out->n_side++] = request->hosts[h];
  for (uint32_t a = 0; a < cuts->n_limits; a++)
    if (cuts->best[by_flow_tail(&cuts->flow, a)] && !cuts->best[by_flow_head(&cuts->flow, a)])
      out->limits[out->n_limits++] = cuts->limits[a];
  return cuts->rate > 0 ? BANYAN_OK
                        : by_fail(BANYAN_ERR_TOPOLOGY, "%s: %s cannot be reached by all others or cannot reach them",
                                  by_collective(request->collective)->name, cuts->topology->nodes[out->side[0]].name);
}

/* Returns whether data goes to the hosts that own it, or from all to one. */
static bool is_reversed(enum banyan_collective collective) {
  return collective == BANYAN_REDUCE_SCATTER || collective == BANYAN_REDUCE || collective == BANYAN_SCATTER;
}

static enum banyan_status find_cut(struct cuts *cuts, struct by_arena *arena, struct by_collective_bound *out) {
  const struct by_bound_request *request = cuts->request;
  const struct by_collective *collective = by_collective(request->collective);
  bool to_root = collective->rooted && collective->blocks; /* only the root receives */
  BY_TRY(build_flow(cuts, arena));
  fill_parts(cuts);
  for (uint32_t h = 0; h < request->n_hosts; h++)
    if (!to_root || h == request->root) find_cut_for_host(cuts, h);
  return fill_result(cuts, out);
}

struct exchange {
  const double *ranks; /* the ranks on each host; NULL: one each */
  double sum;
};

/* Returns the part of the blocks of all ranks of a host for all ranks of another. */
static double get_exchanged(const void *context, uint32_t from, uint32_t to) {
  const struct exchange *exchange = context;
  return (exchange->ranks ? exchange->ranks[from] * exchange->ranks[to] : 1) / exchange->sum;
}

static enum banyan_status bound_alltoall(const struct by_topology *topology, const struct by_bound_request *request,
                                         struct by_collective_bound *out) {
  struct exchange exchange = {.ranks = request->blocks};
  const struct by_routed routed = {request->hosts, request->n_hosts, get_exchanged, &exchange};
  for (uint32_t h = 0; h < request->n_hosts; h++) exchange.sum += request->blocks ? request->blocks[h] : 1;
  out->limits = BY_ARENA_NEW(&out->arena, struct by_bound_limit);
  if (!out->limits) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the bound");
  BY_TRY(by_routed_rate(topology, &routed, &out->rate, out->limits));
  if (isinf(out->rate)) return BANYAN_OK;
  out->n_limits = 1;
  out->part = out->limits[0].capacity / out->rate;
  return BANYAN_OK;
}

static enum banyan_status check_request(const struct by_topology *topology, const struct by_bound_request *request) {
  double sum = 0;
  if (!by_collective_has_bound(request->collective))
    return by_fail(BANYAN_ERR_ARGUMENT, "a bound of %s is not known here", by_collective(request->collective)->name);
  if (request->n_hosts < 1 || request->root >= request->n_hosts)
    return by_fail(BANYAN_ERR_ARGUMENT, "there is no root %u among %u hosts", request->root, request->n_hosts);
  for (uint32_t h = 0; h < request->n_hosts; h++) {
    double block = request->blocks ? request->blocks[h] : 1;
    if (request->hosts[h] >= topology->n_nodes || !(block >= 0) || isinf(block))
      return by_fail(BANYAN_ERR_ARGUMENT, "host %u is node %u of %u and owns %g; it must be a node and own 0 or more",
                     h, request->hosts[h], topology->n_nodes, block);
    sum += block;
  }
  return sum > 0 ? BANYAN_OK : by_fail(BANYAN_ERR_ARGUMENT, "no host owns anything: give one a block");
}

bool by_collective_has_bound(enum banyan_collective collective) {
  const struct by_collective *c = by_collective(collective);
  return c->name[0] != '?' && !c->pair && !(c->up && c->down);
}

enum banyan_status by_collective_bound_find(const struct by_topology *topology, const struct by_bound_request *request,
                                            struct by_collective_bound *out) {
  struct cuts cuts = {
      .topology = topology, .request = request, .reversed = is_reversed(request->collective), .rate = INFINITY};
  struct by_arena arena;
  *out = (struct by_collective_bound){.collective = request->collective, .rate = INFINITY};
  BY_TRY(check_request(topology, request));
  by_arena_init(&out->arena);
  by_arena_init(&arena);
  enum banyan_status status =
      request->collective == BANYAN_ALLTOALL ? bound_alltoall(topology, request, out) : find_cut(&cuts, &arena, out);
  by_flow_fini(&cuts.flow);
  by_arena_fini(&arena);
  if (status != BANYAN_OK) by_collective_bound_fini(out);
  return status;
}

void by_collective_bound_fini(struct by_collective_bound *bound) {
  by_arena_fini(&bound->arena);
  *bound = (struct by_collective_bound){0};
}
