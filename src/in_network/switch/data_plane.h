/* The part of a switch that forwards packets, of either kind: in XDP, or between sockets. Ports are interfaces,
 * numbered from 0. The caller assigns cells, groups and grants. It ends with its process, however that ends. On the
 * loop's thread. */
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
  BY_PLANE_MEMBERS = 64, /* Members of a group. */
  BY_PLANE_WORKERS = BY_RESERVATION_WORKERS,
  BY_PLANE_QUEUES = 64
};

enum by_plane_kind { BY_PLANE_XDP, BY_PLANE_USER };

struct by_plane_options {
  enum by_plane_kind kind;
  uint32_t cells;  /* Cells of 3.4 KiB each. */
  uint32_t queues; /* Between sockets: threads that share the work, at most BY_PLANE_QUEUES; 0: it runs on the loop. */
};

/* A receiver of a copy of multicast results. */
struct by_switch_target {
  uint32_t port;
  struct in6_addr address; /* In the form of by_address_host. */
  uint16_t udp_port;       /* In network byte order. */
  uint8_t hardware[6];     /* Of the next hop; ignored if the kernel determines that. */
};

/* An end of a tree, and the port towards it. */
struct by_plane_end {
  uint32_t port;
  struct by_udp_end end;
};

/* The ends between which the fragments of a grant travel. Other fragments of its job are left to the kernel, in XDP
 * only those that neither come from nor go to the server's UDP port. */
struct by_plane_ends {
  const struct by_hop_key *key; /* Key of its fragments; copied. NULL: the grant has none. */
  struct by_plane_end server;
  uint32_t n_workers; /* At most BY_PLANE_WORKERS. */
  struct by_plane_end workers[BY_PLANE_WORKERS];
};

struct by_plane_counts {
  uint64_t events[BY_EVENTS]; /* Fragments by event. */
  uint64_t unsent;            /* Fragments dropped for lack of memory, a route or a next hop. */
  uint64_t expired;           /* Fragments whose time to live has expired in a loop, where IP shows it. */
  uint64_t datagrams, sent;   /* Between sockets: received datagrams, which may have many fragments; sent fragments,
                                 including each copy. */
};

struct by_plane {
  const struct by_plane_ops *ops;
  void *self;
};

struct by_plane_ops {
  const char *name;
  bool needs_neighbours; /* The caller must provide next hops; otherwise the kernel's routes decide. */
  void (*destroy)(void *self);
  enum banyan_status (*add_port)(void *self, uint32_t number, const char *interface);
  /* Begins to take packets at the first n ports, once; before the first grant. */
  enum banyan_status (*start)(void *self, uint32_t n);
  /* Frees these cells. */
  enum banyan_status (*clear)(void *self, uint32_t base, uint32_t count);
  /* Replaces the job's grant. Its key must differ if its cells or its group change. */
  enum banyan_status (*grant)(void *self, const struct by_grant *grant, const struct by_plane_ends *ends);
  enum banyan_status (*revoke)(void *self, uint16_t job);
  /* Replaces the group's members. */
  enum banyan_status (*set_group)(void *self, uint16_t group, const struct by_switch_target *targets, uint32_t n);
  /* Sets the next hop of packets that leave by the port for this address, or, with NULL, for all other addresses;
   * hardware NULL: removes it. */
  enum banyan_status (*set_neighbour)(void *self, uint32_t port, const struct in6_addr *address,
                                      const uint8_t hardware[6]);
  enum banyan_status (*count)(const void *self, struct by_plane_counts *out);
};

/* BANYAN_ERR_UNSUPPORTED: this build, kernel or user cannot. The loop must outlive it. */
BANYAN_CHECK enum banyan_status by_plane_open(struct by_loop *loop, const struct by_plane_options *options,
                                              struct by_plane *out);
/* Detaches everything. A zeroed struct is allowed. */
void by_plane_close(struct by_plane *plane);

/* Returns "malformed", "wrong_key", ... */
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

/* `object`: compiled programs, such as by_xdp_object. */
BANYAN_CHECK enum banyan_status by_xdp_open(const struct by_plane_options *options, const void *object, size_t bytes,
                                            struct by_plane *out);
/* Attaches to the interface of this port until destroyed: packets from it are switched from now on. The switch is the
 * plane's `self`. */
BANYAN_CHECK enum banyan_status by_xdp_attach(struct by_xdp *xdp, uint32_t number);
/* Returns the descriptor of a program of the object, for test runs; -1: no program has this name. */
int by_xdp_program(const struct by_xdp *xdp, const char *name);

#endif
