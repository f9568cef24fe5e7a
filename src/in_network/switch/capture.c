/* Captures flows of packets with a TUN device, a routing table and routing rules. */
#include "user_queue.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fib_rules.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "address.h"
#include "log.h"
#include "netlink.h"

struct by_capture {
  int fd;         /* Descriptor of the device. */
  int lacks_ipv6; /* The error of adding a route for IPv6; 0 if there is a route. */
  struct by_netlink netlink;
};

/* ---- requests to the kernel, which return 0 or errno */

/* Requests: local default dev DEVICE table TABLE */
static int add_route(struct by_capture *capture, uint8_t family, unsigned device) {
  struct by_netlink_request request;
  struct rtmsg *route = by_netlink_begin(&request, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof *route);
  route->rtm_family = family;
  route->rtm_protocol = RTPROT_STATIC;
  route->rtm_scope = RT_SCOPE_HOST;
  route->rtm_type = RTN_LOCAL;
  mnl_attr_put_u32(request.header, RTA_OIF, device);
  mnl_attr_put_u32(request.header, RTA_TABLE, BY_CAPTURE_TABLE);
  return by_netlink_ask(&capture->netlink, &request, NULL, NULL);
}

static void put_port(struct by_netlink_request *request, uint16_t type, uint16_t port) {
  const struct fib_rule_port_range range = {.start = ntohs(port), .end = ntohs(port)};
  mnl_attr_put(request->header, type, sizeof range, &range);
}

/* Requests: iif INTERFACE from ADDRESS to ADDRESS ipproto udp sport PORT dport PORT lookup TABLE. With a rule that
 * matches more, the kernel would drop packets that are not captured: it takes the sender's address for its own if a
 * packet to that address would be captured. */
static int change_rule(struct by_capture *capture, bool there, const struct by_capture_flow *flow) {
  struct by_netlink_request request;
  struct fib_rule_hdr *rule = by_netlink_begin(&request, there ? RTM_NEWRULE : RTM_DELRULE,
                                               there ? NLM_F_CREATE | NLM_F_EXCL : 0, sizeof *rule);
  rule->family = by_netlink_family(&flow->to.address);
  rule->src_len = rule->dst_len = by_netlink_host_bits(&flow->to.address);
  rule->action = FR_ACT_TO_TBL;
  mnl_attr_put_u32(request.header, FRA_PRIORITY, BY_CAPTURE_TABLE);
  mnl_attr_put_strz(request.header, FRA_IIFNAME, flow->interface);
  by_netlink_put_host(&request, FRA_SRC, &flow->from.address);
  by_netlink_put_host(&request, FRA_DST, &flow->to.address);
  mnl_attr_put_u8(request.header, FRA_IP_PROTO, IPPROTO_UDP);
  put_port(&request, FRA_SPORT_RANGE, flow->from.port);
  put_port(&request, FRA_DPORT_RANGE, flow->to.port);
  mnl_attr_put_u32(request.header, FRA_TABLE, BY_CAPTURE_TABLE);
  return by_netlink_ask(&capture->netlink, &request, NULL, NULL);
}

/* Copies the first rule of our priority that selects the table. */
static int copy_rule(const struct nlmsghdr *header, void *context) {
  struct by_netlink_request *found = context;
  uint32_t table, priority;
  by_netlink_copy(by_netlink_find(header, sizeof(struct fib_rule_hdr), FRA_TABLE), &table, sizeof table);
  by_netlink_copy(by_netlink_find(header, sizeof(struct fib_rule_hdr), FRA_PRIORITY), &priority, sizeof priority);
  bool is_ours = table == BY_CAPTURE_TABLE && priority == BY_CAPTURE_TABLE;
  if (found->header || !is_ours || header->nlmsg_len > sizeof found->bytes) return MNL_CB_OK;
  memcpy(found->bytes, header, header->nlmsg_len);
  found->header = (struct nlmsghdr *)(void *)found->bytes;
  return MNL_CB_OK;
}

