/* Plans when a job starts: finds the nodes of its hosts, has rank 0 plan, and hands the plan to all ranks. */
#include "planning.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <banyan/collectives.h>
#include <banyan/comm.h>

#include "clock.h"
#include "cost.h"
#include "job_network.h"
#include "log.h"
#include "plan_make.h"
#include "plan_switch.h"
#include "planner.h"
#include "plans.h"
#include "switched_tree.h"
#include "text.h"
#include "thresholds.h"

/* --- which node each host is --- */

static const char *name_of_host(const struct by_job *job, uint32_t host) {
  const struct by_member *members = by_job_members(job);
  for (uint32_t r = 0; r < by_job_size(job); r++)
    if (by_job_hosts(job)->of[r] == host) return members[r].host;
  return "";
}

uint32_t by_planning_node_of(const struct by_topology *topology, const char *host) {
  uint32_t node = by_topology_find_host(topology, host);
  return node == BY_TOPOLOGY_SEVERAL ? UINT32_MAX : node;
}

/* Assigns hosts to nodes in order: the h-th host is the order[h]-th node that takes part; `order` NULL: the h-th. */
static enum banyan_status take_in_order(const struct by_job *job, const struct by_topology *topology,
                                        const uint32_t *order, uint32_t *nodes) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < topology->n_nodes; v++) {
    if (!topology->nodes[v].takes_part) continue;
    for (uint32_t h = 0; h < by_job_hosts(job)->n; h++)
      if (n == (order ? order[h] : h)) nodes[h] = v;
    n++;
  }
  if (n == by_job_hosts(job)->n) return BANYAN_OK;
  return by_fail(
      BANYAN_ERR_TOPOLOGY,
      "the topology has no node \"%s\", nor one for any other host of the job; and %u hosts take part in it, "
      "but the job has %u",
      name_of_host(job, 0), n, by_job_hosts(job)->n);
}

/* Hosts whose names have nothing to do with those of the nodes may be any: people learn which ones are taken. */
static void warn_of_order(const struct by_job *job, const struct by_topology *topology, const uint32_t *nodes) {
  const uint32_t max = 8, n = by_job_hosts(job)->n;
  struct by_text text;
  by_text_init(&text);
  for (uint32_t h = 0; h < n && h < max; h++)
    by_text_add(&text, "%s%s is %s", h ? ", " : "", name_of_host(job, h), topology->nodes[nodes[h]].name);
  if (n > max) by_text_add(&text, ", and so on");
  by_warn("plan", "no host has the name of a node of the topology, so they are taken in order: %s", by_text_get(&text));
  by_text_fini(&text);
}

/* Two hosts with one first label, such as a.x and a.y, are not both node a. */
static enum banyan_status check_one_each(const struct by_job *job, const struct by_topology *topology,
                                         const uint32_t *nodes) {
  uint32_t *first = calloc(topology->n_nodes, sizeof *first), h = 0;
  if (!first) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the hosts of a plan");
  for (; h < by_job_hosts(job)->n; h++) {
    uint32_t *other = &first[nodes[h]];
    if (*other && !by_host_names_agree(name_of_host(job, *other - 1), name_of_host(job, h))) break;
    if (!*other) *other = h + 1;
  }
  uint32_t other = h < by_job_hosts(job)->n ? first[nodes[h]] - 1 : 0;
  free(first);
  if (h == by_job_hosts(job)->n) return BANYAN_OK;
  return by_fail(BANYAN_ERR_TOPOLOGY,
                 "\"%s\" and \"%s\" would both be node \"%s\" of the topology; use full names there",
                 name_of_host(job, other), name_of_host(job, h), topology->nodes[nodes[h]].name);
}

static enum banyan_status fail_host(const struct by_topology *topology, const char *host) {
  if (by_topology_find_host(topology, host) == BY_TOPOLOGY_SEVERAL)
    return by_fail(BANYAN_ERR_TOPOLOGY, "\"%s\", a host of the job, may be several nodes of the topology", host);
  return by_fail(BANYAN_ERR_TOPOLOGY, "the topology has no node \"%s\", which is a host of the job", host);
}

