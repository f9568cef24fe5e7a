/* Inside the survey. Shared by survey.c, which chooses what is measured next, and survey_infer.c, which finds the
 * groups of hosts and the topology. */
#ifndef BY_ADAPTATION_SURVEY_PARTS_H
#define BY_ADAPTATION_SURVEY_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "fail.h"
#include "rng.h"
#include "survey.h"

/* ---- tournaments */

/* Returns how many rounds n players need: n - 1, or n if that is odd; 0 for fewer than two. */
uint32_t by_tournament_rounds(uint32_t n);
/* Returns the player that `player` meets in that round; itself: none. The circle method (Kirkman 1847). Cost: 1. */
uint32_t by_tournament_peer(uint32_t n, uint32_t round, uint32_t player);

struct by_match {
  uint32_t a, b;
};

struct by_tournament {
  struct by_match *meetings;
  uint32_t *first; /* Round r has the meetings first[r] .. first[r + 1]. */
  uint32_t n_rounds;
};

/* Makes rounds that go either inside groups or across them, so that what joins the groups is idle or as full as it can
 * get. Inside, all groups meet at once. Across, the groups meet each other two by two, and while two groups meet, each
 * member of the smaller one meets all of the larger one in turn. With one group, or as many as players, it is a plain
 * tournament. `group_of` has a number below n for each of n >= 2 players; `order`, a permutation, gives their order.
 * Cost: pairs. */
BANYAN_CHECK enum banyan_status by_tournament_init(struct by_tournament *tournament, uint32_t n,
                                                   const uint32_t *group_of, const uint32_t *order);
/* Makes at most `rounds` rounds for open pairs: open[a * n + b], for a < b. Of any two groups, or inside one, only one
 * such pair meets in a round. The other players meet those of other groups with whom they form no open pair, if they
 * can, so that what joins the groups is as full as it can get. No pair meets twice; each round has an open pair. Cost:
 * rounds times n^2. */
BANYAN_CHECK enum banyan_status by_tournament_init_open(struct by_tournament *tournament, uint32_t n,
                                                        const uint32_t *group_of, const uint8_t *open,
                                                        const uint32_t *order, uint32_t rounds);
void by_tournament_fini(struct by_tournament *tournament);

enum { BY_SURVEY_LEVELS = 4 };

/* What is measured at one level. Its units are hosts, then groups of them, then groups of these. */
struct by_survey_level {
  uint32_t n;
  uint32_t *members, *start; /* The hosts of unit u are members[start[u]] .. members[start[u + 1]]. */
  uint32_t *unit_of;         /* Unit of each host. */
  double *out, *in;          /* Bit/s that each unit sent, and received, in all. */
  double *sum;               /* Bit/s from u to v, at u * n + v, summed over the tournaments. */
  double *times;             /* Number of tournaments in which u and v met. */
  double *last;              /* Bit/s of the last tournament; below 0: they did not meet. */
  double *evidence;          /* Evidence that u and v belong together; symmetric. */
  uint32_t tournaments;
  uint32_t *group_of, n_groups; /* Groups of units, which are the units of the next level. */
  uint8_t *open;                /* Pairs u < v that should still meet, at u * n + v; only if experiments are limited. */
  uint32_t n_open;              /* The number of open pairs. */
  bool doubtful;                /* Some unit would fit another group too. */
};

struct by_survey {
  uint32_t n;
  double *delay;
  struct by_rng rng;
  struct by_survey_level levels[BY_SURVEY_LEVELS];
  uint32_t n_levels;
  enum { BY_SURVEY_FANS, BY_SURVEY_PAIRS, BY_SURVEY_OVER } phase;
  uint32_t at; /* Index of the fan or round, of `rounds`. */
  uint32_t rounds;
  uint32_t max, done; /* The limit of experiments, and their number so far; limit 0: none. */
  struct by_tournament tournament;
  struct by_survey_flow *flows;
  uint32_t *meeting; /* The meeting of the flows 2 k and 2 k + 1, which go there and back. */
  uint32_t n_flows;
  char text[64];
};

/* Returns the mean rate from u to v; 0: they did not meet. */
static inline double by_level_rate(const struct by_survey_level *level, uint32_t u, uint32_t v) {
  size_t pair = (size_t)u * level->n + v;
  return level->times[pair] > 0 ? level->sum[pair] / level->times[pair] : 0;
}
/* Returns in how many parts the n units of a level are divided for fans, which go on in all parts at once: unit u is in
 * part u % parts. */
uint32_t by_survey_parts(const struct by_survey *survey, uint32_t n);
/* Fills group_of, with groups numbered in order of their first unit, n_groups and doubtful. Cost: n^3. */
BANYAN_CHECK enum banyan_status by_survey_group(struct by_survey_level *level, struct by_rng *rng);

#endif
