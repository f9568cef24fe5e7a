#include "neighbours.h"

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

/* ---- next hops, asked of the kernel, which answers at once */

/* An interface, with IFF_ flags, or a neighbour, with a NUD_ state. */
struct end {
  unsigned flags;
  bool has_hardware;
  uint8_t hardware[6];
};

static void take_hardware(const struct nlmsghdr *header, size_t fixed, uint16_t type, struct end *end) {
  const struct nlattr *attribute;
  mnl_attr_for_each(attribute, header, fixed) {
    if (mnl_attr_get_type(attribute) != type || mnl_attr_get_payload_len(attribute) != 6) continue;
    end->has_hardware = true;
    memcpy(end->hardware, mnl_attr_get_payload(attribute), 6);
  }
}

static int take_device(const struct nlmsghdr *header, void *context) {
  struct end *device = context;
  const struct ifinfomsg *link = mnl_nlmsg_get_payload(header);
  device->flags = link->ifi_flags;
  if (link->ifi_type == ARPHRD_ETHER) take_hardware(header, sizeof *link, IFLA_ADDRESS, device);
  return MNL_CB_OK;
}

static int take_neighbour(const struct nlmsghdr *header, void *context) {
  struct end *neighbour = context;
  const struct ndmsg *body = mnl_nlmsg_get_payload(header);
  neighbour->flags = body->ndm_state;
  take_hardware(header, sizeof *body, NDA_LLADDR, neighbour);
  return MNL_CB_OK;
}

