/* Tests that messages between ranks, agents and the manager are read as they were written, and that invalid messages
 * are rejected with a reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cluster_message.h"

#define JOB "0123456789abcdef0123456789abcdef"

static void read_text(const struct by_text *text, struct by_cluster_message *out) {
  assert_false(text->failed);
  assert_null(strchr(by_text_get(text), '\n'));
  assert_ok(by_cluster_message_read(by_text_get(text), text->length, out));
}

/* Prints the message and reads it again. The caller frees the result. */
static struct by_cluster_message again(const struct by_cluster_message *message) {
  struct by_cluster_message out;
  struct by_text text;
  by_text_init(&text);
  by_cluster_message_print(message, &text);
  read_text(&text, &out);
  by_text_fini(&text);
  assert_int_equal(out.type, message->type);
  return out;
}

static void test_switches(void **state) {
  static const struct by_cluster_aggregates aggregates = {
      .cells = 4096, .bytes = 2048, .address = "10.0.0.1:7613", .key = "k", .float32 = true};
  static const struct by_cluster_interface interfaces[] = {
      {.name = "p0", .address = "", .neighbour = "h1", .neighbour_port = "eth0"}, {.name = "p1", .address = ""}};
  static const struct by_cluster_switch switches[] = {{.at = "s1", .address = "10.0.0.1:7613", .key = "k"},
                                                      {.at = "s2", .address = "10.0.0.2:1"}};
  static const struct by_cluster_cells cells[] = {{.at = "s1", .server = "h1/0", .slots = 64}};
  (void)state;
  struct by_cluster_message out = again(&(struct by_cluster_message){.type = BY_MESSAGE_HELLO,
                                                                     .version = BY_CLUSTER_VERSION,
                                                                     .host = "s1",
                                                                     .may_serve = true,
                                                                     .aggregates = &aggregates,
                                                                     .n_interfaces = 2,
                                                                     .interfaces = interfaces});
  assert_true(out.may_serve);
  assert_false(out.may_help);
  assert_int_equal(out.aggregates->cells, 4096);
  assert_int_equal(out.aggregates->bytes, 2048);
  assert_string_equal(out.aggregates->address, "10.0.0.1:7613");
  assert_string_equal(out.aggregates->key, "k");
  assert_true(out.aggregates->float32);
  assert_string_equal(out.interfaces[0].neighbour, "h1");
  assert_string_equal(out.interfaces[0].neighbour_port, "eth0");
  assert_null(out.interfaces[1].neighbour);
  by_cluster_message_fini(&out);
  out = again(&(struct by_cluster_message){.type = BY_MESSAGE_PLAN,
                                           .job = JOB,
                                           .number = 7,
                                           .plan = "{}",
                                           .n_switches = 2,
                                           .switches = switches,
                                           .n_cells = 1,
                                           .cells = cells});
  assert_int_equal(out.n_switches, 2);
  assert_string_equal(out.switches[0].key, "k");
  assert_string_equal(out.switches[1].at, "s2");
  assert_string_equal(out.switches[1].address, "10.0.0.2:1");
  assert_null(out.switches[1].key);
  assert_int_equal(out.n_cells, 1);
  assert_string_equal(out.cells[0].server, "h1/0");
  assert_int_equal(out.cells[0].slots, 64);
  by_cluster_message_fini(&out);
  out = again(&(struct by_cluster_message){.type = BY_MESSAGE_RELEASED, .job = JOB, .number = 1ull << 40});
  assert_true(out.number == 1ull << 40);
  by_cluster_message_fini(&out);
}

