#include "lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "topology_paths.h"

enum { FIRST_ADDRESS = 0x0a4d0001, LEAST_QUEUE = 256 << 10 };

struct by_lab_options by_lab_options_default(void) {
  return (struct by_lab_options){.scale = 1, .mtu = 1500, .burst = 1e-3, .queue = 50e-3, .congestion = "reno"};
}

static enum banyan_status no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the lab's layout");
  return BANYAN_ERR_NO_MEMORY;
}

static double rate_of(const struct by_lab_options *options, struct by_capacity capacity) {
  return options->scale * (options->whole ? capacity.all : by_residual(capacity));
}

/* What the links of a node could carry together, out of it and into it. */
static void sum_links(const struct by_lab_layout *l, uint32_t node, double sum[2], uint32_t *n) {
  sum[0] = sum[1] = 0;
  *n = 0;
  for (uint32_t i = 0; i < l->topology->n_links; i++) {
    const struct by_lab_wire *wire = &l->wires[i];
    for (int end = 0; end < 2; end++) {
      if (wire->space[end] != node) continue;
      sum[0] += wire->rate[end];
      sum[1] += wire->rate[!end];
      ++*n;
    }
  }
}

static void limit_only_link(struct by_lab_layout *l, uint32_t node, double out, double in) {
  for (uint32_t i = 0; i < l->topology->n_links; i++) {
    struct by_lab_wire *wire = &l->wires[i];
    for (int end = 0; end < 2; end++) {
      if (wire->space[end] != node) continue;
      wire->rate[end] = MIN(wire->rate[end], out);
      wire->rate[!end] = MIN(wire->rate[!end], in);
    }
  }
}

/* The wires that end in one space end in another one instead. */
static void move_wires(struct by_lab_layout *l, uint32_t from, uint32_t to) {
  for (uint32_t i = 0; i < l->n_wires; i++)
    for (int end = 0; end < 2; end++)
      if (l->wires[i].space[end] == from) l->wires[i].space[end] = to;
}

static void add_gate(struct by_lab_layout *l, uint32_t node, double out, double in) {
  uint32_t gate = l->n_spaces++;
  l->spaces[gate] = (struct by_lab_space){.name = l->spaces[node].name, .node = node, .gate = true, .outside = gate};
  move_wires(l, node, gate);
  l->wires[l->n_wires++] = (struct by_lab_wire){.space = {node, gate}, .rate = {out, in}, .link = UINT32_MAX};
}

static enum banyan_status limit_node(struct by_lab_layout *l, const struct by_lab_options *options, uint32_t v) {
  const struct by_node *node = &l->topology->nodes[v];
  double sum[2];
  uint32_t n;
  double out = rate_of(options, node->out), in = rate_of(options, node->in);
  if (isinf(out) && isinf(in)) return BANYAN_OK;
  sum_links(l, v, sum, &n);
  if (sum[0] <= out && sum[1] <= in) return BANYAN_OK;
  if (node->kind == BY_NODE_SWITCH)
    return by_fail(BANYAN_ERR_TOPOLOGY,
                   "switch \"%s\" has a limit below the sum of its links, which the lab cannot build: put it on links",
                   node->name);
  if (!(MIN(out, sum[0]) > 0 && MIN(in, sum[1]) > 0))
    return by_fail(BANYAN_ERR_TOPOLOGY, "host \"%s\" has nothing left of what it can send or receive", node->name);
  if (n == 1)
    limit_only_link(l, v, out, in);
  else
    add_gate(l, v, MIN(out, sum[0]), MIN(in, sum[1]));
  return BANYAN_OK;
}

static void lay_links(struct by_lab_layout *l, const struct by_lab_options *options) {
  const struct by_topology *t = l->topology;
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    bool host = t->nodes[v].kind == BY_NODE_HOST, spoken_to = host || t->nodes[v].aggregates;
    l->spaces[v] = (struct by_lab_space){
        .name = t->nodes[v].name, .node = v, .outside = v, .address = spoken_to ? FIRST_ADDRESS + v : 0};
  }
  for (uint32_t i = 0; i < t->n_links; i++) {
    const struct by_link *link = &t->links[i];
    l->wires[i] =
        (struct by_lab_wire){.space = {link->a, link->b},
                             .rate = {rate_of(options, link->capacity[BY_AB]), rate_of(options, link->capacity[BY_BA])},
                             .delay = options->plain ? 0 : link->delay,
                             .loss = options->plain ? 0 : link->loss,
                             .link = i};
  }
  l->n_spaces = t->n_nodes;
  l->n_wires = t->n_links;
}

