/* Jobs and the agent of their host, which the test plays. The tests check what ranks report to the agent and how they
 * handle its messages. The job must not depend on the agent, whether the agent dies, sends malformed messages, or does
 * nothing. */
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "cluster_message.h"
#include "comm.h"
#include "job.h"
#include "job_network.h"
#include "priority.h"
#include "socket.h"

enum { RANKS = 3, LINE = 1 << 20, TIMEOUT_MS = 50000, COUNT = 5000, BUCKETS = 3 };

/* Commands of the test to the ranks, sent through the stages of their reports, and the ranks' answers. */
enum { GO_ON, CHECK_CLASS, CHECK_PLAN_SWITCHES, END, CHECKED /* an answer */, SET_BY_HAND, SET /* an answer */, GROUP };

/* ---- the ranks' processes */

static uint32_t count_sockets(int tos, int priority) {
  uint32_t n = 0;
  for (int fd = 3; fd < 1024; fd++) {
    int has[3] = {-1, -1, -1}; /* protocol, ToS and priority */
    static const int levels[3] = {SOL_SOCKET, IPPROTO_IP, SOL_SOCKET}, names[3] = {SO_PROTOCOL, IP_TOS, SO_PRIORITY};
    for (int i = 0; i < 3; i++) {
      socklen_t length = sizeof has[i];
      if (getsockopt(fd, levels[i], names[i], &has[i], &length) != 0) has[i] = -1;
    }
    n += has[0] == IPPROTO_TCP && has[1] == tos && has[2] == priority;
  }
  return n;
}

static bool has_class(struct banyan_comm *world, int class_) {
  char metrics[16384], wanted[64];
  banyan_comm_metrics(world, metrics, sizeof metrics);
  snprintf(wanted, sizeof wanted, "banyan_class{rank=\"%d\"} %d\n", banyan_comm_rank(world), class_);
  return strstr(metrics, wanted) != NULL;
}

/* Waits until all links are marked with the class. Control connections and listening sockets must not be marked. */
static void check_class(struct banyan_comm *world, int class_) {
  for (double until = job_now() + 30; !has_class(world, class_) && job_now() < until;) usleep(1000);
  must_hold(has_class(world, class_));
  int tos = by_priority_tos((uint32_t)class_), priority = by_priority_socket((uint32_t)class_);
  struct banyan_counters counters;
  banyan_comm_counters(world, &counters);
  must_hold(counters.links >= 1);
  for (double until = job_now() + 30; count_sockets(tos, priority) != counters.links && job_now() < until;)
    usleep(1000);
  must_hold(count_sockets(tos, priority) == counters.links);
  must_hold(count_sockets(0, 0) >= 1);
}

/* Computes a few sums, like those of a model's gradients. */
static void iterate(struct banyan_comm *world, int rank, float *values) {
  for (int b = 0; b < BUCKETS; b++) {
    size_t count = COUNT + 100 * (size_t)b;
    for (size_t i = 0; i < count; i++) values[i] = (float)(rank + 1 + (int)(i % 7));
    must(banyan_allreduce(world, values, values, count, BANYAN_FLOAT32, BANYAN_SUM));
    for (size_t i = 0; i < count; i++) must_hold(values[i] == (float)(6 + RANKS * (int)(i % 7)));
  }
}

/* All ranks receive the command in rank 0's stage in the same iteration. */
static int listen_to_test(struct job *job, struct banyan_comm *world) {
  int32_t command = atomic_load(&job->reports[0].stage);
  must(banyan_broadcast(world, &command, 1, BANYAN_INT32, 0));
  return command;
}

/* What the job's network looks like from here: the topology and the nodes of hosts. */
static struct by_text print_network(struct banyan_comm *world) {
  struct by_job_network *network = by_job_network_hold(world->job);
  struct by_text text;
  by_text_init(&text);
  if (network) by_topology_print(network->topology, &text);
  for (uint32_t h = 0; network && h < network->n_hosts; h++) by_text_add(&text, " %u", network->nodes[h]);
  by_job_network_release(network);
  return text;
}

