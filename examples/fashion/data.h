/* Labelled images in the idx format of MNIST and Fashion-MNIST, gzipped.
 * A set lives from data_load to data_free and is only read in between. */
#ifndef FASHION_DATA_H
#define FASHION_DATA_H

#include <stddef.h>
#include <stdint.h>

enum { DATA_CLASSES = 10, DATA_ERROR = 512 };

struct data {
  int count;       /* images */
  int width;       /* pixels of one image */
  uint8_t *pixels; /* count * width, 0 to 255 */
  uint8_t *labels; /* count, below DATA_CLASSES */
};

/* Reads <dir>/<name>-images-idx3-ubyte.gz and <name>-labels-idx1-ubyte.gz.
 * Returns 0, or -1 with file and place in `error` (DATA_ERROR bytes). */
int data_load(const char *dir, const char *name, struct data *out, char *error);
void data_free(struct data *data);

/* Copies the images order[0 .. n - 1] into n rows of `images`, with mean 0 and
 * variance 1 over the training set, and their labels into `labels`. */
void data_gather(const struct data *data, const uint32_t *order, int n, float *images, uint8_t *labels);

/* An order of 0 .. n - 1 that depends on nothing but seed and epoch, so that
 * all ranks shuffle alike without talking. */
void data_shuffle(uint64_t seed, int epoch, uint32_t *order, int n);

#endif