static enum banyan_status find_nodes(const struct by_job *job, const struct by_topology *topology, uint32_t *nodes) {
  uint32_t found = 0, missing = 0;
  bool several = false;
  for (uint32_t h = 0; h < by_job_hosts(job)->n; h++) {
    nodes[h] = by_topology_find_host(topology, name_of_host(job, h));
    several = several || nodes[h] == BY_TOPOLOGY_SEVERAL;
    if (nodes[h] < topology->n_nodes)
      found++;
    else
      missing = h;
  }
  if (found == by_job_hosts(job)->n) return check_one_each(job, topology, nodes);
  if (found || several) return fail_host(topology, name_of_host(job, missing));
  BY_TRY(take_in_order(job, topology, NULL, nodes));
  warn_of_order(job, topology, nodes);
  return BANYAN_OK;
}

static uint32_t index_of(const uint32_t *nodes, uint32_t n, uint32_t node) {
  uint32_t i = 0;
  while (i < n && nodes[i] != node) i++;
  return i;
}

/* Keeps each node once: with BANYAN_TRANSPORT=tcp every rank is a host, and those of one machine are one node. place[h]
 * is the index of the h-th host's node. Returns the number of nodes. */
static uint32_t join_same(uint32_t *nodes, uint32_t n, uint32_t *place) {
  uint32_t kept = 0;
  for (uint32_t h = 0; h < n; h++) {
    place[h] = index_of(nodes, kept, nodes[h]);
    if (place[h] == kept) nodes[kept++] = nodes[h];
  }
  return kept;
}

static uint32_t next_that_helps(const struct by_topology *topology, const uint32_t *nodes, uint32_t n) {
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (topology->nodes[v].may_help && index_of(nodes, n, v) == n) return v;
  return UINT32_MAX;
}

/* Finds the nodes of the helpers that came: those of their names, else those that may help, one after the other. Adds
 * them after the `n_hosts` in `nodes`, and returns their number. */
static uint32_t find_helpers(const struct by_job *job, const struct by_topology *topology, uint32_t *nodes,
                             uint32_t n_hosts) {
  const struct by_member *members = by_job_members(job);
  uint32_t n = n_hosts;
  for (uint32_t p = by_job_size(job); p < by_job_founders(job); p++) {
    if (members[p].kind != BY_MEMBER_HELPER) continue;
    uint32_t node = by_planning_node_of(topology, members[p].host);
    if (node == UINT32_MAX || index_of(nodes, n, node) < n) node = next_that_helps(topology, nodes, n);
    if (node == UINT32_MAX)
      by_warn("plan", "%s is no node of the topology, and no other may help: the plan goes without it",
              by_job_name(job, p));
    else
      nodes[n++] = node;
  }
  return n - n_hosts;
}

/* Hosts of servers that came with the job, which finish the sums of in-network trees; returns how many of them there
 * are. Without a switch that aggregates they are of no use. */
static uint32_t find_servers(const struct by_job *job, const struct by_topology *topology, uint32_t *servers) {
  const struct by_member *members = by_job_members(job);
  uint32_t n = 0, v = 0;
  while (v < topology->n_nodes && !topology->nodes[v].aggregates) v++;
  for (uint32_t p = by_job_size(job); p < by_job_founders(job) && v < topology->n_nodes; p++) {
    uint32_t node = members[p].kind == BY_MEMBER_SERVER ? by_planning_node_of(topology, members[p].host) : UINT32_MAX;
    if (node != UINT32_MAX && index_of(servers, n, node) == n) servers[n++] = node;
  }
  return n;
}

static bool has_trees(const struct by_plan *plan) {
  uint32_t v = plan->n_ranks;
  while (v < plan->n_vertices && plan->vertices[v].kind != BY_VERTEX_SERVER) v++;
  return v < plan->n_vertices;
}

