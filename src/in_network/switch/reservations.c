/* Grants cells, ports and groups to jobs, and ends reservations whose holders do not return. */
#include "reservations.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "log.h"
#include "sum_key.h"

_Static_assert(sizeof(struct by_cell) + sizeof(uint64_t[BY_CELL_PAIRS]) == BY_RESERVATION_SLOT_BYTES,
               "a slot has one cell");

static const uint64_t timeout = 3 * BY_SECOND;              /* Timeout of finding next hops. */
static const uint64_t retry_interval = 20 * BY_MILLISECOND; /* Interval of requests for unknown next hops. */
static const uint64_t refresh_interval = 5 * BY_SECOND;     /* Interval of requests for all next hops. */
static const uint64_t lapse_time = BY_RESERVATION_SECONDS * BY_SECOND;

enum state { SEEKING, GRANTED, LAPSING, STATES };

struct range {
  uint32_t base, count;
};

struct reservation {
  struct by_reservations *all;
  struct by_reservation wanted;
  char holder[BY_RESERVATION_HOLDER + 1];
  void *owner; /* NULL: disconnected. */
  enum state state;
  uint16_t group; /* Group, and index in the table. */
  struct range cells;
  struct by_granted granted;
  struct by_timer timer; /* LAPSING: its end; SEEKING: its timeout. */
};

struct by_reservations {
  struct by_reservations_options options;
  char interfaces[BY_FRAGMENT_PORTS][IF_NAMESIZE];
  unsigned indices[BY_FRAGMENT_PORTS];
  struct by_neighbours neighbours;
  struct by_timer timer; /* Refreshes neighbours. */
  uint64_t refreshed;    /* When all of them were last refreshed. */
  struct reservation *table[BY_PLANE_GROUPS];
};

static void set_state(struct reservation *r, enum state to) {
  static const char *const names[] = {"looking for next hops", "granted", "lapsing"};
  static const bool allowed[STATES][STATES] = {
      [SEEKING] = {[GRANTED] = true}, [GRANTED] = {[LAPSING] = true}, [LAPSING] = {[GRANTED] = true}};
  assert(allowed[r->state][to]);
  by_debug("switch", "job %u: %s, was %s", r->wanted.job, names[to], names[r->state]);
  r->state = to;
}

static struct reservation *find_reservation(const struct by_reservations *all, uint16_t job) {
  for (int i = 0; i < BY_PLANE_GROUPS; i++)
    if (all->table[i] && all->table[i]->wanted.job == job) return all->table[i];
  return NULL;
}

/* ---- cells */

/* Returns the free cells from `base` on. No reservation's cells contain `base`. */
static struct range find_gap(const struct by_reservations *all, uint32_t base) {
  uint32_t end = all->options.cells;
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    const struct reservation *r = all->table[i];
    if (r && r->cells.count && r->cells.base >= base && r->cells.base < end) end = r->cells.base;
  }
  return (struct range){base, end - base};
}

/* Tells whether a is the better gap for so many cells. */
static bool is_better(const struct range *a, const struct range *b, uint32_t wanted) {
  if (a->count >= wanted) return b->count < wanted || a->count < b->count;
  return b->count < wanted && a->count > b->count;
}

/* Returns the smallest gap for `wanted` cells, or else all of the largest gap, which may be empty. */
static struct range find_cells(const struct by_reservations *all, uint32_t wanted) {
  struct range best = find_gap(all, 0);
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    const struct reservation *r = all->table[i];
    if (!r || !r->cells.count) continue;
    struct range gap = find_gap(all, r->cells.base + r->cells.count);
    if (is_better(&gap, &best, wanted)) best = gap;
  }
  if (best.count > wanted) best.count = wanted;
  return best;
}

/* ---- replies */

/* Answers with the reason in the thread's error text. */
static void send_refusal(const struct by_reservations *all, void *owner, const struct by_reservation_request *request,
                         bool taken) {
  struct by_reservation_reply reply = {.operation = request->operation,
                                       .job = request->reservation.job,
                                       .key = request->reservation.key,
                                       .taken = taken};
  by_keep_printable(banyan_error_text(), reply.text, sizeof reply.text);
  by_info("switch", "job %u: %s", reply.job, reply.text);
  all->options.answer(owner, &reply);
}

