/* Makes the network of arcs between hosts, and finds lightest directed trees in it. */
#include "directed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_make.h"
#include "topology_paths.h"

/* --- The network: arcs between hosts, and their resources. --- */

/* The state of making a network. Resources are numbered: 2 * bundle + direction, followed by what each node sends, and
 * what it receives. */
struct making {
  struct by_directed *net;
  const struct by_topology *topology;
  const uint32_t *hosts;
  bool reversed;
  struct by_paths paths;
  struct by_next_hop *hops;
  bool *is_host; /* Whether each node is one of the hosts. */
  struct by_arena work;
};

/* Adds up the capacities of parallel links, which share the traffic between their nodes. */
static void fill_capacities(const struct making *m) {
  const struct by_topology *t = m->topology;
  double *capacity = m->net->capacity;
  uint32_t nodes = 2 * t->n_links;
  for (uint32_t l = 0; l < t->n_links; l++) {
    uint32_t bundle = m->paths.bundle[l], turned = (t->links[l].a != t->links[bundle].a) ^ m->reversed;
    for (uint32_t direction = 0; direction < 2; direction++)
      capacity[2 * bundle + (direction ^ turned)] += by_residual(t->links[l].capacity[direction]);
  }
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    double out = by_residual(t->nodes[v].out), in = by_residual(t->nodes[v].in);
    capacity[nodes + v] = m->reversed ? in : out;
    capacity[nodes + t->n_nodes + v] = m->reversed ? out : in;
  }
}

/* Adds a resource to an arc if it limits something. Returns false if it has no capacity left. */
static bool add_use(struct by_directed *net, struct by_arc *arc, uint32_t resource) {
  if (isinf(net->capacity[resource])) return true;
  net->uses[arc->first + arc->n++] = resource;
  return net->capacity[resource] > 0;
}

/* Follows the packets from host `from` to host `to` and fills in the arc's uses. Returns false if there is no such
 * arc. */
static bool follow_path(const struct making *m, uint32_t from, uint32_t to, struct by_arc *arc) {
  const struct by_topology *t = m->topology;
  struct by_directed *net = m->net;
  uint32_t nodes = 2 * t->n_links, back = m->reversed;
  for (uint32_t v = m->hosts[from]; v != m->hosts[to]; v = m->hops[v].next) {
    const struct by_next_hop *hop = &m->hops[v];
    if (hop->link == UINT32_MAX || (hop->next != m->hosts[to] && m->is_host[hop->next])) return false;
    uint32_t bundle = m->paths.bundle[hop->link], direction = by_link_direction(&t->links[bundle], v);
    uint32_t sent = nodes + (back ? t->n_nodes : 0) + v, received = nodes + (back ? 0 : t->n_nodes) + hop->next;
    if (!add_use(net, arc, 2 * bundle + (direction ^ back)) || !add_use(net, arc, sent) || !add_use(net, arc, received))
      return false;
  }
  arc->delay = m->hops[m->hosts[from]].delay;
  qsort(net->uses + arc->first, arc->n, sizeof *net->uses, by_compare_numbers);
  return true;
}

static enum banyan_status add_arcs(struct making *m, uint32_t n) {
  struct by_directed *net = m->net;
  uint32_t allocated = 0;
  for (uint32_t end = 0; end < n; end++) {
    BY_TRY(by_paths_between(&m->paths, m->hosts[end], m->hosts, n, m->hops));
    for (uint32_t start = 0; start < n; start++) {
      struct by_arc arc = {.from = m->reversed ? end : start, .to = m->reversed ? start : end, .first = net->n_uses};
      if (start == end) continue;
      if (!BY_ARRAY_GROW(&net->uses, &allocated, (size_t)net->n_uses + 3 * (size_t)m->topology->n_nodes))
        return by_directed_no_memory();
      if (!follow_path(m, start, end, &arc)) continue;
      net->n_uses += arc.n;
      net->arcs[net->n_arcs++] = arc;
    }
  }
  return BANYAN_OK;
}

