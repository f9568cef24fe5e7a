/* Finds a plan for a job on several machines that was given none: from a site file, the cache, or a measurement. */
#include "first_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <banyan/collectives.h>

#include "adaptation.h"
#include "carry.h"
#include "clock.h"
#include "file.h"
#include "job_network.h"
#include "log.h"
#include "machine_fit.h"
#include "measure.h"
#include "network_cache.h"
#include "planner.h"
#include "planning.h"
#include "text.h"
#include "thresholds.h"
#include "topology_formats.h"
#include "trial.h"

/* ---- plans of jobs that were given none */

enum { MAX_HOSTS = 128, MAX_PATH = 4096, TRIES = 3 };

/* The next step of all ranks, which rank 0 chooses. */
enum step {
  PLAN_FROM_SITE,
  PROBE,      /* Send the cached probes. */
  MEASURE,    /* Measure, plan, and try the plan. */
  TRY,        /* Try a plan for the cached network. */
  USE_CACHED, /* Use the cached plan or the built-in ones, as was decided. */
  KEEP_BUILTIN
};

struct automatic {
  struct banyan_comm *comm;
  uint64_t start;
  /* The fields below are rank 0's. */
  char *facts; /* BY_HOST_FACTS for each rank, then those of hosts */
  const char **hosts;
  struct by_network_key key;
  char folder[MAX_PATH]; /* The cache's folder; "": none. */
  struct by_topology *site;
  struct by_text planner; /* Text of key.planner. */
  struct by_network_entry entry;
  bool unverified; /* The entry may hold, but could not be verified. */
  struct by_forecast forecast;
};

static enum banyan_status agree_step(struct automatic *a, enum step *step) {
  int32_t sent = (int32_t)*step;
  BY_TRY(banyan_broadcast(a->comm, &sent, 1, BANYAN_INT32, 0));
  *step = (enum step)sent;
  return BANYAN_OK;
}

/* Returns whether the job goes on after a failure of a collective step. */
static bool goes_on(const struct automatic *a) {
  return banyan_comm_state(a->comm) == BANYAN_OK;
}

/* ---- site files */

static bool read_site(struct automatic *a, const char *path) {
  if (access(path, F_OK) != 0) return false;
  bool known = by_topology_read(path, &a->site) == BANYAN_OK && by_planning_knows_hosts(a->comm->job, a->site);
  if (known) {
    by_info("plan", "the network is that of %s", path);
    return true;
  }
  by_warn("plan", "%s is not used: %s", path, banyan_error_text());
  by_topology_destroy(a->site);
  a->site = NULL;
  return false;
}

/* Finds a site file: the user's precedes that of all users. */
static bool find_site(struct automatic *a) {
  const char *settings = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
  char path[MAX_PATH];
  int length = -1;
  if (settings && *settings == '/')
    length = snprintf(path, sizeof path, "%s/banyan/topology.json", settings);
  else if (home && *home == '/')
    length = snprintf(path, sizeof path, "%s/.config/banyan/topology.json", home);
  if (length >= 0 && (size_t)length < sizeof path && read_site(a, path)) return true;
  return read_site(a, "/etc/banyan/topology.json");
}

/* ---- the cache */

