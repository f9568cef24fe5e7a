/* Light trees that may use optional vertices, and lower bounds on the lightest;
 * used by span.c alone. */
#ifndef BY_PLAN_STEINER_H
#define BY_PLAN_STEINER_H

#include "span.h"

/* NULL: no memory. */
struct by_steiner *by_steiner_create(const struct by_graph *graph);
/* NULL is allowed. */
void by_steiner_destroy(struct by_steiner *steiner);
/* As by_span_lightest, by_span_least and by_span_is_exact. */
double by_steiner_lightest(struct by_steiner *steiner, struct by_span *span);
double by_steiner_least(struct by_steiner *steiner, struct by_span *span);
/* As by_span_certify_well needs it. */
double by_steiner_least_well(struct by_steiner *steiner, struct by_span *span);
bool by_steiner_is_exact(const struct by_steiner *steiner);

#endif
