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

struct number {
  struct rtattr attribute;
  uint32_t value;
};

struct request {
  struct nlmsghdr head;
  struct rtmsg route;
  struct number device, table;
};

struct answer {
  struct nlmsghdr head;
  struct nlmsgerr error;
  char rest[sizeof(struct request)];
};

static struct number number_of(unsigned short type, uint32_t value) {
  return (struct number){{.rta_len = sizeof(struct number), .rta_type = type}, value};
}

/* What errno would be, or 0. */
static int ask(int fd, const struct request *request) {
  struct answer answer;
  if (send(fd, request, sizeof *request, 0) != (ssize_t)sizeof *request) return errno;
  ssize_t n = recv(fd, &answer, sizeof answer, 0);
  if (n < 0) return errno;
  if (n < (ssize_t)(sizeof answer.head + sizeof answer.error) || answer.head.nlmsg_type != NLMSG_ERROR) return EPROTO;
  return -answer.error.error;
}

/* local default dev DEVICE table TABLE */
static enum banyan_status add_route(const char *device, uint32_t table) {
  struct request request = {.head = {.nlmsg_len = sizeof request,
                                     .nlmsg_type = RTM_NEWROUTE,
                                     .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL},
                            .route = {.rtm_family = AF_INET,
                                      .rtm_protocol = RTPROT_STATIC,
                                      .rtm_scope = RT_SCOPE_HOST,
                                      .rtm_type = RTN_LOCAL},
                            .device = number_of(RTA_OIF, if_nametoindex(device)),
                            .table = number_of(RTA_TABLE, table)};
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: cannot ask for a route");
  int reason = ask(fd, &request);
  close(fd);
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
