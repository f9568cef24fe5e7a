/* How the times of a few calls decide between two plans. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "plan_make.h"
#include "planner.h"
#include "rng.h"
#include "topology_formats.h"
#include "trial.h"

enum { KIB = 1 << 10, MIB = 1 << 20, CALLS = BY_TRIAL_SKIPPED + BY_TRIAL_CALLS, PLANS = 2 };

/* ---- another plan that is predicted to be nearly as fast */

static void make_plan(const char *topology, struct by_planned *planned) {
  struct by_topology *t;
  struct by_planner_options options = by_planner_defaults();
  assert_ok(by_topology_named(topology, &t));
  assert_ok(by_planner_run("chosen", t, &options, planned));
  by_control_fini(&planned->control); /* It borrows the topology. */
  by_topology_destroy(t);
}

/* Returns the least seconds of the candidates whose groups the class has, as far as kinds, shares and roots tell. */
static double predict(const struct by_planned *planned, const struct by_class *class_, uint32_t size) {
  double least = INFINITY;
  for (uint32_t i = 0; i < planned->weighed.n; i++) {
    const struct by_candidate *candidate = &planned->weighed.candidates[i];
    const struct by_class *of = by_plan_class(candidate->plan, planned->weighed.sizes[size]);
    bool same = of->n_groups == class_->n_groups;
    for (uint32_t g = 0; same && g < of->n_groups; g++)
      same = of->groups[g].kind == class_->groups[g].kind && of->groups[g].share == class_->groups[g].share &&
             of->groups[g].root == class_->groups[g].root;
    if (same) least = fmin(least, candidate->seconds[size]);
  }
  return least;
}

/* Both plans differ in some class, and have the same control tree and classes of collectives' own. */
static void test_alternative(void **state) {
  static const char *const topologies[] = {"star:4,nic=100m", "mesh:4,link=100m", "star:8,nic=1g", "ring:5,link=50m"};
  static const double within = 1.2;
  uint32_t found = 0;
  (void)state;
  for (size_t i = 0; i < sizeof topologies / sizeof *topologies; i++) {
    struct by_planned planned;
    struct by_plan *plan;
    make_plan(topologies[i], &planned);
    assert_ok(by_planner_find_alternative(&planned, within, &plan));
    for (uint32_t s = 0; plan && s < BY_WEIGH_SIZES; s++) {
      double chosen = planned.weighed.candidates[planned.weighed.used[s]].seconds[s];
      const struct by_class *class_ = by_plan_class(plan, planned.weighed.sizes[s]);
      assert_true(predict(&planned, class_, s) <= within * chosen * (1 + 1e-9));
    }
    if (plan) {
      found++;
      assert_ok(by_plan_validate(plan));
      assert_string_equal(plan->name, planned.plan->name);
      assert_int_equal(plan->n_own, planned.plan->n_own);
      assert_true(!plan->control.parent == !planned.plan->control.parent);
      assert_true(plan->facts.throughput > 0 && plan->facts.throughput <= plan->facts.bound);
      assert_true(plan->version != planned.plan->version);
    }
    by_plan_destroy(plan);
    by_planned_fini(&planned);
  }
  assert_true(found > 0);
}

/* ---- trials */

/* A call without others. */
static struct by_call_bytes one(uint64_t bytes) {
  return (struct by_call_bytes){bytes, bytes};
}

/* Makes calls of a size, which take so many seconds by each plan, until a phase is over, and returns how many. 0: none
 * is. */
static uint32_t call_long(struct by_trial *trial, uint64_t bytes, const double seconds[PLANS]) {
  for (uint32_t n = 1; n <= 4 * BY_TRIAL_MAX_FIRST; n++) {
    by_trial_add(trial, one(bytes), seconds[trial->phase == BY_TRIAL_SECOND]);
    if (by_trial_step(trial, n)) return n;
  }
  return 0;
}

/* So many milliseconds. */
static uint32_t call(struct by_trial *trial, uint64_t bytes, const double ms[PLANS]) {
  return call_long(trial, bytes, (double[]){ms[0] * 1e-3, ms[1] * 1e-3});
}

