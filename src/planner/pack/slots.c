/* Improves several trees with shares, by growing each again and by swapping edges. */
#include "grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_make.h"

/* Noise distinguishes equal prices, so that not all trees choose the same edge. */
static const double noise_of_prices = 0.01;
enum { NOISE = 4096 };

/* Returns exp(x) to within 1e-8, without branches, so that loops over resources become vector code. Above 300 it
 * continues linearly, since sums of prices must stay finite. 2^x is 2^n * 2^f with |f| <= 1/2: n is added to the
 * exponent. */
static inline double exponential(double x) {
  static const double highest = 300, lowest = -700;
  static const double shift = 0x1.8p52; /* Adding it makes the last bits of a sum an integer. */
  double beyond = x > highest ? x - highest : 0, y = x - beyond;
  y = (y < lowest ? lowest : y) * 0x1.71547652b82fep0;
  double shifted = y + shift, f = (y - (shifted - shift)) * 0x1.62e42fefa39efp-1;
  double power =
      1 + f * (1 + f * (1.0 / 2 + f * (1.0 / 6 + f * (1.0 / 24 + f * (1.0 / 120 + f * (1.0 / 720 + f / 5040))))));
  uint64_t bits, n;
  memcpy(&bits, &power, sizeof bits);
  memcpy(&n, &shifted, sizeof n);
  bits += n << 52;
  memcpy(&power, &bits, sizeof power);
  return power * (1 + beyond);
}

/* Returns the increase of a resource's price over one step, up to a factor that is common to all resources. */
static inline double get_resource_price(const struct by_slots *s, uint32_t r) {
  double rise = s->steep * s->step[r];
  return exponential(s->steep * (s->load[r] + s->step[r] - 1)) * (rise / (1 + rise));
}

static double get_edge_price(void *context, uint32_t edge) {
  const struct by_slots *s = context;
  const struct by_graph *graph = s->grower->graph;
  const struct by_graph_edge *e = &graph->edges[edge];
  double sum = 0;
  for (uint32_t i = 0; i < e->n; i++) sum += s->price[graph->uses[e->first + i]];
  return sum * s->noise[(edge + s->noise_offset) % NOISE];
}

static void take_edge(void *context, uint32_t edge) {
  struct by_slots *s = context;
  const struct by_graph *graph = s->grower->graph;
  const struct by_graph_edge *e = &graph->edges[edge];
  if (!s->shared) return; /* The price of a taken edge is not needed any more. */
  for (uint32_t i = 0; i < e->n; i++) s->load[graph->uses[e->first + i]] += s->step[graph->uses[e->first + i]];
  for (uint32_t i = 0; i < e->n; i++)
    s->price[graph->uses[e->first + i]] = get_resource_price(s, graph->uses[e->first + i]);
}

static void load_edge(struct by_slots *s, uint32_t edge, double rate) {
  const struct by_graph *graph = s->grower->graph;
  const struct by_graph_edge *e = &graph->edges[edge];
  for (uint32_t i = 0; i < e->n; i++)
    s->load[graph->uses[e->first + i]] += rate * s->inverse[graph->uses[e->first + i]];
}

static void add_slot_load(struct by_slots *s, const struct by_slot *slot, double share) {
  for (uint32_t i = 0; i < slot->n; i++) load_edge(s, slot->edges[i], share * s->target);
}

/* Adds the tree to the loads. Returns by how much that raises the sum of all prices. */
static double add_slot_cost(struct by_slots *s, const struct by_slot *slot) {
  const struct by_graph *graph = s->grower->graph;
  double cost = 0;
  for (uint32_t i = 0; i < slot->n; i++) {
    const struct by_graph_edge *e = &graph->edges[slot->edges[i]];
    for (uint32_t j = 0; j < e->n; j++) {
      uint32_t r = graph->uses[e->first + j];
      cost -= exponential(s->steep * (s->load[r] - 1));
      s->load[r] += slot->share * s->target * s->inverse[r];
      cost += exponential(s->steep * (s->load[r] - 1));
    }
  }
  return cost;
}

