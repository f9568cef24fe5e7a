/* A cluster in memory with real agents and the real manager. The test plays the lines between them, the ranks and the
 * time. Manager and agents are killed and come back. Every line must be accepted, all must agree within an interval,
 * and a job's ranks must receive one class and its plans. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#include "agent.h"
#include "clock.h"
#include "manager.h"
#include "topology_formats.h"

#define JOB "0123456789abcdef0123456789abcdef"

enum { HOSTS = 4, RANKS = 2 * HOSTS, LINES = 256, NO_GRANT = -1 };

static const double interval = 2, begin = 1e9; /* in seconds; begin: since 1970 */

struct line {
  bool up;
  char *text;
};

struct rank {
  struct by_agent_rank *rank; /* NULL: not connected */
  unsigned number, host;
  uint32_t class_;
  uint64_t plan, ran, iterations, sent; /* plan, ran: numbers of the plan that rank 0 was asked to run, and runs */
  int cells;                            /* slots that rank 0 was granted last; NO_GRANT: none */
};

struct host {
  char name[32];
  struct by_agent *agent;
  struct by_manager_peer *peer; /* NULL: not connected */
  bool connecting;
  struct line lines[LINES]; /* lines that are under way on the host's connection */
  int n;
};

static struct {
  uint64_t now; /* in nanoseconds */
  struct by_topology *topology;
  struct by_manager *manager; /* NULL: dead */
  struct host hosts[HOSTS];
  struct rank ranks[RANKS];
} w;

static double seconds(void) {
  return begin + (double)w.now / 1e9;
}

/* ---- connections */

static void put(struct host *host, bool up, const char *text, size_t length) {
  assert_true(host->n < LINES);
  host->lines[host->n++] = (struct line){up, strndup(text, length)};
}

static void drop_lines(struct host *host) {
  for (int i = 0; i < host->n; i++) free(host->lines[i].text);
  host->n = 0;
}

static void unlink_host(struct host *host) {
  if (host->peer && w.manager) by_manager_gone(w.manager, host->peer, seconds());
  host->peer = NULL;
  drop_lines(host);
}

static void carry_up(const struct host *host, const char *text) {
  struct by_cluster_message message;
  assert_ok(by_cluster_message_read(text, strlen(text), &message));
  assert_ok(by_manager_handle(w.manager, host->peer, &message, seconds()));
  by_cluster_message_fini(&message);
}

static void carry(struct host *host) {
  struct line line = host->lines[0];
  memmove(host->lines, host->lines + 1, (size_t)--host->n * sizeof *host->lines);
  if (line.up)
    carry_up(host, line.text);
  else
    by_agent_handle_manager(host->agent, line.text, strlen(line.text), w.now);
  free(line.text);
}

/* ---- an agent's callbacks */

static bool send_to_manager(void *context, const char *line, size_t length) {
  put(context, true, line, length);
  return true;
}

static enum banyan_status let_connect(void *context) {
  struct host *host = context;
  host->connecting = true;
  return BANYAN_OK;
}

static void disconnect(void *context) {
  (void)context;
  fail_msg("an agent breaks with the manager");
}

static void send_to_rank(void *context, void *connection, const char *text, size_t length) {
  struct rank *rank = connection;
  struct by_cluster_message message;
  (void)context;
  assert_ok(by_cluster_message_read(text, length, &message));
  assert_int_not_equal(message.type, BY_MESSAGE_REFUSED);
  if (message.type == BY_MESSAGE_CLASSES) rank->class_ = message.jobs[0].class_;
  if (message.type == BY_MESSAGE_PLAN) rank->plan = message.number;
  if (message.type == BY_MESSAGE_CELLS) rank->cells = message.n_cells ? (int)message.cells[0].slots : NO_GRANT;
  by_cluster_message_fini(&message);
}

static void end_rank(void *context, void *connection) {
  (void)context;
  (void)connection;
}

static size_t count(void *context, struct by_agent_counter *out) {
  (void)context;
  *out = (struct by_agent_counter){.name = "eth0", .address = "10.0.0.1"};
  return 1;
}

static void take_rate(void *context, double rate) {
  (void)context;
  assert_true(rate > 0); /* the rate comes from the topology */
}

static enum banyan_status help(void *context, const struct by_cluster_message *message) {
  (void)context;
  (void)message;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "no helpers here");
}

static void rest(void *context, const char *job, bool server) {
  (void)server;
  (void)context;
  (void)job;
}

