/* Random plans stay the same when printed and read, and are rejected with an exact error if one thing in them is
 * wrong. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "plan.h"
#include "plan_make.h"
#include "rng.h"
#include "text.h"

enum { PLANS = 2000, MOST_RANKS = 12, MOST_OTHERS = 3, MOST_POSITIONS = MOST_RANKS + MOST_OTHERS };

static uint32_t below(struct by_rng *rng, uint32_t n) {
  return (uint32_t)by_rng_below(rng, n);
}

static void shuffle(struct by_rng *rng, uint32_t *items, uint32_t n) {
  for (uint32_t i = n; i > 1; i--) {
    uint32_t j = below(rng, i), kept = items[j];
    items[j] = items[i - 1];
    items[i - 1] = kept;
  }
}

static void random_names(struct by_rng *rng, struct by_plan *plan) {
  static const char *const parts[] = {"host", "a\"b", "c\\d", "h\xc3\xb4te", " ", "\xf0\x9f\x8c\xb3"};
  for (uint32_t i = 0; i < plan->n_vertices; i++) {
    char name[32]; /* Names ascend with i. */
    if (i < plan->n_ranks && below(rng, 3)) continue;
    snprintf(name, sizeof name, "%c%s", 'a' + (char)i, parts[below(rng, 6)]);
    plan->vertices[i].name = by_arena_string(&plan->arena, name);
    if (i >= plan->n_ranks) plan->vertices[i].kind = (enum by_vertex_kind)(1 + below(rng, 3));
  }
}

/* Each vertex is attached to one that came before it in a random order; the first one is the root. */
static void random_parents(struct by_rng *rng, uint32_t n, uint32_t root, uint32_t *parent) {
  uint32_t turn[MOST_POSITIONS], m = 0;
  turn[m++] = root;
  for (uint32_t u = 0; u < n; u++)
    if (u != root) turn[m++] = u;
  shuffle(rng, turn + 1, n - 1);
  parent[root] = root;
  for (uint32_t i = 1; i < n; i++) parent[turn[i]] = turn[below(rng, i)];
}

/* Returns some factors of n, in some order. */
static uint32_t random_radix(struct by_rng *rng, uint32_t n, uint32_t *radix) {
  uint32_t digits = 0;
  for (uint32_t d = 2; n > 1; d++) {
    while (n % d == 0) {
      if (digits && below(rng, 2))
        radix[below(rng, digits)] *= d;
      else
        radix[digits++] = d;
      n /= d;
    }
  }
  shuffle(rng, radix, digits);
  return digits;
}

/* Some of the switches forward, and some interfaces are known. */
static void random_ports(struct by_rng *rng, struct by_plan *plan, struct by_group *group) {
  group->forwards = BY_ARENA_ARRAY(&plan->arena, uint32_t, group->n);
  group->ports = BY_ARENA_ARRAY(&plan->arena, struct by_group_port, (size_t)group->n * 2);
  for (uint32_t u = 0; u < group->n; u++) {
    uint32_t v = group->order[u], above = group->order[group->up[u]];
    bool here = plan->vertices[v].kind == BY_VERTEX_SWITCH, there = plan->vertices[above].kind == BY_VERTEX_SWITCH;
    if (here && below(rng, 2)) group->forwards[group->n_forwards++] = v;
    if (u == group->root || !below(rng, 3)) continue;
    if (here) group->ports[group->n_ports++] = (struct by_group_port){v, above, "up \"0\""};
    if (there) group->ports[group->n_ports++] = (struct by_group_port){above, v, "eth1"};
  }
  by_group_sort_ports(group);
}

