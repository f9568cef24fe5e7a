/* The reservations of jobs at this switch: cells, ports, a group, next hops. A reservation belongs to its holder, who
 * makes it over a connection; BY_RESERVATION_SECONDS after that has ended it expires, unless the same holder requests
 * it again. A request is answered when its next hops are known, after some seconds at most. Cells are cleared when they
 * are granted. On the loop's thread.
 *
 *   state     becomes   when
 *   seeking   granted   its next hops are known, and the data plane has it
 *   granted   lapsing   its holder's connection has ended
 *   lapsing   granted   the same holder requests the same again
 *
 * A lapsing reservation also ends when another holder of the same family requests something: the next membership of a
 * job whose rank 0 has died. */
#ifndef BY_IN_NETWORK_SWITCH_RESERVATIONS_H
#define BY_IN_NETWORK_SWITCH_RESERVATIONS_H

#include "data_plane.h"
#include "loop.h"
#include "netlink.h"
#include "reservation.h"

struct by_reservations;

struct by_reservations_options {
  struct by_loop *loop;
  const struct by_plane *plane; /* Must have its ports, and outlive the reservations. */
  uint32_t cells;
  uint32_t n_ports;
  const char *const *ports;     /* Interfaces; copied. */
  bool accepts_unauthenticated; /* Accepts grants without a secret, whose fragments anybody can forge. */
  /* Sends the reply to a request of `owner`, at once or later. Must not call the reservations. */
  void (*answer)(void *owner, const struct by_reservation_reply *reply);
};

BANYAN_CHECK enum banyan_status by_reservations_create(const struct by_reservations_options *options,
                                                       struct by_reservations **out);
/* Grants stay in the plane. NULL is allowed. */
void by_reservations_destroy(struct by_reservations *all);

/* Both answer. `owner` must not be NULL, and must call by_reservations_leave before it is destroyed. */
void by_reservations_grant(struct by_reservations *all, const struct by_reservation_request *request, void *owner);
void by_reservations_revoke(struct by_reservations *all, const struct by_reservation_request *request, void *owner);
/* The owner gets no more replies. */
void by_reservations_leave(struct by_reservations *all, const void *owner);
/* Returns the number of granted cells. */
uint32_t by_reservations_used(const struct by_reservations *all);
/* Appends ", "cells": {...}, "ports": [...], "jobs": [...]", the rest of an object. */
void by_reservations_print(const struct by_reservations *all, struct by_text *text);

/* ---- neighbours.c
 *
 * The next hops that grants need: asks the kernel for them regularly, and passes them to the data plane. If all packets
 * that leave a port go to one neighbour, the plane has one entry for the port; others have entries for their addresses.
 * On the loop's thread. */

struct by_switch_neighbour;

struct by_neighbours {
  const struct by_plane *plane;
  const unsigned *interfaces; /* Indices by port. */
  struct by_netlink netlink;
  struct by_switch_neighbour *all;
  uint32_t n, max;
};

/* Allocates for `max` pairs of port and address. The plane and the interfaces must outlive it. */
BANYAN_CHECK enum banyan_status by_neighbours_init(struct by_neighbours *neighbours, const struct by_plane *plane,
                                                   const unsigned *interfaces, uint32_t max);
void by_neighbours_fini(struct by_neighbours *neighbours);
/* Increment and decrement the uses of an address. */
void by_neighbours_add(struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address);
void by_neighbours_drop(struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address);
/* Tells whether the next hop is known; always true if the kernel forwards packets itself. */
bool by_neighbours_know(const struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address,
                        uint8_t hardware[6]);
/* Asks for the unknown next hops, or for all. *changed: one of them has changed. Returns errors of the kernel or the
 * plane. */
BANYAN_CHECK enum banyan_status by_neighbours_refresh(struct by_neighbours *neighbours, bool all, bool *changed);

#endif
