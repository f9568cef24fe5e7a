/* Tests of which reports the manager trusts, and from which sender. */
#include "../manager_view.h"

/* ---- jobs ---- */

/* Hosts may report such large numbers that their sum is no number in JSON: the state can be read all the same. */
static void test_more_than_can_be_sent(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 3);
  job->sent = UINT64_MAX; /* Each host reports a third of it. */
  world_report_job(&world, job);
  json_t *all = get_state();
  assert_true(json_integer_value(json_object_get(job_of(all, 0), "sent")) == INT64_MAX);
  json_decref(all);
  world_end(&world);
}

/* A job that keeps reporting unknown plan numbers is planned for later each time, at no cost to others. */
static void test_unknown_numbers(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  for (int i = 0; i < 60; i++) { /* This is 120 s. */
    pass_and_plan(1, 0);
    world_send(&world, job, BY_MESSAGE_SWITCHED, job->number + 1);
  }
  assert_in_range(by_manager_get_counters(world.manager).planned, 4, 8);
  world_end(&world);
}

/* One user claims that there is a job on all hosts. */
static void test_fake(void **state) {
  (void)state;
  begin("star:6,nic=1g");
  struct world_job *job = world_send_run(&world, 0, 1, 6);
  job->fake = true;
  world_part(&world, 5); /* The last host has no agent. */
  pass_and_plan(20, 1000000);
  assert_int_equal(by_manager_get_counters(world.manager).planned, 0);
  assert_trouble(0, "the agent on \"h1\" knows none of its ranks there: have they BANYAN_AGENT=off");
  job->fake = false;
  world_pass(&world, 1000000);
  by_manager_tick(world.manager, world.now);
  json_t *all = get_state();
  assert_string_equal(json_string_value(json_object_get(job_of(all, 0), "why")), "");
  json_decref(all);
  world_plan(&world);
  assert_true(job->number > 0);
  world_end(&world);
}

/* Agents may have reported the job before its rank 0 has arrived. */
static void test_reported_before(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  world_part(&world, 0);
  world_run(&world, 0, 1, 4);
  world_join(&world, 0);
  world_plan(&world);
  assert_int_equal(world.plans, 1);
  world_end(&world);
}

/* Whatever a job claims to send, it counts as no more than its plan allows. */
static void test_claims(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  world_run(&world, 0, 1, 4);
  for (int i = 0; i < 5; i++) pass_and_plan(1, 1ull << 55);
  json_t *all = get_state();
  double rate = json_number_value(json_object_get(job_of(all, 0), "input_rate"));
  assert_true(rate > 0.5e9 && rate < 1e9);
  json_decref(all);
  world_end(&world);
}

static void check_length(uint32_t j, uint64_t expected, double left) {
  json_t *all = get_state();
  const json_t *seconds = json_object_get(job_of(all, j), "seconds_left");
  assert_int_equal(json_integer_value(json_object_get(job_of(all, j), "expected")), expected);
  if (expected)
    assert_true(json_number_value(seconds) == left);
  else
    assert_true(json_is_null(seconds));
  json_decref(all);
}

static void report_length(struct world_job *job, uint64_t expected) {
  job->expected = expected;
  world_report_job(&world, job);
}

/* Rank 0 reports how long the job is, and only once. */
static void test_length(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  job->began = 4;
  world_send_job(&world, job);
  job->iterations = 20;
  job->iteration_time = 0.5;
  report_length(job, 0);
  check_length(0, 0, 0);
  report_length(job, 100);
  check_length(0, 100, 40);
  struct by_cluster_job other = {.job = job->id, .expected = 30, .iterations = 20, .iteration_time = 0.5};
  assert_ok(by_manager_handle(world.manager, world.hosts[1].peer,
                              &(struct by_cluster_message){.type = BY_MESSAGE_REPORT, .n_jobs = 1, .jobs = &other},
                              world.now));
  check_length(0, 100, 40);
  report_length(job, 0); /* This is an agent that was started again and has not received the length. */
  check_length(0, 100, 40);
  report_length(job, 60);
  check_length(0, 60, 20);
  report_length(job, 61);
  check_length(0, 0, 0);
  report_length(job, 60);
  check_length(0, 0, 0);
  job->began = 5; /* This is another job with the same secret. */
  world_send_job(&world, job);
  world_report_job(&world, job);
  check_length(0, 60, 20);
  world_end(&world);
}

static void check_limit(double seconds) {
  json_t *all = get_state();
  const json_t *ends_in = json_object_get(job_of(all, 0), "ends_in");
  if (seconds < 0)
    assert_true(json_is_null(ends_in));
  else
    assert_float_equal(json_number_value(ends_in), seconds, 1e-3);
  json_decref(all);
}

