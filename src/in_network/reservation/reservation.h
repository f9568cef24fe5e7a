/* What a job requests at a switch, what it is granted, and the messages between them: JSON, one value a line, and a
 * reply for each request, not always in their order. Plain values; parsing and printing only. */
#ifndef BY_IN_NETWORK_RESERVATION_RESERVATION_H
#define BY_IN_NETWORK_RESERVATION_RESERVATION_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "handshake.h"
#include "loop.h"
#include "process_identity.h"
#include "text.h"

enum {
  BY_RESERVATION_SECONDS = 30,   /* Seconds for which a grant is kept after its holder's connection has ended. */
  BY_RESERVATION_WORKERS = 1024, /* Maximum of a tree. */
  BY_RESERVATION_BELOW = 64,     /* Maximum neighbours of a switch among the workers and the tree's switches. */
  BY_RESERVATION_SECRET = 32,    /* Bytes. */
  BY_RESERVATION_HOPS = 8,       /* Maximum switches on the path of a tree. */
  BY_RESERVATION_PORTS = 64,     /* Maximum of a switch. */
  BY_RESERVATION_SLOTS = 1 << 16,
  BY_RESERVATION_SLOT_BYTES = 3432, /* Bytes of a switch's memory for the cell of a slot. */
  BY_RESERVATION_LINE = 65536,      /* Maximum bytes of a request. */
  BY_RESERVATION_REPLY = 1 << 20,   /* Maximum bytes of a reply: the status describes every grant. */
  BY_RESERVATION_HOLDER = 32,       /* Characters. */
  BY_RESERVATION_FAMILY = 15,       /* Characters before the "/" of a holder that has successors. */
  BY_RESERVATION_PURPOSE = 'S',     /* Purpose in the handshake. */
  BY_RESERVATION_REASON = 400,      /* Bytes of an error's text, with its NUL. */
};

/* A UDP endpoint: the address in the form of by_address_host, the port in network byte order. */
struct by_udp_end {
  struct in6_addr address;
  uint16_t port;
};

struct by_udp_end by_udp_end_of(const struct by_address *address);
/* Parses "10.0.0.9:7612" or "[fd00::9]:7612", numbers only. BANYAN_ERR_PARSE. */
BANYAN_CHECK enum banyan_status by_udp_end_parse(const char *text, struct by_udp_end *out);
bool by_udp_end_same(const struct by_udp_end *a, const struct by_udp_end *b);
/* Prints what by_udp_end_parse reads. `out` has BY_ADDRESS_TEXT bytes and is returned. */
const char *by_udp_end_print(const struct by_udp_end *end, char *out);

/* A worker or a switch next to this one in the tree, away from the server. Several may be behind one interface. */
struct by_reservation_below {
  char interface[IF_NAMESIZE];
  bool is_switch;
  unsigned first, n; /* The workers there, in by_reservation.workers: one, or those behind the switch. */
};

/* A reservation for one tree. */
struct by_reservation {
  uint16_t job, key;
  uint8_t place; /* Index in stacks: the number of switches between this one and the server. */
  bool float32;  /* Cells add float32; otherwise pairs. */
  bool keyed;    /* Fragments have MACs with the key that is derived from the secret, see sum_key.h; otherwise seals. */
  unsigned char secret[BY_RESERVATION_SECRET];
  uint32_t slots; /* Slots that are wanted; 0 where the switch only forwards. */
  char up[IF_NAMESIZE];
  struct by_udp_end server;
  unsigned n_below, n_workers;
  struct by_reservation_below below[BY_RESERVATION_BELOW];
  struct by_udp_end workers[BY_RESERVATION_WORKERS];
};

struct by_granted {
  uint32_t slots; /* At most as many as wanted; 0: fragments are forwarded unmerged. */
  uint8_t up;     /* A port. */
  unsigned n_below;
  uint8_t below[BY_RESERVATION_BELOW]; /* Ports, in the order of the request. */
};

/* Tells whether two holders, "FAMILY/NAME", are of one job, and different. */
bool by_reservation_is_successor(const char *a, const char *b);
/* Tells whether both request the same. */
bool by_reservation_same(const struct by_reservation *a, const struct by_reservation *b);
/* BANYAN_ERR_ARGUMENT: no switch can grant it; the text gives the reason. */
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
  char holder[BY_RESERVATION_HOLDER + 1]; /* Holder of the grant, for grant and revoke; the same on all connections. */
  struct by_reservation reservation;      /* For revoke only its job. */
};

