/* Computes the layout of a lab from a topology, and prints layout and counters. */
#include "lab.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "topology_paths.h"

enum { SUBNET = 0x0a4d0000, MIN_QUEUE = 256 << 10, MAX_COLUMN = 32, MAX_ROWS = 64 };

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

/* Sums the rates of a node's links, outgoing and incoming. *last is the last of them. */
static uint32_t sum_links(struct by_lab_layout *l, uint32_t node, double sum[2], struct by_lab_wire **last) {
  uint32_t n = 0;
  sum[0] = sum[1] = 0;
  for (uint32_t i = 0; i < l->topology->n_links; i++)
    for (int end = 0; end < 2; end++) {
      if (l->wires[i].space[end] != node) continue;
      *last = &l->wires[i];
      sum[0] += (*last)->rate[end];
      sum[1] += (*last)->rate[!end];
      n++;
    }
  return n;
}

/* Moves the wires of one space to another. */
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
  struct by_lab_wire *link = NULL;
  double sum[2];
  double out = rate_of(options, node->out), in = rate_of(options, node->in);
  if (isinf(out) && isinf(in)) return BANYAN_OK;
  uint32_t n = sum_links(l, v, sum, &link);
  if (sum[0] <= out && sum[1] <= in) return BANYAN_OK;
  if (node->kind == BY_NODE_SWITCH)
    return by_fail(BANYAN_ERR_TOPOLOGY,
                   "the capacity of switch \"%s\" is below the sum of its links, which the lab cannot build: limit its "
                   "links instead",
                   node->name);
  if (!(MIN(out, sum[0]) > 0 && MIN(in, sum[1]) > 0))
    return by_fail(BANYAN_ERR_TOPOLOGY, "host \"%s\" has no capacity left to send or receive", node->name);
  if (n == 1) {
    int end = link->space[1] == v;
    link->rate[end] = MIN(link->rate[end], out);
    link->rate[!end] = MIN(link->rate[!end], in);
  } else
    add_gate(l, v, MIN(out, sum[0]), MIN(in, sum[1]));
  return BANYAN_OK;
}

