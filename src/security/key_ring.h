/* The keys that a process of a job has now: derived from the text that it was given, and again whenever the file that
 * has them was replaced by `banyan keys rotate` (job_key.h). The only place where a process keeps them; its memory is
 * left out of core dumps. Any thread. */
#ifndef BY_SECURITY_KEY_RING_H
#define BY_SECURITY_KEY_RING_H

#include "handshake.h"

/* The keys of a process of a job: a rank has the job's, a helper or server the secret of its ticket. */
struct by_job_keys {
  struct by_key own;                  /* The key with which this process joins, and opens links if it is a rank. */
  struct by_key tickets;              /* The key of the tickets of helpers that connect, see by_ticket_prove. */
  struct by_key old_own, old_tickets; /* Keys that are accepted until `until`; 0: there are none. */
  int64_t until;                      /* Seconds since 1970. */
  struct by_key job; /* Marks everything of the job, whatever its key is now; unused at helpers and servers. */
  uint8_t purpose;   /* Added to the purpose of its connections: BY_PURPOSE_HELPER, or 0 at ranks. */
  uint8_t ticket[BY_TICKET_HEAD]; /* Of helpers and servers. */
};

/* Derives the keys from the text that the process was given: the job's key, or at a helper or server (`subject`) a
 * ticket. One that has the job's key issues itself a ticket, which never expires. BANYAN_ERR_ARGUMENT: a rank was
 * given a ticket, or the text is no generated key (job_key.h), or it is the ticket of another process. */
enum banyan_status by_job_keys_derive(const char *text, const struct by_ticket_subject *subject,
                                      struct by_job_keys *out) BANYAN_CHECK;

struct by_key_ring;

/* `text`: a job's key, or at helpers and servers (`subject` not NULL, and copied) a ticket for that. `path`: the file
 * that it is from, or that has what takes its place; NULL: it stays as it is. Errors of by_job_keys_derive. The caller
 * owns *out. */
enum banyan_status by_key_ring_create(const char *text, const char *path, const struct by_ticket_subject *subject,
                                      struct by_key_ring **out) BANYAN_CHECK;
/* Adds an owner of the ring, and returns the ring. NULL is allowed. */
struct by_key_ring *by_key_ring_hold(struct by_key_ring *ring);
/* The last owner wipes and destroys it. NULL is allowed. */
void by_key_ring_destroy(struct by_key_ring *ring);

/* Copies the current keys. Checks the file, and takes it if it has changed; a file that cannot be used is logged
 * once, and the keys stay. The caller wipes *out. */
void by_key_ring_get(struct by_key_ring *ring, struct by_job_keys *out);
/* Sets the keys of a connection; `helpers`: it also accepts helpers and servers. */
void by_job_keys_use(const struct by_job_keys *keys, bool helpers, struct by_handshake_options *handshake);
/* The key that marks everything of the job, and stays. Borrowed from the ring. */
const struct by_key *by_key_ring_job(const struct by_key_ring *ring);
/* Copies the current text. `out` holds BY_JOB_KEY_MAX. The caller wipes it. */
void by_key_ring_text(struct by_key_ring *ring, char *out);
/* The key of tickets under the current key, as a text. `out` holds BY_TICKET_KEY_TEXT. */
enum banyan_status by_key_ring_ticket_text(struct by_key_ring *ring, char *out) BANYAN_CHECK;

#endif
