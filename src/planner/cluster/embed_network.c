/* Adds in-network trees as candidates: the paths of all workers to each host that may serve, and which switches on them
 * add. Their loads join those of other candidates in one linear program, which gets rows for resources that no edge of
 * the graph loads: links and nodes on the paths to servers, and the memory of switches. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "embed_parts.h"
#include "plan_make.h"
#include "topology_paths.h"

#define NONE UINT32_MAX

/* --- Rows. --- */

/* The resource of each direction of a link. */
struct link_rows {
  uint32_t direction[2];
};

struct row_maker {
  struct by_embed_net *net;
  struct by_paths paths;
  struct link_rows *link; /* The graph's resources of each link; NONE: there is none. */
  bool *parallel;         /* Whether the resource of each link also stands for other links. */
  uint32_t *own;          /* A row for each link alone; NONE: not made. */
  uint32_t *node;         /* The row of the limit of each node; NONE: not made. */
  uint32_t *memory;       /* The row of the memory of each node; NONE: not made. */
  double *left;           /* The part of each row that others do not use, while rows are made. */
  bool *shared;
  struct by_arena arena;
};

/* Notes a resource of the graph for all links between the same two nodes. */
static void fill_bundle(struct row_maker *l, uint32_t resource) {
  const struct by_topology *topology = l->net->topology;
  const struct by_origin *origin = &l->net->graph->origin[resource];
  const struct by_link *first = &topology->links[origin->index];
  for (uint32_t i = l->paths.first[first->a]; i < l->paths.first[first->a + 1]; i++) {
    uint32_t number = l->paths.links[i];
    const struct by_link *link = &topology->links[number];
    if (by_link_other(link, first->a) != first->b) continue;
    for (uint32_t direction = 0; direction < 2; direction++)
      if (origin->direction[direction])
        l->link[number].direction[link->a == first->a ? direction : 1 - direction] = resource;
    l->parallel[number] = number != origin->index;
    l->parallel[origin->index] |= number != origin->index;
  }
}

static void fill_resources(struct row_maker *l) {
  const struct by_graph *graph = l->net->graph;
  for (uint32_t i = 0; i < l->net->topology->n_links; i++)
    l->link[i].direction[0] = l->link[i].direction[1] = l->own[i] = NONE;
  for (uint32_t i = 0; i < l->net->topology->n_nodes; i++) l->node[i] = l->memory[i] = NONE;
  for (uint32_t r = 0; r < graph->n_resources; r++) {
    if (graph->origin[r].kind == BY_ORIGIN_NODE) l->node[graph->origin[r].index] = r;
    if (graph->origin[r].kind == BY_ORIGIN_LINK) fill_bundle(l, r);
  }
}

static uint32_t make_row(struct row_maker *l, double left, bool shared) {
  l->left[l->net->n_rows] = left;
  l->shared[l->net->n_rows] = shared;
  l->net->n_shared += shared;
  return l->net->n_rows++;
}

static uint32_t get_link_row(struct row_maker *l, uint32_t number, double capacity) {
  const struct by_topology *t = l->net->topology;
  const struct by_link *link = &t->links[number];
  if (l->own[number] != NONE) return l->own[number];
  bool shared = t->nodes[link->a].kind == BY_NODE_SWITCH && t->nodes[link->b].kind == BY_NODE_SWITCH;
  return l->own[number] =
             make_row(l, fmin(capacity / fmin(link->capacity[BY_AB].all, link->capacity[BY_BA].all), 1), shared);
}

static uint32_t get_node_row(struct row_maker *l, uint32_t number, double limit) {
  const struct by_node *node = &l->net->topology->nodes[number];
  if (l->node[number] == NONE) l->node[number] = make_row(l, fmin(limit / fmin(node->out.all, node->in.all), 1), false);
  return l->node[number];
}

/* --- The loads of a path tree. --- */

enum { MAX_USES = 5 }; /* The largest number of uses of a vertex. */

