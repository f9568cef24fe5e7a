/* Plans that are predicted to be nearly as fast as the chosen one, and how the times of a few calls decide between
 * them. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "plan_make.h"
#include "rng.h"
#include "topology_synth.h"
#include "trial.h"

enum { KIB = 1 << 10, MIB = 1 << 20, CALLS = BY_TRIAL_SKIPPED + BY_TRIAL_CALLS };

/* ---- rivals */

static void plan(const char *topology, struct by_planned *planned) {
  struct by_topology *t;
  struct by_planner_options options = by_planner_defaults();
  assert_ok(by_topology_named(topology, &t));
  assert_ok(by_planner_run("chosen", t, &options, planned));
  by_control_fini(&planned->control); /* which borrows the topology */
  by_topology_destroy(t);
}

static double predict(const struct by_planned *planned, const char *what, uint32_t size) {
  for (uint32_t i = 0; i < planned->weighed.n; i++)
    if (!strcmp(planned->weighed.candidates[i].what, what)) return planned->weighed.candidates[i].seconds[size];
  return INFINITY;
}

static void check_ranges(const struct by_planned *planned, const struct by_alternatives *rivals, double within) {
  uint64_t above = 0;
  for (uint32_t i = 0; i < rivals->n_ranges; i++) {
    const struct by_alternative_range *range = &rivals->ranges[i];
    assert_true(range->above == above && range->up_to > above);
    above = range->up_to;
    for (uint32_t s = 0; s < BY_WEIGH_SIZES; s++) {
      uint64_t bytes = planned->weighed.sizes[s];
      if (bytes <= range->above || bytes > range->up_to) continue;
      double best = predict(planned, range->what[0], s);
      for (uint32_t k = 1; k <= range->n; k++)
        assert_true(predict(planned, range->what[k], s) <= within * best * (1 + 1e-9));
    }
  }
  assert_true(above == UINT64_MAX);
}

/* Of every pair of plans: they differ in some class, have the same control tree and classes of collectives' own. */
static void check_plans(const struct by_alternatives *rivals) {
  for (uint32_t k = 0; k < rivals->n_plans; k++) {
    const struct by_plan *plan = rivals->plans[k], *first = rivals->plans[0];
    assert_ok(by_plan_validate(plan));
    assert_string_equal(plan->name, first->name);
    assert_int_equal(plan->n_own, first->n_own);
    assert_true(!plan->control.parent == !first->control.parent);
    assert_true(plan->facts.throughput > 0 && plan->facts.throughput <= plan->facts.bound);
    for (uint32_t j = 0; j < k; j++) assert_true(plan->version != rivals->plans[j]->version);
  }
}

/* Joined from the same parts it is the same plan; from two, each range goes the way of its own. */
static void check_joins(const struct by_alternatives *rivals) {
  uint32_t choices[BY_WEIGH_SIZES] = {0};
  struct by_plan *joined;
  for (uint32_t k = 0; k < rivals->n_plans; k++) {
    for (uint32_t i = 0; i < rivals->n_ranges; i++) choices[i] = k;
    assert_ok(by_alternatives_join(rivals, choices, &joined));
    assert_int_equal(joined->version, rivals->plans[k]->version);
    by_plan_destroy(joined);
  }
  for (uint32_t i = 0; i < rivals->n_ranges; i++) choices[i] = i % rivals->n_plans;
  assert_ok(by_alternatives_join(rivals, choices, &joined));
  assert_ok(by_plan_validate(joined));
  for (uint32_t i = 0; i < rivals->n_ranges; i++) {
    const struct by_class *is = by_plan_class(joined, rivals->ranges[i].up_to);
    const struct by_class *want = by_plan_class(rivals->plans[choices[i]], rivals->ranges[i].up_to);
    assert_int_equal(is->n_groups, want->n_groups);
    for (uint32_t g = 0; g < is->n_groups; g++) {
      assert_int_equal(is->groups[g].kind, want->groups[g].kind);
      assert_float_equal(is->groups[g].share, want->groups[g].share, 1e-9);
    }
  }
  by_plan_destroy(joined);
}