static void random_group(struct by_rng *rng, struct by_plan *plan, struct by_group *group, double share) {
  enum by_group_kind kind = (enum by_group_kind)below(rng, 3);
  uint32_t twigs = below(rng, 2) ? below(rng, plan->n_ranks) : 0, rank[MOST_RANKS], radix[BY_PLAN_MAX_DIGITS];
  uint32_t others = kind == BY_GROUP_EXCHANGE ? 0 : below(rng, plan->n_vertices - plan->n_ranks + 1);
  uint32_t leaders = plan->n_ranks - twigs, n = leaders + others;
  bool hangs[MOST_RANKS] = {false};
  assert_ok(by_group_init(plan, group, kind, n, below(rng, 2)));
  group->share = share;
  group->rate = below(rng, 2) ? 1e6 * (1 + below(rng, 1000)) : 0;
  for (uint32_t r = 0; r < plan->n_ranks; r++) rank[r] = r;
  shuffle(rng, rank, plan->n_ranks);
  for (uint32_t i = 0; i < n; i++) group->order[i] = i < leaders ? rank[i] : plan->n_ranks + i - leaders;
  if (below(rng, 2)) shuffle(rng, group->order, n);
  for (uint32_t i = leaders; i < plan->n_ranks; i++) hangs[rank[i]] = true;
  group->twigs = BY_ARENA_ARRAY(&plan->arena, struct by_twig, twigs);
  for (uint32_t r = 0; r < plan->n_ranks; r++)
    if (hangs[r]) group->twigs[group->n_twigs++] = (struct by_twig){.child = r, .parent = group->order[below(rng, n)]};
  if (kind != BY_GROUP_TREE) assert_ok(by_group_set_radix(plan, group, radix, random_radix(rng, n, radix)));
  if (kind == BY_GROUP_EXCHANGE) return;
  group->root = below(rng, n);
  random_parents(rng, n, group->root, group->up);
  if (group->down != group->up) random_parents(rng, n, group->root, group->down);
  if (kind == BY_GROUP_TREE) random_ports(rng, plan, group);
}

static void random_class(struct by_rng *rng, struct by_plan *plan, struct by_class *class_) {
  double share[4], sum = 0;
  uint32_t n = 1 + below(rng, 4);
  for (uint32_t i = 0; i < n; i++) sum += share[i] = 0.01 + by_rng_unit(rng);
  assert_ok(by_plan_add_groups(plan, class_, n));
  for (uint32_t i = 0; i < n; i++) random_group(rng, plan, &class_->groups[i], share[i] / sum);
}

static struct by_plan *random_plan(struct by_rng *rng) {
  struct by_plan *plan;
  assert_ok(by_plan_create("random \"plan\"", &plan));
  assert_ok(by_plan_add_vertices(plan, 1 + below(rng, MOST_RANKS), below(rng, MOST_OTHERS + 1)));
  random_names(rng, plan);
  assert_ok(by_plan_add_classes(plan, 1 + below(rng, 3), 0));
  plan->chunk = below(rng, 2) ? below(rng, 1 << 20) : 0;
  plan->facts.throughput = below(rng, 2) ? 1e10 / (1 + below(rng, 7)) : 0;
  for (uint32_t i = 0; i < plan->n_classes; i++) {
    if (i + 1 < plan->n_classes) plan->classes[i].up_to = 1000 * i + below(rng, 1000);
    random_class(rng, plan, &plan->classes[i]);
  }
  assert_ok(by_plan_end(plan, BANYAN_OK, &plan));
  return plan;
}

static void assert_round_trip(const struct by_plan *plan) {
  struct by_text text, again;
  struct by_plan *read;
  by_text_init(&text);
  by_text_init(&again);
  by_plan_print(plan, &text);
  assert_ok(by_plan_parse("p", by_text_get(&text), text.length, &read));
  assert_int_equal(read->version, plan->version);
  by_plan_print(read, &again);
  assert_string_equal(by_text_get(&text), by_text_get(&again));
  by_plan_destroy(read);
  by_text_fini(&text);
  by_text_fini(&again);
}

static void test_print_and_parse(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 1);
  for (int i = 0; i < (int)check_seeds(PLANS); i++) {
    struct by_plan *plan = random_plan(&rng);
    struct by_text text;
    assert_round_trip(plan);
    by_text_init(&text);
    assert_ok(by_plan_draw(plan, &text));
    assert_false(text.failed);
    by_text_fini(&text);
    by_plan_destroy(plan);
  }
}

/* --- one thing wrong --- */

struct mutation {
  struct by_plan *plan;
  struct by_group *group;
  uint32_t class_, tree;
  char vertex[64]; /* The vertex that the error must name, in quotes, or "" if there is none. */
};

static void names_vertex(struct mutation *m, uint32_t vertex) {
  snprintf(m->vertex, sizeof m->vertex, "\"%s\"", m->plan->vertices[vertex].name);
}

/* The mutations return false where they are not possible. */

