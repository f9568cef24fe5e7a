/* What connections to another host were seen to do: made one of several, and compared. A value, without I/O. */
#ifndef BY_CLUSTER_CLUSTER_PATH_H
#define BY_CLUSTER_CLUSTER_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster_message.h"

/* Of the same time, to the same host: what all of them did. `to->to` stays. */
void by_cluster_path_join(struct by_cluster_path *to, const struct by_cluster_path *other);
/* Both bandwidths are known, and one of them is so much faster that it is news. */
bool by_cluster_path_differs(const struct by_cluster_path *a, const struct by_cluster_path *b);

/* The bandwidths that a path was last seen to have. All zero: none yet. */
enum { BY_PATH_LATE = 8 };
struct by_path_late {
  uint32_t n;
  double seen[BY_PATH_LATE];
};

/* One more. True: it is so much less than all of them, or so much more, that it is news; as TCP takes now more and now
 * less, that is another question than whether it differs from the last one. */
bool by_path_late_add(struct by_path_late *late, double bandwidth);

#endif
