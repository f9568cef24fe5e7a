/* What `banyan doctor` finds. Each check tries the feature itself, prints one line or more, and suggests a fix for
 * what does not work. */
#ifndef BY_CMD_DOCTOR_H
#define BY_CMD_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "fail.h"

enum by_finding_level { BY_FINDING_OK, BY_FINDING_WARN, BY_FINDING_FAIL };

struct by_findings {
  bool json;
  int counts[3]; /* by level */
};

/* Prints one line: what was checked, and what was found. `fix`: what to do about what is not well, or NULL. */
void by_finding(struct by_findings *findings, enum by_finding_level level, const char *check, const char *fix,
                const char *format, ...) BY_PRINTF(5, 6);

void by_doctor_kernel(struct by_findings *findings);  /* its features, shared memory, limits; cores, their
                                                       * instructions, quotas, huge pages, clock */
void by_doctor_network(struct by_findings *findings); /* interfaces, names; loopback, congestion control, windows */

/* The first line of a small file without its newline; false if it cannot be read. */
bool by_read_line(const char *path, char *out, size_t room);

#endif
