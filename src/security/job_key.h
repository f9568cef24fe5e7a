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

/* A key as text: 64 hexadecimal digits and a NUL. */
#define BY_KEY_TEXT 65

/* SHA-256 of a text of any length, which is as strong as the text. */
enum banyan_status by_key_derive(const char *text, struct by_key *out) BANYAN_CHECK;

/* HMAC-SHA256 under a key over a text: a name that only holders of the key can compute. */
enum banyan_status by_key_hash(const struct by_key *key, const char *text, struct by_key *out) BANYAN_CHECK;
/* Makes 64 random digits. `out` holds BY_KEY_TEXT. */
enum banyan_status by_key_random(char *out) BANYAN_CHECK;

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

/* Finds the only key in a file's text: a job's, or the ticket of a helper or server. Blank lines and lines
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

/* Tickets, which let one process join a job as a helper or server, and as nothing else. A holder of the job's key, or
 * of the key of its tickets, issues them for a kind and a name.
 *
 *    job's key -> key of tickets -> ticket's secret = HMAC(key of tickets, label, head)
 *
 * The process joins with it. Its links are opened under tickets of the same form, which rank 0 issues for one
 * membership under a key that it has made for that, and that ranks get:
 *
 *    key of links -> ticket's secret, to ranks -> keys of its links with other helpers
 *
 * The head is public, and a client sends it in its greeting. So ranks can check any ticket, and a holder of only a
 * ticket can neither make another one nor act as a rank. As a text:
 *
 *    banyan_ticket_<96 hexadecimal digits of the head><64 of the secret> */

/* Texts, with the NUL. A file of a key has room for each. */
#define BY_TICKET_PREFIX "banyan_ticket_"
#define BY_TICKET_TEXT 175
#define BY_TICKET_KEY_PREFIX "tickets:"
#define BY_TICKET_KEY_TEXT 73

/* The bytes of the head: when it expires, in seconds since 1970; a random number; and a hash of its subject. */
#define BY_TICKET_HEAD 48
#define BY_TICKET_NEVER UINT64_MAX
/* Seconds in which a helper that is being started has to join; not less than the difference of hosts' clocks. */
#define BY_TICKET_SECONDS 3600

/* The subject of a ticket: a process of this kind and name. */
enum by_ticket_kind { BY_TICKET_HELPER = 1, BY_TICKET_SERVER };

struct by_ticket_subject {
  uint8_t kind;
  const char *name;
};

struct by_ticket {
  uint8_t head[BY_TICKET_HEAD];
  struct by_key secret;
};

/* The key of a job's tickets, as a text, from the current key of the job. `out` holds BY_TICKET_KEY_TEXT.
 * BANYAN_ERR_ARGUMENT: this is no job's key. */
enum banyan_status by_ticket_key_derive(const char *job_key, char *out) BANYAN_CHECK;
/* Issues a new ticket under such a key, which by_key_derive derives from its text. `out` holds BY_TICKET_TEXT. */
enum banyan_status by_ticket_issue(const struct by_key *ticket_key, const struct by_ticket_subject *subject,
                                   uint64_t expires, char *out) BANYAN_CHECK;

/* Prints a ticket. `out` holds BY_TICKET_TEXT. */
void by_ticket_print(const struct by_ticket *ticket, char *out);

/* Makes the head of a new ticket; and that of a ticket for the links of a helper or server in one membership. */
enum banyan_status by_ticket_begin(const struct by_ticket_subject *subject, uint64_t expires,
                                   uint8_t *out) BANYAN_CHECK;
enum banyan_status by_ticket_begin_links(const struct by_ticket_subject *subject, uint32_t process,
                                         uint8_t *out) BANYAN_CHECK;

bool by_ticket_is_text(const char *text);
/* Parses a ticket. BANYAN_ERR_ARGUMENT: the text is no ticket, or it is damaged. */
enum banyan_status by_ticket_parse(const char *text, struct by_ticket *out) BANYAN_CHECK;

/* The key by which the holder of a ticket with this head proves itself. At ranks, `parent` is the key of tickets, or
 * of links, and the result is the ticket's secret. At a helper, `parent` is the secret of its own ticket, and the
 * result is the key of the link between the two, which rank 0 sends to the other one. */
enum banyan_status by_ticket_prove(const struct by_key *parent, const uint8_t *head, struct by_key *out) BANYAN_CHECK;

bool by_ticket_is_for(const uint8_t *head, const struct by_ticket_subject *subject);
/* Checks a ticket's subject and time. BANYAN_ERR_AUTH: it is for another process, or has expired; `now` is in seconds
 * since 1970. */
enum banyan_status by_ticket_check(const uint8_t *head, const struct by_ticket_subject *subject,
                                   uint64_t now) BANYAN_CHECK;

#endif
