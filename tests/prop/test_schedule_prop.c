/* Schedules of every family of plans, number of ranks, collective and root: the checker accepts them, they run on real
 * buffers in random order, and damaged schedules that the checker still accepts must still run. */
#include <stdio.h>
#include <string.h>

#include "schedule_check.h"
#include "schedule_plans.h"
#include "schedule_world.h"

static bool has_root(enum banyan_collective collective) {
  return collective == BANYAN_REDUCE || collective == BANYAN_BROADCAST || collective == BANYAN_GATHER ||
         collective == BANYAN_SCATTER;
}

static void check_one(const struct by_plan *plan, enum banyan_collective collective, uint32_t root) {
  if (by_schedule_check(plan, by_plan_class_of(plan, collective, 1), collective, root) == BANYAN_OK) return;
  struct by_text text;
  by_text_init(&text);
  by_plan_print(plan, &text);
  print_error("root %u: %s\n%s\n", root, banyan_error_text(), by_text_get(&text));
  by_text_fini(&text);
  fail();
}

static void check_plan(const struct by_plan *plan) {
  uint32_t n = plan->n_ranks;
  for (int c = BANYAN_ALLREDUCE; c <= BANYAN_BARRIER; c++) {
    enum banyan_collective collective = (enum banyan_collective)c;
    check_one(plan, collective, 0);
    if (has_root(collective) && n > 1) check_one(plan, collective, n - 1);
    if (has_root(collective) && n > 3) check_one(plan, collective, n / 2);
  }
}

static void check_builtin(const char *name, uint32_t n) {
  struct by_plan *plan;
  if (n == 1 && strcmp(name, "star:1") == 0) return;
  assert_ok(by_plan_builtin(name, n, &plan));
  check_plan(plan);
  by_plan_destroy(plan);
}

static void test_families(void **state) {
  (void)state;
  for (int i = 0; i < N_FAMILIES; i++)
    for (uint32_t n = 1; n <= 33; n++) check_builtin(families[i], n);
}

static void test_grids(void **state) {
  (void)state;
  for (uint32_t a = 1; a <= 6; a++)
    for (uint32_t b = 1; b <= 6; b++) {
      char name[32];
      snprintf(name, sizeof name, "ring2d:%ux%u", a, b);
      check_builtin(name, a * b);
    }
}

/* These are wider than a REDUCE can fold: 64, 100 and 256 ranks. */
static void test_large(void **state) {
  (void)state;
  for (int i = 0; i < N_FAMILIES; i++) check_builtin(families[i], 64);
  if (CHECK_FEWER) return;
  for (int i = 0; i < N_FAMILIES; i++) check_builtin(families[i], 100);
  check_builtin("ring2d:16x16", 256);
  const char *const some[] = {"star", "double-tree", "halving", "doubling", "exchange:16"};
  for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) check_builtin(some[i], 256);
  struct by_plan *plan;
  assert_ok(by_plan_builtin("ring", 256, &plan));
  check_one(plan, BANYAN_ALLREDUCE, 0);
  check_one(plan, BANYAN_REDUCE, 77);
  by_plan_destroy(plan);
}

/* Plans have several groups with unequal shares, any trees, different trees up and down, twigs anywhere, and roots
 * that are twigs. */
static void test_random(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 1);
  for (uint64_t i = 0; i < check_seeds(400); i++) {
    struct by_plan *plan = random_plan(&rng, 1 + below(&rng, 12));
    check_plan(plan);
    by_plan_destroy(plan);
  }
  for (int i = 0; i < 10; i++) {
    struct by_plan *plan = random_plan(&rng, 20 + below(&rng, 40));
    check_plan(plan);
    by_plan_destroy(plan);
  }
}

static void test_hosts(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 2);
  for (uint64_t i = 0; i < check_seeds(200); i++) {
    struct by_plan *plan = random_host_plan(&rng, 2 + below(&rng, 7));
    check_plan(plan);
    by_plan_destroy(plan);
  }
}

/* Plans are run with helpers, and once more without them: the cuts are the same, and so is everything in which helpers
 * take no part. */
