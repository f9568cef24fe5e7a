/* Where lines of the log go: to standard error, or to the file that BANYAN_LOG_FILE names, with the time before each.
 * Lines on standard error have it in services only.
 * The name is a pattern: %r is the rank, %h the host, %p the process and %% a percent sign. Lines are appended, each by
 * one write, so that processes may share a file. A file that cannot be opened or written is reported once, and lines go
 * to standard error then; so do those that come before the rank is known, where the name needs it.
 *
 * The file is opened once in a process, and never closed: a child made by fork() logs where its parent does. Any
 * thread. The thread's error text stays as it is, since it may be what is logged. */
#ifndef BY_BASE_LOG_FILE_H
#define BY_BASE_LOG_FILE_H

#include <stddef.h>

enum { BY_LOG_TIME = 32 };

/* The rank in the file's name, unless BANYAN_RANK has set it, or the file is open. */
void by_log_file_set_rank(int rank);
/* From now on lines on standard error begin with the time, too, unless the journal of systemd receives them, which adds
 * it itself. */
void by_log_file_add_times(void);
/* The time as it stands before a line on standard error, with a space; empty unless times are added. */
void by_log_file_print_time(char out[BY_LOG_TIME]);
/* Writes one line, which ends with a newline. */
void by_log_file_write(const char *line, size_t length);

/* The file's name for a rank, which is >= 0 where the pattern `from` has %r. NULL: done; else what is wrong, a literal.
 */
const char *by_log_file_name(const char *from, int rank, const char *host, char *out, size_t capacity);

#endif
