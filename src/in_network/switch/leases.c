#include "leases.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "log.h"
#include "neighbours.h"

void by_ranges_init(struct by_ranges *ranges, uint32_t cells) {
  *ranges = (struct by_ranges){.cells = cells};
}

void by_ranges_fini(struct by_ranges *ranges) {
  free(ranges->taken);
}

/* The cells before the i-th that is taken; with i = n those behind the last. */
static struct by_range gap_before(const struct by_ranges *ranges, uint32_t i) {
  uint32_t start = i ? ranges->taken[i - 1].base + ranges->taken[i - 1].count : 0;
  uint32_t end = i < ranges->n ? ranges->taken[i].base : ranges->cells;
  return (struct by_range){start, end - start};
}

/* Whether a is the better of the two for so many. */
static bool is_better(const struct by_range *a, const struct by_range *b, uint32_t wanted) {
  if (a->count >= wanted) return b->count < wanted || a->count < b->count;
  return b->count < wanted && a->count > b->count;
}

static enum banyan_status insert(struct by_ranges *ranges, uint32_t at, struct by_range range) {
  if (ranges->n == ranges->room) {
    uint32_t room = ranges->room ? 2 * ranges->room : 16;
    struct by_range *taken = realloc(ranges->taken, room * sizeof *taken);
    if (!taken) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
    ranges->taken = taken;
    ranges->room = room;
  }
  memmove(ranges->taken + at + 1, ranges->taken + at, (ranges->n - at) * sizeof *ranges->taken);
  ranges->taken[at] = range;
  ranges->n++;
  ranges->used += range.count;
  return BANYAN_OK;
}

enum banyan_status by_ranges_take(struct by_ranges *ranges, uint32_t wanted, struct by_range *out) {
  struct by_range best = gap_before(ranges, 0);
  uint32_t at = 0;
  for (uint32_t i = 1; i <= ranges->n; i++) {
    struct by_range gap = gap_before(ranges, i);
    if (!is_better(&gap, &best, wanted)) continue;
    best = gap;
    at = i;
  }
  if (best.count > wanted) best.count = wanted;
  *out = best;
  return best.count ? insert(ranges, at, best) : BANYAN_OK;
}

void by_ranges_give(struct by_ranges *ranges, const struct by_range *range) {
  for (uint32_t i = 0; i < ranges->n && range->count; i++) {
    if (ranges->taken[i].base != range->base) continue;
    ranges->used -= ranges->taken[i].count;
    ranges->n--;
    memmove(ranges->taken + i, ranges->taken + i + 1, (ranges->n - i) * sizeof *ranges->taken);
    return;
  }
}

/* ---- leases */

_Static_assert(sizeof(struct by_cell) + sizeof(uint64_t[BY_CELL_PAIRS]) == BY_RESERVATION_SLOT_BYTES,
               "a slot has one cell");

static const uint64_t timeout = 3 * BY_SECOND;    /* for next hops */
static const uint64_t soon = 20 * BY_MILLISECOND; /* those that are not known are looked for again */
static const uint64_t sometimes = 5 * BY_SECOND;  /* the others */
static const uint64_t lapse = BY_LEASE_SECONDS * BY_SECOND;

enum state { SEEKING, GRANTED, LAPSING, STATES };

/* Its place in the table is its group. */
struct lease {
  struct by_leases *leases;
  struct by_reservation reservation;
  char holder[BY_LEASE_HOLDER + 1];
  void *owner; /* NULL: gone */
  enum state state;
  struct by_range cells;
  struct by_granted granted;
  struct by_timer timer; /* LAPSING: until it ends; SEEKING: until it is given up */
};

struct by_leases {
  struct by_leases_options options;
  char interfaces[BY_FRAGMENT_PORTS][IF_NAMESIZE];
  unsigned indices[BY_FRAGMENT_PORTS];
  struct by_ranges cells;
  struct by_neighbours neighbours;
  struct by_timer timer; /* looks for neighbours */
  uint64_t looked;       /* at all of them */
  struct lease *table[BY_PLANE_GROUPS];
};

