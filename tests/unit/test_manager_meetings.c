/* Tests of how processes of a job meet through the manager. */
#include "../manager_view.h"

#define JOB "00112233445566778899aabbccddeeff"
#define OTHER "ffeeddccbbaa99887766554433221100"

static enum banyan_status try_to_meet(uint32_t h, const char *job, uint64_t number, const char *handle, bool member) {
  struct by_cluster_message meet = {
      .type = BY_MESSAGE_MEET, .job = job, .number = number, .count = 2, .handle = handle, .member = member};
  return by_manager_handle(world.manager, world.hosts[h].peer, &meet, world.now);
}

static void meet(uint32_t h, uint64_t number, const char *handle) {
  assert_ok(try_to_meet(h, JOB, number, handle, false));
}

static void is_member(uint32_t h, uint64_t number, const char *handle) {
  assert_ok(try_to_meet(h, JOB, number, handle, true));
}

static void part(uint32_t h, uint64_t number) {
  struct by_cluster_message parted = {.type = BY_MESSAGE_PARTED, .job = JOB, .number = number};
  assert_ok(by_manager_handle(world.manager, world.hosts[h].peer, &parted, world.now));
}

static void assert_lists(const char *wanted) {
  assert_string_equal(world.lists, wanted);
  world.lists[0] = '\0';
}

/* Long enough that all agents have repeated their processes. */
static void begin_settled(void) {
  begin("star:3,nic=1g");
  world.now += 60;
  by_manager_tick(world.manager, world.now);
}

static void begin_formed(void) {
  begin_settled();
  meet(0, 1, "a");
  assert_lists("");
  meet(1, 1, "b");
  assert_lists("0:first:a+b 0:first:a+b ");
  is_member(0, 1, "a");
  is_member(1, 1, "b");
}

/* Newcomers ask members. */
static void test_joining(void **state) {
  (void)state;
  begin_formed();
  meet(2, 7, "c");
  assert_lists("7:join:a+b ");
  meet(2, 8, "d"); /* c is none yet */
  assert_lists("8:join:a+b ");
  is_member(2, 7, "c");
  part(0, 1);
  meet(2, 8, "d"); /* it did not become one */
  assert_lists("8:join:b+c ");
  part(1, 1);
  part(2, 7);
  assert_lists("");
  meet(0, 2, "e"); /* d may still become one */
  assert_lists("");
  part(2, 8);
  assert_lists(""); /* nobody is left but one newcomer */
  meet(0, 3, "f");
  assert_lists("0:first:e+f "); /* one for the agent of both */
  world_end(&world);
}

/* One of those that form the first membership dies: the others ask again, and form one with another. */
static void test_first_fails(void **state) {
  (void)state;
  begin_settled();
  meet(0, 1, "a");
  meet(1, 1, "b");
  assert_lists("0:first:a+b 0:first:a+b ");
  part(1, 1);
  meet(2, 1, "c");
  assert_lists(""); /* a forms one still, as far as it is known */
  meet(0, 1, "a");
  assert_lists("0:first:a+c 0:first:a+c ");
  world_end(&world);
}

/* Agents go and come back: members are not forgotten, for a minute. */
static void test_agents_away(void **state) {
  (void)state;
  begin_formed();
  world_part(&world, 0);
  world_part(&world, 1);
  meet(2, 1, "c");
  meet(2, 2, "d");
  assert_lists("1:join:a+b 2:join:a+b ");
  world_join(&world, 0);
  assert_ok(try_to_meet(0, JOB, 5, "a", true)); /* with another number, as of an agent that has begun anew */
  part(0, 1);                                   /* not it */
  world.now += 61;
  by_manager_tick(world.manager, world.now); /* b is forgotten */
  meet(2, 1, "c");
  assert_lists("1:join:a ");
  world_end(&world);
}

/* An agent comes back before the end of its old connection is seen: its processes are the same. */
static void test_agent_twice(void **state) {
  (void)state;
  begin_settled();
  meet(0, 1, "a");
  struct by_manager_peer *old = world.hosts[0].peer;
  world.now += 60;
  world_join(&world, 0);
  meet(0, 5, "a");
  assert_lists("");
  meet(1, 1, "b");
  assert_lists("0:first:a+b 0:first:a+b ");
  by_manager_gone(world.manager, old, world.now);
  part(0, 5);
  meet(1, 1, "b");
  assert_lists("");
  meet(2, 1, "c");
  assert_lists("0:first:b+c 0:first:b+c ");
  world_end(&world);
}

/* A manager that has begun waits until it may know all members. */
static void test_begin(void **state) {
  (void)state;
  begin("star:3,nic=1g");
  meet(2, 1, "c");
  meet(2, 2, "d");
  assert_lists("");
  is_member(0, 1, "a");
  assert_lists("1:join:a 2:join:a ");
  world_end(&world);
  begin("star:3,nic=1g");
  meet(2, 1, "c");
  meet(2, 2, "d");
  world.now += 60;
  by_manager_tick(world.manager, world.now);
  assert_lists("0:first:c+d ");
  world_end(&world);
}

static void test_bounds(void **state) {
  unsigned refused = 0;
  char job[BY_CLUSTER_JOB_ID + 1];
  (void)state;
  begin_formed();
  assert_ok(try_to_meet(0, OTHER, 2, "x", false)); /* another job's */
  assert_lists("");
  refused = (unsigned)by_manager_get_counters(world.manager).refused;
  meet(0, 1, "z"); /* a process has one handle */
  assert_int_equal(by_manager_get_counters(world.manager).refused, refused + 1);
  for (unsigned i = 0; i < 1100; i++) {
    snprintf(job, sizeof job, "%032x", i);
    assert_ok(try_to_meet(1, job, 100 + i, "y", false)); /* those that are too many are ignored, and counted */
  }
  assert_in_range(by_manager_get_counters(world.manager).refused, refused + 70, refused + 90);
  world_end(&world);
}

int main(void) {
  setenv("BANYAN_LOG", "error", 0);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_joining),     cmocka_unit_test(test_first_fails),
                                     cmocka_unit_test(test_agents_away), cmocka_unit_test(test_agent_twice),
                                     cmocka_unit_test(test_begin),       cmocka_unit_test(test_bounds)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