/* The time until the end passes here, also if nothing more is reported. A job that goes on after its end is one of
 * which nothing is known. */
static void test_limit(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  job->iterations = 20;
  job->iteration_time = 0.5;
  world_report_job(&world, job);
  check_limit(-1);
  job->ends_in = 100;
  world_report_job(&world, job);
  check_limit(100);
  check_length(0, 0, 0);
  report_length(job, 1000);
  check_length(0, 1000, 100);
  report_length(job, 60);
  check_length(0, 60, 20);
  double began = world.now;
  job->expected = 0;
  job->ends_in = 0;
  while (world.now < began + 50) pass_and_plan(1, 0);
  check_limit(began + 100 - world.now);
  while (world.now < began + 170) pass_and_plan(1, 0);
  check_limit(-1);
  job->ends_in = 100;
  world_report_job(&world, job);
  check_limit(-1);
  world_end(&world);
}

/* A job that makes more iterations than it reported counts as a job that has reported no length. */
static void test_longer_than_announced(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  job->expected = 10;
  pass_and_plan(12, 1000000);
  check_length(0, 10, 0);
  pass_and_plan(1, 1000000);
  check_length(0, 0, 0);
  report_length(job, 5000);
  check_length(0, 0, 0);
  world_end(&world);
}

/* An answer is not awaited for ever, however long a job claims its iterations to be. */
static void test_long_iterations(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  job->iteration_time = 1e200;
  world_report_job(&world, job);
  job->silent = true;
  world_plan(&world);
  assert_state(0, "switching");
  for (int i = 0; i < 130; i++) { /* This is 3900 s. */
    world.now += 28;
    pass_and_plan(1, 0);
  }
  assert_int_equal(world.plans, 2); /* The job was asked once more. */
  world_end(&world);
}

/* For a host without an agent, the job's own report counts once the agent has had time to connect. */
static void test_host_without_agent(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  world_part(&world, 3);
  world_run(&world, 0, 1, 4);
  pass_and_plan(2, 1000000);
  assert_int_equal(world.plans, 0);
  pass_and_plan(2, 1000000);
  assert_int_equal(world.plans, 1);
  world_end(&world);
}

static void test_too_many_of_one(void **state) {
  static const char *const hosts[] = {"h0", "h1"};
  enum { MOST = 512 };
  (void)state;
  begin("star:3,nic=1g");
  for (unsigned j = 0; j <= MOST + 1; j++) {
    char id[BY_CLUSTER_JOB_ID + 1];
    snprintf(id, sizeof id, "%032x", j <= MOST ? 100 + j : 100); /* The last job exists already. */
    struct by_cluster_message message = {
        .type = BY_MESSAGE_JOB, .job = id, .name = "n", .root = "10.0.0.1:1", .n_hosts = 2, .hosts = hosts};
    assert_ok(by_manager_handle(world.manager, world.hosts[0].peer, &message, world.now));
    assert_int_equal(by_manager_get_counters(world.manager).refused, j >= MOST);
  }
  world_run(&world, 1, 1, 2); /* This job belongs to another host. */
  assert_int_equal(by_manager_get_counters(world.manager).refused, 1);
  world_end(&world);
}

/* ---- certificates ---- */

static enum banyan_status hello(const char *host, uint32_t version, enum by_manager_role role, const char *name,
                                struct by_manager_peer **peer) {
  struct by_cluster_message message = {.type = BY_MESSAGE_HELLO, .version = version, .host = host};
  assert_ok(by_manager_joined(world.manager, &world.hosts[WORLD_HOSTS - 1], role, name, world.now, peer));
  return by_manager_handle(world.manager, *peer, &message, world.now);
}

