/* Assignment with capacities: whom of many each of some takes. As many as
 * possible are taken, and of all ways to take so many, one that costs least (a
 * maximum b-matching of least cost, the transportation problem). Plain values,
 * without names; the same input gives the same answer. */
#ifndef BY_PLAN_ASSIGN_H
#define BY_PLAN_ASSIGN_H

#include <stdint.h>

#include "fail.h"

/* One may take the other, at this cost for each unit. */
struct by_assign_pair {
  uint32_t from, to;
  uint32_t cost;
};

struct by_assign {
  uint32_t n_from, n_to;
  const uint32_t *supply; /* of each `from`: the most it takes */
  const uint32_t *demand; /* of each `to`: the most that is taken of it */
  uint32_t n_pairs;
  const struct by_assign_pair *pairs; /* ascending by `from`, no pair twice */
};

/* So many pairs are assigned at least cost; of more, cheap ones are taken first. */
enum { BY_ASSIGN_EXACT = 20000 };

/* flow[i]: how much pair i carries; the caller gives n_pairs numbers. Their sum is the largest possible, and up to
 * BY_ASSIGN_EXACT pairs, of the flows with that sum this one costs least: shortest paths with potentials, all paths of
 * equal cost at once (the primal-dual method of Ford and Fulkerson, with Dinic's blocking flows), which takes pairs x
 * log(n_from + n_to) for each cost that a path can have. Of more pairs the cheapest are taken in turn (at most twice
 * the least cost for as much), and then ways are found to take more, at any cost: pairs x sqrt(n_from + n_to) at worst.
 * BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_assign_solve(const struct by_assign *assign, uint32_t *flow);

#endif
