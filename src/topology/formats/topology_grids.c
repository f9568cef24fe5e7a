/* Shapes of hosts alone: rings, lines, meshes, tori, random graphs. */
#include <stdlib.h>

#include "rng.h"
#include "topology_shapes.h"

enum { USUAL_DEGREE = 3 };

static double link_rate(const struct by_shape *shape, uint32_t i) {
  return by_rate_of(shape->link.n ? &shape->link : &shape->nic, i);
}

static enum banyan_status join(struct by_topology_builder *builder, const struct by_shape *shape, uint32_t a,
                               uint32_t b, double rate) {
  return by_topology_builder_add_link(builder, a, b, rate, shape->delay, NULL);
}

static void put(struct by_topology_builder *builder, uint32_t node, double x, double y) {
  struct by_node *at = by_topology_builder_node(builder, node);
  at->x = x;
  at->y = y;
}

enum banyan_status by_make_line(struct by_topology_builder *builder, const struct by_shape *shape) {
  uint32_t n = shape->size[0];
  BY_TRY(by_shape_check(n, n));
  BY_TRY(by_shape_hosts(builder, shape, n));
  for (uint32_t i = 0; i + 1 < n; i++) BY_TRY(join(builder, shape, i, i + 1, link_rate(shape, i)));
  return BANYAN_OK;
}

enum banyan_status by_make_ring(struct by_topology_builder *builder, const struct by_shape *shape) {
  uint32_t n = shape->size[0];
  BY_TRY(by_make_line(builder, shape));
  return join(builder, shape, n - 1, 0, link_rate(shape, n - 1));
}

enum banyan_status by_make_mesh(struct by_topology_builder *builder, const struct by_shape *shape) {
  double all = (double)shape->size[0] + shape->helpers;
  BY_TRY(by_shape_check(all, all * (all - 1) / 2));
  BY_TRY(by_shape_hosts(builder, shape, shape->size[0]));
  for (uint32_t i = 0; i < (uint32_t)all; i++) {
    struct by_node *node = by_topology_builder_node(builder, i);
    node->out.all = node->in.all = by_rate_of(&shape->nic, i);
    for (uint32_t j = 0; j < i; j++) {
      double least = by_rate_of(&shape->nic, j) < node->out.all ? by_rate_of(&shape->nic, j) : node->out.all;
      BY_TRY(join(builder, shape, j, i, shape->link.n ? shape->link.rate[0] : least));
    }
  }
  return BANYAN_OK;
}

/* --- torus --- */

/* The next host along dimension d, all round; itself where there is none, or where the way back is the same link. */
static uint32_t neighbour(const uint32_t *size, const uint32_t *at, int d) {
  uint32_t next[3] = {at[0], at[1], at[2]};
  if (size[d] == 1 || (size[d] == 2 && at[d] == 1)) return UINT32_MAX;
  next[d] = (at[d] + 1) % size[d];
  return (next[2] * size[0] + next[0]) * size[1] + next[1];
}

/* Host (row, column, layer); layers are drawn behind each other. */
static enum banyan_status add_torus_host(struct by_topology_builder *builder, const struct by_shape *shape,
                                         const uint32_t *at) {
  uint32_t node;
  if (shape->n_sizes == 3)
    BY_TRY(by_shape_host(builder, "", &node, "h%u-%u-%u", at[0], at[1], at[2]));
  else
    BY_TRY(by_shape_host(builder, "", &node, "h%u-%u", at[0], at[1]));
  put(builder, node, at[1] + 0.35 * at[2], -(double)at[0] + 0.35 * at[2]);
  return BANYAN_OK;
}

