/* A job's part in a cluster as a capability: its connection to the agent of its host, or to the manager. */
#ifndef BY_CLUSTER_CLUSTER_H
#define BY_CLUSTER_CLUSTER_H

#include "feature.h"

extern const struct by_feature by_cluster_feature;

#endif
