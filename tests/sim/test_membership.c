/* Changes of members with failures at every step; membership_world.h says what is checked all the time.
 * BANYAN_TEST_SEEDS says how many seeds are tried. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "membership_world.h"

enum { FAULTS = 14, MOST = 9, ROOM = 48, FAULT_GAP = 30000, CALM = 400000 };

static struct { uint64_t groups, delivered, ended, extinct, lost, welcomed; } total;

static uint32_t count_up(const struct world *world) {
  uint32_t up = 0;
  for (uint32_t i = 0; i < world->n; i++)
    up += world->processes[i].alive && !world->processes[i].ended && !world->processes[i].newcomer;
  return up;
}

/* The group that goes on; NULL if none does. */
static const struct group *active_group(const struct world *world) {
  for (uint32_t i = 0; i < world->n_groups; i++)
    if (is_active(world, world->groups[i])) return world->groups[i];
  return NULL;
}

/* ---- random faults */

static uint32_t pick_up(struct world *world) {
  uint32_t n = 0, chosen = UINT32_MAX;
  for (uint32_t i = 0; i < world->n; i++)
    if (world->processes[i].alive && !world->processes[i].ended && pick(world, ++n) == 0) chosen = i;
  return chosen;
}

/* Most are started again, as other processes. */
static void kill_one(struct world *world) {
  uint32_t process = pick_up(world);
  if (process == UINT32_MAX) return;
  kill_process(world, process, chance(world, count_up(world) > 4 ? 0.7 : 0.95));
  if (chance(world, 0.8)) add_newcomer(world);
}

/* A random half of all processes, or one of them, is cut off: in both directions, or in one. */
static void divide(struct world *world) {
  uint64_t sides = by_rng_next(&world->rng);
  if (chance(world, 0.4)) sides = 1ull << pick(world, world->n);
  bool both = chance(world, 0.7);
  for (uint32_t i = 0; i < world->n; i++)
    for (uint32_t k = 0; k < world->n; k++)
      if ((sides >> i & 1) && !(sides >> k & 1)) {
        block(world, i, k, true);
        if (both) block(world, k, i, true);
      }
}

static void random_fault(struct world *world) {
  switch (pick(world, 10)) {
  case 0: kill_one(world); break;
  case 1:
    kill_one(world);
    kill_one(world);
    break;
  case 2:
  case 3: /* in the midst of what it sends next */
    world->crash_at = world->sends + 1 + pick(world, 60);
    kill_one(world);
    break;
  case 4:
    if (chance(world, 0.5)) divide(world);
    break;
  case 5: heal(world); break;
  case 6: {
    uint32_t newcomer = add_newcomer(world);
    if (newcomer != UINT32_MAX && chance(world, 0.3)) {
      world->crash_at = world->sends + 1 + pick(world, 40);
      add_newcomer(world);
    }
    break;
  }
  case 7: add_newcomer(world); break;
  case 8: {
    uint32_t process = pick_up(world);
    if (process != UINT32_MAX && chance(world, 0.3)) leave(world, process);
    break;
  }
  default: { /* A newcomer that dies soon. */
    uint32_t newcomer = add_newcomer(world);
    if (newcomer != UINT32_MAX) kill_process(world, newcomer, chance(world, 0.5));
    break;
  }
  }
  /* At times the next fault comes in the midst of the change. */
  uint32_t *left = world->context;
  if (--*left) add_fault(world, by_rng_unit(&world->rng) * (chance(world, 0.7) ? FAULT_GAP : 2000));
}

static void run_seed(uint64_t seed, enum by_quorum_rule rule) {
  uint32_t faults = FAULTS;
  struct by_rng rng;
  by_rng_init(&rng, seed ^ 0x9e3779b97f4a7c15);
  struct world *world = make_world(seed, 1 + (uint32_t)by_rng_below(&rng, seed % 3 ? MOST : 4), ROOM, rule);
  world->loss = by_rng_below(&rng, 3) ? 0 : 0.1;
  world->twice = by_rng_below(&rng, 3) ? 0 : 0.1;
  world->slow = by_rng_below(&rng, 2) ? 0 : 0.1;
  world->cut_decider = by_rng_below(&rng, 3) ? 0 : 0.2;
  world->fault = random_fault;
  world->context = &faults;
  add_fault(world, 100);
  while (faults) run_world(world, world->now + 1000);
  world->loss = world->twice = world->slow = world->cut_decider = 0;
  world->crash_at = 0;
  run_world(world, world->now + 2000);
  heal(world);
  run_world(world, world->now + CALM);
  bool calm = is_calm(world);
  total.groups += world->formed;
  total.delivered += world->delivered;
  total.ended += world->ended;
  total.welcomed += world->welcomed;
  total.extinct += world->extinct;
  total.lost += !active_group(world);
  free_world(world);
  assert_true(calm);
}

