#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "plan_make.h"
#include "rng.h"
#include "schedule.h"
#include "schedule_check.h"
#include "schedule_compile.h"

static struct by_schedule *compile(const char *name, uint32_t n, enum banyan_collective collective, uint32_t root,
                                   uint32_t rank) {
  struct by_plan *plan;
  struct by_schedule *schedule;
  assert_ok(by_plan_builtin(name, n, &plan));
  assert_ok(by_schedule_compile(plan, &plan->classes[0], collective, root, rank, &schedule));
  by_plan_destroy(plan);
  return schedule;
}

static uint32_t messages_out(const struct by_schedule *schedule) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < schedule->n_peers; i++) n += schedule->peers[i].n_out;
  return n;
}

static void expect_messages(const char *name, uint32_t n, enum banyan_collective collective, uint32_t wanted) {
  for (uint32_t rank = 0; rank < n; rank++) {
    struct by_schedule *schedule = compile(name, n, collective, 0, rank);
    assert_int_equal(messages_out(schedule), wanted);
    assert_int_equal(schedule->n_incoming, wanted);
    by_schedule_destroy(schedule);
  }
}

/* Everything between two ranks in one round is one message: halving takes log2 n messages each way. */
static void test_messages(void **state) {
  (void)state;
  for (uint32_t k = 1; k <= 6; k++) {
    uint32_t n = (uint32_t)1 << k;
    expect_messages("halving", n, BANYAN_ALLREDUCE, 2 * k);
    expect_messages("halving", n, BANYAN_REDUCE_SCATTER, k);
    expect_messages("halving", n, BANYAN_ALLGATHER, k);
    expect_messages("doubling", n, BANYAN_ALLREDUCE, k);
    expect_messages("doubling", n, BANYAN_REDUCE_SCATTER, k);
  }
  for (uint32_t n = 2; n < 12; n++) {
    expect_messages("ring", n, BANYAN_ALLREDUCE, 2 * (n - 1));
    expect_messages("ring", n, BANYAN_ALLGATHER, n - 1);
    expect_messages("sharded", n, BANYAN_ALLREDUCE, 2 * (n - 1));
    expect_messages("sharded", n, BANYAN_REDUCE_SCATTER, n - 1);
    expect_messages("exchange", n, BANYAN_ALLREDUCE, n - 1);
    expect_messages("ring", n, BANYAN_ALLTOALL, n - 1);
  }
}

/* Large blocks of a sum go up a tree apart: a rank of a chain sends those of the ranks on each side, one message each,
 * as soon as they are there. Small ones, and those of other trees and collectives, go together. */
static void test_large_blocks(void **state) {
  enum { RANKS = 5, LARGE = 64 << 10 };
  struct by_plan *chain, *halving;
  struct by_schedule *schedule;
  (void)state;
  assert_ok(by_plan_builtin("chain", RANKS, &chain));
  assert_ok(by_plan_builtin("halving", 8, &halving));
  const struct by_class *class_ = &chain->classes[0];
  assert_true(by_schedule_part(chain, class_, BANYAN_REDUCE_SCATTER, RANKS * LARGE) == BY_PART_APART);
  assert_true(by_schedule_part(chain, class_, BANYAN_REDUCE_SCATTER, RANKS * LARGE - 1) == BY_PART_ALL);
  assert_true(by_schedule_part(chain, class_, BANYAN_ALLREDUCE, UINT64_MAX) == BY_PART_ALL);
  assert_true(by_schedule_part(chain, class_, BANYAN_ALLGATHER, UINT64_MAX) == BY_PART_ALL);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    assert_ok(by_schedule_compile_part(chain, class_, BY_PART_APART, 1, BANYAN_REDUCE_SCATTER, 0, rank, &schedule));
    /* to each side all blocks beyond, from each side the own one and all behind */
    assert_int_equal(messages_out(schedule), RANKS - 1);
    assert_int_equal(schedule->n_incoming, rank == 0 || rank == RANKS - 1 ? 1 : RANKS + 1);
    for (uint32_t i = 0; i < schedule->n_incoming; i++)
      assert_int_equal(schedule->incoming[i].last - schedule->incoming[i].first, 1);
    by_schedule_destroy(schedule);
  }
  assert_ok(by_schedule_compile_part(halving, &halving->classes[0], BY_PART_APART, 1, BANYAN_REDUCE_SCATTER, 0, 3,
                                     &schedule));
  assert_int_equal(messages_out(schedule), 3);
  by_schedule_destroy(schedule);
  by_plan_destroy(halving);
  by_plan_destroy(chain);
}

