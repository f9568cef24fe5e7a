/* Chooses the vertices of a tree that add: with the smallest theta, the fewest for a theta, or at the least cost. */
#include <math.h>
#include <stdlib.h>

#include "placement.h"
#include "plan_make.h"

/* --- Theta of a choice. --- */

double by_flow_theta(const struct by_rooted_flow *flow, const bool *adds, uint32_t *out) {
  uint32_t *sum = out ? out : calloc((size_t)flow->n + 1, sizeof *sum);
  double theta = 0;
  if (!sum) return INFINITY;
  for (uint32_t v = 0; v < flow->n; v++) sum[v] = 0; /* Gradients that come from below are added here. */
  for (uint32_t v = flow->n; v-- > 0;) {
    uint32_t below = sum[v];
    sum[v] = v == 0 ? 0 : adds[v] && below + flow->own[v] > 1 ? 1 : below + flow->own[v];
    theta = fmax(theta, (below + sum[v]) / flow->limit[v]);
    if (v == 0) continue;
    theta = fmax(theta, fmax(sum[v] / flow->capacity[v], adds[v] ? flow->hold[v] : 0));
    sum[flow->parent[v]] += sum[v];
  }
  if (!out) free(sum);
  return theta;
}

/* --- The fewest adders for a theta. --- */

static const double slack = 1 + 1e-12;

/* The solutions for k adders in the subtree, k = 0 .. max. */
struct knapsack {
  uint32_t max;
  /* The smallest number of gradients at v, its own included, while v does not add. Children are added one by one. */
  double *below;
  double *out; /* The smallest number of gradients that v sends; INFINITY: not possible. */
  bool *adds;  /* Whether v adds in that solution. */
  /* If all of the parent's children so far have k adders, the number of adders of v's subtree. */
  uint32_t *part;
};

struct search {
  const struct by_rooted_flow *flow;
  double theta;
  uint32_t max;
  struct knapsack *sacks;
  struct by_arena *arena;
};

static bool may_add(const struct search *s, uint32_t v) {
  return s->flow->able[v] && s->flow->hold[v] <= s->theta * slack;
}

/* Returns whether v can get `below` gradients from its children and send `out`. */
static bool is_within_limits(const struct search *s, uint32_t v, double below, double out) {
  const struct by_rooted_flow *flow = s->flow;
  return below + out <= s->theta * slack * flow->limit[v] && (!v || out <= s->theta * slack * flow->capacity[v]);
}

/* Computes how many gradients v sends, once all its children are in. */
static bool finish_vertex(struct search *s, uint32_t v) {
  struct knapsack *sack = &s->sacks[v];
  double own = s->flow->own[v];
  uint32_t max = sack->max + (v && may_add(s, v) && sack->max < s->max);
  sack->out = BY_ARENA_ARRAY(s->arena, double, (size_t)max + 1);
  sack->adds = BY_ARENA_ARRAY(s->arena, bool, (size_t)max + 1);
  if (!sack->out || !sack->adds) return false;
  for (uint32_t k = 0; k <= max; k++) {
    double all = k <= sack->max ? sack->below[k] : INFINITY;
    double sent = v ? all : 0;
    sack->out[k] = isfinite(all) && is_within_limits(s, v, all - own, sent) ? sent : INFINITY;
    if (!v || !k || !may_add(s, v) || !isfinite(sack->below[k - 1])) continue;
    sack->adds[k] = 1 < sack->out[k] && is_within_limits(s, v, sack->below[k - 1] - own, 1);
    if (sack->adds[k]) sack->out[k] = 1;
  }
  sack->max = max;
  return true;
}