/* After a replanning the plan before is used again unless it is slower by more than times of one plan differ. */
static void test_choice(void **state) {
  static const double ms[][PLANS] = {{1, 1}, {1, 0.7}, {1, 1.02}, {1, 1.1}, {1, 9}};
  (void)state;
  for (int i = 0; i < 5; i++) {
    struct by_trial t = {0};
    by_trial_set_recent(&t, one(MIB), 1e-3);
    assert_int_equal(call(&t, MIB, ms[i]), CALLS);
    assert_int_equal(t.phase, BY_TRIAL_SECOND);
    assert_true(call(&t, MIB, ms[i]) > 0);
    assert_int_equal(t.phase, BY_TRIAL_OVER);
    assert_int_equal(t.takes_second, i < 3);
    assert_float_equal(by_trial_ratio(&t), i < 4 ? ms[i][1] : 0, 1e-9);
    assert_int_equal(by_trial_judge(&t), i < 3 ? BY_TRIAL_NO_BETTER : BY_TRIAL_BETTER);
    assert_false(by_trial_step(&t, 1000));
  }
}

/* A plan that is predicted to be nearly as fast replaces the one in use if it is faster by more than times differ. */
static void test_cautious(void **state) {
  static const double ms[][PLANS] = {{1, 0.98}, {1, 0.96}, {1, 0.9}, {1, 1.02}};
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct by_trial t = {.cautious = true};
    assert_int_equal(call(&t, MIB, ms[i]), CALLS);
    assert_int_equal(call(&t, MIB, ms[i]), CALLS);
    assert_true(t.phase == BY_TRIAL_OVER && t.takes_second == (i == 1 || i == 2));
    assert_int_equal(by_trial_judge(&t), BY_TRIAL_NO_BETTER);
  }
}

/* If the network's bound allows no less, no other plan is tried, nor waited for with calls of such a size. */
static void test_at_bound(void **state) {
  static const double seconds[PLANS] = {0.7, 0.6};
  struct by_trial t = {.cautious = true, .rate = MIB / 0.69};
  (void)state;
  (void)call_long(&t, MIB, seconds);
  assert_true(t.phase == BY_TRIAL_OVER && !t.takes_second);
  assert_int_equal(by_trial_judge(&t), BY_TRIAL_UNKNOWN);
  t = (struct by_trial){.cautious = true, .rate = MIB / 0.67};
  (void)call_long(&t, MIB, seconds);
  assert_int_equal(t.phase, BY_TRIAL_SECOND);
}

/* A plan that is much slower has two calls that count. */
static void test_much_slower(void **state) {
  static const double ms[][PLANS] = {{1, 4}, {1, 1.6}, {1, 1.4}};
  (void)state;
  for (int i = 0; i < 3; i++) {
    struct by_trial t = {0};
    assert_int_equal(call(&t, MIB, ms[i]), CALLS);
    assert_int_equal(call(&t, MIB, ms[i]), i < 2 ? BY_TRIAL_SKIPPED + 2 : CALLS);
    assert_true(t.phase == BY_TRIAL_OVER && !t.takes_second);
    assert_int_equal(by_trial_judge(&t), BY_TRIAL_BETTER);
  }
}

/* Calls of several sizes are timed at the same time, and rare ones are not waited for. */
static void test_sizes(void **state) {
  struct by_trial t = {0};
  uint32_t phases = 0, calls = 0;
  (void)state;
  for (uint32_t n = 0; t.phase != BY_TRIAL_OVER && n < 1000; n++) {
    bool before = t.phase == BY_TRIAL_SECOND;
    by_trial_add(&t, one(KIB), before ? 8e-4 : 1e-3);
    by_trial_add(&t, one(MIB), before ? 1.1e-2 : 1e-2);
    if (n % 50 == 0) by_trial_add(&t, one(3 * MIB), 3e-2);
    calls += 2;
    bool over = by_trial_step(&t, calls);
    phases += over;
    if (over) calls = 0;
  }
  assert_int_equal(t.phase, BY_TRIAL_OVER);
  assert_int_equal(phases, 2);
  assert_float_equal(by_trial_ratio(&t), 1.18 / 1.1, 1e-9);
}

/* Several calls at the same time are of a size of their own. */
static void test_at_once(void **state) {
  static const struct by_call_bytes bytes = {16 * 32 * KIB, 32 * KIB};
  struct by_trial t = {0};
  (void)state;
  for (uint32_t n = 1; t.phase == BY_TRIAL_FIRST; n++) {
    assert_true(n < 100);
    by_trial_add(&t, bytes, 1e-2);
    if (n % 2) by_trial_add(&t, one(bytes.all), 9e-3);
    (void)by_trial_step(&t, 2);
  }
  assert_int_equal(t.n_sizes, 2);
}

/* If no calls can be timed, the new plan stays, and the plan before it is never in use. */
static void test_untimed(void **state) {
  struct by_trial t = {0};
  (void)state;
  for (uint32_t n = 1; n <= BY_TRIAL_MAX_FIRST; n++) assert_false(by_trial_step(&t, n));
  assert_true(by_trial_step(&t, BY_TRIAL_MAX_FIRST + 1));
  assert_true(t.phase == BY_TRIAL_OVER && !t.takes_second);
  assert_int_equal(by_trial_judge(&t), BY_TRIAL_UNKNOWN);
}

