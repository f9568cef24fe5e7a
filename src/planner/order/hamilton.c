#include "hamilton.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

static enum banyan_status no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory to look for a ring");
  return BANYAN_ERR_NO_MEMORY;
}

/* --- the graph --- */

enum banyan_status by_adjacency_init(struct by_adjacency *graph, uint32_t n) {
  *graph = (struct by_adjacency){.n = n, .words = (n + 63) / 64};
  if (n > BY_HAMILTON_MOST)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "a ring is looked for among at most %d ranks, not %u", BY_HAMILTON_MOST, n);
  graph->bits = calloc((size_t)n * graph->words + 1, sizeof *graph->bits);
  return graph->bits ? BANYAN_OK : no_memory();
}

void by_adjacency_fini(struct by_adjacency *graph) {
  free(graph->bits);
  *graph = (struct by_adjacency){0};
}

void by_adjacency_join(struct by_adjacency *graph, uint32_t v, uint32_t w) {
  if (v == w) return;
  graph->bits[(size_t)v * graph->words + w / 64] |= 1ull << w % 64;
  graph->bits[(size_t)w * graph->words + v / 64] |= 1ull << v % 64;
}

uint32_t by_adjacency_next(const struct by_adjacency *graph, uint32_t v, uint32_t from) {
  const uint64_t *row = &graph->bits[(size_t)v * graph->words];
  if (from >= graph->n) return NONE;
  uint64_t word = row[from / 64] >> from % 64 << from % 64;
  for (uint32_t i = from / 64;; word = row[i]) {
    if (word) return i * 64 + (uint32_t)__builtin_ctzll(word);
    if (++i == graph->words) return NONE;
  }
}

bool by_hamilton_is_ring(const struct by_adjacency *graph, const uint32_t *order) {
  if (graph->n < 2) return true;
  for (uint32_t i = 0; i < graph->n; i++)
    if (!by_adjacent(graph, order[i], order[(i + 1) % graph->n])) return false;
  return true;
}

/* --- small graphs --- */

/* Paths from the last vertex through sets of the others: best[set * m + v] is the least length of one that goes through
 * all of the set and ends at its member v. */
struct table {
  uint32_t m; /* vertices without the last */
  uint32_t beside[BY_HAMILTON_EXACT];
  float length[BY_HAMILTON_EXACT][BY_HAMILTON_EXACT]; /* INFINITY: no edge */
  float *best;
};

static void list_edges(struct table *t, const struct by_adjacency *graph, const float *length) {
  for (uint32_t v = 0; v < graph->n; v++)
    for (uint32_t w = 0; w < graph->n; w++) {
      bool joined = by_adjacent(graph, v, w);
      t->beside[v] |= (uint32_t)joined << w;
      t->length[v][w] = !joined ? INFINITY : length ? length[(size_t)v * graph->n + w] : 1;
    }
}

/* The vertex before v on the best path through the set; NONE: v is the first, or there is no path. */
static uint32_t best_before(const struct table *t, uint32_t set, uint32_t v, float *length) {
  uint32_t rest = set & ~(1u << v), best = NONE;
  *length = rest ? INFINITY : t->length[t->m][v];
  for (uint32_t left = rest & t->beside[v]; left; left &= left - 1) {
    uint32_t u = (uint32_t)__builtin_ctz(left);
    float through = t->best[(size_t)rest * t->m + u] + t->length[u][v];
    if (through >= *length) continue;
    *length = through;
    best = u;
  }
  return best;
}

static void fill_table(struct table *t) {
  for (uint32_t set = 1; set < 1u << t->m; set++)
    for (uint32_t v = 0; v < t->m; v++)
      if (set >> v & 1) (void)best_before(t, set, v, &t->best[(size_t)set * t->m + v]);
}

/* Whether there is a ring; the shortest goes into `order`. */
static bool read_table(const struct table *t, uint32_t *order) {
  uint32_t set = (1u << t->m) - 1, last = NONE;
  float least = INFINITY, length;
  for (uint32_t v = 0; v < t->m; v++) {
    length = t->best[(size_t)set * t->m + v] + t->length[v][t->m];
    if (length < least) {
      least = length;
      last = v;
    }
  }
  if (last == NONE) return false;
  for (uint32_t i = t->m; i-- > 0;) {
    uint32_t before = best_before(t, set, last, &length);
    order[i + 1] = last;
    set &= ~(1u << last);
    last = before;
  }
  order[0] = t->m;
  return true;
}

/* Lets the ring begin with vertex 0. */
static void turn_to_first(uint32_t *order, uint32_t n) {
  uint32_t copy[BY_HAMILTON_EXACT], at = 0;
  memcpy(copy, order, n * sizeof *order);
  while (copy[at]) at++;
  for (uint32_t i = 0; i < n; i++) order[i] = copy[(at + i) % n];
}

static enum banyan_status find_exactly(const struct by_adjacency *graph, const float *length, uint32_t *order,
                                       struct by_hamilton *out) {
  struct table t = {.m = graph->n - 1};
  list_edges(&t, graph, length);
  t.best = calloc(((size_t)1 << t.m) * t.m + 1, sizeof *t.best);
  if (!t.best) return no_memory();
  fill_table(&t);
  bool found = read_table(&t, order);
  free(t.best);
  if (found) {
    turn_to_first(order, graph->n);
    return BANYAN_OK;
  }
  if (graph->n > 2) BY_TRY(by_hamilton_refute(graph, out));
  if (graph->n == 2 || out->answer == BY_HAMILTON_UNKNOWN)
    *out = (struct by_hamilton){.answer = BY_HAMILTON_NO, .reason = BY_HAMILTON_TRIED_ALL};
  return BANYAN_OK;
}

enum banyan_status by_hamilton_find(const struct by_adjacency *graph, const float *length, uint64_t seed,
                                    uint32_t *order, struct by_hamilton *out) {
  bool found = false;
  *out = (struct by_hamilton){.answer = BY_HAMILTON_YES};
  if (graph->n < 2) return BANYAN_OK;
  if (graph->n <= BY_HAMILTON_EXACT) return find_exactly(graph, length, order, out);
  if (by_hamilton_is_ring(graph, order)) return BANYAN_OK;
  BY_TRY(by_hamilton_refute(graph, out));
  if (out->answer == BY_HAMILTON_NO) return BANYAN_OK;
  BY_TRY(by_hamilton_rotate(graph, seed, order, &found));
  if (found) *out = (struct by_hamilton){.answer = BY_HAMILTON_YES};
  return BANYAN_OK;
}
