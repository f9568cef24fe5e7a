/* A manager in memory, with agents whose answers the test decides and a planner that runs at once. */
#ifndef BY_TESTS_MANAGER_WORLD_H
#define BY_TESTS_MANAGER_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "job_key.h"
#include "manager.h"
#include "topology_formats.h"

enum { WORLD_HOSTS = 64, WORLD_JOBS = 16, WORLD_SWITCHES = 16, WORLD_CELLS = 64 };

struct world_host {
  char name[32];
  struct by_manager_peer *peer; /* NULL: not connected */
  bool refused;
};

struct world_job {
  char id[BY_CLUSTER_JOB_ID + 1];
  uint32_t n, hosts[WORLD_HOSTS]; /* hosts: the host of each rank */
  bool runs, fake;                /* fake: only the first host has a rank of the job */
  double began;
  bool silent;     /* the job does not answer plans */
  uint64_t asked;  /* number of the plan that it was last asked to run; 0: none */
  uint64_t number; /* number of the plan that it runs; 0: none */
  char *plan;      /* the plan that it was last asked to run, */
  char *topology;  /* and the topology beside it */
  uint32_t n_cells;
  struct world_cells {
    char at[32], server[32];
    uint32_t slots;
  } cells[WORLD_CELLS]; /* of that plan */
  uint32_t n_switches;  /* that it names */
  bool keeps_cells;     /* the job does not report that it has returned the cells of earlier plans */
  uint64_t released;    /* the plan whose cells it has last reported as returned; 0: none */
  uint64_t iterations, sent, input;
  uint64_t expected; /* expected number of iterations, as the job reports it */
  double ends_in;    /* seconds until its end, as it reports */
  double iteration_time;
  const char *own_plan; /* NULL: its user set none */
  const char *own_trees;
  bool replaces;
  const char *ways;
  uint32_t class_; /* the class that host 0 has received */
};

struct world {
  double now, age; /* age: of agents that connect */
  struct by_topology *topology;
  struct by_manager_options options;
  struct by_manager *manager;
  uint32_t n_hosts, n_jobs;
  struct world_host hosts[WORLD_HOSTS], switches[WORLD_SWITCHES];
  uint32_t n_switches;
  struct world_job jobs[WORLD_JOBS];
  unsigned plans, helps, rests, classes, answers; /* numbers of sent messages; answers: to cell requests */
  uint32_t n_cells, cells[8];                     /* the cells of the last answer */
  bool helpers_come, no_keys;                     /* no_keys: helpers may not join */
  uint32_t n_asked;                               /* helpers that were asked and have not answered */
  struct {
    uint32_t host;
    bool server;
    char job[BY_CLUSTER_JOB_ID + 1];
  } asked[WORLD_HOSTS];
  unsigned serves, server_rests; /* servers that were asked, and released */
  uint32_t trees;                /* of the server that was last asked */
  uint64_t offer;                /* the number of the last offer of hosts, */
  char offered[256];             /* and their names, with blanks between them */
  char lists[1024];              /* of processes that meet, since it was emptied: "number:first:handle+handle " */
};

static struct world_job *world_find(struct world *w, const char *id) {
  for (uint32_t j = 0; j < w->n_jobs; j++)
    if (!strcmp(w->jobs[j].id, id)) return &w->jobs[j];
  fail_msg("job %s was never begun", id);
  return NULL;
}

/* Agents never get the key under which tickets are issued, which is "secret" here. */
static void check_ticket(const struct by_cluster_message *help, const char *host, double now) {
  struct by_ticket_subject subject = {help->server ? BY_TICKET_SERVER : BY_TICKET_HELPER, host};
  struct by_ticket ticket;
  struct by_key key, secret;
  assert_string_equal(help->helper, host);
  assert_int_equal(by_ticket_parse(help->key, &ticket), BANYAN_OK);
  assert_int_equal(by_ticket_check(ticket.head, &subject, (uint64_t)now), BANYAN_OK);
  assert_int_equal(by_ticket_check(ticket.head, &subject, (uint64_t)now + 2 * BY_TICKET_SECONDS), BANYAN_ERR_AUTH);
  assert_int_equal(by_key_derive("secret", &key), BANYAN_OK);
  assert_int_equal(by_ticket_prove(&key, ticket.head, &secret), BANYAN_OK);
  assert_memory_equal(&secret, &ticket.secret, sizeof secret);
}

