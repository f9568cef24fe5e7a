/* The public functions that make and destroy communicators, and tell what they are. */
#include "calls.h"
#include "feature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <banyan/interrupted.h>

#include "handshake.h"
#include "job_key.h"
#include "job_state.h"
#include "plan_switch.h"
#include "process_identity.h"
#include "request.h"

enum banyan_status by_comm_open(struct by_job *job, uint32_t team_id, uint32_t rank, uint32_t n,
                                const uint32_t *processes, struct banyan_comm **out) {
  BY_TRY(by_comm_make(job, team_id, rank, n, processes, out));
  by_features_comm_made(*out);
  return BANYAN_OK;
}

void by_comm_close(struct banyan_comm *comm) {
  by_comm_pay_debts(comm);
  by_features_comm_closes(comm);
  by_any_forget(comm);
  by_plan_switches_forget(comm);
  by_comm_end(comm);
}

void banyan_comm_destroy(struct banyan_comm *comm) {
  if (!comm || by_job_is_of_parent(comm->job)) return;
  struct by_job *job = comm->job;
  by_job_lock(job);
  by_job_hold(job); /* Held until all are notified. */
  by_comm_close(comm);
  by_requests_notify_all(job);
  if (job->memory.doomed) by_memory_sweep(job);
  if (job->references > 1) by_progress_kick(job); /* The communicator may have left data to send. */
  by_job_unlock_and_release(job);
}

enum banyan_status banyan_root_fingerprint(char *out) {
  struct by_process_identity *identity;
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the fingerprint is NULL");
  by_crypto_init();
  BY_TRY(by_process_identity_of_root(&identity));
  by_fingerprint_print(by_process_identity_fingerprint(identity), out);
  return BANYAN_OK;
}

enum banyan_status banyan_root_choose(bool one_host, char *out) {
  struct by_settings settings;
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the address of rank 0 is NULL");
  by_crypto_init();
  enum banyan_status status = by_settings_read(&settings);
  if (status == BANYAN_OK) status = by_root_choose(&settings, one_host, out);
  explicit_bzero(&settings, sizeof settings); /* The settings may hold secrets. */
  return status;
}

enum banyan_status banyan_key_create(char *out) {
  _Static_assert(BANYAN_KEY_TEXT == BY_JOB_KEY_TEXT, "callers have as much room");
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the key is NULL");
  by_crypto_init();
  return by_job_key_create(out);
}

/* ---- split: all ranks exchange their colours and keys */

struct choice {
  int32_t colour, key;
  uint32_t rank;
};

