/* Which plan a communicator uses. */
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "control.h"
#include "log.h"
#include "words.h"

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
    status = by_fail(BANYAN_ERR_PLAN,
                     "plan '%s' is for %u ranks; this communicator has %u ranks on %u host%s: start as many ranks, or "
                     "hosts, as it is for, or make another plan",
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

/* ---- helpers */

uint32_t by_plans_count_helpers(const struct by_context *context) {
  const char *text = context->settings.plan;
  struct by_plan *plan = NULL;
  uint32_t n = 0;
  if (!text || !*text || by_plan_named(text, context->size, &plan) != BANYAN_OK) return 0;
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++) n += plan->vertices[v].kind == BY_VERTEX_HELPER;
  by_plan_destroy(plan);
  return n;
}

/* Who stands where the plan has helpers: first those whose hosts have the vertices' names, then the others in turn. The
 * same on all ranks. Returns how many do. */
static uint32_t place_helpers(const struct by_context *context, const struct by_plan *plan, uint32_t *helpers,
                              bool *taken) {
  uint32_t n = plan->n_vertices - plan->n_ranks, placed = 0, next = context->size;
  for (uint32_t i = 0; i < n; i++) {
    helpers[i] = UINT32_MAX;
    for (uint32_t p = context->size; p < context->processes && helpers[i] == UINT32_MAX; p++)
      if (!taken[p] && !strcmp(context->members[p].host, plan->vertices[plan->n_ranks + i].name)) helpers[i] = p;
    if (helpers[i] == UINT32_MAX) continue;
    taken[helpers[i]] = true;
    placed++;
  }
  for (uint32_t i = 0; i < n; i++) {
    while (next < context->processes && taken[next]) next++;
    if (helpers[i] != UINT32_MAX || next >= context->processes) continue;
    taken[next] = true;
    helpers[i] = next;
    placed++;
  }
  return placed;
}

static void say_who_is_missing(const struct by_context *context, const struct by_plan *plan, const uint32_t *helpers) {
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices && context->rank == 0; v++)
    if (helpers[v - plan->n_ranks] == UINT32_MAX)
      by_warn("communicator", "helper \"%s\" of plan '%s' is not there: its trees go among ranks alone",
              plan->vertices[v].name, plan->name);
}

/* Rank 0 has all that helpers must know. */
static void tell_helpers(const struct by_context *context, const struct by_domain *domain, const uint32_t *processes,
                         const struct by_plan *plan, const uint32_t *helpers) {
  uint8_t *bytes;
  size_t length;
  if (by_plan_word_write(by_domain_id(domain), processes, helpers, plan, &bytes, &length) == BANYAN_OK)
    by_control_tell_plan(context->control, bytes, length);
  else
    by_error("communicator", "telling helpers failed: %s", banyan_error_text());
  free(bytes);
}

static enum banyan_status set_helped(struct by_context *context, struct by_domain *domain, uint32_t n,
                                     const uint32_t *processes, struct by_plan *plan, uint32_t *helpers, bool *taken) {
  uint32_t placed = n == context->size ? place_helpers(context, plan, helpers, taken) : 0;
  if (n == context->size) say_who_is_missing(context, plan, helpers);
  if (placed && context->rank == 0) tell_helpers(context, domain, processes, plan, helpers);
  if (placed) return by_domain_set_helped_plan(domain, plan, helpers);
  struct by_plan *among = NULL;
  enum banyan_status status = by_plan_among_ranks(plan, &among);
  by_plan_destroy(plan);
  if (status == BANYAN_OK) by_domain_set_plan(domain, among);
  return status;
}

enum banyan_status by_plans_set(struct by_context *context, struct by_domain *domain, uint32_t n,
                                const uint32_t *processes, struct by_plan *plan) {
  if (plan->n_vertices == plan->n_ranks) {
    by_domain_set_plan(domain, plan);
    return BANYAN_OK;
  }
  uint32_t *helpers = calloc(plan->n_vertices, sizeof *helpers);
  bool *taken = calloc(context->processes, sizeof *taken);
  enum banyan_status status = by_plan_check_kinds(plan);
  if (status == BANYAN_OK && (!helpers || !taken)) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  if (status == BANYAN_OK)
    status = set_helped(context, domain, n, processes, plan, helpers, taken);
  else
    by_plan_destroy(plan);
  free(helpers);
  free(taken);
  return status;
}
