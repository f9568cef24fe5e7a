#include <string.h>

#include "check.h"
#include "plan.h"
#include "plan_make.h"
#include "text.h"

static const struct by_twig *find_twig(const struct by_group *group, uint32_t child) {
  for (uint32_t i = 0; i < group->n_twigs; i++)
    if (group->twigs[i].child == child) return &group->twigs[i];
  return NULL;
}

/* Three hosts have 2, 3 and 2 ranks, which are not consecutive: the ring over hosts becomes two rings of one rank
 * per host. */
static void test_expand_ring(void **state) {
  (void)state;
  const uint32_t host_of[] = {0, 1, 2, 2, 1, 1, 0};
  struct by_plan *hosts, *plan;
  assert_ok(by_plan_builtin("ring", 3, &hosts));
  assert_ok(by_plan_expand(hosts, host_of, 7, &plan));
  by_plan_destroy(hosts);
  assert_ok(by_plan_validate(plan));
  assert_int_equal(plan->n_ranks, 7);
  assert_int_equal(plan->classes[0].n_groups, 2);
  const uint32_t leaders[2][3] = {{0, 1, 2}, {6, 4, 3}};
  for (uint32_t j = 0; j < 2; j++) {
    const struct by_group *group = &plan->classes[0].groups[j];
    assert_int_equal(group->kind, BY_GROUP_ROTATED);
    assert_true(group->share == 0.5);
    assert_int_equal(group->n, 3);
    assert_int_equal(group->up[1], 2);
    assert_int_equal(group->down[1], 0);
    assert_int_equal(group->n_twigs, 4);
    for (uint32_t h = 0; h < 3; h++) assert_int_equal(group->order[h], leaders[j][h]);
    for (uint32_t r = 0; r < 7; r++) {
      const struct by_twig *twig = find_twig(group, r);
      if (r == leaders[j][host_of[r]])
        assert_null(twig);
      else
        assert_int_equal(twig->parent, leaders[j][host_of[r]]);
    }
  }
  by_plan_destroy(plan);
}

/* Trees that the same ranks lead have one array of twigs, whether they were expanded or read. */
static void check_shared_twigs(const struct by_plan *plan) {
  const struct by_group *groups = plan->classes[0].groups;
  assert_int_equal(plan->classes[0].n_groups, 6); /* of both trees, those of three leaders */
  for (uint32_t a = 0; a < 6; a++)
    for (uint32_t b = 0; b < 6; b++)
      if (a % 3 == b % 3)
        assert_ptr_equal(groups[a].twigs, groups[b].twigs);
      else
        assert_ptr_not_equal(groups[a].twigs, groups[b].twigs);
}

static void test_trees_share_twigs(void **state) {
  (void)state;
  const uint32_t host_of[] = {0, 0, 0, 1, 1, 1, 2, 2, 2};
  struct by_plan *hosts, *plan, *read;
  struct by_text text;
  const char *two = "{\"format\": \"banyan-plan 1\", \"ranks\": 3, \"trees\": ["
                    "{\"share\": 0.5, \"root\": \"0\", \"up\": {\"1\": \"0\", \"2\": \"1\"}},"
                    "{\"share\": 0.5, \"root\": \"2\", \"up\": {\"1\": \"2\", \"0\": \"2\"}}]}";
  assert_ok(by_plan_parse("p", two, strlen(two), &hosts));
  assert_ok(by_plan_expand(hosts, host_of, 9, &plan));
  by_plan_destroy(hosts);
  check_shared_twigs(plan);
  by_text_init(&text);
  by_plan_print(plan, &text);
  assert_ok(by_plan_parse("p", by_text_get(&text), text.length, &read));
  by_text_fini(&text);
  check_shared_twigs(read);
  assert_int_equal(read->version, plan->version);
  by_plan_destroy(read);
  by_plan_destroy(plan);
}

/* A plan is there until its last holder has destroyed it. */
static void test_hold(void **state) {
  (void)state;
  struct by_plan *plan, *held;
  assert_ok(by_plan_builtin("ring", 3, &plan));
  uint32_t version = plan->version;
  held = by_plan_hold(by_plan_hold(plan));
  assert_ptr_equal(held, plan);
  by_plan_destroy(plan);
  by_plan_destroy(plan);
  assert_int_equal(by_plan_hash(held), version);
  by_plan_destroy(held);
}

