/* Makes plans for a topology by the command's options, and fits costs to measured times. */
#include "plan_topology.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "collective.h"
#include "commands.h"
#include "cost.h"
#include "file.h"
#include "json_doc.h"
#include "output.h"
#include "placement.h"
#include "plan.h"
#include "plan_load.h"
#include "process.h"
#include "schedule.h"
#include "text.h"
#include "topology.h"
#include "topology_draw.h"
#include "topology_formats.h"

/* ---- the bound, for people */

enum { MAX_HOSTS = 1024 };

/* Traffic between hosts by the ranks' schedules. */
struct traffic {
  const struct by_bound_request *request;
  double blocks; /* Sum. */
  double *sent;  /* n_hosts x n_hosts: how often the buffer is sent from one to another. */
};

static double sent_between(const void *context, uint32_t from, uint32_t to) {
  const struct traffic *traffic = context;
  return traffic->sent[(size_t)from * traffic->request->n_hosts + to];
}

/* Returns the fraction of the buffer that these pieces are. */
static double part_of(const struct traffic *traffic, const struct by_schedule *schedule, const struct by_step *step) {
  const double *blocks = traffic->request->blocks;
  double part = 0;
  if (schedule->cut) return schedule->cut[step->last] - schedule->cut[step->first];
  for (uint32_t p = step->first, owner = 0; p < step->last; p++) {
    while (schedule->block[owner + 1] <= p) owner++;
    double end = p + 1 < schedule->block[owner + 1] ? schedule->block_cut[p + 1] : 1;
    part += (end - schedule->block_cut[p]) * (blocks ? blocks[owner] : 1) / traffic->blocks;
  }
  return part;
}

static enum banyan_status add_rank(struct traffic *traffic, const struct by_plan *plan, uint32_t rank) {
  const struct by_bound_request *request = traffic->request;
  struct by_schedule *schedule;
  BY_TRY(by_schedule_compile(plan, by_plan_class_of(plan, request->collective, UINT64_MAX), request->collective,
                             request->root, rank, &schedule));
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    const struct by_step *step = &schedule->steps[i];
    if (step->kind == BY_STEP_SEND)
      traffic->sent[(size_t)rank * request->n_hosts + schedule->peers[step->peer].rank] +=
          part_of(traffic, schedule, step);
  }
  by_schedule_destroy(schedule);
  return BANYAN_OK;
}

static enum banyan_status find_rate(struct traffic *traffic, const struct by_plan *plan,
                                    const struct by_topology *topology, double *rate, struct by_bound_limit *limit) {
  const struct by_bound_request *request = traffic->request;
  const struct by_routed routed = {request->hosts, request->n_hosts, sent_between, traffic};
  struct by_plan *among;
  for (uint32_t h = 0; h < request->n_hosts; h++) traffic->blocks += request->blocks ? request->blocks[h] : 1;
  BY_TRY(by_plan_among_ranks(plan, &among));
  enum banyan_status status = BANYAN_OK;
  for (uint32_t r = 0; status == BANYAN_OK && r < among->n_ranks; r++) status = add_rank(traffic, among, r);
  by_plan_destroy(among);
  return status == BANYAN_OK ? by_routed_rate(topology, &routed, rate, limit) : status;
}

static enum banyan_status add_reached(const struct by_plan *plan, const struct by_topology *topology,
                                      const struct by_bound_request *request, double bound, bool json,
                                      struct by_text *text) {
  struct traffic traffic = {.request = request,
                            .sent = calloc((size_t)request->n_hosts * request->n_hosts, sizeof(double))};
  struct by_bound_limit limit;
  double rate = INFINITY;
  char carried[32];
  if (!traffic.sent) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for what %u hosts send", request->n_hosts);
  enum banyan_status status = find_rate(&traffic, plan, topology, &rate, &limit);
  free(traffic.sent);
  if (status != BANYAN_OK || isinf(rate)) return status;
  if (json) {
    by_json_put_real(text, "reached", rate);
    by_json_begin_member(text, "full");
    by_bound_limit_put_json(&limit, topology, text);
    return BANYAN_OK;
  }
  by_text_add(text, "With this plan it reaches %s, %.1f %% of that, limited by:\n", by_print_rate(rate, carried),
              100 * rate / bound);
  by_bound_limit_explain(&limit, topology, text);
  return BANYAN_OK;
}

