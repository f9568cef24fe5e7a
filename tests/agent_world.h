/* An agent in memory. What it sends is kept, and the test sets its clock. All functions are static; include this file
 * once in a program. */
#ifndef BY_TESTS_AGENT_WORLD_H
#define BY_TESTS_AGENT_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#include "agent.h"
#include "clock.h"
#include "statement.h"

#define JOB_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define JOB_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

#define WELCOME "{\"type\":\"welcome\",\"version\":3,\"interval\":4,\"rate\":5e8}"
#define JOB_LINE(job)                                                                                                  \
  "{\"type\":\"job\",\"job\":\"" job "\",\"name\":\"train\",\"size\":2,\"hosts\":[\"h1\",\"h1\"],\"root\":\"h1:5\","   \
  "\"key\":\"k\"}"

enum { WORLD_LINES = 256, WORLD_INTERVAL = 4 /* seconds */ };

/* The lines that one receiver was sent, oldest first. */
struct received {
  char *lines[WORLD_LINES];
  int n;
  bool ended;
};

static struct world {
  struct by_agent *agent;
  uint64_t now;
  struct received manager;
  int connects, disconnects, helps, rests, serves, server_rests;
  uint32_t trees; /* of the server that was last asked for */
  bool no_connection, no_reading, no_helping, no_certificate;
  struct by_statement stated;
  double rate;
  size_t n_counters;
  struct by_agent_counter counters[4];
} world;

static inline void keep_line(struct received *received, const char *line, size_t length) {
  assert_true(received->n < WORLD_LINES);
  assert_null(memchr(line, '\n', length));
  received->lines[received->n++] = strndup(line, length);
}

static inline void forget(struct received *received) {
  for (int i = 0; i < received->n; i++) free(received->lines[i]);
  *received = (struct received){.n = 0};
}

/* Returns the last line that contains a text. Fails if there is none. */
static inline const char *last_with(const struct received *received, const char *text) {
  for (int i = received->n; i-- > 0;)
    if (strstr(received->lines[i], text)) return received->lines[i];
  fail_msg("no line contains %s", text);
  return "";
}

static inline int count_with(const struct received *received, const char *text) {
  int n = 0;
  for (int i = 0; i < received->n; i++) n += strstr(received->lines[i], text) != NULL;
  return n;
}

static inline void must_hold(const char *line, const char *text) {
  if (!strstr(line, text)) fail_msg("%s does not hold %s", line, text);
}

static inline bool on_send_manager(void *context, const char *line, size_t length) {
  (void)context;
  if (world.no_reading) return false;
  keep_line(&world.manager, line, length);
  return true;
}

static inline enum banyan_status on_connect(void *context) {
  (void)context;
  world.connects++;
  return world.no_connection ? by_fail(BANYAN_ERR_CONNECT, "no manager is there") : BANYAN_OK;
}

static inline void on_disconnect(void *context) {
  (void)context;
  world.disconnects++;
}

static inline void on_send_rank(void *context, void *connection, const char *line, size_t length) {
  (void)context;
  keep_line(connection, line, length);
}

static inline void on_end_rank(void *context, void *connection) {
  struct received *received = connection;
  (void)context;
  received->ended = true;
}

static inline size_t on_count(void *context, struct by_agent_counter *out) {
  (void)context;
  memcpy(out, world.counters, world.n_counters * sizeof *out);
  return world.n_counters;
}

static inline void on_rate(void *context, double rate) {
  (void)context;
  world.rate = rate;
}

static inline enum banyan_status on_help(void *context, const struct by_cluster_message *help) {
  (void)context;
  if (help->server)
    world.serves++, world.trees = help->trees;
  else
    world.helps++;
  return world.no_helping ? by_fail(BANYAN_ERR_SYSTEM, "no more processes") : BANYAN_OK;
}

static inline void on_rest(void *context, const char *job, bool server) {
  (void)context;
  (void)job;
  if (server)
    world.server_rests++;
  else
    world.rests++;
}

