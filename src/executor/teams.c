/* Domains, as their users know them: see engine.h. */
#include "engine_parts.h"

enum banyan_status by_team_create(struct by_engine *engine, uint32_t id, uint32_t rank, uint32_t n,
                                  const uint32_t *processes, struct by_team **out) {
  return by_team_make(&engine->recovery.runner, id, rank, n, processes, out);
}

struct by_team *by_engine_team(const struct by_engine *engine, uint32_t id) {
  return by_team_of(&engine->recovery.runner, id);
}

void by_team_destroy(struct by_team *team) {
  if (!team) return;
  const struct by_transfer *transfer = &team->runner->transfer;
  if (transfer->status == BANYAN_OK)
    for (uint32_t i = 0; i < transfer->active; i++) by_link_flush(transfer->ends[i]->link);
  by_calls_end(team);
  by_due_forget(team);
  by_programs_destroy(team);
  by_helped_fini(team);
  by_team_free(team);
}

/* A peer that is gone hears nothing any more. */
static bool owes_on(const struct by_link *link, const struct by_team *team) {
  if (!link->lane || link->lane->status != BANYAN_OK) return false;
  for (const struct by_in *in = link->notes; in; in = in->note_next)
    if (by_call_of(in->exchange)->team == team && by_call_of(in->exchange)->state == BY_CALL_ENDED) return true;
  return false;
}

bool by_team_owes(const struct by_team *team) {
  for (uint32_t r = 0; r < team->n; r++)
    if (owes_on(team->runner->transfer.links[team->vertices.processes[r]], team)) return true;
  return false;
}

void by_team_set_plan(struct by_team *team, struct by_plan *plan) {
  by_programs_retire(team);
  by_team_use_plan(team, plan, false);
  by_helped_sweep(team);
}

enum banyan_status by_team_set_helped_plan(struct by_team *team, struct by_plan *plan, const uint32_t *helpers) {
  return by_helped_use(team, plan, helpers);
}

const struct by_plan *by_team_plan(const struct by_team *team) {
  return team->plan;
}

const uint32_t *by_team_helpers(const struct by_team *team) {
  const struct by_helped *helped = by_helped_current(team);
  return helped ? helped->vertices.processes + team->n : NULL;
}

uint32_t by_team_next_call(const struct by_team *team) {
  return team->next_call;
}

bool by_team_is_running(const struct by_team *team, uint32_t before) {
  for (const struct by_call *call = team->runner->running; call; call = call->next)
    if (call->team == team && !call->exchange.pair && (int32_t)(by_call_descriptor(call)->call - before) < 0)
      return true;
  return false;
}

uint32_t by_team_id(const struct by_team *team) {
  return team->id;
}

uint32_t by_team_rank(const struct by_team *team) {
  return team->vertices.self;
}
