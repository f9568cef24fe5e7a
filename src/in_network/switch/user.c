/* A switch of ordinary sockets: takes fragments that are addressed to the ends
 * of its grants, passes each through by_switch_step and sends on what comes out,
 * many in one system call. Where XDP is not to be had, or for comparison.
 *
 * A port is an interface; the next hop is that of the host's routes for the
 * packet's address by that interface. Where they are others for other
 * traffic: ip rule add oif IF lookup T. A grant brings a socket for each way by
 * which fragments come in: by each port below for the server, by each port
 * above for each worker. capture.h makes the kernel deliver to it, as long as
 * the process lives; what has no socket, and all without the process, the kernel
 * forwards as before (net.ipv4.ip_forward=1). Fragments leave from the UDP port
 * that they came from, so by the socket that takes what is for that one. Needs
 * root (CAP_NET_ADMIN) and /dev/net/tun. What a grant needs is there when it has
 * been given. One thread at a time: the loop's. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "capture.h"
#include "clock.h"
#include "data_plane.h"
#include "datagram.h"
#include "step.h"

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
  BY_TRY(set(fd, SOL_IP, IP_RECVTTL, 1, "IP_RECVTTL"));
  BY_TRY(by_datagram_prepare(fd));
  if (!interface || setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, (socklen_t)strlen(interface)) == 0)
    return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "switch: interface %s", interface);
}

/* Receives what is for this address and port, on this interface only unless it is NULL. */
static enum banyan_status open_socket(const char *interface, const struct by_udp_end *end, int *out) {
  struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = end->port, .sin_addr.s_addr = end->address};
  char text[BY_UDP_END_TEXT];
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  *out = -1;
  if (fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: no UDP socket");
  enum banyan_status status = set_up(fd, interface);
  if (status == BANYAN_OK && bind(fd, (struct sockaddr *)&local, sizeof local))
    status = by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: no UDP socket for %s on %s", by_udp_end_print(end, text),
                           interface ? interface : "this host");
  if (status == BANYAN_OK)
    *out = fd;
  else
    close(fd);
  return status;
}

/* ---- the switch */

enum {
  PASSING = BY_FRAGMENT_PORTS, /* in place of a port: sockets of no interface, which the host's routes lead out */
  PLACES,
  RANGES = BY_DATAGRAMS * BY_DATAGRAM_SEGMENTS
};

/* Takes what comes in by a port for one end, and sends by that port what comes from the same UDP port. */
struct inlet {
  struct user *user;
  uint32_t port;
  struct by_udp_end end;
  uint32_t uses; /* by grants */
  bool waits;
  struct by_watch *watch; /* NULL for those that only send */
  LIST_ENTRY(inlet) link;
  STAILQ_ENTRY(inlet) next_waiting;
  struct by_mailer mailer;
};

LIST_HEAD(inlets, inlet);

struct job {
  struct by_grant grant;
  uint32_t n_inlets, n_flows; /* that it uses */
  struct inlet *inlets[4 * BY_PLANE_MEMBERS];
  struct by_flow flows[2 * BY_PLANE_MEMBERS];
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
  struct by_capture *capture; /* NULL: does not take packets yet */
  struct by_cells cells;
  struct by_float_sums floats; /* from the first grant for them on */
  struct job *jobs[1 << 16];
  struct group groups[BY_PLANE_GROUPS];
  char ports[BY_FRAGMENT_PORTS][IF_NAMESIZE]; /* "": no such port */
  struct inlets inlets[PLACES];
  STAILQ_HEAD(, inlet) waiting; /* whose mailers have something */
  uint64_t events[BY_EVENTS];
  uint64_t datagrams, sent, unsent, expired; /* sent, unsent: beside what the mailers count */
  uint32_t now;                              /* ms: when the datagrams came that are being taken */
  struct run run;
  unsigned taken; /* ranges */
  struct iovec ranges[RANGES];
  struct by_mailbox mailbox;
};