static void test_servers_and_wishes(void **state) {
  static const char *const hosts[] = {"a", "b"};
  (void)state;
  struct by_cluster_message out = again(&(struct by_cluster_message){
      .type = BY_MESSAGE_HELP, .job = JOB, .root = "h:1", .key = "k", .helper = "h9", .server = true, .trees = 3});
  assert_true(out.server);
  assert_int_equal(out.trees, 3);
  by_cluster_message_fini(&out);
  out = again(&(struct by_cluster_message){.type = BY_MESSAGE_REST, .job = JOB, .server = true});
  assert_true(out.server);
  by_cluster_message_fini(&out);
  out = again(&(struct by_cluster_message){.type = BY_MESSAGE_JOB,
                                           .job = JOB,
                                           .name = "j",
                                           .root = "h:1",
                                           .n_hosts = 2,
                                           .hosts = hosts,
                                           .own_plan = "mine",
                                           .plan = "{\"a\":1}",
                                           .replace_plan = true,
                                           .ways = "ring,helpers",
                                           .tree_penalty = 0.5,
                                           .steps = 16,
                                           .trees = 2});
  assert_string_equal(out.plan, "{\"a\":1}");
  assert_true(out.replace_plan);
  assert_string_equal(out.ways, "ring,helpers");
  assert_true(out.tree_penalty == 0.5);
  assert_int_equal(out.steps, 16);
  assert_int_equal(out.trees, 2);
  by_cluster_message_fini(&out);
}

static void test_hello(void **state) {
  static const struct by_cluster_interface interfaces[] = {{.name = "eth0", .address = "10.0.0.1", .rate = 1e9},
                                                           {.name = "eth1", .address = ""}};
  struct by_cluster_message hello = {.type = BY_MESSAGE_HELLO,
                                     .version = 7,
                                     .host = "h\"1\\",
                                     .may_help = true,
                                     .age = 2.5,
                                     .n_interfaces = 2,
                                     .interfaces = interfaces};
  (void)state;
  struct by_cluster_message out = again(&hello);
  assert_int_equal(out.version, 7);
  assert_true(out.age == 2.5);
  assert_string_equal(out.host, "h\"1\\");
  assert_true(out.may_help);
  assert_null(out.job);
  assert_int_equal(out.n_interfaces, 2);
  assert_string_equal(out.interfaces[0].name, "eth0");
  assert_string_equal(out.interfaces[0].address, "10.0.0.1");
  assert_true(out.interfaces[0].rate == 1e9);
  assert_string_equal(out.interfaces[1].address, "");
  by_cluster_message_fini(&out);
  hello = (struct by_cluster_message){.type = BY_MESSAGE_HELLO, .version = 1, .host = "h", .job = JOB, .rank = 65535};
  out = again(&hello);
  assert_string_equal(out.job, JOB);
  assert_int_equal(out.rank, 65535);
  assert_int_equal(out.n_interfaces, 0);
  assert_false(out.may_help);
  by_cluster_message_fini(&out);
}

static void test_job(void **state) {
  static const char *const hosts[] = {"a", "b", "a"};
  struct by_cluster_message job = {.type = BY_MESSAGE_JOB,
                                   .job = JOB,
                                   .name = "train",
                                   .root = "[fd00::1]:7000",
                                   .key = "s",
                                   .began = 1790000000.125,
                                   .n_hosts = 3,
                                   .hosts = hosts};
  (void)state;
  struct by_cluster_message out = again(&job);
  assert_string_equal(out.job, JOB);
  assert_string_equal(out.name, "train");
  assert_string_equal(out.root, "[fd00::1]:7000");
  assert_string_equal(out.key, "s");
  assert_true(out.began == 1790000000.125);
  assert_int_equal(out.n_hosts, 3);
  assert_string_equal(out.hosts[2], "a");
  by_cluster_message_fini(&out);
  job.key = NULL;
  out = again(&job);
  assert_null(out.key);
  by_cluster_message_fini(&out);
}

