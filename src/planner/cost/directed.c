/* Makes the arcs between hosts, and their resources, from a topology. */
#include "directed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topology_paths.h"

/* Resources are numbered: 2 * bundle + direction, then what each node sends, then what it receives. */
struct making {
  struct by_directed *net;
  const struct by_topology *topology;
  const uint32_t *hosts;
  bool reversed;
  struct by_paths paths;
  struct by_next_hop *hops;
  uint32_t *bundle; /* of each link: the first of the links between the same nodes */
  bool *is_host;    /* of each node: whether it is one of the hosts */
  struct by_arena work;
};

static enum banyan_status no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the arcs between hosts");
}

static uint32_t direction_from(const struct by_topology *t, uint32_t link, uint32_t from) {
  return t->links[link].a == from ? BY_AB : BY_BA;
}

/* Finds bundles: parallel links share the traffic between their nodes. */
static void find_bundles(const struct making *m) {
  const struct by_topology *t = m->topology;
  for (uint32_t v = 0; v < t->n_nodes; v++)
    for (uint32_t i = m->paths.first[v]; i < m->paths.first[v + 1]; i++) {
      uint32_t l = m->paths.links[i], other = by_link_other(&t->links[l], v), first = l;
      for (uint32_t k = m->paths.first[v]; k < i && first == l; k++)
        if (by_link_other(&t->links[m->paths.links[k]], v) == other) first = m->paths.links[k];
      if (v < other) m->bundle[l] = first;
    }
}

static void fill_capacities(const struct making *m) {
  const struct by_topology *t = m->topology;
  double *capacity = m->net->capacity;
  uint32_t nodes = 2 * t->n_links;
  for (uint32_t l = 0; l < t->n_links; l++) {
    uint32_t bundle = m->bundle[l], turned = (t->links[l].a != t->links[bundle].a) ^ m->reversed;
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

static int compare_numbers(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Follows the packets from host `from` to host `to` and fills in the arc's uses. Returns false if there is no such arc.
 */
static bool follow_path(const struct making *m, uint32_t from, uint32_t to, struct by_arc *arc) {
  const struct by_topology *t = m->topology;
  struct by_directed *net = m->net;
  uint32_t nodes = 2 * t->n_links, back = m->reversed;
  for (uint32_t v = m->hosts[from]; v != m->hosts[to]; v = m->hops[v].next) {
    const struct by_next_hop *hop = &m->hops[v];
    if (hop->link == UINT32_MAX || (hop->next != m->hosts[to] && m->is_host[hop->next])) return false;
    uint32_t bundle = m->bundle[hop->link], direction = direction_from(t, bundle, v);
    uint32_t sent = nodes + (back ? t->n_nodes : 0) + v, received = nodes + (back ? 0 : t->n_nodes) + hop->next;
    if (!add_use(net, arc, 2 * bundle + (direction ^ back)) || !add_use(net, arc, sent) || !add_use(net, arc, received))
      return false;
  }
  qsort(net->uses + arc->first, arc->n, sizeof *net->uses, compare_numbers);
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
        return no_memory();
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
  m->bundle = BY_ARENA_ARRAY(&m->work, uint32_t, t->n_links);
  m->is_host = BY_ARENA_ARRAY(&m->work, bool, t->n_nodes);
  if (net->arena.failed || m->work.failed) return no_memory();
  for (uint32_t h = 0; h < n; h++) m->is_host[m->hosts[h]] = true;
  find_bundles(m);
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
