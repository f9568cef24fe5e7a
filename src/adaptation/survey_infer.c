/* Infers a topology from what a survey measured, level by level: each unit is a node, and a switch stands for a group
 * of units at the next level. Delays are those of the tree: the delay from u to its switch is (uv + uw - vw) / 2 for
 * any v in its group and any w. */
#include "survey_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "order.h"
#include "thresholds.h"
#include "topology_make.h"

/* --- groups --- */

/* Finds which units belong together, by maximising the sum of weights of all pairs inside groups. A pair that was never
 * slowed below what its ends can do has a small positive weight, a pair that was has a large negative one. So a few
 * rounds in which many flows crossed a link at once outweigh many in which few did. Maximum-agreement correlation
 * clustering (Bansal, Blum, Chawla 2004), by greedy merging and then moving units, with restarts. */

enum { RESTARTS = 32 };

/* Returns the largest rate that u sent to, or received from, any one other unit. Cost: n. */
static double level_max(const struct by_survey_level *level, uint32_t u, bool receives) {
  double max = 0;
  for (uint32_t v = 0; v < level->n; v++)
    if (v != u) max = fmax(max, receives ? by_level_rate(level, v, u) : by_level_rate(level, u, v));
  return max;
}

/* Returns whether units of a group reach several others at once much faster than any one, since more than one link
 * joins them. */
static bool level_is_mesh(const struct by_survey_level *level, uint32_t group) {
  uint32_t size = 0, faster = 0;
  for (uint32_t u = 0; u < level->n; u++) {
    if (level->group_of[u] != group) continue;
    size++;
    faster += level->out[u] > by_limit_mesh * level_max(level, u, false);
  }
  return size > 2 && 2 * faster > size;
}

struct clusters {
  uint32_t n;
  const double *weight;  /* Weights, n x n. */
  double *max[2], *gain; /* The rates that units reach with others, by direction; scratch. */
  uint32_t *cluster_of;
};

/* Returns the weight of what the last tournament shows about a pair: how slow it was in comparison with what its ends
 * reach with others. A link may be full in one direction only, so both count; but what affects one flow alone, such as
 * a loss that stops it, must not outweigh what the others show. */
static double weigh(const struct clusters *c, const struct by_survey_level *level, uint32_t u, uint32_t v) {
  double share[2];
  for (int direction = 0; direction < 2; direction++) {
    uint32_t from = direction ? v : u, to = direction ? u : v;
    double able = fmin(c->max[0][from], c->max[1][to]);
    share[direction] = able > 0 ? level->last[(size_t)from * level->n + to] / able : 1;
  }
  double faster = fmax(share[0], share[1]), slower = fmin(share[0], share[1]);
  double both = (faster + fmax(slower, fmin(faster, by_limit_min_share))) / 2;
  return by_limit_together - by_limit_penalty * fmax(0, by_limit_full - both);
}

/* Merges the two clusters whose merging gains most; false: none gains. `between` has the gains of pairs of clusters,
 * each under its first unit. */
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

/* Computes what unit u itself adds to each cluster. */
static void sum_weights(const struct clusters *c, uint32_t u, double *gain) {
  memset(gain, 0, c->n * sizeof *gain);
  for (uint32_t v = 0; v < c->n; v++) gain[c->cluster_of[v]] += c->weight[(size_t)u * c->n + v];
}

/* Moves each unit to the cluster that it fits best, until none moves. */
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

/* Returns a label that no unit has. There is one, since there are as many labels as units and two units share one. */
static uint32_t free_label(const struct clusters *c) {
  uint32_t label = 0;
  for (uint32_t u = 0; u < c->n; u++)
    if (c->cluster_of[u] == label) {
      label++;
      u = UINT32_MAX; /* Begins again. */
    }
  return label;
}

/* Searches on where moving one unit at a time ends early, as many units fit several clusters: takes a random cluster
 * apart, moves units again, and keeps the result if it is better. */
