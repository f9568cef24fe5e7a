#include "contexts.h"

#include <stdio.h>

#include "check.h"
#include "comm.h"
#include "feature.h"
#include "job_events.h"

static void name_member(struct by_job *job, struct by_member *member, uint32_t rank, uint32_t hosts) {
  char text[32];
  snprintf(text, sizeof text, "host %u", rank % hosts);
  *member = (struct by_member){.cores = 64};
  member->host = member->machine = by_arena_string(&job->arena, text);
  member->local = "";
  snprintf(text, sizeof text, "rank %u", rank);
  job->names[rank] = by_arena_string(&job->arena, text);
}

void context_make(struct by_job *job, const struct world *world, uint32_t rank, uint32_t hosts) {
  uint32_t n = world->n;
  by_arena_init(&job->arena);
  assert_ok(by_settings_read(&job->settings));
  job->settings.stall = 0;
  job->rank = rank;
  job->size = n;
  job->processes = n;
  job->members = BY_ARENA_ARRAY(&job->arena, struct by_member, n);
  job->names = BY_ARENA_ARRAY(&job->arena, const char *, n);
  job->left = BY_ARENA_ARRAY(&job->arena, bool, n);
  for (uint32_t r = 0; r < n; r++) name_member(job, &job->members[r], r, hosts);
  assert_ok(by_hosts_index(job));
  pthread_mutex_init(&job->lock, NULL);
  pthread_cond_init(&job->changed, NULL);
  struct by_progress_events events = by_job_events.progress;
  events.context = job;
  assert_ok(by_progress_init(job, &events));
  job->progress.driver = BY_DRIVER_USER;
  job->given.end = &job->given.first;
  job->engine = world->nodes[rank].engine;
  assert_ok(by_features_attach(job));
}

void context_end_comms(struct by_job *job) {
  while (job->comms) {
    struct banyan_comm *comm = job->comms;
    while (comm->hidden) comm = comm->next;
    by_comm_close(comm);
  }
}

void context_fini(struct by_job *job) {
  by_features_detach(job);
  by_features_fini(job);
  by_progress_fini(job);
  by_regions_fini(&job->memory.regions);
  by_arena_fini(&job->arena);
  pthread_mutex_destroy(&job->lock);
  pthread_cond_destroy(&job->changed);
}
