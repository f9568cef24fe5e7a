/* The costs of each method of exchanging rows, predicted from the ranks' words and the trees of the plan. A pure
 * function, with the same result on all ranks. Cost: linear in ranks, and in the rows that they have reported.
 *
 *   T = calls * call + steps * (hop + delay) + the longest of: work of the busiest rank, work of all by the cores,
 *       bytes of the busiest link by its rate
 *
 * Steps are consecutive messages; the delay is that to the farthest rank. A rank's work is the bytes that it sends and
 * receives, the messages, and the bytes that it merges, copies or clears. */
#ifndef BY_SPARSE_SPARSE_COST_H
#define BY_SPARSE_SPARSE_COST_H

#include "plan.h"
#include "sparse_word.h"

/* ---- sparse_union.c
 *
 * What all ranks' words amount to: counts, and an even sample of the union, from which its size and its quantiles are
 * estimated. A function of the words alone, so the same on all ranks.
 *
 * The sample: each rank reports the rows with the smallest hashes. Those below the largest hash that every rank has
 * reported are all that any rank has there; they are as many as the union has, times that hash. */

struct by_sparse_union {
  uint32_t n_ranks;
  uint64_t total, most, fewest; /* Rows of all ranks together, of the rank with most, and of the rank with fewest. */
  uint64_t memory;              /* Bytes of memory that each rank can give to a call. */
  uint32_t least_rank;          /* The rank that gives least memory. */
  double rows;                  /* Estimated rows of the union. */
  double crowd;                 /* Ranks for each core, on the machine where that is most. */
  double delay;                 /* Seconds to the farthest rank; 0 if unknown. */
  bool fixed;                   /* On some rank measured times must not influence the method. */
  bool far;                     /* Some rank is not reached through shared memory. */
  uint32_t sampled;
  int64_t *sample; /* Sampled rows of the union, ascending. */
  /* Reports of each sampled row: those of row i are at starts[i] .. starts[i + 1] - 1 of `ranks`. */
  uint32_t *starts, *ranks;
  struct by_arena arena;
};

/* Summarises words that fit together. Free it with by_sparse_union_fini, also after an error. Cost: linear in ranks and
 * in reported rows, which are sorted by radix. */
BANYAN_CHECK enum banyan_status by_sparse_union_init(struct by_sparse_union *all, const struct by_sparse_words *words);
void by_sparse_union_fini(struct by_sparse_union *all);
/* Divides the rows into n ranges that hold parts of the union according to `upto` (ascending, the last is 1): range i
 * is from cuts[i] to cuts[i + 1] - 1; cuts[n] is the height. */
void by_sparse_union_cut(const struct by_sparse_union *all, uint64_t height, const double *upto, uint32_t n,
                         uint64_t *cuts);

/* ---- sparse_trees.c
 *
 * A plan's class as trees over ranks: which rank is above which, and how much goes by each. An exchange becomes stars,
 * one around each of its ranks. Trees that follow from one template are not written out: memory is linear in the ranks
 * of each group. Immutable once made. */

struct by_sparse_tree {
  uint32_t group, turn; /* The tree is number `turn` of this group of the class. */
  uint32_t root;        /* The root's rank. */
  double share;
};

/* A group's template in the form that exchanges use. */
struct by_sparse_group {
  const struct by_group *group;
  uint32_t n_trees, height; /* height: counts twigs. */
  bool direct;              /* Each rank sends to the root itself. */
  uint32_t *place;          /* Position of each rank; UINT32_MAX: the rank is a twig. */
  uint32_t *above_twig;     /* Parent of each rank that is a twig; unused without twigs. */
  uint32_t *starts, *below; /* Children of position u of the template: below[starts[u]] .. below[starts[u + 1] - 1]. */
  uint32_t *twig_starts, *twigs; /* Twigs of rank r, in the same form; NULL: no twigs. */
};

/* Bytes that a rank sends, as multiples of the bytes of all ranks and of its own bytes. */
struct by_sparse_load {
  double all, own;
};

struct by_sparse_trees {
  uint32_t n, n_ranks, n_groups;
  struct by_sparse_group *groups;
  struct by_sparse_tree *trees; /* Trees in ascending order of their roots. */
  double *upto;                 /* Cumulative shares of the trees; the last is 1. */
  uint32_t height;
  struct by_sparse_load *gather; /* Load of each rank in an AllGather over this class. */
  double reduce;                 /* Bytes that the busiest rank sends in an AllReduce, for each byte of its buffer. */
  uint32_t gather_steps, reduce_steps; /* Consecutive messages of an AllGather and of an AllReduce. */
  uint32_t gather_messages;            /* Messages that a rank sends in an AllGather. */
  double rate;                         /* Bytes/s of an AllReduce's buffer that the plan promises; 0: no promise. */
  uint32_t version;
  uint64_t up_to; /* The largest buffer of the class, in bytes. */
  struct by_plan *plan;
  struct by_arena arena;
};

/* Makes the trees of a plan without helpers and switches, of which it keeps a copy. The caller owns *out. Cost: groups
 * times ranks. */
BANYAN_CHECK enum banyan_status by_sparse_trees_create(const struct by_plan *plan, const struct by_class *class_,
                                                       struct by_sparse_trees **out);
/* NULL is allowed. */
void by_sparse_trees_destroy(struct by_sparse_trees *trees);
/* Returns whether these are the trees of that class of the plan. */
bool by_sparse_trees_are(const struct by_sparse_trees *trees, const struct by_plan *plan,
                         const struct by_class *class_);

