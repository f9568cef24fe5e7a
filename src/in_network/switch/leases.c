#include "leases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leases_parts.h"
#include "log.h"

_Static_assert(sizeof(struct by_cell) + sizeof(uint64_t[BY_CELL_PAIRS]) == BY_WISH_SLOT_BYTES, "a slot has one cell");

static const uint64_t patience = 3 * BY_SECOND;   /* for next hops */
static const uint64_t soon = 20 * BY_MILLISECOND; /* those that are not known are looked for again */
static const uint64_t sometimes = 5 * BY_SECOND;  /* the others */
static const uint64_t lapse = BY_LEASE_SECONDS * BY_SECOND;

static uint16_t group_of(const struct lease *lease) {
  uint16_t group = 0;
  while (lease->leases->table[group] != lease) group++;
  return group;
}

static struct lease *find(const struct by_leases *leases, uint16_t job) {
  for (int i = 0; i < BY_PLANE_GROUPS; i++)
    if (leases->table[i] && leases->table[i]->wish.job == job) return leases->table[i];
  return NULL;
}

/* ---- answers */

static void answer(const struct by_leases *leases, void *owner, const struct by_lease_reply *reply) {
  if (owner) leases->options.answer(owner, reply);
}

/* The thread's error text is why. */
static void refuse(const struct by_leases *leases, void *owner, const struct by_lease_request *request, bool taken) {
  struct by_lease_reply reply = {
      .deed = request->deed, .job = request->wish.job, .key = request->wish.key, .taken = taken};
  by_keep_printable(banyan_error_text(), reply.text, sizeof reply.text);
  by_info("switch", "job %u: %s", reply.job, reply.text);
  answer(leases, owner, &reply);
}

static void confirm(const struct lease *lease) {
  struct by_lease_reply reply = {
      .deed = BY_LEASE_GRANT, .well = true, .job = lease->wish.job, .key = lease->wish.key, .granted = lease->granted};
  answer(lease->leases, lease->owner, &reply);
}

/* ---- the end of a lease */

static void drop_neighbours(const struct lease *lease) {
  struct by_neighbours *neighbours = &lease->leases->neighbours;
  const struct by_wish *wish = &lease->wish;
  by_neighbours_drop(neighbours, lease->granted.up, wish->server.address);
  for (unsigned i = 0; i < wish->n_below; i++)
    for (unsigned w = 0; w < wish->below[i].n; w++)
      by_neighbours_drop(neighbours, lease->granted.below[i], wish->workers[wish->below[i].first + w].address);
}

