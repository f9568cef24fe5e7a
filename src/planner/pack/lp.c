/* Solves linear programs with CLP, a C++ library with a C interface, by the primal simplex method from the present
 * basis. New columns enter at 0, so that basis stays feasible and a solution after a few columns is short. The first
 * use in a process loads the library: it starts a BLAS with threads of its own, which ranks that do not plan should not
 * have. */
#include "lp.h"

#include <Clp_C_Interface.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "library.h"

enum { MAX_PIVOTS = 200000, MAX_ROWS = 1 << 24 };

#define FUNCTIONS(X)                                                                                                   \
  X(Clp_newModel)                                                                                                      \
  X(Clp_deleteModel)                                                                                                   \
  X(Clp_setLogLevel)                                                                                                   \
  X(Clp_loadProblem)                                                                                                   \
  X(Clp_setOptimizationDirection)                                                                                      \
  X(Clp_setMaximumIterations)                                                                                          \
  X(Clp_setNumberIterations)                                                                                           \
  X(Clp_addColumns)                                                                                                    \
  X(Clp_columnUpper)                                                                                                   \
  X(Clp_primal)                                                                                                        \
  X(Clp_initialSolve)                                                                                                  \
  X(Clp_status)                                                                                                        \
  X(Clp_objectiveValue)                                                                                                \
  X(Clp_primalColumnSolution)                                                                                          \
  X(Clp_dualRowSolution)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct { FUNCTIONS(BY_LIBRARY_MEMBER) } clp;
static char missing[256]; /* The reason why CLP cannot be used; "": it can be used. */

static void load_library(void) {
  static const char *const names[] = {FUNCTIONS(BY_LIBRARY_NAME)};
  if (by_library_load("a linear program", "libClp.so.1", "coinor-libclp1", names, sizeof names / sizeof *names, &clp))
    snprintf(missing, sizeof missing, "%s", banyan_error_text());
}

/* Loads CLP, without which no program can be solved. */
static enum banyan_status require_library(void) {
  pthread_once(&once, load_library);
  return *missing ? by_fail(BANYAN_ERR_UNSUPPORTED, "%s", missing) : BANYAN_OK;
}

static const double rounding = 1e-9; /* Smaller values, in units, are rounding errors of the solver. */

static enum banyan_status no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the linear program");
  return BANYAN_ERR_NO_MEMORY;
}

static enum banyan_status add_rows(struct by_lp *lp, const double *upper) {
  double *lower = malloc(((size_t)lp->n_rows + 1) * sizeof *lower);
  if (!lower) return no_memory();
  for (uint32_t i = 0; i < lp->n_rows; i++) lower[i] = -INFINITY;
  static const CoinBigIndex starts[1] = {0};
  clp.Clp_loadProblem(lp->model, 0, (int)lp->n_rows, starts, NULL, NULL, NULL, NULL, NULL, lower, upper);
  free(lower);
  return BANYAN_OK;
}

enum banyan_status by_lp_create(uint32_t n_rows, const double *upper, double unit, struct by_lp **out) {
  if (n_rows > MAX_ROWS)
    return by_fail(BANYAN_ERR_ARGUMENT, "a linear program of %u rows is too large; at most %u are possible", n_rows,
                   MAX_ROWS);
  for (uint32_t i = 0; i < n_rows; i++)
    if (!(upper[i] >= 0) || isinf(upper[i]))
      return by_fail(BANYAN_ERR_ARGUMENT, "the limit of row %u is %g; it must be finite and >= 0", i, upper[i]);
  BY_TRY(require_library());
  struct by_lp *lp = calloc(1, sizeof *lp);
  if (!lp) return no_memory();
  lp->n_rows = n_rows;
  lp->unit = unit;
  lp->model = clp.Clp_newModel();
  lp->price = calloc((size_t)n_rows + 1, sizeof *lp->price);
  lp->rows = calloc((size_t)n_rows + 1, sizeof *lp->rows);
  lp->values = calloc((size_t)n_rows + 1, sizeof *lp->values);
  enum banyan_status status = lp->model && lp->price && lp->rows && lp->values ? BANYAN_OK : no_memory();
  if (status == BANYAN_OK) {
    clp.Clp_setLogLevel(lp->model, 0); /* CLP would write to standard output. */
    status = add_rows(lp, upper);
  }
  if (status != BANYAN_OK) {
    by_lp_destroy(lp);
    return status;
  }
  clp.Clp_setOptimizationDirection(lp->model, -1);
  clp.Clp_setMaximumIterations(lp->model, MAX_PIVOTS);
  *out = lp;
  return BANYAN_OK;
}

