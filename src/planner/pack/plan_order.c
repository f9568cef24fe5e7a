/* Orders ranks by improving a ring, by the widest spanning tree, and by a ring of direct links. */
#include "plan_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"
#include "plan_make.h"
#include "topology.h"
#include "topology_paths.h"

/* Smaller gains, as parts of a score, are rounding errors. */
static const double gain = 1e-9;

struct search {
  const struct by_topology *topology;
  const struct by_graph *graph;
  uint32_t n;
  /* Elements first[i * n + j] .. first[i * n + j + 1] - 1 of `uses` are the resources on the path from rank j to rank
   * i. */
  uint32_t *first;
  uint32_t *uses; /* The numbers of resources: directions of links, followed by what each node sends and receives. */
  size_t n_uses, allocated;
  double *seconds; /* The seconds for a bit over each resource. */
  double *load;    /* Scratch memory, 0 between calls. */
  struct by_arena arena;
};

struct score {
  double max, all; /* The seconds for a bit over the fullest resource, and over all resources together. */
};

/* --- Used resources. --- */

static bool add_use(struct search *s, uint32_t what, struct by_capacity capacity) {
  double left = by_residual(capacity);
  if (isinf(left)) return true;
  if (!BY_ARRAY_GROW(&s->uses, &s->allocated, s->n_uses + 1)) return false;
  s->uses[s->n_uses++] = what;
  s->seconds[what] = 1 / left;
  return true;
}

static bool list_path(struct search *s, const struct by_next_hop *hops, uint32_t from, uint32_t to) {
  const struct by_topology *t = s->topology;
  for (uint32_t at = from, next; at != to; at = next) {
    uint32_t link = hops[at].link, direction = by_link_direction(&t->links[link], at);
    next = hops[at].next;
    if (!add_use(s, 2 * link + direction, t->links[link].capacity[direction]) ||
        !add_use(s, 2 * t->n_links + 2 * at, t->nodes[at].out) ||
        !add_use(s, 2 * t->n_links + 2 * next + 1, t->nodes[next].in))
      return false;
  }
  return true;
}

/* Lists the paths of all pairs. Paths are searched for by destination, so the pair of i and j is the path from j to
 * i. */
static enum banyan_status list_paths(struct search *s, const struct by_paths *paths, struct by_next_hop *hops) {
  for (uint32_t i = 0; i < s->n; i++) {
    BY_TRY(by_paths_between(paths, s->graph->node[i], s->graph->node, s->n, hops));
    for (uint32_t j = 0; j < s->n; j++) {
      s->first[i * s->n + j] = (uint32_t)s->n_uses;
      uint32_t from = s->graph->node[j], to = s->graph->node[i];
      if (hops[from].hops != UINT32_MAX && !list_path(s, hops, from, to)) return by_plan_no_memory();
    }
  }
  s->first[s->n * s->n] = (uint32_t)s->n_uses;
  return BANYAN_OK;
}

/* --- Orders. --- */

static struct score score_order(const struct search *s, const uint32_t *order) {
  struct score score = {0, 0};
  for (int pass = 0; pass < 3; pass++)
    for (uint32_t k = 0; k < s->n; k++) {
      size_t pair = (size_t)order[(k + 1) % s->n] * s->n + order[k];
      for (uint32_t u = s->first[pair]; u < s->first[pair + 1]; u++) {
        double *load = &s->load[s->uses[u]];
        if (pass == 0) *load += s->seconds[s->uses[u]];
        if (pass == 1) score.max = fmax(score.max, *load);
        if (pass == 1) score.all += *load;
        if (pass == 2) *load = 0;
      }
    }
  return score;
}

static bool is_better_score(const struct score *a, const struct score *b) {
  if (a->max < b->max * (1 - gain)) return true;
  return a->max <= b->max * (1 + gain) && a->all < b->all * (1 - gain);
}

static void reverse_part(uint32_t *order, uint32_t i, uint32_t j) {
  for (; i < j; i++, j--) {
    uint32_t swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
  }
}