static void test_faults(void **state) {
  (void)state;
  uint64_t first = check_first_seed(), n = check_seeds(600);
  memset(&total, 0, sizeof total);
  for (uint64_t seed = first; seed < first + n; seed++)
    run_seed(seed, seed % 5 ? BY_QUORUM_SURVIVORS : seed % 10 ? BY_QUORUM_MAJORITY : BY_QUORUM_NONE);
  print_message("%llu seeds: %llu groups, %llu messages, %llu newcomers, %llu processes ended with a text, %llu jobs "
                "ended\n",
                (unsigned long long)n, (unsigned long long)total.groups, (unsigned long long)total.delivered,
                (unsigned long long)total.welcomed, (unsigned long long)total.ended, (unsigned long long)total.lost);
  assert_true(total.groups > 2 * n && total.welcomed > n / 2 && total.ended > n / 2 && total.lost < n);
}

/* ---- contention */

/* Some member starts to suspect another one, or learns that it is dead. */
static void disturb(struct world *world) {
  uint32_t process = pick_up(world), other = pick(world, world->n);
  struct machine *machine = process == UINT32_MAX ? NULL : newest(world, process);
  if (machine && by_paxos_state(machine->paxos) >= BY_PAXOS_CLOSED) machine = NULL;
  uint32_t rank = machine ? by_membership_find(machine->group->membership, &world->processes[other].fingerprint) : 0;
  if (!machine || other == process || rank >= machine->group->membership->n) return;
  if (!world->processes[other].alive && world->processes[other].proven)
    assert_ok(by_paxos_dead(machine->paxos, rank));
  else
    assert_ok(by_paxos_suspect(machine->paxos, rank));
  assert_ok(by_paxos_request(machine->paxos));
}

static void contend(struct world *world) {
  uint32_t *left = world->context, from = pick(world, world->n), to = pick(world, world->n);
  switch (pick(world, 12)) {
  case 0: {
    uint32_t process = pick_up(world);
    if (process != UINT32_MAX) kill_process(world, process, chance(world, 0.9));
    break;
  }
  case 1:
    if (world->n < 8) add_newcomer(world);
    break;
  case 2:
  case 3: block(world, from, to, chance(world, 0.4)); break;
  case 4: world->crash_at = world->sends + 1 + pick(world, 30); break;
  case 5: heal(world); break;
  default: disturb(world); break;
  }
  if (--*left) add_fault(world, 600 * by_rng_unit(&world->rng));
}

/* Few members, of which several propose at once: messages take longer than timers, overtake each other and arrive after
 * their sender's death is proven, and members suspect each other without a reason. */
static void test_contention(void **state) {
  (void)state;
  uint64_t first = check_first_seed(), n = check_seeds(600), decisions = 0;
  for (uint64_t seed = first; seed < first + n; seed++) {
    uint32_t faults = 50;
    struct world *world =
        make_world(seed, 2 + (uint32_t)(seed % 4), 24, seed % 4 ? BY_QUORUM_SURVIVORS : BY_QUORUM_MAJORITY);
    world->loss = seed % 3 ? 0 : 0.2;
    world->slow = 0.3 + 0.3 * (double)(seed % 3);
    world->twice = 0.1;
    world->crash_proven = 0.9;
    world->cut_decider = 0.5;
    world->fault = contend;
    world->context = &faults;
    add_fault(world, 10);
    while (faults) run_world(world, world->now + 1000);
    heal(world);
    world->crash_at = 0;
    world->loss = world->slow = world->cut_decider = 0;
    run_world(world, world->now + CALM);
    assert_true(is_calm(world));
    decisions += world->decisions;
    free_world(world);
  }
  assert_true(decisions > n);
}

