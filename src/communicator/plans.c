/* Which plan a communicator uses. */
#include <stdlib.h>
#include <string.h>

#include "context.h"

/* Host of each rank of the communicator, numbered in order of appearance. `hosts` has room for n + n_hosts numbers. */
static uint32_t number_hosts(const struct by_context *context, uint32_t n, const uint32_t *processes, uint32_t *hosts) {
  uint32_t next = 0, *number_plus_1 = hosts + n;
  memset(number_plus_1, 0, context->n_hosts * sizeof *number_plus_1);
  for (uint32_t r = 0; r < n; r++) {
    uint32_t *known = &number_plus_1[context->host_of[processes[r]]];
    if (!*known) *known = ++next;
    hosts[r] = *known - 1;
  }
  return next;
}

enum banyan_status by_plans_default(const struct by_context *context, uint32_t n, const uint32_t *processes,
                                    struct by_plan **out) {
  uint32_t *hosts = calloc((size_t)n + context->n_hosts, sizeof *hosts);
  if (!hosts) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  number_hosts(context, n, processes, hosts);
  enum banyan_status status = by_plan_default(n, hosts, context->crowded, out);
  free(hosts);
  return status;
}

/* A plan over hosts becomes one over ranks, if the job has so many hosts. */
static enum banyan_status fit(const struct by_context *context, uint32_t n, const uint32_t *processes,
                              struct by_plan *plan, struct by_plan **out) {
  if (plan->n_ranks == n) {
    *out = plan;
    return BANYAN_OK;
  }
  uint32_t *hosts = calloc((size_t)n + context->n_hosts, sizeof *hosts), n_hosts = 0;
  enum banyan_status status = BANYAN_OK;
  if (!hosts)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  else
    n_hosts = number_hosts(context, n, processes, hosts);
  if (status == BANYAN_OK && n_hosts != plan->n_ranks)
    status = by_fail(BANYAN_ERR_PLAN, "plan '%s' is for %u ranks; this communicator has %u ranks on %u host%s",
                     plan->name, plan->n_ranks, n, n_hosts, n_hosts == 1 ? "" : "s");
  if (status == BANYAN_OK) status = by_plan_expand(plan, hosts, n, out);
  by_plan_destroy(plan);
  free(hosts);
  return status;
}

enum banyan_status by_plans_named(const struct by_context *context, uint32_t n, const uint32_t *processes,
                                  const char *text, struct by_plan **out) {
  struct by_plan *plan = NULL;
  if (!text || !*text) return by_plans_default(context, n, processes, out);
  BY_TRY(by_plan_named(text, n, &plan));
  return fit(context, n, processes, plan, out);
}
