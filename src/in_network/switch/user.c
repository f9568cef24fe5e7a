#include "user.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "datagram.h"
#include "grant.h"
#include "step.h"
#include "user_hold.h"
#include "user_socket.h"

enum { PASSING = BY_FRAGMENT_PORTS, MAILERS, RANGES = BY_DATAGRAMS * BY_DATAGRAM_SEGMENTS };

struct port {
  struct by_user *user;
  uint32_t number;
  struct by_watch *watch; /* NULL: no such port */
};

struct group {
  uint32_t n;
  struct by_switch_target targets[BY_USER_MEMBERS];
};

/* Fragments that follow each other and go the same way. Their ranges are the last that are taken. */
struct run {
  struct by_verdict verdict;
  uint16_t group;
  struct by_datagram_way way;
  unsigned n, n_ranges;
  uint32_t size, bytes; /* of all but the last; of all */
};

struct by_user {
  struct by_loop *loop;
  uint16_t udp_port;
  int hold; /* -1: does not take packets yet */
  struct by_cells cells;
  struct by_float_sums floats;      /* from the first grant for them on */
  struct by_grant *grants[1 << 16]; /* by job */
  struct group groups[BY_USER_GROUPS];
  struct port ports[BY_FRAGMENT_PORTS];
  struct by_mailer mailers[MAILERS]; /* fd -1: no such port */
  uint64_t events[BY_EVENTS];
  struct by_user_traffic traffic;
  uint32_t now; /* ms: when the datagrams came that are being taken */
  struct run run;
  unsigned taken; /* ranges */
  struct iovec ranges[RANGES];
  struct by_mailbox mailbox;
};

static void flush(struct by_user *user) {
  for (int i = 0; i < MAILERS; i++)
    if (user->mailers[i].length > 0) (void)by_mailer_flush(&user->mailers[i]);
}

static void send_run_to(struct by_user *user, uint32_t port, const struct by_datagram_way *way) {
  const struct run *run = &user->run;
  if (user->mailers[port].fd >= 0)
    by_mailer_add(&user->mailers[port], way, &user->ranges[user->taken - run->n_ranges], run->n_ranges, run->size);
  else
    user->traffic.unsent += run->n;
}

static void spread_run(struct by_user *user) {
  const struct group *group = &user->groups[user->run.group];
  struct by_datagram_way way = user->run.way;
  for (uint32_t i = 0; i < group->n; i++) {
    way.to = group->targets[i].address;
    way.to_port = group->targets[i].udp_port;
    send_run_to(user, group->targets[i].port, &way);
  }
}

static void end_run(struct by_user *user) {
  struct run *run = &user->run;
  if (run->n == 0) return;
  if (run->verdict.kind == BY_VERDICT_MULTICAST)
    spread_run(user);
  else
    send_run_to(user, run->verdict.kind == BY_VERDICT_PASS ? PASSING : run->verdict.port, &run->way);
  run->n = 0;
}

static bool same_way(const struct by_datagram_way *a, const struct by_datagram_way *b) {
  return a->from == b->from && a->to == b->to && a->to_port == b->to_port && a->ttl == b->ttl && a->tos == b->tos;
}

/* In one datagram all fragments but the last are of one size. */
static bool continues(const struct run *run, const struct run *next, uint32_t bytes) {
  return run->n > 0 && run->n < BY_DATAGRAM_SEGMENTS && run->bytes == run->n * run->size && bytes <= run->size &&
         run->bytes + bytes <= BY_DATAGRAM_MOST && run->verdict.kind == next->verdict.kind &&
         run->verdict.port == next->verdict.port && run->group == next->group && same_way(&run->way, &next->way);
}