/* Ranks 1 and 2 are the successors of rank 0, and come to know what it knows. */
static void check_network(struct banyan_comm *world) {
  struct by_text own = print_network(world);
  uint32_t ranks[BY_JOB_SUCCESSORS], length = (uint32_t)own.length;
  must_hold(by_job_successors(world->job, ranks) == 2 && ranks[0] == 1 && ranks[1] == 2);
  must(banyan_broadcast(world, &length, sizeof length, BANYAN_UINT8, 0));
  char *wanted = calloc(1, length + 1);
  must_hold(wanted && length > 0);
  memcpy(wanted, by_text_get(&own), length < own.length ? length : own.length);
  must(banyan_broadcast(world, wanted, length, BANYAN_UINT8, 0));
  for (double until = job_now() + 30; strcmp(by_text_get(&own), wanted) != 0; usleep(1000)) {
    must_hold(job_now() < until);
    by_text_fini(&own);
    own = print_network(world);
  }
  by_text_fini(&own);
  free(wanted);
}

/* The group of ranks 1 and 2 calls until it has a plan that rank 0 made of the manager's topology. */
static void check_group(struct banyan_comm *world, int rank) {
  struct banyan_plan_info plan = {0};
  struct banyan_comm *group;
  int32_t one = 1, planned = 0;
  must(banyan_comm_split(world, rank ? 0 : -1, rank, &group));
  for (double until = job_now() + 30; group && !planned; must_hold(job_now() < until)) {
    int32_t sum;
    must(banyan_allreduce(group, &one, &sum, 1, BANYAN_INT32, BANYAN_SUM));
    must_hold(sum == RANKS - 1);
    must(banyan_comm_plan(group, COUNT, &plan));
    planned = plan.source == BANYAN_PLAN_TOPOLOGY;
    must(banyan_broadcast(group, &planned, 1, BANYAN_INT32, 0));
    usleep(1000);
  }
  /* They have links of 2 and 1 Gbit/s to one switch, the second half used by others, which limits them. */
  if (group) must_hold(plan.bound > 0.49e9 && plan.bound < 0.51e9);
  banyan_comm_destroy(group);
}

static const char *users_plan; /* the user's plan for the next job to be started; NULL: none */

static void rank_trains(struct job *job, int rank) {
  float *values = calloc(COUNT + 100 * BUCKETS, sizeof *values);
  struct banyan_counters counters;
  char host[8];
  int checked = 0;
  snprintf(host, sizeof host, "h%d", rank);
  setenv("BANYAN_HOST", host, 1);
  if (users_plan) setenv("BANYAN_PLAN", users_plan, 1);
  struct banyan_comm *world = job_join();
  must_hold(values != NULL);
  for (int command = GO_ON; command != END; command = listen_to_test(job, world)) {
    iterate(world, rank, values);
    usleep(2000);
    must(banyan_comm_expect(world, 60000)); /* takes precedence over the environment */
    if (command == SET_BY_HAND) must(banyan_comm_set_plan(world, "ring"));
    if (command == SET_BY_HAND) must(banyan_barrier(world)); /* rank 0, which cannot answer, has set the plan too */
    if (command == SET_BY_HAND && rank) job_set_stage(job, rank, SET);
    if (command == GROUP && !checked) {
      check_network(world);
      check_group(world, rank);
      checked = 1;
      if (rank) job_set_stage(job, rank, CHECKED);
    }
    banyan_comm_counters(world, &counters);
    job->reports[rank].number = counters.plan_switches;
    if ((command != CHECK_CLASS && command != CHECK_PLAN_SWITCHES) || checked) continue;
    if (command == CHECK_PLAN_SWITCHES && counters.plan_switches < 2) continue; /* checked at a later call */
    checked = 1;
    if (command == CHECK_CLASS) check_class(world, 2);
    must_hold(counters.plan_switches == (command == CHECK_PLAN_SWITCHES ? 2 : 0));
    if (rank) job_set_stage(job, rank, CHECKED);
  }
  banyan_comm_destroy(world);
  free(values);
}

/* ---- the agent that the test plays */

struct peer {
  int fd; /* -1: closed */
  uint32_t rank;
  size_t length;
  char line[LINE];
};

struct agent {
  char path[64];
  int listener;
  struct peer *peers[RANKS];
  char job[BY_CLUSTER_JOB_ID + 1];
  char own_plan[32]; /* the plan that rank 0 named with the job; "": none */
};

/* Opens the agent's socket. A second agent uses the same path. */
static void open_agent(struct agent *agent) {
  static int opened;
  struct by_path_socket place = {.path = agent->path, .program = "agent", .option = "", .mode = 0600};
  if (!agent->path[0])
    snprintf(agent->path, sizeof agent->path, "/tmp/banyan-test-agent-%d-%d", (int)getpid(), ++opened);
  assert_ok(by_path_socket_listen(&place, &agent->listener));
  setenv("BANYAN_AGENT", agent->path, 1);
  setenv("BANYAN_JOB", "a test's job", 1);
}

