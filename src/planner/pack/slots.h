/* K trees with shares, improved one after the other: each in turn is taken out and grown anew where the others leave
 * room. Room is priced: a resource costs more, exponentially, the fuller the others make it, so that a cheapest tree
 * lowers the sum of all prices, and each step brings the fullest resource down. It is a local search, the potential
 * game of Rosenthal (1973) with the prices of Plotkin, Shmoys and Tardos (1991); it promises nothing. The caller owns
 * it and fills the shares. Not for several threads. */
#ifndef BY_PLAN_SLOTS_H
#define BY_PLAN_SLOTS_H

#include "grow.h"
#include "rng.h"

struct by_slot {
  uint32_t n, *edges; /* ascending; n = 0: no tree yet */
  double share;       /* of the throughput */
  uint32_t number;    /* of its tree in a linear program; set and read by what solves that */
  bool *allowed;      /* optional vertex i, number n_terminals + i: the tree may use it */
};

struct by_slots {
  struct by_grower *grower;
  uint32_t n;
  struct by_slot *slots;
  double most_height;
  const uint32_t *roots; /* vertices from which that height can be kept */
  uint32_t n_roots;
  double target; /* throughput, bit/s, at which resources are called full */
  double steep;  /* price of a resource: exp(steep * (load - 1)) */
  double *load;  /* of each resource in parts of its capacity, at `target` */
  /* Working memory: loads of the other trees, what the growing tree adds, prices, inverse capacities, and noise. */
  double *others, *step, *price, *inverse, *noise;
  uint32_t luck; /* where the noise of edge 0 is */
  bool shared;   /* an edge that is taken makes others dearer */
  struct by_slot spare;
  struct by_rng rng;
  struct by_arena arena;
};

/* n slots without trees, of equal shares. The grower must outlive them, and is used for growing. */
BANYAN_CHECK enum banyan_status by_slots_init(struct by_slots *slots, struct by_grower *grower, uint32_t n,
                                              uint64_t seed);
void by_slots_fini(struct by_slots *slots);
/* Grows each tree anew, once, and keeps what is no worse. False: a slot is empty still, since no tree can be grown.
 * Cost: n times a growth. */
bool by_slots_sweep(struct by_slots *slots);
/* Makes loads fit the trees, shares and target, which somebody changed. */
void by_slots_recount(struct by_slots *slots);
/* The throughput that the trees reach with just these shares. */
double by_slots_throughput(const struct by_slots *slots);

/* Trees changed by one edge at a time: an edge comes in, another one of the circle that it closes goes out, and what
 * makes links fuller than full is taken less and less often (annealing: Kirkpatrick, Gelatt and Vecchi 1983). Finds
 * what growing whole trees anew does not, where few trees must fill unequal links; heights are not looked at. Works on
 * slots that all have a tree, over terminals alone. */
struct by_swaps {
  struct by_slots *slots;
  uint32_t *up;    /* of vertex v in tree t, up[t * n_vertices + v]: the edge towards the root */
  uint32_t *stamp; /* of each vertex: when it was passed last */
  uint32_t now;
  uint64_t work; /* edges that were looked at */
  struct by_arena arena;
};

/* Reads the slots' trees. The slots must outlive it. */
BANYAN_CHECK enum banyan_status by_swaps_init(struct by_swaps *swaps, struct by_slots *slots);
void by_swaps_fini(struct by_swaps *swaps);
/* Tries swaps until `work` edges have been looked at, and writes the trees back. A swap that raises the sum of the
 * squares of what resources carry beyond their capacity, in parts of it, by d is made with probability exp(-d / heat).
 */
void by_swaps_try(struct by_swaps *swaps, uint64_t work, double heat);

#endif
