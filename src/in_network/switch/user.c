/* A switch of ordinary sockets, for hosts without XDP, and for comparison. A port is an interface; the next hop is
 * determined by the host's routes for the packet's address on that interface. If other traffic has other routes: ip
 * rule add oif IF lookup T. Without a route, IPv4 takes the address to be on the link; IPv6 fails. It handles packets
 * between the ends of its grants: capture.c makes the kernel deliver them to sockets while the process lives. All other
 * packets, and all without the process, are forwarded by the kernel as before (net.ipv4.ip_forward=1). Fragments leave
 * from the UDP port that they came from. Needs root (CAP_NET_ADMIN) and /dev/net/tun.
 *
 * Several queues may share the work, each on a thread. All grants of one server's UDP port are in one queue, so that
 * each cell and each flow of packets belongs to one queue, and queues share nothing. A grant is ready when its function
 * has returned. One thread at a time: the loop's. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "data_plane.h"
#include "step.h"
#include "user_queue.h"

/* The queue of a job's grant. */
struct placement {
  uint16_t job;
  uint32_t queue;
  struct by_udp_end server;
  LIST_ENTRY(placement) link;
};

struct user {
  char ports[BY_FRAGMENT_PORTS][IF_NAMESIZE]; /* "": no such port. */
  struct by_queue_options of_queues;
  LIST_HEAD(, placement) placement;
  uint32_t n; /* Number of queues; 0: it does not take packets yet. */
  uint32_t wanted;
  struct by_queue *queues[BY_PLANE_QUEUES];
};

static void destroy_switch(void *self) {
  struct user *user = self;
  struct placement *placement;
  while ((placement = LIST_FIRST(&user->placement))) {
    LIST_REMOVE(placement, link);
    free(placement);
  }
  for (uint32_t i = 0; i < user->n; i++) by_queue_destroy(user->queues[i]);
  by_capture_close(user->of_queues.capture);
  free(user->of_queues.cells.cells);
  free(user->of_queues.cells.sums);
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

static enum banyan_status start_queues(void *self, uint32_t n) {
  struct user *user = self;
  if (user->of_queues.capture) return by_fail(BANYAN_ERR_ARGUMENT, "switch: takes packets already");
  BY_TRY(by_capture_open(&user->of_queues.capture));
  for (; user->n < user->wanted; user->n++) BY_TRY(by_queue_create(&user->of_queues, &user->queues[user->n]));
  return BANYAN_OK;
}

static enum banyan_status clear_cells(void *self, uint32_t base, uint32_t count_events) {
  struct user *user = self;
  const struct by_cells *cells = &user->of_queues.cells;
  if (base > cells->count || count_events > cells->count - base)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: there are no cells %u to %llu", base,
                   (unsigned long long)base + count_events);
  memset(cells->cells + base, 0, count_events * sizeof *cells->cells);
  for (uint32_t i = 0; i < user->n; i++) BY_TRY(by_queue_clear(user->queues[i], base, count_events));
  return BANYAN_OK;
}

/* ---- grants */

static enum banyan_status check_end(const struct user *user, uint16_t job, const struct by_plane_end *end) {
  if (end->port < BY_FRAGMENT_PORTS && *user->ports[end->port] && !IN6_IS_ADDR_UNSPECIFIED(&end->end.address) &&
      end->end.port)
    return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "switch: job %u has an end behind port %u, which is not there, or without address", job, end->port);
}

static enum banyan_status check_ends(const struct user *user, uint16_t job, const struct by_plane_ends *ends) {
  if (!user->n) return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u comes before the start", job);
  if (ends->n_workers > BY_PLANE_WORKERS)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u has %u workers; at most %d are possible", job, ends->n_workers,
                   BY_PLANE_WORKERS);
  BY_TRY(check_end(user, job, &ends->server));
  for (uint32_t w = 0; w < ends->n_workers; w++) BY_TRY(check_end(user, job, &ends->workers[w]));
  return BANYAN_OK;
}