static void test_rivals(void **state) {
  static const char *const topologies[] = {"star:4,nic=100m", "mesh:4,link=100m", "star:8,nic=1g", "ring:5,link=50m"};
  uint32_t most = 0;
  (void)state;
  for (size_t i = 0; i < sizeof topologies / sizeof *topologies; i++) {
    struct by_planned planned;
    struct by_alternatives rivals;
    plan(topologies[i], &planned);
    assert_ok(by_alternatives_find(&planned, 1.2, &rivals));
    assert_int_equal(rivals.plans[0]->version, planned.plan->version);
    assert_float_equal(rivals.max_rate, planned.plan->facts.bound, 0);
    check_ranges(&planned, &rivals, 1.2);
    check_plans(&rivals);
    check_joins(&rivals);
    if (rivals.n_plans > most) most = rivals.n_plans;
    by_alternatives_fini(&rivals);
    by_planned_fini(&planned);
  }
  assert_true(most > 1);
}

/* ---- trials */

/* A call without others. */
static struct by_call_bytes one(uint64_t bytes) {
  return (struct by_call_bytes){bytes, bytes};
}

/* Two ranges: up to 64 KiB there is one rival, beyond there are two. */
static struct by_trial begin(void) {
  struct by_alternatives rivals = {.n_plans = 3, .n_ranges = 2};
  struct by_trial trial;
  rivals.ranges[0] = (struct by_alternative_range){.up_to = 64 * KIB, .n = 1};
  rivals.ranges[1] = (struct by_alternative_range){.above = 64 * KIB, .up_to = UINT64_MAX, .n = 2};
  by_trial_init(&trial, &rivals);
  return trial;
}

/* Makes calls of a size, which take so many seconds by each plan, until a phase is over, and returns how many. 0: none
 * does. */
static uint32_t call_long(struct by_trial *trial, uint64_t bytes, const double seconds[BY_ALTERNATIVE_PLANS]) {
  for (uint32_t n = 1; n <= 4 * BY_TRIAL_WAITS; n++) {
    by_trial_add(trial, one(bytes), seconds[by_trial_plan(trial)]);
    if (by_trial_step(trial, n)) return n;
  }
  return 0;
}

/* So many milliseconds. */
static uint32_t call(struct by_trial *trial, uint64_t bytes, const double ms[BY_ALTERNATIVE_PLANS]) {
  double seconds[BY_ALTERNATIVE_PLANS];
  for (int k = 0; k < BY_ALTERNATIVE_PLANS; k++) seconds[k] = ms[k] * 1e-3;
  return call_long(trial, bytes, seconds);
}

/* The faster rival is chosen for the sizes that it was tried with, after the first plan was tried again. */
static void test_faster(void **state) {
  static const double ms[] = {1, 0.96, 0.9};
  struct by_trial t = begin();
  (void)state;
  assert_int_equal(call(&t, MIB, ms), CALLS);
  assert_int_equal(by_trial_plan(&t), 1);
  assert_int_equal(call(&t, MIB, ms), CALLS);
  assert_true(t.phase == BY_TRIAL_AGAIN && by_trial_plan(&t) == 0);
  assert_int_equal(call(&t, MIB, ms), CALLS);
  assert_int_equal(by_trial_plan(&t), 2);
  assert_int_equal(call(&t, MIB, ms), CALLS);
  assert_true(call(&t, MIB, ms) <= CALLS); /* here a few calls may tell it */
  assert_int_equal(t.phase, BY_TRIAL_OVER);
  assert_int_equal(t.ranges[0].choice, 0);
  assert_int_equal(t.ranges[1].choice, 2);
  assert_float_equal(t.ranges[1].ratio, 0.9, 1e-9);
  assert_false(by_trial_step(&t, 1000));
}