/* Appends the bound of the collective, if there is one, and the fraction that the plan's schedules for large buffers
 * reach, in words, or as members of a JSON object. The plan is over the hosts of the request; above 1024 of them only
 * the bound is appended. Cost: the bound's, and all ranks' schedules. */
static enum banyan_status add_bound(const struct by_plan *plan, const struct by_topology *topology,
                                    const struct by_bound_request *request, bool json, struct by_text *text) {
  struct by_collective_bound bound;
  if (!by_collective_has_bound(request->collective)) return BANYAN_OK;
  BY_TRY(by_collective_bound_find(topology, request, &bound));
  (json ? by_collective_bound_put_json : by_collective_bound_explain)(&bound, topology, text);
  double rate = bound.rate;
  by_collective_bound_fini(&bound);
  bool weighted =
      request->blocks && request->collective == BANYAN_ALLTOALL; /* Each rank of a host sends its own block. */
  if (isinf(rate) || weighted || request->n_hosts > MAX_HOSTS || plan->n_ranks != request->n_hosts) return BANYAN_OK;
  return add_reached(plan, topology, request, rate, json, text);
}

/* ---- hosts */

uint32_t by_plan_count_ranks(const struct by_topology *topology) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < topology->n_nodes; v++) n += topology->nodes[v].takes_part;
  return n;
}

enum banyan_status by_plan_find_nodes(const struct by_topology *topology, const char *option, const char *names,
                                      uint32_t **out, uint32_t *n) {
  enum banyan_status status = BANYAN_OK;
  size_t bytes = names ? strlen(names) + 1 : 0;
  char *copy = by_cli_alloc(NULL, bytes), *rest = copy;
  uint32_t *nodes = by_cli_alloc(NULL, (names ? bytes / 2 + 1 : topology->n_nodes) * sizeof *nodes);
  *n = 0;
  for (uint32_t node = 0; !names && node < topology->n_nodes; node++)
    if (topology->nodes[node].takes_part) nodes[(*n)++] = node;
  if (names) memcpy(copy, names, bytes);
  for (char *name; names && status == BANYAN_OK && (name = strsep(&rest, ",")) != NULL;) {
    if (!*name) continue;
    uint32_t node = by_topology_find(topology, name);
    if (node != UINT32_MAX)
      nodes[(*n)++] = node;
    else
      status =
          by_fail(BANYAN_ERR_ARGUMENT, "--%s names nodes of the topology, which has no \"%.64s\"%s%s", option, name,
                  topology->n_nodes ? "; its first node is " : "", topology->n_nodes ? topology->nodes[0].name : "");
  }
  free(copy);
  *out = nodes;
  return status;
}

/* ---- placing */

/* A job with its placement, and the arrays to which its pointers point. */
struct placed {
  struct by_placement_job job;
  struct by_placement *placement;
  uint32_t *workers, *servers, *aggregators, best;
};

static bool is_worker(const struct by_placement_job *job, uint32_t node) {
  for (uint32_t i = 0; i < job->n_workers; i++)
    if (job->workers[i] == node) return true;
  return false;
}

/* Finds all hosts that help and are not workers. */
static enum banyan_status find_aggregators(const struct by_topology *topology, struct placed *placed) {
  placed->aggregators = calloc((size_t)topology->n_nodes + 1, sizeof *placed->aggregators);
  if (!placed->aggregators) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory");
  for (uint32_t node = 0; node < topology->n_nodes; node++)
    if (topology->nodes[node].may_help && topology->nodes[node].kind == BY_NODE_HOST && !is_worker(&placed->job, node))
      placed->aggregators[placed->job.n_aggregators++] = node;
  placed->job.aggregators = placed->aggregators;
  return BANYAN_OK;
}

