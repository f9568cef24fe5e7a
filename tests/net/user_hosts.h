/* Hosts around a switch. Each host is a network namespace without a name that ends with the process. The switch's
 * namespace is that of the process. Port i is the interface p<i> with 10.7.<i>.1. Behind it, host i has 10.7.<i>.2, .3
 * and .4, and 10.9.9.<i> on its loopback, which is reached through .2. Of IPv6 they have the same, each 10.a.b.c as
 * fd00::10:a:b:c. */
#ifndef BY_TESTS_USER_HOSTS_H
#define BY_TESTS_USER_HOSTS_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static inline bool shell(const char *command) {
  return system(command) == 0; /* NOLINT: the test's own command */
}

/* Moves the calling thread to a new namespace and makes this namespace a switch that forwards. */
static inline bool become_switch(void) {
  if (unshare(CLONE_NEWNET)) return false;
  return shell("ip link set lo up && echo 1 >/proc/sys/net/ipv4/ip_forward && "
               "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding");
}

static inline bool furnish_host(uint32_t i) {
  char command[1200];
  snprintf(command, sizeof command,
           "ip link set lo up && ip addr add 10.9.9.%u/32 dev lo && ip link set q%u up && "
           "for a in 2 3 4; do ip addr add 10.7.%u.$a/24 dev q%u || exit 1; done && "
           "ip neigh add 10.7.%u.1 lladdr 2:0:0:0:0:1 dev q%u nud permanent && ip route add default via 10.7.%u.1 && "
           "ip addr add fd00::10:9:9:%u/128 dev lo && "
           "for a in 2 3 4; do ip addr add fd00::10:7:%u:$a/112 dev q%u nodad || exit 1; done && "
           "ip neigh add fd00::10:7:%u:1 lladdr 2:0:0:0:0:1 dev q%u nud permanent && "
           "ip route add default via fd00::10:7:%u:1",
           i, i, i, i, i, i, i, i, i, i, i, i, i);
  return shell(command);
}

/* Adds the neighbours in advance. The kernel drops the first packets that wait for a neighbour to be found. */
static inline bool furnish_port(uint32_t i) {
  char command[1200];
  snprintf(
      command, sizeof command,
      "ip addr add 10.7.%u.1/24 dev p%u && ip link set p%u up && "
      "for a in 2 3 4; do ip neigh add 10.7.%u.$a lladdr 2:0:0:0:0:2 dev p%u nud permanent || exit 1; done && "
      "ip route add 10.9.9.%u via 10.7.%u.2 && ip addr add fd00::10:7:%u:1/112 dev p%u nodad && "
      "for a in 2 3 4; do ip neigh add fd00::10:7:%u:$a lladdr 2:0:0:0:0:2 dev p%u nud permanent || exit 1; done && "
      "ip route add fd00::10:9:9:%u via fd00::10:7:%u:2",
      i, i, i, i, i, i, i, i, i, i, i, i, i);
  return shell(command);
}

/* Waits until the link is up. Until then the kernel drops what is sent. The end in this namespace is checked. */
static inline bool wait_until_up(char end, uint32_t i) {
  char command[200];
  snprintf(command, sizeof command,
           "for n in $(seq 1000); do ip link show %c%u | grep -q 'state UP' && exit 0; sleep 0.01; done; exit 1", end,
           i);
  return shell(command);
}

/* Returns the namespace of host i, or -1. */
static inline int make_host(uint32_t i) {
  char command[200];
  int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), there = -1;
  bool well = here >= 0 && unshare(CLONE_NEWNET) == 0;
  if (well) there = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  well = well && there >= 0 && setns(here, CLONE_NEWNET) == 0;
  snprintf(command, sizeof command,
           "ip link add p%u address 2:0:0:0:0:1 type veth peer name q%u address 2:0:0:0:0:2 netns /proc/%d/fd/%d", i, i,
           (int)getpid(), there);
  well = well && shell(command) && setns(there, CLONE_NEWNET) == 0 && furnish_host(i);
  if (here >= 0 && setns(here, CLONE_NEWNET)) well = false;
  well = well && furnish_port(i) && wait_until_up('p', i) && setns(there, CLONE_NEWNET) == 0 && wait_until_up('q', i);
  if (here >= 0 && setns(here, CLONE_NEWNET)) well = false;
  if (here >= 0) close(here);
  return well ? there : -1;
}

/* Returns the address's length. */
static inline socklen_t put_address(const char *address, uint16_t udp_port, struct sockaddr_in6 *out) {
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(udp_port)};
  *out = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(udp_port)};
  if (inet_pton(AF_INET6, address, &out->sin6_addr) == 1) return sizeof *out;
  inet_pton(AF_INET, address, &four.sin_addr);
  memcpy(out, &four, sizeof four);
  return sizeof four;
}

/* Returns a UDP socket of this host, or -1. */
static inline int open_at(int host, const char *address, uint16_t udp_port) {
  struct sockaddr_in6 local;
  socklen_t length = put_address(address, udp_port, &local);
  int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), fd = -1, room = 64 << 20;
  if (here >= 0 && setns(host, CLONE_NEWNET) == 0) fd = socket(local.sin6_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (here < 0 || setns(here, CLONE_NEWNET)) abort();
  close(here);
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  if (fd >= 0 && bind(fd, (struct sockaddr *)&local, length)) close(fd), fd = -1;
  return fd;
}

/* Sends many fragments of `size` bytes in one datagram. size 0: one fragment. */
static inline bool send_to(int fd, const char *address, uint16_t udp_port, const void *bytes, size_t n, uint16_t size) {
  struct sockaddr_in6 to;
  socklen_t length = put_address(address, udp_port, &to);
  int segment = size;
  if (setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment)) return false;
  return sendto(fd, bytes, n, 0, (struct sockaddr *)&to, length) == (ssize_t)n;
}

#endif
