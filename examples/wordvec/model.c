#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 5, NEGATIVES = 5, DRAWS = 1 << 20 };
#define OFTEN 1e-4 /* words that are more of the text than this are skipped at times */

static void *need(void *memory) {
  if (memory) return memory;
  fprintf(stderr, "wordvec: out of memory\n");
  exit(1);
}

/* xorshift64* */
static uint64_t draw(uint64_t *random) {
  *random ^= *random >> 12;
  *random ^= *random << 25;
  *random ^= *random >> 27;
  return *random * 0x2545f4914f6cdd1dull;
}

static float draw_unit(uint64_t *random) {
  return (float)(draw(random) >> 40) / (float)(1 << 24);
}

/* Words in proportion to their count to the power of 3/4. */
static void fill_draws(struct model *model) {
  const struct text *text = model->text;
  double sum = 0, upto = 0;
  size_t at = 0;
  for (size_t w = 0; w < text->n_words; w++) sum += pow((double)text->counts[w], 0.75);
  for (size_t w = 0; w < text->n_words; w++) {
    upto += pow((double)text->counts[w], 0.75) / sum * DRAWS;
    for (; at < DRAWS && (double)at < upto; at++) model->draws[at] = (int32_t)w;
  }
  model->n_draws = at;
}

void model_init(struct model *model, const struct text *text, size_t width, uint64_t seed) {
  *model = (struct model){.text = text, .width = width, .height = 2 * text->n_words};
  model->table = need(calloc(model->height * width, sizeof *model->table));
  model->squares = need(calloc(model->height * width, sizeof *model->squares));
  model->draws = need(calloc(DRAWS, sizeof *model->draws));
  model->keep = need(calloc(text->n_words, sizeof *model->keep));
  for (size_t i = 0; i < text->n_words * width; i++) model->table[i] = (draw_unit(&seed) - 0.5f) / (float)width;
  for (size_t w = 0; w < text->n_words; w++) {
    double share = (double)text->counts[w] / (double)text->n_tokens;
    model->keep[w] = (float)(sqrt(OFTEN / share) + OFTEN / share);
  }
  fill_draws(model);
}

void model_free(struct model *model) {
  free(model->table);
  free(model->squares);
  free(model->draws);
  free(model->keep);
}

/* ---- gradients */

static float *add_row(const struct model *model, struct batch *batch, size_t row) {
  struct banyan_sparse *gradient = &batch->gradient;
  if (gradient->count == batch->room) {
    batch->room = batch->room ? 2 * batch->room : 4096;
    gradient->rows = need(realloc(gradient->rows, batch->room * sizeof(int32_t)));
    gradient->values = need(realloc(gradient->values, batch->room * model->width * sizeof(float)));
  }
  ((int32_t *)gradient->rows)[gradient->count] = (int32_t)row;
  return (float *)gradient->values + gradient->count++ * model->width;
}

/* One pair of a centre and a word that is near (1) or was drawn (0); its part for the centre is added to `centre`. */
static void learn(const struct model *model, struct batch *batch, const float *in, size_t row, float near,
                  float *centre) {
  const float *out = model->table + row * model->width;
  float *to = add_row(model, batch, row), dot = 0;
  for (size_t i = 0; i < model->width; i++) dot += in[i] * out[i];
  float likely = 1 / (1 + expf(-dot)), error = likely - near;
  batch->loss -= (double)logf((near > 0 ? likely : 1 - likely) + 1e-7f);
  for (size_t i = 0; i < model->width; i++) {
    to[i] = error * in[i];
    centre[i] += error * out[i];
  }
}

static void learn_pair(const struct model *model, struct batch *batch, int32_t word, int32_t near, uint64_t *random,
                       float *centre) {
  size_t words = model->text->n_words;
  const float *in = model->table + (size_t)word * model->width;
  learn(model, batch, in, words + (size_t)near, 1, centre);
  for (int k = 0; k < NEGATIVES; k++) {
    int32_t drawn = model->draws[draw(random) % model->n_draws];
    if (drawn != near) learn(model, batch, in, words + (size_t)drawn, 0, centre);
  }
  batch->pairs++;
}

/* Tokens that are kept: frequent words are skipped at random. */
static size_t thin_out(const struct model *model, size_t first, size_t n, uint64_t *random, int32_t *kept) {
  size_t k = 0;
  for (size_t i = 0; i < n; i++) {
    int32_t word = model->text->tokens[(first + i) % model->text->n_tokens];
    if (draw_unit(random) < model->keep[word]) kept[k++] = word;
  }
  return k;
}

void model_batch(const struct model *model, size_t first, size_t n, uint64_t *random, struct batch *batch) {
  int32_t *kept = need(calloc(n, sizeof *kept));
  float *centre = need(calloc(model->width, sizeof *centre));
  batch->gradient.dtype = BANYAN_FLOAT32;
  batch->gradient.row_dtype = BANYAN_INT32;
  batch->gradient.height = model->height;
  batch->gradient.width = model->width;
  batch->gradient.count = batch->pairs = 0;
  batch->loss = 0;
  batch->tokens = n;
  size_t left = thin_out(model, first, n, random, kept);
  for (size_t i = 0; i < left; i++) {
    size_t reach = 1 + draw(random) % WINDOW, from = i > reach ? i - reach : 0;
    memset(centre, 0, model->width * sizeof *centre);
    for (size_t j = from; j < left && j <= i + reach; j++)
      if (j != i) learn_pair(model, batch, kept[i], kept[j], random, centre);
    memcpy(add_row(model, batch, (size_t)kept[i]), centre, model->width * sizeof *centre);
  }
  free(kept);
  free(centre);
}

void batch_free(struct batch *batch) {
  free(batch->gradient.rows);
  free(batch->gradient.values);
}

/* ---- what was learnt */

static float cosine(const float *a, const float *b, size_t n) {
  float dot = 0, aa = 1e-20f, bb = 1e-20f;
  for (size_t i = 0; i < n; i++) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return dot / sqrtf(aa * bb);
}

void model_neighbours(const struct model *model, int32_t word, int n, int32_t *out) {
  float *near = need(calloc((size_t)n + 1, sizeof *near));
  int found = 0;
  for (size_t w = 0; w < model->text->n_words; w++) {
    if ((int32_t)w == word) continue;
    float here = cosine(model->table + (size_t)word * model->width, model->table + w * model->width, model->width);
    int at = found < n ? found++ : n;
    for (; at > 0 && near[at - 1] < here; at--) {
      near[at] = near[at - 1];
      if (at < n) out[at] = out[at - 1];
    }
    near[at] = here;
    if (at < n) out[at] = (int32_t)w;
  }
  free(near);
}
