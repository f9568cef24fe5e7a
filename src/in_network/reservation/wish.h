/* What a job wishes for at a switch, and what it is granted. Plain values. */
#ifndef BY_LEASE_WISH_H
#define BY_LEASE_WISH_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "fail.h"

enum {
  BY_LEASE_SECONDS = 30,
  BY_WISH_WORKERS = 64, /* of a tree, and so most that are below */
  BY_WISH_HOPS = 8,     /* switches on the way of a tree */
  BY_WISH_PORTS = 64,   /* of a switch */
  BY_WISH_SLOTS = 1 << 16,
  BY_WISH_SLOT_BYTES = 3432, /* of a switch's memory, for the cell of a slot */
};

/* Both as in packets. */
struct by_udp_end {
  uint32_t address;
  uint16_t port;
};

/* A worker or a switch next to it in the tree, away from the server. Several may be behind one interface. */
struct by_wish_below {
  char interface[IF_NAMESIZE];
  bool is_switch;
  unsigned first, n; /* the workers there, of by_wish.workers: one, or those behind the switch */
};

/* For one tree. */
struct by_wish {
  uint16_t job, key;
  uint8_t place;  /* in stacks: how many switches are between this one and the server */
  bool float32;   /* cells that add float32; else pairs */
  uint32_t slots; /* wanted; 0 where it only forwards */
  char up[IF_NAMESIZE];
  struct by_udp_end server;
  unsigned n_below, n_workers;
  struct by_wish_below below[BY_WISH_WORKERS];
  struct by_udp_end workers[BY_WISH_WORKERS];
};

struct by_granted {
  uint32_t slots; /* at most as many as wanted; 0: what comes is sent on unmerged */
  uint8_t up;     /* port */
  unsigned n_below;
  uint8_t below[BY_WISH_WORKERS]; /* ports, in the order of the wish */
};

/* Whether both ask for the same. */
bool by_wish_same(const struct by_wish *a, const struct by_wish *b);
/* Whether it can be wished for at all; BANYAN_ERR_ARGUMENT says what is wrong. */
BANYAN_CHECK enum banyan_status by_wish_check(const struct by_wish *wish);

#endif
