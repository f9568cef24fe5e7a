/* How a membership is formed: an ordered list of processes under a name, whose first one takes the others. No I/O.
 *
 * The membership's number depends on name and list, so two never share one; who forms another list under the same name
 * is recognised by the hash of the name alone. */
#ifndef BY_ELASTIC_MEMBERSHIP_FORMATION_H
#define BY_ELASTIC_MEMBERSHIP_FORMATION_H

#include "handle.h"
#include "membership.h"
#include "text.h"

struct by_member_service;

struct by_formation;

/* What a job tells the service of its process's groups, and asks it. These are the functions by_member_service_... of
 * member_service.h, which the job does not include. */
struct by_member_service_ops {
  void (*hold)(struct by_member_service *service);
  void (*release)(struct by_member_service *service);
  void (*suspect)(struct by_member_service *service, const struct by_fingerprint *fingerprint);
  void (*distrust)(struct by_member_service *service, const struct by_fingerprint *fingerprint);
  void (*waits)(struct by_member_service *service, uint64_t number, uint64_t since, const uint32_t *ranks, uint32_t n);
  void (*ask)(struct by_member_service *service, const struct by_formation *formation, uint32_t rank);
  enum banyan_status (*compare)(struct by_member_service *service);
};

struct by_formation {
  struct by_membership *membership;  /* owned */
  uint64_t name;                     /* the hash of its name alone */
  uint32_t rank;                     /* of this process */
  const struct by_handle *handles;   /* of all, by rank; those of newcomers that are not known have no host. Borrowed */
  const char *const *texts;          /* the same, as texts; NULL: the members have agreed on them. Borrowed */
  const char *handle;                /* of this process, as a text. Borrowed */
  int listener;                      /* of rank 0: where the others come. Borrowed */
  const char *root;                  /* "address:port,..." of rank 0 */
  struct by_member_service *service; /* of this process. Borrowed */
  const struct by_member_service_ops *ops; /* The service's functions. */
  struct by_process_identity *identity;    /* the same */
  struct by_own_statement *statement;      /* the same; NULL: it does not encrypt */
  struct by_key_ring *keys;                /* the same */
  double deadline;                         /* seconds until all must have come */
  /* Seconds until those that have not met rank 0 give up, and rank 0 those that have not come; 0: the deadline. */
  double meeting_timeout;
  bool follows; /* this process is in a membership already, whose helpers come here, too */
  /* Whether the attempt is to end, since another membership follows this one; NULL: never. */
  bool (*superseded)(void *context);
  /* Rank 0 gives up, and this one has not come; NULL: nobody wants to know. */
  void (*missing)(void *context, uint32_t rank);
  void *context;
};

/* The membership of these processes in this order, all of them founders; see membership.h. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_formation_found(const struct by_key *key, enum by_quorum_rule rule, const char *name,
                                                   const struct by_handle *handles, uint32_t n,
                                                   struct by_membership **out);
/* From the membership, which is taken over, and handles, of which `self` is this process's: fills all from `membership`
 * to `root`, but `listener`; `root` goes to the arena. BANYAN_ERR_ARGUMENT: this process is not among them, or rank 0
 * offers no address that can be used from here. by_formation_fini is to be called whatever the status. */
BANYAN_CHECK enum banyan_status by_formation_init(struct by_membership *membership, const struct by_handle *handles,
                                                  const struct by_handle *self, const char *handle,
                                                  struct by_arena *arena, struct by_formation *out);
/* Adds ",address:port" for each place where a member takes the others, as `self` may reach it; the first one of a text
 * has no comma. Of a handle's member. */
void by_formation_print_places(const struct by_member *member, const struct by_member *self, struct by_text *out);
void by_formation_fini(struct by_formation *formation);

#endif
