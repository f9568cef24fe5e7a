/* A switch in XDP: loads the programs, fills their maps, attaches them to
 * interfaces. It ends with its process, also when that is killed: what is
 * attached hangs on file descriptors. Needs root (CAP_BPF and CAP_NET_ADMIN).
 * Interfaces carry fragments natively only: below generic XDP the kernel has
 * merged packets, of which the first would be added. The other end of a veth
 * pair needs a native program as well (XDP_PASS does), or what is sent to it is
 * lost without a trace. One thread at a time. */
#ifndef BY_SWITCH_XDP_H
#define BY_SWITCH_XDP_H

#include <stddef.h>

#include "cell.h"
#include "fail.h"
#include "grant.h"
#include "xdp_maps.h"

struct by_xdp;

struct by_xdp_options {
  const void *object; /* the compiled programs; NULL: those of this build */
  size_t object_bytes;
  uint32_t cells;    /* 3.4 KiB each */
  uint16_t udp_port; /* of servers; 0: BY_FRAGMENT_PORT */
};

enum banyan_status by_xdp_create(const struct by_xdp_options *options, struct by_xdp **out);
void by_xdp_destroy(struct by_xdp *xdp);

/* This interface is port `number`. Packets from it count once by_xdp_attach has been called. */
enum banyan_status by_xdp_add_port(struct by_xdp *xdp, uint32_t number, const char *interface);
/* Attaches to the interface of this port, until destroyed. */
enum banyan_status by_xdp_attach(struct by_xdp *xdp, uint32_t number);
/* Packets to `address` (0: to all that are not named) leave port `number` for this hardware address. */
enum banyan_status by_xdp_set_neighbour(struct by_xdp *xdp, uint32_t number, uint32_t address,
                                        const uint8_t hardware[6]);
/* They go elsewhere again: to the port's other neighbour, or nowhere. There need not be one. */
enum banyan_status by_xdp_drop_neighbour(struct by_xdp *xdp, uint32_t number, uint32_t address);
/* These cells are free, whatever was in them. */
enum banyan_status by_xdp_clear(struct by_xdp *xdp, uint32_t base, uint32_t count);
/* Takes the place of what its job had. Its key must be another one if its cells or its group change. */
enum banyan_status by_xdp_grant(struct by_xdp *xdp, const struct by_grant *grant);
enum banyan_status by_xdp_revoke(struct by_xdp *xdp, uint16_t job);
/* Takes the place of the group's members. */
enum banyan_status by_xdp_set_group(struct by_xdp *xdp, uint16_t group, const struct by_switch_target *targets,
                                    uint32_t n);
/* Packets since the start, by what happened to them, and fragments without a next hop on the way out. */
enum banyan_status by_xdp_count(const struct by_xdp *xdp, uint64_t events[BY_EVENTS], uint64_t *unsent);
/* Descriptor of a program of the object, for test runs; -1: there is none of this name. */
int by_xdp_program(const struct by_xdp *xdp, const char *name);

#endif
