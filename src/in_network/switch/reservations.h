/* What jobs have at this switch: cells, ports, a group, next hops. A reservation
 * belongs to its holder, who makes it over a connection; BY_RESERVATION_SECONDS
 * after that has ended it expires, unless the same holder requests it again. A
 * request is answered when its next hops are known, after some seconds at most.
 * Cells are free when they are granted. On the loop's thread.
 *
 *   a reservation is   becomes   when
 *   seeking            granted   its next hops are known, and the data plane has it
 *   granted            lapsing   its holder's connection has ended
 *   lapsing            granted   the same holder requests the same again
 *
 * One that is lapsing also ends when another holder of the same family requests something: the next membership of a
 * job whose rank 0 has died. */
#ifndef BY_IN_NETWORK_SWITCH_RESERVATIONS_H
#define BY_IN_NETWORK_SWITCH_RESERVATIONS_H

#include "data_plane.h"
#include "loop.h"
#include "reservation.h"

struct by_reservations;

struct by_reservations_options {
  struct by_loop *loop;
  const struct by_plane *plane; /* whose ports are there already; outlives the reservations */
  uint32_t cells;
  uint32_t n_ports;
  const char *const *ports;     /* interfaces; copied */
  bool accepts_unauthenticated; /* grants without a secret, whose fragments anybody can forge */
  /* The reply to a request, at once or later; `owner` has sent it. Must not call back. */
  void (*answer)(void *owner, const struct by_reservation_reply *reply);
};

BANYAN_CHECK enum banyan_status by_reservations_create(const struct by_reservations_options *options,
                                                       struct by_reservations **out);
/* Grants stay in the plane. NULL is allowed. */
void by_reservations_destroy(struct by_reservations *all);

/* Both answer; `owner` must not be NULL, and leaves before it is gone. */
void by_reservations_grant(struct by_reservations *all, const struct by_reservation_request *request, void *owner);
void by_reservations_revoke(struct by_reservations *all, const struct by_reservation_request *request, void *owner);
/* The owner is not answered any more. */
void by_reservations_leave(struct by_reservations *all, const void *owner);
/* Cells that are granted. */
uint32_t by_reservations_used(const struct by_reservations *all);
/* ", "cells": {...}, "ports": [...], "jobs": [...]": the rest of an object. */
void by_reservations_print(const struct by_reservations *all, struct by_text *text);

#endif
