#include "lab_line.h"

#include <stdlib.h>
#include <string.h>

void by_delay_line_init(struct by_delay_line *line, uint64_t delay, double loss, uint64_t seed) {
  *line = (struct by_delay_line){.delay = delay, .loss = loss};
  line->last = &line->first;
  by_rng_init(&line->rng, seed);
}

void by_delay_line_fini(struct by_delay_line *line) {
  for (struct by_line_packet *packet; (packet = line->first);) {
    line->first = packet->next;
    free(packet);
  }
  line->last = &line->first;
}

static bool is_lost(struct by_delay_line *line) {
  return line->loss > 0 && by_rng_unit(&line->rng) < line->loss;
}

bool by_delay_line_put(struct by_delay_line *line, const void *bytes, size_t length, uint64_t now) {
  if (is_lost(line) || line->held + length > BY_LINE_MOST_BYTES) return false;
  struct by_line_packet *packet = malloc(sizeof *packet + length);
  if (!packet) return false;
  packet->next = NULL;
  packet->due = now + line->delay;
  packet->length = length;
  memcpy(packet->bytes, bytes, length);
  *line->last = packet;
  line->last = &packet->next;
  line->held += length;
  return true;
}

uint64_t by_delay_line_due(const struct by_delay_line *line) {
  return line->first ? line->first->due : UINT64_MAX;
}

struct by_line_packet *by_delay_line_take(struct by_delay_line *line, uint64_t now) {
  struct by_line_packet *packet = line->first;
  if (!packet || packet->due > now) return NULL;
  line->first = packet->next;
  if (!line->first) line->last = &line->first;
  line->held -= packet->length;
  return packet;
}