void by_slots_recount(struct by_slots *s) {
  memset(s->load, 0, s->grower->graph->n_resources * sizeof *s->load);
  for (uint32_t i = 0; i < s->n; i++) add_slot_load(s, &s->slots[i], s->slots[i].share);
}

double by_slots_throughput(const struct by_slots *s) {
  double max = 0;
  for (uint32_t r = 0; r < s->grower->graph->n_resources; r++) max = fmax(max, s->load[r]);
  return max > 0 ? s->target / max : 0;
}

/* Sets which vertices the slot may use. One optional vertex is changed at random; the change stays if the tree is
 * better. */
static void choose_vertices(struct by_slots *s, const struct by_slot *slot) {
  struct by_grower *g = s->grower;
  uint32_t first = g->graph->n_terminals, n = g->graph->n_vertices - first;
  if (!n) return;
  memcpy(g->allowed + first, slot->allowed, n * sizeof *slot->allowed);
  if (slot->n && by_rng_below(&s->rng, 4)) {
    uint32_t v = first + (uint32_t)by_rng_below(&s->rng, n);
    g->allowed[v] = !g->allowed[v];
  }
}

/* Replaces the slot's tree by the grower's if that costs no more. s->load has the loads by the other trees. */
static void offer_tree(struct by_slots *s, struct by_slot *slot) {
  struct by_grower *g = s->grower;
  size_t bytes = g->graph->n_resources * sizeof *s->load;
  struct by_slot old = *slot;
  s->spare.n = g->n_edges;
  s->spare.share = slot->share;
  memcpy(s->spare.edges, g->edges, g->n_edges * sizeof *g->edges);
  memcpy(s->spare.allowed, g->allowed + g->graph->n_terminals, g->graph->n_vertices - g->graph->n_terminals);
  double cost = old.n ? add_slot_cost(s, &old) : INFINITY;
  memcpy(s->load, s->others, bytes);
  if (add_slot_cost(s, &s->spare) <= cost * (1 + 1e-12)) {
    *slot = s->spare;
    s->spare = old;
    return;
  }
  memcpy(s->load, s->others, bytes);
  add_slot_load(s, &old, old.share);
}

static void regrow_slot(struct by_slots *s, struct by_slot *slot) {
  uint32_t n = s->grower->graph->n_resources;
  size_t bytes = n * sizeof *s->load;
  add_slot_load(s, slot, -slot->share);
  memcpy(s->others, s->load, bytes);
  for (uint32_t r = 0; r < n; r++) s->step[r] = slot->share * s->target * s->inverse[r];
  for (uint32_t r = 0; r < n; r++) s->price[r] = get_resource_price(s, r);
  s->noise_offset = (uint32_t)by_rng_next(&s->rng);
  choose_vertices(s, slot);
  struct by_price price = {get_edge_price, take_edge, s};
  uint32_t root = s->roots ? s->roots[by_rng_below(&s->rng, s->n_roots)]
                           : (uint32_t)by_rng_below(&s->rng, s->grower->graph->n_terminals);
  bool grown = by_grow(s->grower, &price, root, s->max_height);
  memcpy(s->load, s->others, bytes);
  if (grown)
    offer_tree(s, slot);
  else
    add_slot_load(s, slot, slot->share);
}

bool by_slots_sweep(struct by_slots *s) {
  bool full = true;
  by_slots_recount(s); /* This removes accumulated rounding errors. */
  for (uint32_t i = 0; i < s->n; i++) {
    regrow_slot(s, &s->slots[i]);
    full &= s->slots[i].n > 0;
  }
  return full;
}

static bool init_slot(struct by_slots *s, struct by_slot *slot) {
  const struct by_graph *graph = s->grower->graph;
  uint32_t n_optional = graph->n_vertices - graph->n_terminals;
  slot->share = 1.0 / s->n;
  slot->edges = BY_ARENA_ARRAY(&s->arena, uint32_t, graph->n_vertices);
  slot->allowed = BY_ARENA_ARRAY(&s->arena, bool, n_optional);
  if (!slot->edges || !slot->allowed) return false;
  for (uint32_t i = 0; i < n_optional; i++) slot->allowed[i] = true;
  return true;
}

