/* The knowledge that a process transfers from one membership into the next, as bytes: it is sent to rank 0 of the next
 * one, and kept by the process until then. A value, without I/O. */
#ifndef BY_ADAPTATION_CARRIED_MESSAGE_H
#define BY_ADAPTATION_CARRIED_MESSAGE_H

#include <banyan/types.h>

#include "bytes.h"
#include "membership.h"

/* The decision on the plan of a membership. */
enum by_carried_decision {
  BY_CARRIED_NOTHING, /* No plan was looked for. */
  BY_CARRIED_BUILTIN, /* The built-in plans are as fast between these hosts. */
  BY_CARRIED_PLANNED, /* The plan was made from a topology. */
  BY_CARRIED_DECISIONS
};

struct by_carried_host {
  const char *machine; /* by_member.machine */
  uint32_t node;       /* Node of the topology. */
};

struct by_carried_message {
  enum by_carried_decision decision;
  enum banyan_plan_source source; /* Source of plans that are made from the topology. */
  uint32_t n_hosts;
  struct by_carried_host *hosts; /* The known hosts. */
  const char *topology;          /* JSON of `topology_length` bytes without a NUL; length 0: none. */
  size_t topology_length;
  const char *plan; /* The plan that the program has set: JSON, or a built-in plan's name; without a NUL. */
  size_t plan_length;
  uint32_t plan_ranks;           /* The number of ranks for which the plan was set. */
  struct by_fingerprint plan_of; /* The hosts for which it was set: a hash of all ranks' machines in order. */
};

/* BANYAN_ERR_NO_MEMORY, else the caller frees *out, with malloc's free. */
BANYAN_CHECK enum banyan_status by_carried_message_write(const struct by_carried_message *message, uint8_t **out,
                                                         size_t *length);
/* `hosts` and their strings are in the arena, the texts are borrowed from the bytes. BANYAN_ERR_PROTOCOL: malformed. */
BANYAN_CHECK enum banyan_status by_carried_message_read(const void *bytes, size_t length, struct by_arena *arena,
                                                        struct by_carried_message *out);

#endif