static void lay_links(struct by_lab_layout *l, const struct by_lab_options *options) {
  const struct by_topology *t = l->topology;
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    bool host = t->nodes[v].kind == BY_NODE_HOST, spoken_to = host || t->nodes[v].aggregates;
    l->spaces[v] =
        (struct by_lab_space){.name = t->nodes[v].name, .node = v, .outside = v, .address = spoken_to ? v + 1 : 0};
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
    /* Begins with those after all links: a gated host's only wire is the first one of its gate. */
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

/* ---- routes */

struct router {
  struct by_lab_layout *layout;
  uint32_t *wire;  /* Wire of space s to the k-th host: wire[k * n_spaces + s]; UINT32_MAX: none. */
  uint32_t *hosts; /* Nodes with an address: hosts, and switches that aggregate. */
  uint32_t *count; /* For each wire, for one space. */
  uint32_t n_hosts;
};

/* Records the path to one host from every space. */
static void record_paths(struct router *r, uint32_t k, const struct by_next_hop *hops) {
  const struct by_lab_layout *l = r->layout;
  uint32_t *wire = r->wire + (size_t)k * l->n_spaces;
  for (uint32_t s = 0; s < l->n_spaces; s++) wire[s] = hops[l->spaces[s].node].link;
  uint32_t gates_wire = l->topology->n_links; /* The first gate's wire; those of others follow. */
  for (uint32_t s = l->topology->n_nodes; s < l->n_spaces; s++) {
    uint32_t node = l->spaces[s].node;
    wire[node == r->hosts[k] ? s : node] = gates_wire++;
  }
}

static enum banyan_status find_ways(struct router *r) {
  struct by_paths paths;
  const struct by_topology *t = r->layout->topology;
  struct by_next_hop *hops = calloc((size_t)t->n_nodes + 1, sizeof *hops);
  if (!hops) return no_memory();
  enum banyan_status status = by_paths_init(&paths, t);
  for (uint32_t k = 0; !status && k < r->n_hosts; k++) {
    status = by_paths_to(&paths, r->hosts[k], hops);
    if (!status) record_paths(r, k, hops);
  }
  by_paths_fini(&paths);
  free(hops);
  return status;
}

/* Returns the wire to most destinations; UINT32_MAX if some host is unreachable, so that packets to it are dropped. */
static uint32_t main_wire(struct router *r, uint32_t space) {
  uint32_t best = UINT32_MAX;
  memset(r->count, 0, r->layout->n_wires * sizeof *r->count);
  for (uint32_t k = 0; k < r->n_hosts; k++) {
    uint32_t wire = r->wire[(size_t)k * r->layout->n_spaces + space];
    if (r->hosts[k] == space) continue;
    if (wire == UINT32_MAX) return UINT32_MAX;
    r->count[wire]++;
    if (best == UINT32_MAX || r->count[wire] > r->count[best]) best = wire;
  }
  return best;
}

static enum banyan_status add_route(struct by_lab_layout *l, struct by_lab_route route) {
  if (l->n_routes == BY_LAB_MAX_ROUTES)
    return by_fail(BANYAN_ERR_TOPOLOGY, "the lab would need more than %d routes", BY_LAB_MAX_ROUTES);
  if (!BY_ARRAY_GROW(&l->routes, &l->routes_capacity, (size_t)l->n_routes + 1)) return no_memory();
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
  *out = (struct by_lab_layout){.topology = topology, .ipv6 = options->ipv6};
  by_arena_init(&out->arena);
  if (options->xdp && options->mtu > BY_LAB_MAX_XDP_MTU)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "--mtu %ld: interfaces of switches with XDP programs take packets of at most %d", options->mtu,
                   BY_LAB_MAX_XDP_MTU);
  if (options->ipv6 && options->mtu < BY_LAB_MIN_IPV6_MTU)
    return by_fail(BANYAN_ERR_ARGUMENT, "--mtu %ld: packets of IPv6 may have at least %d bytes on every link",
                   options->mtu, BY_LAB_MIN_IPV6_MTU);
  if (2 * nodes > BY_LAB_MAX_SPACES)
    return by_fail(BANYAN_ERR_TOPOLOGY, "%zu nodes are more than the %d that a lab may have on one machine", nodes,
                   BY_LAB_MAX_SPACES / 2);
  if (topology->n_links > BY_LAB_MAX_WIRES)
    return by_fail(BANYAN_ERR_TOPOLOGY, "%u links are more than the %d that a lab may have on one machine",
                   topology->n_links, BY_LAB_MAX_WIRES);
  out->spaces = BY_ARENA_ARRAY(&out->arena, struct by_lab_space, 2 * nodes);
  out->wires = BY_ARENA_ARRAY(&out->arena, struct by_lab_wire, topology->n_links + nodes);
  if (!out->spaces || !out->wires) return no_memory();
  lay_links(out, options);
  for (uint32_t v = 0; v < nodes; v++) BY_TRY(limit_node(out, options, v));
  BY_TRY(check_rates(out, options));
  number_ports(out);
  BY_TRY(lay_routes(out));
  for (uint32_t v = 0; options->xdp && v < nodes; v++)
    if (topology->nodes[v].kind == BY_NODE_SWITCH && topology->nodes[v].aggregates) add_front(out, v);
  return BANYAN_OK;
}

/* Returns the capacity in the lab, where others use nothing. */
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
  return MIN(MAX(options->queue * rate / 8, MIN_QUEUE), 1 << 30);
}

struct in6_addr by_lab_host(const struct by_lab_layout *layout, uint32_t address) {
  struct in6_addr host = {.s6_addr = {0xfd, 'b', 'a', 'n', 'y', 'a', 'n', [14] = (uint8_t)(address >> 8)}};
  host.s6_addr[15] = (uint8_t)address;
  return layout->ipv6 ? host : by_host_of_ipv4((struct in_addr){htonl(SUBNET + address)});
}

