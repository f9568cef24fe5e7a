/* Hanging up a tree of the graph's edges at its centre, as a candidate. Used by
 * the files of embed.h alone. */
#ifndef BY_PLAN_EMBED_HANG_H
#define BY_PLAN_EMBED_HANG_H

#include "embed_candidate.h"
#include "grow.h"

struct by_hanger {
  struct by_grower grower;
  struct by_draft draft;
  uint32_t *first, *next, *position; /* ends of the edges by vertex; of each vertex in the draft */
  struct by_arena arena;
};

/* The graph must outlive it. */
BANYAN_CHECK enum banyan_status by_hanger_init(struct by_hanger *hanger, const struct by_graph *graph);
/* Also of one that is all zeros. */
void by_hanger_fini(struct by_hanger *hanger);
/* Adds the tree of these n edges to the list; see by_embed_candidates_add. Cost: vertices. */
BANYAN_CHECK enum banyan_status by_hanger_add(struct by_hanger *hanger, struct by_embed_candidates *list,
                                              const uint32_t *edges, uint32_t n, uint32_t *found);

#endif
