/* A switch of ordinary sockets: takes fragments that are addressed to others,
 * passes each through by_switch_step and sends on what comes out, many in one
 * system call. Where XDP is not to be had, or for comparison.
 *
 * A port is an interface; the next hop is that of the host's routes for the
 * packet's address by that interface. Where they are others for other
 * traffic: ip rule add oif IF lookup T. Servers and workers all use one UDP
 * port. The host's rules select what is taken, for each port IF
 *
 *   ip rule add iif IF ipproto udp dport 7612 lookup 7612
 *
 * and starting fills that table as long as the process lives; without it the
 * kernel forwards as before (net.ipv4.ip_forward=1). Needs root (CAP_NET_ADMIN)
 * and /dev/net/tun. All memory is there from the start; what a grant needs, when
 * it is given. One thread at a time: the loop's. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "data_plane.h"
#include "datagram.h"
#include "interface.h"
#include "netlink.h"
#include "step.h"

/* ---- the route
 *
 * What makes a kernel hand packets to this process that are for others, and forward them again when it is gone: a TUN
 * device, which ends with its descriptor, and a local route for everything over it, which ends with the device. The
 * route lies in a table of its own, to which the host's rules send what is to be taken; an empty table changes
 * nothing. */

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

static enum banyan_status make_device(int fd, uint32_t table) {
  struct ifreq request = {.ifr_name = "banyan%d", .ifr_flags = IFF_TUN | IFF_NO_PI}, up = {.ifr_flags = IFF_UP};
  if (ioctl(fd, TUNSETIFF, &request))
    return by_fail_errno(errno == EPERM ? BANYAN_ERR_UNSUPPORTED : BANYAN_ERR_SYSTEM, errno,
                         "switch: cannot make a TUN device (CAP_NET_ADMIN is needed)");
  int reason = by_interface_ask(request.ifr_name, SIOCSIFFLAGS, &up);
  if (reason) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: %s does not come up", request.ifr_name);
  return add_route(request.ifr_name, table);
}

/* Until *out is closed, here and in all forks. */
static enum banyan_status hold_route(uint32_t table, int *out) {
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

/* ---- sockets that take and send packets with others' addresses */

/* How the socket must be. */
static enum banyan_status set(int fd, int level, int option, int value, const char *what) {
  if (setsockopt(fd, level, option, &value, sizeof value) == 0) return BANYAN_OK;
  return by_fail_errno(errno == EPERM ? BANYAN_ERR_UNSUPPORTED : BANYAN_ERR_SYSTEM, errno, "switch: no socket with %s",
                       what);
}

static enum banyan_status set_up(int fd, const char *interface) {
  BY_TRY(set(fd, SOL_IP, IP_TRANSPARENT, 1, "IP_TRANSPARENT (run as root)"));
  BY_TRY(set(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
  BY_TRY(set(fd, SOL_IP, IP_PKTINFO, 1, "IP_PKTINFO"));
  BY_TRY(set(fd, SOL_IP, IP_RECVTTL, 1, "IP_RECVTTL"));
  BY_TRY(by_datagram_prepare(fd));
  if (!interface || setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, (socklen_t)strlen(interface)) == 0)
    return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "switch: interface %s", interface);
}

/* Receives what is for `udp_port`, on this interface only unless it is NULL (then `address` is the socket's own). */
static enum banyan_status open_socket(const char *interface, uint32_t address, uint16_t udp_port, int *out) {
  struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(udp_port), .sin_addr.s_addr = address};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  *out = -1;
  if (fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: no UDP socket");
  enum banyan_status status = set_up(fd, interface);
  if (status == BANYAN_OK && bind(fd, (struct sockaddr *)&local, sizeof local))
    status = by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: UDP port %u on %s", udp_port,
                           interface ? interface : "this host");
  if (status == BANYAN_OK)
    *out = fd;
  else
    close(fd);
  return status;
}

/* ---- the switch */

enum { PASSING = BY_FRAGMENT_PORTS, MAILERS, RANGES = BY_DATAGRAMS * BY_DATAGRAM_SEGMENTS };

