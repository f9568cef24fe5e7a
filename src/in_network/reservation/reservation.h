/* What a job requests at a switch, what it is granted, and the messages between
 * them: JSON, one value a line, and a reply for each request, not always in
 * their order. Plain values; parsing and printing only. */
#ifndef BY_IN_NETWORK_RESERVATION_RESERVATION_H
#define BY_IN_NETWORK_RESERVATION_RESERVATION_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "text.h"

enum {
  BY_RESERVATION_SECONDS = 30,   /* for which a grant is kept after its holder's connection has ended */
  BY_RESERVATION_WORKERS = 1024, /* of a tree */
  BY_RESERVATION_BELOW = 64,     /* neighbours of a switch among them and the tree's switches */
  BY_RESERVATION_SECRET = 32,    /* bytes */
  BY_RESERVATION_HOPS = 8,       /* switches on the way of a tree */
  BY_RESERVATION_PORTS = 64,     /* of a switch */
  BY_RESERVATION_SLOTS = 1 << 16,
  BY_RESERVATION_SLOT_BYTES = 3432, /* of a switch's memory, for the cell of a slot */
  BY_RESERVATION_LINE = 65536,      /* most bytes of a request */
  BY_RESERVATION_REPLY = 1 << 20,   /* and of a reply: that of status describes every grant */
  BY_RESERVATION_HOLDER = 32,       /* characters */
  BY_RESERVATION_FAMILY = 15,       /* of them, before the "/" of a holder that has successors */
  BY_RESERVATION_PURPOSE = 'S',     /* in the handshake */
  BY_RESERVATION_REASON = 400,      /* bytes of an error's text, with its NUL */
};

/* As by_address_host has it; the port as in packets. */
struct by_udp_end {
  struct in6_addr address;
  uint16_t port;
};

struct by_udp_end by_udp_end_of(const struct by_address *address);
/* "10.0.0.9:7612", "[fd00::9]:7612", numbers only. BANYAN_ERR_PARSE. */
BANYAN_CHECK enum banyan_status by_udp_end_parse(const char *text, struct by_udp_end *out);
bool by_udp_end_same(const struct by_udp_end *a, const struct by_udp_end *b);
/* What by_udp_end_parse reads; `out` holds BY_ADDRESS_TEXT and is returned. */
const char *by_udp_end_print(const struct by_udp_end *end, char *out);

/* A worker or a switch next to it in the tree, away from the server. Several may be behind one interface. */
struct by_reservation_below {
  char interface[IF_NAMESIZE];
  bool is_switch;
  unsigned first, n; /* the workers there, of by_reservation.workers: one, or those behind the switch */
};

/* For one tree. */
struct by_reservation {
  uint16_t job, key;
  uint8_t place; /* in stacks: how many switches are between this one and the server */
  bool float32;  /* cells that add float32; else pairs */
  bool keyed;    /* fragments have MACs under the key that is derived from the secret, see hop_key.h; else seals */
  unsigned char secret[BY_RESERVATION_SECRET];
  uint32_t slots; /* wanted; 0 where it only forwards */
  char up[IF_NAMESIZE];
  struct by_udp_end server;
  unsigned n_below, n_workers;
  struct by_reservation_below below[BY_RESERVATION_BELOW];
  struct by_udp_end workers[BY_RESERVATION_WORKERS];
};

struct by_granted {
  uint32_t slots; /* at most as many as wanted; 0: what comes is sent on unmerged */
  uint8_t up;     /* port */
  unsigned n_below;
  uint8_t below[BY_RESERVATION_BELOW]; /* ports, in the order of the request */
};

/* Whether two holders, "FAMILY/NAME", are of one job, and different. */
bool by_reservation_is_successor(const char *a, const char *b);
/* Whether both request the same. */
bool by_reservation_same(const struct by_reservation *a, const struct by_reservation *b);
/* BANYAN_ERR_ARGUMENT: no switch can grant it; the text says what is wrong. */
BANYAN_CHECK enum banyan_status by_reservation_check(const struct by_reservation *reservation);

enum by_reservation_operation {
  BY_RESERVATION_DESCRIBE,
  BY_RESERVATION_STATUS,
  BY_RESERVATION_GRANT,
  BY_RESERVATION_REVOKE,
  BY_RESERVATION_OPERATIONS
};

const char *by_reservation_operation_name(enum by_reservation_operation operation);

struct by_reservation_request {
  enum by_reservation_operation operation;
  char holder[BY_RESERVATION_HOLDER + 1]; /* of the grant, for grant and revoke: the same over all connections */
  struct by_reservation reservation;      /* for revoke only its job */
};

struct by_reservation_reply {
  enum by_reservation_operation operation; /* BY_RESERVATION_OPERATIONS: the request could not be read */
  bool well;
  uint16_t job;              /* for grant and revoke */
  uint16_t key;              /* for grant */
  struct by_granted granted; /* for a grant that went well */
  bool taken;                /* else: the job belongs to another holder */
  char text[BY_RESERVATION_REASON];
};

/* One line without its end. BANYAN_ERR_PARSE, BANYAN_ERR_ARGUMENT say what is wrong. */
BANYAN_CHECK enum banyan_status by_reservation_read_request(const char *line, size_t length,
                                                            struct by_reservation_request *out);
void by_reservation_print_request(const struct by_reservation_request *request, struct by_text *text);

/* What else the replies to describe and status contain is for people, and passed over. */
BANYAN_CHECK enum banyan_status by_reservation_read_reply(const char *line, size_t length,
                                                          struct by_reservation_reply *out);
/* Not for the replies to describe and status when they go well. */
void by_reservation_print_reply(const struct by_reservation_reply *reply, struct by_text *text);

#endif