/* ---- progress */

/* Kills some members of the group that goes on, fewer than half of them, some in the midst of a message. */
static void kill_minority(struct world *world, const struct group *group) {
  uint32_t n = group->membership->n, most = (n - 1) / 2;
  if (!most) return;
  uint32_t kills = 1 + pick(world, most);
  bool proven = chance(world, 0.5);
  for (uint32_t i = 0; i < kills; i++) {
    uint32_t process = group->processes[pick(world, n)];
    if (i == 0 && chance(world, 0.4)) {
      world->crash_at = world->sends + 1 + pick(world, 80);
      world->crash_proven = proven;
    } else {
      kill_process(world, process, proven);
    }
  }
}

/* As long as a majority of each membership lives and its messages arrive in the end, the job goes on with all of them,
 * whoever dies and whatever newcomers do. A launcher proves deaths later. */
static void test_progress(void **state) {
  (void)state;
  uint64_t first = check_first_seed(), n = check_seeds(150);
  for (uint64_t seed = first; seed < first + n; seed++) {
    struct world *world =
        make_world(seed, 3 + (uint32_t)(seed % 7), 64, seed % 3 ? BY_QUORUM_SURVIVORS : BY_QUORUM_MAJORITY);
    world->loss = seed % 4 ? 0 : 0.1;
    world->slow = seed % 5 ? 0 : 0.05;
    for (int k = 0; k < 8; k++) {
      const struct group *group = active_group(world);
      assert_non_null(group);
      for (uint32_t i = pick(world, 3); i-- > 0;) add_newcomer(world);
      uint32_t newcomer = chance(world, 0.3) ? add_newcomer(world) : UINT32_MAX; /* which is to die */
      if (chance(world, 0.5)) run_world(world, world->now + 3000 * by_rng_unit(&world->rng));
      group = active_group(world);
      if (group && newcomer == UINT32_MAX) kill_minority(world, group);
      run_world(world, world->now + 2000 * by_rng_unit(&world->rng));
      if (newcomer != UINT32_MAX) kill_process(world, newcomer, chance(world, 0.5));
      run_world(world, world->now + 200000);
      world->crash_at = 0;
      for (uint32_t i = 0; i < world->n; i++) world->processes[i].proven = true;
      run_world(world, world->now + 60000);
      assert_true(is_calm(world));
      if (!active_group(world)) print_error("seed %llu: nobody goes on after fault %d\n", (unsigned long long)seed, k);
      assert_non_null(active_group(world));
    }
    free_world(world);
  }
}

/* ---- partitions */

/* Cuts members `from` .. n - 1 of a first membership off the others, and heals the network when all is over. */
static struct world *cut_off(uint64_t seed, uint32_t n, uint32_t from, bool both, enum by_quorum_rule rule) {
  struct world *world = make_world(seed, n, 64, rule);
  for (uint32_t i = from; i < n; i++)
    for (uint32_t k = 0; k < from; k++) {
      block(world, i, k, true);
      if (both) block(world, k, i, true);
    }
  run_world(world, CALM);
  heal(world);
  run_world(world, 2 * CALM);
  assert_true(is_calm(world));
  return world;
}

static void expect_going_on(const struct world *world, uint32_t first, uint32_t last, uint32_t n) {
  const struct group *group = active_group(world);
  assert_non_null(group);
  assert_int_equal(group->membership->n, last - first);
  for (uint32_t i = 0; i < last - first; i++) assert_int_equal(group->processes[i], first + i);
  for (uint32_t i = 0; i < n; i++) assert_int_equal(world->processes[i].ended, i < first || i >= last);
}

static void check_partitions(uint64_t seed) {
  for (int both = 0; both < 2; both++)
    for (int rule = BY_QUORUM_MAJORITY; rule <= BY_QUORUM_SURVIVORS; rule++) {
      static const struct {
        uint32_t n, from, first, last;
      } cases[] = {{4, 3, 0, 3}, {4, 1, 1, 4}, {4, 2, 0, 2}, {2, 1, 0, 1}, {5, 2, 2, 5}};
      for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = cut_off(seed, cases[i].n, cases[i].from, both, (enum by_quorum_rule)rule);
        expect_going_on(world, cases[i].first, cases[i].last, cases[i].n);
        free_world(world);
      }
    }
}

