#include "rank_output.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "process.h"

enum { MOST_LINE = 1 << 20, MOST_WAITING = 1 << 20, LINE_BYTES = 2048 };

void by_output_init(struct by_output *output, enum by_output_mode mode, int ranks, const char *const *labels) {
  *output = (struct by_output){.mode = mode, .labels = labels};
  by_pipe_init(&output->to[0], STDOUT_FILENO, PIPE_BUF);
  by_pipe_init(&output->to[1], STDERR_FILENO, PIPE_BUF);
  by_output_grow(output, ranks);
}

void by_output_grow(struct by_output *output, int ranks) {
  size_t had = 2 * (size_t)output->ranks, has = 2 * (size_t)ranks;
  output->lines = by_cli_alloc(output->lines, has * sizeof *output->lines);
  memset(output->lines + had, 0, (has - had) * sizeof *output->lines);
  output->ranks = ranks;
}

void by_output_fini(struct by_output *output) {
  for (int i = 0; i < 2 * output->ranks; i++) by_pipe_fini(&output->lines[i]);
  free(output->lines);
  by_pipe_fini(&output->to[0]);
  by_pipe_fini(&output->to[1]);
}

static void emit(struct by_output *output, int rank, int stream, const char *bytes, size_t length, bool end_it) {
  /* With rank 0 only on stdout, the other ranks' stdout goes to stderr. */
  bool to_error = output->mode == BY_OUTPUT_ERROR || (output->mode == BY_OUTPUT_RANK0 && rank);
  struct by_pipe *to = &output->to[to_error ? 1 : stream];
  bool prefixed = output->mode != BY_OUTPUT_RAW;
  char number[16];
  snprintf(number, sizeof number, "%d", rank);
  const char *label = output->labels ? output->labels[rank] : number;
  if (prefixed) by_pipe_add(to, "[", 1);
  if (prefixed) by_pipe_add(to, label, strlen(label));
  if (prefixed) by_pipe_add(to, "] ", 2);
  by_pipe_add(to, bytes, length);
  if (end_it && prefixed) by_pipe_add(to, "\n", 1);
}

/* Length of the first line with its end; 0 if none of `length` bytes ends one. "\r\n" is one end, so a final "\r" waits
 * for what follows. `seen` bytes are known to hold no end. */
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
  if (files && by_rank_files_write(files, rank, stream, bytes, length))
    by_output_print(output, "%s: %s", output->title, banyan_error_text());
  if (output->mode == BY_OUTPUT_NONE && files && by_rank_files_has(files, rank, stream)) return;
  if (output->mode == BY_OUTPUT_RANK0 && !rank && !stream) {
    by_pipe_add(&output->to[0], bytes, length);
    return;
  }
  struct by_pipe *line = &output->lines[2 * rank + stream];
  size_t seen = by_pipe_waiting(line), n;
  if (seen && line->data[line->end - 1] == '\r') seen--;
  by_pipe_add(line, bytes, length);
  while ((n = first_line(line->data + line->start, by_pipe_waiting(line), seen))) {
    emit(output, rank, stream, line->data + line->start, n, false);
    line->start += n;
    seen = 0;
  }
  if (by_pipe_waiting(line) < MOST_LINE) return;
  emit(output, rank, stream, line->data + line->start, by_pipe_waiting(line), true);
  line->start = line->end;
}

void by_output_end(struct by_output *output, int rank) {
  for (int stream = 0; stream < 2; stream++) {
    struct by_pipe *line = &output->lines[2 * rank + stream];
    if (by_pipe_waiting(line)) emit(output, rank, stream, line->data + line->start, by_pipe_waiting(line), true);
    by_pipe_fini(line);
  }
}

void by_output_print(struct by_output *output, const char *format, ...) {
  char text[LINE_BYTES];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  by_pipe_add(&output->to[1], text, MIN((size_t)n, sizeof text - 1));
  by_pipe_add(&output->to[1], "\n", 1);
}

bool by_output_full(const struct by_output *output) {
  return by_pipe_waiting(&output->to[0]) > MOST_WAITING || by_pipe_waiting(&output->to[1]) > MOST_WAITING;
}

size_t by_output_waiting(const struct by_output *output) {
  return by_pipe_waiting(&output->to[0]) + by_pipe_waiting(&output->to[1]);
}