/* Returns whether each of the plan's in-network trees has a server of its host. */
static bool has_servers(const struct by_job *job, const struct by_plan *plan) {
  const struct by_member *members = by_job_members(job);
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++) {
    if (plan->vertices[v].kind != BY_VERTEX_SERVER) continue;
    size_t length = by_server_host_bytes(plan->vertices[v].name);
    uint32_t wanted = 0, there = 0;
    for (uint32_t u = plan->n_ranks; u < plan->n_vertices; u++)
      wanted += plan->vertices[u].kind == BY_VERTEX_SERVER && by_server_host_bytes(plan->vertices[u].name) == length &&
                !memcmp(plan->vertices[u].name, plan->vertices[v].name, length);
    for (uint32_t p = by_job_size(job); p < by_job_founders(job); p++)
      there += members[p].kind == BY_MEMBER_SERVER && strlen(members[p].host) == length &&
               !memcmp(members[p].host, plan->vertices[v].name, length);
    if (there < wanted) return false;
  }
  return true;
}

/* --- rank 0 --- */

static enum banyan_status print_plan(const struct by_planned *planned, const uint32_t *place, uint32_t n_hosts,
                                     struct by_text *text) {
  struct by_plan *wider = NULL;
  if (planned->plan->n_ranks < n_hosts) BY_TRY(by_plan_expand(planned->plan, place, n_hosts, &wider));
  by_plan_print(wider ? wider : planned->plan, text);
  by_plan_destroy(wider);
  return text->failed ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the text of a plan") : BANYAN_OK;
}

static void log_control(const struct by_controller_trees *control) {
  const struct by_control_tree *tree = control->tree;
  if (!tree) {
    by_warn("plan", "controllers go by the numbers of their hosts: no control tree could be made for the topology");
    return;
  }
  if (tree->higher || tree->farther)
    by_warn("plan",
            "no control tree over these hosts keeps the limits in BANYAN_PLANNER: it has height %u, and %g %s to a "
            "parent at most",
            tree->height, tree->distance, tree->kept.by_delay ? "s" : "links");
  by_info("plan", "controllers form a tree of height %u, with at most %u children%s", tree->height, tree->fan_out,
          control->cut ? ": a ring, cut open" : "");
}

/* Counts the ranks on each of n nodes. The caller frees the result. */
static double *count_ranks(const struct by_job *job, uint32_t n, const uint32_t *place) {
  double *ranks_on = calloc(n, sizeof *ranks_on);
  for (uint32_t r = 0; ranks_on && r < by_job_size(job); r++) ranks_on[place[by_job_hosts(job)->of[r]]]++;
  return ranks_on;
}

/* Prints the plan, if it may be faster. */
static enum banyan_status take_if_hopeful(const struct by_job *job, const struct by_topology *topology,
                                          const struct by_planned *planned, const uint32_t *place,
                                          struct by_forecast *forecast, struct by_text *text) {
  if (!forecast) return print_plan(planned, place, by_job_hosts(job)->n, text);
  BY_TRY(by_forecast_make(topology, planned->plan, &planned->rates, by_job_hosts(job)->crowded, forecast));
  if (forecast->hopeful) return print_plan(planned, place, by_job_hosts(job)->n, text);
  by_info("plan", "the job keeps its built-in plans: on this network another one is %.2f times as fast, as predicted",
          forecast->gain);
  return BANYAN_OK;
}

void by_planning_costs(const struct by_job *job, struct by_cost_rates *rates) {
  if (!by_job_settings(job)->deterministic) by_machine_costs_use(rates);
}

/* `n` different nodes, of which the h-th host is the place[h]-th, followed by capacity for helpers. */
struct places {
  uint32_t *nodes, n, *place;
};

