/* Collectives, blocking and not, and the requests of the latter.
 * A call is described by one struct; the functions below it are short forms.
 * Buffers belong to the caller and must neither be freed nor, where they are
 * received into, be touched until the call has ended; a send buffer may be
 * read meanwhile. Counts are elements. The two buffers of a call may share
 * memory where "in place" is said; a call whose buffers overlap in another way
 * is refused with BANYAN_ERR_ARGUMENT.
 *
 *   collective      send                        recv
 *   allreduce       count                       count (in place: send == recv)
 *   reduce          count                       count at the root (in place: the same),
 *                                               unused elsewhere
 *   broadcast       unused                      count; the root's is sent
 *   reduce_scatter  count = sum of all blocks   this rank's block
 *   allgather       this rank's block           all blocks in rank order
 *   gather          this rank's block           all blocks at the root
 *   scatter         all blocks at the root      this rank's block
 *   alltoall        one block for each rank     one block from each rank
 *   barrier         -                           -
 *   send, recv      count                       count; `root` is the peer
 *
 * A collective of no elements is a barrier, so that a rank with another count
 * is found; a message of no elements ends at once.
 *
 * For the five with blocks `count` is one block's elements, the same on all
 * ranks, or `counts` gives size elements, the same array on all ranks (for
 * alltoall: not available). In place: reduce_scatter with recv == send, which
 * leaves the block at the start of the buffer, or recv == send + own offset;
 * allgather with send == recv + own offset, gather likewise at the root. */
#ifndef BANYAN_COLLECTIVES_H
#define BANYAN_COLLECTIVES_H

#include <stdbool.h>

#include <banyan/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

struct banyan_request;

struct banyan_call {
  enum banyan_collective collective;
  enum banyan_dtype dtype;
  enum banyan_op op; /* of allreduce, reduce and reduce_scatter */
  int root;          /* of reduce, broadcast, gather, scatter; the peer of send and recv */
  const void *send;
  void *recv;
  size_t count;
  const size_t *counts; /* see above; read during the call that starts it only */
  double scale;         /* each rank's elements times this before they are added; 0 or 1: none.
                           Floating types only. */
  double deadline;      /* seconds; 0: the communicator's */
  uint32_t tag;         /* of send and recv: matched beside the peer */
  const char *name;     /* in timelines, at most 255 bytes; NULL: the collective's. Read during the call that starts it
                           only; what is submitted has its own name. */
};

/* Makes a call and waits for its end. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_run(struct banyan_comm *comm, const struct banyan_call *call);
/* Starts a call; it goes on by itself while the caller computes. The caller
 * owns *out and gives it back through a wait or a test that reports the end. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_start(struct banyan_comm *comm, const struct banyan_call *call,
                                                        struct banyan_request **out);
/* Starts a recv from whichever rank's message with this tag comes first and no other recv takes; `root` is not read.
 * The sender's rank is in *source when the request has ended well. Messages of no elements have to be received by
 * rank: BANYAN_ERR_UNSUPPORTED. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_recv_any(struct banyan_comm *comm, const struct banyan_call *call,
                                                           int *source, struct banyan_request **out);

/* A request is used by one thread at a time.
 * Blocks until the call has ended and returns its status; frees the request. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_wait(struct banyan_request *request);
/* Does not block. If the call has ended, *done is true, its status is returned
 * and the request freed; otherwise *done is false and BANYAN_OK returned. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_test(struct banyan_request *request, bool *done);
/* Blocks until one of n requests has ended; NULL entries are skipped. *index
 * says which; its status is returned, it is freed and its entry set to NULL.
 * With no entry left, *index is n. All of one job (any of its communicators). */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_wait_any(struct banyan_request **requests, size_t n, size_t *index);
/* Waits for all; returns the first error. Every entry is freed and NULL. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_wait_all(struct banyan_request **requests, size_t n);
/* Gives the request away: `then` is called once, when its call has ended, with the status and the error's text ("" if
 * it is BANYAN_OK), from a thread of Banyan's, from one that waits, or from this one before it returns. Meanwhile that
 * thread moves nothing else. `then` may start calls and give requests away, but neither wait nor destroy. Before
 * banyan_comm_destroy() returns, it has been called for all of the communicator's. */
BANYAN_API BANYAN_CHECK enum banyan_status
banyan_then(struct banyan_request *request, void (*then)(void *argument, enum banyan_status status, const char *text),
            void *argument);

static inline enum banyan_status banyan_allreduce(struct banyan_comm *comm, const void *send, void *recv, size_t count,
                                                  enum banyan_dtype dtype, enum banyan_op op) {
  struct banyan_call call = {
      .collective = BANYAN_ALLREDUCE, .dtype = dtype, .op = op, .send = send, .recv = recv, .count = count};
  return banyan_run(comm, &call);
}
static inline enum banyan_status banyan_reduce(struct banyan_comm *comm, const void *send, void *recv, size_t count,
                                               enum banyan_dtype dtype, enum banyan_op op, int root) {
  struct banyan_call call = {
      .collective = BANYAN_REDUCE, .dtype = dtype, .op = op, .root = root, .send = send, .recv = recv, .count = count};
  return banyan_run(comm, &call);
}
static inline enum banyan_status banyan_broadcast(struct banyan_comm *comm, void *buffer, size_t count,
                                                  enum banyan_dtype dtype, int root) {
  struct banyan_call call = {
      .collective = BANYAN_BROADCAST, .dtype = dtype, .root = root, .recv = buffer, .count = count};
  return banyan_run(comm, &call);
}
static inline enum banyan_status banyan_reduce_scatter(struct banyan_comm *comm, const void *send, void *recv,
                                                       size_t block, enum banyan_dtype dtype, enum banyan_op op) {
  struct banyan_call call = {
      .collective = BANYAN_REDUCE_SCATTER, .dtype = dtype, .op = op, .send = send, .recv = recv, .count = block};
  return banyan_run(comm, &call);
}
static inline enum banyan_status banyan_allgather(struct banyan_comm *comm, const void *send, void *recv, size_t block,
                                                  enum banyan_dtype dtype) {
  struct banyan_call call = {
      .collective = BANYAN_ALLGATHER, .dtype = dtype, .send = send, .recv = recv, .count = block};
  return banyan_run(comm, &call);
}
static inline enum banyan_status banyan_barrier(struct banyan_comm *comm) {
  struct banyan_call call = {.collective = BANYAN_BARRIER, .dtype = BANYAN_UINT8};
  return banyan_run(comm, &call);
}

#ifdef __cplusplus
}
#endif
#endif
