/* Rates the plans of a manager: jobs over random hosts of a network begin one after the other, a real manager plans
 * for them, and a fluid model computes the rates of the jobs.
 *
 *     plan_scores [-v] [-j JOBS] [-s SEEDS] TOPOLOGY...      JOBS: 1,4 by default; TOPOLOGY: a file or a kind
 *
 * Prints a line for each network and number of jobs, over SEEDS draws (1 by default). First comes the throughput of
 * a plan as a fraction of the most that trees over the same hosts carry on the capacity that others leave, on
 * average and at worst. Then come all jobs together, each relative to its rate alone: the slowest job, with the
 * manager's plans and with rings in the order of hosts, as a fraction of the best that any trees of all jobs can
 * give it, by a linear program over all of them. The processor time of a plan comes last. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "graph.h"
#include "lp.h"
#include "manager.h"
#include "plan_request.h"
#include "rates.h"
#include "rng.h"
#include "text.h"
#include "topology_formats.h"

enum { MOST_JOBS = 64, INTERVALS = 60, APART = 4, ROUNDS = 600 };
static const double near_enough = 0.995, smoothing = 0.7, beginning = 1000;

struct job {
  char id[BY_CLUSTER_JOB_ID + 1];
  uint32_t n, *nodes;
  bool runs;
  double rate; /* bit/s of input */
  uint64_t iterations, input, number, asked;
  struct by_link_shares shares, asked_shares, ring;
  double alone; /* bit/s that any trees carry on the empty network */
};

static const struct by_topology *topology;
static struct by_manager *manager;
static struct by_manager_peer **peers; /* the peer of each node, or NULL if it is not a host */
static struct job jobs[MOST_JOBS];
static uint32_t n_jobs, n_hosts, *hosts;
static double now;
static bool verbose;

static struct {
  double sum, least, seconds;
  uint32_t n, moves;
} plans;

static void must(enum banyan_status status) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "%s\n", banyan_error_text());
  exit(1);
}

