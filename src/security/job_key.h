/* The job's key as a text: its form, and how it reaches other processes without being seen.
 *
 *    banyan_key_<64 hexadecimal digits>_<8 digits of its identifier>
 *
 * and, if it has replaced another one,
 *
 *    KEY job <64 hexadecimal digits> old KEY until <YYYY-MM-DDThh:mm:ssZ>
 *
 * The old key is accepted until then; processes wipe it and the text behind it afterwards. The digits behind "job"
 * were derived from the job's first key and stay: by them processes recognise what belongs to the job.
 *
 * Only generated keys are accepted: an attacker who records a handshake can try keys at leisure, and would find one
 * that a person chose. The identifier is a hash of the key. It reveals typing errors, and names a key where the key
 * must not be shown. Errors never contain a key. */
#ifndef BY_SECURITY_JOB_KEY_H
#define BY_SECURITY_JOB_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fail.h"

/* Sizes with the NUL: of a key, and of a text of the job's key in each form, or a ticket. */
#define BY_JOB_KEY_TEXT 85
#define BY_JOB_KEY_MAX 280

struct by_key {
  uint8_t bytes[32];
};

/* SHA-256 of a text of any length, which is as strong as the text. */
enum banyan_status by_key_derive(const char *text, struct by_key *out) BANYAN_CHECK;

/* Makes a new random key of 256 bits. `out` holds BY_JOB_KEY_TEXT. */
enum banyan_status by_job_key_create(char *out) BANYAN_CHECK;
/* The parts of a text of the job's key. */
struct by_job_key {
  char now[BY_JOB_KEY_TEXT], old[BY_JOB_KEY_TEXT]; /* old "": there is none. */
  int64_t until;                                   /* Seconds since 1970, for the old key. */
  uint8_t job[32];
};

/* Splits a text. BANYAN_ERR_ARGUMENT: it is no generated key, or it is damaged. The caller wipes *out, also after an
 * error. */
enum banyan_status by_job_key_split(const char *text, struct by_job_key *out) BANYAN_CHECK;
/* Makes a text with a new key in place of that of `text`, which becomes the old one until `until`.
 * BANYAN_ERR_ARGUMENT: the old key of `text` is still accepted at `now`, and processes that have no newer one could
 * not join any more. `out` holds BY_JOB_KEY_MAX. */
enum banyan_status by_job_key_rotate(const char *text, int64_t now, int64_t until, char *out) BANYAN_CHECK;
/* Wipes the old key in a text of the job's key, if there is one and it has ended. Returns whether anything was
 * changed. */
bool by_job_key_drop_ended(char *text, int64_t now);
/* Checks a text. Errors of by_job_key_split. */
enum banyan_status by_job_key_check(const char *text) BANYAN_CHECK;
/* Checks a secret that switches and jobs share. BANYAN_ERR_ARGUMENT: it is no key of this form that replaces no other
 * one; `where` it was given. */
enum banyan_status by_switch_secret_check(const char *where, const char *text) BANYAN_CHECK;

/* Finds the only key in a file's text: a job's, or the ticket of a helper or server (ticket.h). Blank lines and lines
 * that begin with # are ignored. `out` holds BY_JOB_KEY_MAX. */
enum banyan_status by_job_key_parse(const char *text, size_t length, char *out) BANYAN_CHECK;
/* Reads the key of a file, which this user or root must own and no other user may read (BANYAN_ERR_AUTH). Does not
 * block. */
enum banyan_status by_job_key_read(const char *path, char *out) BANYAN_CHECK;

/* Reads a file with a secret of switches in the same way. */
enum banyan_status by_switch_secret_read(const char *path, char *out) BANYAN_CHECK;

/* Keeps a key for other processes in memory of the kernel: BANYAN_KEY_FILE names the descriptor as /proc/PID/fd/N.
 * Only this user can open it, no process can change it, and it vanishes with the last process that has it. */
enum banyan_status by_job_key_share(const char *text, int *fd) BANYAN_CHECK;

#endif