enum banyan_status by_slots_init(struct by_slots *s, struct by_grower *grower, uint32_t n, uint64_t seed) {
  uint32_t n_resources = grower->graph->n_resources;
  *s = (struct by_slots){.grower = grower, .n = n, .max_height = INFINITY, .target = 1, .steep = 1};
  by_rng_init(&s->rng, seed);
  s->slots = BY_ARENA_ARRAY(&s->arena, struct by_slot, n);
  s->load = BY_ARENA_ARRAY(&s->arena, double, n_resources);
  s->others = BY_ARENA_ARRAY(&s->arena, double, n_resources);
  s->step = BY_ARENA_ARRAY(&s->arena, double, n_resources);
  s->price = BY_ARENA_ARRAY(&s->arena, double, n_resources);
  s->inverse = BY_ARENA_ARRAY(&s->arena, double, n_resources);
  s->noise = BY_ARENA_ARRAY(&s->arena, double, NOISE);
  bool ok = !s->arena.failed && init_slot(s, &s->spare);
  for (uint32_t i = 0; ok && i < n; i++) ok = init_slot(s, &s->slots[i]);
  if (!ok) {
    by_slots_fini(s);
    return by_plan_no_memory();
  }
  for (uint32_t r = 0; r < n_resources; r++) s->inverse[r] = 1 / grower->graph->capacity[r];
  for (uint32_t i = 0; i < NOISE; i++) s->noise[i] = 1 + noise_of_prices * by_rng_unit(&s->rng);
  /* Determines whether taking an edge raises the price of others, by counting in `load`, which is 0 before and
   * after. */
  for (uint32_t i = 0; i < grower->graph->n_uses; i++) s->shared |= s->load[grower->graph->uses[i]]++ > 0;
  memset(s->load, 0, n_resources * sizeof *s->load);
  return BANYAN_OK;
}

/* --- Swaps of edges. --- */

static const uint32_t none = UINT32_MAX;
/* Changes above this multiple of the heat, with a probability below e^-20, are not considered. */
static const double max_heats = 20;

static uint32_t *get_tree(const struct by_swaps *s, uint32_t slot) {
  return s->up + (size_t)slot * s->slots->grower->graph->n_vertices;
}

/* --- Trees as edges and as parents. --- */

static void write_tree(const struct by_swaps *s, uint32_t slot) {
  struct by_slot *tree = &s->slots->slots[slot];
  const uint32_t *up = get_tree(s, slot);
  tree->n = 0;
  for (uint32_t v = 0; v < s->slots->grower->graph->n_vertices; v++)
    if (up[v] != none) tree->edges[tree->n++] = up[v];
  qsort(tree->edges, tree->n, sizeof *tree->edges, by_compare_numbers);
}

enum banyan_status by_swaps_init(struct by_swaps *s, struct by_slots *slots) {
  uint32_t n = slots->grower->graph->n_vertices;
  *s = (struct by_swaps){.slots = slots};
  s->up = BY_ARENA_ARRAY(&s->arena, uint32_t, (size_t)slots->n * n);
  s->visited = BY_ARENA_ARRAY(&s->arena, uint32_t, n);
  if (s->arena.failed) {
    by_swaps_fini(s);
    return by_plan_no_memory();
  }
  for (uint32_t i = 0; i < slots->n; i++) {
    by_tree_traverse(slots->grower, slots->slots[i].edges, slots->slots[i].n, 0);
    memcpy(get_tree(s, i), slots->grower->via, n * sizeof *s->up);
  }
  return BANYAN_OK;
}

/* --- The cost of a swap. --- */

static double get_overload_cost(double load) {
  double over = load - 1;
  return over > 0 ? over * over : 0;
}

/* Returns by how much the cost rises if the edge's resources are loaded by `rate` more bit/s. */
static double get_added_cost(const struct by_slots *s, uint32_t edge, double rate) {
  const struct by_graph *graph = s->grower->graph;
  const struct by_graph_edge *e = &graph->edges[edge];
  double cost = 0;
  for (uint32_t i = 0; i < e->n; i++) {
    uint32_t r = graph->uses[e->first + i];
    cost += get_overload_cost(s->load[r] + rate * s->inverse[r]) - get_overload_cost(s->load[r]);
  }
  return cost;
}

