/* The linear program of every planner: max sum of c_j x_j subject to A x <= b, x >= 0, solved by CLP and grown column
 * by column (column generation). A column is a tree or a candidate, x_j its rate; a row is something that rates load,
 * and its dual the price by which new columns are found. A solve starts from the last one's basis, so after a few new
 * columns it takes a few pivots. The caller owns it; not for several threads. Values are best near 1: rates are scaled
 * by a unit. */
#ifndef BY_PLANNER_PACK_LP_H
#define BY_PLANNER_PACK_LP_H

#include <stdbool.h>
#include <stdint.h>

#include "fail.h"

struct by_lp {
  uint32_t n_rows, n_columns;
  double unit;      /* the rate that is 1 in the program */
  double *rate;     /* of each column, of the last solve: x_j times the unit, and 0 where it is the solver's rounding */
  bool *allowed;    /* of each column: others have the rate 0 */
  double *price;    /* of each row, of the last solve: the objective's gain per unit of the row, >= 0 */
  double objective; /* of the last solve */
  /* Private to lp.c. */
  void *model;
  int *rows;
  double *values;
  uint32_t rate_room, allowed_room;
};

/* n_rows rows "<= upper[i]", each upper finite and >= 0, and no columns. Upper is copied. The unit is > 0.
 * BANYAN_ERR_UNSUPPORTED: CLP is not installed. */
BANYAN_CHECK enum banyan_status by_lp_create(uint32_t n_rows, const double *upper, double unit, struct by_lp **out);
/* NULL is allowed. */
void by_lp_destroy(struct by_lp *lp);
/* Adds column number lp->n_columns, which is allowed: its factor in the objective, and what it takes of every row at a
 * rate of one unit. Cost: rows. */
BANYAN_CHECK enum banyan_status by_lp_add(struct by_lp *lp, double objective, const double *load);
/* Column `column` must be 0 from now on; or may be anything >= 0 again. */
void by_lp_allow(struct by_lp *lp, uint32_t column, bool allowed);
/* Fills rate, price and objective. Cost: exponential in theory; about (rows + columns) pivots of rows^2 steps in
 * practice. BANYAN_ERR_PLAN: the solver gave up or went wrong, or a column has no limit. */
BANYAN_CHECK enum banyan_status by_lp_solve(struct by_lp *lp);
/* Column generation (Gilmore and Gomory 1961): in rounds, the program of the columns that are known is solved, and more
 * columns are looked for at its prices. */
struct by_lp_rounds {
  double ratio;        /* it ends when the value is so much of the bound, */
  uint32_t most;       /* after so many rounds, */
  uint32_t idle_limit; /* or after so many */
  double progress;     /* that gained less than this part of the bound, */
  double good_enough;  /* where the value is so much of it */
  enum banyan_status (*solve)(void *context, double *value);
  /* Adds columns, if there are any that are worth more than they cost; may lower the bound. */
  enum banyan_status (*price)(void *context, double *bound, bool *added);
};
/* On return the program is solved, and no column is newer. */
BANYAN_CHECK enum banyan_status by_lp_generate(const struct by_lp_rounds *rounds, void *context, double *bound);
/* Divides all rates by `excess`, so that they keep to the rows also where the solver's tolerance did not; their sum. */
double by_lp_scale(struct by_lp *lp, double excess);

#endif
