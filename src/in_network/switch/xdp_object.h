/* The XDP programs of this build, as an ELF object; the build makes the bytes of
 * xdp_switch.bpf.c (scripts/embed). */
#ifndef BY_SWITCH_XDP_OBJECT_H
#define BY_SWITCH_XDP_OBJECT_H

#include <stddef.h>

extern const unsigned char by_xdp_object[];
extern const size_t by_xdp_object_bytes;

#endif
