/* Variables of each process of a job besides those of the job. No state. */
#ifndef BY_CMD_RUN_RANK_ENVIRONMENT_H
#define BY_CMD_RUN_RANK_ENVIRONMENT_H

#include <stdbool.h>

#include "launch.h"

struct by_rank_place {
  int rank, size;
  int local_rank, local_size;
  int sharing;           /* Processes of its own host entry; with more than one, each gets one OpenMP thread. */
  const char *directory; /* Where processes of elastic jobs register; NULL: others. */
  int starts;            /* Number of earlier starts of such a process. */
};

/* Appends "NAME=value". Variables of PyTorch (RANK, ...) only if `given`, which ends with NULL, does not have them;
 * OMP_NUM_THREADS only if `has_threads`, which means that it is set already, is false. */
void by_rank_environment_add(const struct by_rank_place *place, char *const *given, bool has_threads,
                             struct by_job_environment *environment);
/* Tells whether ranks get OMP_NUM_THREADS=1, which limits their own work. */
bool by_rank_environment_limits(const struct by_rank_place *place, bool has_threads);

/* Tells whether the value of this variable is probably a secret, by its name, and must not be shown. */
bool by_variable_is_secret(const char *variable);

#endif
