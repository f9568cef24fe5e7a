/* Sends and receives LLDP frames on the host's interfaces, and reports changes of neighbours. */
#include "host_links.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <unistd.h>

#include "interface.h"
#include "log.h"

enum { PORTS = 64, FRAMES = 64 /* Maximum of frames received at once. */, TTL = 12 /* Seconds. */ };

static const uint64_t period = 3 * BY_SECOND;
static const uint64_t min_interval = 200 * BY_MILLISECOND; /* Minimum time between frames on one interface. */

struct port {
  char name[IF_NAMESIZE];
  unsigned index;
  uint8_t hardware[6];
  uint64_t sent, due;             /* When the last frame was sent, and when the next one is due. */
  bool is_listed;                 /* Found while listing interfaces. */
  bool several;                   /* Several neighbours were logged. */
  char reported[2][BY_LLDP_TEXT]; /* Name and port of the neighbour at the last call of `changed`. */
  struct by_lldp_neighbours neighbours;
};

struct by_link_neighbours {
  struct by_link_neighbours_options options;
  int fd; /* -1: this process may not. */
  struct by_watch *watch;
  struct by_timer timer;
  uint32_t n;
  struct port *ports; /* PORTS elements. */
};

static struct port *find_port(const struct by_link_neighbours *all, unsigned index) {
  for (uint32_t i = 0; i < all->n; i++)
    if (all->ports[i].index == index) return &all->ports[i];
  return NULL;
}

/* ---- sending */

static void send_at(const struct by_link_neighbours *all, struct port *port, uint64_t now) {
  uint8_t frame[BY_LLDP_FRAME];
  size_t n = by_lldp_write(all->options.host, port->name, port->hardware, TTL, frame);
  struct sockaddr_ll to = {.sll_family = AF_PACKET,
                           .sll_protocol = htons(BY_LLDP_TYPE),
                           .sll_ifindex = (int)port->index,
                           .sll_halen = sizeof by_lldp_address};
  memcpy(to.sll_addr, by_lldp_address, sizeof by_lldp_address);
  if (sendto(all->fd, frame, n, MSG_DONTWAIT, (const struct sockaddr *)&to, sizeof to) < 0)
    by_debug("agent", "LLDP at %s: %s", port->name,
             strerror(errno)); /* The interface is going down, or the next frame succeeds. */
  port->sent = now;
  port->due = now + period;
}

/* Sends at once, unless the last frame was just sent. */
static void send_soon(struct port *port, uint64_t now) {
  port->due = MIN(port->due, MAX(now, port->sent + min_interval));
}

/* ---- the neighbour */

/* Tells whether the neighbour differs from the one that was reported last. */
static bool update_neighbour(struct port *port, uint64_t now) {
  bool several;
  const struct by_lldp *info = by_lldp_neighbours_get(&port->neighbours, now, &several);
  const char *name = info ? by_lldp_name(info) : "", *at = info ? info->port : "";
  if (several && !port->several)
    by_warn("agent",
            "%s has several neighbours, such as \"%.64s\" and \"%.64s\": what joins them passes LLDP on, so its links "
            "cannot be told; name the manager a topology",
            port->name, by_lldp_name(&port->neighbours.all[0].info), by_lldp_name(&port->neighbours.all[1].info));
  port->several = several;
  if (!strcmp(port->reported[0], name) && !strcmp(port->reported[1], at)) return false;
  snprintf(port->reported[0], BY_LLDP_TEXT, "%s", name);
  snprintf(port->reported[1], BY_LLDP_TEXT, "%s", at);
  by_info("agent", "%s: the neighbour is %s%s%s", port->name, info ? name : "not known", info ? ", port " : "", at);
  return true;
}

/* ---- interfaces */

static bool read_hardware(struct port *port) {
  struct ifreq request = {.ifr_flags = 0};
  if (by_interface_ask(port->name, SIOCGIFHWADDR, &request) || request.ifr_hwaddr.sa_family != ARPHRD_ETHER)
    return false;
  memcpy(port->hardware, request.ifr_hwaddr.sa_data, sizeof port->hardware);
  return true;
}

static void add_port(struct by_link_neighbours *all, const struct by_interface *interface, uint64_t now) {
  struct packet_mreq member = {
      .mr_ifindex = (int)interface->index, .mr_type = PACKET_MR_MULTICAST, .mr_alen = sizeof by_lldp_address};
  struct port *port = find_port(all, interface->index);
  if (port && !strcmp(port->name, interface->name)) {
    port->is_listed = true;
    return;
  }
  if (all->n == PORTS || !interface->index) return;
  port = &all->ports[all->n];
  *port = (struct port){.index = interface->index, .is_listed = true, .due = now};
  memcpy(port->name, interface->name, sizeof port->name);
  if (!read_hardware(port)) return; /* Not Ethernet: a tunnel, or loopback. */
  memcpy(member.mr_address, by_lldp_address, sizeof by_lldp_address);
  if (setsockopt(all->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &member, sizeof member) < 0)
    by_debug("agent", "LLDP at %s: %s", port->name, strerror(errno));
  all->n++;
}

