/* Timelines: a file of what happened to every operation on every rank, and
 * when, which Perfetto (ui.perfetto.dev) and chrome://tracing open. The
 * environment variable BANYAN_TIMELINE=FILE keeps one from the job's start to
 * its end; these keep one of a part of it. docs/timeline.md says what is in it. */
#ifndef BANYAN_TIMELINE_H
#define BANYAN_TIMELINE_H

#include <banyan/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rank 0 of the job: from now on all ranks note what happens, each the last 65536 operations; `path` is where this rank
 * will write it, every half second and at the end. On other ranks: this rank notes from now on, and not only from when
 * rank 0's word comes; `path` is not looked at. So all ranks may call it, or rank 0 alone. Does not block. Any thread.
 * BANYAN_ERR_ARGUMENT: there is one already; BANYAN_ERR_SYSTEM: the file cannot be written; BANYAN_ERR_NO_MEMORY. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_timeline_start(struct banyan_comm *comm, const char *path);

/* Rank 0 of the job: collects what is left of what all have noted, and completes the file. Blocks until that is done,
 * at most for 10 s after the last rank was heard of. Others: nothing. The job's end does it too. BANYAN_ERR_ARGUMENT:
 * there is none; BANYAN_ERR_SYSTEM: the file could not be written. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_timeline_stop(struct banyan_comm *comm);

/* This process's counters in Prometheus' text format: what it has sent and received, and for each state how many
 * operations have left it while timelines were kept, with how many bytes and how many seconds they were in it. Writes
 * as much as fits, with a NUL; returns how many bytes there are without it. */
BANYAN_API size_t banyan_comm_metrics(const struct banyan_comm *comm, char *text, size_t room);

#ifdef __cplusplus
}
#endif
#endif
