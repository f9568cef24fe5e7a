#include "check_plan.h"

#include "plan.h"

enum banyan_status by_check_plan(const char *plan, int ranks, bool here) {
  struct by_plan *read = NULL;
  if (!plan || !*plan) return BANYAN_OK;
  enum banyan_status status = by_plan_named(plan, (uint32_t)ranks, &read);
  by_plan_destroy(read);
  return status == BANYAN_ERR_SYSTEM && !here ? BANYAN_OK : status;
}
