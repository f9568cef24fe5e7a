/* Measures a manager in a process of its own, with simulated agents in this process that connect over TCP and TLS:
 * how many reports it handles, how long it plans, and how much memory it needs.
 *
 *     cluster_bench [AGENTS [JOBS]]        default: 1000 and 200
 *
 * The network has racks of 32 hosts for the given number of agents. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tests/tls_keys.h"
#include "cluster_message.h"
#include "json_doc.h"
#include "loop.h"
#include "manager_server.h"
#include "rng.h"
#include "socket.h"
#include "stream.h"
#include "topology_formats.h"

enum {
  IN_RACK = 32,
  MOST_AGENTS = 8192,
  MOST_JOBS = 1024,
  MOST_HOSTS = 64,
  PATHS = 4, /* Each host of a job reports this many paths: as many as it has neighbours in some trees. */
  BURST = 4,
  STATES = 5
};
#define NETWORK "clos:racks=%u,hosts=%d,nic=100g,oversub=4"
static const double interval = 2, nic = 100e9;

struct job {
  char id[BY_CLUSTER_JOB_ID + 1];
  uint32_t n, hosts[MOST_HOSTS];
  uint64_t number, input;
};

/* Returns the index of a job's host among its hosts. */
static uint32_t place_of(const struct job *job, uint32_t host) {
  uint32_t h = 0;
  while (job->hosts[h] != host) h++;
  return h;
}

struct agent {
  char name[32];
  struct by_stream *stream;
  bool welcome;
  uint32_t n_jobs;
  uint32_t jobs[MOST_JOBS];
};

static struct agent agents[MOST_AGENTS];
static struct job jobs[MOST_JOBS];
static uint32_t n_agents = 1000, n_jobs = 200, n_open;
static uint64_t n_plans;
static struct by_loop *loop;

static double now(void) {
  return (double)by_clock_now(&by_clock_system) / BY_SECOND;
}

/* ---- the manager's process: a byte in requests its counters or its state */

enum { ASKS_COUNTERS = 'c', ASKS_STATE = 's' };

struct state_head {
  uint64_t length;
  double took; /* Seconds to print the state, on the manager's loop. */
};

struct answering {
  struct by_manager_server *server;
  int fd;
};

static void write_all(int fd, const void *from, size_t length) {
  for (size_t at = 0; at < length;) {
    ssize_t n = write(fd, (const char *)from + at, length - at);
    if (n <= 0) _exit(1);
    at += (size_t)n;
  }
}

static void answer_with_state(const struct answering *a) {
  struct by_text text;
  by_text_init(&text);
  double begin = now();
  by_manager_server_state(a->server, &text);
  struct state_head head = {.length = text.length, .took = now() - begin};
  write_all(a->fd, &head, sizeof head);
  write_all(a->fd, text.data, text.length);
  by_text_fini(&text);
}

static void answer(void *context, uint32_t events) {
  const struct answering *a = context;
  char byte;
  (void)events;
  if (read(a->fd, &byte, 1) != 1) _exit(0);
  struct by_manager_counters counters = by_manager_server_get_counters(a->server);
  if (byte == ASKS_COUNTERS)
    write_all(a->fd, &counters, sizeof counters);
  else
    answer_with_state(a);
}

static void manage(int fd, const char *state) {
  struct by_manager_server_options options = {.state = state, .threads = 2, .manager = by_manager_defaults()};
  struct by_topology *topology;
  struct answering answering = {.fd = fd};
  struct by_watch *watch;
  char network[128];
  snprintf(network, sizeof network, NETWORK, (n_agents + IN_RACK - 1) / IN_RACK, IN_RACK);
  must(by_topology_named(network, &topology));
  must(by_loop_create(&by_clock_system, &loop));
  must(by_address_parse("127.0.0.1:0", &options.at));
  options.loop = loop;
  options.identity = identity_of(0, BY_TLS_MANAGER, "m");
  options.manager.topology = topology;
  options.manager.interval = interval;
  options.manager.replan = 3600; /* Replans happen only when this program causes them. */
  must(by_manager_server_create(&options, &answering.server));
  struct by_address at = by_manager_server_get_address(answering.server);
  int port = by_address_port(&at);
  if (write(fd, &port, sizeof port) != sizeof port) _exit(1);
  must(by_loop_watch(loop, fd, EPOLLIN, answer, &answering, &watch));
  must(by_loop_run(loop));
}