const char *by_lab_print_address(const struct by_lab_layout *layout, uint32_t address, char *out) {
  const struct in6_addr host = by_lab_host(layout, address);
  struct by_address at;
  by_address_set_host(&at, &host, 0);
  return by_address_print_host(&at, out);
}

/* ---- names */

static const struct by_lab_space *end_of(const struct by_lab_layout *l, uint32_t wire, int end) {
  return &l->spaces[l->wires[wire].space[end]];
}

/* Returns a name: a host's own limit is a wire between it and its gate, which the report calls its network. */
static const char *name_of(const struct by_lab_layout *l, uint32_t wire, int end) {
  const struct by_lab_space *space = end_of(l, wire, end);
  return l->wires[wire].link == UINT32_MAX && space->gate ? "(its links)" : space->name;
}

static int widest_name(const struct by_lab_layout *l) {
  size_t widest = strlen("from");
  for (uint32_t i = 0; i < l->n_wires; i++)
    for (int end = 0; end < 2; end++) widest = MAX(widest, strlen(name_of(l, i, end)));
  return (int)MIN(widest, MAX_COLUMN);
}

/* ---- the layout as text */

static void print_space(const struct by_lab_layout *l, uint32_t s, int width, struct by_text *text) {
  const struct by_lab_space *space = &l->spaces[s];
  const struct by_node *node = &l->topology->nodes[space->node];
  char address[BY_ADDRESS_TEXT];
  uint32_t n = l->spaces[space->outside].n_wires;
  if (space->gate || space->front) return;
  by_text_add(text, "%-6s %-*s %-15s %u interface%s%s%s\n", node->kind == BY_NODE_HOST ? "host" : "switch", width,
              space->name, space->address ? by_lab_print_address(l, space->address, address) : "-", n,
              n == 1 ? "" : "s", node->takes_part ? ", ranks" : "",
              node->kind == BY_NODE_SWITCH && node->aggregates ? ", adds" : "");
}

static void print_wire(const struct by_lab_layout *l, const struct by_lab_options *options, uint32_t i, int width,
                       struct by_text *text) {
  const struct by_lab_wire *wire = &l->wires[i];
  char rate[32], queue[32], delay[32];
  for (int end = 0; end < 2; end++) {
    by_text_add(text, "link   %-*s -> %-*s %-15s queue %s", width, name_of(l, i, end), width, name_of(l, i, !end),
                by_print_rate(wire->rate[end], rate),
                by_print_bytes((uint64_t)by_lab_queue_bytes(options, wire->rate[end]), queue));
    if (wire->delay > 0) by_text_add(text, ", delay %s", by_print_seconds(wire->delay, delay));
    if (wire->loss > 0) by_text_add(text, ", loss %g %%", 100 * wire->loss);
    by_text_add(text, "\n");
  }
}

void by_lab_print_layout(const struct by_lab_layout *l, const struct by_lab_options *options, struct by_text *text) {
  int width = widest_name(l);
  for (uint32_t s = 0; s < l->n_spaces; s++) print_space(l, s, width, text);
  for (uint32_t i = 0; i < l->n_wires; i++) print_wire(l, options, i, width, text);
  uint32_t pairs = l->n_wires;
  for (uint32_t s = 0; s < l->n_spaces; s++) pairs += l->spaces[s].front ? l->spaces[s].n_wires : 0;
  by_text_add(text, "%u network namespaces, %u pairs of interfaces, %u routes\n", l->n_spaces, pairs, l->n_routes);
}

/* ---- counters */

static double share_used(const struct by_lab_wire *wire, int end, uint64_t bytes, double seconds) {
  return wire->rate[end] > 0 && seconds > 0 ? 8 * (double)bytes / (wire->rate[end] * seconds) : 0;
}

/* Directions (2 * wire + end) that carried something. */
struct ranking {
  const struct by_lab_layout *layout;
  const struct by_lab_traffic *traffic;
  double seconds;
  uint32_t *places;
  uint32_t n;
};