static bool drop_vertex(struct mutation *m, struct by_rng *rng) {
  if (m->group->kind != BY_GROUP_TREE || m->group->n < 2) return false;
  uint32_t last = m->group->n - 1;
  if (m->plan->vertices[m->group->order[last]].kind != BY_VERTEX_RANK || m->group->root == last) return false;
  for (uint32_t u = 0; u < last; u++)
    if (m->group->up[u] == last || m->group->down[u] == last) return false;
  for (uint32_t i = 0; i < m->group->n_twigs; i++)
    if (m->group->twigs[i].parent == m->group->order[last]) return false;
  m->group->n--;
  names_vertex(m, m->group->order[last]);
  return true;
}

static bool duplicate_vertex(struct mutation *m, struct by_rng *rng) {
  if (m->group->n < 2) return false;
  uint32_t i = below(rng, m->group->n), j = (i + 1 + below(rng, m->group->n - 1)) % m->group->n;
  m->group->order[i] = m->group->order[j];
  names_vertex(m, m->group->order[j]);
  return m->group->kind != BY_GROUP_EXCHANGE || m->plan->vertices[m->group->order[j]].kind == BY_VERTEX_RANK;
}

static bool make_cycle(struct mutation *m, struct by_rng *rng) {
  uint32_t *parent = below(rng, 2) ? m->group->up : m->group->down;
  if (m->group->kind == BY_GROUP_EXCHANGE || m->group->n < 3) return false;
  uint32_t u = below(rng, m->group->n), top = u;
  if (u == m->group->root || parent[u] == m->group->root) return false;
  while (parent[top] != m->group->root) top = parent[top];
  parent[top] = u; /* The cycle is u .. top -> u; the error names any one of them. */
  snprintf(m->vertex, sizeof m->vertex, "lies on a cycle");
  return true;
}

static bool own_parent(struct mutation *m, struct by_rng *rng) {
  if (m->group->kind == BY_GROUP_EXCHANGE) return false;
  uint32_t u = below(rng, m->group->n);
  if (u == m->group->root) return false;
  m->group->up[u] = u;
  names_vertex(m, m->group->order[u]);
  return true;
}

static bool root_with_parent(struct mutation *m, struct by_rng *rng) {
  if (m->group->kind == BY_GROUP_EXCHANGE || m->group->n < 2) return false;
  m->group->down[m->group->root] = (m->group->root + 1) % m->group->n;
  names_vertex(m, m->group->order[m->group->root]);
  return true;
}

static bool parent_outside(struct mutation *m, struct by_rng *rng) {
  if (m->group->kind == BY_GROUP_EXCHANGE) return false;
  uint32_t u = below(rng, m->group->n);
  if (u == m->group->root) return false;
  m->group->up[u] = m->group->n + below(rng, UINT32_MAX - m->group->n);
  names_vertex(m, m->group->order[u]);
  return true;
}

static bool share_off(struct mutation *m, struct by_rng *rng) {
  m->group->share *= below(rng, 2) ? 1.01 : 0.99;
  m->tree = UINT32_MAX; /* The error is about the class. */
  return true;
}

static bool share_negative(struct mutation *m, struct by_rng *rng) {
  m->group->share = -m->group->share;
  return true;
}

static bool wrong_radix(struct mutation *m, struct by_rng *rng) {
  if (m->group->kind == BY_GROUP_TREE || !m->group->n_radix) return false;
  m->group->radix[below(rng, m->group->n_radix)] += 1 + below(rng, 1000);
  return true;
}

static bool twig_in_tree(struct mutation *m, struct by_rng *rng) {
  if (m->group->n_twigs != 1) return false;
  uint32_t i = below(rng, m->group->n);
  if (m->plan->vertices[m->group->order[i]].kind != BY_VERTEX_RANK) return false;
  m->group->twigs[0].child = m->group->order[i];
  names_vertex(m, m->group->order[i]);
  return true;
}

static bool twig_on_twig(struct mutation *m, struct by_rng *rng) {
  if (m->group->n_twigs < 2) return false;
  uint32_t i = below(rng, m->group->n_twigs);
  m->group->twigs[i].parent = m->group->twigs[(i + 1) % m->group->n_twigs].child;
  names_vertex(m, m->group->twigs[i].child);
  return true;
}

static bool rank_forwards(struct mutation *m, struct by_rng *rng) {
  if (!m->group->n_forwards) return false;
  m->group->forwards[0] = 0;
  names_vertex(m, 0);
  return true;
}

