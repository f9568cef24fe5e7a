/* Chooses which flows a survey measures next: fans, then rounds of tournaments of hosts and of groups. */
#include "survey_parts.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "thresholds.h"
#include "topology_make.h"

/* ---- tournaments */

uint32_t by_tournament_rounds(uint32_t n) {
  return n < 2 ? 0 : n % 2 ? n : n - 1;
}

/* All players but the last stand in a circle of odd length, which is folded at another place in each round. The player
 * at the fold meets the last one, or none if the last one only makes the number even. */
uint32_t by_tournament_peer(uint32_t n, uint32_t round, uint32_t player) {
  uint32_t circle = n % 2 ? n : n - 1;
  if (player == circle) return round;
  if (player == round) return n % 2 ? player : circle;
  return (uint32_t)((2 * (uint64_t)round + circle - player) % circle);
}

/* The players, group by group. */
struct squads {
  uint32_t *players, *start, n; /* Group g has the players[start[g]] .. [start[g + 1]]. */
};

static uint32_t squad_size(const struct squads *squads, uint32_t g) {
  return squads->start[g + 1] - squads->start[g];
}

static uint32_t largest(const struct squads *squads) {
  uint32_t max = 0;
  for (uint32_t g = 0; g < squads->n; g++) max = MAX(max, squad_size(squads, g));
  return max;
}

/* Lists the players of each group. Groups without players are left out. `memory` holds 3 n + 1 numbers. */
static void gather(uint32_t n, const uint32_t *group_of, const uint32_t *order, uint32_t *memory, struct squads *out) {
  uint32_t *number_plus_1 = memory + 2 * n + 1, at = 0;
  *out = (struct squads){.players = memory, .start = memory + n};
  for (uint32_t i = 0; i < n; i++)
    if (!number_plus_1[group_of[order[i]]]) number_plus_1[group_of[order[i]]] = ++out->n;
  for (uint32_t g = 0; g < out->n; g++) {
    out->start[g] = at;
    for (uint32_t i = 0; i < n; i++)
      if (number_plus_1[group_of[order[i]]] == g + 1) out->players[at++] = order[i];
  }
  out->start[out->n] = at;
}

static void add(struct by_tournament *t, uint32_t *n_meetings, uint32_t a, uint32_t b) {
  t->meetings[(*n_meetings)++] = (struct by_match){MIN(a, b), MAX(a, b)};
}

static void end_round(struct by_tournament *t, uint32_t n_meetings) {
  if (n_meetings > t->first[t->n_rounds]) t->first[++t->n_rounds] = n_meetings;
}

static void meet_inside(struct by_tournament *t, const struct squads *squads, uint32_t *n_meetings) {
  uint32_t rounds = by_tournament_rounds(largest(squads));
  for (uint32_t r = 0; r < rounds; r++) {
    for (uint32_t g = 0; g < squads->n; g++) {
      const uint32_t *players = squads->players + squads->start[g];
      uint32_t n = squad_size(squads, g);
      for (uint32_t i = 0; i < n && r < by_tournament_rounds(n); i++) {
        uint32_t j = by_tournament_peer(n, r, i);
        if (i < j) add(t, n_meetings, players[i], players[j]);
      }
    }
    end_round(t, *n_meetings);
  }
}

static void meet_across(struct by_tournament *t, const struct squads *squads, uint32_t *n_meetings) {
  for (uint32_t r = 0; r < by_tournament_rounds(squads->n); r++)
    for (uint32_t turn = 0; turn < largest(squads); turn++) {
      for (uint32_t g = 0; g < squads->n; g++) {
        uint32_t h = by_tournament_peer(squads->n, r, g);
        if (h <= g) continue;
        bool g_is_larger = squad_size(squads, g) >= squad_size(squads, h);
        uint32_t large = g_is_larger ? g : h, small = g_is_larger ? h : g, n = squad_size(squads, large);
        for (uint32_t i = 0; i < squad_size(squads, small) && turn < n; i++)
          add(t, n_meetings, squads->players[squads->start[small] + i],
              squads->players[squads->start[large] + (i + turn) % n]);
      }
      end_round(t, *n_meetings);
    }
}