/* Gathers what all hosts know of the network, at rank 0. */
static enum banyan_status gather_facts(struct automatic *a) {
  const struct by_job *job = a->comm->job;
  const struct by_member *members = by_job_members(job), *own = &members[by_job_rank(job)];
  const struct by_address *address = by_member_address(own, AF_INET);
  bool leads = a->comm->rank == 0;
  char facts[BY_HOST_FACTS] = "";
  by_host_facts(address ? address : by_member_address(own, AF_INET6), by_job_settings(job)->iface, facts);
  if (leads) {
    a->facts = calloc(by_job_size(job), BY_HOST_FACTS);
    a->hosts = calloc(by_job_hosts(job)->n, sizeof *a->hosts);
    if (!a->facts || !a->hosts)
      return by_job_fail_here(a->comm->job,
                              by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u hosts", by_job_hosts(job)->n),
                              "cannot look for a plan");
  }
  struct banyan_call call = {
      .collective = BANYAN_GATHER, .dtype = BANYAN_UINT8, .send = facts, .recv = a->facts, .count = BY_HOST_FACTS};
  BY_TRY(banyan_run(a->comm, &call));
  for (uint32_t r = 0; leads && r < by_job_size(job); r++) {
    char *text = a->facts + (size_t)r * BY_HOST_FACTS;
    text[BY_HOST_FACTS - 1] = '\0';
    if (!a->hosts[by_job_hosts(job)->of[r]]) a->hosts[by_job_hosts(job)->of[r]] = text;
  }
  if (leads) by_planning_describe(a->comm->job, &a->planner);
  a->key = (struct by_network_key){.n = by_job_hosts(job)->n, .hosts = a->hosts, .planner = by_text_get(&a->planner)};
  return BANYAN_OK;
}

/* Looks for the network in the cache, at rank 0. */
static enum step look_into_cache(struct automatic *a) {
  if (!by_cache_folder(by_job_settings(a->comm->job)->cache, a->folder, sizeof a->folder)) a->folder[0] = '\0';
  if (!a->folder[0]) return MEASURE;
  enum banyan_status status = by_network_cache_load(a->folder, &a->key, &a->entry);
  if (status == BANYAN_OK) return PROBE;
  if (status != BANYAN_ERR_ARGUMENT) by_warn("plan", "the network is measured again: %s", banyan_error_text());
  return MEASURE;
}

static void store(struct automatic *a) {
  if (a->folder[0] && by_network_cache_store(a->folder, &a->key, &a->entry) != BANYAN_OK)
    by_info("plan", "what was measured is not kept: %s", banyan_error_text());
}

static const char *group_of(const struct by_topology *topology, uint32_t host) {
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (topology->nodes[v].takes_part && host-- == 0) return topology->nodes[v].group;
  return NULL;
}

/* Returns whether a flow goes from one group to another. */
static bool goes_across(const char *from, const char *to) {
  return from && to && strcmp(from, to) != 0;
}

double by_first_plan_compare(const struct by_topology *topology, const struct by_probe_flow *before,
                             const struct by_probe_flow *now, uint32_t n) {
  double worst = 1;
  for (uint32_t k = 0; k < n; k++) {
    const char *from = group_of(topology, before[k].from), *to = group_of(topology, before[k].to);
    double then = 0, today = 0;
    for (uint32_t i = 0; i < n; i++) {
      const char *other_from = group_of(topology, before[i].from), *other_to = group_of(topology, before[i].to);
      bool together = goes_across(from, to) && goes_across(other_from, other_to) && strcmp(from, other_from) == 0 &&
                      strcmp(to, other_to) == 0 && before[i].round == before[k].round;
      if (i != k && !together) continue;
      then += before[i].rate;
      today += now[i].rate;
    }
    double off = then > 0 && today > 0 ? fmax(then / today, today / then) : INFINITY;
    by_debug("plan", "host %u to %u, round %u: %g bit/s before, %g now, with those that share it", before[k].from,
             before[k].to, before[k].round, then, today);
    worst = fmax(worst, off);
  }
  return worst;
}

/* Judges the cached entry by its probes, at rank 0; `off` NAN: they could not be sent. */
static enum step judge(struct automatic *a, double off) {
  double days = a->entry.age / 86400, took = (double)(by_clock_now(&by_clock_system) - a->start) * 1e-9;
  a->unverified = isnan(off);
  if (a->unverified) {
    by_info("plan", "the network is measured again: what was found %.1f days ago could not be probed", days);
    return MEASURE;
  }
  if (off > by_limit_max_off) {
    by_info("plan", "the network is measured again: a rate differs %.2f times from what it was %.1f days ago", off,
            days);
    return MEASURE;
  }
  by_info("plan", "the network was measured %.1f days ago, and is still like that, as probes found in %.3f s", days,
          took);
  if (a->entry.decision == BY_NETWORK_UNDECIDED) return TRY;
  if (a->entry.decision == BY_NETWORK_PLANNED) return USE_CACHED;
  by_info("plan", "the job keeps its built-in plans: no other one was faster then");
  return KEEP_BUILTIN;
}

