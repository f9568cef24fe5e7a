#include "context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rng.h"

enum { MOST = 60 };
static char machines[MOST][8], hosts[MOST][8];

static void fill(struct by_context *context, struct by_member *members, struct by_rng *rng) {
  uint32_t kinds = 1 + (uint32_t)by_rng_below(rng, context->job.size);
  for (uint32_t r = 0; r < context->job.size; r++) {
    uint64_t machine = by_rng_below(rng, kinds);
    snprintf(machines[r], sizeof machines[r], "m%u", (unsigned)machine);
    snprintf(hosts[r], sizeof hosts[r], "h%u", (unsigned)by_rng_below(rng, 3));
    members[r] = (struct by_member){.host = hosts[r], .machine = machines[r], .cores = 1 + (uint32_t)(machine % 5)};
  }
  context->job.members = members;
}

/* The same in another way: everybody with everybody. */
static void compare(const struct by_context *context) {
  uint32_t hosts_seen = 0;
  bool crowded = false;
  for (uint32_t r = 0; r < context->job.size; r++) {
    uint32_t first = 0, beside = 0;
    while (!by_member_same_host(&context->job.members[first], &context->job.members[r])) first++;
    for (uint32_t s = 0; s < context->job.size; s++)
      beside += !strcmp(context->job.members[s].machine, context->job.members[r].machine);
    crowded |= beside > context->job.members[r].cores;
    assert_int_equal(context->job.first_here[r], first);
    bool opens = !strcmp(context->job.settings.transport, "tcp") || first == r;
    assert_int_equal(context->job.host_of[r], opens ? hosts_seen : context->job.host_of[first]);
    hosts_seen += opens;
    if (r != context->job.rank) continue;
    assert_int_equal(context->job.neighbours, beside);
    assert_int_equal(context->job.yields, beside > context->job.members[r].cores);
  }
  assert_int_equal(context->job.n_hosts, hosts_seen);
  assert_int_equal(context->job.crowded, crowded);
}

static void test_random_places(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    struct by_rng rng;
    struct by_member members[MOST];
    struct by_context context = {0};
    by_rng_init(&rng, seed);
    by_arena_init(&context.job.arena);
    context.job.size = 1 + (uint32_t)by_rng_below(&rng, MOST);
    context.job.processes = context.job.size;
    context.job.rank = (uint32_t)by_rng_below(&rng, context.job.size);
    context.job.settings.transport = by_rng_below(&rng, 2) ? "auto" : "tcp";
    fill(&context, members, &rng);
    assert_int_equal(by_hosts_index(&context.job), BANYAN_OK);
    compare(&context);
    by_arena_fini(&context.job.arena);
  }
}

static void test_shm_needs_one_host(void **state) {
  (void)state;
  struct by_member members[2] = {{.host = "a", .machine = "m", .cores = 2}, {.host = "b", .machine = "m", .cores = 2}};
  struct by_context context = {
      .job = {.size = 2, .processes = 2, .members = members, .settings = {.transport = "shm"}}};
  by_arena_init(&context.job.arena);
  assert_int_equal(by_hosts_index(&context.job), BANYAN_ERR_UNSUPPORTED);
  assert_non_null(strstr(banyan_error_text(), "on 2 hosts"));
  by_arena_fini(&context.job.arena);
}

static void check_differ(struct by_member other) {
  struct by_member members[3] = {{.host = "a", .machine = "m", .eager_limit = 65536, .credit = 1 << 20}, {0}, other};
  struct by_context context = {
      .job = {.size = 3, .processes = 3, .members = members, .settings = {.transport = "auto"}}};
  members[1] = members[0];
  by_arena_init(&context.job.arena);
  assert_int_equal(by_hosts_index(&context.job), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "rank 2 (host b)"));
  assert_non_null(strstr(banyan_error_text(), "rank 0 (host a)"));
  members[2] = members[0];
  context.job.n_hosts = 0;
  assert_int_equal(by_hosts_index(&context.job), BANYAN_OK);
  by_arena_fini(&context.job.arena);
}

static void test_settings_must_be_alike(void **state) {
  (void)state;
  check_differ((struct by_member){.host = "b", .machine = "m", .eager_limit = 32768, .credit = 1 << 20});
  check_differ((struct by_member){.host = "b", .machine = "m", .eager_limit = 65536, .credit = 2 << 20});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_places),
      cmocka_unit_test(test_shm_needs_one_host),
      cmocka_unit_test(test_settings_must_be_alike),
  };
  return cmocka_run_group_tests_name("hosts", tests, NULL, NULL);
}
