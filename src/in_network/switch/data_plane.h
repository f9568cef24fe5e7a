/* What passes packets, whichever kind it is: in XDP, or between sockets. Ports
 * are interfaces, numbered from 0. Cells, groups and grants are the caller's to
 * share out. Ends with its process, however that ends. On the loop's thread. */
#ifndef BY_IN_NETWORK_SWITCH_DATA_PLANE_H
#define BY_IN_NETWORK_SWITCH_DATA_PLANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell.h"
#include "fail.h"
#include "fragment_mac.h"
#include "loop.h"
#include "reservation.h"

enum {
  BY_PLANE_GROUPS = 256,
  BY_PLANE_MEMBERS = 64, /* of a group */
  BY_PLANE_WORKERS = BY_RESERVATION_WORKERS,
  BY_PLANE_QUEUES = 64
};

enum by_plane_kind { BY_PLANE_XDP, BY_PLANE_USER };

struct by_plane_options {
  enum by_plane_kind kind;
  uint32_t cells;  /* 3.4 KiB each */
  uint32_t queues; /* between sockets: threads that share the work, at most BY_PLANE_QUEUES; 0: it runs on the loop */
};

/* A receiver of a copy of results for all. */
struct by_switch_target {
  uint32_t port;
  struct in6_addr address; /* as by_address_host has it */
  uint16_t udp_port;       /* as in packets */
  uint8_t hardware[6];     /* of the next hop; where the kernel finds that, not looked at */
};

/* An end of a tree, and the port towards it. */
struct by_plane_end {
  uint32_t port;
  struct by_udp_end end;
};

/* Between whom the fragments of a grant travel: others of its job are left to the kernel, in XDP only those that are
 * neither from nor for the server's UDP port. */
struct by_plane_ends {
  const struct by_hop_key *key; /* of its fragments; copied. NULL: they have none, as the grant states */
  struct by_plane_end server;
  uint32_t n_workers; /* at most BY_PLANE_WORKERS */
  struct by_plane_end workers[BY_PLANE_WORKERS];
};

struct by_plane_counts {
  uint64_t events[BY_EVENTS]; /* fragments, by what happened to them */
  uint64_t unsent;            /* fragments without room, a route or a next hop on the way out */
  uint64_t expired;           /* those that have gone round in circles, where IP's time to live shows it */
  uint64_t datagrams, sent;   /* between sockets: received, some with many fragments; fragments, each copy counts */
};

struct by_plane {
  const struct by_plane_ops *ops;
  void *self;
};

struct by_plane_ops {
  const char *name;
  bool needs_neighbours; /* next hops have to be given; else the kernel's routes decide */
  void (*destroy)(void *self);
  enum banyan_status (*add_port)(void *self, uint32_t number, const char *interface);
  /* Takes packets from here on, at all of the first n ports, once; before the first grant. */
  enum banyan_status (*start)(void *self, uint32_t n);
  /* Frees these cells. */
  enum banyan_status (*clear)(void *self, uint32_t base, uint32_t count);
  /* Takes the place of what its job had. Its key must be another one if its cells or its group change. */
  enum banyan_status (*grant)(void *self, const struct by_grant *grant, const struct by_plane_ends *ends);
  enum banyan_status (*revoke)(void *self, uint16_t job);
  /* Takes the place of the group's members. */
  enum banyan_status (*set_group)(void *self, uint16_t group, const struct by_switch_target *targets, uint32_t n);
  /* Of what leaves by the port for this address, NULL: for all others; hardware NULL: none any more. */
  enum banyan_status (*set_neighbour)(void *self, uint32_t port, const struct in6_addr *address,
                                      const uint8_t hardware[6]);
  enum banyan_status (*count)(const void *self, struct by_plane_counts *out);
};

/* BANYAN_ERR_UNSUPPORTED: this build, kernel or user cannot. The loop must outlive it. */
BANYAN_CHECK enum banyan_status by_plane_open(struct by_loop *loop, const struct by_plane_options *options,
                                              struct by_plane *out);
/* Nothing is attached any more. One that is all zeros is allowed. */
void by_plane_close(struct by_plane *plane);

/* "malformed", "wrong_key", ... */
const char *by_event_name(enum by_event event);

/* ---- between sockets: user.c */

/* BANYAN_ERR_UNSUPPORTED: this user may not. The loop must outlive it. */
BANYAN_CHECK enum banyan_status by_user_open(struct by_loop *loop, const struct by_plane_options *options,
                                             struct by_plane *out);

/* ---- in XDP: xdp.c */

struct by_xdp;

/* The programs of this build, as an ELF object: the bytes of xdp_switch.bpf.c (scripts/embed). */
extern const unsigned char by_xdp_object[];
extern const size_t by_xdp_object_bytes;

/* `object`: compiled programs, such as those. */
BANYAN_CHECK enum banyan_status by_xdp_open(const struct by_plane_options *options, const void *object, size_t bytes,
                                            struct by_plane *out);
/* Attaches to the interface of this port, until destroyed: packets from it count from now on. The switch is the plane's
 * `self`. */
BANYAN_CHECK enum banyan_status by_xdp_attach(struct by_xdp *xdp, uint32_t number);
/* Descriptor of a program of the object, for test runs; -1: there is none of this name. */
int by_xdp_program(const struct by_xdp *xdp, const char *name);

#endif