static void test_helpers(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 6);
  for (uint64_t i = 0; i < check_seeds(600); i++) {
    uint32_t n = 1 + below(&rng, i % 20 ? 9 : 40);
    struct by_plan *plan = random_helped_plan(&rng, n, 1 + below(&rng, 4)), *among;
    for (int c = BANYAN_ALLREDUCE; c <= BANYAN_BARRIER; c++)
      if (by_collective((enum banyan_collective)c)->helpers) check_one(plan, (enum banyan_collective)c, below(&rng, n));
    assert_ok(by_plan_among_ranks(plan, &among));
    assert_int_equal(among->n_vertices, n);
    for (uint32_t g = 0; g < plan->classes->n_groups; g++)
      assert_true(among->classes->groups[g].share == plan->classes->groups[g].share);
    check_plan(among);
    by_plan_destroy(among);
    by_plan_destroy(plan);
  }
}

static void check_star(const struct by_plan *plan, const struct by_group *tree, const struct by_group *star) {
  assert_true(star->share == tree->share);
  assert_int_equal(star->n_twigs, tree->n_twigs);
  if (!by_group_has_server(plan, tree)) {
    assert_int_equal(star->n, tree->n);
    return;
  }
  assert_int_equal(star->order[star->root], tree->order[tree->root]);
  assert_int_equal(star->n + star->n_twigs, plan->n_ranks + 1);
  for (uint32_t u = 0; u < star->n; u++) assert_int_equal(star->up[u], star->root);
}

/* For their ends, trees through switches are stars; without switches and server they are trees of ranks. */
static void test_switches(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 7);
  for (uint64_t i = 0; i < check_seeds(400); i++) {
    uint32_t n = 1 + below(&rng, i % 20 ? 9 : 40);
    struct by_plan *plan = random_through_plan(&rng, n, below(&rng, 5), false), *stars, *among;
    struct by_plan *rings;
    assert_ok(by_plan_without_switches(plan, &stars));
    assert_int_equal(stars->version, plan->version);
    for (uint32_t g = 0; g < plan->classes->n_groups; g++)
      check_star(plan, &plan->classes->groups[g], &stars->classes->groups[g]);
    check_one(stars, BANYAN_ALLREDUCE, 0);
    assert_ok(by_plan_among_ranks(stars, &among));
    check_plan(among);
    assert_ok(by_plan_in_rings(stars, &rings));
    for (uint32_t g = 0; g < plan->classes->n_groups; g++)
      if (by_group_has_server(plan, &plan->classes->groups[g]) && rings->classes->groups[g].n > 1)
        assert_int_equal(rings->classes->groups[g].kind, BY_GROUP_ROTATED);
    check_plan(rings);
    by_plan_destroy(rings);
    by_plan_destroy(among);
    by_plan_destroy(stars);
    by_plan_destroy(plan);
  }
}

enum { MOST_RANKS = 16 };

struct set {
  struct by_schedule *schedules[4 * MOST_RANKS];
  uint32_t n;
};

static void compile_all(struct set *set, const struct by_plan *plan, enum banyan_collective collective, uint32_t root) {
  set->n = by_collective(collective)->helpers ? plan->n_vertices : plan->n_ranks;
  assert_true(set->n <= 4 * MOST_RANKS);
  for (uint32_t rank = 0; rank < set->n; rank++)
    assert_ok(by_schedule_compile(plan, by_plan_class_of(plan, collective, 1), collective, root, rank,
                                  &set->schedules[rank]));
}

static void destroy_all(struct set *set) {
  for (uint32_t rank = 0; rank < set->n; rank++) by_schedule_destroy(set->schedules[rank]);
}

static void expect_right(const struct set *set, const char *name, size_t count, const size_t *counts, uint64_t seed) {
  const char *wrong = world_try(set->schedules, set->n, count, counts, seed);
  if (!wrong) return;
  print_error("%s, %s over %u ranks, count %zu, seed %llu: %s\n", name,
              banyan_collective_name(set->schedules[0]->collective), set->n, count, (unsigned long long)seed, wrong);
  fail();
}