static void end_lease(struct lease *lease) {
  struct by_leases *leases = lease->leases;
  const struct by_plane *plane = leases->options.plane;
  const struct by_switch_target nobody = {0};
  uint16_t group = group_of(lease);
  by_loop_cancel_timer(&lease->timer);
  if (lease->active && plane->ops->revoke(plane->self, lease->wish.job) != BANYAN_OK)
    by_warn("switch", "%s", banyan_error_text());
  if (lease->active && plane->ops->set_group(plane->self, group, &nobody, 0) != BANYAN_OK)
    by_warn("switch", "%s", banyan_error_text());
  drop_neighbours(lease);
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

static enum banyan_status find_ports(const struct by_leases *leases, const struct by_wish *wish,
                                     struct by_granted *granted) {
  BY_TRY(find_port(leases, wish->up, &granted->up));
  for (unsigned i = 0; i < wish->n_below; i++) BY_TRY(find_port(leases, wish->below[i].interface, &granted->below[i]));
  granted->n_below = wish->n_below;
  return BANYAN_OK;
}

static void add_neighbours(const struct lease *lease) {
  struct by_neighbours *neighbours = &lease->leases->neighbours;
  const struct by_wish *wish = &lease->wish;
  by_neighbours_add(neighbours, lease->granted.up, wish->server.address);
  for (unsigned i = 0; i < wish->n_below; i++)
    for (unsigned w = 0; w < wish->below[i].n; w++)
      by_neighbours_add(neighbours, lease->granted.below[i], wish->workers[wish->below[i].first + w].address);
}

/* An address whose next hop is not known; NULL: all are. */
static const struct by_udp_end *find_unknown(const struct lease *lease, const char **interface) {
  const struct by_neighbours *neighbours = &lease->leases->neighbours;
  const struct by_wish *wish = &lease->wish;
  uint8_t hardware[6];
  *interface = wish->up;
  if (!by_neighbours_know(neighbours, lease->granted.up, wish->server.address, hardware)) return &wish->server;
  for (unsigned i = 0; i < wish->n_below; i++)
    for (unsigned w = wish->below[i].first; w < wish->below[i].first + wish->below[i].n; w++) {
      *interface = wish->below[i].interface;
      if (!by_neighbours_know(neighbours, lease->granted.below[i], wish->workers[w].address, hardware))
        return &wish->workers[w];
    }
  return NULL;
}

/* Behind a switch any worker's address will do: the switch there takes the packet and addresses copies itself. */
static enum banyan_status set_group(const struct lease *lease) {
  const struct by_plane *plane = lease->leases->options.plane;
  const struct by_wish *wish = &lease->wish;
  struct by_switch_target targets[BY_WISH_WORKERS];
  for (unsigned i = 0; i < wish->n_below; i++) {
    const struct by_udp_end *end = &wish->workers[wish->below[i].first];
    targets[i] =
        (struct by_switch_target){.port = lease->granted.below[i], .address = end->address, .udp_port = end->port};
    (void)by_neighbours_know(&lease->leases->neighbours, targets[i].port, end->address, targets[i].hardware);
  }
  return plane->ops->set_group(plane->self, group_of(lease), targets, wish->n_below);
}

static enum banyan_status activate(struct lease *lease) {
  const struct by_plane *plane = lease->leases->options.plane;
  struct by_grant grant = {.above = 1ull << lease->granted.up,
                           .base = lease->cells.base,
                           .count = lease->cells.count,
                           .job = lease->wish.job,
                           .key = lease->wish.key,
                           .group = group_of(lease),
                           .dtype = lease->wish.float32 ? BY_FRAGMENT_FLOAT32 : BY_FRAGMENT_PAIRS,
                           .place = lease->wish.place};
  for (unsigned i = 0; i < lease->wish.n_below; i++) grant.below |= 1ull << lease->granted.below[i];
  BY_TRY(plane->ops->clear(plane->self, grant.base, grant.count));
  BY_TRY(set_group(lease));
  BY_TRY(plane->ops->grant(plane->self, &grant));
  lease->active = true;
  by_loop_cancel_timer(&lease->timer);
  by_info("switch", "job %u: %u cells from %u on", grant.job, grant.count, grant.base);
  confirm(lease);
  return BANYAN_OK;
}

static void give_up(struct lease *lease) {
  struct by_lease_request request = {.deed = BY_LEASE_GRANT, .wish = lease->wish};
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
  if (lease->active) {
    by_info("switch", "job %u: its holder has not come back", lease->wish.job);
    end_lease(lease);
  } else if (unknown) {
    (void)by_fail(BANYAN_ERR_TIMEOUT,
                  "nobody answers for %s by %s; is it up, does the switch's route to it leave there (ip route get)?",
                  by_udp_end_print(unknown, end), interface);
    give_up(lease);
  }
}

static struct lease **find_place(struct by_leases *leases) {
  for (int i = 0; i < BY_PLANE_GROUPS; i++)
    if (!leases->table[i]) return &leases->table[i];
  return NULL;
}

static enum banyan_status begin_lease(struct by_leases *leases, const struct by_lease_request *request, void *owner,
                                      struct lease **out) {
  struct by_granted granted = {0};
  struct lease **place = find_place(leases), *lease;
  BY_TRY(find_ports(leases, &request->wish, &granted));
  if (!place) return by_fail(BANYAN_ERR_UNSUPPORTED, "this switch has %d jobs already", BY_PLANE_GROUPS);
  if (!(lease = calloc(1, sizeof *lease))) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory");
  lease->leases = leases;
  lease->wish = request->wish;
  lease->owner = owner;
  lease->granted = granted;
  memcpy(lease->holder, request->holder, sizeof lease->holder);
  by_timer_init(&lease->timer, lease_expired, lease);
  enum banyan_status status = by_ranges_take(&leases->cells, lease->wish.slots, &lease->cells);
  if (status != BANYAN_OK) {
    free(lease);
    return status;
  }
  lease->granted.slots = lease->cells.count;
  *out = *place = lease;
  add_neighbours(lease);
  return BANYAN_OK;
}

/* ---- what is asked */

/* True: it has been answered, or will be. */
static bool renew(struct lease *lease, const struct by_lease_request *request, void *owner) {
  struct by_leases *leases = lease->leases;
  if (strcmp(lease->holder, request->holder) != 0) {
    (void)by_fail(BANYAN_ERR_ARGUMENT, "job %u is another's here; choose another number", request->wish.job);
    refuse(leases, owner, request, true);
    return true;
  }
  if (by_wish_same(&lease->wish, &request->wish)) {
    if (!lease->owner) by_loop_cancel_timer(&lease->timer);
    lease->owner = owner;
    if (lease->active) confirm(lease);
    return true;
  }
  if (lease->wish.key == request->wish.key) {
    (void)by_fail(BANYAN_ERR_ARGUMENT, "job %u has a grant with key %u that says something else; choose another key",
                  request->wish.job, request->wish.key);
    refuse(leases, owner, request, false);
    return true;
  }
  end_lease(lease);
  return false;
}

static void look_soon(struct by_leases *leases) {
  if (leases->options.plane->ops->needs_neighbours) by_loop_set_delay(leases->options.loop, &leases->timer, 0);
}

void by_leases_grant(struct by_leases *leases, const struct by_lease_request *request, void *owner) {
  struct lease *lease = find(leases, request->wish.job);
  if (lease && renew(lease, request, owner)) return;
  if (begin_lease(leases, request, owner, &lease) != BANYAN_OK) {
    refuse(leases, owner, request, false);
    return;
  }
  by_loop_set_delay(leases->options.loop, &lease->timer, patience);
  look_soon(leases);
  try_lease(lease);
}

void by_leases_revoke(struct by_leases *leases, const struct by_lease_request *request, void *owner) {
  struct lease *lease = find(leases, request->wish.job);
  if (lease && !strcmp(lease->holder, request->holder)) {
    struct by_lease_reply reply = {.deed = BY_LEASE_REVOKE, .well = true, .job = request->wish.job};
    end_lease(lease);
    answer(leases, owner, &reply);
    return;
  }
  (void)by_fail(BANYAN_ERR_ARGUMENT, "job %u %s", request->wish.job, lease ? "is another's here" : "has no grant here");
  refuse(leases, owner, request, lease != NULL);
}

void by_leases_leave(struct by_leases *leases, const void *owner) {
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    struct lease *lease = leases->table[i];
    if (!lease || lease->owner != owner) continue;
    lease->owner = NULL;
    if (lease->active)
      by_loop_set_delay(leases->options.loop, &lease->timer, lapse);
    else
      end_lease(lease);
  }
}

