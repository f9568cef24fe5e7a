/* Tests of how an agent handles the messages of ranks and of the manager. The test sets the clock, so years pass at
 * once. */
#include "agent_world.h"

/* ---- without a manager ---- */

static void test_classes_alone(void **state) {
  (void)state;
  make_world(NULL, true);
  struct by_agent_rank *a = join(&zero, JOB_A, 0), *b = join(&one, JOB_A, 1), *c = join(&other, JOB_B, 0);
  must_hold(zero.lines[0], "\"type\":\"welcome\"");
  must_hold(zero.lines[0], "\"host\":\"h1\""); /* The agent sends the rank the name of its host. */
  must_hold(zero.lines[1], "\"class\":0");
  assert_true(report(a, JOB_A, 0, 5, 100000) && report(c, JOB_B, 0, 20, 100));
  pass(WORLD_INTERVAL);
  assert_int_equal(zero.n, 2); /* These are the job's first iterations, so its class has not changed. */
  must_hold(other.lines[2], "\"" JOB_B "\",\"class\":1");
  assert_true(report(a, JOB_A, 0, 10, 700) && report(b, JOB_A, 1, 10, 700));
  pass(WORLD_INTERVAL);
  assert_int_equal(zero.n, 3); /* The job has sent 1400 bytes on this host. */
  must_hold(zero.lines[2], "\"" JOB_A "\",\"class\":2");
  must_hold(one.lines[2], "\"class\":2");
  assert_int_equal(other.n, 3);
  assert_true(report(a, JOB_A, 0, 11, 20000));
  pass(WORLD_INTERVAL);
  must_hold(one.lines[3], "\"class\":3");
  assert_int_equal(world.manager.n + world.connects, 0);
  drop_all();
}

/* Of two jobs that have sent about as much, the one that came first has the higher class, or both share the link. */
static void test_order_alone(void **state) {
  (void)state;
  for (int equal = 0; equal < 2; equal++) {
    make_world_by(NULL, true, (struct by_priority_rules){.iterations = 10, .threshold = 1000, .equal = equal});
    struct by_agent_rank *a = join(&zero, JOB_A, 0), *b = join(&other, JOB_B, 0);
    assert_true(report(a, JOB_A, 0, 20, 300) && report(b, JOB_B, 0, 20, 200));
    pass(WORLD_INTERVAL);
    must_hold(last_with(&zero, "classes"), "\"class\":1");
    must_hold(last_with(&other, "classes"), equal ? "\"class\":1" : "\"class\":2");
    by_agent_rank_gone(world.agent, a, world.now);
    pass(WORLD_INTERVAL);
    must_hold(last_with(&other, "classes"), "\"class\":1");
    drop_all();
  }
}

static void test_refusals(void **state) {
  static const struct {
    const char *lines[2], *why;
  } cases[] = {
      {{"what?"}, "cluster message"},
      {{"{\"type\":\"report\",\"jobs\":[]}"}, "before \\\"hello\\\""},
      {{"{\"type\":\"hello\",\"version\":4,\"host\":\"h\",\"job\":\"" JOB_B "\",\"rank\":0}"}, "version 4"},
      {{"{\"say\":\"hello\",\"version\":1,\"host\":\"h\",\"job\":\"" JOB_B "\",\"rank\":0}"},
       "is of version 1 of the protocol, this Banyan uses version 3"},
      {{"{\"type\":\"hello\",\"version\":3,\"host\":\"h\"}"}, "names no job"},
      {{"{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"job\":\"" JOB_A "\",\"rank\":1}"}, "is of user 1000"},
      {{"{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"job\":\"" JOB_B "\",\"rank\":1}", JOB_LINE(JOB_B)},
       "is for rank 0"},
      {{"{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"job\":\"" JOB_B "\",\"rank\":0}", JOB_LINE(JOB_A)},
       "of its own job"},
      {{"{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"job\":\"" JOB_B "\",\"rank\":0}",
        "{\"type\":\"report\",\"jobs\":[]}"},
       "more or less than itself"},
      {{"{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"job\":\"" JOB_B "\",\"rank\":0}", WELCOME},
       "not for a rank to send"},
      {{"{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"job\":\"" JOB_B "\",\"rank\":0}",
        "{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"job\":\"" JOB_B "\",\"rank\":0}"},
       "hello twice"},
  };
  (void)state;
  make_world(NULL, true);
  join(&zero, JOB_A, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_agent_rank *rank = come(&one, 1001);
    bool goes_on = type(rank, cases[i].lines[0]);
    if (cases[i].lines[1]) {
      assert_true(goes_on);
      goes_on = type(rank, cases[i].lines[1]);
    }
    assert_false(goes_on);
    /* The refusal can be read by both versions of the protocol. */
    must_hold(one.lines[one.n - 1], "\"type\":\"refused\",\"say\":\"refused\",\"why\":");
    must_hold(one.lines[one.n - 1], cases[i].why);
    forget(&one);
  }
  struct by_text text;
  by_text_init(&text);
  by_agent_print(world.agent, 0, world.now, &text);
  must_hold(by_text_get(&text), "\"refused\":11");
  must_hold(by_text_get(&text), "\"ranks\":[0]"); /* The other rank has not been affected. */
  by_text_fini(&text);
  drop_all();
}