static void send_grant(const struct reservation *r) {
  struct by_reservation_reply reply = {.operation = BY_RESERVATION_GRANT,
                                       .well = true,
                                       .job = r->wanted.job,
                                       .key = r->wanted.key,
                                       .granted = r->granted};
  r->all->options.answer(r->owner, &reply);
}

/* ---- end of a reservation */

/* Adds or drops the next hops that it needs. */
static void change_neighbours(const struct reservation *r,
                              void (*change)(struct by_neighbours *neighbours, uint32_t port,
                                             const struct in6_addr *address)) {
  struct by_neighbours *neighbours = &r->all->neighbours;
  change(neighbours, r->granted.up, &r->wanted.server.address);
  for (unsigned i = 0; i < r->wanted.n_below; i++)
    for (unsigned w = 0; w < r->wanted.below[i].n; w++)
      change(neighbours, r->granted.below[i], &r->wanted.workers[r->wanted.below[i].first + w].address);
}

static void end_reservation(struct reservation *r) {
  const struct by_plane *plane = r->all->options.plane;
  const struct by_switch_target nobody = {0};
  by_loop_cancel_timer(&r->timer);
  if (r->state != SEEKING && plane->ops->revoke(plane->self, r->wanted.job) != BANYAN_OK)
    by_warn("switch", "%s", banyan_error_text());
  if (r->state != SEEKING && plane->ops->set_group(plane->self, r->group, &nobody, 0) != BANYAN_OK)
    by_warn("switch", "%s", banyan_error_text());
  change_neighbours(r, by_neighbours_drop);
  r->all->table[r->group] = NULL;
  explicit_bzero(&r->wanted.secret, sizeof r->wanted.secret);
  free(r);
}

/* ---- beginning of a reservation */

static enum banyan_status find_port(const struct by_reservations *all, const char *interface, uint8_t *out) {
  struct by_text names;
  for (uint32_t i = 0; i < all->options.n_ports; i++) {
    *out = (uint8_t)i;
    if (!strcmp(all->interfaces[i], interface)) return BANYAN_OK;
  }
  by_text_init(&names);
  for (uint32_t i = 0; i < all->options.n_ports; i++) by_text_add(&names, "%s%s", i ? ", " : "", all->interfaces[i]);
  enum banyan_status status =
      by_fail(BANYAN_ERR_ARGUMENT, "no port %s here, there are %.200s; does the topology name the switch's interfaces?",
              interface, by_text_get(&names));
  by_text_fini(&names);
  return status;
}

/* Returns an address whose next hop is unknown; NULL: none. */
static const struct by_udp_end *find_unknown(const struct reservation *r, const char **interface) {
  const struct by_neighbours *neighbours = &r->all->neighbours;
  const struct by_reservation *wanted = &r->wanted;
  uint8_t hardware[6];
  *interface = wanted->up;
  if (!by_neighbours_know(neighbours, r->granted.up, &wanted->server.address, hardware)) return &wanted->server;
  for (unsigned i = 0; i < wanted->n_below; i++)
    for (unsigned w = wanted->below[i].first; w < wanted->below[i].first + wanted->below[i].n; w++) {
      *interface = wanted->below[i].interface;
      if (!by_neighbours_know(neighbours, r->granted.below[i], &wanted->workers[w].address, hardware))
        return &wanted->workers[w];
    }
  return NULL;
}

/* Sets the group's members. For a switch, any worker's address behind it will do, as it addresses copies itself. */
static enum banyan_status set_group(const struct reservation *r) {
  const struct by_plane *plane = r->all->options.plane;
  struct by_switch_target targets[BY_RESERVATION_BELOW];
  for (unsigned i = 0; i < r->wanted.n_below; i++) {
    const struct by_udp_end *end = &r->wanted.workers[r->wanted.below[i].first];
    targets[i] = (struct by_switch_target){.port = r->granted.below[i], .address = end->address, .udp_port = end->port};
    (void)by_neighbours_know(&r->all->neighbours, targets[i].port, &end->address, targets[i].hardware);
  }
  return plane->ops->set_group(plane->self, r->group, targets, r->wanted.n_below);
}