static void test_report(void **state) {
  static const struct by_cluster_interface interfaces[] = {
      {.name = "eth0", .rate = 1e9, .sent = 5e8, .received = 0.1, .ours_sent = 4, .ours_received = 3}};
  static const uint32_t ranks[] = {0, 3};
  static const struct by_cluster_size sizes[] = {{20, 8}, {63, 1ull << 62}};
  static const struct by_cluster_path paths[] = {{.to = "b", .sent = 1e8, .busy = 0.5, .bandwidth = 2e8}, {.to = "c"}};
  static const struct by_cluster_job jobs[] = {{.job = JOB,
                                                .n_ranks = 2,
                                                .ranks = ranks,
                                                .n_paths = 2,
                                                .paths = paths,
                                                .n_sizes = 2,
                                                .sizes = sizes,
                                                .iterations = 7,
                                                .expected = 500,
                                                .ends_in = 86400.5,
                                                .iteration_time = 0.25,
                                                .sent = INT64_MAX,
                                                .input = 4096,
                                                .calls = 9}};
  struct by_cluster_message report = {
      .type = BY_MESSAGE_REPORT, .n_interfaces = 1, .interfaces = interfaces, .n_jobs = 1, .jobs = jobs};
  (void)state;
  struct by_cluster_message out = again(&report);
  assert_int_equal(out.n_interfaces, 1);
  assert_true(out.interfaces[0].received == 0.1 && out.interfaces[0].ours_received == 3);
  assert_int_equal(out.n_jobs, 1);
  assert_int_equal(out.jobs[0].n_ranks, 2);
  assert_int_equal(out.jobs[0].ranks[1], 3);
  assert_int_equal(out.jobs[0].sent, INT64_MAX);
  assert_int_equal(out.jobs[0].expected, 500);
  assert_true(out.jobs[0].ends_in == 86400.5);
  assert_int_equal(out.jobs[0].n_paths, 2);
  assert_string_equal(out.jobs[0].paths[1].to, "c");
  const struct by_cluster_path *path = &out.jobs[0].paths[0];
  assert_true(path->sent == 1e8 && path->busy == 0.5 && path->bandwidth == 2e8);
  assert_true(out.jobs[0].iteration_time == 0.25);
  assert_int_equal(out.jobs[0].sizes[1].log2, 63);
  assert_int_equal(out.jobs[0].sizes[1].calls, 1ull << 62);
  by_cluster_message_fini(&out);
}

static void test_of_a_job(void **state) {
  char root[BY_CLUSTER_ROOT + 1]; /* This is a root of many addresses. */
  memset(root, 'a', sizeof root - 1);
  root[sizeof root - 1] = 0;
  struct by_cluster_message message = {.job = JOB,
                                       .rank = 5,
                                       .number = 3,
                                       .at = 1ull << 60,
                                       .why = "so",
                                       .helper = "h9",
                                       .joined = true,
                                       .root = root,
                                       .key = "k",
                                       .plan = "{\"a\":\n  [1]\n}\n",
                                       .topology = "{\"b\":\n 2}"};
  static const enum by_cluster_type kinds[] = {BY_MESSAGE_LEFT,    BY_MESSAGE_SWITCHED, BY_MESSAGE_KEPT,
                                               BY_MESSAGE_HELPING, BY_MESSAGE_PLAN,     BY_MESSAGE_HELP,
                                               BY_MESSAGE_REST};
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    message.type = kinds[i];
    struct by_cluster_message out = again(&message);
    assert_string_equal(out.job, JOB);
    if (out.type == BY_MESSAGE_LEFT) assert_int_equal(out.rank, 5);
    if (out.type == BY_MESSAGE_SWITCHED) assert_int_equal(out.at, 1ull << 60);
    if (out.type == BY_MESSAGE_SWITCHED || out.type == BY_MESSAGE_KEPT || out.type == BY_MESSAGE_PLAN)
      assert_int_equal(out.number, 3);
    if (out.type == BY_MESSAGE_KEPT || out.type == BY_MESSAGE_HELPING) assert_string_equal(out.why, "so");
    if (out.type == BY_MESSAGE_HELPING) assert_true(out.joined);
    if (out.type == BY_MESSAGE_HELPING || out.type == BY_MESSAGE_HELP) assert_string_equal(out.helper, "h9");
    if (out.type == BY_MESSAGE_HELP) assert_string_equal(out.key, "k");
    if (out.type == BY_MESSAGE_HELP) assert_string_equal(out.root, root);
    if (out.type == BY_MESSAGE_PLAN) assert_string_equal(out.plan, "{\"a\":[1]}");
    if (out.type == BY_MESSAGE_PLAN) assert_string_equal(out.topology, "{\"b\":2}");
    by_cluster_message_fini(&out);
  }
}

