/* Tournaments: rounds in which pairs of players meet, inside groups and across them. */
#include "tournament.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

uint32_t by_tournament_rounds(uint32_t n) {
  return n < 2 ? 0 : n % 2 ? n : n - 1;
}

/* All but the last stand in a circle of odd length, which is folded at another place in each round; the one at the
 * fold meets the last, or none where that one is only there to make the number even. */
uint32_t by_tournament_peer(uint32_t n, uint32_t round, uint32_t player) {
  uint32_t circle = n % 2 ? n : n - 1;
  if (player == circle) return round;
  if (player == round) return n % 2 ? player : circle;
  return (uint32_t)((2 * (uint64_t)round + circle - player) % circle);
}

/* The players group by group. */
struct squads {
  uint32_t *players, *start, n; /* group g: players[start[g]] .. [start[g + 1]] */
};

static uint32_t size_of(const struct squads *squads, uint32_t g) {
  return squads->start[g + 1] - squads->start[g];
}

static uint32_t largest(const struct squads *squads) {
  uint32_t most = 0;
  for (uint32_t g = 0; g < squads->n; g++) most = MAX(most, size_of(squads, g));
  return most;
}

/* Groups without players are left out. `memory` holds 3 n + 1 numbers. */
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
      uint32_t n = size_of(squads, g);
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
        bool g_is_larger = size_of(squads, g) >= size_of(squads, h);
        uint32_t large = g_is_larger ? g : h, small = g_is_larger ? h : g, n = size_of(squads, large);
        for (uint32_t i = 0; i < size_of(squads, small) && turn < n; i++)
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
  uint8_t *met, *busy; /* n x n, the lower player first; n */
  uint32_t *last;      /* of groups, as `met`: the last round, counted from 1, in which an open pair of theirs met */
};

static size_t pair_of(const struct draw *d, uint32_t a, uint32_t b) {
  return (size_t)MIN(a, b) * d->n + MAX(a, b);
}

/* An open pair, and of any two groups only one in a round: should they belong together, what joins them to the others
 * is to be full all the same. Else one of different groups. */
static bool may_meet(const struct draw *d, uint32_t a, uint32_t b, bool is_open) {
  uint32_t g = d->group_of[a], h = d->group_of[b];
  if (a == b || d->busy[a] || d->busy[b] || d->met[pair_of(d, a, b)]) return false;
  if (!is_open) return g != h && !d->open[pair_of(d, a, b)];
  return d->open[pair_of(d, a, b)] && d->last[pair_of(d, g, h)] != d->round;
}

/* Returns how many met. */
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
  uint8_t *memory = calloc(pairs + n, 1);
  struct draw d = {.tournament = tournament, .n = n, .group_of = group_of, .order = order, .open = open, .met = memory};
  *tournament = (struct by_tournament){.meetings = malloc((size_t)rounds * n * sizeof *tournament->meetings + 1),
                                       .first = calloc((size_t)rounds + 1, sizeof *tournament->first)};
  d.last = calloc(pairs, sizeof *d.last);
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