struct port {
  struct user *user;
  uint32_t number;
  struct by_watch *watch; /* NULL: no such port */
};

struct group {
  uint32_t n;
  struct by_switch_target targets[BY_PLANE_MEMBERS];
};

/* Fragments that follow each other and go the same way. Their ranges are the last that are taken. */
struct run {
  struct by_verdict verdict;
  uint16_t group;
  struct by_datagram_way way;
  unsigned n, n_ranges;
  uint32_t size, bytes; /* of all but the last; of all */
};

struct user {
  struct by_loop *loop;
  uint16_t udp_port;
  int hold; /* -1: does not take packets yet */
  struct by_cells cells;
  struct by_float_sums floats;      /* from the first grant for them on */
  struct by_grant *grants[1 << 16]; /* by job */
  struct group groups[BY_PLANE_GROUPS];
  struct port ports[BY_FRAGMENT_PORTS];
  struct by_mailer mailers[MAILERS]; /* fd -1: no such port */
  uint64_t events[BY_EVENTS];
  uint64_t datagrams, unsent, expired; /* beside what the mailers have not sent */
  uint32_t now;                        /* ms: when the datagrams came that are being taken */
  struct run run;
  unsigned taken; /* ranges */
  struct iovec ranges[RANGES];
  struct by_mailbox mailbox;
};

static void flush(struct user *user) {
  for (int i = 0; i < MAILERS; i++)
    if (user->mailers[i].length > 0) (void)by_mailer_flush(&user->mailers[i]);
}

static void send_run_to(struct user *user, uint32_t port, const struct by_datagram_way *way) {
  const struct run *run = &user->run;
  if (user->mailers[port].fd >= 0)
    by_mailer_add(&user->mailers[port], way, &user->ranges[user->taken - run->n_ranges], run->n_ranges, run->size);
  else
    user->unsent += run->n;
}

static void end_run(struct user *user) {
  struct run *run = &user->run;
  if (run->n == 0) return;
  const struct group *group = &user->groups[run->group];
  bool spreads = run->verdict.kind == BY_VERDICT_MULTICAST;
  for (uint32_t i = 0; spreads && i < group->n; i++) {
    struct by_datagram_way way = run->way;
    way.to = group->targets[i].address;
    way.to_port = group->targets[i].udp_port;
    send_run_to(user, group->targets[i].port, &way);
  }
  if (!spreads) send_run_to(user, run->verdict.kind == BY_VERDICT_PASS ? PASSING : run->verdict.port, &run->way);
  run->n = 0;
}

/* In one datagram all fragments but the last are of one size. */
static bool continues(const struct run *run, const struct run *next, uint32_t bytes) {
  const struct by_datagram_way *a = &run->way, *b = &next->way;
  return run->n > 0 && run->n < BY_DATAGRAM_SEGMENTS && run->bytes == run->n * run->size && bytes <= run->size &&
         run->bytes + bytes <= BY_DATAGRAM_MOST && run->verdict.kind == next->verdict.kind &&
         run->verdict.port == next->verdict.port && run->group == next->group && a->from == b->from && a->to == b->to &&
         a->to_port == b->to_port && a->ttl == b->ttl && a->tos == b->tos;
}

/* A fragment is to go on. It stays where it was received until that memory is needed again. */
static void send_on(struct user *user, const struct run *next, struct by_fragment *packet, uint32_t bytes) {
  if (user->taken == RANGES) {
    end_run(user);
    flush(user);
    user->taken = 0;
  }
  if (!continues(&user->run, next, bytes)) {
    end_run(user);
    user->run = *next;
    user->run.size = bytes;
  }
  struct run *run = &user->run;
  unsigned before = run->n_ranges;
  run->n_ranges = by_ranges_append(&user->ranges[user->taken - before], before, packet, bytes);
  user->taken += run->n_ranges - before;
  run->bytes += bytes;
  run->n++;
}