/* With another root the same trees form a reduce-scatter and a gather, or a scatter and an allgather. */
static void test_rooted_messages(void **state) {
  (void)state;
  for (uint32_t k = 2; k <= 6; k++)
    for (uint32_t rank = 0; rank < (uint32_t)1 << k; rank++) {
      struct by_schedule *reduce = compile("halving", (uint32_t)1 << k, BANYAN_REDUCE, 3, rank);
      struct by_schedule *broadcast = compile("halving", (uint32_t)1 << k, BANYAN_BROADCAST, 3, rank);
      assert_int_equal(messages_out(reduce) + reduce->n_incoming, 2 * k);
      assert_int_equal(messages_out(broadcast) + broadcast->n_incoming, 2 * k);
      by_schedule_destroy(reduce);
      by_schedule_destroy(broadcast);
    }
}

/* For sizes that are not powers of two there are ceil(log2 n) rounds. A message that wraps around the end of the
 * order may become two. */
static void test_circulant_messages(void **state) {
  (void)state;
  for (uint32_t n = 3; n < 70; n++) {
    uint32_t rounds = 0;
    while ((uint32_t)1 << rounds < n) rounds++;
    for (uint32_t rank = 0; rank < n; rank++) {
      struct by_schedule *schedule = compile("halving", n, BANYAN_REDUCE_SCATTER, 0, rank);
      assert_in_range(schedule->n_peers, 1, 2 * rounds);
      assert_in_range(messages_out(schedule), rounds, 2 * rounds);
      by_schedule_destroy(schedule);
    }
  }
}

static void test_print_ring(void **state) {
  (void)state;
  struct by_schedule *schedule = compile("ring", 4, BANYAN_ALLREDUCE, 0, 1);
  struct by_text text;
  by_text_init(&text);
  by_schedule_print(schedule, &text);
  assert_string_equal(by_text_get(&text), "allreduce, rank 1 of 4: 4 pieces, 2 peers, 6 messages in, 12 steps\n"
                                          "step level\n"
                                          "   0     0  send    send[0] to rank 2 #0\n"
                                          "   1     0  reduce  recv[3] = send[3] + rank 0 #0\n"
                                          "   2     1  send    recv[3] to rank 2 #1, after 1\n"
                                          "   3     1  reduce  recv[2] = send[2] + rank 0 #1\n"
                                          "   4     2  send    recv[2] to rank 2 #2, after 3\n"
                                          "   5     2  reduce  recv[1] = send[1] + rank 0 #2, divide\n"
                                          "   6     3  send    recv[1] to rank 2 #3, after 5\n"
                                          "   7     3  receive recv[0] = rank 0 #3\n"
                                          "   8     4  send    recv[0] to rank 2 #4, after 7\n"
                                          "   9     4  receive recv[3] = rank 0 #4\n"
                                          "  10     5  send    recv[3] to rank 2 #5, after 9\n"
                                          "  11     5  receive recv[2] = rank 0 #5\n");
  by_text_fini(&text);
  by_schedule_destroy(schedule);
}

