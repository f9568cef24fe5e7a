/* Which way: the one that is predicted to be fastest. */
#include <math.h>

#include "log.h"
#include "sparse_cost.h"
#include "sparse_parts.h"

/* Of shared memory, and of TCP where it costs least, between ranks of one host: docs/measurements. */
static const struct by_sparse_rates near_rates = {
    .call = 10e-6, .hop = 10e-6, .message = 1e-6, .byte = 0.1e-9, .merge = 0.12e-9, .clear = 0.1e-9};
static const struct by_sparse_rates far_rates = {
    .call = 40e-6, .hop = 30e-6, .message = 3e-6, .byte = 0.4e-9, .merge = 0.12e-9, .clear = 0.1e-9};

enum banyan_sparse_way by_sparse_choose(struct by_sparse_exchange *exchange) {
  struct by_sparse_case of = {
      .words = exchange->words, .all = &exchange->all, .rates = exchange->all.far ? far_rates : near_rates};
  enum banyan_sparse_way best = BANYAN_SPARSE_GATHER;
  double least = INFINITY;
  if (exchange->call.way != BANYAN_SPARSE_CHOSEN) return exchange->call.way;
  if (exchange->call.collective == BANYAN_ALLREDUCE && by_sparse_get_trees(exchange) == BANYAN_OK)
    of.trees = exchange->queue->trees;
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++) {
    double seconds = by_sparse_cost(&of, (enum banyan_sparse_way)way);
    by_debug("sparse", "%s: %.0f us", banyan_sparse_way_name((enum banyan_sparse_way)way), seconds * 1e6);
    if (!(seconds < least)) continue;
    least = seconds;
    best = (enum banyan_sparse_way)way;
  }
  return best;
}