static void search(struct clusters *c, struct by_rng *rng, uint32_t *best) {
  size_t bytes = c->n * sizeof *best;
  move_units(c);
  double max = total(c);
  memcpy(best, c->cluster_of, bytes);
  for (int i = 0; i < RESTARTS; i++) {
    uint32_t unit = (uint32_t)by_rng_below(rng, c->n), label = c->cluster_of[unit];
    for (uint32_t u = 0; u < c->n; u++)
      if (c->cluster_of[u] == label && u != unit) c->cluster_of[u] = free_label(c);
    move_units(c);
    double now = total(c);
    if (now > max - 1e-9) {
      max = now;
      memcpy(best, c->cluster_of, bytes);
    }
    memcpy(c->cluster_of, best, bytes);
  }
}

static void number(const struct clusters *c, struct by_survey_level *level) {
  uint32_t *group_of = level->group_of;
  level->n_groups = 0;
  for (uint32_t u = 0; u < c->n; u++) {
    uint32_t v = 0;
    while (c->cluster_of[v] != c->cluster_of[u]) v++;
    group_of[u] = v < u ? group_of[v] : level->n_groups++;
  }
}

/* Returns whether the grouping is doubtful: some unit would fit another group too, or much that goes across groups was
 * not slowed, also when all of it went at once. */
static bool is_doubtful(const struct clusters *c) {
  uint32_t across = 0, unslowed = 0;
  for (uint32_t u = 0; u < c->n; u++) {
    sum_weights(c, u, c->gain);
    for (uint32_t k = 0; k < c->n; k++) {
      if (c->cluster_of[k] != c->cluster_of[u]) across++, unslowed += c->weight[(size_t)u * c->n + k] > 0;
      if (k != c->cluster_of[u] && c->gain[k] > 0) return true;
    }
  }
  return unslowed > (1 - by_limit_full) * across;
}

/* Computes the rates that units reach with any one other. A unit that has only met units behind a full link did less;
 * then it is its rate with all, up to the median rate of units with one. `scratch` has capacity for n. */
static void fill_max(const struct by_survey_level *level, double *const max[2], double *scratch) {
  for (int direction = 0; direction < 2; direction++) {
    for (uint32_t u = 0; u < level->n; u++) scratch[u] = max[direction][u] = level_max(level, u, direction == 1);
    qsort(scratch, level->n, sizeof *scratch, by_order_numbers);
    double usual = scratch[level->n / 2];
    const double *all = direction ? level->in : level->out;
    for (uint32_t u = 0; u < level->n; u++) max[direction][u] = fmax(max[direction][u], fmin(all[u], usual));
  }
}

enum banyan_status by_survey_group(struct by_survey_level *level, struct by_rng *rng) {
  size_t n = level->n;
  double *memory = malloc((n * n + 3 * n) * sizeof *memory);
  uint32_t *numbers = malloc(2 * n * sizeof *numbers);
  if (memory && numbers) {
    double *between = memory + 3 * n;
    struct clusters c = {.n = level->n, .weight = level->evidence, .cluster_of = numbers, .gain = memory};
    c.max[0] = memory + n;
    c.max[1] = memory + 2 * n;
    for (uint32_t u = 0; u < n; u++) c.cluster_of[u] = u;
    fill_max(level, c.max, c.gain);
    for (uint32_t u = 0; u < n; u++)
      for (uint32_t v = 0; v < n; v++)
        if (u != v && level->last[u * n + v] >= 0) level->evidence[u * n + v] += weigh(&c, level, u, v);
    memcpy(between, c.weight, n * n * sizeof *between);
    while (merge_best(&c, between)) {
    }
    search(&c, rng, numbers + n);
    number(&c, level);
    level->doubtful = is_doubtful(&c);
  }
  bool failed = !memory || !numbers;
  free(memory);
  free(numbers);
  return failed ? by_topology_no_memory() : BANYAN_OK;
}

enum { THIRDS = 16 };

struct sketch {
  const struct by_survey *survey;
  struct by_topology_builder builder;
  const struct by_survey_level *level;
  double *out, *in, *rate; /* Rates of the level, with nearly equal ones made equal; `rate` as level->sum. */
  double *delay, *away;    /* Seconds between units, and from each unit to its switch. */
  uint32_t *node;          /* The node that stands for each unit. */
  uint32_t n_switches;
  bool has_others; /* Hosts that were not surveyed are reached through a switch. */
};

