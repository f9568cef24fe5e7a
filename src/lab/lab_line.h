/* One direction of a link with delay: packets come out as long after they went
 * in, in the same order, but for those that are lost on the way. It knows no
 * clock: times are handed in, in nanoseconds, never smaller than before. */
#ifndef BY_LAB_LAB_LINE_H
#define BY_LAB_LAB_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rng.h"

struct by_line_packet {
  struct by_line_packet *next;
  uint64_t due;
  size_t length;
  unsigned char bytes[];
};

struct by_delay_line {
  uint64_t delay; /* nanoseconds */
  double loss;    /* of packets, 0 .. 1 */
  struct by_rng rng;
  struct by_line_packet *first, **last;
  size_t held; /* bytes */
};

enum { BY_LINE_MOST_BYTES = 512 << 20 };

void by_delay_line_init(struct by_delay_line *line, uint64_t delay, double loss, uint64_t seed);
void by_delay_line_fini(struct by_delay_line *line);
/* A copy goes in. False: it is lost, on purpose or because 512 MiB or the machine's memory are full. */
bool by_delay_line_put(struct by_delay_line *line, const void *bytes, size_t length, uint64_t now);
/* When the next one is due; UINT64_MAX: the line is empty. */
uint64_t by_delay_line_due(const struct by_delay_line *line);
/* The next one if it is due, else NULL. The caller frees it with free(). */
struct by_line_packet *by_delay_line_take(struct by_delay_line *line, uint64_t now);

#endif