/* What is as fast, or faster by less than times sway, does not replace the first plan. */
static void test_as_fast(void **state) {
  static const double ms[] = {1, 0.98, 1.02};
  struct by_trial t = begin();
  (void)state;
  for (int i = 0; i < 3; i++) assert_int_equal(call(&t, MIB, ms), CALLS);
  assert_true(t.phase == BY_TRIAL_OVER && !t.ranges[1].choice);
  assert_int_equal(by_trial_judge(&t), BY_TRIAL_NO_BETTER);
}

/* A plan that is much slower has two calls that count. */
static void test_much_slower(void **state) {
  static const double ms[] = {1, 4, 1.6};
  struct by_trial t = begin();
  (void)state;
  assert_int_equal(call(&t, MIB, ms), CALLS);
  assert_int_equal(call(&t, MIB, ms), BY_TRIAL_SKIPPED + 2);
  assert_int_equal(by_trial_plan(&t), 2);
  assert_int_equal(call(&t, MIB, ms), BY_TRIAL_SKIPPED + 2);
  assert_true(t.phase == BY_TRIAL_OVER && !t.ranges[1].choice);
  assert_int_equal(by_trial_judge(&t), BY_TRIAL_BETTER);
}

/* The network has become faster by itself, for all plans. */
static void test_drift(void **state) {
  static const double before[] = {1, 1, 1}, after[] = {0.5, 0.5, 0.5};
  struct by_trial t = begin();
  (void)state;
  (void)call(&t, MIB, before);
  (void)call(&t, MIB, after);
  assert_int_equal(t.phase, BY_TRIAL_AGAIN);
  (void)call(&t, MIB, after);
  assert_int_equal(by_trial_plan(&t), 2);
  assert_int_equal(t.ranges[1].choice, 0);
}

/* Calls of several sizes are timed at the same time; rare ones are not waited for; each range has its own choice. */
static void test_sizes(void **state) {
  struct by_trial t = begin();
  uint32_t phases = 0, calls = 0;
  (void)state;
  for (uint32_t n = 0; t.phase != BY_TRIAL_OVER && n < 1000; n++) {
    uint32_t p = by_trial_plan(&t);
    by_trial_add(&t, one(KIB), p == 1 ? 8e-4 : 1e-3);
    by_trial_add(&t, one(MIB), p == 1 ? 1.1e-2 : 1e-2);
    if (n % 50 == 0) by_trial_add(&t, one(3 * MIB), 3e-2);
    calls += 2;
    bool over = by_trial_step(&t, calls);
    phases += over;
    if (over) calls = 0;
  }
  assert_int_equal(t.phase, BY_TRIAL_OVER);
  assert_int_equal(t.ranges[0].choice, 1);
  assert_int_equal(t.ranges[1].choice, 0);
  assert_int_equal(phases, 4);
}

/* Where no calls can be timed, the first plan stays, and no rival is ever in use. */
static void test_untimed(void **state) {
  struct by_trial t = begin();
  (void)state;
  for (uint32_t n = 1; n <= BY_TRIAL_WAITS; n++) assert_false(by_trial_step(&t, n));
  assert_true(by_trial_step(&t, BY_TRIAL_WAITS + 1));
  assert_int_equal(t.phase, BY_TRIAL_OVER);
  assert_int_equal(by_trial_judge(&t), BY_TRIAL_UNKNOWN);
}

/* A plan that made calls faster is not compared with the one before; one that did not is. */
static void test_before(void **state) {
  static const double ms[] = {1, 0.5, 0.5}, slow[] = {2, 1, 1};
  struct by_trial t = begin();
  (void)state;
  by_trial_set_before(&t, one(MIB), 1.7e-3);
  assert_int_equal(call(&t, MIB, ms), CALLS);
  assert_int_equal(t.phase, BY_TRIAL_OVER);
  assert_int_equal(by_trial_judge(&t), BY_TRIAL_BETTER);
  t = begin();
  by_trial_set_before(&t, one(MIB), 1e-3);
  assert_int_equal(call(&t, MIB, slow), BY_TRIAL_SKIPPED + BY_TRIAL_LEAST); /* clearly slower */
  assert_int_equal(by_trial_plan(&t), 1);
  assert_int_equal(call(&t, MIB, slow), CALLS);
  assert_int_equal(call(&t, MIB, slow), BY_TRIAL_SKIPPED + BY_TRIAL_LEAST);
  assert_int_equal(t.ranges[1].choice, 1);
}