static enum banyan_status place_sums(const struct by_in_network_request *request, const struct by_topology *topology,
                                     struct placed *placed) {
  struct by_placement_options options = by_placement_defaults();
  struct by_placement_job *job = &placed->job;
  if (request->max_adding >= 0) options.max_adding = (uint32_t)request->max_adding;
  options.queues = (uint32_t)request->queues;
  BY_TRY(by_plan_find_nodes(topology, "ranks", request->ranks, &placed->workers, &job->n_workers));
  job->workers = placed->workers;
  BY_TRY(find_aggregators(topology, placed));
  if (request->servers) {
    BY_TRY(by_plan_find_nodes(topology, "server", request->servers, &placed->servers, &job->n_servers));
    job->servers = placed->servers;
  } else {
    BY_TRY(by_placement_best_server(topology, job, &options, &placed->best));
    job->servers = &placed->best;
    job->n_servers = 1;
  }
  return by_placement_make(topology, job, &options, &placed->placement);
}

enum banyan_status by_plan_in_network(const struct by_in_network_request *request, const char *name,
                                      const struct by_topology *topology, FILE *to, bool json, struct by_plan **out) {
  struct placed placed = {0};
  struct by_text text = {0};
  if (topology->name[0]) name = topology->name;
  enum banyan_status status = place_sums(request, topology, &placed);
  if (status == BANYAN_OK && to) {
    status = (json ? by_placement_print : by_placement_draw)(placed.placement, topology, &placed.job, &text);
    if (json) by_text_add(&text, "\n");
    status = by_print_text(&text, status, to);
  }
  if (status == BANYAN_OK && out) status = by_plan_of_placement(name, topology, placed.placement, &placed.job, out);
  by_placement_destroy(placed.placement);
  free(placed.workers);
  free(placed.servers);
  free(placed.aggregators);
  return status;
}

/* ---- drawing a topology with the load of a plan */

enum banyan_status by_plan_find_load(struct by_plan_load *load, const struct by_plan *plan, uint64_t bytes,
                                     const struct by_topology *topology) {
  BY_TRY(by_plan_load_init(load, plan, by_plan_class(plan, bytes), topology));
  double rate = isfinite(load->rate) ? load->rate : 0;
  for (uint32_t i = 0; i < 2 * topology->n_links; i++) load->link[i / 2][i % 2] *= rate;
  return BANYAN_OK;
}

/* ---- planning */

/* Finds the hosts of ranks, or nodes of helpers that aggregate. Without names it finds nothing. */
static enum banyan_status find_hosts(const struct by_topology *topology, const char *option, const char *names,
                                     bool ranks, uint32_t **out, uint32_t *n) {
  if (!names) return BANYAN_OK;
  BY_TRY(by_plan_find_nodes(topology, option, names, out, n));
  for (uint32_t i = 0; i < *n; i++) {
    const struct by_node *node = &topology->nodes[(*out)[i]];
    if (node->kind == BY_NODE_HOST || (!ranks && node->aggregates)) continue;
    return by_fail(BANYAN_ERR_ARGUMENT, "--%s: \"%.64s\" is a switch%s; give hosts", option, node->name,
                   ranks ? "" : " that does not aggregate");
  }
  return BANYAN_OK;
}

/* Finds all ranks and helpers, if any switch aggregates, or aggregators are allowed since there are no helpers. */
static enum banyan_status find_servers(const struct by_plan_arguments *request, const struct by_topology *topology,
                                       const struct by_planner_options *options, uint32_t **out, uint32_t *n) {
  const struct by_graph_choice *choice = &options->choice;
  bool adds = !(options->allowed & BY_PLAN_HELPERS);
  if (request->placed.servers) return find_hosts(topology, "server", request->placed.servers, true, out, n);
  for (uint32_t v = 0; v < topology->n_nodes; v++) adds |= topology->nodes[v].aggregates;
  if (!adds) return BANYAN_OK;
  *out = by_cli_zeroed((size_t)choice->n_helpers + choice->n_participants + topology->n_nodes, sizeof **out);
  for (uint32_t i = 0; choice->helpers && i < choice->n_helpers; i++) (*out)[(*n)++] = choice->helpers[i];
  for (uint32_t i = 0; choice->participants && i < choice->n_participants; i++)
    (*out)[(*n)++] = choice->participants[i];
  for (uint32_t v = 0; v < topology->n_nodes && !choice->participants; v++)
    if (topology->nodes[v].takes_part) (*out)[(*n)++] = v;
  return BANYAN_OK;
}