static void flush(struct user *user) {
  struct inlet *inlet;
  while ((inlet = STAILQ_FIRST(&user->waiting))) {
    STAILQ_REMOVE_HEAD(&user->waiting, next_waiting);
    inlet->waits = false;
    (void)by_mailer_flush(&inlet->mailer);
  }
}

/* That sends from this UDP port. Another one where the packet is from none of the grants' ends: no end looks at that.
 */
static struct inlet *inlet_from(struct user *user, uint32_t port, uint16_t udp_port) {
  struct inlet *inlet;
  LIST_FOREACH(inlet, &user->inlets[port], link)
  if (inlet->end.port == udp_port) return inlet;
  return LIST_FIRST(&user->inlets[port]);
}

static void send_run_to(struct user *user, uint32_t port, const struct by_datagram_way *way) {
  const struct run *run = &user->run;
  struct inlet *inlet = port < PLACES ? inlet_from(user, port, way->from_port) : NULL;
  if (!inlet) {
    user->unsent += run->n;
    return;
  }
  by_mailer_add(&inlet->mailer, way, &user->ranges[user->taken - run->n_ranges], run->n_ranges, run->size);
  if (inlet->waits) return;
  inlet->waits = true;
  STAILQ_INSERT_TAIL(&user->waiting, inlet, next_waiting);
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
         a->from_port == b->from_port && a->to_port == b->to_port && a->ttl == b->ttl && a->tos == b->tos;
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
  const struct job *job = bytes < sizeof *packet ? NULL : user->jobs[packet->job];
  const struct by_grant *grant = job ? &job->grant : NULL;
  if ((way->tos & 3) == 3) by_fragment_mark(packet, bytes);
  struct run next = {.verdict = by_switch_step(grant, &user->cells, packet, bytes, from, user->now), .way = *way};
  user->events[next.verdict.event]++;
  if (next.verdict.kind == BY_VERDICT_DROP) return;
  if (grant) next.group = grant->group;
  send_on(user, &next, packet, bytes);
}

/* Fragments are whole lines, and so aligned one behind the other. Of a datagram that is cut otherwise nothing is one.
 */
static void take_datagram(struct user *user, const struct inlet *inlet, struct by_datagram datagram) {
  uint32_t n = datagram.size ? (datagram.n + datagram.size - 1) / datagram.size : 1;
  user->datagrams++;
  datagram.way.to = inlet->end.address;
  datagram.way.to_port = inlet->end.port;
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
    take_fragment(user, inlet->port, &datagram.way, (struct by_fragment *)(void *)(datagram.bytes + at), bytes);
  }
}

static void inlet_ready(void *context, uint32_t events) {
  const struct inlet *inlet = context;
  struct user *user = inlet->user;
  int n = by_mailbox_receive(&user->mailbox, inlet->mailer.fd);
  user->now = (uint32_t)(by_clock_coarse() / BY_MILLISECOND);
  for (int i = 0; i < n; i++) take_datagram(user, inlet, by_mailbox_get(&user->mailbox, i));
  end_run(user);
  flush(user);
  user->taken = 0;
}

/* ---- inlets, each as often as it is used */

static void close_inlet(struct inlet *inlet) {
  struct user *user = inlet->user;
  by_loop_unwatch(inlet->watch);
  if (inlet->mailer.fd >= 0) close(inlet->mailer.fd);
  user->sent += inlet->mailer.sent;
  user->unsent += inlet->mailer.unsent;
  LIST_REMOVE(inlet, link);
  free(inlet);
}

static void disuse(struct inlet *inlet) {
  if (--inlet->uses == 0) close_inlet(inlet);
}

static enum banyan_status open_inlet(struct inlet *inlet) {
  struct user *user = inlet->user;
  const char *interface = inlet->port == PASSING ? NULL : user->ports[inlet->port];
  BY_TRY(open_socket(interface, &inlet->end, &inlet->mailer.fd));
  if (!interface) return BANYAN_OK;
  return by_loop_watch(user->loop, inlet->mailer.fd, EPOLLIN, inlet_ready, inlet, &inlet->watch);
}