/* Returns the parent of `rank` in a tree; the root's is itself. Cost: digits of the group's radix. */
uint32_t by_sparse_tree_up(const struct by_sparse_trees *trees, const struct by_sparse_tree *tree, uint32_t rank);
/* Returns the number of children of `rank`, and writes them to `out` unless it is NULL. Cost: as many. */
uint32_t by_sparse_tree_below(const struct by_sparse_trees *trees, const struct by_sparse_tree *tree, uint32_t rank,
                              uint32_t *out);

/* ---- predictions */

struct by_sparse_rates {
  double call;    /* Seconds of a rank for each collective call. */
  double hop;     /* Seconds of a step, with waking up, without the delay of links. */
  double message; /* Seconds of a rank for each message that it sends or receives. */
  double byte;    /* Seconds of a rank for each byte that it sends or receives. */
  double merge;   /* Seconds of a rank for each byte that it merges. */
  double clear;   /* Seconds of a rank for each byte of a dense table that it clears, fills and scans. */
  double link;    /* Bytes/s that a rank's link carries in each direction; INFINITY: it has no link. */
};

/* The default rates of shared memory, or of TCP (`far`). They are guesses; promised and measured rates replace them. */
struct by_sparse_rates by_sparse_default_rates(bool far);

struct by_sparse_case {
  const struct by_sparse_words *words;
  const struct by_sparse_union *all;
  /* Trees of the plan's classes for the union, for all ranks' rows and for the dense table. `trees` NULL: no rows can
   * be merged on the way; others NULL: their costs are guessed. */
  const struct by_sparse_trees *trees, *gather, *dense;
  struct by_sparse_rates rates;
};

struct by_sparse_prediction {
  double seconds; /* Predicted time; INFINITY: the method is not possible; NAN: out of memory. */
  double fixed;   /* The part of `seconds` for calls, and for waiting while nothing is sent. */
  double work;    /* Seconds of work of the busiest rank, or of all ranks divided by the cores. */
  double bytes;   /* Bytes that the busiest link carries in one direction meanwhile. */
  double memory;  /* Bytes that the busiest rank may need; twice the estimate if rows are merged on the way. */
};

void by_sparse_predict(const struct by_sparse_case *of, enum banyan_sparse_way way, struct by_sparse_prediction *out);
/* Bytes of a row: its number and its values. */
double by_sparse_case_row_bytes(const struct by_sparse_case *of);
/* The number of parts in which each tree's range of rows goes up, so that a vertex merges one part while it receives
 * the next. */
uint32_t by_sparse_pieces(const struct by_sparse_union *all, const struct by_sparse_trees *trees, double row_bytes);

/* ---- records
 *
 * What a communicator's exchanges took so far, and what follows for the next: how fast links are, and by how much each
 * way differs from its prediction at each size. All of it comes from the ranks' words, so it is the same on all ranks.
 *
 * Ways that are predicted to take nearly as long as the best one are tried a few times each; then what was measured
 * decides. Measurements belong to a plan. Pure: no clock, no memory of its own beyond this struct. */

enum { BY_SPARSE_SIZES = 32, BY_SPARSE_TRIALS = 3, BY_SPARSE_REMEMBERED = 16 };

struct by_sparse_measured {
  uint32_t n;                     /* Exchanges that were measured. */
  double times[BY_SPARSE_TRIALS]; /* Ratios of measured to predicted seconds, of the first exchanges. */
  double ratio;                   /* The average ratio of measured to predicted seconds. */
};

struct by_sparse_record {
  double link;      /* Measured bytes per second of the busiest rank's link; 0 if unknown. */
  uint64_t seen;    /* The number of the last exchange that was measured. */
  uint32_t version; /* The plan's version. */
  struct by_sparse_measured ways[BY_SPARSE_SIZES][BANYAN_SPARSE_WAYS];
  enum banyan_sparse_way best[BY_SPARSE_SIZES]; /* The last method chosen, by size; BANYAN_SPARSE_CHOSEN: none. */
  struct by_sparse_noted {
    uint64_t number; /* The exchange's number, from 1; 0: none. */
    enum banyan_sparse_way way;
    bool far; /* It went over links. */
    uint32_t size;
    struct by_sparse_prediction prediction;
  } noted[BY_SPARSE_REMEMBERED];
};

/* Measurements from now on belong to this plan. */
void by_sparse_record_begin(struct by_sparse_record *record, uint32_t version);
/* Records the reported time, if all ranks report the same exchange. */
void by_sparse_record_learn(struct by_sparse_record *record, const struct by_sparse_words *words);
/* Notes that exchange `number`, of `bytes` bytes of all ranks, uses method `way`. */
void by_sparse_record_note(struct by_sparse_record *record, uint64_t number, enum banyan_sparse_way way, double bytes,
                           bool far, const struct by_sparse_prediction *prediction);
/* The way to take for so many bytes of all ranks, by the predictions of all of them, each with what was measured of it:
 * the best, or one that is nearly as good and has been tried less; the last one stays unless another is better by a
 * twentieth. NULL: the best of what is predicted. None needs more than `memory`; BANYAN_SPARSE_CHOSEN: no way needs so
 * little. */
enum banyan_sparse_way by_sparse_record_choose(struct by_sparse_record *record,
                                               const struct by_sparse_prediction *predictions, double bytes,
                                               double memory);

#endif
