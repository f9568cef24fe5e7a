/* The links of an engine, as its users see them: see engine.h. */
#include "engine_parts.h"
#include "link_messages.h"

void by_engine_attach(struct by_engine *engine, uint32_t process, struct by_lane *const *lanes, uint32_t n) {
  by_link_attach(by_engine_transfer(engine)->links[process], lanes, n);
}

void by_engine_attach_fabric(struct by_engine *engine, uint32_t process, struct by_fabric *fabric) {
  by_link_attach_fabric(by_engine_transfer(engine)->links[process], fabric);
}

bool by_engine_attached(const struct by_engine *engine, uint32_t process) {
  return by_engine_transfer(engine)->links[process]->lane != NULL;
}

bool by_engine_has_lost(const struct by_engine *engine, uint32_t process) {
  return by_link_is_lost(by_engine_transfer(engine)->links[process]);
}

bool by_engine_has_to_send(const struct by_engine *engine) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  return transfer->dirty && transfer->status == BANYAN_OK;
}

uint64_t by_engine_deadline(const struct by_engine *engine) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  uint64_t first = UINT64_MAX;
  for (uint32_t i = 0; i < transfer->n_fabrics; i++) {
    const struct by_fabric *fabric = transfer->fabrics[i]->fabric;
    uint64_t at = fabric->status == BANYAN_OK ? fabric->ops->deadline(fabric) : UINT64_MAX;
    if (at < first) first = at;
  }
  return first;
}

void by_engine_sleeping(struct by_engine *engine, bool asleep) {
  struct by_transfer *transfer = by_engine_transfer(engine);
  if (asleep) transfer->counters.sleeps++;
  for (uint32_t i = 0; i < transfer->active; i++) {
    struct by_lane *lane = transfer->ends[i]->lane;
    if (lane->ops->sleeping) lane->ops->sleeping(lane, asleep);
  }
}

bool by_engine_goodbye(struct by_engine *engine) {
  return by_links_goodbye(by_engine_transfer(engine));
}

void by_engine_forget_region(struct by_engine *engine, uint32_t region) {
  struct by_transfer *transfer = by_engine_transfer(engine);
  for (uint32_t i = 0; i < transfer->active; i++) {
    struct by_link *link = transfer->ends[i]->link;
    if (transfer->ends[i] == &link->ends[0]) by_link_forget(link, region);
  }
  if (transfer->status == BANYAN_OK) by_transfer_flush(transfer);
}

void by_engine_expect_control_messages(struct by_engine *engine, uint32_t process) {
  by_control_messages_expect(by_engine_transfer(engine)->links[process]);
}

enum banyan_status by_engine_write(struct by_engine *engine, uint32_t process, uint32_t team, const void *bytes,
                                   size_t n) {
  return by_control_messages_write(by_engine_transfer(engine)->links[process], team, bytes, n);
}

struct by_control_message *by_engine_read(struct by_engine *engine) {
  return by_control_messages_read(by_engine_transfer(engine));
}

void by_control_message_free(struct by_engine *engine, struct by_control_message *message) {
  by_control_messages_free(by_engine_transfer(engine), message);
}

void by_engine_set_mark(struct by_engine *engine, const struct by_mark *mark) {
  by_transfer_set_mark(by_engine_transfer(engine), mark);
}

uint64_t by_engine_sent(const struct by_engine *engine) {
  return by_transfer_sent(by_engine_transfer(engine));
}

void by_engine_lanes(struct by_engine *engine, void (*visit)(void *context, struct by_lane *lane), void *context) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  for (uint32_t i = 0; i < transfer->active; i++) visit(context, transfer->ends[i]->lane);
}

bool by_engine_lacks_lanes(const struct by_engine *engine) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  for (uint32_t i = 0; i < transfer->processes; i++) {
    const struct by_link *link = transfer->links[i];
    if (link->running && link->state < BY_LINK_OPEN && !link->in_network && !link->left) return true;
  }
  return false;
}

void by_engine_meter(const struct by_engine *engine,
                     void (*visit)(void *context, uint32_t process, const struct by_meter *meter), void *context) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  struct by_meter meter;
  for (uint32_t i = 0; i < transfer->active; i++) {
    const struct by_end *end = transfer->ends[i];
    if (end->lane->ops->meter && end->lane->ops->meter(end->lane, &meter)) visit(context, end->link->process, &meter);
  }
}

void by_engine_counters(const struct by_engine *engine, struct banyan_counters *out) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  *out = transfer->counters;
  for (uint32_t i = 0; i < transfer->active; i++) {
    out->wakes_sent += transfer->ends[i]->lane->wakes;
  }
}
