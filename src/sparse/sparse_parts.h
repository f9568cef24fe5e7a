/* Inside of an exchange. It consists of strands: each is a call or several that
 * are under way, and what follows when all of them have ended. There is one for
 * the exchange itself, and while rows are merged on the way one for each tree,
 * since a rank is far in one tree and still waits in another. */
#ifndef BY_SPARSE_SPARSE_PARTS_H
#define BY_SPARSE_SPARSE_PARTS_H

#include <sys/queue.h>

#include "sparse_cost.h"
#include "sparse_exchange.h"
#include "sparse_tables.h"
#include "sparse_tensor.h"

struct by_sparse_strand {
  struct by_call **calls;
  uint32_t n, room;
  /* Starts calls and sets what follows, or ends the exchange. */
  enum banyan_status (*then)(struct by_sparse_exchange *exchange, uint32_t strand);
  struct by_sparse_work { /* Work that is done before `then`, without the lock. */
    struct by_task task;
    struct by_sparse_exchange *exchange;
    uint32_t strand;
    enum banyan_status (*run)(struct by_sparse_exchange *exchange, uint32_t strand, struct by_sparse_scratch *scratch);
    enum banyan_status status;
    char *text; /* The text of its error; NULL: no error, or no memory for the text. */
  } work;
};

/* A rank's part in one piece of a tree's range. */
struct by_sparse_climb {
  struct banyan_sparse own;   /* This rank's rows of the tree's range. */
  struct banyan_sparse all;   /* This rank's rows, followed by those of its children. */
  struct banyan_sparse piece; /* The merged rows: in the memory of `merged`, or borrowed. */
  struct banyan_sparse merged;
  uint64_t *counts; /* The children's numbers of rows. */
  const struct by_sparse_tree *tree;
  uint32_t *children, n_children, up; /* up: the parent's rank, or the own one at the root. */
  uint32_t *tags, tag; /* Message tags of the children's edges and of the edge to the parent, in order of climbs. */
  uint64_t count;      /* Rows of the piece, as sent. */
};

struct by_sparse_queue {
  struct by_sparse_options options;
  struct by_team *team;                       /* NULL: the communicator has been destroyed. */
  TAILQ_HEAD(, by_sparse_exchange) exchanges; /* Exchanges in progress: the first one advances. */
  LIST_HEAD(, by_sparse_exchange) spare;
  uint32_t taken; /* Exchanges that have not been given back. */
  /* The first exchange's memory, kept for the next one. */
  struct by_sparse_scratch scratch, small; /* Scratch of work without the lock, and of work under it. */
  struct banyan_sparse gathered;
  uint32_t version; /* Version of the communicator's plan when the last exchange began. */
  struct by_sparse_trees *trees_of[BY_PLAN_MAX_CLASSES]; /* Trees of the queue's plan, by class; NULL: not made yet. */
  const struct by_sparse_trees *trees;                   /* The element of `trees_of` that the climbs use. */
  struct by_sparse_climb *climbs;                        /* The pieces of each tree, tree by tree. */
  uint32_t n_climbs, pieces;
  struct by_arena climb_arena;
  struct by_sparse_scratch dense;
  /* Measurements of past exchanges. */
  struct by_sparse_record record;
  uint64_t started, ended, lasted; /* Exchanges started; the last that ended well, and its nanoseconds. */
  struct by_history history;       /* Outcomes by the numbers of exchanges' first calls on the communicator's team. */
  uint64_t delay, asked_at;        /* See by_sparse_word; and the time of the last query. */
};

struct by_sparse_exchange {
  struct by_sparse_queue *queue;
  TAILQ_ENTRY(by_sparse_exchange) next; /* Entry of the queue's list of exchanges in progress. */
  LIST_ENTRY(by_sparse_exchange) spare;
  struct banyan_sparse_call call; /* With several tables: one call for all of them. */
  struct by_sparse_tables tables;
  struct banyan_sparse in; /* The rows to send: the caller's or `merged`; see by_sparse_need_values. */
  struct banyan_sparse merged;
  struct by_sparse_scratch scratch;
  bool ascending;
  bool attended;                /* A thread waits for this exchange or a later one, and does its work. */
  uint32_t offered;             /* Tasks offered to that thread that are not known to be done. */
  struct by_sparse_words words; /* The words of all ranks, and this rank's own. */
  struct by_plan *plan;         /* A new plan from this exchange on; NULL: the plan stays. */
  uint64_t deadline;
  uint32_t call_number;   /* The number of this exchange's first call on the communicator's team. */
  uint64_t number, began; /* Number in the queue, from 1; time at which the words were known. */
  enum banyan_sparse_way way;
  struct by_sparse_union all;
  struct by_sparse_strand *strands; /* Strand 0 is the exchange's own, strand 1 + c that of climb c. */
  uint32_t n_strands, strands_room;
  uint32_t climbing; /* Strands of climbs that have not ended. */
  uint64_t *union_counts;
  size_t *counts; /* Sizes of gathered blocks: first rows, then elements. */
  bool ended;
  bool agreed; /* The error is the same on all ranks, so the job goes on. */
  enum banyan_status status;
  char error[512];
};