static void expect_lines(const char *name, uint32_t n, enum banyan_collective collective, uint32_t root, uint32_t rank,
                         const char *wanted) {
  struct by_schedule *schedule = compile(name, n, collective, root, rank);
  struct by_text text;
  by_text_init(&text);
  by_schedule_print(schedule, &text);
  const char *lines = strstr(by_text_get(&text), "level\n");
  assert_non_null(lines);
  assert_string_equal(lines + strlen("level\n"), wanted);
  by_text_fini(&text);
  by_schedule_destroy(schedule);
}

static void test_print_others(void **state) {
  (void)state;
  expect_lines("doubling", 3, BANYAN_ALLREDUCE, 0, 0, /* Rank 2 is a twig of rank 0. */
               "   0     0  reduce  recv[0] = send[0] + rank 2 #0\n"
               "   1     1  send    recv[0] to rank 1 #0, copied, after 0\n"
               "   2     1  reduce  recv[0] = recv[0] + rank 1 #0, divide, after 0, 1\n"
               "   3     2  send    recv[0] to rank 2 #0, after 2\n");
  expect_lines("chain", 4, BANYAN_REDUCE, 2, 1, /* In 3 -> 2 <- 1 <- 0 the edges above rank 2 are reversed. */
               "   0     3  reduce  tmp[0] = send[0] + rank 0 #0\n"
               "   1     4  send    tmp[0] to rank 2 #0, after 0\n");
  expect_lines("star", 4, BANYAN_REDUCE_SCATTER, 0, 0,
               "   0     0  reduce  tmp[0..2] = send[0..2] + rank 3 #0\n"
               "   1     0  reduce  tmp[0..1] = tmp[0..1] + rank 2 #0, after 0\n"
               "   2     0  copy    tmp[3] = send[3]\n"
               "   3     0  reduce  tmp[2..3] = tmp[2..3] + rank 1 #1, after 0, 2\n"
               "   4     0  reduce  recv[0] = tmp[0] + rank 1 #0, divide, after 1\n"
               "   5     0  reduce  tmp[3] = tmp[3] + rank 2 #1, after 3\n"
               "   6     1  send    tmp[1] to rank 1 #0, after 1\n"
               "   7     1  send    tmp[2] to rank 2 #0, after 3\n"
               "   8     1  send    tmp[3] to rank 3 #0, after 5\n");
  expect_lines("ring", 3, BANYAN_ALLTOALL, 0, 1, /* It begins behind itself. */
               "   0     0  copy    recv[1] = send[1]\n"
               "   1     0  send    send[2] to rank 2 #0\n"
               "   2     0  send    send[0] to rank 0 #0\n"
               "   3     0  receive recv[0] = rank 0 #0\n"
               "   4     0  receive recv[2] = rank 2 #0\n");
  expect_lines("ring", 1, BANYAN_ALLREDUCE, 0, 0, "   0     0  copy    recv[0] = send[0]\n");
  expect_lines("ring", 1, BANYAN_BROADCAST, 0, 0, "");
  expect_lines("ring", 1, BANYAN_REDUCE_SCATTER, 0, 0, "   0     0  copy    recv[0] = send[0]\n");
}

/* There are more children than a REDUCE can add: they are added in parts, one after the other. */
static void test_many_children(void **state) {
  (void)state;
  struct by_schedule *schedule = compile("star", 150, BANYAN_ALLREDUCE, 0, 0);
  uint32_t folded = 0;
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    const struct by_step *step = &schedule->steps[i];
    if (step->kind != BY_STEP_REDUCE) continue;
    assert_in_range(step->n_in, 1, BY_SCHEDULE_MAX_IN);
    folded += step->n_in;
    assert_int_equal(step->divide, folded == 149);
  }
  assert_int_equal(folded, 149);
  by_schedule_destroy(schedule);
}