/* Counts are zero, less than a piece each, not divisible or with some alignment, and blocks differ. */
static void run_counts(const struct set *set, const char *name, struct by_rng *rng) {
  uint32_t n = set->n;
  const size_t some[] = {0, 1, n > 1 ? n - 1 : 1, n + 1, 3 * n + 2, 40 * n + 7};
  enum banyan_collective collective = set->schedules[0]->collective;
  bool blocks = set->schedules[0]->block_cut != NULL;
  for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
    expect_right(set, name, blocks ? (some[i] + n - 1) / n : some[i], NULL, by_rng_next(rng));
  if (!blocks || collective == BANYAN_ALLTOALL) return;
  size_t counts[4 * MOST_RANKS];
  for (uint32_t r = 0; r < n; r++) counts[r] = below(rng, 3) ? below(rng, 30) : 0;
  expect_right(set, name, 0, counts, by_rng_next(rng));
}

static void run_plan(const struct by_plan *plan, const char *name, struct by_rng *rng) {
  for (int c = BANYAN_ALLREDUCE; c <= BANYAN_BARRIER; c++) {
    struct set set;
    compile_all(&set, plan, (enum banyan_collective)c, below(rng, plan->n_ranks));
    run_counts(&set, name, rng);
    destroy_all(&set);
  }
}

static void test_families_run(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 3);
  for (int i = 0; i < N_FAMILIES; i++)
    for (uint32_t n = 2; n <= MOST_RANKS; n = n < 9 ? n + 1 : n + 3) {
      struct by_plan *plan;
      assert_ok(by_plan_builtin(families[i], n, &plan));
      run_plan(plan, families[i], &rng);
      by_plan_destroy(plan);
    }
}

static void test_random_plans_run(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 4);
  for (int i = 0; i < 60; i++) {
    struct by_plan *plan = i % 3 ? random_plan(&rng, 1 + below(&rng, 12)) : random_host_plan(&rng, 2 + below(&rng, 4));
    run_plan(plan, "random plan", &rng);
    by_plan_destroy(plan);
  }
}

static void test_helped_plans_run(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 7);
  for (int i = 0; i < (int)check_seeds(100); i++) {
    struct by_plan *plan = random_helped_plan(&rng, 1 + below(&rng, 9), 1 + below(&rng, 4));
    static const enum banyan_collective all[] = {BANYAN_ALLREDUCE, BANYAN_REDUCE, BANYAN_BROADCAST, BANYAN_BARRIER};
    for (int c = 0; c < 4; c++) {
      struct set set;
      compile_all(&set, plan, all[c], below(&rng, plan->n_ranks));
      run_counts(&set, "plan with helpers", &rng);
      destroy_all(&set);
    }
    by_plan_destroy(plan);
  }
}

/* ---- damage ---- */

enum damage {
  LOSE_DEP,     /* A dependency is lost. */
  MOVE_DEP,     /* A dependency moves to another step. */
  LOSE_STEP,    /* A step becomes a copy onto itself. */
  OTHER_PEER,   /* A send gets another peer. */
  SWAP_TAGS,    /* Two sends to one peer swap their tags. */
  OTHER_PIECES, /* One end of a range of pieces is shifted. */
  OTHER_FROM,   /* A step reads another buffer. */
  OTHER_TO,     /* A step writes another buffer. */
  OTHER_OWN,    /* The place of the own operand changes. */
  OTHER_DIVIDE,
  OTHER_COPIED,
  SWAP_LOOKUP,  /* The lookups of two messages from one peer are swapped. */
  SWAP_IN,      /* Two messages are swapped with their steps. */
  OTHER_CUT,    /* The layout gets another cut. */
  OTHER_ORIGIN, /* A buffer gets another origin. */
  DAMAGES
};

static const char *const damage_names[DAMAGES] = {
    "lose dep",  "move dep",     "lose step",    "other peer",  "swap tags", "other pieces", "other from",  "other to",
    "other own", "other divide", "other copied", "swap lookup", "swap in",   "other cut",    "other origin"};