static void hang_up(struct agent *agent) {
  for (int i = 0; i < RANKS; i++) {
    if (!agent->peers[i]) continue;
    if (agent->peers[i]->fd >= 0) close(agent->peers[i]->fd);
    free(agent->peers[i]);
    agent->peers[i] = NULL;
  }
}

static void close_agent(struct agent *agent) {
  hang_up(agent);
  close(agent->listener);
  unlink(agent->path);
}

static void wait_for(int fd) {
  struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
  if (poll(&poll_fd, 1, TIMEOUT_MS) != 1) fail_msg("the ranks send nothing");
}

/* Receives the next message. Returns false if the rank has closed the connection. */
static bool receive(struct peer *peer, struct by_cluster_message *message) {
  char *end;
  while (!(end = memchr(peer->line, '\n', peer->length))) {
    wait_for(peer->fd);
    ssize_t n = read(peer->fd, peer->line + peer->length, sizeof peer->line - peer->length);
    if (n <= 0) return false;
    peer->length += (size_t)n;
  }
  size_t length = (size_t)(end - peer->line);
  assert_ok(by_cluster_message_read(peer->line, length, message));
  assert_true(by_cluster_type_is_up(message->type));
  peer->length -= length + 1;
  memmove(peer->line, end + 1, peer->length);
  return true;
}

/* Receives the next message of this type and discards reports before it, and the job if it is described with
 * the same plan again: rank 0 does so when that has become its communicator's after the first description. */
static void receive_or_job(struct peer *peer, enum by_cluster_type type, const char *own_plan,
                           struct by_cluster_message *message) {
  for (;;) {
    assert_true(receive(peer, message));
    if (message->type == type) return;
    bool again =
        message->type == BY_MESSAGE_JOB && own_plan && message->own_plan && !strcmp(message->own_plan, own_plan);
    if (message->type != BY_MESSAGE_REPORT && !again)
      fail_msg("\"%s\": %s", by_cluster_type_name(message->type), message->why);
    by_cluster_message_fini(message);
  }
}

static void receive_only(struct peer *peer, enum by_cluster_type type, struct by_cluster_message *message) {
  receive_or_job(peer, type, NULL, message);
}

static void send_text(const struct peer *peer, const char *text) {
  assert_int_equal(write(peer->fd, text, strlen(text)), strlen(text));
}

static void type(const struct peer *peer, const struct by_cluster_message *message) {
  struct by_text text;
  by_text_init(&text);
  by_cluster_message_print(message, &text);
  by_text_add(&text, "\n");
  send_text(peer, by_text_get(&text));
  by_text_fini(&text);
}

static void receive_job(struct agent *agent, struct peer *peer) {
  struct by_cluster_message message;
  char host[8];
  assert_true(receive(peer, &message));
  assert_int_equal(message.type, BY_MESSAGE_JOB);
  snprintf(agent->own_plan, sizeof agent->own_plan, "%s", message.own_plan ? message.own_plan : "");
  assert_string_equal(message.job, agent->job);
  assert_string_equal(message.name, "a test's job");
  assert_int_equal(message.n_hosts, RANKS);
  for (int i = 0; i < RANKS; i++) {
    snprintf(host, sizeof host, "h%d", i);
    assert_string_equal(message.hosts[i], host);
  }
  assert_non_null(message.key); /* the one for helpers, not the job's */
  by_cluster_message_fini(&message);
}

/* The next connection that begins with a hello. Each process asks for a statement before, and this agent has no
 * certificate. */
static void accept_hello(const struct agent *agent, struct peer *peer, struct by_cluster_message *message) {
  static const struct by_cluster_message no = {.type = BY_MESSAGE_REFUSED, .why = "this agent has no certificate"};
  for (;;) {
    wait_for(agent->listener);
    *peer = (struct peer){.fd = accept(agent->listener, NULL, NULL)};
    assert_true(peer->fd >= 0);
    assert_true(receive(peer, message));
    if (message->type != BY_MESSAGE_CERTIFY) break;
    by_cluster_message_fini(message);
    type(peer, &no);
    close(peer->fd);
  }
  assert_int_equal(message->type, BY_MESSAGE_HELLO);
}

