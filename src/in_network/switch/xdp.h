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

#include "data_plane.h"
#include "xdp_maps.h"

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