/* Adds the use of a node by a load of 1. */
static void add_node_use(struct row_maker *l, uint32_t node, double limit, double load, struct by_embed_use *uses,
                         uint32_t *n) {
  if (isfinite(limit)) uses[(*n)++] = (struct by_embed_use){get_node_row(l, node, limit), load / limit};
}

/* Adds the use of a link: a gradient passes it upwards, and the result downwards. If the graph has resources for both
 * directions of a link without parallel ones, these are all; otherwise the link is a row, too. */
static void add_link_use(struct row_maker *l, uint32_t number, double min, double load, struct by_embed_use *uses,
                         uint32_t *n) {
  const double *capacity = l->net->graph->capacity;
  uint32_t there = l->link[number].direction[0], back = l->link[number].direction[1];
  if (there != NONE) uses[(*n)++] = (struct by_embed_use){there, load / capacity[there]};
  if (back != NONE && back != there) uses[(*n)++] = (struct by_embed_use){back, load / capacity[back]};
  if (there == NONE || back == NONE || l->parallel[number])
    uses[(*n)++] = (struct by_embed_use){get_link_row(l, number, min), load / min};
}

/* Adds the uses of vertex v if it adds. */
static void add_rents(struct row_maker *l, struct by_embed_server *server, uint32_t v, uint32_t *n) {
  const struct by_path_tree *tree = &server->paths.trees[0];
  const struct by_topology *topology = l->net->topology;
  uint32_t node = tree->node[v], host = tree->aggregator[v];
  if (host != NONE) {
    const struct by_node *at = &topology->nodes[host];
    double load = by_aggregator_load(tree, v), limit = fmin(by_residual(at->out), by_residual(at->in));
    add_link_use(l, tree->detour[v], by_link_min_left(topology, tree->detour[v]), load, server->rents, n);
    add_node_use(l, host, limit, load, server->rents, n);
    add_node_use(l, node, tree->flow.limit[v], load, server->rents, n);
  } else if (tree->flow.hold[v] > 0) {
    if (l->memory[node] == NONE) l->memory[node] = make_row(l, 0, false);
    server->rents[(*n)++] = (struct by_embed_use){l->memory[node], tree->flow.hold[v]};
  }
}

static enum banyan_status add_server_uses(struct row_maker *l, struct by_embed_server *server) {
  const struct by_path_tree *tree = &server->paths.trees[0];
  struct by_arena *arena = &l->net->arena;
  uint32_t n = 0, n_rents = 0;
  server->first = BY_ARENA_ARRAY(arena, uint32_t, tree->flow.n + 1);
  server->uses = BY_ARENA_ARRAY(arena, struct by_embed_use, MAX_USES * (size_t)tree->flow.n);
  server->rent = BY_ARENA_ARRAY(arena, uint32_t, tree->flow.n + 1);
  server->rents = BY_ARENA_ARRAY(arena, struct by_embed_use, MAX_USES * (size_t)tree->flow.n);
  if (arena->failed) return by_plan_no_memory();
  for (uint32_t v = 0; v < tree->flow.n; v++) {
    uint32_t parent = tree->flow.parent[v];
    server->first[v] = n;
    server->rent[v] = n_rents;
    add_rents(l, server, v, &n_rents);
    if (!v) continue;
    add_link_use(l, tree->link[v], tree->flow.capacity[v], 1, server->uses, &n);
    add_node_use(l, tree->node[v], tree->flow.limit[v], 1, server->uses, &n);
    add_node_use(l, tree->node[parent], tree->flow.limit[parent], 1, server->uses, &n);
  }
  server->first[tree->flow.n] = n;
  server->rent[tree->flow.n] = n_rents;
  return BANYAN_OK;
}

/* --- Servers. --- */

/* Returns the number of programmable switches on the longest path, or 1 for an aggregator. Returns 0 if no vertex can
 * add. */
