/* The service of a member of groups that change: a thread that agrees with other members on the next membership, also
 * while the program computes. It has a port of its own, which is in the member's handle, connects to others when there
 * is something to send, and costs nothing otherwise.
 *
 * Any thread, unless said otherwise. Calls of other threads than the service's own may block for a moment, but those
 * marked so never do, and may be made under the lock of a job. */
#ifndef BY_ELASTIC_MEMBER_SERVICE_H
#define BY_ELASTIC_MEMBER_SERVICE_H

#include "formation.h"

struct by_member_service;

extern const struct by_member_service_ops by_member_service_ops;

struct by_member_service_options {
  struct by_key_ring *keys;     /* A reference is held. */
  const struct by_handle *self; /* Borrowed until the service is closed, as is its text `handle`. */
  const char *handle;
  enum by_encryption encryption;
  struct by_process_identity *identity; /* Borrowed until the service is closed. */
  /* Borrowed until the service is closed; NULL if this process does not encrypt. */
  struct by_own_statement *statement;
  int listener;   /* Owned by the service, also after a failure. */
  double silence; /* Seconds without any answer after which a host is considered gone. */
};

/* The caller holds *out. Its thread begins when the first group is formed. */
BANYAN_CHECK enum banyan_status by_member_service_create(const struct by_member_service_options *options,
                                                         struct by_member_service **out);
/* Ends its thread and connections, and releases it; other holders may release it later. Not for several threads. */
void by_member_service_close(struct by_member_service *service);

/* ---- what others know of processes: never block, and do nothing once the service is closed. Processes that are in no
 * membership of this one are ignored */

/* Reports that a process does not answer. It is left out of the next membership unless it takes part in the decision.
 * The report may be wrong. */
void by_member_service_suspect(struct by_member_service *service, const struct by_fingerprint *fingerprint);
/* Reports that a link to a process has ended. The process is suspected if it cannot be reached now. */
void by_member_service_probe(struct by_member_service *service, const struct by_fingerprint *fingerprint);
/* Reports that a launcher, an agent or this host's kernel has seen the end of a process. This must be true: see
 * quorum.h. */
void by_member_service_dead(struct by_member_service *service, const struct by_fingerprint *fingerprint);

/* ---- the program's thread, one at a time */

/* Announces that the program forms this membership from a list of handles. A process that forms one of the same name
 * from another list, and asks, is told that the lists differ. */
BANYAN_CHECK enum banyan_status by_member_service_form(struct by_member_service *service,
                                                       const struct by_formation *formation);
/* Asks rank r of the membership whether its list differs. */
void by_member_service_ask(struct by_member_service *service, const struct by_formation *formation, uint32_t r);
/* Returns BANYAN_ERR_MISMATCH if the list of another process differs; the text says how. Never blocks for long. */
BANYAN_CHECK enum banyan_status by_member_service_compare(struct by_member_service *service);
/* Tells other members that the membership is not formed for the reason `text`. Rank 0 tells all, and waits for up to 5
 * s until they are told or gone; another rank tells those that follow it in the list. Blocks for at least 0.6 s, in
 * which others may ask. */
void by_member_service_tell(struct by_member_service *service, const struct by_formation *formation, const char *text);
/* Reports that the members of this explicitly formed membership have met. The membership is copied; `handles` are those
 * of its members by rank. */
BANYAN_CHECK enum banyan_status by_member_service_found(struct by_member_service *service,
                                                        const struct by_membership *membership,
                                                        const char *const *handles);
/* Sets the number of this process's group; 0 if it has none. Once another membership follows, or this process is
 * excluded, `interrupts` is called to end the group's calls: repeatedly by the service's thread until it returns true,
 * so that calls which still progress may complete. The first call may happen before this returns. */
void by_member_service_watch(struct by_member_service *service, uint64_t number,
                             bool (*interrupts)(void *context, const char *text, bool at_once), void *context);
/* Reports that the members of this agreed membership have met. `handles` are those of its members by rank. */
BANYAN_CHECK enum banyan_status by_member_service_formed(struct by_member_service *service, uint64_t number,
                                                         const char *const *handles, uint32_t n);
/* Requests that the members agree on a successor of the newest membership; does not wait for it. */
BANYAN_CHECK enum banyan_status by_member_service_request(struct by_member_service *service);
/* Begins to ask the processes of these handles, one after the other, to let this one join; does not wait. Fails as
 * by_handle_parse does. */
BANYAN_CHECK enum banyan_status by_member_service_join(struct by_member_service *service, const char *const *handles,
                                                       uint32_t n);
/* Stops asking to join, and withdraws the request to the process asked last. */
void by_member_service_stop_join(struct by_member_service *service);
/* Notes that this process wants to leave with the next change; before its first membership, with the first change of
 * that. May be called by any thread. */
BANYAN_CHECK enum banyan_status by_member_service_leave(struct by_member_service *service);
/* Has the service's thread call `repeated` every `pause` ns until the service is closed. Replaces a previous function.
 */
BANYAN_CHECK enum banyan_status by_member_service_repeat(struct by_member_service *service, uint64_t pause,
                                                         void (*repeated)(void *context), void *context);
/* Whether newcomers wait here, or this process wants to leave. Never blocks. */
bool by_member_service_change_wanted(struct by_member_service *service);
/* Sets whether the program is forming a group now. If not, it is late when others wait for it. */
void by_member_service_set_forming(struct by_member_service *service, bool forms);
/* Tells a process that others have waited long for its program. Unless the program is forming the group by now, the
 * process is left out of the next one. */
void by_member_service_late(struct by_member_service *service, uint64_t number,
                            const struct by_fingerprint *fingerprint);

/* Returns the number of the newest membership, which need not have met; 0 if this process is in none. Never blocks. */
uint64_t by_member_service_newest(const struct by_member_service *service);
/* Waits for at most `timeout` ns until the newest membership is not `not_this`. Returns a copy, which the caller
 * destroys, and the members' handles in the arena; unknown handles have no host. Returns BANYAN_ERR_CLOSED if this
 * process is in no membership any more, with the reason, and BANYAN_ERR_TIMEOUT with what is waited for. */
BANYAN_CHECK enum banyan_status by_member_service_await(struct by_member_service *service, uint64_t not_this,
                                                        uint64_t timeout, struct by_arena *arena,
                                                        struct by_membership **out, struct by_handle **handles);

#endif