static void set_state(struct lease *lease, enum state to) {
  static const char *const names[] = {"looking for next hops", "granted", "lapsing"};
  static const bool allowed[STATES][STATES] = {
      [SEEKING] = {[GRANTED] = true}, [GRANTED] = {[LAPSING] = true}, [LAPSING] = {[GRANTED] = true}};
  assert(allowed[lease->state][to]);
  by_debug("switch", "job %u: %s, was %s", lease->reservation.job, names[to], names[lease->state]);
  lease->state = to;
}

static uint16_t group_of(const struct lease *lease) {
  uint16_t group = 0;
  while (lease->leases->table[group] != lease) group++;
  return group;
}

static struct lease *find(const struct by_leases *leases, uint16_t job) {
  for (int i = 0; i < BY_PLANE_GROUPS; i++)
    if (leases->table[i] && leases->table[i]->reservation.job == job) return leases->table[i];
  return NULL;
}

/* ---- replies */

static void answer(const struct by_leases *leases, void *owner, const struct by_lease_reply *reply) {
  if (owner) leases->options.answer(owner, reply);
}

/* The thread's error text is why. */
static void refuse(const struct by_leases *leases, void *owner, const struct by_lease_request *request, bool taken) {
  struct by_lease_reply reply = {.operation = request->operation,
                                 .job = request->reservation.job,
                                 .key = request->reservation.key,
                                 .taken = taken};
  by_keep_printable(banyan_error_text(), reply.text, sizeof reply.text);
  by_info("switch", "job %u: %s", reply.job, reply.text);
  answer(leases, owner, &reply);
}

static void confirm(const struct lease *lease) {
  struct by_lease_reply reply = {.operation = BY_LEASE_GRANT,
                                 .well = true,
                                 .job = lease->reservation.job,
                                 .key = lease->reservation.key,
                                 .granted = lease->granted};
  answer(lease->leases, lease->owner, &reply);
}

/* ---- the end of a lease */

/* Adds or drops the next hops that it needs. */
static void change_neighbours(const struct lease *lease,
                              void (*change)(struct by_neighbours *neighbours, uint32_t port, uint32_t address)) {
  struct by_neighbours *neighbours = &lease->leases->neighbours;
  const struct by_reservation *reservation = &lease->reservation;
  change(neighbours, lease->granted.up, reservation->server.address);
  for (unsigned i = 0; i < reservation->n_below; i++)
    for (unsigned w = 0; w < reservation->below[i].n; w++)
      change(neighbours, lease->granted.below[i], reservation->workers[reservation->below[i].first + w].address);
}

static void end_lease(struct lease *lease) {
  struct by_leases *leases = lease->leases;
  const struct by_plane *plane = leases->options.plane;
  const struct by_switch_target nobody = {0};
  uint16_t group = group_of(lease);
  by_loop_cancel_timer(&lease->timer);
  if (lease->state != SEEKING && plane->ops->revoke(plane->self, lease->reservation.job) != BANYAN_OK)
    by_warn("switch", "%s", banyan_error_text());
  if (lease->state != SEEKING && plane->ops->set_group(plane->self, group, &nobody, 0) != BANYAN_OK)
    by_warn("switch", "%s", banyan_error_text());
  change_neighbours(lease, by_neighbours_drop);
  by_ranges_give(&leases->cells, &lease->cells);
  leases->table[group] = NULL;
  free(lease);
}

/* ---- its beginning */

static enum banyan_status find_port(const struct by_leases *leases, const char *interface, uint8_t *out) {
  struct by_text names;
  for (uint32_t i = 0; i < leases->options.n_ports; i++) {
    *out = (uint8_t)i;
    if (!strcmp(leases->interfaces[i], interface)) return BANYAN_OK;
  }
  by_text_init(&names);
  for (uint32_t i = 0; i < leases->options.n_ports; i++)
    by_text_add(&names, "%s%s", i ? ", " : "", leases->interfaces[i]);
  enum banyan_status status =
      by_fail(BANYAN_ERR_ARGUMENT, "no port %s here, there are %.200s; does the topology name the switch's interfaces?",
              interface, by_text_get(&names));
  by_text_fini(&names);
  return status;
}