static struct score improve_order(const struct search *s, uint32_t *order) {
  struct score best = score_order(s, order);
  for (bool better = true; better;) {
    better = false;
    for (uint32_t i = 1; i + 1 < s->n; i++)
      for (uint32_t j = i + 1; j < s->n; j++) {
        reverse_part(order, i, j);
        struct score score = score_order(s, order);
        if (is_better_score(&score, &best)) {
          best = score;
          better = true;
        } else {
          reverse_part(order, i, j);
        }
      }
  }
  return best;
}

static enum banyan_status search_order(struct search *s, uint32_t *order) {
  uint32_t given[BY_RING_SEARCHED];
  struct by_paths paths;
  struct by_next_hop *hops = BY_ARENA_ARRAY(&s->arena, struct by_next_hop, s->topology->n_nodes);
  size_t n_resources = 2 * ((size_t)s->topology->n_links + s->topology->n_nodes);
  s->first = BY_ARENA_ARRAY(&s->arena, uint32_t, (size_t)s->n * s->n + 1);
  s->seconds = BY_ARENA_ARRAY(&s->arena, double, n_resources);
  s->load = BY_ARENA_ARRAY(&s->arena, double, n_resources);
  if (s->arena.failed) return by_plan_no_memory();
  BY_TRY(by_paths_init(&paths, s->topology));
  enum banyan_status status = list_paths(s, &paths, hops);
  by_paths_fini(&paths);
  BY_TRY(status);
  for (uint32_t r = 0; r < s->n; r++) given[r] = r;
  struct score of_order = improve_order(s, order), of_given = improve_order(s, given);
  if (is_better_score(&of_given, &of_order)) memcpy(order, given, s->n * sizeof *order);
  return BANYAN_OK;
}

enum banyan_status by_ring_search(const struct by_topology *topology, const struct by_graph *graph, uint32_t *order) {
  struct search s = {.topology = topology, .graph = graph, .n = graph->n_terminals};
  if (s.n > BY_RING_SEARCHED) return BANYAN_OK;
  enum banyan_status status = search_order(&s, order);
  free(s.uses);
  by_arena_fini(&s.arena);
  return status;
}

/* The largest number of hosts among which a ring is searched for. */
enum { MAX_RING = 1024 };
#define NONE UINT32_MAX

/* --- The widest tree. --- */

struct traversal {
  const struct by_topology *topology;
  /* The links by negative residual capacity in bit/s. Afterwards the first n_tree elements are the links of the tree in
   * this order. */
  struct by_heap_item *wide;
  uint32_t n_tree;
  uint32_t *above; /* The disjoint sets of joined nodes. */
  /* The lists of the tree's ends of links at each node: first[node], followed by beside[2 * index + end]. */
  uint32_t *first, *beside;
  uint32_t *stack, *from;
};

/* Joins nodes by Kruskal's algorithm: the narrowest link of the tree is as wide as possible. */
static void join_widest(struct traversal *w) {
  const struct by_topology *t = w->topology;
  for (uint32_t i = 0; i < t->n_links; i++) {
    const struct by_capacity *capacity = t->links[i].capacity;
    w->wide[i] = (struct by_heap_item){-fmin(by_residual(capacity[BY_AB]), by_residual(capacity[BY_BA])), i};
  }
  qsort(w->wide, t->n_links, sizeof *w->wide, by_heap_compare);
  for (uint32_t v = 0; v < t->n_nodes; v++) w->above[v] = v;
  for (uint32_t i = 0; i < t->n_links && w->wide[i].key < 0; i++) {
    const struct by_link *link = &t->links[w->wide[i].number];
    uint32_t a = by_find_leader(w->above, link->a), b = by_find_leader(w->above, link->b);
    if (a == b) continue;
    w->above[a] = b;
    w->wide[w->n_tree++] = w->wide[i];
  }
}

/* Lists the links at each node, the widest first. */
static void list_ends(struct traversal *w) {
  const struct by_topology *t = w->topology;
  for (uint32_t v = 0; v < t->n_nodes; v++) w->first[v] = NONE;
  for (uint32_t i = 2 * w->n_tree; i-- > 0;) {
    const struct by_link *link = &t->links[w->wide[i / 2].number];
    uint32_t end = i % 2 ? link->b : link->a;
    w->beside[i] = w->first[end];
    w->first[end] = i;
  }
}

