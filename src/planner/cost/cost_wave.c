/* How the first bytes pass through a tree: each message waits for those before it on its first and its last link. */
#include <math.h>

#include "cost_tree.h"

/* Seconds on the wire of what passes an edge before the vertex at its end goes on. */
static double on_wire(const struct by_cost_wave *wave, const struct by_cost_edge *edge) {
  double bytes = by_cost_chunk(wave->rates, edge->share * wave->bytes);
  return edge->way ? bytes * 8 * wave->rates->wire / edge->way->capacity : 0;
}

/* The same on a link that has idled. */
static double at_once(const struct by_cost_wave *wave, const struct by_cost_edge *edge) {
  return fmax(0, on_wire(wave, edge) - wave->rates->burst);
}

/* From then on, until the vertex at its end has taken it. */
static double to_arrive(const struct by_cost_wave *wave, const struct by_cost_edge *edge) {
  const struct by_cost_rates *rates = wave->rates;
  if (!edge->way) return 0;
  return edge->way->delay + edge->way->n_steps * rates->link + rates->hop + rates->message;
}

static size_t pair_of(const struct by_cost_wave *wave, const struct by_cost_edge *edge) {
  return (size_t)(edge->way - wave->cost->load.pairs);
}

/* Sends over an edge what is at its start at `when`; returns when it has passed. What a link lets through at once moves
 * all that follows to the front. */
static double pass(struct by_cost_wave *wave, const struct by_cost_edge *edge, double when) {
  if (!edge->way) return when;
  const uint32_t *steps = wave->cost->load.steps + edge->way->step;
  double *first = &wave->passed[steps[0]], *last = &wave->passed[steps[edge->way->n_steps - 1]];
  double *before = &wave->before[pair_of(wave, edge)];
  double start = fmax(when, fmax(*first, *last));
  *before = fmin(*before, start);
  *first = *last = start + on_wire(wave, edge);
  return fmax(when, *first - wave->rates->burst);
}

/* What was sent has this still to go, once the edge has carried its last byte. */
static void note_rest(struct by_cost_wave *wave, const struct by_cost_edge *edge, double rest) {
  if (!edge->way) return;
  double *after = &wave->after[pair_of(wave, edge)];
  *after = fmin(*after, to_arrive(wave, edge) + rest);
}

static void clear(struct by_cost_wave *wave, const struct by_cost_edge *edges, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    wave->ready[edges[i].from] = wave->ready[edges[i].to] = 0;
    wave->rest[edges[i].from] = wave->rest[edges[i].to] = 0;
    if (!edges[i].way) continue;
    const uint32_t *steps = wave->cost->load.steps + edges[i].way->step;
    wave->passed[steps[0]] = wave->passed[steps[edges[i].way->n_steps - 1]] = 0;
  }
}

/* The steps of an exchange follow each other; twigs go before and after them. */
static double exchange(const struct by_cost_wave *wave, const struct by_cost_tree *tree) {
  double seconds = 0;
  for (uint32_t i = 0; i < tree->n_up + tree->n_down; i++) {
    const struct by_cost_edge *edge = i < tree->n_up ? &tree->up[i] : &tree->down[i - tree->n_up];
    seconds += at_once(wave, edge) + to_arrive(wave, edge);
  }
  return seconds;
}

double by_cost_wave_run(struct by_cost_wave *wave, const struct by_cost_tree *tree) {
  double end = 0;
  if (tree->exchange) return exchange(wave, tree);
  clear(wave, tree->up, tree->n_up);
  clear(wave, tree->down, tree->n_down);
  for (uint32_t i = 0; i < tree->n_up; i++) {
    const struct by_cost_edge *edge = &tree->up[i];
    double arrival = pass(wave, edge, wave->ready[edge->from]) + to_arrive(wave, edge);
    wave->ready[edge->to] = fmax(wave->ready[edge->to] + wave->rates->message, arrival);
  }
  for (uint32_t i = 0; i < tree->n_down; i++) {
    const struct by_cost_edge *edge = &tree->down[i];
    wave->ready[edge->to] = pass(wave, edge, wave->ready[edge->from]) + to_arrive(wave, edge);
    end = fmax(end, wave->ready[edge->to]);
  }
  for (uint32_t i = tree->n_down; i-- > 0;) {
    const struct by_cost_edge *edge = &tree->down[i];
    note_rest(wave, edge, wave->rest[edge->to]);
    double rest = at_once(wave, edge) + to_arrive(wave, edge) + wave->rest[edge->to];
    wave->rest[edge->from] = fmax(wave->rest[edge->from], rest);
  }
  for (uint32_t i = tree->n_up; i-- > 0;) {
    const struct by_cost_edge *edge = &tree->up[i];
    note_rest(wave, edge, wave->rest[edge->to]);
    wave->rest[edge->from] = at_once(wave, edge) + to_arrive(wave, edge) + wave->rest[edge->to];
  }
  return end;
}