void by_lp_destroy(struct by_lp *lp) {
  if (!lp) return;
  if (lp->model) clp.Clp_deleteModel(lp->model);
  free(lp->rate);
  free(lp->allowed);
  free(lp->price);
  free(lp->rows);
  free(lp->values);
  free(lp);
}

enum banyan_status by_lp_add(struct by_lp *lp, double objective, const double *load) {
  size_t n_columns = (size_t)lp->n_columns + 1;
  if (!BY_ARRAY_GROW(&lp->rate, &lp->allocated_rate, n_columns)) return no_memory();
  if (!BY_ARRAY_GROW(&lp->allowed, &lp->allocated_allowed, n_columns)) return no_memory();
  int n = 0;
  for (uint32_t r = 0; r < lp->n_rows; r++) {
    if (load[r] == 0) continue;
    lp->rows[n] = (int)r;
    lp->values[n++] = load[r];
  }
  const double lower = 0, upper = INFINITY;
  const CoinBigIndex starts[2] = {0, n};
  clp.Clp_addColumns(lp->model, 1, &lower, &upper, &objective, starts, lp->rows, lp->values);
  lp->rate[lp->n_columns] = 0;
  lp->allowed[lp->n_columns++] = true;
  return BANYAN_OK;
}

void by_lp_allow(struct by_lp *lp, uint32_t column, bool allowed) {
  lp->allowed[column] = allowed;
  if (!allowed) lp->rate[column] = 0;
  clp.Clp_columnUpper(lp->model)[column] = allowed ? INFINITY : 0;
}

/* Describes a status of CLP. Status 0 is optimal. */
static const char *describe_status(int status) {
  static const char *const words[] = {"", "it has no solution", "a column has no limit", "it took too many steps",
                                      "numbers went out of range"};
  return status > 0 && status < 5 ? words[status] : "it stopped";
}

static void read_solution(struct by_lp *lp) {
  const double *values = clp.Clp_primalColumnSolution(lp->model), *duals = clp.Clp_dualRowSolution(lp->model);
  for (uint32_t c = 0; c < lp->n_columns; c++)
    lp->rate[c] = values[c] > rounding && lp->allowed[c] ? values[c] * lp->unit : 0;
  for (uint32_t r = 0; r < lp->n_rows; r++) lp->price[r] = fmax(duals[r], 0);
  lp->objective = clp.Clp_objectiveValue(lp->model);
}

enum banyan_status by_lp_solve(struct by_lp *lp) {
  if (!lp->n_columns) return BANYAN_OK;
  clp.Clp_setNumberIterations(lp->model, 0);
  clp.Clp_primal(lp->model, 0);
  int status = clp.Clp_status(lp->model);
  if (status > 2) { /* This is another attempt without the old basis. */
    clp.Clp_setNumberIterations(lp->model, 0);
    clp.Clp_initialSolve(lp->model);
    status = clp.Clp_status(lp->model);
  }
  if (status == 0) {
    read_solution(lp);
    return BANYAN_OK;
  }
  return by_fail(BANYAN_ERR_PLAN, "the linear program of %u rows and %u trees was not solved: %s", lp->n_rows,
                 lp->n_columns, describe_status(status));
}

double by_lp_scale(struct by_lp *lp, double excess) {
  double sum = 0;
  for (uint32_t c = 0; c < lp->n_columns; c++) sum += lp->rate[c] /= excess;
  return sum;
}

enum banyan_status by_lp_generate(const struct by_lp_rounds *rounds, void *context, double *bound) {
  double value, before = 0;
  bool added = true;
  for (uint32_t round = 0, idle = 0; added && round < rounds->max; round++) {
    BY_TRY(rounds->solve(context, &value));
    double ratio = value / *bound;
    idle = ratio > before + rounds->progress ? 0 : idle + 1;
    if (!idle) before = ratio;
    if (value >= rounds->ratio * *bound || (idle >= rounds->idle_limit && ratio >= rounds->good_enough))
      return BANYAN_OK;
    BY_TRY(rounds->price(context, bound, &added));
  }
  return added ? rounds->solve(context, &value) : BANYAN_OK;
}