/* The statement is not signed here: it is what it is about. */
static inline enum banyan_status on_certify(void *context, const struct by_statement *statement, uint8_t *out,
                                            size_t *length) {
  (void)context;
  if (world.no_certificate) return by_fail(BANYAN_ERR_UNSUPPORTED, "there is no certificate");
  world.stated = *statement;
  *length = 2;
  memcpy(out, "\x12\xef", *length);
  return BANYAN_OK;
}

static inline void make_world_by(const char *manager, bool may_help, struct by_priority_rules rules) {
  static const struct by_agent_calls calls = {.send_to_manager = on_send_manager,
                                              .connect = on_connect,
                                              .disconnect = on_disconnect,
                                              .send_to_rank = on_send_rank,
                                              .end_rank = on_end_rank,
                                              .count = on_count,
                                              .take_rate = on_rate,
                                              .help = on_help,
                                              .rest = on_rest,
                                              .certify = on_certify};
  struct by_agent_options options = {.host = "h1",
                                     .manager = manager,
                                     .may_help = may_help,
                                     .may_serve = may_help,
                                     .interval = WORLD_INTERVAL,
                                     .rules = rules,
                                     .seed = 1,
                                     .calls = &calls};
  world = (struct world){.now = BY_SECOND, .n_counters = 1};
  world.counters[0] = (struct by_agent_counter){.name = "eth0", .address = "10.0.0.1", .rate = 1e9};
  assert_ok(by_agent_create(&options, world.now, &world.agent));
}

static inline void make_world(const char *manager, bool may_help) {
  make_world_by(manager, may_help, (struct by_priority_rules){.iterations = 10, .threshold = 1000});
}

static inline void drop_world(void) {
  by_agent_destroy(world.agent);
  forget(&world.manager);
}

static struct received zero, one, other;

static inline void drop_all(void) {
  drop_world();
  forget(&zero);
  forget(&one);
  forget(&other);
}

/* Lets time pass, with stops at all times at which the agent wants to act. */
static inline void pass(double seconds) {
  uint64_t end = world.now + by_clock_from_seconds(seconds);
  while (by_agent_next(world.agent) <= end) {
    if (by_agent_next(world.agent) > world.now) world.now = by_agent_next(world.agent);
    by_agent_tick(world.agent, world.now);
  }
  world.now = end;
}

static inline bool type(struct by_agent_rank *rank, const char *line) {
  return by_agent_handle_rank(world.agent, rank, line, strlen(line), world.now);
}

static inline void manager_sends(const char *line) {
  by_agent_handle_manager(world.agent, line, strlen(line), world.now);
}

static inline void connect_manager(void) {
  pass(0);
  assert_int_equal(world.connects, 1);
  by_agent_manager_came(world.agent, world.now);
  manager_sends(WELCOME);
}

static inline struct by_agent_rank *come(struct received *received, unsigned uid) {
  struct by_agent_rank *rank;
  *received = (struct received){.n = 0};
  assert_ok(by_agent_rank_came(world.agent, received, uid, world.now, &rank));
  return rank;
}

/* Connects and sends a hello. */
static inline struct by_agent_rank *join(struct received *received, const char *job, unsigned number) {
  char line[200];
  struct by_agent_rank *rank = come(received, 1000);
  snprintf(line, sizeof line, "{\"type\":\"hello\",\"version\":3,\"host\":\"h1\",\"job\":\"%s\",\"rank\":%u}", job,
           number);
  assert_true(type(rank, line));
  return rank;
}

static inline bool report(struct by_agent_rank *rank, const char *job, unsigned number, unsigned iterations,
                          unsigned long long sent) {
  char line[400];
  snprintf(line, sizeof line,
           "{\"type\":\"report\",\"jobs\":[{\"job\":\"%s\",\"ranks\":[%u],\"iterations\":%u,\"iteration_time\":0.5,"
           "\"sent\":%llu,\"input\":%u,\"calls\":%u,\"sizes\":[[20,%u]]}]}",
           job, number, iterations, sent, 7 * iterations, 2 * iterations, iterations);
  return type(rank, line);
}

#endif
