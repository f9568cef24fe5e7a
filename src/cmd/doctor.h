/* Checks of `banyan doctor`. Each check tries the feature itself, prints at least one line, and suggests a fix for
 * problems. */
#ifndef BY_CMD_DOCTOR_H
#define BY_CMD_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "fail.h"

enum by_finding_level { BY_FINDING_OK, BY_FINDING_WARN, BY_FINDING_FAIL };

struct by_findings {
  bool json;
  int counts[3]; /* By level. */
};

/* Prints one line: the check, and its result. `fix`: how to solve a problem, or NULL. */
void by_finding(struct by_findings *findings, enum by_finding_level level, const char *check, const char *fix,
                const char *format, ...) BY_PRINTF(5, 6);

void by_doctor_kernel(struct by_findings *findings);  /* The kernel's features, shared memory, limits; cores, their
                                                       * instructions, quotas, huge pages, clock. */
void by_doctor_network(struct by_findings *findings); /* Interfaces, names; loopback, congestion control, windows. */

/* Reads the first line of a small file without its newline; returns false if it cannot be read. */
bool by_read_line(const char *path, char *out, size_t room);

#endif