/* Which user asks is what the kernel says, and the host is the agent's own. */
static void test_statements(void **state) {
#define FINGERPRINT "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  static const char line[] = "{\"type\":\"certify\",\"job\":\"" JOB_A "\",\"process\":\"" FINGERPRINT "\"}";
  (void)state;
  make_world(NULL, true);
  assert_false(type(come(&one, 77), line)); /* It has been answered, and the connection ends. */
  assert_int_equal(one.n, 1);
  assert_string_equal(one.lines[0], "{\"type\":\"certified\",\"statement\":\"12ef\"}");
  assert_int_equal(world.stated.user, 77);
  assert_string_equal(world.stated.host, "h1");
  assert_string_equal(world.stated.job, JOB_A);
  assert_int_equal(world.stated.process.bytes[1], 0x23);
  forget(&one);
  assert_false(type(come(&one, 77), "{\"type\":\"certify\",\"job\":\"" JOB_A "\",\"process\":\"12\"}"));
  must_hold(one.lines[0], "\"12\\\", which is no fingerprint");
  forget(&one);
  world.no_certificate = true;
  assert_false(type(come(&one, 77), line));
  must_hold(one.lines[0], "there is no certificate");
  drop_all();
}

static void test_status(void **state) {
  (void)state;
  make_world(NULL, true);
  struct by_agent_rank *asks = come(&one, 77);
  join(&zero, JOB_A, 3);
  assert_false(type(asks, "{\"type\":\"status\"}"));
  assert_int_equal(one.n, 1);
  must_hold(one.lines[0], "\"host\":\"h1\"");
  must_hold(one.lines[0], "\"classed_by\":\"agent\",\"ranks\":[3]");
  must_hold(one.lines[0], "\"job\":\"aaaaaaaaaaaa\""); /* The job belongs to another user, so its ID is shortened. */
  forget(&one);
  assert_false(type(come(&one, 1000), "{\"type\":\"status\"}"));
  must_hold(one.lines[0], JOB_A);
  drop_all();
}

/* A rank whose connection was cut off and that connects again replaces its old connection. */
static void test_rank_again(void **state) {
  (void)state;
  make_world(NULL, true);
  struct by_agent_rank *old = join(&zero, JOB_A, 0);
  assert_true(type(old, JOB_LINE(JOB_A)));
  struct by_agent_rank *new = join(&one, JOB_A, 0);
  assert_true(zero.ended);
  must_hold(last_with(&zero, "refused"), "connected once more");
  assert_true(report(new, JOB_A, 0, 50, 2000));
  pass(WORLD_INTERVAL);
  must_hold(last_with(&one, "classes"), "\"class\":2");
  by_agent_rank_gone(world.agent, new, world.now);
  drop_all();
}

/* ---- with a manager ---- */

static void test_reports_all(void **state) {
  (void)state;
  make_world("m:1", true);
  struct by_agent_rank *rank = join(&zero, JOB_A, 0);
  assert_true(type(rank, JOB_LINE(JOB_A)));
  assert_true(type(rank, "{\"type\":\"kept\",\"job\":\"" JOB_A "\",\"number\":1,\"why\":\"no\"}"));
  assert_true(type(rank, "{\"type\":\"switched\",\"job\":\"" JOB_A "\",\"number\":2,\"at\":9}"));
  assert_true(type(rank, "{\"type\":\"released\",\"job\":\"" JOB_A "\",\"number\":1}"));
  connect_manager();
  assert_int_equal(world.manager.n, 5);
  must_hold(world.manager.lines[0],
            "\"type\":\"hello\",\"version\":3,\"host\":\"h1\",\"interfaces\":[{\"name\":\"eth0\","
            "\"address\":\"10.0.0.1\",\"rate\":1000000000}],\"may_help\":true");
  must_hold(world.manager.lines[1], "\"type\":\"job\"");
  must_hold(world.manager.lines[1], "\"key\":\"k\"");
  must_hold(world.manager.lines[2], "\"type\":\"switched\"");
  must_hold(world.manager.lines[3], "\"type\":\"released\"");
  must_hold(world.manager.lines[4], "\"ranks\":[0]");
  assert_true(world.rate == 5e8);
  must_hold(last_with(&zero, "welcome"), "\"rate\":500000000");
  forget(&world.manager);
  by_agent_manager_gone(world.agent, "it has died", world.now);
  pass(1);
  assert_int_equal(world.connects, 2);
  by_agent_manager_came(world.agent, world.now);
  assert_int_equal(world.manager.n, 5);
  must_hold(world.manager.lines[2], "\"number\":2");
  must_hold(world.manager.lines[3], "\"type\":\"released\",\"job\":\"" JOB_A "\",\"number\":1");
  assert_true(type(rank, "{\"type\":\"kept\",\"job\":\"" JOB_A "\",\"number\":3,\"why\":\"no\"}"));
  by_agent_manager_gone(world.agent, "it has died", world.now);
  forget(&world.manager);
  pass(1);
  by_agent_manager_came(world.agent, world.now);
  must_hold(world.manager.lines[0], "\"age\":2");
  /* The agent reports the plan in use, although the job did not take another plan. */
  must_hold(world.manager.lines[2], "\"type\":\"switched\"");
  must_hold(world.manager.lines[3], "\"type\":\"kept\"");
  assert_true(type(rank, JOB_LINE(JOB_A))); /* This is another job of the same name. */
  by_agent_manager_gone(world.agent, "it has died", world.now);
  forget(&world.manager);
  pass(1);
  by_agent_manager_came(world.agent, world.now);
  assert_int_equal(world.manager.n, 3);
  drop_all();
}