/* Accepts a rank's connection and receives its hello and, from rank 0, the job. */
static void accept_one(struct agent *agent) {
  struct by_cluster_message message;
  struct peer *peer = calloc(1, sizeof *peer);
  assert_non_null(peer);
  accept_hello(agent, peer, &message);
  assert_in_range(message.rank, 0, RANKS - 1);
  assert_int_equal(strlen(message.job), BY_CLUSTER_JOB_ID);
  if (agent->job[0]) assert_string_equal(agent->job, message.job);
  snprintf(agent->job, sizeof agent->job, "%s", message.job);
  assert_null(agent->peers[message.rank]);
  agent->peers[message.rank] = peer;
  peer->rank = message.rank;
  by_cluster_message_fini(&message);
  if (peer->rank == 0) receive_job(agent, peer);
}

static void accept_all(struct agent *agent) {
  for (int i = 0; i < RANKS; i++) accept_one(agent);
}

static void welcome_all(const struct agent *agent, double interval) {
  for (int i = 0; i < RANKS; i++)
    type(agent->peers[i],
         &(struct by_cluster_message){.type = BY_MESSAGE_WELCOME, .version = BY_CLUSTER_VERSION, .interval = interval});
}

static void set_class(const struct agent *agent, uint32_t class_) {
  struct by_cluster_job job = {.job = agent->job, .class_ = class_};
  for (int i = 0; i < RANKS; i++)
    type(agent->peers[i], &(struct by_cluster_message){.type = BY_MESSAGE_CLASSES, .n_jobs = 1, .jobs = &job});
}

static void begin(struct agent *agent, struct job *job) {
  *agent = (struct agent){0};
  open_agent(agent);
  *job = (struct job){.n = RANKS, .run = rank_trains, .transport = "tcp"};
  job_start(job);
}

/* Reports come at this interval, in seconds. */
static void begin_welcomed(struct agent *agent, struct job *job, double interval) {
  begin(agent, job);
  accept_all(agent);
  welcome_all(agent, interval);
}

static void end(struct agent *agent, struct job *job) {
  job_set_stage(job, 0, END);
  job_end(job, true);
  close_agent(agent);
  unsetenv("BANYAN_AGENT");
}

/* ---- reports */

static uint64_t count_sizes(const struct by_cluster_job *job) {
  uint64_t calls = 0;
  for (uint32_t i = 0; i < job->n_sizes; i++) calls += job->sizes[i].calls;
  return calls;
}

/* An iteration consists of the sums and the broadcast. */
static void check_reports(struct peer *peer, const char *own_plan) {
  struct by_cluster_message message;
  uint64_t iterations = 0, calls = 0, expected = 0;
  double time = 0;
  for (int i = 0; i < 1000 && (iterations < 40 || !(time > 0)); i++) {
    receive_or_job(peer, BY_MESSAGE_REPORT, own_plan, &message);
    assert_int_equal(message.n_jobs, 1);
    const struct by_cluster_job *job = &message.jobs[0];
    assert_int_equal(job->n_ranks, 1);
    assert_int_equal(job->ranks[0], peer->rank);
    assert_true(job->calls >= calls && job->iterations >= iterations); /* the report may lag behind the job */
    assert_int_equal(count_sizes(job), job->calls);
    assert_in_range(job->iterations * (BUCKETS + 1), 0, job->calls);
    assert_true(job->input >= job->calls / (BUCKETS + 1) * BUCKETS * COUNT * sizeof(float));
    calls = job->calls;
    iterations = job->iterations;
    time = job->iteration_time;
    expected = job->expected;
    assert_true(job->sent > 0 || calls < BUCKETS);
    by_cluster_message_fini(&message);
  }
  assert_true(iterations >= 40 && time > 0.001);
  assert_int_equal(expected, peer->rank == 0 ? 60000 : 0); /* rank 0's value counts */
  assert_in_range(calls - iterations * (BUCKETS + 1), 0, 3 * (BUCKETS + 1));
}

static void test_reports(void **state) {
  (void)state;
  static struct agent agent;
  struct job job;
  setenv("BANYAN_ITERATIONS", "70000", 1);
  begin_welcomed(&agent, &job, 0.02);
  for (int i = 0; i < RANKS; i++) check_reports(agent.peers[i], agent.own_plan);
  set_class(&agent, 3);
  set_class(&agent, 2);
  usleep(200000);
  job_set_stage(&job, 0, CHECK_CLASS);
  for (int r = 1; r < RANKS; r++) job_wait_stage(&job, r, CHECKED);
  end(&agent, &job);
}