/* Places the cached probes between the job's hosts, at rank 0. */
static void place_probes(const struct automatic *a, struct by_probe_flow *out) {
  const struct by_measured *measured = &a->entry.measured;
  for (uint32_t k = 0; k < measured->n_probes; k++) {
    out[k] = measured->probes[k];
    for (uint32_t h = 0; h < a->key.n; h++) {
      if (a->entry.place[h] == measured->probes[k].from) out[k].from = h;
      if (a->entry.place[h] == measured->probes[k].to) out[k].to = h;
    }
  }
}

/* Returns which of two rates is nearer to the earlier rate: what disturbs one try may not disturb the other. 0: no
 * rate. */
static double choose_nearer(double before, double one, double other) {
  if (!(one > 0) || !(other > 0)) return fmax(one, other);
  return fabs(log(one / before)) <= fabs(log(other / before)) ? one : other;
}

/* Returns whether hosts are wired to each other, so that each probe is of one link. */
static bool is_wired(const struct by_topology *topology) {
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (!topology->nodes[v].takes_part) return false;
  return true;
}

/* The probes as they were, between the job's hosts, and the nearest rates so far; at rank 0. */
struct probing {
  struct by_probe_flow *all, *best, *tried; /* Probes of the next try, by their indices in `which`. */
  uint32_t *which;
};

static enum banyan_status probing_init(struct probing *p, uint32_t n) {
  *p = (struct probing){.all = calloc(n + 1, sizeof *p->all),
                        .best = calloc(n + 1, sizeof *p->best),
                        .tried = calloc(n + 1, sizeof *p->tried),
                        .which = calloc(n + 1, sizeof *p->which)};
  if (p->all && p->tried && p->best && p->which) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for probes");
}

static void probing_fini(struct probing *p) {
  free(p->all);
  free(p->tried);
  free(p->best);
  free(p->which);
}

/* Chooses what to try again: single links that seem to be off; all of other networks. */
static uint32_t choose_tries(const struct probing *p, uint32_t n, bool wired) {
  uint32_t tries = 0;
  for (uint32_t k = 0; k < n; k++) {
    double now = p->best[k].rate, off = now > 0 ? fmax(now / p->all[k].rate, p->all[k].rate / now) : INFINITY;
    if (wired && off <= by_limit_max_off) continue;
    p->which[tries] = k;
    p->tried[tries++] = p->all[k];
  }
  return tries;
}

/* Tries the probes once more; all ranks get `off`, the factor that remains. */
static enum banyan_status try_probes(struct automatic *a, struct probing *p, double *off) {
  const struct by_measured *measured = &a->entry.measured;
  bool leads = a->comm->rank == 0, wired = leads && is_wired(measured->topology);
  uint32_t n = leads ? choose_tries(p, measured->n_probes, wired) : 0;
  enum banyan_status status = by_measure_probe(a->comm, p->tried, n, wired);
  if (status != BANYAN_OK && !goes_on(a)) return status;
  if (leads && status != BANYAN_OK) *off = NAN;
  if (leads && status == BANYAN_OK) {
    for (uint32_t i = 0; i < n; i++) {
      double *best = &p->best[p->which[i]].rate;
      *best = choose_nearer(p->all[p->which[i]].rate, *best, p->tried[i].rate);
    }
    *off = by_first_plan_compare(measured->topology, measured->probes, p->best, measured->n_probes);
    by_debug("plan", "%u probes, %.3f s so far: a rate differs %.2f times", n,
             (double)(by_clock_now(&by_clock_system) - a->start) * 1e-9, *off);
  }
  return banyan_broadcast(a->comm, off, 1, BANYAN_FLOAT64, 0);
}

