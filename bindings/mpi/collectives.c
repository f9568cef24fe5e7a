/* The functions that programs call in place of those of the MPI library. Each makes its call with Banyan where that has
 * such a collective of this size, and otherwise with MPI. All ranks have to decide alike, so only those arguments
 * count that MPI requires to be equal on all ranks: type, count and operation of reductions, and the number of bytes of
 * other data, whose types may differ. Wrong arguments are left to MPI, which reports them. */
#include "groups.h"
#include "types.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

/* ---- the beginning; the end is an attribute of MPI_COMM_SELF */

PUBLIC int MPI_Init(int *argc, char ***argv) {
  int status = mpi.Init(argc, argv);
  if (status != MPI_SUCCESS) return status;
  types_init();
  groups_join();
  return status;
}
BY_MPI_ALSO_PMPI(Init)

PUBLIC int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  int status = mpi.Init_thread(argc, argv, required, provided);
  if (status != MPI_SUCCESS) return status;
  types_init();
  groups_join();
  return status;
}
BY_MPI_ALSO_PMPI(Init_thread)

/* ---- reductions */

/* The communicator for a call of so many bytes; NULL: MPI makes it. Without data there is nothing to do. */
static struct banyan_comm *group_for(MPI_Comm comm, size_t bytes) {
  return bytes ? group_of(comm) : NULL;
}

PUBLIC int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE, .send = send == MPI_IN_PLACE ? recv : send, .recv = recv};
  struct banyan_comm *group = reduction_of(count, type, op, &call) ? group_for(comm, call_bytes(&call)) : NULL;
  return group ? group_run(group, comm, &call) : mpi.Allreduce(send, recv, count, type, op, comm);
}
BY_MPI_ALSO_PMPI(Allreduce)

PUBLIC int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  struct banyan_call call = {
      .collective = BANYAN_REDUCE, .root = root, .send = send == MPI_IN_PLACE ? recv : send, .recv = recv};
  struct banyan_comm *group = reduction_of(count, type, op, &call) ? group_for(comm, call_bytes(&call)) : NULL;
  if (!group || root < 0 || root >= banyan_comm_size(group)) return mpi.Reduce(send, recv, count, type, op, root, comm);
  if (banyan_comm_rank(group) != root) call.recv = NULL;
  return group_run(group, comm, &call);
}
BY_MPI_ALSO_PMPI(Reduce)

PUBLIC int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                                    MPI_Comm comm) {
  struct banyan_call call = {
      .collective = BANYAN_REDUCE_SCATTER, .send = send == MPI_IN_PLACE ? recv : send, .recv = recv};
  struct banyan_comm *group = reduction_of(count, type, op, &call) ? group_for(comm, call_bytes(&call)) : NULL;
  return group ? group_run(group, comm, &call) : mpi.Reduce_scatter_block(send, recv, count, type, op, comm);
}
BY_MPI_ALSO_PMPI(Reduce_scatter_block)

/* Each rank's count of Banyan's elements, which the caller frees; NULL: MPI has to make the call. */
static size_t *reduced_counts(const int *counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                              struct banyan_call *call) {
  int n = 0;
  size_t *out = NULL, sum = 0;
  if (!counts || comm == MPI_COMM_NULL || PMPI_Comm_size(comm, &n) != MPI_SUCCESS) return NULL;
  out = malloc((size_t)n * sizeof *out);
  if (!out) abort(); /* a rank that goes another way than the others would wait for ever */
  for (int i = 0; i < n; i++) {
    if (!reduction_of(counts[i], type, op, call)) {
      free(out);
      return NULL;
    }
    out[i] = call->count;
    sum += call->count;
  }
  call->count = sum;
  call->counts = out;
  return out;
}

PUBLIC int MPI_Reduce_scatter(const void *send, void *recv, const int *counts, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm) {
  struct banyan_call call = {
      .collective = BANYAN_REDUCE_SCATTER, .send = send == MPI_IN_PLACE ? recv : send, .recv = recv};
  size_t *blocks = reduced_counts(counts, type, op, comm, &call);
  struct banyan_comm *group = blocks ? group_for(comm, call_bytes(&call)) : NULL;
  int status = group ? group_run(group, comm, &call) : mpi.Reduce_scatter(send, recv, counts, type, op, comm);
  free(blocks);
  return status;
}
BY_MPI_ALSO_PMPI(Reduce_scatter)