/* ---- numbers */

static int ascending(const void *a, const void *b) {
  double x = **(double *const *)a, y = **(double *const *)b;
  return (x > y) - (x < y);
}

static double three_digits(double value) {
  if (!(value > 0)) return 0;
  double unit = pow(10, floor(log10(value)) - 2);
  return unit < 1 ? round(value / unit) / round(1 / unit) : round(value / unit) * unit;
}

/* Makes nearly equal values equal: each run becomes its mean. In a run no value is more than `max` times the smallest
 * one, nor by_limit_equal times the one below it. */
static enum banyan_status make_alike(double *values, size_t n, double max) {
  double **sorted = malloc((n + 1) * sizeof *sorted);
  if (!sorted) return by_topology_no_memory();
  for (size_t i = 0; i < n; i++) sorted[i] = &values[i];
  qsort(sorted, n, sizeof *sorted, ascending);
  for (size_t first = 0, end; first < n; first = end) {
    double min = *sorted[first], below = min, sum = 0;
    for (end = first; end < n && *sorted[end] <= fmin(min * max, below * by_limit_equal); end++)
      sum += below = *sorted[end];
    for (size_t i = first; i < end; i++) *sorted[i] = three_digits(sum / (double)(end - first));
  }
  free(sorted);
  return BANYAN_OK;
}

/* Takes the rates of the level: the total of a unit is at least its rate with any one other. */
static enum banyan_status take_rates(struct sketch *s) {
  const struct by_survey_level *level = s->level;
  uint32_t n = level->n;
  for (uint32_t u = 0; u < n; u++) {
    s->out[u] = fmax(level->out[u], level_max(level, u, false));
    s->in[u] = fmax(level->in[u], level_max(level, u, true));
    for (uint32_t v = 0; v < n; v++) s->rate[(size_t)u * n + v] = u == v ? 0 : by_level_rate(level, u, v);
  }
  for (uint32_t u = 0; u < n; u++)
    for (uint32_t v = 0; v < n; v++)
      if (u != v && !(level->times[(size_t)u * n + v] > 0)) s->rate[(size_t)u * n + v] = fmin(s->out[u], s->in[v]);
  BY_TRY(make_alike(s->out, 2 * (size_t)n, by_limit_equal)); /* `in` follows it in memory. */
  return make_alike(s->rate, (size_t)n * n, by_limit_equal);
}

/* ---- delays */

/* Computes the delay from unit u to the point where its group meets. */
static double reckon_away(const struct sketch *s, uint32_t u) {
  uint32_t n = s->level->n, step = MAX(n / THIRDS, 1), terms = 0;
  const double *d = s->delay;
  double sum = 0, max = INFINITY;
  for (uint32_t v = 0; v < n; v++) {
    if (v == u || s->level->group_of[v] != s->level->group_of[u]) continue;
    max = fmin(max, d[(size_t)u * n + v]);
    for (uint32_t w = (u + v) % step; w < n; w += step) {
      if (w == u || w == v) continue;
      sum += (d[(size_t)u * n + v] + d[(size_t)u * n + w] - d[(size_t)v * n + w]) / 2;
      terms++;
    }
  }
  return terms ? fmin(fmax(sum / terms, 0), max) : isfinite(max) ? max / 2 : 0;
}

/* Computes the delays between the groups, into the same memory: no group has a number above that of its first unit. */
static enum banyan_status raise_delays(struct sketch *s) {
  const struct by_survey_level *level = s->level;
  uint32_t n = level->n, m = level->n_groups;
  double *sum = calloc((size_t)m * m + 1, sizeof *sum);
  uint32_t *terms = calloc((size_t)m * m + 1, sizeof *terms);
  for (uint32_t u = 0; sum && terms && u < n; u++)
    for (uint32_t v = 0; v < n; v++) {
      size_t place = (size_t)level->group_of[u] * m + level->group_of[v];
      sum[place] += fmax(s->delay[(size_t)u * n + v] - s->away[u] - s->away[v], 0);
      terms[place]++;
    }
  for (size_t i = 0; sum && terms && i < (size_t)m * m; i++) s->delay[i] = terms[i] ? sum[i] / terms[i] : 0;
  bool failed = !sum || !terms;
  free(sum);
  free(terms);
  return failed ? by_topology_no_memory() : BANYAN_OK;
}

