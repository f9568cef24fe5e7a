/* A lab: a topology built on this machine from network namespaces, which exist only as file descriptors of this process
 * and by the processes inside. When these end, in any way, the kernel removes everything: there are no names to clean
 * up.
 *
 * Call create, start processes that call by_lab_enter, read, destroy. A lab belongs to one thread; while it is made,
 * that thread is sometimes in another namespace, and back when create returns. */
#ifndef BY_CMD_LAB_LAB_H
#define BY_CMD_LAB_LAB_H

#include <sys/types.h>

#include "address.h"
#include "text.h"
#include "topology.h"

/* ---- its layout: lab_layout.c */

/* The layout of a lab, computed from a topology without any effect on the machine: a space (network namespace) for each
 * node, a wire (a pair of interfaces) for each link, and the routes. A host whose links together could carry more than
 * the host itself gets a gate: a space in front of it with the ends of its links, joined to it by a wire with the
 * host's own rate. A switch whose programs bypass all queues (XDP) gets a front: its links end there, and each
 * continues to the switch by a separate interface.
 *
 *   host --- gate ===== links        host (no limit of its own) ===== links
 *   switch ===== front ===== links
 *
 * A value in one arena, which points into its topology. */
enum {
  BY_LAB_MOST_SPACES = 4096,
  BY_LAB_MOST_WIRES = 65536,
  BY_LAB_MOST_ROUTES = 4 << 20,
  BY_LAB_LEAST_MTU = 576,
  BY_LAB_LEAST_IPV6_MTU = 1280,
  BY_LAB_MOST_MTU = 65535,
  BY_LAB_MOST_XDP_MTU = 3506, /* Of a veth that accepts XDP programs. */
};

/* Addresses of the lab's hosts, and of its switches that aggregate; no packet leaves the lab. */
#define BY_LAB_SUBNET "10.77.0.0/16"
#define BY_LAB_SUBNET6 "fd62:616e:7961:6e00::/96"

struct by_lab_options {
  double scale;               /* Factor of all rates, > 0. */
  bool whole;                 /* Links have all their capacity, including what others use. */
  bool plain;                 /* No delay and no loss, whatever the topology states. */
  bool ipv6;                  /* Addresses are of IPv6 instead of IPv4. */
  bool xdp;                   /* Switches that aggregate use XDP programs. */
  long mtu;                   /* Bytes of an IP packet. */
  double burst;               /* Seconds at full rate that an idle link passes at once. */
  double queue;               /* Seconds at full rate that may wait in front of a link. */
  bool fifo;                  /* Acknowledgements do not overtake what waits in front of a link. */
  bool by_tos;                /* Links sort waiting packets by their ToS. */
  const char *congestion;     /* TCP's congestion control; "": the machine's default. */
  const char *const *sysctls; /* "net.ipv4.name=value" for every space; ends with NULL. */
};

struct by_lab_space {
  const char *name; /* The node's name. */
  uint32_t node;
  bool gate, front; /* It is a gate, or a front, of the node. */
  uint32_t outside; /* Space in which its wires end: itself, or its front. */
  uint32_t address; /* Number of its address, see by_lab_host; 0: none. */
  uint32_t n_wires; /* Number of wires that end here; the k-th is interface eth<k> of the space and, for a front, of its
                       switch. */
};

struct by_lab_wire {
  uint32_t space[2];
  uint32_t port[2]; /* Interface index at each end. */
  double rate[2];   /* bit/s from space[0] and from space[1]; 0: nothing is sent in that direction. */
  double delay, loss;
  uint32_t link; /* Link of the topology; UINT32_MAX: between a host and its gate. */
};

struct by_lab_route {
  uint32_t space;
  uint32_t to;   /* Number of a node's address; 0: all other addresses. */
  uint32_t wire; /* Wire by which packets leave. */
};

struct by_lab_layout {
  const struct by_topology *topology;
  bool ipv6;
  uint32_t n_spaces, n_wires, n_routes, routes_room;
  struct by_lab_space *spaces; /* spaces[v] is node v's; gates follow, then fronts. */
  struct by_lab_wire *wires;   /* wires[i] is link i's; those of gates follow. */
  struct by_lab_route *routes; /* By space. */
  struct by_arena arena;
};

/* Returns the defaults. */
struct by_lab_options by_lab_options_default(void);
/* BANYAN_ERR_TOPOLOGY: it cannot be built; the text names the node or link. The caller calls fini, also after a
 * failure. */
BANYAN_CHECK enum banyan_status by_lab_layout_make(const struct by_topology *topology,
                                                   const struct by_lab_options *options, struct by_lab_layout *out);
void by_lab_layout_fini(struct by_lab_layout *layout);
/* Appends the built topology as one line of JSON, as by_topology_print does: links and nodes with their rates in the
 * lab, without use by others, and with their delays and losses there. */
BANYAN_CHECK enum banyan_status by_lab_print_topology(const struct by_topology *topology,
                                                      const struct by_lab_options *options, struct by_text *text);
/* Returns the maximum bytes in a queue of that rate, counted as those of a burst. */
double by_lab_queue_bytes(const struct by_lab_options *options, double rate);
/* Returns the address of this number, in the form of by_address_host. */
struct in6_addr by_lab_host(const struct by_lab_layout *layout, uint32_t address);
/* Prints "10.77.0.1" or "fd62:616e:7961:6e00::1"; `out` has BY_ADDRESS_TEXT bytes. */
const char *by_lab_print_address(const struct by_lab_layout *layout, uint32_t address, char *out);

/* ---- a running lab: lab.c */

struct by_lab;

/* Counters of one direction of a wire. */
struct by_lab_traffic {
  uint64_t bytes, packets; /* With all headers including Ethernet's. */
  uint64_t drops;          /* Packets lost because the queue was full. */
};

/* Needs the rights of root; otherwise BANYAN_ERR_SYSTEM. The layout and the options must outlive the lab. */
BANYAN_CHECK enum banyan_status by_lab_create(const struct by_lab_layout *layout, const struct by_lab_options *options,
                                              struct by_lab **out);
/* NULL is allowed. Processes that are still inside keep their space alive. */
void by_lab_destroy(struct by_lab *lab);
/* Moves a process into a space, before it executes a program: the network, the name of the host, the names of all hosts
 * in /etc/hosts and /sys are then the space's. Some of it may be done after a failure. */
BANYAN_CHECK enum banyan_status by_lab_enter(const struct by_lab *lab, uint32_t space);
/* Changes the rate of both directions of a wire that carry anything to so many bit/s. The thread moves to another space
 * meanwhile. */
BANYAN_CHECK enum banyan_status by_lab_change(struct by_lab *lab, uint32_t wire, double rate);
/* out[2 i + d] counts the packets that have left end d of wire i since the lab was made. */
BANYAN_CHECK enum banyan_status by_lab_read(struct by_lab *lab, struct by_lab_traffic *out);

/* ---- layout and counters, for people and as JSON: lab_layout.c. Pure functions. */

/* Appends the layout: hosts with addresses, links with rates, and the numbers of others. */
void by_lab_print_layout(const struct by_lab_layout *layout, const struct by_lab_options *options,
                         struct by_text *text);
/* Appends a table of each direction's counters after `seconds`. */
void by_lab_print_traffic(const struct by_lab_layout *layout, const struct by_lab_traffic *traffic, double seconds,
                          struct by_text *text);
/* Appends the counters as one line of JSON, without a newline. */
BANYAN_CHECK enum banyan_status by_lab_print_json(const struct by_lab_layout *layout,
                                                  const struct by_lab_traffic *traffic, double seconds,
                                                  struct by_text *text);

#endif
