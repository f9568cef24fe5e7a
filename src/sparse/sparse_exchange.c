/* Exchanges of sparse rows: the queue of a communicator, and how each exchange begins, chooses its method, progresses
 * and ends. */
#include "sparse_parts.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"

/* ---- what the choice rests on */

static void forget_trees(struct by_sparse_queue *queue) {
  for (uint32_t c = 0; c < BY_PLAN_MAX_CLASSES; c++) {
    by_sparse_trees_destroy(queue->trees_of[c]);
    queue->trees_of[c] = NULL;
  }
  queue->trees = NULL;
}

enum banyan_status by_sparse_get_trees(struct by_sparse_queue *queue, double bytes,
                                       const struct by_sparse_trees **out) {
  const struct by_plan *plan = by_team_plan(queue->team);
  const struct by_class *class_ = by_plan_class(plan, bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX);
  struct by_sparse_trees **trees = &queue->trees_of[class_ - plan->classes];
  for (uint32_t c = 0; c < BY_PLAN_MAX_CLASSES; c++)
    if (queue->trees_of[c] && queue->trees_of[c]->version != plan->version) {
      by_sparse_climbs_free(queue);
      forget_trees(queue);
    }
  if (!*trees) BY_TRY(by_sparse_trees_create(plan, class_, trees));
  *out = *trees;
  return BANYAN_OK;
}

struct farthest {
  const struct by_sparse_options *options;
  uint64_t nanoseconds;
};

static void see_connection(void *context, uint32_t process, struct by_lane *lane) {
  struct farthest *farthest = context;
  struct by_meter meter;
  if (!by_lane_meter(lane, &meter)) return;
  uint64_t nanoseconds = (uint64_t)meter.trip * 1000 / 2;
  if (nanoseconds <= farthest->nanoseconds) return;
  for (uint32_t r = 0; r < farthest->options->n; r++)
    if (farthest->options->processes[r] == process) farthest->nanoseconds = nanoseconds;
}

/* Returns the nanoseconds to the farthest connected rank of the queue; 0 if unknown. */
static uint64_t measure_delay(struct by_sparse_queue *queue) {
  enum { ASKS_EACH = 200 /* Milliseconds. */ };
  uint64_t now = by_clock_now(&queue->options.clock);
  if (!queue->options.far || queue->options.fixed) return 0;
  if (queue->delay && now - queue->asked_at < ASKS_EACH * BY_MILLISECOND) return queue->delay;
  struct farthest farthest = {.options = &queue->options};
  by_engine_visit_lanes(queue->options.engine, see_connection, &farthest);
  queue->asked_at = now;
  return queue->delay = farthest.nanoseconds;
}

/* ---- choosing */

/* Returns the rate of links: measured, promised by the plan, or a guess. */
static double link_rate(const struct by_sparse_queue *queue, const struct by_sparse_case *of) {
  const struct by_sparse_trees *trees = of->trees;
  if (!of->all->far) return of->rates.link;
  if (queue->record.link > 0 && !of->all->fixed) return queue->record.link;
  return trees && trees->rate > 0 && trees->reduce > 0 ? trees->rate * trees->reduce : of->rates.link;
}