/* Plans with in-network trees to servers that came with the job. BANYAN_ERR_UNSUPPORTED: there are none. */
static enum banyan_status plan_switches(const struct by_job *job, const struct by_topology *topology, const char *name,
                                        struct by_planner_options options, struct by_planned *planned) {
  uint32_t *servers = calloc(by_job_founders(job), sizeof *servers);
  if (!servers) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the servers of a plan");
  options.servers = servers;
  options.n_servers = options.method == BY_PLANNER_FEW || options.method == BY_PLANNER_CLUSTER
                          ? find_servers(job, topology, servers)
                          : 0;
  options.method = BY_PLANNER_CLUSTER;
  enum banyan_status status = by_fail(BANYAN_ERR_UNSUPPORTED, "no server came");
  if (options.n_servers) status = by_planner_run(name, topology, &options, planned);
  free(servers);
  if (status == BANYAN_OK && !has_servers(job, planned->plan)) {
    by_planned_fini(planned);
    status = by_fail(BANYAN_ERR_UNSUPPORTED, "the best plan takes more servers than came");
  }
  if (status != BANYAN_OK && options.n_servers)
    by_info("plan", "the plan goes without trees through switches: %s", banyan_error_text());
  return status;
}

static enum banyan_status run_planner(const struct by_job *job, const struct by_topology *topology,
                                      const struct places *places, struct by_planned *planned) {
  const char *name = topology->name[0] ? topology->name : "topology";
  struct by_planner_options options = by_planner_defaults();
  uint32_t *nodes = places->nodes, n = places->n;
  by_planning_costs(job, &options.rates);
  BY_TRY(by_planner_options_parse(by_job_settings(job)->planner, &options));
  options.cancelled = by_job_ends(job);
  options.choice.participants = nodes;
  options.choice.n_participants = n;
  options.choice.helpers = nodes + n;
  options.choice.n_helpers = find_helpers(job, topology, nodes, n);
  if (by_job_hosts(job)->crowded) options.rates.cores = by_job_members(job)[0].cores;
  double *ranks_on = count_ranks(job, n, places->place);
  if (!ranks_on) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the hosts of a plan");
  options.ranks_on = ranks_on;
  enum banyan_status status = plan_switches(job, topology, name, options, planned);
  if (status != BANYAN_OK) status = by_planner_run(name, topology, &options, planned);
  free(ranks_on);
  return status;
}

static enum banyan_status plan_over(const struct by_job *job, const struct by_topology *topology,
                                    const struct places *places, struct by_forecast *forecast, struct by_text *text) {
  struct by_planned planned;
  uint64_t before = by_clock_now(&by_clock_system);
  char rate[2][32];
  BY_TRY(run_planner(job, topology, places, &planned));
  const char *scope = by_graph_bound_scope(planned.graph, topology);
  enum banyan_status status = take_if_hopeful(job, topology, &planned, places->place, forecast, text);
  if (status == BANYAN_OK && text->length)
    by_info("plan", "planned from the topology in %.3f s: %s of at most %s%s%s",
            (double)(by_clock_now(&by_clock_system) - before) * 1e-9,
            by_print_rate(planned.plan->facts.throughput, rate[0]), by_print_rate(planned.plan->facts.bound, rate[1]),
            scope ? " by " : "", scope ? scope : "");
  if (status == BANYAN_OK && text->length) log_control(&planned.control);
  by_planned_fini(&planned);
  return status;
}

static enum banyan_plan_source source_of(const struct by_planning_options *options) {
  if (options->source != BANYAN_PLAN_BUILTIN) return options->source;
  return options->in_order ? BANYAN_PLAN_MEASURED : BANYAN_PLAN_TOPOLOGY;
}

/* Has the context keep the topology. */
static enum banyan_status keep_network(struct by_job *job, struct by_topology *topology,
                                       const struct by_planning_options *options) {
  uint32_t *nodes = calloc(by_job_hosts(job)->n, sizeof *nodes);
  enum banyan_status status = BANYAN_OK;
  if (!nodes) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the hosts of a plan");
  if (status == BANYAN_OK && options->nodes)
    memcpy(nodes, options->nodes, by_job_hosts(job)->n * sizeof *nodes);
  else if (status == BANYAN_OK)
    status = options->in_order ? take_in_order(job, topology, options->order, nodes) : find_nodes(job, topology, nodes);
  if (status == BANYAN_OK)
    status = by_job_network_keep(job, topology, nodes, source_of(options));
  else
    by_topology_destroy(topology);
  free(nodes);
  return status;
}

