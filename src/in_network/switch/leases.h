/* What jobs have at this switch: cells, ports, a group, next hops. A lease is
 * somebody's who holds it over a connection; BY_LEASE_SECONDS after that has
 * ended it lapses, unless the same holder asks again. What one wishes for takes
 * until its next hops are known, for some seconds at most. Cells are free when
 * they are given out. On the loop's thread. */
#ifndef BY_SWITCH_LEASES_H
#define BY_SWITCH_LEASES_H

#include "data_plane.h"
#include "lease_words.h"
#include "loop.h"

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