static enum banyan_status predict(struct by_sparse_exchange *exchange, struct by_sparse_prediction *predictions) {
  struct by_sparse_queue *queue = exchange->queue;
  const struct banyan_sparse *in = &exchange->in;
  const struct by_sparse_union *all = &exchange->all;
  struct by_sparse_case of = {.words = &exchange->words, .all = all, .rates = by_sparse_default_rates(all->far)};
  double row = by_sparse_case_row_bytes(&of);
  BY_TRY(by_sparse_get_trees(queue, all->rows * row, &of.trees));
  BY_TRY(by_sparse_get_trees(queue, (double)all->total * row, &of.gather));
  double table = (double)in->height * (double)in->width * (double)banyan_dtype_size(in->dtype);
  BY_TRY(by_sparse_get_trees(queue, table, &of.dense));
  of.rates.link = link_rate(queue, &of);
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++) {
    struct by_sparse_prediction *prediction = &predictions[way];
    by_sparse_predict(&of, (enum banyan_sparse_way)way, prediction);
    by_debug("sparse", "%s: %.0f us, of which %.0f fixed and %.0f by links; at most %.3f MB",
             banyan_sparse_way_name((enum banyan_sparse_way)way), prediction->seconds * 1e6, prediction->fixed * 1e6,
             prediction->bytes / of.rates.link * 1e6, prediction->memory * 1e-6);
    if (isnan(prediction->seconds)) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for predictions");
  }
  return BANYAN_OK;
}

/* Returns the possible method that needs least memory, for the error's text. */
static enum banyan_sparse_way least_memory(const struct by_sparse_prediction *predictions) {
  enum banyan_sparse_way least = BANYAN_SPARSE_GATHER;
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++)
    if (predictions[way].seconds < INFINITY && predictions[way].memory < predictions[least].memory)
      least = (enum banyan_sparse_way)way;
  return least;
}

static enum banyan_status too_little(const struct by_sparse_exchange *exchange, enum banyan_sparse_way way,
                                     const struct by_sparse_prediction *prediction) {
  const struct by_sparse_union *all = &exchange->all;
  uint32_t most = 0;
  while (by_sparse_word_of(&exchange->words, most)->count != all->most) most++;
  return by_fail(BANYAN_ERR_NO_MEMORY,
                 "sparse %s: the ranks have %llu rows of %zu bytes, rank %u alone %llu of them: too many for rank %u, "
                 "which gives %llu bytes to a call, where the way \"%s\" may need %.0f: give it more (`memory`), or "
                 "send fewer rows at a time",
                 banyan_collective_name(exchange->call.collective), (unsigned long long)all->total,
                 by_sparse_row_bytes(&exchange->in), most, (unsigned long long)all->most, all->least_rank,
                 (unsigned long long)all->memory, banyan_sparse_way_name(way), ceil(prediction->memory));
}

/* Chooses the method of an exchange whose words are known, unless one is forced. Returns BANYAN_ERR_NO_MEMORY with
 * `agreed` set if no method, or not the forced one, fits into the memory that ranks give. */
static enum banyan_status choose_way(struct by_sparse_exchange *exchange) {
  struct by_sparse_queue *queue = exchange->queue;
  struct by_sparse_record *record = &queue->record;
  struct by_sparse_prediction predictions[BANYAN_SPARSE_WAYS] = {{0}};
  double bytes = (double)exchange->all.total * (double)by_sparse_row_bytes(&exchange->in);
  double memory = (double)exchange->all.memory;
  enum banyan_sparse_way forced = exchange->call.way, least;
  if (exchange->all.fixed) {
    record = NULL;
  } else {
    by_sparse_record_begin(record, by_team_plan(queue->team)->version);
    by_sparse_record_learn(record, &exchange->words);
  }
  BY_TRY(predict(exchange, predictions));
  exchange->agreed = true; /* The checks below give the same result on all ranks. */
  exchange->way = forced ? forced : by_sparse_record_choose(record, predictions, bytes, memory);
  if (forced && predictions[forced].memory > memory) return too_little(exchange, forced, &predictions[forced]);
  if (!exchange->way) return least = least_memory(predictions), too_little(exchange, least, &predictions[least]);
  if (record)
    by_sparse_record_note(record, exchange->number, exchange->way, bytes, exchange->all.far,
                          &predictions[exchange->way]);
  return BANYAN_OK;
}

/* ---- queues */

