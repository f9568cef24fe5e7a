#include "link_ways.h"

#include <stdlib.h>

static const size_t most_bytes = 64 << 20; /* of what is kept */
static const uint32_t work = 1 << 17;      /* nodes and links that are looked at, at a time: 10 ms at most */

enum banyan_status by_link_ways_init(struct by_link_ways *ways, const struct by_topology *topology) {
  size_t n = topology->n_nodes, most = most_bytes / (n * sizeof(uint32_t) + 1);
  *ways = (struct by_link_ways){.most = (uint32_t)(most < 1 ? 1 : most > n ? n : most)};
  BY_TRY(by_paths_init(&ways->paths, topology));
  ways->hops = malloc(n * sizeof *ways->hops + 1);
  ways->steps = calloc(n + 1, sizeof *ways->steps);
  ways->kept = calloc((size_t)ways->most + 1, sizeof *ways->kept);
  by_link_ways_allow(ways);
  if (ways->hops && ways->steps && ways->kept) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the ways to %zu nodes", n);
}

void by_link_ways_fini(struct by_link_ways *ways) {
  for (uint32_t i = 0; i < ways->n; i++) free(ways->steps[ways->kept[i]]);
  free(ways->hops);
  free(ways->steps);
  free(ways->kept);
  by_paths_fini(&ways->paths);
}

void by_link_ways_allow(struct by_link_ways *ways) {
  const struct by_topology *t = ways->paths.topology;
  ways->searches = 1 + work / (t->n_nodes + t->n_links + 1);
}

/* Where one is to be kept: a new place, or the oldest one's. */
static uint32_t make_room(struct by_link_ways *ways) {
  if (ways->n < ways->most) return ways->n++;
  uint32_t at = ways->oldest;
  free(ways->steps[ways->kept[at]]);
  ways->steps[ways->kept[at]] = NULL;
  ways->oldest = (at + 1) % ways->most;
  return at;
}

static void keep(struct by_link_ways *ways, uint32_t to, uint32_t *steps) {
  ways->kept[make_room(ways)] = to;
  ways->steps[to] = steps;
}

static bool search(struct by_link_ways *ways, uint32_t to) {
  const struct by_topology *t = ways->paths.topology;
  if (!ways->searches) return false;
  ways->searches--;
  ways->searched++;
  uint32_t *steps = malloc(t->n_nodes * sizeof *steps + 1);
  if (!steps || by_paths_to(&ways->paths, to, ways->hops) != BANYAN_OK) {
    free(steps);
    return false;
  }
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    uint32_t link = ways->hops[v].link;
    steps[v] = link == UINT32_MAX ? UINT32_MAX : 2 * link + (t->links[link].a == v ? BY_AB : BY_BA);
  }
  keep(ways, to, steps);
  return true;
}

static uint32_t end_of(const struct by_topology *t, uint32_t step) {
  return step % 2 == BY_AB ? t->links[step / 2].b : t->links[step / 2].a;
}

bool by_link_ways_find(struct by_link_ways *ways, uint32_t from, uint32_t to, uint32_t **steps, uint32_t *n) {
  const struct by_topology *t = ways->paths.topology;
  *steps = NULL;
  *n = 0;
  if (!ways->steps[to] && !search(ways, to)) return false;
  const uint32_t *next = ways->steps[to];
  uint32_t length = 0;
  for (uint32_t v = from; next[v] != UINT32_MAX; v = end_of(t, next[v])) length++;
  if (!length) return true;
  if (!(*steps = calloc(length, sizeof **steps))) return false;
  for (uint32_t v = from; next[v] != UINT32_MAX; v = end_of(t, next[v])) (*steps)[(*n)++] = next[v];
  return true;
}