static bool damage_dep(struct by_rng *rng, struct by_schedule *schedule, struct by_step *step, bool lose) {
  uint32_t index = (uint32_t)(step - schedule->steps);
  if (!step->n_dep) return false;
  uint32_t *dep = &schedule->deps[step->dep + below(rng, step->n_dep)];
  if (lose) {
    *dep = schedule->deps[step->dep + --step->n_dep];
    return true;
  }
  uint32_t other = below(rng, index), was = *dep;
  *dep = other;
  /* The other step now lists this one as a successor, so that only the order is wrong. */
  schedule->steps[other].next = schedule->steps[was].next;
  schedule->steps[other].n_next = schedule->steps[was].n_next;
  return other != was;
}

static bool damage_send(struct by_rng *rng, struct by_schedule *schedule, struct by_step *step, enum damage damage) {
  if (step->kind != BY_STEP_SEND) return false;
  if (damage == OTHER_PEER) {
    uint32_t peer = below(rng, schedule->n_peers);
    bool other = peer != step->peer;
    step->peer = peer;
    return other;
  }
  if (damage == OTHER_COPIED) {
    step->copied = !step->copied;
    return true;
  }
  struct by_step *second = &schedule->steps[below(rng, schedule->n_steps)];
  if (second->kind != BY_STEP_SEND || second == step || second->peer != step->peer) return false;
  uint32_t tag = step->tag;
  step->tag = second->tag;
  second->tag = tag;
  return true;
}

static bool damage_buffers(struct by_rng *rng, struct by_step *step, enum damage damage) {
  uint8_t buffer = (uint8_t)below(rng, BY_BUFFERS), *field = damage == OTHER_FROM ? &step->from : &step->to;
  bool used = damage == OTHER_FROM ? step->kind != BY_STEP_RECEIVE : step->kind != BY_STEP_SEND;
  if (!used || buffer == *field) return false;
  *field = buffer;
  return true;
}

static bool damage_sum(struct by_rng *rng, struct by_step *step, enum damage damage) {
  if (damage == OTHER_DIVIDE) {
    if (step->kind != BY_STEP_REDUCE && step->kind != BY_STEP_COPY) return false;
    step->divide = !step->divide;
    return true;
  }
  uint16_t own = (uint16_t)below(rng, step->n_in + 1);
  if (step->kind != BY_STEP_REDUCE || own == step->own) return false;
  step->own = own;
  return true;
}

static bool damage_incoming(struct by_rng *rng, struct by_schedule *schedule, enum damage damage) {
  if (damage == SWAP_LOOKUP) {
    const struct by_peer *peer = schedule->n_peers ? &schedule->peers[below(rng, schedule->n_peers)] : NULL;
    if (!peer || peer->n_in < 2) return false;
    uint32_t *a = &schedule->lookup[peer->first_in], *b = a + 1 + below(rng, peer->n_in - 1), in = *a;
    *a = *b;
    *b = in;
    return true;
  }
  if (schedule->n_incoming < 2) return false;
  uint32_t i = below(rng, schedule->n_incoming), k = below(rng, schedule->n_incoming);
  struct by_incoming *a = &schedule->incoming[i], *b = &schedule->incoming[k];
  if (a == b) return false;
  struct by_incoming was = *a;
  a->peer = b->peer, a->tag = b->tag, b->peer = was.peer, b->tag = was.tag;
  schedule->lookup[schedule->peers[a->peer].first_in + a->tag] = i;
  schedule->lookup[schedule->peers[b->peer].first_in + b->tag] = k;
  return true;
}

static bool damage_layout(struct by_rng *rng, struct by_schedule *schedule, enum damage damage) {
  if (damage == OTHER_ORIGIN) {
    schedule->origin[below(rng, BY_BUFFERS)] += 1;
    return true;
  }
  double *cut = schedule->cut ? schedule->cut : schedule->block_cut;
  uint32_t n = schedule->cut ? schedule->n_pieces : schedule->block[1];
  if (n < 2) return false;
  uint32_t i = 1 + below(rng, n - 1);
  cut[i] = (cut[i] + cut[i - 1]) / 2;
  return true;
}

