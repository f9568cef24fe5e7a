/* Finds the bound of a collective by maximum flows, computes rates along the paths of packets, and explains bounds. */
#include "collective_bound.h"

#include <math.h>
#include <string.h>

#include "collective.h"
#include "json_doc.h"
#include "text.h"
#include "topology_paths.h"

/* --- Maximum flows and minimum cuts in directed networks. --- */

struct flow_network {
  uint32_t n_vertices, n_arcs; /* The number of vertices, and of arcs added so far. */
  double *capacity;            /* The capacity of each arc, >= 0 and finite. It may be set between runs. */
  /* Arc a is the directed arc 2a. Its reverse is 2a + 1, which a flow opens. */
  uint32_t *head;            /* The vertex at the end of each directed arc. */
  double *left;              /* The residual capacity of each directed arc. */
  uint32_t *first, *leaving; /* The directed arcs that leave vertex v are leaving[first[v] .. first[v + 1]). */
  uint32_t *level;           /* The level of each vertex in the last search; UINT32_MAX: not reached. */
  uint32_t *next, *queue, *path;
  struct by_arena arena;
};

#define NONE UINT32_MAX

static enum banyan_status init_flow(struct flow_network *flow, uint32_t n_vertices, uint32_t max_arcs) {
  size_t n = n_vertices, m = max_arcs;
  *flow = (struct flow_network){.n_vertices = n_vertices};
  flow->capacity = BY_ARENA_ARRAY(&flow->arena, double, m);
  flow->left = BY_ARENA_ARRAY(&flow->arena, double, 2 * m);
  flow->head = BY_ARENA_ARRAY(&flow->arena, uint32_t, 2 * m);
  flow->leaving = BY_ARENA_ARRAY(&flow->arena, uint32_t, 2 * m);
  flow->first = BY_ARENA_ARRAY(&flow->arena, uint32_t, n + 1);
  flow->level = BY_ARENA_ARRAY(&flow->arena, uint32_t, n);
  flow->next = BY_ARENA_ARRAY(&flow->arena, uint32_t, n);
  flow->queue = BY_ARENA_ARRAY(&flow->arena, uint32_t, n);
  flow->path = BY_ARENA_ARRAY(&flow->arena, uint32_t, n);
  if (!flow->arena.failed) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for flows between %u vertices", n_vertices);
}

/* Adds an arc between vertices that differ; at most max_arcs arcs. Returns its number: 0, 1, ... */
static uint32_t add_flow_arc(struct flow_network *flow, uint32_t from, uint32_t to, double capacity) {
  size_t arc = flow->n_arcs++;
  flow->capacity[arc] = capacity;
  flow->head[2 * arc] = to;
  flow->head[2 * arc + 1] = from;
  return (uint32_t)arc;
}

static uint32_t get_tail(const struct flow_network *flow, uint32_t arc) {
  return flow->head[2 * (size_t)arc + 1];
}

static uint32_t get_head(const struct flow_network *flow, uint32_t arc) {
  return flow->head[2 * (size_t)arc];
}

/* Indexes the arcs, once all are added. */
static void index_arcs(struct flow_network *flow) {
  uint32_t *first = flow->first, n = 2 * flow->n_arcs;
  for (uint32_t d = 0; d < n; d++) first[flow->head[d ^ 1]]++;
  for (uint32_t v = 0; v < flow->n_vertices; v++) first[v + 1] += first[v];
  for (uint32_t d = n; d-- > 0;) flow->leaving[--first[flow->head[d ^ 1]]] = d;
}

/* Numbers vertices breadth first over all arcs with residual capacity. */
static void find_levels(struct flow_network *flow, uint32_t from) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < flow->n_vertices; v++) flow->level[v] = NONE;
  flow->level[from] = 0;
  flow->queue[n++] = from;
  for (uint32_t at = 0; at < n; at++) {
    uint32_t v = flow->queue[at];
    for (uint32_t i = flow->first[v]; i < flow->first[v + 1]; i++) {
      uint32_t d = flow->leaving[i], w = flow->head[d];
      if (flow->left[d] <= 0 || flow->level[w] != NONE) continue;
      flow->level[w] = flow->level[v] + 1;
      flow->queue[n++] = w;
    }
  }
}

