#include "data.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "random.h"

/* Of Fashion-MNIST's 60,000 training images, on a scale of 0 to 1. */
static const float pixel_mean = 0.2860f, pixel_deviation = 0.3530f;

/* An open idx file: magic number, one big-endian size for each dimension, then bytes.
 *   00 00 08 <dimensions> | size | size ... | data */
struct idx {
  char path[PATH_MAX];
  gzFile file;
  uint32_t sizes[3];
  char *error;
};

__attribute__((format(printf, 2, 3))) static int fail(char *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error, DATA_ERROR, format, arguments);
  va_end(arguments);
  return -1;
}

static int fail_open(const struct idx *idx) {
  if (errno != ENOENT && errno != ENOTDIR) return fail(idx->error, "cannot open %s: %s", idx->path, strerror(errno));
  return fail(idx->error,
              "there is no %s; get the images with `apt-get install dataset-fashion-mnist`"
              " or say where they are with --data DIR",
              idx->path);
}

/* Exactly n bytes, or an error that names the place. `what` says what they are. */
static int read_bytes(struct idx *idx, void *out, size_t n, const char *what) {
  long place = gztell(idx->file);
  int got = gzread(idx->file, out, (unsigned)n);
  if (got >= 0 && (size_t)got == n) return 0;
  int code;
  const char *reason = gzerror(idx->file, &code); /* begins with the path */
  if (code != Z_OK && code != Z_BUF_ERROR) return fail(idx->error, "%s (at unpacked byte %ld)", reason, place);
  return fail(idx->error, "%s: ends after %ld unpacked bytes, in the %s, which should end at byte %ld", idx->path,
              place + (got > 0 ? got : 0), what, place + (long)n);
}

static int read_header(struct idx *idx, int dimensions) {
  uint8_t bytes[4];
  if (read_bytes(idx, bytes, 4, "magic number")) return -1;
  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 || bytes[3] != dimensions)
    return fail(idx->error, "%s: byte 0: magic number is %02x%02x%02x%02x, must be 000008%02x (bytes, %d dimensions)",
                idx->path, bytes[0], bytes[1], bytes[2], bytes[3], dimensions, dimensions);
  for (int i = 0; i < dimensions; i++) {
    if (read_bytes(idx, bytes, 4, "sizes")) return -1;
    idx->sizes[i] = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    if (idx->sizes[i] < 1 || idx->sizes[i] > 1000000)
      return fail(idx->error, "%s: byte %d: size of dimension %d is %u, must be 1 to 1000000", idx->path, 4 + 4 * i,
                  i + 1, idx->sizes[i]);
  }
  return 0;
}

/* Opens and reads the header. On success the caller closes idx->file. */
static int open_idx(struct idx *idx, const char *dir, const char *name, const char *suffix, int dimensions) {
  int length = snprintf(idx->path, sizeof idx->path, "%s/%s%s", dir, name, suffix);
  if (length >= (int)sizeof idx->path) return fail(idx->error, "the path of --data is too long");
  idx->file = gzopen(idx->path, "rb");
  if (!idx->file) return fail_open(idx);
  if (read_header(idx, dimensions) == 0) return 0;
  gzclose(idx->file);
  return -1;
}

/* The n bytes behind the header, and nothing behind them; allocates *out. */
static int read_body(struct idx *idx, uint64_t n, const char *what, uint8_t **out) {
  if (n > 1u << 30)
    return fail(idx->error, "%s: byte 4: sizes ask for %llu bytes, more than 1 GiB", idx->path, (unsigned long long)n);
  *out = malloc(n);
  if (!*out) return fail(idx->error, "%s: no memory for %llu bytes", idx->path, (unsigned long long)n);
  if (read_bytes(idx, *out, n, what)) return -1;
  if (gzgetc(idx->file) == -1) return 0;
  return fail(idx->error, "%s: byte %ld: the file goes on behind its %s", idx->path, gztell(idx->file) - 1, what);
}

static int read_images(struct data *data, const char *dir, const char *name, char *error) {
  struct idx idx = {.error = error};
  if (open_idx(&idx, dir, name, "-images-idx3-ubyte.gz", 3)) return -1;
  uint64_t width = (uint64_t)idx.sizes[1] * idx.sizes[2];
  int failed = 0;
  if (width > 1 << 16)
    failed = fail(error, "%s: byte 8: images of %u by %u pixels are too large", idx.path, idx.sizes[1], idx.sizes[2]);
  else
    failed = read_body(&idx, idx.sizes[0] * width, "pixels", &data->pixels);
  gzclose(idx.file);
  data->count = (int)idx.sizes[0];
  data->width = (int)width;
  return failed;
}

static int check_labels(const struct data *data, const struct idx *idx) {
  for (int i = 0; i < data->count; i++)
    if (data->labels[i] >= DATA_CLASSES)
      return fail(idx->error, "%s: byte %d: label of image %d is %d, must be below %d", idx->path, 8 + i, i,
                  data->labels[i], DATA_CLASSES);
  return 0;
}

static int read_labels(struct data *data, const char *dir, const char *name, char *error) {
  struct idx idx = {.error = error};
  if (open_idx(&idx, dir, name, "-labels-idx1-ubyte.gz", 1)) return -1;
  int failed = 0;
  if ((int)idx.sizes[0] != data->count)
    failed = fail(error, "%s: byte 4: there are %u labels for %d images", idx.path, idx.sizes[0], data->count);
  else if (!(failed = read_body(&idx, idx.sizes[0], "labels", &data->labels)))
    failed = check_labels(data, &idx);
  gzclose(idx.file);
  return failed;
}

int data_load(const char *dir, const char *name, struct data *out, char *error) {
  *out = (struct data){0};
  if (read_images(out, dir, name, error) == 0 && read_labels(out, dir, name, error) == 0) return 0;
  data_free(out);
  return -1;
}

void data_free(struct data *data) {
  free(data->pixels);
  free(data->labels);
  *data = (struct data){0};
}

void data_gather(const struct data *data, const uint32_t *order, int n, float *images, uint8_t *labels) {
  const float scale = 1 / (255 * pixel_deviation), shift = pixel_mean / pixel_deviation;
  for (int i = 0; i < n; i++) {
    const uint8_t *from = data->pixels + (size_t)order[i] * (size_t)data->width;
    float *to = images + (size_t)i * (size_t)data->width;
    for (int j = 0; j < data->width; j++) to[j] = (float)from[j] * scale - shift;
    labels[i] = data->labels[order[i]];
  }
}

void data_shuffle(uint64_t seed, int epoch, uint32_t *order, int n) {
  uint64_t state = seed;
  state = random_next(&state) + (uint64_t)epoch;
  for (int i = 0; i < n; i++) order[i] = (uint32_t)i;
  for (int i = n - 1; i > 0; i--) { /* Fisher and Yates */
    int j = (int)(random_unit(&state) * (i + 1));
    uint32_t swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
  }
}
