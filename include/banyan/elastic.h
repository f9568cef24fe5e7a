/* Groups whose processes change while they run: any process may fail, leave or join. A process begins as a member
 * without a group. Members exchange their handles through any store, the first ones form the first group, and later
 * ones join it. After a failure all surviving members call banyan_member_recover:
 *
 *   struct banyan_member *self;
 *   struct banyan_comm *comm;
 *   banyan_member_create(NULL, &self);
 *   publish(banyan_member_handle(self));
 *   banyan_member_reconfigure(self, "first", handles, n, 30, &comm);   -- a later one: banyan_member_join
 *   while (train(comm) != BANYAN_OK) {
 *     banyan_comm_destroy(comm);
 *     banyan_member_recover(self, 60, &comm);
 *   }
 *
 * docs/elastic.md describes what is guaranteed. */
#ifndef BANYAN_ELASTIC_H
#define BANYAN_ELASTIC_H

#include <banyan/interrupted.h>

#ifdef __cplusplus
extern "C" {
#endif

/* This process as a member of groups. */
struct banyan_member;

/* Makes this process a member without a group: it has a handle, and listens for those that will form a group with it.
 * Needs the job's key, in the options or BANYAN_KEY_FILE. Rank, size and root of the options are not used; the other
 * options apply to all its groups. Does not block. The caller owns *out. `options` may be NULL. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_member_create(const struct banyan_options *options,
                                                                struct banyan_member **out);
/* Leaves the current group as if its last communicator was destroyed, and may block as long as banyan_comm_destroy.
 * Communicators must still be destroyed. NULL is allowed; no thread may use the member afterwards. */
BANYAN_API void banyan_member_destroy(struct banyan_member *member);

/* Returns the text by which other members name and reach this process: at most 2047 printable characters without
 * blanks. It contains no secret and never changes. It is different for each member, also if a process is started again.
 * Owned by the member. Returns NULL for NULL. */
BANYAN_API const char *banyan_member_handle(const struct banyan_member *member);

/* Forms a group of exactly the processes with these n handles; rank r is the r-th. All of them call this with the same
 * name and list, and nobody else does: others may form another group under another name at the same time. Works from
 * any state: without a group, from a healthy one, and from one that failed or was aborted.
 *
 * Blocks until all have called, for at most `timeout` seconds (> 0), and then as long as banyan_comm_create does for a
 * plan. Only then does this process leave its previous group: pending and later calls there end with
 * BANYAN_ERR_CLOSED, and its communicators can only be destroyed. On an error nothing is returned. If the error
 * occurred before all had called, this process stays in its previous group, which is not affected; if the plan failed,
 * as with BANYAN_ERR_PEER_DEAD, it may have left that group, too.
 *
 *   BANYAN_ERR_ARGUMENT  the name is empty, longer than 255 bytes or was used by this member before, successfully or
 *                        not; a handle is malformed, damaged, of a job with another key, or given twice; this process
 *                        is not among them
 *   BANYAN_ERR_MISMATCH  members gave different lists under this name; all of them get this error. Processes whose
 *                        lists agree form their group even if another process, which is in none of their lists, has
 *                        them in its own: that one gets this error while one of them runs, and BANYAN_ERR_TIMEOUT if
 *                        all of them have ended
 *   BANYAN_ERR_TIMEOUT   not all called; the text names those that are missing
 *
 * After BANYAN_ERR_MISMATCH, _TIMEOUT or _PEER_DEAD call it again with another name and a list of the live members.
 * The caller owns *out. One thread at a time. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_member_reconfigure(struct banyan_member *member, const char *name,
                                                                     const char *const *handles, int n, double timeout,
                                                                     struct banyan_comm **out);

/* Agrees with the other members of this process's group on the next group, and forms it: without processes that died,
 * do not answer, or want to leave, and with those that want to join, which get the last ranks. All members call this,
 * after any failure of a call or when they have agreed to do so. While a member's program computes, a thread of the
 * library takes part in the decision; the member's calls then end with BANYAN_ERR_CLOSED and a text that says to call
 * this function. If nothing has changed, the same processes form a new group.
 *
 * BANYAN_QUORUM (or the option), the same in all processes, says which members may decide:
 *
 *   survivors  more than half, or half with rank 0, or all that are not proven dead; the default
 *   majority   more than half, or half with rank 0
 *   none       any, so that each part of a divided network goes on
 *
 * Blocks for at most `timeout` seconds (> 0), and then as long as banyan_comm_create does for a plan. If forming a
 * group fails, the members decide again. Members that do not call this within half of the time are excluded.
 *
 *   BANYAN_ERR_ARGUMENT  this process is in no group
 *   BANYAN_ERR_CLOSED    this process is in no group any more: it left, was excluded because it did not answer, or no
 *                        quorum was found; the text says which. It can only continue as a new member
 *   BANYAN_ERR_TIMEOUT   nothing was agreed on, or not all called, such as while the network is divided: the text says
 *                        what is missing. The function may be called again
 *
 * The caller owns *out. One thread at a time, here and in join and reconfigure. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_member_recover(struct banyan_member *member, double timeout,
                                                                 struct banyan_comm **out);

/* Joins the group of the processes with these n handles. They are asked one after the other, and one that answers is
 * enough. The members accept this process when they next call banyan_member_recover. Blocks as long as that function
 * and returns its errors; BANYAN_ERR_ARGUMENT: a handle is malformed or of a job with another key, or this member
 * already has a group. After BANYAN_ERR_TIMEOUT the function may be called again. The caller owns *out. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_member_join(struct banyan_member *member, const char *const *handles,
                                                              int n, double timeout, struct banyan_comm **out);

/* Declares that this process wants to leave its group. Nothing happens before all members call banyan_member_recover:
 * the others then form a group without this process, whose call returns BANYAN_ERR_CLOSED. If this process has no
 * group, the declaration applies to its first one. May block briefly; any thread. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_member_leave(struct banyan_member *member);

/* Finds the first group of this process: the one call that a program needs before its loop. The environment decides
 * how:
 *
 * - under `banyan run` with --min, --max or --restarts, all processes form the first group, and those that are started
 *   later join the current group. From then on `banyan run` notifies the member when processes have ended, and when it
 *   should leave; in the latter case banyan_member_change_wanted returns 1;
 * - with BANYAN_MEMBERS=agent, the first BANYAN_SIZE processes with the same BANYAN_KEY form the first group, and those
 *   that are started later join it. They find each other through the agents of their hosts and the cluster's manager;
 * - with BANYAN_MEMBERS, handles with commas between them, this process joins the group of one of these;
 * - otherwise, the processes are those that banyan_comm_create finds by BANYAN_RANK, BANYAN_SIZE and BANYAN_ROOT or the
 *   variables of Slurm, MPI or torchrun; without any of these, this process forms a group alone.
 *
 * Blocks until the group is formed, for at most `timeout` seconds (> 0), and then as long as banyan_comm_create does
 * for a plan; with the last of these methods, no longer than the deadline of banyan_comm_create, either.
 *
 *   BANYAN_ERR_ARGUMENT  the member has had a group; a handle is wrong; or `banyan run` refuses the member, such as the
 *                        second one of a process
 *   BANYAN_ERR_CLOSED    `banyan run` asks this process to leave: the text says why
 *   BANYAN_ERR_TIMEOUT   too few processes called this, or the members did not let this one join
 *
 * After an error other than the first two it may be called again. The caller owns *out. One thread at a time. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_member_start(struct banyan_member *member, double timeout,
                                                               struct banyan_comm **out);

/* Returns 1 if processes that want to join have asked this one, or this one wants to leave; otherwise 0. Never
 * interrupts a call. The value differs between members: at the end of a step they agree by an AllReduce (BANYAN_MAX) of
 * it, and all call banyan_member_recover if the result is 1. Does not block; any thread. */
BANYAN_API int banyan_member_change_wanted(struct banyan_member *member);

/* Returns the number of members of this process's group, and sets *out to their handles, by rank. Returns 0 if there is
 * no group or an argument is NULL. The member owns *out until it forms another group or is destroyed. */
BANYAN_API int banyan_member_handles(const struct banyan_member *member, const char *const **out);

#ifdef __cplusplus
}
#endif
#endif