/* Returns the next arc from v to the level below; NONE: there is none. */
static uint32_t find_next_down(struct flow_network *flow, uint32_t v) {
  for (; flow->next[v] < flow->first[v + 1]; flow->next[v]++) {
    uint32_t d = flow->leaving[flow->next[v]];
    if (flow->left[d] > 0 && flow->level[flow->head[d]] == flow->level[v] + 1) return d;
  }
  return NONE;
}

/* Fills a path up to the residual capacity of its narrowest arc, which becomes exactly 0. Returns the index of that arc
 * in the path. */
static uint32_t fill_path(struct flow_network *flow, uint32_t length, double *total) {
  uint32_t narrow = 0;
  for (uint32_t i = 1; i < length; i++)
    if (flow->left[flow->path[i]] < flow->left[flow->path[narrow]]) narrow = i;
  double amount = flow->left[flow->path[narrow]];
  for (uint32_t i = 0; i < length; i++) {
    flow->left[flow->path[i]] -= amount;
    flow->left[flow->path[i] ^ 1] += amount;
  }
  *total += amount;
  return narrow;
}

/* Sends as much as possible down the levels, and returns the amount. It searches depth first without recursion, since
 * paths may be as long as the network. */
static double fill_levels(struct flow_network *flow, uint32_t from, uint32_t to) {
  double total = 0;
  uint32_t v = from, length = 0;
  memcpy(flow->next, flow->first, flow->n_vertices * sizeof *flow->next);
  for (;;) {
    uint32_t d = v == to ? NONE : find_next_down(flow, v);
    if (v == to) {
      length = fill_path(flow, length, &total);
      v = flow->head[flow->path[length] ^ 1];
    } else if (d != NONE) {
      flow->path[length++] = d;
      v = flow->head[d];
    } else if (v == from) {
      return total;
    } else {
      v = flow->head[flow->path[--length] ^ 1];
      flow->next[v]++;
    }
  }
}

/* Returns the value of a maximum flow (Dinic 1970). Cost: at most vertices^2 * arcs, in practice some searches over all
 * arcs. */
static double run_flow(struct flow_network *flow, uint32_t from, uint32_t to) {
  double total = 0;
  for (size_t a = 0; a < flow->n_arcs; a++) {
    flow->left[2 * a] = flow->capacity[a];
    flow->left[2 * a + 1] = 0;
  }
  for (;;) {
    find_levels(flow, from);
    if (flow->level[to] == NONE) return total;
    total += fill_levels(flow, from, to);
  }
}

/* Returns whether, after a run, the vertex is on the source's side of the smallest minimum cut. */
static bool is_inside(const struct flow_network *flow, uint32_t vertex) {
  return flow->level[vertex] != NONE;
}

/* --- The minimum cut. --- */

/* Finds the minimum cut: for each receiving host, blocks flow to it from an additional source, whose arcs carry each
 * host's part at the rate of the best cut so far. If not all of it arrives, the flow's minimum cut is better
 * (Dinkelbach 1967), and the search is repeated until all arrives. */

/* The part of a flow or of a rate that counts as all of it. The rate of a cut is computed from its capacities, so
 * rounding of flows does not falsify a bound. */
static const double all = 1 - 1e-12;

/* The state of the search. A node is three vertices: what it receives enters one, what it sends leaves another, and its
 * limits are arcs between them. Nodes without a limit are one vertex. */
struct cuts {
  const struct by_topology *topology;
  const struct by_bound_request *request;
  bool reversed; /* Data flows against the arcs, which lead from the result to its terms. */
  struct flow_network flow;
  struct by_bound_limit *limits; /* The limit of each arc that is not from the source. */
  uint32_t n_limits;
  double *part;           /* The part of the buffer that each host owns. */
  uint32_t *of_host;      /* The arc from the source to each host. */
  bool *inside, *best;    /* Whether each vertex is inside the present cut, and inside the best one. */
  double rate, best_part; /* The rate of the best cut in bit/s, and the part of the buffer that crosses it. */
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
  add_flow_arc(&cuts->flow, from, to, limit.capacity);
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
  BY_TRY(init_flow(&cuts->flow, vertices, arcs + request->n_hosts));
  for (uint32_t v = 0; v < t->n_nodes; v++) add_node(cuts, v);
  for (uint32_t l = 0; l < t->n_links; l++) add_link(cuts, l);
  for (uint32_t h = 0; h < request->n_hosts; h++)
    cuts->of_host[h] = add_flow_arc(&cuts->flow, get_source(cuts), request->hosts[h], 0);
  index_arcs(&cuts->flow);
  return BANYAN_OK;
}

