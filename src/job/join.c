/* Joining a job as a rank. */
#include "join.h"
#include "context_events.h"

#include <stdlib.h>

#include <banyan/collectives.h>

#include "feature.h"

enum banyan_status by_join(const struct banyan_options *options, const struct by_job_role *role,
                           struct banyan_comm **out) {
  struct by_context *context = NULL;
  BY_TRY(by_context_create(options, role, &by_context_events, &context));
  by_features_joined(context);
  uint32_t *all = calloc(context->job.size, sizeof *all);
  enum banyan_status status = BANYAN_ERR_NO_MEMORY;
  by_context_lock(context);
  for (uint32_t i = 0; all && i < context->job.size; i++) all[i] = i;
  if (all) status = by_comm_open(context, 0, context->job.rank, context->job.size, all, out);
  by_context_unlock(context);
  free(all);
  if (status != BANYAN_OK) by_context_release(context);
  return status;
}

enum banyan_status banyan_comm_create(const struct banyan_options *options, struct banyan_comm **out) {
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the communicator is NULL");
  BY_TRY(by_join(options, NULL, out));
  enum banyan_status status = by_features_make_first_plan(*out);
  if (status == BANYAN_OK) return status;
  banyan_comm_destroy(*out);
  *out = NULL;
  return status;
}
