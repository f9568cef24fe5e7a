/* Inside of an exchange. It consists of strands: each is a call or several that
 * are under way, and what follows when all of them have ended. There is one for
 * the exchange itself, and while rows are merged on the way one for each tree,
 * since a rank is far in one tree and still waits in another. */
#ifndef BY_SPARSE_EXCHANGE_SPARSE_PARTS_H
#define BY_SPARSE_EXCHANGE_SPARSE_PARTS_H

#include <sys/queue.h>

#include "sparse_exchange.h"
#include "sparse_merge.h"
#include "sparse_record.h"
#include "sparse_tables.h"

struct by_sparse_strand {
  struct by_call **calls;
  uint32_t n, room;
  /* Starts calls and sets what follows, or ends the exchange. */
  enum banyan_status (*then)(struct by_sparse_exchange *exchange, uint32_t strand);
  struct by_sparse_work { /* what is done before that without the lock */
    struct by_task task;
    struct by_sparse_exchange *exchange;
    uint32_t strand;
    enum banyan_status (*run)(struct by_sparse_exchange *exchange, uint32_t strand, struct by_sparse_scratch *scratch);
    enum banyan_status status;
    char *text; /* of its error; NULL: there is none, or no memory for it */
  } work;
};

/* A rank's part in one piece of a tree's range. */
struct by_sparse_climb {
  struct banyan_sparse own;   /* this rank's rows of the tree's range, */
  struct banyan_sparse all;   /* and those of its children behind them, */
  struct banyan_sparse piece; /* merged: memory of `merged`, or none of its own */
  struct banyan_sparse merged;
  uint64_t *counts; /* the children's */
  const struct by_sparse_tree *tree;
  uint32_t *children, n_children, up; /* up: the rank above; itself: this is the root */
  uint32_t *tags, tag; /* of what comes from them and of what goes up: how many edges of earlier climbs are the same */
  uint64_t count;      /* of the piece, as it is sent */
};

struct by_sparse_queue {
  struct by_sparse_options options;
  struct by_team *team;                       /* NULL: the communicator is gone */
  TAILQ_HEAD(, by_sparse_exchange) exchanges; /* under way: the first one goes on */
  LIST_HEAD(, by_sparse_exchange) spare;
  uint32_t taken; /* exchanges that have not been given back */
  /* what the first one uses, kept for the next */
  struct by_sparse_scratch scratch, small; /* of work without the lock, and under it */
  struct banyan_sparse gathered;
  uint32_t version;                                      /* of the communicator's plan when the last exchange began */
  struct by_sparse_trees *trees_of[BY_PLAN_MAX_CLASSES]; /* of the queue's team's plan; NULL: not made yet */
  const struct by_sparse_trees *trees;                   /* one of them, that of the climbs */
  struct by_sparse_climb *climbs;                        /* each tree's pieces, one tree after the other */
  uint32_t n_climbs, pieces;
  struct by_arena climb_arena;
  struct by_sparse_scratch dense;
  /* what they took */
  struct by_sparse_record record;
  uint64_t started, ended, lasted; /* exchanges; the last one that has ended well, and its nanoseconds */
  struct by_history history;       /* of exchanges by the numbers of their first calls on the communicator's team */
  uint64_t delay, asked_at;        /* see by_sparse_word; when that was last asked of the connections */
};

struct by_sparse_exchange {
  struct by_sparse_queue *queue;
  TAILQ_ENTRY(by_sparse_exchange) next; /* under way */
  LIST_ENTRY(by_sparse_exchange) spare;
  struct banyan_sparse_call call; /* of several tables: that for all of them together */
  struct by_sparse_tables tables;
  struct banyan_sparse in; /* what is sent: the caller's or `merged`; of several tables see by_sparse_need_values */
  struct banyan_sparse merged;
  struct by_sparse_scratch scratch;
  bool ascending;
  bool attended;                /* a thread waits for it, or for a later one, and does its work */
  uint32_t offered;             /* work to that thread that is not known to be done */
  struct by_sparse_words words; /* of all ranks, and its own */
  struct by_plan *plan;         /* from this exchange on; NULL: as before */
  uint64_t deadline;
  uint32_t call_number;   /* the number of its first call on the communicator's team */
  uint64_t number, began; /* of the queue's, from 1; when the words were known */
  enum banyan_sparse_way way;
  struct by_sparse_union all;
  struct by_sparse_strand *strands; /* 0: its own; 1 + c: that of climb c */
  uint32_t n_strands, strands_room;
  uint32_t climbing; /* strands of climbs that have not come to their end */
  uint64_t *union_counts;
  size_t *counts; /* of blocks that are gathered: rows, and behind them elements */
  bool ended;
  bool agreed; /* the error is the same on all ranks: the job goes on */
  enum banyan_status status;
  char error[512];
};

