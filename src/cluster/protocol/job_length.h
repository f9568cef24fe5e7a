/* How many iterations a job says it will make, and whether that is still
 * believed. A job that has little left goes before others, so its word counts
 * until it turns out to have been too small: a larger one later, or more
 * iterations than that, ends it for good. A value without I/O. */
#ifndef BY_CLUSTER_JOB_LENGTH_H
#define BY_CLUSTER_JOB_LENGTH_H

#include <stdbool.h>
#include <stdint.h>

struct by_job_length {
  uint64_t expected; /* iterations in all; 0: not said, or not believed any more */
  bool doubted;      /* what the job said was too small: nothing it says counts */
};

/* What a job says, 0: nothing; and how many iterations it has made. Iterations that are found in calls are not always
 * found where the program has them, so a job may make 2, and a 64th, more than it said. True: something has changed. */
bool by_job_length_hear(struct by_job_length *length, uint64_t said, uint64_t iterations);
/* Iterations left; 0: none, or it is not known, as `expected` tells. */
uint64_t by_job_length_left(const struct by_job_length *length, uint64_t iterations);

#endif