static enum banyan_status probe(struct automatic *a, enum step *step) {
  bool leads = a->comm->rank == 0;
  struct probing p;
  double off = INFINITY;
  enum banyan_status status = probing_init(&p, a->entry.measured.n_probes);
  if (status != BANYAN_OK) {
    probing_fini(&p);
    return by_job_fail_here(a->comm->job, status, "cannot look for a plan");
  }
  if (leads) place_probes(a, p.all);
  for (int i = 0; i < TRIES && !(off <= by_limit_max_off) && status == BANYAN_OK; i++) status = try_probes(a, &p, &off);
  probing_fini(&p);
  if (status != BANYAN_OK) return status;
  if (leads) *step = judge(a, off);
  return agree_step(a, step);
}

/* ---- plans */

/* Sets the entry's plan, or one that the planner makes, which has to be hopeful if it is tried. */
static enum banyan_status set_plan(struct automatic *a, bool tried, bool *planned) {
  struct by_planning_options options = {
      .in_order = true, .order = a->entry.place, .may_fail = true, .plan = tried ? NULL : a->entry.plan};
  struct by_topology *topology = NULL;
  if (tried) options.forecast = &a->forecast;
  if (tried && a->comm->rank == 0) {
    free(a->entry.plan);
    a->entry.plan = NULL;
    options.made = &a->entry.plan;
  }
  if (a->comm->rank == 0) {
    enum banyan_status status = by_topology_copy(a->entry.measured.topology, &topology);
    if (status != BANYAN_OK) return by_planning_fail(a->comm, status);
  }
  return by_planning_for_all(a->comm, topology, &options, planned);
}

/* Stores the decision, at rank 0. A plan that may name helpers is not stored, as helpers may be others next time. */
static void store_decision(struct automatic *a, bool planned) {
  const struct by_job *job = a->comm->job;
  if (!planned || by_job_founders(job) != by_job_size(job)) {
    free(a->entry.plan);
    a->entry.plan = NULL;
  }
  a->entry.decision = planned ? BY_NETWORK_PLANNED : BY_NETWORK_BUILTIN;
  store(a);
}

static enum banyan_status decide(struct automatic *a, bool *planned) {
  BY_TRY(set_plan(a, true, planned));
  int32_t far = a->comm->rank == 0 && a->entry.measured.rough && a->forecast.sure;
  BY_TRY(banyan_broadcast(a->comm, &far, 1, BANYAN_INT32, 0));
  /* A trial over long round trips takes too long, and a shorter one shows little else than these. */
  if (*planned && !far) BY_TRY(by_plan_trial(a->comm, &a->forecast, planned));
  if (a->comm->rank == 0) store_decision(a, *planned);
  return BANYAN_OK;
}

/* ---- all of it */

static void notify(const char *text) {
  by_info("plan", "%s", text);
}

static const char takes_longer[] =
    "; the next job measures again, best while these machines do little else; or measure once, for as long as it "
    "takes, with \"banyan topo --measure -o ~/.config/banyan/topology.json\" as the ranks' program or "
    "BANYAN_TOPOLOGY=measure";

/* Chooses at rank 0 what follows a failed measurement. Programs that are still starting on the same machines may have
 * delayed messages; if messages are slow by themselves, no time is left to find that out. */
