/* The functions that programs call in place of those of the MPI library: the beginning, reductions and barriers;
 * data_calls.c has the others. Each makes its call with Banyan where that has such a collective, and otherwise with
 * MPI. All ranks have to decide alike, so only those arguments count that MPI requires to be equal on all ranks: type,
 * count and operation of reductions, and the number of bytes of other data, whose types may differ. Wrong arguments are
 * left to MPI, which reports them. */
#include "groups.h"
#include "types.h"

#include <stdlib.h>

/* ---- the beginning; the end is an attribute of MPI_COMM_SELF */

BY_MPI_PUBLIC int MPI_Init(int *argc, char ***argv) {
  int status = mpi.Init(argc, argv);
  if (status != MPI_SUCCESS) return status;
  types_init();
  groups_join();
  return status;
}
BY_MPI_ALSO_PMPI(Init)

BY_MPI_PUBLIC int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  int status = mpi.Init_thread(argc, argv, required, provided);
  if (status != MPI_SUCCESS) return status;
  types_init();
  groups_join();
  return status;
}
BY_MPI_ALSO_PMPI(Init_thread)

/* ---- reductions */

BY_MPI_PUBLIC int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE, .send = send == MPI_IN_PLACE ? recv : send, .recv = recv};
  struct banyan_comm *group = reduction_of(count, type, op, &call) ? group_for(comm, call.collective, call_bytes(&call))
                                                                   : group_unsuitable(comm);
  return group ? group_run(group, comm, &call) : mpi.Allreduce(send, recv, count, type, op, comm);
}
BY_MPI_ALSO_PMPI(Allreduce)

BY_MPI_PUBLIC int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root,
                             MPI_Comm comm) {
  struct banyan_call call = {
      .collective = BANYAN_REDUCE, .root = root, .send = send == MPI_IN_PLACE ? recv : send, .recv = recv};
  struct banyan_comm *group = reduction_of(count, type, op, &call) ? group_for(comm, call.collective, call_bytes(&call))
                                                                   : group_unsuitable(comm);
  bool is_root = group && banyan_comm_rank(group) == root;
  if (!group || root < 0 || root >= banyan_comm_size(group) || (send == MPI_IN_PLACE && !is_root))
    return mpi.Reduce(send, recv, count, type, op, root, comm);
  if (!is_root) call.recv = NULL;
  return group_run(group, comm, &call);
}
BY_MPI_ALSO_PMPI(Reduce)

BY_MPI_PUBLIC int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                                           MPI_Comm comm) {
  struct banyan_call call = {
      .collective = BANYAN_REDUCE_SCATTER, .send = send == MPI_IN_PLACE ? recv : send, .recv = recv};
  struct banyan_comm *group = reduction_of(count, type, op, &call)
                                  ? group_for(comm, call.collective, call_bytes(&call) * (size_t)ranks_of(comm))
                                  : group_unsuitable(comm);
  return group ? group_run(group, comm, &call) : mpi.Reduce_scatter_block(send, recv, count, type, op, comm);
}
BY_MPI_ALSO_PMPI(Reduce_scatter_block)

/* Sets the number of elements of all blocks together. False: MPI has to make the call. */
static bool sum_of_blocks(const int *counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm, struct banyan_call *call) {
  int n = ranks_of(comm);
  size_t sum = 0;
  if (!counts) return false;
  for (int i = 0; i < n; sum += call->count, i++)
    if (!reduction_of(counts[i], type, op, call)) return false;
  call->count = sum;
  return true;
}

BY_MPI_PUBLIC int MPI_Reduce_scatter(const void *send, void *recv, const int *counts, MPI_Datatype type, MPI_Op op,
                                     MPI_Comm comm) {
  struct banyan_call call = {
      .collective = BANYAN_REDUCE_SCATTER, .send = send == MPI_IN_PLACE ? recv : send, .recv = recv};
  struct banyan_comm *group = sum_of_blocks(counts, type, op, comm, &call)
                                  ? group_for(comm, call.collective, call_bytes(&call))
                                  : group_unsuitable(comm);
  if (!group) return mpi.Reduce_scatter(send, recv, counts, type, op, comm);
  int n = banyan_comm_size(group);
  size_t *blocks = malloc((size_t)n * sizeof *blocks);
  if (!blocks) return group_give_up(group, comm, BY_MPI_NO_MEMORY);
  struct banyan_call block = {0};
  for (int i = 0; i < n; i++) blocks[i] = reduction_of(counts[i], type, op, &block) ? block.count : 0;
  call.counts = blocks;
  int status = group_run(group, comm, &call);
  free(blocks);
  return status;
}
BY_MPI_ALSO_PMPI(Reduce_scatter)

BY_MPI_PUBLIC int MPI_Barrier(MPI_Comm comm) {
  struct banyan_call call = {.collective = BANYAN_BARRIER, .dtype = BANYAN_UINT8};
  struct banyan_comm *group = group_for(comm, call.collective, 0);
  return group ? group_run(group, comm, &call) : mpi.Barrier(comm);
}
BY_MPI_ALSO_PMPI(Barrier)