enum banyan_status by_planning_keep_topology(void *context, const char *text) {
  struct by_topology *topology;
  BY_TRY(by_topology_parse("the manager's topology", text, strlen(text), &topology));
  if (!by_planning_knows_hosts(context, topology)) {
    by_topology_destroy(topology);
    return by_fail_within(BANYAN_ERR_TOPOLOGY, "the manager's topology");
  }
  return keep_network(context, topology, &(struct by_planning_options){.in_order = false});
}

/* Finds the nodes. The caller frees `place`, which the nodes follow in memory. */
static enum banyan_status find_places(const struct by_job *job, const struct by_job_network *network,
                                      struct places *out) {
  uint32_t n_hosts = network->n_hosts;
  out->place = calloc(2 * (size_t)n_hosts + by_job_founders(job), sizeof *out->place);
  if (!out->place) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the hosts of a plan");
  out->nodes = out->place + n_hosts;
  memcpy(out->nodes, network->nodes, n_hosts * sizeof *out->nodes);
  out->n = join_same(out->nodes, n_hosts, out->place);
  return BANYAN_OK;
}

/* Plans, unless all hosts are one node. */
static enum banyan_status plan(const struct by_job *job, const struct by_job_network *network,
                               struct by_forecast *forecast, struct by_text *text) {
  struct places places = {0};
  BY_TRY(find_places(job, network, &places));
  enum banyan_status status = places.n > 1 ? plan_over(job, network->topology, &places, forecast, text) : BANYAN_OK;
  free(places.place);
  return status;
}

void by_planning_describe(const struct by_job *job, struct by_text *text) {
  struct by_cost_rates rates = by_cost_defaults();
  const char *settings = by_job_settings(job)->planner;
  by_planning_costs(job, &rates);
  by_text_add(text, "banyan %s; %s; costs %g %g %g %g %g %g %g %g; helpers %u;", banyan_version(),
              settings ? settings : "", rates.wire, rates.call, rates.hop, rates.link, rates.message, rates.byte,
              rates.grain, rates.burst, by_job_founders(job) - by_job_size(job));
  if (by_job_hosts(job)->crowded) by_text_add(text, " cores %u;", by_job_members(job)[0].cores);
  by_text_add(text, " ranks");
  for (uint32_t h = 0, alike = 0, before = 0; h <= by_job_hosts(job)->n; h++) {
    uint32_t ranks = 0;
    for (uint32_t r = 0; r < by_job_size(job) && h < by_job_hosts(job)->n; r++) ranks += by_job_hosts(job)->of[r] == h;
    if (alike && ranks != before) by_text_add(text, " %ux%u", alike, before);
    alike = ranks == before ? alike + 1 : 1;
    before = ranks;
  }
}

enum banyan_status by_planning_print(const struct by_job *job, const struct by_job_network *network,
                                     struct by_text *text) {
  return plan(job, network, NULL, text);
}

enum banyan_status by_planning_alternative(const struct by_job *job, const struct by_job_network *network,
                                           double within, struct by_plan **out, double *max_rate) {
  struct places places = {0};
  struct by_planned planned;
  struct by_plan *over_nodes = NULL;
  *out = NULL;
  BY_TRY(find_places(job, network, &places));
  enum banyan_status status = places.n > 1 ? run_planner(job, network->topology, &places, &planned) : BANYAN_OK;
  if (status == BANYAN_OK && places.n > 1) {
    /* In a trial each plan with trees through switches would take memory of these. */
    if (!has_trees(planned.plan)) status = by_planner_find_alternative(&planned, within, &over_nodes);
    /* Rates that were measured are those without headers. */
    *max_rate = planned.plan->facts.bound / (network->source == BANYAN_PLAN_MEASURED ? 1 : planned.rates.wire);
    by_planned_fini(&planned);
  }
  if (status == BANYAN_OK && over_nodes) status = by_plan_expand(over_nodes, places.place, network->n_hosts, out);
  by_plan_destroy(over_nodes);
  free(places.place);
  return status;
}

