#include "contexts.h"

#include <stdio.h>

#include "check.h"
#include "comm.h"
#include "context_events.h"
#include "feature.h"

static void name_member(struct by_context *context, struct by_member *member, uint32_t rank, uint32_t hosts) {
  char text[32];
  snprintf(text, sizeof text, "host %u", rank % hosts);
  *member = (struct by_member){.cores = 64};
  member->host = member->machine = by_arena_string(&context->job.arena, text);
  member->local = "";
  snprintf(text, sizeof text, "rank %u", rank);
  context->job.names[rank] = by_arena_string(&context->job.arena, text);
}

void context_make(struct by_context *context, const struct world *world, uint32_t rank, uint32_t hosts) {
  uint32_t n = world->n;
  by_arena_init(&context->job.arena);
  assert_ok(by_settings_read(&context->job.settings));
  context->job.settings.stall = 0;
  context->job.rank = rank;
  context->job.size = n;
  context->job.processes = n;
  context->job.members = BY_ARENA_ARRAY(&context->job.arena, struct by_member, n);
  context->job.names = BY_ARENA_ARRAY(&context->job.arena, const char *, n);
  context->job.left = BY_ARENA_ARRAY(&context->job.arena, bool, n);
  for (uint32_t r = 0; r < n; r++) name_member(context, &context->job.members[r], r, hosts);
  assert_ok(by_hosts_index(&context->job));
  pthread_mutex_init(&context->job.lock, NULL);
  pthread_cond_init(&context->job.changed, NULL);
  struct by_progress_events events = by_context_events.progress;
  events.context = context;
  assert_ok(by_progress_init(&context->progress, &context->job, &events));
  context->progress.driver = BY_DRIVER_USER;
  context->given.end = &context->given.first;
  context->job.engine = world->nodes[rank].engine;
  assert_ok(by_features_attach(context));
}

void context_end_comms(struct by_context *context) {
  while (context->comms) {
    struct banyan_comm *comm = context->comms;
    while (comm->hidden) comm = comm->next;
    by_comm_close(comm);
  }
}

void context_fini(struct by_context *context) {
  by_features_detach(context);
  by_features_fini(context);
  by_progress_fini(&context->progress);
  by_regions_fini(&context->memory.regions);
  by_arena_fini(&context->job.arena);
  pthread_mutex_destroy(&context->job.lock);
  pthread_cond_destroy(&context->job.changed);
}
