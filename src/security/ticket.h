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
