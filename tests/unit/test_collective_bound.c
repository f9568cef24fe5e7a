/* Bounds of collectives: values known from theory, every cut of small random networks, and the best packing of directed
 * trees, which Edmonds' theorem says is equal to the bound. */
#include "collective_bound.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <banyan/types.h>

#include "check.h"
#include "lp.h"
#include "rng.h"
#include "text.h"
#include "topology.h"
#include "topology_formats.h"
#include "topology_make.h"

enum { MOST = 64 };
static const double gbit = 1e9;

static void assert_near(double got, double wanted) {
  if (!(fabs(got - wanted) <= 1e-9 * wanted)) fail_msg("%.12g, not %.12g", got, wanted);
}

/* The bound over all hosts that take part. */
static struct by_collective_bound find(const struct by_topology *topology, enum banyan_collective collective,
                                       const double *blocks, uint32_t root) {
  struct by_collective_bound bound;
  uint32_t hosts[MOST], n = 0;
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (topology->nodes[v].takes_part) hosts[n++] = v;
  assert_true(n <= MOST);
  assert_ok(by_collective_bound_find(
      topology,
      &(struct by_bound_request){
          .collective = collective, .hosts = hosts, .n_hosts = n, .blocks = blocks, .root = root},
      &bound));
  return bound;
}

static double rate_of(const struct by_topology *topology, enum banyan_collective collective, const double *blocks,
                      uint32_t root) {
  struct by_collective_bound bound = find(topology, collective, blocks, root);
  double rate = bound.rate, sum = 0;
  for (uint32_t i = 0; i < bound.n_limits; i++) sum += bound.limits[i].capacity;
  assert_near(rate * bound.part, sum); /* what is named proves it */
  by_collective_bound_fini(&bound);
  return rate;
}

/* --- known values --- */

struct known {
  const char *topology;
  double allgather, broadcast, gather, alltoall; /* Gbit/s */
};

/* A NIC takes the n - 1 of n parts that others own. A ring has 2 links to a host, a torus 4. Half of the buffer enters
 * each of two racks, through as much as a NIC has or a quarter of that; and of an alltoall twice the buffer of a rank.
 */
static const struct known known[] = {
    {"star:4,nic=1g", 4 / 3.0, 1, 4 / 3.0, 4 / 3.0},
    {"ring:8,link=1g", 2 * 8 / 7.0, 2, 2 * 8 / 7.0, 0},
    {"torus:4x4,link=1g", 4 * 16 / 15.0, 4, 4 * 16 / 15.0, 0},
    {"clos:racks=2,hosts=4,nic=1g,oversub=1", 8 / 7.0, 1, 8 / 7.0, 8 / 7.0},
    {"clos:racks=2,hosts=4,nic=1g,oversub=4", 8 / 7.0, 1, 8 / 7.0, 0.5},
    {"clos:racks=2,hosts=4,nic=1g,oversub=16", 0.5, 0.25, 0.5, 0.125},
};

static void test_known(void **state) {
  (void)state;
  static const enum banyan_collective back[][2] = {
      {BANYAN_ALLGATHER, BANYAN_REDUCE_SCATTER}, {BANYAN_BROADCAST, BANYAN_REDUCE}, {BANYAN_GATHER, BANYAN_SCATTER}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const struct known *k = &known[i];
    const double wanted[] = {k->allgather, k->broadcast, k->gather};
    struct by_topology *topology;
    assert_ok(by_topology_synthesise(k->topology, &topology));
    for (size_t c = 0; c < 3; c++)
      for (size_t way = 0; way < 2; way++) assert_near(rate_of(topology, back[c][way], NULL, 1), wanted[c] * gbit);
    if (k->alltoall > 0) assert_near(rate_of(topology, BANYAN_ALLTOALL, NULL, 0), k->alltoall * gbit);
    by_topology_destroy(topology);
  }
}

/* Two boxes of four hosts at a fast switch of their own, with links ten times as fast as those to the switch that all
 * share: the example of ForestColl (Zhao et al. 2024), whose cut is a box: 4 of 8 blocks leave it over 4. */
