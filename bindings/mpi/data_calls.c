/* The functions that move data: MPI_Bcast, MPI_Allgather, MPI_Allgatherv and MPI_Alltoall. Ranks may use different
 * types for the same data, so only the number of bytes decides whether Banyan makes the call; where data does not lie
 * in the program's buffer as it is sent, it is copied. */
#include "groups.h"
#include "types.h"

#include <limits.h>
#include <stdlib.h>

/* The data of a buffer as Banyan sends and receives it: where it lies, or in a copy. */
struct bytes {
  void *data;
  void *copy;          /* NULL: none was necessary */
  const char *failure; /* NULL: there is none */
};

static struct bytes bytes_at(const void *data) {
  return (struct bytes){.data = (void *)data};
}

static struct bytes bytes_of_copy(size_t bytes) {
  void *copy = malloc(bytes + !bytes);
  return (struct bytes){.data = copy, .copy = copy, .failure = copy ? NULL : BY_MPI_NO_MEMORY};
}

static struct bytes packed(const void *buffer, int count, MPI_Datatype type, size_t bytes, MPI_Comm comm) {
  struct bytes out = bytes_of_copy(bytes);
  if (!out.failure && bytes && data_pack(buffer, count, type, out.copy, bytes, comm) != MPI_SUCCESS)
    out.failure = "an MPI rank cannot pack its data";
  return out;
}

/* Blocks of `count` elements each; `bytes` is what the receive arguments expect of a block. */
static struct bytes bytes_to_send(const void *buffer, int count, MPI_Datatype type, size_t bytes, int blocks,
                                  MPI_Comm comm) {
  size_t sent;
  if (!data_bytes(count, type, &sent) || sent != bytes)
    return (struct bytes){.failure = "an MPI rank sends blocks of another number of bytes than it receives"};
  return is_contiguous(type) ? bytes_at(buffer) : packed(buffer, count * blocks, type, bytes * (size_t)blocks, comm);
}

static struct bytes room_for(void *buffer, bool as_sent, size_t bytes) {
  return as_sent ? bytes_at(buffer) : bytes_of_copy(bytes);
}

static int run(struct banyan_comm *group, MPI_Comm comm, const struct banyan_call *call, const struct bytes *sent,
               const struct bytes *received) {
  const char *failure = sent->failure ? sent->failure : received->failure;
  return failure ? group_give_up(group, comm, failure) : group_run(group, comm, call);
}

/* Whether MPI would take these arguments. */
static bool is_usable(int count, MPI_Datatype type, size_t *bytes) {
  return data_bytes(count, type, bytes) && is_committed(type);
}

static bool is_sendable(const void *send, int count, MPI_Datatype type) {
  size_t bytes;
  return send == MPI_IN_PLACE || is_usable(count, type, &bytes);
}

/* PMPI_Pack counts in int. */
static struct banyan_comm *group_for_blocks(MPI_Comm comm, enum banyan_collective collective, size_t bytes, int n) {
  return bytes <= INT_MAX ? group_for(comm, collective, bytes * (size_t)n) : group_unsuitable(comm);
}

BY_MPI_PUBLIC int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  size_t bytes;
  struct banyan_comm *group =
      is_usable(count, type, &bytes) ? group_for_blocks(comm, BANYAN_BROADCAST, bytes, 1) : group_unsuitable(comm);
  if (!group || root < 0 || root >= banyan_comm_size(group)) return mpi.Bcast(buffer, count, type, root, comm);
  bool is_root = banyan_comm_rank(group) == root;
  struct bytes data =
      is_root ? bytes_to_send(buffer, count, type, bytes, 1, comm) : room_for(buffer, is_contiguous(type), bytes);
  struct banyan_call call = {
      .collective = BANYAN_BROADCAST, .dtype = BANYAN_UINT8, .root = root, .recv = data.data, .count = bytes};
  int status = run(group, comm, &call, &data, &data);
  if (status == MPI_SUCCESS && !is_root && data.copy) status = data_unpack(data.copy, bytes, buffer, count, type, comm);
  free(data.copy);
  return status;
}
BY_MPI_ALSO_PMPI(Bcast)

/* One block for each rank into a receive buffer, of `bytes` bytes each. */
static int unpack_blocks(const char *from, size_t bytes, int n, void *recv, int count, MPI_Datatype type,
                         MPI_Comm comm) {
  int status = MPI_SUCCESS;
  for (int i = 0; i < n && status == MPI_SUCCESS; i++, from += bytes)
    status = data_unpack(from, bytes, element_at(recv, (MPI_Aint)i * count, type), count, type, comm);
  return status;
}

