/* Each rank sends a datagram with TTL 1 to each other one, whose number and nonce it carries. It comes only if nothing
 * on the way forwards packets. Those from which nothing has come yet get it again, as one may be lost. */
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "log.h"
#include "measure_parts.h"

enum { TIMES = 3 };

static const double apart = 8e-3; /* seconds from one time to the next */

/* What a rank takes datagrams with. */
struct slot {
  uint64_t nonce;
  uint32_t port, family; /* port 0: it takes none */
};

struct hello {
  uint64_t nonce; /* of the receiver */
  uint32_t from;
};

struct around {
  struct banyan_comm *comm;
  struct slot *slots; /* of all ranks */
  uint8_t *heard;     /* from each */
  int fd;
  uint32_t missing;
};

static const struct by_member *member_of(const struct banyan_comm *comm, uint32_t rank) {
  const struct by_member *members = comm->context->job.members;
  return &members[comm->processes[rank]];
}

/* A socket that sends no further than one hop; -1: there is none. */
static int open_socket(int family) {
  int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
  struct by_address any;
  by_address_any(&any, family, 0);
  bool limited = fd >= 0 && (family == AF_INET6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &one, sizeof one) == 0
                                                : setsockopt(fd, IPPROTO_IP, IP_TTL, &one, sizeof one) == 0);
  if (limited && bind(fd, (struct sockaddr *)&any.storage, any.length) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

static int port_of(int fd) {
  struct sockaddr_storage name;
  socklen_t length = sizeof name;
  struct by_address address;
  if (fd < 0 || getsockname(fd, (struct sockaddr *)&name, &length)) return 0;
  by_address_set(&address, (struct sockaddr *)&name, length);
  return by_address_port(&address);
}

static void send_to(const struct around *a, uint32_t rank) {
  struct hello hello = {.nonce = a->slots[rank].nonce, .from = a->comm->rank};
  const struct by_address *at = by_member_address(member_of(a->comm, rank), (int)a->slots[rank].family);
  if (!at || !a->slots[rank].port || a->slots[rank].family != a->slots[a->comm->rank].family) return;
  struct by_address to = *at;
  by_address_set_port(&to, (int)a->slots[rank].port);
  (void)!sendto(a->fd, &hello, sizeof hello, 0, (struct sockaddr *)&to.storage, to.length);
}

static void receive(struct around *a) {
  struct hello hello;
  for (;;) {
    ssize_t n = recv(a->fd, &hello, sizeof hello, MSG_TRUNC);
    if (n < 0) return;
    bool is_ours = n == sizeof hello && hello.nonce == a->slots[a->comm->rank].nonce && hello.from < a->comm->size;
    if (!is_ours || a->heard[hello.from]) continue;
    a->heard[hello.from] = 1;
    a->missing--;
  }
}

static void listen_until(struct around *a, uint64_t until) {
  for (uint64_t now; a->missing && (now = by_clock_now(&by_clock_system)) < until;) {
    struct pollfd poller = {.fd = a->fd, .events = POLLIN};
    (void)poll(&poller, 1, (int)((until - now) / 1000000) + 1);
    receive(a);
  }
}

static void look_around(struct around *a) {
  uint64_t until = by_clock_now(&by_clock_system);
  if (a->fd < 0) return;
  for (int i = 0; i < TIMES && a->missing; i++) {
    for (uint32_t r = 0; r < a->comm->size; r++)
      if (!a->heard[r]) send_to(a, r);
    until += by_clock_from_seconds(apart);
    listen_until(a, until);
  }
}

/* All know where the others take datagrams, and that they do. */
static enum banyan_status meet(struct around *a, int family) {
  struct slot own = {.port = (uint32_t)port_of(a->fd), .family = (uint32_t)family};
  if (getrandom(&own.nonce, sizeof own.nonce, 0) != sizeof own.nonce) own.port = 0;
  struct banyan_call call = {
      .collective = BANYAN_ALLGATHER, .dtype = BANYAN_UINT8, .send = &own, .recv = a->slots, .count = sizeof own};
  return banyan_run(a->comm, &call);
}

enum banyan_status by_measure_direct(struct banyan_comm *comm, uint8_t *direct) {
  uint32_t n = comm->size;
  const struct by_address *first = by_member_address(member_of(comm, comm->rank), AF_INET);
  int family = first ? AF_INET : AF_INET6;
  struct around a = {.comm = comm, .slots = calloc(n, sizeof *a.slots), .heard = calloc(n, 1), .missing = n - 1};
  struct banyan_call call = {
      .collective = BANYAN_GATHER, .dtype = BANYAN_UINT8, .send = a.heard, .recv = direct, .count = n};
  a.fd = open_socket(family);
  enum banyan_status status =
      a.slots && a.heard ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for looking around");
  if (status == BANYAN_OK) {
    a.heard[comm->rank] = 1;
    status = meet(&a, family);
  }
  if (status == BANYAN_OK) {
    look_around(&a);
    by_debug("measure", "%u of %u other hosts are reached without a hop", n - 1 - a.missing, n - 1);
    status = banyan_run(comm, &call);
  }
  if (a.fd >= 0) close(a.fd);
  free(a.slots);
  free(a.heard);
  return status;
}
