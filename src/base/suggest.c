#include <string.h>
#include <sys/param.h>

#include "suggest.h"

enum { LONGEST = 32 };

/* Edits that turn a into b: insert, delete, replace, or swap two neighbours
 * (optimal string alignment). O(|a| |b|). */
static size_t distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b), d[LONGEST + 1][LONGEST + 1];
  if (n > LONGEST || m > LONGEST) return LONGEST;
  for (size_t i = 0; i <= n; i++) d[i][0] = i;
  for (size_t j = 0; j <= m; j++) d[0][j] = j;
  for (size_t i = 1; i <= n; i++)
    for (size_t j = 1; j <= m; j++) {
      size_t replaced = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      d[i][j] = MIN(replaced, MIN(d[i - 1][j], d[i][j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = MIN(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[n][m];
}

const char *by_suggest(const char *word, const char *const *names, size_t n) {
  size_t best = 1 + MAX(strlen(word) / 3, (size_t)1); /* up to a third may be wrong */
  const char *found = NULL;
  for (size_t i = 0; i < n; i++) {
    size_t far = strlen(word) > 2 && !strncmp(word, names[i], strlen(word)) ? 0 : distance(word, names[i]);
    if (far >= best) continue;
    best = far;
    found = names[i];
  }
  return found;
}
