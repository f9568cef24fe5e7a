#include "slots.h"

#include <math.h>
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

static void put(struct by_slots *s, const struct by_slot *slot, double share) {
  const struct by_graph *graph = s->grower->graph;
  for (uint32_t i = 0; i < slot->n; i++) {
    const struct by_graph_edge *e = &graph->edges[slot->edges[i]];
    for (uint32_t j = 0; j < e->n; j++) {
      uint32_t r = graph->uses[e->first + j];
      s->load[r] += share * s->target * s->inverse[r];
    }
  }
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

/* Makes ready for a tree of this share where the others load what they do. */
static void set_prices(struct by_slots *s, double share) {
  uint32_t n = s->grower->graph->n_resources;
  for (uint32_t r = 0; r < n; r++) s->step[r] = share * s->target * s->inverse[r];
  for (uint32_t r = 0; r < n; r++) s->price[r] = price_of_resource(s, r);
  s->luck = (uint32_t)by_rng_next(&s->rng);
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
  size_t bytes = s->grower->graph->n_resources * sizeof *s->load;
  put(s, slot, -slot->share);
  memcpy(s->others, s->load, bytes);
  set_prices(s, slot->share);
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

/* Whether an edge that is taken makes another one dearer. Counts in `load`, which is 0 before and after. */
static bool shares_resources(struct by_slots *s) {
  const struct by_graph *graph = s->grower->graph;
  bool shared = false;
  for (uint32_t i = 0; i < graph->n_uses; i++) shared |= s->load[graph->uses[i]]++ > 0;
  memset(s->load, 0, graph->n_resources * sizeof *s->load);
  return shared;
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
  bool ok =
      s->slots && s->load && s->others && s->step && s->price && s->inverse && s->noise && init_slot(s, &s->spare);
  for (uint32_t i = 0; ok && i < n; i++) ok = init_slot(s, &s->slots[i]);
  if (!ok) {
    by_slots_fini(s);
    return by_plan_no_memory();
  }
  for (uint32_t r = 0; r < n_resources; r++) s->inverse[r] = 1 / grower->graph->capacity[r];
  for (uint32_t i = 0; i < NOISE; i++) s->noise[i] = 1 + noise_of_prices * by_rng_unit(&s->rng);
  s->shared = shares_resources(s);
  return BANYAN_OK;
}

void by_slots_fini(struct by_slots *s) {
  by_arena_fini(&s->arena);
}