enum banyan_status by_tournament_init(struct by_tournament *tournament, uint32_t n, const uint32_t *group_of,
                                      const uint32_t *order) {
  uint64_t pairs = (uint64_t)n * (n - 1) / 2;
  uint32_t *memory = calloc(3 * (size_t)n + 1, sizeof *memory), n_meetings = 0;
  *tournament = (struct by_tournament){.meetings = malloc(pairs * sizeof *tournament->meetings),
                                       .first = calloc(pairs + 1, sizeof *tournament->first)};
  if (!memory || !tournament->meetings || !tournament->first) {
    free(memory);
    by_tournament_fini(tournament);
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the meetings of %u", n);
  }
  struct squads squads;
  gather(n, group_of, order, memory, &squads);
  meet_inside(tournament, &squads, &n_meetings);
  meet_across(tournament, &squads, &n_meetings);
  free(memory);
  return BANYAN_OK;
}

/* ---- rounds for what is open */

struct draw {
  struct by_tournament *tournament;
  uint32_t n, n_meetings, round;
  const uint32_t *group_of, *order;
  const uint8_t *open;
  uint8_t *met, *busy; /* Pairs that have met, n x n with the lower player first; and players of this round. */
  uint32_t
      *last; /* For pairs of groups, as `met`: the last round, counted from 1, in which an open pair of theirs met. */
};

static size_t pair_of(const struct draw *d, uint32_t a, uint32_t b) {
  return (size_t)MIN(a, b) * d->n + MAX(a, b);
}

/* Returns whether two players may meet. Of open pairs, two groups have only one in a round: if they belong together,
 * what joins them to the others must be full nevertheless. Other pairs are of different groups. */
static bool may_meet(const struct draw *d, uint32_t a, uint32_t b, bool is_open) {
  uint32_t g = d->group_of[a], h = d->group_of[b];
  if (a == b || d->busy[a] || d->busy[b] || d->met[pair_of(d, a, b)]) return false;
  if (!is_open) return g != h && !d->open[pair_of(d, a, b)];
  return d->open[pair_of(d, a, b)] && d->last[pair_of(d, g, h)] != d->round;
}

/* Adds meetings to the round, and returns their number. */
static uint32_t meet_some(struct draw *d, bool is_open) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < d->n; i++)
    for (uint32_t j = 1; j < d->n; j++) {
      uint32_t a = d->order[i], b = d->order[(i + j) % d->n];
      if (!may_meet(d, a, b, is_open)) continue;
      d->busy[a] = d->busy[b] = d->met[pair_of(d, a, b)] = 1;
      if (is_open) d->last[pair_of(d, d->group_of[a], d->group_of[b])] = d->round;
      add(d->tournament, &d->n_meetings, a, b);
      count++;
    }
  return count;
}

enum banyan_status by_tournament_init_open(struct by_tournament *tournament, uint32_t n, const uint32_t *group_of,
                                           const uint8_t *open, const uint32_t *order, uint32_t rounds) {
  size_t pairs = (size_t)n * n;
  uint8_t *memory = calloc(pairs + n + 1, 1);
  struct draw d = {.tournament = tournament, .n = n, .group_of = group_of, .order = order, .open = open, .met = memory};
  *tournament = (struct by_tournament){.meetings = malloc((size_t)rounds * n * sizeof *tournament->meetings + 1),
                                       .first = calloc((size_t)rounds + 1, sizeof *tournament->first)};
  d.last = calloc(pairs + 1, sizeof *d.last);
  bool failed = !memory || !d.last || !tournament->meetings || !tournament->first;
  d.busy = failed ? NULL : memory + pairs;
  for (d.round = 1; !failed && d.round <= rounds; d.round++) {
    memset(d.busy, 0, n);
    if (!meet_some(&d, true)) break;
    meet_some(&d, false);
    end_round(tournament, d.n_meetings);
  }
  free(memory);
  free(d.last);
  if (!failed) return BANYAN_OK;
  by_tournament_fini(tournament);
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the meetings of %u", n);
}

void by_tournament_fini(struct by_tournament *tournament) {
  free(tournament->meetings);
  free(tournament->first);
  *tournament = (struct by_tournament){0};
}

enum { MIN_TOURNAMENTS = 2, MAX_TOURNAMENTS = 6, MIN_ROUNDS = 4, MIN_OF_PART = 4, FEW_ROUNDS = 9, OPEN_ROUNDS = 4 };