/* A class that was set by hand stays in use. */
static void test_class_by_hand(void **state) {
  (void)state;
  static struct agent agent;
  struct job job;
  setenv("BANYAN_CLASS", "2", 1);
  begin_welcomed(&agent, &job, 10);
  set_class(&agent, 3);
  usleep(200000);
  job_set_stage(&job, 0, CHECK_CLASS);
  for (int r = 1; r < RANKS; r++) job_wait_stage(&job, r, CHECKED);
  end(&agent, &job);
  unsetenv("BANYAN_CLASS");
}

/* ---- plans */

#define TREES ", \"trees\": [{\"share\": 1, \"root\": \"h0\", \"up\": {\"h1\": \"h0\", \"h2\": \"h1\"}}]}"
#define PLAN(a, b, c)                                                                                                  \
  "{\"format\": \"banyan-plan 1\", \"name\": \"hosts\", \"ranks\": 3, \"vertices\": {\"" a                             \
  "\": {\"kind\": \"rank\", \"rank\": 0}, \"" b "\": {\"kind\": \"rank\", \"rank\": 1}, \"" c                          \
  "\": {\"kind\": \"rank\", \"rank\": 2}}" TREES

static void send_plan(const struct agent *agent, uint64_t number, const char *plan) {
  type(agent->peers[0],
       &(struct by_cluster_message){.type = BY_MESSAGE_PLAN, .job = agent->job, .number = number, .plan = plan});
}

static uint64_t receive_switched(struct peer *peer, uint64_t number) {
  struct by_cluster_message message;
  receive_only(peer, BY_MESSAGE_SWITCHED, &message);
  assert_int_equal(message.number, number);
  uint64_t at = message.at;
  assert_true(at > 0);
  by_cluster_message_fini(&message);
  return at;
}

/* Returns the type of the first message that only reports types after the hello. */
static enum by_cluster_type receive_next(struct peer *peer) {
  struct by_cluster_message message;
  assert_true(receive(peer, &message));
  enum by_cluster_type type = message.type;
  by_cluster_message_fini(&message);
  return type;
}

/* Waits until all ranks have made this many plan switches. */
static void wait_for_plan_switches(const struct job *job, uint64_t plan_switches) {
  for (double until = job_now() + 50; job_now() < until; usleep(1000)) {
    int have = 0;
    for (int r = 0; r < RANKS; r++) have += job->reports[r].number >= plan_switches;
    if (have == RANKS) return;
  }
  job_fail(job, "not all ranks have switched plans");
}

/* Plans change while calls go on. All sums stay right, and each change happens at one place of an iteration. An agent
 * that connects later receives the plan again unless another plan has been set by hand. */
static void test_plan_switches(void **state) {
  (void)state;
  static struct agent agent;
  struct job job;
  begin_welcomed(&agent, &job, 0.05);
  check_reports(agent.peers[0], agent.own_plan);
  send_plan(&agent, 1, PLAN("h0", "h1", "h2"));
  uint64_t first = receive_switched(agent.peers[0], 1);
  wait_for_plan_switches(&job, 1);
  send_plan(&agent, 7, PLAN("h0", "h1", "h2"));
  uint64_t second = receive_switched(agent.peers[0], 7);
  assert_int_equal((second - first) % (BUCKETS + 1), 0);
  check_reports(agent.peers[2], agent.own_plan);
  job_set_stage(&job, 0, CHECK_PLAN_SWITCHES);
  for (int r = 1; r < RANKS; r++) job_wait_stage(&job, r, CHECKED);
  close_agent(&agent);
  open_agent(&agent);
  accept_all(&agent);
  assert_int_equal(receive_switched(agent.peers[0], 7), second);
  job_set_stage(&job, 0, SET_BY_HAND);
  for (int r = 1; r < RANKS; r++) job_wait_stage(&job, r, SET);
  close_agent(&agent);
  open_agent(&agent);
  accept_all(&agent);
  welcome_all(&agent, 0.05);
  assert_int_equal(receive_next(agent.peers[0]), BY_MESSAGE_REPORT);
  end(&agent, &job);
}

static void receive_refusal(const struct agent *agent, uint64_t number, const char *why) {
  struct by_cluster_message message;
  receive_or_job(agent->peers[0], BY_MESSAGE_KEPT, agent->own_plan, &message);
  assert_int_equal(message.number, number);
  if (!strstr(message.why, why)) fail_msg("plan %u is refused: %s", (unsigned)number, message.why);
  by_cluster_message_fini(&message);
}