/* A plan that made calls faster is not compared with the one before; one that did not is. */
static void test_recent(void **state) {
  static const double ms[PLANS] = {1, 0.5}, slow[PLANS] = {2, 1};
  struct by_trial t = {0};
  (void)state;
  by_trial_set_recent(&t, one(MIB), 1.04e-3);
  assert_int_equal(call(&t, MIB, ms), CALLS);
  assert_true(t.phase == BY_TRIAL_OVER && !t.takes_second);
  assert_int_equal(by_trial_judge(&t), BY_TRIAL_BETTER);
  t = (struct by_trial){0};
  by_trial_set_recent(&t, one(MIB), 1.02e-3);
  assert_int_equal(call(&t, MIB, ms), CALLS);
  assert_int_equal(t.phase, BY_TRIAL_SECOND);
  t = (struct by_trial){0};
  by_trial_set_recent(&t, one(MIB), 1e-3);
  assert_int_equal(call(&t, MIB, slow), BY_TRIAL_SKIPPED + BY_TRIAL_MIN_CALLS); /* It is clearly slower. */
  assert_int_equal(call(&t, MIB, slow), CALLS);
  assert_true(t.phase == BY_TRIAL_OVER && t.takes_second);
}

/* If calls are long, few that agree are enough, and so are few if none was faster by the plan before. */
static void test_long(void **state) {
  static const double seconds[PLANS] = {0.7, 0.6}, slower[] = {0.75, 0.8, 0.71};
  enum { FEW = 1 + BY_TRIAL_MIN_CALLS };
  struct by_trial t = {0};
  (void)state;
  for (int i = 0; i < 2; i++) assert_int_equal(call_long(&t, MIB, seconds), FEW);
  assert_true(t.phase == BY_TRIAL_OVER && t.takes_second);
  t = (struct by_trial){0};
  for (int i = 0; i < BY_TRIAL_CALLS + 1; i++) { /* These do not agree, and all are waited for. */
    assert_int_equal(t.phase, BY_TRIAL_FIRST);
    by_trial_add(&t, one(MIB), i % 2 ? 0.7 : 0.8);
    (void)by_trial_step(&t, 1 + (uint64_t)i);
  }
  assert_int_equal(t.phase, BY_TRIAL_SECOND);
  by_trial_add(&t, one(MIB), 0.75);
  for (int i = 0; i < BY_TRIAL_MIN_CALLS; i++) {
    assert_false(by_trial_step(&t, 1 + (uint64_t)i));
    by_trial_add(&t, one(MIB), slower[i]);
  }
  assert_true(by_trial_step(&t, FEW));
  assert_true(t.phase == BY_TRIAL_OVER);
  t = (struct by_trial){0};
  assert_int_equal(call_long(&t, MIB, (double[]){0.09, 0.09}), CALLS); /* Calls of less than 0.1 s are not long. */
}

/* However calls go, a trial ends, and its calls by the plan before are bounded. */
static void test_bounded(void **state) {
  struct by_rng rng;
  (void)state;
  by_rng_init(&rng, 5);
  for (int round = 0; round < 200; round++) {
    struct by_trial t = {0};
    uint64_t calls = 0, all = 0, by_before = 0;
    uint32_t sizes = 1 + by_rng_below(&rng, 2 * BY_TRIAL_SIZES);
    double timed = by_rng_unit(&rng);
    while (t.phase != BY_TRIAL_OVER) {
      calls++;
      all++;
      by_before += t.phase == BY_TRIAL_SECOND;
      uint64_t bytes = KIB * (1 + by_rng_below(&rng, sizes));
      if (by_rng_unit(&rng) < timed) by_trial_add(&t, one(bytes), (1 + by_rng_unit(&rng)) * (round % 2 ? 0.2 : 1e-3));
      if (by_trial_step(&t, calls)) calls = 0;
      assert_true(all <= BY_TRIAL_MAX_FIRST + BY_TRIAL_MAX_SECOND + 2);
    }
    assert_true(by_before <= BY_TRIAL_MAX_SECOND + 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_alternative), cmocka_unit_test(test_choice),   cmocka_unit_test(test_much_slower),
      cmocka_unit_test(test_sizes),       cmocka_unit_test(test_at_once),  cmocka_unit_test(test_untimed),
      cmocka_unit_test(test_recent),      cmocka_unit_test(test_long),     cmocka_unit_test(test_bounded),
      cmocka_unit_test(test_cautious),    cmocka_unit_test(test_at_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
