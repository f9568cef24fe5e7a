/* What a communicator's exchanges took so far, and what follows for the next: how fast links are, and by how much each
 * way differs from its prediction at each size. All of it comes from the ranks' words, so it is the same on all ranks.
 *
 * Ways that are predicted to take nearly as long as the best one are tried a few times each; then what was measured
 * decides. Measurements belong to a plan. Pure: no clock, no memory of its own beyond this struct. */
#ifndef BY_SPARSE_SPARSE_RECORD_H
#define BY_SPARSE_SPARSE_RECORD_H

#include "sparse_cost.h"

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
