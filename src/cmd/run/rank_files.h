/* Files into which the output of each rank is written, its standard output and its standard error apart. Their names
 * come from a pattern, in which %r is the rank ("3", "helper-0"), %h its host, and %% a percent sign; ".out" and ".err"
 * follow. A pattern without %r and %h is a folder, of files rank-3.out, rank-3.err, helper-0.out. Missing folders are
 * created, and files of an earlier run are replaced. One thread. */
#ifndef BY_CMD_RUN_RANK_FILES_H
#define BY_CMD_RUN_RANK_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "fail.h"
#include "launch.h"

struct by_rank_files {
  const char *pattern;
  struct by_rank_file {
    char *path[2];
    int fd[2]; /* -1: it is not there, or nothing could be written any more */
  } * items;   /* of each process, in the order of ranks, helpers and servers */
  int n;
  bool failed; /* something is missing in some file */
};

/* Checks the pattern, and that no two processes share a file. `grows`: there may be more processes than these later. */
BANYAN_CHECK enum banyan_status by_rank_files_check(const char *pattern, const struct by_launch_hosts *hosts, int ranks,
                                                    bool grows);
/* The name of a file for a stream, 0 or 1, to be freed. `process` counts ranks, and behind them helpers and servers. */
char *by_rank_files_name(const char *pattern, const struct by_launch_host *host, int process, int ranks, int stream);

/* `pattern`, which has been checked, must outlive it. */
void by_rank_files_init(struct by_rank_files *files, const char *pattern);
/* Opens the files of a host's processes. BANYAN_ERR_SYSTEM names the first that cannot be written. */
BANYAN_CHECK enum banyan_status by_rank_files_open(struct by_rank_files *files, const struct by_launch_host *host,
                                                   int ranks);
/* Writes all of it. BANYAN_ERR_SYSTEM: not all could be written; nothing more is written to this file. BANYAN_OK also
 * where it failed before. */
BANYAN_CHECK enum banyan_status by_rank_files_write(struct by_rank_files *files, int process, int stream,
                                                    const char *bytes, size_t length);
/* Whether all that the stream of this process printed is in its file. */
bool by_rank_files_has(const struct by_rank_files *files, int process, int stream);
/* Closes them. BANYAN_ERR_SYSTEM: one could not be written to its end. */
BANYAN_CHECK enum banyan_status by_rank_files_fini(struct by_rank_files *files);

#endif