/* ---- levels */

static void free_level(struct by_survey_level *level) {
  free(level->members);
  free(level->unit_of);
  free(level->out);
  free(level->open);
}

/* Allocates a level of n units over all hosts, in three arrays. */
static enum banyan_status make_level(struct by_survey_level *level, uint32_t n, uint32_t n_hosts) {
  *level = (struct by_survey_level){.n = n};
  level->members = calloc((size_t)n_hosts + n + 1, sizeof *level->members);
  level->unit_of = calloc((size_t)n_hosts + n, sizeof *level->unit_of);
  level->out = calloc((4 * (size_t)n + 2) * n, sizeof *level->out);
  level->open = calloc((size_t)n * n, 1);
  if (!level->members || !level->unit_of || !level->out || !level->open) return by_topology_no_memory();
  level->start = level->members + n_hosts;
  level->group_of = level->unit_of + n_hosts;
  level->in = level->out + n;
  level->sum = level->in + n;
  level->times = level->sum + (size_t)n * n;
  level->last = level->times + (size_t)n * n;
  level->evidence = level->last + (size_t)n * n;
  return BANYAN_OK;
}

/* Fills `members` and `start` from `unit_of`. */
static void index_members(struct by_survey_level *level, uint32_t n_hosts) {
  uint32_t at = 0;
  for (uint32_t u = 0; u < level->n; u++) {
    level->start[u] = at;
    for (uint32_t h = 0; h < n_hosts; h++)
      if (level->unit_of[h] == u) level->members[at++] = h;
  }
  level->start[level->n] = at;
}

static struct by_survey_level *top(struct by_survey *survey) {
  return &survey->levels[survey->n_levels - 1];
}

static uint32_t size_of(const struct by_survey_level *level, uint32_t unit) {
  return level->start[unit + 1] - level->start[unit];
}

/* ---- experiments */

static void add_flows(struct by_survey *survey, uint32_t meeting, uint32_t a, uint32_t b) {
  survey->meeting[survey->n_flows / 2] = meeting;
  survey->flows[survey->n_flows++] = (struct by_survey_flow){a, b};
  survey->flows[survey->n_flows++] = (struct by_survey_flow){b, a};
}

uint32_t by_survey_parts(const struct by_survey *survey, uint32_t n) {
  return survey->max ? MAX((n + 1) / MIN_OF_PART, 1) : 1;
}

/* Adds the flows between the hosts of a unit and all others of its part, until each has had a turn. */
static void make_fan(struct by_survey *survey, uint32_t unit, uint32_t parts) {
  const struct by_survey_level *level = top(survey);
  const uint32_t *own = level->members + level->start[unit];
  uint32_t n_own = size_of(level, unit), others = 0, k = 0;
  for (uint32_t v = unit % parts; v < level->n; v += parts) others += v == unit ? 0 : size_of(level, v);
  while (k < MAX(n_own, others))
    for (uint32_t v = unit % parts; v < level->n; v += parts)
      for (uint32_t i = level->start[v]; v != unit && i < level->start[v + 1] && k < MAX(n_own, others); i++, k++)
        add_flows(survey, unit, own[k % n_own], level->members[i]);
}

/* Returns the tournament's round to play next: if only some rounds are played, they are taken from all of it. */
static uint32_t round_at(const struct by_survey *survey) {
  return (uint32_t)((uint64_t)survey->at * survey->tournament.n_rounds / survey->rounds);
}

static void make_flows(struct by_survey *survey) {
  const struct by_survey_level *level = top(survey);
  const struct by_tournament *t = &survey->tournament;
  survey->n_flows = 0;
  if (survey->phase == BY_SURVEY_FANS) {
    uint32_t parts = by_survey_parts(survey, level->n), first = survey->at * parts;
    for (uint32_t u = first; u < MIN(first + parts, level->n); u++) make_fan(survey, u, parts);
  } else if (survey->phase == BY_SURVEY_PAIRS) {
    uint32_t round = round_at(survey);
    for (uint32_t m = t->first[round]; m < t->first[round + 1]; m++) {
      uint32_t a = t->meetings[m].a, b = t->meetings[m].b;
      const uint32_t *of_a = level->members + level->start[a], *of_b = level->members + level->start[b];
      uint32_t n_a = size_of(level, a), n_b = size_of(level, b);
      /* All hosts of one unit meet all of the other one, each as few as possible. */
      for (uint32_t k = 0; k < MAX(n_a, n_b); k++) add_flows(survey, m, of_a[k % n_a], of_b[k % n_b]);
    }
  }
}