enum banyan_status by_sparse_queue_create(const struct by_sparse_options *options, struct by_sparse_queue **out) {
  struct by_sparse_queue *queue = calloc(1, sizeof *queue);
  if (!queue) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for sparse calls");
  queue->options = *options;
  TAILQ_INIT(&queue->exchanges);
  by_arena_init(&queue->climb_arena);
  enum banyan_status status = by_team_create(options->engine, options->id, by_team_rank(options->team), options->n,
                                             options->processes, &queue->team);
  if (status == BANYAN_OK)
    *out = queue;
  else
    free(queue);
  return status;
}

static void exchange_free(struct by_sparse_exchange *exchange) {
  for (uint32_t s = 0; s < exchange->strands_room; s++) free(exchange->strands[s].calls);
  free(exchange->strands);
  by_sparse_words_fini(&exchange->words);
  free(exchange->union_counts);
  free(exchange->counts);
  by_plan_destroy(exchange->plan);
  banyan_sparse_free(&exchange->merged);
  by_sparse_tables_fini(&exchange->tables);
  by_sparse_scratch_fini(&exchange->scratch);
  by_sparse_union_fini(&exchange->all);
  free(exchange);
}

static void queue_free(struct by_sparse_queue *queue) {
  for (struct by_sparse_exchange *spare; (spare = LIST_FIRST(&queue->spare));) {
    LIST_REMOVE(spare, spare);
    exchange_free(spare);
  }
  by_sparse_climbs_free(queue);
  forget_trees(queue);
  by_sparse_scratch_fini(&queue->scratch);
  by_sparse_scratch_fini(&queue->small);
  banyan_sparse_free(&queue->gathered);
  by_sparse_scratch_fini(&queue->dense);
  by_history_fini(&queue->history);
  free(queue);
}

void by_sparse_queue_destroy(struct by_sparse_queue *queue) {
  if (!queue) return;
  struct by_sparse_exchange *exchange;
  TAILQ_FOREACH(exchange, &queue->exchanges, next) by_sparse_withdraw_work(exchange); /* It reads the team's rank. */
  by_team_destroy(queue->team);                                                       /* All calls end with the team. */
  queue->team = NULL;
  while (!TAILQ_EMPTY(&queue->exchanges)) {
    by_fail(BANYAN_ERR_CLOSED, "the communicator was destroyed while a sparse call was under way");
    by_sparse_end(TAILQ_FIRST(&queue->exchanges), BANYAN_ERR_CLOSED);
  }
  if (!queue->taken) queue_free(queue);
}

const struct by_history *by_sparse_queue_history(const struct by_sparse_queue *queue) {
  return &queue->history;
}

bool by_sparse_queue_is_idle(const struct by_sparse_queue *queue) {
  return TAILQ_EMPTY(&queue->exchanges);
}

bool by_sparse_queue_owes(const struct by_sparse_queue *queue) {
  return by_team_owes(queue->team);
}

/* ---- exchanges */

struct by_sparse_exchange *by_sparse_take(struct by_sparse_queue *queue) {
  struct by_sparse_exchange *exchange = LIST_FIRST(&queue->spare);
  if (exchange) {
    LIST_REMOVE(exchange, spare);
    queue->taken++;
    return exchange;
  }
  exchange = calloc(1, sizeof *exchange);
  if (!exchange) return NULL;
  exchange->queue = queue;
  exchange->union_counts = calloc(queue->options.n, sizeof *exchange->union_counts);
  exchange->counts = calloc(2 * (size_t)queue->options.n, sizeof *exchange->counts);
  bool good = by_sparse_words_init(&exchange->words, queue->options.n) == BANYAN_OK;
  if (!good || !exchange->union_counts || !exchange->counts) {
    exchange_free(exchange);
    return NULL;
  }
  queue->taken++;
  return exchange;
}

void by_sparse_release(struct by_sparse_exchange *exchange) {
  struct by_sparse_queue *queue = exchange->queue;
  LIST_INSERT_HEAD(&queue->spare, exchange, spare);
  if (!--queue->taken && !queue->team) queue_free(queue);
}

