/* Exchanges of sparse rows: chains of the executor's calls. Each begins with
 * an AllGather of words (sparse_word.h) on the communicator's own team, in
 * the order of its other calls. What follows depends on all words, so no rank
 * knows when it is its turn among those other calls: it goes over a team of
 * the queue's own, one exchange after the other.
 *
 *   by_sparse_take, by_sparse_prepare (without the engine: the local merge),
 *   by_sparse_start, then by_sparse_progress after by_engine_progress until
 *   by_sparse_ended; then by_sparse_release.
 *
 * Like the engine it never blocks. Merging and copying many rows is left to the
 * thread that attends to the exchange or to an offload's. All but prepare need
 * the lock that guards the engine. */
#ifndef BY_SPARSE_EXCHANGE_SPARSE_EXCHANGE_H
#define BY_SPARSE_EXCHANGE_SPARSE_EXCHANGE_H

#include <banyan/sparse.h>

#include "engine.h"
#include "offload.h"

struct by_sparse_exchange;
struct by_sparse_queue; /* of one communicator */

struct by_sparse_options {
  struct by_engine *engine;
  struct by_team *team; /* the communicator's */
  uint32_t id;          /* of the queue's team: the same on all ranks, and unused so far */
  uint32_t n;
  const uint32_t *processes;
  size_t memory; /* bytes for a call that sets no limit itself */
  double crowd;  /* ranks for each core of this machine */
  bool far;      /* some ranks are reached otherwise than through shared memory */
  bool fixed;    /* what exchanges take has no influence on the way of later ones, on any rank */
  struct by_clock clock;
  struct by_offload *offload; /* does work without the lock; outlives the queue. NULL: it is done under the lock */
  size_t offloads;            /* work on so many bytes and more */
};

BANYAN_CHECK enum banyan_status by_sparse_queue_create(const struct by_sparse_options *options,
                                                       struct by_sparse_queue **out);
/* Ends what is under way with BANYAN_ERR_CLOSED; it stays until it is released. NULL is allowed. */
void by_sparse_queue_destroy(struct by_sparse_queue *queue);
/* What became of its exchanges, by the numbers of their calls on the communicator's team: errors that all ranks made
 * together, after which the job goes on, count as completed. */
const struct by_history *by_sparse_queue_history(const struct by_sparse_queue *queue);
/* Whether all exchanges have ended. */
bool by_sparse_queue_is_idle(const struct by_sparse_queue *queue);
/* See by_team_owes. */
bool by_sparse_queue_owes(const struct by_sparse_queue *queue);

/* A new exchange, or one that has ended, with its memory. NULL: out of memory. */
struct by_sparse_exchange *by_sparse_take(struct by_sparse_queue *queue);
/* Reads the call, looks at all rows and merges them if need be. What is wrong with them is reported to all ranks later.
 */
void by_sparse_prepare(struct by_sparse_exchange *exchange, const struct banyan_sparse_call *call);
/* `deadline` as in by_engine_start. On failure nothing has begun, and the exchange is given back. */
BANYAN_CHECK enum banyan_status by_sparse_start(struct by_sparse_exchange *exchange, uint64_t deadline);
/* Goes on with all exchanges whose calls have ended. True if anything was done. */
bool by_sparse_progress(struct by_sparse_queue *queue);
bool by_sparse_ended(const struct by_sparse_exchange *exchange);
/* From now on this thread waits for the exchange, and does its work and that of those before it. */
void by_sparse_attend(struct by_sparse_exchange *exchange);
/* No longer. False: something is offered that it has to do before. */
BANYAN_CHECK bool by_sparse_leave(struct by_sparse_exchange *exchange);
/* Work for that thread, which it claims under the lock, does by by_offload_do without it, and calls by_sparse_progress
 * then; NULL: there is none now. */
struct by_task *by_sparse_offered(const struct by_sparse_exchange *exchange);
/* Its status; the thread's error text is set if it is not BANYAN_OK. */
enum banyan_status by_sparse_result(const struct by_sparse_exchange *exchange);
/* Gives an ended one back. */
void by_sparse_release(struct by_sparse_exchange *exchange);

#endif