static void start_agent(struct host *host) {
  static const struct by_agent_calls calls = {.send_to_manager = send_to_manager,
                                              .connect = let_connect,
                                              .disconnect = disconnect,
                                              .send_to_rank = send_to_rank,
                                              .end_rank = end_rank,
                                              .count = count,
                                              .take_rate = take_rate,
                                              .help = help,
                                              .rest = rest};
  struct by_agent_options options = {.host = host->name,
                                     .manager = "m:1",
                                     .interval = interval,
                                     .rules = by_priority_defaults(),
                                     .seed = (uint64_t)(host - w.hosts),
                                     .calls = &calls,
                                     .context = host};
  assert_ok(by_agent_create(&options, w.now, &host->agent));
}

static void kill_agent(struct host *host) {
  unlink_host(host);
  by_agent_destroy(host->agent);
  host->agent = NULL;
  host->connecting = false;
  for (int i = 0; i < RANKS; i++)
    if (&w.hosts[w.ranks[i].host] == host) w.ranks[i].rank = NULL;
}

/* ---- the manager's callbacks */

static void send_down(void *context, void *connection, const struct by_cluster_message *message) {
  struct by_text text;
  (void)context;
  by_text_init(&text);
  by_cluster_message_print(message, &text);
  put(connection, false, by_text_get(&text), text.length);
  by_text_fini(&text);
}

static void start_manager(void) {
  struct by_manager_options options = by_manager_defaults();
  options.topology = w.topology;
  options.interval = interval;
  options.send = send_down;
  assert_ok(by_manager_create(&options, seconds(), &w.manager));
}

static void kill_manager(void) {
  by_manager_destroy(w.manager);
  w.manager = NULL;
  for (int h = 0; h < HOSTS; h++) {
    bool linked = w.hosts[h].peer != NULL;
    unlink_host(&w.hosts[h]);
    if (linked) by_agent_manager_gone(w.hosts[h].agent, "the peer closed the connection", w.now);
  }
}

static void plan_all(void) {
  struct by_plan_request *request;
  by_manager_tick(w.manager, seconds());
  while (by_manager_next(w.manager, seconds(), &request)) {
    by_plan_request_run(request);
    by_manager_planned(w.manager, request, seconds());
  }
}

/* ---- ranks */

static void type(const struct rank *rank, const char *line) {
  assert_true(by_agent_handle_rank(w.hosts[rank->host].agent, rank->rank, line, strlen(line), w.now));
}

static void send_switched(const struct rank *rank) {
  char line[200];
  snprintf(line, sizeof line, "{\"type\":\"switched\",\"job\":\"" JOB "\",\"number\":%llu,\"at\":%llu}",
           (unsigned long long)rank->ran, (unsigned long long)rank->iterations);
  type(rank, line);
}

static void answer_plan(struct rank *rank) {
  if (rank->plan == rank->ran) return;
  rank->ran = rank->plan;
  send_switched(rank);
}

/* Connects a rank and sends what a rank sends whenever it has connected. */
static void connect_rank(struct rank *rank) {
  char line[400];
  assert_ok(by_agent_rank_came(w.hosts[rank->host].agent, rank, 1000, w.now, &rank->rank));
  snprintf(line, sizeof line, "{\"type\":\"hello\",\"version\":3,\"host\":\"%s\",\"job\":\"" JOB "\",\"rank\":%u}",
           w.hosts[rank->host].name, rank->number);
  type(rank, line);
  if (rank->number > 0) return;
  int n = snprintf(line, sizeof line,
                   "{\"type\":\"job\",\"job\":\"" JOB
                   "\",\"name\":\"train\",\"size\":%d,\"root\":\"10.0.0.1:7\",\"hosts\":[",
                   RANKS);
  for (int i = 0; i < RANKS; i++)
    n += snprintf(line + n, sizeof line - (size_t)n, "%s\"%s\"", i ? "," : "", w.hosts[w.ranks[i].host].name);
  snprintf(line + n, sizeof line - (size_t)n, "]}");
  type(rank, line);
  if (rank->ran) send_switched(rank);
}

static void report(const struct rank *rank) {
  char line[400];
  snprintf(line, sizeof line,
           "{\"type\":\"report\",\"jobs\":[{\"job\":\"" JOB
           "\",\"ranks\":[%u],\"iterations\":%llu,\"iteration_time\":0.5,"
           "\"sent\":%llu,\"input\":%llu,\"calls\":%llu,\"sizes\":[]}]}",
           rank->number, (unsigned long long)rank->iterations, (unsigned long long)rank->sent,
           (unsigned long long)rank->sent / 2, (unsigned long long)rank->iterations);
  type(rank, line);
}

/* Each rank makes this many iterations and sends this many bytes. */
static void train(unsigned iterations, uint64_t bytes) {
  for (int i = 0; i < RANKS; i++) {
    w.ranks[i].iterations += iterations;
    w.ranks[i].sent += bytes;
    if (w.ranks[i].rank) report(&w.ranks[i]);
  }
}