/* sparse_strand.c: starts a call as a part of a strand, on this team, */
BANYAN_CHECK enum banyan_status by_sparse_start_call(struct by_sparse_exchange *exchange, struct by_team *team,
                                                     uint32_t strand, const struct banyan_call *call);
/* or on the queue's own. */
BANYAN_CHECK enum banyan_status by_sparse_call(struct by_sparse_exchange *exchange, uint32_t strand,
                                               const struct banyan_call *call);
/* Work on so many bytes and then what follows: without the lock where that is worth it, by the thread that attends to
 * the exchange or by the queue's offload. It may use what no call and no other strand does. */
BANYAN_CHECK enum banyan_status by_sparse_do(
    struct by_sparse_exchange *exchange, uint32_t strand, size_t bytes,
    enum banyan_status (*work)(struct by_sparse_exchange *exchange, uint32_t strand, struct by_sparse_scratch *scratch),
    enum banyan_status (*then)(struct by_sparse_exchange *exchange, uint32_t strand));
/* False: a strand's work is not done yet. Else an error of it goes to *status. */
bool by_sparse_done(struct by_sparse_strand *strand, enum banyan_status *status);
/* Takes the exchange out of its queue's list and releases its calls, once work that is being done has ended. */
void by_sparse_end(struct by_sparse_exchange *exchange, enum banyan_status status);
/* Divides a sum where it is to be an average. */
void by_sparse_average(const struct by_sparse_exchange *exchange, struct banyan_sparse *tensor);
/* More strands, up to n in all, while none has work. */
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

/* sparse_gather.c, sparse_climb.c, sparse_dense.c: the ways' beginnings, all words being known */
enum banyan_status by_sparse_begin_padded(struct by_sparse_exchange *exchange);
enum banyan_status by_sparse_begin_gather(struct by_sparse_exchange *exchange);
enum banyan_status by_sparse_begin_broadcast(struct by_sparse_exchange *exchange);
enum banyan_status by_sparse_begin_climb(struct by_sparse_exchange *exchange);
enum banyan_status by_sparse_begin_dense(struct by_sparse_exchange *exchange);
/* The blocks of all ranks, in place: union_counts[r] rows each. Two calls of strand 0. */
BANYAN_CHECK enum banyan_status by_sparse_gather_blocks(struct by_sparse_exchange *exchange,
                                                        const struct banyan_sparse *into);
/* Rows of the ranks before this one, of union_counts. */
size_t by_sparse_before_own(const struct by_sparse_exchange *exchange);
void by_sparse_climbs_free(struct by_sparse_queue *queue);

/* sparse_choose.c: finds the way of an exchange whose words are known, unless one is forced. BANYAN_ERR_NO_MEMORY where
 * `agreed` is set: no way, or not the one that is forced, gets along with what ranks give. */
BANYAN_CHECK enum banyan_status by_sparse_choose(struct by_sparse_exchange *exchange);
/* The trees of the queue's plan for so many bytes, which the queue keeps. */
BANYAN_CHECK enum banyan_status by_sparse_get_trees(struct by_sparse_queue *queue, double bytes,
                                                    const struct by_sparse_trees **out);
void by_sparse_forget_trees(struct by_sparse_queue *queue);
/* Nanoseconds to the farthest rank of the queue that there is a connection to; 0: not known. */
uint64_t by_sparse_delay(struct by_sparse_queue *queue);

#endif
