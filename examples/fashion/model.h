/* A multi-layer perceptron on CBLAS: fully connected layers with tanh between
 * them, softmax and cross-entropy at the end. It knows nothing of other ranks.
 *
 * Why not ReLU: its derivative jumps at 0. A sum whose last bit differs, since
 * other ranks added in another order, then now and then takes the other
 * branch, and the losses of two runs part. With tanh they stay together.
 *
 * Parameters and gradients are two flat arrays of the same layout, so that a
 * layer's gradient is one span, ready to be summed over the ranks as soon as
 * model_backward has made it. Not for several threads at a time. */
#ifndef FASHION_MODEL_H
#define FASHION_MODEL_H

#include <stddef.h>
#include <stdint.h>

enum { MODEL_LAYERS = 8 };

/* outputs = inputs * weights + biases; weights are stored input by input. */
struct layer {
  int in, out;
  size_t begin, count; /* its span of the flat arrays: in * out weights, then out biases */
  float *outputs;      /* batch * out; after tanh, but for the last layer */
  float *deltas;       /* batch * out: d loss / d outputs */
};

struct model {
  int layers, batch;
  struct layer layer[MODEL_LAYERS];
  size_t count; /* elements of each flat array; spans start at multiples of 64 bytes */
  float *parameters;
  float *gradients;    /* of the sum of the samples' losses; borrowed from the caller */
  const float *inputs; /* of the latest forward pass; borrowed */
};

/* Layers from widths[0] inputs to widths[layers] outputs, for up to `batch`
 * samples at a time; parameters are zero. The caller sets model->gradients to
 * memory of model->count floats. Returns -1 when memory is out. */
int model_init(struct model *model, const int *widths, int layers, int batch);
void model_fini(struct model *model);
/* Random weights of variance 1 / in (LeCun et al. 1998) and biases of zero. */
void model_randomise(struct model *model, uint64_t seed);
/* Parameters, without the gaps between the spans. */
size_t model_parameters(const struct model *model);

/* n samples, n <= batch; also 0. `inputs` is read until the backward pass ends. */
void model_forward(struct model *model, const float *inputs, int n);
/* Sum of the samples' losses after a forward pass; adds the number of right
 * answers to *correct and prepares the backward pass. */
double model_loss(struct model *model, const uint8_t *labels, int n, int64_t *correct);
/* The gradient of one layer; call it for the last layer first, then downwards. */
void model_backward(struct model *model, int layer, int n);

/* FNV-1a over the parameters' bits: equal for equal bits, on any rank. */
uint64_t model_checksum(const struct model *model);

#endif