/* ---- time */

static void serve(struct host *host) {
  if (!host->agent) return;
  if (by_agent_next(host->agent) <= w.now) by_agent_tick(host->agent, w.now);
  if (host->connecting) {
    host->connecting = false;
    if (w.manager) {
      assert_ok(by_manager_joined(w.manager, host, BY_ROLE_AGENT, host->name, seconds(), &host->peer));
      by_agent_manager_came(host->agent, w.now);
    } else {
      by_agent_manager_gone(host->agent, "connection refused", w.now);
    }
  }
  while (host->n) carry(host);
}

static void pass(double time) {
  for (uint64_t end = w.now + by_clock_from_seconds(time); w.now < end; w.now += 50 * BY_MILLISECOND) {
    for (int h = 0; h < HOSTS; h++) serve(&w.hosts[h]);
    if (w.manager) plan_all();
    for (int h = 0; h < HOSTS; h++) serve(&w.hosts[h]);
    if (w.ranks[0].rank) answer_plan(&w.ranks[0]);
  }
}

/* ---- expectations */

static json_t *state(void) {
  struct by_text text;
  by_text_init(&text);
  by_manager_state(w.manager, seconds(), &text);
  json_t *read = json_loads(by_text_get(&text), 0, NULL);
  by_text_fini(&text);
  assert_non_null(read);
  return read;
}

static bool is_moving(void) {
  json_t *all = state(), *job = json_array_get(json_object_get(all, "jobs"), 0);
  const char *is = json_string_value(json_object_get(job, "state"));
  bool moving = is && !strcmp(is, "switching");
  json_decref(all);
  return moving;
}

/* Checks the state of a job. A plan that has just been sent is answered first. */
static void expect_job(const char *wanted, uint64_t iterations) {
  for (int i = 0; i < 10 && is_moving(); i++) pass(0.1);
  json_t *all = state(), *job = json_array_get(json_object_get(all, "jobs"), 0);
  uint64_t plan = (uint64_t)json_integer_value(json_object_get(json_object_get(job, "plan"), "number"));
  assert_string_equal(json_string_value(json_object_get(job, "id")), JOB);
  assert_string_equal(json_string_value(json_object_get(job, "state")), wanted);
  assert_int_equal(json_integer_value(json_object_get(job, "iterations")), iterations);
  assert_int_equal(json_integer_value(json_object_get(json_object_get(all, "counters"), "refused")), 0);
  if (!strcmp(wanted, "running")) assert_int_equal(plan, w.ranks[0].ran);
  json_decref(all);
}

static void expect_class(uint32_t class_) {
  for (int i = 0; i < RANKS; i++)
    if (w.ranks[i].rank && w.ranks[i].class_ != class_)
      fail_msg("at %.1f s rank %d is in class %u, not %u", seconds() - begin, i, w.ranks[i].class_, class_);
}

static int make_cluster(void **state) {
  unsigned h = 0;
  (void)state;
  memset(&w, 0, sizeof w);
  w.now = BY_SECOND;
  assert_ok(by_topology_named("clos:racks=2,hosts=2", &w.topology));
  for (uint32_t v = 0; v < w.topology->n_nodes && h < HOSTS; v++)
    if (w.topology->nodes[v].kind == BY_NODE_HOST)
      snprintf(w.hosts[h++].name, sizeof w.hosts->name, "%s", w.topology->nodes[v].name);
  assert_int_equal(h, HOSTS);
  start_manager();
  for (unsigned i = 0; i < HOSTS; i++) start_agent(&w.hosts[i]);
  for (unsigned i = 0; i < RANKS; i++) w.ranks[i] = (struct rank){.number = i, .host = i % HOSTS};
  pass(1);
  for (unsigned i = 0; i < RANKS; i++) connect_rank(&w.ranks[i]);
  pass(1);
  train(1, 1000);
  pass(interval);
  return 0;
}

static int drop_cluster(void **state) {
  (void)state;
  for (int h = 0; h < HOSTS; h++) {
    drop_lines(&w.hosts[h]);
    by_agent_destroy(w.hosts[h].agent);
  }
  by_manager_destroy(w.manager);
  by_topology_destroy(w.topology);
  return 0;
}

static void test_runs(void **state) {
  (void)state;
  expect_job("running", 1);
  assert_true(w.ranks[0].ran > 0);
  expect_class(0);
  for (int i = 0; i < 20; i++) {
    train(1, 10000000000ull / RANKS);
    pass(interval);
  }
  expect_job("running", 21);
  expect_class(3); /* 200 GB */
}

