/* Joining a job as a rank. */
#include "join.h"

#include <stdlib.h>

#include <banyan/collectives.h>

#include "feature.h"
#include "job_state.h"

enum banyan_status by_join(const struct banyan_options *options, const struct by_job_role *role,
                           struct banyan_comm **out) {
  struct by_job *job = NULL;
  BY_TRY(by_job_create(options, role, &job));
  by_features_joined(job);
  uint32_t *all = calloc(job->size, sizeof *all);
  enum banyan_status status = BANYAN_ERR_NO_MEMORY;
  by_job_lock(job);
  for (uint32_t i = 0; all && i < job->size; i++) all[i] = i;
  if (all) status = by_comm_open(job, 0, job->rank, job->size, all, out);
  by_job_unlock(job);
  free(all);
  if (status != BANYAN_OK) by_job_release(job);
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