static void test_reports(void **state) {
  (void)state;
  make_world("m:1", true);
  connect_manager();
  forget(&world.manager);
  pass(10 * WORLD_INTERVAL);
  assert_int_equal(world.manager.n, 10);
  forget(&world.manager);
  struct by_agent_rank *a = join(&zero, JOB_A, 4), *b = join(&one, JOB_A, 2);
  pass(0.5);
  assert_int_equal(count_with(&world.manager, "report"), 1); /* One report covers both ranks. */
  must_hold(world.manager.lines[0], "\"ranks\":[2,4],\"iterations\":0");
  assert_true(report(a, JOB_A, 4, 3, 100) && report(b, JOB_A, 2, 4, 200));
  pass(0.5);
  must_hold(world.manager.lines[1],
            "\"iterations\":4,\"iteration_time\":0.5,\"sent\":300,\"input\":28,\"calls\":8,\"sizes\":[[20,4]]");
  forget(&world.manager);
  by_agent_rank_gone(world.agent, a, world.now);
  must_hold(world.manager.lines[0], "\"type\":\"left\",\"job\":\"" JOB_A "\",\"rank\":4");
  pass(0.5);
  must_hold(world.manager.lines[1], "\"ranks\":[2]");
  forget(&world.manager);
  assert_false(type(b, "{\"type\":\"left\",\"job\":\"" JOB_A "\",\"rank\":2}"));
  assert_int_equal(count_with(&one, "refused"), 0);
  assert_int_equal(count_with(&world.manager, "\"left\""), 1);
  pass(0.5);
  must_hold(last_with(&world.manager, "report"), "\"jobs\":[]");
  drop_all();
}

static bool report_length(struct by_agent_rank *rank, unsigned number, unsigned expected) {
  char line[300];
  snprintf(line, sizeof line,
           "{\"type\":\"report\",\"jobs\":[{\"job\":\"" JOB_A "\",\"ranks\":[%u],\"iterations\":3,\"expected\":%u,"
           "\"iteration_time\":0.5,\"sent\":1,\"input\":1,\"calls\":3,\"sizes\":[]}]}",
           number, expected);
  return type(rank, line);
}

/* Rank 0 reports how many iterations the job will make. */
static void test_length(void **state) {
  (void)state;
  make_world("m:1", true);
  connect_manager();
  struct by_agent_rank *a = join(&zero, JOB_A, 0), *b = join(&one, JOB_A, 1);
  assert_true(report_length(b, 1, 7));
  pass(WORLD_INTERVAL);
  must_hold(last_with(&world.manager, "report"), "\"calls\":3");
  assert_int_equal(count_with(&world.manager, "\"expected\""), 0);
  assert_true(report_length(a, 0, 500) && report_length(b, 1, 7));
  pass(WORLD_INTERVAL);
  must_hold(last_with(&world.manager, "report"), "\"ranks\":[0,1],\"iterations\":3,\"expected\":500,");
  drop_all();
}

/* Rank 0 reports when the job ends at the latest, and the agent what is left until then. */
static void test_limit(void **state) {
  (void)state;
  make_world("m:1", true);
  connect_manager();
  struct by_agent_rank *a = join(&zero, JOB_A, 0), *b = join(&one, JOB_A, 1);
  const char *line =
      "{\"type\":\"report\",\"jobs\":[{\"job\":\"" JOB_A "\",\"ranks\":[%u],\"iterations\":3,\"ends_in\":%s,"
      "\"iteration_time\":0.5,\"sent\":1,\"input\":1,\"calls\":3,\"sizes\":[]}]}";
  char text[300];
  snprintf(text, sizeof text, line, 1, "7");
  assert_true(type(b, text));
  pass(WORLD_INTERVAL);
  must_hold(last_with(&world.manager, "report"), "\"calls\":3");
  assert_int_equal(count_with(&world.manager, "\"ends_in\""), 0);
  snprintf(text, sizeof text, line, 0, "1e300");
  assert_true(type(a, text));
  pass(WORLD_INTERVAL);
  must_hold(last_with(&world.manager, "report"), "\"ends_in\":99999999");
  snprintf(text, sizeof text, line, 0, "600");
  assert_true(type(a, text));
  pass(10 * WORLD_INTERVAL);
  const char *left = strstr(last_with(&world.manager, "report"), "\"ends_in\":");
  assert_non_null(left);
  double seconds = strtod(left + strlen("\"ends_in\":"), NULL);
  assert_true(seconds > 500 && seconds <= 600 - 9 * WORLD_INTERVAL);
  drop_all();
}

