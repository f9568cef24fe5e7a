/* Finds next hops by requests to the kernel, and sets them in the data plane. */
#include "reservations.h"

#include <assert.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { NUD_VALID = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY };

/* ---- requests to the kernel, which answers at once */

/* An interface, with IFF_ flags, or a neighbour, with a NUD_ state. */
struct end {
  unsigned flags;
  bool has_hardware;
  uint8_t hardware[6];
};

static void read_hardware(const struct nlmsghdr *header, size_t fixed, uint16_t type, struct end *end) {
  const struct nlattr *attribute;
  mnl_attr_for_each(attribute, header, fixed) {
    if (mnl_attr_get_type(attribute) != type || mnl_attr_get_payload_len(attribute) != 6) continue;
    end->has_hardware = true;
    memcpy(end->hardware, mnl_attr_get_payload(attribute), 6);
  }
}

static int read_device(const struct nlmsghdr *header, void *context) {
  struct end *device = context;
  const struct ifinfomsg *link = mnl_nlmsg_get_payload(header);
  device->flags = link->ifi_flags;
  if (link->ifi_type == ARPHRD_ETHER) read_hardware(header, sizeof *link, IFLA_ADDRESS, device);
  return MNL_CB_OK;
}

static int read_neighbour(const struct nlmsghdr *header, void *context) {
  struct end *neighbour = context;
  const struct ndmsg *body = mnl_nlmsg_get_payload(header);
  neighbour->flags = body->ndm_state;
  read_hardware(header, sizeof *body, NDA_LLADDR, neighbour);
  return MNL_CB_OK;
}

static int read_route(const struct nlmsghdr *header, void *context) {
  struct in6_addr *gateway = context;
  const struct nlattr *attribute;
  mnl_attr_for_each(attribute, header, sizeof(struct rtmsg)) {
    const void *bytes = mnl_attr_get_payload(attribute);
    uint16_t type = mnl_attr_get_type(attribute), length = mnl_attr_get_payload_len(attribute);
    struct in_addr four;
    if (type == RTA_GATEWAY && length == sizeof four)
      *gateway = by_host_of_ipv4(*(struct in_addr *)memcpy(&four, bytes, sizeof four));
    else if (type == RTA_GATEWAY && length == sizeof *gateway)
      memcpy(gateway, bytes, sizeof *gateway);
  }
  return MNL_CB_OK;
}

/* Finds the gateway, or the address itself if it is on the link. */
static enum banyan_status find_gateway(struct by_netlink *netlink, unsigned interface, const struct in6_addr *address,
                                       struct in6_addr *gateway) {
  struct by_netlink_request request;
  struct rtmsg *route = by_netlink_begin(&request, RTM_GETROUTE, 0, sizeof *route);
  route->rtm_family = by_netlink_family(address);
  route->rtm_dst_len = by_netlink_host_bits(address);
  by_netlink_put_host(&request, RTA_DST, address);
  mnl_attr_put_u32(request.header, RTA_OIF, interface);
  *gateway = *address;
  int reason = by_netlink_ask(netlink, &request, read_route, gateway);
  return reason ? by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: no route") : BANYAN_OK;
}

static struct ndmsg *begin_neighbour(struct by_netlink_request *request, uint16_t type, uint16_t flags,
                                     unsigned interface, const struct in6_addr *address) {
  struct ndmsg *body = by_netlink_begin(request, type, flags, sizeof *body);
  body->ndm_family = by_netlink_family(address);
  body->ndm_ifindex = (int)interface;
  by_netlink_put_host(request, NDA_DST, address);
  return body;
}

/* Finds the hardware address. Returns false if it is unknown, and makes the kernel resolve it as if a packet was to be
 * sent. */
static bool find_neighbour(struct by_netlink *netlink, unsigned interface, const struct in6_addr *address,
                           uint8_t hardware[6]) {
  struct by_netlink_request request;
  struct end neighbour = {0};
  begin_neighbour(&request, RTM_GETNEIGH, 0, interface, address);
  int reason = by_netlink_ask(netlink, &request, read_neighbour, &neighbour);
  if (reason || !(neighbour.flags & (NUD_PERMANENT | NUD_REACHABLE))) {
    begin_neighbour(&request, RTM_NEWNEIGH, NLM_F_CREATE, interface, address)->ndm_flags = NTF_USE;
    (void)by_netlink_ask(netlink, &request, NULL, NULL);
  }
  if (reason || !(neighbour.flags & NUD_VALID) || !neighbour.has_hardware) return false;
  memcpy(hardware, neighbour.hardware, 6);
  return true;
}

/* Finds the next hop of packets that leave an interface for an address: routes have the gateway, neighbours the
 * hardware address. *found false: not known yet. IP over Ethernet. */
static enum banyan_status find_next_hop(struct by_netlink *netlink, unsigned interface, const struct in6_addr *address,
                                        uint8_t hardware[6], bool *found) {
  struct by_netlink_request request;
  struct end device = {0};
  struct ifinfomsg *link = by_netlink_begin(&request, RTM_GETLINK, 0, sizeof *link);
  struct in6_addr gateway;
  link->ifi_index = (int)interface;
  *found = true;
  int reason = by_netlink_ask(netlink, &request, read_device, &device);
  if (reason) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: interface %u", interface);
  if (!device.has_hardware)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "switch: interface %u has no Ethernet address", interface);
  if (device.flags & IFF_NOARP) { /* Without address resolution both ends of a link have one address. */
    memcpy(hardware, device.hardware, 6);
    return BANYAN_OK;
  }
  BY_TRY(find_gateway(netlink, interface, address, &gateway));
  *found = find_neighbour(netlink, interface, &gateway, hardware);
  return BANYAN_OK;
}