/* ---- what comes next */

/* Returns how many rounds a tournament may have if experiments are limited: the first one of hosts takes half of what
 * is left, since nothing follows if the result is clear; a part is kept for groups. */
static uint32_t rounds_left(const struct by_survey *survey) {
  uint32_t left = survey->max - MIN(survey->done, survey->max);
  uint32_t kept = survey->n_levels == 1 ? survey->max / 4 : 0;
  left -= MIN(left, kept);
  return MAX(survey->levels[0].tournaments ? left : MAX(left / 2, MIN(left, FEW_ROUNDS)), 1);
}

/* Returns the evidence that unit u belongs to a group; below -by_limit_decided, it does not. */
static double tie_of(const struct by_survey_level *level, uint32_t u, uint32_t group) {
  double sum = 0;
  for (uint32_t v = 0; v < level->n; v++)
    if (v != u && level->group_of[v] == group) sum += level->evidence[(size_t)u * level->n + v];
  return sum;
}

/* Returns whether unit u, for which little speaks in its group, may belong to another group. */
static bool is_loose(const struct by_survey_level *level, const double *ties, uint32_t u, uint32_t group) {
  uint32_t own = level->group_of[u], n = level->n_groups;
  return ties[(size_t)u * n + own] < by_limit_decided &&
         (group == own || ties[(size_t)u * n + group] > -by_limit_decided);
}

static void mark_open(struct by_survey_level *level, const double *ties) {
  uint32_t n = level->n;
  level->n_open = 0;
  for (uint32_t u = 0; u < n; u++)
    for (uint32_t v = u + 1; v < n; v++) {
      uint32_t g = level->group_of[u], h = level->group_of[v];
      double both = 0;
      for (uint32_t w = 0; w < n; w++)
        if (level->group_of[w] == g) both += ties[(size_t)w * level->n_groups + h];
      bool is_open = (g != h && both > -by_limit_decided) || is_loose(level, ties, u, h) || is_loose(level, ties, v, g);
      size_t pair = (size_t)u * n + v;
      level->n_open += level->open[pair] = is_open && !(level->times[pair] > 0);
    }
}

/* Finds the pairs that have not met and should: it is not known whether their groups belong together, or whether one of
 * them belongs to the group of the other. */
static enum banyan_status find_open(struct by_survey_level *level) {
  double *ties = calloc((size_t)level->n * level->n_groups, sizeof *ties);
  if (!ties) return by_topology_no_memory();
  for (uint32_t u = 0; u < level->n; u++)
    for (uint32_t g = 0; g < level->n_groups; g++) ties[(size_t)u * level->n_groups + g] = tie_of(level, u, g);
  mark_open(level, ties);
  free(ties);
  return BANYAN_OK;
}

static enum banyan_status begin_tournament(struct by_survey *survey) {
  struct by_survey_level *level = top(survey);
  bool at_random = survey->max || level->tournaments % 2 == 0;
  uint32_t *order = calloc(2 * (size_t)level->n, sizeof *order);
  if (!order) return by_topology_no_memory();
  const uint32_t *all_alike = order + level->n;
  for (size_t i = 0; i < (size_t)level->n * level->n; i++) level->last[i] = -1;
  for (uint32_t i = 0; i < level->n; i++) {
    uint32_t j = (uint32_t)by_rng_below(&survey->rng, i + 1);
    order[i] = order[j];
    order[j] = i;
  }
  by_tournament_fini(&survey->tournament);
  enum banyan_status status =
      level->n_open
          ? by_tournament_init_open(&survey->tournament, level->n, level->group_of, level->open, order, OPEN_ROUNDS)
          : by_tournament_init(&survey->tournament, level->n, at_random ? all_alike : level->group_of, order);
  free(order);
  survey->phase = BY_SURVEY_PAIRS;
  survey->at = 0;
  survey->rounds = survey->tournament.n_rounds;
  if (survey->max) survey->rounds = MIN(survey->rounds, rounds_left(survey));
  return status;
}

