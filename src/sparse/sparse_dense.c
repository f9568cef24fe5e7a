/* The whole table, where the union is hardly sparse: zeros in rows that no rank has. Values do not show
 * which rows those are, so a bit for each row goes along. */
#include <string.h>

#include "sparse_parts.h"

static size_t values_bytes(const struct banyan_sparse *tensor) {
  return tensor->height * tensor->width * banyan_dtype_size(tensor->dtype);
}

static unsigned char *bits_of(const struct by_sparse_exchange *exchange) {
  return (unsigned char *)exchange->queue->dense.memory + values_bytes(&exchange->in);
}

static enum banyan_status collect(struct by_sparse_exchange *exchange, uint32_t strand) {
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
  by_sparse_end(exchange, BANYAN_OK);
  return BANYAN_OK;
}

enum banyan_status by_sparse_begin_dense(struct by_sparse_exchange *exchange) {
  const struct banyan_sparse *in = &exchange->in;
  size_t bytes = (in->height + 7) / 8;
  size_t all = values_bytes(in) + bytes, row = in->width * banyan_dtype_size(in->dtype);
  char *table = by_sparse_scratch_need(&exchange->queue->dense, all);
  if (!table) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a dense table of %zu bytes", all);
  memset(table, 0, all);
  BY_TRY(by_sparse_put_in_order(exchange));
  unsigned char *bits = bits_of(exchange);
  for (size_t i = 0; i < in->count; i++) {
    size_t r = (size_t)by_sparse_row_at(in, i);
    bits[r / 8] |= (unsigned char)(1u << r % 8);
    memcpy(table + r * row, (const char *)in->values + i * row, row);
  }
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE,
                             .dtype = BANYAN_UINT8,
                             .op = BANYAN_OR,
                             .send = bits,
                             .recv = bits,
                             .count = bytes};
  exchange->strands[0].then = collect;
  BY_TRY(by_sparse_call(exchange, 0, &call));
  call.dtype = in->dtype;
  call.op = exchange->call.op;
  call.send = call.recv = table;
  call.count = in->height * in->width;
  return by_sparse_call(exchange, 0, &call);
}