static enum step go_without(const struct automatic *a, enum banyan_status status) {
  char why[300];
  snprintf(why, sizeof why, "%s", banyan_error_text());
  if (status == BANYAN_ERR_TIMEOUT &&
      (double)(by_clock_now(&by_clock_system) - a->start) * 1e-9 < by_limit_repeat_within) {
    by_info("plan", "measuring begins anew: %s", why);
    return MEASURE;
  }
  if (a->unverified && a->entry.decision == BY_NETWORK_PLANNED) {
    by_info("plan", "the job uses the plan for what was measured %.1f days ago, unverified: %s", a->entry.age / 86400,
            why);
    return USE_CACHED;
  }
  by_info("plan", "the job keeps its built-in plans: %s%s", why, status == BANYAN_ERR_TIMEOUT ? takes_longer : "");
  return KEEP_BUILTIN;
}

/* Measures the network. On failure the cache is left as it was. */
static enum banyan_status measure_in_time(struct automatic *a, enum step *step) {
  struct by_measure_options options = {.seconds = by_limit_measure_time, .notify = notify};
  struct by_measured found;
  enum banyan_status status = by_measure(a->comm, &options, &found);
  if (status != BANYAN_OK && !goes_on(a)) return status;
  if (a->comm->rank == 0 && status != BANYAN_OK) *step = go_without(a, status);
  if (status == BANYAN_OK) {
    by_network_entry_fini(&a->entry);
    a->entry.measured = found;
    *step = TRY;
  }
  return agree_step(a, step);
}

/* Chooses the first step, at rank 0. */
static enum step look_around(struct automatic *a) {
  const struct by_job *job = a->comm->job;
  if (find_site(a)) return PLAN_FROM_SITE;
  if (by_job_settings(job)->deterministic) return KEEP_BUILTIN;
  if (by_job_hosts(job)->n <= MAX_HOSTS) return MEASURE;
  by_info("plan", "the job keeps its built-in plans: at most %d hosts are measured when a job starts, not %u",
          MAX_HOSTS, by_job_hosts(job)->n);
  return KEEP_BUILTIN;
}

static enum banyan_status plan(struct automatic *a, bool *planned) {
  enum step step = a->comm->rank == 0 ? look_around(a) : KEEP_BUILTIN;
  BY_TRY(agree_step(a, &step));
  if (step == PLAN_FROM_SITE) {
    struct by_topology *site = a->site;
    a->site = NULL;
    return by_planning_for_all(a->comm, site, &(struct by_planning_options){.may_fail = true}, planned);
  }
  if (step == KEEP_BUILTIN) return BANYAN_OK;
  BY_TRY(gather_facts(a));
  if (a->comm->rank == 0) step = look_into_cache(a);
  BY_TRY(agree_step(a, &step));
  if (step == PROBE) BY_TRY(probe(a, &step));
  while (step == MEASURE) BY_TRY(measure_in_time(a, &step));
  if (step == USE_CACHED) {
    bool made = !a->entry.plan;
    BY_TRY(set_plan(a, false, planned));
    if (made && *planned && a->comm->rank == 0 && !a->unverified) store_decision(a, true);
    return BANYAN_OK;
  }
  if (step == TRY) BY_TRY(decide(a, planned));
  if (step == TRY && a->comm->rank == 0)
    by_info("plan", "measuring and planning took %.3f s", (double)(by_clock_now(&by_clock_system) - a->start) * 1e-9);
  return BANYAN_OK;
}

/* Plans without a plan or a topology given. With BANYAN_DETERMINISTIC=1 only a site file counts. *planned: the job has
 * a plan then. *file: at rank 0, what the job finds later of a measured network goes there; NULL: nowhere. Only what
 * ends the job is an error. */
static enum banyan_status plan_automatically(struct banyan_comm *comm, bool *planned, struct by_network_file **file) {
  struct automatic a = {.comm = comm, .start = by_clock_now(&by_clock_system)};
  *planned = false;
  *file = NULL;
  enum banyan_status status = plan(&a, planned);
  bool keeps = status == BANYAN_OK && *planned && comm->rank == 0 && a.folder[0] && a.entry.measured.topology;
  if (keeps && by_network_file_create(a.folder, &a.key, &a.entry, file) != BANYAN_OK)
    by_warn("plan", "what the job finds of its network later is not kept: %s", banyan_error_text());
  by_topology_destroy(a.site);
  by_network_entry_fini(&a.entry);
  by_text_fini(&a.planner);
  free(a.facts);
  free(a.hosts);
  return status;
}