static void test_classes_by_manager(void **state) {
  (void)state;
  make_world("m:1", true);
  connect_manager();
  struct by_agent_rank *rank = join(&zero, JOB_A, 0);
  manager_sends("{\"type\":\"classes\",\"jobs\":[{\"job\":\"" JOB_A "\",\"class\":2},{\"job\":\"" JOB_B
                "\",\"class\":1}]}");
  must_hold(last_with(&zero, "classes"), "\"class\":2");
  join(&one, JOB_A, 1);
  must_hold(last_with(&one, "classes"), "\"class\":2");
  by_agent_manager_gone(world.agent, "away", world.now);
  world.no_connection = true;
  int n_sent = zero.n;
  assert_true(report(rank, JOB_A, 0, 100, 1000000));
  pass(10 * WORLD_INTERVAL);
  assert_int_equal(zero.n, n_sent); /* The class remains as the manager set it. */
  struct by_agent_rank *alone = join(&other, JOB_B, 0);
  assert_true(report(alone, JOB_B, 0, 100, 1000000));
  pass(WORLD_INTERVAL);
  must_hold(last_with(&other, "classes"), "\"class\":3"); /* No other job on this host has a class from the manager. */
  drop_all();
}

static void test_plans(void **state) {
  static const char plan[] = "{\"type\":\"plan\",\"job\":\"" JOB_A "\",\"number\":3,\"plan\":{\"trees\":[]}}";
  (void)state;
  make_world("m:1", true);
  connect_manager();
  join(&one, JOB_A, 1);
  manager_sends(plan);
  must_hold(last_with(&world.manager, "kept"), "\"number\":3,\"why\":\"rank 0");
  assert_int_equal(count_with(&one, "plan"), 0);
  struct by_agent_rank *rank = join(&zero, JOB_A, 0);
  manager_sends(plan);
  assert_string_equal(last_with(&zero, "plan"), plan);
  assert_true(type(rank, "{\"type\":\"switched\",\"job\":\"" JOB_A "\",\"number\":3,\"at\":17}"));
  must_hold(world.manager.lines[world.manager.n - 1], "\"type\":\"switched\"");
  drop_all();
}

/* Reservation requests of rank 0 go to the manager, and its answer goes back. Without a manager, rank 0 need
 * not wait. */
static void test_cells(void **state) {
  static const char request[] =
      "{\"type\":\"reserve\",\"job\":\"" JOB_A "\",\"cells\":[{\"switch\":\"s\",\"slots\":512,\"bytes\":3432}]}",
                    cells[] = "{\"type\":\"cells\",\"job\":\"" JOB_A "\",\"cells\":[{\"switch\":\"s\",\"slots\":9}]}";
  (void)state;
  make_world("m:1", true);
  struct by_agent_rank *rank = join(&zero, JOB_A, 0);
  join(&one, JOB_A, 1);
  assert_true(type(rank, JOB_LINE(JOB_A)));
  assert_true(type(rank, request));
  must_hold(last_with(&zero, "cells"), "\"cells\":[]");
  connect_manager();
  must_hold(world.manager.lines[1], "\"type\":\"job\"");
  assert_string_equal(world.manager.lines[2], request);
  manager_sends(cells);
  assert_string_equal(last_with(&zero, "cells"), cells);
  assert_true(type(rank, request));
  assert_string_equal(last_with(&world.manager, "reserve"), request);
  assert_int_equal(count_with(&zero, "cells"), 2);
  assert_int_equal(count_with(&one, "cells"), 0);
  drop_all();
}

/* The delays grow to half the interval, and start again from the least once the manager has connected. */
static void test_connecting(void **state) {
  (void)state;
  make_world("m:1", true);
  world.no_connection = true;
  pass(0.5);
  assert_in_range(world.connects, 3, 5);
  pass(100 * WORLD_INTERVAL);
  assert_in_range(world.connects, 200, 410);
  world.no_connection = false;
  int before = world.connects;
  pass(WORLD_INTERVAL / 2.0);
  assert_int_equal(world.connects, before + 1);
  pass(100); /* The owner must report the result of the attempt. */
  assert_int_equal(world.connects, before + 1);
  by_agent_manager_came(world.agent, world.now);
  manager_sends(WELCOME);
  by_agent_manager_gone(world.agent, "died", world.now);
  pass(0.5);
  assert_int_equal(world.connects, before + 2);
  drop_all();
}

static void test_bad_managers(void **state) {
  static const char *const lines[] = {"{\"type\":\"refused\",\"why\":\"another agent is h1\"}", "hello",
                                      "{\"type\":\"dance\"}", "{\"type\":\"hello\",\"version\":3,\"host\":\"h\"}"};
  struct by_text text;
  (void)state;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    make_world("m:1", true);
    connect_manager();
    manager_sends(lines[i]);
    assert_int_equal(world.disconnects, 1);
    pass(0.9); /* The agent does not connect again at once. */
    assert_int_equal(world.connects, 1);
    by_text_init(&text);
    by_agent_print(world.agent, 0, world.now, &text);
    must_hold(by_text_get(&text), "\"connected\":false");
    must_hold(by_text_get(&text), i == 0 ? "another agent is h1" : "unexpected messages");
    by_text_fini(&text);
    drop_all();
  }
}

/* Each delay is twice as long as the one before, up to a minute. The test covers 600 s. */
static void test_refused_again(void **state) {
  (void)state;
  make_world("m:1", true);
  for (uint64_t end = world.now + 600 * BY_SECOND; world.now < end;) {
    int before = world.connects;
    pass(0.1);
    if (world.connects == before) continue;
    by_agent_manager_came(world.agent, world.now);
    manager_sends(WELCOME);
    manager_sends("{\"type\":\"refused\",\"why\":\"no more\"}");
    forget(&world.manager);
  }
  assert_in_range(world.connects, 14, 27);
  drop_all();
}

