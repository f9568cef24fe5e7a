/* A job's end of the control connection to one switch: keeps a set of
 * reservations granted there. Connects, requests, and requests again every
 * second what is not granted: nobody answers there yet, the connection was lost,
 * the switch has started anew, or it has refused. What was granted stays so for
 * BY_RESERVATION_SECONDS after the connection is gone, and may be had again
 * meanwhile. Nothing blocks, and every wait has a deadline. One client for each
 * switch, on the loop's thread. docs/wire.md has the messages. */
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
  BY_SWITCH_CONTROL_PORT = 7613, /* TCP, by default */
};

/* Why a reservation is not granted. */
enum by_reservation_lost {
  BY_RESERVATION_TAKEN,   /* another has this job's number there: it is not asked for again; choose another number */
  BY_RESERVATION_REFUSED, /* the switch refuses, and is asked again */
  BY_RESERVATION_SILENT,  /* no connection, another key, no answer in time; tried again */
};

struct by_switch_client_options {
  struct by_loop *loop; /* outlives the client */
  const char *name;     /* of the switch, for texts; copied */
  struct by_address address;
  const struct by_key *key; /* that switch and job share; copied. NULL: the switch has none, and listens on loopback */
  enum by_encryption encryption;        /* to other hosts the connection is encrypted even where this is off */
  struct by_process_identity *identity; /* held; NULL: the client makes one of its own */
  /* Text of BY_RESERVATION_FAMILY characters: what an earlier client of the same family has there, and whose connection
   * has ended, is free when this one requests something; copied. NULL: of none. */
  const char *family;
  /* From now on the switch has this grant. Comes again after it was lost; slots may be others then. */
  void (*granted)(void *context, uint16_t job, const struct by_granted *granted);
  /* What was granted may be no more, or what was requested is not granted: once for each reservation until it is
   * granted or requested anew. Sums go on, unmerged there. `text` says what is to be done. */
  void (*lost)(void *context, uint16_t job, enum by_reservation_lost why, const char *text);
  void *context;
};

struct by_switch_client;

/* Begins to connect at the first reservation. Callbacks come from the loop only, never from within these functions, and
 * may call them; destroying the client is allowed there too. The caller owns *out. */
enum banyan_status by_switch_client_create(const struct by_switch_client_options *options,
                                           struct by_switch_client **out) BANYAN_CHECK;
/* Gives up its reservations, and notifies the switch if that needs no waiting; else they expire there. NULL is allowed.
 */
void by_switch_client_destroy(struct by_switch_client *client);

/* Copied. Takes the place of this job's reservation if there is one: with another key if anything else is another.
 * BANYAN_ERR_ARGUMENT: see by_reservation_check; or it has a secret, the switch is on another host, and
 * there is no key by which it could show that it is the switch. */
enum banyan_status by_switch_client_want(struct by_switch_client *client,
                                         const struct by_reservation *reservation) BANYAN_CHECK;
/* This job has no reservation any more; there need not be one. */
void by_switch_client_drop(struct by_switch_client *client, uint16_t job);

#endif