/* An exchange that is too wide to be added at once runs as trees. */
static void test_wide_exchange(void **state) {
  (void)state;
  struct by_schedule *narrow = compile("exchange", BY_SCHEDULE_MAX_IN + 1, BANYAN_ALLREDUCE, 0, 3);
  struct by_schedule *wide = compile("exchange", BY_SCHEDULE_MAX_IN + 2, BANYAN_ALLREDUCE, 0, 3);
  assert_int_equal(narrow->n_pieces, 1);
  assert_int_equal(wide->n_pieces, BY_SCHEDULE_MAX_IN + 2);
  by_schedule_destroy(narrow);
  by_schedule_destroy(wide);
}

static void expect_linear(const char *name, enum banyan_collective collective) {
  struct by_schedule *small = compile(name, 512, collective, 0, 0), *large = compile(name, 2048, collective, 0, 0);
  assert_in_range(large->arena.bytes, 1, 6 * small->arena.bytes + 65536);
  assert_in_range(large->n_steps, 1, 5 * small->n_steps);
  assert_in_range(large->n_deps, 0, 5 * small->n_deps + 64);
  by_schedule_destroy(small);
  by_schedule_destroy(large);
}

/* A rank's schedule grows with n, also at the centre of a star, where all messages meet. */
static void test_grows_with_n(void **state) {
  (void)state;
  const char *const names[] = {"ring", "star", "sharded", "halving", "chain", "exchange"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    for (int c = BANYAN_ALLREDUCE; c <= BANYAN_BARRIER; c++) expect_linear(names[i], (enum banyan_collective)c);
}

static void test_same_every_time(void **state) {
  (void)state;
  struct by_schedule *a = compile("double-tree", 13, BANYAN_ALLGATHER, 0, 5);
  struct by_schedule *b = compile("double-tree", 13, BANYAN_ALLGATHER, 0, 5);
  assert_int_equal(a->n_steps, b->n_steps);
  assert_int_equal(a->n_deps, b->n_deps);
  assert_memory_equal(a->steps, b->steps, a->n_steps * sizeof *a->steps);
  assert_memory_equal(a->deps, b->deps, a->n_deps * sizeof *a->deps);
  assert_memory_equal(a->incoming, b->incoming, a->n_incoming * sizeof *a->incoming);
  by_schedule_destroy(a);
  by_schedule_destroy(b);
}

static const char with_helper[] =
    "{\"format\": \"banyan-plan 1\", \"ranks\": 2, \"vertices\": {\"h0\": {\"kind\": \"helper\"}},"
    "\"classes\": [{\"trees\": [{\"share\": 1, \"root\": \"h0\", \"up\": {\"0\": \"h0\", \"1\": \"h0\"}}]}]}";

static void test_refuses(void **state) {
  (void)state;
  struct by_plan *plan;
  struct by_schedule *schedule = NULL;
  assert_ok(by_plan_builtin("ring", 4, &plan));
  const struct by_class *class_ = &plan->classes[0];
  assert_status(by_schedule_compile(plan, class_, BANYAN_ALLREDUCE, 0, 4, &schedule), BANYAN_ERR_ARGUMENT);
  assert_status(by_schedule_compile(plan, class_, BANYAN_REDUCE, 4, 0, &schedule), BANYAN_ERR_ARGUMENT);
  assert_status(by_schedule_compile(plan, class_, BANYAN_SEND, 0, 0, &schedule), BANYAN_ERR_ARGUMENT);
  /* An AllReduce has no root, so the root is ignored. */
  assert_ok(by_schedule_compile(plan, class_, BANYAN_ALLREDUCE, 99, 0, &schedule));
  by_schedule_destroy(schedule);
  by_plan_destroy(plan);
  schedule = NULL;
  assert_ok(by_plan_parse("helper", with_helper, strlen(with_helper), &plan));
  assert_status(by_schedule_compile(plan, &plan->classes[0], BANYAN_REDUCE_SCATTER, 0, 0, &schedule),
                BANYAN_ERR_UNSUPPORTED);
  assert_non_null(strstr(banyan_error_text(), "\"h0\""));
  assert_ok(by_schedule_check(plan, &plan->classes[0], BANYAN_ALLTOALL, 0)); /* It uses no tree. */
  by_plan_destroy(plan);
  assert_null(schedule);
  by_schedule_destroy(NULL);
}

/* --- schedule_layout --- */

static struct by_schedule *compile_layout(const char *name, uint32_t n, enum banyan_collective collective) {
  struct by_plan *plan;
  struct by_schedule *schedule;
  assert_ok(by_plan_builtin(name, n, &plan));
  assert_ok(by_schedule_compile(plan, &plan->classes[0], collective, 0, 0, &schedule));
  by_plan_destroy(plan);
  return schedule;
}

static void test_even_pieces(void **state) {
  (void)state;
  struct by_schedule *schedule = compile_layout("ring", 3, BANYAN_ALLREDUCE);
  uint64_t bounds[4];
  assert_int_equal(schedule->n_pieces, 3);
  by_schedule_bounds(schedule, 9, NULL, 4, bounds); /* The buffer is too small for 64 bytes each. */
  const uint64_t small[] = {0, 12, 24, 36};
  assert_memory_equal(bounds, small, sizeof bounds);
  by_schedule_bounds(schedule, 100, NULL, 4, bounds); /* These are 33.3 and 66.7 elements: 133 and 267 bytes. */
  const uint64_t large[] = {0, 128, 256, 400};
  assert_memory_equal(bounds, large, sizeof bounds);
  by_schedule_bounds(schedule, 1, NULL, 8, bounds);
  const uint64_t one[] = {0, 0, 8, 8};
  assert_memory_equal(bounds, one, sizeof bounds);
  by_schedule_bounds(schedule, 0, NULL, 8, bounds);
  for (int i = 0; i < 4; i++) assert_int_equal(bounds[i], 0);
  by_schedule_destroy(schedule);
}

static void check_bounds(const struct by_schedule *schedule, uint64_t count, uint64_t element, const uint64_t *bounds) {
  assert_int_equal(bounds[0], 0);
  assert_int_equal(bounds[schedule->n_pieces], count * element);
  for (uint32_t i = 0; i < schedule->n_pieces; i++) {
    assert_true(bounds[i] <= bounds[i + 1]);
    assert_int_equal(bounds[i] % element, 0);
    double wanted = schedule->cut[i] * (double)(count * element), off = (double)bounds[i] - wanted;
    assert_true(off <= 36 && off >= -36); /* The tolerance is half an element and half of 64 bytes. */
    double before = i ? wanted - schedule->cut[i - 1] * (double)(count * element) : 0;
    double after = schedule->cut[i + 1] * (double)(count * element) - wanted;
    if (before >= 80 && after >= 80) assert_int_equal(bounds[i] % 64, 0);
  }
}

/* Pieces of any shares are in order, have whole elements at the right offsets, and are aligned to 64 bytes where
 * they are large enough. */
static void test_unequal_shares(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 11);
  for (int i = 0; i < (int)check_seeds(300); i++) {
    struct by_plan *made, *plan;
    uint32_t n = 1 + (uint32_t)by_rng_below(&rng, 9), groups = 1 + (uint32_t)by_rng_below(&rng, 6);
    double sum = 0;
    assert_ok(by_plan_create("shares", &made));
    assert_ok(by_plan_add_vertices(made, n, 0));
    assert_ok(by_plan_add_classes(made, 1, 0));
    assert_ok(by_plan_add_groups(made, made->classes, groups));
    for (uint32_t g = 0; g < groups; g++) {
      struct by_group *group = &made->classes->groups[g];
      bool rotated = by_rng_below(&rng, 2);
      assert_ok(by_group_init(made, group, rotated ? BY_GROUP_ROTATED : BY_GROUP_TREE, n, false));
      if (rotated) assert_ok(by_group_set_radix(made, group, &n, 1));
      sum += group->share = by_rng_unit(&rng) * by_rng_unit(&rng) + 1e-4;
    }
    for (uint32_t g = 0; g < groups; g++) made->classes->groups[g].share /= sum;
    assert_ok(by_plan_end(made, BANYAN_OK, &plan));
    struct by_schedule *schedule;
    assert_ok(by_schedule_compile(plan, &plan->classes[0], BANYAN_ALLREDUCE, 0, n - 1, &schedule));
    uint64_t *bounds = calloc(schedule->n_pieces + 1, sizeof *bounds);
    assert_non_null(bounds);
    for (int k = 0; k < 20; k++) {
      size_t count = by_rng_below(&rng, k % 2 ? 300 : 300000), element = (size_t)1 << by_rng_below(&rng, 4);
      by_schedule_bounds(schedule, count, NULL, element, bounds);
      check_bounds(schedule, count, element, bounds);
    }
    free(bounds);
    by_schedule_destroy(schedule);
    by_plan_destroy(plan);
  }
}