static void begin_fans(struct by_survey *survey) {
  uint32_t n = top(survey)->n, parts = by_survey_parts(survey, n);
  survey->phase = BY_SURVEY_FANS;
  survey->at = 0;
  survey->rounds = (n + parts - 1) / parts;
}

static enum banyan_status begin_level(struct by_survey *survey) {
  const struct by_survey_level *below = top(survey);
  struct by_survey_level *level = &survey->levels[survey->n_levels++];
  BY_TRY(make_level(level, below->n_groups, survey->n));
  for (uint32_t h = 0; h < survey->n; h++) level->unit_of[h] = below->group_of[below->unit_of[h]];
  index_members(level, survey->n);
  begin_fans(survey);
  return BANYAN_OK;
}

/* Returns whether each unit can send and receive as much as its parts, or all others, can. */
static bool holds_nobody(const struct by_survey *survey) {
  const struct by_survey_level *level = &survey->levels[survey->n_levels - 1], *below = level - 1;
  double out = 0, in = 0;
  for (uint32_t p = 0; p < below->n; p++) out += below->out[p], in += below->in[p];
  for (uint32_t u = 0; u < level->n; u++) {
    double own_out = 0, own_in = 0;
    for (uint32_t p = 0; p < below->n; p++)
      if (below->group_of[p] == u) own_out += below->out[p], own_in += below->in[p];
    if (level->out[u] < by_limit_full * fmin(own_out, in - own_in)) return false;
    if (level->in[u] < by_limit_full * fmin(own_in, out - own_out)) return false;
  }
  return true;
}

static enum banyan_status end_fans(struct by_survey *survey) {
  struct by_survey_level *level = top(survey);
  survey->phase = BY_SURVEY_OVER;
  if (level->n == 2) { /* Two units have met once their fans are done. */
    level->sum[1] = level->out[0] + level->in[1];
    level->sum[2] = level->in[0] + level->out[1];
    level->times[1] = level->times[2] = 2;
    level->tournaments = 2;
    level->n_groups = 1;
  }
  if (survey->n_levels > 1 && holds_nobody(survey)) {
    struct by_survey_level *below = level - 1;
    free_level(level);
    survey->n_levels--;
    below->n_groups = 1;
    memset(below->group_of, 0, below->n * sizeof *below->group_of);
    return BANYAN_OK;
  }
  return level->n == 2 ? BANYAN_OK : begin_tournament(survey);
}

/* Returns whether the groups are final: they did not change and nothing speaks against them. If experiments are
 * limited, a single group is accepted at once. */
static bool is_clear(const struct by_survey *survey, bool settled) {
  const struct by_survey_level *level = &survey->levels[survey->n_levels - 1];
  if (survey->max && !level->doubtful) return level->n_groups == 1 || !level->n_open;
  return settled && level->tournaments >= MIN_TOURNAMENTS && !level->doubtful;
}

static bool may_play_on(const struct by_survey *survey) {
  const struct by_survey_level *level = &survey->levels[survey->n_levels - 1];
  if (level->tournaments >= MAX_TOURNAMENTS) return false;
  if (!survey->max) return true;
  return rounds_left(survey) >= MIN(level->n / 2, MIN_ROUNDS);
}

static enum banyan_status end_tournament(struct by_survey *survey) {
  struct by_survey_level *level = top(survey);
  uint32_t *before = malloc(level->n * sizeof *before);
  if (!before) return by_topology_no_memory();
  memcpy(before, level->group_of, level->n * sizeof *before);
  level->tournaments++;
  for (size_t i = 0; i < (size_t)level->n * level->n; i++) {
    level->sum[i] += fmax(level->last[i], 0);
    level->times[i] += level->last[i] >= 0;
  }
  enum banyan_status status = by_survey_group(level, &survey->rng);
  level->n_open = 0;
  if (status == BANYAN_OK && survey->max && level->n_groups > 1) status = find_open(level);
  bool settled = memcmp(before, level->group_of, level->n * sizeof *before) == 0;
  free(before);
  BY_TRY(status);
  if (may_play_on(survey) && !is_clear(survey, settled)) return begin_tournament(survey);
  survey->phase = BY_SURVEY_OVER;
  bool on = level->n_groups > 1 && level->n_groups < level->n && survey->n_levels < BY_SURVEY_LEVELS;
  return on ? begin_level(survey) : BANYAN_OK;
}