/* Adds what v sends to its parent's knapsack. */
static bool add_to_parent(struct search *s, uint32_t v) {
  struct knapsack *sack = &s->sacks[v], *parent = &s->sacks[s->flow->parent[v]];
  uint32_t max = parent->max + sack->max < s->max ? parent->max + sack->max : s->max;
  double *below = BY_ARENA_ARRAY(s->arena, double, (size_t)max + 1);
  sack->part = BY_ARENA_ARRAY(s->arena, uint32_t, (size_t)max + 1);
  if (!below || !sack->part) return false;
  for (uint32_t k = 0; k <= max; k++) below[k] = INFINITY;
  for (uint32_t i = 0; i <= parent->max; i++)
    for (uint32_t j = 0; j <= sack->max && i + j <= max; j++) {
      if (parent->below[i] + sack->out[j] >= below[i + j]) continue;
      below[i + j] = parent->below[i] + sack->out[j];
      sack->part[i + j] = j;
    }
  parent->below = below;
  parent->max = max;
  return true;
}

static bool fill_sacks(struct search *s) {
  for (uint32_t v = 0; v < s->flow->n; v++) {
    s->sacks[v].below = BY_ARENA_ARRAY(s->arena, double, 1);
    if (!s->sacks[v].below) return false;
    s->sacks[v].below[0] = s->flow->own[v];
  }
  for (uint32_t v = s->flow->n; v-- > 0;)
    if (!finish_vertex(s, v) || (v && !add_to_parent(s, v))) return false;
  return true;
}

/* Reads which vertices add if k do. Children get their parts in the reverse of the order in which they were added. */
static bool read_sacks(const struct search *s, uint32_t k, bool *adds) {
  uint32_t *rest = BY_ARENA_ARRAY(s->arena, uint32_t, s->flow->n);
  if (!rest) return false;
  rest[0] = k;
  adds[0] = false;
  for (uint32_t v = 1; v < s->flow->n; v++) {
    uint32_t *left = &rest[s->flow->parent[v]], part = s->sacks[v].part[*left];
    *left -= part;
    adds[v] = s->sacks[v].adds[part];
    rest[v] = part - adds[v];
  }
  return true;
}

static enum banyan_status search_fewest(struct search *s, bool *adds, bool *found) {
  s->sacks = BY_ARENA_ARRAY(s->arena, struct knapsack, s->flow->n);
  if (!s->sacks || !fill_sacks(s)) return by_plan_no_memory();
  uint32_t k = 0;
  while (k <= s->sacks[0].max && !isfinite(s->sacks[0].out[k])) k++;
  *found = k <= s->sacks[0].max;
  return !*found || read_sacks(s, k, adds) ? BANYAN_OK : by_plan_no_memory();
}

enum banyan_status by_flow_find_fewest(const struct by_rooted_flow *flow, double theta, uint32_t max, bool *adds,
                                       bool *found) {
  struct by_arena arena = {0};
  struct search s = {.flow = flow, .theta = theta, .max = max, .arena = &arena};
  enum banyan_status status = search_fewest(&s, adds, found);
  by_arena_fini(&arena);
  return status;
}

/* --- The smallest theta. --- */

enum banyan_status by_flow_find_min(const struct by_rooted_flow *flow, uint32_t max, bool *adds, double *theta) {
  bool found = true, *tried = calloc((size_t)flow->n + 1, sizeof *tried);
  if (!tried) return by_plan_no_memory();
  double low = 0, high = by_flow_theta(flow, tried, NULL);
  enum banyan_status status = BANYAN_OK;
  while (status == BANYAN_OK && isfinite(high) && high - low > 1e-12 * high) {
    double middle = low + (high - low) / 2;
    status = by_flow_find_fewest(flow, middle, max, tried, &found);
    if (found)
      high = fmin(middle, by_flow_theta(flow, tried, NULL));
    else
      low = middle;
  }
  if (status == BANYAN_OK) status = by_flow_find_fewest(flow, high, max, adds, &found);
  if (status == BANYAN_OK) *theta = by_flow_theta(flow, adds, NULL);
  free(tried);
  return status;
}

/* --- The cheapest choice. --- */