static int compare_ends(const void *a, const void *b) {
  const struct by_arc *x = a, *y = b;
  if (x->to != y->to) return x->to < y->to ? -1 : 1;
  return (x->from > y->from) - (x->from < y->from);
}

static enum banyan_status make_arcs(struct making *m, uint32_t n) {
  const struct by_topology *t = m->topology;
  struct by_directed *net = m->net;
  BY_TRY(by_paths_init(&m->paths, t));
  net->n = n;
  net->n_resources = 2 * (t->n_links + t->n_nodes);
  net->capacity = BY_ARENA_ARRAY(&net->arena, double, net->n_resources);
  net->arcs = BY_ARENA_ARRAY(&net->arena, struct by_arc, (size_t)n * n);
  m->hops = BY_ARENA_ARRAY(&m->work, struct by_next_hop, t->n_nodes);
  m->is_host = BY_ARENA_ARRAY(&m->work, bool, t->n_nodes);
  if (net->arena.failed || m->work.failed) return by_directed_no_memory();
  for (uint32_t h = 0; h < n; h++) m->is_host[m->hosts[h]] = true;
  fill_capacities(m);
  BY_TRY(add_arcs(m, n));
  qsort(net->arcs, net->n_arcs, sizeof *net->arcs, compare_ends);
  return BANYAN_OK;
}

enum banyan_status by_directed_init(struct by_directed *net, const struct by_topology *topology, const uint32_t *hosts,
                                    uint32_t n, bool reversed) {
  struct making m = {.net = net, .topology = topology, .hosts = hosts, .reversed = reversed};
  *net = (struct by_directed){0};
  enum banyan_status status = make_arcs(&m, n);
  by_paths_fini(&m.paths);
  by_arena_fini(&m.work);
  if (status != BANYAN_OK) by_directed_fini(net);
  return status;
}

void by_directed_fini(struct by_directed *net) {
  by_arena_fini(&net->arena);
  free(net->uses);
  *net = (struct by_directed){0};
}

bool by_directed_equal(const struct by_directed *a, const struct by_directed *b) {
  if (a->n != b->n || a->n_arcs != b->n_arcs || a->n_resources != b->n_resources) return false;
  for (uint32_t r = 0; r < a->n_resources; r++)
    if (a->capacity[r] != b->capacity[r]) return false;
  for (uint32_t i = 0; i < a->n_arcs; i++) {
    const struct by_arc *x = &a->arcs[i], *y = &b->arcs[i];
    if (x->from != y->from || x->to != y->to || x->n != y->n) return false;
    if (x->n && memcmp(a->uses + x->first, b->uses + y->first, x->n * sizeof *a->uses) != 0) return false;
  }
  return true;
}

/* --- The lightest tree. --- */

/* Selects the lightest arc into every host. If that gives cycles, each becomes one vertex, whose arcs from outside
 * weigh what they would add when they break it, and the search continues with fewer vertices. On the way back, a cycle
 * keeps all its arcs but the one into the vertex by which the tree enters it. */

#define NONE UINT32_MAX

/* An arc between the vertices of a level. */
struct edge {
  uint32_t from, to;
  uint32_t below; /* The edge of the previous level, or for the first level the arc. */
  double weight;
};

struct by_contraction {
  uint32_t n, n_edges, root;
  struct edge *edges;
  uint32_t *best;  /* The lightest edge into each vertex, later that of the tree; NONE: the root. */
  uint32_t *above; /* The vertex of the next level that contains each vertex. */
};

enum banyan_status by_arborescence_init(struct by_arborescence *search, const struct by_directed *net) {
  uint32_t n = net->n;
  *search = (struct by_arborescence){.net = net};
  struct by_arena *arena = &search->arena;
  search->arc = BY_ARENA_ARRAY(arena, uint32_t, n);
  search->mark = BY_ARENA_ARRAY(arena, uint32_t, n);
  search->levels = BY_ARENA_ARRAY(arena, struct by_contraction, n);
  for (uint32_t i = 0; i < n && !arena->failed; i++) { /* A level has fewer vertices than the previous one. */
    search->levels[i].edges = BY_ARENA_ARRAY(arena, struct edge, net->n_arcs);
    search->levels[i].best = BY_ARENA_ARRAY(arena, uint32_t, n - i);
    search->levels[i].above = BY_ARENA_ARRAY(arena, uint32_t, n - i);
  }
  if (!arena->failed) return BANYAN_OK;
  by_arborescence_fini(search);
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory to look for trees among %u hosts", n);
}

