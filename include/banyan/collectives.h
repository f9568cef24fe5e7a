/* Blocking and non-blocking collectives, and the requests of the latter.
 * One struct describes a call; the inline functions at the end are short forms. Buffers belong to the caller. Until the
 * call has ended, they must not be freed, a receive buffer must not be accessed, and a send buffer may only be read.
 * Counts are in elements. Send and receive buffer may only overlap as listed below as "in place"; any other overlap is
 * rejected with BANYAN_ERR_ARGUMENT.
 *
 *   collective      send                        recv
 *   allreduce       count                       count (in place: send == recv)
 *   reduce          count                       count at the root (in place: send == recv),
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
 * A collective of zero elements acts as a barrier, so that a rank with another count is detected; a message of zero
 * elements ends at once.
 *
 * In the five collectives with blocks, `count` is the number of elements of one block, equal on all ranks.
 * Alternatively `counts` holds one count per rank, the same array on all ranks (not for alltoall). In place:
 * reduce_scatter with recv == send, which leaves the block at the start of the buffer, or with recv == send + own
 * offset; allgather with send == recv + own offset; gather likewise at the root. */
#ifndef BANYAN_COLLECTIVES_H
#define BANYAN_COLLECTIVES_H

#include <stdbool.h>

#include <banyan/comm.h>

/* Initialises a struct with zeros. */
#ifdef __cplusplus
#define BANYAN_ZERO                                                                                                    \
  {}
#else
#define BANYAN_ZERO                                                                                                    \
  { 0 }
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A call that was started and has not been waited for. Only one thread at a time may use a request. */
struct banyan_request;

/* One call. Members that the collective does not use are ignored; zero-initialise them. */
struct banyan_call {
  enum banyan_collective collective;
  enum banyan_dtype dtype;
  enum banyan_op op; /* The reduction of allreduce, reduce and reduce_scatter; other collectives ignore it. */
  int root;          /* The root rank of reduce, broadcast, gather and scatter; the peer's rank of send and recv. */
  const void *send;
  void *recv;
  size_t count;
  /* Elements of each rank's block, or NULL if all are `count`. Only read while the call is started. */
  const size_t *counts;
  /* Factor for each rank's elements before they are reduced; 0 and 1 leave them as they are. Other values need a
   * floating-point type. */
  double scale;
  /* Seconds from the start of the call to BANYAN_ERR_TIMEOUT; 0 means the communicator's deadline. */
  double deadline;
  uint32_t tag; /* Messages of send and recv match by peer and tag. */
  /* The call's name in timelines, at most 255 bytes; NULL means the collective's name. Only read while the call is
   * started. Submitted operations have their own name. */
  const char *name;
};

/* Starts a call and blocks until it has ended. Errors below 32 (<banyan/status.h>) mean that nothing was started and
 * the job continues; any other error ends the job. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_run(struct banyan_comm *comm, const struct banyan_call *call);
/* Like banyan_run. While the calling thread waits it calls `poll` again and again, about every millisecond or more
 * often, to drive another library whose operations other ranks may wait for. A call that ends at once may never call
 * it. `poll` must not use this job's communicators. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_run_polling(struct banyan_comm *comm, const struct banyan_call *call,
                                                              void (*poll)(void *argument), void *argument);
/* Like banyan_run, but blocks for at most about this many seconds. If the call has not ended then, it continues as
 * *rest, which the caller owns, and the function returns BANYAN_OK. Otherwise *rest is NULL. For programs that must do
 * something else from time to time. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_run_for(struct banyan_comm *comm, const struct banyan_call *call,
                                                          double seconds, struct banyan_request **rest);
/* Starts a call, which progresses in the background. The caller owns *out and releases it through a wait, or a test
 * that reports the end. Does not block. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_start(struct banyan_comm *comm, const struct banyan_call *call,
                                                        struct banyan_request **out);
/* Starts a recv from any rank: it receives the first message with this tag that no other recv takes. `root` is ignored.
 * When the request has succeeded, *source is the sender's rank. Does not block. BANYAN_ERR_UNSUPPORTED: `count` is 0;
 * empty messages can only be received from a given rank. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_recv_any(struct banyan_comm *comm, const struct banyan_call *call,
                                                           int *source, struct banyan_request **out);

/* Blocks until the call has ended, frees the request and returns the call's status. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_wait(struct banyan_request *request);
/* Does not block. If the call has ended, sets *done, frees the request and returns the call's status. Otherwise clears
 * *done and returns BANYAN_OK. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_test(struct banyan_request *request, bool *done);
/* Like banyan_test, after waiting for the end for about this many seconds. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_wait_for(struct banyan_request *request, double seconds, bool *done);
/* Blocks until one of n requests has ended. Stores its index in *index, frees it, sets its entry to NULL and returns
 * its status. NULL entries are skipped; if all are NULL, *index is n. All requests belong to communicators of one job.
 */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_wait_any(struct banyan_request **requests, size_t n, size_t *index);
