/* The destination of the log: standard error, or the file named by BANYAN_LOG_FILE, with the time before each line.
 * Lines on standard error have it in services only. The name is a pattern: %r is the rank, %h the host, %p the
 * process and %% a percent sign. Lines are appended, each by one write, so that processes may share a file. A file
 * that cannot be opened or written is reported once, and lines go to standard error then; so do those logged before
 * the rank is known, if the name needs it.
 *
 * The file is opened once in a process, and never closed: a child made by fork() logs where its parent does. Any
 * thread. The thread's error text stays, since it may be what is logged. */
#ifndef BY_BASE_LOG_FILE_H
#define BY_BASE_LOG_FILE_H

#include <stddef.h>

enum { BY_LOG_TIME = 32 };

/* Sets the rank in the file's name, unless BANYAN_RANK has set it, or the file is open. */
void by_log_file_set_rank(int rank);
/* Adds the time to lines on standard error from now on, unless the journal of systemd receives them, which adds it
 * itself. */
void by_log_file_add_times(void);
/* Prints the time for a line on standard error, with a space; empty unless times are added. */
void by_log_file_print_time(char out[BY_LOG_TIME]);
/* Writes one line, which ends with a newline. */
void by_log_file_write(const char *line, size_t length);

/* Prints the file's name for a rank, which must be >= 0 if the pattern `from` has %r. Returns NULL, or a literal that
 * tells what is wrong. */
const char *by_log_file_name(const char *from, int rank, const char *host, char *out, size_t capacity);

#endif