static const char with_helper[] =
    "{\"format\": \"banyan-plan 1\", \"ranks\": 3, \"chunk\": 4096, \"vertices\": {\"h\": {\"kind\": \"helper\"}},"
    "\"classes\": [{\"up_to\": 100, \"trees\": [{\"kind\": \"exchange\", \"share\": 1, \"order\": [\"0\", \"2\"],"
    " \"twigs\": {\"1\": \"2\"}}]},"
    "{\"trees\": [{\"share\": 1, \"rate\": 4e9, \"root\": \"h\", \"up\": {\"0\": \"h\", \"1\": \"h\"},"
    " \"twigs\": {\"2\": \"h\"}}]}]}";

/* Some hosts are twigs: all their ranks are attached to the leader that the host was attached to, or to the helper. */
static void test_expand_twigs_and_helpers(void **state) {
  (void)state;
  const uint32_t host_of[] = {0, 0, 1, 1, 2, 2};
  struct by_plan *hosts, *plan;
  assert_ok(by_plan_parse("p", with_helper, strlen(with_helper), &hosts));
  assert_ok(by_plan_expand(hosts, host_of, 6, &plan));
  by_plan_destroy(hosts);
  assert_int_equal(plan->n_classes, 2);
  assert_int_equal(plan->chunk, 4096);
  assert_int_equal(plan->classes[0].up_to, 100);
  assert_string_equal(plan->vertices[6].name, "h");
  const struct by_group *exchange = &plan->classes[0].groups[1];
  assert_int_equal(exchange->order[0], 1);
  assert_int_equal(exchange->order[1], 5);
  const uint32_t wanted[] = {1, 0, 5, 5, 5, 0};
  for (uint32_t r = 0; r < 6; r++)
    if (r != 1 && r != 5) assert_int_equal(find_twig(exchange, r)->parent, wanted[r]);
  const struct by_group *tree = &plan->classes[1].groups[0];
  assert_true(tree->rate == 2e9);
  assert_int_equal(tree->order[tree->root], 6);
  assert_int_equal(find_twig(tree, 1)->parent, 0);
  assert_int_equal(find_twig(tree, 3)->parent, 2);
  assert_int_equal(find_twig(tree, 4)->parent, 6);
  assert_int_equal(find_twig(tree, 5)->parent, 6);
  by_plan_destroy(plan);
}

static const char with_servers[] =
    "{\"format\": \"banyan-plan 1\", \"ranks\": 3, \"vertices\": {\"h/0\": {\"kind\": \"server\"}, "
    "\"h/10\": {\"kind\": \"server\"}, \"k\": {\"kind\": \"server\"}, \"x\": {\"kind\": \"switch\"}}, \"trees\": ["
    "{\"share\": 0.5, \"root\": \"h/0\", \"up\": {\"x\": \"h/0\", \"0\": \"x\", \"1\": \"x\", \"2\": \"h/0\"}, "
    "\"forwards\": [\"x\"], \"ports\": {\"x\": {\"h/0\": \"e0\", \"0\": \"e1\", \"1\": \"e2\"}}},"
    "{\"share\": 0.25, \"root\": \"h/10\", \"up\": {\"0\": \"h/10\", \"1\": \"h/10\", \"2\": \"h/10\"}},"
    "{\"share\": 0.25, \"root\": \"k\", \"up\": {\"0\": \"k\", \"1\": \"k\", \"2\": \"k\"}}]}";