static void fill_parts(struct cuts *cuts) {
  const struct by_bound_request *request = cuts->request;
  const struct by_collective *collective = by_collective(request->collective);
  double sum = 0;
  for (uint32_t h = 0; h < request->n_hosts; h++) {
    if (!collective->blocks) /* The root owns the whole buffer. */
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
    if (cuts->inside[get_tail(&cuts->flow, a)] && !cuts->inside[get_head(&cuts->flow, a)])
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
  struct flow_network *flow = &cuts->flow;
  const uint32_t *hosts = cuts->request->hosts;
  memset(cuts->inside, true, get_source(cuts) + 1);
  cuts->inside[hosts[host]] = false;
  (void)keep_if_better(cuts);
  if (isinf(cuts->rate)) return; /* No other host owns anything. */
  for (;;) {
    double wanted = 0;
    for (uint32_t h = 0; h < cuts->request->n_hosts; h++) {
      double rate = h == host ? 0 : cuts->rate * cuts->part[h];
      flow->capacity[cuts->of_host[h]] = rate;
      wanted += rate;
    }
    if (run_flow(flow, get_source(cuts), hosts[host]) >= wanted * all) return;
    for (uint32_t v = 0; v <= get_source(cuts); v++) cuts->inside[v] = is_inside(flow, v);
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
  bool named = inside <= request->n_hosts - inside; /* The named side is the inside. */
  out->leaves = named != cuts->reversed;
  out->side = BY_ARENA_ARRAY(&out->arena, uint32_t, request->n_hosts);
  out->limits = BY_ARENA_ARRAY(&out->arena, struct by_bound_limit, cuts->n_limits);
  if (out->arena.failed) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the bound of %u hosts", request->n_hosts);
  for (uint32_t h = 0; h < request->n_hosts; h++)
    if (cuts->best[request->hosts[h]] == named) out->side[out->n_side++] = request->hosts[h];
  for (uint32_t a = 0; a < cuts->n_limits; a++)
    if (cuts->best[get_tail(&cuts->flow, a)] && !cuts->best[get_head(&cuts->flow, a)])
      out->limits[out->n_limits++] = cuts->limits[a];
  return cuts->rate > 0 ? BANYAN_OK
                        : by_fail(BANYAN_ERR_TOPOLOGY, "%s: %s cannot be reached by all others or cannot reach them",
                                  by_collective(request->collective)->name, cuts->topology->nodes[out->side[0]].name);
}

/* Returns whether data goes to the hosts that own it, or from all hosts to one. */
static bool is_reversed(enum banyan_collective collective) {
  return collective == BANYAN_REDUCE_SCATTER || collective == BANYAN_REDUCE || collective == BANYAN_SCATTER;
}

static enum banyan_status find_cut(struct cuts *cuts, struct by_arena *arena, struct by_collective_bound *out) {
  const struct by_bound_request *request = cuts->request;
  const struct by_collective *collective = by_collective(request->collective);
  bool to_root = collective->rooted && collective->blocks; /* Only the root receives. */
  BY_TRY(build_flow(cuts, arena));
  fill_parts(cuts);
  for (uint32_t h = 0; h < request->n_hosts; h++)
    if (!to_root || h == request->root) find_cut_for_host(cuts, h);
  return fill_result(cuts, out);
}

struct exchange {
  const double *ranks; /* The number of ranks on each host; NULL: one on each. */
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
  struct by_arena arena = {0};
  *out = (struct by_collective_bound){.collective = request->collective, .rate = INFINITY};
  BY_TRY(check_request(topology, request));
  enum banyan_status status =
      request->collective == BANYAN_ALLTOALL ? bound_alltoall(topology, request, out) : find_cut(&cuts, &arena, out);
  by_arena_fini(&cuts.flow.arena);
  by_arena_fini(&arena);
  if (status != BANYAN_OK) by_collective_bound_fini(out);
  return status;
}

/* --- Rates along the paths of packets. --- */

struct loads {
  const struct by_topology *topology;
  const struct by_routed *routed;
  struct by_paths paths;
  struct by_next_hop *hops;
  double (*capacity)[2]; /* The capacity of each bundle in bit/s, in the directions of its first link. */
  double (*link)[2];     /* How often the buffer passes each bundle. */
  double *out, *in;      /* How often each node sends and receives the buffer, including forwarding. */
};

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
      loads->link[bundle][by_link_direction(&loads->topology->links[bundle], v)] += sent;
      loads->out[v] += sent;
      loads->in[loads->hops[v].next] += sent;
    }
  }
  return BANYAN_OK;
}