/* ---- what a job plans from */

/* The sources of plans; rank 0's settings decide. */
enum source {
  FROM_NOTHING,
  FROM_TOPOLOGY,  /* A given topology. */
  FROM_CARE,      /* A measurement without a time limit. */
  FROM_AUTOMATION /* A site file, the cache, or a measurement in less than a second. */
};

/* Returns whether ranks are in several networks of their own, so that there is something to find out. */
static bool is_apart(const struct by_job *job) {
  const struct by_member *members = by_job_members(job);
  for (uint32_t r = 1; r < by_job_size(job); r++)
    if (!by_member_same_network(&members[0], &members[r])) return true;
  return false;
}

static enum source choose(const struct by_job *job) {
  const char *topology = by_job_settings(job)->topology;
  if (!topology || strcmp(topology, "auto") == 0)
    return is_apart(job) && !by_job_is_managed(job) ? FROM_AUTOMATION : FROM_NOTHING;
  if (strcmp(topology, "off") == 0) return FROM_NOTHING;
  return strcmp(topology, "measure") == 0 ? FROM_CARE : FROM_TOPOLOGY;
}

/* Makes all ranks agree on the source. In one network all ranks have the settings of one user, and small jobs there
 * start without a call. */
static enum banyan_status agree_source(struct banyan_comm *comm, enum source *source) {
  int32_t chosen = (int32_t)choose(comm->job);
  if (is_apart(comm->job)) BY_TRY(banyan_broadcast(comm, &chosen, 1, BANYAN_INT32, 0));
  *source = (enum source)chosen;
  return BANYAN_OK;
}

/* Rank 0's settings of the planner count; wrong ones are reported whether there is anything to plan or not. */
static enum banyan_status check_settings(struct banyan_comm *comm) {
  struct by_planner_options options = by_planner_defaults();
  if (comm->rank != 0) return BANYAN_OK;
  enum banyan_status status = by_planner_options_parse(by_job_settings(comm->job)->planner, &options);
  if (status == BANYAN_OK) return status;
  return by_job_fail_here(comm->job, status, "cannot use BANYAN_PLANNER");
}

/* Begins replanning, so that the plan follows changes of the network. */
static void begin_replanning(struct banyan_comm *comm, bool planned, struct by_network_file *file) {
  if (!planned || comm->rank != 0)
    by_network_file_destroy(file);
  else if (by_replan_begin(comm->job, file) != BANYAN_OK)
    by_warn("plan", "the plan stays as it is, whatever becomes of the network: %s", banyan_error_text());
}

static enum banyan_status measure_carefully(struct banyan_comm *comm) {
  struct by_measured measured;
  bool planned;
  BY_TRY(by_measure(comm, &(struct by_measure_options){.notify = notify}, &measured));
  struct by_topology *topology = measured.topology;
  measured.topology = NULL;
  by_measured_fini(&measured);
  BY_TRY(by_planning_for_all(comm, topology, &(struct by_planning_options){.in_order = true}, &planned));
  begin_replanning(comm, planned, NULL);
  return BANYAN_OK;
}

/* Reads the given topology. A wrong one is reported with one host, too. */
static enum banyan_status read_topology(struct banyan_comm *comm) {
  struct by_topology *topology = NULL;
  bool planned;
  if (comm->rank == 0) {
    enum banyan_status status = by_topology_named(by_job_settings(comm->job)->topology, &topology);
    if (status != BANYAN_OK) return by_planning_fail(comm, status);
  }
  if (by_job_hosts(comm->job)->n == 1) {
    if (topology)
      by_warn("plan", "the topology is not used: all ranks are on one host, which needs no plan for a network");
    by_topology_destroy(topology);
    return BANYAN_OK;
  }
  BY_TRY(by_planning_for_all(comm, topology, &(struct by_planning_options){.in_order = false}, &planned));
  begin_replanning(comm, planned, NULL);
  return BANYAN_OK;
}