/* The table of dynamic programming. A gradient that v sends costs the sum of the prices of all links up to the next
 * adder, so a subtree only needs to know which vertex above it adds next: cost[v][d] is the minimum for v's subtree if
 * that is v's ancestor at depth d. The length of a row is the depth of its vertex. */

struct table {
  const struct by_rooted_flow *flow;
  const double *rent;
  double *above;   /* The price of all links from each vertex to the server. */
  uint32_t *depth; /* The depth of each vertex. */
  size_t *row;     /* The index at which the row of each vertex begins. */
  /* The cost of v and all below it for d = 0 .. depth - 1; at d = depth[v] the cost of all below it if v adds. */
  double *cost;
  bool *adds;    /* Whether v adds in each of these cases. */
  double *reach; /* For the current vertex: above[] of its ancestor at each depth. */
};

/* Sets reach[d] to above[] of the ancestor of v at depth d. */
static void find_ancestors(struct table *t, uint32_t v) {
  for (uint32_t u = v;; u = t->flow->parent[u]) {
    t->reach[t->depth[u]] = t->above[u];
    if (!u) return;
  }
}

/* Completes the row of v. cost[v][d] holds the sum over v's children, for d up to v's own depth. */
static void finish_row(struct table *t, uint32_t v) {
  double *cost = t->cost + t->row[v], below = cost[t->depth[v]];
  double *parent = t->cost + t->row[t->flow->parent[v]];
  find_ancestors(t, v);
  for (uint32_t d = 0; d < t->depth[v]; d++) {
    double price = t->above[v] - t->reach[d];
    double passing = cost[d] + t->flow->own[v] * price, adding = below + price + t->rent[v];
    bool adds = t->flow->able[v] && adding < passing;
    t->adds[t->row[v] + d] = adds;
    parent[d] += adds ? adding : passing;
  }
}

static void read_table(const struct table *t, bool *adds, uint32_t *next) {
  adds[0] = false;
  next[0] = 0; /* This is the depth of the next adder above a vertex's children. */
  for (uint32_t v = 1; v < t->flow->n; v++) {
    uint32_t d = next[t->flow->parent[v]];
    adds[v] = t->adds[t->row[v] + d];
    next[v] = adds[v] ? t->depth[v] : d;
  }
}

static size_t lay_out_rows(struct table *t, const double *price) {
  size_t size = 1;
  for (uint32_t v = 1; v < t->flow->n; v++) {
    t->depth[v] = t->depth[t->flow->parent[v]] + 1;
    t->above[v] = t->above[t->flow->parent[v]] + price[v];
    t->row[v] = size;
    size += t->depth[v] + 1;
  }
  return size;
}

enum banyan_status by_flow_find_cheapest(const struct by_rooted_flow *flow, const double *price, const double *rent,
                                         bool *adds, double *cost) {
  struct by_arena arena = {0};
  struct table t = {.flow = flow,
                    .rent = rent,
                    .above = BY_ARENA_ARRAY(&arena, double, flow->n),
                    .depth = BY_ARENA_ARRAY(&arena, uint32_t, flow->n),
                    .row = BY_ARENA_ARRAY(&arena, size_t, flow->n),
                    .reach = BY_ARENA_ARRAY(&arena, double, flow->n)};
  uint32_t *next = BY_ARENA_ARRAY(&arena, uint32_t, flow->n);
  size_t size = arena.failed ? 0 : lay_out_rows(&t, price);
  t.cost = BY_ARENA_ARRAY(&arena, double, size);
  t.adds = BY_ARENA_ARRAY(&arena, bool, size);
  bool ready = !arena.failed;
  if (ready) {
    for (uint32_t v = flow->n; v-- > 1;) finish_row(&t, v);
    *cost = t.cost[0];
    read_table(&t, adds, next);
  }
  by_arena_fini(&arena);
  return ready ? BANYAN_OK : by_plan_no_memory();
}
