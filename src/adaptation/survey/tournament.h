/* The meetings of a tournament in which all players meet: rounds of disjoint pairs, each pair once. Pure arithmetic. */
#ifndef BY_ADAPTATION_SURVEY_TOURNAMENT_H
#define BY_ADAPTATION_SURVEY_TOURNAMENT_H

#include <stdint.h>

#include "fail.h"

/* How many rounds n players need: n - 1, or n if that is odd; 0 for fewer than two. */
uint32_t by_tournament_rounds(uint32_t n);
/* The player that `player` meets in that round; itself: none. The circle method (Kirkman 1847). Cost: 1. */
uint32_t by_tournament_peer(uint32_t n, uint32_t round, uint32_t player);

struct by_match {
  uint32_t a, b;
};

struct by_tournament {
  struct by_match *meetings;
  uint32_t *first; /* of round r: meetings first[r] .. first[r + 1] */
  uint32_t n_rounds;
};

/* Rounds that go either inside groups or across them, so that what joins the groups is idle or as full as it can get.
 * Inside: all groups at once. Across: the groups meet each other two by two, and while two groups meet, each member of
 * the smaller one meets all of the larger one in turn. With one group, or as many as players, it is a plain tournament.
 * `group_of` has a number below n for each of n >= 2 players; `order`, a permutation, gives the order in which they are
 * taken. Cost: pairs. */
BANYAN_CHECK enum banyan_status by_tournament_init(struct by_tournament *tournament, uint32_t n,
                                                   const uint32_t *group_of, const uint32_t *order);
/* At most `rounds` rounds for pairs that are to meet: open[a * n + b], for a < b. Of any two groups, or inside one,
 * only one such pair meets in a round. The other players meet those of other groups whom they are not to meet, if they
 * can, so that what joins the groups is as full as it can get. No pair meets twice; there is no round without an open
 * pair. Cost: rounds times n^2. */
BANYAN_CHECK enum banyan_status by_tournament_init_open(struct by_tournament *tournament, uint32_t n,
                                                        const uint32_t *group_of, const uint8_t *open,
                                                        const uint32_t *order, uint32_t rounds);
void by_tournament_fini(struct by_tournament *tournament);

#endif