/* Passes the grant to the plane, after the cells and the group. */
static enum banyan_status give_grant(const struct reservation *r, const struct by_grant *grant,
                                     const struct by_plane_ends *ends) {
  const struct by_plane *plane = r->all->options.plane;
  struct by_hop_key key;
  if (!grant->keyed) return plane->ops->grant(plane->self, grant, ends);
  BY_TRY(by_hop_key_derive(r->wanted.secret, &key));
  struct by_plane_ends keyed = *ends;
  keyed.key = &key;
  enum banyan_status status = plane->ops->grant(plane->self, grant, &keyed);
  explicit_bzero(&key, sizeof key);
  return status;
}

static enum banyan_status activate_reservation(struct reservation *r) {
  const struct by_plane *plane = r->all->options.plane;
  struct by_grant grant = {.above = 1ull << r->granted.up,
                           .base = r->cells.base,
                           .count = r->cells.count,
                           .job = r->wanted.job,
                           .key = r->wanted.key,
                           .group = r->group,
                           .dtype = r->wanted.float32 ? BY_FRAGMENT_FLOAT32 : BY_FRAGMENT_PAIRS,
                           .keyed = r->wanted.keyed,
                           .place = r->wanted.place};
  struct by_plane_ends ends = {.server = {r->granted.up, r->wanted.server}, .n_workers = r->wanted.n_workers};
  for (unsigned i = 0; i < r->wanted.n_below; i++) {
    const struct by_reservation_below *below = &r->wanted.below[i];
    grant.below |= 1ull << r->granted.below[i];
    for (unsigned w = below->first; w < below->first + below->n; w++)
      ends.workers[w] = (struct by_plane_end){r->granted.below[i], r->wanted.workers[w]};
  }
  BY_TRY(plane->ops->clear(plane->self, grant.base, grant.count));
  BY_TRY(set_group(r));
  BY_TRY(give_grant(r, &grant, &ends));
  set_state(r, GRANTED);
  by_loop_cancel_timer(&r->timer);
  by_info("switch", "job %u: %u cells from %u on", grant.job, grant.count, grant.base);
  send_grant(r);
  return BANYAN_OK;
}

static void give_up(struct reservation *r) {
  struct by_reservation_request request = {.operation = BY_RESERVATION_GRANT, .reservation = r->wanted};
  const struct by_reservations *all = r->all;
  void *owner = r->owner;
  end_reservation(r);
  send_refusal(all, owner, &request, false);
}

/* Activates a reservation if its next hops are known. */
static void try_to_activate(struct reservation *r) {
  const char *interface;
  if (!find_unknown(r, &interface) && activate_reservation(r) != BANYAN_OK) give_up(r);
}

/* Ends a reservation whose holder has not returned, or whose next hops were not found. */
static void handle_timeout(void *context) {
  struct reservation *r = context;
  char end[BY_ADDRESS_TEXT];
  const char *interface;
  const struct by_udp_end *unknown = find_unknown(r, &interface);
  if (r->state == LAPSING) {
    by_info("switch", "job %u: its holder has not come back", r->wanted.job);
    end_reservation(r);
  } else if (unknown) {
    (void)by_fail(BANYAN_ERR_TIMEOUT,
                  "nobody answers for %s by %s; is it up, does the switch's route to it leave there (ip route get)?",
                  by_udp_end_print(unknown, end), interface);
    give_up(r);
  }
}