static uint32_t count_switches(const struct by_embed_net *net, const struct by_path_tree *tree, uint32_t n_workers) {
  uint32_t max = 0;
  bool able = false;
  for (uint32_t v = 0; v < tree->flow.n; v++) {
    able |= tree->flow.able[v];
    if (tree->aggregator[v] != NONE) return 1;
  }
  for (uint32_t w = 0; able && w < n_workers; w++) {
    uint32_t n = 0;
    for (uint32_t v = tree->start[w]; v; v = tree->flow.parent[v]) n += net->topology->nodes[tree->node[v]].aggregates;
    max = n > max ? n : max;
  }
  return max;
}

/* Keeps the server if its tree can be run. Helpers add on the same hosts at the same rates, for all collectives, so
 * there are no aggregators where helpers are allowed. */
static enum banyan_status try_server(struct by_embed_net *net, uint32_t node, const struct by_embed_options *options) {
  struct by_embed_server *server = &net->servers[net->n_servers];
  *server = (struct by_embed_server){.node = node};
  server->job = (struct by_placement_job){
      .workers = net->graph->node, .n_workers = net->graph->n_terminals, .servers = &server->node, .n_servers = 1};
  struct by_placement_job job = server->job;
  if (!(options->allowed & BY_PLAN_HELPERS)) job.aggregators = options->servers;
  if (!(options->allowed & BY_PLAN_HELPERS)) job.n_aggregators = options->n_servers;
  enum banyan_status status = by_placement_paths_init(&server->paths, net->topology, &job, options->turnaround);
  server->paths.job = &server->job;
  if (status == BANYAN_ERR_TOPOLOGY || status == BANYAN_ERR_UNSUPPORTED)
    return BANYAN_OK; /* Some worker does not reach it, or no tree of this size can be run. */
  BY_TRY(status);
  uint32_t switches = count_switches(net, &server->paths.trees[0], server->job.n_workers);
  server->height = switches + 1;
  if (switches && switches <= BY_PLAN_MAX_HOPS)
    net->n_servers++;
  else
    by_placement_paths_fini(&server->paths);
  return BANYAN_OK;
}

static enum banyan_status add_all_rows(struct row_maker *l) {
  struct by_embed_net *net = l->net;
  const struct by_topology *t = net->topology;
  size_t max = (size_t)net->graph->n_resources + t->n_links + 2 * (size_t)t->n_nodes;
  BY_TRY(by_paths_init(&l->paths, t));
  l->link = BY_ARENA_ARRAY(&l->arena, struct link_rows, t->n_links);
  l->parallel = BY_ARENA_ARRAY(&l->arena, bool, t->n_links);
  l->own = BY_ARENA_ARRAY(&l->arena, uint32_t, t->n_links);
  l->node = BY_ARENA_ARRAY(&l->arena, uint32_t, t->n_nodes);
  l->memory = BY_ARENA_ARRAY(&l->arena, uint32_t, t->n_nodes);
  l->left = BY_ARENA_ARRAY(&net->arena, double, max);
  l->shared = BY_ARENA_ARRAY(&net->arena, bool, max);
  if (l->arena.failed || net->arena.failed) return by_plan_no_memory();
  memcpy(l->left, net->left, net->n_rows * sizeof *l->left);
  memcpy(l->shared, net->shared, net->n_rows * sizeof *l->shared);
  fill_resources(l);
  for (uint32_t s = 0; s < net->n_servers; s++) BY_TRY(add_server_uses(l, &net->servers[s]));
  net->left = l->left;
  net->shared = l->shared;
  return BANYAN_OK;
}

enum banyan_status by_embed_net_add_servers(struct by_embed_net *net, const struct by_embed_options *options) {
  uint32_t n = options->n_servers < BY_EMBED_MAX_SERVERS ? options->n_servers : BY_EMBED_MAX_SERVERS;
  struct row_maker l = {.net = net};
  if (net->graph->n_terminals > BY_PLAN_MAX_WORKERS) return BANYAN_OK;
  net->servers = BY_ARENA_ARRAY(&net->arena, struct by_embed_server, n);
  if (!net->servers) return by_plan_no_memory();
  for (uint32_t i = 0; i < n; i++) BY_TRY(try_server(net, options->servers[i], options));
  enum banyan_status status = net->n_servers ? add_all_rows(&l) : BANYAN_OK;
  by_paths_fini(&l.paths);
  by_arena_fini(&l.arena);
  return status;
}

