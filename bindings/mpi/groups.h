/* Banyan's communicators of MPI's. That of MPI_COMM_WORLD is created in MPI_Init. That of another one is created in the
 * first collective call for which it is needed, which all its ranks make alike; an attribute of the MPI communicator
 * holds it, whose deletion destroys it. All are destroyed when MPI_Finalize begins. Where the processes of
 * MPI_COMM_WORLD could not all join Banyan's job, or are only one, none exists.
 *
 * One thread at a time uses an MPI communicator for collective calls, as MPI requires; otherwise any threads. */
#ifndef BY_MPI_GROUPS_H
#define BY_MPI_GROUPS_H

#include "mpi_library.h"

#include <banyan/banyan.h>

/* Called once MPI is initialised, by all ranks of MPI_COMM_WORLD. What goes wrong is reported on standard error. */
void groups_join(void);

/* The communicator to be used for a call whose whole buffer has so many bytes, where that holds one block of each rank
 * for collectives with blocks; NULL: MPI has to make it, because it cannot be made with Banyan or is faster with MPI.
 * All ranks get the same answer. Blocks in the first call for which an MPI communicator needs one of Banyan's. */
struct banyan_comm *group_for(MPI_Comm comm, enum banyan_collective collective, size_t bytes);
/* The same where Banyan does not have the call's type, operation or size: NULL. */
struct banyan_comm *group_unsuitable(MPI_Comm comm);
/* The number of ranks; 0: the communicator is none, or between two groups. */
int ranks_of(MPI_Comm comm);

/* Runs the call and makes MPI progress meanwhile, since other ranks may wait for messages that this one has started to
 * send. MPI's error code; an error has been given to the error handler of `comm`. */
int group_run(struct banyan_comm *group, MPI_Comm comm, const struct banyan_call *call);
/* The same in place of a call that this rank cannot make, for this reason. It ends the job on all ranks: they have
 * decided to make the call with Banyan, and would wait. */
int group_give_up(struct banyan_comm *group, MPI_Comm comm, const char *reason);
#define BY_MPI_NO_MEMORY "an MPI rank is out of memory for a copy of its data"

#endif
