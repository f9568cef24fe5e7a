#include "fabric_link.h"

#include <assert.h>

#include "incoming.h"

static bool begin(struct by_out *out) {
  struct by_link *link = out->link;
  struct by_in *in = out->answer;
  size_t room = out->length;
  assert(in);
  char *target = by_in_target(in, 0, &room);
  struct by_frame descriptor = out->exchange->descriptor;
  if (!out->exchange->pair) descriptor.tag = out->tag;
  if (!link->fabric->ops->begin(link->fabric, &descriptor, out->base, target, out->length, &out->number)) return false;
  in->source = BY_IN_DATA;
  in->granted = in->length; /* there is nobody to tell */
  out->begun = true;
  out->begun_next = NULL;
  *link->begun_end = out;
  link->begun_end = &out->begun_next;
  return true;
}

void by_fabric_link_flush(struct by_link *link) {
  struct by_fabric *fabric = link->fabric;
  struct by_out **place = &link->outs;
  bool full = false;
  if (!fabric || fabric->status != BANYAN_OK) return; /* it is attached later, or given up */
  while (*place && link->transfer->status == BANYAN_OK) {
    struct by_out *out = *place;
    if (!out->begun && !full) full = !begin(out);
    if (!out->begun) {
      place = &out->next;
      continue;
    }
    if (out->ready > out->announced) fabric->ops->advance(fabric, out->number, out->ready);
    out->announced = out->ready;
    out->queued = false;
    *place = out->next;
  }
  while (*place) place = &(*place)->next;
  link->outs_end = place;
}

/* More of the sum is in. The call may end by it. */
static void came(struct by_out *out, uint64_t done) {
  struct by_transfer *transfer = out->link->transfer;
  struct by_in *in = out->answer;
  uint64_t n = done - out->sent;
  transfer->ops->summed(in, out->sent, n);
  transfer->counters.bytes_sent += n;
  transfer->counters.bytes_received += n;
  out->sent = out->settled = done;
  transfer->ops->sent(out);
  transfer->ops->arrived(in, n);
}

bool by_fabric_link_progress(struct by_link *link) {
  struct by_fabric *fabric = link->fabric;
  struct by_transfer *transfer = link->transfer;
  bool ended = false;
  if (!fabric || by_link_is_lost(link)) return true;
  if (fabric->status == BANYAN_OK && fabric->ops->progress(fabric)) transfer->moved = true;
  if (fabric->status != BANYAN_OK) return false;
  for (struct by_out **place = &link->begun; *place && transfer->status == BANYAN_OK;) {
    struct by_out *out = *place;
    uint64_t done = fabric->ops->done(fabric, out->number);
    bool all = done == out->length;
    if (all) {
      *place = out->begun_next;
      if (!*place) link->begun_end = place;
      ended = true;
    } else {
      place = &out->begun_next;
    }
    if (done > out->sent) came(out, done);
  }
  if (ended && link->outs) by_link_touch(link); /* there is room for others */
  return true;
}
