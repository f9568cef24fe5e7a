/* Computes max-min fair shares. Shares are computed for a set of flows while all others keep theirs:
 *
 *   1. The set is all flows at resources where a flow began or stopped.
 *   2. Fill it progressively: the resource with the least residual capacity for each of
 *      its flows is full first; those flows have their share.
 *   3. A flow outside the set joins it if it now has more than the flows of a full
 *      resource, or if the resource that limits it is no longer full; repeat step 2.
 *
 * It ends when every flow is limited by a full resource where no other flow has more. That makes shares max-min fair,
 * and there is only one such allocation. */
#include "simulate.h"

#include <math.h>

#define NONE UINT32_MAX
#define SLACK 1e-9 /* Relative differences below this are due to rounding. */

struct resource {
  uint32_t first, n;   /* The uses of active flows begin at members[first]. */
  uint32_t round;      /* The last round in which it was in the list. */
  uint32_t waiting;    /* The number of flows in the set that have no share yet. */
  double left, weight; /* The residual capacity for these flows, and the sum of their weights. */
  double key;          /* The value of left / weight when it was put in the heap. */
  double max;          /* The largest share in the set. */
  bool full;           /* It limits a flow in the set. */
  bool touched;
};

struct flow {
  uint32_t holder; /* The resource that limits it. */
  uint32_t round;  /* The last round in which it was in the set. */
  bool shared;     /* It has a share in this filling. */
  double share;
};

struct by_fair_work {
  struct resource *resources;
  struct flow *flows;
  uint32_t *flow_of, *slot; /* For each use: its flow, and its index among the members. */
  uint32_t *members;        /* The uses, by resource. */
  uint32_t *touched, n_touched;
  uint32_t *set, n_set;
  uint32_t *list, n_list; /* The resources of the set. */
  uint32_t *heap, n_heap;
  uint32_t round;
};

static enum banyan_status no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the shares of flows");
}

static void index_members(struct by_fair *fair) {
  const struct by_fair_net *net = fair->net;
  struct by_fair_work *w = fair->work;
  uint32_t at = 0;
  for (uint32_t f = 0; f < net->n_flows; f++)
    for (uint32_t u = net->first[f]; u < net->first[f + 1]; u++) {
      w->flow_of[u] = f;
      w->resources[net->uses[u].resource].n++;
    }
  for (uint32_t r = 0; r < net->n_resources; r++) {
    w->resources[r].first = at;
    at += w->resources[r].n;
    w->resources[r].n = 0;
  }
}

enum banyan_status by_fair_init(struct by_fair *fair, const struct by_fair_net *net) {
  uint32_t uses = net->first[net->n_flows];
  *fair = (struct by_fair){.net = net};
  struct by_arena *arena = &fair->arena;
  struct by_fair_work *w = fair->work = BY_ARENA_NEW(arena, struct by_fair_work);
  fair->rate = BY_ARENA_ARRAY(arena, double, net->n_flows);
  fair->changed = BY_ARENA_ARRAY(arena, uint32_t, net->n_flows);
  if (!w) return no_memory();
  *w = (struct by_fair_work){.resources = BY_ARENA_ARRAY(arena, struct resource, net->n_resources),
                             .flows = BY_ARENA_ARRAY(arena, struct flow, net->n_flows),
                             .flow_of = BY_ARENA_ARRAY(arena, uint32_t, uses),
                             .slot = BY_ARENA_ARRAY(arena, uint32_t, uses),
                             .members = BY_ARENA_ARRAY(arena, uint32_t, uses),
                             .touched = BY_ARENA_ARRAY(arena, uint32_t, net->n_resources),
                             .set = BY_ARENA_ARRAY(arena, uint32_t, net->n_flows),
                             .list = BY_ARENA_ARRAY(arena, uint32_t, net->n_resources),
                             .heap = BY_ARENA_ARRAY(arena, uint32_t, net->n_resources)};
  if (arena->failed) return no_memory();
  index_members(fair);
  return BANYAN_OK;
}