/* --- Candidates. --- */

/* Computes list->load and theta. */
static enum banyan_status compute_load(struct by_embed_candidates *list, struct by_embed_candidate *new) {
  const struct by_embed_net *net = list->net;
  const struct by_embed_server *server = &net->servers[new->server];
  const struct by_rooted_flow *flow = &server->paths.trees[0].flow;
  uint32_t *out = calloc(flow->n, sizeof *out);
  if (!out) return by_plan_no_memory();
  (void)by_flow_theta(flow, new->adds, out);
  memset(list->load, 0, net->n_rows * sizeof *list->load);
  for (uint32_t v = 0; v < flow->n; v++) {
    for (uint32_t i = server->rent[v]; i < server->rent[v + 1] && new->adds[v]; i++)
      list->load[server->rents[i].row] += server->rents[i].part;
    for (uint32_t i = server->first[v]; i < server->first[v + 1]; i++)
      list->load[server->uses[i].row] += out[v] * server->uses[i].part;
  }
  for (uint32_t r = 0; r < net->n_rows; r++) new->theta = fmax(new->theta, list->load[r]);
  free(out);
  return BANYAN_OK;
}

enum banyan_status by_embed_candidates_add_network(struct by_embed_candidates *list, uint32_t server, const bool *adds,
                                                   uint32_t *found) {
  const struct by_embed_server *to = &list->net->servers[server];
  uint32_t n = to->paths.trees[0].flow.n, ignored;
  struct by_embed_candidate new = {.kind = BY_EMBED_NETWORK, .server = server, .height = to->height, .width = 1};
  if (!found) found = &ignored;
  *found = NONE;
  if (to->height > list->max_height || !(list->allowed & BY_PLAN_SWITCHES)) return BANYAN_OK;
  new.adds = BY_ARENA_ARRAY(&list->arena, bool, n);
  if (!new.adds) return by_plan_no_memory();
  memcpy(new.adds, adds, n * sizeof *adds);
  BY_TRY(compute_load(list, &new));
  return by_embed_candidates_keep(list, &new, found);
}

enum banyan_status by_embed_candidates_add_servers(struct by_embed_candidates *list) {
  for (uint32_t s = 0; s < list->net->n_servers; s++) {
    const struct by_rooted_flow *flow = &list->net->servers[s].paths.trees[0].flow;
    bool *adds = calloc(flow->n, sizeof *adds);
    double theta;
    enum banyan_status status = adds ? by_flow_find_min(flow, UINT32_MAX, adds, &theta) : by_plan_no_memory();
    if (status == BANYAN_OK) status = by_embed_candidates_add_network(list, s, adds, NULL);
    free(adds);
    BY_TRY(status);
  }
  return BANYAN_OK;
}

/* Finds the cheapest choice of adders on the paths to a server. */
static enum banyan_status price_server(struct by_embed_candidates *list, uint32_t s, const double *price, double worth,
                                       double *min) {
  const struct by_embed_server *server = &list->net->servers[s];
  const struct by_rooted_flow *flow = &server->paths.trees[0].flow;
  double *of = calloc(2 * (size_t)flow->n, sizeof *of), *rent = of + flow->n, cost;
  bool *adds = calloc(flow->n, sizeof *adds);
  enum banyan_status status = of && adds ? BANYAN_OK : by_plan_no_memory();
  for (uint32_t v = 0; status == BANYAN_OK && v < flow->n; v++) {
    for (uint32_t i = server->first[v]; i < server->first[v + 1]; i++)
      of[v] += price[server->uses[i].row] * server->uses[i].part;
    for (uint32_t i = server->rent[v]; i < server->rent[v + 1]; i++)
      rent[v] += price[server->rents[i].row] * server->rents[i].part;
  }
  if (status == BANYAN_OK) status = by_flow_find_cheapest(flow, of, rent, adds, &cost);
  if (status == BANYAN_OK) {
    *min = fmin(*min, cost);
    if (cost < worth) status = by_embed_candidates_add_network(list, s, adds, NULL);
  }
  free(of);
  free(adds);
  return status;
}