enum banyan_status by_make_torus(struct by_topology_builder *builder, const struct by_shape *shape) {
  uint32_t size[3] = {shape->size[0], shape->size[1], shape->n_sizes == 3 ? shape->size[2] : 1};
  double all = (double)size[0] * size[1] * size[2];
  BY_TRY(by_shape_check(all, 3 * all));
  for (uint32_t i = 0; i < (uint32_t)all; i++)
    BY_TRY(add_torus_host(builder, shape, (uint32_t[]){i / size[1] % size[0], i % size[1], i / (size[0] * size[1])}));
  for (uint32_t i = 0; i < (uint32_t)all; i++)
    for (int d = 0; d < 3; d++) {
      uint32_t next = neighbour(size, (uint32_t[]){i / size[1] % size[0], i % size[1], i / (size[0] * size[1])}, d);
      if (next != UINT32_MAX) BY_TRY(join(builder, shape, i, next, link_rate(shape, 0)));
    }
  return BANYAN_OK;
}

/* --- random --- */

/* Pairs that are linked, in an open hash table; 0 is free. */
struct pairs {
  uint64_t *slots, mask;
};

static bool init_pairs(struct pairs *pairs, double links) {
  uint64_t n = 64;
  while ((double)n < 2 * links + 2) n *= 2;
  *pairs = (struct pairs){.slots = calloc(n, sizeof *pairs->slots), .mask = n - 1};
  return pairs->slots != NULL;
}

/* False: the pair is linked, or is no pair. */
static bool add_pair(struct pairs *pairs, uint32_t a, uint32_t b) {
  uint64_t key = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
  uint64_t at = (key * 0x9e3779b97f4a7c15ull >> 17) & pairs->mask;
  if (a == b) return false;
  for (; pairs->slots[at]; at = (at + 1) & pairs->mask)
    if (pairs->slots[at] == key) return false;
  pairs->slots[at] = key;
  return true;
}

struct random_graph {
  struct by_topology_builder *builder;
  const struct by_shape *shape;
  struct pairs pairs;
  struct by_rng rng;
  uint32_t nodes, links; /* wanted */
};

static enum banyan_status join_random(struct random_graph *g, uint32_t a, uint32_t b) {
  static const struct by_rates usual = {.rate = {1e9, 2.5e9, 10e9}, .n = 3};
  const struct by_rates *rates = g->shape->link.n ? &g->shape->link : &usual;
  return add_pair(&g->pairs, a, b) ? join(g->builder, g->shape, a, b, rates->rate[by_rng_below(&g->rng, rates->n)])
                                   : BANYAN_OK;
}

/* Each host to an earlier one, then any two, and where few are left, all that are. */
static enum banyan_status join_all(struct random_graph *g) {
  const struct by_topology *topology = g->builder->topology;
  for (uint32_t i = 1; i < g->nodes; i++) BY_TRY(join_random(g, (uint32_t)by_rng_below(&g->rng, i), i));
  for (uint64_t tries = 4 * (uint64_t)g->links; tries && topology->n_links < g->links; tries--) {
    uint32_t a = (uint32_t)by_rng_below(&g->rng, g->nodes), b = (uint32_t)by_rng_below(&g->rng, g->nodes);
    BY_TRY(join_random(g, a, b));
  }
  for (uint32_t a = 0; a < g->nodes; a++)
    for (uint32_t b = 0; b < a && topology->n_links < g->links; b++) BY_TRY(join_random(g, b, a));
  return BANYAN_OK;
}

enum banyan_status by_make_random(struct by_topology_builder *builder, const struct by_shape *shape) {
  double all = (double)shape->size[0] + shape->helpers, usual = all > USUAL_DEGREE ? USUAL_DEGREE : all - 1;
  double links = all * (shape->degree ? shape->degree : usual) / 2;
  if (shape->degree >= all)
    return by_fail(BANYAN_ERR_TOPOLOGY, "the degree is %u, but a host has only %.0f others", shape->degree, all - 1);
  if (links < all - 1) links = all - 1;
  BY_TRY(by_shape_check(all, links));
  BY_TRY(by_shape_hosts(builder, shape, shape->size[0]));
  struct random_graph g = {.builder = builder, .shape = shape, .nodes = (uint32_t)all, .links = (uint32_t)links};
  if (!init_pairs(&g.pairs, links)) return by_topology_no_memory();
  by_rng_init(&g.rng, shape->seed);
  enum banyan_status status = join_all(&g);
  free(g.pairs.slots);
  return status;
}