static enum banyan_status begin_reservation(struct by_reservations *all, const struct by_reservation_request *request,
                                            void *owner, struct reservation **out) {
  const struct by_reservation *wanted = &request->reservation;
  struct by_granted granted = {.n_below = wanted->n_below};
  uint16_t group = 0;
  BY_TRY(find_port(all, wanted->up, &granted.up));
  for (unsigned i = 0; i < wanted->n_below; i++) BY_TRY(find_port(all, wanted->below[i].interface, &granted.below[i]));
  while (group < BY_PLANE_GROUPS && all->table[group]) group++;
  if (group == BY_PLANE_GROUPS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this switch has %d jobs already", BY_PLANE_GROUPS);
  struct reservation *r = malloc(sizeof *r);
  if (!r) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory");
  *r = (struct reservation){.all = all,
                            .wanted = *wanted,
                            .owner = owner,
                            .group = group,
                            .cells = find_cells(all, wanted->slots),
                            .granted = granted};
  r->granted.slots = r->cells.count;
  memcpy(r->holder, request->holder, sizeof r->holder);
  by_timer_init(&r->timer, handle_timeout, r);
  *out = all->table[group] = r;
  change_neighbours(r, by_neighbours_add);
  return BANYAN_OK;
}

/* ---- requests */

/* Returns true if the request was or will be answered. */
static bool renew_reservation(struct reservation *r, const struct by_reservation_request *request, void *owner) {
  uint16_t job = request->reservation.job, key = request->reservation.key;
  if (strcmp(r->holder, request->holder) != 0) {
    (void)by_fail(BANYAN_ERR_ARGUMENT, "job %u is another's here; choose another number", job);
    send_refusal(r->all, owner, request, true);
    return true;
  }
  if (by_reservation_same(&r->wanted, &request->reservation)) {
    r->owner = owner;
    if (r->state == LAPSING) {
      by_loop_cancel_timer(&r->timer);
      set_state(r, GRANTED);
    }
    if (r->state == GRANTED) send_grant(r);
    return true;
  }
  if (r->wanted.key == key) {
    (void)by_fail(BANYAN_ERR_ARGUMENT, "job %u has a different grant with key %u; choose another key", job, key);
    send_refusal(r->all, owner, request, false);
    return true;
  }
  end_reservation(r);
  return false;
}

/* Ends the lapsing reservations of earlier holders of the family. */
static void end_predecessors(struct by_reservations *all, const char *holder) {
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    struct reservation *r = all->table[i];
    if (!r || r->state != LAPSING || !by_reservation_is_successor(r->holder, holder)) continue;
    by_info("switch", "job %u: its cells are free, as another process goes on with the job", r->wanted.job);
    end_reservation(r);
  }
}

static enum banyan_status check_secret(const struct by_reservations *all, const struct by_reservation *wanted) {
  if (wanted->keyed || all->options.accepts_unauthenticated) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "job %u requests a grant without a secret, so that anybody could forge its fragments: do not set "
                 "BANYAN_ENCRYPT=off in the job, or run banyan switch --accept-unauthenticated",
                 wanted->job);
}

void by_reservations_grant(struct by_reservations *all, const struct by_reservation_request *request, void *owner) {
  if (check_secret(all, &request->reservation) != BANYAN_OK) {
    send_refusal(all, owner, request, false);
    return;
  }
  end_predecessors(all, request->holder);
  struct reservation *r = find_reservation(all, request->reservation.job);
  if (r && renew_reservation(r, request, owner)) return;
  if (begin_reservation(all, request, owner, &r) != BANYAN_OK) {
    send_refusal(all, owner, request, false);
    return;
  }
  by_loop_set_delay(all->options.loop, &r->timer, timeout);
  if (all->options.plane->ops->needs_neighbours) by_loop_set_delay(all->options.loop, &all->timer, 0);
  try_to_activate(r);
}

void by_reservations_revoke(struct by_reservations *all, const struct by_reservation_request *request, void *owner) {
  struct reservation *r = find_reservation(all, request->reservation.job);
  if (r && !strcmp(r->holder, request->holder)) {
    struct by_reservation_reply reply = {
        .operation = BY_RESERVATION_REVOKE, .well = true, .job = request->reservation.job};
    end_reservation(r);
    all->options.answer(owner, &reply);
    return;
  }
  (void)by_fail(BANYAN_ERR_ARGUMENT, "job %u %s", request->reservation.job,
                r ? "is another's here" : "has no grant here");
  send_refusal(all, owner, request, r != NULL);
}

void by_reservations_leave(struct by_reservations *all, const void *owner) {
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    struct reservation *r = all->table[i];
    if (!r || r->owner != owner) continue;
    r->owner = NULL;
    if (r->state == SEEKING) {
      end_reservation(r);
      continue;
    }
    set_state(r, LAPSING);
    by_loop_set_delay(all->options.loop, &r->timer, lapse_time);
  }
}

/* ---- refreshing next hops */

static void refresh_neighbours(void *context) {
  struct by_reservations *all = context;
  uint64_t now = by_loop_now(all->options.loop);
  bool every = now >= all->refreshed + refresh_interval, changed, waits = false;
  if (every) all->refreshed = now;
  if (by_neighbours_refresh(&all->neighbours, every, &changed) != BANYAN_OK)
    by_info("switch", "%s", banyan_error_text());
  for (int i = 0; changed && every && i < BY_PLANE_GROUPS; i++) /* Addresses of copies may have changed. */
    if (all->table[i] && all->table[i]->state != SEEKING && set_group(all->table[i]) != BANYAN_OK)
      by_warn("switch", "%s", banyan_error_text());
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    if (all->table[i] && all->table[i]->state == SEEKING) try_to_activate(all->table[i]);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the table */
    waits |= all->table[i] && all->table[i]->state == SEEKING;
  }
  by_loop_set_delay(all->options.loop, &all->timer, waits ? retry_interval : refresh_interval);
}