static void read_all(int fd, void *to, size_t length) {
  for (size_t at = 0; at < length;) {
    ssize_t n = read(fd, (char *)to + at, length - at);
    if (n <= 0) abort();
    at += (size_t)n;
  }
}

static json_t *ask_state(int fd, struct state_head *head) {
  static const struct by_doc_limits limits = {.bytes = 1u << 30, .containers = 1 << 24, .elements = 1 << 26};
  json_t *doc;
  write_all(fd, &(char){ASKS_STATE}, 1);
  read_all(fd, head, sizeof *head);
  char *text = malloc(head->length);
  read_all(fd, text, head->length);
  must(by_doc_load("state", text, head->length, &limits, &doc));
  free(text);
  return doc;
}

static struct by_manager_counters ask_counters(int fd) {
  struct by_manager_counters counters;
  write_all(fd, &(char){ASKS_COUNTERS}, 1);
  read_all(fd, &counters, sizeof counters);
  return counters;
}

/* These functions return the CPU seconds and the resident bytes of a process. */
static double cpu_of(pid_t pid) {
  char path[64];
  unsigned long user, system;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "r");
  if (!file || fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
    abort();
  fclose(file);
  return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double memory_of(pid_t pid) {
  char path[64];
  unsigned long pages;
  snprintf(path, sizeof path, "/proc/%d/statm", pid);
  FILE *file = fopen(path, "r");
  if (!file || fscanf(file, "%*u %lu", &pages) != 1) abort();
  fclose(file);
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* ---- agents */

static void send_message(struct agent *agent, const struct by_cluster_message *message) {
  struct by_text line;
  by_text_init(&line);
  by_cluster_message_print(message, &line);
  must(by_stream_send(agent->stream, 0, by_text_get(&line), line.length));
  by_text_fini(&line);
}

static void send_job(const struct job *job) {
  const char *hosts[MOST_HOSTS];
  for (uint32_t r = 0; r < job->n; r++) hosts[r] = agents[job->hosts[r]].name;
  send_message(&agents[job->hosts[0]], &(struct by_cluster_message){.type = BY_MESSAGE_JOB,
                                                                    .job = job->id,
                                                                    .name = "train",
                                                                    .root = "10.0.0.1:5000",
                                                                    .n_hosts = job->n,
                                                                    .hosts = hosts});
}

/* Reports paths to the next hosts of the job at the expected rate. No two reports are the same. */
static uint32_t report_paths(const struct agent *agent, const struct job *job, struct by_cluster_path *out) {
  static double more;
  uint32_t place = place_of(job, (uint32_t)(agent - agents)), n = 0;
  for (; n < PATHS && n < job->n - 1; n++)
    out[n] = (struct by_cluster_path){.to = agents[job->hosts[(place + n + 1) % job->n]].name,
                                      .sent = 1e9 + ++more,
                                      .busy = 0.02,
                                      .bandwidth = nic / 2};
  return n;
}

static void report(struct agent *agent, double rate) {
  struct by_cluster_interface eth0 = {.name = "eth0", .rate = rate};
  static struct by_cluster_path paths[MOST_JOBS][PATHS];
  struct by_cluster_job reports[MOST_JOBS];
  uint32_t rank = 0;
  for (uint32_t i = 0; i < agent->n_jobs; i++) {
    const struct job *job = &jobs[agent->jobs[i]];
    reports[i] = (struct by_cluster_job){.job = job->id,
                                         .n_ranks = 1,
                                         .ranks = &rank,
                                         .iterations = 100,
                                         .iteration_time = 0.5,
                                         .sent = 2 * job->input,
                                         .input = job->input,
                                         .calls = 100,
                                         .n_paths = report_paths(agent, job, paths[i]),
                                         .paths = paths[i]};
  }
  send_message(
      agent,
      &(struct by_cluster_message){
          .type = BY_MESSAGE_REPORT, .n_interfaces = 1, .interfaces = &eth0, .n_jobs = agent->n_jobs, .jobs = reports});
}

static void handle_message(void *context, uint16_t type, const void *line, size_t length) {
  struct agent *agent = context;
  struct by_cluster_message message;
  (void)type;
  must(by_cluster_message_read(line, length, &message));
  if (message.type == BY_MESSAGE_WELCOME) agent->welcome = true, n_open++;
  if (message.type == BY_MESSAGE_REFUSED) fprintf(stderr, "refused: %s\n", message.why), abort();
  if (message.type == BY_MESSAGE_PLAN) {
    send_message(
        agent, &(struct by_cluster_message){.type = BY_MESSAGE_SWITCHED, .job = message.job, .number = message.number});
    n_plans++;
  }
  by_cluster_message_fini(&message);
}

static void opened(void *context, uint8_t role, const void *name, size_t length) {
  struct agent *agent = context;
  struct by_cluster_interface eth0 = {.name = "eth0", .address = "10.0.0.1", .rate = nic};
  (void)role, (void)name, (void)length;
  send_message(agent, &(struct by_cluster_message){.type = BY_MESSAGE_HELLO,
                                                   .version = BY_CLUSTER_VERSION,
                                                   .host = agent->name,
                                                   .interfaces = &eth0,
                                                   .n_interfaces = 1});
}

static void ended(void *context, enum banyan_status status, const char *reason) {
  (void)context, (void)status;
  fprintf(stderr, "%s\n", reason);
  abort();
}

static void connect_agent(struct agent *agent, int port) {
  struct by_tls_identity *identity = identity_of(0, BY_TLS_AGENT, agent->name);
  struct by_tls_options tls = {.identity = identity, .peers = BY_TLS_MANAGER};
  struct by_address to;
  struct by_stream_options options = {.loop = loop,
                                      .connecting = &to,
                                      .tls = &tls,
                                      .timeout = 60 * BY_SECOND,
                                      .max_frame = BY_CLUSTER_LINE_UP,
                                      .max_queued = 64 << 20,
                                      .max_line = BY_CLUSTER_LINE_DOWN,
                                      .opened = opened,
                                      .frame = handle_message,
                                      .ended = ended,
                                      .context = agent};
  must(by_address_parse("127.0.0.1:1", &to));
  by_address_set_port(&to, port);
  must(by_socket_connect_start(&to, &options.fd));
  must(by_stream_create(&options, &agent->stream));
  by_tls_identity_destroy(identity);
}

/* ---- jobs: 4 to 64 hosts, half of them in racks next to each other, half anywhere */

static void make_job(uint32_t j, struct by_rng *rng) {
  struct job *job = &jobs[j];
  bool taken[MOST_AGENTS] = {false};
  uint32_t first = (uint32_t)by_rng_below(rng, n_agents);
  job->n = 4u << by_rng_below(rng, 5);
  if (job->n > n_agents) job->n = n_agents;
  job->input = 1 << 30;
  snprintf(job->id, sizeof job->id, "%032x", j + 1);
  for (uint32_t r = 0; r < job->n; r++) {
    uint32_t host = j % 2 ? (uint32_t)by_rng_below(rng, n_agents) : (first + r) % n_agents;
    while (taken[host]) host = (host + 1) % n_agents;
    taken[host] = true;
    job->hosts[r] = host;
    agents[host].jobs[agents[host].n_jobs++] = j;
  }
}

/* ---- measuring */

static void run_for(double seconds) {
  for (double end = now() + seconds; now() < end;) must(by_loop_run_once(loop, 10 * BY_MILLISECOND));
}

static void report_all(double rate_of_first) {
  for (uint32_t a = 0; a < n_agents; a++) report(&agents[a], a ? nic : rate_of_first);
}

/* Waits until every job was planned for this many times. Returns the seconds. */
static double wait_for(int fd, uint64_t planned) {
  double begin = now(), reported = 0;
  while (ask_counters(fd).planned < planned) {
    if (now() - reported > interval) report_all(nic / 2), reported = now();
    run_for(0.02);
  }
  return now() - begin;
}

static void measure_reports(int fd, pid_t pid) {
  uint64_t before = ask_counters(fd).reports, n = (uint64_t)BURST * n_agents;
  double cpu = cpu_of(pid), begin = now();
  for (int i = 0; i < BURST; i++) {
    report_all(nic / 2);
    run_for(0.01);
  }
  while (ask_counters(fd).reports < before + n) run_for(0.01);
  double took = now() - begin;
  cpu = cpu_of(pid) - cpu;
  printf("reports: %llu in %.2f s, %.0f a second here; %.0f us of the manager's time each\n", (unsigned long long)n,
         took, (double)n / took, cpu / (double)n * 1e6);
}

/* The manager handles no input while it prints the state. */
static void measure_state(int fd) {
  struct state_head head;
  double least = 1e9;
  for (int i = 0; i < STATES; i++) {
    json_decref(ask_state(fd, &head));
    if (head.took < least) least = head.took;
  }
  printf("state: %.1f MB of JSON, printed in %.1f ms\n", (double)head.length / 1e6, least * 1e3);
}

static void measure(int fd, pid_t pid) {
  double begin = now(), cpu;
  int port;
  read_all(fd, &port, sizeof port);
  for (uint32_t a = 0; a < n_agents; a++) {
    connect_agent(&agents[a], port);
    while (a >= n_open + 100) run_for(0.001);
  }
  while (n_open < n_agents) run_for(0.01);
  printf("agents: %u connected in %.1f s; the manager has %.0f MB\n", n_agents, now() - begin, memory_of(pid) / 1e6);
  cpu = cpu_of(pid);
  for (uint32_t j = 0; j < n_jobs; j++) send_job(&jobs[j]);
  double took = wait_for(fd, n_jobs);
  printf("first plans: %u jobs in %.1f s, %.1f ms of the manager's time each\n", n_jobs, took,
         (cpu_of(pid) - cpu) / n_jobs * 1e3);
  run_for(2 * interval); /* The jobs run, and their use of links is known. */
  measure_reports(fd, pid);
  uint64_t planned = ask_counters(fd).planned;
  cpu = cpu_of(pid);
  report(&agents[0], nic / 4); /* A link has changed: all jobs are planned again. */
  took = wait_for(fd, planned + n_jobs);
  printf("again: %u jobs in %.1f s, %.1f ms of the manager's time each\n", n_jobs, took,
         (cpu_of(pid) - cpu) / n_jobs * 1e3);
  measure_state(fd);
  printf("memory: %.0f MB; plans that were sent: %llu\n", memory_of(pid) / 1e6, (unsigned long long)n_plans);
}

int main(int argc, char **argv) {
  struct by_rng rng;
  char state[] = "/tmp/cluster_bench.XXXXXX";
  int pair[2], file = mkstemp(state);
  if (argc > 1) n_agents = (uint32_t)atoi(argv[1]);
  if (argc > 2) n_jobs = (uint32_t)atoi(argv[2]);
  if (file < 0 || n_agents < 4 || n_agents > MOST_AGENTS || n_jobs > MOST_JOBS) return 2;
  close(file);
  make_authorities();
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
  for (uint32_t a = 0; a < n_agents; a++)
    snprintf(agents[a].name, sizeof agents[a].name, "r%uh%u", a / IN_RACK, a % IN_RACK);
  by_rng_init(&rng, 1);
  for (uint32_t j = 0; j < n_jobs; j++) make_job(j, &rng);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    close(pair[0]);
    manage(pair[1], state);
    _exit(0);
  }
  close(pair[1]);
  must(by_loop_create(&by_clock_system, &loop));
  measure(pair[0], pid);
  kill(pid, SIGTERM);
  waitpid(pid, NULL, 0);
  for (uint32_t a = 0; a < n_agents; a++) by_stream_destroy(agents[a].stream);
  by_loop_destroy(loop);
  drop_authorities();
  static const char *const endings[] = {"", "-wal", "-shm"};
  for (int i = 0; i < 3; i++) {
    char path[64];
    snprintf(path, sizeof path, "%s%s", state, endings[i]);
    unlink(path);
  }
  return 0;
}
