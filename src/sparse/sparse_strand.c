/* The calls that an exchange has under way, and its end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "reduce.h"
#include "sparse_parts.h"

enum banyan_status by_sparse_need_strands(struct by_sparse_exchange *exchange, uint32_t n) {
  if (n > exchange->strands_room) {
    struct by_sparse_strand *strands = realloc(exchange->strands, n * sizeof *strands);
    if (!strands) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a sparse call over %u trees", n);
    memset(strands + exchange->strands_room, 0, (n - exchange->strands_room) * sizeof *strands);
    exchange->strands = strands;
    exchange->strands_room = n;
  }
  exchange->n_strands = n;
  return BANYAN_OK;
}

enum banyan_status by_sparse_start_call(struct by_sparse_exchange *exchange, struct by_team *team, uint32_t index,
                                        const struct banyan_call *call) {
  struct by_sparse_strand *strand = &exchange->strands[index];
  if (!BY_ARRAY_GROW(&strand->calls, &strand->room, strand->n + 1))
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u calls under way", strand->n + 1);
  BY_TRY(by_engine_start(team, call, exchange->deadline, &strand->calls[strand->n]));
  strand->n++;
  return BANYAN_OK;
}

enum banyan_status by_sparse_call(struct by_sparse_exchange *exchange, uint32_t strand,
                                  const struct banyan_call *call) {
  return by_sparse_start_call(exchange, exchange->queue->team, strand, call);
}

enum banyan_status by_sparse_call_both(struct by_sparse_exchange *exchange, struct banyan_call call,
                                       const struct banyan_sparse *send, const struct banyan_sparse *recv) {
  call.dtype = recv->row_dtype;
  call.send = send->rows;
  call.recv = recv->rows;
  BY_TRY(by_sparse_call(exchange, 0, &call));
  call.dtype = recv->dtype;
  call.send = send->values;
  call.recv = recv->values;
  call.count *= recv->width;
  if (call.counts) call.counts += exchange->queue->options.n;
  return by_sparse_call(exchange, 0, &call);
}

void by_sparse_end(struct by_sparse_exchange *exchange, enum banyan_status status) {
  TAILQ_REMOVE(&exchange->queue->exchanges, exchange, next);
  if (status == BANYAN_OK && exchange->tables.n) by_sparse_tables_part(&exchange->tables);
  exchange->status = status;
  if (status != BANYAN_OK) snprintf(exchange->error, sizeof exchange->error, "%s", banyan_error_text());
  if (status == BANYAN_OK && exchange->call.taken) *exchange->call.taken = exchange->way;
  if (status == BANYAN_OK) {
    exchange->queue->ended = exchange->number;
    exchange->queue->lasted = by_clock_now(&exchange->queue->options.clock) - exchange->began;
  }
  for (uint32_t s = 0; s < exchange->n_strands; s++) {
    struct by_sparse_strand *strand = &exchange->strands[s];
    for (uint32_t i = 0; i < strand->n; i++) by_call_release(strand->calls[i]);
    strand->n = 0;
    strand->then = NULL;
  }
  by_sparse_union_fini(&exchange->all);
  by_plan_destroy(exchange->plan);
  exchange->plan = NULL;
  exchange->ended = true;
}

void by_sparse_need_values(struct by_sparse_exchange *exchange) {
  struct by_sparse_tables *tables = &exchange->tables;
  if (!tables->n || tables->has_values) return;
  by_sparse_tables_copy_values(tables, tables->in.values);
  tables->has_values = true;
}

void by_sparse_copy_own(const struct by_sparse_exchange *exchange, const struct banyan_sparse *to, size_t first) {
  const struct by_sparse_tables *tables = &exchange->tables;
  if (!tables->n) {
    by_sparse_copy(&exchange->in, to, first);
    return;
  }
  struct banyan_sparse part = by_sparse_slice(to, first, exchange->in.count);
  by_sparse_copy_rows(&exchange->in, &part);
  by_sparse_tables_copy_values(tables, part.values);
}

enum banyan_status by_sparse_put_in_order(struct by_sparse_exchange *exchange) {
  by_sparse_need_values(exchange);
  if (exchange->ascending) return BANYAN_OK;
  BY_TRY(by_sparse_merge(&exchange->in, &exchange->scratch, &exchange->merged));
  exchange->in = exchange->merged;
  return BANYAN_OK;
}

void by_sparse_average(const struct by_sparse_exchange *exchange, struct banyan_sparse *tensor) {
  if (exchange->call.op == BANYAN_AVERAGE)
    by_kernel_divide(tensor->dtype, tensor->values, tensor->values, exchange->queue->options.n,
                     tensor->count * tensor->width);
}
