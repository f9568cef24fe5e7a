/* Checks of what callers give: kinds, counts and buffers. Pure, any thread. */
#ifndef BY_EXECUTOR_CHECK_CALL_H
#define BY_EXECUTOR_CHECK_CALL_H

#include "team.h"

BANYAN_CHECK enum banyan_status by_check_kinds(const struct by_team *team, const struct banyan_call *call);
/* Elements of the whole layout; SIZE_MAX if their bytes overflow. */
size_t by_check_total(const struct by_team *team, const struct banyan_call *call);
/* Of a call whose kinds were checked; `total`: by_check_total. */
BANYAN_CHECK enum banyan_status by_check_buffers(const struct by_team *team, const struct banyan_call *call,
                                                 size_t total);
static inline bool by_check_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  return (const char *)a < (const char *)b + b_bytes && (const char *)b < (const char *)a + a_bytes;
}

#endif
