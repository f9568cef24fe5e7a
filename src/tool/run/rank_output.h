/* The output of many ranks as one. */
#ifndef BY_CLI_RANK_OUTPUT_H
#define BY_CLI_RANK_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "launch.h"
#include "launch_io.h"
#include "rank_files.h"

/* Whole lines, each with "[rank] " before it, or another label of the rank. A rank's own lines keep their order within
 * each stream. A line longer than 1 MiB is cut. A line also ends at a carriage return, so that progress bars move. One
 * thread; owns no descriptor. */
struct by_output {
  enum by_output_mode mode;
  struct by_pipe to[2];  /* stdout, stderr */
  struct by_pipe *lines; /* lines that have not ended yet: two of each rank, without a descriptor */
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