/* Explains the bound over the hosts of the plan. */
static enum banyan_status explain_bound(const struct by_plan_arguments *request, const struct by_topology *topology,
                                        const struct by_planned *planned, struct by_text *text) {
  uint32_t n = planned->graph->n_terminals;
  const struct by_bound_request wanted = {.collective = request->collective,
                                          .hosts = planned->graph->node,
                                          .n_hosts = n,
                                          .blocks = request->n_hosts == n ? request->on_host : NULL,
                                          .root = request->root};
  return add_bound(planned->plan, topology, &wanted, request->json, text);
}

static enum banyan_status explain_plan(const struct by_plan_arguments *request, const struct by_topology *topology,
                                       const struct by_planned *planned, struct by_text *text) {
  if (!request->json) {
    by_planned_explain(planned, topology, text);
    return explain_bound(request, topology, planned, text);
  }
  by_text_add(text, "{\"format\":\"banyan-explanation 1\"");
  by_planned_put_json(planned, topology, text);
  by_json_begin_member(text, "collective");
  by_text_add(text, "{");
  BY_TRY(explain_bound(request, topology, planned, text));
  by_text_add(text, "}}\n");
  return BANYAN_OK;
}

static enum banyan_status make_trees(const struct by_plan_arguments *request, const struct by_topology *topology,
                                     struct by_planner_options *options, const char **scope, struct by_plan **out) {
  struct by_graph_choice *choice = &options->choice;
  struct by_planned planned = {0};
  struct by_text text = {0};
  uint32_t *ranks = NULL, *helpers = NULL, *servers = NULL;
  const char *name = topology->name[0] ? topology->name : "trees";
  enum banyan_status status = find_hosts(topology, "ranks", request->ranks, true, &ranks, &choice->n_participants);
  if (status == BANYAN_OK)
    status = find_hosts(topology, "helpers", request->helpers, false, &helpers, &choice->n_helpers);
  choice->participants = ranks;
  choice->helpers = helpers;
  if (status == BANYAN_OK && options->method == BY_PLANNER_CLUSTER)
    status = find_servers(request, topology, options, &servers, &options->n_servers);
  options->servers = servers;
  uint32_t n_hosts = choice->participants ? choice->n_participants : by_plan_count_ranks(topology);
  if (request->n_hosts == n_hosts) options->ranks_on = request->on_host;
  if (status == BANYAN_OK) status = by_planner_run(name, topology, options, &planned);
  if (status == BANYAN_OK && request->explain) status = explain_plan(request, topology, &planned, &text);
  if (status == BANYAN_OK) *scope = by_graph_bound_scope(planned.graph, topology);
  free(ranks);
  free(helpers);
  free(servers);
  *out = planned.plan;
  planned.plan = NULL;
  by_planned_fini(&planned);
  if (status == BANYAN_OK) return by_print_text(&text, BANYAN_OK, stderr);
  by_text_fini(&text);
  return status;
}

