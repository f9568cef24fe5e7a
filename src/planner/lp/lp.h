/* Packing programs: max sum of c_j x_j subject to A x <= b, x >= 0, solved by
 * CLP and grown column by column. A solve starts from the last one's basis, so
 * after a few new columns it takes a few pivots. The caller owns it; not for
 * several threads. Values are best near 1: scale b before. */
#ifndef BY_PLAN_LP_H
#define BY_PLAN_LP_H

#include <stdint.h>

#include "fail.h"

struct by_lp;

/* n_rows rows "<= upper[i]", each upper finite and >= 0, and no columns. Upper is copied.
 * BANYAN_ERR_UNSUPPORTED: CLP is not installed. */
BANYAN_CHECK enum banyan_status by_lp_create(uint32_t n_rows, const double *upper, struct by_lp **out);
/* NULL is allowed. */
void by_lp_destroy(struct by_lp *lp);
/* Adds column number by_lp_columns(lp): its factor in the objective, and n values in different rows, none of them 0. */
BANYAN_CHECK enum banyan_status by_lp_add(struct by_lp *lp, double objective, uint32_t n, const uint32_t *rows,
                                          const double *values);
uint32_t by_lp_columns(const struct by_lp *lp);
/* Column `column` must be 0 from now on; or may be anything >= 0 again. */
void by_lp_allow(struct by_lp *lp, uint32_t column, int allowed);
/* Cost: exponential in theory; about (rows + columns) pivots of rows^2 steps in practice. BANYAN_ERR_PLAN: the solver
 * gave up or went wrong, or a column has no limit. */
BANYAN_CHECK enum banyan_status by_lp_solve(struct by_lp *lp);
/* Of the last solve, borrowed until the next change. Duals are >= 0, the objective's gain per unit of a row. */
double by_lp_objective(const struct by_lp *lp);
const double *by_lp_values(const struct by_lp *lp);
const double *by_lp_duals(const struct by_lp *lp);

#endif