/* In doubt the rival is used, without another look at the first plan; but not where it is slower. */
static void test_doubt(void **state) {
  static const double ms[][BY_ALTERNATIVE_PLANS] = {{1, 1, 1}, {1, 0.7, 1}, {1, 1.1, 1}, {1, 9, 1}};
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct by_trial t = begin();
    t.n_plans = 2;
    by_trial_doubt(&t);
    by_trial_set_before(&t, one(MIB), 1e-3);
    assert_int_equal(call(&t, MIB, ms[i]), CALLS);
    (void)call(&t, MIB, ms[i]);
    assert_int_equal(t.phase, BY_TRIAL_OVER);
    assert_int_equal(t.ranges[1].choice, i < 2);
    assert_int_equal(by_trial_judge(&t), i < 2 ? BY_TRIAL_NO_BETTER : BY_TRIAL_BETTER);
  }
}

/* Of long calls few that agree are enough, and of a rival that is faster in none. */
static void test_long(void **state) {
  static const double seconds[] = {0.7, 0.74, 0.6}, slower[] = {0.75, 0.8, 0.71};
  enum { FEW = 1 + BY_TRIAL_LEAST };
  struct by_trial t = begin();
  (void)state;
  for (int i = 0; i < 3; i++) assert_int_equal(call_long(&t, MIB, seconds), FEW); /* the last one is faster, */
  assert_int_equal(t.phase, BY_TRIAL_AGAIN);
  assert_int_equal(call_long(&t, MIB, seconds), FEW); /* and stays so */
  assert_true(t.phase == BY_TRIAL_OVER && t.ranges[1].choice == 2);
  t = begin();
  t.n_plans = 2;
  for (int i = 0; i < BY_TRIAL_CALLS + 1; i++) { /* these do not agree, and all are waited for */
    assert_int_equal(t.phase, BY_TRIAL_FIRST);
    by_trial_add(&t, one(MIB), i % 2 ? 0.7 : 0.8);
    (void)by_trial_step(&t, 1 + (uint64_t)i);
  }
  assert_int_equal(t.phase, BY_TRIAL_RIVAL);
  by_trial_add(&t, one(MIB), 0.75);
  for (int i = 0; i < BY_TRIAL_LEAST; i++) {
    assert_false(by_trial_step(&t, 1 + (uint64_t)i));
    by_trial_add(&t, one(MIB), slower[i]);
  }
  assert_true(by_trial_step(&t, FEW));
  assert_true(t.phase == BY_TRIAL_OVER && !t.ranges[1].choice);
}

/* Where the network's bound allows no less, no rival is tried, and none for what it is predicted to lose in long calls.
 * Calls of other sizes are made by the rival, these by the first plan. */
static void test_cannot_win(void **state) {
  static const double seconds[] = {0.7, 0.6, 0.5}, ms[] = {1, 0.9, 0.8};
  struct by_trial t = begin();
  (void)state;
  t.rate = MIB / 0.69;
  (void)call_long(&t, MIB, seconds);
  assert_true(t.phase == BY_TRIAL_OVER && !t.ranges[1].choice);
  assert_int_equal(by_trial_judge(&t), BY_TRIAL_UNKNOWN);
  t = begin();
  t.rate = MIB / 0.67;
  t.ranges[1].slower[1] = 1.05;
  t.ranges[1].slower[2] = 1.01;
  (void)call_long(&t, MIB, seconds);
  assert_int_equal(by_trial_plan(&t), 2);
  assert_true(by_trial_tries(&t, 1) && !by_trial_tries(&t, 0));
  t = begin();
  t.ranges[1].slower[1] = 1.05;
  (void)call(&t, MIB, ms); /* short ones are tried nevertheless */
  assert_int_equal(by_trial_plan(&t), 1);
}

