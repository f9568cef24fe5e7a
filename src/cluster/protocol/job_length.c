#include "job_length.h"

enum { ODD = 2, PART = 64 };

static bool is_past(uint64_t expected, uint64_t iterations) {
  return iterations > expected && iterations - expected > ODD + expected / PART;
}

bool by_job_length_hear(struct by_job_length *length, uint64_t said, uint64_t iterations) {
  struct by_job_length before = *length;
  if (length->doubted) return false;
  if (said && length->expected && said > length->expected) length->doubted = true;
  if (said) length->expected = said;
  if (length->expected && is_past(length->expected, iterations)) length->doubted = true;
  if (length->doubted) length->expected = 0;
  return length->doubted || length->expected != before.expected;
}

uint64_t by_job_length_left(const struct by_job_length *length, uint64_t iterations) {
  return length->expected > iterations ? length->expected - iterations : 0;
}
