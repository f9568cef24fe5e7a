/* Which ranks are alike: where all play one schedule, turned, and the network
 * looks the same to several of them, they do everything at the same time, and
 * one of them stands for all. */
#ifndef BY_SIMULATE_SYMMETRY_H
#define BY_SIMULATE_SYMMETRY_H

#include "ways.h"

struct by_symmetry {
  uint32_t n_rank_classes, n_resource_classes;
  uint32_t *rank_class;     /* of each rank, numbered by their first members */
  uint32_t *resource_class; /* of each resource of the ways that a stream uses; UINT32_MAX: of others */
};

/* Every rank is a class of its own where roles are not turned, or where few are alike.
 *
 * Colour refinement: ranks, streams and resources begin with one colour each (resources by capacity) and are told apart
 * by the colours of what they have to do with, until nothing more is. Then classes are an equitable partition: each
 * resource of a class carries as many streams of each class as any other, so max-min shares and with them all times are
 * the same within a class (Grohe et al., Dimension Reduction via Colour Refinement, ESA 2014, show it for linear
 * programs). Colours are 64-bit hashes. Cost: rounds x length of all ways. */
BANYAN_CHECK enum banyan_status by_symmetry_find(struct by_symmetry *symmetry, const struct by_ways *ways);
void by_symmetry_fini(struct by_symmetry *symmetry);

#endif