/* A fragment is to go on. It stays where it was received until that memory is needed again. */
static void send_on(struct by_user *user, const struct run *next, struct by_fragment *packet, uint32_t bytes) {
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

static void take_fragment(struct by_user *user, uint32_t from, const struct by_datagram_way *way,
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
static void take_datagram(struct by_user *user, uint32_t from, struct by_datagram datagram) {
  uint32_t n = datagram.size ? (datagram.n + datagram.size - 1) / datagram.size : 1;
  user->traffic.datagrams++;
  datagram.way.to_port = htons(user->udp_port);
  if (datagram.size == 0 || datagram.size % BY_FRAGMENT_LINE) {
    user->events[BY_EVENT_MALFORMED] += n;
    return;
  }
  if (datagram.way.ttl <= 1) {
    user->traffic.expired += n;
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
  struct by_user *user = port->user;
  int n = by_mailbox_receive(&user->mailbox, user->mailers[port->number].fd);
  user->now = (uint32_t)(by_clock_coarse() / BY_MILLISECOND);
  for (int i = 0; i < n; i++) take_datagram(user, port->number, by_mailbox_get(&user->mailbox, i));
  end_run(user);
  flush(user);
  user->taken = 0;
}

static enum banyan_status make(struct by_user *user, const struct by_user_options *options) {
  uint32_t cells = options->cells ? options->cells : 1;
  user->cells.cells = calloc(cells, sizeof *user->cells.cells);
  user->cells.sums = calloc(cells, sizeof *user->cells.sums);
  if (!user->cells.cells || !user->cells.sums)
    return by_fail(BANYAN_ERR_NO_MEMORY, "switch: no memory for %u cells", cells);
  user->cells.count = options->cells;
  by_mailbox_init(&user->mailbox);
  return by_user_open(NULL, htonl(INADDR_LOOPBACK), user->udp_port, &user->mailers[PASSING].fd);
}

enum banyan_status by_user_create(struct by_loop *loop, const struct by_user_options *options, struct by_user **out) {
  size_t bytes = (sizeof(struct by_user) + 63) / 64 * 64;
  struct by_user *user = aligned_alloc(64, bytes);
  *out = NULL;
  if (!user) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  memset(user, 0, bytes);
  user->loop = loop;
  user->hold = -1;
  user->udp_port = options->udp_port ? options->udp_port : BY_FRAGMENT_PORT;
  for (int i = 0; i < MAILERS; i++) user->mailers[i].fd = -1;
  enum banyan_status status = make(user, options);
  if (status == BANYAN_OK)
    *out = user;
  else
    by_user_destroy(user);
  return status;
}

void by_user_destroy(struct by_user *user) {
  if (!user) return;
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

enum banyan_status by_user_add_port(struct by_user *user, uint32_t number, const char *interface) {
  if (number >= BY_FRAGMENT_PORTS || user->ports[number].watch)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: %s cannot be port %u: ports are numbered 0 to %d, each once",
                   interface, number, BY_FRAGMENT_PORTS - 1);
  struct port *port = &user->ports[number];
  int *fd = &user->mailers[number].fd;
  *port = (struct port){.user = user, .number = number};
  BY_TRY(by_user_open(interface, INADDR_ANY, user->udp_port, fd));
  enum banyan_status status = by_loop_watch(user->loop, *fd, EPOLLIN, port_ready, port, &port->watch);
  if (status == BANYAN_OK) return BANYAN_OK;
  close(*fd);
  *fd = -1;
  return status;
}

enum banyan_status by_user_take(struct by_user *user, uint32_t table) {
  if (user->hold >= 0) return by_fail(BANYAN_ERR_ARGUMENT, "switch: takes packets already");
  return by_hold_route(table ? table : BY_USER_TABLE, &user->hold);
}

enum banyan_status by_user_clear(struct by_user *user, uint32_t base, uint32_t count) {
  if (base > user->cells.count || count > user->cells.count - base)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: there are no cells %u to %llu", base,
                   (unsigned long long)base + count);
  memset(user->cells.cells + base, 0, count * sizeof *user->cells.cells);
  if (user->cells.floats) by_float_sums_clear(user->cells.floats, base, count);
  return BANYAN_OK;
}

static enum banyan_status prepare_floats(struct by_user *user) {
  enum banyan_status status = by_float_sums_init(&user->floats, user->cells.count);
  if (status == BANYAN_OK) {
    user->cells.floats = &user->floats;
    return BANYAN_OK;
  }
  by_float_sums_fini(&user->floats);
  user->floats = (struct by_float_sums){0};
  return status;
}

enum banyan_status by_user_grant(struct by_user *user, const struct by_grant *grant) {
  BY_TRY(by_grant_check(grant, user->cells.count, BY_USER_GROUPS));
  if (grant->dtype == BY_FRAGMENT_FLOAT32 && !user->cells.floats) BY_TRY(prepare_floats(user));
  struct by_grant **place = &user->grants[grant->job];
  if (!*place && !(*place = malloc(sizeof **place))) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  **place = *grant;
  return BANYAN_OK;
}

enum banyan_status by_user_revoke(struct by_user *user, uint16_t job) {
  if (!user->grants[job]) return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u has no grant to revoke", job);
  free(user->grants[job]);
  user->grants[job] = NULL;
  return BANYAN_OK;
}

enum banyan_status by_user_set_group(struct by_user *user, uint16_t group, const struct by_switch_target *targets,
                                     uint32_t n) {
  if (group >= BY_USER_GROUPS || n > BY_USER_MEMBERS)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: group %u with %u members; groups are 0 to %d, of at most %d", group, n,
                   BY_USER_GROUPS - 1, BY_USER_MEMBERS);
  for (uint32_t i = 0; i < n; i++)
    if (targets[i].port >= BY_FRAGMENT_PORTS || !user->ports[targets[i].port].watch || !targets[i].udp_port)
      return by_fail(BANYAN_ERR_ARGUMENT, "switch: member %u of group %u: there is no port %u, or UDP port 0", i, group,
                     targets[i].port);
  memcpy(user->groups[group].targets, targets, n * sizeof *targets);
  user->groups[group].n = n;
  return BANYAN_OK;
}

void by_user_count(const struct by_user *user, uint64_t events[BY_EVENTS]) {
  memcpy(events, user->events, sizeof user->events);
}

void by_user_get_traffic(const struct by_user *user, struct by_user_traffic *traffic) {
  *traffic = user->traffic;
  for (int i = 0; i < MAILERS; i++) {
    traffic->sent += user->mailers[i].sent;
    traffic->unsent += user->mailers[i].unsent;
  }
}
