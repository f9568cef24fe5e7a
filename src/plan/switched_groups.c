/* Groups the workers of an in-network tree. */
#include "switched_groups.h"

#define NONE BY_SWITCHED_NONE

struct grouping {
  struct by_switched_node *switches;
  const uint32_t *first;
  uint32_t n;
  struct {
    uint32_t root; /* the switch that adds the whole group; NONE: none does, or it is a single worker */
    uint32_t workers;
    bool pooled; /* The group is summed by the server: it consists of any workers and switches that fit. */
  } groups[BY_FRAGMENT_GROUPS];
};

static bool adds_groups(const struct by_switched_node *at) {
  return at->adds && at->workers > BY_FRAGMENT_WORKERS;
}

/* Whether a switch adds several workers. In a tree of several groups a single worker needs no switch to form a sum. */
static bool adds_several(const struct by_switched_node *at) {
  return at->adds && at->workers > 1;
}

/* Returns the switch nearest to the server that adds the terms of this worker and of at most 63 others; NONE: there is
 * none. *united: a switch above it adds sums of groups. */
static uint32_t find_unit(const struct grouping *g, uint32_t worker, bool *united) {
  uint32_t unit = NONE;
  *united = false;
  for (uint32_t s = g->first[worker]; s != NONE; s = g->switches[s].parent) {
    if (adds_groups(&g->switches[s]))
      *united = true;
    else if (adds_several(&g->switches[s]))
      unit = s;
  }
  return unit;
}

/* Finds or makes a group with capacity for this many more workers. NONE: too many groups. */
static uint32_t find_group(struct grouping *g, uint32_t root, uint32_t workers, bool pooled) {
  uint32_t at = pooled ? 0 : g->n;
  while (at < g->n && (!g->groups[at].pooled || g->groups[at].workers + workers > BY_FRAGMENT_WORKERS)) at++;
  if (at == BY_FRAGMENT_GROUPS) return NONE;
  if (at == g->n) {
    g->groups[at].root = pooled ? NONE : root;
    g->groups[at].pooled = pooled;
    g->n++;
  }
  g->groups[at].workers += workers;
  return at;
}

static uint32_t choose_group(struct grouping *g, uint32_t worker) {
  bool united;
  uint32_t unit = find_unit(g, worker, &united);
  if (unit == NONE) return find_group(g, NONE, 1, !united);
  struct by_switched_node *at = &g->switches[unit];
  if (at->group == NONE) at->group = find_group(g, unit, at->workers, !united);
  return at->group;
}

/* Sets on all switches above a worker that they add it or its group. */
static void add_to_switches(const struct grouping *g, uint32_t worker, uint32_t group, uint32_t bit) {
  for (uint32_t s = g->first[worker]; s != NONE; s = g->switches[s].parent) {
    struct by_switched_node *at = &g->switches[s];
    if (g->n > 1 ? !adds_several(at) : !at->adds) continue;
    bool groups = adds_groups(at);
    at->set.group = (uint8_t)(groups ? BY_FRAGMENT_UNITED : group);
    at->set.workers |= 1ull << (groups ? group : bit);
    at->group = groups ? NONE : group;
    at->whole = g->groups[group].root == s;
  }
}

bool by_switched_groups(struct by_switched_node *switches, uint32_t n_switches, const uint32_t *first,
                        uint32_t n_workers, uint32_t *number_of, struct by_worker_groups *groups) {
  struct grouping g = {.switches = switches, .first = first};
  uint32_t group_of[BY_TREE_WORKERS], joined[BY_FRAGMENT_GROUPS] = {0};
  for (uint32_t s = 0; s < n_switches; s++) {
    switches[s].workers = 0;
    switches[s].group = NONE;
    switches[s].set = (struct by_worker_set){0};
    switches[s].whole = false;
  }
  for (uint32_t w = 0; w < n_workers; w++)
    for (uint32_t s = first[w]; s != NONE; s = switches[s].parent) switches[s].workers++;
  for (uint32_t w = 0; w < n_workers; w++) {
    group_of[w] = n_workers > BY_FRAGMENT_WORKERS ? choose_group(&g, w) : find_group(&g, NONE, 1, true);
    if (group_of[w] == NONE) return false;
  }
  *groups = (struct by_worker_groups){.n = g.n};
  for (uint32_t i = 0; i < g.n; i++) groups->first[i + 1] = (uint16_t)(groups->first[i] + g.groups[i].workers);
  for (uint32_t w = 0; w < n_workers; w++) {
    uint32_t bit = joined[group_of[w]]++;
    number_of[w] = groups->first[group_of[w]] + bit;
    add_to_switches(&g, w, group_of[w], bit);
  }
  return true;
}
