/* Timelines: a trace file of every operation on every rank, for Perfetto (ui.perfetto.dev) or chrome://tracing. The
 * environment variable BANYAN_TIMELINE=FILE records the whole job; these functions record a part of it.
 * docs/timeline.md describes the contents. */
#ifndef BANYAN_TIMELINE_H
#define BANYAN_TIMELINE_H

#include <banyan/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts recording. Either all ranks or only rank 0 of the job call this. Rank 0 starts the recording on all ranks,
 * each of which keeps its last 65536 operations, and writes the file `path` every half second and at the end. It should
 * be on a local file system, because the job's control connections wait while it is written. Another rank that calls it
 * starts recording at once, instead of when rank 0's message arrives; it ignores `path`. Does not block; any thread.
 * BANYAN_ERR_ARGUMENT: a recording is in progress. BANYAN_ERR_SYSTEM: the file cannot be written. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_timeline_start(struct banyan_comm *comm, const char *path);

/* Stops recording. Rank 0 of the job collects the remaining records of all ranks and completes the file; on other ranks
 * the call does nothing. Blocks until the file is complete, for at most 10 s after the last message of any rank. The
 * end of the job does the same. BANYAN_ERR_ARGUMENT: no recording is in progress. BANYAN_ERR_SYSTEM: the file could not
 * be written. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_timeline_stop(struct banyan_comm *comm);

/* Writes this process's counters in Prometheus' text format: bytes and frames sent and received, and for each state of
 * an operation, while timelines were recorded, the number of operations that left it, their bytes, and the seconds
 * spent in it. Like snprintf, writes at most `room` bytes including the NUL and returns the full length without it. */
BANYAN_API size_t banyan_comm_metrics(const struct banyan_comm *comm, char *text, size_t room);

#ifdef __cplusplus
}
#endif
#endif