/* ---- all reservations */

static enum banyan_status name_ports(struct by_reservations *all) {
  for (uint32_t i = 0; i < all->options.n_ports; i++) {
    snprintf(all->interfaces[i], IF_NAMESIZE, "%s", all->options.ports[i]);
    all->indices[i] = if_nametoindex(all->interfaces[i]);
    if (!all->indices[i])
      return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "switch: no interface %s", all->interfaces[i]);
  }
  return by_neighbours_init(&all->neighbours, all->options.plane, all->indices,
                            BY_PLANE_GROUPS * (BY_RESERVATION_WORKERS + 1));
}

enum banyan_status by_reservations_create(const struct by_reservations_options *options, struct by_reservations **out) {
  struct by_reservations *all = calloc(1, sizeof *all);
  *out = all;
  if (!all) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  all->options = *options;
  by_timer_init(&all->timer, refresh_neighbours, all);
  enum banyan_status status = name_ports(all);
  if (status != BANYAN_OK) by_reservations_destroy(all), *out = NULL;
  return status;
}

void by_reservations_destroy(struct by_reservations *all) {
  if (!all) return;
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    if (!all->table[i]) continue;
    by_loop_cancel_timer(&all->table[i]->timer);
    explicit_bzero(&all->table[i]->wanted.secret, sizeof all->table[i]->wanted.secret);
    free(all->table[i]);
  }
  by_loop_cancel_timer(&all->timer);
  by_neighbours_fini(&all->neighbours);
  free(all);
}

static void print_one(const struct reservation *r, struct by_text *text) {
  uint64_t now = by_loop_now(r->all->options.loop);
  char end[BY_ADDRESS_TEXT];
  by_text_add(
      text, "{\"job\": %u, \"key\": %u, \"place\": %u, \"wanted\": %u, \"cells\": %u, \"first\": %u, \"granted\": %s, ",
      r->wanted.job, r->wanted.key, r->wanted.place, r->wanted.slots, r->cells.count, r->cells.base,
      r->state == SEEKING ? "false" : "true");
  if (r->state == LAPSING)
    by_text_add(text, "\"lapses_in\": %.1f, ", r->timer.at > now ? by_clock_to_seconds(r->timer.at - now) : 0.0);
  by_text_add(text, "\"server\": \"%s\", \"up\": ", by_udp_end_print(&r->wanted.server, end));
  by_json_add_string(text, r->wanted.up);
  by_text_add(text, ", \"below\": [");
  for (unsigned i = 0; i < r->wanted.n_below; i++) {
    const struct by_reservation_below *below = &r->wanted.below[i];
    by_text_add(text, "%s{\"interface\": ", i ? ", " : "");
    by_json_add_string(text, below->interface);
    by_text_add(text, ", \"switch\": %s, \"workers\": %u}", below->is_switch ? "true" : "false", below->n);
  }
  by_text_add(text, "]}");
}

uint32_t by_reservations_used(const struct by_reservations *all) {
  uint32_t used = 0;
  for (int i = 0; i < BY_PLANE_GROUPS; i++) used += all->table[i] ? all->table[i]->cells.count : 0;
  return used;
}

void by_reservations_print(const struct by_reservations *all, struct by_text *text) {
  const char *between = "";
  uint32_t used = by_reservations_used(all);
  by_text_add(text, ", \"cells\": {\"all\": %u, \"used\": %u}, \"ports\": [", all->options.cells, used);
  for (uint32_t i = 0; i < all->options.n_ports; i++) {
    if (i) by_text_add(text, ", ");
    by_json_add_string(text, all->interfaces[i]);
  }
  by_text_add(text, "], \"jobs\": [");
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    if (!all->table[i]) continue;
    by_text_add(text, "%s", between);
    print_one(all->table[i], text);
    between = ", ";
  }
  by_text_add(text, "]");
}