/* --- Active flows. --- */

static void touch_resource(struct by_fair_work *w, uint32_t resource) {
  if (w->resources[resource].touched) return;
  w->resources[resource].touched = true;
  w->touched[w->n_touched++] = resource;
}

void by_fair_start(struct by_fair *fair, uint32_t flow) {
  const struct by_fair_net *net = fair->net;
  struct by_fair_work *w = fair->work;
  if (net->first[flow] == net->first[flow + 1]) fair->rate[flow] = INFINITY;
  w->flows[flow].holder = NONE;
  for (uint32_t u = net->first[flow]; u < net->first[flow + 1]; u++) {
    struct resource *r = &w->resources[net->uses[u].resource];
    w->slot[u] = r->n;
    w->members[r->first + r->n++] = u;
    touch_resource(w, net->uses[u].resource);
  }
}

void by_fair_stop(struct by_fair *fair, uint32_t flow) {
  const struct by_fair_net *net = fair->net;
  struct by_fair_work *w = fair->work;
  fair->rate[flow] = 0;
  for (uint32_t u = net->first[flow]; u < net->first[flow + 1]; u++) {
    struct resource *r = &w->resources[net->uses[u].resource];
    uint32_t last = w->members[r->first + --r->n];
    w->members[r->first + w->slot[u]] = last;
    w->slot[last] = w->slot[u];
    touch_resource(w, net->uses[u].resource);
  }
}

/* --- The set. --- */

static bool add_to_set(struct by_fair_work *w, uint32_t flow) {
  if (w->flows[flow].round == w->round) return false;
  w->flows[flow].round = w->round;
  w->set[w->n_set++] = flow;
  return true;
}

/* Computes what flows outside the set leave of a resource. */
static void measure_resource(const struct by_fair *fair, uint32_t resource) {
  struct by_fair_work *w = fair->work;
  struct resource *r = &w->resources[resource];
  r->left = fair->net->capacity[resource];
  r->weight = r->max = 0;
  r->waiting = 0;
  r->full = false;
  for (uint32_t m = 0; m < r->n; m++) {
    uint32_t use = w->members[r->first + m], flow = w->flow_of[use];
    double weight = fair->net->uses[use].weight;
    if (w->flows[flow].round != w->round) {
      r->left -= weight * fair->rate[flow];
      continue;
    }
    r->weight += weight;
    r->waiting++;
  }
  if (r->left < 0) r->left = 0;
}

static void list_resources(const struct by_fair *fair) {
  const struct by_fair_net *net = fair->net;
  struct by_fair_work *w = fair->work;
  for (uint32_t i = 0; i < w->n_list; i++) w->resources[w->list[i]].round = 0;
  w->n_list = 0;
  for (uint32_t i = 0; i < w->n_set; i++) {
    uint32_t flow = w->set[i];
    w->flows[flow].shared = false;
    for (uint32_t u = net->first[flow]; u < net->first[flow + 1]; u++) {
      uint32_t resource = net->uses[u].resource;
      if (w->resources[resource].round) continue;
      w->resources[resource].round = 1;
      w->list[w->n_list++] = resource;
      measure_resource(fair, resource);
    }
  }
}

/* --- Progressive filling. --- */

static void sift_down(struct by_fair_work *w, uint32_t at) {
  uint32_t resource = w->heap[at], child;
  double key = w->resources[resource].key;
  for (; (child = 2 * at + 1) < w->n_heap; at = child) {
    if (child + 1 < w->n_heap && w->resources[w->heap[child + 1]].key < w->resources[w->heap[child]].key) child++;
    if (key <= w->resources[w->heap[child]].key) break;
    w->heap[at] = w->heap[child];
  }
  w->heap[at] = resource;
}

static double get_level(const struct resource *r) {
  return r->left > 0 ? r->left / r->weight : 0;
}

