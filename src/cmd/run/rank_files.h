/* Files into which the output of each rank is written, standard output and standard error separately. Their names come
 * from a pattern, in which %r is the rank ("3", "helper-0"), %h its host, and %% a percent sign; ".out" and ".err"
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
/* Writes all bytes. BANYAN_ERR_SYSTEM: not all could be written; nothing more is written to this file. BANYAN_OK also
 * if it failed before. */
BANYAN_CHECK enum banyan_status by_rank_files_write(struct by_rank_files *files, int process, int stream,
                                                    const char *bytes, size_t length);
/* Tells whether all output of this stream is in its file. */
bool by_rank_files_has(const struct by_rank_files *files, int process, int stream);
/* Closes them. BANYAN_ERR_SYSTEM: one could not be written to its end. */
BANYAN_CHECK enum banyan_status by_rank_files_fini(struct by_rank_files *files);

#endif
