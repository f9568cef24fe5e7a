/* Finds the paths of workers to servers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"
#include "placement.h"
#include "plan_make.h"
#include "switched_tree.h"
#include "topology_paths.h"

#define NONE UINT32_MAX

struct path_work {
  struct by_placement_paths *paths;
  struct by_paths search;
  struct by_next_hop *hops;
  uint32_t *vertex; /* The vertex of each node, plus 1; 0: it is not on a path. */
  uint32_t *nodes;  /* The nodes on paths. */
  /* The only link of each node that may be an aggregator; NONE: it has several or no links, or is a worker. */
  uint32_t *only_link;
  uint32_t n;
};

static const char *get_name(const struct by_placement_paths *paths, uint32_t node) {
  return paths->topology->nodes[node].name;
}

/* --- The request. --- */

static enum banyan_status check_nodes(const struct by_placement_paths *paths, const uint32_t *nodes, uint32_t n,
                                      const char *what) {
  for (uint32_t i = 0; i < n; i++) {
    if (nodes[i] >= paths->topology->n_nodes)
      return by_fail(BANYAN_ERR_ARGUMENT, "node number %u is not in the topology", nodes[i]);
    if (paths->topology->nodes[nodes[i]].kind != BY_NODE_HOST)
      return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\" is a switch and cannot be a %s", get_name(paths, nodes[i]), what);
    for (uint32_t j = 0; j < i; j++)
      if (nodes[i] == nodes[j])
        return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\" is a %s twice", get_name(paths, nodes[i]), what);
  }
  return BANYAN_OK;
}

static enum banyan_status check_job(const struct by_placement_paths *paths, const struct by_placement_job *job) {
  if (job->n_workers < 1 || job->n_servers < 1) return by_fail(BANYAN_ERR_ARGUMENT, "a job needs workers and a server");
  if (job->n_workers > BY_PLAN_MAX_WORKERS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%u workers: a tree through switches has at most %d", job->n_workers,
                   BY_PLAN_MAX_WORKERS);
  BY_TRY(check_nodes(paths, job->workers, job->n_workers, "worker"));
  BY_TRY(check_nodes(paths, job->aggregators, job->n_aggregators, "aggregator"));
  return check_nodes(paths, job->servers, job->n_servers, "server");
}

/* --- One tree. --- */

static uint32_t get_server(const struct by_placement_paths *paths, const struct by_path_tree *tree) {
  return paths->job->servers[tree->server];
}

/* Marks the nodes of a worker's path, up to the first one that is marked already. */
static enum banyan_status mark_path(struct path_work *w, uint32_t worker, uint32_t server) {
  for (uint32_t node = worker; !w->vertex[node]; node = w->hops[node].next) {
    if (node != server && w->hops[node].link == NONE)
      return by_fail(BANYAN_ERR_TOPOLOGY, "\"%.64s\" cannot reach the server \"%.64s\"", get_name(w->paths, worker),
                     get_name(w->paths, server));
    w->vertex[node] = 1;
    w->nodes[w->n++] = node;
    if (node == server) break;
  }
  return BANYAN_OK;
}

/* Sorts vertices by their hops to the server, so that parents come before children. */
static enum banyan_status sort_nodes(struct path_work *w) {
  struct by_heap_item *keys = BY_ARENA_ARRAY(&w->paths->arena, struct by_heap_item, w->n);
  if (!keys) return by_plan_no_memory();
  for (uint32_t i = 0; i < w->n; i++) keys[i] = (struct by_heap_item){w->hops[w->nodes[i]].hops, w->nodes[i]};
  qsort(keys, w->n, sizeof *keys, by_heap_compare);
  for (uint32_t v = 0; v < w->n; v++) {
    w->nodes[v] = keys[v].number;
    w->vertex[w->nodes[v]] = v + 1;
  }
  return BANYAN_OK;
}

static enum banyan_status allocate_tree(struct path_work *w, struct by_path_tree *tree) {
  struct by_arena *arena = &w->paths->arena;
  size_t n = w->n;
  tree->node = BY_ARENA_ARRAY(arena, uint32_t, n);
  tree->link = BY_ARENA_ARRAY(arena, uint32_t, n);
  tree->workers = BY_ARENA_ARRAY(arena, uint32_t, n);
  tree->aggregator = BY_ARENA_ARRAY(arena, uint32_t, n);
  tree->detour = BY_ARENA_ARRAY(arena, uint32_t, n);
  tree->start = BY_ARENA_ARRAY(arena, uint32_t, w->paths->job->n_workers);
  tree->flow = (struct by_rooted_flow){.n = w->n,
                                       .parent = BY_ARENA_ARRAY(arena, uint32_t, n),
                                       .own = BY_ARENA_ARRAY(arena, uint32_t, n),
                                       .able = BY_ARENA_ARRAY(arena, bool, n),
                                       .capacity = BY_ARENA_ARRAY(arena, double, n),
                                       .limit = BY_ARENA_ARRAY(arena, double, n),
                                       .hold = BY_ARENA_ARRAY(arena, double, n)};
  return arena->failed ? by_plan_no_memory() : BANYAN_OK;
}