static const uint64_t max_fitting = 50 * BY_MILLISECOND;

/* The other ranks wait for rank 0's plan anyway. */
static void fit_machine(const struct banyan_comm *comm) {
  const struct by_job *job = comm->job;
  if (comm->rank == 0 && by_job_hosts(job)->n > 1 && !by_job_settings(job)->deterministic) by_machine_fit(max_fitting);
}

/* Plans for an unknown network. *decision: what the members of the next membership need not find again. */
static enum banyan_status plan_anew(struct banyan_comm *comm, enum source source, enum by_carried_decision *decision) {
  bool planned = false;
  struct by_network_file *file = NULL;
  *decision = BY_CARRIED_PLANNED;
  if (source == FROM_TOPOLOGY) return read_topology(comm);
  if (source == FROM_CARE && by_job_hosts(comm->job)->n > 1) return measure_carefully(comm);
  if (source == FROM_AUTOMATION) BY_TRY(plan_automatically(comm, &planned, &file));
  if (!planned) *decision = source == FROM_AUTOMATION ? BY_CARRIED_BUILTIN : BY_CARRIED_NOTHING;
  begin_replanning(comm, planned, file);
  return BANYAN_OK;
}

/* Plans from the results of an earlier membership. */
static enum banyan_status plan_from_carried(struct banyan_comm *comm, const struct by_carried_found *found,
                                            enum by_carried_decision *decision) {
  bool planned = false;
  *decision = found->decision;
  if (found->decision == BY_CARRIED_PLANNED)
    BY_TRY(by_carried_plan(comm, found, &planned));
  else if (comm->rank == 0)
    by_info("plan", "the job keeps its built-in plans, as in the membership before");
  begin_replanning(comm, planned, NULL);
  return BANYAN_OK;
}

/* Makes the first plan. A given plan takes precedence. Jobs on one host keep their built-in plans. */
static enum banyan_status plan_at_start(struct banyan_comm *comm, const struct by_carried_found *found,
                                        enum by_carried_decision *decision) {
  const struct by_settings *settings = by_job_settings(comm->job);
  enum source source;
  *decision = BY_CARRIED_NOTHING;
  BY_TRY(check_settings(comm));
  if (found->plan) return by_carried_set_plan(comm, found);
  if (settings->plan && *settings->plan) return BANYAN_OK;
  BY_TRY(agree_source(comm, &source));
  if (source != FROM_NOTHING) fit_machine(comm);
  bool known = source != FROM_NOTHING && by_job_hosts(comm->job)->n > 1 && found->decision != BY_CARRIED_NOTHING;
  return known ? plan_from_carried(comm, found, decision) : plan_anew(comm, source, decision);
}

static enum banyan_status plan_membership(struct banyan_comm *comm, struct by_carried *carried) {
  enum by_carried_decision decision;
  struct by_carried_found found;
  enum banyan_status status = by_carried_find(carried, comm, &found);
  if (status == BANYAN_OK) status = by_job_go_on(comm->job, found.version + 1);
  if (status == BANYAN_OK) status = plan_at_start(comm, &found, &decision);
  if (status == BANYAN_OK) by_carried_settle(carried, comm, &found, decision);
  by_carried_found_fini(&found);
  return status;
}

enum banyan_status by_first_plan_make(struct banyan_comm *comm, struct by_carried *carried) {
  enum by_carried_decision decision;
  const struct by_carried_found nothing = {0};
  return carried ? plan_membership(comm, carried) : plan_at_start(comm, &nothing, &decision);
}
