/* Whether two topologies are equal in every respect. */
#ifndef BY_TESTS_TOPOLOGY_SAME_H
#define BY_TESTS_TOPOLOGY_SAME_H

#include <math.h>
#include <string.h>

#include "topology.h"

static inline bool same_capacity(struct by_capacity a, struct by_capacity b) {
  return a.all == b.all && a.used == b.used;
}

static inline bool same_node(const struct by_node *a, const struct by_node *b) {
  return !strcmp(a->name, b->name) && !strcmp(a->group, b->group) && a->kind == b->kind &&
         a->takes_part == b->takes_part && a->may_help == b->may_help && a->aggregates == b->aggregates &&
         a->memory == b->memory && same_capacity(a->out, b->out) && same_capacity(a->in, b->in) &&
         (a->x == b->x || (isnan(a->x) && isnan(b->x))) && (a->y == b->y || (isnan(a->y) && isnan(b->y)));
}

static inline bool same_link(const struct by_link *a, const struct by_link *b) {
  return a->a == b->a && a->b == b->b && same_capacity(a->capacity[0], b->capacity[0]) &&
         same_capacity(a->capacity[1], b->capacity[1]) && a->delay == b->delay && a->loss == b->loss &&
         !strcmp(a->port[0], b->port[0]) && !strcmp(a->port[1], b->port[1]);
}

static inline bool same_topology(const struct by_topology *a, const struct by_topology *b) {
  if (strcmp(a->name, b->name) != 0 || a->n_nodes != b->n_nodes || a->n_links != b->n_links) return false;
  for (uint32_t i = 0; i < a->n_nodes; i++)
    if (!same_node(&a->nodes[i], &b->nodes[i])) return false;
  for (uint32_t i = 0; i < a->n_links; i++)
    if (!same_link(&a->links[i], &b->links[i])) return false;
  return true;
}

#endif
