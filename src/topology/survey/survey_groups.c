/* Who belongs together: the sum over all pairs inside groups of a weight is made large, where a pair that never got
 * less than its ends can do weighs a little and one that did weighs much below zero. A few rounds in which many flows
 * crossed a link at once then outweigh many in which few did. Maximum-agreement correlation clustering (Bansal, Blum,
 * Chawla 2004), by merging greedily and then moving units, with restarts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "survey_parts.h"
#include "topology_make.h"

enum { RESTARTS = 32 };

/* What a pair of the same group weighs that was not slowed; from which share of what its ends can do on it was; and
 * what being slowed by that share takes off. */
static const double together = 0.1, slowed_below = 0.9, penalty = 2;
static const double doubtful = 0.1;    /* of the pairs across groups, unslowed */
static const double least_share = 0.4; /* of the slower of two ways: it may have been bad luck */
static const double many_ways = 1.25;  /* a unit that does so much more with all than with any one */

double by_level_most(const struct by_level *level, uint32_t u, bool receives) {
  double most = 0;
  for (uint32_t v = 0; v < level->n; v++)
    if (v != u) most = fmax(most, receives ? by_level_rate(level, v, u) : by_level_rate(level, u, v));
  return most;
}

bool by_level_is_mesh(const struct by_level *level, uint32_t group) {
  uint32_t size = 0, spread = 0;
  for (uint32_t u = 0; u < level->n; u++) {
    if (level->group_of[u] != group) continue;
    size++;
    spread += level->out[u] > many_ways * by_level_most(level, u, false);
  }
  return size > 2 && 2 * spread > size;
}

struct clusters {
  uint32_t n;
  const double *weight;   /* n x n */
  double *most[2], *gain; /* what a unit can do with others; scratch */
  uint32_t *cluster_of;
};

/* What the last tournament says of a pair: how slow it was against what its ends can do with others. A link may be full
 * one way only, so both count; but what strikes one flow alone, as a loss that makes it stand still, is not to outweigh
 * what the others say. */
static double weigh(const struct clusters *c, const struct by_level *level, uint32_t u, uint32_t v) {
  double share[2];
  for (int way = 0; way < 2; way++) {
    uint32_t from = way ? v : u, to = way ? u : v;
    double able = fmin(c->most[0][from], c->most[1][to]);
    share[way] = able > 0 ? level->last[(size_t)from * level->n + to] / able : 1;
  }
  double faster = fmax(share[0], share[1]), slower = fmin(share[0], share[1]);
  double both = (faster + fmax(slower, fmin(faster, least_share))) / 2;
  return together - penalty * fmax(0, slowed_below - both);
}

static void weigh_all(struct clusters *c, struct by_level *level) {
  for (uint32_t u = 0; u < c->n; u++) {
    c->cluster_of[u] = u;
    c->most[0][u] = by_level_most(level, u, false);
    c->most[1][u] = by_level_most(level, u, true);
  }
  for (uint32_t u = 0; u < c->n; u++)
    for (uint32_t v = 0; v < c->n; v++)
      if (u != v) level->evidence[(size_t)u * c->n + v] += weigh(c, level, u, v);
}

/* Merges the two clusters that gain most by it; false: none gain. `between` is of clusters, each under its first unit.
 */
static bool merge_best(struct clusters *c, double *between) {
  uint32_t n = c->n, a = 0, b = 0;
  double best = 0;
  for (uint32_t u = 0; u < n; u++)
    for (uint32_t v = u + 1; v < n && c->cluster_of[u] == u; v++)
      if (c->cluster_of[v] == v && between[(size_t)u * n + v] > best) best = between[(size_t)u * n + v], a = u, b = v;
  if (a == b) return false;
  for (uint32_t u = 0; u < n; u++) {
    if (c->cluster_of[u] == b) c->cluster_of[u] = a;
    between[(size_t)MIN(a, u) * n + MAX(a, u)] += u == a ? 0 : between[(size_t)MIN(b, u) * n + MAX(b, u)];
  }
  return true;
}

/* What unit u adds to each cluster, but for itself. */
static void sum_weights(const struct clusters *c, uint32_t u, double *gain) {
  memset(gain, 0, c->n * sizeof *gain);
  for (uint32_t v = 0; v < c->n; v++) gain[c->cluster_of[v]] += c->weight[(size_t)u * c->n + v];
}