static enum banyan_status use_inlet(struct user *user, uint32_t port, struct by_udp_end end, struct inlet **out) {
  struct inlet *inlet;
  LIST_FOREACH(inlet, &user->inlets[port], link) {
    if (inlet->end.address != end.address || inlet->end.port != end.port) continue;
    inlet->uses++;
    *out = inlet;
    return BANYAN_OK;
  }
  inlet = calloc(1, sizeof *inlet);
  if (!inlet) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  inlet->user = user;
  inlet->port = port;
  inlet->end = end;
  inlet->uses = 1;
  inlet->mailer.fd = -1;
  LIST_INSERT_HEAD(&user->inlets[port], inlet, link);
  enum banyan_status status = open_inlet(inlet);
  if (status == BANYAN_OK)
    *out = inlet;
  else
    close_inlet(inlet);
  return status;
}

static enum banyan_status add_inlet(struct user *user, struct job *job, uint32_t port, struct by_udp_end end) {
  BY_TRY(use_inlet(user, port, end, &job->inlets[job->n_inlets]));
  job->n_inlets++;
  return BANYAN_OK;
}

/* ---- what a grant brings */

/* What comes from one end for the other. The sockets are there before the kernel delivers to them. What is forwarded
 * without a grant leaves from where it came from, too. */
static enum banyan_status add_flow(struct user *user, struct job *job, const struct by_plane_end *from,
                                   const struct by_plane_end *to) {
  struct by_flow *flow = &job->flows[job->n_flows];
  BY_TRY(add_inlet(user, job, PASSING, (struct by_udp_end){htonl(INADDR_LOOPBACK), from->end.port}));
  BY_TRY(add_inlet(user, job, from->port, to->end));
  *flow = (struct by_flow){.from = from->end, .to = to->end};
  memcpy(flow->interface, user->ports[from->port], IF_NAMESIZE);
  BY_TRY(by_capture_add(user->capture, flow));
  job->n_flows++;
  return BANYAN_OK;
}

static enum banyan_status add_flows(struct user *user, struct job *job, const struct by_plane_ends *ends) {
  for (uint32_t w = 0; w < ends->n_workers; w++) {
    BY_TRY(add_flow(user, job, &ends->workers[w], &ends->server));
    BY_TRY(add_flow(user, job, &ends->server, &ends->workers[w]));
  }
  return BANYAN_OK;
}

static void free_job(struct user *user, struct job *job) {
  if (!job) return;
  for (uint32_t i = 0; i < job->n_flows; i++) by_capture_drop(user->capture, &job->flows[i]);
  for (uint32_t i = 0; i < job->n_inlets; i++) disuse(job->inlets[i]);
  free(job);
}

static enum banyan_status check_end(const struct user *user, uint16_t job, const struct by_plane_end *end) {
  if (end->port < BY_FRAGMENT_PORTS && *user->ports[end->port] && end->end.address && end->end.port) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "switch: job %u has an end behind port %u, which is not there, or without address", job, end->port);
}

static enum banyan_status check_ends(const struct user *user, uint16_t job, const struct by_plane_ends *ends) {
  if (!user->capture) return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u comes before the start", job);
  if (ends->n_workers > BY_PLANE_MEMBERS)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u has %u workers; most are %d", job, ends->n_workers,
                   BY_PLANE_MEMBERS);
  BY_TRY(check_end(user, job, &ends->server));
  for (uint32_t w = 0; w < ends->n_workers; w++) BY_TRY(check_end(user, job, &ends->workers[w]));
  return BANYAN_OK;
}

/* ---- the plane */

static enum banyan_status make(struct user *user, const struct by_plane_options *options) {
  uint32_t cells = options->cells ? options->cells : 1;
  user->cells.cells = calloc(cells, sizeof *user->cells.cells);
  user->cells.sums = calloc(cells, sizeof *user->cells.sums);
  if (!user->cells.cells || !user->cells.sums)
    return by_fail(BANYAN_ERR_NO_MEMORY, "switch: no memory for %u cells", cells);
  user->cells.count = options->cells;
  by_mailbox_init(&user->mailbox);
  return BANYAN_OK;
}

