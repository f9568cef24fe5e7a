/* What the administrator of a host allows jobs: a file of lines, of which one that begins with '#' is a comment.
 *
 *   encrypt required     BANYAN_ENCRYPT=off is an error
 *   join certified       so it is, and other processes, as this one, need a statement of their host's agent
 * (statement.h)
 *
 * No state. */
#ifndef BY_JOB_SETTINGS_POLICY_H
#define BY_JOB_SETTINGS_POLICY_H

#include <stdbool.h>

#include "fail.h"

#define BY_POLICY_FILE "/etc/banyan/policy"

struct by_policy {
  bool encryption_required; /* by either line */
  bool certified;
};

/* BANYAN_ERR_PARSE names the first line that is not understood: what was forbidden must not be allowed by a slip. */
BANYAN_CHECK enum banyan_status by_policy_parse(const char *text, struct by_policy *out);
/* Without the file nothing is forbidden. BANYAN_ERR_SYSTEM: it is there and cannot be read. */
BANYAN_CHECK enum banyan_status by_policy_read(const char *path, struct by_policy *out);

#endif