static void test_forestcoll(void **state) {
  (void)state;
  struct by_topology_builder builder;
  struct by_topology *topology;
  char name[16];
  uint32_t node;
  assert_ok(by_topology_builder_init(&builder, "boxes"));
  for (int h = 0; h < 8; h++) {
    snprintf(name, sizeof name, "h%d", h);
    assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, &node));
  }
  for (int s = 0; s < 3; s++) {
    snprintf(name, sizeof name, "s%d", s);
    assert_ok(by_topology_builder_add(&builder, BY_NODE_SWITCH, name, &node));
  }
  for (uint32_t h = 0; h < 8; h++) {
    assert_ok(by_topology_builder_add_link(&builder, h, 8 + h / 4, 10 * gbit, 0, NULL));
    assert_ok(by_topology_builder_add_link(&builder, h, 10, gbit, 0, NULL));
  }
  assert_ok(by_topology_builder_end(&builder, BANYAN_OK, NULL, &topology));
  struct by_collective_bound bound = find(topology, BANYAN_ALLGATHER, NULL, 0);
  assert_near(bound.rate, 8 * gbit);
  assert_near(bound.part, 0.5);
  assert_int_equal(bound.n_side, 4);
  assert_int_equal(bound.n_limits, 4);
  for (uint32_t i = 0; i < 4; i++) assert_int_equal(bound.side[i] / 4, bound.side[0] / 4);
  by_collective_bound_fini(&bound);
  assert_near(rate_of(topology, BANYAN_BROADCAST, NULL, 0), 4 * gbit); /* all of it leaves the root's box */
  by_topology_destroy(topology);
}

/* --- every cut --- */

static struct by_capacity some(struct by_rng *rng, uint64_t most) {
  double all = gbit * (double)(1 + by_rng_below(rng, most));
  return (struct by_capacity){.all = all, .used = by_rng_below(rng, 4) ? 0 : all / 4};
}

/* Hosts first; a ring, so that all are reached, and chords. Directions differ. */
static struct by_topology *draw(struct by_rng *rng, uint32_t n_hosts, uint32_t n_switches, bool limits) {
  struct by_topology_builder builder;
  struct by_topology *topology;
  struct by_link *link;
  uint32_t n = n_hosts + n_switches;
  char name[16];
  assert_ok(by_topology_builder_init(&builder, "random"));
  for (uint32_t v = 0; v < n; v++) {
    snprintf(name, sizeof name, "n%u", v);
    assert_ok(by_topology_builder_add(&builder, v < n_hosts ? BY_NODE_HOST : BY_NODE_SWITCH, name, NULL));
    if (!limits || by_rng_below(rng, 2)) continue;
    by_topology_builder_node(&builder, v)->out = some(rng, 12);
    if (by_rng_below(rng, 2)) by_topology_builder_node(&builder, v)->in = some(rng, 12);
  }
  for (uint32_t v = 0; v < n; v++)
    for (uint32_t w = v + 1; w < n; w++) {
      if (w != v + 1 && (v || w + 1 < n) && by_rng_below(rng, 2)) continue;
      assert_ok(by_topology_builder_add_link(&builder, v, w, gbit, 0, &link));
      for (int way = 0; way < 2; way++) link->capacity[way] = some(rng, 9);
    }
  assert_ok(by_topology_builder_end(&builder, BANYAN_OK, NULL, &topology));
  return topology;
}

/* What leaves the nodes of `set` at most. A link between two nodes with limits is cut at the cheapest of three places,
 * all of a node's links together: where a node's limit is less than its links that would be cut, it takes their place.
 */
static double capacity_of(const struct by_topology *t, uint32_t set, uint32_t full_out, uint32_t full_in) {
  double sum = 0;
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    if (full_out >> v & 1) sum += by_residual(t->nodes[v].out);
    if (full_in >> v & 1) sum += by_residual(t->nodes[v].in);
  }
  for (uint32_t l = 0; l < t->n_links; l++)
    for (int way = 0; way < 2; way++) {
      uint32_t from = way ? t->links[l].b : t->links[l].a, to = by_link_other(&t->links[l], from);
      bool sent = (set >> from & 1) && !(full_out >> from & 1), got = (set >> to & 1) || (full_in >> to & 1);
      if (sent && !got) sum += by_residual(t->links[l].capacity[way]);
    }
  return sum;
}

/* Of all choices of nodes, and of limits. */
static double least_cut(const struct by_topology *t, uint32_t n_hosts, const double *part, bool limits) {
  double least = INFINITY;
  uint32_t all = 1u << t->n_nodes;
  for (uint32_t set = 1; set < all; set++) {
    double inside = 0;
    for (uint32_t h = 0; h < n_hosts; h++) inside += set >> h & 1 ? part[h] : 0;
    if (inside <= 0 || (set & ((1u << n_hosts) - 1)) == (1u << n_hosts) - 1) continue;
    for (uint32_t full = 0; full < (limits ? all : 1); full++)
      least = fmin(least, capacity_of(t, set, full & set, full & ~set) / inside);
  }
  return least;
}

static void reverse(struct by_topology *t) {
  for (uint32_t l = 0; l < t->n_links; l++) {
    struct by_capacity there = t->links[l].capacity[0];
    t->links[l].capacity[0] = t->links[l].capacity[1];
    t->links[l].capacity[1] = there;
  }
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    struct by_capacity out = t->nodes[v].out;
    t->nodes[v].out = t->nodes[v].in;
    t->nodes[v].in = out;
  }
}

