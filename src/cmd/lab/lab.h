/* A lab: a topology built on this machine from network namespaces, which hold
 * nothing but file descriptors of this process and the processes inside. When
 * these end, however they end, the kernel takes everything away: there are no
 * names to clean up.
 *
 * create, then start processes that call by_lab_enter, read, destroy. A lab
 * belongs to one thread; while it is made, that thread is elsewhere in the
 * network for moments, and back when create returns. */
#ifndef BY_CMD_LAB_LAB_H
#define BY_CMD_LAB_LAB_H

#include <sys/types.h>

#include "address.h"
#include "text.h"
#include "topology.h"

/* ---- its layout: lab_layout.c */

/* What a lab is made of, worked out from a topology without touching the
 * machine: a space (network namespace) for each node, a wire (a pair of
 * interfaces) for each link, and the routes. A host whose links together could
 * carry more than the host itself gets a gate: a space in front of it that its
 * links end at, joined to it by a wire with the host's own rate. A switch whose
 * programs send past all queues (XDP) gets a front: its links end there, and each
 * goes on to the switch by an interface of its own.
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
  BY_LAB_MOST_XDP_MTU = 3506, /* of a veth that takes XDP programs */
};

/* Addresses of the lab's hosts, and of its switches that add, are in here; no packet leaves the lab. */
#define BY_LAB_SUBNET "10.77.0.0/16"
#define BY_LAB_SUBNET6 "fd62:616e:7961:6e00::/96"

struct by_lab_options {
  double scale;               /* of all rates, > 0 */
  bool whole;                 /* links carry all their capacity, not what others leave */
  bool plain;                 /* no delay and no loss, whatever the topology states */
  bool ipv6;                  /* addresses are of IPv6, in place of IPv4 */
  bool xdp;                   /* switches that add forward by XDP programs */
  long mtu;                   /* bytes of an IP packet */
  double burst;               /* seconds at full rate that an idle link lets through at once */
  double queue;               /* seconds at full rate that may wait in front of a link */
  bool fifo;                  /* acknowledgements do not overtake what waits in front of a link */
  bool by_tos;                /* links sort what waits in front of them by its ToS */
  const char *congestion;     /* control of TCP; "" as the machine has it */
  const char *const *sysctls; /* "net.ipv4.name=value" for every space; ends with NULL */
};

struct by_lab_space {
  const char *name; /* the node's */
  uint32_t node;
  bool gate, front; /* of the node */
  uint32_t outside; /* the space that its wires end in: itself, or its front */
  uint32_t address; /* its number among the lab's: by_lab_host; 0: none */
  uint32_t n_wires; /* that end here; the k-th is its interface eth<k>, and that of what it is the front of */
};

struct by_lab_wire {
  uint32_t space[2];
  uint32_t port[2]; /* interface number at each end */
  double rate[2];   /* bit/s from space[0] and from space[1]; 0: nothing is sent that way */
  double delay, loss;
  uint32_t link; /* of the topology; UINT32_MAX: between a host and its gate */
};

struct by_lab_route {
  uint32_t space;
  uint32_t to;   /* the number of a node's address; 0: everything else */
  uint32_t wire; /* that packets leave by */
};

struct by_lab_layout {
  const struct by_topology *topology;
  bool ipv6;
  uint32_t n_spaces, n_wires, n_routes, routes_room;
  struct by_lab_space *spaces; /* spaces[v] is node v's; gates follow, then fronts */
  struct by_lab_wire *wires;   /* wires[i] is link i's; those of gates follow */
  struct by_lab_route *routes; /* by space */
  struct by_arena arena;
};

/* What is set where nothing is asked for. */
struct by_lab_options by_lab_options_default(void);
/* Fails with BANYAN_ERR_TOPOLOGY for what cannot be built, with the node's or link's name. The caller calls fini, after
 * a failure too. */
BANYAN_CHECK enum banyan_status by_lab_layout_make(const struct by_topology *topology,
                                                   const struct by_lab_options *options, struct by_lab_layout *out);
void by_lab_layout_fini(struct by_lab_layout *layout);
/* Adds what is built of the topology as one line of JSON, as by_topology_print does: links and nodes with the rates
 * that they have in the lab, used by nobody, and with the delays and losses that they have there. */
BANYAN_CHECK enum banyan_status by_lab_print_topology(const struct by_topology *topology,
                                                      const struct by_lab_options *options, struct by_text *text);
/* Bytes that may be in a queue of that rate; bytes of a burst are of the same kind. */
double by_lab_queue_bytes(const struct by_lab_options *options, double rate);
/* The address of this number, as by_address_host has it. */
struct in6_addr by_lab_host(const struct by_lab_layout *layout, uint32_t address);
/* "10.77.0.1", "fd62:616e:7961:6e00::1"; `out` holds BY_ADDRESS_TEXT. */
const char *by_lab_print_address(const struct by_lab_layout *layout, uint32_t address, char *out);

/* ---- at work: lab.c */

struct by_lab;

/* What one direction of a wire has carried. */
struct by_lab_traffic {
  uint64_t bytes, packets; /* with all headers down to Ethernet's */
  uint64_t drops;          /* packets lost because the queue was full */
};

/* Needs the rights of root; else BANYAN_ERR_SYSTEM. The layout and the options must outlive the lab. */
BANYAN_CHECK enum banyan_status by_lab_create(const struct by_lab_layout *layout, const struct by_lab_options *options,
                                              struct by_lab **out);
/* NULL is allowed. Processes that are still inside keep their space alive. */
void by_lab_destroy(struct by_lab *lab);
/* For a process that is to live in a space, before it becomes something else: the network, the name of the host, the
 * names of all hosts in /etc/hosts and /sys are then the space's. What was done of it stays done after a failure. */
BANYAN_CHECK enum banyan_status by_lab_enter(const struct by_lab *lab, uint32_t space);
/* Both directions of a wire that carry something carry so many bit/s from now on. The thread is in another space then.
 */
BANYAN_CHECK enum banyan_status by_lab_change(struct by_lab *lab, uint32_t wire, double rate);
/* out[2 i + d] is what has left end d of wire i since the lab was made. */
BANYAN_CHECK enum banyan_status by_lab_read(struct by_lab *lab, struct by_lab_traffic *out);

/* ---- what it is and has carried, for people and as JSON: lab_layout.c. Pure. */

/* Adds what would be built: hosts with addresses, links with rates, how much of the rest. */
void by_lab_print_layout(const struct by_lab_layout *layout, const struct by_lab_options *options,
                         struct by_text *text);
/* Adds a table of what each direction of each link carried in `seconds`. */
void by_lab_print_traffic(const struct by_lab_layout *layout, const struct by_lab_traffic *traffic, double seconds,
                          struct by_text *text);
/* The same as one line of JSON, without a newline. */
BANYAN_CHECK enum banyan_status by_lab_print_json(const struct by_lab_layout *layout,
                                                  const struct by_lab_traffic *traffic, double seconds,
                                                  struct by_text *text);

#endif
