/* A context: this process's part in a job. It holds the engine, the members, the connections to them, and two threads:
 * one accepts and makes connections and handles control messages; the other is that of progress.h. All communicators of
 * the job share it; the last one that is destroyed ends it, unless requests are left.
 *
 * Threads: the job's lock guards everything but the loop and the control connections, which the loop's thread owns.
 * What a higher module keeps here is in a struct that only its file changes. */
#ifndef BY_JOB_JOB_LIFE_H
#define BY_JOB_JOB_LIFE_H

#include <banyan/collectives.h>

#include "progress.h"

struct by_region;

/* Reads the settings: the program's options take precedence over the environment; `options` NULL: none. Strings are
 * borrowed. */
BANYAN_CHECK enum banyan_status by_job_read_settings(const struct banyan_options *options, struct by_settings *out);
/* Makes a context and joins. `role` NULL: a rank of the settings' job. A formation is borrowed until this returns. */
BANYAN_CHECK enum banyan_status by_job_create(const struct banyan_options *options, const struct by_job_role *role,
                                              struct by_job **out);
/* Adds a reference. Under lock. */
void by_job_hold(struct by_job *job);
/* Unlocks the context and drops a reference; the last one ends it. */
void by_job_unlock_and_release(struct by_job *job);
void by_job_release(struct by_job *job);
/* Retires the context, as this process is in a later membership. Sends pending data, for at most a second, and that
 * this process has left. Calls in progress and later ones end with BANYAN_ERR_CLOSED and this text. If the context has
 * failed before, later calls keep that status, and the text follows the reason. The communicators stay until they are
 * destroyed. */
void by_job_retire(struct by_job *job, const char *text);
/* Ends calls in progress and later ones with BANYAN_ERR_CLOSED and this text, on this process only: another membership
 * follows, or this process is in none any more. Unless `at_once`, waits until calls stop progressing, and is to be
 * called again until it returns true. Any thread. */
bool by_job_interrupt(struct by_job *job, const char *text, bool at_once);
/* Takes over from a retired job the timeline, and the lanes to processes of this membership. Its other lanes end, so
 * that no process waits for a lane without another end. */
void by_job_inherit(struct by_job *job, struct by_job *before);
/* Begins what goes on from one membership to the next, before this one's first call; `memberships`: the number of
 * memberships in a row up to this one. On failure the membership ends on all ranks. */
BANYAN_CHECK enum banyan_status by_job_go_on(struct by_job *job, uint64_t memberships);
/* Returns whether this process was made by fork() after the context. Then its descriptors are closed, its threads and
 * the holders of its locks do not exist, and its shared memory is the parent's. So nothing is done with it; it is not
 * even freed. */
bool by_job_is_of_parent(const struct by_job *job);
/* Returns BANYAN_ERR_ARGUMENT if by_job_is_of_parent. */
BANYAN_CHECK enum banyan_status by_job_check_process(const struct by_job *job);
/* Ends the job on all ranks, because this one cannot do `what`, with the reason in the thread's error text; returns
 * `status` with the whole text. Takes the lock. */
enum banyan_status by_job_fail_here(struct by_job *job, enum banyan_status status, const char *what);
/* Blocks until the others know that this process has failed the job, for half a second at most. Takes the lock. */
void by_job_await_failure(struct by_job *job);
/* Copies a struct of a program that may have been built against an earlier version: its first `given` bytes (0: all);
 * the other members are 0. BANYAN_ERR_UNSUPPORTED: the program was built for a later version. */
BANYAN_CHECK enum banyan_status by_copy_versioned(const char *name, const void *from, size_t given, void *to,
                                                  size_t bytes);
/* The handles of the ranks, in an array that lives as long as the job. Under lock. */
BANYAN_CHECK enum banyan_status by_job_list_handles(struct by_job *job, const char ***out);
/* Returns the engine's status, with its text. Under lock. */
BANYAN_CHECK enum banyan_status by_job_status(const struct by_job *job);
/* Reports that something other than a call has waited for these processes since then: the members' services ask whether
 * they run. Does nothing without such services. */
void by_job_note_wait(const struct by_job *job, uint64_t since, const uint32_t *processes, uint32_t n);

/* Adds a region to the job's memory; under lock, as the next two. */
void by_memory_add(struct by_job *job, struct by_region *region);
/* Frees a region, or marks it to be freed once calls do not use it any more. */
void by_memory_doom(struct by_job *job, struct by_region *region);
/* Frees marked regions that are not used any more. */
void by_memory_sweep(struct by_job *job);

#endif
