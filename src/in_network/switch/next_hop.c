#include "next_hop.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/socket.h>

enum { NUD_VALID = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY };

/* ---- the interface */

struct device {
  unsigned flags;
  bool is_ethernet;
  uint8_t hardware[6];
};

static int take_device(const struct nlmsghdr *header, void *context) {
  struct device *device = context;
  const struct ifinfomsg *link = mnl_nlmsg_get_payload(header);
  const struct nlattr *attribute;
  device->flags = link->ifi_flags;
  mnl_attr_for_each(attribute, header, sizeof *link) {
    if (mnl_attr_get_type(attribute) != IFLA_ADDRESS || mnl_attr_get_payload_len(attribute) != 6) continue;
    device->is_ethernet = link->ifi_type == ARPHRD_ETHER;
    memcpy(device->hardware, mnl_attr_get_payload(attribute), 6);
  }
  return MNL_CB_OK;
}

static enum banyan_status look_at(struct by_netlink *netlink, unsigned interface, struct device *device) {
  struct by_netlink_request request;
  struct ifinfomsg *link = by_netlink_begin(&request, RTM_GETLINK, 0, sizeof *link);
  link->ifi_index = (int)interface;
  *device = (struct device){0};
  int reason = by_netlink_ask(netlink, &request, take_device, device);
  if (reason) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: interface %u", interface);
  if (!device->is_ethernet)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "switch: interface %u has no Ethernet address", interface);
  return BANYAN_OK;
}

/* ---- the route */

static int take_route(const struct nlmsghdr *header, void *context) {
  uint32_t *gateway = context;
  const struct nlattr *attribute;
  mnl_attr_for_each(attribute, header, sizeof(struct rtmsg)) {
    if (mnl_attr_get_type(attribute) == RTA_GATEWAY && mnl_attr_get_payload_len(attribute) == sizeof *gateway)
      memcpy(gateway, mnl_attr_get_payload(attribute), sizeof *gateway);
  }
  return MNL_CB_OK;
}

/* The gateway, or the address itself where it is on the link. */
static enum banyan_status find_gateway(struct by_netlink *netlink, unsigned interface, uint32_t address,
                                       uint32_t *gateway) {
  struct by_netlink_request request;
  struct rtmsg *route = by_netlink_begin(&request, RTM_GETROUTE, 0, sizeof *route);
  route->rtm_family = AF_INET;
  route->rtm_dst_len = 32;
  mnl_attr_put_u32(request.header, RTA_DST, address);
  mnl_attr_put_u32(request.header, RTA_OIF, interface);
  *gateway = address;
  int reason = by_netlink_ask(netlink, &request, take_route, gateway);
  return reason ? by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: no route") : BANYAN_OK;
}

/* ---- the neighbour */

struct neighbour {
  unsigned state;
  bool has_hardware;
  uint8_t hardware[6];
};

static int take_neighbour(const struct nlmsghdr *header, void *context) {
  struct neighbour *neighbour = context;
  const struct ndmsg *body = mnl_nlmsg_get_payload(header);
  const struct nlattr *attribute;
  neighbour->state = body->ndm_state;
  mnl_attr_for_each(attribute, header, sizeof *body) {
    if (mnl_attr_get_type(attribute) != NDA_LLADDR || mnl_attr_get_payload_len(attribute) != 6) continue;
    neighbour->has_hardware = true;
    memcpy(neighbour->hardware, mnl_attr_get_payload(attribute), 6);
  }
  return MNL_CB_OK;
}

static struct ndmsg *begin_neighbour(struct by_netlink_request *request, uint16_t type, uint16_t flags,
                                     unsigned interface, uint32_t address) {
  struct ndmsg *body = by_netlink_begin(request, type, flags, sizeof *body);
  body->ndm_family = AF_INET;
  body->ndm_ifindex = (int)interface;
  mnl_attr_put_u32(request->header, NDA_DST, address);
  return body;
}

/* As if a packet were to be sent there: finds it, or sees whether it is still there. */
static void use(struct by_netlink *netlink, unsigned interface, uint32_t address) {
  struct by_netlink_request request;
  struct ndmsg *body = begin_neighbour(&request, RTM_NEWNEIGH, NLM_F_CREATE, interface, address);
  body->ndm_flags = NTF_USE;
  (void)by_netlink_ask(netlink, &request, NULL, NULL);
}

static bool find_neighbour(struct by_netlink *netlink, unsigned interface, uint32_t address, uint8_t hardware[6]) {
  struct by_netlink_request request;
  struct neighbour neighbour = {0};
  begin_neighbour(&request, RTM_GETNEIGH, 0, interface, address);
  int reason = by_netlink_ask(netlink, &request, take_neighbour, &neighbour);
  if (reason || !(neighbour.state & (NUD_PERMANENT | NUD_REACHABLE))) use(netlink, interface, address);
  if (reason || !(neighbour.state & NUD_VALID) || !neighbour.has_hardware) return false;
  memcpy(hardware, neighbour.hardware, 6);
  return true;
}

enum banyan_status by_next_hop_find(struct by_netlink *netlink, unsigned interface, uint32_t address,
                                    uint8_t hardware[6], bool *found) {
  struct device device;
  uint32_t gateway;
  *found = true;
  BY_TRY(look_at(netlink, interface, &device));
  /* Without address resolution both ends of a link have one address. */
  if (device.flags & IFF_NOARP) memcpy(hardware, device.hardware, 6);
  if (device.flags & IFF_NOARP) return BANYAN_OK;
  BY_TRY(find_gateway(netlink, interface, address, &gateway));
  *found = find_neighbour(netlink, interface, gateway, hardware);
  return BANYAN_OK;
}
