/* Several AllReduces as one call. The engine sends from, and adds to, memory that lies together. Gradients often do:
 * then nothing is copied, as the root puts neighbours in its memory next to each other. What does not is copied into a
 * buffer of the library's, or, where only the results lie together, to where these belong. */
#include <stdlib.h>
#include <string.h>

#include "reduce.h"
#include "submitter.h"

static size_t bytes_of(const struct banyan_call *call) {
  return call->count * banyan_dtype_size(call->dtype);
}

static bool fuses(const struct banyan_call *call, const struct banyan_call *first) {
  return call->collective == BANYAN_ALLREDUCE && call->dtype == first->dtype && call->op == first->op &&
         bytes_of(call) <= BY_FUSE_EACH;
}

static double scale_of(const struct banyan_call *call) {
  return call->scale == 0 ? 1 : call->scale;
}

size_t by_fuse_run(const struct by_submitted *s, size_t first, uint64_t most) {
  const struct banyan_call *calls = &s->calls[first];
  uint64_t bytes = bytes_of(&calls[0]);
  size_t n = 1;
  if (!fuses(&calls[0], &calls[0])) return 1;
  for (; first + n < s->n_calls && fuses(&calls[n], &calls[0]); n++) {
    bytes += bytes_of(&calls[n]);
    if (bytes > most) break;
  }
  return n;
}

/* ---- what lies together */

static bool sends_together(const struct by_flight *flight) {
  const struct by_piece *p = flight->pieces;
  for (size_t i = 1; i < flight->n; i++)
    if ((const char *)p[i - 1].call->send + bytes_of(p[i - 1].call) != (const char *)p[i].call->send ||
        scale_of(p[i].call) != scale_of(p[0].call))
      return false;
  return true;
}

static bool results_together(const struct by_flight *flight) {
  const struct by_piece *p = flight->pieces;
  for (size_t i = 1; i < flight->n; i++)
    if ((char *)p[i - 1].call->recv + bytes_of(p[i - 1].call) != (char *)p[i].call->recv) return false;
  return true;
}

/* ---- buffers */

static struct by_fuse_buffer *take_buffer(struct by_submitter *owner, size_t bytes) {
  for (struct by_fuse_buffer **place = &owner->buffers; *place; place = &(*place)->next) {
    struct by_fuse_buffer *buffer = *place;
    if (buffer->region->bytes < bytes) continue;
    *place = buffer->next;
    return buffer;
  }
  struct by_fuse_buffer *buffer = calloc(1, sizeof *buffer);
  uint64_t most = owner->context->job.settings.fusion;
  if (!buffer) {
    (void)by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for fusing operations");
    return NULL;
  }
  if (by_region_create(bytes > most ? bytes : most, &buffer->region) != BANYAN_OK) {
    free(buffer);
    return NULL;
  }
  by_regions_add(&owner->context->regions, buffer->region);
  owner->counts.allocations++;
  return buffer;
}

static void give_buffer(struct by_submitter *owner, struct by_fuse_buffer *buffer) {
  buffer->next = owner->buffers;
  owner->buffers = buffer;
}

void by_fuse_buffers_free(struct by_submitter *owner) {
  while (owner->buffers) {
    struct by_fuse_buffer *buffer = owner->buffers;
    owner->buffers = buffer->next;
    buffer->region->doomed = true;
    owner->context->doomed++;
    free(buffer);
  }
}

/* ---- copying */

static void copy_in(struct by_submitter *owner, const struct by_flight *flight, char *to) {
  for (size_t i = 0; i < flight->n; i++) {
    const struct banyan_call *call = flight->pieces[i].call;
    size_t bytes = bytes_of(call);
    if (scale_of(call) != 1)
      by_kernel_scale(call->dtype, to, call->send, call->scale, call->count);
    else if (bytes && to != call->send)
      memcpy(to, call->send, bytes);
    if (to != call->send) owner->counts.copied += bytes;
    to += bytes;
  }
}

enum banyan_status by_fuse(struct by_submitter *owner, struct by_flight *flight, struct banyan_call *out) {
  *out = *flight->pieces[0].call;
  if (flight->n == 1) return BANYAN_OK;
  out->count = 0;
  for (size_t i = 0; i < flight->n; i++) out->count += flight->pieces[i].call->count;
  if (!results_together(flight)) {
    flight->buffer = take_buffer(owner, bytes_of(out));
    if (!flight->buffer) return BANYAN_ERR_NO_MEMORY;
    out->recv = flight->buffer->region->base;
  }
  if (sends_together(flight)) return BANYAN_OK;
  copy_in(owner, flight, out->recv);
  out->send = out->recv;
  out->scale = 0;
  return BANYAN_OK;
}

void by_unfuse(struct by_submitter *owner, struct by_flight *flight, bool well) {
  if (!flight->buffer) return;
  const char *from = flight->buffer->region->base;
  for (size_t i = 0; i < flight->n && well; i++) {
    const struct banyan_call *call = flight->pieces[i].call;
    size_t bytes = bytes_of(call);
    if (bytes) memcpy(call->recv, from, bytes);
    owner->counts.copied += bytes;
    from += bytes;
  }
  give_buffer(owner, flight->buffer);
  flight->buffer = NULL;
}
