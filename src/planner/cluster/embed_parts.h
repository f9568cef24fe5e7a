/* What the files of embed.h share. */
#ifndef BY_PLAN_EMBED_PARTS_H
#define BY_PLAN_EMBED_PARTS_H

#include "embed.h"
#include "embed_choose.h"

struct by_embedding {
  struct by_graph *graph;
  struct by_embed_net net; /* its topology is not looked at any more */
  struct by_embed_candidates candidates;
  struct by_embed_picks picks;
  const char **name; /* of each vertex */
  bool *is_switch;   /* of each vertex */
  double bound, any_number;
  struct by_arena arena;
};

#endif