static bool port_elsewhere(struct mutation *m, struct by_rng *rng) {
  if (!m->group->n_ports) return false;
  struct by_group_port *port = &m->group->ports[below(rng, m->group->n_ports)];
  port->towards = port->at;
  names_vertex(m, port->at);
  return true;
}

static bool port_twice(struct mutation *m, struct by_rng *rng) {
  if (m->group->n_ports < 2) return false;
  uint32_t i = 1 + below(rng, m->group->n_ports - 1);
  m->group->ports[i] = m->group->ports[i - 1];
  names_vertex(m, m->group->ports[i].at);
  return true;
}

typedef bool mutate(struct mutation *m, struct by_rng *rng);
static mutate *const mutations[] = {drop_vertex,    duplicate_vertex, make_cycle,     own_parent,   root_with_parent,
                                    share_off,      wrong_radix,      share_negative, twig_in_tree, twig_on_twig,
                                    parent_outside, rank_forwards,    port_elsewhere, port_twice};
enum { N_MUTATIONS = sizeof mutations / sizeof *mutations };

static void assert_refused(const struct mutation *m) {
  char tree[64];
  assert_status(by_plan_validate(m->plan), BANYAN_ERR_PLAN);
  if (m->tree == UINT32_MAX)
    snprintf(tree, sizeof tree, "class %u: the shares", m->class_);
  else if (m->plan->n_classes > 1)
    snprintf(tree, sizeof tree, "class %u, tree %u: ", m->class_, m->tree);
  else
    snprintf(tree, sizeof tree, "tree %u: ", m->tree);
  if (strncmp(banyan_error_text(), tree, strlen(tree)) != 0 || !strstr(banyan_error_text(), m->vertex))
    fail_msg("wanted \"%s\" and %s in: %s", tree, m->vertex, banyan_error_text());
}

static void test_mutations_are_refused(void **state) {
  (void)state;
  struct by_rng rng;
  int done[N_MUTATIONS] = {0};
  by_rng_init(&rng, 2);
  for (int i = 0; i < 30 * PLANS; i++) {
    struct mutation m = {.plan = random_plan(&rng)};
    m.class_ = below(&rng, m.plan->n_classes);
    m.tree = below(&rng, m.plan->classes[m.class_].n_groups);
    m.group = &m.plan->classes[m.class_].groups[m.tree];
    uint32_t which = below(&rng, N_MUTATIONS);
    if (mutations[which](&m, &rng)) {
      assert_refused(&m);
      done[which]++;
    }
    by_plan_destroy(m.plan);
  }
  for (int i = 0; i < N_MUTATIONS; i++) assert_true(done[i] > (int)check_seeds(50));
}

/* The line of a rank is missing from the file: the error has the position in the document, or tree and vertex. */
static void test_dropped_lines(void **state) {
  (void)state;
  struct by_rng rng;
  int done = 0;
  by_rng_init(&rng, 3);
  for (int i = 0; i < (int)check_seeds(PLANS); i++) {
    struct by_plan *plan = random_plan(&rng), *read;
    struct by_text text;
    by_text_init(&text);
    by_plan_print(plan, &text);
    json_t *root = json_loads(by_text_get(&text), 0, NULL), *trees = json_object_get(root, "trees");
    uint32_t tree = trees ? below(&rng, (uint32_t)json_array_size(trees)) : 0, rank = below(&rng, plan->n_ranks);
    json_t *up = json_object_get(json_array_get(trees, tree), "up");
    const char *name = plan->vertices[rank].name;
    if (json_object_del(up, name) == 0) {
      char *cut = json_dumps(root, 0), tree_name[32], place[32], quoted[64];
      snprintf(tree_name, sizeof tree_name, "tree %u: ", tree);
      snprintf(place, sizeof place, "trees[%u].", tree);
      snprintf(quoted, sizeof quoted, "\"%s\"", name);
      assert_int_not_equal(by_plan_parse("p", cut, strlen(cut), &read), BANYAN_OK);
      assert_true(strstr(banyan_error_text(), tree_name) || strstr(banyan_error_text(), place));
      assert_non_null(strstr(banyan_error_text(), quoted));
      free(cut);
      done++;
    }
    json_decref(root);
    by_text_fini(&text);
    by_plan_destroy(plan);
  }
  assert_true(done > (int)check_seeds(PLANS) / 10);
}

/* --- rotation --- */

