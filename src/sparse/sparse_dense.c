/* Exchanges the whole table, where the union is hardly sparse: rows that no rank has are zeros. As values do not show
 * which rows those are, a bit for each row is sent too. */
#include <string.h>

#include "sparse_parts.h"

static size_t values_bytes(const struct banyan_sparse *tensor) {
  return tensor->height * tensor->width * banyan_dtype_size(tensor->dtype);
}

static unsigned char *bits_of(const struct by_sparse_exchange *exchange) {
  return (unsigned char *)exchange->queue->dense.memory + values_bytes(&exchange->in);
}

static enum banyan_status collect(struct by_sparse_exchange *exchange, uint32_t strand,
                                  struct by_sparse_scratch *scratch) {
  const unsigned char *bits = bits_of(exchange);
  const char *dense = exchange->queue->dense.memory;
  struct banyan_sparse *out = exchange->call.out;
  size_t count = 0, height = exchange->in.height;
  for (size_t r = 0; r < height; r++) count += bits[r / 8] >> r % 8 & 1;
  BY_TRY(by_sparse_make(&exchange->in, count, out));
  size_t row = out->width * banyan_dtype_size(out->dtype);
  for (size_t r = 0; r < height; r++) {
    if (!(bits[r / 8] >> r % 8 & 1)) continue;
    memcpy((char *)out->values + out->count * row, dense + r * row, row);
    by_sparse_put_row(out, out->count++, (int64_t)r);
  }
  return BANYAN_OK;
}

static enum banyan_status finish(struct by_sparse_exchange *exchange, uint32_t strand) {
  by_sparse_end(exchange, BANYAN_OK);
  return BANYAN_OK;
}

static size_t bits_bytes(const struct banyan_sparse *tensor) {
  return (tensor->height + 7) / 8;
}

static enum banyan_status take_sum(struct by_sparse_exchange *exchange, uint32_t strand) {
  return by_sparse_do(exchange, strand, values_bytes(&exchange->in), collect, finish);
}

static enum banyan_status fill(struct by_sparse_exchange *exchange, uint32_t strand,
                               struct by_sparse_scratch *scratch) {
  const struct banyan_sparse *in = &exchange->in;
  size_t row = in->width * banyan_dtype_size(in->dtype);
  char *table = exchange->queue->dense.memory;
  unsigned char *bits = bits_of(exchange);
  memset(table, 0, values_bytes(in) + bits_bytes(in));
  BY_TRY(by_sparse_put_in_order(exchange, scratch));
  for (size_t i = 0; i < in->count; i++) {
    size_t r = (size_t)by_sparse_row_at(in, i);
    bits[r / 8] |= (unsigned char)(1u << r % 8);
    memcpy(table + r * row, (const char *)in->values + i * row, row);
  }
  return BANYAN_OK;
}

static enum banyan_status reduce(struct by_sparse_exchange *exchange, uint32_t strand) {
  const struct banyan_sparse *in = &exchange->in;
  unsigned char *bits = bits_of(exchange);
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE,
                             .dtype = BANYAN_UINT8,
                             .op = BANYAN_OR,
                             .send = bits,
                             .recv = bits,
                             .count = bits_bytes(in)};
  exchange->strands[0].then = take_sum;
  BY_TRY(by_sparse_call(exchange, 0, &call));
  call.dtype = in->dtype;
  call.op = exchange->call.op;
  call.send = call.recv = exchange->queue->dense.memory;
  call.count = in->height * in->width;
  return by_sparse_call(exchange, 0, &call);
}

enum banyan_status by_sparse_begin_dense(struct by_sparse_exchange *exchange) {
  size_t bytes = values_bytes(&exchange->in), all = bytes + bits_bytes(&exchange->in);
  if (!by_sparse_scratch_need(&exchange->queue->dense, all))
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a dense table of %zu bytes", all);
  return by_sparse_do(exchange, 0, bytes, fill, reduce);
}