/* A manager that does not read is connected to again, and is sent everything again. */
static void test_full_link(void **state) {
  (void)state;
  make_world("m:1", true);
  connect_manager();
  join(&zero, JOB_A, 0);
  world.no_reading = true;
  pass(0.5);
  assert_int_equal(world.disconnects, 1);
  world.no_reading = false;
  forget(&world.manager);
  pass(1);
  assert_int_equal(world.connects, 2);
  by_agent_manager_came(world.agent, world.now);
  must_hold(world.manager.lines[0], "hello");
  must_hold(world.manager.lines[1], "\"ranks\":[0]");
  drop_all();
}

/* ---- interfaces ---- */

static void test_use(void **state) {
  struct by_agent_counter *eth0 = &world.counters[0];
  (void)state;
  make_world("m:1", true);
  connect_manager();
  struct by_agent_rank *rank = join(&zero, JOB_A, 0);
  pass(WORLD_INTERVAL);
  for (unsigned i = 1; i < 4; i++) { /* The interface carries 2 Mbit/s, of which 1 Mbit/s belongs to the rank. */
    eth0->sent += 2000000 * WORLD_INTERVAL / 8;
    eth0->received += 500000 * WORLD_INTERVAL / 8;
    assert_true(report(rank, JOB_A, 0, i, (unsigned long long)i * 1000000 * WORLD_INTERVAL / 8));
    pass(WORLD_INTERVAL);
  }
  must_hold(last_with(&world.manager, "report"),
            "\"sent\":2000000,\"received\":500000,\"ours_sent\":1000000,\"ours_received\":500000");
  for (int i = 0; i < 3; i++) { /* The rank has nothing more to report. */
    eth0->sent += 2000000 * WORLD_INTERVAL / 8;
    pass(WORLD_INTERVAL);
  }
  must_hold(last_with(&world.manager, "report"), "\"sent\":2000000,\"received\":0,\"ours_sent\":0,");
  eth0->queues = true; /* From here on, marked bytes count. */
  eth0->marked = 5000;
  pass(WORLD_INTERVAL);
  eth0->sent += 2000000 * WORLD_INTERVAL / 8;
  eth0->marked += 1500000 * WORLD_INTERVAL / 8;
  pass(WORLD_INTERVAL);
  must_hold(last_with(&world.manager, "report"),
            "\"sent\":2000000,\"received\":0,\"ours_sent\":1500000,\"ours_received\":0");
  eth0->queues = false;
  for (int i = 0; i < 2; i++) { /* Without queues, what helpers carry counts as ours too. */
    eth0->sent += 2000000 * WORLD_INTERVAL / 8;
    eth0->received += 2000000 * WORLD_INTERVAL / 8;
    eth0->helped_sent += 700000 * WORLD_INTERVAL / 8;
    eth0->helped_received += 300000 * WORLD_INTERVAL / 8;
    pass(WORLD_INTERVAL);
  }
  must_hold(last_with(&world.manager, "report"), "\"ours_sent\":700000,\"ours_received\":300000");
  eth0->sent = 7; /* The interface has been created again. */
  pass(WORLD_INTERVAL);
  must_hold(last_with(&world.manager, "report"), "\"sent\":0,");
  drop_all();
}

/* Reports what rank `r` measured of its connections to host b. */
static void report_path(struct by_agent_rank *rank, uint32_t r, double bandwidth) {
  struct by_cluster_path path = {.to = "b", .sent = 1e6, .busy = 0.5, .bandwidth = bandwidth};
  struct by_cluster_job job = {.job = JOB_A, .n_ranks = 1, .ranks = &r, .calls = 1, .n_paths = 1, .paths = &path};
  struct by_text line;
  by_text_init(&line);
  by_cluster_message_print(&(struct by_cluster_message){.type = BY_MESSAGE_REPORT, .n_jobs = 1, .jobs = &job}, &line);
  assert_true(by_agent_handle_rank(world.agent, rank, by_text_get(&line), line.length, world.now));
  by_text_fini(&line);
}

/* The paths of several ranks to one host are merged. A path that gets slow is reported before the interval is over. */
static void test_paths(void **state) {
  (void)state;
  make_world("m:1", true);
  connect_manager();
  struct by_agent_rank *first = join(&zero, JOB_A, 0), *second = join(&one, JOB_A, 1);
  report_path(first, 0, 8e6);
  report_path(second, 1, 6e6);
  pass(WORLD_INTERVAL);
  must_hold(last_with(&world.manager, "report"),
            "\"paths\":[{\"to\":\"b\",\"sent\":2000000,\"busy\":0.5,\"bandwidth\":8000000}]");
  int before = count_with(&world.manager, "report");
  report_path(first, 0, 7e6);
  pass(1);
  assert_int_equal(count_with(&world.manager, "report"), before);
  report_path(first, 0, 7.5e6); /* This is reported before the interval is over. */
  pass(0.5);
  assert_int_equal(count_with(&world.manager, "report"), before + 1);
  pass(WORLD_INTERVAL);
  before = count_with(&world.manager, "report");
  report_path(first, 0, 1e6);
  pass(1);
  assert_int_equal(count_with(&world.manager, "report"), before + 1);
  pass(3 * WORLD_INTERVAL); /* No rank has reported the path recently. */
  assert_null(strstr(last_with(&world.manager, "report"), "paths"));
  drop_all();
}

