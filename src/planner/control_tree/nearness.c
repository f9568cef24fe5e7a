/* Computes the distances between ranks, by classes of ranks with equal links. */
#include "control_tree.h"

#include <stdlib.h>
#include <string.h>

#include "plan_make.h"
#include "topology_paths.h"

#define NONE UINT32_MAX

struct work {
  struct by_nearness *near;
  const struct by_topology *topology;
  struct by_paths paths;
  uint64_t *hash; /* A hash of the links of each rank, which is equal for all of a class. */
  /* The ranks, those of a class together; during a search its nodes. */
  uint32_t *order;
  uint32_t *hops; /* The number of hops to each node in a search. */
  double *delay;
  struct by_arena scratch;
};

/* --- Ranks. --- */

static enum banyan_status list_ranks(struct work *w, const uint32_t *participants) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->near->n_ranks && participants; i++) {
    if (participants[i] >= w->topology->n_nodes)
      return by_fail(BANYAN_ERR_ARGUMENT, "node number %u is not in the topology", participants[i]);
    w->near->node[n++] = participants[i];
  }
  for (uint32_t node = 0; node < w->topology->n_nodes && !participants; node++)
    if (w->topology->nodes[node].takes_part) w->near->node[n++] = node;
  return BANYAN_OK;
}

/* --- Classes. --- */

/* Returns the i-th link of the index if it can be used in both directions, otherwise NULL. */
static const struct by_link *get_usable(const struct work *w, uint32_t i) {
  const struct by_link *link = &w->topology->links[w->paths.links[i]];
  return by_link_carries_both(link) ? link : NULL;
}

/* Returns a hash that does not depend on the order of the links (splitmix64's last steps for each link, summed). */
static uint64_t hash_links(const struct work *w, uint32_t node) {
  uint64_t sum = 0;
  for (uint32_t i = w->paths.first[node]; i < w->paths.first[node + 1]; i++) {
    const struct by_link *link = get_usable(w, i);
    uint64_t bits;
    if (!link) continue;
    memcpy(&bits, &link->delay, sizeof bits);
    bits = (bits ^ by_link_other(link, node)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    sum += bits ^ bits >> 31;
  }
  return sum;
}

/* Returns whether every link of rank a has an equal link at rank b. */
static bool has_links_of(const struct work *w, uint32_t a, uint32_t b) {
  uint32_t x = w->near->node[a], y = w->near->node[b];
  for (uint32_t i = w->paths.first[x]; i < w->paths.first[x + 1]; i++) {
    const struct by_link *link = get_usable(w, i);
    bool found = !link;
    for (uint32_t j = w->paths.first[y]; j < w->paths.first[y + 1] && !found; j++) {
      const struct by_link *other = get_usable(w, j);
      found = other && by_link_other(other, y) == by_link_other(link, x) && other->delay == link->delay;
    }
    if (!found) return false;
  }
  return true;
}

static int compare_hashes(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  if (x[0] != y[0]) return x[0] < y[0] ? -1 : 1;
  return (x[1] > y[1]) - (x[1] < y[1]);
}

/* Finds for each rank the first of its class. Equal ranks have equal hashes, so only neighbours in their order are
 * compared. Ranks whose hashes are equal by chance may divide a class in two, which costs only time. */
static enum banyan_status find_equal_ranks(struct work *w, uint32_t *leader) {
  uint32_t n = w->near->n_ranks;
  uint64_t(*keys)[2] = by_arena_alloc(&w->scratch, n, sizeof *keys);
  if (!keys) return by_plan_no_memory();
  for (uint32_t r = 0; r < n; r++) {
    w->hash[r] = hash_links(w, w->near->node[r]);
    keys[r][0] = w->hash[r];
    keys[r][1] = r;
  }
  qsort(keys, n, sizeof *keys, compare_hashes);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t r = (uint32_t)keys[i][1], before = i ? leader[keys[i - 1][1]] : r;
    bool equal = before != r && w->hash[before] == w->hash[r]; /* Equal hashes are not enough. */
    leader[r] = equal && has_links_of(w, before, r) && has_links_of(w, r, before) ? before : r;
  }
  return BANYAN_OK;
}

static enum banyan_status make_classes(struct work *w) {
  struct by_nearness *near = w->near;
  uint32_t *leader = w->order;
  BY_TRY(find_equal_ranks(w, leader));
  for (uint32_t r = 0; r < near->n_ranks; r++)
    near->class_of[r] = leader[r] == r ? near->n_classes++ : near->class_of[leader[r]];
  for (uint32_t r = 0; r < near->n_ranks; r++) near->first[near->class_of[r] + 1]++;
  for (uint32_t c = 0; c < near->n_classes; c++) near->first[c + 1] += near->first[c];
  for (uint32_t r = near->n_ranks; r-- > 0;) near->ranks[--near->first[near->class_of[r] + 1]] = r;
  for (uint32_t c = 0; c < near->n_classes; c++) near->first[c] = near->first[c + 1];
  near->first[near->n_classes] = near->n_ranks;
  return BANYAN_OK;
}

