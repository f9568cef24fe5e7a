/* Groups whose processes change while they run: any process may fail, leave or come. A process begins as a member
 * without a group. Members exchange their handles through any store, and those that are to form a group call
 * banyan_member_reconfigure with the same list:
 *
 *   struct banyan_member *self;
 *   struct banyan_comm *comm;
 *   banyan_member_create(NULL, &self);
 *   publish(banyan_member_handle(self));
 *   banyan_member_reconfigure(self, "epoch 1", handles, n, 30, &comm);
 *   ... a call fails with BANYAN_ERR_PEER_DEAD: those that are left form "epoch 2" ...
 *
 * docs/elastic.md describes what is guaranteed. */
#ifndef BANYAN_ELASTIC_H
#define BANYAN_ELASTIC_H

#include <banyan/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* This process, as others reach it. */
struct banyan_member;

/* Makes this process a member without a group: it has a handle, and listens for those that will form a group with it.
 * Needs the job's key, in the options or BANYAN_KEY. Rank, size and root of the options are not used; the other options
 * count for all groups. Does not block. The caller owns *out. `options` may be NULL. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_member_create(const struct banyan_options *options,
                                                                struct banyan_member **out);
/* Leaves the current group as if its last communicator was destroyed, and may block as that does. Communicators stay
 * until they are destroyed, too. NULL is allowed; no thread may use the member afterwards. */
BANYAN_API void banyan_member_destroy(struct banyan_member *member);

/* The text by which others name and reach this process: at most 2047 printable characters without blanks, different for
 * each member, also where a process is started again. It holds no secret and stays the same. Owned by the member. */
BANYAN_API const char *banyan_member_handle(const struct banyan_member *member);

/* Forms a group of exactly the processes with these n handles; rank r is the r-th. All of them call this with the same
 * name and list, and nobody else does: others may form another group under another name at the same time. Works from
 * any state: without a group, from a healthy one, and from one that failed or was aborted.
 *
 * Blocks until all have come, for at most `timeout` seconds (> 0), and then as long as banyan_comm_create does for a
 * plan. Only then this process leaves its group before: calls there that are under way, and later ones, end with
 * BANYAN_ERR_CLOSED, and its communicators only remain to be destroyed. On an error nothing is returned. If it came
 * before all had come, this process stays in the group before, which goes on unharmed; if the plan failed, as with
 * BANYAN_ERR_PEER_DEAD, it may have left that group, too.
 *
 *   BANYAN_ERR_ARGUMENT  the name is empty, longer than 255 bytes or was used by this member before, also in vain; a
 *                        handle is malformed, damaged, of a job with another key, or given twice; this process is not
 *                        among them
 *   BANYAN_ERR_MISMATCH  members gave different lists under this name; all are told
 *   BANYAN_ERR_TIMEOUT   not all came; the text names those that are missing
 *
 * After BANYAN_ERR_MISMATCH, _TIMEOUT or _PEER_DEAD call it again with another name and a list of those that are alive.
 * The caller owns *out. One thread at a time. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_member_reconfigure(struct banyan_member *member, const char *name,
                                                                     const char *const *handles, int n, double timeout,
                                                                     struct banyan_comm **out);

#ifdef __cplusplus
}
#endif
#endif
