#include "cells.h"

#include <math.h>
#include <stdbool.h>

static const double for_later = 0.25; /* of the memory */
enum { BITS = 64 };

double by_cells_weight(double need, uint32_t class_) {
  return ldexp(need, -(int)class_);
}

/* What all would have, with `level` for a unit of weight and nobody more than its wish. */
static double fill(const struct by_cells_claim *claims, uint32_t n, double level) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += fmin(claims[i].wish, level * claims[i].weight);
  return sum;
}

/* The level at which that is `memory`: whoever has its wish leaves the rest to the others. By bisection. */
static double find_level(double memory, const struct by_cells_claim *claims, uint32_t n) {
  double low = 0, high = 0;
  for (uint32_t i = 0; i < n; i++)
    if (claims[i].weight > 0) high = fmax(high, claims[i].wish / claims[i].weight);
  for (int round = 0; round < BITS; round++) {
    double middle = (low + high) / 2;
    if (fill(claims, n, middle) <= memory)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static double all_wishes(const struct by_cells_claim *claims, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += claims[i].wish;
  return sum;
}

void by_cells_share(double memory, double given, const struct by_cells_claim *claims, uint32_t n, uint32_t first,
                    uint32_t n_own, double *shares) {
  double to_share = (1 - for_later) * memory, left = fmax(0, memory - given), sum = 0;
  bool fits = all_wishes(claims, n) <= to_share;
  double level = fits ? 0 : find_level(to_share, claims, n);
  for (uint32_t i = 0; i < n_own; i++) {
    const struct by_cells_claim *claim = &claims[first + i];
    shares[i] = fits ? claim->wish : fmin(claim->wish, level * claim->weight);
    sum += shares[i];
  }
  for (uint32_t i = 0; i < n_own && sum > left; i++) shares[i] *= left / sum;
}