/* Translations form a commutative group that acts on the positions: every position is the root of one tree. */
static void test_translation_is_a_group(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 4);
  for (int i = 0; i < (int)check_seeds(300); i++) {
    uint32_t radix[BY_PLAN_MAX_DIGITS];
    struct by_group group = {.n = 1 + below(&rng, 600), .radix = radix};
    group.n_radix = random_radix(&rng, group.n, radix);
    uint8_t seen[600] = {0};
    uint32_t root = below(&rng, group.n);
    for (uint32_t t = 0; t < group.n; t++) {
      uint32_t position = by_group_translate(&group, root, t), other = below(&rng, group.n);
      assert_true(position < group.n);
      assert_false(seen[position]);
      seen[position] = 1;
      assert_int_equal(by_group_untranslate(&group, position, t), root);
      assert_int_equal(by_group_translate(&group, by_group_untranslate(&group, t, other), other), t);
      assert_int_equal(by_group_translate(&group, position, other),
                       by_group_translate(&group, root, by_group_translate(&group, t, other)));
      assert_int_equal(by_group_translate(&group, t, root), position);
    }
  }
}

/* --- built-ins --- */

static void test_builtins(void **state) {
  (void)state;
  for (uint32_t i = 0; by_plan_builtin_list(i); i++) {
    for (uint32_t n = 1; n <= 65; n++) {
      struct by_plan *plan;
      char name[32];
      snprintf(name, sizeof name, "%s", by_plan_builtin_list(i)->name);
      if (strcmp(name, "ring2d") == 0) snprintf(name, sizeof name, "ring2d:%ux%u", n % 3 ? n : n / 3, n % 3 ? 1 : 3);
      assert_ok(by_plan_builtin(name, n, &plan));
      assert_ok(by_plan_validate(plan));
      assert_round_trip(plan);
      by_plan_destroy(plan);
    }
  }
}

static void test_large_builtins_are_small(void **state) {
  (void)state;
  const char *names[] = {"ring", "halving", "sharded", "doubling", "ring2d:64x64"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct by_plan *plan;
    struct by_text text;
    by_text_init(&text);
    assert_ok(by_plan_builtin(names[i], 4096, &plan));
    by_plan_print(plan, &text);
    assert_true(plan->arena.bytes < 1 << 20);
    assert_true(text.length < 1000000);
    assert_round_trip(plan);
    by_text_fini(&text);
    by_plan_destroy(plan);
  }
}

/* For any plan over hosts and any placement, the ranks of a host follow it in all trees of the plan over ranks. */
static void test_expansion(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 5);
  for (int i = 0; i < (int)check_seeds(PLANS); i++) {
    struct by_plan *hosts = random_plan(&rng), *plan;
    uint32_t n = hosts->n_ranks + below(&rng, 20), host_of[MOST_RANKS + 20], ranks_on[MOST_RANKS] = {0};
    uint32_t fewest = n, groups = 0, expanded = 0;
    for (uint32_t r = 0; r < n; r++) host_of[r] = r < hosts->n_ranks ? r : below(&rng, hosts->n_ranks);
    shuffle(&rng, host_of, n);
    for (uint32_t r = 0; r < n; r++) ranks_on[host_of[r]]++;
    for (uint32_t h = 0; h < hosts->n_ranks; h++) fewest = ranks_on[h] < fewest ? ranks_on[h] : fewest;
    assert_ok(by_plan_expand(hosts, host_of, n, &plan));
    for (uint32_t c = 0; c < hosts->n_classes; c++)
      for (uint32_t g = 0; g < hosts->classes[c].n_groups; g++)
        groups += by_group_has_server(hosts, &hosts->classes[c].groups[g]) ? 1 : fewest;
    for (uint32_t c = 0; c < plan->n_classes; c++) expanded += plan->classes[c].n_groups;
    assert_int_equal(expanded, groups);
    assert_round_trip(plan);
    by_plan_destroy(hosts);
    by_plan_destroy(plan);
    assert_ok(by_plan_default(n, host_of, n % 2 == 0, &plan));
    assert_round_trip(plan);
    by_plan_destroy(plan);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_print_and_parse), cmocka_unit_test(test_mutations_are_refused),
      cmocka_unit_test(test_dropped_lines),   cmocka_unit_test(test_translation_is_a_group),
      cmocka_unit_test(test_builtins),        cmocka_unit_test(test_large_builtins_are_small),
      cmocka_unit_test(test_expansion),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