/* ---- nodes and links */

/* Adds a switch with the first name of that kind that no host has. */
static enum banyan_status add_switch(struct sketch *s, const char *kind, uint32_t *out) {
  char name[32];
  do snprintf(name, sizeof name, "%s%u", kind, s->n_switches++);
  while (by_topology_builder_find(&s->builder, name) != UINT32_MAX);
  return by_topology_builder_add(&s->builder, BY_NODE_SWITCH, name, out);
}

static enum banyan_status link_nodes(struct sketch *s, uint32_t a, uint32_t b, double there, double back,
                                     double delay) {
  struct by_link *link;
  if (!(there > 0) || !(back > 0))
    return by_fail(BANYAN_ERR_TOPOLOGY, "nothing was measured between \"%s\" and \"%s\"",
                   by_topology_builder_node(&s->builder, a)->name, by_topology_builder_node(&s->builder, b)->name);
  BY_TRY(by_topology_builder_add_link(&s->builder, a, b, there, three_digits(delay), &link));
  link->capacity[BY_BA].all = back;
  return BANYAN_OK;
}

static enum banyan_status link_pair(struct sketch *s, uint32_t u, uint32_t v) {
  size_t n = s->level->n;
  return link_nodes(s, s->node[u], s->node[v], s->rate[u * n + v], s->rate[v * n + u], s->delay[u * n + v]);
}

/* Limits unit u to its total rate, if that is less than what its links to the units of its mesh carry, of those that
 * were in a fan with it. */
static enum banyan_status limit_unit(struct sketch *s, uint32_t u, uint32_t group) {
  uint32_t n = s->level->n, parts = by_survey_parts(s->survey, n);
  double out = 0, in = 0;
  for (uint32_t v = u % parts; v < n; v += parts)
    if (group == UINT32_MAX || s->level->group_of[v] == group)
      out += s->rate[(size_t)u * n + v], in += s->rate[(size_t)v * n + u];
  if (s->out[u] >= by_limit_alike * out && s->in[u] >= by_limit_alike * in) return BANYAN_OK;
  struct by_node *node = by_topology_builder_node(&s->builder, s->node[u]);
  if (node->kind == BY_NODE_HOST) {
    node->out.all = s->out[u];
    node->in.all = s->in[u];
    return BANYAN_OK;
  }
  uint32_t border;
  BY_TRY(add_switch(s, "border", &border));
  BY_TRY(link_nodes(s, s->node[u], border, s->out[u], s->in[u], 0));
  s->node[u] = border;
  return BANYAN_OK;
}

/* Adds a link for each pair of the group; UINT32_MAX: of all units. */
static enum banyan_status add_mesh(struct sketch *s, uint32_t group) {
  uint32_t n = s->level->n;
  const uint32_t *group_of = s->level->group_of;
  for (uint32_t u = 0; u < n; u++)
    if (group == UINT32_MAX || group_of[u] == group) BY_TRY(limit_unit(s, u, group));
  for (uint32_t u = 0; u < n; u++)
    for (uint32_t v = u + 1; v < n; v++)
      if (group == UINT32_MAX || (group_of[u] == group && group_of[v] == group)) BY_TRY(link_pair(s, u, v));
  return BANYAN_OK;
}

/* Adds a switch, and links to all units of the group; UINT32_MAX: to all units. */
static enum banyan_status add_star(struct sketch *s, uint32_t group, uint32_t *centre) {
  BY_TRY(add_switch(s, "switch", centre));
  for (uint32_t u = 0; u < s->level->n; u++)
    if (group == UINT32_MAX || s->level->group_of[u] == group)
      BY_TRY(link_nodes(s, s->node[u], *centre, s->out[u], s->in[u], s->away[u]));
  return BANYAN_OK;
}

/* ---- levels */

