/* The linear program of all planners: the largest sum of c_j x_j subject to A x <= b, x >= 0, solved by CLP and
 * extended column by column (column generation). A column is a tree or a candidate, and x_j is its rate. A row is a
 * resource that rates load, and its dual is the price with which new columns are found. A solution starts from the last
 * basis, so after a few new columns it takes a few pivots. The caller owns it; not thread-safe. Values should be near
 * 1: rates are scaled by a unit. */
#ifndef BY_PLANNER_PACK_LP_H
#define BY_PLANNER_PACK_LP_H

#include <stdbool.h>
#include <stdint.h>

#include "fail.h"

struct by_lp {
  uint32_t n_rows, n_columns;
  double unit; /* The rate in bit/s that is 1 in the program. */
  /* The rates of the columns in the last solution: x_j times the unit; 0 for rounding errors of the solver. */
  double *rate;
  bool *allowed; /* Whether each column may have a rate; if false, its rate is 0. */
  /* The prices of the rows in the last solution: the objective's gain per unit of the row, >= 0. */
  double *price;
  double objective; /* The objective of the last solution. */
  /* The following fields are private to lp.c. */
  void *model;
  int *rows;
  double *values;
  uint32_t allocated_rate, allocated_allowed;
};

/* Makes a program with rows "<= upper[i]" and no columns. Each limit is finite and >= 0; the limits are copied. The
 * unit is > 0. BANYAN_ERR_UNSUPPORTED: CLP is not installed. */
BANYAN_CHECK enum banyan_status by_lp_create(uint32_t n_rows, const double *upper, double unit, struct by_lp **out);
/* NULL is allowed. */
void by_lp_destroy(struct by_lp *lp);
/* Adds column number lp->n_columns, which is allowed: `objective` is its factor in the objective, `load` what it uses
 * of every row at a rate of one unit. Cost: rows. */
BANYAN_CHECK enum banyan_status by_lp_add(struct by_lp *lp, double objective, const double *load);
/* Forces a column to 0, or permits any value >= 0 again. */
void by_lp_allow(struct by_lp *lp, uint32_t column, bool allowed);
/* Computes rates, prices and the objective. Cost: exponential in theory; in practice about (rows + columns) pivots of
 * rows^2 steps. BANYAN_ERR_PLAN: the solver failed, or a column has no limit. */
BANYAN_CHECK enum banyan_status by_lp_solve(struct by_lp *lp);
/* Column generation (Gilmore and Gomory 1961): in each round the program with the known columns is solved, and its
 * prices are used to search for more columns. */
struct by_lp_rounds {
  double ratio;        /* The generation ends when the value reaches this part of the bound. */
  uint32_t max;        /* The generation ends after this many rounds. */
  uint32_t idle_limit; /* The generation ends after this many rounds without progress, if the value is good enough. */
  double progress;     /* Rounds that gain less than this part of the bound are without progress. */
  double good_enough;  /* The part of the bound that is good enough. */
  enum banyan_status (*solve)(void *context, double *value);
  /* Adds columns that are worth more than they cost, if there are any; may lower the bound. */
  enum banyan_status (*price)(void *context, double *bound, bool *added);
};
/* Runs the rounds. Afterwards the program is solved with all columns. */
BANYAN_CHECK enum banyan_status by_lp_generate(const struct by_lp_rounds *rounds, void *context, double *bound);
/* Divides all rates by `excess`, for rows that the solver's tolerance has exceeded. Returns the sum of the rates. */
double by_lp_scale(struct by_lp *lp, double excess);

#endif
