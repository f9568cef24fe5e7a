/* A manager_world, and functions that read what its manager reports about jobs. */
#ifndef BY_TESTS_MANAGER_VIEW_H
#define BY_TESTS_MANAGER_VIEW_H

#include "manager_world.h"

#include "json_doc.h"

static struct world world;

static inline void begin(const char *topology) {
  world_begin(&world, topology);
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
}

/* Begins with other priority rules than the usual ones. */
static inline void begin_by(const char *topology, struct by_priority_rules rules) {
  world_begin(&world, topology);
  by_manager_destroy(world.manager);
  world.options.rules = rules;
  assert_ok(by_manager_create(&world.options, world.now, &world.manager));
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
}

/* ---- the manager's report about a job */

static inline json_t *get_state(void) {
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

static inline json_t *job_of(json_t *state, uint32_t j) {
  return json_array_get(json_object_get(state, "jobs"), j);
}

static inline double throughput_of(uint32_t j) {
  json_t *state = get_state();
  double rate = json_number_value(json_object_get(json_object_get(job_of(state, j), "plan"), "throughput"));
  json_decref(state);
  return rate;
}

static inline void assert_state(uint32_t j, const char *wanted) {
  json_t *state = get_state();
  assert_string_equal(json_string_value(json_object_get(job_of(state, j), "state")), wanted);
  json_decref(state);
}

static inline void assert_trouble(uint32_t j, const char *part) {
  json_t *state = get_state();
  const char *why = json_string_value(json_object_get(job_of(state, j), "why"));
  if (!strstr(why, part)) fail_msg("\"%s\" is not in \"%s\"", part, why);
  json_decref(state);
}

static inline void pass_and_plan(unsigned intervals, uint64_t input) {
  while (intervals--) {
    world_pass(&world, input);
    world_plan(&world);
  }
}

#endif