/* One rank of each host sends to a server, another one to the next; the others combine with it first. */
static void test_expand_servers(void **state) {
  (void)state;
  const uint32_t host_of[] = {0, 0, 1, 1, 2, 2, 2};
  const char *servers[] = {"h/0", "h/10", "k"};
  struct by_plan *hosts, *plan;
  assert_ok(by_plan_parse("p", with_servers, strlen(with_servers), &hosts));
  assert_ok(by_plan_check_switches(hosts));
  assert_ok(by_plan_expand(hosts, host_of, 7, &plan));
  assert_ok(by_plan_check_switches(plan));
  assert_int_equal(plan->n_vertices, 7 + 3 + 1);
  assert_int_equal(plan->classes[0].n_groups, 3);
  for (uint32_t g = 0; g < 3; g++) {
    const struct by_group *group = &plan->classes[0].groups[g];
    assert_string_equal(plan->vertices[group->order[group->root]].name, servers[g]);
    assert_true(group->share == hosts->classes[0].groups[g].share);
    assert_int_equal(group->n_twigs, 4);
    if (g >= 1) assert_true(group->n_forwards == 0 && group->n_ports == 0);
  }
  by_plan_destroy(hosts);
  const struct by_group *first = &plan->classes[0].groups[0]; /* It is led by ranks 0, 2 and 4, */
  uint32_t x = first->forwards[0];
  assert_string_equal(plan->vertices[x].name, "x");
  assert_string_equal(by_group_interface(first, x, 0), "e1");
  assert_string_equal(by_group_interface(first, x, 2), "e2");
  assert_string_equal(by_group_interface(first, x, first->order[first->root]), "e0");
  assert_null(by_group_interface(first, x, 1));
  assert_int_equal(find_twig(first, 1)->parent, 0);
  const struct by_group *second = &plan->classes[0].groups[1]; /* and the second by 1, 3 and 5. */
  assert_int_equal(find_twig(second, 0)->parent, 1);
  assert_int_equal(find_twig(second, 6)->parent, 5);
  by_plan_destroy(plan);
}

static uint32_t count_children(const struct by_plan *plan, uint32_t rank) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < plan->n_ranks; r++) n += r != rank && plan->control.parent[r] == rank;
  return n;
}

/* A star of hosts, on which 4, 1 and 2 ranks run. With a fan-out of two the first rank of host 0 keeps a place for its
 * own ranks, so that host 2 hangs on another one; with more, both hosts hang on it. */
static void test_expand_control(void **state) {
  (void)state;
  const uint32_t host_of[] = {0, 0, 1, 0, 2, 2, 0}, ring_over_ranks[] = {4, 5, 0, 1, 3, 6, 2};
  uint32_t parent[] = {0, 0, 0}, ring[] = {2, 0, 1};
  const uint32_t wanted[3][7] = {{0, 0, 6, 1, 6, 4, 3}, {0, 0, 0, 1, 3, 4, 1}, {0, 0, 0, 0, 0, 4, 1}};
  for (uint32_t fan_out = 2; fan_out <= 4; fan_out += 2) {
    struct by_plan *hosts, *plan;
    assert_ok(by_plan_builtin("tree:4", 3, &hosts));
    const struct by_plan_control control = {.parent = parent, .ring = ring, .fan_out = fan_out, .use_ring = true};
    assert_ok(by_plan_set_control(hosts, &control));
    assert_int_equal(by_plan_hash(hosts), hosts->version);
    assert_ok(by_plan_expand(hosts, host_of, 7, &plan));
    assert_memory_equal(plan->control.parent, wanted[fan_out / 2], sizeof wanted[0]);
    assert_memory_equal(plan->control.ring, ring_over_ranks, sizeof ring_over_ranks);
    assert_false(plan->control.use_ring); /* it has become longer */
    for (uint32_t r = 0; r < 7; r++) assert_in_range(count_children(plan, r), 0, fan_out);
    by_plan_destroy(hosts);
    by_plan_destroy(plan);
  }
}

/* Chains of hosts and ranks, and many ranks on each of 20 hosts: the tree stays one tree within the fan-out. */
static void test_expand_control_within_limits(void **state) {
  (void)state;
  uint32_t parent[20], host_of[20 * 9];
  for (uint32_t fan_out = 1; fan_out <= 9; fan_out++)
    for (uint32_t each = 1; each <= 9; each++) {
      struct by_plan *hosts, *plan;
      for (uint32_t h = 0; h < 20; h++) parent[h] = h ? (h - 1) / fan_out : 0;
      for (uint32_t r = 0; r < 20 * each; r++) host_of[r] = r % 20;
      assert_ok(by_plan_builtin("ring", 20, &hosts));
      assert_ok(by_plan_set_control(hosts, &(struct by_plan_control){.parent = parent, .fan_out = fan_out}));
      assert_ok(by_plan_expand(hosts, host_of, 20 * each, &plan));
      for (uint32_t r = 0; r < plan->n_ranks; r++) assert_in_range(count_children(plan, r), 0, fan_out);
      by_plan_destroy(hosts);
      by_plan_destroy(plan);
    }
}

