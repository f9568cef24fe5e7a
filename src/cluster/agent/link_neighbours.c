/* Sends LLDP on the interfaces of this host and remembers the neighbours that answer. */
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

#include "address.h"
#include "clock.h"
#include "log.h"
#include "text.h"

/* ---- frames and neighbours, without I/O and clock */

/* Types of TLVs, which have 7 bits of type and 9 bits of length before their value. */
enum type { END, CHASSIS, PORT, TTL, PORT_DESCRIPTION, SYSTEM_NAME, SYSTEM_DESCRIPTION };

/* Subtypes of IDs. Of ports: 1 alias, 2 component, 3 hardware address, 4 network address, 5 interface name, 6 circuit,
 * 7 local. Of chassis: 4 hardware address, 5 network address, 6 interface name. */
enum {
  HEADER = 14,
  PORT_HARDWARE = 3,
  PORT_NETWORK = 4,
  CHASSIS_HARDWARE = 4,
  CHASSIS_NETWORK = 5,
  NAME = 5,
  LOCAL = 7
};
enum { FAMILY_IPV4 = 1, FAMILY_IPV6 = 2 }; /* IANA's numbers, which precede a network address. */

const uint8_t by_lldp_address[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e};
static const char agent_mark[] = "Banyan agent";

#define malformed(...) by_fail(BANYAN_ERR_PARSE, "LLDP frame: " __VA_ARGS__)

/* ---- reading */

struct value {
  const uint8_t *bytes;
  size_t length;
};

static void keep_text(struct value value, char out[BY_LLDP_TEXT]) {
  char text[BY_LLDP_TEXT];
  size_t n = value.length < BY_LLDP_TEXT - 1 ? value.length : BY_LLDP_TEXT - 1;
  memcpy(text, value.bytes, n);
  text[n] = '\0';
  by_keep_printable(text, out, BY_LLDP_TEXT);
}

static void keep_hardware(struct value value, char out[BY_LLDP_TEXT]) {
  size_t at = 0;
  for (size_t i = 0; i < value.length && at + 3 < BY_LLDP_TEXT; i++)
    at += (size_t)snprintf(out + at, BY_LLDP_TEXT - at, "%s%02x", i ? ":" : "", value.bytes[i]);
}

static void keep_network(struct value value, char out[BY_LLDP_TEXT]) {
  int family = value.length == 5 && value.bytes[0] == FAMILY_IPV4    ? AF_INET
               : value.length == 17 && value.bytes[0] == FAMILY_IPV6 ? AF_INET6
                                                                     : AF_UNSPEC;
  if (family == AF_UNSPEC || !inet_ntop(family, value.bytes + 1, out, BY_LLDP_TEXT)) keep_hardware(value, out);
}

static enum banyan_status keep_id(struct value value, uint8_t hardware, uint8_t network, const char *what,
                                  char out[BY_LLDP_TEXT]) {
  if (value.length < 2 || value.length > 256) return malformed("the ID of the %s has %zu bytes", what, value.length);
  struct value id = {value.bytes + 1, value.length - 1};
  if (value.bytes[0] == hardware)
    keep_hardware(id, out);
  else if (value.bytes[0] == network)
    keep_network(id, out);
  else
    keep_text(id, out);
  return *out ? BANYAN_OK : malformed("the ID of the %s is empty", what);
}

static enum banyan_status read_value(enum type type, struct value value, struct by_lldp *out) {
  switch (type) {
  case CHASSIS: return keep_id(value, CHASSIS_HARDWARE, CHASSIS_NETWORK, "chassis", out->chassis);
  case PORT: return keep_id(value, PORT_HARDWARE, PORT_NETWORK, "port", out->port);
  case TTL:
    if (value.length < 2) return malformed("its time to live has %zu bytes", value.length);
    out->ttl = (uint16_t)(value.bytes[0] << 8 | value.bytes[1]);
    return BANYAN_OK;
  case SYSTEM_NAME: keep_text(value, out->system); return BANYAN_OK;
  case SYSTEM_DESCRIPTION:
    out->agent = value.length >= strlen(agent_mark) && !memcmp(value.bytes, agent_mark, strlen(agent_mark));
    return BANYAN_OK;
  default: return BANYAN_OK;
  }
}

enum banyan_status by_lldp_read(const void *frame, size_t length, struct by_lldp *out) {
  const uint8_t *at = frame, *end = at + length;
  *out = (struct by_lldp){.ttl = 0};
  if (length < HEADER || (at[12] << 8 | at[13]) != BY_LLDP_TYPE) return malformed("it is of another type");
  at += HEADER;
  for (unsigned n = 0;; n++) {
    if (end - at < 2) return malformed("it has no end");
    unsigned type = at[0] >> 1;
    struct value value = {at + 2, (size_t)((at[0] & 1) << 8 | at[1])};
    if ((size_t)(end - value.bytes) < value.length) return malformed("a value of type %u is cut off", type);
    /* Chassis, port and time come first, in this order, and once. */
    if (n < TTL ? type != n + 1 : type >= CHASSIS && type <= TTL) return malformed("value %u is of type %u", n, type);
    if (type == END) return BANYAN_OK;
    BY_TRY(read_value((enum type)type, value, out));
    at = value.bytes + value.length;
  }
}