static void test_manager_dies(void **state) {
  (void)state;
  for (int i = 0; i < 12; i++) {
    train(1, 2500000000ull / RANKS);
    pass(interval);
  }
  kill_manager();
  pass(10 * interval);
  train(5, 0);
  expect_class(2);
  start_manager(); /* the manager has no state */
  pass(interval);
  expect_job("running", 18);
  pass(interval); /* the manager sums up what the hosts have sent when they come back */
  expect_class(2);
}

static void test_agent_dies(void **state) {
  (void)state;
  for (unsigned h = 0; h < HOSTS; h++) {
    kill_agent(&w.hosts[h]);
    pass(0.3);
    start_agent(&w.hosts[h]);
    pass(0.2);
    for (int i = 0; i < RANKS; i++)
      if (w.ranks[i].host == h) connect_rank(&w.ranks[i]);
    train(1, 1000);
    pass(interval);
    expect_job("running", h + 2);
  }
}

/* ---- memory of switches */

/* Begins a job of two hosts, of which only rank 0 exists. */
static void begin_job(struct rank *rank, unsigned host, const char *job) {
  char line[400];
  *rank = (struct rank){.host = host};
  assert_ok(by_agent_rank_came(w.hosts[host].agent, rank, 1000, w.now, &rank->rank));
  snprintf(line, sizeof line, "{\"type\":\"hello\",\"version\":3,\"host\":\"%s\",\"job\":\"%s\",\"rank\":0}",
           w.hosts[host].name, job);
  type(rank, line);
  snprintf(
      line, sizeof line,
      "{\"type\":\"job\",\"job\":\"%s\",\"name\":\"other\",\"size\":2,\"root\":\"10.0.0.1:7\",\"hosts\":[\"%s\",\"%"
      "s\"]}",
      job, w.hosts[host].name, w.hosts[(host + 1) % HOSTS].name);
  type(rank, line);
}

/* Requests cells. `given` is the former grant; NO_GRANT: none yet. */
static void request(const struct rank *rank, const char *job, int given) {
  char line[300], last[40] = "";
  if (given != NO_GRANT) snprintf(last, sizeof last, ",\"given\":%d", given);
  snprintf(line, sizeof line,
           "{\"type\":\"reserve\",\"job\":\"%s\",\"cells\":[{\"switch\":\"leaf0\",\"slots\":512,\"bytes\":1000%s}]}",
           job, last);
  type(rank, line);
  pass(0.2);
}

static void expect_given(int slots) {
  json_t *all = state(), *first = json_array_get(json_object_get(all, "switches"), 0);
  assert_int_equal((int)json_number_value(json_object_get(first, "given")), 1000 * slots);
  json_decref(all);
}

static void make_leaf_add(void) {
  uint32_t v = 0;
  while (strcmp(w.topology->nodes[v].name, "leaf0") != 0) v++;
  w.topology->nodes[v].aggregates = true;
  w.topology->nodes[v].memory = 400 * 1000;
}

/* A manager without state learns from the agents which cells jobs have. */
static void test_cells(void **state) {
  static const char second_job[] = "11111111111111111111111111111111", third_job[] = "22222222222222222222222222222222";
  struct rank second, third;
  (void)state;
  make_leaf_add();
  request(&w.ranks[0], JOB, NO_GRANT);
  assert_int_equal(w.ranks[0].cells, 300);
  request(&w.ranks[0], JOB, 300);
  begin_job(&second, 1, second_job);
  request(&second, second_job, NO_GRANT);
  assert_int_equal(second.cells, 100);
  request(&second, second_job, 90); /* the switch had no more cells */
  expect_given(390);
  kill_manager();
  begin_job(&third, 2, third_job);
  request(&third, third_job, NO_GRANT);
  assert_int_equal(third.cells, NO_GRANT);
  request(&third, third_job, 5);
  start_manager();
  pass(interval);
  expect_given(395);
  by_agent_rank_gone(w.hosts[1].agent, second.rank, w.now);
  pass(interval);
  expect_given(305);
  by_agent_rank_gone(w.hosts[2].agent, third.rank, w.now);
}

static void test_ends(void **state) {
  (void)state;
  for (int i = RANKS; i-- > 0;) {
    by_agent_rank_gone(w.hosts[w.ranks[i].host].agent, w.ranks[i].rank, w.now);
    w.ranks[i].rank = NULL;
  }
  pass(0.2);
  expect_job("left", 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_runs, make_cluster, drop_cluster),
                                     cmocka_unit_test_setup_teardown(test_manager_dies, make_cluster, drop_cluster),
                                     cmocka_unit_test_setup_teardown(test_agent_dies, make_cluster, drop_cluster),
                                     cmocka_unit_test_setup_teardown(test_cells, make_cluster, drop_cluster),
                                     cmocka_unit_test_setup_teardown(test_ends, make_cluster, drop_cluster)};
  setenv("BANYAN_LOG", "error", 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
