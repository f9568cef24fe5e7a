#include <math.h>
/* The order of jobs from numbers alone, and the classes that concurrent jobs get under a manager. */
#include <string.h>

#include "../manager_view.h"

#include "priority.h"
#include "rng.h"

/* ---- numbers alone */

static void test_first_iterations(void **state) {
  struct by_priority_rules rules = {.iterations = 5, .threshold = 100};
  (void)state;
  for (uint64_t i = 1; i < 5; i++) assert_int_equal(by_priority_queue(&rules, i, 1000000), 0);
  assert_int_equal(by_priority_queue(&rules, 0, 99), 0);
  assert_int_equal(by_priority_queue(&rules, 0, 1000000), 8);
  assert_int_equal(by_priority_queue(&rules, 5, 1000000), 8);
  assert_int_equal(by_priority_queue(&rules, 5, 99), 1);
}

/* The thresholds are 100 and 400. */
static void test_thresholds(void **state) {
  struct by_priority_rules rules = {.iterations = 0, .threshold = 100};
  static const struct {
    uint64_t bytes;
    uint32_t queue;
  } cases[] = {{0, 1},   {99, 1},   {100, 2},  {399, 2},
               {400, 3}, {1599, 3}, {1600, 4}, {UINT64_MAX, BY_PRIORITY_QUEUES - 1}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(by_priority_queue(&rules, 7, cases[i].bytes), cases[i].queue);
  rules.threshold = UINT64_MAX / 2; /* Four times this value exceeds the range. */
  assert_int_equal(by_priority_queue(&rules, 7, UINT64_MAX / 2), 2);
  assert_int_equal(by_priority_queue(&rules, 7, UINT64_MAX - 1), 2);
}

/* A job without others falls with its queue. Jobs with precedence are above it and later ones below it, while there
 * is room. */
static void test_classes(void **state) {
  static const struct {
    uint32_t queue, above, behind, class_;
  } cases[] = {{0, 0, 0, 0}, {0, 2, 5, 0}, {1, 0, 0, 1}, {2, 0, 0, 2}, {9, 0, 0, 3}, {9, 0, 1, 2},
               {9, 0, 2, 1}, {9, 0, 9, 1}, {1, 1, 0, 2}, {1, 2, 7, 3}, {9, 1, 7, 2}, {1, 3, 0, 3}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(by_priority_class(cases[i].queue, cases[i].above, cases[i].behind), cases[i].class_);
}

/* The thresholds are 100, 400 and 1600. */
static void test_places(void **state) {
  const struct by_priority_rules rules = {.iterations = 10, .threshold = 100, .equal = true},
                                 in_order = {.equal = false};
  const struct by_job_length announced = {.expected = 60}, silent = {0}, soon = {.expected = 21},
                             past = {.expected = 15};
  (void)state;
  struct by_priority_position a = by_priority_find(&rules, 1, 20, 1000, &silent, INFINITY),
                              b = by_priority_find(&rules, 1, 20, 1000, &announced, INFINITY);
  assert_int_equal(a.queue, 3);
  assert_int_equal(b.queue, 4); /* There are 40 iterations of 50 bytes left. */
  assert_float_equal(b.left, 2000, 1e-6);
  assert_true(by_priority_compare(&a, &b) < 0);
  struct by_priority_position c = by_priority_find(&rules, 1, 20, 1000, &soon, INFINITY),
                              d = by_priority_find(&rules, 1, 20, 60, &silent, INFINITY);
  assert_int_equal(c.queue, 1);
  /* In the same queue, the job that reports its length goes first. */
  assert_true(by_priority_compare(&c, &d) < 0 && by_priority_compare(&d, &c) > 0);
  assert_int_equal(by_priority_compare(&d, &d), 0);
  assert_true(by_priority_are_equals(&rules, &d, &d));
  assert_false(by_priority_are_equals(&in_order, &d, &d));
  assert_false(by_priority_are_equals(&rules, &c, &d));
  assert_int_equal(by_priority_find(&rules, 1, 16, 1000, &past, INFINITY).queue, 1); /* The job ends at any moment. */
  assert_float_equal(by_priority_find(&rules, 4, 20, 1000, &announced, INFINITY).left, 500, 1e-6);
  assert_int_equal(by_priority_find(&rules, 1, 5, 1000, &soon, INFINITY).queue, 0);
}

/* There is only time for some more iterations of 50 bytes each. */
static void test_places_with_limits(void **state) {
  const struct by_priority_rules rules = {.iterations = 10, .threshold = 100, .equal = true};
  const struct by_job_length announced = {.expected = 60}, silent = {0};
  (void)state;
  struct by_priority_position sent = by_priority_find(&rules, 1, 20, 1000, &silent, INFINITY),
                              soon = by_priority_find(&rules, 1, 20, 1000, &silent, 1.5),
                              late = by_priority_find(&rules, 1, 20, 1000, &silent, 1e9);
  assert_int_equal(soon.queue, 1);
  assert_true(isinf(soon.left)); /* That it may be less is no reason to be before others of this queue. */
  assert_int_equal(late.queue, sent.queue);
  assert_true(isinf(late.left));
  assert_float_equal(by_priority_find(&rules, 1, 20, 1000, &announced, 10).left, 500, 1e-6);
  assert_float_equal(by_priority_find(&rules, 1, 20, 1000, &announced, 100).left, 2000, 1e-6);
  assert_int_equal(by_priority_find(&rules, 1, 20, 1000, &silent, 0).queue, 1);
  assert_int_equal(by_priority_find(&rules, 1, 0, 1000, &silent, 0).queue,
                   3); /* What an iteration sends is not known. */
}

static void test_order_parses(void **state) {
  bool equal;
  (void)state;
  assert_ok(by_priority_parse_order("share", &equal));
  assert_true(equal);
  assert_ok(by_priority_parse_order("first", &equal));
  assert_false(equal);
  assert_int_equal(by_priority_parse_order("last", &equal), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "first or share"));
}

static void test_marks(void **state) {
  (void)state;
  for (uint32_t c = 1; c < BY_PRIORITY_CLASSES; c++) assert_true(by_priority_tos(c) < by_priority_tos(c - 1));
  assert_int_equal(by_priority_tos(1000), by_priority_tos(BY_PRIORITY_CLASSES - 1));
}

/* ---- length of a job */

static void test_not_given(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_false(by_job_length_update(&length, 0, 1000));
  assert_int_equal(length.expected, 0);
  assert_int_equal(by_job_length_left(&length, 1000), 0);
  assert_false(length.is_void);
}

static void test_left(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_true(by_job_length_update(&length, 500, 20));
  assert_int_equal(by_job_length_left(&length, 20), 480);
  assert_int_equal(by_job_length_left(&length, 501), 0);
  assert_false(by_job_length_update(&length, 500, 21)); /* Reports repeat this value. */
  /* Reports look like this until rank 0 has reported a length. */
  assert_false(by_job_length_update(&length, 0, 22));
  assert_int_equal(length.expected, 500);
}

static void test_fewer(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_true(by_job_length_update(&length, 500, 20));
  assert_true(by_job_length_update(&length, 300, 290));
  assert_int_equal(by_job_length_left(&length, 290), 10);
  assert_false(length.is_void);
}

static void test_limit(void **state) {
  struct by_job_length length = {0}, announced = {0};
  (void)state;
  assert_true(isinf(by_job_length_max_iterations(&length, 0.5, 1000)));
  assert_false(by_job_length_limit(&length, 0, 1000));
  assert_float_equal(length.ends, 0, 0);
  assert_false(by_job_length_limit(&length, 600, 1000));
  assert_float_equal(by_job_length_max_iterations(&length, 0.5, 1100), 1000, 1e-6);
  assert_true(isinf(by_job_length_max_iterations(&length, 0, 1100)));
  assert_false(by_job_length_limit(&length, 700, 1100)); /* Of two ends the first one counts. */
  assert_false(by_job_length_limit(&length, 0, 1100));
  assert_float_equal(length.ends, 1600, 0);
  assert_false(by_job_length_limit(&length, 400, 1100));
  assert_float_equal(length.ends, 1500, 0);
  assert_float_equal(by_job_length_max_iterations(&length, 0.5, 1510), 0, 0);
  assert_false(by_job_length_limit(&length, 0, 1559));
  assert_true(by_job_length_limit(&length, 0, 1561)); /* It should have been ended a minute ago. */
  assert_true(length.is_void);
  assert_false(by_job_length_limit(&length, 600, 1562));
  assert_true(isinf(by_job_length_max_iterations(&length, 0.5, 1563)));
  /* Doubt of one is doubt of both. */
  assert_true(by_job_length_update(&announced, 500, 20));
  assert_false(by_job_length_limit(&announced, 600, 1000));
  assert_true(by_job_length_update(&announced, 501, 21));
  assert_float_equal(announced.ends, 0, 0);
}

static void check_doubted(struct by_job_length *length) {
  assert_true(length->is_void);
  assert_int_equal(length->expected, 0);
  assert_int_equal(by_job_length_left(length, 0), 0);
  assert_false(by_job_length_update(length, 10000, 0)); /* The doubt is permanent. */
  assert_int_equal(length->expected, 0);
}

static void test_more(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_true(by_job_length_update(&length, 500, 20));
  assert_true(by_job_length_update(&length, 501, 21));
  check_doubted(&length);
}

/* The job has more iterations than it announced. A few of them may have been detected without the program knowing. */
static void test_past(void **state) {
  struct by_job_length few = {0}, many = {0}, late = {0};
  (void)state;
  assert_true(by_job_length_update(&few, 10, 9));
  assert_false(by_job_length_update(&few, 10, 12));
  assert_true(by_job_length_update(&few, 0, 13));
  check_doubted(&few);
  assert_true(by_job_length_update(&many, 6400, 6402));
  assert_false(by_job_length_update(&many, 6400, 6502));
  assert_true(by_job_length_update(&many, 6400, 6503));
  check_doubted(&many);
  assert_true(by_job_length_update(&late, 1, 1000));
  check_doubted(&late);
}

static void test_most(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_true(by_job_length_update(&length, INT64_MAX, 1));
  assert_int_equal(by_job_length_left(&length, 1), INT64_MAX - 1);
  assert_true(by_job_length_update(&length, 1, UINT64_MAX));
  check_doubted(&length);
}

/* ---- under a manager */

enum { GIGABYTE = 1000000000 };

/* Runs until the jobs are past their first iterations. */
static void pass_first_iterations(void) {
  pass_and_plan((int)by_priority_defaults().iterations, 1000);
}

static void begin_with(const char *topology, bool equal) {
  struct by_priority_rules rules = by_priority_defaults();
  rules.equal = equal;
  begin_by(topology, rules);
  world.no_keys = true; /* There are no helpers: only the links of the jobs' own hosts are used. */
}

static void expect_classes(uint32_t a, uint32_t b, uint32_t c) {
  assert_int_equal(world.jobs[0].class_, a);
  assert_int_equal(world.jobs[1].class_, b);
  assert_int_equal(world.jobs[2].class_, c);
}

/* The jobs run on hosts 0 to 3, 2 to 5, and 4 to 7: the first and the last share no host. */
static void run_three(void) {
  for (uint32_t j = 0; j < 3; j++) world_run(&world, 2 * j, 1, 4);
  world_plan(&world);
}

static void test_first_come(void **state) {
  (void)state;
  begin_with("star:8,nic=1g", false);
  run_three();
  expect_classes(0, 0, 0);
  pass_first_iterations();
  expect_classes(1, 2, 3);
  world_send(&world, &world.jobs[1], BY_MESSAGE_LEFT, 0);
  world.jobs[1].runs = false;
  pass_and_plan(1, 1000);
  expect_classes(1, 2, 1); /* No job goes before the last one any more. */
  world_end(&world);
}

static void test_share(void **state) {
  (void)state;
  begin_with("star:8,nic=1g", true);
  run_three();
  pass_first_iterations();
  expect_classes(1, 1, 1);
  world.jobs[0].sent = 20ull * GIGABYTE;
  pass_and_plan(1, 1000);
  expect_classes(2, 1, 1);
  world_end(&world);
}

/* The job with the least left goes first, whichever came first. A job without an announced length goes behind the
 * others of its queue, and a job with more iterations than it announced counts as such a job. */
static void test_least_left(void **state) {
  (void)state;
  begin_with("star:8,nic=1g", true);
  for (uint32_t j = 0; j < 3; j++) world_run(&world, 0, 1, 4);
  world.jobs[1].expected = 100;
  world.jobs[2].expected = 30;
  world_plan(&world);
  pass_first_iterations();
  expect_classes(3, 2, 1);
  world.jobs[2].iterations = 50;
  pass_and_plan(1, 1000);
  expect_classes(2, 1, 2);
  world_end(&world);
}

/* A job that has sent more goes behind, whichever came first, and jobs in the lowest queues still have an order. */
static void test_queue_before_coming(void **state) {
  (void)state;
  begin_with("star:8,nic=1g", false);
  run_three();
  pass_first_iterations();
  world.jobs[0].sent = 20ull * GIGABYTE; /* This is queue 2. */
  pass_and_plan(1, 1000);
  expect_classes(2, 1, 2);
  for (uint32_t j = 0; j < 3; j++) world.jobs[j].sent = 1000000ull * GIGABYTE;
  pass_and_plan(1, 1000);
  expect_classes(1, 2, 3);
  world.jobs[1].sent *= 4;
  pass_and_plan(1, 1000);
  expect_classes(2, 3, 2);
  world_end(&world);
}

/* A new job goes before all others for a while, and then behind those of its queue. */
static void test_newcomer(void **state) {
  (void)state;
  begin_with("star:4,nic=1g", false);
  world_run(&world, 0, 1, 4);
  pass_first_iterations();
  assert_int_equal(world.jobs[0].class_, 1);
  world_run(&world, 0, 1, 4);
  world_plan(&world);
  assert_int_equal(world.jobs[1].class_, 0);
  assert_int_equal(world.jobs[0].class_, 1);
  pass_first_iterations();
  assert_int_equal(world.jobs[1].class_, 2);
  world_end(&world);
}

/* ---- consequences for plans */

/* A job in its first iterations gives its neighbours no reason for other trees. */
static void test_first_iterations_are_short(void **state) {
  (void)state;
  begin_with("mesh:4,nic=10g,link=1g", false);
  const struct world_job *wide = world_run(&world, 0, 1, 4);
  world_plan(&world);
  world_run(&world, 0, 1, 2);
  pass_and_plan(8, 200000000);
  assert_int_equal(wide->class_, 0);
  assert_int_equal(wide->asked, 1);
  world_end(&world);
}

/* Begins two jobs without first iterations that share links. Returns how many plans were made for them. */
static unsigned begin_two(void) {
  struct by_priority_rules rules = by_priority_defaults();
  rules.iterations = 0;
  rules.equal = false;
  begin_by("mesh:4,nic=10g,link=1g", rules);
  world.no_keys = true;
  const struct world_job *wide = world_run(&world, 0, 1, 4), *narrow = world_run(&world, 0, 1, 2);
  world_plan(&world);
  pass_and_plan(6, 110000000);
  assert_int_equal(wide->class_, 1);
  assert_int_equal(narrow->class_, 2);
  return (unsigned)by_manager_get_counters(world.manager).planned;
}

/* The rate of a job that has just gone before another one is not known yet, so the other job waits. */
static void test_waits_for_rates(void **state) {
  (void)state;
  unsigned planned = begin_two();
  const struct world_job *wide = &world.jobs[0], *narrow = &world.jobs[1];
  world.jobs[0].sent = 20ull * GIGABYTE;
  pass_and_plan(8, 110000000);
  assert_int_equal(wide->class_, 2);
  assert_int_equal(narrow->class_, 1);
  assert_int_equal(by_manager_get_counters(world.manager).planned, planned);
  pass_and_plan(2, 110000000);
  assert_true(by_manager_get_counters(world.manager).planned > planned);
  world_end(&world);
}

/* If the order changes repeatedly, the job does not wait forever. */
static void test_waits_no_longer(void **state) {
  (void)state;
  unsigned planned = begin_two();
  for (uint32_t turn = 0; turn < 3; turn++) {
    world.jobs[turn % 2].sent = (20ull << 2 * turn) * GIGABYTE;
    pass_and_plan(5, 110000000);
    assert_int_equal(by_manager_get_counters(world.manager).planned, planned);
  }
  for (uint32_t turn = 3; turn < 7; turn++) {
    world.jobs[turn % 2].sent = (20ull << 2 * turn) * GIGABYTE;
    pass_and_plan(5, 110000000);
  }
  assert_true(by_manager_get_counters(world.manager).planned > planned);
  world_end(&world);
}

/* ---- random jobs */

static bool meet(const struct world_job *a, const struct world_job *b) {
  for (uint32_t i = 0; i < a->n; i++)
    for (uint32_t j = 0; j < b->n; j++)
      if (a->hosts[i] == b->hosts[j]) return true;
  return false;
}

static struct by_priority_position place_of(const struct world_job *job) {
  const struct by_job_length length = {.expected = job->expected};
  return by_priority_find(&world.options.rules, job->n, job->iterations, job->sent, &length, INFINITY);
}

static uint32_t queue_of(const struct world_job *job) {
  return place_of(job).queue;
}

static bool goes_before(const struct world_job *a, const struct world_job *b) {
  struct by_priority_position of_a = place_of(a), of_b = place_of(b);
  int order = by_priority_compare(&of_a, &of_b);
  return order ? order < 0 : a < b && !by_priority_are_equals(&world.options.rules, &of_a, &of_b);
}

static void check_pair(const struct world_job *a, const struct world_job *b) {
  if (!queue_of(a)) assert_int_equal(a->class_, 0);
  if (queue_of(a)) assert_in_range(a->class_, 1, BY_PRIORITY_CLASSES - 1);
  if (a == b || !queue_of(b) || !meet(a, b) || !goes_before(a, b)) return;
  if (a->class_ < BY_PRIORITY_CLASSES - 1)
    assert_true(a->class_ < b->class_);
  else
    assert_int_equal(b->class_, a->class_);
}

static void check_all(void) {
  for (uint32_t i = 0; i < world.n_jobs; i++)
    for (uint32_t j = 0; j < world.n_jobs; j++) check_pair(&world.jobs[i], &world.jobs[j]);
}

/* Each link of a star belongs to one host: jobs share links where they have a host in common. */
static void test_any_jobs(void **state) {
  struct by_rng rng;
  (void)state;
  by_rng_init(&rng, 5);
  for (int round = 0; round < 16; round++) {
    begin_with("star:10,nic=1g", round % 2);
    uint32_t n = 2 + (uint32_t)by_rng_below(&rng, 8);
    for (uint32_t j = 0; j < n; j++)
      world_run(&world, (uint32_t)by_rng_below(&rng, 10), 1, 2 + (uint32_t)by_rng_below(&rng, 4));
    world_plan(&world);
    for (uint32_t j = 0; j < n; j++) {
      world.jobs[j].iterations = by_rng_below(&rng, 20);
      world.jobs[j].sent = GIGABYTE * (1ull << by_rng_below(&rng, 12));
      if (by_rng_below(&rng, 2)) world.jobs[j].expected = 30 + by_rng_below(&rng, 300);
    }
    pass_and_plan(1, 1000);
    check_all();
    world_end(&world);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_iterations),
      cmocka_unit_test(test_thresholds),
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_places_with_limits),
      cmocka_unit_test(test_order_parses),
      cmocka_unit_test(test_marks),
      cmocka_unit_test(test_not_given),
      cmocka_unit_test(test_left),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_fewer),
      cmocka_unit_test(test_more),
      cmocka_unit_test(test_past),
      cmocka_unit_test(test_most),
      cmocka_unit_test(test_first_come),
      cmocka_unit_test(test_share),
      cmocka_unit_test(test_least_left),
      cmocka_unit_test(test_queue_before_coming),
      cmocka_unit_test(test_newcomer),
      cmocka_unit_test(test_first_iterations_are_short),
      cmocka_unit_test(test_waits_for_rates),
      cmocka_unit_test(test_waits_no_longer),
      cmocka_unit_test(test_any_jobs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
