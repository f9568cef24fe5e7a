/* What a link carries, by several tries, each both ways. A busy machine lets flows wait, and has what came taken late,
 * so that single tries are off, most of them down and a few far up. Pure. */
#ifndef BY_ADAPTATION_SURVEY_LINK_TRIES_H
#define BY_ADAPTATION_SURVEY_LINK_TRIES_H

#include <stdbool.h>
#include <stdint.h>

enum {
  BY_LINK_TRIES = 12,        /* Maximum of tries. */
  BY_LINK_LEAST = 3,         /* Minimum of tries. */
  BY_LINK_LEAST_UNEQUAL = 4, /* Minimum of tries if one direction seems faster than the other. */
};

/* Zero-initialise it. */
struct by_link_tries {
  uint32_t n;
  double found[2][BY_LINK_TRIES]; /* Bit/s there, and back. */
};

/* Adds a try, of at most BY_LINK_TRIES; 0: nothing arrived. */
void by_link_tries_add(struct by_link_tries *tries, double there, double back);
/* bit/s one way (0: there, 1: back), which is that of both unless one way is 1.3 times as fast as the other. *agreed:
 * two tries found nearly the same, and none much more, but for one of eight. Else the second of all, as the largest one
 * may be wrong. */
double by_link_tries_rate(const struct by_link_tries *tries, int way, bool *agreed);
/* Whether more tries are needed: no two agree, one way or the other. */
bool by_link_tries_open(const struct by_link_tries *tries);
/* Returns whether nothing has arrived in one direction. */
bool by_link_tries_lack(const struct by_link_tries *tries);

#endif
