#include "next_hop.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/socket.h>

enum { ANSWER = 1 << 14, NUD_VALID = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY };

struct request {
  char bytes[256];
  struct nlmsghdr *header;
};

static void *begin(struct request *request, uint16_t type, uint16_t flags, size_t fixed) {
  memset(request->bytes, 0, sizeof request->bytes);
  request->header = mnl_nlmsg_put_header(request->bytes);
  request->header->nlmsg_type = type;
  request->header->nlmsg_flags = NLM_F_REQUEST | flags;
  return mnl_nlmsg_put_extra_header(request->header, fixed);
}

/* Sends it and hears the one answer; `take` gets it. 0, or errno. */
static int ask(struct by_next_hop *next_hop, struct request *request, mnl_cb_t take, void *context) {
  char answer[ANSWER];
  unsigned port = mnl_socket_get_portid(next_hop->socket);
  request->header->nlmsg_seq = ++next_hop->sequence;
  if (mnl_socket_sendto(next_hop->socket, request->header, request->header->nlmsg_len) < 0) return errno;
  ssize_t n = mnl_socket_recvfrom(next_hop->socket, answer, sizeof answer);
  if (n < 0) return errno;
  return mnl_cb_run(answer, (size_t)n, next_hop->sequence, port, take, context) < 0 ? errno : 0;
}

enum banyan_status by_next_hop_open(struct by_next_hop *next_hop) {
  *next_hop = (struct by_next_hop){.socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC)};
  if (next_hop->socket && mnl_socket_bind(next_hop->socket, 0, MNL_SOCKET_AUTOPID) >= 0) return BANYAN_OK;
  int reason = errno;
  by_next_hop_close(next_hop);
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: cannot ask the kernel for routes");
}

void by_next_hop_close(struct by_next_hop *next_hop) {
  if (next_hop->socket) mnl_socket_close(next_hop->socket);
  next_hop->socket = NULL;
}

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

static enum banyan_status look_at(struct by_next_hop *next_hop, unsigned interface, struct device *device) {
  struct request request;
  struct ifinfomsg *link = begin(&request, RTM_GETLINK, 0, sizeof *link);
  link->ifi_index = (int)interface;
  *device = (struct device){0};
  int reason = ask(next_hop, &request, take_device, device);
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
static enum banyan_status find_gateway(struct by_next_hop *next_hop, unsigned interface, uint32_t address,
                                       uint32_t *gateway) {
  struct request request;
  struct rtmsg *route = begin(&request, RTM_GETROUTE, 0, sizeof *route);
  route->rtm_family = AF_INET;
  route->rtm_dst_len = 32;
  mnl_attr_put_u32(request.header, RTA_DST, address);
  mnl_attr_put_u32(request.header, RTA_OIF, interface);
  *gateway = address;
  int reason = ask(next_hop, &request, take_route, gateway);
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

static struct ndmsg *begin_neighbour(struct request *request, uint16_t type, uint16_t flags, unsigned interface,
                                     uint32_t address) {
  struct ndmsg *body = begin(request, type, flags, sizeof *body);
  body->ndm_family = AF_INET;
  body->ndm_ifindex = (int)interface;
  mnl_attr_put_u32(request->header, NDA_DST, address);
  return body;
}

/* As if a packet were to be sent there: finds it, or sees whether it is still there. */
static void use(struct by_next_hop *next_hop, unsigned interface, uint32_t address) {
  struct request request;
  struct ndmsg *body = begin_neighbour(&request, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, interface, address);
  body->ndm_flags = NTF_USE;
  (void)ask(next_hop, &request, NULL, NULL);
}

static bool find_neighbour(struct by_next_hop *next_hop, unsigned interface, uint32_t address, uint8_t hardware[6]) {
  struct request request;
  struct neighbour neighbour = {0};
  begin_neighbour(&request, RTM_GETNEIGH, 0, interface, address);
  int reason = ask(next_hop, &request, take_neighbour, &neighbour);
  if (reason || !(neighbour.state & (NUD_PERMANENT | NUD_REACHABLE))) use(next_hop, interface, address);
  if (reason || !(neighbour.state & NUD_VALID) || !neighbour.has_hardware) return false;
  memcpy(hardware, neighbour.hardware, 6);
  return true;
}

enum banyan_status by_next_hop_find(struct by_next_hop *next_hop, unsigned interface, uint32_t address,
                                    uint8_t hardware[6], bool *found) {
  struct device device;
  uint32_t gateway;
  *found = true;
  BY_TRY(look_at(next_hop, interface, &device));
  /* Without address resolution both ends of a link have one address. */
  if (device.flags & IFF_NOARP) memcpy(hardware, device.hardware, 6);
  if (device.flags & IFF_NOARP) return BANYAN_OK;
  BY_TRY(find_gateway(next_hop, interface, address, &gateway));
  *found = find_neighbour(next_hop, interface, gateway, hardware);
  return BANYAN_OK;
}
