/* A network for tests of measurements. It computes the rates of simultaneous flows in a topology, max-min fair, as long
 * TCP streams roughly get them. */
#ifndef BY_TESTS_TOPOLOGY_FLUID_H
#define BY_TESTS_TOPOLOGY_FLUID_H

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "survey.h"
#include "topology_paths.h"

struct fluid {
  const struct by_topology *topology;
  uint32_t *hosts, n_hosts; /* nodes that take part */
  struct by_next_hop *hops; /* towards each host: hops[host * n_nodes + node] */
};

static inline void fluid_init(struct fluid *f, const struct by_topology *topology) {
  uint32_t n = topology->n_nodes;
  struct by_paths paths;
  *f = (struct fluid){.topology = topology, .hosts = calloc(n, sizeof *f->hosts)};
  for (uint32_t v = 0; v < n; v++)
    if (topology->nodes[v].takes_part) f->hosts[f->n_hosts++] = v;
  f->hops = calloc((size_t)f->n_hosts * n, sizeof *f->hops);
  assert_ok(by_paths_init(&paths, topology));
  for (uint32_t h = 0; h < f->n_hosts; h++) assert_ok(by_paths_to(&paths, f->hosts[h], f->hops + (size_t)h * n));
  by_paths_fini(&paths);
}

static inline void fluid_fini(struct fluid *f) {
  free(f->hosts);
  free(f->hops);
}

static inline double fluid_delay(const struct fluid *f, uint32_t from, uint32_t to) {
  return f->hops[(size_t)to * f->topology->n_nodes + f->hosts[from]].delay;
}

/* Adds `by` for each resource that the flow uses: link directions, and the totals that nodes send and receive. */
static inline void fluid_walk(const struct fluid *f, struct by_survey_flow flow, double by, double *use) {
  const struct by_topology *t = f->topology;
  double *out = use + 2 * (size_t)t->n_links, *in = out + t->n_nodes;
  for (uint32_t v = f->hosts[flow.from]; v != f->hosts[flow.to];) {
    struct by_next_hop hop = f->hops[(size_t)flow.to * t->n_nodes + v];
    use[2 * (size_t)hop.link + (t->links[hop.link].a == v ? BY_AB : BY_BA)] += by;
    out[v] += by;
    in[hop.next] += by;
    v = hop.next;
  }
}

/* Whether the flow uses a marked resource. */
static inline bool fluid_meets(const struct fluid *f, struct by_survey_flow flow, const double *marked,
                               double *scratch) {
  size_t n = 2 * ((size_t)f->topology->n_links + f->topology->n_nodes);
  bool meets = false;
  for (size_t i = 0; i < n; i++) scratch[i] = 0;
  fluid_walk(f, flow, 1, scratch);
  for (size_t i = 0; i < n && !meets; i++) meets = marked[i] > 0 && scratch[i] > 0;
  return meets;
}

/* Computes the rates by water-filling: the tightest resource determines the rates of its flows, repeatedly. */
static inline void fluid_rates(const struct fluid *f, const struct by_survey_flow *flows, uint32_t n, double *rates) {
  const struct by_topology *t = f->topology;
  size_t n_uses = 2 * ((size_t)t->n_links + t->n_nodes);
  double *memory = calloc(4 * n_uses, sizeof *memory), *left = memory, *wanted = left + n_uses;
  double *tight = wanted + n_uses, *scratch = tight + n_uses;
  for (uint32_t l = 0; l < t->n_links; l++)
    for (int way = 0; way < 2; way++) left[2 * l + way] = by_residual(t->links[l].capacity[way]);
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    left[2 * t->n_links + v] = by_residual(t->nodes[v].out);
    left[2 * t->n_links + t->n_nodes + v] = by_residual(t->nodes[v].in);
  }
  for (uint32_t k = 0; k < n; k++) rates[k] = -1;
  for (;;) {
    double level = INFINITY;
    for (size_t i = 0; i < n_uses; i++) wanted[i] = tight[i] = 0;
    for (uint32_t k = 0; k < n; k++)
      if (rates[k] < 0) fluid_walk(f, flows[k], 1, wanted);
    for (size_t i = 0; i < n_uses; i++)
      if (wanted[i] > 0) level = fmin(level, left[i] / wanted[i]);
    if (isinf(level)) break;
    for (size_t i = 0; i < n_uses; i++) tight[i] = wanted[i] > 0 && left[i] / wanted[i] <= level * (1 + 1e-9);
    for (uint32_t k = 0; k < n; k++) {
      if (rates[k] >= 0 || !fluid_meets(f, flows[k], tight, scratch)) continue;
      rates[k] = level;
      fluid_walk(f, flows[k], -level, left);
    }
  }
  free(memory);
}

#endif
