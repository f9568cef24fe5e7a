/* A timeline's file: Chrome's JSON. A process is a rank, and each operation has
 * a track of its own: a span from its beginning to its end, and in it the spans
 * of its states. What has been written is valid JSON after every flush. One
 * thread at a time. */
#ifndef BY_COMMUNICATOR_TIMELINE_FILE_H
#define BY_COMMUNICATOR_TIMELINE_FILE_H

#include <stdio.h>

#include "text.h"
#include "trace.h"

struct by_timeline_file;

/* Replaces what is there. BANYAN_ERR_SYSTEM, BANYAN_ERR_NO_MEMORY. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_timeline_file_open(const char *path, struct by_timeline_file **out);
void by_timeline_file_name(struct by_timeline_file *file, uint32_t process, const char *name);
void by_timeline_file_record(struct by_timeline_file *file, uint32_t process, const struct by_trace_record *record);
/* That was all of this process: so many are missing, and its clock may be off by so many ns. */
void by_timeline_file_end(struct by_timeline_file *file, uint32_t process, uint64_t missing, uint64_t error,
                          const struct by_trace_totals totals[BY_TRACE_STATES]);
void by_timeline_file_flush(struct by_timeline_file *file);
/* Frees it in any case. BANYAN_ERR_SYSTEM: something was not written. */
BANYAN_CHECK enum banyan_status by_timeline_file_close(struct by_timeline_file *file);

#endif
