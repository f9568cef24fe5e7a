/* Decides from several tries what a link carries in each direction. */
#include "link_tries.h"

#include <math.h>
#include <stdlib.h>

enum { WRONG = 8 }; /* Number of tries of which the largest may be wrong. */

static const double equal_ways = 1.3; /* Maximum ratio of a link's directions that count as equally fast. */
static const double alike = 0.95;     /* Minimum ratio of two rates that agree. */
static const double much = 0.9;       /* Minimum ratio to the largest rate that counts. */

void by_link_tries_add(struct by_link_tries *tries, double there, double back) {
  tries->found[0][tries->n] = there;
  tries->found[1][tries->n++] = back;
}

/* Finds the largest rate in a direction, and the next one. */
static void find_largest(const struct by_link_tries *tries, int way, double *most, double *next) {
  *most = *next = 0;
  for (uint32_t i = 0; i < tries->n; i++) {
    double found = tries->found[way][i];
    *next = fmax(*next, fmin(found, *most));
    *most = fmax(*most, found);
  }
}

/* Returns whether both directions are equally fast. The largest of several rates in the direction that seems faster may
 * be wrong. */
static bool is_equal(const struct by_link_tries *tries) {
  double most[2], next[2];
  for (int way = 0; way < 2; way++) find_largest(tries, way, &most[way], &next[way]);
  int faster = most[1] > most[0];
  double least = equal_ways * most[!faster];
  return most[faster] <= least || (tries->n >= BY_LINK_LEAST_UNEQUAL && next[faster] <= least);
}

static int descending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

double by_link_tries_rate(const struct by_link_tries *tries, int way, bool *agreed) {
  double found[2 * BY_LINK_TRIES] = {0};
  bool equal = is_equal(tries);
  uint32_t n = 0;
  for (int i = 0; i < 2; i++)
    for (uint32_t k = 0; k < tries->n && (equal || i == way); k++) found[n++] = tries->found[i][k];
  qsort(found, n, sizeof *found, descending);
  *agreed = false;
  if (tries->n < (equal ? BY_LINK_LEAST : BY_LINK_LEAST_UNEQUAL)) return found[0];
  double most = found[n / WRONG];
  for (uint32_t i = 0; i + 1 < n && found[i] >= much * most; i++)
    if (found[i + 1] > 0 && found[i + 1] >= alike * found[i]) {
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
