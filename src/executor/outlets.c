/* All lanes and fabrics of an engine at once. */
#include "call.h"

void by_engine_lanes(struct by_engine *engine, void (*visit)(void *context, struct by_lane *lane), void *context) {
  for (uint32_t i = 0; i < engine->active; i++) visit(context, engine->ends[i]->lane);
}

void by_engine_mark_lane(const struct by_engine *engine, struct by_lane *lane) {
  if (lane->ops->set_mark) lane->ops->set_mark(lane, &engine->mark);
}

void by_engine_mark_fabric(const struct by_engine *engine, struct by_fabric *fabric) {
  if (fabric->status == BANYAN_OK) fabric->ops->set_mark(fabric, &engine->mark);
}

void by_engine_set_mark(struct by_engine *engine, const struct by_mark *mark) {
  engine->mark = *mark;
  for (uint32_t i = 0; i < engine->active; i++) by_engine_mark_lane(engine, engine->ends[i]->lane);
  for (uint32_t i = 0; i < engine->n_fabrics; i++) by_engine_mark_fabric(engine, engine->fabrics[i]->fabric);
}

uint64_t by_engine_sent(const struct by_engine *engine) {
  uint64_t sent = engine->sent_before;
  for (uint32_t i = 0; i < engine->active; i++) sent += by_lane_total(engine->ends[i]->lane);
  for (uint32_t i = 0; i < engine->n_fabrics; i++)
    sent += engine->fabrics[i]->fabric->ops->sent(engine->fabrics[i]->fabric);
  return sent;
}

bool by_engine_lacks_lanes(const struct by_engine *engine) {
  for (uint32_t i = 0; i < engine->processes; i++) {
    const struct by_link *link = engine->links[i];
    if (link->running && !link->lane && !link->fabric && !link->through && !link->lost && !link->left) return true;
  }
  return false;
}

void by_engine_meter(const struct by_engine *engine,
                     void (*visit)(void *context, uint32_t process, const struct by_meter *meter), void *context) {
  struct by_meter meter;
  for (uint32_t i = 0; i < engine->active; i++) {
    const struct by_end *end = engine->ends[i];
    if (end->lane->ops->meter && end->lane->ops->meter(end->lane, &meter)) visit(context, end->link->process, &meter);
  }
}

void by_engine_counters(const struct by_engine *engine, struct banyan_counters *out) {
  *out = engine->counters;
  for (uint32_t i = 0; i < engine->active; i++) {
    const struct by_lane *lane = engine->ends[i]->lane;
    if (lane->ops->wakes) out->wakes_sent += lane->ops->wakes(lane);
  }
}