static double processor_time(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- the most that trees of all jobs can carry: column generation, as in pack_exact.h, over all jobs at once */

struct joint {
  uint32_t n_jobs, n_rows; /* There is a row for each step, then one for each job. */
  struct job **jobs;
  struct by_graph **graphs;
  struct by_span *spans;
  double *capacity, *price, *fair, *values, unit;
  struct by_lp *lp;
  double bound;
};

static double capacity_of_step(uint32_t s) {
  uint32_t links = 2 * topology->n_links;
  if (s < links) return by_residual(topology->links[s / 2].capacity[s % 2]);
  const struct by_node *node = &topology->nodes[(s - links) / 2];
  return by_residual(s % 2 ? node->in : node->out);
}

/* Returns the steps of a resource. A node's limit applies to both directions. */
static uint32_t steps_of(const struct by_origin *origin, uint32_t out[2]) {
  uint32_t base = origin->kind == BY_ORIGIN_LINK ? 0 : 2 * topology->n_links, n = 0;
  for (uint32_t way = 0; way < 2; way++)
    if (origin->kind == BY_ORIGIN_NODE || origin->direction[way]) out[n++] = base + 2 * origin->index + way;
  return n;
}

static void add_tree(struct joint *p, uint32_t j) {
  const struct by_graph *graph = p->graphs[j];
  const struct by_span *span = &p->spans[j];
  uint32_t steps[2], n_steps = p->n_rows - p->n_jobs;
  memset(p->values, 0, p->n_rows * sizeof *p->values);
  for (uint32_t i = 0; i < span->n_tree; i++) {
    const struct by_graph_edge *edge = &graph->edges[span->tree[i]];
    for (uint32_t u = 0; u < edge->n; u++)
      for (uint32_t k = steps_of(&graph->origin[graph->uses[edge->first + u]], steps); k-- > 0;)
        p->values[steps[k]] += p->unit / p->capacity[steps[k]];
  }
  p->values[n_steps + j] = -1;
  must(by_lp_add(p->lp, 0, p->values));
}

/* Adds a tree for each job under prices that mix `part` of the best ones and the linear program's. Returns false if
 * no tree is new. */
static bool price_trees(struct joint *p, double part) {
  const double *duals = p->lp->price;
  uint32_t n_steps = p->n_rows - p->n_jobs;
  double all = 0, sum = 0;
  bool news = false;
  for (uint32_t s = 0; s < n_steps; s++) all += duals[s];
  if (!(all > 0)) part = 1; /* The sum is still 0. */
  for (uint32_t s = 0; s < n_steps; s++) p->price[s] = part * p->fair[s] + (part < 1 ? (1 - part) * duals[s] / all : 0);
  for (uint32_t j = 0; j < p->n_jobs; j++) {
    const struct by_graph *graph = p->graphs[j];
    double *of = calloc(graph->n_resources, sizeof *of), cost = 0;
    uint32_t steps[2];
    for (uint32_t r = 0; r < graph->n_resources; r++)
      for (uint32_t k = steps_of(&graph->origin[r], steps); k-- > 0;)
        of[r] += p->price[steps[k]] / p->capacity[steps[k]];
    by_span_set_prices(&p->spans[j], of);
    sum += p->jobs[j]->alone * by_span_lightest(&p->spans[j]);
    free(of);
    for (uint32_t i = 0; i < p->spans[j].n_tree; i++) {
      const struct by_graph_edge *edge = &graph->edges[p->spans[j].tree[i]];
      for (uint32_t u = 0; u < edge->n; u++)
        for (uint32_t k = steps_of(&graph->origin[graph->uses[edge->first + u]], steps); k-- > 0;)
          cost += duals[steps[k]] * p->unit / p->capacity[steps[k]];
    }
    if (cost >= duals[n_steps + j] * (1 - 1e-7)) continue;
    add_tree(p, j);
    news = true;
  }
  if (1 / sum < p->bound) {
    p->bound = 1 / sum;
    memcpy(p->fair, p->price, n_steps * sizeof *p->fair);
  }
  return news;
}

static void init_joint(struct joint *p, struct job **of, uint32_t n) {
  uint32_t n_steps = 2 * topology->n_links + 2 * topology->n_nodes;
  *p = (struct joint){.n_jobs = n, .n_rows = n_steps + n, .jobs = of, .bound = INFINITY};
  p->graphs = calloc(n, sizeof *p->graphs);
  p->spans = calloc(n, sizeof *p->spans);
  p->capacity = calloc(n_steps, sizeof *p->capacity);
  p->price = calloc(n_steps, sizeof *p->price);
  p->fair = calloc(n_steps, sizeof *p->fair);
  p->values = calloc(p->n_rows, sizeof *p->values);
  p->unit = 0;
  for (uint32_t s = 0; s < n_steps; s++) {
    p->capacity[s] = capacity_of_step(s);
    p->fair[s] = 1.0 / n_steps;
    p->values[s] = 1;
  }
  must(by_lp_create(p->n_rows, p->values, 1, &p->lp));
  for (uint32_t j = 0; j < n; j++) {
    struct by_graph_choice choice = {.participants = of[j]->nodes, .n_participants = of[j]->n, .max_meshed = 2048};
    must(by_graph_of_topology(topology, &choice, &p->graphs[j]));
    must(by_span_init(&p->spans[j], p->graphs[j]));
    p->unit = fmax(p->unit, of[j]->alone);
  }
  memset(p->values, 0, p->n_rows * sizeof *p->values);
  for (uint32_t j = 0; j < n; j++) p->values[n_steps + j] = of[j]->alone / p->unit;
  must(by_lp_add(p->lp, 1, p->values));
}

static void fini_joint(struct joint *p) {
  for (uint32_t j = 0; j < p->n_jobs; j++) {
    by_span_fini(&p->spans[j]);
    by_graph_destroy(p->graphs[j]);
  }
  by_lp_destroy(p->lp);
  free(p->graphs);
  free(p->spans);
  free(p->capacity);
  free(p->price);
  free(p->fair);
  free(p->values);
}

/* Returns the most that every job can have at once, relative to its `alone`: no trees give all of them more. */
static double bound_of(struct job **of, uint32_t n) {
  struct joint p;
  init_joint(&p, of, n);
  for (uint32_t j = 0; j < n; j++) { /* Any tree serves as the initial one. */
    double *of_graph = calloc(p.graphs[j]->n_resources, sizeof *of_graph);
    for (uint32_t r = 0; r < p.graphs[j]->n_resources; r++) of_graph[r] = 1 / p.graphs[j]->capacity[r];
    by_span_set_prices(&p.spans[j], of_graph);
    (void)by_span_lightest(&p.spans[j]);
    add_tree(&p, j);
    free(of_graph);
  }
  double reached = 0;
  bool news = true;
  for (uint32_t round = 0; round < ROUNDS && news; round++) {
    must(by_lp_solve(p.lp));
    reached = p.lp->objective;
    if (reached >= near_enough * p.bound) break;
    news = price_trees(&p, smoothing);
    news |= price_trees(&p, 0);
  }
  double bound = p.bound;
  if (!(reached > 0.98 * bound)) fprintf(stderr, "the bound of %u jobs is not tight: %g of %g\n", n, reached, bound);
  fini_joint(&p);
  return bound;
}

/* ---- the fluid model: all jobs grow evenly, relative to their rate alone, until a link is full */

static double fill(bool rings, double *mean) {
  uint32_t n_steps = 2 * topology->n_links + 2 * topology->n_nodes, left = 0;
  double *used = calloc(n_steps, sizeof *used), *grows = calloc(n_steps, sizeof *grows), least = INFINITY, sum = 0;
  bool stopped[MOST_JOBS] = {false};
  for (uint32_t j = 0; j < n_jobs; j++) {
    jobs[j].rate = 0;
    stopped[j] = !jobs[j].runs;
    left += jobs[j].runs;
  }
  uint32_t running = left;
  while (left) {
    double step = INFINITY;
    memset(grows, 0, n_steps * sizeof *grows);
    for (uint32_t j = 0; j < n_jobs; j++) {
      const struct by_link_shares *of = rings || !jobs[j].number ? &jobs[j].ring : &jobs[j].shares;
      for (uint32_t i = 0; i < of->n && !stopped[j]; i++) grows[of->items[i].step] += jobs[j].alone * of->items[i].load;
    }
    for (uint32_t s = 0; s < n_steps; s++)
      if (grows[s] > 0) step = fmin(step, fmax(capacity_of_step(s) - used[s], 0) / grows[s]);
    for (uint32_t s = 0; s < n_steps; s++) used[s] += step * grows[s];
    for (uint32_t j = 0; j < n_jobs; j++) {
      const struct by_link_shares *of = rings || !jobs[j].number ? &jobs[j].ring : &jobs[j].shares;
      if (stopped[j]) continue;
      jobs[j].rate += step * jobs[j].alone;
      for (uint32_t i = 0; i < of->n && !stopped[j]; i++)
        stopped[j] = used[of->items[i].step] >= capacity_of_step(of->items[i].step) * (1 - 1e-9);
      left -= stopped[j];
    }
  }
  for (uint32_t j = 0; j < n_jobs; j++) {
    if (!jobs[j].runs) continue;
    least = fmin(least, jobs[j].rate / jobs[j].alone);
    sum += jobs[j].rate / jobs[j].alone;
  }
  free(used);
  free(grows);
  if (mean) *mean = sum / running;
  return least;
}

/* ---- the manager and its agents */

static void sent(void *context, void *connection, const struct by_cluster_message *message) {
  (void)context, (void)connection;
  if (message->type != BY_MESSAGE_PLAN) return;
  struct job *job = jobs;
  while (strcmp(job->id, message->job) != 0) job++;
  struct by_plan *plan;
  must(by_plan_parse("manager", message->plan, strlen(message->plan), &plan));
  free(job->asked_shares.items);
  must(by_link_shares_find(plan, topology, &job->asked_shares, NULL));
  by_plan_destroy(plan);
  job->asked = message->number;
}

static void send_message(uint32_t node, const struct by_cluster_message *message) {
  must(by_manager_handle(manager, peers[node], message, now));
}

static void join(uint32_t node) {
  struct by_cluster_interface eth0 = {.name = "eth0", .address = "10.0.0.1"};
  must(by_manager_joined(manager, &peers[node], BY_ROLE_ANY, NULL, now, &peers[node]));
  send_message(node, &(struct by_cluster_message){.type = BY_MESSAGE_HELLO,
                                                  .version = BY_CLUSTER_VERSION,
                                                  .host = topology->nodes[node].name,
                                                  .interfaces = &eth0,
                                                  .n_interfaces = 1});
}

static void begin_job(struct job *job) {
  const char **names = calloc(job->n, sizeof *names);
  for (uint32_t r = 0; r < job->n; r++) names[r] = topology->nodes[job->nodes[r]].name;
  send_message(job->nodes[0], &(struct by_cluster_message){.type = BY_MESSAGE_JOB,
                                                           .job = job->id,
                                                           .name = "train",
                                                           .root = "10.0.0.1:5000",
                                                           .n_hosts = job->n,
                                                           .hosts = names});
  free(names);
  job->runs = true;
}

static void report(uint32_t node) {
  struct by_cluster_interface eth0 = {.name = "eth0"};
  struct by_cluster_job reports[MOST_JOBS];
  uint32_t ranks[MOST_JOBS];
  struct by_cluster_message message = {
      .type = BY_MESSAGE_REPORT, .interfaces = &eth0, .n_interfaces = 1, .jobs = reports};
  for (uint32_t j = 0; j < n_jobs; j++)
    for (uint32_t r = 0; r < jobs[j].n && jobs[j].runs; r++) {
      if (jobs[j].nodes[r] != node) continue;
      ranks[message.n_jobs] = r;
      reports[message.n_jobs] = (struct by_cluster_job){.job = jobs[j].id,
                                                        .n_ranks = 1,
                                                        .ranks = &ranks[message.n_jobs],
                                                        .iterations = jobs[j].iterations,
                                                        .iteration_time = 1,
                                                        .sent = jobs[j].input,
                                                        .input = jobs[j].input,
                                                        .calls = jobs[j].iterations};
      message.n_jobs++;
    }
  send_message(node, &message);
}

static void plan_all(void) {
  struct by_plan_request *request;
  by_manager_tick(manager, now);
  for (double begin = processor_time(); by_manager_next(manager, now, &request); begin = processor_time()) {
    by_plan_request_run(request);
    plans.seconds += processor_time() - begin;
    if (request->status != BANYAN_OK) fprintf(stderr, "no plan: %s\n", request->why), exit(1);
    struct by_embed_facts facts = by_embedding_facts(request->embedding);
    if (verbose)
      printf("  %4.0f s: %u hosts, %.3f of %.4g Gbit/s with %u of %u candidates; had %.4g\n", now - beginning,
             request->n_nodes, facts.throughput / facts.bound, facts.bound / 1e9, facts.n_used, facts.n_candidates,
             request->rate_before / 1e9);
    plans.sum += facts.throughput / facts.bound;
    plans.least = fmin(plans.least, facts.throughput / facts.bound);
    plans.n++;
    by_manager_planned(manager, request, now);
  }
}

static void switch_all(void) {
  for (uint32_t j = 0; j < n_jobs; j++) {
    struct job *job = &jobs[j];
    if (job->asked <= job->number) continue;
    job->number = job->asked;
    free(job->shares.items);
    job->shares = job->asked_shares;
    job->asked_shares = (struct by_link_shares){0};
    plans.moves++;
    send_message(job->nodes[0],
                 &(struct by_cluster_message){.type = BY_MESSAGE_SWITCHED, .job = job->id, .number = job->number});
  }
}

static void run_cluster(void) {
  struct by_manager_options options = by_manager_defaults();
  options.topology = topology;
  options.send = sent;
  /* All jobs have one class. */
  options.rules = (struct by_priority_rules){.iterations = 1, .threshold = UINT64_MAX, .equal = true};
  now = beginning;
  must(by_manager_create(&options, now, &manager));
  peers = calloc(topology->n_nodes, sizeof *peers);
  for (uint32_t h = 0; h < n_hosts; h++) join(hosts[h]);
  for (uint32_t i = 0; i < INTERVALS + APART * n_jobs; i++) {
    if (i % APART == 0 && i / APART < n_jobs) begin_job(&jobs[i / APART]);
    for (uint32_t h = 0; h < n_hosts; h++) report(hosts[h]);
    plan_all();
    switch_all();
    (void)fill(false, NULL);
    now += options.interval;
    for (uint32_t j = 0; j < n_jobs; j++) {
      if (!jobs[j].runs) continue;
      jobs[j].iterations += (uint64_t)options.interval;
      jobs[j].input += (uint64_t)(jobs[j].rate / 8 * options.interval);
    }
  }
  by_manager_destroy(manager);
  free(peers);
}

/* ---- one network */

static int compare(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* A single job is on all hosts, up to 64. Each of several jobs is on 4 to 32 hosts, half of them neighbours. */
static void draw_job(struct job *job, uint32_t j, struct by_rng *rng) {
  uint32_t *order = malloc(n_hosts * sizeof *order), most = n_hosts < 64 ? n_hosts : 64;
  memcpy(order, hosts, n_hosts * sizeof *order);
  *job = (struct job){.n = n_jobs == 1 ? most : 4u << by_rng_below(rng, 4)};
  if (job->n > n_hosts) job->n = n_hosts;
  snprintf(job->id, sizeof job->id, "%032x", j + 1);
  uint32_t first = (uint32_t)by_rng_below(rng, n_hosts);
  for (uint32_t i = 0; i < job->n; i++) {
    uint32_t other = j % 2 == 0 && n_jobs > 1 ? i + (uint32_t)by_rng_below(rng, n_hosts - i) : (first + i) % n_hosts;
    if (j % 2 || n_jobs == 1) {
      order[i] = hosts[other];
      continue;
    }
    uint32_t node = order[other];
    order[other] = order[i];
    order[i] = node;
  }
  qsort(order, job->n, sizeof *order, compare);
  job->nodes = order;
  struct by_plan *ring;
  must(by_plan_ring_over(topology, job->nodes, job->n, &ring));
  must(by_link_shares_find(ring, topology, &job->ring, NULL));
  by_plan_destroy(ring);
  struct job *alone[] = {job};
  job->alone = 1e9;
  job->alone *= bound_of(alone, 1);
}

static void free_job(struct job *job) {
  free(job->nodes);
  free(job->shares.items);
  free(job->asked_shares.items);
  free(job->ring.items);
}

static void score(const char *name, uint64_t seeds) {
  double manager_least = 0, manager_mean = 0, ring_least = 0, ring_mean = 0, mean;
  memset(&plans, 0, sizeof plans);
  plans.least = INFINITY;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    struct by_rng rng;
    struct job *all[MOST_JOBS];
    by_rng_init(&rng, seed);
    for (uint32_t j = 0; j < n_jobs; j++) draw_job(all[j] = &jobs[j], j, &rng);
    double bound = bound_of(all, n_jobs);
    run_cluster();
    manager_least += fill(false, &mean) / bound / (double)seeds;
    for (uint32_t j = 0; j < n_jobs && verbose; j++)
      printf("  job %u on %u hosts: %.3f of %.4g Gbit/s alone; each could have %.3f\n", j, jobs[j].n,
             jobs[j].rate / jobs[j].alone, jobs[j].alone / 1e9, bound);
    manager_mean += mean / bound / (double)seeds;
    ring_least += fill(true, &mean) / bound / (double)seeds;
    ring_mean += mean / bound / (double)seeds;
    for (uint32_t j = 0; j < n_jobs; j++) free_job(&jobs[j]);
  }
  const char *base = strrchr(name, '/');
  printf("%-44s %4u  %.3f %.3f   %.3f %.3f   %.3f %.3f  %6.1f  %6.1f\n", base ? base + 1 : name, n_jobs,
         plans.sum / plans.n, plans.least, manager_least, manager_mean, ring_least, ring_mean,
         (double)plans.moves / (double)seeds / n_jobs, plans.seconds / plans.n * 1e3);
  fflush(stdout);
}

static void list_hosts(void) {
  hosts = calloc(topology->n_nodes, sizeof *hosts);
  n_hosts = 0;
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (topology->nodes[v].kind == BY_NODE_HOST) hosts[n_hosts++] = v;
}

int main(int argc, char **argv) {
  const char *numbers = "1,4";
  uint64_t seeds = 1;
  for (int option; (option = getopt(argc, argv, "j:s:v")) != -1;) {
    if (option == 'j')
      numbers = optarg;
    else if (option == 's')
      seeds = strtoull(optarg, NULL, 10);
    else if (option == 'v')
      verbose = true;
    else
      return 2;
  }
  printf("%-44s jobs  plan  least   manager mean  rings mean    moves    ms\n", "network");
  for (int i = optind; i < argc; i++) {
    struct by_topology *read;
    must(by_topology_named(argv[i], &read));
    topology = read;
    list_hosts();
    for (const char *at = numbers; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
      n_jobs = (uint32_t)strtoul(at, NULL, 10);
      if (n_jobs < 1 || n_jobs > MOST_JOBS) return 2;
      score(argv[i], seeds);
    }
    free(hosts);
    by_topology_destroy(read);
  }
  return 0;
}