enum banyan_status by_plan_from_topology(const struct by_plan_arguments *request, const char **scope,
                                         struct by_plan **out) {
  struct by_planner_options options = by_planner_defaults();
  struct by_topology *topology;
  struct by_plan *plan = NULL;
  *scope = NULL;
  by_machine_costs_use(&options.rates);
  BY_TRY(by_planner_options_read(&request->planner, "--", &options));
  /* CLP loads a BLAS that would start a thread for each core. Unlike a program that links the library, this process has
   * no other use for it, and no threads yet. */
  (void)setenv("OPENBLAS_NUM_THREADS", "1", 0);
  BY_TRY(by_topology_named(request->topology, &topology));
  uint64_t before = by_clock_now(&by_clock_system);
  struct by_in_network_request placed = request->placed;
  placed.ranks = request->ranks;
  enum banyan_status status =
      options.method == BY_PLANNER_IN_NETWORK
          ? by_plan_in_network(&placed, "in-network", topology, request->explain ? stderr : NULL, request->json, &plan)
          : make_trees(request, topology, &options, scope, &plan);
  if (status == BANYAN_OK) plan->facts.seconds = by_clock_to_seconds(by_clock_now(&by_clock_system) - before);
  const struct by_control_options control = {.limits = options.control, .seed = options.seed};
  if (status == BANYAN_OK && options.method == BY_PLANNER_IN_NETWORK) status = by_control_add(topology, &control, plan);
  if (status == BANYAN_OK && options.method >= BY_PLANNER_CLUSTER) status = by_plan_check_switches(plan);
  if (status == BANYAN_OK && request->svg.path) status = by_plan_write_svg(&request->svg, plan, topology);
  by_topology_destroy(topology);
  if (status == BANYAN_OK)
    *out = plan;
  else
    by_plan_destroy(plan);
  return status;
}

/* ---- `banyan plan TOPOLOGY --fit FILE`: costs of hosts from measured times */

static const struct by_doc_limits limits = {BY_TIMES_MAX_FILE, 100000, 1000000};

void by_times_init(struct by_times *times, const struct by_topology *topology, const struct by_cost_rates *rates) {
  times->topology = topology;
  times->rates = *rates;
  times->n = 0;
  times->ranks = by_plan_count_ranks(topology);
}

void by_times_fini(struct by_times *times) {
  for (uint32_t i = 0; i < times->n; i++) {
    by_cost_fini(&times->samples[i].cost);
    free(times->samples[i].bytes);
    free(times->names[i]);
  }
}

static enum banyan_status add_sample(struct by_times *times, const char *name, const struct by_plan *plan,
                                     const struct by_class *class_) {
  struct by_cost_sample *sample = &times->samples[times->n];
  BY_TRY(by_cost_init(&sample->cost, plan, class_, times->topology, &times->rates));
  times->names[times->n] = strcpy(by_cli_alloc(NULL, strlen(name) + 1), name);
  sample->bytes = by_cli_zeroed(2 * (size_t)BY_TIMES_MAX, sizeof *sample->bytes);
  times->up_to[times->n++] = class_->up_to;
  sample->seconds = sample->bytes + BY_TIMES_MAX;
  return BANYAN_OK;
}

static enum banyan_status find_sample(struct by_times *times, const struct by_doc_path *place, const char *name,
                                      uint64_t bytes, uint32_t *out) {
  struct by_plan *plan;
  uint32_t i = 0;
  enum banyan_status status = by_plan_named(name, times->ranks, &plan);
  if (status != BANYAN_OK) return by_doc_fail(place, "plan: %s", banyan_error_text());
  const struct by_class *class_ = by_plan_class(plan, bytes);
  while (i < times->n && (strcmp(times->names[i], name) != 0 || times->up_to[i] != class_->up_to)) i++;
  if (i == BY_TIMES_MAX_PLANS)
    status = by_doc_fail(place, "more than %d plans", BY_TIMES_MAX_PLANS);
  else if (i == times->n)
    status = add_sample(times, name, plan, class_);
  by_plan_destroy(plan);
  *out = i;
  return status;
}

/* Reads a line; other collectives than AllReduce are ignored. */
static enum banyan_status read_time(struct by_times *times, const struct by_doc_path *place, json_t *line) {
  const char *name;
  uint32_t at = 0;
  json_int_t bytes;
  double micros;
  json_error_t error;
  if (strcmp(by_json_text(line, "collective"), "allreduce") != 0) return BANYAN_OK;
  if (json_unpack_ex(line, &error, 0, "{s:s, s:I, s:F}", "plan", &name, "bytes", &bytes, "time_us", &micros))
    return by_doc_fail(place, "%s", error.text);
  if (bytes < 1 || micros * 1e-6 <= 0) return by_doc_fail(place, "bytes and time_us: must be more than 0");
  BY_TRY(find_sample(times, place, name, (uint64_t)bytes, &at));
  struct by_cost_sample *sample = &times->samples[at];
  if (sample->n == BY_TIMES_MAX) return by_doc_fail(place, "more than %d times of plan %s", BY_TIMES_MAX, name);
  sample->bytes[sample->n] = (double)bytes;
  sample->seconds[sample->n++] = micros * 1e-6;
  return BANYAN_OK;
}

