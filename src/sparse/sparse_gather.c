/* Ways in which every rank gets all rows of all ranks and merges them itself: in the same order everywhere, and so to
 * the same bits. */
#include <string.h>

#include "sparse_parts.h"

/* Where the rows of all ranks go: an allgather has no more to do with them. */
static struct banyan_sparse *place_of(struct by_sparse_exchange *exchange) {
  return exchange->call.collective == BANYAN_ALLGATHER ? exchange->call.out : &exchange->queue->gathered;
}

static void copy_in(const struct banyan_sparse *from, struct banyan_sparse to) {
  if (!from->count) return;
  memcpy(to.rows, from->rows, from->count * banyan_dtype_size(from->row_dtype));
  memcpy(to.values, from->values, from->count * from->width * banyan_dtype_size(from->dtype));
}

static enum banyan_status finish(struct by_sparse_exchange *exchange, uint32_t strand) {
  struct banyan_sparse *all = place_of(exchange), *out = exchange->call.out;
  all->count = by_sparse_total(exchange);
  all->unique = exchange->queue->options.n == 1 && (exchange->in.unique || exchange->ascending);
  if (exchange->call.collective == BANYAN_ALLREDUCE) {
    BY_TRY(by_sparse_merge(all, &exchange->queue->scratch, out));
    by_sparse_average(exchange, out);
  }
  by_sparse_end(exchange, BANYAN_OK);
  return BANYAN_OK;
}

/* ---- blocks as long as they are */

enum banyan_status by_sparse_gather_blocks(struct by_sparse_exchange *exchange, struct banyan_sparse *into,
                                           const uint64_t *counts) {
  uint32_t n = exchange->queue->options.n, self = by_team_rank(exchange->queue->team);
  size_t *rows = exchange->counts, *elements = exchange->counts + n, before = 0;
  for (uint32_t r = 0; r < n; r++) {
    if (r < self) before += counts[r];
    rows[r] = counts[r];
    elements[r] = counts[r] * into->width;
  }
  struct banyan_sparse mine = by_sparse_slice(into, before, counts[self]);
  struct banyan_call call = {
      .collective = BANYAN_ALLGATHER, .dtype = into->row_dtype, .send = mine.rows, .recv = into->rows, .counts = rows};
  BY_TRY(by_sparse_call(exchange, 0, &call));
  call.dtype = into->dtype;
  call.send = mine.values;
  call.recv = into->values;
  call.counts = elements;
  return by_sparse_call(exchange, 0, &call);
}

static size_t before_mine(const struct by_sparse_exchange *exchange) {
  size_t before = 0;
  for (uint32_t r = 0; r < by_team_rank(exchange->queue->team); r++) before += exchange->words[r].count;
  return before;
}

enum banyan_status by_sparse_begin_gather(struct by_sparse_exchange *exchange) {
  struct banyan_sparse *all = place_of(exchange);
  uint64_t *counts = exchange->union_counts;
  for (uint32_t r = 0; r < exchange->queue->options.n; r++) counts[r] = exchange->words[r].count;
  BY_TRY(by_sparse_make(&exchange->in, by_sparse_total(exchange), all));
  copy_in(&exchange->in, by_sparse_slice(all, before_mine(exchange), exchange->in.count));
  exchange->strands[0].then = finish;
  return by_sparse_gather_blocks(exchange, all, counts);
}

/* ---- a broadcast from each */

enum banyan_status by_sparse_begin_broadcast(struct by_sparse_exchange *exchange) {
  struct banyan_sparse *all = place_of(exchange);
  size_t before = 0;
  BY_TRY(by_sparse_make(&exchange->in, by_sparse_total(exchange), all));
  copy_in(&exchange->in, by_sparse_slice(all, before_mine(exchange), exchange->in.count));
  exchange->strands[0].then = finish;
  for (uint32_t r = 0; r < exchange->queue->options.n; r++) {
    struct banyan_sparse block = by_sparse_slice(all, before, exchange->words[r].count);
    before += block.count;
    if (!block.count) continue;
    struct banyan_call call = {.collective = BANYAN_BROADCAST,
                               .dtype = block.row_dtype,
                               .root = (int)r,
                               .recv = block.rows,
                               .count = block.count};
    BY_TRY(by_sparse_call(exchange, 0, &call));
    call.dtype = block.dtype;
    call.recv = block.values;
    call.count = block.count * block.width;
    BY_TRY(by_sparse_call(exchange, 0, &call));
  }
  return BANYAN_OK;
}

/* ---- all blocks as long as the largest */

/* Moves the blocks together, over what filled them up. */
static enum banyan_status close_up(struct by_sparse_exchange *exchange, uint32_t strand) {
  struct banyan_sparse *all = place_of(exchange);
  size_t row = banyan_dtype_size(all->row_dtype), values = all->width * banyan_dtype_size(all->dtype), to = 0;
  for (uint32_t r = 0; r < exchange->queue->options.n; r++) {
    size_t from = r * exchange->all.most, count = exchange->words[r].count;
    if (from != to) {
      memmove((char *)all->rows + to * row, (char *)all->rows + from * row, count * row);
      memmove((char *)all->values + to * values, (char *)all->values + from * values, count * values);
    }
    to += count;
  }
  return finish(exchange, strand);
}

enum banyan_status by_sparse_begin_padded(struct by_sparse_exchange *exchange) {
  struct banyan_sparse *all = place_of(exchange);
  uint32_t self = by_team_rank(exchange->queue->team);
  size_t block = exchange->all.most, mine = exchange->in.count;
  BY_TRY(by_sparse_make(&exchange->in, block * exchange->queue->options.n, all));
  struct banyan_sparse own = by_sparse_slice(all, self * block, block);
  struct banyan_sparse rest = by_sparse_slice(&own, mine, block - mine);
  copy_in(&exchange->in, own);
  memset(rest.rows, 0, rest.count * banyan_dtype_size(rest.row_dtype));
  memset(rest.values, 0, rest.count * rest.width * banyan_dtype_size(rest.dtype));
  exchange->strands[0].then = close_up;
  struct banyan_call call = {
      .collective = BANYAN_ALLGATHER, .dtype = all->row_dtype, .send = own.rows, .recv = all->rows, .count = block};
  BY_TRY(by_sparse_call(exchange, 0, &call));
  call.dtype = all->dtype;
  call.send = own.values;
  call.recv = all->values;
  call.count = block * all->width;
  return by_sparse_call(exchange, 0, &call);
}