BY_MPI_PUBLIC int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                                MPI_Datatype recv_type, MPI_Comm comm) {
  size_t bytes;
  struct banyan_comm *group = is_usable(recv_count, recv_type, &bytes) && is_sendable(send, send_count, send_type)
                                  ? group_for_blocks(comm, BANYAN_ALLGATHER, bytes, ranks_of(comm))
                                  : group_unsuitable(comm);
  if (!group) return mpi.Allgather(send, send_count, send_type, recv, recv_count, recv_type, comm);
  int rank = banyan_comm_rank(group), n = banyan_comm_size(group);
  struct bytes all = room_for(recv, is_contiguous(recv_type), bytes * (size_t)n);
  struct bytes own = send != MPI_IN_PLACE ? bytes_to_send(send, send_count, send_type, bytes, 1, comm)
                                          : bytes_to_send(element_at(recv, (MPI_Aint)rank * recv_count, recv_type),
                                                          recv_count, recv_type, bytes, 1, comm);
  struct banyan_call call = {
      .collective = BANYAN_ALLGATHER, .dtype = BANYAN_UINT8, .send = own.data, .recv = all.data, .count = bytes};
  int status = run(group, comm, &call, &own, &all);
  if (status == MPI_SUCCESS && all.copy) status = unpack_blocks(all.copy, bytes, n, recv, recv_count, recv_type, comm);
  free(own.copy);
  free(all.copy);
  return status;
}
BY_MPI_ALSO_PMPI(Allgather)

/* The bytes of all blocks together. False: MPI has to make the call. */
static bool sum_of_blocks(const int *counts, MPI_Datatype type, MPI_Comm comm, size_t *sum) {
  int n = ranks_of(comm);
  size_t bytes;
  *sum = 0;
  if (!counts) return false;
  for (int i = 0; i < n; *sum += bytes, i++)
    if (!data_bytes(counts[i], type, &bytes) || bytes > INT_MAX) return false;
  return is_committed(type);
}

/* Whether the blocks of a receive buffer follow each other as they are sent. */
static bool are_adjacent(const int *counts, const int *places, int n, MPI_Datatype type) {
  if (!is_contiguous(type)) return false;
  for (int i = 0, next = 0; i < n; next += counts[i++])
    if (counts[i] && places[i] != next) return false;
  return true;
}

BY_MPI_PUBLIC int MPI_Allgatherv(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                                 const int *counts, const int *places, MPI_Datatype recv_type, MPI_Comm comm) {
  size_t sum = 0;
  struct banyan_comm *group =
      places && sum_of_blocks(counts, recv_type, comm, &sum) && is_sendable(send, send_count, send_type)
          ? group_for(comm, BANYAN_ALLGATHER, sum)
          : group_unsuitable(comm);
  if (!group) return mpi.Allgatherv(send, send_count, send_type, recv, counts, places, recv_type, comm);
  int rank = banyan_comm_rank(group), n = banyan_comm_size(group);
  size_t *blocks = malloc((size_t)n * sizeof *blocks);
  if (!blocks) return group_give_up(group, comm, BY_MPI_NO_MEMORY);
  for (int i = 0; i < n; i++) (void)data_bytes(counts[i], recv_type, &blocks[i]);
  struct bytes all = room_for(recv, are_adjacent(counts, places, n, recv_type), sum);
  struct bytes own = send != MPI_IN_PLACE ? bytes_to_send(send, send_count, send_type, blocks[rank], 1, comm)
                                          : bytes_to_send(element_at(recv, places[rank], recv_type), counts[rank],
                                                          recv_type, blocks[rank], 1, comm);
  struct banyan_call call = {.collective = BANYAN_ALLGATHER,
                             .dtype = BANYAN_UINT8,
                             .send = own.data,
                             .recv = all.data,
                             .count = blocks[rank],
                             .counts = blocks};
  int status = run(group, comm, &call, &own, &all);
  const char *from = all.copy;
  for (int i = 0; i < n && from && status == MPI_SUCCESS; from += blocks[i++])
    status = data_unpack(from, blocks[i], element_at(recv, places[i], recv_type), counts[i], recv_type, comm);
  free(own.copy);
  free(all.copy);
  free(blocks);
  return status;
}
BY_MPI_ALSO_PMPI(Allgatherv)

BY_MPI_PUBLIC int MPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                               MPI_Datatype recv_type, MPI_Comm comm) {
  size_t bytes, all = 0;
  int n = ranks_of(comm);
  bool known = is_usable(recv_count, recv_type, &bytes) && is_sendable(send, send_count, send_type) &&
               !__builtin_mul_overflow(bytes, (size_t)n, &all);
  struct banyan_comm *group = known ? group_for_blocks(comm, BANYAN_ALLTOALL, all, 1) : group_unsuitable(comm);
  if (!group) return mpi.Alltoall(send, send_count, send_type, recv, recv_count, recv_type, comm);
  struct bytes received = room_for(recv, is_contiguous(recv_type), all);
  /* In place, what is received must not take the place of what is yet to be sent. */
  struct bytes sent = send != MPI_IN_PLACE ? bytes_to_send(send, send_count, send_type, bytes, n, comm)
                                           : packed(recv, recv_count * n, recv_type, all, comm);
  struct banyan_call call = {
      .collective = BANYAN_ALLTOALL, .dtype = BANYAN_UINT8, .send = sent.data, .recv = received.data, .count = bytes};
  int status = run(group, comm, &call, &sent, &received);
  if (status == MPI_SUCCESS && received.copy)
    status = data_unpack(received.copy, all, recv, recv_count * n, recv_type, comm);
  free(sent.copy);
  free(received.copy);
  return status;
}
BY_MPI_ALSO_PMPI(Alltoall)