/* Moves each unit to the cluster that it fits best, until all are there. */
static void move_units(struct clusters *c) {
  bool moved = true;
  for (uint32_t round = 0; round < c->n && moved; round++) {
    moved = false;
    for (uint32_t u = 0; u < c->n; u++) {
      uint32_t best = c->cluster_of[u];
      sum_weights(c, u, c->gain);
      for (uint32_t k = 0; k < c->n; k++)
        if (c->gain[k] > c->gain[best] + 1e-9) best = k;
      moved |= best != c->cluster_of[u];
      c->cluster_of[u] = best;
    }
  }
}

static double total(const struct clusters *c) {
  double sum = 0;
  for (uint32_t u = 0; u < c->n; u++)
    for (uint32_t v = 0; v < u; v++)
      if (c->cluster_of[u] == c->cluster_of[v]) sum += c->weight[(size_t)u * c->n + v];
  return sum;
}

/* A label that no unit has: there are as many as units, and two have the same. */
static uint32_t free_label(const struct clusters *c) {
  uint32_t label = 0;
  for (uint32_t u = 0; u < c->n; u++)
    if (c->cluster_of[u] == label) {
      label++;
      u = UINT32_MAX; /* from the start */
    }
  return label;
}

/* Takes the cluster of a unit apart: all of it are alone. */
static void dissolve(struct clusters *c, uint32_t unit) {
  uint32_t label = c->cluster_of[unit];
  for (uint32_t u = 0; u < c->n; u++)
    if (c->cluster_of[u] == label && u != unit) c->cluster_of[u] = free_label(c);
}

/* Where many fit several clusters equally, moving one at a time ends early: takes a random cluster apart and starts
 * from there, again and again, and keeps what is better. */
static void search(struct clusters *c, struct by_rng *rng, uint32_t *best) {
  size_t bytes = c->n * sizeof *best;
  move_units(c);
  double most = total(c);
  memcpy(best, c->cluster_of, bytes);
  for (int i = 0; i < RESTARTS; i++) {
    dissolve(c, (uint32_t)by_rng_below(rng, c->n));
    move_units(c);
    double now = total(c);
    if (now > most - 1e-9) {
      most = now;
      memcpy(best, c->cluster_of, bytes);
    }
    memcpy(c->cluster_of, best, bytes);
  }
}

static void number(const struct clusters *c, struct by_level *level) {
  uint32_t *group_of = level->group_of;
  level->n_groups = 0;
  for (uint32_t u = 0; u < c->n; u++) {
    uint32_t v = 0;
    while (c->cluster_of[v] != c->cluster_of[u]) v++;
    group_of[u] = v < u ? group_of[v] : level->n_groups++;
  }
}

/* Whether it may be otherwise: some unit would fit another group too, or much that goes across groups was not slowed,
 * also when all of it went at once. */
static bool doubt(const struct clusters *c) {
  uint32_t across = 0, unslowed = 0;
  for (uint32_t u = 0; u < c->n; u++) {
    sum_weights(c, u, c->gain);
    for (uint32_t k = 0; k < c->n; k++) {
      if (c->cluster_of[k] != c->cluster_of[u]) across++, unslowed += c->weight[(size_t)u * c->n + k] > 0;
      if (k != c->cluster_of[u] && c->gain[k] > 0) return true;
    }
  }
  return unslowed > doubtful * across;
}

enum banyan_status by_survey_group(struct by_level *level, struct by_rng *rng) {
  size_t n = level->n;
  double *memory = malloc((n * n + 3 * n) * sizeof *memory);
  uint32_t *numbers = malloc(2 * n * sizeof *numbers);
  if (memory && numbers) {
    double *between = memory + 3 * n;
    struct clusters c = {.n = level->n, .weight = level->evidence, .cluster_of = numbers, .gain = memory};
    c.most[0] = memory + n;
    c.most[1] = memory + 2 * n;
    weigh_all(&c, level);
    memcpy(between, c.weight, n * n * sizeof *between);
    while (merge_best(&c, between)) {
    }
    search(&c, rng, numbers + n);
    number(&c, level);
    level->doubtful = doubt(&c);
  }
  bool failed = !memory || !numbers;
  free(memory);
  free(numbers);
  return failed ? by_topology_no_memory() : BANYAN_OK;
}
