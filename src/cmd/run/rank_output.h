/* The combined output of many ranks. */
#ifndef BY_CMD_RUN_RANK_OUTPUT_H
#define BY_CMD_RUN_RANK_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "fail.h"
#include "launch.h"
#include "launch_io.h"

/* A line that has not ended yet. */
struct by_output_line {
  struct by_pipe text; /* Without a descriptor. */
  bool waits;          /* Since the last by_output_show. */
};

/* Whole lines, each preceded by "[rank] ", or another label of the rank. A rank's lines keep their order within each
 * stream. A line longer than 1 MiB is cut. A line also ends at a carriage return, so that progress bars move. On a
 * terminal, the beginning of one line at a time is shown if its end does not come soon; if another line follows, the
 * rest becomes a separate line. One thread; owns no descriptor. */
struct by_output {
  enum by_output_mode mode;
  struct by_pipe to[2]; /* Standard output and error. */
  bool is_terminal[2];
  struct by_output_line *lines; /* Two for each rank. */
  int begun;                    /* The line whose beginning was shown last; -1: it was ended. */
  int ranks;
  const char *const *labels;   /* One for each rank; NULL: its number. */
  const char *title;           /* Prefix of messages. */
  struct by_rank_files *files; /* NULL: none. */
};

/* `labels` must outlive the output. */
void by_output_init(struct by_output *output, enum by_output_mode mode, int ranks, const char *const *labels);
/* Writes all output of ranks to these files, too, unchanged. `title` begins the message if one cannot be written; with
 * BY_OUTPUT_NONE the rest of it is then printed. */
void by_output_set_files(struct by_output *output, struct by_rank_files *files, const char *title);
void by_output_fini(struct by_output *output);
/* Adds ranks. */
void by_output_grow(struct by_output *output, int ranks);
/* Shows the beginnings of lines that already waited at the last call. Returns whether others wait now. */
bool by_output_show(struct by_output *output);
/* `stream` is 0 for stdout, 1 for stderr. */
void by_output_take(struct by_output *output, int rank, int stream, const char *bytes, size_t length);
/* The rank has ended, which ends its last lines, too. */
void by_output_end(struct by_output *output, int rank);
/* Prints a line of the launcher on stderr. */
void by_output_print(struct by_output *output, const char *format, ...) BY_PRINTF(2, 3);
/* Tells whether no more should be read until something is written. */
bool by_output_full(const struct by_output *output);
/* Returns the number of bytes that wait to be written. */
size_t by_output_waiting(const struct by_output *output);

/* ---- files of the output
 *
 * Files into which the output of each rank is written, standard output and standard error separately. Their names come
 * from a pattern, in which %r is the rank ("3", "helper-0"), %h its host, and %% a percent sign; ".out" and ".err"
 * follow. A pattern without %r and %h is a folder, of files rank-3.out, rank-3.err, helper-0.out. Missing folders are
 * created, and files of an earlier run are replaced. One thread. */

struct by_rank_files {
  const char *pattern;
  struct by_rank_file {
    char *path[2];
    int fd[2]; /* -1: not open, or writing has failed. */
  } * items;   /* For each process, in the order of ranks, helpers and servers. */
  int n;
  bool failed; /* Some file is incomplete. */
};

/* Checks the pattern, and that no two processes share a file. `grows`: there may be more processes later. */
BANYAN_CHECK enum banyan_status by_rank_files_check(const char *pattern, const struct by_launch_hosts *hosts, int ranks,
                                                    bool grows);
/* Returns the name of a file for a stream, 0 or 1, which the caller frees. `process` counts ranks, and then helpers and
 * servers. */
char *by_rank_files_name(const char *pattern, const struct by_launch_host *host, int process, int ranks, int stream);

/* `pattern`, which has been checked, must outlive it. */
void by_rank_files_init(struct by_rank_files *files, const char *pattern);
/* Opens the files of a host's processes. BANYAN_ERR_SYSTEM names the first one that cannot be written. */
BANYAN_CHECK enum banyan_status by_rank_files_open(struct by_rank_files *files, const struct by_launch_host *host,
                                                   int ranks);
/* Closes them. BANYAN_ERR_SYSTEM: one could not be written to its end. */
BANYAN_CHECK enum banyan_status by_rank_files_fini(struct by_rank_files *files);

#endif
