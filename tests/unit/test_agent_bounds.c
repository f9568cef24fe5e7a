/* Tests of how much of an agent one user, and all users together, may use. */
#include "agent_world.h"

/* Reports as much as a user may, with the longest possible texts. */
static void report_much(struct by_agent_rank *rank, const char *job) {
  enum { NAME = BY_CLUSTER_NAME };
  char names[BY_CLUSTER_PATHS][NAME + 1];
  struct by_cluster_path paths[BY_CLUSTER_PATHS];
  struct by_cluster_size sizes[BY_CLUSTER_SIZES];
  uint32_t r = 0;
  struct by_cluster_job job_report = {
      .job = job, .n_ranks = 1, .ranks = &r, .calls = 1, .n_paths = BY_CLUSTER_PATHS, .paths = paths};
  struct by_cluster_message report = {.type = BY_MESSAGE_REPORT, .n_jobs = 1, .jobs = &job_report};
  struct by_text line;
  for (uint32_t i = 0; i < BY_CLUSTER_PATHS; i++) {
    memset(names[i], '"', NAME);
    snprintf(names[i] + NAME - 3, 4, "%03u", i);
    paths[i] = (struct by_cluster_path){.to = names[i], .sent = 1e17 / 3, .busy = 1e-9 / 3, .bandwidth = 1e17 / 3};
  }
  for (uint32_t i = 0; i < BY_CLUSTER_SIZES; i++)
    sizes[i] = (struct by_cluster_size){.log2 = i, .calls = (uint64_t)INT64_MAX - i};
  job_report.sizes = sizes;
  job_report.n_sizes = BY_CLUSTER_SIZES;
  by_text_init(&line);
  by_cluster_message_print(&report, &line);
  assert_true(by_agent_handle_rank(world.agent, rank, by_text_get(&line), line.length, world.now));
  by_text_fini(&line);
}

/* If the paths exceed a message, the report leaves them out and keeps what is essential. */
static void test_much(void **state) {
  static struct received received[BY_AGENT_JOBS / 2];
  static char jobs[BY_AGENT_JOBS / 2][BY_CLUSTER_JOB_ID + 1];
  (void)state;
  make_world("m:1", true);
  connect_manager();
  for (uint32_t j = 0; j < BY_AGENT_JOBS / 2; j++) {
    snprintf(jobs[j], sizeof jobs[j], "%032x", j);
    report_much(join(&received[j], jobs[j], 0), jobs[j]);
  }
  forget(&world.manager);
  pass(WORLD_INTERVAL);
  const char *line = last_with(&world.manager, "report");
  must_hold(line, "\"eth0\"");
  must_hold(line, jobs[BY_AGENT_JOBS / 2 - 1]);
  assert_null(strstr(line, "paths"));
  for (uint32_t j = 0; j < BY_AGENT_JOBS / 2; j++) forget(&received[j]);
  drop_all();
}

/* One user may take half of each limit. */
static void test_bounds(void **state) {
  static struct received many[BY_AGENT_RANKS];
  struct by_agent_rank *last = NULL, *more;
  char line[200];
  (void)state;
  make_world(NULL, true);
  for (unsigned i = 0; i < BY_AGENT_RANKS / 2; i++) last = come(&many[i], 1);
  assert_status(by_agent_rank_came(world.agent, NULL, 1, world.now, &more), BANYAN_ERR_UNSUPPORTED);
  for (unsigned i = BY_AGENT_RANKS / 2; i < BY_AGENT_RANKS; i++) come(&many[i], 0);
  assert_status(by_agent_rank_came(world.agent, NULL, 0, world.now, &more), BANYAN_ERR_UNSUPPORTED);
  by_agent_rank_gone(world.agent, last, world.now);
  assert_ok(by_agent_rank_came(world.agent, &many[0], 1, world.now, &more));
  drop_world();
  make_world(NULL, true);
  for (unsigned i = 0; i <= BY_AGENT_JOBS + 1; i++) {
    unsigned uid = i <= BY_AGENT_JOBS / 2 ? 1 : 0;
    snprintf(line, sizeof line, "{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"job\":\"%032x\",\"rank\":0}", i);
    assert_int_equal(type(come(&many[i], uid), line), i != BY_AGENT_JOBS / 2 && i <= BY_AGENT_JOBS);
  }
  must_hold(last_with(&many[BY_AGENT_JOBS / 2], "refused"), "user 1 has 256 jobs here already");
  must_hold(last_with(&many[BY_AGENT_JOBS + 1], "refused"), "512 jobs already");
  drop_world();
  for (unsigned i = 0; i < BY_AGENT_RANKS; i++) forget(&many[i]);
}

