/* Random events of ranks, the manager and the clock, including invalid messages, hundreds of times over. Whatever
 * happened, all messages of an agent can be read, suit their receiver and are sent only to connected receivers; and a
 * manager that connects then receives exactly the ranks that are connected, with what they have done. */
#include "agent_world.h"

#include "rng.h"

enum { ROUNDS = 300, STEPS = 120, INCOMING = 12, JOBS = 3, RANKS = 4 };

struct incoming {
  struct by_agent_rank *rank; /* NULL: there is no connection. */
  struct received received;
  bool joined;
  int job;
  unsigned number, iterations;
  uint64_t sent;
  uint32_t class_;
};

static struct incoming incoming_connections[INCOMING];
static struct by_rng rng;
static bool open; /* Whether the link to the manager is open. */
static int answered, ended;

static unsigned draw(unsigned n) {
  return (unsigned)by_rng_below(&rng, n);
}

static const char *id_of(int job) {
  static const char *const ids[JOBS] = {JOB_A, JOB_B, "0123456789abcdef0123456789abcdef"};
  return ids[job];
}

/* ---- what was sent ---- */

static void read_all(struct received *received, bool up, uint32_t *class_) {
  struct by_cluster_message message;
  for (int i = 0; i < received->n; i++) {
    assert_ok(by_cluster_message_read(received->lines[i], strlen(received->lines[i]), &message));
    assert_true(by_cluster_type_is_up(message.type) == up);
    if (class_ && message.type == BY_MESSAGE_CLASSES) *class_ = message.jobs[0].class_;
    by_cluster_message_fini(&message);
  }
  bool end = received->ended;
  forget(received);
  received->ended = end;
}

static void read_everything(void) {
  assert_true(open || world.manager.n == 0 || world.disconnects > ended);
  read_all(&world.manager, true, NULL);
  for (int i = 0; i < INCOMING; i++) {
    read_all(&incoming_connections[i].received, false, &incoming_connections[i].class_);
    if (incoming_connections[i].received.ended) incoming_connections[i] = (struct incoming){.rank = NULL};
  }
  if (world.disconnects > ended) open = false;
  ended = world.disconnects;
}

/* ---- what may happen ---- */

static struct incoming *draw_incoming(void) {
  return &incoming_connections[draw(INCOMING)];
}

static void let_come(void) {
  struct incoming *incoming = draw_incoming();
  if (incoming->rank) return;
  *incoming = (struct incoming){.job = (int)draw(JOBS), .number = draw(RANKS)};
  incoming->rank = come(&incoming->received, 5);
}

static void let_send(struct incoming *incoming, const char *line) {
  if (!type(incoming->rank, line)) incoming->rank = NULL, incoming->received.ended = true;
}

static void let_join(void) {
  struct incoming *incoming = draw_incoming();
  char line[200];
  if (!incoming->rank || incoming->joined) return;
  snprintf(line, sizeof line, "{\"type\":\"hello\",\"version\":3,\"host\":\"h1\",\"job\":\"%s\",\"rank\":%u}",
           id_of(incoming->job), incoming->number);
  incoming->joined = true;
  let_send(incoming, line);
}

static void let_report(void) {
  struct incoming *incoming = draw_incoming();
  if (!incoming->joined) return;
  incoming->iterations += draw(10);
  incoming->sent += draw(2000);
  assert_true(report(incoming->rank, id_of(incoming->job), incoming->number, incoming->iterations, incoming->sent));
}

static void let_err(void) {
  static const char *const lines[] = {"", "{}", "{\"type\":\"welcome\",\"version\":3,\"interval\":1,\"rate\":0}",
                                      "{\"type\":\"plan\",\"job\":\"x\"}", "{\"type\":\"status\"}"};
  struct incoming *incoming = draw_incoming();
  struct by_text text;
  if (!incoming->rank || draw(4)) return;
  unsigned i = draw(5);
  if (i == 4 && !incoming->joined) { /* The status is for people and read by other programs. */
    by_text_init(&text);
    by_agent_print(world.agent, 0, world.now, &text);
    assert_false(text.failed);
    by_text_fini(&text);
    return;
  }
  let_send(incoming, lines[i]);
}

static void let_go(void) {
  struct incoming *incoming = draw_incoming();
  if (!incoming->rank || draw(3)) return;
  by_agent_rank_gone(world.agent, incoming->rank, world.now);
  incoming->received.ended = true;
}

static void let_manager_answer(void) {
  if (world.connects == answered || open) return;
  answered = world.connects;
  open = draw(3) > 0;
  if (open)
    by_agent_manager_came(world.agent, world.now);
  else
    by_agent_manager_gone(world.agent, "it does not answer", world.now);
}