static void test_blocks(void **state) {
  (void)state;
  struct by_schedule *schedule = compile_layout("double-tree", 3, BANYAN_ALLGATHER);
  uint64_t bounds[7];
  assert_null(schedule->cut);
  for (uint32_t r = 0; r <= 3; r++) assert_int_equal(schedule->block[r], 2 * r);
  assert_int_equal(schedule->n_pieces, 6);
  const size_t counts[] = {5, 0, 1000};
  by_schedule_bounds(schedule, 0, counts, 2, bounds);
  /* 2.5 elements round to even, and 1000 bytes round to 1024. */
  const uint64_t different[] = {0, 4, 10, 10, 10, 10 + 1024, 2010};
  assert_memory_equal(bounds, different, sizeof bounds);
  by_schedule_bounds(schedule, 2, NULL, 8, bounds);
  const uint64_t same[] = {0, 8, 16, 24, 32, 40, 48};
  assert_memory_equal(bounds, same, sizeof bounds);
  by_schedule_destroy(schedule);
}

/* In the largest buffers no piece of 2^50 bytes is off by more than its alignment. */
static void test_huge(void **state) {
  (void)state;
  struct by_schedule *schedule = compile_layout("ring", 7, BANYAN_ALLREDUCE);
  uint64_t bounds[8];
  by_schedule_bounds(schedule, (size_t)1 << 50, NULL, 1, bounds);
  for (uint32_t i = 0; i < 7; i++) {
    int64_t off = (int64_t)(bounds[i + 1] - bounds[i]) - (int64_t)(((uint64_t)1 << 50) / 7);
    assert_in_range(off + 64, 0, 128);
  }
  by_schedule_destroy(schedule);
}

