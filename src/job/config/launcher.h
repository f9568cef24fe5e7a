/* Other launchers than `banyan run`: what they tell a process about its place
 * in the job, and where the ranks can meet. */
#ifndef BY_COMMUNICATOR_LAUNCHER_H
#define BY_COMMUNICATOR_LAUNCHER_H

#include "settings.h"

/* Fills rank and size, and root and key where they are not set and can be
 * known, from the variables of Open MPI, MPICH, Slurm or torchrun. */
BANYAN_CHECK enum banyan_status by_launcher_read(struct by_settings *settings);
/* Meets through PMIx, if this process was started under it and libpmix is
 * there: rank 0 chooses a port and a key, the others learn them. Not being
 * under PMIx is no error, nor is nothing being unknown: nothing changes. Blocks
 * until all ranks came, or the join deadline passes. */
BANYAN_CHECK enum banyan_status by_pmix_read(struct by_settings *settings);
/* The first host of a Slurm node list: "node[07-09,12]-ib,gpu3" gives "node07-ib". */
BANYAN_CHECK enum banyan_status by_slurm_first_host(const char *list, char *out, size_t room);

#endif