/* Parts of 0 .. 3 of their sum. */
static void draw_parts(struct by_rng *rng, uint32_t n, double *blocks, double *part) {
  double sum = 0;
  for (uint32_t h = 0; h < n; h++) sum += blocks[h] = (double)(by_rng_below(rng, 4) + (h == 0));
  for (uint32_t h = 0; h < n; h++) part[h] = blocks[h] / sum;
}

static void test_every_cut(void **state) {
  (void)state;
  uint64_t first = check_first_seed();
  for (uint64_t seed = first; seed < first + check_seeds(200); seed++) {
    struct by_rng rng;
    by_rng_init(&rng, seed);
    uint32_t n_hosts = 2 + (uint32_t)by_rng_below(&rng, 4), root = (uint32_t)by_rng_below(&rng, n_hosts);
    bool limits = by_rng_below(&rng, 2);
    struct by_topology *t = draw(&rng, n_hosts, (uint32_t)by_rng_below(&rng, 3), limits);
    double blocks[MOST], part[MOST], only[MOST] = {0};
    draw_parts(&rng, n_hosts, blocks, part);
    only[root] = 1;
    double gathered = least_cut(t, n_hosts, part, limits), sent = least_cut(t, n_hosts, only, limits);
    assert_near(rate_of(t, BANYAN_ALLGATHER, blocks, 0), gathered);
    assert_near(rate_of(t, BANYAN_BROADCAST, blocks, root), sent);
    reverse(t);
    assert_near(rate_of(t, BANYAN_REDUCE_SCATTER, blocks, 0), gathered);
    assert_near(rate_of(t, BANYAN_REDUCE, blocks, root), sent);
    by_topology_destroy(t);
  }
}

/* --- trees --- */

/* The next choice of a link towards each of n hosts; false: that was the last. above[root] stays. */
static bool next_tree(uint32_t n, uint32_t root, uint32_t *above) {
  for (uint32_t v = 0; v < n; v++) {
    if (v == root) continue;
    if (++above[v] < n) return true;
    above[v] = 0;
  }
  return false;
}

static bool is_tree(uint32_t n, uint32_t root, const uint32_t *above) {
  for (uint32_t v = 0; v < n; v++) {
    uint32_t u = v, steps = 0;
    while (u != root && steps++ < n) u = above[u];
    if (u != root) return false;
  }
  return true;
}

/* Rows: what leaves v for w, in Gbit/s; then, of each root, its part of the rate less what its trees carry. */
static double pack_trees(const struct by_topology *t, const double *part) {
  uint32_t n = t->n_nodes, rows = n * n + n;
  double upper[MOST] = {0}, load[MOST] = {0};
  struct by_lp *lp;
  for (uint32_t l = 0; l < t->n_links; l++) {
    const struct by_link *link = &t->links[l];
    upper[link->a * n + link->b] += by_residual(link->capacity[BY_AB]) / gbit;
    upper[link->b * n + link->a] += by_residual(link->capacity[BY_BA]) / gbit;
  }
  assert_true(rows <= MOST);
  assert_ok(by_lp_create(rows, upper, gbit, &lp));
  for (uint32_t v = 0; v < n; v++) load[n * n + v] = part[v];
  assert_ok(by_lp_add(lp, 1, load));
  for (uint32_t root = 0; root < n; root++) {
    uint32_t above[MOST] = {0};
    do {
      if (!is_tree(n, root, above)) continue;
      memset(load, 0, sizeof load);
      load[n * n + root] = -1;
      for (uint32_t v = 0; v < n; v++)
        if (v != root) load[above[v] * n + v] = 1;
      assert_ok(by_lp_add(lp, 0, load));
    } while (next_tree(n, root, above));
  }
  assert_ok(by_lp_solve(lp));
  double rate = lp->rate[0];
  by_lp_destroy(lp);
  return rate;
}

static void test_trees_reach_it(void **state) {
  (void)state;
  uint64_t first = check_first_seed();
  for (uint64_t seed = first; seed < first + check_seeds(40); seed++) {
    struct by_rng rng;
    by_rng_init(&rng, seed);
    uint32_t n = 2 + (uint32_t)by_rng_below(&rng, 4);
    struct by_topology *t = draw(&rng, n, 0, false);
    double blocks[MOST], part[MOST];
    draw_parts(&rng, n, blocks, part);
    double rate = rate_of(t, BANYAN_ALLGATHER, blocks, 0), packed = pack_trees(t, part);
    if (fabs(rate - packed) > 1e-6 * rate) fail_msg("seed %lu: %g, but trees carry %g", seed, rate, packed);
    by_topology_destroy(t);
  }
}

/* --- the rest --- */