/* --- schedule_tree_view --- */

enum { N = 40 };

static void random_parents(struct by_rng *rng, uint32_t *parent, uint32_t n, uint32_t root) {
  uint32_t joined[N] = {root}, count = 1;
  parent[root] = root;
  for (uint32_t u = 0; u < n; u++) {
    if (u == root) continue;
    parent[u] = joined[by_rng_below(rng, count)];
    joined[count++] = u;
  }
}

static bool is_above(const uint32_t *parent, uint32_t root, uint32_t above, uint32_t u) {
  while (u != above && u != root) u = parent[u];
  return u == above;
}

/* Intervals are compared with a walk up the parents. */
static void test_intervals(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 7);
  for (int i = 0; i < 200; i++) {
    uint32_t parent[N], n = 1 + (uint32_t)by_rng_below(&rng, N), root = (uint32_t)by_rng_below(&rng, n), children = 0;
    struct by_tree_view view;
    struct by_arena arena;
    by_arena_init(&arena);
    random_parents(&rng, parent, n, root);
    assert_true(by_tree_view_init(&view, parent, n, root, &arena));
    for (uint32_t u = 0; u < n; u++) {
      for (uint32_t k = view.first_child[u]; k < view.first_child[u + 1]; k++, children++) {
        assert_int_equal(parent[view.child[k]], u);
        assert_true(k == view.first_child[u] || view.child[k] > view.child[k - 1]);
        assert_true(view.level[u] > view.level[view.child[k]]);
      }
      if (view.first_child[u] == view.first_child[u + 1]) assert_int_equal(view.level[u], 0);
      for (uint32_t x = 0; x < n; x++) assert_int_equal(by_tree_view_holds(&view, u, x), is_above(parent, root, u, x));
    }
    assert_int_equal(children, n - 1);
    assert_int_equal(view.height, view.level[root]);
    by_arena_fini(&arena);
  }
}