enum banyan_status by_times_read(struct by_times *times, const char *source, const char *text, size_t length) {
  const struct by_doc_path file = {.field = source};
  size_t at = 0;
  for (size_t i = 0; at < length; i++) {
    const struct by_doc_path place = {.above = &file, .index = i};
    json_t *line;
    BY_TRY(by_doc_load_next(source, text, length, &limits, &at, &line));
    enum banyan_status status = read_time(times, &place, line);
    json_decref(line);
    if (status != BANYAN_OK) return status;
  }
  return times->n ? BANYAN_OK
                  : by_fail(BANYAN_ERR_PARSE,
                            "%s: contains no time of an allreduce as printed by `banyan bench --json`", source);
}

static void print_times(const struct by_times *times, double error) {
  fprintf(stderr, "%-16s %10s %12s %12s\n", "plan", "bytes", "measured, us", "predicted");
  for (uint32_t i = 0; i < times->n; i++) {
    const struct by_cost_sample *sample = &times->samples[i];
    for (uint32_t k = 0; k < sample->n; k++) {
      double predicted = by_cost_time(&sample->cost, sample->bytes[k]);
      fprintf(stderr, "%-16.64s %10.0f %12.0f %12.0f  %+.0f %%\n", times->names[i], sample->bytes[k],
              1e6 * sample->seconds[k], 1e6 * predicted, 100 * (predicted / sample->seconds[k] - 1));
    }
  }
  fprintf(stderr, "mean error %.0f %%\n", 100 * expm1(error));
}

static enum banyan_status save_costs(const char *costs) {
  const struct by_cost_machine machine = by_machine_get();
  char path[BY_MACHINE_MAX_PATH];
  BY_TRY(by_machine_costs_path(&machine, path));
  BY_TRY(by_machine_costs_keep(&machine, costs));
  by_command_note("saved in %s", path);
  return BANYAN_OK;
}

static enum banyan_status fit_costs(struct by_times *times, const char *cost, const char *path, bool saves) {
  char *text;
  size_t length;
  double error;
  BY_TRY(by_read_file("times", path, BY_TIMES_MAX_FILE, &text, &length));
  enum banyan_status status = by_times_read(times, path, text, length);
  free(text);
  BY_TRY(status);
  BY_TRY(by_cost_fit(times->samples, times->n, &times->rates, &error));
  print_times(times, error);
  struct by_text found = {0};
  by_text_add(&found, "%s%scall=%.3gus,hop=%.3gus,message=%.3gus,byte=%.3gns", cost ? cost : "", cost ? "," : "",
              1e6 * times->rates.call, 1e6 * times->rates.hop, 1e6 * times->rates.message, 1e9 * times->rates.byte);
  printf("%s\n", by_text_get(&found));
  status = saves ? save_costs(by_text_get(&found)) : BANYAN_OK;
  by_text_fini(&found);
  return status;
}

enum banyan_status by_plan_show_fit(const char *name, const char *cost, const char *path, bool saves) {
  static struct by_times times; /* Too large for a stack. */
  struct by_cost_rates rates = by_cost_defaults();
  struct by_topology *topology;
  BY_TRY(by_topology_named(name, &topology));
  enum banyan_status status = cost ? by_cost_parse(cost, &rates) : BANYAN_OK;
  by_times_init(&times, topology, &rates);
  if (status == BANYAN_OK) status = fit_costs(&times, cost, path, saves);
  by_times_fini(&times);
  by_topology_destroy(topology);
  return status;
}