#define TOPOLOGY(used)                                                                                                 \
  "{\"format\": \"banyan-topology 1\", \"nodes\": [{\"name\": \"h0\"}, {\"name\": \"h1\"}, {\"name\": \"h2\"}, "       \
  "{\"name\": \"s\", \"kind\": \"switch\"}], \"links\": [{\"a\": \"h0\", \"b\": \"s\", \"capacity\": \"1g\"}, "        \
  "{\"a\": \"h1\", \"b\": \"s\", \"capacity\": \"2g\"}, {\"a\": \"h2\", \"b\": \"s\", \"capacity\": \"1g\", "          \
  "\"used\": \"" used "\"}]}"

/* A plan comes with the topology that it was made from, and groups get plans of it, also where the job itself cannot
 * use its plan. A topology that makes no sense changes nothing. */
static void test_groups(void **state) {
  (void)state;
  static struct agent agent;
  struct job job;
  begin_welcomed(&agent, &job, 0.05);
  struct by_cluster_message plan = {
      .type = BY_MESSAGE_PLAN, .job = agent.job, .number = 1, .plan = PLAN("h0", "h2", "h1")};
  static const char *const topologies[] = {"{\"format\": 1}", TOPOLOGY("0"), TOPOLOGY("500m")};
  for (; plan.number <= 3; plan.number++) {
    plan.topology = topologies[plan.number - 1];
    type(agent.peers[0], &plan);
    receive_refusal(&agent, plan.number, "host 1 of the job is \"h1\"");
  }
  job_set_stage(&job, 0, GROUP);
  for (int r = 1; r < RANKS; r++) job_wait_stage(&job, r, CHECKED);
  end(&agent, &job);
}

static void receive_own_plan(struct peer *peer, const char *plan) {
  struct by_cluster_message message;
  receive_only(peer, BY_MESSAGE_JOB, &message);
  assert_string_equal(message.own_plan ? message.own_plan : "(none)", plan);
  by_cluster_message_fini(&message);
}

/* A plan that the user gave the job stays in use, whatever the manager proposes. The manager is notified of it. */
static void test_users_plan(void **state) {
  (void)state;
  static struct agent agent;
  struct job job;
  users_plan = "chain";
  begin(&agent, &job);
  users_plan = NULL;
  accept_all(&agent);
  assert_string_equal(agent.own_plan, "chain");
  welcome_all(&agent, 0.05);
  send_plan(&agent, 1, PLAN("h0", "h1", "h2"));
  receive_refusal(&agent, 1, "the user has set plan 'chain', which a manager does not replace");
  check_reports(agent.peers[0], agent.own_plan);
  for (int r = 0; r < RANKS; r++) assert_int_equal(job.reports[r].number, 0);
  end(&agent, &job);
}

/* The same for a plan that the user sets after the manager has switched the job's plan. */
static void test_users_plan_later(void **state) {
  (void)state;
  static struct agent agent;
  struct job job;
  begin(&agent, &job);
  accept_all(&agent);
  assert_string_equal(agent.own_plan, "");
  welcome_all(&agent, 0.05);
  send_plan(&agent, 1, PLAN("h0", "h1", "h2"));
  (void)receive_switched(agent.peers[0], 1);
  wait_for_plan_switches(&job, 1);
  job_set_stage(&job, 0, SET_BY_HAND);
  receive_own_plan(agent.peers[0], "ring");
  send_plan(&agent, 2, PLAN("h0", "h1", "h2"));
  receive_refusal(&agent, 2, "the user has set plan 'ring'");
  for (int r = 0; r < RANKS; r++) assert_int_equal(job.reports[r].number, 1);
  end(&agent, &job);
}

/* A plan for other hosts is not used, nor is a malformed plan. */
static void test_plans(void **state) {
  (void)state;
  static struct agent agent;
  struct by_cluster_message message;
  struct job job;
  begin_welcomed(&agent, &job, 10);
  send_plan(&agent, 1, PLAN("h0", "h2", "h1"));
  receive_only(agent.peers[0], BY_MESSAGE_KEPT, &message);
  assert_int_equal(message.number, 1);
  assert_non_null(strstr(message.why, "host 1 of the job is \"h1\", of plan 'hosts' it is \"h2\""));
  by_cluster_message_fini(&message);
  send_plan(&agent, 2, "{\"format\": \"banyan-plan 1\"}");
  receive_only(agent.peers[0], BY_MESSAGE_KEPT, &message);
  assert_int_equal(message.number, 2);
  by_cluster_message_fini(&message);
  end(&agent, &job);
}

/* ---- faults */

