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
#ifndef BY_SPARSE_SPARSE_EXCHANGE_H
#define BY_SPARSE_SPARSE_EXCHANGE_H

#include <banyan/sparse.h>

#include "engine.h"
#include "offload.h"

struct by_sparse_exchange;
struct by_sparse_queue; /* The queue of one communicator's exchanges. */

struct by_sparse_options {
  struct by_engine *engine;
  struct by_team *team; /* The communicator's team; borrowed. */
  uint32_t id;          /* Number of the queue's team: the same on all ranks, and not used before. */
  uint32_t n;
  const uint32_t *processes;
  size_t memory; /* Bytes of memory for a call that sets no limit itself. */
  double crowd;  /* Ranks for each core of this machine. */
  bool far;      /* Some ranks are not reached through shared memory. */
  bool fixed;    /* The times of exchanges do not influence the method of later ones, on any rank. */
  struct by_clock clock;
  struct by_offload *offload; /* Works without the lock; outlives the queue. NULL: work is done under the lock. */
  size_t offloads;            /* Minimum bytes of work that is offloaded. */
};

BANYAN_CHECK enum banyan_status by_sparse_queue_create(const struct by_sparse_options *options,
                                                       struct by_sparse_queue **out);
/* Ends all exchanges in progress with BANYAN_ERR_CLOSED; they stay until they are released. NULL is allowed. */
void by_sparse_queue_destroy(struct by_sparse_queue *queue);
/* The outcomes of the queue's exchanges, by the numbers of their calls on the communicator's team. Errors that all
 * ranks agreed on, after which the job goes on, count as completed. */
const struct by_history *by_sparse_queue_history(const struct by_sparse_queue *queue);
/* Whether all exchanges have ended. */
bool by_sparse_queue_is_idle(const struct by_sparse_queue *queue);
/* See by_team_owes. */
bool by_sparse_queue_owes(const struct by_sparse_queue *queue);

/* Returns a new exchange, or one that has ended, with its memory. NULL: out of memory. */
struct by_sparse_exchange *by_sparse_take(struct by_sparse_queue *queue);
/* Reads the call, scans all rows and merges them if need be. Faults in the rows are reported to all ranks later. */
void by_sparse_prepare(struct by_sparse_exchange *exchange, const struct banyan_sparse_call *call);
/* `deadline` as in by_engine_start. On failure nothing has begun, and the exchange is given back. */
BANYAN_CHECK enum banyan_status by_sparse_start(struct by_sparse_exchange *exchange, uint64_t deadline);
/* Goes on with all exchanges whose calls have ended. True if anything was done. */
bool by_sparse_progress(struct by_sparse_queue *queue);
bool by_sparse_ended(const struct by_sparse_exchange *exchange);
/* From now on this thread waits for the exchange, and does its work and that of those before it. */
void by_sparse_attend(struct by_sparse_exchange *exchange);
/* This thread no longer waits for the exchange. False: work is offered that it has to do before. */
BANYAN_CHECK bool by_sparse_leave(struct by_sparse_exchange *exchange);
/* Returns work for the waiting thread: the thread claims it under the lock, runs it by by_offload_do without the lock,
 * and then calls by_sparse_progress. NULL: there is none now. */
struct by_task *by_sparse_offered(const struct by_sparse_exchange *exchange);
/* Returns the exchange's status; the thread's error text is set if that is not BANYAN_OK. */
enum banyan_status by_sparse_result(const struct by_sparse_exchange *exchange);
/* Gives back an exchange that has ended. */
void by_sparse_release(struct by_sparse_exchange *exchange);

#endif