/* Selects the lightest edge into every vertex. Returns the sum of their weights; INFINITY: a vertex has none. */
static double select_lightest(struct by_contraction *level) {
  double sum = 0;
  for (uint32_t v = 0; v < level->n; v++) level->best[v] = NONE;
  for (uint32_t e = 0; e < level->n_edges; e++) {
    uint32_t v = level->edges[e].to;
    if (v == level->root) continue;
    if (level->best[v] == NONE || level->edges[e].weight < level->edges[level->best[v]].weight) level->best[v] = e;
  }
  for (uint32_t v = 0; v < level->n; v++) {
    if (v == level->root) continue;
    if (level->best[v] == NONE) return INFINITY;
    sum += level->edges[level->best[v]].weight;
  }
  return sum;
}

/* Numbers the vertices of the next level, cycles first. Returns their number, and stores the number of cycles in
 * *cycles. */
static uint32_t number_next_level(const struct by_contraction *level, uint32_t *mark, uint32_t *cycles) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < level->n; v++) mark[v] = level->above[v] = NONE;
  for (uint32_t v = 0; v < level->n; v++) {
    uint32_t u = v;
    for (; u != level->root && mark[u] == NONE; u = level->edges[level->best[u]].from) mark[u] = v;
    if (u == level->root || mark[u] != v || level->above[u] != NONE) continue;
    for (; level->above[u] == NONE; u = level->edges[level->best[u]].from) level->above[u] = n;
    n++;
  }
  *cycles = n;
  for (uint32_t v = 0; v < level->n; v++)
    if (level->above[v] == NONE) level->above[v] = n++;
  return n;
}

static void contract_cycles(const struct by_contraction *level, uint32_t n, struct by_contraction *next) {
  next->n = n;
  next->n_edges = 0;
  next->root = level->above[level->root];
  for (uint32_t e = 0; e < level->n_edges; e++) {
    const struct edge *edge = &level->edges[e];
    uint32_t from = level->above[edge->from], to = level->above[edge->to];
    if (from == to || to == next->root) continue;
    next->edges[next->n_edges++] = (struct edge){
        .from = from, .to = to, .below = e, .weight = edge->weight - level->edges[level->best[edge->to]].weight};
  }
}

/* Replaces the lightest edges of this level by those of the tree above. */
static void expand_cycles(const struct by_contraction *above, struct by_contraction *level) {
  for (uint32_t v = 0; v < above->n; v++) {
    if (above->best[v] == NONE) continue;
    uint32_t e = above->edges[above->best[v]].below;
    level->best[level->edges[e].to] = e;
  }
}

double by_arborescence_find(struct by_arborescence *search, uint32_t root, const double *weight) {
  const struct by_directed *net = search->net;
  struct by_contraction *level = search->levels;
  level->n = net->n;
  level->n_edges = net->n_arcs;
  level->root = root;
  for (uint32_t a = 0; a < net->n_arcs; a++)
    level->edges[a] = (struct edge){.from = net->arcs[a].from, .to = net->arcs[a].to, .below = a, .weight = weight[a]};
  for (;; level++) {
    uint32_t cycles;
    if (isinf(select_lightest(level))) return INFINITY;
    uint32_t n = number_next_level(level, search->mark, &cycles);
    if (!cycles) break;
    contract_cycles(level, n, level + 1);
  }
  for (; level > search->levels; level--) expand_cycles(level, level - 1);
  double sum = 0;
  for (uint32_t v = 0; v < net->n; v++) {
    if (v == root) continue;
    search->arc[v] = level->edges[level->best[v]].below;
    sum += weight[search->arc[v]];
  }
  return sum;
}
