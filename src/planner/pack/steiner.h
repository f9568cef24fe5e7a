/* Light trees that may use optional vertices, and lower bounds on the lightest; used by span.c alone. */
#ifndef BY_PLAN_STEINER_H
#define BY_PLAN_STEINER_H

#include "span.h"

/* A vertex that waits with a key. */
struct by_waiting {
  double key;
  uint32_t vertex;
};

struct by_steiner {
  const struct by_graph *graph;
  bool exact;         /* every set of optional vertices is tried */
  uint32_t next;      /* the optional vertex to be flipped next */
  bool *in;           /* vertices of the set that is looked at */
  bool *best;         /* vertices of the lightest tree of this call; between calls of the last one's */
  uint32_t *tree;     /* its edges */
  uint32_t n_tree;    /* how many */
  uint32_t *degree;   /* scratch, of vertices */
  double *far;        /* closure: of each vertex, the way to its terminal */
  uint32_t *terminal; /* which one that is */
  uint32_t *from;     /* the edge by which the way leaves */
  double
      *left; /* ascent: of each arc, what its weight leaves of it; the arcs into v are beside v's edges in `incident` */
  uint32_t *seen; /* of each vertex: the last search that came there */
  uint32_t search;
  uint32_t *found;           /* vertices of a search */
  struct by_waiting *heap;   /* least key first, equal ones by vertex */
  struct by_span_key *joins; /* closure: edges between terminals' parts */
  uint32_t n_heap;
  struct by_arena arena;
};

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
