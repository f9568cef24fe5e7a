/* Writes the output of each rank into files. */
#include "rank_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"
#include "text.h"

/* ---- names */

static bool is_folder(const char *pattern) {
  return !by_pattern_uses(pattern, 'r') && !by_pattern_uses(pattern, 'h');
}

/* A host of a lab may be called "a/b", which is no folder. */
static void add_host(struct by_text *name, const char *host) {
  for (const char *c = host; *c; c++) by_text_add(name, "%c", *c == '/' ? '_' : *c);
}

static void add_process(struct by_text *name, const struct by_launch_host *host, int process, int ranks) {
  if (host->beside)
    by_text_add(name, "%s-%d", by_beside_name(host->beside), process - ranks);
  else
    by_text_add(name, "%d", process);
}

char *by_rank_files_name(const char *pattern, const struct by_launch_host *host, int process, int ranks, int stream) {
  struct by_text name = {0};
  for (const char *c = pattern; *c; c++) {
    if (*c != '%') {
      by_text_add(&name, "%c", *c);
    } else if (*++c == 'r') {
      add_process(&name, host, process, ranks);
    } else if (*c == 'h') {
      add_host(&name, host->name);
    } else {
      by_text_add(&name, "%%");
    }
  }
  if (is_folder(pattern)) {
    by_text_add(&name, name.length && name.data[name.length - 1] == '/' ? "" : "/");
    by_text_add(&name, host->beside ? "" : "rank-");
    add_process(&name, host, process, ranks);
  }
  by_text_add(&name, stream ? ".err" : ".out");
  char *copy = by_cli_print("%s", by_text_get(&name));
  by_text_fini(&name);
  return copy;
}

static enum banyan_status check_pattern(const char *pattern) {
  const char *slash = strrchr(pattern, '/');
  if (!*pattern)
    return by_fail(BANYAN_ERR_ARGUMENT, "--output-files is empty: give a folder, or names such as logs/%%r");
  for (const char *c = strchr(pattern, '%'); c; c = strchr(c + 2, '%'))
    if (!c[1] || !strchr("rh%", c[1]))
      return by_fail(
          BANYAN_ERR_ARGUMENT,
          "--output-files: \"%.2s\" in \"%.200s\" is unknown; there are %%r (the rank), %%h (its host) and %%%% "
          "(a percent sign)",
          c, pattern);
  if (slash && !slash[1] && !is_folder(pattern))
    return by_fail(BANYAN_ERR_ARGUMENT, "--output-files \"%.200s\" names no file: write %.200s%%r", pattern, pattern);
  return BANYAN_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A pattern with the rank makes all names unique. */
enum banyan_status by_rank_files_check(const char *pattern, const struct by_launch_hosts *hosts, int ranks,
                                       bool grows) {
  BY_TRY(check_pattern(pattern));
  if (is_folder(pattern) || by_pattern_uses(pattern, 'r')) return BANYAN_OK;
  if (grows)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "--output-files \"%.200s\" lacks %%r, without which processes that come later may share a file",
                   pattern);
  size_t n = 0;
  char **names = NULL;
  for (size_t i = 0; i < hosts->count; i++)
    for (int k = 0; k < hosts->items[i].ranks; k++, n++) {
      names = by_cli_alloc(names, (n + 1) * sizeof *names);
      names[n] = by_rank_files_name(pattern, &hosts->items[i], hosts->items[i].first + k, ranks, 0);
    }
  enum banyan_status status = BANYAN_OK;
  if (n) qsort(names, n, sizeof *names, by_name);
  for (size_t i = 1; i < n && status == BANYAN_OK; i++)
    if (!strcmp(names[i - 1], names[i]))
      status = by_fail(BANYAN_ERR_ARGUMENT,
                       "--output-files \"%.200s\": several processes would overwrite each other's %.200s; add %%r, the "
                       "rank, to the name",
                       pattern, names[i]);
  for (size_t i = 0; i < n; i++) free(names[i]);
  free(names);
  return status;
}

/* ---- files */

void by_rank_files_init(struct by_rank_files *files, const char *pattern) {
  *files = (struct by_rank_files){.pattern = pattern};
}

/* Makes the missing folders of a file. */
static enum banyan_status make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    int failed = mkdir(path, 0777) && errno != EEXIST ? errno : 0;
    enum banyan_status status = BANYAN_OK;
    if (failed)
      status = by_fail_errno(BANYAN_ERR_SYSTEM, failed,
                             "cannot create the folder %.200s for the output of ranks; choose another (--output-files)",
                             path);
    *slash = '/';
    BY_TRY(status);
  }
  return BANYAN_OK;
}

/* Does not wait for a reader if it is a pipe. */
static enum banyan_status open_file(char *path, int *out) {
  BY_TRY(make_folders(path));
  *out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
  if (*out >= 0) return BANYAN_OK;
  int reason = errno;
  const char *hint = reason == EMFILE   ? "; each process needs two: raise the limit (ulimit -n)"
                     : reason == EACCES ? "; choose another folder (--output-files)"
                                        : "";
  return by_fail(BANYAN_ERR_SYSTEM, "cannot write the output of ranks to %.200s: %s%s", path, strerror(reason), hint);
}

enum banyan_status by_rank_files_open(struct by_rank_files *files, const struct by_launch_host *host, int ranks) {
  int end = host->first + host->ranks;
  if (end > files->n) {
    files->items = by_cli_alloc(files->items, (size_t)end * sizeof *files->items);
    for (; files->n < end; files->n++) files->items[files->n] = (struct by_rank_file){.fd = {-1, -1}};
  }
  for (int process = host->first; process < end; process++)
    for (int stream = 0; stream < 2; stream++) {
      struct by_rank_file *file = &files->items[process];
      if (!file->path[stream]) file->path[stream] = by_rank_files_name(files->pattern, host, process, ranks, stream);
      if (file->fd[stream] < 0) BY_TRY(open_file(file->path[stream], &file->fd[stream]));
    }
  return BANYAN_OK;
}

static enum banyan_status fail_writing(struct by_rank_files *files, int process, int stream, int reason) {
  struct by_rank_file *file = &files->items[process];
  files->failed = true;
  file->fd[stream] = -1;
  return by_fail(BANYAN_ERR_SYSTEM, "cannot write %.200s: %s; the file is incomplete%s", file->path[stream],
                 strerror(reason),
                 reason == ENOSPC || reason == EDQUOT ? ": free space, or choose another folder (--output-files)" : "");
}

enum banyan_status by_rank_files_write(struct by_rank_files *files, int process, int stream, const char *bytes,
                                       size_t length) {
  if (process >= files->n || files->items[process].fd[stream] < 0) return BANYAN_OK;
  int fd = files->items[process].fd[stream];
  while (length) {
    ssize_t n = write(fd, bytes, length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      int reason = errno;
      close(fd);
      return fail_writing(files, process, stream, reason);
    }
    bytes += n;
    length -= (size_t)n;
  }
  return BANYAN_OK;
}

bool by_rank_files_has(const struct by_rank_files *files, int process, int stream) {
  return process < files->n && files->items[process].fd[stream] >= 0;
}

enum banyan_status by_rank_files_fini(struct by_rank_files *files) {
  enum banyan_status status = BANYAN_OK;
  for (int process = 0; process < files->n; process++)
    for (int stream = 0; stream < 2; stream++) {
      int fd = files->items[process].fd[stream];
      if (fd >= 0 && close(fd)) status = fail_writing(files, process, stream, errno);
      free(files->items[process].path[stream]);
    }
  free(files->items);
  files->items = NULL;
  files->n = 0;
  return status;
}