/* --- Distances. --- */

/* Searches breadth first. A node's delay is final before it is passed on, since all nodes before it are nearer. */
static void search_from(struct work *w, uint32_t from) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < w->topology->n_nodes; v++) w->hops[v] = NONE;
  w->hops[from] = 0;
  w->delay[from] = 0;
  w->order[n++] = from;
  for (uint32_t done = 0; done < n; done++) {
    uint32_t v = w->order[done];
    for (uint32_t i = w->paths.first[v]; i < w->paths.first[v + 1]; i++) {
      const struct by_link *link = get_usable(w, i);
      if (!link) continue;
      uint32_t to = by_link_other(link, v);
      if (w->hops[to] <= w->hops[v]) continue;
      double delay = w->delay[v] + link->delay;
      if (w->hops[to] == NONE) w->order[n++] = to;
      if (w->hops[to] == NONE || delay < w->delay[to]) w->delay[to] = delay;
      w->hops[to] = w->hops[v] + 1;
    }
  }
}

/* Computes the distances from a class. The distance to itself is that from its first rank to another one, or 0. */
static enum banyan_status fill_distances(struct work *w, uint32_t from) {
  struct by_nearness *near = w->near;
  search_from(w, near->node[near->ranks[near->first[from]]]);
  for (uint32_t to = 0; to < near->n_classes; to++) {
    bool other = to == from && near->first[to + 1] - near->first[to] > 1;
    uint32_t node = near->node[near->ranks[near->first[to] + other]];
    if (w->hops[node] > UINT16_MAX)
      return by_fail(BANYAN_ERR_TOPOLOGY, "\"%.64s\" and \"%.64s\" %s",
                     w->topology->nodes[near->node[near->ranks[near->first[from]]]].name, w->topology->nodes[node].name,
                     w->hops[node] == NONE ? "cannot reach each other over links with capacity left in both directions"
                                           : "are too many links apart");
    near->hops[(size_t)from * near->n_classes + to] = (uint16_t)w->hops[node];
    near->delay[(size_t)from * near->n_classes + to] = (float)w->delay[node];
  }
  return BANYAN_OK;
}

static enum banyan_status fill_nearness(struct work *w) {
  struct by_nearness *near = w->near;
  BY_TRY(make_classes(w));
  size_t cells = (size_t)near->n_classes * near->n_classes;
  near->hops = BY_ARENA_ARRAY(&near->arena, uint16_t, cells);
  near->delay = BY_ARENA_ARRAY(&near->arena, float, cells);
  if (near->arena.failed) return by_plan_no_memory();
  for (uint32_t c = 0; c < near->n_classes; c++) BY_TRY(fill_distances(w, c));
  return BANYAN_OK;
}

static enum banyan_status find_nearness(struct work *w, const uint32_t *participants) {
  struct by_nearness *near = w->near;
  uint32_t n = near->n_ranks, nodes = w->topology->n_nodes;
  near->node = BY_ARENA_ARRAY(&near->arena, uint32_t, n);
  near->class_of = BY_ARENA_ARRAY(&near->arena, uint32_t, n);
  near->first = BY_ARENA_ARRAY(&near->arena, uint32_t, (size_t)n + 1);
  near->ranks = BY_ARENA_ARRAY(&near->arena, uint32_t, n);
  w->hash = BY_ARENA_ARRAY(&w->scratch, uint64_t, n);
  w->order = BY_ARENA_ARRAY(&w->scratch, uint32_t, nodes > n ? nodes : n);
  w->hops = BY_ARENA_ARRAY(&w->scratch, uint32_t, nodes);
  w->delay = BY_ARENA_ARRAY(&w->scratch, double, nodes);
  if (near->arena.failed || w->scratch.failed) return by_plan_no_memory();
  BY_TRY(list_ranks(w, participants));
  BY_TRY(by_paths_init(&w->paths, w->topology));
  return fill_nearness(w);
}

enum banyan_status by_nearness_init(struct by_nearness *nearness, const struct by_topology *topology,
                                    const uint32_t *participants, uint32_t n) {
  struct work w = {.near = nearness, .topology = topology};
  if (!participants) n = 0;
  for (uint32_t i = 0; i < topology->n_nodes && !participants; i++) n += topology->nodes[i].takes_part;
  *nearness = (struct by_nearness){.n_ranks = n};
  if (n > BY_NEARNESS_MAX)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "%u ranks are too many for a control tree that follows the topology; at most %d are possible", n,
                   BY_NEARNESS_MAX);
  enum banyan_status status = find_nearness(&w, participants);
  by_paths_fini(&w.paths);
  by_arena_fini(&w.scratch);
  if (status != BANYAN_OK) by_nearness_fini(nearness);
  return status;
}