static void test_interfaces_change(void **state) {
  (void)state;
  make_world("m:1", true);
  connect_manager();
  world.counters[1] = (struct by_agent_counter){.name = "eth1", .address = "10.0.1.1"};
  world.n_counters = 2;
  forget(&world.manager);
  by_agent_links_changed(world.agent, world.now);
  pass(0.5);
  assert_int_equal(world.disconnects, 1);
  assert_int_equal(world.connects, 2);
  by_agent_manager_came(world.agent, world.now);
  must_hold(world.manager.lines[0], "\"eth1\"");
  world.n_counters = 1; /* An interface that disappears is missing from the report. */
  by_agent_links_changed(world.agent, world.now);
  pass(0.5);
  assert_int_equal(world.disconnects, 1);
  assert_null(strstr(last_with(&world.manager, "report"), "eth1"));
  drop_all();
}

/* ---- helpers ---- */

/* What is at the other end of a link is in the hello, and in the report that follows its change. */
static void test_neighbours(void **state) {
  (void)state;
  make_world("m:1", true);
  strcpy(world.counters[0].neighbour, "s1");
  strcpy(world.counters[0].neighbour_port, "p3");
  pass(WORLD_INTERVAL);
  connect_manager();
  must_hold(last_with(&world.manager, "\"hello\""), "\"rate\":1000000000");
  must_hold(last_with(&world.manager, "\"hello\""), "\"neighbour\":\"s1\",\"neighbour_port\":\"p3\"");
  strcpy(world.counters[0].neighbour, "s2");
  by_agent_links_changed(world.agent, world.now);
  pass(1); /* less than a quarter of an interval: its rates are not measured anew */
  must_hold(last_with(&world.manager, "\"report\""), "\"neighbour\":\"s2\",\"neighbour_port\":\"p3\"");
  strcpy(world.counters[0].neighbour, "");
  by_agent_links_changed(world.agent, world.now);
  pass(1);
  assert_null(strstr(last_with(&world.manager, "\"report\""), "\"neighbour\""));
  assert_int_equal(count_with(&world.manager, "\"hello\""), 1);
  drop_all();
}

/* A manager that has made itself anew wants to hear everything again. */
static void test_again(void **state) {
  (void)state;
  make_world("m:1", true);
  assert_true(type(join(&zero, JOB_A, 0), JOB_LINE(JOB_A)));
  connect_manager();
  forget(&world.manager);
  manager_sends("{\"type\":\"again\"}");
  assert_int_equal(world.disconnects, 1);
  pass(0);
  assert_int_equal(world.connects, 2); /* at once */
  by_agent_manager_came(world.agent, world.now);
  manager_sends(WELCOME);
  must_hold(world.manager.lines[0], "\"hello\"");
  must_hold(world.manager.lines[1], "\"job\":\"" JOB_A "\"");
  must_hold(world.manager.lines[2], "\"report\"");
  drop_all();
}

static void test_helpers(void **state) {
  static const char ask[] =
      "{\"type\":\"help\",\"job\":\"" JOB_A "\",\"root\":\"h2:5\",\"key\":\"k\",\"helper\":\"h1\"}";
  (void)state;
  make_world("m:1", true);
  connect_manager();
  manager_sends(ask);
  assert_int_equal(world.helps, 1);
  assert_int_equal(count_with(&world.manager, "helping"), 0);
  by_agent_helper_joined(world.agent, JOB_A, false, world.now);
  must_hold(last_with(&world.manager, "helping"), "\"helper\":\"h1\",\"joined\":true");
  manager_sends(ask); /* The manager was started again and sends its request once more. */
  assert_int_equal(world.helps, 1);
  assert_int_equal(count_with(&world.manager, "\"joined\":true"), 2);
  by_agent_manager_gone(world.agent, "away", world.now);
  forget(&world.manager);
  pass(1);
  by_agent_manager_came(world.agent, world.now);
  assert_int_equal(count_with(&world.manager, "\"joined\":true"), 1);
  manager_sends("{\"type\":\"release\",\"job\":\"" JOB_A "\"}");
  assert_int_equal(world.rests, 1);
  by_agent_helper_ended(world.agent, JOB_A, false, "it was released", world.now);
  must_hold(last_with(&world.manager, "helping"), "\"joined\":false,\"why\":\"it was released\"");
  manager_sends(ask);
  by_agent_helper_joined(world.agent, JOB_A, false, world.now);
  manager_sends("{\"type\":\"release\",\"job\":\"" JOB_A "\"}");
  forget(&world.manager);
  manager_sends(ask); /* The request is not for the helper that is about to end. */
  assert_int_equal(world.manager.n, 0);
  assert_int_equal(world.helps, 2);
  by_agent_helper_ended(world.agent, JOB_A, false, "it was released", world.now);
  assert_int_equal(world.helps, 3);
  assert_int_equal(world.manager.n, 0);
  by_agent_helper_joined(world.agent, JOB_A, false, world.now);
  must_hold(last_with(&world.manager, "helping"), "\"joined\":true");
  by_agent_helper_ended(world.agent, JOB_A, false, "it has died", world.now);
  world.no_helping = true;
  manager_sends(ask);
  must_hold(last_with(&world.manager, "helping"), "no more processes");
  drop_all();
  make_world("m:1", false);
  connect_manager();
  must_hold(last_with(&world.manager, "hello"), "\"may_help\":false");
  manager_sends(ask);
  assert_int_equal(world.helps, 0);
  must_hold(last_with(&world.manager, "helping"), "--no-helpers");
  drop_all();
}