/* Blocks until all n requests have ended, frees them, sets their entries to NULL and returns the first error, or
 * BANYAN_OK. NULL entries are skipped. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_wait_all(struct banyan_request **requests, size_t n);
/* Registers a completion callback and releases the request. `then` is called once when the call has ended, with the
 * status and the error text ("" for BANYAN_OK). It runs on a thread of the library, on a thread that waits, or on the
 * calling thread before this function returns; that thread makes no other progress meanwhile. `then` may start calls
 * and register callbacks, but must not wait or destroy communicators. banyan_comm_destroy() returns after all callbacks
 * of the communicator's requests have run. */
BANYAN_API BANYAN_CHECK enum banyan_status
banyan_then(struct banyan_request *request, void (*then)(void *argument, enum banyan_status status, const char *text),
            void *argument);

/* Returns a call with these members; the others are zero. C++ has designated initialisers only since C++20. */
static inline struct banyan_call banyan_call_of(enum banyan_collective collective, const void *send, void *recv,
                                                size_t count, enum banyan_dtype dtype) {
  struct banyan_call call = BANYAN_ZERO;
  call.collective = collective;
  call.dtype = dtype;
  call.send = send;
  call.recv = recv;
  call.count = count;
  return call;
}
static inline enum banyan_status banyan_allreduce(struct banyan_comm *comm, const void *send, void *recv, size_t count,
                                                  enum banyan_dtype dtype, enum banyan_op op) {
  struct banyan_call call = banyan_call_of(BANYAN_ALLREDUCE, send, recv, count, dtype);
  call.op = op;
  return banyan_run(comm, &call);
}
static inline enum banyan_status banyan_reduce(struct banyan_comm *comm, const void *send, void *recv, size_t count,
                                               enum banyan_dtype dtype, enum banyan_op op, int root) {
  struct banyan_call call = banyan_call_of(BANYAN_REDUCE, send, recv, count, dtype);
  call.op = op;
  call.root = root;
  return banyan_run(comm, &call);
}
static inline enum banyan_status banyan_broadcast(struct banyan_comm *comm, void *buffer, size_t count,
                                                  enum banyan_dtype dtype, int root) {
  struct banyan_call call = banyan_call_of(BANYAN_BROADCAST, NULL, buffer, count, dtype);
  call.root = root;
  return banyan_run(comm, &call);
}
/* A short form of banyan_run. `block` is the number of elements that each rank receives. */
static inline enum banyan_status banyan_reduce_scatter(struct banyan_comm *comm, const void *send, void *recv,
                                                       size_t block, enum banyan_dtype dtype, enum banyan_op op) {
  struct banyan_call call = banyan_call_of(BANYAN_REDUCE_SCATTER, send, recv, block, dtype);
  call.op = op;
  return banyan_run(comm, &call);
}
/* A short form of banyan_run. `block` is the number of elements that each rank sends. */
static inline enum banyan_status banyan_allgather(struct banyan_comm *comm, const void *send, void *recv, size_t block,
                                                  enum banyan_dtype dtype) {
  struct banyan_call call = banyan_call_of(BANYAN_ALLGATHER, send, recv, block, dtype);
  return banyan_run(comm, &call);
}
static inline enum banyan_status banyan_barrier(struct banyan_comm *comm) {
  struct banyan_call call = banyan_call_of(BANYAN_BARRIER, NULL, NULL, 0, BANYAN_UINT8);
  return banyan_run(comm, &call);
}

#ifdef __cplusplus
}
#endif
#endif