/* Gives each flow that waits at a full resource an equal share of the residual capacity. */
static void fill_resource(const struct by_fair *fair, uint32_t resource) {
  const struct by_fair_net *net = fair->net;
  struct by_fair_work *w = fair->work;
  struct resource *full = &w->resources[resource];
  double level = get_level(full);
  full->full = true;
  for (uint32_t m = 0; m < full->n && full->waiting; m++) {
    uint32_t index = w->flow_of[w->members[full->first + m]];
    struct flow *flow = &w->flows[index];
    if (flow->round != w->round || flow->shared) continue;
    flow->shared = true;
    flow->share = level;
    flow->holder = resource;
    for (uint32_t u = net->first[index]; u < net->first[index + 1]; u++) {
      struct resource *r = &w->resources[net->uses[u].resource];
      r->left -= net->uses[u].weight * level;
      r->weight -= net->uses[u].weight;
      r->waiting--;
      if (level > r->max) r->max = level;
    }
  }
}

/* Fills all resources. Keys only grow while other resources are filled, so an outdated key is found when it comes to
 * the top. */
static void fill_all(const struct by_fair *fair) {
  struct by_fair_work *w = fair->work;
  list_resources(fair);
  w->n_heap = 0;
  for (uint32_t i = 0; i < w->n_list; i++) {
    struct resource *r = &w->resources[w->list[i]];
    if (!r->waiting) continue;
    r->key = get_level(r);
    w->heap[w->n_heap++] = w->list[i];
  }
  for (uint32_t at = w->n_heap / 2; at-- > 0;) sift_down(w, at);
  while (w->n_heap) {
    struct resource *r = &w->resources[w->heap[0]];
    double level = r->waiting ? get_level(r) : 0;
    if (r->waiting && level <= r->key * (1 + SLACK)) fill_resource(fair, w->heap[0]);
    r->key = level;
    if (!r->waiting) w->heap[0] = w->heap[--w->n_heap];
    if (w->n_heap) sift_down(w, 0);
  }
}

/* --- Which other flows are affected. --- */

/* Returns whether a flow outside the set, at this resource, may not keep its share. */
static bool affects(const struct resource *r, double capacity, bool held_here, double share) {
  if (r->full && share > r->max * (1 + SLACK)) return true;
  return held_here && (r->left > capacity * SLACK || r->max > share * (1 + SLACK));
}

static bool widen_set(const struct by_fair *fair) {
  struct by_fair_work *w = fair->work;
  bool wider = false;
  for (uint32_t i = 0; i < w->n_list; i++) {
    const struct resource *r = &w->resources[w->list[i]];
    for (uint32_t m = 0; m < r->n; m++) {
      uint32_t flow = w->flow_of[w->members[r->first + m]];
      if (w->flows[flow].round == w->round) continue;
      bool held_here = w->flows[flow].holder == w->list[i];
      if (affects(r, fair->net->capacity[w->list[i]], held_here, fair->rate[flow])) wider |= add_to_set(w, flow);
    }
  }
  return wider;
}

void by_fair_share(struct by_fair *fair) {
  struct by_fair_work *w = fair->work;
  fair->n_changed = 0;
  w->round++;
  w->n_set = 0;
  for (uint32_t i = 0; i < w->n_touched; i++) {
    struct resource *r = &w->resources[w->touched[i]];
    r->touched = false;
    for (uint32_t m = 0; m < r->n; m++) add_to_set(w, w->flow_of[w->members[r->first + m]]);
  }
  w->n_touched = 0;
  if (!w->n_set) return;
  do fill_all(fair);
  while (widen_set(fair));
  for (uint32_t i = 0; i < w->n_set; i++) {
    uint32_t flow = w->set[i];
    double share = w->flows[flow].share;
    if (fabs(share - fair->rate[flow]) <= 1e-12 * share) continue;
    fair->rate[flow] = share;
    fair->changed[fair->n_changed++] = flow;
  }
}
