/* Combines the output of ranks into lines with prefixes. */
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
  if (files && by_rank_files_write(files, rank, stream, bytes, length))
    by_output_print(output, "%s: %s", output->title, banyan_error_text());
  if (output->mode == BY_OUTPUT_NONE && files && by_rank_files_has(files, rank, stream)) return;
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
  if (by_pipe_waiting(text) >= MOST_LINE) print_line(output, line, by_pipe_waiting(text), line_end(output));
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
  return by_pipe_waiting(&output->to[0]) > MOST_WAITING || by_pipe_waiting(&output->to[1]) > MOST_WAITING;
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
