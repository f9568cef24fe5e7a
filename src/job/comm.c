/* Communicators: making, finding and freeing them, their numbers, and the memory of banyan_alloc. */
#include "comm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "feature.h"
#include "job_state.h"
#include "ledger.h"
#include "plans.h"

enum banyan_status by_comm_check(const struct banyan_comm *comm) {
  if (!comm) return by_fail(BANYAN_ERR_ARGUMENT, "the communicator is NULL");
  return by_job_check_process(comm->job);
}

struct banyan_comm *by_comm_first(const struct by_job *job) {
  return job->comms;
}

struct banyan_comm *by_comm_find(const struct by_job *job, uint32_t id) {
  struct banyan_comm *comm = job->comms;
  while (comm && by_team_id(comm->team) != id) comm = comm->next;
  return comm;
}

static void count_local(struct banyan_comm *comm) {
  const uint32_t *first_here = comm->job->hosts.first_here;
  uint32_t host = first_here[comm->processes[comm->rank]];
  for (uint32_t r = 0; r < comm->size; r++) {
    if (first_here[comm->processes[r]] != host) continue;
    if (r < comm->rank) comm->local_rank++;
    comm->local_size++;
  }
}

enum banyan_status by_comm_make(struct by_job *job, uint32_t team_id, uint32_t rank, uint32_t n,
                                const uint32_t *processes, struct banyan_comm **out) {
  struct banyan_comm *comm = calloc(1, sizeof *comm);
  uint32_t *copy = calloc((size_t)n + 1, sizeof *copy);
  struct by_plan *plan = NULL;
  if (!comm || !copy) {
    free(comm);
    free(copy);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a communicator of %u ranks", n);
  }
  memcpy(copy, processes, n * sizeof *copy);
  *comm = (struct banyan_comm){.job = job, .processes = copy, .rank = rank, .size = n};
  comm->deadline = by_clock_from_seconds(job->settings.deadline);
  if (team_id && rank == 0 && n > 1) comm->plans.wanted = BY_PLAN_WANTED_AT_FIRST_CALL;
  count_local(comm);
  enum banyan_status status = by_plans_first(job, n, processes, &plan);
  if (status == BANYAN_OK) status = by_team_create(job->engine, team_id, rank, n, processes, &comm->team);
  if (status != BANYAN_OK) by_plan_destroy(plan);
  if (status == BANYAN_OK) status = by_plans_set(job, comm->team, n, processes, plan, NULL, 0);
  if (status != BANYAN_OK) {
    by_team_destroy(comm->team);
    free(copy);
    free(comm);
    return status;
  }
  if (team_id == 0) by_plans_log(job, by_team_plan(comm->team), "");
  comm->next = job->comms;
  job->comms = comm;
  job->references++;
  *out = comm;
  return BANYAN_OK;
}

void by_comm_pay_debts(struct banyan_comm *comm) {
  struct by_job *job = comm->job;
  uint64_t until = by_clock_now(&by_clock_system) + BY_SECOND;
  while (by_engine_status(job->engine) == BANYAN_OK && (by_team_owes(comm->team) || by_features_comm_owes(comm))) {
    by_engine_progress(job->engine);
    if (by_clock_now(&by_clock_system) > until) break;
    by_job_unlock(job);
    usleep(50);
    by_job_lock(job);
  }
}

struct by_ledger *by_comm_find_ledger(const struct banyan_comm *comm) {
  bool failed = !comm->hidden && by_engine_status(comm->job->engine) != BANYAN_OK;
  return failed ? comm->job->ledger : NULL;
}

static void add_to_ledger(const struct banyan_comm *comm, struct by_ledger *ledger) {
  struct by_history calls = {0};
  by_team_add_history(comm->team, &calls);
  by_ledger_add_series(ledger, &(struct by_ledger_series){.kind = BY_LEDGER_CALLS,
                                                          .communicator = by_team_id(comm->team),
                                                          .size = comm->size,
                                                          .rank = comm->rank,
                                                          .begun = by_team_next_call(comm->team)});
  by_features_add_history(comm, ledger);
  by_ledger_add_history(ledger, &calls);
  by_history_fini(&calls);
  by_features_add_series(comm, ledger);
}

struct by_ledger *by_comm_complete_ledger(struct by_job *job) {
  for (const struct banyan_comm *comm = job->comms; comm; comm = comm->next)
    if (!comm->hidden) add_to_ledger(comm, job->ledger);
  return job->ledger;
}

void by_comm_end(struct banyan_comm *comm) {
  struct by_ledger *ledger = by_comm_find_ledger(comm);
  if (ledger) add_to_ledger(comm, ledger);
  struct banyan_comm **place = &comm->job->comms;
  while (*place != comm) place = &(*place)->next;
  *place = comm->next;
  by_plans_forget_trees(comm->job, comm->team);
  by_team_destroy(comm->team);
  by_features_comm_destroyed(comm);
  comm->job->references--;
  free(comm->processes);
  free(comm);
}

/* A team's number must be the same on all its members and differ from that of any team that shares two of them, without
 * communication: it is made of the parent's number, the number of splits of the parent, and the part's first rank. */
uint32_t by_comm_number(uint32_t parent, uint32_t splits, uint32_t first) {
  uint64_t x = ((uint64_t)parent << 32) ^ ((uint64_t)splits << 20) ^ first;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return (uint32_t)(x ^ (x >> 31));
}

/* ---- shared memory: a region is freed once no call under way uses it, and the peers that may have mapped it are
 * notified; it goes with the job at the latest */

void by_memory_add(struct by_job *job, struct by_region *region) {
  by_regions_add(&job->memory.regions, region);
}

enum banyan_status banyan_alloc(struct banyan_comm *comm, size_t bytes, void **out) {
  BY_TRY(by_comm_check(comm));
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the memory is NULL");
  struct by_region *region = NULL;
  BY_TRY(by_region_create(bytes, &region));
  *out = region->base;
  by_job_lock(comm->job);
  by_memory_add(comm->job, region);
  by_job_unlock(comm->job);
  return BANYAN_OK;
}

void by_memory_sweep(struct by_job *job) {
  for (struct by_region **place = &job->memory.regions.first; *place && job->memory.doomed;) {
    struct by_region *region = *place;
    if (!region->retired || !by_engine_forget_region(job->engine, region)) {
      place = &region->next;
      continue;
    }
    *place = region->next;
    job->memory.doomed--;
    by_region_destroy(region);
  }
}

void by_memory_doom(struct by_job *job, struct by_region *region) {
  region->retired = true;
  job->memory.doomed++;
}

void banyan_free(struct banyan_comm *comm, void *memory) {
  if (!comm || !memory || by_job_is_of_parent(comm->job)) return;
  struct by_job *job = comm->job;
  by_job_lock(job);
  struct by_region *region = by_regions_find(&job->memory.regions, memory);
  if (region) {
    by_memory_doom(job, region);
    by_memory_sweep(job);
  }
  by_job_unlock(job);
}
