/* What lets one process join a job as a helper or server, and as nothing else: a ticket, which whoever has the job's
 * key, or the key of its tickets, issues for a kind and a name.
 *
 *   job's key -> key of tickets -> ticket's secret = HMAC(key of tickets, label, head)
 *
 * With it the process joins. Its links are opened under tickets of the same form, which rank 0 issues for one
 * membership under a key that it has made for that, and that ranks get:
 *
 *   key of links -> ticket's secret, to ranks -> keys of its links with other helpers
 *
 * The head is public, and a client sends it in its greeting. So ranks can check any ticket, and nobody who has only a
 * ticket can make another one, nor act as a rank. As a text:
 *
 *   banyan_ticket_<96 hexadecimal digits of the head><64 of the secret> */
#ifndef BY_SECURITY_TICKET_H
#define BY_SECURITY_TICKET_H

#include <stdbool.h>
#include <stdint.h>

#include "job_key.h"

/* Texts, with the NUL. A file of a key has room for each. */
#define BY_TICKET_PREFIX "banyan_ticket_"
#define BY_TICKET_TEXT 175
#define BY_TICKET_KEY_PREFIX "tickets:"
#define BY_TICKET_KEY_TEXT 73

/* Of the head: when it expires, in seconds since 1970; a random number; and a hash of what it is for. */
#define BY_TICKET_HEAD 48
#define BY_TICKET_NEVER UINT64_MAX
/* In which a helper that is being started has to join: as long as clocks of hosts may differ, too. */
#define BY_TICKET_SECONDS 3600

/* What a ticket is for: a process of this kind and name. */
enum by_ticket_kind { BY_TICKET_HELPER = 1, BY_TICKET_SERVER };

struct by_ticket_subject {
  uint8_t kind;
  const char *name;
};

struct by_ticket {
  uint8_t head[BY_TICKET_HEAD];
  struct by_key secret;
};

/* The key of a job's tickets, as a text, from that of the job as it is now. `out` holds BY_TICKET_KEY_TEXT.
 * BANYAN_ERR_ARGUMENT: this is no job's key. */
enum banyan_status by_ticket_key_derive(const char *job_key, char *out) BANYAN_CHECK;
/* A new ticket under such a key, of which by_key_derive makes a key. `out` holds BY_TICKET_TEXT. */
enum banyan_status by_ticket_issue(const struct by_key *ticket_key, const struct by_ticket_subject *subject,
                                   uint64_t expires, char *out) BANYAN_CHECK;

/* The same of one that is there. */
void by_ticket_print(const struct by_ticket *ticket, char *out);

/* The head of a new ticket; and of that with which a helper or server opens links in one membership, as this process.
 */
enum banyan_status by_ticket_begin(const struct by_ticket_subject *subject, uint64_t expires,
                                   uint8_t *out) BANYAN_CHECK;
enum banyan_status by_ticket_begin_links(const struct by_ticket_subject *subject, uint32_t process,
                                         uint8_t *out) BANYAN_CHECK;

bool by_ticket_is_text(const char *text);
/* BANYAN_ERR_ARGUMENT: the text is no ticket, or it is damaged. */
enum banyan_status by_ticket_parse(const char *text, struct by_ticket *out) BANYAN_CHECK;

/* The key with which the process that has the ticket of this head proves itself: at ranks, `parent` is the key of
 * tickets, or of links, and this is the ticket's secret; at a helper it is the secret of its own ticket, and this is
 * the key of the link between the two, which rank 0 sends to the other one. */
enum banyan_status by_ticket_prove(const struct by_key *parent, const uint8_t *head, struct by_key *out) BANYAN_CHECK;

bool by_ticket_is_for(const uint8_t *head, const struct by_ticket_subject *subject);
/* BANYAN_ERR_AUTH: it is for another process, or has expired, `now` being in seconds since 1970. */
enum banyan_status by_ticket_check(const uint8_t *head, const struct by_ticket_subject *subject,
                                   uint64_t now) BANYAN_CHECK;

#endif