static void deliver_message(void *context, void *connection, const struct by_cluster_message *message) {
  struct world *w = context;
  struct world_host *host = connection;
  switch (message->type) {
  case BY_MESSAGE_PLAN: {
    struct world_job *job = world_find(w, message->job);
    assert_ptr_equal(&w->hosts[job->hosts[0]], host);
    assert_true(message->number > job->asked);
    job->asked = message->number;
    free(job->plan);
    free(job->topology);
    job->plan = strdup(message->plan);
    job->topology = message->topology ? strdup(message->topology) : NULL;
    job->n_switches = message->n_switches;
    for (uint32_t i = 0; i < message->n_switches; i++)
      assert_string_equal(message->switches[i].address, "10.9.0.1:7613");
    job->n_cells = message->n_cells;
    assert_true(message->n_cells <= WORLD_CELLS);
    for (uint32_t i = 0; i < message->n_cells; i++) {
      snprintf(job->cells[i].at, sizeof job->cells[i].at, "%s", message->cells[i].at);
      snprintf(job->cells[i].server, sizeof job->cells[i].server, "%s", message->cells[i].server);
      job->cells[i].slots = message->cells[i].slots;
    }
    w->plans++;
    break;
  }
  case BY_MESSAGE_CLASSES:
    for (uint32_t i = 0; i < message->n_jobs; i++) {
      struct world_job *job = world_find(w, message->jobs[i].job);
      if (&w->hosts[job->hosts[0]] == host) job->class_ = message->jobs[i].class_;
    }
    w->classes++;
    break;
  case BY_MESSAGE_HELP:
    check_ticket(message, host->name, w->now);
    w->asked[w->n_asked].host = (uint32_t)(host - w->hosts);
    w->asked[w->n_asked].server = message->server;
    memcpy(w->asked[w->n_asked++].job, message->job, sizeof w->asked->job);
    if (message->server)
      w->serves++, w->trees = message->trees;
    else
      w->helps++;
    break;
  case BY_MESSAGE_REST:
    if (message->server)
      w->server_rests++;
    else
      w->rests++;
    break;
  case BY_MESSAGE_CELLS:
    assert_true(message->n_cells <= 8);
    w->n_cells = message->n_cells;
    for (uint32_t i = 0; i < w->n_cells; i++) w->cells[i] = message->cells[i].slots;
    w->answers++;
    break;
  case BY_MESSAGE_MEMBERS: {
    size_t length = strlen(w->lists), room = sizeof w->lists - length;
    length += (size_t)snprintf(w->lists + length, room, "%llu%s", (unsigned long long)message->number,
                               message->attempt ? ":first" : ":join");
    for (uint32_t i = 0; i < message->n_handles; i++)
      length +=
          (size_t)snprintf(w->lists + length, sizeof w->lists - length, "%c%s", i ? '+' : ':', message->handles[i]);
    snprintf(w->lists + length, sizeof w->lists - length, " ");
    break;
  }
  case BY_MESSAGE_OFFERED:
    w->offer = message->number;
    w->offered[0] = '\0';
    for (uint32_t i = 0; i < message->n_hosts; i++)
      snprintf(w->offered + strlen(w->offered), sizeof w->offered - strlen(w->offered), "%s%s", i ? " " : "",
               message->hosts[i]);
    break;
  default: break;
  }
}

/* Begins with the topology's hosts in its order, without agents. */
static inline void world_begin(struct world *w, const char *topology) {
  memset(w, 0, sizeof *w);
  w->now = 1000;
  assert_ok(by_topology_named(topology, &w->topology));
  for (uint32_t v = 0; v < w->topology->n_nodes; v++) {
    if (w->topology->nodes[v].kind != BY_NODE_HOST) continue;
    assert_true(w->n_hosts < WORLD_HOSTS);
    snprintf(w->hosts[w->n_hosts++].name, 32, "%s", w->topology->nodes[v].name);
  }
  w->options = by_manager_defaults();
  w->options.topology = w->topology;
  w->options.send = deliver_message;
  w->options.context = w;
  assert_ok(by_manager_create(&w->options, w->now, &w->manager));
}

static inline void world_end(struct world *w) {
  by_manager_destroy(w->manager);
  for (uint32_t j = 0; j < w->n_jobs; j++) {
    free(w->jobs[j].plan);
    free(w->jobs[j].topology);
  }
  by_topology_destroy(w->topology);
}

