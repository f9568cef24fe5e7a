/* What a job wishes for at a switch, and what it is granted. Plain values. */
#ifndef BY_LEASE_RESERVATION_H
#define BY_LEASE_RESERVATION_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "fail.h"

enum {
  BY_LEASE_SECONDS = 30,
  BY_RESERVATION_WORKERS = 64, /* of a tree, and so most that are below */
  BY_RESERVATION_HOPS = 8,     /* switches on the way of a tree */
  BY_RESERVATION_PORTS = 64,   /* of a switch */
  BY_RESERVATION_SLOTS = 1 << 16,
  BY_RESERVATION_SLOT_BYTES = 3432, /* of a switch's memory, for the cell of a slot */
};

/* Both as in packets. */
struct by_udp_end {
  uint32_t address;
  uint16_t port;
};

/* A worker or a switch next to it in the tree, away from the server. Several may be behind one interface. */
struct by_reservation_below {
  char interface[IF_NAMESIZE];
  bool is_switch;
  unsigned first, n; /* the workers there, of by_reservation.workers: one, or those behind the switch */
};

/* For one tree. */
struct by_reservation {
  uint16_t job, key;
  uint8_t place;  /* in stacks: how many switches are between this one and the server */
  bool float32;   /* cells that add float32; else pairs */
  uint32_t slots; /* wanted; 0 where it only forwards */
  char up[IF_NAMESIZE];
  struct by_udp_end server;
  unsigned n_below, n_workers;
  struct by_reservation_below below[BY_RESERVATION_WORKERS];
  struct by_udp_end workers[BY_RESERVATION_WORKERS];
};

struct by_granted {
  uint32_t slots; /* at most as many as wanted; 0: what comes is sent on unmerged */
  uint8_t up;     /* port */
  unsigned n_below;
  uint8_t below[BY_RESERVATION_WORKERS]; /* ports, in the order of the wish */
};

/* Whether both ask for the same. */
bool by_reservation_same(const struct by_reservation *a, const struct by_reservation *b);
/* Whether it can be wished for at all; BANYAN_ERR_ARGUMENT says what is wrong. */
BANYAN_CHECK enum banyan_status by_reservation_check(const struct by_reservation *reservation);

#endif
