/* What a process carries from one membership into the next, as bytes: to rank 0 of the next one, and where the process
 * keeps it until then. A value, without I/O. */
#ifndef BY_ADAPTATION_CARRIED_MESSAGE_H
#define BY_ADAPTATION_CARRIED_MESSAGE_H

#include <banyan/types.h>

#include "bytes.h"
#include "membership.h"

/* What became of the plan of a membership. */
enum by_carried_decision {
  BY_CARRIED_NOTHING, /* none was looked for */
  BY_CARRIED_BUILTIN, /* the built-in ones are as fast between these hosts */
  BY_CARRIED_PLANNED, /* from a topology */
  BY_CARRIED_DECISIONS
};

struct by_carried_host {
  const char *machine; /* by_member.machine */
  uint32_t node;       /* of the topology */
};

struct by_carried_message {
  enum by_carried_decision decision;
  enum banyan_plan_source source; /* of plans that are made from the topology */
  uint32_t n_hosts;
  struct by_carried_host *hosts; /* that are known */
  const char *topology;          /* JSON of `topology_length` bytes without an end; 0: none */
  size_t topology_length;
  const char *plan; /* that the program has set: JSON, or a built-in's name. Likewise */
  size_t plan_length;
  uint32_t plan_ranks;           /* for which it was set, */
  struct by_fingerprint plan_of; /* on these hosts: a hash of all ranks' machines in order */
};

/* BANYAN_ERR_NO_MEMORY, else the caller frees *out, with malloc's free. */
BANYAN_CHECK enum banyan_status by_carried_message_write(const struct by_carried_message *message, uint8_t **out,
                                                         size_t *length);
/* `hosts` and their strings are in the arena, the texts are borrowed from the bytes. BANYAN_ERR_PROTOCOL: malformed. */
BANYAN_CHECK enum banyan_status by_carried_message_read(const void *bytes, size_t length, struct by_arena *arena,
                                                        struct by_carried_message *out);

#endif