/* Reports for a host whose interface has another rate than the topology states; 0: unknown rate. */
static inline enum banyan_status world_report(struct world *w, uint32_t h, double rate, double others) {
  struct by_cluster_interface eth0 = {.name = "eth0", .rate = rate, .sent = others, .received = others};
  struct by_cluster_message report = {.type = BY_MESSAGE_REPORT, .interfaces = &eth0, .n_interfaces = 1};
  struct by_cluster_job jobs[WORLD_JOBS];
  uint32_t ranks[WORLD_JOBS];
  for (uint32_t j = 0; j < w->n_jobs; j++) {
    const struct world_job *job = &w->jobs[j];
    for (uint32_t r = 0; r < (job->fake ? 1 : job->n) && job->runs; r++) {
      if (job->hosts[r] != h) continue;
      ranks[j] = r;
      jobs[report.n_jobs++] = (struct by_cluster_job){.job = job->id,
                                                      .n_ranks = 1,
                                                      .ranks = &ranks[j],
                                                      .iterations = job->iterations,
                                                      .expected = r == 0 ? job->expected : 0,
                                                      .ends_in = r == 0 ? job->ends_in : 0,
                                                      .iteration_time = job->iteration_time,
                                                      .sent = job->sent / job->n,
                                                      .input = job->input,
                                                      .calls = job->iterations};
    }
  }
  report.jobs = jobs;
  return by_manager_handle(w->manager, w->hosts[h].peer, &report, w->now);
}

static inline void world_send_job(struct world *w, const struct world_job *job) {
  const char *hosts[WORLD_HOSTS];
  for (uint32_t r = 0; r < job->n; r++) hosts[r] = w->hosts[job->hosts[r]].name;
  struct by_cluster_message message = {.type = BY_MESSAGE_JOB,
                                       .job = job->id,
                                       .name = "train",
                                       .root = "10.0.0.1:5000",
                                       .key = w->no_keys ? NULL : "secret",
                                       .began = job->began,
                                       .own_plan = job->own_plan,
                                       .plan = job->own_plan ? job->own_trees : NULL,
                                       .replace_plan = job->replaces,
                                       .ways = job->ways,
                                       .n_hosts = job->n,
                                       .hosts = hosts};
  assert_ok(by_manager_handle(w->manager, w->hosts[job->hosts[0]].peer, &message, w->now));
}

static inline void world_send(struct world *w, const struct world_job *job, enum by_cluster_type type,
                              uint64_t number) {
  struct by_cluster_message message = {.type = type, .job = job->id, .number = number, .why = "it would not"};
  assert_ok(by_manager_handle(w->manager, w->hosts[job->hosts[0]].peer, &message, w->now));
}

/* Connects an agent, which has sent only its identity. */
static inline void world_greet(struct world *w, uint32_t h) {
  struct by_cluster_interface eth0 = {.name = "eth0", .address = "10.0.0.1"};
  struct by_cluster_message hello = {.type = BY_MESSAGE_HELLO,
                                     .version = BY_CLUSTER_VERSION,
                                     .host = w->hosts[h].name,
                                     .may_help = true,
                                     .may_serve = true,
                                     .age = w->age,
                                     .interfaces = &eth0,
                                     .n_interfaces = 1};
  assert_ok(by_manager_joined(w->manager, &w->hosts[h], BY_ROLE_ANY, NULL, w->now, &w->hosts[h].peer));
  assert_ok(by_manager_handle(w->manager, w->hosts[h].peer, &hello, w->now));
}

/* Connects the agent of a switch of the topology that adds, or connects it again. */
static inline void world_join_switch(struct world *w, const char *name, uint32_t cells) {
  struct by_cluster_aggregates aggregates = {.cells = cells, .bytes = 2048, .address = "10.9.0.1:7613", .key = "k"};
  struct by_cluster_message hello = {
      .type = BY_MESSAGE_HELLO, .version = BY_CLUSTER_VERSION, .host = name, .age = w->age, .aggregates = &aggregates};
  uint32_t s = 0;
  while (s < w->n_switches && strcmp(w->switches[s].name, name) != 0) s++;
  assert_true(s < WORLD_SWITCHES);
  if (s == w->n_switches) snprintf(w->switches[w->n_switches++].name, sizeof w->switches[s].name, "%s", name);
  assert_ok(by_manager_joined(w->manager, &w->switches[s], BY_ROLE_ANY, NULL, w->now, &w->switches[s].peer));
  assert_ok(by_manager_handle(w->manager, w->switches[s].peer, &hello, w->now));
  struct by_cluster_message report = {.type = BY_MESSAGE_REPORT};
  assert_ok(by_manager_handle(w->manager, w->switches[s].peer, &report, w->now));
}

/* All switches of the topology. */
static inline void world_join_switches(struct world *w, uint32_t cells) {
  for (uint32_t v = 0; v < w->topology->n_nodes; v++)
    if (w->topology->nodes[v].kind == BY_NODE_SWITCH) world_join_switch(w, w->topology->nodes[v].name, cells);
}

static inline void world_part_switch(struct world *w, const char *name) {
  uint32_t s = 0;
  while (strcmp(w->switches[s].name, name) != 0) s++;
  by_manager_gone(w->manager, w->switches[s].peer, w->now);
  w->switches[s].peer = NULL;
}