/* ---- next hops, again and again */

static bool any_waits(const struct by_leases *leases) {
  for (int i = 0; i < BY_PLANE_GROUPS; i++)
    if (leases->table[i] && !leases->table[i]->active) return true;
  return false;
}

static void address_copies_anew(const struct by_leases *leases) {
  for (int i = 0; i < BY_PLANE_GROUPS; i++)
    if (leases->table[i] && leases->table[i]->active && set_group(leases->table[i]) != BANYAN_OK)
      by_warn("switch", "%s", banyan_error_text());
}

static void look(void *context) {
  struct by_leases *leases = context;
  uint64_t now = by_loop_now(leases->options.loop);
  bool all = now >= leases->looked + sometimes, changed;
  if (all) leases->looked = now;
  if (by_neighbours_refresh(&leases->neighbours, all, &changed) != BANYAN_OK)
    by_info("switch", "%s", banyan_error_text());
  if (changed && all) address_copies_anew(leases);
  for (int i = 0; i < BY_PLANE_GROUPS; i++)
    if (leases->table[i] && !leases->table[i]->active) try_lease(leases->table[i]);
  by_loop_set_delay(leases->options.loop, &leases->timer, any_waits(leases) ? soon : sometimes);
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
                            BY_PLANE_GROUPS * (BY_WISH_WORKERS + 1));
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