static void destroy(void *self) {
  struct user *user = self;
  for (int i = 0; i < 1 << 16; i++) free_job(user, user->jobs[i]);
  by_capture_close(user->capture);
  by_float_sums_fini(&user->floats);
  free(user->cells.cells);
  free(user->cells.sums);
  free(user);
}

static enum banyan_status add_port(void *self, uint32_t number, const char *interface) {
  struct user *user = self;
  if (number >= BY_FRAGMENT_PORTS || *user->ports[number])
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: %s cannot be port %u: ports are numbered 0 to %d, each once",
                   interface, number, BY_FRAGMENT_PORTS - 1);
  if (!if_nametoindex(interface))
    return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "switch: no interface %s", interface);
  snprintf(user->ports[number], IF_NAMESIZE, "%s", interface);
  return BANYAN_OK;
}

static enum banyan_status start(void *self, uint32_t n) {
  struct user *user = self;
  if (user->capture) return by_fail(BANYAN_ERR_ARGUMENT, "switch: takes packets already");
  return by_capture_open(&user->capture);
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

static enum banyan_status give_grant(void *self, const struct by_grant *grant, const struct by_plane_ends *ends) {
  struct user *user = self;
  BY_TRY(by_grant_check(grant, user->cells.count, BY_PLANE_GROUPS));
  BY_TRY(check_ends(user, grant->job, ends));
  if (grant->dtype == BY_FRAGMENT_FLOAT32 && !user->cells.floats) {
    by_float_sums_fini(&user->floats); /* of an attempt that failed */
    BY_TRY(by_float_sums_init(&user->floats, user->cells.count));
    user->cells.floats = &user->floats;
  }
  struct job *before = user->jobs[grant->job], *job = calloc(1, sizeof *job);
  if (!job) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  job->grant = *grant;
  enum banyan_status status = add_flows(user, job, ends);
  if (status == BANYAN_OK) user->jobs[grant->job] = job;
  free_job(user, status == BANYAN_OK ? before : job);
  return status;
}

static enum banyan_status take_grant(void *self, uint16_t job) {
  struct user *user = self;
  if (!user->jobs[job]) return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u has no grant to revoke", job);
  free_job(user, user->jobs[job]);
  user->jobs[job] = NULL;
  return BANYAN_OK;
}

static enum banyan_status set_group(void *self, uint16_t group, const struct by_switch_target *targets, uint32_t n) {
  struct user *user = self;
  if (group >= BY_PLANE_GROUPS || n > BY_PLANE_MEMBERS)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: group %u with %u members; groups are 0 to %d, of at most %d", group, n,
                   BY_PLANE_GROUPS - 1, BY_PLANE_MEMBERS);
  for (uint32_t i = 0; i < n; i++)
    if (targets[i].port >= BY_FRAGMENT_PORTS || !*user->ports[targets[i].port] || !targets[i].udp_port)
      return by_fail(BANYAN_ERR_ARGUMENT, "switch: member %u of group %u: there is no port %u, or UDP port 0", i, group,
                     targets[i].port);
  memcpy(user->groups[group].targets, targets, n * sizeof *targets);
  user->groups[group].n = n;
  return BANYAN_OK;
}

static enum banyan_status count(const void *self, struct by_plane_counts *out) {
  const struct user *user = self;
  const struct inlet *inlet;
  *out = (struct by_plane_counts){
      .sent = user->sent, .unsent = user->unsent, .expired = user->expired, .datagrams = user->datagrams};
  memcpy(out->events, user->events, sizeof user->events);
  for (int i = 0; i < PLACES; i++) LIST_FOREACH(inlet, &user->inlets[i], link) {
      out->sent += inlet->mailer.sent;
      out->unsent += inlet->mailer.unsent;
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
  STAILQ_INIT(&user->waiting);
  enum banyan_status status = make(user, options);
  if (status == BANYAN_OK)
    *out = (struct by_plane){&ops, user};
  else
    destroy(user);
  return status;
}