/* Traverses the tree depth first from a node. rank[] has the rank of each node, or NONE. */
static void traverse_tree(struct traversal *w, uint32_t start, const uint32_t *rank, uint32_t *order) {
  const struct by_topology *t = w->topology;
  uint32_t depth = 0, n = 0;
  w->stack[depth++] = start;
  w->from[start] = start;
  while (depth) {
    uint32_t v = w->stack[--depth];
    if (rank[v] != NONE) order[n++] = rank[v];
    for (uint32_t i = w->first[v]; i != NONE; i = w->beside[i]) {
      uint32_t next = by_link_other(&t->links[w->wide[i / 2].number], v);
      if (next == w->from[v]) continue;
      w->from[next] = v;
      w->stack[depth++] = next;
    }
  }
}

static enum banyan_status order_by_tree(const struct by_topology *topology, const struct by_graph *graph,
                                        uint32_t *order) {
  size_t n = topology->n_nodes;
  struct by_arena arena = {0};
  struct traversal w = {.topology = topology,
                        .wide = BY_ARENA_ARRAY(&arena, struct by_heap_item, topology->n_links),
                        .above = BY_ARENA_ARRAY(&arena, uint32_t, n),
                        .first = BY_ARENA_ARRAY(&arena, uint32_t, n),
                        .beside = BY_ARENA_ARRAY(&arena, uint32_t, 2 * n),
                        .stack = BY_ARENA_ARRAY(&arena, uint32_t, n),
                        .from = BY_ARENA_ARRAY(&arena, uint32_t, n)};
  uint32_t *rank = BY_ARENA_ARRAY(&arena, uint32_t, n);
  bool ready = !arena.failed;
  if (ready) {
    join_widest(&w);
    list_ends(&w);
    for (uint32_t v = 0; v < n; v++) rank[v] = NONE;
    for (uint32_t r = 0; r < graph->n_terminals; r++) rank[graph->node[r]] = r;
    for (uint32_t r = 0; r < graph->n_terminals; r++)
      order[r] = r; /* This is the order of ranks that the tree does not reach. */
    traverse_tree(&w, graph->node[0], rank, order);
  }
  by_arena_fini(&arena);
  return ready ? BANYAN_OK : by_plan_no_memory();
}

/* --- A ring of links. --- */

static bool is_direct(const struct by_graph *graph, const struct by_graph_edge *edge) {
  uint32_t links = 0;
  if (edge->a >= graph->n_terminals || edge->b >= graph->n_terminals) return false;
  for (uint32_t i = 0; i < edge->n; i++) links += graph->origin[graph->uses[edge->first + i]].kind == BY_ORIGIN_LINK;
  return links == 1;
}

/* Searches a ring of direct links. Lengths are the seconds for a bit, so a ring with few narrow links is preferred. */
static enum banyan_status find_ring(const struct by_graph *graph, uint64_t seed, uint32_t *order) {
  struct by_adjacency adjacency;
  struct by_hamilton found;
  size_t n = graph->n_terminals;
  BY_TRY(by_adjacency_init(&adjacency, graph->n_terminals));
  float *length = n <= BY_HAMILTON_EXACT ? calloc(n * n, sizeof *length) : NULL;
  for (uint32_t e = 0; e < graph->n_edges; e++) {
    const struct by_graph_edge *edge = &graph->edges[e];
    if (!is_direct(graph, edge)) continue;
    by_adjacency_join(&adjacency, edge->a, edge->b);
    float one = (float)(1e9 / graph->capacity[graph->uses[edge->first]]);
    if (length) length[edge->a * n + edge->b] = length[edge->b * n + edge->a] = one;
  }
  enum banyan_status status = by_hamilton_find(&adjacency, length, seed, order, &found);
  by_adjacency_fini(&adjacency);
  free(length);
  return status;
}

enum banyan_status by_plan_order(const struct by_topology *topology, const struct by_graph *graph, uint64_t seed,
                                 uint32_t *order) {
  BY_TRY(order_by_tree(topology, graph, order));
  return graph->n_terminals <= MAX_RING ? find_ring(graph, seed, order) : BANYAN_OK;
}