static int take_route(const struct nlmsghdr *header, void *context) {
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

/* The gateway, or the address itself where it is on the link. */
static enum banyan_status find_gateway(struct by_netlink *netlink, unsigned interface, const struct in6_addr *address,
                                       struct in6_addr *gateway) {
  struct by_netlink_request request;
  struct rtmsg *route = by_netlink_begin(&request, RTM_GETROUTE, 0, sizeof *route);
  route->rtm_family = by_netlink_family(address);
  route->rtm_dst_len = by_netlink_host_bits(address);
  by_netlink_put_host(&request, RTA_DST, address);
  mnl_attr_put_u32(request.header, RTA_OIF, interface);
  *gateway = *address;
  int reason = by_netlink_ask(netlink, &request, take_route, gateway);
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

/* False: not known yet. Then the kernel is asked to find it, as if a packet were to be sent there. */
static bool find_neighbour(struct by_netlink *netlink, unsigned interface, const struct in6_addr *address,
                           uint8_t hardware[6]) {
  struct by_netlink_request request;
  struct end neighbour = {0};
  begin_neighbour(&request, RTM_GETNEIGH, 0, interface, address);
  int reason = by_netlink_ask(netlink, &request, take_neighbour, &neighbour);
  if (reason || !(neighbour.flags & (NUD_PERMANENT | NUD_REACHABLE))) {
    begin_neighbour(&request, RTM_NEWNEIGH, NLM_F_CREATE, interface, address)->ndm_flags = NTF_USE;
    (void)by_netlink_ask(netlink, &request, NULL, NULL);
  }
  if (reason || !(neighbour.flags & NUD_VALID) || !neighbour.has_hardware) return false;
  memcpy(hardware, neighbour.hardware, 6);
  return true;
}

/* The next hop of what leaves an interface for an address: routes have the gateway, neighbours the hardware address.
 * *found false: not known yet. IP over Ethernet. */
static enum banyan_status find_next_hop(struct by_netlink *netlink, unsigned interface, const struct in6_addr *address,
                                        uint8_t hardware[6], bool *found) {
  struct by_netlink_request request;
  struct end device = {0};
  struct ifinfomsg *link = by_netlink_begin(&request, RTM_GETLINK, 0, sizeof *link);
  struct in6_addr gateway;
  link->ifi_index = (int)interface;
  *found = true;
  int reason = by_netlink_ask(netlink, &request, take_device, &device);
  if (reason) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: interface %u", interface);
  if (!device.has_hardware)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "switch: interface %u has no Ethernet address", interface);
  if (device.flags & IFF_NOARP) { /* without address resolution both ends of a link have one address */
    memcpy(hardware, device.hardware, 6);
    return BANYAN_OK;
  }
  BY_TRY(find_gateway(netlink, interface, address, &gateway));
  *found = find_neighbour(netlink, interface, &gateway, hardware);
  return BANYAN_OK;
}

/* ---- what grants need */

struct by_switch_neighbour {
  uint32_t port;
  struct in6_addr address;
  uint32_t wanted; /* times */
  bool known;
  bool named; /* to the plane, as this: */
  uint8_t hardware[6], notified[6];
};

enum banyan_status by_neighbours_init(struct by_neighbours *neighbours, const struct by_plane *plane,
                                      const unsigned *interfaces, uint32_t most) {
  *neighbours = (struct by_neighbours){.plane = plane, .interfaces = interfaces, .most = most};
  if (!(neighbours->all = calloc(most, sizeof *neighbours->all)))
    return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  return plane->ops->needs_neighbours ? by_netlink_open(&neighbours->netlink) : BANYAN_OK;
}

void by_neighbours_fini(struct by_neighbours *neighbours) {
  by_netlink_close(&neighbours->netlink);
  free(neighbours->all);
}

static struct by_switch_neighbour *find(const struct by_neighbours *neighbours, uint32_t port,
                                        const struct in6_addr *address) {
  for (uint32_t i = 0; i < neighbours->n; i++)
    if (neighbours->all[i].port == port && IN6_ARE_ADDR_EQUAL(&neighbours->all[i].address, address))
      return &neighbours->all[i];
  return NULL;
}

/* ---- what the plane is notified of */

static enum banyan_status notify(const struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address,
                                 const uint8_t *hardware) {
  return neighbours->plane->ops->set_neighbour(neighbours->plane->self, port, address, hardware);
}

/* Names come first, so that nothing goes to the wrong one meanwhile. */
static enum banyan_status settle(struct by_neighbours *neighbours, uint32_t port) {
  uint32_t first = 0;
  const uint8_t *other; /* of all that leaves the port and is not named */
  while (first < neighbours->n && !(neighbours->all[first].port == port && neighbours->all[first].known)) first++;
  if (first == neighbours->n) return notify(neighbours, port, NULL, NULL);
  other = neighbours->all[first].hardware;
  for (uint32_t i = first; i < neighbours->n; i++) {
    struct by_switch_neighbour *neighbour = &neighbours->all[i];
    if (neighbour->port != port || !neighbour->known || !memcmp(neighbour->hardware, other, 6)) continue;
    if (neighbour->named && !memcmp(neighbour->notified, neighbour->hardware, 6)) continue;
    BY_TRY(notify(neighbours, port, &neighbour->address, neighbour->hardware));
    memcpy(neighbour->notified, neighbour->hardware, 6);
    neighbour->named = true;
  }
  BY_TRY(notify(neighbours, port, NULL, other));
  for (uint32_t i = 0; i < neighbours->n; i++) {
    struct by_switch_neighbour *neighbour = &neighbours->all[i];
    if (neighbour->port != port || !neighbour->named || memcmp(neighbour->hardware, other, 6)) continue;
    BY_TRY(notify(neighbours, port, &neighbour->address, NULL));
    neighbour->named = false;
  }
  return BANYAN_OK;
}

/* ---- what is wanted */

void by_neighbours_add(struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address) {
  struct by_switch_neighbour *neighbour = find(neighbours, port, address);
  assert(neighbour || neighbours->n < neighbours->most);
  if (!neighbour) {
    neighbour = &neighbours->all[neighbours->n++];
    *neighbour = (struct by_switch_neighbour){.port = port, .address = *address};
  }
  neighbour->wanted++;
}

void by_neighbours_drop(struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address) {
  struct by_switch_neighbour *neighbour = find(neighbours, port, address);
  if (!neighbour || --neighbour->wanted) return;
  if (neighbour->named) (void)notify(neighbours, port, address, NULL);
  *neighbour = neighbours->all[--neighbours->n];
  if (neighbours->plane->ops->needs_neighbours) (void)settle(neighbours, port);
}

bool by_neighbours_know(const struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address,
                        uint8_t hardware[6]) {
  const struct by_switch_neighbour *neighbour = find(neighbours, port, address);
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
  /* One that does not answer may be back in a moment: it is kept. */
  if (!found || (neighbour->known && !memcmp(neighbour->hardware, hardware, 6))) return BANYAN_OK;
  memcpy(neighbour->hardware, hardware, 6);
  neighbour->known = *changed = true;
  return settle(neighbours, neighbour->port);
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