/* Keeps a limit that the buffer passes `sent` times if it is tighter than all before. */
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

/* --- Explanations, as text and as JSON. --- */

enum { MAX_NAMED = 8 };

static void add_side(const struct by_collective_bound *bound, const struct by_topology *topology,
                     struct by_text *text) {
  for (uint32_t i = 0; i < bound->n_side && i < MAX_NAMED; i++)
    by_text_add(text, "%s %s", i ? "," : "", topology->nodes[bound->side[i]].name);
  if (bound->n_side > MAX_NAMED) by_text_add(text, " and %u more", bound->n_side - MAX_NAMED);
}

void by_bound_limit_explain(const struct by_bound_limit *limit, const struct by_topology *topology,
                            struct by_text *text) {
  char rate[32];
  if (limit->kind == BY_BOUND_LINK) {
    const struct by_link *link = &topology->links[limit->index];
    by_text_add(text, "  link %s to %s", topology->nodes[limit->direction == BY_AB ? link->a : link->b].name,
                topology->nodes[limit->direction == BY_AB ? link->b : link->a].name);
  } else {
    by_text_add(text, "  all that %s may %s", topology->nodes[limit->index].name,
                limit->kind == BY_BOUND_OUT ? "send" : "receive");
  }
  by_text_add(text, ": %s\n", by_print_rate(limit->capacity, rate));
}

void by_collective_bound_explain(const struct by_collective_bound *bound, const struct by_topology *topology,
                                 struct by_text *text) {
  const char *name = by_collective(bound->collective)->name;
  char rate[32];
  if (isinf(bound->rate)) {
    by_text_add(text, "%s: nothing has to pass any link.\n", name);
    return;
  }
  by_text_add(text, "%s: no algorithm%s exceeds %s of the whole buffer.\n", name,
              bound->n_side ? "" : " without relaying", by_print_rate(bound->rate, rate));
  if (bound->n_side) {
    by_text_add(text, "%.3g %% of it must %s", 100 * bound->part, bound->leaves ? "leave" : "enter");
    add_side(bound, topology, text);
    by_text_add(text, " over\n");
  } else {
    by_text_add(text, "Along the paths of packets, %.3g times a rank's buffer must pass\n", bound->part);
  }
  for (uint32_t i = 0; i < bound->n_limits && i < MAX_NAMED; i++)
    by_bound_limit_explain(&bound->limits[i], topology, text);
  if (bound->n_limits > MAX_NAMED) by_text_add(text, "  and %u more\n", bound->n_limits - MAX_NAMED);
}

/* --- JSON. --- */

void by_bound_limit_put_json(const struct by_bound_limit *limit, const struct by_topology *topology,
                             struct by_text *text) {
  by_text_add(text, "{");
  if (limit->kind == BY_BOUND_LINK) {
    const struct by_link *link = &topology->links[limit->index];
    by_json_put_string(text, "from", topology->nodes[limit->direction == BY_AB ? link->a : link->b].name);
    by_json_put_string(text, "to", topology->nodes[limit->direction == BY_AB ? link->b : link->a].name);
  } else {
    by_json_put_string(text, limit->kind == BY_BOUND_OUT ? "from" : "to", topology->nodes[limit->index].name);
  }
  by_json_put_real(text, "capacity", limit->capacity);
  by_text_add(text, "}");
}

void by_collective_bound_put_json(const struct by_collective_bound *bound, const struct by_topology *topology,
                                  struct by_text *text) {
  by_json_put_string(text, "collective", by_collective(bound->collective)->name);
  by_json_put_real(text, "bound", bound->rate);
  by_json_put_real(text, "part", bound->part);
  by_json_put_bool(text, "leaves", bound->leaves);
  by_json_begin_member(text, "side");
  by_text_add(text, "[");
  for (uint32_t i = 0; i < bound->n_side; i++) {
    by_json_separate(text);
    by_json_add_string(text, topology->nodes[bound->side[i]].name);
  }
  by_text_add(text, "]");
  by_json_begin_member(text, "limits");
  by_text_add(text, "[");
  for (uint32_t i = 0; i < bound->n_limits; i++) {
    by_json_separate(text);
    by_bound_limit_put_json(&bound->limits[i], topology, text);
  }
  by_text_add(text, "]");
}
