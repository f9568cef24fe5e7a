/* The output of many ranks as one: whole lines, each with "[rank] " before it, or another label of the rank.
 * A rank's own lines keep their order within each stream. A line longer than
 * 1 MiB is cut. A line also ends at a carriage return, so that progress bars
 * move. One thread; owns no descriptor. */
#ifndef BY_CLI_LAUNCH_OUTPUT_H
#define BY_CLI_LAUNCH_OUTPUT_H

#include "launch.h"
#include "launch_io.h"

struct by_line {
  char *data;
  size_t used, room;
};

struct by_output {
  enum by_output_mode mode;
  struct by_outbox to[2]; /* stdout, stderr */
  struct by_line *lines;  /* what has no end yet: two of each rank */
  int ranks;
  const char *const *labels; /* one of each rank; NULL: its number */
};

/* `labels` must outlive the output. */
void by_output_init(struct by_output *output, enum by_output_mode mode, int ranks, const char *const *labels);
void by_output_fini(struct by_output *output);
/* `stream` is 0 for stdout, 1 for stderr. */
void by_output_take(struct by_output *output, int rank, int stream, const char *bytes, size_t length);
/* The rank has ended: its last lines are ended too. */
void by_output_end(struct by_output *output, int rank);
/* A line of our own on stderr. */
void by_output_say(struct by_output *output, const char *format, ...) BY_PRINTF(2, 3);
/* Whether nothing more should be read until something is written. */
bool by_output_full(const struct by_output *output);
/* Whether something waits to be written. */
bool by_output_waiting(const struct by_output *output);

#endif