static void test_down(void **state) {
  static const struct by_cluster_job classes[] = {{.job = JOB, .class_ = 3}};
  struct by_cluster_message message = {.type = BY_MESSAGE_CLASSES, .n_jobs = 1, .jobs = classes};
  (void)state;
  struct by_cluster_message out = again(&message);
  assert_int_equal(out.jobs[0].class_, 3);
  by_cluster_message_fini(&out);
  message = (struct by_cluster_message){.type = BY_MESSAGE_WELCOME, .version = 1, .interval = 2.5, .rate = 1e10};
  out = again(&message);
  assert_true(out.interval == 2.5 && out.rate == 1e10);
  by_cluster_message_fini(&out);
  message = (struct by_cluster_message){.type = BY_MESSAGE_REFUSED, .why = "no"};
  out = again(&message);
  assert_string_equal(out.why, "no");
  by_cluster_message_fini(&out);
  message = (struct by_cluster_message){.type = BY_MESSAGE_STATUS};
  out = again(&message);
  by_cluster_message_fini(&out);
}

static void test_cells(void **state) {
  static const struct by_cluster_cells cells[] = {
      {.at = "s\"1", .server = "h", .slots = 512, .bytes = 3432},
      {.at = "s2", .slots = BY_CLUSTER_SLOTS, .bytes = 1, .has = true, .given = 7}};
  struct by_cluster_message message = {.type = BY_MESSAGE_RESERVE, .job = JOB, .n_cells = 2, .cells = cells};
  (void)state;
  struct by_cluster_message out = again(&message);
  assert_string_equal(out.job, JOB);
  assert_int_equal(out.n_cells, 2);
  assert_string_equal(out.cells[0].at, "s\"1");
  assert_string_equal(out.cells[0].server, "h");
  assert_true(out.cells[0].slots == 512 && out.cells[0].bytes == 3432 && !out.cells[0].has);
  assert_null(out.cells[1].server);
  assert_true(out.cells[1].slots == BY_CLUSTER_SLOTS && out.cells[1].has && out.cells[1].given == 7);
  by_cluster_message_fini(&out);
  message.type = BY_MESSAGE_CELLS;
  out = again(&message);
  assert_int_equal(out.n_cells, 2);
  assert_string_equal(out.cells[0].at, "s\"1");
  assert_true(out.cells[0].slots == 512 && !out.cells[1].has);
  by_cluster_message_fini(&out);
  message.n_cells = 0;
  out = again(&message);
  assert_int_equal(out.n_cells, 0);
  by_cluster_message_fini(&out);
}

#define REPORT                                                                                                         \
  "{\"type\":\"report\",\"jobs\":[{\"job\":\"" JOB "\",\"ranks\":[],\"iterations\":0,\"iteration_time\":0,"            \
  "\"sent\":0,\"input\":0,\"calls\":0,"