/* Makes the groups the units of the next level. */
static enum banyan_status join_groups(struct sketch *s) {
  const struct by_survey_level *level = s->level;
  for (uint32_t g = 0; g < level->n_groups; g++) {
    uint32_t size = 0, first = UINT32_MAX, node;
    for (uint32_t u = 0; u < level->n; u++)
      if (level->group_of[u] == g && size++ == 0) first = u;
    node = s->node[first];
    if (size > 1) {
      if (level == s->survey->levels) { /* Hosts of a group are named after it. */
        char text[32];
        const char *kept;
        snprintf(text, sizeof text, "group%u", g);
        BY_TRY(by_topology_builder_keep(&s->builder, text, &kept));
        for (uint32_t u = 0; u < level->n; u++)
          if (level->group_of[u] == g) by_topology_builder_node(&s->builder, s->node[u])->group = kept;
      }
      BY_TRY(add_star(s, g, &node));
      if (level_is_mesh(level, g)) BY_TRY(add_mesh(s, g));
    }
    s->node[g] = node; /* g is at most the number of its first unit, and lower units are done. */
  }
  return raise_delays(s);
}

static enum banyan_status infer(struct sketch *s, const char *const *hosts) {
  const struct by_survey *survey = s->survey;
  for (uint32_t h = 0; h < survey->n; h++)
    BY_TRY(by_topology_builder_add(&s->builder, BY_NODE_HOST, hosts[h], &s->node[h]));
  for (uint32_t i = 0; i < survey->n_levels; i++) {
    s->level = &survey->levels[i];
    s->in = s->out + s->level->n;
    BY_TRY(take_rates(s));
    for (uint32_t u = 0; u < s->level->n; u++) s->away[u] = reckon_away(s, u);
    if (i + 1 < survey->n_levels) BY_TRY(join_groups(s));
  }
  uint32_t centre;
  bool is_mesh = s->level->n > 2 && (s->level->n_groups > 1 || level_is_mesh(s->level, 0));
  if (s->level->n == 2 && !s->has_others) return link_pair(s, 0, 1);
  if (is_mesh) BY_TRY(add_mesh(s, UINT32_MAX));
  return is_mesh && !s->has_others ? BANYAN_OK : add_star(s, UINT32_MAX, &centre);
}

static enum banyan_status allocate_arrays(struct sketch *s) {
  size_t n = s->survey->n;
  s->out = malloc((2 * n * n + 3 * n) * sizeof *s->out);
  s->node = malloc(n * sizeof *s->node);
  if (!s->out || !s->node) return by_topology_no_memory();
  s->away = s->out + 2 * n;
  s->rate = s->away + n;
  s->delay = s->rate + n * n;
  for (size_t u = 0; u < n; u++)
    for (size_t v = 0; v < n; v++)
      s->delay[u * n + v] = u == v ? 0 : fmin(s->survey->delay[u * n + v], s->survey->delay[v * n + u]);
  return BANYAN_OK;
}

static enum banyan_status infer_topology(const struct by_survey *survey, bool has_others, const char *name,
                                         const char *const *hosts, struct by_topology **out) {
  struct sketch s = {.survey = survey, .has_others = has_others};
  if (survey->phase != BY_SURVEY_OVER)
    return by_fail(BANYAN_ERR_ARGUMENT, "the survey is not over: there is more to measure");
  BY_TRY(by_topology_builder_init(&s.builder, name));
  enum banyan_status status = allocate_arrays(&s);
  if (status == BANYAN_OK) status = infer(&s, hosts);
  status = by_topology_builder_end(&s.builder, status, NULL, out);
  free(s.out);
  free(s.node);
  return status;
}

enum banyan_status by_survey_infer(const struct by_survey *survey, const char *name, const char *const *hosts,
                                   struct by_topology **out) {
  return infer_topology(survey, false, name, hosts, out);
}

enum banyan_status by_survey_infer_site(const struct by_survey *survey, const char *name, const char *const *hosts,
                                        struct by_topology **out) {
  return infer_topology(survey, true, name, hosts, out);
}

/* ---- hosts that are wired to each other */

