/* Maximum flows and minimum cuts in directed networks. Call init with the numbers of vertices and arcs, add the arcs,
 * seal, then run any number of flows; capacities may change between runs. Owned by the caller, who calls fini; not for
 * several threads. */
#ifndef BY_PLANNER_COST_MAX_FLOW_H
#define BY_PLANNER_COST_MAX_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"

struct by_flow_network {
  uint32_t n_vertices, n_arcs, max_arcs; /* n_arcs: arcs added so far */
  double *capacity;                      /* of each arc, >= 0 and finite; may be set between runs */
  /* The rest is private to max_flow.c. Arc a is directed arc 2a; 2a + 1 is its reverse, which a flow opens. */
  uint32_t *head;            /* of each directed arc: the vertex at its end */
  double *left;              /* of each directed arc: its residual capacity */
  uint32_t *first, *leaving; /* directed arcs that leave vertex v: leaving[first[v] .. first[v + 1]) */
  uint32_t *level;           /* of each vertex in the last search; UINT32_MAX: not reached */
  uint32_t *next, *queue, *path;
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_flow_init(struct by_flow_network *flow, uint32_t n_vertices, uint32_t max_arcs);
/* Frees a network; one that is all zeros is allowed. */
void by_flow_fini(struct by_flow_network *flow);
/* Adds an arc between vertices that differ, at most max_arcs in all. Returns its number: 0, 1, ... */
uint32_t by_flow_add(struct by_flow_network *flow, uint32_t from, uint32_t to, double capacity);
/* Indexes the arcs, once all are added. */
void by_flow_seal(struct by_flow_network *flow);
/* Returns the value of a maximum flow (Dinic 1970). Cost: vertices^2 x arcs at most, in practice some searches over all
 * arcs. */
double by_flow_run(struct by_flow_network *flow, uint32_t from, uint32_t to);
/* Returns whether, after a run, the vertex is on the source's side of the smallest minimum cut. */
bool by_flow_is_inside(const struct by_flow_network *flow, uint32_t vertex);
/* Return the two ends of an arc. */
uint32_t by_flow_tail(const struct by_flow_network *flow, uint32_t arc);
uint32_t by_flow_head(const struct by_flow_network *flow, uint32_t arc);

#endif
