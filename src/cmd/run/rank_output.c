/* Writes the output of ranks into files, and combines it into lines with prefixes. */
#include "rank_output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
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
    return by_fail(
        BANYAN_ERR_ARGUMENT,
        "--output-files \"%.200s\" lacks %%r, without which processes that are started later may share a file",
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

/* Writes all bytes. BANYAN_ERR_SYSTEM: not all could be written; nothing more is written to this file. BANYAN_OK also
 * if it failed before. */
static enum banyan_status write_file(struct by_rank_files *files, int process, int stream, const char *bytes,
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

/* Tells whether all output of this stream is in its file. */
static bool is_in_file(const struct by_rank_files *files, int process, int stream) {
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

enum { MAX_LINE = 1 << 20, MAX_WAITING = 1 << 20, LINE_BYTES = 2048 };

void by_output_init(struct by_output *output, enum by_output_mode mode, int ranks, const char *const *labels) {
  *output = (struct by_output){.mode = mode, .labels = labels, .begun = -1};
  by_pipe_init(&output->to[0], STDOUT_FILENO, PIPE_BUF);
  by_pipe_init(&output->to[1], STDERR_FILENO, PIPE_BUF);
  for (int i = 0; i < 2; i++) output->is_terminal[i] = isatty(output->to[i].fd);
  by_output_grow(output, ranks);
}

void by_output_grow(struct by_output *output, int ranks) {
  size_t had = 2 * (size_t)output->ranks, has = 2 * (size_t)ranks;
  output->lines = by_cli_alloc(output->lines, has * sizeof *output->lines);
  memset(output->lines + had, 0, (has - had) * sizeof *output->lines);
  output->ranks = ranks;
}

void by_output_fini(struct by_output *output) {
  for (int i = 0; i < 2 * output->ranks; i++) by_pipe_fini(&output->lines[i].text);
  free(output->lines);
  by_pipe_fini(&output->to[0]);
  by_pipe_fini(&output->to[1]);
}

/* Returns the stream: with rank 0 only on stdout, the other ranks' stdout goes to stderr. */
static int choose_stream(const struct by_output *output, int rank, int stream) {
  return output->mode == BY_OUTPUT_ERROR || (output->mode == BY_OUTPUT_RANK0 && rank) ? 1 : stream;
}

/* Ends a line whose beginning was shown, before printing anything else. */
static void end_begun(struct by_output *output) {
  if (output->begun < 0) return;
  by_pipe_add(&output->to[choose_stream(output, output->begun / 2, output->begun % 2)], "\n", 1);
  output->begun = -1;
}

/* Prints a line, or the rest of it, followed by `end`. */
static void print_line(struct by_output *output, int line, size_t length, const char *end) {
  int rank = line / 2;
  struct by_pipe *text = &output->lines[line].text, *to = &output->to[choose_stream(output, rank, line % 2)];
  char number[16];
  snprintf(number, sizeof number, "%d", rank);
  const char *label = output->labels ? output->labels[rank] : number;
  bool goes_on = output->begun == line;
  if (!goes_on) end_begun(output);
  if (!goes_on && output->mode != BY_OUTPUT_RAW) {
    by_pipe_add(to, "[", 1);
    by_pipe_add(to, label, strlen(label));
    by_pipe_add(to, "] ", 2);
  }
  by_pipe_add(to, text->data + text->start, length);
  by_pipe_add(to, end, strlen(end));
  text->start += length;
  output->begun = -1;
  output->lines[line].waits = false;
}

static const char *line_end(const struct by_output *output) {
  return output->mode == BY_OUTPUT_RAW ? "" : "\n";
}

bool by_output_show(struct by_output *output) {
  bool others = false;
  for (int i = 0; i < 2 * output->ranks; i++) {
    struct by_output_line *line = &output->lines[i];
    size_t length = by_pipe_waiting(&line->text);
    if (!length || !output->is_terminal[choose_stream(output, i / 2, i % 2)]) continue;
    if (line->waits && (output->begun < 0 || output->begun == i)) {
      print_line(output, i, length, "");
      output->begun = i;
    } else
      others = line->waits = true;
  }
  return others;
}

/* Returns the length of the first line with its end; 0 if none of `length` bytes ends one. "\r\n" is one end, so a
 * final "\r" waits for the next byte. `seen` bytes are known to contain no end. */
static size_t first_line(const char *bytes, size_t length, size_t seen) {
  const char *newline = memchr(bytes + seen, '\n', length - seen);
  size_t within = newline ? (size_t)(newline - bytes) : length;
  for (const char *at = bytes + seen; (at = memchr(at, '\r', within - (size_t)(at - bytes)));) {
    size_t next = (size_t)(at - bytes) + 1;
    if (next == length) return 0;
    if (bytes[next] != '\n') return next;
    at++;
  }
  return newline ? within + 1 : 0;
}

void by_output_set_files(struct by_output *output, struct by_rank_files *files, const char *title) {
  output->files = files;
  output->title = title;
}

void by_output_take(struct by_output *output, int rank, int stream, const char *bytes, size_t length) {
  struct by_rank_files *files = output->files;
  if (files && write_file(files, rank, stream, bytes, length))
    by_output_print(output, "%s: %s", output->title, banyan_error_text());
  if (output->mode == BY_OUTPUT_NONE && files && is_in_file(files, rank, stream)) return;
  if (output->mode == BY_OUTPUT_RANK0 && !rank && !stream) {
    by_pipe_add(&output->to[0], bytes, length);
    return;
  }
  int line = 2 * rank + stream;
  struct by_pipe *text = &output->lines[line].text;
  size_t seen = by_pipe_waiting(text), n;
  if (seen && text->data[text->end - 1] == '\r') seen--;
  by_pipe_add(text, bytes, length);
  while ((n = first_line(text->data + text->start, by_pipe_waiting(text), seen))) {
    print_line(output, line, n, "");
    seen = 0;
  }
  if (by_pipe_waiting(text) >= MAX_LINE) print_line(output, line, by_pipe_waiting(text), line_end(output));
}

void by_output_end(struct by_output *output, int rank) {
  for (int line = 2 * rank; line < 2 * rank + 2; line++) {
    size_t length = by_pipe_waiting(&output->lines[line].text);
    if (length || output->begun == line) print_line(output, line, length, line_end(output));
    by_pipe_fini(&output->lines[line].text);
  }
}

void by_output_print(struct by_output *output, const char *format, ...) {
  char text[LINE_BYTES];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  end_begun(output);
  by_pipe_add(&output->to[1], text, MIN((size_t)n, sizeof text - 1));
  by_pipe_add(&output->to[1], "\n", 1);
}

bool by_output_full(const struct by_output *output) {
  return by_pipe_waiting(&output->to[0]) > MAX_WAITING || by_pipe_waiting(&output->to[1]) > MAX_WAITING;
}

size_t by_output_waiting(const struct by_output *output) {
  return by_pipe_waiting(&output->to[0]) + by_pipe_waiting(&output->to[1]);
}

enum by_output_mode by_output_choose(int choice, char *const *command, enum by_output_mode usual) {
  if (choice > 0) return (enum by_output_mode)(choice - 1);
  for (int i = 1; command && command[i]; i++)
    if (!strcmp(command[i], "--json")) return BY_OUTPUT_RANK0;
  return usual;
}