PUBLIC int MPI_Barrier(MPI_Comm comm) {
  struct banyan_call call = {.collective = BANYAN_BARRIER, .dtype = BANYAN_UINT8};
  struct banyan_comm *group = group_of(comm);
  return group ? group_run(group, comm, &call) : mpi.Barrier(comm);
}
BY_MPI_ALSO_PMPI(Barrier)

/* ---- data */

/* The data of a buffer as Banyan sends and receives it: where it lies, or in a copy. */
struct bytes {
  void *data, *copy; /* copy NULL: none was necessary */
};

static struct bytes bytes_at(void *data) {
  return (struct bytes){.data = data};
}

static struct bytes bytes_of_copy(size_t bytes) {
  void *copy = malloc(bytes);
  if (!copy) abort(); /* a rank that goes another way than the others would wait for ever */
  return (struct bytes){.data = copy, .copy = copy};
}

/* The data to be sent; `bytes` of them. */
static struct bytes sent_bytes(const void *buffer, int count, MPI_Datatype type, size_t bytes, int *status) {
  if (is_contiguous(type)) return bytes_at((void *)buffer);
  struct bytes out = bytes_of_copy(bytes);
  *status = data_pack(buffer, count, type, out.data, bytes);
  return out;
}

/* PMPI_Pack counts in int. */
static bool is_packable(size_t bytes) {
  return bytes > 0 && bytes <= INT_MAX;
}

PUBLIC int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  size_t bytes;
  struct banyan_comm *group = data_bytes(count, type, &bytes) && is_packable(bytes) ? group_for(comm, bytes) : NULL;
  if (!group || root < 0 || root >= banyan_comm_size(group)) return mpi.Bcast(buffer, count, type, root, comm);
  bool is_root = banyan_comm_rank(group) == root;
  int status = MPI_SUCCESS;
  struct bytes data = is_root               ? sent_bytes(buffer, count, type, bytes, &status)
                      : is_contiguous(type) ? bytes_at(buffer)
                                            : bytes_of_copy(bytes);
  struct banyan_call call = {
      .collective = BANYAN_BROADCAST, .dtype = BANYAN_UINT8, .root = root, .recv = data.data, .count = bytes};
  if (status == MPI_SUCCESS) status = group_run(group, comm, &call);
  if (status == MPI_SUCCESS && !is_root && data.copy) status = data_unpack(data.data, bytes, buffer, count, type);
  free(data.copy);
  return status;
}
BY_MPI_ALSO_PMPI(Bcast)

/* One block for each rank in a receive buffer, of `bytes` bytes each. */
static int unpack_blocks(const struct bytes *data, size_t bytes, int n, void *recv, int count, MPI_Datatype type) {
  int status = MPI_SUCCESS;
  for (int i = 0; i < n && status == MPI_SUCCESS; i++)
    status = data_unpack((char *)data->data + (size_t)i * bytes, bytes, element_at(recv, (MPI_Aint)i * count, type),
                         count, type);
  return status;
}

PUBLIC int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                         MPI_Datatype recv_type, MPI_Comm comm) {
  size_t bytes;
  struct banyan_comm *group =
      data_bytes(recv_count, recv_type, &bytes) && is_packable(bytes) ? group_for(comm, bytes) : NULL;
  if (!group) return mpi.Allgather(send, send_count, send_type, recv, recv_count, recv_type, comm);
  int rank = banyan_comm_rank(group), n = banyan_comm_size(group), status = MPI_SUCCESS;
  bool direct = is_contiguous(recv_type), in_place = send == MPI_IN_PLACE;
  struct bytes all = direct ? bytes_at(recv) : bytes_of_copy(bytes * (size_t)n), own = {NULL};
  if (!in_place)
    own = sent_bytes(send, send_count, send_type, bytes, &status);
  else if (direct)
    own = bytes_at((char *)recv + (size_t)rank * bytes);
  else
    own = sent_bytes(element_at(recv, (MPI_Aint)rank * recv_count, recv_type), recv_count, recv_type, bytes, &status);
  struct banyan_call call = {
      .collective = BANYAN_ALLGATHER, .dtype = BANYAN_UINT8, .send = own.data, .recv = all.data, .count = bytes};
  if (status == MPI_SUCCESS) status = group_run(group, comm, &call);
  if (status == MPI_SUCCESS && all.copy) status = unpack_blocks(&all, bytes, n, recv, recv_count, recv_type);
  free(own.copy);
  free(all.copy);
  return status;
}
BY_MPI_ALSO_PMPI(Allgather)

