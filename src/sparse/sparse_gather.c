/* Methods in which every rank gets all rows of all ranks and merges them itself: in the same order everywhere, and so
 * with bitwise equal results. */
#include <string.h>

#include "sparse_parts.h"

/* Returns the destination of all ranks' rows: an AllGather's result needs no further steps. */
static struct banyan_sparse *place_of(struct by_sparse_exchange *exchange) {
  return exchange->call.collective == BANYAN_ALLGATHER ? exchange->call.out : &exchange->queue->gathered;
}

static enum banyan_status merge(struct by_sparse_exchange *exchange, uint32_t strand,
                                struct by_sparse_scratch *scratch) {
  struct banyan_sparse *all = place_of(exchange), *out = exchange->call.out;
  all->count = exchange->all.total;
  all->unique = exchange->queue->options.n == 1 && (exchange->in.unique || exchange->ascending);
  if (exchange->call.collective != BANYAN_ALLREDUCE) return BANYAN_OK;
  BY_TRY(by_sparse_merge(all, scratch, out));
  by_sparse_average(exchange, out);
  return BANYAN_OK;
}

static enum banyan_status finish(struct by_sparse_exchange *exchange, uint32_t strand) {
  by_sparse_end(exchange, BANYAN_OK);
  return BANYAN_OK;
}

static enum banyan_status merge_all(struct by_sparse_exchange *exchange, uint32_t strand) {
  bool merges = exchange->call.collective == BANYAN_ALLREDUCE;
  return by_sparse_do(exchange, strand, merges ? by_sparse_bytes(exchange, exchange->all.total) : 0, merge, finish);
}

/* ---- blocks as long as they are */

size_t by_sparse_before_own(const struct by_sparse_exchange *exchange) {
  size_t before = 0;
  for (uint32_t r = 0, own = by_team_rank(exchange->queue->team); r < own; r++) before += exchange->union_counts[r];
  return before;
}

enum banyan_status by_sparse_gather_blocks(struct by_sparse_exchange *exchange, const struct banyan_sparse *into) {
  uint32_t n = exchange->queue->options.n;
  for (uint32_t r = 0; r < n; r++) {
    exchange->counts[r] = exchange->union_counts[r];
    exchange->counts[n + r] = exchange->union_counts[r] * into->width;
  }
  size_t own = exchange->union_counts[by_team_rank(exchange->queue->team)];
  struct banyan_sparse mine = by_sparse_slice(into, by_sparse_before_own(exchange), own);
  struct banyan_call call = {.collective = BANYAN_ALLGATHER, .counts = exchange->counts};
  return by_sparse_call_both(exchange, call, &mine, into);
}

static enum banyan_status copy_own(struct by_sparse_exchange *exchange, uint32_t strand,
                                   struct by_sparse_scratch *scratch) {
  by_sparse_copy_own(exchange, place_of(exchange), by_sparse_before_own(exchange));
  return BANYAN_OK;
}

/* Copies this rank's rows to their place behind those of the ranks before it. */
static enum banyan_status place_own(struct by_sparse_exchange *exchange,
                                    enum banyan_status (*then)(struct by_sparse_exchange *exchange, uint32_t strand)) {
  for (uint32_t r = 0; r < exchange->queue->options.n; r++)
    exchange->union_counts[r] = by_sparse_word_of(&exchange->words, r)->count;
  BY_TRY(by_sparse_make(&exchange->in, exchange->all.total, place_of(exchange)));
  return by_sparse_do(exchange, 0, by_sparse_bytes(exchange, exchange->in.count), copy_own, then);
}

static enum banyan_status send_blocks(struct by_sparse_exchange *exchange, uint32_t strand) {
  exchange->strands[0].then = merge_all;
  return by_sparse_gather_blocks(exchange, place_of(exchange));
}

enum banyan_status by_sparse_begin_gather(struct by_sparse_exchange *exchange) {
  return place_own(exchange, send_blocks);
}

/* ---- a broadcast from each */

static enum banyan_status broadcast_blocks(struct by_sparse_exchange *exchange, uint32_t strand) {
  static const struct banyan_sparse nothing;
  size_t before = 0;
  exchange->strands[0].then = merge_all;
  for (uint32_t r = 0; r < exchange->queue->options.n; r++) {
    struct banyan_sparse block =
        by_sparse_slice(place_of(exchange), before, by_sparse_word_of(&exchange->words, r)->count);
    struct banyan_call call = {.collective = BANYAN_BROADCAST, .root = (int)r, .count = block.count};
    before += block.count;
    if (block.count) BY_TRY(by_sparse_call_both(exchange, call, &nothing, &block));
  }
  return BANYAN_OK;
}

enum banyan_status by_sparse_begin_broadcast(struct by_sparse_exchange *exchange) {
  return place_own(exchange, broadcast_blocks);
}

/* ---- all blocks as long as the largest */

/* Moves the blocks together, over their padding, and merges them. */
static enum banyan_status close_up(struct by_sparse_exchange *exchange, uint32_t strand,
                                   struct by_sparse_scratch *scratch) {
  struct banyan_sparse *all = place_of(exchange);
  size_t row = banyan_dtype_size(all->row_dtype), values = all->width * banyan_dtype_size(all->dtype), to = 0;
  for (uint32_t r = 0; r < exchange->queue->options.n; r++) {
    size_t from = r * exchange->all.most, count = by_sparse_word_of(&exchange->words, r)->count;
    if (from != to) {
      memmove((char *)all->rows + to * row, (char *)all->rows + from * row, count * row);
      memmove((char *)all->values + to * values, (char *)all->values + from * values, count * values);
    }
    to += count;
  }
  return merge(exchange, strand, scratch);
}

static enum banyan_status take_padded(struct by_sparse_exchange *exchange, uint32_t strand) {
  return by_sparse_do(exchange, strand, by_sparse_bytes(exchange, exchange->all.total), close_up, finish);
}

static struct banyan_sparse own_block(struct by_sparse_exchange *exchange) {
  size_t block = exchange->all.most;
  return by_sparse_slice(place_of(exchange), by_team_rank(exchange->queue->team) * block, block);
}

static enum banyan_status pad(struct by_sparse_exchange *exchange, uint32_t strand, struct by_sparse_scratch *scratch) {
  size_t block = exchange->all.most, mine = exchange->in.count;
  struct banyan_sparse own = own_block(exchange);
  struct banyan_sparse rest = by_sparse_slice(&own, mine, block - mine);
  by_sparse_copy_own(exchange, &own, 0);
  memset(rest.rows, 0, rest.count * banyan_dtype_size(rest.row_dtype));
  memset(rest.values, 0, rest.count * rest.width * banyan_dtype_size(rest.dtype));
  return BANYAN_OK;
}

static enum banyan_status send_padded(struct by_sparse_exchange *exchange, uint32_t strand) {
  struct banyan_sparse own = own_block(exchange);
  struct banyan_call call = {.collective = BANYAN_ALLGATHER, .count = exchange->all.most};
  exchange->strands[0].then = take_padded;
  return by_sparse_call_both(exchange, call, &own, place_of(exchange));
}

enum banyan_status by_sparse_begin_padded(struct by_sparse_exchange *exchange) {
  size_t block = exchange->all.most;
  BY_TRY(by_sparse_make(&exchange->in, block * exchange->queue->options.n, place_of(exchange)));
  return by_sparse_do(exchange, 0, by_sparse_bytes(exchange, block), pad, send_padded);
}
