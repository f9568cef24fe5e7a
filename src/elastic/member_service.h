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
  struct by_key_ring *keys;     /* held */
  const struct by_handle *self; /* borrowed until the service is closed, as its text */
  const char *handle;
  enum by_encryption encryption;
  struct by_process_identity *identity; /* the same */
  struct by_own_statement *statement;   /* the same; NULL: it does not encrypt */
  int listener;                         /* taken over, also on failure */
  double silence;                       /* seconds after which a host that answers nothing has vanished */
};

/* The caller holds *out. Its thread begins when the first group is formed. */
BANYAN_CHECK enum banyan_status by_member_service_create(const struct by_member_service_options *options,
                                                         struct by_member_service **out);
/* One holder more, or less; never block. The last one frees what by_member_service_close has left. */
void by_member_service_hold(struct by_member_service *service);
void by_member_service_release(struct by_member_service *service);
/* Ends its thread and connections, and releases it. Not for several threads. */
void by_member_service_close(struct by_member_service *service);

/* ---- what others know of processes: never block, and do nothing once the service is closed. Processes that are in no
 * membership of this one are ignored */

/* A process does not answer, or a link to it has ended. It is left out of the next membership unless it takes part in
 * the decision. This may be wrong. */
void by_member_service_suspect(struct by_member_service *service, const struct by_fingerprint *fingerprint);
/* What the agent of its host has stated about a process is not believed any more: it is left out of the next
 * membership, since its connections are judged now, and end. */
void by_member_service_distrust(struct by_member_service *service, const struct by_fingerprint *fingerprint);
/* A link to a process has ended: it is suspected if it does not answer now. */
void by_member_service_probe(struct by_member_service *service, const struct by_fingerprint *fingerprint);
/* Its end was seen by a launcher, an agent, or the kernel of this host. This must be true: see quorum.h. */
void by_member_service_dead(struct by_member_service *service, const struct by_fingerprint *fingerprint);

/* Calls in the membership of this number have waited for these ranks since then (ns): they are asked whether they run.
 * One that does not answer most of the members for long is left out of the next membership, which this process asks
 * for. */
void by_member_service_waits(struct by_member_service *service, uint64_t number, uint64_t since, const uint32_t *ranks,
                             uint32_t n);

/* ---- the program's thread, one at a time */

/* The program forms this membership from now on, of handles that it was given. Who forms one of the same name from
 * another list, and asks, is told that lists differ. */
BANYAN_CHECK enum banyan_status by_member_service_form(struct by_member_service *service,
                                                       const struct by_formation *formation);
/* Asks rank r of it whether its list differs. */
void by_member_service_ask(struct by_member_service *service, const struct by_formation *formation, uint32_t r);
/* BANYAN_ERR_MISMATCH: that of some process does, says the text. Never blocks for long. */
BANYAN_CHECK enum banyan_status by_member_service_compare(struct by_member_service *service);
/* It is not formed, since members do not agree, for the reason `text`: tells the others. Rank 0 tells all, and
 * waits until they know or are gone, for up to 5 s; another rank tells those that follow it in the list. Blocks for 0.6
 * s at least: others ask in that time. */
void by_member_service_tell(struct by_member_service *service, const struct by_formation *formation, const char *text);
/* The members of this membership have met by the wish of their programs. It is copied; `handles` are those of its
 * members by rank. */
BANYAN_CHECK enum banyan_status by_member_service_found(struct by_member_service *service,
                                                        const struct by_membership *membership,
                                                        const char *const *handles);
/* This process's group has `number` from now on. Once another one follows, or this process is excluded, `interrupts` is
 * called to end its calls, perhaps at once, by the service's thread: until it returns true, so that calls which still
 * come forward may complete. 0: it has none. */
void by_member_service_watch(struct by_member_service *service, uint64_t number,
                             bool (*interrupts)(void *context, const char *text, bool at_once), void *context);
/* The members of this membership, which was agreed on, have met. */
BANYAN_CHECK enum banyan_status by_member_service_formed(struct by_member_service *service, uint64_t number,
                                                         const char *const *handles, uint32_t n);
/* Has the members agree on what follows the newest membership; does not wait for that. */
BANYAN_CHECK enum banyan_status by_member_service_request(struct by_member_service *service);
/* Begins to ask the processes of these handles, one after the other, to let this one join; does not wait. Errors of
 * by_handle_parse. */
BANYAN_CHECK enum banyan_status by_member_service_join(struct by_member_service *service, const char *const *handles,
                                                       uint32_t n);
/* Ends that, also for whom was asked. */
void by_member_service_stop_join(struct by_member_service *service);
/* This process wants to leave with the next change. Any thread. Before it is in a membership, this is about the first.
 */
BANYAN_CHECK enum banyan_status by_member_service_leave(struct by_member_service *service);
/* From now on the service's thread calls this every so many ns, until it is closed. For one function. */
BANYAN_CHECK enum banyan_status by_member_service_repeat(struct by_member_service *service, uint64_t pause,
                                                         void (*repeated)(void *context), void *context);
/* Whether newcomers wait here, or this process wants to leave. Never blocks. */
bool by_member_service_change_wanted(struct by_member_service *service);
/* The program forms groups now, until it is said to end: else it is late when others wait for it. */
void by_member_service_set_forming(struct by_member_service *service, bool forms);
/* Others have waited long for the program of this process: unless it forms the group by now, it is left out of the
 * next. */
void by_member_service_late(struct by_member_service *service, uint64_t number,
                            const struct by_fingerprint *fingerprint);

/* The number of the newest membership, which need not have met; 0: this process is in none. Never blocks. */
uint64_t by_member_service_newest(const struct by_member_service *service);
/* Waits until the newest membership is another one than this, for at most `timeout` ns, and returns a copy, which the
 * caller destroys, and what is known of its members, in the arena: handles without a host are unknown.
 * BANYAN_ERR_CLOSED: this process is in no membership any more; the text says why. _TIMEOUT: says what is waited for.
 */
BANYAN_CHECK enum banyan_status by_member_service_await(struct by_member_service *service, uint64_t not_this,
                                                        uint64_t timeout, struct by_arena *arena,
                                                        struct by_membership **out, struct by_handle **handles);

#endif