static struct placement *find_placement(const struct user *user, uint16_t job) {
  struct placement *placement;
  LIST_FOREACH(placement, &user->placement, link)
  if (placement->job == job) return placement;
  return NULL;
}

/* Returns the queue of the server's other grants, or else the one with the fewest grants. */
static uint32_t choose_queue(const struct user *user, const struct by_udp_end *server) {
  uint32_t grants[BY_PLANE_QUEUES] = {0}, best = 0;
  const struct placement *placement;
  LIST_FOREACH(placement, &user->placement, link) {
    if (by_udp_end_same(&placement->server, server)) return placement->queue;
    grants[placement->queue]++;
  }
  for (uint32_t i = 1; i < user->n; i++)
    if (grants[i] < grants[best]) best = i;
  return best;
}

static enum banyan_status revoke_grant(void *self, uint16_t job) {
  struct user *user = self;
  struct placement *placement = find_placement(user, job);
  if (!placement) return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u has no grant to revoke", job);
  enum banyan_status status = by_queue_revoke(user->queues[placement->queue], job);
  LIST_REMOVE(placement, link);
  free(placement);
  return status;
}

static enum banyan_status give_grant(void *self, const struct by_grant *grant, const struct by_plane_ends *ends) {
  struct user *user = self;
  BY_TRY(by_grant_check(grant, user->of_queues.cells.count, BY_PLANE_GROUPS));
  BY_TRY(check_ends(user, grant->job, ends));
  struct placement *placement = malloc(sizeof *placement), *before = find_placement(user, grant->job);
  if (!placement) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  *placement =
      (struct placement){.job = grant->job, .queue = choose_queue(user, &ends->server.end), .server = ends->server.end};
  enum banyan_status status = by_queue_grant(user->queues[placement->queue], grant, ends);
  if (status != BANYAN_OK) {
    free(placement);
    return status;
  }
  if (before && before->queue != placement->queue) status = by_queue_revoke(user->queues[before->queue], grant->job);
  if (before) LIST_REMOVE(before, link);
  free(before);
  LIST_INSERT_HEAD(&user->placement, placement, link);
  return status;
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
  for (uint32_t i = 0; i < user->n; i++) BY_TRY(by_queue_set_group(user->queues[i], group, targets, n));
  return BANYAN_OK;
}

static enum banyan_status count_events(const void *self, struct by_plane_counts *out) {
  const struct user *user = self;
  *out = (struct by_plane_counts){0};
  for (uint32_t i = 0; i < user->n; i++) BY_TRY(by_queue_count(user->queues[i], out));
  return BANYAN_OK;
}

static const struct by_plane_ops ops = {
    .name = "user",
    .destroy = destroy_switch,
    .add_port = add_port,
    .start = start_queues,
    .clear = clear_cells,
    .grant = give_grant,
    .revoke = revoke_grant,
    .set_group = set_group,
    .count = count_events,
};

enum banyan_status by_user_open(struct by_loop *loop, const struct by_plane_options *options, struct by_plane *out) {
  uint32_t cells = options->cells ? options->cells : 1;
  struct user *user = calloc(1, sizeof *user);
  *out = (struct by_plane){0};
  if (!user) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  user->wanted = options->queues ? options->queues : 1;
  user->of_queues =
      (struct by_queue_options){.loop = options->queues ? NULL : loop,
                                .ports = (const char(*)[IF_NAMESIZE])user->ports,
                                .cells = {calloc(cells, sizeof *user->of_queues.cells.cells),
                                          calloc(cells, sizeof *user->of_queues.cells.sums), options->cells, NULL}};
  if (user->of_queues.cells.cells && user->of_queues.cells.sums && user->wanted <= BY_PLANE_QUEUES) {
    out->ops = &ops;
    out->self = user;
    return BANYAN_OK;
  }
  destroy_switch(user);
  return by_fail(BANYAN_ERR_NO_MEMORY, "switch: no memory for %u cells, or more than %d queues", cells,
                 BY_PLANE_QUEUES);
}