static void test_mistakes(void **state) {
  static const struct {
    const char *line, *why;
  } cases[] = {
      {"", "expected"},
      {"[]", "must be an object"},
      {"{}", "\"type\" is missing"},
      {"{\"say\":\"hello\",\"version\":1,\"host\":\"h\"}",
       "is of version 1 of the protocol, this Banyan uses version 3"},
      {"{\"type\":3}", "type: must be a string"},
      {"{\"type\":\"dance\"}", "no kind of message"},
      {"{\"type\":\"release\",\"job\":\"" JOB "\",\"job\":\"" JOB "\"}", "duplicate"},
      {"{\"type\":\"release\",\"job\":\"0123456789ABCDEF0123456789abcdef\"}", "32 hexadecimal digits"},
      {"{\"type\":\"release\",\"job\":\"" JOB "0\"}", "32 hexadecimal digits"},
      {"{\"type\":\"hello\",\"version\":3,\"host\":\"\"}", "host: must be a text"},
      {"{\"type\":\"hello\",\"version\":-1,\"host\":\"h\"}", "version"},
      {"{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"job\":\"" JOB "\"}", "\"rank\" is missing"},
      {"{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"interfaces\":[{\"name\":\"e\",\"address\":\"\",\"rate\":-1}]"
       "}",
       "interfaces[0].rate"},
      {"{\"type\":\"hello\",\"version\":3,\"host\":\"h\\n\"}", "control characters"},
      {"{\"type\":\"job\",\"job\":\"" JOB "\",\"name\":\"n\",\"size\":2,\"hosts\":[\"a\"],\"root\":\"r\"}",
       "names the hosts of 1 ranks, the job has 2"},
      {"{\"type\":\"job\",\"job\":\"" JOB "\",\"name\":\"n\",\"size\":0,\"hosts\":[],\"root\":\"r\"}", "hosts"},
      {"{\"type\":\"report\"}", "\"jobs\" is missing"},
      {"{\"type\":\"report\",\"jobs\":[7]}", "jobs[0]: must be an object"},
      {"{\"type\":\"report\",\"jobs\":[{\"job\":\"" JOB "\",\"ranks\":[65536]}]}", "jobs[0].ranks[0]"},
      {REPORT "\"expected\":-1}]}", "jobs[0].expected"},
      {REPORT "\"expected\":9223372036854775808}]}", "too big"},
      {REPORT "\"expected\":\"500\"}]}", "jobs[0].expected"},
      {REPORT "\"ends_in\":-1}]}", "jobs[0].ends_in"},
      {REPORT "\"paths\":{}}]}", "jobs[0].paths"},
      {REPORT "\"paths\":[{\"to\":\"b\",\"sent\":-1}]}]}", "paths[0].sent"},
      {REPORT "\"paths\":[{\"sent\":1}]}]}", "\"to\" is missing"},
      {"{\"type\":\"left\",\"job\":\"" JOB "\",\"rank\":65536}", "rank"},
      {"{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"interfaces\":[{\"name\":\"e\",\"address\":\"\",\"rate\":1e-"
       "300}]}",
       "interfaces[0].rate: is 1e-300 bit/s"},
      {"{\"type\":\"welcome\",\"version\":3,\"interval\":0,\"rate\":0}", "interval"},
      {"{\"type\":\"welcome\",\"version\":3,\"interval\":1e300,\"rate\":0}",
       "interval: is 1e+300 s, must be more than 0"},
      {"{\"type\":\"welcome\",\"version\":3,\"interval\":1,\"rate\":1e-300}", "rate: is 1e-300 bit/s"},
      {"{\"type\":\"classes\",\"jobs\":[{\"job\":\"" JOB "\",\"class\":4}]}", "class"},
      {"{\"type\":\"plan\",\"job\":\"" JOB "\",\"number\":1,\"plan\":\"ring\"}", "plan: must be an object"},
      {"{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"aggregates\":[]}", "aggregates: must be an object"},
      {"{\"type\":\"hello\",\"version\":3,\"host\":\"h\",\"aggregates\":{\"cells\":1,\"bytes\":1}}",
       "aggregates: the field \"address\" is missing"},
      {"{\"type\":\"plan\",\"job\":\"" JOB "\",\"number\":1,\"cells\":[{\"switch\":\"s\",\"slots\":1}],\"plan\":{}}",
       "\"server\" is missing"},
      {"{\"type\":\"plan\",\"job\":\"" JOB "\",\"number\":1,\"switches\":[{\"switch\":\"s\"}],\"plan\":{}}",
       "\"address\" is missing"},
      {"{\"type\":\"help\",\"job\":\"" JOB "\",\"root\":\"r\",\"key\":\"k\",\"helper\":\"h\",\"trees\":65}", "trees"},
      {"{\"type\":\"help\",\"job\":\"" JOB "\",\"root\":\"r\",\"helper\":\"h\"}", "\"key\" is missing"},
      {"{\"type\":\"reserve\",\"job\":\"" JOB "\"}", "\"cells\" is missing"},
      {"{\"type\":\"reserve\",\"job\":\"" JOB "\",\"cells\":[{\"switch\":\"s\",\"slots\":1}]}", "\"bytes\" is missing"},
      {"{\"type\":\"reserve\",\"job\":\"" JOB "\",\"cells\":[{\"switch\":\"s\",\"slots\":1,\"bytes\":1,\"given\":-1}]}",
       "cells[0].given"},
      {"{\"type\":\"cells\",\"job\":\"" JOB "\",\"cells\":[{\"switch\":\"s\",\"slots\":65537}]}", "cells[0].slots"},
      {"{\"type\":\"cells\",\"job\":\"" JOB "\",\"cells\":[{\"switch\":\"\",\"slots\":1}]}", "cells[0].switch"},
      {"{\"type\":\"kept\",\"job\":\"" JOB "\",\"number\":1.5,\"why\":\"\"}", "whole number"},
  };
  struct by_cluster_message out;
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_status(by_cluster_message_read(cases[i].line, strlen(cases[i].line), &out), BANYAN_ERR_PARSE);
    if (!strstr(banyan_error_text(), cases[i].why))
      fail_msg("\"%s\" is rejected with \"%s\"", cases[i].line, banyan_error_text());
  }
}

