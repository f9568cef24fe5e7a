/* Tests of which hosts the manager offers to jobs that can use more. */
#include "../manager_view.h"

/* A launcher on host `h` requests hosts; returns the names of those that it gets. */
static const char *request(uint32_t h, uint32_t count) {
  static uint64_t number;
  struct by_cluster_message wanted = {.type = BY_MESSAGE_WANTED, .number = ++number, .count = count};
  assert_ok(by_manager_handle(world.manager, world.hosts[h].peer, &wanted, world.now));
  assert_true(world.offer == number);
  return world.offered;
}

/* Hosts with agents and without jobs, to one job at a time. */
static void test_free_hosts(void **state) {
  (void)state;
  begin("star:6,nic=1g");
  world_part(&world, 5);
  world_run(&world, 0, 1, 2);
  assert_string_equal(request(0, 0), "");
  assert_string_equal(request(0, 1), "h2");
  assert_string_equal(request(1, 8), "h3 h4");
  assert_string_equal(request(0, 8), ""); /* they are offered already, and the last has no agent */
  world_join(&world, 5);
  assert_string_equal(request(0, 8), "h5");
  for (int i = 0; i < 40; i++) world_pass(&world, 0); /* nobody has used them in this time */
  assert_string_equal(request(0, 8), "h2 h3 h4 h5");
  world_end(&world);
}

/* A job has left, or lost its host, whose agent comes again. */
static void test_freed(void **state) {
  (void)state;
  begin("star:3,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 3);
  assert_string_equal(request(0, 8), "");
  struct by_cluster_message left = {.type = BY_MESSAGE_LEFT, .job = job->id};
  assert_ok(by_manager_handle(world.manager, world.hosts[0].peer, &left, world.now));
  job->runs = false;
  world_part(&world, 2);
  assert_string_equal(request(0, 8), "h0 h1");
  world_join(&world, 2);
  assert_string_equal(request(0, 8), "h2");
  world_end(&world);
}

/* What is no host of the topology is not offered, and nobody but agents gets offers. */
static void test_strangers(void **state) {
  struct by_manager_peer *peer;
  struct by_cluster_message hello = {.type = BY_MESSAGE_HELLO, .version = BY_CLUSTER_VERSION, .host = "stranger"};
  struct by_cluster_message report = {.type = BY_MESSAGE_REPORT};
  struct by_cluster_message wanted = {.type = BY_MESSAGE_WANTED, .number = 1, .count = 1};
  (void)state;
  begin("star:2,nic=1g");
  world_run(&world, 0, 1, 2);
  assert_ok(by_manager_joined(world.manager, &world.hosts[7], BY_ROLE_AGENT, "stranger", world.now, &peer));
  assert_int_equal(by_manager_handle(world.manager, peer, &wanted, world.now), BANYAN_ERR_PROTOCOL); /* before hello */
  assert_ok(by_manager_handle(world.manager, peer, &hello, world.now));
  assert_ok(by_manager_handle(world.manager, peer, &report, world.now));
  assert_string_equal(request(0, 8), "");
  by_manager_gone(world.manager, peer, world.now);
  assert_ok(by_manager_joined(world.manager, &world.hosts[7], BY_ROLE_JOB, "h1", world.now, &peer));
  hello.host = "h1";
  hello.job = "0123456789abcdef0123456789abcdef";
  assert_ok(by_manager_handle(world.manager, peer, &hello, world.now));
  assert_int_equal(by_manager_handle(world.manager, peer, &wanted, world.now), BANYAN_ERR_PROTOCOL);
  by_manager_gone(world.manager, peer, world.now);
  world_end(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_free_hosts), cmocka_unit_test(test_freed),
                                     cmocka_unit_test(test_strangers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
