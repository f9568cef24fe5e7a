/* What a process transfers from one membership into the next, so that neither measuring nor planning begins anew: the
 * last known topology with the nodes of hosts, that the built-in plans were as fast as any, and the plan that the
 * program has set. Rank 0 and its two successors know the topology (job_network.h), so it is kept as long as one of the
 * three is in the next membership, whose rank 0 then gets it.
 *
 * Hosts are recognised by their machines (by_member.machine), otherwise by the nodes of their names. Hosts that have
 * left stay in the topology, and are recognised when they return. */
#ifndef BY_ADAPTATION_CARRY_H
#define BY_ADAPTATION_CARRY_H

#include <banyan/types.h>

#include "bytes.h"
#include "comm.h"
#include "membership.h"

/* ---- the message */

/* The decision on the plan of a membership. */
enum by_carried_decision {
  BY_CARRIED_NOTHING, /* No plan was looked for. */
  BY_CARRIED_BUILTIN, /* The built-in plans are as fast between these hosts. */
  BY_CARRIED_PLANNED, /* The plan was made from a topology. */
  BY_CARRIED_DECISIONS
};

struct by_carried_host {
  const char *machine; /* The host's by_member.machine. */
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
/* Reads a message. `hosts` and their strings are in the arena, the texts are borrowed from the bytes.
 * BANYAN_ERR_PROTOCOL: it is malformed. */
BANYAN_CHECK enum banyan_status by_carried_message_read(const void *bytes, size_t length, struct by_arena *arena,
                                                        struct by_carried_message *out);

/* The knowledge of a process. All zeros: nothing is known. */
struct by_carried {
  uint64_t version; /* Memberships in a row that share it; the same at all members of the last one. */
  enum { BY_CARRIED_NO_TOPOLOGY, BY_CARRIED_OLDER, BY_CARRIED_CURRENT } topology;
  uint8_t *bytes; /* An encoded by_carried_message; NULL: none. */
  size_t length;
  const struct by_job *settled; /* The context of the fields below; compared only. */
  enum by_carried_decision decision;
  bool plan_used; /* The program's plan is in use. */
};

/* What the members of a membership found together; the same at all of them but for `message` and `nodes`. */
struct by_carried_found {
  enum by_carried_decision decision; /* Decision for all hosts of the membership; NOTHING: some are unknown. */
  enum banyan_plan_source source;
  bool plan;             /* The program has set a plan, which fits. */
  uint64_t version;      /* Version of the result. */
  struct by_arena arena; /* The fields from here on are rank 0's. */
  struct by_carried_message message;
  uint32_t *nodes; /* With decision PLANNED: the node of each host of the membership. */
};

void by_carried_fini(struct by_carried *carried);
/* Takes what is known at the end of this context; if by_carried_settle was not called for its plan, earlier knowledge
 * stays. Takes the lock. */
void by_carried_take(struct by_carried *carried, struct by_job *before);
/* Collective over the job's own communicator, before its first call: finds what any member carries. The caller calls
 * by_carried_found_fini, whatever the status. */
BANYAN_CHECK enum banyan_status by_carried_find(struct by_carried *carried, struct banyan_comm *comm,
                                                struct by_carried_found *out);
void by_carried_found_fini(struct by_carried_found *found);
/* All members alike, once they have met: a plan in BANYAN_PLAN that is for another number of ranks or hosts is not used
 * in a membership. */
void by_carried_leave_out_given(struct by_job *job);
/* Collective: sets the plan of the communicator, if found->plan. */
BANYAN_CHECK enum banyan_status by_carried_set_plan(struct banyan_comm *comm, const struct by_carried_found *found);
/* Collective, with decision PLANNED: plans from the topology. */
BANYAN_CHECK enum banyan_status by_carried_plan(struct banyan_comm *comm, const struct by_carried_found *found,
                                                bool *planned);
/* Called by all members alike once the communicator has its first plan. */
void by_carried_settle(struct by_carried *carried, const struct banyan_comm *comm, const struct by_carried_found *found,
                       enum by_carried_decision decision);

#endif