static void take_fragment(struct user *user, uint32_t from, const struct by_datagram_way *way,
                          struct by_fragment *packet, uint32_t bytes) {
  const struct by_grant *grant = bytes < sizeof *packet ? NULL : user->grants[packet->job];
  if ((way->tos & 3) == 3) by_fragment_mark(packet, bytes);
  struct run next = {.verdict = by_switch_step(grant, &user->cells, packet, bytes, from, user->now), .way = *way};
  user->events[next.verdict.event]++;
  if (next.verdict.kind == BY_VERDICT_DROP) return;
  if (grant) next.group = grant->group;
  send_on(user, &next, packet, bytes);
}

/* Fragments are whole lines, and so aligned one behind the other. Of a datagram that is cut otherwise nothing is one.
 */
static void take_datagram(struct user *user, uint32_t from, struct by_datagram datagram) {
  uint32_t n = datagram.size ? (datagram.n + datagram.size - 1) / datagram.size : 1;
  user->datagrams++;
  datagram.way.to_port = htons(user->udp_port);
  if (datagram.size == 0 || datagram.size % BY_FRAGMENT_LINE) {
    user->events[BY_EVENT_MALFORMED] += n;
    return;
  }
  if (datagram.way.ttl <= 1) {
    user->expired += n;
    return;
  }
  datagram.way.ttl--;
  for (uint32_t at = 0; at < datagram.n; at += datagram.size) {
    uint32_t bytes = datagram.n - at < datagram.size ? datagram.n - at : datagram.size;
    take_fragment(user, from, &datagram.way, (struct by_fragment *)(void *)(datagram.bytes + at), bytes);
  }
}

static void port_ready(void *context, uint32_t events) {
  const struct port *port = context;
  struct user *user = port->user;
  int n = by_mailbox_receive(&user->mailbox, user->mailers[port->number].fd);
  user->now = (uint32_t)(by_clock_coarse() / BY_MILLISECOND);
  for (int i = 0; i < n; i++) take_datagram(user, port->number, by_mailbox_get(&user->mailbox, i));
  end_run(user);
  flush(user);
  user->taken = 0;
}

static enum banyan_status make(struct user *user, const struct by_plane_options *options) {
  uint32_t cells = options->cells ? options->cells : 1;
  user->cells.cells = calloc(cells, sizeof *user->cells.cells);
  user->cells.sums = calloc(cells, sizeof *user->cells.sums);
  if (!user->cells.cells || !user->cells.sums)
    return by_fail(BANYAN_ERR_NO_MEMORY, "switch: no memory for %u cells", cells);
  user->cells.count = options->cells;
  by_mailbox_init(&user->mailbox);
  return open_socket(NULL, htonl(INADDR_LOOPBACK), user->udp_port, &user->mailers[PASSING].fd);
}

static void destroy(void *self) {
  struct user *user = self;
  if (user->hold >= 0) close(user->hold);
  for (int i = 0; i < BY_FRAGMENT_PORTS; i++) by_loop_unwatch(user->ports[i].watch);
  for (int i = 0; i < MAILERS; i++)
    if (user->mailers[i].fd >= 0) close(user->mailers[i].fd);
  for (int i = 0; i < 1 << 16; i++) free(user->grants[i]);
  by_float_sums_fini(&user->floats);
  free(user->cells.cells);
  free(user->cells.sums);
  free(user);
}

static enum banyan_status add_port(void *self, uint32_t number, const char *interface) {
  struct user *user = self;
  if (number >= BY_FRAGMENT_PORTS || user->ports[number].watch)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: %s cannot be port %u: ports are numbered 0 to %d, each once",
                   interface, number, BY_FRAGMENT_PORTS - 1);
  struct port *port = &user->ports[number];
  int *fd = &user->mailers[number].fd;
  *port = (struct port){.user = user, .number = number};
  BY_TRY(open_socket(interface, INADDR_ANY, user->udp_port, fd));
  enum banyan_status status = by_loop_watch(user->loop, *fd, EPOLLIN, port_ready, port, &port->watch);
  if (status == BANYAN_OK) return BANYAN_OK;
  close(*fd);
  *fd = -1;
  return status;
}

