/* What connections to another host were seen to do: made one of several, and compared. A value, without I/O. */
#ifndef BY_CLUSTER_CLUSTER_PATH_H
#define BY_CLUSTER_CLUSTER_PATH_H

#include <stdbool.h>

#include "cluster_message.h"

/* Of the same time, to the same host: what all of them did. `to->to` stays. */
void by_cluster_path_join(struct by_cluster_path *to, const struct by_cluster_path *other);
/* Both bandwidths are known, and one of them is so much faster that it is news. */
bool by_cluster_path_differs(const struct by_cluster_path *a, const struct by_cluster_path *b);

#endif