/* What a rival is not tried with does not decide, however long it takes. */
static void test_one_range(void **state) {
  struct by_trial t = begin();
  (void)state;
  t.ranges[1].slower[1] = t.ranges[1].slower[2] = 1.05;
  for (uint32_t n = 1; t.phase != BY_TRIAL_OVER; n++) {
    by_trial_add(&t, one(KIB), by_trial_plan(&t) == 1 ? 8e-4 : 1e-3);
    by_trial_add(&t, one(MIB), by_trial_plan(&t) == 1 ? 0.5 : 0.7);
    assert_false(by_trial_tries(&t, 1));
    assert_true(by_trial_plan(&t) != 2 && n < 100);
    (void)by_trial_step(&t, 2);
  }
  assert_true(t.ranges[0].choice == 1 && !t.ranges[1].choice);
}

/* Several calls at the same time are one of their own, which belongs to the range of the largest: of sixteen of 32 KiB
 * the first range decides, although they have 512 KiB in all, and the bound is that of all their bytes. */
static void test_at_once(void **state) {
  static const struct by_call_bytes bytes = {16 * 32 * KIB, 32 * KIB};
  struct by_trial t = begin();
  (void)state;
  for (uint32_t n = 1; t.phase != BY_TRIAL_OVER; n++) {
    assert_true(n < 100);
    by_trial_add(&t, bytes, by_trial_plan(&t) == 1 ? 8e-3 : 1e-2);
    if (n % 2) by_trial_add(&t, one(bytes.all), 9e-3); /* is another size */
    (void)by_trial_step(&t, 2);
  }
  assert_true(t.ranges[0].choice == 1 && !t.ranges[1].choice);
  t = begin();
  t.rate = (double)bytes.all / 9.9e-3;
  for (uint32_t n = 1; n <= CALLS; n++) by_trial_add(&t, bytes, 1e-2);
  assert_true(by_trial_step(&t, CALLS) && t.phase == BY_TRIAL_OVER);
}

/* However calls go, a trial ends, and its calls by other plans are bounded. */
static void test_bounded(void **state) {
  struct by_rng rng;
  (void)state;
  by_rng_init(&rng, 5);
  for (int round = 0; round < 200; round++) {
    struct by_trial t = begin();
    uint64_t calls = 0, all = 0, by_alternatives = 0;
    uint32_t sizes = 1 + by_rng_below(&rng, 2 * BY_TRIAL_SIZES);
    double timed = by_rng_unit(&rng);
    while (t.phase != BY_TRIAL_OVER) {
      calls++;
      all++;
      by_alternatives += by_trial_plan(&t) > 0;
      uint64_t bytes = KIB * (1 + by_rng_below(&rng, sizes));
      if (by_rng_unit(&rng) < timed) by_trial_add(&t, one(bytes), (1 + by_rng_unit(&rng)) * (round % 2 ? 0.2 : 1e-3));
      if (by_trial_step(&t, calls)) calls = 0;
      assert_true(all <= BY_TRIAL_WAITS + 4 * (BY_TRIAL_MOST + 1) + 1);
    }
    assert_true(by_alternatives <= BY_ALTERNATIVES_MAX * (BY_TRIAL_MOST + 1));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rivals),      cmocka_unit_test(test_faster),     cmocka_unit_test(test_as_fast),
      cmocka_unit_test(test_much_slower), cmocka_unit_test(test_drift),      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_untimed),     cmocka_unit_test(test_doubt),      cmocka_unit_test(test_before),
      cmocka_unit_test(test_long),        cmocka_unit_test(test_cannot_win), cmocka_unit_test(test_one_range),
      cmocka_unit_test(test_at_once),     cmocka_unit_test(test_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