struct by_reservation_reply {
  enum by_reservation_operation operation; /* BY_RESERVATION_OPERATIONS: the request could not be read. */
  bool well;
  uint16_t job;              /* For grant and revoke. */
  uint16_t key;              /* For grant. */
  struct by_granted granted; /* For a successful grant. */
  bool taken;                /* The request failed, since the job belongs to another holder. */
  char text[BY_RESERVATION_REASON];
};

/* Reads one line without its end. BANYAN_ERR_PARSE and BANYAN_ERR_ARGUMENT give the reason. */
BANYAN_CHECK enum banyan_status by_reservation_read_request(const char *line, size_t length,
                                                            struct by_reservation_request *out);
void by_reservation_print_request(const struct by_reservation_request *request, struct by_text *text);

/* Reads a reply. Other contents of the replies to describe and status are for people, and ignored. */
BANYAN_CHECK enum banyan_status by_reservation_read_reply(const char *line, size_t length,
                                                          struct by_reservation_reply *out);
/* Prints a reply, except successful ones to describe and status. */
void by_reservation_print_reply(const struct by_reservation_reply *reply, struct by_text *text);

/* ---- switch_client.c
 *
 * A job's side of the control connection to one switch: keeps a set of reservations granted there. It connects,
 * requests, and repeats requests every second that are not granted: nobody answers, the connection was lost, the switch
 * has restarted, or it has refused. A grant stays for BY_RESERVATION_SECONDS after the connection has ended, and can be
 * requested again meanwhile. Nothing blocks, and every wait has a deadline. One client for each switch, on the loop's
 * thread. docs/wire.md has the messages. */

enum {
  BY_SWITCH_CONTROL_PORT = 7613, /* Default TCP port. */
};

/* Why a reservation is not granted. */
enum by_reservation_lost {
  BY_RESERVATION_TAKEN,   /* Another job has this number there: it is not requested again; choose another number. */
  BY_RESERVATION_REFUSED, /* The switch refuses; requests are repeated. */
  BY_RESERVATION_SILENT,  /* No connection, another key, or a timeout; requests are repeated. */
};

struct by_switch_client_options {
  struct by_loop *loop; /* Must outlive the client. */
  const char *name;     /* Name of the switch, for texts; copied. */
  struct by_address address;
  const struct by_key *key;      /* Key that switch and job share; copied. NULL: the switch has none, and is local. */
  enum by_encryption encryption; /* Connections to other hosts are encrypted even if this is off. */
  struct by_process_identity *identity; /* Held; NULL: the client creates its own. */
  /* Text of BY_RESERVATION_FAMILY characters: grants of an earlier client of the same family whose connection has ended
   * are freed when this one requests something; copied. NULL: no family. */
  const char *family;
  /* The switch has granted this. Called again after it was lost; the slots may differ then. */
  void (*granted)(void *context, uint16_t job, const struct by_granted *granted);
  /* A grant may be lost, or a request is not granted: once for each reservation until it is granted or requested again.
   * Sums continue, unmerged there. `text` tells people what to do. */
  void (*lost)(void *context, uint16_t job, enum by_reservation_lost why, const char *text);
  void *context;
};

struct by_switch_client;

/* Connects at the first reservation. Callbacks come from the loop only, never from these functions, and may call them,
 * including destroy. The caller owns *out. */
enum banyan_status by_switch_client_create(const struct by_switch_client_options *options,
                                           struct by_switch_client **out) BANYAN_CHECK;
/* Gives up its reservations, and notifies the switch if that needs no waiting; otherwise they expire there. NULL is
 * allowed. */
void by_switch_client_destroy(struct by_switch_client *client);

/* Requests a copy of this reservation instead of the job's earlier one; its key must differ if anything else does.
 * BANYAN_ERR_ARGUMENT: see by_reservation_check; or it has a secret, the switch is on another host, and there is no key
 * by which it could prove its identity. */
enum banyan_status by_switch_client_want(struct by_switch_client *client,
                                         const struct by_reservation *reservation) BANYAN_CHECK;
/* Ends the job's reservation, if there is one. */
void by_switch_client_drop(struct by_switch_client *client, uint16_t job);

#endif