static void test_refused(void **state) {
  struct by_manager_peer *peer;
  (void)state;
  begin("star:4,nic=1g");
  world_part(&world, 3);
  /* This would be a second agent of the host. */
  assert_status(hello("h0", BY_CLUSTER_VERSION, BY_ROLE_AGENT, "h0", &peer), BANYAN_ERR_PROTOCOL);
  by_manager_gone(world.manager, peer, world.now);
  assert_status(hello("h3", BY_CLUSTER_VERSION, BY_ROLE_AGENT, "h1", &peer), BANYAN_ERR_AUTH);
  by_manager_gone(world.manager, peer, world.now);
  assert_status(hello("h3", BY_CLUSTER_VERSION, BY_ROLE_JOB, "h3", &peer), BANYAN_ERR_AUTH);
  by_manager_gone(world.manager, peer, world.now);
  assert_status(hello("h3", BY_CLUSTER_VERSION + 1, BY_ROLE_AGENT, "h3", &peer), BANYAN_ERR_PROTOCOL);
  by_manager_gone(world.manager, peer, world.now);
  assert_ok(hello("h3", BY_CLUSTER_VERSION, BY_ROLE_AGENT, "h3", &peer));
  const char *hosts[] = {"h0", "h1"};
  struct by_cluster_message job = {.type = BY_MESSAGE_JOB,
                                   .job = "0123456789abcdef0123456789abcdef",
                                   .name = "n",
                                   .root = "10.0.0.1:1",
                                   .hosts = hosts,
                                   .n_hosts = 2};
  /* The job belongs to another host and this agent only passes its messages on, so the job stays. */
  assert_ok(by_manager_handle(world.manager, peer, &job, world.now));
  by_manager_gone(world.manager, peer, world.now);
  assert_int_equal(by_manager_get_counters(world.manager).refused, 5);
  world_end(&world);
}

static enum banyan_status job_hello(const char *host, const char *name, const char *job,
                                    struct by_manager_peer **peer) {
  struct by_cluster_message message = {
      .type = BY_MESSAGE_HELLO, .version = BY_CLUSTER_VERSION, .host = host, .job = job};
  assert_ok(by_manager_joined(world.manager, &world.hosts[WORLD_HOSTS - 1], BY_ROLE_JOB, name, world.now, peer));
  return by_manager_handle(world.manager, *peer, &message, world.now);
}

/* A job's certificate is valid for jobs that begin on its host, and no other certificate is accepted for a job that
 * was begun with it. */
static void test_certificates_of_jobs(void **state) {
  static const char id[] = "0123456789abcdef0123456789abcdef";
  const char *hosts[] = {"h3", "h1"};
  struct by_cluster_message job = {
      .type = BY_MESSAGE_JOB, .job = id, .name = "n", .root = "10.0.0.1:1", .hosts = hosts, .n_hosts = 2};
  struct by_cluster_job operations = {.job = id, .sent = 1 << 30};
  struct by_cluster_message report = {.type = BY_MESSAGE_REPORT, .jobs = &operations, .n_jobs = 1};
  struct by_manager_peer *own, *thief;
  (void)state;
  begin("star:4,nic=1g");
  world_part(&world, 3);
  assert_status(job_hello("h3", "h1", id, &thief), BANYAN_ERR_AUTH);
  by_manager_gone(world.manager, thief, world.now);
  assert_status(hello("h3", BY_CLUSTER_VERSION, BY_ROLE_AGENT, "h3", &own), BANYAN_OK);
  assert_ok(by_manager_handle(world.manager, own, &job, world.now));
  assert_ok(job_hello("h3", "h3", id, &thief));
  assert_status(by_manager_handle(world.manager, thief, &job, world.now), BANYAN_ERR_PROTOCOL);
  assert_ok(by_manager_handle(world.manager, thief, &report, world.now));
  json_t *all = get_state();
  assert_int_equal(json_integer_value(json_object_get(job_of(all, 0), "sent")), 0);
  json_decref(all);
  by_manager_gone(world.manager, thief, world.now);
  by_manager_gone(world.manager, own, world.now);
  assert_ok(job_hello("h1", "h1", id, &thief)); /* Another host is not accepted either while the job may come back. */
  hosts[0] = "h1";
  assert_status(by_manager_handle(world.manager, thief, &job, world.now), BANYAN_ERR_PROTOCOL);
  by_manager_gone(world.manager, thief, world.now);
  world_end(&world);
}

static void test_silent_agent_gives_way(void **state) {
  struct by_manager_peer *peer;
  (void)state;
  begin("star:2,nic=1g");
  world.now += 100; /* The agent's host has lost power, so the connection was not closed. */
  assert_ok(hello("h0", BY_CLUSTER_VERSION, BY_ROLE_AGENT, "h0", &peer));
  world_part(&world, 0);
  by_manager_gone(world.manager, peer, world.now);
  world_end(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_more_than_can_be_sent),
      cmocka_unit_test(test_unknown_numbers),
      cmocka_unit_test(test_fake),
      cmocka_unit_test(test_reported_before),
      cmocka_unit_test(test_claims),
      cmocka_unit_test(test_long_iterations),
      cmocka_unit_test(test_host_without_agent),
      cmocka_unit_test(test_too_many_of_one),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_certificates_of_jobs),
      cmocka_unit_test(test_silent_agent_gives_way),
      cmocka_unit_test(test_length),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_longer_than_announced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