static enum banyan_status check_rates(const struct by_lab_layout *l, const struct by_lab_options *options) {
  for (uint32_t i = 0; i < l->n_wires; i++) {
    const struct by_lab_wire *wire = &l->wires[i];
    for (int end = 0; end < 2; end++)
      if (wire->rate[end] > 0 && by_check_rate(wire->rate[end]) != BANYAN_OK)
        return by_fail(BANYAN_ERR_ARGUMENT, "--scale %g: the link \"%.64s\" - \"%.64s\" %s", options->scale,
                       l->spaces[wire->space[0]].name, l->spaces[wire->space[1]].name, banyan_error_text());
  }
  return BANYAN_OK;
}

static void number_ports(struct by_lab_layout *l) {
  for (uint32_t k = 0; k < l->n_wires; k++) {
    /* First those behind all links: a gated host's only wire is the first one of its gate. */
    struct by_lab_wire *wire = &l->wires[(l->topology->n_links + k) % l->n_wires];
    for (int end = 0; end < 2; end++) wire->port[end] = l->spaces[wire->space[end]].n_wires++;
  }
}

static void add_front(struct by_lab_layout *l, uint32_t v) {
  uint32_t front = l->n_spaces++;
  l->spaces[front] = (struct by_lab_space){
      .name = l->spaces[v].name, .node = v, .front = true, .outside = front, .n_wires = l->spaces[v].n_wires};
  l->spaces[v].outside = front;
  l->spaces[v].n_wires = 0;
  move_wires(l, v, front);
}

static void add_fronts(struct by_lab_layout *l) {
  for (uint32_t v = 0; v < l->topology->n_nodes; v++)
    if (l->topology->nodes[v].kind == BY_NODE_SWITCH && l->topology->nodes[v].aggregates) add_front(l, v);
}

/* ---- routes */

struct router {
  struct by_lab_layout *layout;
  uint32_t *wire;  /* of space s to the k-th host: wire[k * n_spaces + s]; UINT32_MAX: it has none */
  uint32_t *hosts; /* nodes with an address: hosts, and switches that add */
  uint32_t *count; /* of each wire, for one space */
  uint32_t n_hosts;
};

static uint32_t gate_wire(const struct by_lab_layout *l, uint32_t gate) {
  uint32_t first_gate = l->topology->n_nodes;
  return l->topology->n_links + (gate - first_gate);
}

/* The way to one host, out of every space. */
static void note_ways(struct router *r, uint32_t k, const struct by_hop *hops) {
  const struct by_lab_layout *l = r->layout;
  uint32_t *wire = r->wire + (size_t)k * l->n_spaces;
  for (uint32_t s = 0; s < l->n_spaces; s++) wire[s] = hops[l->spaces[s].node].link;
  for (uint32_t s = l->topology->n_nodes; s < l->n_spaces; s++) {
    uint32_t node = l->spaces[s].node;
    if (node == r->hosts[k])
      wire[s] = gate_wire(l, s);
    else
      wire[node] = gate_wire(l, s);
  }
}

static enum banyan_status find_ways(struct router *r) {
  struct by_paths paths;
  const struct by_topology *t = r->layout->topology;
  struct by_hop *hops = calloc((size_t)t->n_nodes + 1, sizeof *hops);
  if (!hops) return no_memory();
  enum banyan_status status = by_paths_init(&paths, t);
  for (uint32_t k = 0; !status && k < r->n_hosts; k++) {
    status = by_paths_to(&paths, r->hosts[k], hops);
    if (!status) note_ways(r, k, hops);
  }
  by_paths_fini(&paths);
  free(hops);
  return status;
}

/* The wire that most destinations are behind; UINT32_MAX where some host cannot be reached, so that packets to it end
 * here. */
static uint32_t main_wire(struct router *r, uint32_t space) {
  uint32_t best = UINT32_MAX;
  bool all = true;
  memset(r->count, 0, r->layout->n_wires * sizeof *r->count);
  for (uint32_t k = 0; k < r->n_hosts; k++) {
    uint32_t wire = r->wire[(size_t)k * r->layout->n_spaces + space];
    if (r->hosts[k] == space) continue;
    if (wire == UINT32_MAX) {
      all = false;
      continue;
    }
    r->count[wire]++;
    if (best == UINT32_MAX || r->count[wire] > r->count[best]) best = wire;
  }
  return all ? best : UINT32_MAX;
}

static enum banyan_status add_route(struct by_lab_layout *l, struct by_lab_route route) {
  if (l->n_routes == BY_LAB_MOST_ROUTES)
    return by_fail(BANYAN_ERR_TOPOLOGY, "the lab would need more than %d routes", BY_LAB_MOST_ROUTES);
  if (!BY_ARRAY_GROW(&l->routes, &l->routes_room, (size_t)l->n_routes + 1)) return no_memory();
  l->routes[l->n_routes++] = route;
  return BANYAN_OK;
}

