/* How the memory of a switch that adds is shared out between jobs: arithmetic
 * alone. What a job is given it keeps until it leaves, as its ends have agreed on
 * it. So whoever comes is given what would be its fair share if all began now,
 * and a quarter of the memory is only for those that come when the rest is gone.
 *
 * Fair is max-min: all get the same part of what they need, weighted by class,
 * but nobody more than it wishes for. Memory is in bytes. */
#ifndef BY_MANAGER_CELLS_H
#define BY_MANAGER_CELLS_H

#include <stdint.h>

struct by_cells_claim {
  double wish, weight; /* >= 0 */
};

/* need: > 0, to do without waiting; only its ratio to that of others counts. One class higher counts twice. */
double by_cells_weight(double need, uint32_t class_);
/* What the n_own claims from claims[first] on, which are one job's, are to be given of `memory`, of which `given` is
 * gone. Where all wishes together fit three quarters of it these are their wishes; where too little is left, the same
 * part of each. Cost: n. */
void by_cells_share(double memory, double given, const struct by_cells_claim *claims, uint32_t n, uint32_t first,
                    uint32_t n_own, double *shares);

#endif