/* One user sends as much as it can. The manager receives what it can handle, including the other users' messages, and
 * in the end the last state of everything. */
static void test_flood(void **state) {
  enum { LINES = 2000 };
  char line[200];
  (void)state;
  make_world("m:1", true);
  connect_manager();
  struct by_agent_rank *loud = join(&zero, JOB_A, 0);
  assert_true(type(loud, JOB_LINE(JOB_A)));
  for (int i = 0; i < 900; i++) {
    snprintf(line, sizeof line, "{\"type\":\"switched\",\"job\":\"" JOB_A "\",\"number\":%d,\"at\":1}", i);
    if (i % 200 == 0 && i <= 800) forget(&world.manager);
    assert_true(type(loud, line));
  }
  assert_int_equal(world.manager.n, 0); /* The 512 lines of this user are used up. */
  struct by_agent_rank *other_one = come(&other, 1001);
  assert_true(type(other_one, "{\"type\":\"hello\",\"version\":3,\"host\":\"h1\",\"job\":\"" JOB_B "\",\"rank\":0}"));
  assert_true(type(other_one, JOB_LINE(JOB_B)));
  assert_int_equal(world.manager.n, 1);
  pass(1);
  must_hold(last_with(&world.manager, "switched"), "\"number\":899");
  forget(&world.manager);
  forget(&zero);
  for (int i = 0; i < LINES && zero.n == 0; i++) (void)!type(loud, line);
  must_hold(last_with(&zero, "refused"), "more than 200 lines");
  drop_all();
}

/* The sum of two ranks' numbers exceeds what a message may hold. */
static void test_large_sums(void **state) {
  struct by_cluster_message read;
  (void)state;
  make_world("m:1", true);
  connect_manager();
  assert_true(report(join(&zero, JOB_A, 0), JOB_A, 0, 1, INT64_MAX));
  assert_true(report(join(&one, JOB_A, 1), JOB_A, 1, 1, INT64_MAX));
  pass(1);
  const char *line = last_with(&world.manager, "report");
  assert_ok(by_cluster_message_read(line, strlen(line), &read));
  by_cluster_message_fini(&read);
  drop_all();
}

/* One user may take a quarter of the memory for the descriptions of all jobs. */
static void test_long_lines(void **state) {
  struct by_text text;
  (void)state;
  make_world(NULL, true);
  by_text_init(&text);
  by_text_add(&text,
              "{\"type\":\"job\",\"job\":\"00000000000000000000000000000000\",\"name\":\"n\",\"size\":4000,\"root\":"
              "\"r\",\"hosts\":[");
  for (int i = 0; i < 4000; i++) by_text_add(&text, "%s\"%0200d\"", i ? "," : "", i);
  by_text_add(&text, "]}");
  for (int i = 0; i < 21; i++) {
    char hello[200], *id = strstr(text.data, "0000000");
    struct by_agent_rank *rank = come(&one, 7);
    id[0] = (char)('0' + i / 10);
    id[1] = (char)('0' + i % 10);
    snprintf(hello, sizeof hello, "{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"job\":\"%.32s\",\"rank\":0}", id);
    assert_true(type(rank, hello));
    assert_int_equal(type(rank, by_text_get(&text)), i < 20); /* Each line has 0.8 MB. */
    id[0] = id[1] = '0';
    if (i == 20) must_hold(last_with(&one, "refused"), "what is kept of the jobs of user 7");
    forget(&one);
  }
  by_text_fini(&text);
  drop_all();
}

/* Reports paths to many hosts, beginning at `first`. The more distant a host, the more is sent to it. */
static void report_paths(struct by_agent_rank *rank, const char *job, uint32_t r, unsigned first) {
  char names[BY_CLUSTER_PATHS][16];
  struct by_cluster_path paths[BY_CLUSTER_PATHS];
  struct by_cluster_job job_report = {
      .job = job, .n_ranks = 1, .ranks = &r, .calls = 1, .n_paths = BY_CLUSTER_PATHS, .paths = paths};
  struct by_cluster_message message = {.type = BY_MESSAGE_REPORT, .n_jobs = 1, .jobs = &job_report};
  struct by_text line;
  for (unsigned i = 0; i < BY_CLUSTER_PATHS; i++) {
    snprintf(names[i], sizeof names[i], "host%u", first + i);
    paths[i] = (struct by_cluster_path){.to = names[i], .sent = 1e6 * (first + i + 1), .busy = 0.5};
  }
  by_text_init(&line);
  by_cluster_message_print(&message, &line);
  assert_true(by_agent_handle_rank(world.agent, rank, by_text_get(&line), line.length, world.now));
  by_text_fini(&line);
}

