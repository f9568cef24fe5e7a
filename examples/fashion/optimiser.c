#include "optimiser.h"

#include <stdlib.h>

int optimiser_init(struct optimiser *optimiser, size_t count) {
  *optimiser = (struct optimiser){.momentum = 0.9f, .decay = 1e-4f};
  optimiser->velocity = calloc(count, sizeof(float));
  return optimiser->velocity ? 0 : -1;
}

void optimiser_fini(struct optimiser *optimiser) {
  free(optimiser->velocity);
  optimiser->velocity = NULL;
}

void optimiser_step(struct optimiser *optimiser, float *parameters, const float *gradients, size_t begin, size_t count,
                    double rate) {
  const float momentum = optimiser->momentum, decay = optimiser->decay, step = (float)rate;
  float *velocity = optimiser->velocity;
  for (size_t i = begin; i < begin + count; i++) {
    velocity[i] = momentum * velocity[i] + gradients[i] + decay * parameters[i];
    parameters[i] -= step * velocity[i];
  }
}