/* Reads a line of the given length: a message and blanks. */
static enum banyan_status read_padded(const char *line, size_t length) {
  struct by_cluster_message out;
  char *padded = malloc(length + 1);
  assert_non_null(padded);
  snprintf(padded, length + 1, "%-*s", (int)length, line);
  enum banyan_status status = by_cluster_message_read(padded, length, &out);
  if (status == BANYAN_OK) by_cluster_message_fini(&out);
  free(padded);
  return status;
}

static void test_sizes(void **state) {
  static const char up[] = "{\"type\":\"status\"}", down[] = "{\"type\":\"refused\",\"why\":\"\"}";
  (void)state;
  assert_ok(read_padded(up, BY_CLUSTER_LINE_UP));
  assert_status(read_padded(up, BY_CLUSTER_LINE_UP + 1), BANYAN_ERR_PARSE);
  assert_ok(read_padded(down, BY_CLUSTER_LINE_DOWN));
  assert_status(read_padded(down, BY_CLUSTER_LINE_DOWN + 1), BANYAN_ERR_PARSE);
}

/* Reasons are for people and are never rejected. */
static void test_reasons(void **state) {
  char line[3000];
  struct by_cluster_message out;
  (void)state;
  int n = snprintf(line, sizeof line, "{\"type\":\"refused\",\"why\":\"a\\nb%02000d\"}", 7);
  assert_ok(by_cluster_message_read(line, (size_t)n, &out));
  assert_int_equal(strlen(out.why), BY_CLUSTER_REASON);
  assert_memory_equal(out.why, "a?b0", 4);
  by_cluster_message_fini(&out);
}