static void test_expand_refuses(void **state) {
  (void)state;
  struct by_plan *hosts, *plan;
  assert_ok(by_plan_builtin("ring", 3, &hosts));
  assert_status(by_plan_expand(hosts, (uint32_t[]){0, 1, 3}, 3, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_expand(hosts, (uint32_t[]){0, 1, 1}, 3, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_expand(hosts, (uint32_t[]){0}, 0, &plan), BANYAN_ERR_ARGUMENT);
  by_plan_destroy(hosts);
}

/* Two hosts with 850 ranks each have no room for 3400 trees of allgather beside 850 of the size class; the other
 * collective keeps its own. */
static void test_expand_own_classes(void **state) {
  (void)state;
  static const char text[] =
      "{\"format\": \"banyan-plan 1\", \"ranks\": 2, \"trees\": [{\"share\": 1, \"root\": \"0\", \"up\": {\"1\": "
      "\"0\"}}],"
      "\"collectives\": [{\"for\": [\"allgather\"], \"per_root\": true, \"trees\": ["
      "{\"share\": 0.5, \"root\": \"0\", \"up\": {\"1\": \"0\"}}, {\"share\": 0.5, \"root\": \"0\", \"up\": {\"1\": "
      "\"0\"}},"
      "{\"share\": 0.5, \"root\": \"1\", \"up\": {\"0\": \"1\"}}, {\"share\": 0.5, \"root\": \"1\", \"up\": {\"0\": "
      "\"1\"}}]},"
      "{\"for\": [\"broadcast\"], \"trees\": [{\"share\": 1, \"root\": \"1\", \"up\": {\"0\": \"1\"}}]}]}";
  static const struct {
    uint32_t ranks, own, groups;
  } cases[] = {{2, 2, 4}, {1200, 2, 2400}, {1700, 1, 850}, {2000, 1, 1000}};
  static uint32_t host_of[2000];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_plan *hosts, *plan;
    for (uint32_t r = 0; r < cases[i].ranks; r++) host_of[r] = r % 2;
    assert_ok(by_plan_parse("p", text, sizeof text - 1, &hosts));
    assert_ok(by_plan_expand(hosts, host_of, cases[i].ranks, &plan));
    assert_ok(by_plan_validate(plan));
    assert_int_equal(plan->n_own, cases[i].own);
    assert_int_equal(plan->classes[1].n_groups, cases[i].groups);
    bool fits = cases[i].own == 2;
    assert_ptr_equal(by_plan_class_of(plan, BANYAN_ALLGATHER, 1000), &plan->classes[fits ? 1 : 0]);
    assert_ptr_equal(by_plan_class_of(plan, BANYAN_BROADCAST, 1000), &plan->classes[fits ? 2 : 1]);
    uint32_t n = cases[i].ranks, places = (cases[i].own == 2 ? 5 * n / 2 : n / 2) * n, version = plan->version;
    by_plan_limit_own(plan, places);
    assert_true(plan->n_own == cases[i].own && plan->version == version);
    by_plan_limit_own(plan, places - 1);
    assert_true(!plan->n_own && plan->version != version);
    assert_ok(by_plan_validate(plan));
    by_plan_destroy(hosts);
    by_plan_destroy(plan);
  }
}

/* A plan with one rank per host remains unchanged. */
static void test_expand_to_itself(void **state) {
  (void)state;
  const uint32_t host_of[] = {0, 1, 2, 3, 4};
  const char *names[] = {"ring", "doubling", "double-tree", "exchange:2", "star:3"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct by_plan *hosts, *plan;
    assert_ok(by_plan_builtin(names[i], 5, &hosts));
    assert_ok(by_plan_expand(hosts, host_of, 5, &plan));
    assert_int_equal(plan->version, hosts->version);
    by_plan_destroy(hosts);
    by_plan_destroy(plan);
  }
}

static void test_default_on_one_host(void **state) {
  (void)state;
  const uint32_t same[] = {9, 9, 9, 9};
  for (uint32_t n = 1; n <= 65; n++) {
    struct by_plan *plan;
    assert_ok(by_plan_default(n, NULL, false, &plan));
    assert_ok(by_plan_validate(plan));
    assert_int_equal(by_plan_class(plan, 0)->groups[0].kind, BY_GROUP_EXCHANGE);
    for (uint32_t i = 0; i < plan->n_classes; i++) assert_int_equal(plan->classes[i].n_groups, 1);
    if (n == 4) {
      struct by_plan *again;
      assert_ok(by_plan_default(n, same, false, &again));
      assert_int_equal(again->version, plan->version);
      by_plan_destroy(again);
    }
    by_plan_destroy(plan);
  }
  struct by_plan *plan;
  assert_status(by_plan_default(0, NULL, false, &plan), BANYAN_ERR_ARGUMENT);
}

/* For large buffers every rank leads a slice, and only leaders send to other hosts. */
static void test_default_on_several_hosts(void **state) {
  (void)state;
  const uint32_t host_of[] = {70, 5, 70, 5, 70, 5, 1000000, 1000000, 1000000};
  struct by_plan *plan;
  assert_ok(by_plan_default(9, host_of, false, &plan));
  assert_ok(by_plan_validate(plan));
  const struct by_class *small = by_plan_class(plan, 8), *large = by_plan_class(plan, 1 << 30);
  assert_int_equal(small->n_groups, 1);
  assert_int_equal(large->n_groups, 3);
  bool leads[9] = {false};
  for (uint32_t g = 0; g < 3; g++) {
    const struct by_group *group = &large->groups[g];
    assert_int_equal(group->n, 3);
    for (uint32_t i = 0; i < 3; i++) leads[group->order[i]] = true;
    for (uint32_t i = 0; i < group->n_twigs; i++)
      assert_int_equal(host_of[group->twigs[i].child], host_of[group->twigs[i].parent]);
  }
  for (uint32_t r = 0; r < 9; r++) assert_true(leads[r]);
  by_plan_destroy(plan);
}

/* --- Plans without their helpers --- */

#define HEAD "{\"format\": \"banyan-plan 1\", \"name\": \"p\", \"ranks\": 3, "
#define HELPERS "\"vertices\": {\"g\": {\"kind\": \"helper\"}, \"h\": {\"kind\": \"helper\"}}, "

static struct by_plan *parsed(const char *text) {
  struct by_plan *plan;
  assert_ok(by_plan_parse("p.json", text, strlen(text), &plan));
  return plan;
}

static struct by_plan *among(const char *text) {
  struct by_plan *plan = parsed(text), *out;
  assert_ok(by_plan_among_ranks(plan, &out));
  assert_int_equal(out->n_ranks, plan->n_ranks);
  assert_int_equal(out->n_vertices, plan->n_ranks);
  assert_int_equal(out->n_classes, plan->n_classes);
  assert_true(out->version != plan->version);
  by_plan_destroy(plan);
  return out;
}

/* Returns the rank above `rank` in one direction of a group, or `rank` if it is the root. */
static uint32_t above(const struct by_group *group, const uint32_t *parent, uint32_t rank) {
  for (uint32_t u = 0; u < group->n; u++)
    if (group->order[u] == rank) return group->order[parent[u]];
  fail_msg("rank %u is missing", rank);
  return UINT32_MAX;
}

static void check_parents(const struct by_group *group, const uint32_t *parent, const char *expected) {
  char text[4] = "";
  for (uint32_t r = 0; r < 3; r++) text[r] = (char)('0' + above(group, parent, r));
  assert_int_equal(group->n, 3);
  assert_string_equal(text, expected);
}

static void test_root(void **state) {
  (void)state;
  struct by_plan *plan = among(HEAD HELPERS "\"trees\": [{\"share\": 1, \"root\": \"h\", \"up\": "
                                            "{\"0\": \"h\", \"1\": \"h\", \"2\": \"h\"}}]}");
  const struct by_group *group = &plan->classes[0].groups[0];
  assert_int_equal(group->order[group->root], 0);
  check_parents(group, group->up, "001"); /* The others form a chain. */
  assert_ptr_equal(group->up, group->down);
  by_plan_destroy(plan);
}

static void test_inside(void **state) {
  (void)state;
  struct by_plan *plan = among(HEAD HELPERS "\"trees\": [{\"share\": 1, \"root\": \"2\", \"up\": "
                                            "{\"h\": \"2\", \"g\": \"h\", \"0\": \"g\", \"1\": \"g\"}}]}");
  const struct by_group *group = &plan->classes[0].groups[0];
  assert_int_equal(group->order[group->root], 2);
  check_parents(group, group->up, "202");
  by_plan_destroy(plan);
}

/* One helper is above a helper at the top, one is a leaf, and the way down differs from the way up. */
static void test_both_ways(void **state) {
  (void)state;
  struct by_plan *plan = among(HEAD HELPERS "\"trees\": [{\"share\": 1, \"root\": \"h\", \"up\": {\"g\": \"h\","
                                            "\"0\": \"g\", \"1\": \"g\", \"2\": \"1\"}, \"down\": {\"g\": \"0\","
                                            "\"0\": \"h\", \"1\": \"h\", \"2\": \"h\"}}]}");
  const struct by_group *group = &plan->classes[0].groups[0];
  uint32_t root = group->order[group->root];
  assert_true(group->up != group->down);
  assert_int_equal(above(group, group->up, root), root);
  assert_int_equal(above(group, group->down, root), root);
  for (uint32_t r = 0; r < 3; r++) { /* All are trees: every rank leads to the root. */
    assert_int_equal(above(group, group->up, above(group, group->up, above(group, group->up, r))), root);
    assert_int_equal(above(group, group->down, above(group, group->down, above(group, group->down, r))), root);
  }
  assert_int_equal(above(group, group->up, 2), 1); /* There was no helper between these. */
  by_plan_destroy(plan);
}

/* Both plans divide buffers at the same offsets, and groups without helpers remain unchanged. */
static void test_shares(void **state) {
  (void)state;
  static const char text[] = HEAD HELPERS
      "\"classes\": [{\"up_to\": 64, \"trees\": [{\"share\": 1, \"root\": \"1\", \"up\": {\"0\": \"1\", \"2\": "
      "\"0\"}}]},"
      "{\"trees\": [{\"share\": 0.3, \"root\": \"h\", \"up\": {\"0\": \"h\", \"1\": \"h\", \"2\": \"h\"}},"
      "{\"share\": 0.33333333333, \"root\": \"1\", \"up\": {\"0\": \"1\", \"2\": \"0\"}},"
      "{\"share\": 0.36666666667, \"kind\": \"rotated\", \"order\": [\"2\", \"0\", \"1\"], \"radix\": [3],"
      "\"root\": \"2\", \"up\": {\"0\": \"2\", \"1\": \"2\"}}]}]}";
  struct by_plan *before = parsed(text), *after = among(text);
  for (uint32_t g = 0; g < 3; g++) assert_true(before->classes[1].groups[g].share == after->classes[1].groups[g].share);
  check_parents(&after->classes[0].groups[0], after->classes[0].groups[0].up, "110");
  check_parents(&after->classes[1].groups[1], after->classes[1].groups[1].up, "110");
  assert_int_equal(after->classes[1].groups[2].kind, BY_GROUP_ROTATED);
  assert_int_equal(after->classes[0].up_to, 64);
  by_plan_destroy(before);
  by_plan_destroy(after);
}

/* Without one of its vertices a rotated tree is no longer a rotation. */
static void test_rotated(void **state) {
  (void)state;
  struct by_plan *out,
      *plan = parsed(HEAD HELPERS
                     "\"trees\": [{\"share\": 1, \"kind\": \"rotated\", \"order\": [\"2\", \"0\", \"1\", \"h\"], "
                     "\"radix\": [4], \"root\": \"2\", \"up\": {\"0\": \"2\", \"1\": \"0\", \"h\": \"1\"}}]}");
  assert_status(by_plan_among_ranks(plan, &out), BANYAN_ERR_UNSUPPORTED);
  assert_non_null(strstr(banyan_error_text(), "plan 'p' has a helper in a group of kind"));
  by_plan_destroy(plan);
}

/* --- Plans joined into one with size classes, and plans over ranks in another order --- */

#define JOINED "{\"format\": \"banyan-plan 1\", "
#define RANKS "\"vertices\": {\"x\": {\"kind\": \"rank\", \"rank\": 0}, \"y\": {\"kind\": \"rank\", \"rank\": 1}"

static void test_helpers_are_joined_by_name(void **state) {
  (void)state;
  struct by_plan *small =
      parsed(JOINED RANKS ", \"spare\": {\"kind\": \"helper\"}}, \"trees\": [{\"share\": 1, \"root\":"
                          " \"spare\", \"up\": {\"x\": \"spare\", \"y\": \"spare\"}}]}");
  struct by_plan *large =
      parsed(JOINED RANKS ", \"hub\": {\"kind\": \"switch\"}, \"spare\": {\"kind\": \"helper\"}}, \"throughput\": 5,"
                          "\"trees\": [{\"share\": 0.5, \"root\": \"hub\", \"up\": {\"x\": \"hub\", \"y\": \"hub\"}},"
                          "{\"share\": 0.5, \"root\": \"x\", \"up\": {\"y\": \"spare\", \"spare\": \"x\"}}]}");
  struct by_plan *joined;
  assert_ok(by_plan_join("both", (struct by_plan_part[]){{small, 1000}, {large, 0}}, 2, &joined));
  assert_int_equal(joined->n_ranks, 2);
  assert_int_equal(joined->n_vertices, 4);
  assert_string_equal(joined->vertices[0].name, "x");
  assert_string_equal(joined->vertices[2].name, "hub");
  assert_int_equal(joined->vertices[2].kind, BY_VERTEX_SWITCH);
  assert_string_equal(joined->vertices[3].name, "spare");
  const struct by_group *of_small = &by_plan_class(joined, 1000)->groups[0];
  assert_int_equal(of_small->order[of_small->root], 3);
  assert_int_equal(by_plan_class(joined, 1001)->n_groups, 2);
  assert_true(joined->facts.throughput == 5);
  by_plan_destroy(small);
  by_plan_destroy(large);
  by_plan_destroy(joined);
}

/* Each part supplies the class for its size. */
static void test_classes_of_parts(void **state) {
  (void)state;
  struct by_plan *usual, *ring, *joined;
  assert_ok(by_plan_default(4, (uint32_t[]){0, 1, 2, 3}, false, &usual));
  assert_ok(by_plan_builtin("ring", 4, &ring));
  assert_ok(by_plan_join("both", (struct by_plan_part[]){{usual, 64}, {usual, 1 << 20}, {ring, 0}}, 3, &joined));
  assert_int_equal(joined->classes[0].groups[0].kind, usual->classes[0].groups[0].kind);
  assert_int_equal(joined->classes[1].n_groups, by_plan_class(usual, 1 << 20)->n_groups);
  assert_int_equal(joined->classes[2].groups[0].kind, BY_GROUP_ROTATED);
  assert_ptr_not_equal(joined->classes[2].groups[0].up, ring->classes[0].groups[0].up);
  by_plan_destroy(usual);
  by_plan_destroy(ring);
  by_plan_destroy(joined);
}

static void test_another_order(void **state) {
  (void)state;
  struct by_plan *doubling, *names, *made;
  assert_ok(by_plan_builtin("doubling", 5, &doubling)); /* Rank 4 is a twig of rank 0. */
  assert_ok(by_plan_builtin("ring", 5, &names));
  const uint32_t order[] = {3, 4, 1, 0, 2};
  uint32_t parent[] = {0, 0, 0, 1, 1};
  assert_ok(by_plan_set_control(doubling, &(struct by_plan_control){.parent = parent, .fan_out = 2}));
  assert_ok(by_plan_reorder(doubling, order, names, &made));
  for (uint32_t i = 0; i < 5; i++) assert_int_equal(made->control.parent[order[i]], order[parent[i]]);
  for (uint32_t i = 0; i < 4; i++) assert_int_equal(made->classes->groups[0].order[i], order[i]);
  assert_int_equal(made->classes->groups[0].twigs[0].child, 2);
  assert_int_equal(made->classes->groups[0].twigs[0].parent, 3);
  assert_int_not_equal(made->version, doubling->version);
  by_plan_destroy(doubling);
  by_plan_destroy(names);
  by_plan_destroy(made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_expand_ring),
      cmocka_unit_test(test_trees_share_twigs),
      cmocka_unit_test(test_hold),
      cmocka_unit_test(test_expand_twigs_and_helpers),
      cmocka_unit_test(test_expand_servers),
      cmocka_unit_test(test_expand_control),
      cmocka_unit_test(test_expand_control_within_limits),
      cmocka_unit_test(test_expand_refuses),
      cmocka_unit_test(test_expand_own_classes),
      cmocka_unit_test(test_expand_to_itself),
      cmocka_unit_test(test_default_on_one_host),
      cmocka_unit_test(test_default_on_several_hosts),
      cmocka_unit_test(test_root),
      cmocka_unit_test(test_inside),
      cmocka_unit_test(test_both_ways),
      cmocka_unit_test(test_shares),
      cmocka_unit_test(test_rotated),
      cmocka_unit_test(test_helpers_are_joined_by_name),
      cmocka_unit_test(test_classes_of_parts),
      cmocka_unit_test(test_another_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