bool by_sparse_ended(const struct by_sparse_exchange *exchange) {
  return exchange->ended;
}

enum banyan_status by_sparse_result(const struct by_sparse_exchange *exchange) {
  return exchange->status == BANYAN_OK ? BANYAN_OK : by_fail(exchange->status, "%s", exchange->error);
}

/* ---- beginning */

static struct by_sparse_word *own_word(const struct by_sparse_exchange *exchange) {
  return by_sparse_word_of(&exchange->words, exchange->words.n);
}

void by_sparse_prepare(struct by_sparse_exchange *exchange, const struct banyan_sparse_call *call) {
  struct by_sparse_word *word = own_word(exchange);
  exchange->call = *call;
  exchange->tables.n = 0;
  exchange->status = BANYAN_OK;
  exchange->ended = exchange->agreed = exchange->ascending = exchange->attended = false;
  *word = (struct by_sparse_word){.fault = BY_SPARSE_SOUND};
  bool good = true;
  if (call->tables > 1) {
    word->shapes = by_sparse_tables_shapes(call);
    good = by_sparse_tables_join(&exchange->tables, call, word, &exchange->ascending);
    exchange->call.in = good ? &exchange->tables.in : call->in;
    exchange->call.out = &exchange->tables.sum;
    call = &exchange->call;
  } else {
    good = by_sparse_word_scan(word, call->in, &exchange->ascending);
  }
  exchange->in = *call->in;
  if (good && call->collective == BANYAN_ALLREDUCE && !call->in->unique && !exchange->ascending) {
    if (by_sparse_merge(call->in, &exchange->scratch, &exchange->merged) != BANYAN_OK)
      word->fault = BY_SPARSE_NO_MEMORY;
    exchange->in = exchange->merged;
    exchange->ascending = true;
  }
  by_sparse_word_fill(word, exchange->words.sample, call, good && !word->fault ? &exchange->in : NULL);
}

static enum banyan_status first_words(struct by_sparse_exchange *exchange, uint32_t strand);

/* The queue's team takes the plan that the communicator has now, without helpers and switches, when it is this
 * exchange's turn. */
static enum banyan_status send_word(struct by_sparse_exchange *exchange) {
  struct by_sparse_queue *queue = exchange->queue;
  const struct by_plan *now = by_team_plan(queue->options.team);
  BY_TRY(by_sparse_need_strands(exchange, 1));
  if (now->version != queue->version) BY_TRY(by_plan_among_ranks(now, &exchange->plan));
  struct banyan_call gather = {.collective = BANYAN_ALLGATHER,
                               .dtype = BANYAN_INT64,
                               .send = own_word(exchange),
                               .recv = exchange->words.memory,
                               .count = exchange->words.stride};
  exchange->strands[0].then = first_words;
  return by_sparse_start_call(exchange, queue->options.team, 0, &gather);
}

enum banyan_status by_sparse_start(struct by_sparse_exchange *exchange, uint64_t deadline) {
  struct by_sparse_queue *queue = exchange->queue;
  const struct by_sparse_options *options = &queue->options;
  exchange->deadline = deadline;
  struct by_sparse_word *word = own_word(exchange);
  word->memory = exchange->call.memory ? exchange->call.memory : options->memory;
  word->far = options->far;
  word->fixed = options->fixed;
  word->crowd = (uint64_t)(options->crowd * 256);
  word->delay = measure_delay(queue);
  word->ended = queue->ended;
  word->lasted = queue->lasted;
  exchange->call_number = by_team_next_call(options->team);
  enum banyan_status status = send_word(exchange);
  if (status != BANYAN_OK) {
    by_plan_destroy(exchange->plan);
    exchange->plan = NULL;
    by_sparse_release(exchange);
    return status;
  }
  queue->version = by_team_plan(options->team)->version;
  exchange->number = ++queue->started;
  TAILQ_INSERT_TAIL(&queue->exchanges, exchange, next);
  return BANYAN_OK;
}

