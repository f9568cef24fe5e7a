#include "../manager_world.h"

#include "json_doc.h"

static struct world world;

static void begin(const char *topology) {
  world_begin(&world, topology);
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
}

static json_t *get_state(void) {
  static const struct by_doc_limits limits = {.bytes = 1 << 24, .containers = 1 << 20, .elements = 1 << 20};
  struct by_text text;
  json_t *doc;
  by_text_init(&text);
  by_manager_state(world.manager, world.now, &text);
  assert_false(text.failed);
  assert_ok(by_doc_load("state", by_text_get(&text), text.length, &limits, &doc));
  by_text_fini(&text);
  return doc;
}

static json_t *job_of(json_t *state, uint32_t j) {
  return json_array_get(json_object_get(state, "jobs"), j);
}

static double throughput_of(uint32_t j) {
  json_t *state = get_state();
  double rate = json_number_value(json_object_get(json_object_get(job_of(state, j), "plan"), "throughput"));
  json_decref(state);
  return rate;
}

static void assert_text(uint32_t j, const char *field, const char *wanted) {
  json_t *state = get_state();
  assert_string_equal(json_string_value(json_object_get(job_of(state, j), field)), wanted);
  json_decref(state);
}

/* Four hosts at one switch: T* = nB / (2(n - 1)). */
static void test_first_plan(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  world_run(&world, 0, 1, 4);
  assert_text(0, "state", "waiting");
  world_plan(&world);
  assert_int_equal(world.plans, 1);
  assert_text(0, "state", "running");
  assert_float_equal(throughput_of(0) / 1e9, 4.0 / 6, 1e-3);
  world_end(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_plan)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
