/* Inside the members of groups that change: shared by memberships.c, which has their life and explicit memberships, and
 * recovery.c, above it, which has those that members agree on. */
#ifndef BY_ELASTIC_MEMBER_OBJECT_H
#define BY_ELASTIC_MEMBER_OBJECT_H

#include <banyan/elastic.h>

#include "agent_meeting.h"
#include "carry.h"
#include "directory_client.h"
#include "formation.h"
#include "interrupted.h"
#include "job_life.h"
#include "key_ring.h"
#include "member_service.h"

struct banyan_member {
  struct by_arena arena; /* of what follows */
  struct banyan_options options;
  struct by_key_ring *keys; /* of all its memberships */
  enum by_quorum_rule rule;
  struct by_process_identity *identity;
  struct by_own_statement *statement; /* NULL: it does not encrypt */
  struct by_handle self;
  char handle[BY_HANDLE_MOST];
  int listener;        /* where others come to form a membership with this process as the first */
  uint32_t generation; /* see by_process_generation */
  struct by_member_service *service;
  struct by_directory *_Atomic directory; /* to `banyan run`, which is told of each membership; NULL: it is not used */
  int64_t meetings;                       /* by rank, of banyan_member_start */
  struct by_meeting_client *meeting;  /* to this host's agent, through which newcomers find it; NULL: it is not used */
  struct by_used_names used;          /* others may have formed a membership under one with which this member failed */
  char tried[BY_MEMBERSHIP_NAME + 1]; /* the name of the last membership that others agreed on and was tried */
  struct by_job *current;             /* held; NULL: no membership yet */
  bool given;                         /* a communicator: a membership may be formed and its first calls fail */
  const char **handles;               /* of its members, by rank; the context's */
  struct by_carried carried;          /* from one to the next */
  struct by_interrupted interrupted;  /* calls of the memberships before */
  void *kept;                         /* completion.c: the input of a call in place, and room for so many bytes */
  size_t kept_room;
};

/* There is a member, and this process made it. BANYAN_ERR_ARGUMENT. */
BANYAN_CHECK enum banyan_status by_member_check_process(const struct banyan_member *member);
/* The same, and a place for a result and the timeout are valid. BANYAN_ERR_ARGUMENT. */
BANYAN_CHECK enum banyan_status by_member_check_call(const struct banyan_member *member, const void *out,
                                                     double timeout);
/* Forms the membership, which takes the place of the one before. `name`: it is used up. After an error *formed says
 * whether its members had met. */
BANYAN_CHECK enum banyan_status by_member_form(struct banyan_member *member, struct by_formation *formation,
                                               bool *formed, struct banyan_comm **out);

#endif
