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

/* What a job reports to, and asks of, the member service of its process. These are functions of member_service.h, which
 * the job does not include. */
struct by_member_service_ops {
  /* Add and remove a reference; never block. The last release frees what closing the service has left. */
  void (*hold)(struct by_member_service *service);
  void (*release)(struct by_member_service *service);
  /* As by_member_service_suspect. */
  void (*suspect)(struct by_member_service *service, const struct by_fingerprint *fingerprint);
  /* Reports that the statement of a process's host is no longer trusted. The process's connections are judged now and
   * end, so it is left out of the next membership. */
  void (*distrust)(struct by_member_service *service, const struct by_fingerprint *fingerprint);
  /* Reports that calls in the membership with this number have waited for these ranks since `since` (ns). The ranks are
   * asked whether they run. One that does not answer most of the members for long is left out of the next membership,
   * which this process requests. */
  void (*waits)(struct by_member_service *service, uint64_t number, uint64_t since, const uint32_t *ranks, uint32_t n);
  /* As by_member_service_ask and by_member_service_compare. */
  void (*ask)(struct by_member_service *service, const struct by_formation *formation, uint32_t rank);
  enum banyan_status (*compare)(struct by_member_service *service);
};

struct by_formation {
  struct by_membership *membership; /* Owned. */
  uint64_t name;                    /* Hash of the membership's name alone. */
  uint32_t rank;                    /* Rank of this process. */
  /* Handles of all members by rank, borrowed; unknown ones of newcomers have no host. */
  const struct by_handle *handles;
  /* Texts of the handles by rank, borrowed; NULL if the members have agreed on the membership. */
  const char *const *texts;
  const char *handle;                      /* Text of this process's handle, borrowed. */
  int listener;                            /* Socket on which rank 0 accepts the other members; borrowed. */
  const char *root;                        /* Addresses of rank 0 as "address:port,...". */
  struct by_member_service *service;       /* Member service of this process, borrowed. */
  const struct by_member_service_ops *ops; /* The service's functions. */
  struct by_process_identity *identity;    /* Identity of this process, borrowed. */
  struct by_own_statement *statement; /* Statement of this process's host, borrowed; NULL if it does not encrypt. */
  struct by_key_ring *keys;           /* Keys of the job, borrowed. */
  double deadline;                    /* Seconds within which all members must have met. */
  /* Seconds after which members that have not met rank 0 give up, and rank 0 gives up missing members; 0 means the
   * deadline. */
  double meeting_timeout;
  bool follows; /* This process is in a membership already, whose helpers join this one, too. */
  /* Whether the attempt must end because another membership has followed; NULL means never. */
  bool (*superseded)(void *context);
  /* Reports a rank that is missing when rank 0 gives up; NULL if nobody needs to know. */
  void (*missing)(void *context, uint32_t rank);
  void *context;
};

/* Makes the membership of these processes in this order; all are founders (membership.h). The caller owns *out. */
BANYAN_CHECK enum banyan_status by_formation_found(const struct by_key *key, enum by_quorum_rule rule, const char *name,
                                                   const struct by_handle *handles, uint32_t n,
                                                   struct by_membership **out);
/* Takes over the membership, and fills in the fields from `membership` to `root` except `listener`. `handles` are those
 * of its members, `self` and `handle` this process's; `root` is allocated in the arena. Returns BANYAN_ERR_ARGUMENT if
 * this process is not a member, or rank 0 has no address that is usable from here. by_formation_fini must be called
 * whatever the status. */
BANYAN_CHECK enum banyan_status by_formation_init(struct by_membership *membership, const struct by_handle *handles,
                                                  const struct by_handle *self, const char *handle,
                                                  struct by_arena *arena, struct by_formation *out);
/* Appends ",address:port" for each address at which a member accepts others and that `self` may reach; the first one in
 * a text has no comma. `member` is that of a handle. */
void by_formation_print_places(const struct by_member *member, const struct by_member *self, struct by_text *out);
void by_formation_fini(struct by_formation *formation);

#endif
