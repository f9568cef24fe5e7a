/* Shapes of switches and hosts: stars, trees, Clos networks, sites; and of hosts alone: rings, lines, meshes, tori,
 * random graphs. */
#include "topology_shapes.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "rng.h"

enum { NAME_BYTES = 48, MOST_DEFAULT_SPINES = 16 };

/* --- for all makers --- */

/* Refuses what no topology may hold. */
static enum banyan_status shape_check(double nodes, double links) {
  if (nodes <= BY_TOPOLOGY_MOST_NODES && links <= BY_TOPOLOGY_MOST_LINKS) return BANYAN_OK;
  return by_fail(BANYAN_ERR_TOPOLOGY, "%.0f nodes and %.0f links are too many: most are %d and %d", nodes, links,
                 BY_TOPOLOGY_MOST_NODES, BY_TOPOLOGY_MOST_LINKS);
}

static enum banyan_status set_group(struct by_topology_builder *builder, uint32_t node, const char *group) {
  return by_topology_builder_keep(builder, group, &by_topology_builder_node(builder, node)->group);
}

/* A host that takes part, named by the format. */
static enum banyan_status shape_host(struct by_topology_builder *builder, const char *group, uint32_t *out,
                                     const char *format, ...) {
  char name[NAME_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  BY_TRY(by_topology_builder_add(builder, BY_NODE_HOST, name, out));
  return set_group(builder, *out, group);
}

/* A host that helps; the i-th. */
static enum banyan_status shape_helper(struct by_topology_builder *builder, const char *group, uint32_t i,
                                       uint32_t *out) {
  BY_TRY(shape_host(builder, group, out, "helper%u", i));
  struct by_node *node = by_topology_builder_node(builder, *out);
  node->takes_part = false;
  node->may_help = true;
  return BANYAN_OK;
}

/* n hosts "h0", ... and behind them shape->helpers hosts "helper0", ... that help and do not take part. */
static enum banyan_status shape_hosts(struct by_topology_builder *builder, const struct by_shape *shape, uint32_t n) {
  uint32_t at;
  for (uint32_t i = 0; i < n; i++) BY_TRY(shape_host(builder, "", &at, "h%u", i));
  for (uint32_t i = 0; i < shape->helpers; i++) BY_TRY(shape_helper(builder, "", i, &at));
  return BANYAN_OK;
}

/* `level` is BY_ADDS_LEAF or BY_ADDS_SPINE. */
static enum banyan_status shape_switch(struct by_topology_builder *builder, const struct by_shape *shape,
                                       uint32_t level, const char *group, uint32_t *out, const char *format, ...) {
  char name[NAME_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  BY_TRY(by_topology_builder_add(builder, BY_NODE_SWITCH, name, out));
  by_topology_builder_node(builder, *out)->aggregates = (shape->adds & level) != 0;
  return set_group(builder, *out, group);
}

static enum banyan_status join(struct by_topology_builder *builder, const struct by_shape *shape, uint32_t a,
                               uint32_t b, double rate) {
  return by_topology_builder_add_link(builder, a, b, rate, shape->delay, NULL);
}

/* --- star --- */

enum banyan_status by_make_star(struct by_topology_builder *builder, const struct by_shape *shape) {
  uint32_t n = shape->size[0] + shape->helpers, centre;
  BY_TRY(shape_check((double)shape->size[0] + shape->helpers + 1, 0));
  BY_TRY(shape_hosts(builder, shape, shape->size[0]));
  BY_TRY(shape_switch(builder, shape, BY_ADDS_LEAF | BY_ADDS_SPINE, "", &centre, "switch"));
  for (uint32_t i = 0; i < n; i++) BY_TRY(join(builder, shape, i, centre, by_rate_of(&shape->nic, i)));
  return BANYAN_OK;
}

/* --- clos: hosts, leaves, spines ---
 *
 *        spine0   spine1
 *        |  |  \ /  |  |       each leaf has a link to each spine
 *        |  |  / \  |  |
 *         leaf0     leaf1
 *         |...|     |...|
 */

/* As many as leave a link up at least as fast as a host's. */
static uint32_t spines_of(const struct by_shape *shape) {
  double wanted = floor(shape->size[1] / shape->oversub);
  if (shape->spines) return shape->spines;
  return wanted < 1 ? 1 : wanted > MOST_DEFAULT_SPINES ? MOST_DEFAULT_SPINES : (uint32_t)wanted;
}

/* size[0] groups of size[1] hosts, and the helpers in turn. Names begin with the kind's first letter. */
static enum banyan_status add_grouped_hosts(struct by_topology_builder *builder, const struct by_shape *shape,
                                            const char *kind) {
  uint32_t groups = shape->size[0], hosts = shape->size[1], at;
  char group[NAME_BYTES];
  for (uint32_t i = 0; i < groups * hosts; i++) {
    snprintf(group, sizeof group, "%s%u", kind, i / hosts);
    BY_TRY(shape_host(builder, group, &at, "%c%uh%u", kind[0], i / hosts, i % hosts));
  }
  for (uint32_t i = 0; i < shape->helpers; i++) {
    snprintf(group, sizeof group, "%s%u", kind, i % groups);
    BY_TRY(shape_helper(builder, group, i, &at));
  }
  return BANYAN_OK;
}

static enum banyan_status add_layers(struct by_topology_builder *builder, const struct by_shape *shape, uint32_t leaves,
                                     uint32_t spines) {
  char group[NAME_BYTES];
  uint32_t at;
  for (uint32_t i = 0; i < leaves; i++) {
    snprintf(group, sizeof group, "rack%u", i);
    BY_TRY(shape_switch(builder, shape, BY_ADDS_LEAF, group, &at, "leaf%u", i));
  }
  for (uint32_t i = 0; i < spines; i++) BY_TRY(shape_switch(builder, shape, BY_ADDS_SPINE, "", &at, "spine%u", i));
  return BANYAN_OK;
}

enum banyan_status by_make_clos(struct by_topology_builder *builder, const struct by_shape *shape) {
  uint32_t racks = shape->size[0], hosts = shape->size[1], spines = spines_of(shape);
  double all = (double)racks * hosts + shape->helpers, nic = by_rate_of(&shape->nic, 0);
  assert(racks > 0 && hosts > 0);
  BY_TRY(shape_check(all + racks + spines, all + (double)racks * spines));
  uint32_t n = racks * hosts, leaf = n + shape->helpers, spine = leaf + racks;
  BY_TRY(add_grouped_hosts(builder, shape, "rack"));
  BY_TRY(add_layers(builder, shape, racks, spines));
  for (uint32_t i = 0; i < leaf; i++)
    BY_TRY(join(builder, shape, i, leaf + (i < n ? i / hosts : (i - n) % racks), nic));
  for (uint32_t i = 0; i < racks * spines; i++)
    BY_TRY(join(builder, shape, leaf + i / spines, spine + i % spines, nic * hosts / shape->oversub / spines));
  return BANYAN_OK;
}

/* --- fat tree: k pods of k / 2 edge and k / 2 upper switches; (k / 2)^2 cores --- */

static enum banyan_status add_pod(struct by_topology_builder *builder, const struct by_shape *shape, uint32_t pod) {
  uint32_t half = shape->size[0] / 2, at;
  char group[NAME_BYTES];
  snprintf(group, sizeof group, "pod%u", pod);
  for (uint32_t i = 0; i < half; i++) BY_TRY(shape_switch(builder, shape, BY_ADDS_LEAF, group, &at, "p%ue%u", pod, i));
  for (uint32_t i = 0; i < half; i++) BY_TRY(shape_switch(builder, shape, BY_ADDS_SPINE, group, &at, "p%ua%u", pod, i));
  return BANYAN_OK;
}

static enum banyan_status join_pod(struct by_topology_builder *builder, const struct by_shape *shape, uint32_t pod) {
  uint32_t half = shape->size[0] / 2, hosts = half * half, n = hosts * shape->size[0];
  uint32_t edge = n + pod * shape->size[0], upper = edge + half, core = n + shape->size[0] * shape->size[0];
  double nic = by_rate_of(&shape->nic, 0);
  for (uint32_t i = 0; i < half; i++)
    for (uint32_t j = 0; j < half; j++) {
      BY_TRY(join(builder, shape, pod * hosts + i * half + j, edge + i, nic));
      BY_TRY(join(builder, shape, edge + i, upper + j, nic));
      BY_TRY(join(builder, shape, upper + i, core + i * half + j, nic));
    }
  return BANYAN_OK;
}

enum banyan_status by_make_fattree(struct by_topology_builder *builder, const struct by_shape *shape) {
  uint32_t k = shape->size[0], half = k / 2, at;
  double hosts = (double)k * k * k / 4;
  char group[NAME_BYTES];
  if (k % 2) return by_fail(BANYAN_ERR_TOPOLOGY, "the number of ports is %u, must be even", k);
  BY_TRY(shape_check(hosts + 1.25 * k * k, 3 * hosts));
  for (uint32_t i = 0; i < k * half * half; i++) {
    uint32_t pod = i / (half * half), edge = i / half % half;
    snprintf(group, sizeof group, "pod%u", pod);
    BY_TRY(shape_host(builder, group, &at, "p%ue%uh%u", pod, edge, i % half));
  }
  for (uint32_t i = 0; i < k; i++) BY_TRY(add_pod(builder, shape, i));
  for (uint32_t i = 0; i < half * half; i++) BY_TRY(shape_switch(builder, shape, BY_ADDS_SPINE, "", &at, "c%u", i));
  for (uint32_t i = 0; i < k; i++) BY_TRY(join_pod(builder, shape, i));
  return BANYAN_OK;
}

/* --- tree: levels of switches, hosts at the last --- */

static double nodes_of_tree(const struct by_shape *shape) {
  double level = 1, all = 1;
  for (uint32_t i = 0; i < shape->n_sizes; i++) all += level *= shape->size[i];
  return all;
}

/* Switches of level l (the root is 0) come behind those of level l - 1; hosts are first of all. */
static enum banyan_status add_tree_level(struct by_topology_builder *builder, const struct by_shape *shape,
                                         uint32_t level, uint32_t n) {
  uint32_t last = shape->n_sizes - 1, at;
  char group[NAME_BYTES] = "";
  for (uint32_t i = 0; i < n; i++) {
    if (level == last) snprintf(group, sizeof group, "rack%u", i);
    BY_TRY(shape_switch(builder, shape, level == last ? BY_ADDS_LEAF : BY_ADDS_SPINE, group, &at, "s%u-%u", level, i));
  }
  return BANYAN_OK;
}

enum banyan_status by_make_tree(struct by_topology_builder *builder, const struct by_shape *shape) {
  uint32_t last = shape->n_sizes - 1, hosts = 1, at;
  char group[NAME_BYTES];
  double nodes = nodes_of_tree(shape), rate = by_rate_of(&shape->nic, 0);
  assert(shape->size[last] > 0);
  BY_TRY(shape_check(nodes, nodes));
  for (uint32_t i = 0; i <= last; i++) hosts *= shape->size[i];
  for (uint32_t i = 0; i < hosts; i++) {
    snprintf(group, sizeof group, "rack%u", i / shape->size[last]);
    BY_TRY(shape_host(builder, group, &at, "h%u", i));
  }
  for (uint32_t level = 0, n = 1; level <= last; n *= shape->size[level++])
    BY_TRY(add_tree_level(builder, shape, level, n));
  uint32_t below = 0, n = hosts, end = (uint32_t)nodes; /* join each level to the one above, from the hosts up */
  for (uint32_t level = last + 1; level-- > 0;) {
    uint32_t each = shape->size[level];
    assert(each > 0);
    uint32_t above = end - n / each;
    for (uint32_t i = 0; i < n; i++) BY_TRY(join(builder, shape, below + i, above + i / each, rate));
    below = end = above;
    n /= each;
    rate *= each / shape->oversub;
  }
  return BANYAN_OK;
}

/* --- sites: routers, each with its hosts, all joined --- */

static enum banyan_status add_site_hosts(struct by_topology_builder *builder, const struct by_shape *shape) {
  uint32_t sites = shape->size[0], at;
  char group[NAME_BYTES];
  BY_TRY(add_grouped_hosts(builder, shape, "site"));
  for (uint32_t i = 0; i < sites; i++) {
    snprintf(group, sizeof group, "site%u", i);
    BY_TRY(shape_switch(builder, shape, BY_ADDS_LEAF, group, &at, "router%u", i));
  }
  return BANYAN_OK;
}

enum banyan_status by_make_sites(struct by_topology_builder *builder, const struct by_shape *shape) {
  double sites = shape->size[0], all = sites * shape->size[1] + shape->helpers;
  BY_TRY(shape_check(all + sites, all + sites * (sites - 1) / 2));
  uint32_t n = shape->size[0] * shape->size[1], router = n + shape->helpers;
  BY_TRY(add_site_hosts(builder, shape));
  for (uint32_t i = 0; i < router; i++) {
    uint32_t site = i < n ? i / shape->size[1] : (i - n) % shape->size[0];
    BY_TRY(join(builder, shape, i, router + site, shape->lan));
  }
  for (uint32_t i = 0; i < shape->size[0]; i++)
    for (uint32_t j = i + 1; j < shape->size[0]; j++)
      BY_TRY(by_topology_builder_add_link(builder, router + i, router + j, shape->wan, shape->rtt / 2, NULL));
  return BANYAN_OK;
}

/* --- hosts alone --- */

enum { USUAL_DEGREE = 3 };

static double link_rate(const struct by_shape *shape, uint32_t i) {
  return by_rate_of(shape->link.n ? &shape->link : &shape->nic, i);
}

static void put(struct by_topology_builder *builder, uint32_t node, double x, double y) {
  struct by_node *at = by_topology_builder_node(builder, node);
  at->x = x;
  at->y = y;
}

enum banyan_status by_make_line(struct by_topology_builder *builder, const struct by_shape *shape) {
  uint32_t n = shape->size[0];
  BY_TRY(shape_check(n, n));
  BY_TRY(shape_hosts(builder, shape, n));
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
  BY_TRY(shape_check(all, all * (all - 1) / 2));
  BY_TRY(shape_hosts(builder, shape, shape->size[0]));
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
    BY_TRY(shape_host(builder, "", &node, "h%u-%u-%u", at[0], at[1], at[2]));
  else
    BY_TRY(shape_host(builder, "", &node, "h%u-%u", at[0], at[1]));
  put(builder, node, at[1] + 0.35 * at[2], -(double)at[0] + 0.35 * at[2]);
  return BANYAN_OK;
}

enum banyan_status by_make_torus(struct by_topology_builder *builder, const struct by_shape *shape) {
  uint32_t size[3] = {shape->size[0], shape->size[1], shape->n_sizes == 3 ? shape->size[2] : 1};
  double all = (double)size[0] * size[1] * size[2];
  BY_TRY(shape_check(all, 3 * all));
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
  BY_TRY(shape_check(all, links));
  BY_TRY(shape_hosts(builder, shape, shape->size[0]));
  struct random_graph g = {.builder = builder, .shape = shape, .nodes = (uint32_t)all, .links = (uint32_t)links};
  if (!init_pairs(&g.pairs, links)) return by_topology_no_memory();
  by_rng_init(&g.rng, shape->seed);
  enum banyan_status status = join_all(&g);
  free(g.pairs.slots);
  return status;
}