enum banyan_status by_planning_propose(struct by_job *job, struct by_plan *plan, enum banyan_plan_source source,
                                       const struct by_plan_switch_observer *notify) {
  uint32_t n = by_job_size(job), *all = calloc(n, sizeof *all);
  if (!all) {
    by_plan_destroy(plan);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  }
  for (uint32_t i = 0; i < n; i++) all[i] = i;
  plan->origin = (struct by_plan_origin){source, false};
  enum banyan_status status = by_plan_switches_propose(job, 0, n, all, plan, NULL, notify);
  free(all);
  return status;
}

/* --- all ranks --- */

/* Rank 0's plan goes to all ranks, which set it. */
static enum banyan_status hand_out(struct banyan_comm *comm, enum banyan_plan_source source, struct by_text *made,
                                   bool *planned) {
  uint64_t length = comm->rank == 0 ? made->length : 0;
  BY_TRY(banyan_broadcast(comm, &length, sizeof length, BANYAN_UINT8, 0));
  *planned = length > 0;
  if (!length) return BANYAN_OK;
  char *text = calloc(1, length + 1);
  if (!text) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan of %zu bytes", (size_t)length);
  if (comm->rank == 0) memcpy(text, by_text_get(made), length);
  struct by_plan *plan = NULL;
  enum banyan_status status = banyan_broadcast(comm, text, length, BANYAN_UINT8, 0);
  if (status == BANYAN_OK) status = by_plans_named(comm->job, comm->size, comm->processes, text, &plan);
  free(text);
  if (status != BANYAN_OK) return status;
  plan->origin = (struct by_plan_origin){source, false};
  by_job_lock(comm->job);
  by_plans_give(comm->job, plan);
  by_job_unlock(comm->job);
  return by_plan_switches_set_plan(comm, plan);
}

/* Fails the job: the others are notified why no plan comes. */
enum banyan_status by_planning_fail(struct banyan_comm *comm, enum banyan_status status) {
  return by_job_fail_here(comm->job, status, "could not plan from the topology");
}

enum banyan_status by_planning_for_all(struct banyan_comm *comm, struct by_topology *topology,
                                       const struct by_planning_options *options, bool *planned) {
  struct by_job *job = comm->job;
  struct by_text text = {0};
  struct by_job_network *network = NULL;
  enum banyan_status status = comm->rank == 0 ? keep_network(job, topology, options) : BANYAN_OK;
  if (status == BANYAN_OK && options->plan) by_text_add(&text, "%s", options->plan);
  if (text.failed) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the text of a plan");
  if (status == BANYAN_OK && comm->rank == 0 && !text.length) network = by_job_network_hold(job);
  if (network) status = plan(job, network, options->forecast, &text);
  by_job_network_release(network);
  if (status != BANYAN_OK && options->may_fail) {
    by_warn("plan", "the job keeps its built-in plans: %s", banyan_error_text());
    by_text_fini(&text);
    by_text_init(&text);
    status = BANYAN_OK;
  }
  status = status == BANYAN_OK ? hand_out(comm, source_of(options), &text, planned) : by_planning_fail(comm, status);
  if (status == BANYAN_OK && *planned && options->made) *options->made = strdup(by_text_get(&text));
  by_text_fini(&text);
  if (status == BANYAN_OK && options->may_fail && !*planned) by_job_network_drop(job);
  return status;
}

bool by_planning_knows_hosts(const struct by_job *job, const struct by_topology *topology) {
  for (uint32_t h = 0; h < by_job_hosts(job)->n; h++)
    if (by_planning_node_of(topology, name_of_host(job, h)) == UINT32_MAX) {
      (void)fail_host(topology, name_of_host(job, h));
      return false;
    }
  return true;
}

/* ---- forecasts */

enum { LARGE = 16 << 20, MIN_TRIAL = 64 << 10, MAX_TRIAL = 16 << 20 };

static const double trial_step = 1.25; /* Factor between the sizes that are compared. */

