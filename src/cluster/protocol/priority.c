/* Determines a job's queue, its order among other jobs, its class, and whether its stated length is credible. */
#include "priority.h"

#include <math.h>
#include <string.h>
#include <sys/param.h>

#include "fail.h"

enum { GROWTH = 4, LOWEST = BY_PRIORITY_CLASSES - 1 };

struct by_priority_rules by_priority_defaults(void) {
  return (struct by_priority_rules){.iterations = 10, .threshold = 10000000000ull, .equal = true};
}

enum banyan_status by_priority_parse_order(const char *text, bool *equal) {
  *equal = !strcmp(text, "share");
  if (*equal || !strcmp(text, "first")) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "--order is \"%.32s\", must be first or share", text);
}

uint32_t by_priority_queue(const struct by_priority_rules *rules, uint64_t iterations, uint64_t bytes) {
  uint32_t queue = 1;
  uint64_t threshold = rules->threshold;
  if (iterations > 0 ? iterations < rules->iterations : bytes < threshold) return 0;
  while (queue < BY_PRIORITY_QUEUES - 1 && bytes >= threshold) {
    threshold = threshold > UINT64_MAX / GROWTH ? UINT64_MAX : threshold * GROWTH;
    queue++;
  }
  return queue;
}

struct by_priority_position by_priority_find(const struct by_priority_rules *rules, uint32_t hosts, uint64_t iterations,
                                             uint64_t bytes, const struct by_job_length *length,
                                             double max_iterations) {
  uint32_t queue = by_priority_queue(rules, iterations, bytes);
  double left =
      length->expected ? fmin((double)by_job_length_left(length, iterations), max_iterations) : max_iterations;
  if (isinf(left) || !iterations) return (struct by_priority_position){queue, INFINITY};
  left *= (double)bytes / (double)iterations;
  uint32_t by_left = by_priority_queue(rules, iterations, left < (double)INT64_MAX ? (uint64_t)left : INT64_MAX);
  if (length->expected) return (struct by_priority_position){by_left, left / hosts};
  return (struct by_priority_position){MIN(queue, by_left), INFINITY};
}

int by_priority_compare(const struct by_priority_position *a, const struct by_priority_position *b) {
  if (a->queue != b->queue) return a->queue < b->queue ? -1 : 1;
  return (a->left > b->left) - (a->left < b->left);
}

bool by_priority_are_equals(const struct by_priority_rules *rules, const struct by_priority_position *a,
                            const struct by_priority_position *b) {
  return rules->equal && isinf(a->left) && isinf(b->left) && a->queue == b->queue;
}

uint32_t by_priority_class(uint32_t queue, uint32_t above, uint32_t behind) {
  if (!queue) return 0;
  uint32_t wanted = MIN(queue, LOWEST - MIN(behind, LOWEST - 1));
  return MIN(MAX(wanted, above + 1), LOWEST);
}

uint8_t by_priority_tos(uint32_t class_) {
  static const uint8_t marks[BY_PRIORITY_CLASSES] = {0x80, 0x60, 0x40, 0x20};
  return marks[MIN(class_, LOWEST)];
}

int by_priority_socket(uint32_t class_) {
  static const int priorities[BY_PRIORITY_CLASSES] = {6, 4, 0, 2}; /* Their bands are 0, 1, 1, 2. */
  return priorities[MIN(class_, LOWEST)];
}

/* ---- how long a job is */

enum { MAX_ODD = 2, PART = 64, GRACE = 60 /* s */ };

bool by_job_length_update(struct by_job_length *length, uint64_t stated, uint64_t iterations) {
  struct by_job_length before = *length;
  if (length->is_void) return false;
  if (stated && length->expected && stated > length->expected) length->is_void = true;
  if (stated) length->expected = stated;
  uint64_t expected = length->expected;
  if (expected && iterations > expected && iterations - expected > MAX_ODD + expected / PART) length->is_void = true;
  if (length->is_void) length->expected = 0, length->ends = 0;
  return length->is_void || length->expected != before.expected;
}

uint64_t by_job_length_left(const struct by_job_length *length, uint64_t iterations) {
  return length->expected > iterations ? length->expected - iterations : 0;
}

bool by_job_length_limit(struct by_job_length *length, double seconds, double now) {
  if (length->is_void) return false;
  if (seconds > 0 && (!length->ends || now + seconds < length->ends)) length->ends = now + seconds;
  if (!length->ends || now <= length->ends + GRACE) return false;
  *length = (struct by_job_length){.is_void = true};
  return true;
}

double by_job_length_max_iterations(const struct by_job_length *length, double iteration_time, double now) {
  return length->ends && iteration_time > 0 ? fmax(0, length->ends - now) / iteration_time : INFINITY;
}
