/* A lab: a topology built on this machine from network namespaces, which exist only as file descriptors of this process
 * and by the processes inside. When these end, in any way, the kernel removes everything: there are no names to clean
 * up.
 *
 * Call create, start processes that call by_lab_enter, read, destroy. A lab belongs to one thread; while it is made,
 * that thread is sometimes in another namespace, and back when create returns. */
#ifndef BY_CMD_LAB_LAB_H
#define BY_CMD_LAB_LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "address.h"
#include "fail.h"
#include "netlink.h"
#include "rng.h"
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
  BY_LAB_MAX_SPACES = 4096,
  BY_LAB_MAX_WIRES = 65536,
  BY_LAB_MAX_ROUTES = 4 << 20,
  BY_LAB_MIN_MTU = 576,
  BY_LAB_MIN_IPV6_MTU = 1280,
  BY_LAB_MAX_MTU = 65535,
  BY_LAB_MAX_XDP_MTU = 3506, /* Of a veth that accepts XDP programs. */
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
  uint32_t n_spaces, n_wires, n_routes, routes_capacity;
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

/* ---- lab_netlink.c
 *
 * The lab's requests to the kernel: interfaces, addresses, routes, queues and their counters, and short programs that
 * need no compiler or library. */

/* Makes an XDP program that passes all packets. */
BANYAN_CHECK enum banyan_status by_program_pass(int *out);
/* Makes a filter program that drops packets at random with this probability, 0 .. 1, and leaves others to the next
 * filter. */
BANYAN_CHECK enum banyan_status by_program_lose(double share, int *out);

/* One end of a pair of interfaces: its name and index, and its namespace. */
struct by_netlink_end {
  char name[16];
  unsigned interface;
  int namespace_fd;
  uint32_t at_once; /* Maximum bytes that TCP may pass to it at once, to be cut into packets later. */
  bool cut;         /* Packets that leave it are cut. */
};

/* Limits of one direction of a link. */
struct by_netlink_shape {
  double rate;  /* bit/s, > 0. */
  double burst; /* Seconds at that rate. */
  double queue; /* Bytes. */
  bool fifo;    /* Acknowledgements wait like other packets; otherwise they overtake. */
  bool ipv6;    /* Acknowledgements are of IPv6; otherwise of IPv4. */
  bool there;   /* The interface has a shape already, and only its rates change. */
  bool by_tos;  /* Marked packets are sorted by class (priority.h), each with a guarantee of 5 %. */
};

struct by_netlink_counters {
  uint64_t bytes, packets; /* Sent, as they were on the wire. */
  uint64_t drops;          /* Packets that found the queue full. */
  uint64_t lost;           /* Incoming packets that were dropped by by_netlink_lose. */
};

/* Both ends get the same hardware address: see by_netlink_up. */
BANYAN_CHECK enum banyan_status by_netlink_add_pair(struct by_netlink *netlink, const struct by_netlink_end ends[2],
                                                    const uint8_t mac[6], long mtu);
/* Gives an interface the properties of the ends of a pair. */
BANYAN_CHECK enum banyan_status by_netlink_fit(struct by_netlink *netlink, const struct by_netlink_end *end,
                                               const uint8_t mac[6], long mtu);
/* Makes an interface ready without address resolution: packets that leave it carry its own hardware address, which is
 * the other end's, too. */
BANYAN_CHECK enum banyan_status by_netlink_up(struct by_netlink *netlink, unsigned interface, bool resolves);
/* Adds an address to the interface, without a subnet. Addresses have the form of by_address_host, as in routes. */
BANYAN_CHECK enum banyan_status by_netlink_add_address(struct by_netlink *netlink, unsigned interface,
                                                       const struct in6_addr *address);
/* A route of IPv4 or IPv6. */
struct by_netlink_route {
  bool ipv6;
  const struct in6_addr *to;     /* NULL: all other addresses. */
  const struct in6_addr *source; /* Source address of own packets; NULL: the kernel chooses. */
  bool last;                     /* Used if no other route fits. */
};