static int by_key(const void *a, const void *b) {
  const struct choice *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static enum banyan_status make_part(struct banyan_comm *comm, struct choice *all, int colour, uint32_t splits,
                                    struct banyan_comm **out) {
  uint32_t rank = 0, first = UINT32_MAX, *processes = calloc(comm->size, sizeof *processes);
  if (!processes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a communicator");
  uint32_t n = 0;
  for (uint32_t i = 0; i < comm->size; i++)
    if (all[i].colour == colour) all[n++] = all[i];
  qsort(all, n, sizeof *all, by_key);
  for (uint32_t i = 0; i < n; i++) {
    processes[i] = comm->processes[all[i].rank];
    if (all[i].rank == comm->rank) rank = i;
    if (all[i].rank < first) first = all[i].rank;
  }
  by_job_lock(comm->job);
  uint32_t number = by_comm_number(by_team_id(comm->team), splits, first);
  enum banyan_status status = by_comm_open(comm->job, number, rank, n, processes, out);
  if (status == BANYAN_OK) (*out)->deadline = comm->deadline;
  by_job_unlock(comm->job);
  free(processes);
  return status;
}

enum banyan_status banyan_comm_split(struct banyan_comm *comm, int colour, int key, struct banyan_comm **out) {
  BY_TRY(by_comm_check(comm));
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the new communicator is NULL");
  *out = NULL;
  struct choice mine = {.colour = colour < 0 ? -1 : colour, .key = key, .rank = comm->rank};
  struct choice *all = calloc(comm->size, sizeof *all);
  if (!all) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a split over %u ranks", comm->size);
  uint32_t splits = atomic_fetch_add(&comm->splits, 1) + 1;
  enum banyan_status status = banyan_allgather(comm, &mine, all, sizeof mine, BANYAN_UINT8);
  if (status == BANYAN_OK && colour >= 0) {
    status = make_part(comm, all, mine.colour, splits, out);
    if (status != BANYAN_OK) /* The others may have their part already, and wait in its first call. */
      status = by_job_fail_here(comm->job, status, "could not make its part of a split");
  }
  free(all);
  return status;
}

enum banyan_status banyan_comm_duplicate(struct banyan_comm *comm, struct banyan_comm **out) {
  return banyan_comm_split(comm, 0, 0, out);
}

/* ---- a subset: made by its members alone */

static enum banyan_status check_subset(const struct banyan_comm *comm, const int *ranks, int n, uint32_t *place) {
  *place = UINT32_MAX;
  for (int i = 0; i < n; i++) {
    if (ranks[i] < 0 || (uint32_t)ranks[i] >= comm->size)
      return by_fail(BANYAN_ERR_ARGUMENT, "a subset cannot have rank %d: there are %u ranks", ranks[i], comm->size);
    for (int k = 0; k < i; k++)
      if (ranks[k] == ranks[i]) return by_fail(BANYAN_ERR_ARGUMENT, "a subset has rank %d twice", ranks[i]);
    if ((uint32_t)ranks[i] == comm->rank) *place = (uint32_t)i;
  }
  if (*place == UINT32_MAX)
    return by_fail(BANYAN_ERR_ARGUMENT, "this rank, %u, is not in the subset: only its members make it", comm->rank);
  return BANYAN_OK;
}

enum banyan_status banyan_comm_subset(struct banyan_comm *comm, const int *ranks, int n, uint32_t number,
                                      struct banyan_comm **out) {
  BY_TRY(by_comm_check(comm));
  if (!ranks || !out) return by_fail(BANYAN_ERR_ARGUMENT, "the ranks or the place is NULL");
  uint32_t place;
  BY_TRY(check_subset(comm, ranks, n, &place));
  uint32_t *processes = calloc((size_t)n, sizeof *processes);
  if (!processes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a communicator of %d ranks", n);
  for (int i = 0; i < n; i++) processes[i] = comm->processes[ranks[i]];
  by_job_lock(comm->job);
  uint32_t subsets = by_comm_number(by_team_id(comm->team), BY_OF_NO_SPLIT, BY_OF_SUBSETS);
  uint32_t id = by_comm_number(subsets, number, (uint32_t)ranks[0]);
  enum banyan_status status = BANYAN_OK;
  if (by_engine_team(comm->job->engine, id))
    status = by_fail(BANYAN_ERR_ARGUMENT, "a subset with number %u that begins with rank %d is there already", number,
                     ranks[0]);
  if (status == BANYAN_OK) status = by_comm_open(comm->job, id, place, (uint32_t)n, processes, out);
  if (status == BANYAN_OK) (*out)->deadline = comm->deadline;
  by_job_unlock(comm->job);
  free(processes);
  return status;
}

/* ---- what it is */

uint32_t banyan_comm_number(const struct banyan_comm *comm) {
  return comm ? by_team_id(comm->team) : 0;
}

uint32_t banyan_comm_calls(const struct banyan_comm *comm) {
  if (by_comm_check(comm) != BANYAN_OK) return 0;
  by_job_lock(comm->job);
  uint32_t calls = by_team_next_call(comm->team);
  by_job_unlock(comm->job);
  return calls;
}

void banyan_comm_abort(struct banyan_comm *comm, const char *reason) {
  if (!comm || by_job_is_of_parent(comm->job)) return;
  struct by_job *job = comm->job;
  char text[400];
  snprintf(text, sizeof text, "%s aborted: %s", by_job_name(job, job->rank),
           reason && *reason ? reason : "no reason was given");
  by_job_fail(job, BANYAN_ERR_ABORTED, job->rank, text);
  by_job_await_failure(job);
}

int banyan_comm_rank(const struct banyan_comm *comm) {
  return comm ? (int)comm->rank : -1;
}

int banyan_comm_size(const struct banyan_comm *comm) {
  return comm ? (int)comm->size : 0;
}

const char *banyan_comm_host(const struct banyan_comm *comm, int rank) {
  if (!comm || rank < 0 || (uint32_t)rank >= comm->size || by_job_is_of_parent(comm->job)) return NULL;
  by_job_lock(comm->job);
  const char *host = comm->job->members[comm->processes[rank]].host;
  by_job_unlock(comm->job);
  return host;
}

int banyan_comm_local_size(const struct banyan_comm *comm) {
  return comm ? (int)comm->local_size : 0;
}

int banyan_comm_local_rank(const struct banyan_comm *comm) {
  return comm ? (int)comm->local_rank : -1;
}

enum banyan_status banyan_comm_state(const struct banyan_comm *comm) {
  BY_TRY(by_comm_check(comm));
  by_job_lock(comm->job);
  enum banyan_status status = by_job_status(comm->job);
  by_job_unlock(comm->job);
  return status;
}

enum banyan_status banyan_comm_set_deadline(struct banyan_comm *comm, double seconds) {
  BY_TRY(by_comm_check(comm));
  if (!(seconds > 0)) return by_fail(BANYAN_ERR_ARGUMENT, "the deadline is %g seconds, must be > 0", seconds);
  by_job_lock(comm->job);
  comm->deadline = by_clock_from_seconds(seconds);
  by_job_unlock(comm->job);
  return BANYAN_OK;
}

enum banyan_status banyan_comm_plan(const struct banyan_comm *comm, uint64_t bytes, struct banyan_plan_info *out) {
  return banyan_comm_plan_of(comm, BANYAN_ALLREDUCE, bytes, out);
}

enum banyan_status banyan_comm_plan_of(const struct banyan_comm *comm, enum banyan_collective collective,
                                       uint64_t bytes, struct banyan_plan_info *out) {
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the plan's description is NULL");
  *out = (struct banyan_plan_info){0};
  if ((unsigned)collective >= BANYAN_COLLECTIVES)
    return by_fail(BANYAN_ERR_ARGUMENT, "there is no collective %d", (int)collective);
  BY_TRY(by_comm_check(comm));
  by_job_lock(comm->job);
  const struct by_plan *plan = by_team_plan(comm->team);
  const struct by_class *class_ = by_plan_class_of(plan, collective, bytes);
  const struct by_plan_rates rates = by_plan_rates_of(plan, collective);
  out->source = plan->origin.source;
  out->supplied = plan->origin.supplied;
  out->version = plan->version;
  out->trees = class_->n_groups;
  out->up_to = by_plan_class_end(plan, collective, bytes);
  out->throughput = rates.throughput;
  out->bound = rates.bound;
  snprintf(out->name, sizeof out->name, "%s", plan->name);
  snprintf(out->part, sizeof out->part, "%s", class_->part ? class_->part : "");
  by_job_unlock(comm->job);
  return BANYAN_OK;
}

enum banyan_status banyan_comm_set_tos(struct banyan_comm *comm, int tos) {
  BY_TRY(by_comm_check(comm));
  if (tos < 0 || tos > 255) return by_fail(BANYAN_ERR_ARGUMENT, "the ToS is %d, must be from 0 to 255", tos);
  by_job_lock(comm->job);
  comm->job->settings.tos = tos;
  by_engine_set_mark(comm->job->engine, &(struct by_mark){tos, -1});
  by_job_unlock(comm->job);
  return BANYAN_OK;
}

enum banyan_status banyan_comm_expect(struct banyan_comm *comm, uint64_t iterations) {
  BY_TRY(by_comm_check(comm));
  if (iterations > INT64_MAX)
    return by_fail(BANYAN_ERR_ARGUMENT, "%llu iterations are expected, must be at most 2^63 - 1",
                   (unsigned long long)iterations);
  by_job_lock(comm->job);
  comm->job->settings.iterations = iterations;
  by_job_unlock(comm->job);
  return BANYAN_OK;
}

void banyan_comm_counters(const struct banyan_comm *comm, struct banyan_counters *out) {
  if (!out) return;
  memset(out, 0, sizeof *out);
  if (!comm || by_job_is_of_parent(comm->job)) return;
  by_job_lock(comm->job);
  by_engine_counters(comm->job->engine, out);
  out->plan_switches = comm->job->plan_switches;
  by_job_unlock(comm->job);
}