static enum banyan_status route_space(struct router *r, uint32_t space) {
  struct by_lab_layout *l = r->layout;
  uint32_t main = main_wire(r, space);
  if (main != UINT32_MAX) BY_TRY(add_route(l, (struct by_lab_route){.space = space, .wire = main}));
  for (uint32_t k = 0; k < r->n_hosts; k++) {
    uint32_t wire = r->wire[(size_t)k * l->n_spaces + space];
    if (r->hosts[k] == space || wire == main || wire == UINT32_MAX) continue;
    BY_TRY(add_route(l, (struct by_lab_route){.space = space, .to = l->spaces[r->hosts[k]].address, .wire = wire}));
  }
  return BANYAN_OK;
}

static enum banyan_status lay_routes(struct by_lab_layout *l) {
  struct router r = {.layout = l};
  uint32_t n = l->topology->n_nodes;
  r.hosts = calloc(n + 1, sizeof *r.hosts);
  for (uint32_t v = 0; r.hosts && v < n; v++)
    if (l->spaces[v].address) r.hosts[r.n_hosts++] = v;
  r.wire = calloc((size_t)r.n_hosts * l->n_spaces + 1, sizeof *r.wire);
  r.count = calloc(l->n_wires + 1, sizeof *r.count);
  enum banyan_status status = r.hosts && r.wire && r.count ? find_ways(&r) : no_memory();
  for (uint32_t s = 0; !status && s < l->n_spaces; s++) status = route_space(&r, s);
  free(r.hosts);
  free(r.wire);
  free(r.count);
  return status;
}

enum banyan_status by_lab_layout_make(const struct by_topology *topology, const struct by_lab_options *options,
                                      struct by_lab_layout *out) {
  size_t nodes = topology->n_nodes;
  *out = (struct by_lab_layout){.topology = topology};
  by_arena_init(&out->arena);
  if (options->xdp && options->mtu > BY_LAB_MOST_XDP_MTU)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "--mtu %ld: interfaces of switches with XDP programs take packets of at most %d", options->mtu,
                   BY_LAB_MOST_XDP_MTU);
  if (2 * nodes > BY_LAB_MOST_SPACES)
    return by_fail(BANYAN_ERR_TOPOLOGY, "%zu nodes are more than the %d that a lab may have on one machine", nodes,
                   BY_LAB_MOST_SPACES / 2);
  if (topology->n_links > BY_LAB_MOST_WIRES)
    return by_fail(BANYAN_ERR_TOPOLOGY, "%u links are more than the %d that a lab may have on one machine",
                   topology->n_links, BY_LAB_MOST_WIRES);
  out->spaces = BY_ARENA_ARRAY(&out->arena, struct by_lab_space, 2 * nodes);
  out->wires = BY_ARENA_ARRAY(&out->arena, struct by_lab_wire, topology->n_links + nodes);
  if (!out->spaces || !out->wires) return no_memory();
  lay_links(out, options);
  for (uint32_t v = 0; v < nodes; v++) BY_TRY(limit_node(out, options, v));
  BY_TRY(check_rates(out, options));
  number_ports(out);
  BY_TRY(lay_routes(out));
  if (options->xdp) add_fronts(out);
  return BANYAN_OK;
}

/* What is left of it in the lab, where nobody uses the rest. */
static struct by_capacity built_capacity(const struct by_lab_options *options, struct by_capacity capacity) {
  double rate = rate_of(options, capacity);
  if (rate > 0) return (struct by_capacity){.all = rate};
  return (struct by_capacity){capacity.all, capacity.all};
}

enum banyan_status by_lab_print_topology(const struct by_topology *topology, const struct by_lab_options *options,
                                         struct by_text *text) {
  struct by_topology built = *topology;
  struct by_arena arena;
  by_arena_init(&arena);
  built.nodes = (void *)by_arena_copy(&arena, topology->nodes, topology->n_nodes * sizeof *built.nodes);
  built.links = (void *)by_arena_copy(&arena, topology->links, topology->n_links * sizeof *built.links);
  if (built.nodes && built.links) {
    for (uint32_t v = 0; v < built.n_nodes; v++) {
      struct by_node *node = &built.nodes[v];
      node->out = built_capacity(options, node->out);
      node->in = built_capacity(options, node->in);
    }
    for (uint32_t i = 0; i < built.n_links; i++) {
      struct by_link *link = &built.links[i];
      for (int way = 0; way < 2; way++) link->capacity[way] = built_capacity(options, link->capacity[way]);
      if (options->plain) link->delay = link->loss = 0;
    }
    by_topology_print(&built, text);
  }
  bool failed = !built.nodes || !built.links || text->failed;
  by_arena_fini(&arena);
  return failed ? no_memory() : BANYAN_OK;
}

void by_lab_layout_fini(struct by_lab_layout *layout) {
  free(layout->routes);
  by_arena_fini(&layout->arena);
  *layout = (struct by_lab_layout){0};
}

double by_lab_queue_bytes(const struct by_lab_options *options, double rate) {
  return MIN(MAX(options->queue * rate / 8, LEAST_QUEUE), 1 << 30);
}

const char *by_lab_print_address(uint32_t address, char *out) {
  snprintf(out, 16, "%u.%u.%u.%u", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
  return out;
}
