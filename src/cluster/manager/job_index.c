/* Jobs by their ID, and by the host of their rank 0: every report asks for both. Chains of jobs of one hash; as a job
 * may choose its ID, a long chain is as slow as a list, and no worse. */
#include <string.h>

#include "manager_parts.h"

/* FNV-1a. */
static uint32_t bucket_of(const char *text) {
  uint32_t hash = 2166136261u;
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 16777619u;
  return hash % BY_MANAGER_BUCKETS;
}

struct by_manager_job *by_jobs_find(const struct by_manager *m, const char *id) {
  struct by_manager_job *job = m->by_id[bucket_of(id)];
  while (job && strcmp(job->id, id) != 0) job = job->next_by_id;
  return job;
}

static struct by_manager_job *pass_others(struct by_manager_job *job, const char *host) {
  while (job && strcmp(job->hosts[0], host) != 0) job = job->next_by_root;
  return job;
}

struct by_manager_job *by_jobs_first_of(const struct by_manager *m, const char *host) {
  return pass_others(m->by_root[bucket_of(host)], host);
}

struct by_manager_job *by_jobs_next_of(const struct by_manager_job *job) {
  return pass_others(job->next_by_root, job->hosts[0]);
}

void by_jobs_index(struct by_manager *m, struct by_manager_job *job) {
  struct by_manager_job **by_id = &m->by_id[bucket_of(job->id)], **by_root = &m->by_root[bucket_of(job->hosts[0])];
  job->next_by_id = *by_id;
  job->next_by_root = *by_root;
  *by_id = *by_root = job;
}

void by_jobs_unindex(struct by_manager *m, struct by_manager_job *job) {
  struct by_manager_job **at = &m->by_id[bucket_of(job->id)];
  while (*at && *at != job) at = &(*at)->next_by_id;
  if (*at) *at = job->next_by_id;
  at = &m->by_root[bucket_of(job->hosts[0])];
  while (*at && *at != job) at = &(*at)->next_by_root;
  if (*at) *at = job->next_by_root;
}