/* Removes the rules of a process that was killed. */
static int remove_rules(struct by_capture *capture, uint8_t family) {
  for (;;) {
    struct by_netlink_request request, found = {.header = NULL};
    struct fib_rule_hdr *rule = by_netlink_begin(&request, RTM_GETRULE, NLM_F_DUMP, sizeof *rule);
    rule->family = family;
    int reason = by_netlink_receive(&capture->netlink, &request, copy_rule, &found);
    if (reason || !found.header) return reason;
    found.header->nlmsg_type = RTM_DELRULE;
    found.header->nlmsg_flags = NLM_F_REQUEST;
    reason = by_netlink_ask(&capture->netlink, &found, NULL, NULL);
    if (reason) return reason;
  }
}

/* ---- the device */

/* The kernel may lack IPv6, which is reported when a job needs it. */
static enum banyan_status claim_table(struct by_capture *capture, uint8_t family, const char *device) {
  int reason = add_route(capture, family, if_nametoindex(device));
  if (reason == EEXIST)
    return by_fail(
        BANYAN_ERR_ARGUMENT,
        "switch: routing table %d has a default route already: another switch of this kind runs here, or other "
        "software uses the table (ip route show table %d)",
        BY_CAPTURE_TABLE, BY_CAPTURE_TABLE);
  if (reason && family == AF_INET6) {
    capture->lacks_ipv6 = reason;
    return BANYAN_OK;
  }
  if (reason) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: no local route in table %d", BY_CAPTURE_TABLE);
  reason = remove_rules(capture, family);
  if (!reason) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: cannot remove the routing rules of an earlier switch");
}

static enum banyan_status make_device(struct by_capture *capture) {
  struct ifreq request = {.ifr_name = "banyan%d", .ifr_flags = IFF_TUN | IFF_NO_PI}, up = {.ifr_flags = IFF_UP};
  capture->fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (capture->fd < 0)
    return by_fail_errno(BANYAN_ERR_UNSUPPORTED, errno, "switch: cannot open /dev/net/tun (modprobe tun?)");
  if (ioctl(capture->fd, TUNSETIFF, &request))
    return by_fail_errno(errno == EPERM ? BANYAN_ERR_UNSUPPORTED : BANYAN_ERR_SYSTEM, errno,
                         "switch: cannot make a TUN device (CAP_NET_ADMIN is needed)");
  int reason = by_interface_ask(request.ifr_name, SIOCSIFFLAGS, &up);
  if (reason) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: %s does not come up", request.ifr_name);
  BY_TRY(claim_table(capture, AF_INET, request.ifr_name));
  return claim_table(capture, AF_INET6, request.ifr_name);
}

enum banyan_status by_capture_open(struct by_capture **out) {
  struct by_capture *capture = calloc(1, sizeof *capture);
  *out = NULL;
  if (!capture) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  capture->fd = -1;
  enum banyan_status status = by_netlink_open(&capture->netlink);
  if (status == BANYAN_OK) status = make_device(capture);
  if (status == BANYAN_OK)
    *out = capture;
  else
    by_capture_close(capture);
  return status;
}

/* ---- flows */

enum banyan_status by_capture_add(struct by_capture *capture, const struct by_capture_flow *flow) {
  if (capture->lacks_ipv6 && !by_host_is_ipv4(&flow->to.address))
    return by_fail_errno(BANYAN_ERR_UNSUPPORTED, capture->lacks_ipv6,
                         "switch: this machine takes no IPv6 (sysctl net.ipv6.conf.all.disable_ipv6?)");
  int reason = change_rule(capture, true, flow);
  if (!reason) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason,
                       "switch: the kernel takes no routing rule for UDP ports (CONFIG_IP_MULTIPLE_TABLES)");
}

void by_capture_drop(struct by_capture *capture, const struct by_capture_flow *flow) {
  int reason = change_rule(capture, false, flow);
  if (reason) by_info("switch", "a routing rule of %s stays: %s", flow->interface, strerror(reason));
}

void by_capture_close(struct by_capture *capture) {
  if (!capture) return;
  by_netlink_close(&capture->netlink);
  if (capture->fd >= 0) close(capture->fd);
  free(capture);
}