static enum banyan_status add_links(struct by_topology_builder *builder, const struct by_survey_link *links, uint32_t n,
                                    const double *rates) {
  for (uint32_t i = 0; i < n; i++) {
    struct by_link *link;
    if (!(links[i].there > 0) || !(links[i].back > 0))
      return by_fail(BANYAN_ERR_TOPOLOGY, "nothing was measured between \"%s\" and \"%s\"",
                     by_topology_builder_node(builder, links[i].a)->name,
                     by_topology_builder_node(builder, links[i].b)->name);
    BY_TRY(by_topology_builder_add_link(builder, links[i].a, links[i].b, rates[2 * i], three_digits(links[i].delay),
                                        &link));
    link->capacity[BY_BA].all = rates[2 * i + 1];
  }
  return BANYAN_OK;
}

enum banyan_status by_survey_infer_links(uint32_t n, const struct by_survey_link *links, uint32_t n_links,
                                         const char *name, const char *const *hosts, struct by_topology **out) {
  struct by_topology_builder builder;
  double *rates = calloc(2 * (size_t)n_links + 1, sizeof *rates);
  if (!rates) return by_topology_no_memory();
  enum banyan_status status = by_topology_builder_init(&builder, name);
  if (status != BANYAN_OK) {
    free(rates);
    return status;
  }
  for (uint32_t i = 0; i < n_links; i++) {
    rates[2 * i] = links[i].there;
    rates[2 * i + 1] = links[i].back;
  }
  for (uint32_t h = 0; h < n && status == BANYAN_OK; h++)
    status = by_topology_builder_add(&builder, BY_NODE_HOST, hosts[h], NULL);
  if (status == BANYAN_OK) status = make_alike(rates, 2 * (size_t)n_links, by_limit_more);
  if (status == BANYAN_OK) status = add_links(&builder, links, n_links, rates);
  status = by_topology_builder_end(&builder, status, NULL, out);
  free(rates);
  return status;
}

/* ---- what a link carries, from several tries */

enum { WRONG = 8 }; /* Number of tries of which the largest may be wrong. */

void by_link_tries_add(struct by_link_tries *tries, double there, double back) {
  tries->found[0][tries->n] = there;
  tries->found[1][tries->n++] = back;
}

/* Finds the largest rate in a direction, and the next one. */
static void find_largest(const struct by_link_tries *tries, int direction, double *max, double *next) {
  *max = *next = 0;
  for (uint32_t i = 0; i < tries->n; i++) {
    double found = tries->found[direction][i];
    *next = fmax(*next, fmin(found, *max));
    *max = fmax(*max, found);
  }
}

/* Returns whether both directions are equally fast. The largest of several rates in the direction that seems faster may
 * be wrong. */
static bool is_equal(const struct by_link_tries *tries) {
  double max[2], next[2];
  for (int direction = 0; direction < 2; direction++) find_largest(tries, direction, &max[direction], &next[direction]);
  int faster = max[1] > max[0];
  double min = by_limit_directions * max[!faster];
  return max[faster] <= min || (tries->n >= BY_LINK_MIN_UNEQUAL && next[faster] <= min);
}

static int descending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

double by_link_tries_rate(const struct by_link_tries *tries, int direction, bool *agreed) {
  double found[2 * BY_LINK_TRIES] = {0};
  bool same = is_equal(tries);
  uint32_t n = 0;
  for (int i = 0; i < 2; i++)
    for (uint32_t k = 0; k < tries->n && (same || i == direction); k++) found[n++] = tries->found[i][k];
  qsort(found, n, sizeof *found, descending);
  *agreed = false;
  if (tries->n < (same ? BY_LINK_MIN : BY_LINK_MIN_UNEQUAL)) return found[0];
  double max = found[n / WRONG];
  for (uint32_t i = 0; i + 1 < n && found[i] >= by_limit_full * max; i++)
    if (found[i + 1] > 0 && found[i + 1] >= by_limit_alike * found[i]) {
      *agreed = true;
      return found[i];
    }
  return found[1];
}

bool by_link_tries_open(const struct by_link_tries *tries) {
  bool there, back;
  (void)by_link_tries_rate(tries, 0, &there);
  (void)by_link_tries_rate(tries, 1, &back);
  return !there || !back;
}

bool by_link_tries_lack(const struct by_link_tries *tries) {
  double there, back, next;
  find_largest(tries, 0, &there, &next);
  find_largest(tries, 1, &back, &next);
  return !(there > 0) || !(back > 0);
}
