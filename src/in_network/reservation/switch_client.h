/* A job's side of the control connection to one switch: keeps a set of reservations granted there. It connects,
 * requests, and repeats requests every second that are not granted: nobody answers, the connection was lost, the switch
 * has restarted, or it has refused. A grant stays for BY_RESERVATION_SECONDS after the connection has ended, and can be
 * requested again meanwhile. Nothing blocks, and every wait has a deadline. One client for each switch, on the loop's
 * thread. docs/wire.md has the messages. */
#ifndef BY_IN_NETWORK_RESERVATION_SWITCH_CLIENT_H
#define BY_IN_NETWORK_RESERVATION_SWITCH_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "address.h"
#include "handshake.h"
#include "loop.h"
#include "process_identity.h"
#include "reservation.h"

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