/* The slow direction of a link decides, and what others use is not there. */
static void test_explained(void **state) {
  (void)state;
  struct by_topology *topology;
  struct by_text text = {0};
  assert_ok(by_topology_synthesise("star:3,nic=1g", &topology));
  topology->links[2].capacity[topology->links[2].a == 2 ? BY_BA : BY_AB].used = 0.75 * gbit; /* to h2 */
  struct by_collective_bound bound = find(topology, BANYAN_ALLGATHER, NULL, 0);
  by_collective_bound_explain(&bound, topology, &text);
  assert_string_equal(by_text_get(&text), "allgather: no algorithm exceeds 375 Mbit/s of the whole buffer.\n"
                                          "66.7 % of it must enter h2 over\n"
                                          "  link switch to h2: 250 Mbit/s\n");
  by_collective_bound_fini(&bound);
  by_text_fini(&text);
  /* Sums come the other way: two thirds of the input leave h2, and one third enters it. */
  assert_near(rate_of(topology, BANYAN_REDUCE_SCATTER, NULL, 0), 0.75 * gbit);
  assert_near(rate_of(topology, BANYAN_BROADCAST, NULL, 2), gbit);
  assert_near(rate_of(topology, BANYAN_REDUCE, NULL, 2), 0.25 * gbit);
  by_topology_destroy(topology);
}

/* Two ranks on h0 and one on h1, h2 each: h0 exchanges 2 x 2 blocks of 4 with others. */
static void test_alltoall_of_several_ranks(void **state) {
  (void)state;
  const double ranks[] = {2, 1, 1};
  struct by_topology *topology;
  assert_ok(by_topology_synthesise("star:3,nic=1g", &topology));
  assert_near(rate_of(topology, BANYAN_ALLTOALL, ranks, 0), gbit);
  topology->nodes[1].in = (struct by_capacity){.all = 0.3 * gbit}; /* 3 blocks of 4 */
  assert_near(rate_of(topology, BANYAN_ALLTOALL, ranks, 0), 0.4 * gbit);
  by_topology_destroy(topology);
}

static void test_refusals(void **state) {
  (void)state;
  struct by_topology *topology;
  struct by_collective_bound bound;
  const uint32_t hosts[] = {0, 1, 2}, far[] = {0, 99};
  const double none[] = {0, 0, 0}, negative[] = {1, -1, 1};
  struct by_bound_request request = {.collective = BANYAN_ALLGATHER, .hosts = hosts, .n_hosts = 3, .blocks = none};
  assert_ok(by_topology_synthesise("star:3,nic=1g", &topology));
  assert_status(by_collective_bound_find(topology, &request, &bound), BANYAN_ERR_ARGUMENT);
  request.blocks = negative;
  assert_status(by_collective_bound_find(topology, &request, &bound), BANYAN_ERR_ARGUMENT);
  request = (struct by_bound_request){.collective = BANYAN_ALLGATHER, .hosts = far, .n_hosts = 2};
  assert_status(by_collective_bound_find(topology, &request, &bound), BANYAN_ERR_ARGUMENT);
  request = (struct by_bound_request){.collective = BANYAN_BROADCAST, .hosts = hosts, .n_hosts = 3, .root = 3};
  assert_status(by_collective_bound_find(topology, &request, &bound), BANYAN_ERR_ARGUMENT);
  for (int c = 0; c <= BANYAN_COLLECTIVES; c++) {
    request = (struct by_bound_request){.collective = (enum banyan_collective)c, .hosts = hosts, .n_hosts = 1};
    if (by_collective_has_bound(request.collective)) {
      assert_ok(by_collective_bound_find(topology, &request, &bound));
      assert_true(isinf(bound.rate)); /* one host: nothing moves */
      by_collective_bound_fini(&bound);
    } else {
      assert_status(by_collective_bound_find(topology, &request, &bound), BANYAN_ERR_ARGUMENT);
    }
  }
  request = (struct by_bound_request){.hosts = hosts, .n_hosts = 3};
  for (int way = 0; way < 2; way++) topology->links[1].capacity[way].used = topology->links[1].capacity[way].all;
  for (int c = 0; c < 2; c++) {
    request.collective = c ? BANYAN_ALLTOALL : BANYAN_ALLGATHER;
    assert_status(by_collective_bound_find(topology, &request, &bound), BANYAN_ERR_TOPOLOGY);
    assert_non_null(strstr(banyan_error_text(), "h1"));
  }
  by_topology_destroy(topology);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known),     cmocka_unit_test(test_forestcoll),
      cmocka_unit_test(test_every_cut), cmocka_unit_test(test_trees_reach_it),
      cmocka_unit_test(test_explained), cmocka_unit_test(test_alltoall_of_several_ranks),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
