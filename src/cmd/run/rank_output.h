/* The output of many ranks as one. */
#ifndef BY_CMD_RUN_RANK_OUTPUT_H
#define BY_CMD_RUN_RANK_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "launch.h"
#include "launch_io.h"
#include "rank_files.h"

/* A line that has not ended yet. */
struct by_output_line {
  struct by_pipe text; /* without a descriptor */
  bool waits;          /* since the last by_output_show */
};

/* Whole lines, each with "[rank] " before it, or another label of the rank. A rank's own lines keep their order within
 * each stream. A line longer than 1 MiB is cut. A line also ends at a carriage return, so that progress bars move. On a
 * terminal, the beginning of a line is shown when its end does not come soon, of one line at a time; if another line
 * comes then, the rest is a line of its own. One thread; owns no descriptor. */
struct by_output {
  enum by_output_mode mode;
  struct by_pipe to[2]; /* stdout, stderr */
  bool is_terminal[2];
  struct by_output_line *lines; /* two of each rank */
  int begun;                    /* the line whose beginning was shown last; -1: lines have been ended since */
  int ranks;
  const char *const *labels;   /* one of each rank; NULL: its number */
  const char *title;           /* of messages */
  struct by_rank_files *files; /* NULL: none */
};

/* `labels` must outlive the output. */
void by_output_init(struct by_output *output, enum by_output_mode mode, int ranks, const char *const *labels);
/* All that ranks print is also written to these files, unchanged. `title` begins the message if one cannot be written;
 * with BY_OUTPUT_NONE the rest of it is printed, then. */
void by_output_set_files(struct by_output *output, struct by_rank_files *files, const char *title);
void by_output_fini(struct by_output *output);
/* There are more ranks from now on. */
void by_output_grow(struct by_output *output, int ranks);
/* Shows the beginnings of lines that waited for their ends at the last call already. Whether others wait now. */
bool by_output_show(struct by_output *output);
/* `stream` is 0 for stdout, 1 for stderr. */
void by_output_take(struct by_output *output, int rank, int stream, const char *bytes, size_t length);
/* The rank has ended: its last lines are ended too. */
void by_output_end(struct by_output *output, int rank);
/* A line of our own on stderr. */
void by_output_print(struct by_output *output, const char *format, ...) BY_PRINTF(2, 3);
/* Whether nothing more should be read until something is written. */
bool by_output_full(const struct by_output *output);
/* How many bytes wait to be written. */
size_t by_output_waiting(const struct by_output *output);

#endif
