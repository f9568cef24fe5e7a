#include "check_plan.h"

#include "plan.h"

enum banyan_status by_check_plan(const char *plan, int ranks, size_t hosts, bool here) {
  struct by_plan *read = NULL;
  if (!plan || !*plan) return BANYAN_OK;
  enum banyan_status status = by_plan_named(plan, (uint32_t)ranks, &read);
  bool fits =
      read && (hosts ? read->n_ranks == (uint32_t)ranks || read->n_ranks == hosts : read->n_ranks <= (uint32_t)ranks);
  if (status == BANYAN_OK && !fits)
    status = by_fail(BANYAN_ERR_PLAN,
                     "plan '%s' is for %u ranks; this job has %d: start as many ranks, or hosts, as it is for, or make "
                     "another plan",
                     read->name, read->n_ranks, ranks);
  by_plan_destroy(read);
  return status == BANYAN_ERR_SYSTEM && !here ? BANYAN_OK : status;
}
