#include "grant.h"

enum banyan_status by_grant_check(const struct by_grant *grant, uint32_t cells, uint32_t groups) {
  if (grant->base > cells || grant->count > cells - grant->base)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u wants cells %u to %llu; there are %u", grant->job, grant->base,
                   (unsigned long long)grant->base + grant->count, cells);
  if (grant->dtype != BY_FRAGMENT_PAIRS && grant->dtype != BY_FRAGMENT_FLOAT32)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "switch: job %u wants cells of type %u; there are pairs of int32 and float32", grant->job,
                   grant->dtype);
  if (grant->place >= BY_FRAGMENT_HOPS)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u has %u switches between this one and the server; most are %d",
                   grant->job, grant->place, BY_FRAGMENT_HOPS - 1);
  if (grant->group >= groups)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u names group %u; groups are numbered 0 to %u", grant->job,
                   grant->group, groups - 1);
  return BANYAN_OK;
}