static void test_refuses_what_is_no_tree(void **state) {
  (void)state;
  const uint32_t cycle[] = {0, 2, 1, 0};
  struct by_tree_view view;
  struct by_arena arena;
  by_arena_init(&arena);
  assert_false(by_tree_view_init(&view, cycle, 4, 0, &arena));
  by_arena_fini(&arena);
}

static const struct by_group *builtin(const char *name, uint32_t n, struct by_plan **plan) {
  assert_ok(by_plan_builtin(name, n, plan));
  return &(*plan)->classes[0].groups[0];
}

/* In halving all edges of one length get one level, and there are as many lengths as rounds. */
static void test_aligns_halving(void **state) {
  (void)state;
  for (uint32_t n = 2; n < 130; n++) {
    struct by_plan *plan;
    const struct by_group *group = builtin("halving", n, &plan);
    struct by_tree_view view;
    struct by_arena arena;
    by_arena_init(&arena);
    assert_true(by_tree_view_init(&view, group->up, n, group->root, &arena));
    assert_true(by_tree_view_align(&view, group, &arena));
    for (uint32_t u = 1; u < n; u++) {
      assert_true(view.level[group->up[u]] > view.level[u]);
      for (uint32_t v = 1; v < n; v++)
        if (by_group_untranslate(group, group->up[u], u) == by_group_untranslate(group, group->up[v], v))
          assert_int_equal(view.level[u], view.level[v]);
    }
    by_arena_fini(&arena);
    by_plan_destroy(plan);
  }
}

/* All edges of a ring have one length, so they keep their heights. */
static void test_leaves_a_ring_alone(void **state) {
  (void)state;
  struct by_plan *plan;
  const struct by_group *group = builtin("ring", 9, &plan);
  struct by_tree_view view;
  struct by_arena arena;
  by_arena_init(&arena);
  assert_true(by_tree_view_init(&view, group->up, 9, group->root, &arena));
  assert_true(by_tree_view_align(&view, group, &arena));
  assert_int_equal(view.height, 8);
  for (uint32_t u = 1; u < 9; u++) assert_int_equal(view.level[group->up[u]], view.level[u] + 1);
  by_arena_fini(&arena);
  by_plan_destroy(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_messages),
      cmocka_unit_test(test_large_blocks),
      cmocka_unit_test(test_rooted_messages),
      cmocka_unit_test(test_circulant_messages),
      cmocka_unit_test(test_print_ring),
      cmocka_unit_test(test_print_others),
      cmocka_unit_test(test_many_children),
      cmocka_unit_test(test_wide_exchange),
      cmocka_unit_test(test_grows_with_n),
      cmocka_unit_test(test_same_every_time),
      cmocka_unit_test(test_refuses),
      cmocka_unit_test(test_even_pieces),
      cmocka_unit_test(test_unequal_shares),
      cmocka_unit_test(test_blocks),
      cmocka_unit_test(test_huge),
      cmocka_unit_test(test_intervals),
      cmocka_unit_test(test_refuses_what_is_no_tree),
      cmocka_unit_test(test_aligns_halving),
      cmocka_unit_test(test_leaves_a_ring_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
