/* The credentials of a process in its job: its identity, the job's keys, and its host's statement about it. */
#include "credentials.h"

#include <string.h>

#include "dialer.h"
#include "formation.h"
#include "host_trust.h"
#include "job_key.h"
#include "job_state.h"
#include "key_ring.h"
#include "log.h"
#include "opening.h"
#include "settings.h"

static bool is_of_root(const struct by_job *job, const struct by_process_identity *identity) {
  struct by_fingerprint fingerprint;
  return job->settings.root && by_dialer_fingerprint(job->settings.root, &fingerprint) &&
         by_fingerprint_equal(&fingerprint, by_process_identity_fingerprint(identity));
}

static enum banyan_status derive_identity(const char *path, struct by_process_identity **out) {
  char secret[BY_JOB_KEY_MAX];
  enum banyan_status status = by_job_key_read(path, secret);
  if (status == BANYAN_OK) status = by_process_identity_derive(secret, out);
  explicit_bzero(secret, sizeof secret);
  return status == BANYAN_OK ? BANYAN_OK : by_fail_within(status, "BANYAN_IDENTITY_FILE");
}

/* Makes an identity. Rank 0 of a job has the one that others expect, if the program or its launcher gave it to them. */
static enum banyan_status make_identity(struct by_job *job) {
  struct by_process_identity *of_root;
  if (job->rank != 0) return by_process_identity_create(&job->identity);
  BY_TRY(by_process_identity_of_root(&of_root));
  if (!is_of_root(job, of_root) && job->settings.identity_file)
    return derive_identity(job->settings.identity_file, &job->identity);
  job->identity = by_process_identity_hold(of_root);
  return BANYAN_OK;
}

/* Warns of an identity that does not match: rank 0 listens all the same, as processes of this host do not check it. */
static void warn_of_identity(const struct by_job *job) {
  struct by_fingerprint fingerprint;
  if (job->rank == 0 && job->size > 1 && job->identity && !job->role.formation && job->settings.root &&
      by_dialer_fingerprint(job->settings.root, &fingerprint) && !is_of_root(job, job->identity))
    by_warn("communicator", "the fingerprint in BANYAN_ROOT is not that of this process, which is rank 0: processes on "
                            "other hosts will refuse it");
}

/* Takes the identity. A member of elastic groups has one for all of them, and so do their helpers. */
enum banyan_status by_job_take_identity(struct by_job *job) {
  bool encrypts = by_encryption_of(job->settings.encrypt) != BY_ENCRYPT_OFF;
  if (job->role.formation)
    job->identity = by_process_identity_hold(job->role.formation->identity);
  else if (job->role.identity && encrypts)
    job->identity = by_process_identity_hold(job->role.identity);
  else if (encrypts)
    BY_TRY(make_identity(job));
  warn_of_identity(job);
  return BANYAN_OK;
}

/* Takes the keys. A member of elastic groups has them already. */
static enum banyan_status take_keys(struct by_job *job, const struct by_member *self) {
  struct by_settings *settings = &job->settings;
  const char *kind = by_member_kind_name(job->role.kind);
  bool is_rank = job->role.kind == BY_MEMBER_RANK;
  if (job->role.formation) {
    job->keys = by_key_ring_hold(job->role.formation->keys);
    return BANYAN_OK;
  }
  enum banyan_status found = by_settings_find_key(settings);
  if (found != BANYAN_OK && !job->role.ticket) return found;
  /* A holder of the job's key needs no ticket, which expires, and can read the handles of members. */
  bool own = found == BANYAN_OK && settings->key && *settings->key && !by_ticket_is_text(settings->key);
  const char *ticket = own ? NULL : job->role.ticket;
  bool has_key = ticket || (settings->key && *settings->key);
  if (!is_rank && (!has_key || !settings->root))
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "which job to help? Start the %s with `banyan run --%ss`, or set BANYAN_ROOT to host:port of the "
                   "job's rank 0, and BANYAN_KEY_FILE to a file with the job's key or a ticket",
                   kind, kind);
  if (!has_key)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "this job has %u ranks but no key: start it with `%s`, or generate one with `banyan keys job "
                   "FILE`, and set BANYAN_KEY_FILE=FILE on all ranks",
                   job->size, strcmp(settings->source, "Slurm") ? "banyan run" : "srun --mpi=pmix");
  if (!settings->root)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "this job has %u ranks but no meeting point: set BANYAN_ROOT to host:port of rank 0 on all ranks",
                   job->size);
  if (job->rank == 0 && is_rank) by_settings_warn_of_key(settings);
  struct by_ticket_subject subject = {(uint8_t)job->role.kind, self->host};
  enum banyan_status status =
      by_key_ring_create(ticket ? ticket : settings->key, settings->key_file, is_rank ? NULL : &subject, &job->keys);
  by_settings_wipe_key(settings);
  return status;
}

/* Takes the statement. A member of elastic groups has one for all of them. */
static enum banyan_status take_statement(struct by_job *job, const struct by_member *self) {
  bool is_rank = job->role.kind == BY_MEMBER_RANK;
  if (job->role.formation) {
    job->statement = by_own_statement_hold(job->role.formation->statement);
    return BANYAN_OK;
  }
  if (!job->identity) return BANYAN_OK;
  return by_own_statement_create(
      &(struct by_own_statement_options){.agent = by_settings_agent(&job->settings),
                                         .keys = job->settings.keys,
                                         .host = self->host,
                                         .process = by_process_identity_fingerprint(job->identity),
                                         .job = is_rank ? by_key_ring_job(job->keys) : NULL,
                                         .required = job->settings.policy.certified},
      &job->statement);
}

enum banyan_status by_job_take_keys(struct by_job *job, const struct by_member *self) {
  BY_TRY(take_keys(job, self));
  return take_statement(job, self);
}