static enum banyan_status start(void *self, uint32_t n) {
  struct user *user = self;
  if (user->hold >= 0) return by_fail(BANYAN_ERR_ARGUMENT, "switch: takes packets already");
  return hold_route(BY_USER_TABLE, &user->hold);
}

static enum banyan_status clear(void *self, uint32_t base, uint32_t count) {
  struct user *user = self;
  if (base > user->cells.count || count > user->cells.count - base)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: there are no cells %u to %llu", base,
                   (unsigned long long)base + count);
  memset(user->cells.cells + base, 0, count * sizeof *user->cells.cells);
  if (user->cells.floats) by_float_sums_clear(user->cells.floats, base, count);
  return BANYAN_OK;
}

static enum banyan_status give_grant(void *self, const struct by_grant *grant) {
  struct user *user = self;
  BY_TRY(by_grant_check(grant, user->cells.count, BY_PLANE_GROUPS));
  if (grant->dtype == BY_FRAGMENT_FLOAT32 && !user->cells.floats) {
    by_float_sums_fini(&user->floats); /* of an attempt that failed */
    BY_TRY(by_float_sums_init(&user->floats, user->cells.count));
    user->cells.floats = &user->floats;
  }
  struct by_grant **place = &user->grants[grant->job];
  if (!*place && !(*place = malloc(sizeof **place))) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  **place = *grant;
  return BANYAN_OK;
}

static enum banyan_status take_grant(void *self, uint16_t job) {
  struct user *user = self;
  if (!user->grants[job]) return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u has no grant to revoke", job);
  free(user->grants[job]);
  user->grants[job] = NULL;
  return BANYAN_OK;
}

static enum banyan_status set_group(void *self, uint16_t group, const struct by_switch_target *targets, uint32_t n) {
  struct user *user = self;
  if (group >= BY_PLANE_GROUPS || n > BY_PLANE_MEMBERS)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: group %u with %u members; groups are 0 to %d, of at most %d", group, n,
                   BY_PLANE_GROUPS - 1, BY_PLANE_MEMBERS);
  for (uint32_t i = 0; i < n; i++)
    if (targets[i].port >= BY_FRAGMENT_PORTS || !user->ports[targets[i].port].watch || !targets[i].udp_port)
      return by_fail(BANYAN_ERR_ARGUMENT, "switch: member %u of group %u: there is no port %u, or UDP port 0", i, group,
                     targets[i].port);
  memcpy(user->groups[group].targets, targets, n * sizeof *targets);
  user->groups[group].n = n;
  return BANYAN_OK;
}

static enum banyan_status count(const void *self, struct by_plane_counts *out) {
  const struct user *user = self;
  *out = (struct by_plane_counts){.unsent = user->unsent, .expired = user->expired, .datagrams = user->datagrams};
  memcpy(out->events, user->events, sizeof user->events);
  for (int i = 0; i < MAILERS; i++) {
    out->sent += user->mailers[i].sent;
    out->unsent += user->mailers[i].unsent;
  }
  return BANYAN_OK;
}

static const struct by_plane_ops ops = {
    .name = "user",
    .destroy = destroy,
    .add_port = add_port,
    .start = start,
    .clear = clear,
    .grant = give_grant,
    .revoke = take_grant,
    .set_group = set_group,
    .count = count,
};

enum banyan_status by_user_open(struct by_loop *loop, const struct by_plane_options *options, struct by_plane *out) {
  size_t bytes = (sizeof(struct user) + 63) / 64 * 64;
  struct user *user = aligned_alloc(64, bytes);
  *out = (struct by_plane){0};
  if (!user) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  memset(user, 0, bytes);
  user->loop = loop;
  user->hold = -1;
  user->udp_port = options->udp_port ? options->udp_port : BY_FRAGMENT_PORT;
  for (int i = 0; i < MAILERS; i++) user->mailers[i].fd = -1;
  enum banyan_status status = make(user, options);
  if (status == BANYAN_OK)
    *out = (struct by_plane){&ops, user};
  else
    destroy(user);
  return status;
}
