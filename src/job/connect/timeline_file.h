/* A timeline's file: Chrome's JSON. A process is a rank, and each operation has
 * a track of its own: a span from its beginning to its end, and in it the spans
 * of its states. Each flush is one write that replaces the end of the file, so
 * that the file is valid JSON whenever the process ends. A file that has grown
 * too large becomes PATH.1, and a new one is begun. One thread at a time. */
#ifndef BY_JOB_CONNECT_TIMELINE_FILE_H
#define BY_JOB_CONNECT_TIMELINE_FILE_H

#include "text.h"
#include "trace.h"

struct by_timeline_file;

/* Replaces what is there; `continues`: goes on behind it, if that is such a file. BANYAN_ERR_SYSTEM,
 * BANYAN_ERR_NO_MEMORY. BANYAN_ERR_ARGUMENT: another process is writing it. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_timeline_file_open(const char *path, uint64_t most_bytes, bool continues,
                                                      struct by_timeline_file **out);
/* Something happened to this process, which this title tells. */
void by_timeline_file_event(struct by_timeline_file *file, uint32_t process, uint64_t at, const char *title);
/* The same for all: the job goes on as the membership of this name, in which the n processes of these numbers are the
 * ranks from 0 on. */
void by_timeline_file_membership(struct by_timeline_file *file, const char *title, const char *name, uint64_t at,
                                 uint32_t n, const uint32_t *ranks);
/* The track of a process, and where it stands among the others. */
void by_timeline_file_name(struct by_timeline_file *file, uint32_t process, uint32_t place, const char *name);
/* A record that has not ended stands at the end of the file until it comes again. */
void by_timeline_file_record(struct by_timeline_file *file, uint32_t process, const struct by_trace_record *record);
/* That was all of this process, under this name: so many are missing, and its clock may be off by so many ns. */
void by_timeline_file_end(struct by_timeline_file *file, const char *process, uint64_t missing, uint64_t error,
                          const struct by_trace_totals totals[BY_TRACE_STATES]);
void by_timeline_file_flush(struct by_timeline_file *file);
/* Frees it in any case. BANYAN_ERR_SYSTEM: something was not written. */
BANYAN_CHECK enum banyan_status by_timeline_file_close(struct by_timeline_file *file);

#endif
