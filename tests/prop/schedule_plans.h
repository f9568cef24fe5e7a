/* Plans for the schedule tests: all built-in families, and random plans with every feature a plan can have. The
 * functions are static; a program includes this header once. */
#ifndef BY_TESTS_SCHEDULE_PLANS_H
#define BY_TESTS_SCHEDULE_PLANS_H

#include "check.h"

#include "plan.h"
#include "plan_make.h"
#include "rng.h"

__attribute__((unused)) static const char *const families[] = {
    "star",   "star:1",      "sharded", "ring",     "chain",    "tree",       "tree:3",
    "tree:7", "double-tree", "halving", "doubling", "exchange", "exchange:3", "exchange:5",
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

static inline uint32_t below(struct by_rng *rng, uint32_t n) {
  return (uint32_t)by_rng_below(rng, n);
}

static inline void shuffle(struct by_rng *rng, uint32_t *items, uint32_t n) {
  for (uint32_t i = n; i > 1; i--) {
    uint32_t k = below(rng, i), item = items[i - 1];
    items[i - 1] = items[k];
    items[k] = item;
  }
}

/* Makes a random tree: positions join in random order, each under one of the last `reach` that joined. */
static inline void random_tree(struct by_rng *rng, uint32_t *parent, uint32_t n, uint32_t root) {
  uint32_t joined[64], reach = 1 + below(rng, n);
  assert_true(n <= 64);
  for (uint32_t i = 0; i < n; i++) joined[i] = i;
  shuffle(rng, joined, n);
  for (uint32_t i = 0; i < n; i++)
    if (joined[i] == root) {
      joined[i] = joined[0];
      joined[0] = root;
    }
  parent[root] = root;
  for (uint32_t i = 1; i < n; i++) parent[joined[i]] = joined[i - 1 - below(rng, i < reach ? i : reach)];
}

static inline uint32_t random_radix(struct by_rng *rng, uint32_t n, uint32_t *radix) {
  uint32_t digits = 0;
  while (n > 1) {
    uint32_t digit = n;
    for (int tries = 0; tries < 3; tries++) {
      uint32_t d = 2 + below(rng, n - 1);
      if (n % d == 0) digit = d;
    }
    radix[digits++] = digit;
    n /= digit;
  }
  return digits;
}

/* Takes ranks out of the order and attaches them to others as twigs. */
static inline void random_twigs(struct by_rng *rng, struct by_plan *plan, struct by_group *group) {
  uint32_t n = plan->n_ranks, n_twigs = below(rng, 2) ? below(rng, n) : 0, taken = 0;
  shuffle(rng, group->order, n);
  group->n = n - n_twigs;
  group->twigs = BY_ARENA_ARRAY(&plan->arena, struct by_twig, n_twigs);
  group->n_twigs = n_twigs;
  for (uint32_t vertex = 0; vertex < n; vertex++)
    for (uint32_t i = group->n; i < n; i++)
      if (group->order[i] == vertex)
        group->twigs[taken++] = (struct by_twig){.child = vertex, .parent = group->order[below(rng, group->n)]};
}

static inline void random_group(struct by_rng *rng, struct by_plan *plan, struct by_group *group) {
  enum by_group_kind kind = (enum by_group_kind)below(rng, 3);
  bool other_way_down = below(rng, 2);
  uint32_t radix[32];
  assert_ok(by_group_init(plan, group, kind, plan->n_ranks, other_way_down));
  random_twigs(rng, plan, group);
  if (kind != BY_GROUP_TREE) assert_ok(by_group_set_radix(plan, group, radix, random_radix(rng, group->n, radix)));
  if (kind == BY_GROUP_EXCHANGE) return;
  group->root = below(rng, group->n);
  random_tree(rng, group->up, group->n, group->root);
  if (other_way_down) random_tree(rng, group->down, group->n, group->root);
}

/* Fills a class of all collectives that may have one: one to three trees for each root, or trees for all. */
static inline enum banyan_status random_own_class(void *context, struct by_plan *made, struct by_class *own) {
  struct by_rng *rng = context;
  uint32_t n = made->n_ranks, trees[64], n_groups = 0;
  assert_true(n <= 64);
  own->collectives = BY_PLAN_OWN_COLLECTIVES;
  own->per_root = below(rng, 4);
  for (uint32_t r = 0; r < n; r++) n_groups += trees[r] = own->per_root || r == 0 ? 1 + below(rng, 3) : 0;
  BY_TRY(by_plan_add_groups(made, own, n_groups));
  struct by_group *group = own->groups;
  for (uint32_t r = 0; r < n; r++)
    for (uint32_t i = 0; i < trees[r]; i++, group++) {
      BY_TRY(by_group_init(made, group, BY_GROUP_TREE, n, below(rng, 2)));
      shuffle(rng, group->order, n);
      while (group->order[group->root] != r) group->root++;
      random_tree(rng, group->up, n, group->root);
      if (group->down != group->up) random_tree(rng, group->down, n, group->root);
      group->share = 1.0 / trees[r];
    }
  return BANYAN_OK;
}

/* The same plan with trees for some collectives; takes it over. */
static inline struct by_plan *with_own_class(struct by_rng *rng, struct by_plan *plan) {
  struct by_plan *extended;
  assert_ok(by_plan_extend(plan, 1, random_own_class, rng, &extended));
  by_plan_destroy(plan);
  return extended;
}

static inline struct by_plan *random_plan(struct by_rng *rng, uint32_t n) {
  struct by_plan *made, *plan;
  uint32_t n_groups = 1 + below(rng, 3);
  double sum = 0;
  assert_ok(by_plan_create("random", &made));
  assert_ok(by_plan_add_vertices(made, n, 0));
  assert_ok(by_plan_add_classes(made, 1, 0));
  assert_ok(by_plan_add_groups(made, made->classes, n_groups));
  for (uint32_t i = 0; i < n_groups; i++) {
    random_group(rng, made, &made->classes->groups[i]);
    sum += made->classes->groups[i].share = 0.01 + by_rng_unit(rng);
  }
  for (uint32_t i = 0; i < n_groups; i++) made->classes->groups[i].share /= sum;
  assert_ok(by_plan_end(made, BANYAN_OK, &plan));
  return below(rng, 2) ? with_own_class(rng, plan) : plan;
}

/* Makes trees over all ranks and some of the helpers, which may be root, inner vertex or leaf. */
static inline void random_helped_group(struct by_rng *rng, struct by_plan *plan, struct by_group *group) {
  uint32_t n_all = plan->n_vertices, n_ranks = plan->n_ranks, n = 0;
  bool other_way_down = below(rng, 2);
  assert_ok(by_group_init(plan, group, BY_GROUP_TREE, n_all, other_way_down));
  group->twigs = BY_ARENA_ARRAY(&plan->arena, struct by_twig, n_all);
  for (uint32_t v = 0; v < n_all; v++)
    if (v < n_ranks || below(rng, 3)) group->order[n++] = v;
  group->n = n;
  shuffle(rng, group->order, n);
  for (uint32_t v = 0; v < n_ranks && below(rng, 2); v++) { /* Some of the first ranks become twigs. */
    uint32_t at = 0;
    while (group->order[at] != v) at++;
    if (group->n == 1) break;
    group->order[at] = group->order[--group->n];
    group->twigs[group->n_twigs++].child = v;
  }
  for (uint32_t i = 0; i < group->n_twigs; i++) group->twigs[i].parent = group->order[below(rng, group->n)];
  group->root = below(rng, group->n);
  random_tree(rng, group->up, group->n, group->root);
  if (other_way_down) random_tree(rng, group->down, group->n, group->root);
}

/* Makes a random plan with helpers, in which some groups have ranks alone. */
static inline struct by_plan *random_helped_plan(struct by_rng *rng, uint32_t n, uint32_t n_helpers) {
  static const char *const names[] = {"h0", "h1", "h2", "h3"};
  struct by_plan *made, *plan;
  uint32_t n_groups = 1 + below(rng, 4);
  double sum = 0;
  assert_ok(by_plan_create("helped", &made));
  assert_ok(by_plan_add_vertices(made, n, n_helpers));
  for (uint32_t i = 0; i < n_helpers; i++) made->vertices[n + i].name = names[i];
  assert_ok(by_plan_add_classes(made, 1, 0));
  assert_ok(by_plan_add_groups(made, made->classes, n_groups));
  for (uint32_t i = 0; i < n_groups; i++) {
    struct by_group *group = &made->classes->groups[i];
    if (i && below(rng, 3) == 0)
      random_group(rng, made, group);
    else
      random_helped_group(rng, made, group);
    sum += group->share = 0.01 + by_rng_unit(rng);
  }
  for (uint32_t i = 0; i < n_groups; i++) made->classes->groups[i].share /= sum;
  assert_ok(by_plan_end(made, BANYAN_OK, &plan));
  return plan;
}

/* Makes a tree with a server above some of the first n_switches others, which are switches in any arrangement, and the
 * ranks anywhere below, at least one at each switch; some ranks are twigs of others. */
static inline void random_through_group(struct by_rng *rng, struct by_plan *plan, struct by_group *group,
                                        uint32_t n_switches, uint32_t server) {
  uint32_t n_ranks = plan->n_ranks, leaves = 0, n = 1;
  assert_ok(by_group_init(plan, group, BY_GROUP_TREE, plan->n_vertices, false));
  group->twigs = BY_ARENA_ARRAY(&plan->arena, struct by_twig, n_ranks);
  group->order[0] = server;
  for (uint32_t v = 0; v < n_ranks; v++) leaves += v == 0 || below(rng, 4);
  for (uint32_t v = n_ranks; v < n_ranks + n_switches && n <= leaves && below(rng, 4); v++) {
    group->up[n] = below(rng, n);
    group->order[n++] = v;
  }
  uint32_t inner = n;
  for (uint32_t v = 0; v < leaves; v++) {
    group->up[n] = v + 1 < inner ? v + 1 : below(rng, inner);
    group->order[n++] = v;
  }
  for (uint32_t v = leaves; v < n_ranks; v++)
    group->twigs[group->n_twigs++] = (struct by_twig){.child = v, .parent = below(rng, leaves)};
  group->n = n;
}

/* Makes a plan of trees through switches, at least one (with `once`, exactly one), and trees among ranks. */
static inline struct by_plan *random_through_plan(struct by_rng *rng, uint32_t n, uint32_t n_switches, bool once) {
  static const char *const switches[] = {"s0", "s1", "s2", "s3"};
  static const char *const servers[] = {"server/0", "server/1", "server/2", "server/3"};
  struct by_plan *made, *plan;
  uint32_t n_groups = 1 + below(rng, 4), n_servers = once ? 1 : n_groups;
  double sum = 0;
  assert_ok(by_plan_create("through", &made));
  assert_ok(by_plan_add_vertices(made, n, n_switches + n_servers));
  for (uint32_t i = 0; i < n_switches + n_servers; i++) {
    struct by_vertex *vertex = &made->vertices[n + i];
    vertex->name = i < n_switches ? switches[i] : servers[i - n_switches];
    vertex->kind = i < n_switches ? BY_VERTEX_SWITCH : BY_VERTEX_SERVER;
  }
  assert_ok(by_plan_add_classes(made, 1, 0));
  assert_ok(by_plan_add_groups(made, made->classes, n_groups));
  for (uint32_t i = 0; i < n_groups; i++) {
    struct by_group *group = &made->classes->groups[i];
    if (i && (once || below(rng, 3) == 0))
      random_group(rng, made, group);
    else
      random_through_group(rng, made, group, n_switches, n + n_switches + i);
    sum += group->share = 0.01 + by_rng_unit(rng);
  }
  for (uint32_t i = 0; i < n_groups; i++) made->classes->groups[i].share /= sum;
  assert_ok(by_plan_end(made, BANYAN_OK, &plan));
  return plan;
}

/* Makes a built-in plan over random hosts of 1 to 4 ranks each. */
static inline struct by_plan *random_host_plan(struct by_rng *rng, uint32_t n_hosts) {
  struct by_plan *hosts, *plan;
  uint32_t host_of[4 * 64], n = 0;
  for (uint32_t host = 0; host < n_hosts; host++)
    for (uint32_t k = 1 + below(rng, 4); k > 0; k--) host_of[n++] = host;
  shuffle(rng, host_of, n);
  assert_ok(by_plan_builtin(families[below(rng, N_FAMILIES)], n_hosts, &hosts));
  if (below(rng, 2)) hosts = with_own_class(rng, hosts);
  assert_ok(by_plan_expand(hosts, host_of, n, &plan));
  by_plan_destroy(hosts);
  return plan;
}

#endif
