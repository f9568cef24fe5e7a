/* Stochastic gradient descent with momentum (Sutskever et al. 2013). It is
 * applied span by span, so that one layer can be updated while the gradients
 * of the next are still on their way. */
#ifndef FASHION_OPTIMISER_H
#define FASHION_OPTIMISER_H

#include <stddef.h>

struct optimiser {
  float *velocity; /* as long as the parameters */
  float momentum;
  float decay; /* of the weights, per unit of learning rate */
};

/* Returns -1 when memory is out. */
int optimiser_init(struct optimiser *optimiser, size_t count);
void optimiser_fini(struct optimiser *optimiser);
/* Updates parameters[begin .. begin + count - 1]. */
void optimiser_step(struct optimiser *optimiser, float *parameters, const float *gradients, size_t begin, size_t count,
                    double rate);

#endif