static void test_join(void **state) {
  struct by_cluster_path all = {"b", 5, 0.5, 0};
  (void)state;
  by_cluster_path_join(&all, &(struct by_cluster_path){"b", 7, 0.25, 30});
  by_cluster_path_join(&all, &(struct by_cluster_path){"b", 1, 0.75, 20});
  by_cluster_path_join(&all, &(struct by_cluster_path){"b", 0, 0, 0});
  assert_string_equal(all.to, "b");
  assert_true(all.sent == 13 && all.busy == 0.75); /* They send at the same time. */
  assert_true(all.bandwidth == 30);
}

static void check(double a, double b, bool differ) {
  struct by_cluster_path x = {.bandwidth = a}, y = {.bandwidth = b};
  assert_int_equal(by_cluster_path_differs(&x, &y), differ);
  assert_int_equal(by_cluster_path_differs(&y, &x), differ);
}

static void test_differs(void **state) {
  (void)state;
  check(100, 150, false);
  check(100, 151, true);
  check(0, 1e9, false); /* The first rate is not known. */
  check(0, 0, false);
}

/* Rates between those of recent reports are not news, and after a while no rate is. */
static void test_late(void **state) {
  struct by_path_recent late = {0};
  (void)state;
  assert_false(by_path_recent_add(&late, 100)); /* This is the first rate. */
  assert_false(by_path_recent_add(&late, 140));
  assert_true(by_path_recent_add(&late, 60));
  for (int i = 0; i < 20; i++) assert_false(by_path_recent_add(&late, i % 2 ? 60 : 140));
  assert_true(by_path_recent_add(&late, 220));
  for (int i = 0; i < BY_PATH_RECENT; i++) assert_false(by_path_recent_add(&late, 60));
  assert_true(by_path_recent_add(&late, 100)); /* The earlier rates are too long ago to count. */
}

static const struct by_budget_rules budget_rules = {10, 2, 1000, 100};

static void test_budget_of_lines(void **state) {
  struct by_budget budget = by_budget_full(&budget_rules, 5);
  (void)state;
  for (int i = 0; i < 10; i++) assert_true(by_budget_take(&budget, 1, 5));
  assert_false(by_budget_take(&budget, 1, 5.4));
  assert_true(by_budget_take(&budget, 1, 5.6));
  assert_false(by_budget_is_full(&budget, 9));
  assert_true(by_budget_is_full(&budget, 11));
  /* No more than the burst may be taken. */
  for (int i = 0; i < 10; i++) assert_true(by_budget_take(&budget, 1, 1000));
  assert_false(by_budget_take(&budget, 1, 1000));
}

/* A request that exceeds the budget takes nothing. */
static void test_budget_of_bytes(void **state) {
  struct by_budget budget = by_budget_full(&budget_rules, 0);
  (void)state;
  assert_false(by_budget_take(&budget, 1001, 0));
  assert_true(by_budget_take(&budget, 900, 0));
  assert_false(by_budget_take(&budget, 400, 2));
  assert_true(by_budget_take(&budget, 400, 3.5));
}

/* An agent that keeps to its own limits is never refused. */
static void test_budget_of_agent(void **state) {
  struct by_budget agent = by_budget_full(&by_budget_of_agent, 0), manager = by_budget_full(&by_budget_of_peer, 0);
  (void)state;
  for (int i = 0; i < 20000; i++)
    if (by_budget_take(&agent, 500 * (size_t)(i % 100), i * 0.003))
      assert_true(by_budget_take(&manager, 500 * (size_t)(i % 100), i * 0.003));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hello),
      cmocka_unit_test(test_switches),
      cmocka_unit_test(test_servers_and_wishes),
      cmocka_unit_test(test_job),
      cmocka_unit_test(test_report),
      cmocka_unit_test(test_of_a_job),
      cmocka_unit_test(test_cells),
      cmocka_unit_test(test_down),
      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_reasons),
      cmocka_unit_test(test_join),
      cmocka_unit_test(test_differs),
      cmocka_unit_test(test_late),
      cmocka_unit_test(test_budget_of_lines),
      cmocka_unit_test(test_budget_of_bytes),
      cmocka_unit_test(test_budget_of_agent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
