/* What each process of a job finds in its environment beside the variables of the job. No state. */
#ifndef BY_CMD_RUN_RANK_ENVIRONMENT_H
#define BY_CMD_RUN_RANK_ENVIRONMENT_H

#include <stdbool.h>

#include "launch.h"

struct by_rank_place {
  int rank, size;
  int local_rank, local_size;
  int sharing;           /* processes of its own host entry; with more than one, each gets one OpenMP thread */
  const char *directory; /* where processes that come and go register; NULL: they do not */
  int starts;            /* of such a process, before this one */
};

/* Appends "NAME=value". Variables of PyTorch (RANK, ...) only where `given`, which ends with NULL, does not have them;
 * OMP_NUM_THREADS only where `has_threads`, which says that it is set already, is false. */
void by_rank_environment_add(const struct by_rank_place *place, char *const *given, bool has_threads,
                             struct by_job_environment *environment);
/* Whether ranks get OMP_NUM_THREADS=1, which limits what they do on their own. */
bool by_rank_environment_limits(const struct by_rank_place *place, bool has_threads);

/* Whether the value of this variable is probably a secret, by its name: it is not to be shown. */
bool by_variable_is_secret(const char *variable);

#endif