/* An address whose next hop is not known; NULL: all are. */
static const struct by_udp_end *find_unknown(const struct lease *lease, const char **interface) {
  const struct by_neighbours *neighbours = &lease->leases->neighbours;
  const struct by_reservation *reservation = &lease->reservation;
  uint8_t hardware[6];
  *interface = reservation->up;
  if (!by_neighbours_know(neighbours, lease->granted.up, reservation->server.address, hardware))
    return &reservation->server;
  for (unsigned i = 0; i < reservation->n_below; i++)
    for (unsigned w = reservation->below[i].first; w < reservation->below[i].first + reservation->below[i].n; w++) {
      *interface = reservation->below[i].interface;
      if (!by_neighbours_know(neighbours, lease->granted.below[i], reservation->workers[w].address, hardware))
        return &reservation->workers[w];
    }
  return NULL;
}

/* Behind a switch any worker's address will do: the switch there takes the packet and addresses copies itself. */
static enum banyan_status set_group(const struct lease *lease) {
  const struct by_plane *plane = lease->leases->options.plane;
  const struct by_reservation *reservation = &lease->reservation;
  struct by_switch_target targets[BY_RESERVATION_WORKERS];
  for (unsigned i = 0; i < reservation->n_below; i++) {
    const struct by_udp_end *end = &reservation->workers[reservation->below[i].first];
    targets[i] =
        (struct by_switch_target){.port = lease->granted.below[i], .address = end->address, .udp_port = end->port};
    (void)by_neighbours_know(&lease->leases->neighbours, targets[i].port, end->address, targets[i].hardware);
  }
  return plane->ops->set_group(plane->self, group_of(lease), targets, reservation->n_below);
}

static enum banyan_status activate(struct lease *lease) {
  const struct by_plane *plane = lease->leases->options.plane;
  struct by_grant grant = {.above = 1ull << lease->granted.up,
                           .base = lease->cells.base,
                           .count = lease->cells.count,
                           .job = lease->reservation.job,
                           .key = lease->reservation.key,
                           .group = group_of(lease),
                           .dtype = lease->reservation.float32 ? BY_FRAGMENT_FLOAT32 : BY_FRAGMENT_PAIRS,
                           .place = lease->reservation.place};
  for (unsigned i = 0; i < lease->reservation.n_below; i++) grant.below |= 1ull << lease->granted.below[i];
  BY_TRY(plane->ops->clear(plane->self, grant.base, grant.count));
  BY_TRY(set_group(lease));
  BY_TRY(plane->ops->grant(plane->self, &grant));
  set_state(lease, GRANTED);
  by_loop_cancel_timer(&lease->timer);
  by_info("switch", "job %u: %u cells from %u on", grant.job, grant.count, grant.base);
  confirm(lease);
  return BANYAN_OK;
}

static void give_up(struct lease *lease) {
  struct by_lease_request request = {.operation = BY_LEASE_GRANT, .reservation = lease->reservation};
  const struct by_leases *leases = lease->leases;
  void *owner = lease->owner;
  end_lease(lease);
  refuse(leases, owner, &request, false);
}

/* Goes on with one whose next hops are looked for. */
static void try_lease(struct lease *lease) {
  const char *interface;
  if (find_unknown(lease, &interface)) return;
  if (activate(lease) != BANYAN_OK) give_up(lease);
}

/* Nobody has come back for it, or a next hop has not been found. */
static void lease_expired(void *context) {
  struct lease *lease = context;
  char end[BY_UDP_END_TEXT];
  const char *interface;
  const struct by_udp_end *unknown = find_unknown(lease, &interface);
  if (lease->state == LAPSING) {
    by_info("switch", "job %u: its holder has not come back", lease->reservation.job);
    end_lease(lease);
  } else if (unknown) {
    (void)by_fail(BANYAN_ERR_TIMEOUT,
                  "nobody answers for %s by %s; is it up, does the switch's route to it leave there (ip route get)?",
                  by_udp_end_print(unknown, end), interface);
    give_up(lease);
  }
}