/* ---- what follows from the words */

static enum banyan_status first_words(struct by_sparse_exchange *exchange, uint32_t strand) {
  static enum banyan_status (*const begins[BANYAN_SPARSE_WAYS])(struct by_sparse_exchange * exchange) = {
      [BANYAN_SPARSE_PADDED] = by_sparse_begin_padded,       [BANYAN_SPARSE_GATHER] = by_sparse_begin_gather,
      [BANYAN_SPARSE_BROADCAST] = by_sparse_begin_broadcast, [BANYAN_SPARSE_MERGE] = by_sparse_begin_climb,
      [BANYAN_SPARSE_DENSE] = by_sparse_begin_dense,
  };
  struct by_sparse_queue *queue = exchange->queue;
  uint32_t n = queue->options.n;
  if (exchange->plan) by_team_set_plan(queue->team, exchange->plan);
  exchange->plan = NULL;
  exchange->agreed = true;
  exchange->began = by_clock_now(&queue->options.clock);
  BY_TRY(by_sparse_words_check(&exchange->words));
  exchange->agreed = false;
  BY_TRY(by_sparse_union_init(&exchange->all, &exchange->words));
  BY_TRY(choose_way(exchange));
  exchange->agreed = false;
  for (uint32_t r = 0; r < n && exchange->call.counts && exchange->call.collective == BANYAN_ALLGATHER; r++)
    exchange->call.counts[r] = by_sparse_word_of(&exchange->words, r)->count;
  assert(begins[exchange->way]); /* choose_way has chosen a method. */
  return begins[exchange->way](exchange);
}

/* Fails the job: an error that only this rank knows would leave the others waiting for it. */
static void fail_here(struct by_sparse_exchange *exchange, enum banyan_status status) {
  struct by_engine *engine = exchange->queue->options.engine;
  if (!exchange->agreed && by_engine_status(engine) == BANYAN_OK) {
    char text[512];
    snprintf(text, sizeof text, "rank %u could not go on with a sparse call: %s",
             by_team_rank(exchange->queue->options.team), banyan_error_text());
    by_engine_fail(engine, status, UINT32_MAX, text);
    status = by_fail(status, "%s", text);
  }
  by_sparse_end(exchange, status);
}

/* Returns whether all calls of a strand have ended. If so, releases them, and sets *status to the first failure. */
static bool strand_ended(struct by_sparse_strand *strand, enum banyan_status *status) {
  for (uint32_t i = 0; i < strand->n; i++)
    if (!by_call_ended(strand->calls[i])) return false;
  for (uint32_t i = 0; i < strand->n; i++) {
    if (*status == BANYAN_OK) *status = by_call_result(strand->calls[i]);
    by_call_release(strand->calls[i]);
  }
  strand->n = 0;
  return true;
}

/* Advances one strand as far as it can go. */
static bool advance(struct by_sparse_exchange *exchange, uint32_t index) {
  struct by_sparse_strand *strand = &exchange->strands[index];
  enum banyan_status status = BANYAN_OK;
  if (!strand->then || !by_sparse_done(strand, &status) || !strand_ended(strand, &status)) return false;
  enum banyan_status (*then)(struct by_sparse_exchange * exchange, uint32_t strand) = strand->then;
  strand->then = NULL;
  if (status == BANYAN_OK) status = then(exchange, index);
  if (status != BANYAN_OK) fail_here(exchange, status);
  return true;
}

bool by_sparse_progress(struct by_sparse_queue *queue) {
  bool moved = false;
  for (struct by_sparse_exchange *exchange; (exchange = TAILQ_FIRST(&queue->exchanges));) {
    bool again = false;
    for (uint32_t s = 0; !exchange->ended && s < exchange->n_strands; s++) again |= advance(exchange, s);
    moved |= again;
    if (!again) break;
  }
  return moved;
}