static void fill_vertex(const struct path_work *w, struct by_path_tree *tree, uint32_t v) {
  const struct by_node *node = &w->paths->topology->nodes[w->nodes[v]];
  const struct by_next_hop *hop = &w->hops[w->nodes[v]];
  tree->node[v] = w->nodes[v];
  tree->aggregator[v] = NONE;
  tree->flow.limit[v] = fmin(by_residual(node->out), by_residual(node->in));
  tree->flow.able[v] = v && node->kind == BY_NODE_SWITCH && node->aggregates;
  tree->flow.hold[v] = tree->flow.able[v] && node->memory ? tree->round_trip / (8 * (double)node->memory) : 0;
  tree->link[v] = hop->link;
  tree->flow.parent[v] = v ? w->vertex[hop->next] - 1 : 0;
  tree->flow.capacity[v] = INFINITY;
  if (!v) return;
  const struct by_link *link = &w->paths->topology->links[hop->link];
  tree->flow.capacity[v] = fmin(by_residual(link->capacity[BY_AB]), by_residual(link->capacity[BY_BA]));
}

/* --- Aggregators. --- */

static enum banyan_status find_only_links(struct path_work *w) {
  const struct by_topology *topology = w->paths->topology;
  const struct by_placement_job *job = w->paths->job;
  uint32_t *n = BY_ARENA_ARRAY(&w->paths->arena, uint32_t, topology->n_nodes);
  w->only_link = BY_ARENA_ARRAY(&w->paths->arena, uint32_t, topology->n_nodes);
  if (!n || !w->only_link) return by_plan_no_memory();
  for (uint32_t i = 0; i < topology->n_links; i++) {
    const struct by_link *link = &topology->links[i];
    w->only_link[link->a] = w->only_link[link->b] = i;
    n[link->a]++;
    n[link->b]++;
  }
  for (uint32_t node = 0; node < topology->n_nodes; node++)
    if (n[node] != 1) w->only_link[node] = NONE;
  for (uint32_t i = 0; i < job->n_workers; i++) w->only_link[job->workers[i]] = NONE;
  return BANYAN_OK;
}

/* Returns the seconds per bit that a host's link and limits need for a load of 1. */
static double get_slowness(const struct by_topology *topology, uint32_t host, uint32_t link) {
  const struct by_node *node = &topology->nodes[host];
  return 1 / fmin(by_link_min_left(topology, link), fmin(by_residual(node->out), by_residual(node->in)));
}

/* Finds the best host next to the switch at v. All that it adds passes the switch twice. */
static void find_aggregator(const struct path_work *w, struct by_path_tree *tree, uint32_t v) {
  const struct by_topology *topology = w->paths->topology;
  const struct by_placement_job *job = w->paths->job;
  for (uint32_t i = 0; i < job->n_aggregators; i++) {
    uint32_t host = job->aggregators[i], link = w->only_link[host];
    if (host == tree->node[0] || link == NONE || by_link_other(&topology->links[link], host) != tree->node[v]) continue;
    double load = by_aggregator_load(tree, v);
    double hold = load * fmax(get_slowness(topology, host, link), 2 / tree->flow.limit[v]);
    if (!isfinite(hold) || (tree->flow.able[v] && hold >= tree->flow.hold[v])) continue;
    tree->flow.able[v] = true;
    tree->flow.hold[v] = hold;
    tree->aggregator[v] = host;
    tree->detour[v] = link;
  }
}

/* Finds aggregators for switches without an aggregator further down, since workers send to only one. */
static void find_aggregators(const struct path_work *w, struct by_path_tree *tree) {
  /* Whether an aggregator is below each vertex. */
  bool *served = BY_ARENA_ARRAY(&w->paths->arena, bool, tree->flow.n);
  for (uint32_t v = 1; v < tree->flow.n; v++)
    if (tree->flow.able[v]) return;
  for (uint32_t v = tree->flow.n; served && v-- > 1;) {
    uint32_t workers = tree->workers[v];
    bool may = w->paths->topology->nodes[tree->node[v]].kind == BY_NODE_SWITCH && !served[v];
    if (may && workers > 1 && workers <= BY_FRAGMENT_WORKERS) find_aggregator(w, tree, v);
    served[tree->flow.parent[v]] |= served[v] || tree->flow.able[v];
  }
}

/* Returns the nearest vertex towards the server that may add. Returns NONE if it is the server. */
static uint32_t find_adder_above(const struct by_path_tree *tree, uint32_t v) {
  for (v = tree->flow.parent[v]; v && !tree->flow.able[v];) v = tree->flow.parent[v];
  return v ? v : NONE;
}

