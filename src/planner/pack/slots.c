#include "grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_make.h"

/* Equal prices are told apart by chance, or all trees would make the same choice. */
static const double noise_of_prices = 0.01;
enum { NOISE = 4096 };

/* exp(x) to within 1e-8, without branches so that loops over resources become vector code. Beyond 300 it goes on as a
 * line, since sums of prices must stay numbers. 2^x is 2^n * 2^f with |f| <= 1/2: n goes into the exponent. */
static inline double exponential(double x) {
  static const double highest = 300, lowest = -700, shift = 0x1.8p52; /* makes the last bits of a sum an integer */
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

/* Of one more step: its integral, up to a factor that all have. */
static inline double price_of_resource(const struct by_slots *s, uint32_t r) {
  double rise = s->steep * s->step[r];
  return exponential(s->steep * (s->load[r] + s->step[r] - 1)) * (rise / (1 + rise));
}

static double price_of_edge(void *context, uint32_t edge) {
  const struct by_slots *s = context;
  const struct by_graph *graph = s->grower->graph;
  const struct by_graph_edge *e = &graph->edges[edge];
  double sum = 0;
  for (uint32_t i = 0; i < e->n; i++) sum += s->price[graph->uses[e->first + i]];
  return sum * s->noise[(edge + s->luck) % NOISE];
}

static void take_edge(void *context, uint32_t edge) {
  struct by_slots *s = context;
  const struct by_graph *graph = s->grower->graph;
  const struct by_graph_edge *e = &graph->edges[edge];
  if (!s->shared) return; /* nobody asks for the price of an edge that is taken */
  for (uint32_t i = 0; i < e->n; i++) s->load[graph->uses[e->first + i]] += s->step[graph->uses[e->first + i]];
  for (uint32_t i = 0; i < e->n; i++)
    s->price[graph->uses[e->first + i]] = price_of_resource(s, graph->uses[e->first + i]);
}

static void load_edge(struct by_slots *s, uint32_t edge, double rate) {
  const struct by_graph *graph = s->grower->graph;
  const struct by_graph_edge *e = &graph->edges[edge];
  for (uint32_t i = 0; i < e->n; i++)
    s->load[graph->uses[e->first + i]] += rate * s->inverse[graph->uses[e->first + i]];
}

static void put(struct by_slots *s, const struct by_slot *slot, double share) {
  for (uint32_t i = 0; i < slot->n; i++) load_edge(s, slot->edges[i], share * s->target);
}

/* Adds the tree to the loads; by how much that raises the sum of all prices. */
static double put_at_cost(struct by_slots *s, const struct by_slot *slot) {
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
  for (uint32_t i = 0; i < s->n; i++) put(s, &s->slots[i], s->slots[i].share);
}

double by_slots_throughput(const struct by_slots *s) {
  double most = 0;
  for (uint32_t r = 0; r < s->grower->graph->n_resources; r++) most = fmax(most, s->load[r]);
  return most > 0 ? s->target / most : 0;
}

/* What the slot may use, with one optional vertex in or out by chance: it stays so if the tree is better. */
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

/* The new tree is in the grower, what the others load in s->load. The tree takes the slot if it costs no more. */
static void offer_tree(struct by_slots *s, struct by_slot *slot) {
  struct by_grower *g = s->grower;
  size_t bytes = g->graph->n_resources * sizeof *s->load;
  struct by_slot old = *slot;
  s->spare.n = g->n_edges;
  s->spare.share = slot->share;
  memcpy(s->spare.edges, g->edges, g->n_edges * sizeof *g->edges);
  memcpy(s->spare.allowed, g->allowed + g->graph->n_terminals, g->graph->n_vertices - g->graph->n_terminals);
  double cost = old.n ? put_at_cost(s, &old) : INFINITY;
  memcpy(s->load, s->others, bytes);
  if (put_at_cost(s, &s->spare) <= cost * (1 + 1e-12)) {
    *slot = s->spare;
    s->spare = old;
    return;
  }
  memcpy(s->load, s->others, bytes);
  put(s, &old, old.share);
}

static void regrow(struct by_slots *s, struct by_slot *slot) {
  uint32_t n = s->grower->graph->n_resources;
  size_t bytes = n * sizeof *s->load;
  put(s, slot, -slot->share);
  memcpy(s->others, s->load, bytes);
  for (uint32_t r = 0; r < n; r++) s->step[r] = slot->share * s->target * s->inverse[r];
  for (uint32_t r = 0; r < n; r++) s->price[r] = price_of_resource(s, r);
  s->luck = (uint32_t)by_rng_next(&s->rng);
  choose_vertices(s, slot);
  struct by_price price = {price_of_edge, take_edge, s};
  uint32_t root = s->roots ? s->roots[by_rng_below(&s->rng, s->n_roots)]
                           : (uint32_t)by_rng_below(&s->rng, s->grower->graph->n_terminals);
  bool grown = by_grow(s->grower, &price, root, s->most_height);
  memcpy(s->load, s->others, bytes);
  if (grown)
    offer_tree(s, slot);
  else
    put(s, slot, slot->share);
}

bool by_slots_sweep(struct by_slots *s) {
  bool full = true;
  by_slots_recount(s); /* rounding adds up */
  for (uint32_t i = 0; i < s->n; i++) {
    regrow(s, &s->slots[i]);
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
  *s = (struct by_slots){.grower = grower, .n = n, .most_height = INFINITY, .target = 1, .steep = 1};
  by_arena_init(&s->arena);
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
  /* Whether an edge that is taken makes another one dearer: counted in `load`, which is 0 before and after. */
  for (uint32_t i = 0; i < grower->graph->n_uses; i++) s->shared |= s->load[grower->graph->uses[i]]++ > 0;
  memset(s->load, 0, n_resources * sizeof *s->load);
  return BANYAN_OK;
}

void by_slots_fini(struct by_slots *s) {
  by_arena_fini(&s->arena);
}

/* --- swaps of edges --- */

static const uint32_t none = UINT32_MAX;
static const double never = 20; /* times the heat: with a probability of e^-20 */

static uint32_t *tree_of(const struct by_swaps *s, uint32_t slot) {
  return s->up + (size_t)slot * s->slots->grower->graph->n_vertices;
}

/* --- trees as edges and as ways up --- */

static void write_tree(const struct by_swaps *s, uint32_t slot) {
  struct by_slot *tree = &s->slots->slots[slot];
  const uint32_t *up = tree_of(s, slot);
  tree->n = 0;
  for (uint32_t v = 0; v < s->slots->grower->graph->n_vertices; v++)
    if (up[v] != none) tree->edges[tree->n++] = up[v];
  qsort(tree->edges, tree->n, sizeof *tree->edges, by_compare_numbers);
}

enum banyan_status by_swaps_init(struct by_swaps *s, struct by_slots *slots) {
  uint32_t n = slots->grower->graph->n_vertices;
  *s = (struct by_swaps){.slots = slots};
  by_arena_init(&s->arena);
  s->up = BY_ARENA_ARRAY(&s->arena, uint32_t, (size_t)slots->n * n);
  s->visited = BY_ARENA_ARRAY(&s->arena, uint32_t, n);
  if (s->arena.failed) {
    by_swaps_fini(s);
    return by_plan_no_memory();
  }
  for (uint32_t i = 0; i < slots->n; i++) {
    by_tree_walk(slots->grower, slots->slots[i].edges, slots->slots[i].n, 0);
    memcpy(tree_of(s, i), slots->grower->via, n * sizeof *s->up);
  }
  return BANYAN_OK;
}

void by_swaps_fini(struct by_swaps *s) {
  by_arena_fini(&s->arena);
}

/* --- what a swap costs --- */

static double cost_of(double load) {
  double over = load - 1;
  return over > 0 ? over * over : 0;
}

/* What it would cost to load the edge's resources by `rate` more. */
static double cost_of_more(const struct by_slots *s, uint32_t edge, double rate) {
  const struct by_graph *graph = s->grower->graph;
  const struct by_graph_edge *e = &graph->edges[edge];
  double cost = 0;
  for (uint32_t i = 0; i < e->n; i++) {
    uint32_t r = graph->uses[e->first + i];
    cost += cost_of(s->load[r] + rate * s->inverse[r]) - cost_of(s->load[r]);
  }
  return cost;
}

/* --- one swap --- */

struct swap {
  uint32_t *up;
  uint32_t in;        /* the edge that comes in */
  uint32_t from, cut; /* its end on the side that is cut off, and that side's top */
  double rate, saved;
  uint32_t equals;
};

/* Looks at the way up from `from` to `end`: at the edge whose going saves most, by chance at one of several such. */
static void look_along(struct by_swaps *s, struct swap *w, uint32_t from, uint32_t end) {
  const struct by_graph *graph = s->slots->grower->graph;
  for (uint32_t v = from; v != end; v = by_graph_other_end(graph, w->up[v], v)) {
    double saved = -cost_of_more(s->slots, w->up[v], -w->rate);
    if (saved < w->saved) continue;
    w->equals = saved > w->saved ? 1 : w->equals + 1;
    if (w->equals > 1 && by_rng_below(&s->slots->rng, w->equals)) continue;
    w->saved = saved;
    w->from = from;
    w->cut = v;
  }
}

/* Where the ways up from a and b meet. */
static uint32_t meeting(struct by_swaps *s, const uint32_t *up, uint32_t a, uint32_t b) {
  const struct by_graph *graph = s->slots->grower->graph;
  s->now++;
  for (s->visited[a] = s->now; up[a] != none; s->visited[a] = s->now, s->work++)
    a = by_graph_other_end(graph, up[a], a);
  for (; s->visited[b] != s->now; s->work++) b = by_graph_other_end(graph, up[b], b);
  return b;
}

/* Turns the way from the new edge to the old one round. */
static void turn(struct by_swaps *s, const struct swap *w) {
  uint32_t v = w->from, edge = w->in;
  for (;;) {
    uint32_t old = w->up[v];
    w->up[v] = edge;
    if (v == w->cut) return;
    v = by_graph_other_end(s->slots->grower->graph, old, v);
    edge = old;
  }
}

static void try_swap(struct by_swaps *s, double heat, double most) {
  struct by_slots *slots = s->slots;
  const struct by_graph *graph = slots->grower->graph;
  uint32_t slot = (uint32_t)by_rng_below(&slots->rng, slots->n);
  struct swap w = {.up = tree_of(s, slot), .in = (uint32_t)by_rng_below(&slots->rng, graph->n_edges), .saved = -1};
  const struct by_graph_edge *in = &graph->edges[w.in];
  if (w.up[in->a] == w.in || w.up[in->b] == w.in) return;
  w.rate = slots->slots[slot].share * slots->target;
  if (cost_of_more(slots, w.in, w.rate) > most + never * heat) return;
  uint32_t top = meeting(s, w.up, in->a, in->b);
  look_along(s, &w, in->a, top);
  look_along(s, &w, in->b, top);
  uint32_t out = w.up[w.cut];
  load_edge(slots, out, -w.rate); /* both may load the same resource */
  double rise = cost_of_more(slots, w.in, w.rate) - w.saved;
  if (rise > 0 && by_rng_unit(&slots->rng) > exp(-rise / heat)) {
    load_edge(slots, out, w.rate);
    return;
  }
  load_edge(slots, w.in, w.rate);
  turn(s, &w);
}

void by_swaps_try(struct by_swaps *s, uint64_t work, double heat) {
  by_slots_recount(s->slots); /* rounding adds up, and shares may have changed */
  /* No swap saves more than the dearest edge costs now; nearly so, as loads change meanwhile. */
  double most = 0;
  for (uint32_t r = 0; r < s->slots->grower->graph->n_resources; r++) most = fmax(most, 2 * cost_of(s->slots->load[r]));
  for (s->work = 0; s->work < work; s->work++) try_swap(s, heat, most);
  for (uint32_t i = 0; i < s->slots->n; i++) write_tree(s, i);
}
