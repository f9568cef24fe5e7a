/* The capabilities of the library. Nothing else names all of them; the job calls them through this table. */
#include "adaptation.h"
#include "cluster.h"
#include "in_network.h"
#include "named.h"
#include "sparse.h"

const struct by_feature *const by_features[] = {
    &by_sparse_feature,     //
    &by_named_feature,      //
    &by_adaptation_feature, //
    &by_cluster_feature,    //
    &by_in_network_feature, //
    NULL,
};