static enum banyan_status begin_lease(struct by_leases *leases, const struct by_lease_request *request, void *owner,
                                      struct lease **out) {
  const struct by_reservation *reservation = &request->reservation;
  struct by_granted granted = {.n_below = reservation->n_below};
  struct by_range cells;
  int place = 0;
  BY_TRY(find_port(leases, reservation->up, &granted.up));
  for (unsigned i = 0; i < reservation->n_below; i++)
    BY_TRY(find_port(leases, reservation->below[i].interface, &granted.below[i]));
  while (place < BY_PLANE_GROUPS && leases->table[place]) place++;
  if (place == BY_PLANE_GROUPS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this switch has %d jobs already", BY_PLANE_GROUPS);
  struct lease *lease = malloc(sizeof *lease);
  if (!lease) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory");
  enum banyan_status status = by_ranges_take(&leases->cells, reservation->slots, &cells);
  if (status != BANYAN_OK) {
    free(lease);
    return status;
  }
  granted.slots = cells.count;
  *lease =
      (struct lease){.leases = leases, .reservation = *reservation, .owner = owner, .cells = cells, .granted = granted};
  memcpy(lease->holder, request->holder, sizeof lease->holder);
  by_timer_init(&lease->timer, lease_expired, lease);
  *out = leases->table[place] = lease;
  change_neighbours(lease, by_neighbours_add);
  return BANYAN_OK;
}

/* ---- what is asked */

/* True: it has been answered, or will be. */
static bool renew(struct lease *lease, const struct by_lease_request *request, void *owner) {
  struct by_leases *leases = lease->leases;
  if (strcmp(lease->holder, request->holder) != 0) {
    (void)by_fail(BANYAN_ERR_ARGUMENT, "job %u is another's here; choose another number", request->reservation.job);
    refuse(leases, owner, request, true);
    return true;
  }
  if (by_reservation_same(&lease->reservation, &request->reservation)) {
    lease->owner = owner;
    if (lease->state == LAPSING) {
      by_loop_cancel_timer(&lease->timer);
      set_state(lease, GRANTED);
    }
    if (lease->state == GRANTED) confirm(lease);
    return true;
  }
  if (lease->reservation.key == request->reservation.key) {
    (void)by_fail(BANYAN_ERR_ARGUMENT, "job %u has a grant with key %u that says something else; choose another key",
                  request->reservation.job, request->reservation.key);
    refuse(leases, owner, request, false);
    return true;
  }
  end_lease(lease);
  return false;
}

void by_leases_grant(struct by_leases *leases, const struct by_lease_request *request, void *owner) {
  struct lease *lease = find(leases, request->reservation.job);
  if (lease && renew(lease, request, owner)) return;
  if (begin_lease(leases, request, owner, &lease) != BANYAN_OK) {
    refuse(leases, owner, request, false);
    return;
  }
  by_loop_set_delay(leases->options.loop, &lease->timer, timeout);
  if (leases->options.plane->ops->needs_neighbours) by_loop_set_delay(leases->options.loop, &leases->timer, 0);
  try_lease(lease);
}

void by_leases_revoke(struct by_leases *leases, const struct by_lease_request *request, void *owner) {
  struct lease *lease = find(leases, request->reservation.job);
  if (lease && !strcmp(lease->holder, request->holder)) {
    struct by_lease_reply reply = {.operation = BY_LEASE_REVOKE, .well = true, .job = request->reservation.job};
    end_lease(lease);
    answer(leases, owner, &reply);
    return;
  }
  (void)by_fail(BANYAN_ERR_ARGUMENT, "job %u %s", request->reservation.job,
                lease ? "is another's here" : "has no grant here");
  refuse(leases, owner, request, lease != NULL);
}

void by_leases_leave(struct by_leases *leases, const void *owner) {
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    struct lease *lease = leases->table[i];
    if (!lease || lease->owner != owner) continue;
    lease->owner = NULL;
    if (lease->state == SEEKING) {
      end_lease(lease);
      continue;
    }
    set_state(lease, LAPSING);
    by_loop_set_delay(leases->options.loop, &lease->timer, lapse);
  }
}

/* ---- next hops, again and again */

