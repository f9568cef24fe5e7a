/* What jobs have at this switch: cells, ports, a group, next hops. A lease is
 * somebody's who holds it over a connection; BY_LEASE_SECONDS after that has
 * ended it lapses, unless the same holder asks again. What one wishes for takes
 * until its next hops are known, for some seconds at most. Cells are free when
 * they are given out. On the loop's thread.
 *
 *   a lease is   becomes   when
 *   seeking      granted   its next hops are known, and the data plane has it
 *   granted      lapsing   its holder's connection has ended
 *   lapsing      granted   the same holder asks for the same again */
#ifndef BY_SWITCH_LEASES_H
#define BY_SWITCH_LEASES_H

#include "data_plane.h"
#include "loop.h"
#include "reservation_messages.h"

/* Which cells are whose: ranges of them, given out and taken back. A range is known by where it begins. */
struct by_range {
  uint32_t base, count;
};

struct by_ranges {
  uint32_t cells;
  uint32_t used;
  struct by_range *taken; /* ascending */
  uint32_t n, room;
};

void by_ranges_init(struct by_ranges *ranges, uint32_t cells);
void by_ranges_fini(struct by_ranges *ranges);
/* The smallest gap that holds `wanted`, or else the largest, all of it: out->count may be less, and 0. */
BANYAN_CHECK enum banyan_status by_ranges_take(struct by_ranges *ranges, uint32_t wanted, struct by_range *out);
/* What was taken; nothing happens for one without cells. */
void by_ranges_give(struct by_ranges *ranges, const struct by_range *range);

struct by_leases;

struct by_leases_options {
  struct by_loop *loop;
  const struct by_plane *plane; /* whose ports are there already; outlives the leases */
  uint32_t cells;
  uint32_t n_ports;
  const char *const *ports; /* interfaces; copied */
  /* What came of a wish, now or later; `owner` is who asked. Must not call back. */
  void (*answer)(void *owner, const struct by_lease_reply *reply);
};

BANYAN_CHECK enum banyan_status by_leases_create(const struct by_leases_options *options, struct by_leases **out);
/* Grants stay in the plane. NULL is allowed. */
void by_leases_destroy(struct by_leases *leases);

/* Both answer; `owner` must not be NULL, and tells when it leaves. */
void by_leases_grant(struct by_leases *leases, const struct by_lease_request *request, void *owner);
void by_leases_revoke(struct by_leases *leases, const struct by_lease_request *request, void *owner);
/* The owner is not answered any more. */
void by_leases_leave(struct by_leases *leases, const void *owner);
/* ", "cells": {...}, "ports": [...], "jobs": [...]": the rest of an object. */
void by_leases_print(const struct by_leases *leases, struct by_text *text);

#endif
