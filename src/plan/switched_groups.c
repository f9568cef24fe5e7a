#include "switched_groups.h"

#define NONE BY_SWITCHED_NONE

struct grouping {
  struct by_switched_place *switches;
  const uint32_t *first;
  uint32_t n;
  struct {
    uint32_t root; /* the switch that adds it all; NONE: nobody does, or it is one worker */
    uint32_t workers;
    bool pooled; /* of what the server adds: any workers and switches that fit */
  } groups[BY_FRAGMENT_GROUPS];
};

static bool is_of_groups(const struct by_switched_place *at) {
  return at->adds && at->workers > BY_FRAGMENT_WORKERS;
}

/* In a tree of several groups a worker that is alone needs nobody to make a sum of it. */
static bool adds_several(const struct by_switched_place *at) {
  return at->adds && at->workers > 1;
}

/* The switch nearest to the server that adds terms of this worker and of at most 63 others; NONE: there is none.
 * *united: one above it adds sums of groups. */
static uint32_t unit_of(const struct grouping *g, uint32_t worker, bool *united) {
  uint32_t unit = NONE;
  *united = false;
  for (uint32_t s = g->first[worker]; s != NONE; s = g->switches[s].parent) {
    if (is_of_groups(&g->switches[s]))
      *united = true;
    else if (adds_several(&g->switches[s]))
      unit = s;
  }
  return unit;
}

/* With room for so many workers more; a new one where there is none. NONE: there are too many. */
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

static uint32_t group_for(struct grouping *g, uint32_t worker) {
  bool united;
  uint32_t unit = unit_of(g, worker, &united);
  if (unit == NONE) return find_group(g, NONE, 1, !united);
  struct by_switched_place *at = &g->switches[unit];
  if (at->group == NONE) at->group = find_group(g, unit, at->workers, !united);
  return at->group;
}

/* All switches on the worker's way add it, or its group. */
static void join(const struct grouping *g, uint32_t worker, uint32_t group, uint32_t bit) {
  for (uint32_t s = g->first[worker]; s != NONE; s = g->switches[s].parent) {
    struct by_switched_place *at = &g->switches[s];
    if (g->n > 1 ? !adds_several(at) : !at->adds) continue;
    bool groups = is_of_groups(at);
    at->set.group = (uint8_t)(groups ? BY_FRAGMENT_UNITED : group);
    at->set.workers |= 1ull << (groups ? group : bit);
    at->group = groups ? NONE : group;
    at->whole = g->groups[group].root == s;
  }
}

bool by_switched_groups(struct by_switched_place *switches, uint32_t n_switches, const uint32_t *first,
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
    group_of[w] = n_workers > BY_FRAGMENT_WORKERS ? group_for(&g, w) : find_group(&g, NONE, 1, true);
    if (group_of[w] == NONE) return false;
  }
  *groups = (struct by_worker_groups){.n = g.n};
  for (uint32_t i = 0; i < g.n; i++) groups->first[i + 1] = (uint16_t)(groups->first[i] + g.groups[i].workers);
  for (uint32_t w = 0; w < n_workers; w++) {
    uint32_t bit = joined[group_of[w]]++;
    number_of[w] = groups->first[group_of[w]] + bit;
    join(&g, w, group_of[w], bit);
  }
  return true;
}
