/* Packings of directed trees: for every host that owns a part of a buffer, trees away from it that carry this part to
 * all others, with rates at which no resource is overloaded and the whole buffer moves as fast as possible. This is an
 * allgather; with one owner a broadcast; on the reversed network a reduce_scatter or a reduce. */
#ifndef BY_PLANNER_COST_ROOTED_PACK_H
#define BY_PLANNER_COST_ROOTED_PACK_H

#include <stdint.h>

#include "arena.h"
#include "directed.h"

struct by_rooted_tree {
  uint32_t root;
  uint32_t *parent; /* of each host; of the root: itself */
  double share;     /* the part of what the root owns; the shares of a root's trees sum to 1 */
};

struct by_rooted_packing {
  uint32_t n_trees;
  struct by_rooted_tree *trees; /* sorted by root, then share, largest first */
  double throughput;            /* bit/s of the whole buffer */
  double bound;                 /* certified: no packing over these arcs exceeds it */
  struct by_arena arena;
};

/* Packs trees. part[h] is the part of the buffer that host h owns, >= 0; the parts sum to 1. Column generation whose
 * oracle is the lightest tree under prices; of two packings that are nearly as good, the one of few and low trees is
 * taken. The result is repeatable. BANYAN_ERR_TOPOLOGY: an owner does not reach all hosts; BANYAN_ERR_UNSUPPORTED: no
 * solver of linear programs. Cost: rounds x owners x hosts x arcs; 0.05 s for 12 hosts of 40 arcs. */
BANYAN_CHECK enum banyan_status by_rooted_pack(const struct by_directed *net, const double *part,
                                               struct by_rooted_packing *out);
/* Frees a packing; one that is all zeros is allowed. */
void by_rooted_packing_fini(struct by_rooted_packing *packing);

#endif