/* sparse_strand.c: starts a call of a strand on `team`. */
BANYAN_CHECK enum banyan_status by_sparse_start_call(struct by_sparse_exchange *exchange, struct by_team *team,
                                                     uint32_t strand, const struct banyan_call *call);
/* Starts a call of a strand on the queue's own team. */
BANYAN_CHECK enum banyan_status by_sparse_call(struct by_sparse_exchange *exchange, uint32_t strand,
                                               const struct banyan_call *call);
/* Runs `work`, on `bytes` bytes, and then `then`: without the lock if that pays, by the thread that attends to the
 * exchange or by the queue's offload. The work may only use memory that no call and no other strand uses. */
BANYAN_CHECK enum banyan_status by_sparse_do(
    struct by_sparse_exchange *exchange, uint32_t strand, size_t bytes,
    enum banyan_status (*work)(struct by_sparse_exchange *exchange, uint32_t strand, struct by_sparse_scratch *scratch),
    enum banyan_status (*then)(struct by_sparse_exchange *exchange, uint32_t strand));
/* Returns false while a strand's work is not done. Otherwise sets *status to its error, if any. */
bool by_sparse_done(struct by_sparse_strand *strand, enum banyan_status *status);
/* Removes the exchange from its queue's list and releases its calls, once running work has ended. */
void by_sparse_end(struct by_sparse_exchange *exchange, enum banyan_status status);
/* Ends the exchange's work on other threads: waits for what runs, and drops what has not begun. */
void by_sparse_withdraw_work(struct by_sparse_exchange *exchange);
/* Divides the sum by the ranks if the call asks for the average. */
void by_sparse_average(const struct by_sparse_exchange *exchange, struct banyan_sparse *tensor);
/* Makes strands, up to n in all, while none has work. */
BANYAN_CHECK enum banyan_status by_sparse_need_strands(struct by_sparse_exchange *exchange, uint32_t n);
/* Puts the values of all tables into `in`, which has only their row numbers until then. */
void by_sparse_need_values(struct by_sparse_exchange *exchange);
/* Copies the rows that are sent, with or without values in `in`, to the places from `first` on. */
void by_sparse_copy_own(const struct by_sparse_exchange *exchange, const struct banyan_sparse *to, size_t first);
/* The same as by_sparse_need_values, and merges the rows if they are not in order. */
BANYAN_CHECK enum banyan_status by_sparse_put_in_order(struct by_sparse_exchange *exchange,
                                                       struct by_sparse_scratch *scratch);
/* Bytes of so many rows. */
static inline size_t by_sparse_bytes(const struct by_sparse_exchange *exchange, uint64_t rows) {
  return rows * by_sparse_row_bytes(&exchange->in);
}
/* Two calls of strand 0 on the queue's own team, for rows and for values. `call` has all but types and buffers:
 * `count` in rows; `counts` in rows, and behind them in elements. */
BANYAN_CHECK enum banyan_status by_sparse_call_both(struct by_sparse_exchange *exchange, struct banyan_call call,
                                                    const struct banyan_sparse *send, const struct banyan_sparse *recv);

/* sparse_gather.c, sparse_climb.c, sparse_dense.c: begin each method, once all words are known. */
enum banyan_status by_sparse_begin_padded(struct by_sparse_exchange *exchange);
enum banyan_status by_sparse_begin_gather(struct by_sparse_exchange *exchange);
enum banyan_status by_sparse_begin_broadcast(struct by_sparse_exchange *exchange);
enum banyan_status by_sparse_begin_climb(struct by_sparse_exchange *exchange);
enum banyan_status by_sparse_begin_dense(struct by_sparse_exchange *exchange);
/* The blocks of all ranks, in place: union_counts[r] rows each. Two calls of strand 0. */
BANYAN_CHECK enum banyan_status by_sparse_gather_blocks(struct by_sparse_exchange *exchange,
                                                        const struct banyan_sparse *into);
/* Returns the number of rows of the ranks before this one, by union_counts. */
size_t by_sparse_before_own(const struct by_sparse_exchange *exchange);
void by_sparse_climbs_free(struct by_sparse_queue *queue);

/* ---- sparse_exchange.c */

/* Sets *out to the trees of the queue's plan for buffers of `bytes`; the queue keeps them. */
BANYAN_CHECK enum banyan_status by_sparse_get_trees(struct by_sparse_queue *queue, double bytes,
                                                    const struct by_sparse_trees **out);

#endif
