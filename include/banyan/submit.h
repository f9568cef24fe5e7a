/* Named operations. Frameworks finish gradients in another order on every rank,
 * and calls that ranks make in different orders wait for each other for ever.
 * So every rank submits what is ready under a name, in any order and from any
 * thread, and each operation starts when all ranks have submitted it, in one
 * order that is the same everywhere. Small AllReduces that are ready at the
 * same time travel as one call.
 *
 * Submitted operations and calls of <banyan/collectives.h> on the same
 * communicator do not wait for each other. docs/negotiation.md says the rest. */
#ifndef BANYAN_SUBMIT_H
#define BANYAN_SUBMIT_H

#include <banyan/collectives.h>
#include <banyan/sparse.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is submitted under a name: one call, or several, which start together once all ranks have them and end together.
 * The structs are only read by banyan_submit; what they point to belongs to the operation until it has been waited for,
 * `counts` too. `deadline` of a call counts from when it was submitted; of several, the nearest counts. */
struct banyan_submission {
  size_t size_of_struct;           /* sizeof(struct banyan_submission), for later versions; 0: all of it */
  const struct banyan_call *calls; /* all collectives but send and recv */
  size_t n_calls;
  const struct banyan_sparse_call *sparse; /* and sparse ones, behind them */
  size_t n_sparse;
  int priority; /* of what is ready at once, the highest starts first. The root's counts: rank 0's, unless the control
                   tree has another one. Equal (0): what started last in the first iteration starts first, since the
                   layers that are needed first have their gradients last */
};

/* Submits an operation: it starts by itself when all ranks of the communicator have submitted one of this name, with
 * the same collectives, types, operations, counts and so on. The caller owns *out: an ordinary request. A name may be
 * used again once its operation has ended here, and is cheapest if it is: with the same shape in every iteration. 1 to
 * 255 bytes of UTF-8 without control characters. Does not block.
 *
 * Where ranks differ, the request of each ends with BANYAN_ERR_MISMATCH, whose text names two ranks and what they have
 * submitted; the job goes on, and the name is free again. If not all ranks submit it before the deadline, the job ends
 * with BANYAN_ERR_TIMEOUT, whose text names those that have not; long before, rank 0's log names them, see
 * BANYAN_STALL. BANYAN_ERR_ARGUMENT: the call makes no sense, or an operation of this name has not ended. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_submit(struct banyan_comm *comm, const char *name,
                                                         const struct banyan_submission *submission,
                                                         struct banyan_request **out);

/* Iteration `i` of the training begins on this rank. All ranks say so, or none: then it is found out by itself which
 * operations come again, two iterations later. Does not block. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_step(struct banyan_comm *comm, uint64_t i);

static inline enum banyan_status banyan_submit_allreduce(struct banyan_comm *comm, const char *name, const void *send,
                                                         void *recv, size_t count, enum banyan_dtype dtype,
                                                         enum banyan_op op, struct banyan_request **out) {
  struct banyan_call call = {
      .collective = BANYAN_ALLREDUCE, .dtype = dtype, .op = op, .send = send, .recv = recv, .count = count};
  struct banyan_submission submission = {.calls = &call, .n_calls = 1};
  return banyan_submit(comm, name, &submission, out);
}

/* What negotiating on this communicator has taken on this rank so far. */
struct banyan_negotiation {
  uint64_t submitted;
  uint64_t by_bit;                /* of them, as a bit of the table of operations */
  uint64_t started, refused;      /* operations */
  uint64_t calls;                 /* that they became; fewer, where several travel as one */
  uint64_t copied;                /* bytes copied, in and out, so that they could */
  uint64_t letters, taken, bytes; /* to other controllers, from them; bytes sent */
  uint64_t malformed;             /* letters that were refused */
  uint64_t allocations;           /* for operations and letters; a warm operation makes none */
};
BANYAN_API void banyan_comm_negotiation(const struct banyan_comm *comm, struct banyan_negotiation *out);

#ifdef __cplusplus
}
#endif
#endif