#define ASK_TO_SERVE(trees)                                                                                            \
  "{\"type\":\"help\",\"job\":\"" JOB_A                                                                                \
  "\",\"root\":\"h2:5\",\"key\":\"k\",\"helper\":\"h1\",\"server\":true,\"trees\":" trees "}"

/* A host may help a job and serve its trees at once; a server that is to serve more trees than it does is started
 * anew. */
static void test_servers(void **state) {
  (void)state;
  make_world("m:1", true);
  connect_manager();
  must_hold(last_with(&world.manager, "hello"), "\"may_serve\":true");
  manager_sends("{\"type\":\"help\",\"job\":\"" JOB_A "\",\"root\":\"h2:5\",\"key\":\"k\",\"helper\":\"h1\"}");
  manager_sends(ASK_TO_SERVE("2"));
  assert_int_equal(world.helps, 1);
  assert_int_equal(world.serves, 1);
  assert_int_equal(world.trees, 2);
  by_agent_helper_joined(world.agent, JOB_A, true, world.now);
  must_hold(last_with(&world.manager, "helping"), "\"helper\":\"h1\",\"server\":true,\"joined\":true");
  assert_int_equal(count_with(&world.manager, "helping"), 1); /* the helper has not joined */
  manager_sends(ASK_TO_SERVE("1"));                           /* it serves more already */
  assert_int_equal(world.serves, 1);
  assert_int_equal(count_with(&world.manager, "\"joined\":true"), 2);
  manager_sends(ASK_TO_SERVE("3"));
  assert_int_equal(world.server_rests, 1);
  assert_int_equal(world.serves, 1);
  by_agent_helper_ended(world.agent, JOB_A, true, "it was released", world.now);
  assert_int_equal(world.serves, 2);
  assert_int_equal(world.trees, 3);
  by_agent_helper_joined(world.agent, JOB_A, true, world.now);
  struct by_text text;
  by_text_init(&text);
  by_agent_print(world.agent, 0, world.now, &text);
  must_hold(by_text_get(&text), "\"servers\":[{\"job\":\"" JOB_A "\",\"name\":\"h1\",\"trees\":3,\"joined\":true}]");
  by_text_fini(&text);
  manager_sends("{\"type\":\"release\",\"job\":\"" JOB_A "\",\"server\":true}");
  assert_int_equal(world.server_rests, 2);
  assert_int_equal(world.rests, 0);
  by_agent_helper_ended(world.agent, JOB_A, true, "it was released", world.now);
  must_hold(last_with(&world.manager, "helping"), "\"server\":true,\"joined\":false");
  by_agent_helper_joined(world.agent, JOB_A, false, world.now); /* the helper is still there */
  must_hold(last_with(&world.manager, "helping"), "\"helper\":\"h1\",\"joined\":true");
  drop_all();
  make_world("m:1", false);
  connect_manager();
  manager_sends(ASK_TO_SERVE("1"));
  assert_int_equal(world.serves, 0);
  must_hold(last_with(&world.manager, "helping"), "--no-servers");
  drop_all();
}

/* Launchers that ask for hosts each get their own answer, at once where there is no manager. */
static void test_offers(void **state) {
  (void)state;
  make_world("m:1", true);
  struct by_agent_rank *a = come(&zero, 1000), *b = come(&one, 1001);
  assert_true(type(a, "{\"type\":\"wanted\",\"number\":0,\"count\":2}"));
  must_hold(zero.lines[0], "{\"type\":\"offered\",\"number\":1,\"hosts\":[]}");
  connect_manager();
  manager_sends("{\"type\":\"welcome\",\"version\":3,\"interval\":2,\"rate\":0}");
  assert_true(type(a, "{\"type\":\"wanted\",\"number\":0,\"count\":3}"));
  must_hold(last_with(&world.manager, "wanted"), "\"number\":1,\"count\":3");
  assert_true(type(b, "{\"type\":\"wanted\",\"number\":1,\"count\":4}"));
  must_hold(last_with(&world.manager, "wanted"), "\"number\":2,\"count\":4");
  manager_sends("{\"type\":\"offered\",\"number\":2,\"hosts\":[\"h7\"]}");
  assert_int_equal(zero.n, 1);
  must_hold(one.lines[0], "\"hosts\":[\"h7\"]");
  manager_sends("{\"type\":\"offered\",\"number\":0,\"hosts\":[\"h7\"]}"); /* nobody's */
  by_agent_rank_gone(world.agent, b, world.now);
  manager_sends("{\"type\":\"offered\",\"number\":2,\"hosts\":[\"h8\"]}");
  assert_int_equal(zero.n, 1);
  forget(&one);
  drop_all();
}