/* --- One swap. --- */

struct swap {
  uint32_t *up;
  uint32_t in;        /* The edge to be added. */
  uint32_t from, cut; /* The end of that edge on the side that is cut off, and the vertex below the removed edge. */
  double rate, saved;
  uint32_t equals;
};

/* Finds the edge between `from` and `end` whose removal saves most, with a random choice among equal ones. */
static void find_removable(struct by_swaps *s, struct swap *w, uint32_t from, uint32_t end) {
  const struct by_graph *graph = s->slots->grower->graph;
  for (uint32_t v = from; v != end; v = by_graph_other_end(graph, w->up[v], v)) {
    double saved = -get_added_cost(s->slots, w->up[v], -w->rate);
    if (saved < w->saved) continue;
    w->equals = saved > w->saved ? 1 : w->equals + 1;
    if (w->equals > 1 && by_rng_below(&s->slots->rng, w->equals)) continue;
    w->saved = saved;
    w->from = from;
    w->cut = v;
  }
}

/* Returns the vertex where the paths from a and b towards the root meet. */
static uint32_t find_meeting(struct by_swaps *s, const uint32_t *up, uint32_t a, uint32_t b) {
  const struct by_graph *graph = s->slots->grower->graph;
  s->now++;
  for (s->visited[a] = s->now; up[a] != none; s->visited[a] = s->now, s->work++)
    a = by_graph_other_end(graph, up[a], a);
  for (; s->visited[b] != s->now; s->work++) b = by_graph_other_end(graph, up[b], b);
  return b;
}

/* Reverses the path from the new edge to the removed one. */
static void reverse_path(struct by_swaps *s, const struct swap *w) {
  uint32_t v = w->from, edge = w->in;
  for (;;) {
    uint32_t old = w->up[v];
    w->up[v] = edge;
    if (v == w->cut) return;
    v = by_graph_other_end(s->slots->grower->graph, old, v);
    edge = old;
  }
}

static void try_swap(struct by_swaps *s, double heat, double max) {
  struct by_slots *slots = s->slots;
  const struct by_graph *graph = slots->grower->graph;
  uint32_t slot = (uint32_t)by_rng_below(&slots->rng, slots->n);
  struct swap w = {.up = get_tree(s, slot), .in = (uint32_t)by_rng_below(&slots->rng, graph->n_edges), .saved = -1};
  const struct by_graph_edge *in = &graph->edges[w.in];
  if (w.up[in->a] == w.in || w.up[in->b] == w.in) return;
  w.rate = slots->slots[slot].share * slots->target;
  if (get_added_cost(slots, w.in, w.rate) > max + max_heats * heat) return;
  uint32_t top = find_meeting(s, w.up, in->a, in->b);
  find_removable(s, &w, in->a, top);
  find_removable(s, &w, in->b, top);
  uint32_t out = w.up[w.cut];
  load_edge(slots, out, -w.rate); /* Both edges may load the same resource. */
  double rise = get_added_cost(slots, w.in, w.rate) - w.saved;
  if (rise > 0 && by_rng_unit(&slots->rng) > exp(-rise / heat)) {
    load_edge(slots, out, w.rate);
    return;
  }
  load_edge(slots, w.in, w.rate);
  reverse_path(s, &w);
}

void by_swaps_try(struct by_swaps *s, uint64_t work, double heat) {
  by_slots_recount(s->slots); /* This removes accumulated rounding errors, and shares may have changed. */
  /* No swap saves more than the present cost of the most expensive edge, or only slightly more, since loads change
   * meanwhile. */
  double max = 0;
  for (uint32_t r = 0; r < s->slots->grower->graph->n_resources; r++)
    max = fmax(max, 2 * get_overload_cost(s->slots->load[r]));
  for (s->work = 0; s->work < work; s->work++) try_swap(s, heat, max);
  for (uint32_t i = 0; i < s->slots->n; i++) write_tree(s, i);
}
