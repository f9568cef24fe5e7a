/* The job's key as a text: what it looks like, and how it travels between processes without being seen.
 *
 *   banyan_key_<64 hexadecimal digits>_<8 digits of its identifier>
 *
 * and, where it has taken the place of another one,
 *
 *   KEY job <64 hexadecimal digits> old KEY until <YYYY-MM-DDThh:mm:ssZ>
 *
 * The old key is accepted until then; processes wipe it and what follows it when it has ended. What stands behind "job"
 * was derived from the job's first key and stays: by this processes recognise what belongs to the job.
 *
 * Only generated keys are accepted: whoever records a handshake can try keys at leisure, so one that a person chose
 * would be found. The identifier is a hash of the key. It reveals typing errors, and names a key where the key must not
 * be shown. Errors never contain a key. */
#ifndef BY_SECURITY_JOB_KEY_H
#define BY_SECURITY_JOB_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fail.h"

/* With the NUL: a key, and a text of the job's key in each form, or a ticket. */
#define BY_JOB_KEY_TEXT 85
#define BY_JOB_KEY_MAX 280

struct by_key {
  uint8_t bytes[32];
};

/* SHA-256 of a text of any length, which is as strong as the text. */
enum banyan_status by_key_derive(const char *text, struct by_key *out) BANYAN_CHECK;

/* A new random key of 256 bits. `out` holds BY_JOB_KEY_TEXT. */
enum banyan_status by_job_key_create(char *out) BANYAN_CHECK;
/* What a text of the job's key says. */
struct by_job_key {
  char now[BY_JOB_KEY_TEXT], old[BY_JOB_KEY_TEXT]; /* old "": there is none */
  int64_t until;                                   /* s since 1970, for the old key */
  uint8_t job[32];
};

/* BANYAN_ERR_ARGUMENT: this is no generated key, or it is damaged. The caller wipes *out, also after an error. */
enum banyan_status by_job_key_split(const char *text, struct by_job_key *out) BANYAN_CHECK;
/* A text with a new key in place of that of `text`, which is the old one until then. BANYAN_ERR_ARGUMENT: the old key
 * of `text` is accepted for longer than `now`; processes that have no other one yet would not join any more. `out`
 * holds BY_JOB_KEY_MAX. */
enum banyan_status by_job_key_rotate(const char *text, int64_t now, int64_t until, char *out) BANYAN_CHECK;
/* Wipes the old key in a text of the job's key, if there is one and it has ended. False: nothing was changed. */
bool by_job_key_drop_ended(char *text, int64_t now);
/* BANYAN_ERR_ARGUMENT as above. */
enum banyan_status by_job_key_check(const char *text) BANYAN_CHECK;
/* BANYAN_ERR_ARGUMENT: a secret that switches and jobs share is no key of the same form, without one that it replaces;
 * `where` it was given. */
enum banyan_status by_switch_secret_check(const char *where, const char *text) BANYAN_CHECK;

/* The only key in a file's text: a job's, or the ticket of a helper or server (ticket.h). Blank lines and lines that
 * begin with # do not count. `out` holds BY_JOB_KEY_MAX. */
enum banyan_status by_job_key_parse(const char *text, size_t length, char *out) BANYAN_CHECK;
/* The same of a file, which this user or root must own and nobody else may read (BANYAN_ERR_AUTH). Does not block. */
enum banyan_status by_job_key_read(const char *path, char *out) BANYAN_CHECK;

/* The same of a file with a secret of switches. */
enum banyan_status by_switch_secret_read(const char *path, char *out) BANYAN_CHECK;

/* Keeps a key for other processes in memory of the kernel: BANYAN_KEY_FILE names the descriptor as /proc/PID/fd/N. Only
 * this user can open it, nobody can change it, and it vanishes with the last process that has it. */
enum banyan_status by_job_key_share(const char *text, int *fd) BANYAN_CHECK;

#endif