/* Those that are cut off, and propose in vain, seldom keep the others from a decision, though these hear them: with two
 * of five, in 4 of 200 seeds. */
static void test_partitions(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= check_seeds(20); seed++) check_partitions(seed);
}

/* A lost request is sent again as soon as its receiver can be reached, before any timer. */
static void test_remind(void **state) {
  (void)state;
  struct world *world = make_world(7, 5, 64, BY_QUORUM_SURVIVORS);
  struct by_paxos *proposer = newest(world, 0)->paxos, *unaware = newest(world, 4)->paxos;
  block(world, 0, 4, true);
  assert_ok(by_paxos_request(proposer));
  run_world(world, world->now + 100);
  assert_int_equal(by_paxos_state(proposer), BY_PAXOS_PREPARING);
  assert_int_equal(by_paxos_state(unaware), BY_PAXOS_QUIET);
  block(world, 0, 4, false);
  assert_ok(by_paxos_remind(proposer, 4));
  run_world(world, world->now + 150);
  assert_int_equal(by_paxos_state(proposer), BY_PAXOS_CLOSED);
  assert_int_equal(by_paxos_state(unaware), BY_PAXOS_CLOSED);
  assert_int_equal(newest(world, 4)->group->membership->n, 5);
  free_world(world);
}

/* A proposer that has not noticed yet what the others have does not wait for members that these suspect. */
static void test_late_proposer(void **state) {
  (void)state;
  struct world *world = make_world(7, 5, 64, BY_QUORUM_SURVIVORS);
  struct by_paxos *proposer = newest(world, 0)->paxos;
  kill_process(world, 4, false);
  for (uint32_t i = 1; i < 4; i++) assert_ok(by_paxos_suspect(newest(world, i)->paxos, 4));
  assert_ok(by_paxos_request(newest(world, 1)->paxos));
  run_world(world, world->now + 250);
  assert_int_equal(by_paxos_state(proposer), BY_PAXOS_CLOSED);
  assert_int_equal(newest(world, 0)->group->membership->n, 4);
  free_world(world);
}

/* What was waited for is asked for again in the same way. */
static void test_remind_coordinator(void **state) {
  (void)state;
  struct world *world = make_world(7, 5, 64, BY_QUORUM_SURVIVORS);
  struct by_paxos *waits = newest(world, 4)->paxos;
  block(world, 4, 0, true);
  assert_ok(by_paxos_request(waits));
  run_world(world, world->now + 100);
  assert_int_equal(by_paxos_state(newest(world, 0)->paxos), BY_PAXOS_QUIET);
  block(world, 4, 0, false);
  assert_ok(by_paxos_remind(waits, 0));
  run_world(world, world->now + 150);
  assert_int_equal(by_paxos_state(waits), BY_PAXOS_CLOSED);
  free_world(world);
}

/* Without a rule, both sides go on, under different numbers. */
static void test_no_rule(void **state) {
  (void)state;
  struct world *world = cut_off(7, 4, 2, true, BY_QUORUM_NONE);
  uint32_t active = 0;
  for (uint32_t i = 0; i < world->n_groups; i++) active += is_active(world, world->groups[i]);
  assert_int_equal(active, 2);
  free_world(world);
}

/* Whoever is left goes on once all others are proven dead, also without rank 0 and whatever their number, and by
 * majority only does not. Without proof nobody does. */
static void test_proof(void **state) {
  (void)state;
  for (int proven = 0; proven < 2; proven++)
    for (int rule = BY_QUORUM_MAJORITY; rule <= BY_QUORUM_SURVIVORS; rule++) {
      struct world *world = make_world(8, 6, 16, (enum by_quorum_rule)rule);
      for (uint32_t i = 0; i < 5; i++) kill_process(world, i, proven);
      run_world(world, CALM);
      assert_true(is_calm(world));
      assert_int_equal(world->processes[5].ended, !(proven && rule == BY_QUORUM_SURVIVORS));
      free_world(world);
    }
}