/* Routes such packets to the interface. */
BANYAN_CHECK enum banyan_status by_netlink_add_route(struct by_netlink *netlink, unsigned interface,
                                                     const struct by_netlink_route *route);
/* Limits packets that leave the interface to the shape. */
BANYAN_CHECK enum banyan_status by_netlink_shape(struct by_netlink *netlink, unsigned interface,
                                                 const struct by_netlink_shape *shape);
/* Forwards packets that arrive at interface `from` unchanged to `to`. */
BANYAN_CHECK enum banyan_status by_netlink_redirect(struct by_netlink *netlink, unsigned from, unsigned to);
/* Drops incoming packets of the interface that the filter program selects, before anything else. */
BANYAN_CHECK enum banyan_status by_netlink_lose(struct by_netlink *netlink, unsigned interface, int program);
/* Attaches an XDP program to the interface's driver, for the life of the interface. */
BANYAN_CHECK enum banyan_status by_netlink_attach(struct by_netlink *netlink, unsigned interface, int program);
/* Counts the interfaces from index `first` on that are ready, which the kernel achieves in the background. */
BANYAN_CHECK enum banyan_status by_netlink_count_running(struct by_netlink *netlink, unsigned first, unsigned *out);
/* Reads the counters of each interface below `n`; out[interface] is unchanged if nothing is shaped or lost there. */
BANYAN_CHECK enum banyan_status by_netlink_read(struct by_netlink *netlink, struct by_netlink_counters *out,
                                                unsigned n);

/* ---- lab_relay.c
 *
 * Links with delay. Their two ends are TAP interfaces, and a separate process carries packets between them through
 * delay lines, since kernels may lack a queue that delays (netem). As on all links, the queues of the interfaces limit
 * rates; a packet arrives here when it has left its queue. Large packets stay whole, as between veth interfaces, except
 * on links with loss, where single packets are lost.
 *
 * A delay line is one direction of such a link: packets leave it after a fixed time, in the same order, unless they are
 * lost. It has no clock: callers pass times in nanoseconds, which never decrease. */

struct by_line_packet {
  STAILQ_ENTRY(by_line_packet) next;
  uint64_t due;
  size_t length;
  unsigned char bytes[];
};

struct by_delay_line {
  uint64_t delay; /* Nanoseconds. */
  double loss;    /* Fraction of packets, 0 .. 1. */
  struct by_rng rng;
  STAILQ_HEAD(, by_line_packet) packets; /* The next one first. */
  size_t held;                           /* Bytes. */
};

enum { BY_LINE_MAX_BYTES = 512 << 20 };

void by_delay_line_init(struct by_delay_line *line, uint64_t delay, double loss, uint64_t seed);
void by_delay_line_fini(struct by_delay_line *line);
/* Adds a copy. Returns false if it is lost, on purpose or because 512 MiB or the machine's memory are full. */
bool by_delay_line_put(struct by_delay_line *line, const void *bytes, size_t length, uint64_t now);
/* Returns when the next packet is due; UINT64_MAX: the line is empty. */
uint64_t by_delay_line_due(const struct by_delay_line *line);
/* Returns the next packet if it is due, else NULL. The caller frees it with free(). */
struct by_line_packet *by_delay_line_take(struct by_delay_line *line, uint64_t now);

/* A link. */
struct by_relay_link {
  int fds[2]; /* Of its TAP interfaces. */
  double delay, loss;
};

/* Makes a TAP interface in the thread's namespace; it lives as long as *out is open. `whole`: packets of up to 64 KiB
 * are read and written, to be cut by others. */
BANYAN_CHECK enum banyan_status by_tap_make(const char *name, unsigned interface, bool whole, int *out);
/* Starts the process. lost[2 i + d], in memory that it shares, counts packets that link i lost from end d. It ends with
 * this process, or by by_relay_stop. */
BANYAN_CHECK enum banyan_status by_relay_start(const struct by_relay_link *links, uint32_t n, uint64_t *lost,
                                               pid_t *out);
/* Tells whether it still runs. */
bool by_relay_lives(pid_t relay);
void by_relay_stop(pid_t relay);

#endif
