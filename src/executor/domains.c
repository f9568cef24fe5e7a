/* Domains, as their users know them: see engine.h. */
#include "engine_parts.h"

enum banyan_status by_domain_create(struct by_engine *engine, uint32_t id, uint32_t rank, uint32_t n,
                                    const uint32_t *processes, struct by_domain **out) {
  return by_domain_make(&engine->recovery.runner, id, rank, n, processes, out);
}

struct by_domain *by_engine_domain(const struct by_engine *engine, uint32_t id) {
  return by_domain_of(&engine->recovery.runner, id);
}

void by_domain_destroy(struct by_domain *domain) {
  if (!domain) return;
  const struct by_transfer *transfer = &domain->runner->transfer;
  if (transfer->status == BANYAN_OK)
    for (uint32_t i = 0; i < transfer->active; i++) by_link_flush(transfer->ends[i]->link);
  by_calls_end(domain);
  by_due_forget(domain);
  by_programs_destroy(domain);
  by_helped_fini(domain);
  by_domain_free(domain);
}

/* A peer that is gone hears nothing any more. */
static bool owes_on(const struct by_link *link, const struct by_domain *domain) {
  if (!link->lane || link->lane->status != BANYAN_OK) return false;
  for (const struct by_in *in = link->notes; in; in = in->note_next)
    if (by_call_of(in->exchange)->domain == domain && by_call_of(in->exchange)->state == BY_CALL_ENDED) return true;
  return false;
}

bool by_domain_owes(const struct by_domain *domain) {
  for (uint32_t r = 0; r < domain->n; r++)
    if (owes_on(domain->runner->transfer.links[domain->vertices.processes[r]], domain)) return true;
  return false;
}

void by_domain_set_plan(struct by_domain *domain, struct by_plan *plan) {
  by_programs_retire(domain);
  by_domain_use_plan(domain, plan, false);
  by_helped_sweep(domain);
}

enum banyan_status by_domain_set_helped_plan(struct by_domain *domain, struct by_plan *plan, const uint32_t *helpers) {
  return by_helped_use(domain, plan, helpers);
}

const struct by_plan *by_domain_plan(const struct by_domain *domain) {
  return domain->plan;
}

const uint32_t *by_domain_helpers(const struct by_domain *domain) {
  const struct by_helped *helped = by_helped_current(domain);
  return helped ? helped->vertices.processes + domain->n : NULL;
}

uint32_t by_domain_next_call(const struct by_domain *domain) {
  return domain->next_call;
}

bool by_domain_is_running(const struct by_domain *domain, uint32_t before) {
  for (const struct by_call *call = domain->runner->running; call; call = call->next)
    if (call->domain == domain && !call->exchange.pair && (int32_t)(by_call_stamp(call)->call - before) < 0)
      return true;
  return false;
}

uint32_t by_domain_id(const struct by_domain *domain) {
  return domain->id;
}

uint32_t by_domain_rank(const struct by_domain *domain) {
  return domain->vertices.self;
}