/* A majority goes on and lets newcomers in, while one member is cut off; then the majority dies, which is proven. The
 * member that was cut off and the newcomers must not both go on. */
static void test_cut_off_survivor(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= check_seeds(40); seed++) {
    struct world *world = make_world(seed, 3, 16, BY_QUORUM_SURVIVORS);
    bool third_dies = seed % 2;
    for (uint32_t i = 0; i < 16; i++)
      if (i != 2)
        for (int both = 0; both < 2; both++) block(world, both ? 2 : i, both ? i : 2, true);
    run_world(world, 8000);
    uint32_t newcomers[2] = {add_newcomer(world), add_newcomer(world)};
    run_world(world, 20000);
    const struct group *group = active_group(world);
    assert_true(group && group->membership->n == 4);
    for (uint32_t i = 0; i < 2; i++) kill_process(world, i, true);
    if (third_dies) kill_process(world, 2, true);
    run_world(world, CALM);
    assert_true(is_calm(world));
    /* Newcomers may go on only where it was known before that the third member is dead. */
    for (int i = 0; i < 2; i++) assert_true(world->processes[newcomers[i]].ended);
    assert_true(world->processes[2].ended || third_dies || active_group(world)->processes[0] == 2);
    free_world(world);
  }
}

/* Of a hundred seeds one shows it. */
enum { LATE_MOST = 5000 };

/* A majority decides and dies at once, which is proven, while its last messages are on their way. Those that are left
 * must not follow them once they have begun to decide by themselves. */
static void test_late_messages(void **state) {
  (void)state;
  uint64_t first = check_first_seed(), least = check_seeds(600), n, extinct = 0;
  for (n = 0; n < least || (!extinct && n < LATE_MOST); n++) {
    struct world *world = make_world(first + n, 5, 8, BY_QUORUM_SURVIVORS);
    world->slow = 0.8;
    world->last_to_die = 2;
    leave(world, 0); /* starts a change */
    add_newcomer(world);
    run_world(world, CALM);
    assert_true(is_calm(world));
    extinct += world->extinct;
    free_world(world);
  }
  print_message("%llu of %llu decided otherwise\n", (unsigned long long)extinct, (unsigned long long)n);
  assert_true(extinct > 0); /* or the two that are left never decided anything else */
}

/* ---- many members */

enum { MANY = 10000 };

static void test_many(void **state) {
  (void)state;
  struct world *world = make_world(1, MANY, MANY + 8, BY_QUORUM_SURVIVORS);
  uint64_t sends = world->sends;
  kill_process(world, 17, true);
  kill_process(world, 4711, false);
  run_world(world, 1); /* this is the world that callbacks are of */
  for (uint32_t i = 0; i < MANY; i++) {
    if (i == 17 || i == 4711) continue;
    struct machine *machine = newest(world, i);
    assert_ok(by_paxos_dead(machine->paxos, 17));
    assert_ok(by_paxos_suspect(machine->paxos, 4711));
    assert_ok(by_paxos_request(machine->paxos));
  }
  run_world(world, 10000);
  assert_int_equal(world->n_groups, 2);
  const struct group *group = newest(world, 0)->group;
  assert_int_equal(group->membership->n, MANY - 2);
  assert_int_equal(group->membership->n_excluded, 1);
  for (uint32_t i = 0; i < MANY; i++)
    if (i != 17 && i != 4711) assert_ptr_equal(newest(world, i)->group, group);
  /* A report, and a request and an answer for each of two phases, and the decision: six for each member. */
  assert_in_range(world->sends - sends, 1, 6 * MANY);
  free_world(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_faults),
      cmocka_unit_test(test_contention),
      cmocka_unit_test(test_progress),
      cmocka_unit_test(test_partitions),
      cmocka_unit_test(test_no_rule),
      cmocka_unit_test(test_proof),
      cmocka_unit_test(test_cut_off_survivor),
      cmocka_unit_test(test_late_messages),
      cmocka_unit_test(test_many),
      cmocka_unit_test(test_remind),
      cmocka_unit_test(test_late_proposer),
      cmocka_unit_test(test_remind_coordinator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
