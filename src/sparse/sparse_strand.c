/* The calls of an exchange in progress, its work without the lock, and its end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "reduce.h"
#include "sparse_parts.h"

/* ---- calls */

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

/* ---- work */

/* Runs on an offload's or a waiting thread, without the lock. */
static void run_work(struct by_task *task) {
  struct by_sparse_work *work = (struct by_sparse_work *)task;
  work->status = work->run(work->exchange, work->strand, &work->exchange->queue->scratch);
  work->text = work->status == BANYAN_OK ? NULL : strdup(banyan_error_text());
}

enum banyan_status by_sparse_do(struct by_sparse_exchange *exchange, uint32_t strand, size_t bytes,
                                enum banyan_status (*run)(struct by_sparse_exchange *exchange, uint32_t strand,
                                                          struct by_sparse_scratch *scratch),
                                enum banyan_status (*then)(struct by_sparse_exchange *exchange, uint32_t strand)) {
  const struct by_sparse_options *options = &exchange->queue->options;
  struct by_sparse_work *work = &exchange->strands[strand].work;
  exchange->strands[strand].then = then;
  if (options->offload && bytes >= options->offloads) {
    *work = (struct by_sparse_work){.task = {.run = run_work}, .exchange = exchange, .strand = strand, .run = run};
    if (exchange->attended) {
      exchange->offered++;
      by_offload_offer(options->offload, &work->task);
      return BANYAN_OK;
    }
    if (by_offload_submit(options->offload, &work->task)) return BANYAN_OK;
  }
  return run(exchange, strand, &exchange->queue->small);
}

static void take_back(struct by_sparse_work *work) {
  if (!work->task.submitted) work->exchange->offered--;
  by_offload_withdraw(work->exchange->queue->options.offload, &work->task);
}

bool by_sparse_done(struct by_sparse_strand *strand, enum banyan_status *status) {
  struct by_sparse_work *work = &strand->work;
  enum by_task_state state = by_task_state(&work->task);
  if (state == BY_TASK_NONE) return true;
  if (state != BY_TASK_DONE) return false;
  take_back(work);
  if (work->status != BANYAN_OK)
    *status = by_fail(work->status, "%s", work->text ? work->text : "out of memory for rows");
  free(work->text);
  return true;
}

void by_sparse_withdraw_work(struct by_sparse_exchange *exchange) {
  for (uint32_t s = 0; s < exchange->n_strands; s++) {
    struct by_sparse_work *work = &exchange->strands[s].work;
    if (by_task_state(&work->task) == BY_TASK_NONE) continue;
    take_back(work);
    free(work->text);
  }
}

/* Marks this exchange and those before it as attended. */
static void set_attended(struct by_sparse_exchange *exchange, bool attended) {
  struct by_sparse_exchange *before = exchange->ended ? NULL : TAILQ_FIRST(&exchange->queue->exchanges);
  for (; before; before = before == exchange ? NULL : TAILQ_NEXT(before, next)) before->attended = attended;
}

void by_sparse_attend(struct by_sparse_exchange *exchange) {
  set_attended(exchange, true);
}

bool by_sparse_leave(struct by_sparse_exchange *exchange) {
  const struct by_sparse_exchange *now = exchange->ended ? NULL : TAILQ_FIRST(&exchange->queue->exchanges);
  if (now && now->offered) return false;
  set_attended(exchange, false);
  return true;
}

struct by_task *by_sparse_offered(const struct by_sparse_exchange *exchange) {
  const struct by_sparse_exchange *now = exchange->ended ? NULL : TAILQ_FIRST(&exchange->queue->exchanges);
  if (!now || !now->offered || exchange->queue->options.offload->busy) return NULL;
  for (uint32_t s = 0; s < now->n_strands; s++) {
    struct by_task *task = &now->strands[s].work.task;
    if (by_task_state(task) == BY_TASK_OFFERED) return task;
  }
  return NULL;
}

/* ---- the end */

static void note(const struct by_sparse_exchange *exchange, bool failed) {
  const struct banyan_sparse_call *call = &exchange->call;
  struct by_history_call noted = {.number = exchange->call_number,
                                  .outcome = failed ? BY_HISTORY_FAILED : BY_HISTORY_COMPLETED,
                                  .collective = (uint8_t)call->collective,
                                  .dtype = (uint8_t)exchange->in.dtype,
                                  .sparse = true,
                                  .count = exchange->in.width};
  by_history_add(&exchange->queue->history, &noted);
}

void by_sparse_end(struct by_sparse_exchange *exchange, enum banyan_status status) {
  note(exchange, status != BANYAN_OK && !exchange->agreed);
  TAILQ_REMOVE(&exchange->queue->exchanges, exchange, next);
  if (status == BANYAN_OK && exchange->tables.n) by_sparse_tables_part(&exchange->tables);
  exchange->status = status;
  if (status != BANYAN_OK) snprintf(exchange->error, sizeof exchange->error, "%s", banyan_error_text());
  if (status == BANYAN_OK && exchange->call.taken) *exchange->call.taken = exchange->way;
  if (status == BANYAN_OK) {
    exchange->queue->ended = exchange->number;
    exchange->queue->lasted = by_clock_now(&exchange->queue->options.clock) - exchange->began;
  }
  by_sparse_withdraw_work(exchange);
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

/* ---- rows */

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

enum banyan_status by_sparse_put_in_order(struct by_sparse_exchange *exchange, struct by_sparse_scratch *scratch) {
  by_sparse_need_values(exchange);
  if (exchange->ascending) return BANYAN_OK;
  BY_TRY(by_sparse_merge(&exchange->in, scratch, &exchange->merged));
  exchange->in = exchange->merged;
  return BANYAN_OK;
}

void by_sparse_average(const struct by_sparse_exchange *exchange, struct banyan_sparse *tensor) {
  if (exchange->call.op == BANYAN_AVERAGE)
    by_kernel_divide(tensor->dtype, tensor->values, tensor->values, exchange->queue->options.n,
                     tensor->count * tensor->width);
}