/* The kernel ends memberships of interfaces that are gone. */
static void list_ports(struct by_link_neighbours *all, uint64_t now) {
  struct by_interface *interfaces;
  size_t n;
  if (by_interface_list_links(all->options.filter, &interfaces, &n) != BANYAN_OK) n = 0, interfaces = NULL;
  for (uint32_t i = 0; i < all->n; i++) all->ports[i].is_listed = false;
  for (size_t i = 0; i < n; i++) add_port(all, &interfaces[i], now);
  free(interfaces);
  for (uint32_t i = 0; i < all->n;)
    if (all->ports[i].is_listed)
      i++;
    else
      all->ports[i] = all->ports[--all->n];
}

/* ---- timer */

static void advance(void *context) {
  struct by_link_neighbours *all = context;
  uint64_t now = by_loop_now(all->options.loop), next = now + period;
  bool changed = false;
  for (uint32_t i = 0; i < all->n; i++) {
    struct port *port = &all->ports[i];
    uint64_t expires = by_lldp_neighbours_expire(&port->neighbours, now);
    if (port->due <= now) send_at(all, port, now);
    changed |= update_neighbour(port, now);
    next = MIN(next, MIN(port->due, expires));
  }
  by_loop_set_timer(all->options.loop, &all->timer, next);
  if (changed) all->options.changed(all->options.context);
}

void by_link_neighbours_look(struct by_link_neighbours *all) {
  if (!all || all->fd < 0) return;
  list_ports(all, by_loop_now(all->options.loop));
  by_loop_set_delay(all->options.loop, &all->timer, 0);
}

/* ---- receiving */

static void handle_frame(struct by_link_neighbours *all, const struct sockaddr_ll *from, const uint8_t *frame,
                         size_t length) {
  uint64_t now = by_loop_now(all->options.loop);
  struct port *port = find_port(all, (unsigned)from->sll_ifindex);
  struct by_lldp info;
  if (!port || from->sll_pkttype == PACKET_OUTGOING) return;
  if (by_lldp_read(frame, length, &info) != BANYAN_OK) {
    by_debug("agent", "%s: %s", port->name, banyan_error_text());
    return;
  }
  if (by_lldp_neighbours_add(&port->neighbours, &info, now))
    send_soon(port, now); /* A new neighbour may not know us yet. */
}

static void receive_frames(void *context, uint32_t events) {
  struct by_link_neighbours *all = context;
  uint8_t frame[BY_LLDP_FRAME];
  (void)events;
  for (int i = 0; i < FRAMES; i++) {
    struct sockaddr_ll from = {.sll_family = AF_PACKET};
    socklen_t address_length = sizeof from;
    ssize_t n = recvfrom(all->fd, frame, sizeof frame, MSG_DONTWAIT, (struct sockaddr *)&from, &address_length);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n > 0) handle_frame(all, &from, frame, (size_t)n);
  }
  by_loop_set_delay(all->options.loop, &all->timer, 0);
}

/* ---- beginning and end */

const struct by_lldp *by_link_neighbours_get(const struct by_link_neighbours *all, const char *interface) {
  bool several;
  for (uint32_t i = 0; all && i < all->n; i++)
    if (!strcmp(all->ports[i].name, interface))
      return by_lldp_neighbours_get(&all->ports[i].neighbours, by_loop_now(all->options.loop), &several);
  return NULL;
}

static enum banyan_status open_socket(struct by_link_neighbours *all) {
  all->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(BY_LLDP_TYPE));
  if (all->fd >= 0) return by_loop_watch(all->options.loop, all->fd, EPOLLIN, receive_frames, all, &all->watch);
  by_warn("agent",
          "the neighbours of this host's links stay unknown: %s; to send and receive LLDP, give the agent CAP_NET_RAW, "
          "or name the manager a topology",
          strerror(errno));
  return BANYAN_OK;
}

enum banyan_status by_link_neighbours_create(const struct by_link_neighbours_options *options,
                                             struct by_link_neighbours **out) {
  struct by_link_neighbours *all = calloc(1, sizeof *all);
  *out = NULL;
  if (!all) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  *all = (struct by_link_neighbours){.options = *options, .fd = -1, .ports = calloc(PORTS, sizeof *all->ports)};
  by_timer_init(&all->timer, advance, all);
  enum banyan_status status = all->ports ? open_socket(all) : by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  if (status != BANYAN_OK) {
    by_link_neighbours_destroy(all);
    return status;
  }
  by_link_neighbours_look(all);
  *out = all;
  return BANYAN_OK;
}

void by_link_neighbours_destroy(struct by_link_neighbours *all) {
  if (!all) return;
  by_loop_cancel_timer(&all->timer);
  by_loop_unwatch(all->watch);
  if (all->fd >= 0) close(all->fd);
  free(all->ports);
  free(all);
}