#define MEET(member) "{\"type\":\"meet\",\"job\":\"" JOB_A "\",\"number\":0,\"count\":2,\"handle\":\"a\"" member "}"

/* Processes that meet others: the agent repeats them to each manager, and reports that they have ended. */
static void test_meeting(void **state) {
  (void)state;
  make_world(NULL, true);
  assert_false(type(come(&one, 1000), MEET("")));
  must_hold(one.lines[0], "has no manager");
  forget(&one);
  drop_all();
  make_world("m:1", true);
  struct by_agent_rank *a = come(&zero, 1000);
  assert_true(type(a, MEET("")));
  assert_int_equal(world.manager.n, 0);
  connect_manager();
  must_hold(last_with(&world.manager, "meet"), "\"number\":1,\"count\":2,\"handle\":\"a\"}");
  manager_sends("{\"type\":\"members\",\"job\":\"" JOB_A "\",\"number\":2,\"handles\":[\"b\"]}"); /* nobody's */
  assert_int_equal(zero.n, 0);
  manager_sends("{\"type\":\"members\",\"job\":\"" JOB_A "\",\"number\":1,\"attempt\":4,\"handles\":[\"a\",\"b\"]}");
  must_hold(zero.lines[0], "\"attempt\":4,\"handles\":[\"a\",\"b\"]");
  manager_sends("{\"type\":\"members\",\"job\":\"" JOB_A
                "\",\"number\":0,\"attempt\":5,\"handles\":[\"b\",\"c\"]}"); /* not in it */
  assert_int_equal(zero.n, 1);
  manager_sends("{\"type\":\"members\",\"job\":\"" JOB_A "\",\"number\":0,\"attempt\":6,\"handles\":[\"b\",\"a\"]}");
  must_hold(zero.lines[1], "\"attempt\":6");
  assert_true(type(a, MEET(",\"member\":true")));
  must_hold(last_with(&world.manager, "meet"), "\"member\":true");
  assert_int_equal(count_with(&world.manager, "meet"), 2);
  by_agent_manager_gone(world.agent, "it was killed", world.now);
  pass(WORLD_INTERVAL);
  by_agent_manager_came(world.agent, world.now);
  assert_int_equal(count_with(&world.manager, "\"member\":true"), 2);
  assert_false(type(a, "{\"type\":\"meet\",\"job\":\"" JOB_B "\",\"number\":0,\"count\":2,\"handle\":\"a\"}"));
  must_hold(zero.lines[zero.n - 1], "those of two jobs");
  must_hold(last_with(&world.manager, "parted"), "\"job\":\"" JOB_A "\",\"number\":1");
  forget(&zero);
  drop_all();
}

/* The manager is notified of the end of each process that it knows, also where the user may not send more just then. */
static void test_meeting_ends(void **state) {
  (void)state;
  make_world("m:1", true);
  struct by_agent_rank *a = come(&zero, 1000), *busy = come(&one, 1000);
  connect_manager();
  assert_true(type(a, MEET("")));
  for (int i = 0; i < 600; i++) {
    forget(&world.manager);
    assert_true(type(busy, MEET("")));
  }
  assert_true(type(a, MEET(",\"member\":true")));
  assert_int_equal(count_with(&world.manager, "\"number\":1,"), 0); /* too much was sent already */
  struct by_agent_rank *third = come(&one, 1001);
  assert_true(type(third, MEET("")));
  by_agent_rank_gone(world.agent, a, world.now);
  must_hold(last_with(&world.manager, "parted"), "\"number\":1");
  assert_false(type(third, "{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"job\":\"" JOB_A "\",\"rank\":0}"));
  must_hold(one.lines[one.n - 1], "without a job");
  must_hold(last_with(&world.manager, "parted"), "\"number\":3");
  forget(&zero);
  forget(&one);
  drop_all();
}

int main(void) {
  setenv("BANYAN_LOG", "error", 0); /* Many warnings are expected. */
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_classes_alone),
                                     cmocka_unit_test(test_order_alone),
                                     cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_status),
                                     cmocka_unit_test(test_statements),
                                     cmocka_unit_test(test_rank_again),
                                     cmocka_unit_test(test_reports_all),
                                     cmocka_unit_test(test_reports),
                                     cmocka_unit_test(test_length),
                                     cmocka_unit_test(test_limit),
                                     cmocka_unit_test(test_classes_by_manager),
                                     cmocka_unit_test(test_plans),
                                     cmocka_unit_test(test_cells),
                                     cmocka_unit_test(test_connecting),
                                     cmocka_unit_test(test_bad_managers),
                                     cmocka_unit_test(test_full_link),
                                     cmocka_unit_test(test_use),
                                     cmocka_unit_test(test_paths),
                                     cmocka_unit_test(test_interfaces_change),
                                     cmocka_unit_test(test_neighbours),
                                     cmocka_unit_test(test_again),
                                     cmocka_unit_test(test_helpers),
                                     cmocka_unit_test(test_servers),
                                     cmocka_unit_test(test_offers),
                                     cmocka_unit_test(test_meeting),
                                     cmocka_unit_test(test_meeting_ends),
                                     cmocka_unit_test(test_refused_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