enum banyan_status by_embed_candidates_price(struct by_embed_candidates *list, const double *price, double worth,
                                             double *min) {
  for (uint32_t s = 0; s < list->net->n_servers; s++) BY_TRY(price_server(list, s, price, worth, min));
  return BANYAN_OK;
}

/* --- The plan. --- */

static bool is_network(const struct by_embedding *e, uint32_t pick) {
  return e->candidates.items[e->picks.items[pick].candidate].kind == BY_EMBED_NETWORK;
}

static enum banyan_status place_trees(struct by_embedding *e, struct by_placement *placement, double rate,
                                      uint32_t queues) {
  for (uint32_t i = 0; i < e->picks.n; i++) {
    const struct by_embed_candidate *c = &e->candidates.items[e->picks.items[i].candidate];
    if (!is_network(e, i)) continue;
    const struct by_path_tree *path = &e->net.servers[c->server].paths.trees[0];
    struct by_placed_tree *tree = &placement->trees[placement->n_trees++];
    *tree = (struct by_placed_tree){.server = c->server,
                                    .share = e->picks.items[i].rate / rate / queues,
                                    .rate = e->picks.items[i].rate / queues,
                                    .round_trip = path->round_trip,
                                    .n = path->flow.n,
                                    .node = path->node,
                                    .parent = path->flow.parent,
                                    .link = path->link,
                                    .workers = path->workers,
                                    .adds = c->adds,
                                    .aggregator = path->aggregator,
                                    .out = BY_ARENA_ARRAY(&placement->arena, uint32_t, path->flow.n),
                                    .start = path->start};
    if (!tree->out) return by_plan_no_memory();
    (void)by_flow_theta(&path->flow, c->adds, tree->out);
    for (uint32_t q = 1; q < queues; q++) placement->trees[placement->n_trees++] = *tree;
  }
  return BANYAN_OK;
}

enum banyan_status by_embed_make_network(struct by_embedding *e, uint32_t queues) {
  struct by_placement placement = {0};
  double rate = 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < e->picks.n; i++) {
    if (!is_network(e, i)) continue;
    rate += e->picks.items[i].rate;
    n++;
  }
  if (!n) return BANYAN_OK;
  placement.trees = BY_ARENA_ARRAY(&placement.arena, struct by_placed_tree, (size_t)n * queues);
  placement.rate = placement.bound = rate;
  enum banyan_status status = placement.trees ? place_trees(e, &placement, rate, queues) : by_plan_no_memory();
  const struct by_placement_job *job = &e->net.servers[0].job; /* All servers have the same workers. */
  if (status == BANYAN_OK) status = by_plan_of_placement("network", e->net.topology, &placement, job, &e->network);
  by_arena_fini(&placement.arena);
  return status;
}

enum banyan_status by_embed_name_nodes(struct by_embedding *e) {
  const struct by_topology *t = e->net.topology;
  e->node_names = e->net.n_servers ? BY_ARENA_ARRAY(&e->arena, const char *, t->n_nodes) : NULL;
  for (uint32_t s = 0; s < e->net.n_servers; s++) {
    const struct by_path_tree *tree = &e->net.servers[s].paths.trees[0];
    for (uint32_t v = 0; e->node_names && v < tree->flow.n; v++)
      if (!e->node_names[tree->node[v]])
        e->node_names[tree->node[v]] = by_arena_string(&e->arena, t->nodes[tree->node[v]].name);
  }
  return e->arena.failed ? by_plan_no_memory() : BANYAN_OK;
}
