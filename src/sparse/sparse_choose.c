/* Chooses the method of an exchange. */
#include <math.h>

#include "log.h"
#include "sparse_parts.h"

/* ---- what the choice rests on */

void by_sparse_forget_trees(struct by_sparse_queue *queue) {
  for (uint32_t c = 0; c < BY_PLAN_MAX_CLASSES; c++) {
    by_sparse_trees_destroy(queue->trees_of[c]);
    queue->trees_of[c] = NULL;
  }
  queue->trees = NULL;
}

enum banyan_status by_sparse_get_trees(struct by_sparse_queue *queue, double bytes,
                                       const struct by_sparse_trees **out) {
  const struct by_plan *plan = by_team_state(queue->team).plan;
  const struct by_class *class_ = by_plan_class(plan, bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX);
  struct by_sparse_trees **trees = &queue->trees_of[class_ - plan->classes];
  for (uint32_t c = 0; c < BY_PLAN_MAX_CLASSES; c++)
    if (queue->trees_of[c] && queue->trees_of[c]->version != plan->version) {
      by_sparse_climbs_free(queue);
      by_sparse_forget_trees(queue);
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

uint64_t by_sparse_delay(struct by_sparse_queue *queue) {
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

enum banyan_status by_sparse_choose(struct by_sparse_exchange *exchange) {
  struct by_sparse_queue *queue = exchange->queue;
  struct by_sparse_record *record = &queue->record;
  struct by_sparse_prediction predictions[BANYAN_SPARSE_WAYS] = {{0}};
  double bytes = (double)exchange->all.total * (double)by_sparse_row_bytes(&exchange->in);
  double memory = (double)exchange->all.memory;
  enum banyan_sparse_way forced = exchange->call.way, least;
  if (exchange->all.fixed) {
    record = NULL;
  } else {
    by_sparse_record_begin(record, by_team_state(queue->team).plan->version);
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