/* Checks whether a tree of more than 64 workers can be run if all that may add do. */
static enum banyan_status check_shape(const struct path_work *w, const struct by_path_tree *tree) {
  uint32_t n = w->paths->job->n_workers, first[BY_TREE_WORKERS], number[BY_TREE_WORKERS];
  struct by_worker_groups groups;
  if (n <= BY_FRAGMENT_WORKERS) return BANYAN_OK;
  struct by_switched_node *places = BY_ARENA_ARRAY(&w->paths->arena, struct by_switched_node, w->n);
  uint32_t *below = BY_ARENA_ARRAY(&w->paths->arena, uint32_t, w->n);
  if (!places || !below) return by_plan_no_memory();
  for (uint32_t i = 0; i < n; i++) first[i] = find_adder_above(tree, tree->start[i]);
  for (uint32_t v = 1; v < w->n; v++) {
    uint32_t above = find_adder_above(tree, v);
    places[v] = (struct by_switched_node){.parent = above, .adds = tree->flow.able[v]};
    if (above != NONE && (tree->flow.able[v] || tree->flow.own[v])) below[above]++;
    if (above != NONE && below[above] > BY_FRAGMENT_WORKERS)
      return by_fail(BANYAN_ERR_UNSUPPORTED,
                     "switch \"%.64s\" would copy results to more than %d hosts and switches; it can to at most %d",
                     get_name(w->paths, tree->node[above]), BY_FRAGMENT_WORKERS, BY_FRAGMENT_WORKERS);
  }
  if (by_switched_groups(places, w->n, first, n, number, &groups)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED,
                 "%u workers below these switches are more than %d groups: let fewer switches add", n,
                 BY_FRAGMENT_GROUPS);
}

static enum banyan_status fill_tree(struct path_work *w, struct by_path_tree *tree) {
  const struct by_placement_job *job = w->paths->job;
  BY_TRY(allocate_tree(w, tree));
  for (uint32_t v = 0; v < w->n; v++) {
    fill_vertex(w, tree, v);
    if (!(tree->flow.capacity[v] > 0) || !(tree->flow.limit[v] > 0))
      return by_fail(BANYAN_ERR_TOPOLOGY, "\"%.64s\", on the way to the server \"%.64s\", cannot send both ways",
                     get_name(w->paths, tree->node[v]), get_name(w->paths, get_server(w->paths, tree)));
  }
  for (uint32_t i = 0; i < job->n_workers; i++) {
    tree->start[i] = w->vertex[job->workers[i]] - 1;
    tree->flow.own[tree->start[i]] = tree->workers[tree->start[i]] = 1;
  }
  for (uint32_t v = w->n; v-- > 1;) tree->workers[tree->flow.parent[v]] += tree->workers[v];
  find_aggregators(w, tree);
  return check_shape(w, tree);
}

static enum banyan_status make_tree(struct path_work *w, double turnaround, struct by_path_tree *tree) {
  const struct by_placement_job *job = w->paths->job;
  uint32_t server = get_server(w->paths, tree);
  double longest = 0;
  BY_TRY(by_paths_between(&w->search, server, job->workers, job->n_workers, w->hops));
  memset(w->vertex, 0, w->paths->topology->n_nodes * sizeof *w->vertex);
  w->n = 0;
  BY_TRY(mark_path(w, server, server));
  for (uint32_t i = 0; i < job->n_workers; i++) {
    BY_TRY(mark_path(w, job->workers[i], server));
    longest = fmax(longest, w->hops[job->workers[i]].delay);
  }
  tree->round_trip = 2 * longest + turnaround;
  BY_TRY(sort_nodes(w));
  return fill_tree(w, tree);
}

/* --- All trees. --- */

static enum banyan_status make_trees(struct path_work *w, double turnaround) {
  struct by_placement_paths *paths = w->paths;
  BY_TRY(check_job(paths, paths->job));
  paths->n_trees = paths->job->n_servers;
  paths->trees = BY_ARENA_ARRAY(&paths->arena, struct by_path_tree, paths->n_trees);
  w->hops = BY_ARENA_ARRAY(&paths->arena, struct by_next_hop, paths->topology->n_nodes);
  w->vertex = BY_ARENA_ARRAY(&paths->arena, uint32_t, paths->topology->n_nodes);
  w->nodes = BY_ARENA_ARRAY(&paths->arena, uint32_t, paths->topology->n_nodes);
  if (paths->arena.failed) return by_plan_no_memory();
  BY_TRY(find_only_links(w));
  for (uint32_t s = 0; s < paths->n_trees; s++) {
    paths->trees[s] = (struct by_path_tree){.server = s};
    BY_TRY(make_tree(w, turnaround, &paths->trees[s]));
  }
  return BANYAN_OK;
}

enum banyan_status by_placement_paths_init(struct by_placement_paths *paths, const struct by_topology *topology,
                                           const struct by_placement_job *job, double turnaround) {
  struct path_work w = {.paths = paths};
  *paths = (struct by_placement_paths){.topology = topology, .job = job};
  BY_TRY(by_paths_init(&w.search, topology));
  enum banyan_status status = make_trees(&w, turnaround);
  by_paths_fini(&w.search);
  if (status != BANYAN_OK) by_placement_paths_fini(paths);
  return status;
}