/* Connects an agent, which sends its first report at once. */
static inline void world_join(struct world *w, uint32_t h) {
  world_greet(w, h);
  for (uint32_t j = 0; j < w->n_jobs; j++) {
    if (!w->jobs[j].runs || w->jobs[j].hosts[0] != h) continue;
    world_send_job(w, &w->jobs[j]);
    if (w->jobs[j].number) world_send(w, &w->jobs[j], BY_MESSAGE_SWITCHED, w->jobs[j].number);
    if (w->jobs[j].released) world_send(w, &w->jobs[j], BY_MESSAGE_RELEASED, w->jobs[j].released);
  }
  assert_ok(world_report(w, h, 0, 0));
}

static inline void world_part(struct world *w, uint32_t h) {
  by_manager_gone(w->manager, w->hosts[h].peer, w->now);
  w->hosts[h].peer = NULL;
}

/* Begins a job on n hosts from `first` on, `step` apart. Their agents have not reported it yet. */
static inline struct world_job *world_send_run(struct world *w, uint32_t first, uint32_t step, uint32_t n) {
  struct world_job *job = &w->jobs[w->n_jobs];
  *job = (struct world_job){.n = n, .runs = true, .iteration_time = 1};
  snprintf(job->id, sizeof job->id, "%032x", ++w->n_jobs);
  for (uint32_t r = 0; r < n; r++) job->hosts[r] = (first + r * step) % w->n_hosts;
  if (w->hosts[job->hosts[0]].peer) world_send_job(w, job);
  return job;
}

static inline void world_report_job(struct world *w, const struct world_job *job) {
  for (uint32_t r = 0; r < job->n; r++)
    if (w->hosts[job->hosts[r]].peer) assert_ok(world_report(w, job->hosts[r], 0, 0));
}

static inline struct world_job *world_run(struct world *w, uint32_t first, uint32_t step, uint32_t n) {
  struct world_job *job = world_send_run(w, first, step, n);
  world_report_job(w, job);
  return job;
}

static inline void world_send_helping_as(struct world *w, uint32_t h, const char *job, bool server, bool joined) {
  struct by_cluster_message message = {.type = BY_MESSAGE_HELPING,
                                       .job = job,
                                       .helper = w->hosts[h].name,
                                       .server = server,
                                       .joined = joined,
                                       .why = "it was asked to"};
  assert_ok(by_manager_handle(w->manager, w->hosts[h].peer, &message, w->now));
}

static inline void world_send_helping(struct world *w, uint32_t h, const char *job, bool joined) {
  world_send_helping_as(w, h, job, false, joined);
}

static inline void world_release(struct world *w, struct world_job *job, uint64_t number) {
  job->released = number;
  world_send(w, job, BY_MESSAGE_RELEASED, number);
}

/* Makes every plan that is due, has helpers join, and has the jobs that were asked switch plans. */
static inline unsigned world_plan(struct world *w) {
  struct by_plan_request *request;
  unsigned n = 0;
  by_manager_tick(w->manager, w->now);
  for (; by_manager_next(w->manager, w->now, &request); n++) {
    by_plan_request_run(request);
    by_manager_planned(w->manager, request, w->now);
    assert_true(n < 1000);
  }
  uint32_t asked = w->n_asked;
  w->n_asked = 0;
  for (uint32_t i = 0; i < asked && w->helpers_come; i++)
    if (w->hosts[w->asked[i].host].peer)
      world_send_helping_as(w, w->asked[i].host, w->asked[i].job, w->asked[i].server, true);
  for (uint32_t j = 0; j < w->n_jobs; j++) {
    struct world_job *job = &w->jobs[j];
    if (!job->runs || job->silent || job->asked <= job->number || !w->hosts[job->hosts[0]].peer) continue;
    uint64_t before = job->number;
    job->number = job->asked;
    world_send(w, job, BY_MESSAGE_SWITCHED, job->number);
    if (before && !job->keeps_cells) world_release(w, job, before);
  }
  return n;
}

/* Lets an interval pass in which each job consumes this many bytes of input. All connected agents report, except that
 * of host `silent`. */
static inline void world_pass_but(struct world *w, uint64_t input, uint32_t silent) {
  w->now += w->options.interval;
  for (uint32_t j = 0; j < w->n_jobs; j++) {
    if (!w->jobs[j].runs) continue;
    w->jobs[j].iterations++;
    w->jobs[j].input += input;
    w->jobs[j].sent += 2 * input * w->jobs[j].n;
  }
  for (uint32_t h = 0; h < w->n_hosts; h++)
    if (w->hosts[h].peer && h != silent) assert_ok(world_report(w, h, 0, 0));
}

static inline void world_pass(struct world *w, uint64_t input) {
  world_pass_but(w, input, WORLD_HOSTS);
}

#endif
