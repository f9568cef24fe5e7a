#include "check_call.h"

#include "collective.h"
#include "reduce.h"

enum banyan_status by_check_kinds(const struct by_team *team, const struct banyan_call *call) {
  const char *name = banyan_collective_name(call->collective);
  if ((unsigned)call->collective >= BANYAN_COLLECTIVES)
    return by_fail(BANYAN_ERR_ARGUMENT, "there is no collective number %d", (int)call->collective);
  if (!banyan_dtype_size(call->dtype))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: there is no dtype number %d", name, (int)call->dtype);
  if (by_collective(call->collective)->adds && !by_kernel_reduce(call->dtype, call->op))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%s: %s is not defined for %s", name, banyan_op_name(call->op),
                   banyan_dtype_name(call->dtype));
  bool has_peer = by_collective(call->collective)->rooted || by_collective(call->collective)->pair;
  if (has_peer && (call->root < 0 || (uint32_t)call->root >= team->n))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: there is no rank %d among %u", name, call->root, team->n);
  if (by_collective(call->collective)->pair && (uint32_t)call->root == team->vertices.self)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: a rank cannot send to or receive from itself (rank %d)", name, call->root);
  if (call->counts && (!by_collective(call->collective)->blocks || call->collective == BANYAN_ALLTOALL))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s takes no counts", name);
  bool scaled = call->scale != 0 && call->scale != 1;
  if (scaled && (!by_collective(call->collective)->adds || call->dtype > BANYAN_BFLOAT16))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s of %s takes no scale: it is for sums of floating types", name,
                   banyan_dtype_name(call->dtype));
  return BANYAN_OK;
}

size_t by_check_total(const struct by_team *team, const struct banyan_call *call) {
  size_t most = (SIZE_MAX / 4) / banyan_dtype_size(call->dtype), total = 0;
  if (!by_collective(call->collective)->blocks) return call->count > most ? SIZE_MAX : call->count;
  for (uint32_t r = 0; r < team->n; r++) {
    size_t block = call->counts ? call->counts[r] : call->count;
    if (block > most - total) return SIZE_MAX;
    total += block;
  }
  return total;
}

/* Elements in one of the caller's buffers, of `total` in the whole layout. */
static size_t extent_count(const struct by_team *team, const struct banyan_call *call, uint8_t extent, size_t total) {
  switch ((enum by_extent)extent) {
  case BY_EXTENT_NOTHING: break;
  case BY_EXTENT_BLOCK: return call->counts ? call->counts[team->vertices.self] : call->count;
  case BY_EXTENT_ALL: return total;
  case BY_EXTENT_ALL_AT_ROOT: return (uint32_t)call->root == team->vertices.self ? total : 0;
  }
  return 0;
}

/* In place the two buffers are the same where terms are added, or one is this rank's block in the other. */
static enum banyan_status check_in_place(const struct by_team *team, const struct banyan_call *call) {
  const struct by_collective *kind = by_collective(call->collective);
  bool gathers = kind->send == BY_EXTENT_BLOCK, scatters = kind->adds && kind->recv == BY_EXTENT_BLOCK;
  size_t offset = 0;
  for (uint32_t r = 0; kind->blocks && r < team->vertices.self; r++)
    offset += call->counts ? call->counts[r] : call->count;
  const char *send = call->send, *recv = call->recv;
  offset *= banyan_dtype_size(call->dtype);
  if ((gathers && send == recv + offset) || (scatters && recv == send + offset) || (kind->adds && send == recv))
    return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "%s: the send buffer at %p and the receive buffer at %p overlap%s", kind->name,
                 call->send, call->recv,
                 gathers ? "; in place, the send buffer is this rank's block in the receive buffer"
                 : scatters
                     ? "; in place, the receive buffer is the start of the send buffer or this rank's block in it"
                 : kind->adds ? "; in place, both are the same"
                              : ", and it cannot be done in place");
}

enum banyan_status by_check_buffers(const struct by_team *team, const struct banyan_call *call, size_t total) {
  const struct by_collective *kind = by_collective(call->collective);
  if (total == SIZE_MAX) return by_fail(BANYAN_ERR_ARGUMENT, "%s: the count %zu is too large", kind->name, call->count);
  if (call->collective == BANYAN_BARRIER) return BANYAN_OK;
  size_t sends = extent_count(team, call, kind->send, total), receives = extent_count(team, call, kind->recv, total);
  if (sends && !call->send) return by_fail(BANYAN_ERR_ARGUMENT, "%s: the send buffer is NULL", kind->name);
  if (receives && !call->recv) return by_fail(BANYAN_ERR_ARGUMENT, "%s: the receive buffer is NULL", kind->name);
  size_t element = banyan_dtype_size(call->dtype);
  if (!sends || !receives || !by_check_overlap(call->send, sends * element, call->recv, receives * element))
    return BANYAN_OK;
  return check_in_place(team, call);
}
