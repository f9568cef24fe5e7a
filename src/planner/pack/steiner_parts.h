/* What the files of the Steiner trees share. */
#ifndef BY_PLAN_STEINER_PARTS_H
#define BY_PLAN_STEINER_PARTS_H

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

void by_waiting_push(struct by_steiner *steiner, double key, uint32_t vertex);
struct by_waiting by_waiting_pop(struct by_steiner *steiner);

/* The spanning tree of the metric closure over the terminals (Mehlhorn 1988): its weight, and in `in` the vertices on
 * its paths. O(edges log edges). */
double by_steiner_closure(struct by_steiner *steiner, const struct by_span *span);
/* Dual ascent (Wong 1984): a weight that no Steiner tree is below. */
double by_steiner_ascent(struct by_steiner *steiner, const struct by_span *span);

#endif
