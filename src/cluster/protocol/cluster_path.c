#include "cluster_path.h"

#include <math.h>

static const double differs = 1.5; /* times as fast, or as slow, is news */

void by_cluster_path_join(struct by_cluster_path *to, const struct by_cluster_path *other) {
  to->sent += other->sent;
  if (other->busy > to->busy) to->busy = other->busy;
  if (other->bandwidth > to->bandwidth) to->bandwidth = other->bandwidth;
  if (other->delay > 0 && (to->delay <= 0 || other->delay < to->delay)) to->delay = other->delay;
}

bool by_cluster_path_differs(const struct by_cluster_path *a, const struct by_cluster_path *b) {
  double x = a->bandwidth, y = b->bandwidth;
  return x > 0 && y > 0 && (x > differs * y || y > differs * x);
}

bool by_path_late_add(struct by_path_late *late, double bandwidth) {
  uint32_t kept = late->n < BY_PATH_LATE ? late->n : BY_PATH_LATE;
  double least = INFINITY, most = 0;
  for (uint32_t i = 0; i < kept; i++) {
    least = fmin(least, late->seen[i]);
    most = fmax(most, late->seen[i]);
  }
  late->seen[late->n++ % BY_PATH_LATE] = bandwidth;
  return kept && (differs * bandwidth < least || bandwidth > differs * most);
}