static void let_manager_send(void) {
  static const char *const lines[] = {
      "{\"type\":\"welcome\",\"version\":3,\"interval\":4,\"rate\":0}",
      "{\"type\":\"classes\",\"jobs\":[{\"job\":\"" JOB_A "\",\"class\":3},{\"job\":\"" JOB_B "\",\"class\":1}]}",
      "{\"type\":\"plan\",\"job\":\"" JOB_B "\",\"number\":2,\"plan\":{}}",
      "{\"type\":\"help\",\"job\":\"" JOB_A "\",\"root\":\"h:1\",\"key\":\"k\",\"helper\":\"x\"}",
      "{\"type\":\"release\",\"job\":\"" JOB_A "\"}",
      "{\"type\":\"refused\",\"why\":\"so\"}",
      "nonsense"};
  unsigned i = draw(20);
  if (open) manager_sends(lines[i < 14 ? i % 5 : i == 14 ? 5 : i == 15 ? 6 : 0]);
}

static void let_manager_go(void) {
  if (!open || draw(4)) return;
  open = false;
  by_agent_manager_gone(world.agent, "it has died", world.now);
}

static void let_helper_end(void) {
  if (draw(2))
    by_agent_helper_joined(world.agent, JOB_A, false, world.now);
  else
    by_agent_helper_ended(world.agent, JOB_A, false, "it has died", world.now);
}

static void let_interfaces_change(void) {
  if (draw(4)) return;
  world.n_counters = draw(3);
  world.counters[1] = (struct by_agent_counter){.name = "eth1", .address = "10.0.1.1", .sent = draw(1000)};
  by_agent_links_changed(world.agent, world.now);
}

static void let_time_pass(void) {
  world.no_reading = draw(30) == 0;
  pass(draw(100) * 0.05);
  world.no_reading = false;
}

/* ---- what must hold afterwards ---- */

static void expect_job(const struct by_cluster_job *job) {
  unsigned seen = 0, iterations = 0;
  uint64_t sent = 0;
  for (int i = 0; i < INCOMING; i++) {
    const struct incoming *incoming = &incoming_connections[i];
    if (!incoming->joined || strcmp(id_of(incoming->job), job->job) != 0) continue;
    bool listed = false;
    for (uint32_t r = 0; r < job->n_ranks; r++) listed |= job->ranks[r] == incoming->number;
    assert_true(listed);
    seen++;
    sent += incoming->sent;
    if (incoming->iterations > iterations) iterations = incoming->iterations;
  }
  assert_int_equal(seen, job->n_ranks);
  assert_int_equal(sent, job->sent);
  assert_int_equal(iterations, job->iterations);
}

static void expect_all(void) {
  struct by_cluster_message message;
  unsigned ranks = 0, jobs = 0;
  bool here[JOBS] = {false};
  if (open) by_agent_manager_gone(world.agent, "it has died", world.now);
  pass(WORLD_INTERVAL);
  read_everything();
  by_agent_manager_came(world.agent, world.now);
  const char *last = last_with(&world.manager, "report");
  assert_non_null(strstr(world.manager.lines[0], "hello"));
  assert_ok(by_cluster_message_read(last, strlen(last), &message));
  for (uint32_t i = 0; i < message.n_jobs; i++) {
    expect_job(&message.jobs[i]);
    ranks += message.jobs[i].n_ranks;
  }
  for (int i = 0; i < INCOMING; i++) {
    if (!incoming_connections[i].joined) continue;
    ranks--;
    jobs += !here[incoming_connections[i].job];
    here[incoming_connections[i].job] = true;
  }
  assert_int_equal(ranks, 0);
  assert_int_equal(jobs, message.n_jobs);
  by_cluster_message_fini(&message);
  read_all(&world.manager, true, NULL);
}

/* All ranks of a job have received the same class. */
static void expect_classes(void) {
  for (int i = 0; i < INCOMING; i++)
    for (int j = 0; j < i; j++)
      if (incoming_connections[i].joined && incoming_connections[j].joined &&
          incoming_connections[i].job == incoming_connections[j].job)
        assert_int_equal(incoming_connections[i].class_, incoming_connections[j].class_);
}

static void test_anything(void **state) {
  static void (*const operations[])(void) = {let_come,         let_join,       let_join,       let_report,
                                             let_err,          let_go,         let_report,     let_manager_answer,
                                             let_manager_send, let_manager_go, let_helper_end, let_interfaces_change,
                                             let_time_pass,    let_time_pass};
  (void)state;
  for (unsigned round = 0; round < (unsigned)check_seeds(ROUNDS); round++) {
    by_rng_init(&rng, round);
    memset(incoming_connections, 0, sizeof incoming_connections);
    open = false;
    answered = ended = 0;
    make_world("m:1", true);
    for (int step = 0; step < STEPS; step++) {
      operations[draw(sizeof operations / sizeof *operations)]();
      read_everything();
      expect_classes();
    }
    expect_all();
    drop_world();
  }
}

int main(void) {
  setenv("BANYAN_LOG", "error", 0); /* Many warnings are expected. */
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_anything)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
