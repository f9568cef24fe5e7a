/* A member of groups that change, as its files share it: memberships.c has its life and forms memberships,
 * member_start.c finds the other processes, and interrupted.c completes calls that a change interrupted. */
#ifndef BY_ELASTIC_MEMBER_OBJECT_H
#define BY_ELASTIC_MEMBER_OBJECT_H

#include <banyan/elastic.h>
#include <banyan/interrupted.h>

#include "carry.h"
#include "comm.h"
#include "directory_client.h"
#include "formation.h"
#include "job_life.h"
#include "key_ring.h"
#include "ledger.h"
#include "member_service.h"

/* Calls that changes of members interrupted. Zero-initialised, it is empty. */
struct by_interrupted {
  struct by_ledger_pool pool;
  struct by_arena arena; /* Holds the memory of `found`. */
  struct by_interrupted_calls found;
  /* Others had begun a call that this process has not made, and that cannot be repeated, since newcomers are members.
   */
  bool withdrawn;
  /* Communicator of the current membership for exchanges among members; NULL without a membership. */
  struct banyan_comm *inner;
};

struct banyan_member {
  struct by_arena arena; /* Holds the texts of the options and of the handle. */
  struct banyan_options options;
  struct by_key_ring *keys; /* Keys of all memberships of this member. */
  enum by_quorum_rule rule;
  struct by_process_identity *identity;
  struct by_own_statement *statement; /* NULL if this process does not encrypt. */
  struct by_handle self;
  char handle[BY_HANDLE_MOST];
  int listener; /* Socket that accepts the other members where this process is the first of a membership. */
  /* Generation of the process that made the member, to detect use after fork(); by_process_generation explains it. */
  uint32_t generation;
  struct by_member_service *service;
  /* Connection to `banyan run`, which is notified of each membership; NULL if it is not used. */
  struct by_directory *_Atomic directory;
  int64_t meetings; /* Attempts of banyan_member_start to meet by rank. */
  /* Connection to this host's agent, through which newcomers find this process; NULL if it is not used. */
  struct by_meeting_client *meeting;
  /* Names used before. Others may have formed a membership under a name with which this member failed. */
  struct by_used_names used;
  char tried[BY_MEMBERSHIP_NAME + 1]; /* Name of the last agreed membership that this member tried to form. */
  struct by_job *current;             /* Job of the current membership, held; NULL before the first one. */
  /* Whether the program has received a communicator. A membership may be formed and its first calls fail. */
  bool given;
  const char **handles;              /* Handles of the members by rank, owned by `current`. */
  struct by_carried carried;         /* State that is carried from one membership to the next. */
  struct by_interrupted interrupted; /* Calls that changes of members interrupted. */
  void *kept;                        /* Copy of the input of a call in place, with a capacity of `kept_room` bytes. */
  size_t kept_room;
};

/* Returns BANYAN_ERR_ARGUMENT if the member is NULL or another process made it. */
BANYAN_CHECK enum banyan_status by_member_check_process(const struct banyan_member *member);
/* Returns BANYAN_ERR_ARGUMENT if by_member_check_process does, `out` is NULL or the timeout is not positive. */
BANYAN_CHECK enum banyan_status by_member_check_call(const struct banyan_member *member, const void *out,
                                                     double timeout);

/* ---- interrupted.c: how the members of a new membership exchange their ledgers, and copy results */

void by_interrupted_fini(struct by_interrupted *interrupted);
/* Keeps the ledger of a membership that has ended on this process; its job `before` has been retired. `self` is this
 * process. May return BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_interrupted_keep(struct by_interrupted *interrupted, struct by_job *before,
                                                    const struct by_fingerprint *self);
/* Exchanges ledgers with all members of the new membership, and compares them. Blocks for at most about `timeout`
 * seconds. On failure the new membership has failed. */
BANYAN_CHECK enum banyan_status by_interrupted_exchange(struct by_interrupted *interrupted, struct banyan_comm *comm,
                                                        double timeout);

#endif