static bool do_damage(struct by_rng *rng, struct by_schedule *schedule, enum damage damage) {
  if (!schedule->n_steps) return false;
  struct by_step *step = &schedule->steps[below(rng, schedule->n_steps)];
  switch (damage) {
  case LOSE_DEP:
  case MOVE_DEP: return damage_dep(rng, schedule, step, damage == LOSE_DEP);
  case LOSE_STEP:
    if (step->kind == BY_STEP_SEND) step->to = BY_BUFFER_RECV;
    step->kind = BY_STEP_COPY;
    step->from = step->to;
    step->n_in = 0;
    step->divide = 0;
    return true;
  case OTHER_PEER:
  case OTHER_COPIED:
  case SWAP_TAGS: return damage_send(rng, schedule, step, damage);
  case OTHER_PIECES:
    if (below(rng, 2))
      step->first += below(rng, 2) ? 1 : -1u;
    else
      step->last += below(rng, 2) ? 1 : -1u;
    step->from_first = step->first;
    return true;
  case OTHER_FROM:
  case OTHER_TO: return damage_buffers(rng, step, damage);
  case OTHER_OWN:
  case OTHER_DIVIDE: return damage_sum(rng, step, damage);
  case SWAP_LOOKUP:
  case SWAP_IN: return damage_incoming(rng, schedule, damage);
  default: return damage_layout(rng, schedule, damage);
  }
}

struct tally {
  uint32_t done, refused, harmless, missed;
};

static bool runs_right(const struct set *set, struct by_rng *rng) {
  for (int i = 0; i < 30; i++)
    if (world_try(set->schedules, set->n, 1 + below(rng, 60), NULL, by_rng_next(rng))) return false;
  return true;
}

static void try_damage(struct by_rng *rng, const struct by_plan *plan, struct tally *tally) {
  struct set set;
  compile_all(&set, plan, (enum banyan_collective)below(rng, BANYAN_BARRIER), below(rng, plan->n_ranks));
  enum damage damage = (enum damage)below(rng, DAMAGES);
  bool done = false;
  for (int tries = 0; tries < 20 && !done; tries++) done = do_damage(rng, set.schedules[below(rng, set.n)], damage);
  if (done) {
    tally += damage;
    tally->done++;
    if (by_schedule_check_all(set.schedules, set.n) != BANYAN_OK)
      tally->refused++;
    else if (runs_right(&set, rng))
      tally->harmless++;
    else {
      tally->missed++;
      print_error("accepted but wrong: %s, %s\n", damage_names[damage],
                  banyan_collective_name(set.schedules[0]->collective));
    }
  }
  destroy_all(&set);
}

static void test_damage_is_found(void **state) {
  (void)state;
  struct tally tally[DAMAGES] = {{0}}, all = {0};
  struct by_rng rng;
  by_rng_init(&rng, 5);
  for (int i = 0; i < 8000 / (int)check_share(); i++) {
    struct by_plan *plan;
    uint32_t n = 3 + below(&rng, 6);
    if (i % 4 == 0)
      plan = random_plan(&rng, n);
    else
      assert_ok(by_plan_builtin(families[below(&rng, N_FAMILIES)], n, &plan));
    try_damage(&rng, plan, tally);
    by_plan_destroy(plan);
  }
  for (int i = 0; i < DAMAGES; i++) {
    print_message("%-12s %5u: %5u refused, %4u harmless, %u missed\n", damage_names[i], tally[i].done, tally[i].refused,
                  tally[i].harmless, tally[i].missed);
    all.done += tally[i].done;
    all.refused += tally[i].refused;
    all.missed += tally[i].missed;
    assert_true(tally[i].done > 50 / check_share());
  }
  assert_int_equal(all.missed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_families),
      cmocka_unit_test(test_grids),
      cmocka_unit_test(test_large),
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_hosts),
      cmocka_unit_test(test_helpers),
      cmocka_unit_test(test_switches),
      cmocka_unit_test(test_families_run),
      cmocka_unit_test(test_random_plans_run),
      cmocka_unit_test(test_helped_plans_run),
      cmocka_unit_test(test_damage_is_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