/* ---- results */

enum banyan_status by_survey_record(struct by_survey *survey, const double *rates) {
  for (uint32_t k = 0; k < survey->n_flows; k++)
    if (!(rates[k] >= 0 && isfinite(rates[k])))
      return by_fail(BANYAN_ERR_ARGUMENT, "the flow from host %u to host %u got %g bit/s", survey->flows[k].from,
                     survey->flows[k].to, rates[k]);
  struct by_survey_level *level = top(survey);
  for (uint32_t k = 0; k < survey->n_flows; k += 2) {
    if (survey->phase == BY_SURVEY_FANS) {
      level->out[survey->meeting[k / 2]] += rates[k];
      level->in[survey->meeting[k / 2]] += rates[k + 1];
    } else {
      struct by_match m = survey->tournament.meetings[survey->meeting[k / 2]];
      double *there = &level->last[(size_t)m.a * level->n + m.b], *back = &level->last[(size_t)m.b * level->n + m.a];
      *there = fmax(*there, 0) + rates[k];
      *back = fmax(*back, 0) + rates[k + 1];
    }
  }
  survey->at++;
  survey->done++;
  if (survey->at == survey->rounds) BY_TRY(survey->phase == BY_SURVEY_FANS ? end_fans(survey) : end_tournament(survey));
  make_flows(survey);
  return BANYAN_OK;
}

uint32_t by_survey_next(const struct by_survey *survey, const struct by_survey_flow **flows) {
  *flows = survey->flows;
  return survey->n_flows;
}

uint32_t by_survey_left(const struct by_survey *survey) {
  uint32_t planned = survey->max - MIN(survey->done, survey->max);
  return survey->phase == BY_SURVEY_OVER ? 0 : MAX(planned, survey->rounds - survey->at);
}

void by_survey_limit(struct by_survey *survey, uint32_t left) {
  if (survey->max) survey->max = MAX(MIN(survey->max, survey->done + left), 1);
}

const char *by_survey_phase(struct by_survey *survey) {
  const char *whose = survey->n_levels > 1 ? "group" : "host";
  if (survey->phase == BY_SURVEY_FANS)
    snprintf(survey->text, sizeof survey->text, "what each %s sends and receives in all", whose);
  else
    snprintf(survey->text, sizeof survey->text, "pairs of %ss, tournament %u", whose, top(survey)->tournaments + 1);
  return survey->text;
}

/* ---- life */

enum banyan_status by_survey_create(uint32_t n, const double *delay, uint64_t seed, uint32_t max,
                                    struct by_survey **out) {
  if (n < 2 || n > BY_SURVEY_MAX_HOSTS)
    return by_fail(BANYAN_ERR_ARGUMENT, "a survey is of 2 to %d hosts, not %u", BY_SURVEY_MAX_HOSTS, n);
  struct by_survey *survey = calloc(1, sizeof *survey);
  if (!survey) return by_topology_no_memory();
  survey->n = n;
  survey->max = max ? MAX(max, BY_SURVEY_MIN_EXPERIMENTS) : 0;
  survey->n_levels = 1;
  survey->delay = malloc((size_t)n * n * sizeof *survey->delay);
  survey->flows = malloc(2 * (size_t)n * sizeof *survey->flows);
  survey->meeting = malloc(n * sizeof *survey->meeting);
  enum banyan_status status = make_level(survey->levels, n, n);
  if (!survey->delay || !survey->flows || !survey->meeting) status = by_topology_no_memory();
  if (status != BANYAN_OK) {
    by_survey_destroy(survey);
    return status;
  }
  memcpy(survey->delay, delay, (size_t)n * n * sizeof *delay);
  by_rng_init(&survey->rng, seed);
  for (uint32_t h = 0; h < n; h++) survey->levels[0].unit_of[h] = h;
  index_members(survey->levels, n);
  begin_fans(survey);
  make_flows(survey);
  *out = survey;
  return BANYAN_OK;
}

void by_survey_destroy(struct by_survey *survey) {
  if (!survey) return;
  for (uint32_t i = 0; i < survey->n_levels; i++) free_level(&survey->levels[i]);
  by_tournament_fini(&survey->tournament);
  free(survey->delay);
  free(survey->flows);
  free(survey->meeting);
  free(survey);
}