/* ---- writing */

static uint8_t *put_value(uint8_t *at, enum type type, const void *value, size_t length) {
  *at++ = (uint8_t)(type << 1 | length >> 8);
  *at++ = (uint8_t)length;
  if (length) memcpy(at, value, length);
  return at + length;
}

static uint8_t *put_id(uint8_t *at, enum type type, uint8_t subtype, const char *text) {
  uint8_t id[BY_LLDP_TEXT];
  size_t n = strlen(text);
  if (n > BY_LLDP_TEXT - 1) n = BY_LLDP_TEXT - 1;
  id[0] = subtype;
  memcpy(id + 1, text, n);
  return put_value(at, type, id, n + 1);
}

size_t by_lldp_write(const char *host, const char *interface, const uint8_t hardware[6], uint16_t ttl,
                     uint8_t out[BY_LLDP_FRAME]) {
  static const uint8_t ether_type[2] = {BY_LLDP_TYPE >> 8, BY_LLDP_TYPE & 0xff};
  const uint8_t time[2] = {(uint8_t)(ttl >> 8), (uint8_t)ttl};
  char description[64];
  snprintf(description, sizeof description, "%s %s", agent_mark, BANYAN_VERSION);
  memcpy(out, by_lldp_address, 6);
  memcpy(out + 6, hardware, 6);
  memcpy(out + 12, ether_type, 2);
  uint8_t *at = put_id(out + HEADER, CHASSIS, LOCAL, host);
  at = put_id(at, PORT, NAME, interface);
  at = put_value(at, TTL, time, sizeof time);
  at = put_value(at, SYSTEM_NAME, host, strnlen(host, BY_LLDP_TEXT - 1));
  at = put_value(at, SYSTEM_DESCRIPTION, description, strlen(description));
  return (size_t)(put_value(at, END, NULL, 0) - out);
}

/* ---- the neighbours of an interface */

const char *by_lldp_name(const struct by_lldp *info) {
  return *info->system ? info->system : info->chassis;
}

static void remove_neighbour(struct by_lldp_neighbours *neighbours, uint32_t i) {
  neighbours->all[i] = neighbours->all[--neighbours->n];
}

bool by_lldp_neighbours_add(struct by_lldp_neighbours *neighbours, const struct by_lldp *info, uint64_t now) {
  uint32_t i = 0, oldest = 0;
  for (; i < neighbours->n; i++) {
    if (!strcmp(neighbours->all[i].info.chassis, info->chassis) && !strcmp(neighbours->all[i].info.port, info->port))
      break;
    if (neighbours->all[i].received < neighbours->all[oldest].received) oldest = i;
  }
  bool known = i < neighbours->n;
  if (!info->ttl) {
    if (known) remove_neighbour(neighbours, i);
    return false;
  }
  if (!known) i = neighbours->n < BY_LLDP_NEIGHBOURS ? neighbours->n++ : oldest;
  neighbours->all[i] =
      (struct by_lldp_neighbour){.info = *info, .received = now, .expires = now + info->ttl * BY_SECOND};
  return !known;
}

uint64_t by_lldp_neighbours_expire(struct by_lldp_neighbours *neighbours, uint64_t now) {
  uint64_t next = UINT64_MAX;
  for (uint32_t i = 0; i < neighbours->n;) {
    if (neighbours->all[i].expires <= now)
      remove_neighbour(neighbours, i);
    else if (neighbours->all[i++].expires < next)
      next = neighbours->all[i - 1].expires;
  }
  return next;
}

static bool is_fresh(const struct by_lldp_neighbour *neighbour, uint64_t now) {
  return now < neighbour->received + (neighbour->expires - neighbour->received) / 2;
}

/* Tells whether a is the better neighbour: agents before others, recent before possibly gone, the last one first. */
static bool goes_before(const struct by_lldp_neighbour *a, const struct by_lldp_neighbour *b, uint64_t now) {
  if (a->info.agent != b->info.agent) return a->info.agent;
  if (is_fresh(a, now) != is_fresh(b, now)) return is_fresh(a, now);
  return a->received > b->received;
}

const struct by_lldp *by_lldp_neighbours_get(const struct by_lldp_neighbours *neighbours, uint64_t now, bool *several) {
  const struct by_lldp_neighbour *best = NULL;
  uint32_t fresh = 0;
  for (uint32_t i = 0; i < neighbours->n; i++)
    if (!best || goes_before(&neighbours->all[i], best, now)) best = &neighbours->all[i];
  for (uint32_t i = 0; i < neighbours->n; i++)
    fresh += neighbours->all[i].info.agent == best->info.agent && is_fresh(&neighbours->all[i], now);
  *several = fresh > 1;
  return best && !*several ? &best->info : NULL;
}

/* ---- the links of this host */

enum { PORTS = 64, FRAMES = 64 /* Maximum of frames received at once. */, LIFETIME = 12 /* Seconds. */ };

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
  size_t n = by_lldp_write(all->options.host, port->name, port->hardware, LIFETIME, frame);
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

static void tick_ports(void *context) {
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
  by_timer_init(&all->timer, tick_ports, all);
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
