/* The kinds of topology_synth.h once their options are read: what each is made
 * of. Every maker checks the number of nodes and links before it adds any. */
#ifndef BY_TOPOLOGY_TOPOLOGY_SHAPES_H
#define BY_TOPOLOGY_TOPOLOGY_SHAPES_H

#include "topology_make.h"

enum { BY_MOST_SIZES = 4, BY_MOST_RATES = 64 };
enum { BY_ADDS_LEAF = 1, BY_ADDS_SPINE = 2 }; /* switches with hosts; those above them */

struct by_rates {
  double rate[BY_MOST_RATES]; /* the last one is for all that follow */
  uint32_t n;
};

struct by_shape {
  uint32_t size[BY_MOST_SIZES], n_sizes;
  struct by_rates nic, link; /* n = 0: not given */
  double lan, wan, rtt, delay, oversub;
  uint32_t spines, degree; /* 0: not given */
  uint32_t helpers, seed, adds;
};

typedef enum banyan_status by_shape_make(struct by_topology_builder *builder, const struct by_shape *shape);

by_shape_make by_make_star, by_make_ring, by_make_line, by_make_mesh, by_make_torus, by_make_random, by_make_tree,
    by_make_clos, by_make_fattree, by_make_sites;

/* --- for the makers --- */

static inline double by_rate_of(const struct by_rates *rates, uint32_t i) {
  return rates->rate[i < rates->n ? i : rates->n - 1];
}

#endif