/* There are more paths than may be reported: those that carry most, of all ranks together, are reported. */
static void test_largest_paths(void **state) {
  struct by_cluster_message read;
  (void)state;
  make_world("m:1", true);
  connect_manager();
  report_paths(join(&zero, JOB_A, 0), JOB_A, 0, 32);
  report_paths(join(&one, JOB_A, 1), JOB_A, 1, 0); /* Half of these paths equal those of the other rank. */
  pass(WORLD_INTERVAL);
  const char *line = last_with(&world.manager, "report");
  assert_ok(by_cluster_message_read(line, strlen(line), &read));
  assert_int_equal(read.jobs[0].n_paths, BY_CLUSTER_PATHS);
  for (uint32_t i = 0; i < BY_CLUSTER_PATHS; i++) {
    double sent = read.jobs[0].paths[i].sent;
    assert_true(sent >= 33e6);
    assert_true(!i || sent <= read.jobs[0].paths[i - 1].sent);
  }
  assert_string_equal(read.jobs[0].paths[0].to, "host63"); /* This path carries 2 x 64 MB. */
  by_cluster_message_fini(&read);
  drop_all();
}

/* There are more jobs than can have all of their paths reported: some paths of each job are reported. */
static void test_paths_of_many(void **state) {
  enum { JOBS = 20 };
  static struct received received[JOBS];
  struct by_cluster_message read;
  char job[BY_CLUSTER_JOB_ID + 1];
  (void)state;
  make_world("m:1", true);
  connect_manager();
  for (unsigned j = 0; j < JOBS; j++) {
    snprintf(job, sizeof job, "%032x", j);
    report_paths(join(&received[j], job, 0), job, 0, 0);
  }
  pass(WORLD_INTERVAL);
  const char *line = last_with(&world.manager, "report");
  assert_ok(by_cluster_message_read(line, strlen(line), &read));
  assert_int_equal(read.n_jobs, JOBS);
  for (uint32_t j = 0; j < JOBS; j++) assert_true(read.jobs[j].n_paths >= 50);
  by_cluster_message_fini(&read);
  drop_all();
  for (unsigned j = 0; j < JOBS; j++) forget(&received[j]);
}

/* A connection that keeps changing between fast and slow is no longer reported at once after a while. */
static void test_news(void **state) {
  enum { SECONDS = 400 };
  char line[400];
  int reports = 0;
  (void)state;
  make_world("m:1", true);
  connect_manager();
  struct by_agent_rank *rank = join(&zero, JOB_A, 0);
  for (int i = 0; i < 10 * SECONDS; i++) {
    snprintf(line, sizeof line,
             "{\"type\":\"report\",\"jobs\":[{\"job\":\"" JOB_A
             "\",\"ranks\":[0],\"iterations\":1,\"iteration_time\":1,\"sent\":1,\"input\":1,\"calls\":1,"
             "\"sizes\":[],\"paths\":[{\"to\":\"b\",\"sent\":1,\"busy\":1,\"bandwidth\":%d}]}]}",
             i % 2 ? 1 : 1000);
    assert_true(type(rank, line));
    pass(0.1);
    reports += count_with(&world.manager, "report");
    forget(&world.manager);
  }
  assert_in_range(reports, SECONDS / WORLD_INTERVAL, 3 * SECONDS / WORLD_INTERVAL);
  drop_all();
}

/* Connecting again does not increase how much a user may send. */
static void test_reconnecting(void **state) {
  enum { TIMES = 40, LINES = 900 };
  bool heard_out = true;
  (void)state;
  make_world(NULL, true);
  for (int i = 0; i < TIMES && heard_out; i++) {
    struct by_agent_rank *rank = join(&zero, JOB_A, 0);
    for (int l = 0; l < LINES && heard_out; l++) heard_out = report(rank, JOB_A, 0, 1, 1);
    if (!heard_out) must_hold(last_with(&zero, "refused"), "all processes of user 1000 together");
    if (heard_out) by_agent_rank_gone(world.agent, rank, world.now);
    forget(&zero);
  }
  assert_false(heard_out);
  struct by_agent_rank *another = come(&other, 1001);
  assert_true(type(another, "{\"type\":\"hello\",\"version\":3,\"host\":\"h1\",\"job\":\"" JOB_B "\",\"rank\":0}"));
  drop_all();
}

int main(void) {
  setenv("BANYAN_LOG", "error", 0); /* Many warnings are expected. */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bounds),        cmocka_unit_test(test_flood),      cmocka_unit_test(test_much),
      cmocka_unit_test(test_large_sums),    cmocka_unit_test(test_long_lines), cmocka_unit_test(test_largest_paths),
      cmocka_unit_test(test_paths_of_many), cmocka_unit_test(test_news),       cmocka_unit_test(test_reconnecting)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