/* Returns whether all hosts are at one switch, by links of one rate in both directions. There the built-in plan fills
 * all links, and no plan is faster. */
static bool is_even(const struct by_topology *topology) {
  double min = INFINITY, max = 0;
  uint32_t hosts = 0;
  for (uint32_t v = 0; v < topology->n_nodes; v++) hosts += topology->nodes[v].takes_part;
  if (hosts > 2 && (topology->n_nodes != hosts + 1 || topology->n_links != hosts)) return false;
  for (uint32_t i = 0; i < topology->n_links; i++) {
    const struct by_link *link = &topology->links[i];
    if (topology->nodes[link->a].takes_part && topology->nodes[link->b].takes_part && hosts > 2) return false;
    for (int direction = 0; direction < 2; direction++) {
      min = fmin(min, by_residual(link->capacity[direction]));
      max = fmax(max, by_residual(link->capacity[direction]));
    }
  }
  return max <= by_limit_error * min;
}

/* Makes the built-in plan, with the names of the other plan's ranks. */
static enum banyan_status make_builtin(const struct by_plan *names, bool crowded, struct by_plan **out) {
  uint32_t n = names->n_ranks, *all = calloc(n, sizeof *all);
  struct by_plan *builtin = NULL;
  if (!all) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  for (uint32_t r = 0; r < n; r++) all[r] = r;
  enum banyan_status status = by_plan_default(n, all, crowded, &builtin);
  if (status == BANYAN_OK) status = by_plan_reorder(builtin, all, names, out);
  by_plan_destroy(builtin);
  free(all);
  return status;
}

/* Initialises the costs of the class for the largest buffers. */
static enum banyan_status init_cost(struct by_cost *cost, const struct by_plan *plan,
                                    const struct by_topology *topology, const struct by_cost_rates *rates) {
  return by_cost_init(cost, plan, &plan->classes[plan->n_classes - 1], topology, rates);
}

/* Returns the least size of the plan's last class. */
static double begin_of_last(const struct by_plan *plan) {
  return plan->n_classes > 1 ? (double)plan->classes[plan->n_classes - 2].up_to + 1 : 1;
}

static enum banyan_status compare(const struct by_cost *builtin, const struct by_cost *ours, double min,
                                  struct by_forecast *out) {
  double bytes = fmax(MIN_TRIAL, trial_step * min), seconds[2];
  out->gain = by_cost_time(builtin, LARGE) / by_cost_time(ours, LARGE);
  out->sure = out->gain >= by_limit_error;
  for (;; bytes *= trial_step) {
    seconds[0] = by_cost_time(builtin, bytes);
    seconds[1] = by_cost_time(ours, bytes);
    if (isnan(out->gain + seconds[0] + seconds[1]))
      return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for predicting times of a plan");
    if (fmin(seconds[0], seconds[1]) >= (out->sure ? by_limit_trial_time : by_limit_close_time) ||
        trial_step * bytes > MAX_TRIAL)
      break;
  }
  out->bytes = (uint64_t)bytes;
  out->seconds = fmax(seconds[0], seconds[1]);
  return BANYAN_OK;
}

enum banyan_status by_forecast_make(const struct by_topology *topology, const struct by_plan *plan,
                                    const struct by_cost_rates *rates, bool crowded, struct by_forecast *out) {
  struct by_plan *builtin = NULL;
  struct by_cost costs[2] = {{0}, {0}};
  *out = (struct by_forecast){0};
  BY_TRY(make_builtin(plan, crowded, &builtin));
  enum banyan_status status = init_cost(&costs[0], builtin, topology, rates);
  if (status == BANYAN_OK) status = init_cost(&costs[1], plan, topology, rates);
  if (status == BANYAN_OK)
    status = compare(&costs[0], &costs[1], fmax(begin_of_last(builtin), begin_of_last(plan)), out);
  out->hopeful = out->sure || (out->gain * by_limit_error >= 1 && !is_even(topology));
  by_cost_fini(&costs[0]);
  by_cost_fini(&costs[1]);
  by_plan_destroy(builtin);
  return status;
}