static int busiest_first(const void *x, const void *y, void *context) {
  const struct ranking *r = context;
  uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
  double of_a = share_used(&r->layout->wires[a / 2], (int)(a % 2), r->traffic[a].bytes, r->seconds);
  double of_b = share_used(&r->layout->wires[b / 2], (int)(b % 2), r->traffic[b].bytes, r->seconds);
  return of_a != of_b ? (of_a < of_b) - (of_a > of_b) : (a > b) - (a < b);
}

static void print_row(const struct ranking *r, uint32_t place, int width, struct by_text *text) {
  const struct by_lab_layout *l = r->layout;
  const struct by_lab_traffic *t = &r->traffic[place];
  uint32_t i = place / 2;
  int end = (int)(place % 2);
  char rate[32], bytes[32];
  by_text_add(text, "%-*s -> %-*s %14s %12s %10llu %8llu %4.0f%%\n", width, name_of(l, i, end), width,
              name_of(l, i, !end), by_print_rate(l->wires[i].rate[end], rate), by_print_bytes(t->bytes, bytes),
              (unsigned long long)t->packets, (unsigned long long)t->drops,
              100 * share_used(&l->wires[i], end, t->bytes, r->seconds));
}

static void print_rows(struct ranking *r, struct by_text *text) {
  int width = widest_name(r->layout);
  bool some_only = r->n > MAX_ROWS;
  if (some_only) qsort_r(r->places, r->n, sizeof *r->places, busiest_first, r);
  by_text_add(text, "%-*s    %-*s %14s %12s %10s %8s %5s\n", width, "from", width, "to", "allowed", "sent", "packets",
              "lost", "used");
  for (uint32_t i = 0; i < r->n && i < MAX_ROWS; i++) print_row(r, r->places[i], width, text);
  if (some_only) by_text_add(text, "the busiest %d of %u directions that were used\n", MAX_ROWS, r->n);
}

void by_lab_print_traffic(const struct by_lab_layout *l, const struct by_lab_traffic *traffic, double seconds,
                          struct by_text *text) {
  struct ranking r = {.layout = l, .traffic = traffic, .seconds = seconds};
  char time[32];
  r.places = calloc(2 * (size_t)l->n_wires + 1, sizeof *r.places);
  if (!r.places) text->failed = true;
  for (uint32_t i = 0; r.places && i < 2 * l->n_wires; i++)
    if (traffic[i].packets || traffic[i].drops) r.places[r.n++] = i;
  if (r.n) print_rows(&r, text);
  by_text_add(text, "%u of %u directions of links carried something in %s%s\n", r.n, 2 * l->n_wires,
              by_print_seconds(seconds, time), r.n ? "; \"sent\" includes all headers, also those of Ethernet" : "");
  free(r.places);
}

static json_t *direction(const struct by_lab_layout *l, uint32_t i, int end, const struct by_lab_traffic *t) {
  const struct by_lab_wire *wire = &l->wires[i];
  bool own = wire->link == UINT32_MAX;
  const struct by_lab_space *from = end_of(l, i, end), *to = end_of(l, i, !end);
  return json_pack("{s:s, s:s, s:o, s:f, s:I, s:I, s:I}", "from", own && from->gate ? "" : from->name, "to",
                   own && to->gate ? "" : to->name, "link", own ? json_null() : json_integer(wire->link), "rate",
                   wire->rate[end], "bytes", (json_int_t)t->bytes, "packets", (json_int_t)t->packets, "drops",
                   (json_int_t)t->drops);
}

enum banyan_status by_lab_print_json(const struct by_lab_layout *l, const struct by_lab_traffic *traffic,
                                     double seconds, struct by_text *text) {
  json_t *links = json_array(), *all;
  for (uint32_t i = 0; i < l->n_wires; i++)
    for (int end = 0; end < 2; end++)
      json_array_append_new(links, direction(l, i, end, &traffic[2 * i + (uint32_t)end]));
  all = json_pack("{s:s, s:f, s:o}", "lab", l->topology->name, "seconds", seconds, "links", links);
  char *line = all ? json_dumps(all, JSON_COMPACT) : NULL;
  json_decref(all);
  if (line) by_text_add(text, "%s", line);
  free(line);
  if (line && !text->failed) return BANYAN_OK;
  return no_memory();
}
