#include "collective.h"

/* clang-format off */
const struct by_collective by_collectives[BANYAN_COLLECTIVES + 1] = {
    [BANYAN_ALLREDUCE] = {"allreduce", "all_reduce", BY_EXTENT_ALL, BY_EXTENT_ALL,
                          .adds = true, .up = true, .down = true, .helpers = true},
    [BANYAN_REDUCE] = {"reduce", NULL, BY_EXTENT_ALL, BY_EXTENT_ALL_AT_ROOT,
                       .adds = true, .rooted = true, .up = true, .helpers = true},
    [BANYAN_BROADCAST] = {"broadcast", "bcast", BY_EXTENT_NOTHING, BY_EXTENT_ALL,
                          .rooted = true, .down = true, .helpers = true},
    [BANYAN_REDUCE_SCATTER] = {"reduce_scatter", "reducescatter", BY_EXTENT_ALL, BY_EXTENT_BLOCK,
                               .adds = true, .blocks = true, .up = true},
    [BANYAN_ALLGATHER] = {"allgather", "all_gather", BY_EXTENT_BLOCK, BY_EXTENT_ALL, .blocks = true, .down = true},
    [BANYAN_GATHER] = {"gather", NULL, BY_EXTENT_BLOCK, BY_EXTENT_ALL_AT_ROOT,
                       .rooted = true, .blocks = true, .direct = true},
    [BANYAN_SCATTER] = {"scatter", NULL, BY_EXTENT_ALL_AT_ROOT, BY_EXTENT_BLOCK,
                        .rooted = true, .blocks = true, .direct = true},
    [BANYAN_ALLTOALL] = {"alltoall", "all_to_all", BY_EXTENT_ALL, BY_EXTENT_ALL, .blocks = true, .direct = true},
    [BANYAN_BARRIER] = {"barrier", NULL, BY_EXTENT_ALL, BY_EXTENT_ALL, .up = true, .down = true, .helpers = true},
    [BANYAN_SEND] = {"send", NULL, BY_EXTENT_ALL, BY_EXTENT_NOTHING, .pair = true},
    [BANYAN_RECV] = {"recv", NULL, BY_EXTENT_NOTHING, BY_EXTENT_ALL, .pair = true},
    [BANYAN_COLLECTIVES] = {.name = "?"},
};
/* clang-format on */
