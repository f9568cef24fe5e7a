#include "model.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

static size_t round_to_line(size_t floats) {
  return (floats + 15) / 16 * 16;
}

static int layer_init(struct layer *layer, int in, int out, int batch) {
  layer->in = in;
  layer->out = out;
  layer->count = ((size_t)in + 1) * (size_t)out;
  layer->outputs = calloc((size_t)batch * (size_t)out, sizeof(float));
  layer->deltas = calloc((size_t)batch * (size_t)out, sizeof(float));
  return layer->outputs && layer->deltas ? 0 : -1;
}

int model_init(struct model *model, const int *widths, int layers, int batch) {
  *model = (struct model){.layers = layers, .batch = batch};
  int failed = 0;
  for (int i = 0; i < layers; i++) {
    model->layer[i].begin = model->count;
    failed |= layer_init(&model->layer[i], widths[i], widths[i + 1], batch);
    model->count += round_to_line(model->layer[i].count);
  }
  model->parameters = calloc(model->count, sizeof(float));
  if (model->parameters && !failed) return 0;
  model_fini(model);
  return -1;
}

void model_fini(struct model *model) {
  for (int i = 0; i < model->layers; i++) {
    free(model->layer[i].outputs);
    free(model->layer[i].deltas);
  }
  free(model->parameters);
  *model = (struct model){0};
}

void model_randomise(struct model *model, uint64_t seed) {
  for (int i = 0; i < model->layers; i++) {
    const struct layer *layer = &model->layer[i];
    float *weights = model->parameters + layer->begin;
    double limit = sqrt(3.0 / layer->in);
    for (size_t j = 0; j < (size_t)layer->in * (size_t)layer->out; j++)
      weights[j] = (float)((2 * random_unit(&seed) - 1) * limit);
  }
}

size_t model_parameters(const struct model *model) {
  size_t count = 0;
  for (int i = 0; i < model->layers; i++) count += model->layer[i].count;
  return count;
}

static const float *inputs_of(const struct model *model, int layer) {
  return layer ? model->layer[layer - 1].outputs : model->inputs;
}

static void forward_layer(struct model *model, int index, int n) {
  const struct layer *layer = &model->layer[index];
  const float *weights = model->parameters + layer->begin;
  const float *biases = weights + (size_t)layer->in * (size_t)layer->out;
  for (int i = 0; i < n; i++)
    memcpy(layer->outputs + (size_t)i * (size_t)layer->out, biases, (size_t)layer->out * sizeof(float));
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, layer->out, layer->in, 1, inputs_of(model, index),
              layer->in, weights, layer->out, 1, layer->outputs, layer->out);
}

static void apply_tanh(float *values, size_t n) {
  for (size_t i = 0; i < n; i++) values[i] = tanhf(values[i]);
}

void model_forward(struct model *model, const float *inputs, int n) {
  model->inputs = inputs;
  for (int i = 0; i < model->layers; i++) {
    forward_layer(model, i, n);
    if (i + 1 < model->layers) apply_tanh(model->layer[i].outputs, (size_t)n * (size_t)model->layer[i].out);
  }
}

static int largest(const float *values, int n) {
  int best = 0;
  for (int i = 1; i < n; i++)
    if (values[i] > values[best]) best = i;
  return best;
}

/* Cross-entropy of one sample's softmax; d loss / d logit = probability - [is the label]. */
static double sample_loss(const float *logits, int n, int label, float *deltas) {
  float top = logits[largest(logits, n)]; /* taken away first, so that exp cannot overflow */
  double sum = 0;
  for (int i = 0; i < n; i++) sum += exp(logits[i] - top);
  for (int i = 0; i < n; i++) deltas[i] = (float)(exp(logits[i] - top) / sum);
  deltas[label] -= 1;
  return log(sum) - (logits[label] - top);
}

double model_loss(struct model *model, const uint8_t *labels, int n, int64_t *correct) {
  const struct layer *last = &model->layer[model->layers - 1];
  double loss = 0;
  for (int i = 0; i < n; i++) {
    const float *logits = last->outputs + (size_t)i * (size_t)last->out;
    loss += sample_loss(logits, last->out, labels[i], last->deltas + (size_t)i * (size_t)last->out);
    *correct += largest(logits, last->out) == labels[i];
  }
  return loss;
}

static void add_rows(const float *rows, int n, int width, float *out) {
  memset(out, 0, (size_t)width * sizeof(float));
  for (int i = 0; i < n; i++)
    for (int j = 0; j < width; j++) out[j] += rows[(size_t)i * (size_t)width + (size_t)j];
}

/* The deltas of `below` from those of `layer`: back through the weights, then
 * through tanh, whose derivative is 1 - tanh^2. */
static void backward_deltas(const struct layer *layer, const struct layer *below, const float *weights, int n) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, layer->in, layer->out, 1, layer->deltas, layer->out, weights,
              layer->out, 0, below->deltas, layer->in);
  for (size_t i = 0; i < (size_t)n * (size_t)layer->in; i++)
    below->deltas[i] *= 1 - below->outputs[i] * below->outputs[i];
}

void model_backward(struct model *model, int index, int n) {
  const struct layer *layer = &model->layer[index];
  float *weights = model->gradients + layer->begin;
  float *biases = weights + (size_t)layer->in * (size_t)layer->out;
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, layer->in, layer->out, n, 1, inputs_of(model, index), layer->in,
              layer->deltas, layer->out, 0, weights, layer->out);
  add_rows(layer->deltas, n, layer->out, biases);
  if (index > 0) backward_deltas(layer, &model->layer[index - 1], model->parameters + layer->begin, n);
}

uint64_t model_checksum(const struct model *model) {
  const unsigned char *bytes = (const unsigned char *)model->parameters;
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < model->count * sizeof(float); i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}
