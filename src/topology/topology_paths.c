/* Computes the paths of packets with Dijkstra's algorithm, one destination at a time. */
#include "topology_paths.h"

#include <stdlib.h>
#include <string.h>

/* Finds the first of the links between the same two nodes. `latest` is scratch memory for each node, all zero: the
 * latest such link at it. Link 0 serves as none, since it is the first wherever it leads. */
static void find_bundles(struct by_paths *paths, uint32_t *latest) {
  const struct by_topology *t = paths->topology;
  for (uint32_t v = 0; v < t->n_nodes; v++)
    for (uint32_t i = paths->first[v]; i < paths->first[v + 1]; i++) {
      uint32_t l = paths->links[i], other = by_link_other(&t->links[l], v);
      if (other < v) continue;
      const struct by_link *known = &t->links[latest[other]];
      bool same = (known->a == v && known->b == other) || (known->a == other && known->b == v);
      if (!same) latest[other] = l;
      paths->bundle[l] = latest[other];
    }
}

enum banyan_status by_paths_init(struct by_paths *paths, const struct by_topology *topology) {
  size_t n = topology->n_nodes, m = topology->n_links;
  uint32_t *first = calloc(2 * n + 3 * m + 1, sizeof *first);
  *paths = (struct by_paths){.topology = topology, .first = first};
  if (!first) {
    (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the paths of %zu nodes", n);
    return BANYAN_ERR_NO_MEMORY;
  }
  uint32_t *turn = paths->turn = first + n + 1, *links = paths->links = turn + n;
  for (size_t i = 0; i < m; i++) {
    first[topology->links[i].a]++;
    first[topology->links[i].b]++;
  }
  for (size_t v = 0; v < n; v++) first[v + 1] += first[v];
  for (size_t i = m; i-- > 0;) {
    links[--first[topology->links[i].a]] = (uint32_t)i;
    links[--first[topology->links[i].b]] = (uint32_t)i;
  }
  paths->bundle = links + 2 * m;
  find_bundles(paths, turn);
  /* Participating hosts are counted separately, since they are the ones to be spread over equal links. */
  uint32_t of_ranks = 0, of_others = 0;
  for (size_t v = 0; v < n; v++) turn[v] = topology->nodes[v].takes_part ? of_ranks++ : of_others++;
  return BANYAN_OK;
}

void by_paths_fini(struct by_paths *paths) {
  free(paths->first);
  *paths = (struct by_paths){0};
}

/* The state of Dijkstra's algorithm, backwards from the destination, over (hosts, links, delay). */
struct search {
  const struct by_paths *paths;
  struct by_next_hop *hops;
  uint32_t *heap, *position; /* position: of each node in the heap; UINT32_MAX: not in it */
  uint32_t n;
  uint32_t to;
  uint32_t *done, n_done; /* Nodes whose hops are final. */
  const bool *wanted;     /* The search ends with the last of these nodes; NULL: when all nodes are reached. */
  uint32_t n_wanted;
};

static int compare_hops(const struct by_next_hop *a, const struct by_next_hop *b) {
  if (a->hosts != b->hosts) return a->hosts < b->hosts ? -1 : 1;
  if (a->hops != b->hops) return a->hops < b->hops ? -1 : 1;
  return (a->delay > b->delay) - (a->delay < b->delay);
}

static void put_in_heap(struct search *s, uint32_t at, uint32_t node) {
  s->heap[at] = node;
  s->position[node] = at;
}

static uint32_t take_nearest(struct search *s) {
  uint32_t nearest = s->heap[0], node = s->heap[--s->n], at = 0, child;
  for (; (child = 2 * at + 1) < s->n; at = child) {
    if (child + 1 < s->n && compare_hops(&s->hops[s->heap[child + 1]], &s->hops[s->heap[child]]) < 0) child++;
    if (compare_hops(&s->hops[node], &s->hops[s->heap[child]]) <= 0) break;
    put_in_heap(s, at, s->heap[child]);
  }
  if (s->n) put_in_heap(s, at, node);
  s->position[nearest] = UINT32_MAX;
  return nearest;
}

/* Returns the hop of a node that uses a link to `next`. */
static struct by_next_hop make_hop(const struct search *s, uint32_t link, uint32_t next) {
  const struct by_topology *t = s->paths->topology;
  const struct by_next_hop *rest = &s->hops[next];
  bool relayed = next != s->to && t->nodes[next].kind == BY_NODE_HOST;
  return (struct by_next_hop){.link = link,
                              .next = next,
                              .hops = rest->hops + 1,
                              .hosts = rest->hosts + relayed,
                              .delay = rest->delay + t->links[link].delay};
}

static void improve_hop(struct search *s, uint32_t node, struct by_next_hop hop) {
  if (s->hops[node].hops != UINT32_MAX && compare_hops(&hop, &s->hops[node]) >= 0) return;
  s->hops[node] = hop;
  if (s->position[node] == UINT32_MAX) s->position[node] = s->n++;
  uint32_t at = s->position[node];
  for (; at && compare_hops(&hop, &s->hops[s->heap[(at - 1) / 2]]) < 0; at = (at - 1) / 2)
    put_in_heap(s, at, s->heap[(at - 1) / 2]);
  put_in_heap(s, at, node);
}

/* Marks the node's hops as final. False: all wanted nodes are final. */
static bool finish_node(struct search *s, uint32_t node) {
  s->done[s->n_done++] = node;
  return !s->wanted || !s->wanted[node] || --s->n_wanted > 0;
}

static bool has_one_link(const struct by_paths *p, uint32_t node) {
  return p->first[node + 1] - p->first[node] == 1;
}

/* No path leads through a node with one link, as most hosts of a large network have, and only one path to it: it does
 * not enter the heap. */
static bool finish_end(struct search *s, uint32_t node, struct by_next_hop hop) {
  if (node == s->to || (s->wanted && !s->wanted[node])) return true;
  s->hops[node] = hop;
  return finish_node(s, node);
}

static void run_search(struct search *s) {
  const struct by_paths *p = s->paths;
  put_in_heap(s, s->n++, s->to);
  while (s->n) {
    uint32_t node = take_nearest(s);
    if (!finish_node(s, node)) return;
    for (uint32_t i = p->first[node]; i < p->first[node + 1]; i++) {
      const struct by_link *link = &p->topology->links[p->links[i]];
      uint32_t other = by_link_other(link, node);
      if (!by_link_carries(link, other)) continue;
      if (!has_one_link(p, other))
        improve_hop(s, other, make_hop(s, p->links[i], node));
      else if (!finish_end(s, other, make_hop(s, p->links[i], node)))
        return;
    }
  }
}

/* Finds the next of a node's links, from *i on, that is as good as the chosen one. */
static bool find_next_equal(const struct search *s, uint32_t node, uint32_t *i, struct by_next_hop *out) {
  const struct by_paths *p = s->paths;
  for (; *i < p->first[node + 1]; ++*i) {
    const struct by_link *link = &p->topology->links[p->links[*i]];
    uint32_t next = by_link_other(link, node);
    if (s->hops[next].hops + 1 != s->hops[node].hops || !by_link_carries(link, node)) continue;
    *out = make_hop(s, p->links[*i], next);
    if (compare_hops(out, &s->hops[node]) != 0) continue;
    ++*i;
    return true;
  }
  return false;
}

/* Chooses one of the equal links. Equal paths have the same cost, so each node chooses independently. */
static void choose_link(struct search *s, uint32_t node) {
  struct by_next_hop hop;
  uint32_t n = 0, i = s->paths->first[node];
  while (find_next_equal(s, node, &i, &hop)) n++;
  if (n < 2) return;
  uint32_t skip = s->paths->turn[s->to] % n;
  i = s->paths->first[node];
  while (find_next_equal(s, node, &i, &hop) && skip--) continue;
  s->hops[node] = hop;
}

enum banyan_status by_paths_between(const struct by_paths *paths, uint32_t to, const uint32_t *from, uint32_t n,
                                    struct by_next_hop *out) {
  struct search s = {.paths = paths, .hops = out, .to = to};
  uint32_t nodes = paths->topology->n_nodes;
  s.heap = calloc((size_t)nodes + 1, 3 * sizeof *s.heap + sizeof(bool));
  if (!s.heap) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the paths of %u nodes", nodes);
  s.position = s.heap + nodes;
  s.done = s.position + nodes;
  bool *wanted = (bool *)(s.done + nodes);
  for (uint32_t i = 0; i < n; i++) {
    s.n_wanted += !wanted[from[i]];
    wanted[from[i]] = true;
  }
  s.wanted = from ? wanted : NULL;
  for (uint32_t v = 0; v < nodes; v++) {
    out[v] = (struct by_next_hop){.link = UINT32_MAX, .next = UINT32_MAX, .hops = UINT32_MAX};
    s.position[v] = UINT32_MAX;
  }
  out[to].hops = 0;
  run_search(&s);
  for (uint32_t i = 1; i < s.n_done; i++)
    if (!has_one_link(paths, s.done[i])) choose_link(&s, s.done[i]);
  free(s.heap);
  return BANYAN_OK;
}
