/* Chooses what a job plans from when it starts, and makes its first plan. */
#include <stdlib.h>
#include <string.h>

#include <banyan/collectives.h>

#include "automatic.h"
#include "carry.h"
#include "clock.h"
#include "first_plan.h"
#include "log.h"
#include "machine_fit.h"
#include "measure.h"
#include "planner_options.h"
#include "planning.h"
#include "replan.h"
#include "topology_synth.h"

/* What a job plans from; rank 0's settings decide. */
enum source {
  FROM_NOTHING,
  FROM_TOPOLOGY,  /* A given topology. */
  FROM_CARE,      /* A measurement without a time limit. */
  FROM_AUTOMATION /* See automatic.h. */
};

/* Whether ranks are in several networks of their own, so that there is something to find out. */
static bool is_apart(const struct by_job *job) {
  const struct by_member *members = job->members;
  for (uint32_t r = 1; r < job->size; r++)
    if (!by_member_same_network(&members[0], &members[r])) return true;
  return false;
}

static enum source choose(const struct by_context *context) {
  const char *topology = context->job.settings.topology;
  if (!topology || strcmp(topology, "auto") == 0)
    return is_apart(&context->job) && !context->managed ? FROM_AUTOMATION : FROM_NOTHING;
  if (strcmp(topology, "off") == 0) return FROM_NOTHING;
  return strcmp(topology, "measure") == 0 ? FROM_CARE : FROM_TOPOLOGY;
}

/* On one network all ranks have the settings of one user, and small jobs there start without a call. */
static enum banyan_status agree(struct banyan_comm *comm, enum source *source) {
  int32_t chosen = (int32_t)choose(comm->context);
  if (is_apart(&comm->context->job)) BY_TRY(banyan_broadcast(comm, &chosen, 1, BANYAN_INT32, 0));
  *source = (enum source)chosen;
  return BANYAN_OK;
}

/* Rank 0's settings of the planner count; wrong ones are reported whether there is anything to plan or not. */
static enum banyan_status check_settings(struct banyan_comm *comm) {
  struct by_planner_options options = by_planner_defaults();
  if (comm->rank != 0) return BANYAN_OK;
  enum banyan_status status = by_planner_options_parse(comm->context->job.settings.planner, &options);
  if (status == BANYAN_OK) return status;
  return by_context_fail(comm->context, status, "cannot use BANYAN_PLANNER");
}

/* Begins replanning, so that the plan follows changes of the network. */
static void begin_replanning(struct banyan_comm *comm, bool planned, struct by_network_file *file) {
  if (!planned || comm->rank != 0)
    by_network_file_destroy(file);
  else if (by_replan_begin(comm->context, file) != BANYAN_OK)
    by_warn("plan", "the plan stays as it is, whatever becomes of the network: %s", banyan_error_text());
}

static void notify(const char *text) {
  by_info("plan", "%s", text);
}

static enum banyan_status measure(struct banyan_comm *comm) {
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

/* A wrong topology is reported with one host, too. */
static enum banyan_status read_topology(struct banyan_comm *comm) {
  struct by_topology *topology = NULL;
  bool planned;
  if (comm->rank == 0) {
    enum banyan_status status = by_topology_named(comm->context->job.settings.topology, &topology);
    if (status != BANYAN_OK) return by_planning_fail(comm, status);
  }
  if (comm->context->job.n_hosts == 1) {
    by_topology_destroy(topology);
    return BANYAN_OK;
  }
  BY_TRY(by_planning_for_all(comm, topology, &(struct by_planning_options){.in_order = false}, &planned));
  begin_replanning(comm, planned, NULL);
  return BANYAN_OK;
}

static const uint64_t most_fitting = 50 * BY_MILLISECOND;

/* The other ranks wait for rank 0's plan anyway. */
static void fit_machine(const struct banyan_comm *comm) {
  const struct by_job *job = &comm->context->job;
  if (comm->rank == 0 && job->n_hosts > 1 && !job->settings.deterministic) by_machine_fit(most_fitting);
}

/* Plans for an unknown network. *decision: what the members of the next membership need not find again. */
static enum banyan_status plan_anew(struct banyan_comm *comm, enum source source, enum by_carried_decision *decision) {
  bool planned = false;
  struct by_network_file *file = NULL;
  *decision = BY_CARRIED_PLANNED;
  if (source == FROM_TOPOLOGY) return read_topology(comm);
  if (source == FROM_CARE && comm->context->job.n_hosts > 1) return measure(comm);
  if (source == FROM_AUTOMATION) BY_TRY(by_automatic_plan(comm, &planned, &file));
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
  const struct by_settings *settings = &comm->context->job.settings;
  enum source source;
  *decision = BY_CARRIED_NOTHING;
  BY_TRY(check_settings(comm));
  if (found->plan) return by_carried_set_plan(comm, found);
  if (settings->plan && *settings->plan) return BANYAN_OK;
  BY_TRY(agree(comm, &source));
  if (source != FROM_NOTHING) fit_machine(comm);
  bool known = source != FROM_NOTHING && comm->context->job.n_hosts > 1 && found->decision != BY_CARRIED_NOTHING;
  return known ? plan_from_carried(comm, found, decision) : plan_anew(comm, source, decision);
}

static enum banyan_status plan_membership(struct banyan_comm *comm, struct by_carried *carried) {
  enum by_carried_decision decision;
  struct by_carried_found found;
  enum banyan_status status = by_carried_find(carried, comm, &found);
  if (status == BANYAN_OK) status = by_context_go_on(comm->context, found.version + 1);
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