/* ---- addresses that grants need */

struct by_switch_neighbour {
  uint32_t port;
  struct in6_addr address;
  uint32_t wanted; /* Number of uses. */
  bool known;
  bool named; /* The plane has an entry for it, with the address `notified`. */
  uint8_t hardware[6], notified[6];
};

enum banyan_status by_neighbours_init(struct by_neighbours *neighbours, const struct by_plane *plane,
                                      const unsigned *interfaces, uint32_t max) {
  *neighbours = (struct by_neighbours){.plane = plane, .interfaces = interfaces, .max = max};
  if (!(neighbours->all = calloc(max, sizeof *neighbours->all)))
    return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  return plane->ops->needs_neighbours ? by_netlink_open(&neighbours->netlink) : BANYAN_OK;
}

void by_neighbours_fini(struct by_neighbours *neighbours) {
  by_netlink_close(&neighbours->netlink);
  free(neighbours->all);
}

static struct by_switch_neighbour *find_neighbour_of(const struct by_neighbours *neighbours, uint32_t port,
                                                     const struct in6_addr *address) {
  for (uint32_t i = 0; i < neighbours->n; i++)
    if (neighbours->all[i].port == port && IN6_ARE_ADDR_EQUAL(&neighbours->all[i].address, address))
      return &neighbours->all[i];
  return NULL;
}

/* ---- entries of the plane */

static enum banyan_status set_entry(const struct by_neighbours *neighbours, uint32_t port,
                                    const struct in6_addr *address, const uint8_t *hardware) {
  return neighbours->plane->ops->set_neighbour(neighbours->plane->self, port, address, hardware);
}

/* Updates the plane's entries for a port. Entries of single addresses come first, so that no packet takes the wrong
 * path meanwhile. */
static enum banyan_status update_entries(struct by_neighbours *neighbours, uint32_t port) {
  uint32_t first = 0;
  const uint8_t *other; /* Next hop of all packets without an entry for their address. */
  while (first < neighbours->n && !(neighbours->all[first].port == port && neighbours->all[first].known)) first++;
  if (first == neighbours->n) return set_entry(neighbours, port, NULL, NULL);
  other = neighbours->all[first].hardware;
  for (uint32_t i = first; i < neighbours->n; i++) {
    struct by_switch_neighbour *neighbour = &neighbours->all[i];
    if (neighbour->port != port || !neighbour->known || !memcmp(neighbour->hardware, other, 6)) continue;
    if (neighbour->named && !memcmp(neighbour->notified, neighbour->hardware, 6)) continue;
    BY_TRY(set_entry(neighbours, port, &neighbour->address, neighbour->hardware));
    memcpy(neighbour->notified, neighbour->hardware, 6);
    neighbour->named = true;
  }
  BY_TRY(set_entry(neighbours, port, NULL, other));
  for (uint32_t i = 0; i < neighbours->n; i++) {
    struct by_switch_neighbour *neighbour = &neighbours->all[i];
    if (neighbour->port != port || !neighbour->named || memcmp(neighbour->hardware, other, 6)) continue;
    BY_TRY(set_entry(neighbours, port, &neighbour->address, NULL));
    neighbour->named = false;
  }
  return BANYAN_OK;
}

/* ---- uses */

void by_neighbours_add(struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address) {
  struct by_switch_neighbour *neighbour = find_neighbour_of(neighbours, port, address);
  assert(neighbour || neighbours->n < neighbours->max);
  if (!neighbour) {
    neighbour = &neighbours->all[neighbours->n++];
    *neighbour = (struct by_switch_neighbour){.port = port, .address = *address};
  }
  neighbour->wanted++;
}

void by_neighbours_drop(struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address) {
  struct by_switch_neighbour *neighbour = find_neighbour_of(neighbours, port, address);
  if (!neighbour || --neighbour->wanted) return;
  if (neighbour->named) (void)set_entry(neighbours, port, address, NULL);
  *neighbour = neighbours->all[--neighbours->n];
  if (neighbours->plane->ops->needs_neighbours) (void)update_entries(neighbours, port);
}

bool by_neighbours_know(const struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address,
                        uint8_t hardware[6]) {
  const struct by_switch_neighbour *neighbour = find_neighbour_of(neighbours, port, address);
  memset(hardware, 0, 6);
  if (!neighbours->plane->ops->needs_neighbours) return true;
  if (!neighbour || !neighbour->known) return false;
  memcpy(hardware, neighbour->hardware, 6);
  return true;
}

static enum banyan_status look_up(struct by_neighbours *neighbours, struct by_switch_neighbour *neighbour,
                                  bool *changed) {
  uint8_t hardware[6];
  bool found;
  BY_TRY(find_next_hop(&neighbours->netlink, neighbours->interfaces[neighbour->port], &neighbour->address, hardware,
                       &found));
  /* A neighbour that does not answer may be back soon, so it is kept. */
  if (!found || (neighbour->known && !memcmp(neighbour->hardware, hardware, 6))) return BANYAN_OK;
  memcpy(neighbour->hardware, hardware, 6);
  neighbour->known = *changed = true;
  return update_entries(neighbours, neighbour->port);
}

enum banyan_status by_neighbours_refresh(struct by_neighbours *neighbours, bool all, bool *changed) {
  enum banyan_status status = BANYAN_OK;
  *changed = false;
  if (!neighbours->plane->ops->needs_neighbours) return BANYAN_OK;
  for (uint32_t i = 0; i < neighbours->n; i++) {
    if (!all && neighbours->all[i].known) continue;
    enum banyan_status here = look_up(neighbours, &neighbours->all[i], changed);
    if (here != BANYAN_OK) status = here;
  }
  return status;
}
