/* Calls the hooks of the capabilities, and keeps their states. */
#include "feature.h"

#include <assert.h>
#include <stdlib.h>

#include "control.h"
#include "job_state.h"

static uint32_t number_of(const struct by_feature_key *key) {
  uint32_t i = 0;
  while (by_features[i]->key != key) i++;
  assert(i < BY_FEATURES_MAX);
  return i;
}

enum banyan_status by_features_attach(struct by_job *job) {
  for (uint32_t i = 0; by_features[i]; i++) {
    if (!by_features[i]->key->bytes) continue;
    job->features.states[i] = calloc(1, by_features[i]->key->bytes);
    if (!job->features.states[i]) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a job");
  }
  return BANYAN_OK;
}

static uint32_t count_features(void) {
  uint32_t n = 0;
  while (by_features[n]) n++;
  return n;
}

void by_features_detach(struct by_job *job) {
  if (job->features.detached) return;
  for (uint32_t i = count_features(); i-- > 0;)
    if (by_features[i]->detach && job->features.states[i]) by_features[i]->detach(job);
  job->features.detached = true;
}

void by_features_fini(struct by_job *job) {
  for (uint32_t i = count_features(); i-- > 0;) {
    if (by_features[i]->fini && job->features.states[i]) by_features[i]->fini(job);
    free(job->features.states[i]);
    job->features.states[i] = NULL;
  }
}

void *by_feature_state(const struct by_job *job, const struct by_feature_key *key) {
  return job->features.states[number_of(key)];
}

void by_feature_activate(struct by_job *job, const struct by_feature_key *key, bool active) {
  uint32_t bit = UINT32_C(1) << number_of(key);
  job->features.active = active ? job->features.active | bit : job->features.active & ~bit;
}

void *by_feature_of_comm(const struct banyan_comm *comm, const struct by_feature_key *key) {
  return comm->features[number_of(key)];
}

void by_feature_set_of_comm(struct banyan_comm *comm, const struct by_feature_key *key, void *object) {
  comm->features[number_of(key)] = object;
}

/* Removes the lowest capability from the set and returns it. */
static const struct by_feature *next_of(uint32_t *set) {
  uint32_t i = (uint32_t)__builtin_ctz(*set);
  *set &= *set - 1;
  return by_features[i];
}

bool by_features_advance(struct by_job *job) {
  bool moved = false;
  for (uint32_t set = job->features.active; set;) {
    const struct by_feature *feature = next_of(&set);
    if (feature->advance && feature->advance(job)) moved = true;
  }
  return moved;
}

bool by_features_take_messages(struct by_job *job) {
  bool any = false;
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->take_messages && by_features[i]->take_messages(job)) any = true;
  return any;
}

bool by_features_have_work(const struct by_job *job) {
  for (uint32_t set = job->features.active; set;) {
    const struct by_feature *feature = next_of(&set);
    if (feature->has_work && feature->has_work(job)) return true;
  }
  return false;
}

uint64_t by_features_deadline(const struct by_job *job) {
  uint64_t earliest = UINT64_MAX;
  for (uint32_t set = job->features.active; set;) {
    const struct by_feature *feature = next_of(&set);
    uint64_t deadline = feature->deadline ? feature->deadline(job) : UINT64_MAX;
    if (deadline < earliest) earliest = deadline;
  }
  return earliest;
}

void by_features_check_deadlines(struct by_job *job) {
  for (uint32_t set = job->features.active; set;) {
    const struct by_feature *feature = next_of(&set);
    if (feature->check_deadlines) feature->check_deadlines(job);
  }
}

void by_features_process_left(struct by_job *job) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->process_left) by_features[i]->process_left(job);
}

void by_features_comm_made(struct banyan_comm *comm) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->comm_made) by_features[i]->comm_made(comm);
}

bool by_features_comm_owes(const struct banyan_comm *comm) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->comm_owes && by_features[i]->comm_owes(comm)) return true;
  return false;
}

bool by_features_comm_is_idle(const struct banyan_comm *comm) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->comm_is_idle && !by_features[i]->comm_is_idle(comm)) return false;
  return true;
}

void by_features_comm_closes(struct banyan_comm *comm) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->comm_closes) by_features[i]->comm_closes(comm);
}

void by_features_comm_destroyed(struct banyan_comm *comm) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->comm_destroyed) by_features[i]->comm_destroyed(comm);
}

void by_features_add_history(const struct banyan_comm *comm, struct by_ledger *ledger) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->add_history) by_features[i]->add_history(comm, ledger);
}

void by_features_add_series(const struct banyan_comm *comm, struct by_ledger *ledger) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->add_series) by_features[i]->add_series(comm, ledger);
}

void by_features_listen(struct by_job *job) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->listen) by_features[i]->listen(job);
}

void by_features_stop(struct by_job *job) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->stop && job->features.states[i]) by_features[i]->stop(job);
}

void by_features_plan_wanted(struct by_job *job, const struct by_plan_want *want) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->plan_wanted) by_features[i]->plan_wanted(job, want);
}

enum banyan_status by_features_topology_received(struct by_job *job, const char *topology) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->topology_received) BY_TRY(by_features[i]->topology_received(job, topology));
  return BANYAN_OK;
}

const struct by_control_rule *by_features_find_rule(uint16_t type) {
  for (uint32_t i = 0; by_features[i]; i++)
    for (const struct by_control_rule *rule = by_features[i]->rules; rule && rule->type; rule++)
      if (rule->type == type) return rule;
  return NULL;
}

void by_features_start(struct by_job *job) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->start) by_features[i]->start(job);
}

void by_features_retire(struct by_job *job) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->retire) by_features[i]->retire(job);
}

void by_features_cells_wanted(struct by_job *job, const struct by_cluster_cells *cells, uint32_t n) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->cells_wanted && !job->features.detached) by_features[i]->cells_wanted(job, cells, n);
}

void by_features_cells_released(struct by_job *job, uint64_t number) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->cells_released && !job->features.detached) by_features[i]->cells_released(job, number);
}

bool by_features_cells_may_come(const struct by_job *job) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->cells_may_come && !job->features.detached && by_features[i]->cells_may_come(job)) return true;
  return false;
}

enum banyan_status by_features_describe_self(struct by_job *job, struct by_member *self) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->describe_self) BY_TRY(by_features[i]->describe_self(job, self));
  return BANYAN_OK;
}

void by_features_control_made(struct by_job *job, struct by_control *control) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->control_made) by_features[i]->control_made(job, control);
}

void by_features_add_metrics(struct by_job *job, struct by_text *text) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->add_metrics) by_features[i]->add_metrics(job, text);
}

const struct by_tree_service *by_features_trees(const struct by_job *job) {
  if (job->features.detached) return NULL;
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->trees) return by_features[i]->trees;
  return NULL;
}

void by_features_joined(struct by_job *job) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->joined) by_features[i]->joined(job);
}

enum banyan_status by_features_make_first_plan(struct banyan_comm *comm) {
  for (uint32_t i = 0; by_features[i]; i++)
    if (by_features[i]->make_first_plan) BY_TRY(by_features[i]->make_first_plan(comm));
  return BANYAN_OK;
}
