/* What a job and a switch say to each other: JSON, one value a line; a reply
 * for each request, not always in their order. Parsing and printing only. */
#ifndef BY_LEASE_RESERVATION_MESSAGES_H
#define BY_LEASE_RESERVATION_MESSAGES_H

#include <stddef.h>

#include "reservation.h"
#include "text.h"

enum {
  BY_LEASE_LINE = 16384,    /* most bytes of a request */
  BY_LEASE_REPLY = 1 << 20, /* and of a reply: that of status says every grant */
  BY_LEASE_HOLDER = 32,     /* characters */
  BY_LEASE_PURPOSE = 'S',   /* in the handshake */
  BY_LEASE_REASON = 400,    /* bytes of an error's text, with its NUL */
};

enum by_lease_operation { BY_LEASE_DESCRIBE, BY_LEASE_STATUS, BY_LEASE_GRANT, BY_LEASE_REVOKE, BY_LEASE_OPERATIONS };

const char *by_lease_operation_name(enum by_lease_operation operation);

struct by_lease_request {
  enum by_lease_operation operation;
  char holder[BY_LEASE_HOLDER + 1];  /* who asks, for grant and revoke: the same over all connections */
  struct by_reservation reservation; /* for revoke only its job */
};

struct by_lease_reply {
  enum by_lease_operation operation; /* BY_LEASE_OPERATIONS: the request could not be read */
  bool well;
  uint16_t job;              /* for grant and revoke */
  uint16_t key;              /* for grant */
  struct by_granted granted; /* for a grant that went well */
  bool taken;                /* else: the job belongs to another holder */
  char text[BY_LEASE_REASON];
};

/* One line without its end. BANYAN_ERR_PARSE, BANYAN_ERR_ARGUMENT say what is wrong. */
BANYAN_CHECK enum banyan_status by_lease_read_request(const char *line, size_t length, struct by_lease_request *out);
void by_lease_print_request(const struct by_lease_request *request, struct by_text *text);

/* What describe and status say beside is for people, and passed over. */
BANYAN_CHECK enum banyan_status by_lease_read_reply(const char *line, size_t length, struct by_lease_reply *out);
/* Not for what describe and status say when they go well. */
void by_lease_print_reply(const struct by_lease_reply *reply, struct by_text *text);

/* "10.0.0.9:7612"; `out` holds BY_UDP_END_TEXT and is returned. */
enum { BY_UDP_END_TEXT = 24 };
const char *by_udp_end_print(const struct by_udp_end *end, char *out);

#endif