/* Each rank's number of bytes, which the caller frees, and their sum; NULL: MPI has to make the call. */
static size_t *gathered_bytes(const int *counts, MPI_Datatype type, MPI_Comm comm, size_t *sum) {
  int n = 0;
  *sum = 0;
  if (!counts || comm == MPI_COMM_NULL || PMPI_Comm_size(comm, &n) != MPI_SUCCESS) return NULL;
  size_t *out = malloc((size_t)n * sizeof *out);
  if (!out) abort(); /* a rank that goes another way than the others would wait for ever */
  for (int i = 0; i < n; i++) {
    if (!data_bytes(counts[i], type, &out[i]) || out[i] > INT_MAX) {
      free(out);
      return NULL;
    }
    *sum += out[i];
  }
  return out;
}

/* Whether the blocks of a receive buffer follow each other as they are sent. */
static bool are_adjacent(const int *counts, const int *places, int n, MPI_Datatype type) {
  if (!is_contiguous(type)) return false;
  for (int i = 0, next = 0; i < n; next += counts[i++])
    if (counts[i] && places[i] != next) return false;
  return true;
}

PUBLIC int MPI_Allgatherv(const void *send, int send_count, MPI_Datatype send_type, void *recv, const int *counts,
                          const int *places, MPI_Datatype recv_type, MPI_Comm comm) {
  size_t sum, *blocks = gathered_bytes(counts, recv_type, comm, &sum);
  struct banyan_comm *group = blocks && places ? group_for(comm, sum) : NULL;
  if (!group) {
    free(blocks);
    return mpi.Allgatherv(send, send_count, send_type, recv, counts, places, recv_type, comm);
  }
  int rank = banyan_comm_rank(group), n = banyan_comm_size(group), status = MPI_SUCCESS;
  struct bytes all = are_adjacent(counts, places, n, recv_type) ? bytes_at(recv) : bytes_of_copy(sum), own;
  if (send == MPI_IN_PLACE)
    own = sent_bytes(element_at(recv, places[rank], recv_type), counts[rank], recv_type, blocks[rank], &status);
  else
    own = sent_bytes(send, send_count, send_type, blocks[rank], &status);
  struct banyan_call call = {.collective = BANYAN_ALLGATHER,
                             .dtype = BANYAN_UINT8,
                             .send = own.data,
                             .recv = all.data,
                             .count = blocks[rank],
                             .counts = blocks};
  if (status == MPI_SUCCESS) status = group_run(group, comm, &call);
  char *from = all.copy;
  for (int i = 0; i < n && all.copy && status == MPI_SUCCESS; from += blocks[i++])
    status = data_unpack(from, blocks[i], element_at(recv, places[i], recv_type), counts[i], recv_type);
  free(own.copy);
  free(all.copy);
  free(blocks);
  return status;
}
BY_MPI_ALSO_PMPI(Allgatherv)

PUBLIC int MPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                        MPI_Datatype recv_type, MPI_Comm comm) {
  size_t bytes, all;
  int n = 0, status = MPI_SUCCESS;
  struct banyan_comm *group =
      data_bytes(recv_count, recv_type, &bytes) && is_packable(bytes) ? group_for(comm, bytes) : NULL;
  if (group) n = banyan_comm_size(group);
  if (!group || __builtin_mul_overflow(bytes, (size_t)n, &all) || !is_packable(all))
    return mpi.Alltoall(send, send_count, send_type, recv, recv_count, recv_type, comm);
  struct bytes received = is_contiguous(recv_type) ? bytes_at(recv) : bytes_of_copy(all), sent;
  if (send != MPI_IN_PLACE) {
    sent = sent_bytes(send, send_count * n, send_type, all, &status);
  } else { /* what is received must not take the place of what is yet to be sent */
    sent = bytes_of_copy(all);
    status = data_pack(recv, recv_count * n, recv_type, sent.data, all);
  }
  struct banyan_call call = {
      .collective = BANYAN_ALLTOALL, .dtype = BANYAN_UINT8, .send = sent.data, .recv = received.data, .count = bytes};
  if (status == MPI_SUCCESS) status = group_run(group, comm, &call);
  if (status == MPI_SUCCESS && received.copy) status = data_unpack(received.data, all, recv, recv_count * n, recv_type);
  free(sent.copy);
  free(received.copy);
  return status;
}
BY_MPI_ALSO_PMPI(Alltoall)
