/* Named operations. Frameworks finish gradients in a different order on each rank, and collective calls made in
 * different orders would wait for each other forever. Therefore each rank submits what is ready under a name, in any
 * order and from any thread. An operation starts when all ranks have submitted it, in an order that is the same on all
 * ranks. Small AllReduces that are ready at the same time are fused into one call.
 *
 * Submitted operations and calls of <banyan/collectives.h> on the same communicator do not wait for each other. See
 * docs/negotiation.md. */
#ifndef BANYAN_SUBMIT_H
#define BANYAN_SUBMIT_H

#include <banyan/collectives.h>
#include <banyan/sparse.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is submitted under a name: one call, or several, which start together once all ranks have submitted them and end
 * together. The structs are only read during banyan_submit; buffers that they point to, including `counts`, are used
 * until the operation has been waited for. The `deadline` of a call begins when it is submitted; of several, the
 * earliest applies. */
struct banyan_submission {
  /* This is sizeof(struct banyan_submission), so that later versions can extend it; 0 means the whole struct. */
  size_t size_of_struct;
  const struct banyan_call *calls; /* Calls of any collective except send and recv. */
  size_t n_calls;
  const struct banyan_sparse_call *sparse; /* Sparse calls, which follow `calls`. */
  size_t n_sparse;
  /* Among operations that are ready, the one with the highest priority starts first. The value at the root of the
   * control tree, usually rank 0, is used. Among equal priorities, the operation that started last in the first
   * iteration starts first, because the layers needed first have their gradients last. The default is 0. */
  int priority;
};

/* Submits an operation. It starts when all ranks of the communicator have submitted an operation of this name with
 * equal collectives, types, reductions and counts. The caller owns *out, an ordinary request. A name consists of 1 to
 * 255 bytes of UTF-8 without control characters. It may be reused once its operation has ended on this rank; reusing a
 * name with the same shape in every iteration is the cheapest way. Does not block.
 *
 * If ranks submit different operations under a name, each rank's request ends with BANYAN_ERR_MISMATCH, or the call
 * of banyan_submit does if the others' submissions are known already. The text names two ranks and what they submitted;
 * the job continues, and the name may be used again. If not all ranks submit the operation before the deadline, the job
 * ends with BANYAN_ERR_TIMEOUT, whose text names the missing ranks; long before that, rank 0 logs them (BANYAN_STALL).
 * BANYAN_ERR_ARGUMENT: the submission is invalid, or an operation of this name has not ended. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_submit(struct banyan_comm *comm, const char *name,
                                                         const struct banyan_submission *submission,
                                                         struct banyan_request **out);

/* Submits n operations together, which costs one control message where as many calls of banyan_submit may cost several.
 * Each starts as if it had been submitted by itself: none waits for the others. `size_of_struct` must be the same in
 * all submissions. If one of them is invalid, none is submitted. If one is rejected later, because an operation of its
 * name has not ended, or with BANYAN_ERR_MISMATCH, then those before it have been submitted and must be waited for;
 * requests of the others are NULL. Otherwise like banyan_submit. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_submit_all(struct banyan_comm *comm, const char *const *names,
                                                             const struct banyan_submission *submissions, size_t n,
                                                             struct banyan_request **requests);

/* Marks the beginning of iteration `i` of the training on this rank. Either all ranks mark iterations or none does; if
 * none does, repeating operations are detected automatically, two iterations later. Does not block. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_step(struct banyan_comm *comm, uint64_t i);

/* Submits an allreduce of `count` elements; a short form of banyan_submit. */
static inline enum banyan_status banyan_submit_allreduce(struct banyan_comm *comm, const char *name, const void *send,
                                                         void *recv, size_t count, enum banyan_dtype dtype,
                                                         enum banyan_op op, struct banyan_request **out) {
  struct banyan_call call = banyan_call_of(BANYAN_ALLREDUCE, send, recv, count, dtype);
  struct banyan_submission submission = BANYAN_ZERO;
  call.op = op;
  submission.calls = &call;
  submission.n_calls = 1;
  return banyan_submit(comm, name, &submission, out);
}

/* Counters of the negotiation on this communicator and rank. */
struct banyan_negotiation {
  uint64_t submitted; /* Operations that this rank submitted. */
  uint64_t by_bit;    /* Submitted operations that were announced by a bit of the operation table instead of by name. */
  uint64_t started;   /* Operations that were started. */
  uint64_t refused;   /* Operations that were rejected. */
  uint64_t calls;     /* Calls made for started operations; fewer than these if operations were fused. */
  uint64_t copied;    /* Bytes copied into and out of fusion buffers. */
  uint64_t messages;  /* Control messages sent to other controllers. */
  uint64_t taken;     /* Control messages received. */
  uint64_t bytes;     /* Bytes of control messages sent. */
  uint64_t malformed; /* Control messages that were rejected. */
  /* Memory allocations made for operations and control messages. A repeated operation makes none. */
  uint64_t allocations;
};
/* Copies the counters to *out; zeros if `comm` is NULL. Does not block; any thread. */
BANYAN_API void banyan_comm_negotiation(const struct banyan_comm *comm, struct banyan_negotiation *out);

#ifdef __cplusplus
}
#endif
#endif
