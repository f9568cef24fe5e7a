/* Skip-gram with negative sampling (Mikolov and others, 2013): two vectors for
 * each word, one as the centre of a window and one as its surroundings, in one
 * table: row w is word w as centre, row n_words + w as surroundings. A batch's
 * gradient has the rows that its words touch, each as often as it is touched. */
#ifndef WORDVEC_MODEL_H
#define WORDVEC_MODEL_H

#include <banyan/sparse.h>

#include "text.h"

struct model {
  const struct text *text;
  size_t width, height;   /* height: 2 * n_words */
  float *table, *squares; /* squares: Adagrad's sums */
  int32_t *draws;         /* words to draw negatives from, each as often as is due to it */
  float *keep;            /* of each token of a word: so likely it is not skipped, for frequent words say little */
  size_t n_draws;
};

struct batch {
  struct banyan_sparse gradient;
  size_t room; /* rows */
  double loss; /* sum over the pairs */
  size_t pairs, tokens;
};

/* The same table on all ranks that give the same seed. */
void model_init(struct model *model, const struct text *text, size_t width, uint64_t seed);
void model_free(struct model *model);
/* Gradients of n tokens from `first` on. `random` goes on. */
void model_batch(const struct model *model, size_t first, size_t n, uint64_t *random, struct batch *batch);
void batch_free(struct batch *batch);
/* The n words whose centre vectors are nearest to a word's, by the cosine. */
void model_neighbours(const struct model *model, int32_t word, int n, int32_t *out);

#endif
