/* Learns from measured exchanges by how much predictions are off, and chooses the method of the next exchange. */
#include "sparse_record.h"

#include <math.h>
#include <string.h>

#define NEAR 1.5            /* Methods that may take this many times the best one's time are tried. */
#define STAYS 1.05          /* The last method stays while it takes at most this many times the best one's time. */
#define AGES 8              /* Exchanges over which the ratio of a known method is averaged. */
#define ODD 4               /* Maximum ratio of a time to the usual one that is recorded. */
#define LEAST_BYTES 65536.0 /* Bytes on a link from which its rate can be measured. */

void by_sparse_record_begin(struct by_sparse_record *record, uint32_t version) {
  if (record->version == version) return;
  *record = (struct by_sparse_record){.version = version, .seen = record->seen};
}

/* Returns the size class of a number of bytes; each class is four times the one before. */
static uint32_t size_of(double bytes) {
  uint64_t whole = bytes < 0x1p63 ? (uint64_t)bytes : (uint64_t)1 << 63;
  return (63 - (uint32_t)__builtin_clzll(whole | 1)) / 2;
}

void by_sparse_record_note(struct by_sparse_record *record, uint64_t number, enum banyan_sparse_way way, double bytes,
                           bool far, const struct by_sparse_prediction *prediction) {
  record->noted[number % BY_SPARSE_REMEMBERED] = (struct by_sparse_noted){
      .number = number, .way = way, .far = far, .size = size_of(bytes), .prediction = *prediction};
}

/* ---- learning */

/* Returns the median of three, the smaller of two. */
static double median(const double *times, uint32_t n) {
  double least = n > 1 && times[1] < times[0] ? times[1] : times[0];
  double most = n > 1 && times[1] > times[0] ? times[1] : times[0];
  if (n < 3) return least;
  return times[2] < least ? least : times[2] > most ? most : times[2];
}

static void add(struct by_sparse_measured *measured, double ratio) {
  if (measured->n < BY_SPARSE_TRIALS) {
    measured->times[measured->n++] = ratio;
    measured->ratio = median(measured->times, measured->n);
    return;
  }
  if (ratio > ODD * measured->ratio) ratio = ODD * measured->ratio;
  measured->ratio += (ratio - measured->ratio) / AGES;
  measured->n += measured->n < UINT32_MAX;
}

static void learn(struct by_sparse_record *record, const struct by_sparse_noted *noted, double seconds) {
  const struct by_sparse_prediction *prediction = &noted->prediction;
  double sending = seconds - prediction->fixed, predicted = prediction->seconds;
  if (!(predicted > 0) || !(predicted < INFINITY) || !(seconds > 0)) return;
  if (noted->far && prediction->bytes >= LEAST_BYTES && sending > 0) {
    double rate = prediction->bytes / sending; /* This is a lower bound: the processor may have been the limit. */
    record->link = rate > record->link ? rate : record->link + (rate - record->link) / AGES;
    predicted = by_sparse_prediction_seconds(prediction, record->link);
  }
  add(&record->ways[noted->size][noted->way], seconds / predicted);
}

void by_sparse_record_learn(struct by_sparse_record *record, const struct by_sparse_words *words) {
  uint64_t number = by_sparse_word_of(words, 0)->ended, lasted = 0;
  for (uint32_t r = 0; r < words->n; r++) {
    const struct by_sparse_word *word = by_sparse_word_of(words, r);
    if (word->ended != number) return;
    if (word->lasted > lasted) lasted = word->lasted;
  }
  const struct by_sparse_noted *noted = &record->noted[number % BY_SPARSE_REMEMBERED];
  if (number <= record->seen || noted->number != number) return;
  record->seen = number;
  learn(record, noted, (double)lasted * 1e-9);
}

/* ---- choosing */

/* Scales the predictions of methods without measurements by the ratio of the best measured method. */
static void adjust(const struct by_sparse_measured *measured, double *seconds) {
  double usual = INFINITY;
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++)
    if (measured[way].n && measured[way].ratio < usual) usual = measured[way].ratio;
  if (!(usual < INFINITY)) usual = 1;
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++)
    seconds[way] *= measured[way].n ? measured[way].ratio : usual;
}

static enum banyan_sparse_way best_of(const double *seconds) {
  enum banyan_sparse_way best = BANYAN_SPARSE_CHOSEN; /* Its time is infinite. */
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++)
    if (seconds[way] < seconds[best]) best = (enum banyan_sparse_way)way;
  return best;
}

/* Returns a method that is nearly as good and has been tried too rarely. */
static enum banyan_sparse_way to_try(const struct by_sparse_measured *measured, const double *seconds, double best) {
  enum banyan_sparse_way tried = BANYAN_SPARSE_CHOSEN;
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++) {
    if (!(seconds[way] <= NEAR * best) || measured[way].n >= BY_SPARSE_TRIALS) continue;
    bool less = !tried || measured[way].n < measured[tried].n ||
                (measured[way].n == measured[tried].n && seconds[way] < seconds[tried]);
    if (less) tried = (enum banyan_sparse_way)way;
  }
  return tried;
}

enum banyan_sparse_way by_sparse_record_choose(struct by_sparse_record *record,
                                               const struct by_sparse_prediction *predictions, double bytes,
                                               double memory) {
  double seconds[BANYAN_SPARSE_WAYS] = {INFINITY};
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++)
    seconds[way] = predictions[way].memory <= memory ? predictions[way].seconds : (double)INFINITY;
  if (!record) return best_of(seconds);
  const struct by_sparse_measured *measured = record->ways[size_of(bytes)];
  enum banyan_sparse_way *last = &record->best[size_of(bytes)];
  adjust(measured, seconds);
  enum banyan_sparse_way best = best_of(seconds);
  if (!best) return best;
  if (*last && seconds[*last] <= STAYS * seconds[best]) best = *last;
  *last = best;
  enum banyan_sparse_way tried = to_try(measured, seconds, seconds[best]);
  return tried ? tried : best;
}
