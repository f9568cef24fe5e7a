/* Built-in and named plans, and drawings of plans. */
#include <string.h>

#include "check.h"
#include "job_state.h"
#include "plan.h"
#include "plans.h"
#include "text.h"

/* --- plan builtin --- */

static struct by_plan *builtin(const char *name, uint32_t n) {
  struct by_plan *plan = NULL;
  assert_ok(by_plan_builtin(name, n, &plan));
  assert_int_equal(plan->n_ranks, n);
  assert_int_not_equal(plan->version, 0);
  return plan;
}

static struct by_group *only_group(struct by_plan *plan) {
  assert_int_equal(plan->n_classes, 1);
  assert_int_equal(plan->classes[0].n_groups, 1);
  return &plan->classes[0].groups[0];
}

static void assert_array(const uint32_t *got, const uint32_t *wanted, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) assert_int_equal(got[i], wanted[i]);
}

static void test_star(void **state) {
  (void)state;
  struct by_plan *plan = builtin("star:3", 5);
  struct by_group *group = only_group(plan);
  assert_int_equal(group->kind, BY_GROUP_TREE);
  assert_int_equal(group->root, 3);
  assert_array(group->up, (uint32_t[]){3, 3, 3, 3, 3}, 5);
  by_plan_destroy(plan);
  assert_status(by_plan_builtin("star:5", 5, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("star:", 5, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("star:-1", 5, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("star:1x", 5, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("star:4294967296", 5, &plan), BANYAN_ERR_ARGUMENT);
}

static void test_ring(void **state) {
  (void)state;
  struct by_plan *plan = builtin("ring", 4);
  struct by_group *group = only_group(plan);
  assert_int_equal(group->kind, BY_GROUP_ROTATED);
  assert_array(group->up, (uint32_t[]){0, 2, 3, 0}, 4);
  assert_array(group->down, (uint32_t[]){0, 0, 1, 2}, 4);
  assert_int_equal(group->n_radix, 1);
  assert_int_equal(group->radix[0], 4);
  for (uint32_t t = 0; t < 4; t++) assert_int_equal(by_group_translate(group, group->root, t), t);
  by_plan_destroy(plan);
}

static void test_trees(void **state) {
  (void)state;
  struct by_plan *plan = builtin("tree:3", 8);
  assert_array(only_group(plan)->up, (uint32_t[]){0, 0, 0, 0, 1, 1, 1, 2}, 8);
  by_plan_destroy(plan);
  plan = builtin("tree", 5);
  assert_array(only_group(plan)->up, (uint32_t[]){0, 0, 0, 1, 1}, 5);
  by_plan_destroy(plan);
  plan = builtin("chain", 4);
  assert_array(only_group(plan)->up, (uint32_t[]){0, 0, 1, 2}, 4);
  by_plan_destroy(plan);
  assert_status(by_plan_builtin("tree:0", 5, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("chain:2", 5, &plan), BANYAN_ERR_ARGUMENT);
}

/* Returns the number of steps from u to the root. */
static uint32_t depth(const struct by_group *group, uint32_t u) {
  uint32_t steps = 0;
  for (; u != group->root; u = group->up[u]) steps++;
  return steps;
}

static uint32_t log2_up(uint32_t n) {
  uint32_t steps = 0;
  while (((uint32_t)1 << steps) < n) steps++;
  return steps;
}

/* This is the plan of Sanders, Speck and Träff: binary, of logarithmic height, and no rank has children in both
 * trees. */
static void test_double_tree(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= 300; n++) {
    struct by_plan *plan = builtin("double-tree", n);
    assert_int_equal(plan->classes[0].n_groups, 2);
    uint8_t children[2][300] = {{0}};
    for (uint32_t g = 0; g < 2; g++) {
      const struct by_group *group = &plan->classes[0].groups[g];
      assert_true(group->share == 0.5);
      for (uint32_t u = 0; u < n; u++) {
        if (u != group->root) children[g][group->up[u]]++;
        assert_true(depth(group, u) <= log2_up(n + 1));
      }
    }
    for (uint32_t u = 0; u < n; u++) {
      assert_true(children[0][u] <= 2 && children[1][u] <= 2);
      assert_false(children[0][u] && children[1][u]);
    }
    by_plan_destroy(plan);
  }
}

static void test_halving(void **state) {
  (void)state;
  struct by_plan *plan = builtin("halving", 8);
  struct by_group *group = only_group(plan);
  /* The parent is the rank without its highest bit. */
  assert_array(group->up, (uint32_t[]){0, 0, 0, 1, 0, 1, 2, 3}, 8);
  assert_int_equal(group->n_radix, 3);
  assert_array(group->radix, (uint32_t[]){2, 2, 2}, 3);
  by_plan_destroy(plan);
  for (uint32_t n = 1; n <= 300; n++) {
    plan = builtin("halving", n);
    group = only_group(plan);
    uint64_t distances[5] = {0}; /* Distinct distances are distinct messages of a rank. */
    uint32_t messages = 0;
    for (uint32_t u = 1; u < n; u++) {
      uint32_t distance = u - group->up[u];
      messages += !(distances[distance / 64] >> distance % 64 & 1);
      distances[distance / 64] |= (uint64_t)1 << distance % 64;
      assert_true(depth(group, u) <= log2_up(n));
    }
    assert_int_equal(messages, log2_up(n));
    by_plan_destroy(plan);
  }
}

static void test_doubling(void **state) {
  (void)state;
  struct by_plan *plan = builtin("doubling", 8);
  struct by_group *group = only_group(plan);
  assert_int_equal(group->kind, BY_GROUP_EXCHANGE);
  assert_int_equal(group->n_radix, 3);
  assert_int_equal(group->n_twigs, 0);
  by_plan_destroy(plan);
  plan = builtin("doubling", 7);
  group = only_group(plan);
  assert_int_equal(group->n, 4);
  assert_int_equal(group->n_radix, 2);
  assert_int_equal(group->n_twigs, 3);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(group->twigs[i].child, 4 + i);
    assert_int_equal(group->twigs[i].parent, i);
  }
  by_plan_destroy(plan);
}

static void assert_digits(const char *name, uint32_t n, uint32_t n_radix, const uint32_t *radix, uint32_t twigs) {
  struct by_plan *plan = builtin(name, n);
  struct by_group *group = only_group(plan);
  assert_int_equal(group->n_radix, n_radix);
  assert_array(group->radix, radix, n_radix);
  assert_int_equal(group->n_twigs, twigs);
  by_plan_destroy(plan);
}

static void test_exchange(void **state) {
  (void)state;
  assert_digits("exchange", 7, 1, (uint32_t[]){7}, 0);
  assert_digits("exchange", 1, 0, NULL, 0);
  assert_digits("exchange:4", 12, 2, (uint32_t[]){4, 3}, 0);
  assert_digits("exchange:6", 12, 2, (uint32_t[]){4, 3}, 0); /* There are 5 messages, while {6, 2} would have 6. */
  assert_digits("exchange:4", 13, 2, (uint32_t[]){4, 3}, 1);
  assert_digits("exchange:8", 64, 2, (uint32_t[]){8, 8}, 0);
  assert_digits("exchange:2", 65536, 16, (uint32_t[]){2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 0);
}

static void test_ring2d(void **state) {
  (void)state;
  struct by_plan *plan = builtin("ring2d:3x2", 6);
  struct by_group *group = only_group(plan);
  assert_array(group->up, (uint32_t[]){0, 2, 0, 0, 5, 3}, 6);
  assert_array(group->down, (uint32_t[]){0, 0, 1, 0, 3, 4}, 6);
  assert_array(group->radix, (uint32_t[]){3, 2}, 2);
  by_plan_destroy(plan);
  const char *wrong[] = {"ring2d", "ring2d:3", "ring2d:3x3", "ring2d:3x2x1", "ring2d:0x6", "ring2d:-3x-2"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_status(by_plan_builtin(wrong[i], 6, &plan), BANYAN_ERR_ARGUMENT);
}

static void test_names(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_status(by_plan_builtin("rng", 4, &plan), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "ring"));
  assert_status(by_plan_builtin("", 4, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("ring", 0, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("ring", 65537, &plan), BANYAN_ERR_ARGUMENT);
  uint32_t n = 0;
  assert_status(by_plan_builtin("nothing", 4, &plan), BANYAN_ERR_ARGUMENT);
  for (const struct by_plan_builtin_entry *entry; (entry = by_plan_builtin_list(n)) != NULL; n++)
    assert_non_null(strstr(banyan_error_text(), entry->usage));
  assert_int_equal(n, 10);
}

static void test_every_size(void **state) {
  (void)state;
  for (uint32_t i = 0; by_plan_builtin_list(i); i++) {
    const char *name = by_plan_builtin_list(i)->name;
    for (uint32_t n = 1; n <= 65 && strcmp(name, "ring2d") != 0; n++) {
      struct by_plan *plan = builtin(name, n), *again = builtin(name, n);
      assert_int_equal(plan->version, again->version);
      by_plan_destroy(plan);
      by_plan_destroy(again);
    }
  }
}

static void test_large_ones_are_small(void **state) {
  (void)state;
  const char *names[] = {"ring", "halving", "sharded", "doubling", "double-tree", "ring2d:64x64"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct by_plan *plan = builtin(names[i], 4096);
    assert_true(plan->arena.bytes < 1 << 20);
    by_plan_destroy(plan);
  }
}

/* --- plans --- */

/* These tests check which processes act as the servers of a plan. */

enum { RANKS = 2, PROCESSES = 3, SERVER = 2, OWN = 0, INNER = 7 };

static const char served[] =
    "{\"format\": \"banyan-plan 1\", \"name\": \"served\", \"ranks\": 2, \"vertices\": {\"h/0\": "
    "{\"kind\": \"server\"}}, \"trees\": [{\"share\": 1, \"root\": \"h/0\", \"up\": {\"0\": "
    "\"h/0\", \"1\": \"h/0\"}}]}";

/* This is rank 1 of two ranks with a server. */
struct rank {
  struct by_job job;
  struct by_member members[PROCESSES];
  struct by_team *own, *inner;
};

static void init(struct rank *rank) {
  static const uint32_t all[RANKS] = {0, 1};
  struct by_engine_options options = {.processes = PROCESSES, .ranks = RANKS, .self = 1};
  struct by_job *c = &rank->job;
  *rank = (struct rank){.job = {.rank = 1, .size = RANKS, .processes = PROCESSES, .founders = PROCESSES}};
  assert_ok(by_settings_read(&c->settings));
  by_arena_init(&c->arena);
  for (uint32_t p = 0; p < PROCESSES; p++)
    rank->members[p] = (struct by_member){.host = "here", .machine = "this", .local = "", .cores = 4};
  rank->members[SERVER].kind = BY_MEMBER_SERVER;
  c->members = rank->members;
  assert_ok(by_hosts_index(c));
  assert_ok(by_engine_create(&options, &c->engine));
  assert_ok(by_team_create(c->engine, OWN, 1, RANKS, all, &rank->own));
  assert_ok(by_team_create(c->engine, INNER, 1, RANKS, all, &rank->inner));
}

static void fini(struct rank *rank) {
  by_engine_destroy(rank->job.engine);
  by_arena_fini(&rank->job.arena);
}

/* Returns whether calls of this team go to the server from now on. */
static bool goes_to_server(struct rank *rank, struct by_team *team) {
  static const uint32_t all[RANKS] = {0, 1};
  struct by_plan *plan = NULL;
  assert_ok(by_plans_named(&rank->job, RANKS, all, served, &plan));
  assert_ok(by_plans_set(&rank->job, team, RANKS, all, plan, NULL, 0));
  const uint32_t *helpers = by_team_helpers(team);
  return helpers && helpers[0] == SERVER;
}

/* A plan switch happens in the job's own communicator and is recorded for what is submitted to it. The order of the
 * two is a matter of chance, and ranks must not differ in which processes serve. */
static void test_order_does_not_matter(void **state) {
  struct rank first, second;
  (void)state;
  init(&first);
  assert_true(goes_to_server(&first, first.own));
  assert_false(goes_to_server(&first, first.inner));
  fini(&first);
  init(&second);
  assert_false(goes_to_server(&second, second.inner));
  assert_true(goes_to_server(&second, second.own));
  fini(&second);
}

/* --- plan draw --- */

static void assert_drawn(struct by_plan *plan, const char *wanted) {
  struct by_text text;
  by_text_init(&text);
  assert_ok(by_plan_draw(plan, &text));
  const char *body = strchr(by_text_get(&text), '\n'); /* The first line ends with the version. */
  assert_non_null(body);
  assert_string_equal(body + 1, wanted);
  by_text_fini(&text);
  by_plan_destroy(plan);
}

static struct by_plan *builtin_draw(const char *name, uint32_t n) {
  struct by_plan *plan;
  assert_ok(by_plan_builtin(name, n, &plan));
  return plan;
}

static struct by_plan *parsed(const char *text) {
  struct by_plan *plan;
  assert_ok(by_plan_parse("p", text, strlen(text), &plan));
  return plan;
}

static void test_ring_of_draw(void **state) {
  (void)state;
  assert_drawn(builtin_draw("ring", 4), "\n"
                                        "all buffers\n"
                                        "  tree 0: 100 %, height 3, rotated over 4 positions, 25 % each; the first is\n"
                                        "    up:   0 ─── 3 ─── 2 ─── 1\n"
                                        "    down: 0 ─── 1 ─── 2 ─── 3\n");
}

static void test_branches(void **state) {
  (void)state;
  assert_drawn(builtin_draw("double-tree", 6), "\n"
                                               "all buffers\n"
                                               "  tree 0: 50 %, height 2\n"
                                               "    3 ─┬─ 1 ─┬─ 0\n"
                                               "       │     └─ 2\n"
                                               "       └─ 5 ─── 4\n"
                                               "  tree 1: 50 %, height 2\n"
                                               "    2 ─┬─ 0 ─── 1\n"
                                               "       └─ 4 ─┬─ 3\n"
                                               "             └─ 5\n");
}

static void test_exchange_of_draw(void **state) {
  (void)state;
  assert_drawn(builtin_draw("exchange:3", 7), "\n"
                                              "all buffers\n"
                                              "  tree 0: 100 %, exchange among 6 in 2 steps\n"
                                              "    step 1: { 0 1 2 } { 3 4 5 }\n"
                                              "    step 2: { 0 3 } { 1 4 } { 2 5 }\n"
                                              "    first up and last down: 6→0\n");
}

static void test_names_kinds_and_classes(void **state) {
  (void)state;
  assert_drawn(parsed("{\"format\": \"banyan-plan 1\", \"vertices\": {\"é\": {\"kind\": \"rank\", \"rank\": 0},"
                      "\"b\": {\"kind\": \"rank\", \"rank\": 1}, \"sw\": {\"kind\": \"switch\"}},"
                      "\"classes\": [{\"up_to\": 1024, \"trees\": [{\"share\": 1, \"root\": \"é\", \"up\": "
                      "{\"b\": \"é\"}}]}, {\"trees\": [{\"share\": 1, \"rate\": 2e9, \"root\": \"sw\","
                      "\"up\": {\"é\": \"sw\", \"b\": \"sw\"}, \"down\": {\"é\": \"b\", \"b\": \"sw\"}}]}]}"),
               "    ranks: é=0 b=1\n"
               "\n"
               "buffers up to 1 KiB\n"
               "  tree 0: 100 %, height 1\n"
               "    é ─── b\n"
               "\n"
               "larger buffers\n"
               "  tree 0: 100 %, 2 Gbit/s, height 1 (down 2)\n"
               "    up:   sw (switch) ─┬─ é\n"
               "                       └─ b\n"
               "    down: sw (switch) ─── b ─── é\n");
}

/* Lines stay short and few for every plan. */
static void test_large_plans_are_cut(void **state) {
  (void)state;
  const char *names[] = {"star", "chain", "ring", "tree:3", "halving", "doubling", "exchange", "exchange:7"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct by_plan *plan = builtin_draw(names[i], 3000);
    struct by_text text;
    by_text_init(&text);
    assert_ok(by_plan_draw(plan, &text));
    size_t lines = 0, columns = 0;
    for (const char *c = by_text_get(&text); *c; c++) {
      columns = *c == '\n' ? 0 : columns + (((unsigned char)*c & 0xc0) != 0x80);
      lines += *c == '\n';
      assert_true(columns <= 110);
    }
    assert_true(lines < 120);
    assert_non_null(strstr(by_text_get(&text), "…"));
    by_text_fini(&text);
    by_plan_destroy(plan);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_star),
      cmocka_unit_test(test_ring),
      cmocka_unit_test(test_trees),
      cmocka_unit_test(test_double_tree),
      cmocka_unit_test(test_halving),
      cmocka_unit_test(test_doubling),
      cmocka_unit_test(test_exchange),
      cmocka_unit_test(test_ring2d),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_every_size),
      cmocka_unit_test(test_large_ones_are_small),
      cmocka_unit_test(test_order_does_not_matter),
      cmocka_unit_test(test_ring_of_draw),
      cmocka_unit_test(test_branches),
      cmocka_unit_test(test_exchange_of_draw),
      cmocka_unit_test(test_names_kinds_and_classes),
      cmocka_unit_test(test_large_plans_are_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