static void look(void *context) {
  struct by_leases *leases = context;
  uint64_t now = by_loop_now(leases->options.loop);
  bool all = now >= leases->looked + sometimes, changed, waits = false;
  if (all) leases->looked = now;
  if (by_neighbours_refresh(&leases->neighbours, all, &changed) != BANYAN_OK)
    by_info("switch", "%s", banyan_error_text());
  for (int i = 0; changed && all && i < BY_PLANE_GROUPS; i++) /* copies get other addresses */
    if (leases->table[i] && leases->table[i]->state != SEEKING && set_group(leases->table[i]) != BANYAN_OK)
      by_warn("switch", "%s", banyan_error_text());
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    if (leases->table[i] && leases->table[i]->state == SEEKING) try_lease(leases->table[i]);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the table */
    waits |= leases->table[i] && leases->table[i]->state == SEEKING;
  }
  by_loop_set_delay(leases->options.loop, &leases->timer, waits ? soon : sometimes);
}

/* ---- all of them */

static enum banyan_status name_ports(struct by_leases *leases) {
  for (uint32_t i = 0; i < leases->options.n_ports; i++) {
    snprintf(leases->interfaces[i], IF_NAMESIZE, "%s", leases->options.ports[i]);
    leases->indices[i] = if_nametoindex(leases->interfaces[i]);
    if (!leases->indices[i])
      return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "switch: no interface %s", leases->interfaces[i]);
  }
  return by_neighbours_init(&leases->neighbours, leases->options.plane, leases->indices,
                            BY_PLANE_GROUPS * (BY_RESERVATION_WORKERS + 1));
}

enum banyan_status by_leases_create(const struct by_leases_options *options, struct by_leases **out) {
  struct by_leases *leases = calloc(1, sizeof *leases);
  *out = leases;
  if (!leases) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  leases->options = *options;
  by_ranges_init(&leases->cells, options->cells);
  by_timer_init(&leases->timer, look, leases);
  enum banyan_status status = name_ports(leases);
  if (status != BANYAN_OK) by_leases_destroy(leases), *out = NULL;
  return status;
}

void by_leases_destroy(struct by_leases *leases) {
  if (!leases) return;
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    if (leases->table[i]) by_loop_cancel_timer(&leases->table[i]->timer);
    free(leases->table[i]);
  }
  by_loop_cancel_timer(&leases->timer);
  by_neighbours_fini(&leases->neighbours);
  by_ranges_fini(&leases->cells);
  free(leases);
}

static void print_below(const struct lease *lease, struct by_text *text) {
  for (unsigned i = 0; i < lease->reservation.n_below; i++) {
    const struct by_reservation_below *below = &lease->reservation.below[i];
    by_text_add(text, "%s{\"interface\": ", i ? ", " : "");
    by_json_add_string(text, below->interface);
    by_text_add(text, ", \"switch\": %s, \"workers\": %u}", below->is_switch ? "true" : "false", below->n);
  }
}

static void print_lease(const struct lease *lease, uint64_t now, struct by_text *text) {
  char end[BY_UDP_END_TEXT];
  by_text_add(
      text, "{\"job\": %u, \"key\": %u, \"place\": %u, \"wanted\": %u, \"cells\": %u, \"first\": %u, \"granted\": %s, ",
      lease->reservation.job, lease->reservation.key, lease->reservation.place, lease->reservation.slots,
      lease->cells.count, lease->cells.base, lease->state == SEEKING ? "false" : "true");
  if (lease->state == LAPSING)
    by_text_add(text, "\"lapses_in\": %.1f, ",
                lease->timer.at > now ? by_clock_to_seconds(lease->timer.at - now) : 0.0);
  by_text_add(text, "\"server\": \"%s\", \"up\": ", by_udp_end_print(&lease->reservation.server, end));
  by_json_add_string(text, lease->reservation.up);
  by_text_add(text, ", \"below\": [");
  print_below(lease, text);
  by_text_add(text, "]}");
}

void by_leases_print(const struct by_leases *leases, struct by_text *text) {
  uint64_t now = by_loop_now(leases->options.loop);
  const char *between = "";
  by_text_add(text, ", \"cells\": {\"all\": %u, \"used\": %u}, \"ports\": [", leases->cells.cells, leases->cells.used);
  for (uint32_t i = 0; i < leases->options.n_ports; i++) {
    if (i) by_text_add(text, ", ");
    by_json_add_string(text, leases->interfaces[i]);
  }
  by_text_add(text, "], \"jobs\": [");
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    if (!leases->table[i]) continue;
    by_text_add(text, "%s", between);
    print_lease(leases->table[i], now, text);
    between = ", ";
  }
  by_text_add(text, "]");
}