/* A restarted agent receives everything again, and one line is logged. */
static void test_agent_comes_back(void **state) {
  (void)state;
  static struct agent agent;
  struct job job;
  begin_welcomed(&agent, &job, 0.05);
  check_reports(agent.peers[1], agent.own_plan);
  close_agent(&agent);
  for (double until = job_now() + 50; !job_count_log(&job, "the job continues without it") && job_now() < until;)
    usleep(1000);
  open_agent(&agent);
  accept_all(&agent);
  welcome_all(&agent, 0.05);
  for (int i = 0; i < RANKS; i++) check_reports(agent.peers[i], agent.own_plan);
  job_check_log(&job, "the job continues without it", 1);
  end(&agent, &job);
}

/* A malformed message closes the connection and has no other effect. */
static void test_nonsense(void **state) {
  (void)state;
  static struct agent agent;
  static const char *const lines[RANKS] = {"hello\n", "{\"type\": \"classes\"}\n",
                                           "{\"type\": \"refused\", \"why\": \"no room\"}\n"};
  struct job job;
  begin_welcomed(&agent, &job, 0.05);
  for (int i = 0; i < RANKS; i++) {
    struct by_cluster_message message;
    send_text(agent.peers[i], lines[i]);
    while (receive(agent.peers[i], &message)) by_cluster_message_fini(&message);
  }
  end(&agent, &job);
}

/* The agent accepts connections and does not read, or reads and sends nothing, or does not exist. */
static void test_silence(void **state) {
  (void)state;
  static struct agent agent;
  struct job job;
  begin(&agent, &job);
  accept_all(&agent);
  type(agent.peers[0],
       &(struct by_cluster_message){.type = BY_MESSAGE_WELCOME, .version = BY_CLUSTER_VERSION, .interval = 0.0001});
  usleep(500000);
  end(&agent, &job);
  job = (struct job){.n = RANKS, .run = rank_trains, .transport = "tcp"};
  setenv("BANYAN_AGENT", "/tmp/there is no such agent", 1);
  job_start(&job);
  usleep(300000);
  job_set_stage(&job, 0, END);
  job_end(&job, true);
  unsetenv("BANYAN_AGENT");
}

/* ---- idle jobs */

static long switches(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw;
}

#ifdef __SANITIZE_THREAD__
enum { MOST_SWITCHES = 1 << 30 }; /* a thread of the sanitizer wakes all the time */
#else
enum { MOST_SWITCHES = 3 }; /* this thread wakes too, to report its stage */
#endif

/* While nothing changes, nothing is sent and no thread wakes. The next call is reported. */
static void rank_idles(struct job *job, int rank) {
  char host[8];
  int32_t one = 1;
  snprintf(host, sizeof host, "h%d", rank);
  setenv("BANYAN_HOST", host, 1);
  struct banyan_comm *world = job_join();
  must(banyan_allreduce(world, &one, &one, 1, BANYAN_INT32, BANYAN_SUM));
  job_set_stage(job, rank, 1);
  long then, now = 0;
  int tries = 0;
  do { /* a report may still be on its way */
    then = switches();
    usleep(500000);
    now = switches();
  } while (now - then > MOST_SWITCHES && ++tries < 20);
  if (now - then > MOST_SWITCHES) rank_fail("threads woke %ld times", now - then);
  must(banyan_allreduce(world, &one, &one, 1, BANYAN_INT32, BANYAN_SUM));
  while (atomic_load(&job->reports[rank].stage) < 3) usleep(1000);
  banyan_comm_destroy(world);
}

static void test_idle(void **state) {
  (void)state;
  static struct agent agent;
  struct by_cluster_message message;
  struct job job;
  agent = (struct agent){0};
  open_agent(&agent);
  job = (struct job){.n = RANKS, .run = rank_idles, .transport = "tcp"};
  job_start(&job);
  accept_all(&agent);
  welcome_all(&agent, 0.01);
  for (uint64_t calls = 0; calls < 2;) {
    receive_only(agent.peers[1], BY_MESSAGE_REPORT, &message);
    calls = message.jobs[0].calls;
    by_cluster_message_fini(&message);
  }
  for (int r = 0; r < RANKS; r++) job_set_stage(&job, r, 3);
  job_end(&job, true);
  close_agent(&agent);
  unsetenv("BANYAN_AGENT");
}

/* ---- memberships: each one is a job to the agent, and the one before leaves though its communicators are there */

enum { HANDLE = 2048 };

static struct board {
  char handles[RANKS][HANDLE];
  _Atomic int published;
} * board;

