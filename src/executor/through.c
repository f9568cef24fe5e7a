/* Trees through switches. To schedules such a tree is a star: each rank sends its terms to the server and takes the
 * sum from it. Here that pair of messages is handed to a fabric, which reads the terms where they are and writes the
 * sum where it belongs; so neither of them ever becomes a frame.
 *
 *   out  base --------> fabric --> switches --> server
 *   in   target <------ fabric <-- switches <----'
 *
 * All ranks have to begin the same calls in the same order, so messages are queued when their call begins, though
 * nothing of them may be ready yet. */
#include "call.h"

#include <assert.h>

#include "fragment.h"

_Static_assert((int)BY_PLAN_MOST_WORKERS == BY_FRAGMENT_WORKERS,
               "plans and fragments agree on how many may be in a tree");
_Static_assert((int)BY_PLAN_MOST_HOPS == BY_FRAGMENT_HOPS, "and on how long its ways may be");

void by_through_begin(struct by_call *call) {
  for (uint32_t i = 0; i < call->program->n_outs; i++)
    if (call->outs[i].link->through && call->outs[i].length) by_link_queue(&call->outs[i]);
}

/* The sum that answers a term: the message from the same peer for the same pieces. */
static struct by_in *answer_to(const struct by_out *out) {
  struct by_call *call = out->call;
  const struct by_step *step = &call->schedule->steps[out->step];
  for (uint32_t i = 0; i < call->schedule->n_incoming; i++) {
    const struct by_incoming *incoming = &call->schedule->incoming[i];
    if (call->ins[i].link == out->link && incoming->first == step->first && incoming->last == step->last)
      return &call->ins[i];
  }
  return NULL;
}

static bool begin(struct by_out *out) {
  struct by_link *link = out->link;
  struct by_in *in = answer_to(out);
  size_t room = out->length;
  assert(in);
  char *target = by_work_target(in, 0, &room);
  struct by_frame stamp = out->call->stamp;
  if (!out->call->pair) stamp.tag = out->tag;
  if (!link->fabric->ops->begin(link->fabric, &stamp, out->base, target, out->length, &out->number)) return false;
  in->source = BY_IN_DATA;
  in->granted = in->length; /* there is nobody to tell */
  out->answer = in;
  out->begun = true;
  out->begun_next = NULL;
  *link->begun_end = out;
  link->begun_end = &out->begun_next;
  return true;
}

void by_through_flush(struct by_link *link) {
  struct by_fabric *fabric = link->fabric;
  struct by_out **place = &link->outs;
  bool full = false;
  if (!fabric || fabric->status != BANYAN_OK) return; /* it is attached later, or given up */
  while (*place && link->engine->status == BANYAN_OK) {
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

static void divide(struct by_out *out, uint64_t from, uint64_t n) {
  struct by_call *call = out->call;
  size_t room = n;
  if (!call->divisor) return;
  char *bytes = by_work_target(out->answer, from, &room);
  by_kernel_divide((enum banyan_dtype)(call->stamp.dtype_op >> 4), bytes, bytes, call->divisor,
                   n >> call->element_shift);
}

/* More of the sum is in. The call may end by it. */
static void came(struct by_out *out, uint64_t done) {
  struct by_engine *engine = out->link->engine;
  struct by_in *in = out->answer;
  uint64_t n = done - out->sent;
  divide(out, out->sent, n);
  engine->counters.bytes_sent += n;
  engine->counters.bytes_received += n;
  out->sent = out->settled = done;
  by_work_sent(out);
  by_work_arrived(in, n);
}

void by_through_progress(struct by_link *link) {
  struct by_fabric *fabric = link->fabric;
  struct by_engine *engine = link->engine;
  bool ended = false;
  if (!fabric || link->lost) return;
  if (fabric->status == BANYAN_OK && fabric->ops->progress(fabric)) engine->moved = true;
  if (fabric->status != BANYAN_OK) {
    by_link_given_up(link, fabric->error);
    return;
  }
  for (struct by_out **place = &link->begun; *place && engine->status == BANYAN_OK;) {
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
}

void by_through_drop(struct by_link *link, const struct by_call *call) {
  bool uses = false;
  struct by_out **place = &link->begun;
  while (*place) {
    if ((*place)->call == call) {
      *place = (*place)->begun_next;
      uses = true;
    } else {
      place = &(*place)->begun_next;
    }
  }
  link->begun_end = place;
  if (uses) link->fabric->ops->withdraw(link->fabric);
}
