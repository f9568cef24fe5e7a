/* The plan that a job's user set, and the load on links of a job without a plan of the manager's. */
#include "manager_plans.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "log.h"
#include "manager_cells.h"
#include "manager_hosts.h"
#include "manager_links.h"

/* Its load on links is computed when the hosts of the job are confirmed. */
static bool set_trees(struct by_manager_job *job, const char *trees) {
  bool same = trees ? job->plans.own_trees && !strcmp(job->plans.own_trees, trees) : !job->plans.own_trees;
  if (same) return false;
  free(job->plans.own_trees);
  job->plans.own_trees = trees ? strdup(trees) : NULL;
  by_user_plan_take(job, (struct by_link_shares){0});
  return true;
}

void by_user_plan_set(struct by_manager *m, struct by_manager_job *job, const char *own_plan, const char *trees) {
  if (set_trees(job, own_plan ? trees : NULL)) by_use_set_stale(m);
  if (own_plan ? job->plans.own && !strcmp(job->plans.own, own_plan) : !job->plans.own) return;
  char *copy = own_plan ? strdup(own_plan) : NULL;
  if (own_plan && !copy) return; /* It does not matter, as rank 0 uses no plan of the manager's. */
  struct by_manager_event event = {.number = job->plans.numbers, .time = m->now};
  if (own_plan) {
    char name[65];
    by_keep_printable(own_plan, name, sizeof name);
    snprintf(event.why, sizeof event.why, "its user set plan \"%s\", which stays in use", name);
  } else {
    snprintf(event.why, sizeof event.why, "its user no longer sets a plan");
  }
  by_info("manager", "job %s (%s): %s", job->id, job->name, event.why);
  by_job_add_event(m, job, &event);
  free(job->plans.own);
  job->plans.own = copy;
  if (own_plan) {
    by_proposal_drop(m, job);
    if (job->plans.current) by_manager_plan_forget(m, job, job->plans.current);
    by_manager_plan_retire(job);
    by_manager_plan_release_helpers(m, job);
  }
  by_due_clear(job);
  if (!own_plan) by_due_mark(job, BY_DUE_NEW, "%s", event.why);
  by_job_set_trouble(job, "%s", "");
  by_use_set_stale(m);
  by_job_keep(m, job);
}

/* Computes the load of the user's plan, which is over ranks, from the hosts of the ranks. */
static enum banyan_status load_own(const struct by_manager *m, const struct by_manager_job *job,
                                   struct by_link_shares *out) {
  struct by_plan *plan;
  BY_TRY(by_plan_parse("the user's plan", job->plans.own_trees, strlen(job->plans.own_trees), &plan));
  bool over_hosts = plan->n_ranks != job->n_ranks;
  enum banyan_status status = BANYAN_OK;
  if (plan->n_ranks != (over_hosts ? job->n_hosts : job->n_ranks))
    status = by_fail(BANYAN_ERR_PLAN, "it is for %u ranks, the job has %u on %u hosts", plan->n_ranks, job->n_ranks,
                     job->n_hosts);
  for (uint32_t r = 0; r < plan->n_ranks && status == BANYAN_OK; r++) {
    plan->vertices[r].name = by_arena_string(&plan->arena, job->hosts[over_hosts ? r : job->of_rank[r]]);
    if (!plan->vertices[r].name) status = by_manager_no_memory();
  }
  if (status == BANYAN_OK) status = by_link_shares_find(plan, m->topology, out, NULL);
  by_plan_destroy(plan);
  return status;
}

static enum banyan_status load_ring(const struct by_manager *m, const struct by_manager_job *job,
                                    struct by_link_shares *out) {
  struct by_plan *ring;
  BY_TRY(by_plan_ring_over(m->topology, job->nodes, job->n_hosts, &ring));
  enum banyan_status status = by_link_shares_find(ring, m->topology, out, NULL);
  by_plan_destroy(ring);
  return status;
}

void by_user_plan_assume(struct by_manager *m, struct by_manager_job *job) {
  struct by_link_shares shares = {0};
  enum banyan_status status = BANYAN_ERR_PLAN;
  if (job->plans.own_trees) {
    status = load_own(m, job, &shares);
    if (status != BANYAN_OK)
      by_info("manager", "job %s (%s) counts as a ring: %s", job->id, job->name, banyan_error_text());
  }
  if (status != BANYAN_OK) status = load_ring(m, job, &shares);
  if (status != BANYAN_OK) {
    by_warn("manager", "what job %s (%s) puts on links is not known: %s", job->id, job->name, banyan_error_text());
    shares = (struct by_link_shares){.items = calloc(1, sizeof *shares.items)};
  }
  by_user_plan_take(job, shares);
  by_use_set_stale(m);
}