static struct banyan_comm *form(struct banyan_member *member, const char *name, int n) {
  const char *handles[RANKS];
  struct banyan_comm *comm;
  int32_t one = 1;
  for (int i = 0; i < n; i++) handles[i] = board->handles[i];
  must(banyan_member_reconfigure(member, name, handles, n, 30, &comm));
  must(banyan_allreduce(comm, &one, &one, 1, BANYAN_INT32, BANYAN_SUM));
  must_hold(one == n);
  return comm;
}

static void rank_re_forms(struct job *job, int rank) {
  struct banyan_member *member;
  struct banyan_comm *first, *second = NULL;
  char host[8];
  snprintf(host, sizeof host, "h%d", rank);
  setenv("BANYAN_HOST", host, 1);
  must(banyan_member_create(NULL, &member));
  snprintf(board->handles[rank], HANDLE, "%s", banyan_member_handle(member));
  atomic_fetch_add(&board->published, 1);
  while (atomic_load(&board->published) < RANKS) usleep(500);
  first = form(member, "first", RANKS);
  while (atomic_load(&job->reports[rank].stage) < 1) usleep(1000);
  if (rank < 2) second = form(member, "second", 2);
  while (atomic_load(&job->reports[rank].stage) < 2) usleep(1000);
  banyan_comm_destroy(second);
  banyan_comm_destroy(first);
  banyan_member_destroy(member);
}

static void accept_member(struct agent *agent, struct peer *peer, int size, char *id) {
  struct by_cluster_message message;
  accept_hello(agent, peer, &message);
  snprintf(id, BY_CLUSTER_JOB_ID + 1, "%s", message.job);
  peer->rank = message.rank;
  by_cluster_message_fini(&message);
  if (peer->rank != 0) return;
  assert_true(receive(peer, &message));
  assert_int_equal(message.type, BY_MESSAGE_JOB);
  assert_int_equal(message.n_hosts, size);
  by_cluster_message_fini(&message);
}

static void test_memberships(void **state) {
  (void)state;
  enum { SECOND = 2 };
  static struct agent agent;
  static struct peer peers[RANKS], others[SECOND];
  const struct by_cluster_message welcome = {.type = BY_MESSAGE_WELCOME, .version = BY_CLUSTER_VERSION, .interval = 10};
  struct by_cluster_message message;
  struct job job = {.n = RANKS, .run = rank_re_forms, .transport = "tcp"};
  char first[BY_CLUSTER_JOB_ID + 1], second[BY_CLUSTER_JOB_ID + 1];
  memset(board, 0, sizeof *board);
  agent = (struct agent){0};
  open_agent(&agent);
  job_start(&job);
  for (int i = 0; i < RANKS; i++) {
    accept_member(&agent, &peers[i], RANKS, first);
    type(&peers[i], &welcome);
  }
  for (int r = 0; r < RANKS; r++) job_set_stage(&job, r, 1);
  for (int i = 0; i < SECOND; i++) {
    accept_member(&agent, &others[i], SECOND, second);
    type(&others[i], &welcome);
    assert_string_not_equal(first, second);
  }
  for (int i = 0; i < RANKS; i++) {
    if (peers[i].rank >= SECOND) continue;
    receive_only(&peers[i], BY_MESSAGE_LEFT, &message);
    assert_string_equal(message.job, first);
    by_cluster_message_fini(&message);
    while (receive(&peers[i], &message)) fail_msg("a rank that has left goes on to report");
  }
  for (int r = 0; r < RANKS; r++) job_set_stage(&job, r, 2);
  job_end(&job, true);
  for (int i = 0; i < RANKS; i++) close(peers[i].fd);
  for (int i = 0; i < SECOND; i++) close(others[i].fd);
  close_agent(&agent);
  unsetenv("BANYAN_AGENT");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reports),    cmocka_unit_test(test_class_by_hand),
      cmocka_unit_test(test_users_plan), cmocka_unit_test(test_users_plan_later),
      cmocka_unit_test(test_plans),      cmocka_unit_test(test_plan_switches),
      cmocka_unit_test(test_groups),     cmocka_unit_test(test_agent_comes_back),
      cmocka_unit_test(test_nonsense),   cmocka_unit_test(test_silence),
      cmocka_unit_test(test_idle),       cmocka_unit_test(test_memberships),
  };
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (board == MAP_FAILED) return 1;
  return cmocka_run_group_tests_name("ranks and their agent", tests, NULL, NULL);
}
