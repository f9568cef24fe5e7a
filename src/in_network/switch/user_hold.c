#include "user_hold.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netlink.h"

/* local default dev DEVICE table TABLE */
static enum banyan_status add_route(const char *device, uint32_t table) {
  struct by_netlink netlink;
  struct by_netlink_request request;
  struct rtmsg *route = by_netlink_begin(&request, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof *route);
  route->rtm_family = AF_INET;
  route->rtm_protocol = RTPROT_STATIC;
  route->rtm_scope = RT_SCOPE_HOST;
  route->rtm_type = RTN_LOCAL;
  mnl_attr_put_u32(request.header, RTA_OIF, if_nametoindex(device));
  mnl_attr_put_u32(request.header, RTA_TABLE, table);
  BY_TRY(by_netlink_open(&netlink));
  int reason = by_netlink_ask(&netlink, &request, NULL, NULL);
  by_netlink_close(&netlink);
  if (reason == EEXIST)
    return by_fail(
        BANYAN_ERR_ARGUMENT,
        "switch: routing table %u has a default route already: another switch of this kind runs here, or other "
        "software uses the table (ip route show table %u)",
        table, table);
  if (reason) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: no local route in table %u", table);
  return BANYAN_OK;
}

static enum banyan_status bring_up(const char *device) {
  struct ifreq request = {.ifr_flags = IFF_UP};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", device);
  int reason = fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) ? errno : 0;
  if (fd >= 0) close(fd);
  return reason ? by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: %s does not come up", device) : BANYAN_OK;
}

static enum banyan_status make_device(int fd, uint32_t table) {
  struct ifreq request = {.ifr_name = "banyan%d", .ifr_flags = IFF_TUN | IFF_NO_PI};
  if (ioctl(fd, TUNSETIFF, &request))
    return by_fail_errno(errno == EPERM ? BANYAN_ERR_UNSUPPORTED : BANYAN_ERR_SYSTEM, errno,
                         "switch: cannot make a TUN device (CAP_NET_ADMIN is needed)");
  BY_TRY(bring_up(request.ifr_name));
  return add_route(request.ifr_name, table);
}

enum banyan_status by_hold_route(uint32_t table, int *out) {
  int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  *out = -1;
  if (fd < 0) return by_fail_errno(BANYAN_ERR_UNSUPPORTED, errno, "switch: cannot open /dev/net/tun (modprobe tun?)");
  enum banyan_status status = make_device(fd, table);
  if (status == BANYAN_OK)
    *out = fd;
  else
    close(fd);
  return status;
}
